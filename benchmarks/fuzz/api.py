"""Requests to the server of the review page, without the socket: the guard looks at them, and they are answered anyway.

An input is one request: method and address in the first line, headers, an empty line, the body.
"""

from __future__ import annotations

import asyncio
import io
import json
import random
import shutil
from collections.abc import Callable
from contextlib import redirect_stderr
from pathlib import Path
from typing import Any
from unittest import mock
from urllib.parse import quote, unquote

from bagwise import Run
from bagwise.app.review import server
from bagwise.app.review._errors import RequestError
from bagwise.app.review.guard import Guard
from bagwise.app.review.review import Review
from bagwise.core.exceptions import InputError
from benchmarks.fuzz.kinds import Kind, Ready
from benchmarks.fuzz.mutate import TOKENS, change_json
from benchmarks.fuzz.runs import make_run, review_of

PORT = 8000
PRINTED = "".join(map(chr, range(33, 127)))
FRESH = 100  # answered requests that may change something, after which the run is as it was
BASE = {
    "host": f"127.0.0.1:{PORT}", "x-bagwise": "1", "content-type": "application/json", "sec-fetch-site": "same-origin",
}  # fmt: skip


class _Open:
    """A guard that looks at a request and lets it in all the same; what it raises must be a refusal."""

    def __init__(self) -> None:
        self._guard = Guard("127.0.0.1", PORT)

    def admit(self, asked: Any) -> None:
        try:
            self._guard.admit(asked)
        except RequestError:
            return


class Client:
    """A review of a copy of a run, asked in this thread."""

    def __init__(self, made: Path, folder: Path):
        self._made, self._folder = made, folder
        self._loop = asyncio.new_event_loop()
        self._review: Review | None = None
        self._posted = 0

    def _open(self) -> None:
        self._let_go()
        shutil.rmtree(self._folder / "reviewed", ignore_errors=True)
        shutil.copytree(self._made, self._folder / "reviewed", copy_function=shutil.copy2)
        self._review = review_of(Run.open(self._folder / "reviewed"))
        self._app = server.make_app(self._review, _Open())
        self._posted = 0

    def _let_go(self) -> None:
        if self._review is not None:
            self._review._stop_writing()  # what an undo would have written seconds later
            self._review.run.close()

    def close(self) -> None:
        """Let go of the run."""
        self._let_go()
        self._loop.close()

    def ask(self, raw: bytes) -> None:
        """Send a request; a refusal is an error, and so is an answer that is none."""
        method, target, headers, body = parse_request(raw)
        if self._review is None or self._posted >= FRESH:
            self._open()
        self._posted += method == "POST"
        errors = io.StringIO()
        with redirect_stderr(errors), mock.patch.object(server, "run_in_threadpool", _here):
            status, content = self._loop.run_until_complete(self._send(method, target, headers, body))
        if status >= 500:
            raise AssertionError(f"status {status}: {content[:200]!r}\n{errors.getvalue()[-2000:]}")
        if status >= 400:
            is_plain = status == 416 or method == "HEAD" or target.partition("?")[0] == "/"
            raise InputError("" if is_plain else json.loads(content)["error"])

    async def _send(self, method: str, target: str, headers: dict[str, str], body: bytes) -> tuple[int, bytes]:
        path, _, query = target.partition("?")
        scope = {
            "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method, "scheme": "http",
            "path": unquote(path), "raw_path": path.encode("latin-1", "replace"), "root_path": "",
            "query_string": query.encode("latin-1", "replace"),
            "client": ("127.0.0.1", 1), "server": ("127.0.0.1", PORT),
            "headers": [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()],
        }  # fmt: skip
        sent: list[dict[str, Any]] = []
        pieces = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive() -> dict[str, Any]:
            return pieces.pop(0) if pieces else {"type": "http.disconnect"}

        async def send(message: dict[str, Any]) -> None:
            sent.append(message)

        await self._app(scope, receive, send)
        return sent[0]["status"], b"".join(message.get("body", b"") for message in sent)


async def _here(function: Callable[..., Any], *arguments: Any) -> Any:
    return function(*arguments)


def parse_request(raw: bytes) -> tuple[str, str, dict[str, str], bytes]:
    """Method, address, headers and body of an input, whatever is in it."""
    head, _, body = raw.partition(b"\n\n")
    first, *lines = head.decode("latin-1").split("\n")
    method, _, target = first.partition(" ")
    target = quote(target, safe=PRINTED)  # h11 refuses all but printable ASCII
    headers = dict(BASE)
    for line in lines:
        name, colon, value = line.partition(":")
        if colon and name.strip():
            headers[name.strip().lower()] = value.strip()
    return method or "GET", target or "/", headers, body


def requests(folder: Path) -> Ready:
    """A request to each address."""
    made = make_run(folder)
    with Run.open(made) as run:
        row = run.annotations()[0]
    bag, file, start, end = row["bag"], row["file"], row["start"], row["end"]
    key, span = f"bag={bag}&instance=0", f"file={file}&from={start}&to={end}"
    got = [
        "/", "/static/index.html", "/api/run", "/api/instances?order=useful&limit=5&offset=0&least=0.1&most=0.9",
        f"/api/instances?order=file&label={row['label']}&bag={bag}&file={file}&checked=no", "/api/instances?sample=1",
        f"/api/show?{key}&from=0&to=1", "/api/files?search=a&limit=5&offset=0", "/api/label-issues",
        "/api/novel-groups", "/api/refit",
        "/api/history", f"/media/spectrogram?{span}&width=60&height=40&low=100&high=5000",
        f"/media/clip?{span}&low=100&high=5000&slow=2", f"/media/thumb?{key}&size=40",
        f"/media/picture?file={file}", "/api/estimate?by=file", "/api/undo", "/media/export",
    ]  # fmt: skip
    one = {"bag": bag, "instance": 0, "label": "new"}
    posted: dict[str, Any] = {
        "corrections": {"corrections": [one, {"bag": bag, "label": row["label"], "action": "absent"}], "by": "me"},
        "undo": {}, "refit": {}, "refit/cancel": {}, "sample": {"label": None, "n": 2, "seed": 1},
        "export": {"confirmed_only": True}, "by": {"by": "me"}, "survey": {"n": 2, "seed": 1},
        "boxes": {"action": "split", "key": {"bag": bag, "instance": 0}, "at": (start + end) / 2},
    }  # fmt: skip
    seeds = [f"GET {target}\nrange: bytes=0-99\ncookie: a=b\n\n".encode() for target in got]
    seeds += [f"POST /api/{name}\n\n{json.dumps(body)}".encode() for name, body in posted.items()]
    client = Client(made, folder)
    return Ready(seeds, lambda path: client.ask(path.read_bytes()), client.close)


def change_request(raw: bytes, rng: random.Random) -> bytes:
    """A value of the body, or of a parameter of the address, is another."""
    head, empty, body = raw.partition(b"\n\n")
    if body:
        return head + empty + change_json(body, rng)
    first, newline, rest = head.partition(b"\n")
    address, _, query = first.partition(b"?")
    values = query.split(b"&")
    at = rng.randrange(len(values))
    name = values[at].partition(b"=")[0]
    values[at] = name + b"=" + rng.choice(VALUES)
    return address + b"?" + b"&".join(values) + newline + rest + empty


VALUES = [
    b"", b"0", b"-1", b"1", b"2", b"1e9", b"1e-9", b"1e300", b"nan", b"inf", b"4000", b"1000.01", b"9" * 17, b"%00",
    b"%ff", b"..%2f..%2fetc", b"%ed%a0%80", b"useful", b"label", b"time", b"yes", b"a" * 5000, b"+", b"%2b", b"0x10",
]  # fmt: skip
WORDS = [
    *TOKENS["json"], *VALUES, b"GET ", b"POST ", b"HEAD ", b"\nhost: x", b"\ncookie: bagwise_8000=", b"\norigin: null",
    b"\nrange: bytes=-1", b"\ncontent-length: -1", b"&", b"?", b"=", b"%", b"/../", b"\nauthorization: Basic !",
    b"?token=",
]  # fmt: skip
KINDS = [Kind("api", requests, (".request",), WORDS, change_request, names_file=False)]
