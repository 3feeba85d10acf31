"""Who is let in: token, cookie, Host and Origin, the page's own header, how large and how often."""

from __future__ import annotations

import base64
import binascii
import hmac
import ipaddress
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import parse_qs

from bagwise.review.errors import ForbiddenError, RequestError, TooLargeError, TooOftenError

HEADER = "x-bagwise"
LARGEST_BODY = 2**20
RATE = 200  # requests a second of a client, and as many at once
GUESSES = 10  # wrong tokens or passwords a minute of an address
MOST_SESSIONS, MOST_CLIENTS = 200, 1000
THIS_MACHINE = ("127.0.0.1", "localhost", "::1")
EVERYWHERE = ("0.0.0.0", "::")
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; media-src 'self' blob:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "x-frame-options": "DENY",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
NOT_OPEN = "Open the address that bagwise review printed; it lets you in."


class PasswordNeededError(ForbiddenError):
    """The token was right and the password is missing."""

    status = 401


@dataclass(frozen=True)
class Asked:
    """What the guard looks at in a request; names of headers in lower case."""

    method: str
    path: str
    query: str
    headers: Mapping[str, str]
    client: str


class Guard:
    """Decides over each request before anybody else sees it.

    Parameters
    ----------
    host : str
        The address on which the server listens.
    port : int
    password : str or None
        Asked for beside the token; needed where the server listens to other machines.
    """

    def __init__(self, host: str, port: int, password: str | None = None):
        self.host = host
        self.port = port
        self.password = password
        self.token = secrets.token_urlsafe(32)
        self.cookie = f"bagwise_{port}"
        self._sessions: OrderedDict[str, None] = OrderedDict()
        self._rates = Rates(RATE, RATE)
        self._guesses = Rates(GUESSES, GUESSES / 60)
        self._lock = threading.Lock()

    @property
    def address(self) -> str:
        """Where the page is, with the token."""
        host = "127.0.0.1" if self.host in (*THIS_MACHINE[:2], *EVERYWHERE) else self.host
        return f"http://{f'[{host}]' if ':' in host else host}:{self.port}/?token={self.token}"

    def admit(self, asked: Asked) -> str | None:
        """Let a request in, or raise why not; gives the cookie to set where a token was exchanged for one."""
        self._check_host(asked)
        session = self._session(asked)
        if not self._rates.allows(session or asked.client):
            raise TooOftenError(f"More than {RATE} requests came within a second; wait a moment and go on.")
        token = parse_qs(asked.query).get("token") if asked.path == "/" and asked.method == "GET" else None
        if token:
            return self._exchange(token[0], asked)
        if asked.headers.get("sec-fetch-site", "none") not in ("same-origin", "none"):
            raise ForbiddenError("The request came from another page; it is not answered.")
        if session is None:
            raise ForbiddenError(NOT_OPEN)
        if asked.method == "POST":
            self._check_post(asked)
        elif asked.method not in ("GET", "HEAD"):
            raise RequestError(f"{asked.method[:10]} is not answered; use GET or POST.")
        return None

    def _check_host(self, asked: Asked) -> None:
        """Another name for this machine is how pages elsewhere reach servers at home (DNS rebinding)."""
        host = asked.headers.get("host", "")
        if not self._is_own(host):
            raise ForbiddenError(f"The request asks for the host {host[:80]!r}, which this server is not.")
        origin = asked.headers.get("origin")
        if origin is not None and origin != f"http://{host}":
            raise ForbiddenError("The request came from another page; it is not answered.")

    def _is_own(self, host: str) -> bool:
        name, colon, port = host.lower().rpartition(":")
        if not colon or port != str(self.port):
            return False
        if name in ("127.0.0.1", "localhost", "[::1]") or name.strip("[]") == self.host.lower():
            return True
        if self.host not in EVERYWHERE:
            return False
        try:  # a number cannot be rebound
            ipaddress.ip_address(name.strip("[]"))
        except ValueError:
            return False
        return True

    def _session(self, asked: Asked) -> str | None:
        for part in asked.headers.get("cookie", "").split(";"):
            name, _, value = part.strip().partition("=")
            if name == self.cookie:
                with self._lock:
                    if value in self._sessions:
                        self._sessions.move_to_end(value)
                        return value
        return None

    def _exchange(self, token: str, asked: Asked) -> str:
        right = hmac.compare_digest(token.encode(), self.token.encode())
        if right and self.password is not None:
            given = _password(asked.headers.get("authorization", ""))
            if given is None:
                raise PasswordNeededError("Give the password that was chosen for this review.")
            right = hmac.compare_digest(given.encode(), self.password.encode())
        if not right:
            if not self._guesses.allows(asked.client):
                raise TooOftenError("Too many wrong attempts; wait a minute.")
            raise ForbiddenError(NOT_OPEN)
        session = secrets.token_urlsafe(32)
        with self._lock:
            self._sessions[session] = None
            while len(self._sessions) > MOST_SESSIONS:
                self._sessions.popitem(last=False)
        return f"{self.cookie}={session}; HttpOnly; SameSite=Strict; Path=/"

    def _check_post(self, asked: Asked) -> None:
        if asked.headers.get(HEADER) != "1":
            raise ForbiddenError("The header X-Bagwise is missing; only the page itself may change anything.")
        kind = asked.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/json":
            raise RequestError(f"The content is {kind[:40]!r}; send application/json.")
        length = asked.headers.get("content-length", "0")
        if not length.isdigit() or int(length[:12]) > LARGEST_BODY:
            raise too_large()


def too_large() -> TooLargeError:
    return TooLargeError(f"A request may hold at most {LARGEST_BODY} bytes; say it in several.")


def _password(authorization: str) -> str | None:
    """The password of HTTP's basic authentication; the name before it does not matter."""
    kind, _, coded = authorization.partition(" ")
    if kind.lower() != "basic":
        return None
    try:
        return base64.b64decode(coded, validate=True).decode("utf-8").partition(":")[2]
    except (binascii.Error, UnicodeDecodeError):
        return ""


class Rates:
    """A bucket for each client that fills steadily and that each request takes a drop from."""

    def __init__(self, size: float, per_second: float):
        self._size, self._per_second = size, per_second
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()
        self._lock = threading.Lock()

    def allows(self, client: str) -> bool:
        with self._lock:
            now = time.monotonic()
            level, then = self._buckets.pop(client, (self._size, now))
            level = min(self._size, level + (now - then) * self._per_second)
            allowed = level >= 1
            self._buckets[client] = (level - 1 if allowed else level, now)
            while len(self._buckets) > MOST_CLIENTS:
                self._buckets.popitem(last=False)
            return allowed
