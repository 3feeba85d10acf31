"""Who is let in: token, cookie and key, Host and Origin, the page's own header, how large and how often.

Browsers send a cookie to every port of a machine, so any other server there gets to know it. A page therefore has a key
too, which its address bears after the "#" and which it keeps for its own origin; without the key the cookie of a page
opens nothing but the page's files, which are those of every bagwise.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import ipaddress
import secrets
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import parse_qs

from bagwise.app.review._errors import ForbiddenError, RequestError, TooLargeError, TooOftenError

HEADER, KEY_HEADER = "x-bagwise", "x-bagwise-key"
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
NOT_OPEN = "Open the address that bagwise printed; it lets you in."
OPENED = "This address was opened before, and it lets in once; open the new one that bagwise printed."
NO_KEY = "This window is not the one that was let in; open the new address that bagwise printed."


class PasswordNeededError(ForbiddenError):
    """The token was right and the password is missing."""

    status = 401


@dataclass(frozen=True)
class RequestHead:
    """What the guard looks at in a request; names of headers in lower case."""

    method: str
    path: str
    query: str
    headers: Mapping[str, str]
    client: str


@dataclass(frozen=True)
class Entry:
    """Where a request that brought a token is sent on to, and with which cookie."""

    location: str
    cookie: str | None = None


@dataclass(frozen=True)
class _Session:
    """Somebody who was let in; `key` is what a page must show, "" for a program, whose cookies go nowhere else."""

    cookie: str
    key: str


class Guard:
    """Decides over each request before anybody else sees it.

    A token lets in once: after that it is worth nothing to those who find it in a history or a list of processes. Who
    opens its address again in the same browser is in already; for others a new address is printed. Where a password is
    asked for too, the token lets in as often as it comes with it: the address is meant for several people then.

    Parameters
    ----------
    host : str
        The address on which the server listens.
    port : int
    password : str or None
        Needed besides the token, and required where the server listens to other machines.
    """

    def __init__(self, host: str, port: int, password: str | None = None):
        self.host = host
        self.port = port
        self.password = password
        self.token = secrets.token_urlsafe(32)
        self.cookie = f"bagwise_{port}"
        self._spent: set[str] = set()
        self._sessions: OrderedDict[str, _Session] = OrderedDict()
        self._rates = Rates(RATE, RATE)
        self._guesses = Rates(GUESSES, GUESSES / 60)
        self._lock = threading.Lock()

    @property
    def address(self) -> str:
        """Where the page is, with the token."""
        host = "127.0.0.1" if self.host in (*THIS_MACHINE[:2], *EVERYWHERE) else self.host
        return f"http://{f'[{host}]' if ':' in host else host}:{self.port}/?token={self.token}"

    def admit(self, head: RequestHead) -> Entry | None:
        """Let a request in, or raise why not; gives the way on where a token was exchanged."""
        self._check_host(head)
        session = self._session(head)
        if not self._rates.allows(head.client if session is None else session.cookie):
            raise TooOftenError(f"More than {RATE} requests came within a second; wait a moment and go on.")
        token = parse_qs(head.query).get("token") if head.path == "/" and head.method == "GET" else None
        if token:
            return self._exchange(token[0], session, head)
        if head.headers.get("sec-fetch-site", "none") not in ("same-origin", "none"):
            raise ForbiddenError("The request came from another page; it is not answered.")
        if session is None:
            raise ForbiddenError(NOT_OPEN)
        self._check_key(session, head)
        if head.method == "POST":
            self._check_post(head)
        elif head.method not in ("GET", "HEAD"):
            raise RequestError(f"{head.method[:10]} is not answered; use GET or POST.")
        return None

    def _check_host(self, head: RequestHead) -> None:
        """Another name for this machine is how pages elsewhere reach servers at home (DNS rebinding)."""
        host = head.headers.get("host", "")
        if not self._is_own(host):
            raise ForbiddenError(f"The request asks for the host {host[:80]!r}, which this server is not.")
        origin = head.headers.get("origin")
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

    def _session(self, head: RequestHead) -> _Session | None:
        for part in head.headers.get("cookie", "").split(";"):
            name, _, value = part.strip().partition("=")
            if name == self.cookie:
                with self._lock:
                    if value in self._sessions:
                        self._sessions.move_to_end(value)
                        return self._sessions[value]
        return None

    def _check_key(self, session: _Session, head: RequestHead) -> None:
        if not session.key or head.path == "/" or head.path.startswith("/static/"):
            return
        given = head.headers.get(KEY_HEADER, "")
        if not given and head.path.startswith("/media/"):  # pictures and sounds are asked for without headers
            given = parse_qs(head.query).get("key", [""])[0]
        if not hmac.compare_digest(given.encode(), session.key.encode()):
            self._offer()
            raise ForbiddenError(NO_KEY)

    def _exchange(self, token: str, session: _Session | None, head: RequestHead) -> Entry:
        if token in self._spent:
            if session is not None:
                return Entry("/")
            self._offer()
            raise ForbiddenError(OPENED)
        right = hmac.compare_digest(token.encode(), self.token.encode())
        if right and self.password is not None:
            given = password_of(head.headers.get("authorization", ""))
            if given is None:
                raise PasswordNeededError("Give the password that was chosen for this review.")
            right = hmac.compare_digest(given.encode(), self.password.encode())
        if not right:
            if not self._guesses.allows(head.client):
                raise TooOftenError("Too many wrong attempts; wait a minute.")
            raise ForbiddenError(NOT_OPEN)
        if self.password is None:
            self._spent.add(token)
        # browsers, and they alone, ask for a page
        return self._let_in("text/html" in head.headers.get("accept", ""))

    def _let_in(self, has_page: bool) -> Entry:
        session = _Session(secrets.token_urlsafe(32), secrets.token_urlsafe(32) if has_page else "")
        with self._lock:
            self._sessions[session.cookie] = session
            while len(self._sessions) > MOST_SESSIONS:
                self._sessions.popitem(last=False)
        location = f"/#key={session.key}" if has_page else "/"
        return Entry(location, f"{self.cookie}={session.cookie}; HttpOnly; SameSite=Strict; Path=/")

    def _offer(self) -> None:
        """Print a new address for somebody who comes late, unless one waits to be opened."""
        if self.token in self._spent:
            self.token = secrets.token_urlsafe(32)
            print(
                f"Somebody came who could not be let in, since an address lets in once. If it was you, open this one: "
                f"{self.address}",
                file=sys.stderr,
                flush=True,
            )

    def _check_post(self, head: RequestHead) -> None:
        if head.headers.get(HEADER) != "1":
            raise ForbiddenError("The header X-Bagwise is missing; only the page itself may change anything.")
        kind = head.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/json":
            raise RequestError(f"The content is {kind[:40]!r}; send application/json.")
        length = head.headers.get("content-length", "0")
        if not length.isdigit() or int(length[:12]) > LARGEST_BODY:
            raise too_large()


def too_large(most: int = LARGEST_BODY) -> TooLargeError:
    return TooLargeError(f"A request may hold at most {most} bytes; say it in several.")


def password_of(authorization: str) -> str | None:
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
