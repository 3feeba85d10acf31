"""The server of the review page: starlette's requests and answers, uvicorn's loop, start and end."""

from __future__ import annotations

import json
import re
import signal
import socket
import sys
import threading
import traceback
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from bagwise.app.review import _api as api
from bagwise.app.review._errors import MissingError, RequestError
from bagwise.app.review.guard import HEADERS, LARGEST_BODY, Entry, Guard, PasswordNeededError, RequestHead, too_large
from bagwise.app.review.review import Review
from bagwise.core.exceptions import BagwiseError, InputError, in_words

try:
    import uvicorn
    from starlette.concurrency import run_in_threadpool
    from starlette.exceptions import HTTPException
    from starlette.requests import ClientDisconnect, Request
    from starlette.responses import Response
    from starlette.routing import Route, Router

    from bagwise.app.review._deadlines import ARRIVAL, READING, DeadlineProtocol
except ImportError as error:
    raise ImportError(
        f"The review page needs starlette and uvicorn, and {error}; pip install 'bagwise[review]'."
    ) from error

STATIC = Path(__file__).parent / "static"
KINDS = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".ico": "image/x-icon",
}
RANGE = re.compile(r"bytes=\s*([0-9]{0,17})-([0-9]{0,17})\s*")
KEPT = "private, max-age=600"  # media: the same address gives the same picture

Scope = dict[str, Any]
Plain = Callable[[Mapping[str, Any]], dict[str, Any]]
Endpoint = Callable[[Request], Awaitable[Response]]


# ---------------------------------------------------------------------------------------------------------------------
# Answers


def answer(value: Any, status: int = 200) -> Response:
    """JSON: the page makes text of it and never markup."""
    content = json.dumps(value, allow_nan=False, separators=(",", ":")).encode()
    return Response(content, status, {"cache-control": "no-store"}, "application/json")


def _refuse(error: BaseException) -> Response:
    """Why there is no answer, in words; what nobody expected is printed on the terminal, not sent to the browser."""
    if isinstance(error, RequestError):
        response = answer({"error": str(error)}, error.status)
        if isinstance(error, PasswordNeededError):
            response.headers["www-authenticate"] = 'Basic realm="bagwise review", charset="UTF-8"'
        return response
    if isinstance(error, (BagwiseError, ImportError, OSError)):
        return answer({"error": in_words(error)}, 400)
    traceback.print_exception(error)
    words = f"Something is wrong in bagwise itself ({type(error).__name__}); the terminal shows what. Nothing was lost."
    return answer({"error": words}, 500)


def _blob(content: api.Blob, wanted: str | None) -> Response:
    """Bytes, or the part of them that was asked for."""
    headers = {"cache-control": KEPT, "accept-ranges": "bytes"}
    size = len(content.content)
    part = _parse_range(wanted, size)
    if part is None:
        return Response(content.content, 200, headers, content.media_type)
    first, last = part
    if first > last:
        return Response(b"", 416, headers | {"content-range": f"bytes */{size}"}, content.media_type)
    headers["content-range"] = f"bytes {first}-{last}/{size}"
    return Response(content.content[first : last + 1], 206, headers, content.media_type)


def _parse_range(wanted: str | None, size: int) -> tuple[int, int] | None:
    """First and last byte of a header such as ``bytes=0-99``; None for all, an empty part where there is none."""
    match = RANGE.fullmatch(wanted or "")
    if match is None:
        return None
    first, last = match.groups()
    if not first:
        return (max(0, size - int(last)), size - 1) if int(last or 0) else (1, 0)
    if int(first) >= size:
        return 1, 0
    return int(first), min(int(last), size - 1) if last else size - 1


# ---------------------------------------------------------------------------------------------------------------------
# The application


def make_app(review: Review, guard: Guard) -> _Guarded:
    """The application: the guard, then the addresses."""
    return _Guarded(make_router(review), guard)


def make_router(review: Review) -> Router:
    """The addresses of a review."""
    return Router(
        [
            *_pages("index.html"),
            *(Route(path, _getter(review, handler), methods=["GET"]) for path, handler in api.GET.items()),
            *(Route(path, _poster(review, handler), methods=["POST"]) for path, handler in api.POST.items()),
        ]
    )


def _pages(first: str) -> list[Route]:
    async def page(request: Request) -> Response:
        return _file(first)

    return [Route("/", page, methods=["GET"]), Route("/static/{name}", _static, methods=["GET"])]


def _getter(review: Review, handler: Callable[[Review, api.Query], Any]) -> Endpoint:
    async def endpoint(request: Request) -> Response:
        query = api.Query(dict(request.query_params))
        value = await run_in_threadpool(handler, review, query)
        if isinstance(value, api.Blob):
            return _blob(value, request.headers.get("range"))
        return await run_in_threadpool(answer, value)

    return endpoint


def make_plain_app(
    addresses: Mapping[str, Mapping[str, Plain]], guard: _Admits, largest: int = LARGEST_BODY, page: str | None = None
) -> _Guarded:
    """The guard, then addresses by method, each answered by a function of the JSON object that comes, if any does.

    With a `page` its files are there too.
    """
    routes = [] if page is None else _pages(page)
    routes += [
        Route(path, _plain(handler, largest), methods=[method])
        for method, handlers in addresses.items()
        for path, handler in handlers.items()
    ]
    return _Guarded(Router(routes), guard)


def _plain(handler: Plain, largest: int) -> Endpoint:
    async def endpoint(request: Request) -> Response:
        body = await _body(request, largest)
        return answer(await run_in_threadpool(lambda: handler(api.parse_body(body))))

    return endpoint


async def _body(request: Request, largest: int = LARGEST_BODY) -> bytes:
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > largest:
            raise too_large(largest)
    return bytes(body) or b"{}"


def _poster(review: Review, handler: Callable[[Review, dict[str, Any]], Any]) -> Endpoint:
    async def endpoint(request: Request) -> Response:
        value = await run_in_threadpool(handler, review, api.parse_body(await _body(request)))
        return answer(value, 202 if request.url.path == "/api/refit" else 200)

    return endpoint


async def _static(request: Request) -> Response:
    return _file(request.path_params["name"])


def _file(name: str) -> Response:
    """A file of the page; names are looked up in the list of what is there."""
    found = {path.name: path for path in STATIC.iterdir() if path.suffix in KINDS}
    if name not in found:
        raise MissingError(f"The page has no file {name[:80]!r}.")
    path = found[name]
    return Response(path.read_bytes(), 200, {"cache-control": "no-cache"}, KINDS[path.suffix])


class _Admits(Protocol):
    """Decides over each request before anybody else sees it."""

    def admit(self, head: RequestHead) -> Entry | None:
        """Let a request in, or raise why not; gives the way on where there is another."""


class _Guarded:
    """Lets the guard see each request first, puts the headers that protect on each answer, and answers what fails."""

    def __init__(self, app: Any, guard: _Admits):
        self.app = app
        self.guard = guard

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return

        began = False

        async def protected(message: dict[str, Any]) -> None:
            nonlocal began
            if message["type"] == "http.response.start":
                began = True
                own = {name.encode(): value.encode() for name, value in HEADERS.items()}
                message["headers"] = [*message["headers"], *own.items()]
            await send(message)

        try:
            entry = self.guard.admit(_head_of(scope))
            response: Any = self.app if entry is None else _way_on(entry)
            await response(
                {**scope, "app": self}, receive, protected
            )  # where there is an app, the router raises errors
        except ClientDisconnect:
            return
        except Exception as error:
            if began:
                raise
            await _refusal(scope, error)(scope, receive, protected)


def _way_on(entry: Entry) -> Response:
    headers = {"location": entry.location, "cache-control": "no-store"}
    if entry.cookie is not None:
        headers["set-cookie"] = entry.cookie
    return Response(b"", 303, headers)


def _refusal(scope: Scope, error: Exception) -> Response:
    """The refusal; where a person would see it, as plain text."""
    path = scope["path"][:80]
    if isinstance(error, HTTPException):
        is_there = error.status_code == 405
        words = f"{path} is not answered to {scope['method']}." if is_there else f"There is nothing at {path!r}."
        return answer({"error": words}, error.status_code)
    response = _refuse(error)
    if path == "/" and isinstance(error, RequestError):
        headers = {name: value for name, value in response.headers.items() if name == "www-authenticate"}
        return Response(f"{error}\n", error.status, headers, "text/plain; charset=utf-8")
    return response


def _head_of(scope: Scope) -> RequestHead:
    """What the guard looks at; a header that comes twice is joined, so that no second one slips by."""
    headers: dict[str, str] = {}
    for name, value in scope["headers"]:
        key = name.decode("latin-1").lower()
        text = value.decode("latin-1")
        headers[key] = f"{headers[key]}{';' if key == 'cookie' else ','}{text}" if key in headers else text
    client = scope["client"][0] if scope.get("client") else ""
    return RequestHead(scope["method"], scope["path"], scope["query_string"].decode("latin-1"), headers, client)


# ---------------------------------------------------------------------------------------------------------------------
# Start and end


def bind(host: str, port: int) -> socket.socket:
    """A socket that listens; connections wait in it until the server is there."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # named TCP, since asyncio sends at once (TCP_NODELAY) on such sockets only; else an answer waits for 40 ms
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        if sys.platform != "win32":
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(256)
    except (OSError, OverflowError) as error:
        listener.close()
        raise InputError(
            f"The port {port} of {host} cannot be used ({getattr(error, 'strerror', None) or error}); another program "
            "may have it. Choose another with --port, or leave --port out."
        ) from error
    return listener


class _Server(uvicorn.Server):
    """Says when it answers, which is after it has learned to end quietly on the signals that ask it to."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self.ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=sockets)
        self.ready()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        kinds = [signal.SIGINT, signal.SIGTERM]
        before = {kind: signal.signal(kind, self.handle_exit) for kind in kinds}
        try:
            yield
        finally:
            for kind, handler in before.items():
                signal.signal(kind, handler)


def make_server(app: Any, ready: Callable[[], None], arrival: float = ARRIVAL, reading: float = READING) -> _Server:
    """A server of an application; ``run(sockets=[listener])`` answers until a signal or its `should_exit` asks to end.

    Parameters
    ----------
    app : application
    ready : called when requests are answered
    arrival, reading : float
        Deadlines in seconds, see `DeadlineProtocol`.
    """
    config = uvicorn.Config(
        app,
        http=partial(DeadlineProtocol, arrival=arrival, reading=reading),
        ws="none",
        lifespan="off",
        log_level="error",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=3,
        timeout_keep_alive=30,
        h11_max_incomplete_event_size=65536,
    )
    return _Server(config, ready)
