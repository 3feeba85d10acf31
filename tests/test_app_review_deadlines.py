"""Connections on which nobody goes on are ended; those on which somebody does are not. On raw sockets."""

import socket
import threading
import time
from contextlib import closing, contextmanager, suppress

import pytest

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")

from bagwise.app.review.server import bind, make_server

HANG = 60.0  # seconds after which a test takes it that a connection never ends
HEAD = b"POST /small HTTP/1.1\r\nHost: x\r\n"
LARGE = 64 * 2**20  # more than the buffers of a connection hold
SMALL_REQUEST = b"GET /small HTTP/1.1\r\nHost: x\r\n\r\n"


async def app(scope, receive, send):
    """Answers without a look at the body, as a refusal does; or, to a path of its own, after the whole of it."""
    if scope["path"] == "/read":
        while (message := await receive())["type"] == "http.request" and message["more_body"]:
            pass
        if message["type"] == "http.disconnect":
            return
    content = b" " * (LARGE if scope["path"] == "/large" else 2)
    headers = [(b"content-length", str(len(content)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": content})


@contextmanager
def listening(**deadlines):
    """The address of a server with deadlines, and the server."""
    ready = threading.Event()
    listener = bind("127.0.0.1", 0)
    server = make_server(app, ready.set, **deadlines)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        assert ready.wait(HANG)
        yield listener.getsockname(), server
    finally:
        server.should_exit = True
        thread.join(HANG)
        listener.close()


def connect(address):
    connection = socket.create_connection(address)
    connection.settimeout(HANG)
    return closing(connection)


def read_to_the_end(connection):
    """What comes until the server ends the connection."""
    content = b""
    try:
        while piece := connection.recv(2**16):
            content += piece
    except ConnectionResetError:
        pass
    return content


@pytest.mark.parametrize(
    ("sent", "answers"),
    [
        (b"", 0), (b"GET / HT", 0), (b"GET / HTTP/1.1\r\nHost: x\r\n", 0),
        (HEAD.replace(b"small", b"read") + b"Content-Length: 10\r\n\r\n1234", 0),
        (HEAD + b"Content-Length: 10\r\n\r\n1234", 1), (HEAD + b"Transfer-Encoding: chunked\r\n\r\n4\r\n1234\r\n", 1),
        (SMALL_REQUEST + b"GET / HT", 1), (SMALL_REQUEST + HEAD + b"Content-Length: 10\r\n\r\n1234", 2),
    ],
)  # fmt: skip
def test_a_request_that_does_not_arrive_is_given_up(sent, answers):
    with listening(arrival=0.3) as (address, _), connect(address) as connection:
        connection.sendall(sent)
        assert read_to_the_end(connection).count(b"HTTP/1.1 200") == answers


def test_a_request_that_drips_is_given_up():
    """A byte now and then is no reason to go on waiting."""
    with listening(arrival=0.3) as (address, _), connect(address) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nx: ")
        until = time.monotonic() + HANG
        with suppress(OSError):
            while time.monotonic() < until:
                connection.sendall(b"x")
                time.sleep(0.05)
        assert time.monotonic() < until


def test_many_slow_connections_leave_room():
    with listening(arrival=0.3) as (address, _):
        slow = [socket.create_connection(address) for _ in range(100)]
        for connection in slow:
            connection.sendall(b"GET /")
        for connection in slow:
            connection.settimeout(HANG)
            assert read_to_the_end(connection) == b""
            connection.close()
        with connect(address) as connection:
            connection.sendall(SMALL_REQUEST)
            assert connection.recv(2**16).startswith(b"HTTP/1.1 200")


def test_an_answer_that_is_not_read_is_given_up():
    with listening(reading=0.3) as (address, server), connect(address) as connection:
        connection.sendall(b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n")
        until = time.monotonic() + HANG
        while not server.server_state.connections:
            assert time.monotonic() < until
        while server.server_state.connections:
            assert time.monotonic() < until, "the server keeps the connection and what was not read"
            time.sleep(0.05)
        assert len(read_to_the_end(connection)) < LARGE


def test_who_goes_on_is_answered():
    """One connection, many requests, longer in all than the deadline of one; and an answer that is read slowly."""
    with listening(arrival=2.0, reading=2.0) as (address, _), connect(address) as connection:
        for _ in range(8):
            connection.sendall(HEAD + b"Content-Length: 2\r\n\r\n")
            connection.sendall(b"{}")
            read_answer(connection)
            time.sleep(0.3)
        connection.sendall(b"GET /large HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        n_read = 0
        while piece := connection.recv(2**22):
            n_read += len(piece)
            time.sleep(0.05)
        assert n_read > LARGE


def read_answer(connection):
    answer = b""
    while not answer.endswith(b"\r\n\r\n  "):
        answer += (piece := connection.recv(100))
        assert piece, "the server ended the connection"
