"""HTTP as uvicorn speaks it, with an end for connections that nobody goes on with."""

from __future__ import annotations

import asyncio
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

ARRIVAL = 15.0  # seconds for a request to be there, with its body
READING = 60.0  # seconds in which something of an answer is read


class DeadlineProtocol(H11Protocol):
    """A connection that ends when a request does not arrive in time, or when its answer is not read.

    uvicorn itself ends connections that are idle after an answer; it waits forever for the rest of a head or a body,
    and for the reader of an answer.

    Parameters
    ----------
    arrival : float
        Seconds from a connection, or from the first byte of a later request on it, to the last byte of the request.
    reading : float
        Seconds after which an answer of which nothing more was read is given up.
    """

    timeout_keep_alive_task: asyncio.TimerHandle | None  # uvicorn's, of connections that are idle

    def __init__(self, *arguments: Any, arrival: float = ARRIVAL, reading: float = READING, **named: Any):
        super().__init__(*arguments, **named)
        self._arrival, self._reading = arrival, reading
        self._arriving: asyncio.TimerHandle | None = None
        self._draining: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:
        super().connection_made(transport)
        self._watch_arrival()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch_arrival()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._watch_arrival()
        if self._draining is None:
            self._watch_reading(None)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        for timer in (self._arriving, self._draining):
            if timer is not None:
                timer.cancel()

    def _watch_arrival(self) -> None:
        if not self._is_arriving():
            if self._arriving is not None:
                self._arriving.cancel()
            self._arriving = None
            self._watch_idleness()
        elif self._arriving is None:
            self._arriving = self.loop.call_later(self._arrival, self.transport.abort)

    def _is_arriving(self) -> bool:
        """Whether a request has begun and is not there in whole; the first begins with the connection."""
        has_begun = self.cycle is None or bool(self.conn.trailing_data[0])
        return self.conn.their_state is h11.SEND_BODY or (self.conn.their_state is h11.IDLE and has_begun)

    def _watch_idleness(self) -> None:
        """Set uvicorn's deadline for idle connections, which it forgets where a body came after its answer."""
        if self.conn.their_state is h11.IDLE and self.timeout_keep_alive_task is None:
            self.timeout_keep_alive_task = self.loop.call_later(
                self.timeout_keep_alive, self.timeout_keep_alive_handler
            )

    def _watch_reading(self, before: int | None) -> None:
        """Look again and again at how much of what was answered is not read yet."""
        left = self.transport.get_write_buffer_size()
        self._draining = None
        if left and left == before:
            self.transport.abort()
        elif left:
            self._draining = self.loop.call_later(self._reading, self._watch_reading, left)
