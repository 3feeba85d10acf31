"""Who the review page lets in: one test for each thing that somebody else could try."""

import asyncio
import base64
import json
import os
import re
import socket
import struct
import subprocess
import sys
from contextlib import suppress
from types import SimpleNamespace

import pytest

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")

from benchmarks.review_load import serving

from bagwise import Run, write_dataset
from bagwise.app.review import _api as api
from bagwise.app.review._errors import ForbiddenError, TooOftenError
from bagwise.app.review.guard import GUESSES, LARGEST_BODY, RATE, Entry, Guard, PasswordNeededError, RequestHead
from bagwise.app.review.server import make_app
from bagwise.datasets import make_gaussian_bags

SOUND = b"RIFF" + struct.pack("<I", 36 + 32000) + b"WAVEfmt " + struct.pack("<IHHIIHH", 16, 1, 1, 16000, 32000, 2, 16)
SOUND += b"data" + struct.pack("<I", 32000) + os.urandom(32000)
EVIL = '<img src=x onerror="alert(1)">'


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """A server over a table whose labels and bags are markup."""
    folder = tmp_path_factory.mktemp("guarded")
    data = make_gaussian_bags(n_bags=40, n_classes=3, random_state=0)
    data = type(data)(data.bags, data.Y, [EVIL, "b", "c"], bag_names=[f"<b>{i}</b>" for i in range(40)])
    write_dataset(data, folder / "made.csv")
    with Run.create(folder / "made.csv", folder / "run", page=False):
        pass
    with serving(folder / "run") as server:
        yield server


@pytest.fixture
def client(served):
    return served.client()


def ask(client, method="GET", path="/api/run", body=None, **headers):
    """Status and content, with headers beside (or, None, without) those of the page."""
    sent = {"Cookie": client.cookie}
    if body is not None:
        sent |= {"X-Bagwise": "1", "Content-Type": "application/json"}
    sent |= {name.replace("_", "-"): value for name, value in headers.items()}
    client.connection.request(method, path, body, {name: value for name, value in sent.items() if value is not None})
    answer = client.connection.getresponse()
    return answer.status, answer.read()


def enter(guard, cookie="", token=None, **headers):
    """Bring a token, as a browser does or (accept=None) as a program does."""
    host = "127.0.0.1" if guard.host in ("127.0.0.1", "0.0.0.0") else guard.host
    sent = {"host": f"{host}:{guard.port}", "accept": "text/html,*/*;q=0.8", "cookie": cookie} | headers
    sent = {name: value for name, value in sent.items() if value is not None}
    return guard.admit(RequestHead("GET", "/", f"token={token or guard.token}", sent, "x"))


def look(guard, cookie, path="/api/run", query="", **headers):
    """Ask for something with a cookie."""
    headers = {name.replace("_", "-"): value for name, value in headers.items()}
    asked = RequestHead("GET", path, query, {"host": f"127.0.0.1:{guard.port}", "cookie": cookie, **headers}, "x")
    assert guard.admit(asked) is None


def first_part(entry):
    return entry.cookie.partition(";")[0]


def basic(password):
    return "Basic " + base64.b64encode(f"me:{password}".encode()).decode()


def call(app, path, query="", cookie=""):
    """Status, headers and content of what the application answers, without a socket."""
    sent = []
    headers = [(b"host", b"127.0.0.1:5000"), (b"cookie", cookie.encode())]
    scope = {"type": "http", "method": "GET", "path": path, "query_string": query.encode(), "headers": headers,
             "client": ("127.0.0.1", 1)}  # fmt: skip

    async def send(message):
        sent.append(message)

    asyncio.run(app(scope, None, send))
    headers = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    return sent[0]["status"], headers, sent[1]["body"]


def test_the_token_is_exchanged_for_a_cookie_and_leaves_the_address():
    guard = Guard("127.0.0.1", 5000)
    status, headers, content = call(make_app(None, guard), "/", f"token={guard.token}")
    assert (status, headers["location"], content) == (303, "/", b"")
    name, *flags = headers["set-cookie"].split("; ")
    assert name.startswith("bagwise_5000=")
    assert {"HttpOnly", "SameSite=Strict", "Path=/"} <= set(flags)
    assert guard.token not in name
    assert headers["cache-control"] == "no-store"
    look(guard, name)


def test_a_token_lets_in_once(capsys):
    """Who finds it afterwards, in a history or in the list of processes, is not let in, and the terminal tells."""
    guard = Guard("127.0.0.1", 5000)
    first = guard.token
    own = first_part(enter(guard))
    for accept in ("text/html", None):  # a browser, a program
        with pytest.raises(ForbiddenError, match="opened before"):
            enter(guard, token=first, accept=accept)
    assert guard.token != first
    assert capsys.readouterr().err.count(guard.address) == 1  # however often it is tried
    assert enter(guard, own, first) == Entry("/")  # the browser that is in already just goes on
    later = first_part(enter(guard))
    assert later != own
    with pytest.raises(ForbiddenError, match="opened before"):
        enter(guard, token=first)
    assert capsys.readouterr().err.count(guard.address) == 1
    for cookie in (own, later):
        look(guard, cookie, "/")


def test_the_cookie_of_a_page_is_not_enough(capsys):
    """Browsers send it to each port of the machine: any other server there may have it."""
    guard = Guard("127.0.0.1", 5000)
    entry = enter(guard)
    cookie, key = first_part(entry), entry.location.removeprefix("/#key=")
    assert key not in entry.cookie
    assert len(key) > 30
    stranger = enter(guard, token=_offered(guard, cookie, capsys)).location.removeprefix("/#key=")
    for path in ("/api/run", "/api/refit", "/media/clip", "/nothing"):
        look(guard, cookie, path, x_bagwise_key=key)
        for wrong in ("", "guess", stranger):
            with pytest.raises(ForbiddenError, match="not the one that was let in"):
                look(guard, cookie, path, x_bagwise_key=wrong)
    look(guard, cookie, "/media/clip", f"file=a&key={key}")
    for path, query in (("/media/clip", f"key={stranger}"), ("/media/clip", "key="), ("/api/run", f"key={key}")):
        with pytest.raises(ForbiddenError, match="not the one that was let in"):
            look(guard, cookie, path, query)
    for path in ("/", "/static/main.js"):  # the files of the page, which are no secret
        look(guard, cookie, path)
    with pytest.raises(ForbiddenError):  # the key alone
        look(guard, "", x_bagwise_key=key)


def _offered(guard, cookie, capsys):
    """The token of the new address that is printed for a window that has lost its key."""
    with pytest.raises(ForbiddenError, match="not the one that was let in"):
        look(guard, cookie)
    return re.search(r"token=(\S+)", capsys.readouterr().err)[1]


def test_the_cookie_of_another_port_is_none(served, client):
    """Two reviews at once: each has a cookie of its own, and takes no other."""
    guards = [Guard("127.0.0.1", port) for port in (5000, 5001)]
    cookies = [first_part(enter(guard, accept=None)) for guard in guards]
    look(guards[0], "; ".join(cookies))
    for cookie in (cookies[1], cookies[1].replace("5001", "5000")):
        with pytest.raises(ForbiddenError):
            look(guards[0], cookie)


@pytest.mark.parametrize("cookie", ["", "bagwise=1", "bagwise_{port}=", "bagwise_{port}=guess", "bagwise_1={value}"])
def test_nothing_is_answered_without_the_cookie(served, client, cookie):
    cookie = cookie.format(port=served.port, value=client.cookie.partition("=")[2])
    for path in ("/", "/static/index.html", "/media/thumb?bag=a&instance=0", "/nothing", *api.GET):
        status, content = ask(client, path=path, Cookie=cookie)
        assert status == 403
        assert b"address that bagwise printed" in content
    for path in api.POST:
        assert ask(client, "POST", path, b"{}", Cookie=cookie)[0] == 403


def test_a_wrong_token_is_refused(client):
    status, content = ask(client, path="/?token=guess", Cookie=None)
    assert status == 403
    assert b"<" not in content


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:{port}", "127.0.0.1", "127.0.0.1:1", "localhost.evil.example:{port}", "",
             "127.0.0.1:{port}@evil.example", "0.0.0.0:{port}", "[::]:{port}"],
)  # fmt: skip
def test_another_host_is_refused(served, client, host):
    """DNS rebinding: a page elsewhere whose name points to this machine."""
    host = host.format(port=served.port)
    assert ask(client, Host=host)[0] == 403
    assert ask(client, path=f"/?token={served.token}", Host=host)[0] == 403


def test_both_names_of_this_machine_are_taken(served, client):
    for name in ("127.0.0.1", "localhost", "LOCALHOST"):
        assert ask(client, Host=f"{name}:{served.port}")[0] == 200


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "https://127.0.0.1:{port}", "http://127.0.0.1:1"])
def test_another_origin_is_refused(served, client, origin):
    origin = origin.format(port=served.port)
    assert ask(client, Origin=origin)[0] == 403
    assert ask(client, "POST", "/api/undo", b"{}", Origin=origin)[0] == 403


def test_the_own_origin_is_taken_and_requests_from_other_sites_are_not(served, client):
    own = f"http://127.0.0.1:{served.port}"
    assert ask(client, Origin=own, Sec_Fetch_Site="same-origin")[0] == 200
    assert ask(client, Sec_Fetch_Site="cross-site")[0] == 403
    assert ask(client, Sec_Fetch_Site="same-site")[0] == 403  # another port of this machine
    assert ask(client, "OPTIONS", Origin="http://evil.example")[0] == 403
    _, headers, _ = client.send("GET", "/api/run")
    assert not any(name.startswith("access-control") for name in headers)


@pytest.mark.parametrize("header", [None, "", "0", "true"])
def test_a_post_needs_the_header_of_the_page(client, header):
    status, content = ask(client, "POST", "/api/undo", b"{}", X_Bagwise=header)
    assert status == 403
    assert b"X-Bagwise" in content


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", None])
def test_a_post_must_be_json(client, kind):
    """What a form of another page can send without asking."""
    assert ask(client, "POST", "/api/undo", b"{}", Content_Type=kind)[0] == 400


def test_nothing_is_changed_by_a_get(client):
    before = client.get("/api/history")
    for path in api.POST.keys() - api.GET.keys():
        assert ask(client, path=path)[0] == 405
    for method in ("PUT", "DELETE", "PATCH", "TRACE"):
        assert ask(client, method, "/api/corrections")[0] in (400, 405)
    after = client.get("/api/history")
    assert after | {"revision": 0} == before | {"revision": 0}  # a revision also tells of an order that is worked out


def test_every_answer_has_the_headers_that_protect(served, client):
    for path in ("/", "/static/index.html", "/api/run", "/nothing", f"/?token={served.token}", "/?token=guess"):
        _, headers, _ = client.send("GET", path)
        policy = headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'; ")
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
        assert "server" not in headers
    assert client.send("GET", "/api/run")[1]["cache-control"] == "no-store"


def test_labels_and_names_are_json_and_never_markup(client):
    for path in ("/api/run", "/api/instances", "/api/files", "/api/label-issues", "/api/novel-groups", "/api/history",
                 f"/api/show?bag={EVIL}&instance=0",
                 "/api/instances?label=%3Cscript%3E", "/%3Cscript%3E"):  # fmt: skip
        _, headers, content = client.send("GET", path.replace(" ", "%20").replace('"', "%22"))
        assert headers["content-type"] == "application/json", path
        json.loads(content)
    labels = [label["name"] for label in client.get("/api/run")["labels"]]
    assert EVIL in labels  # as it is: making it safe is up to whoever draws it, and the page draws text
    _, content = ask(client, path="/?token=<script>")
    assert b"<script>" not in content


def test_the_body_is_limited(client):
    status, content = ask(client, "POST", "/api/corrections", b" " * (LARGEST_BODY + 1))
    assert status == 413
    assert b"at most" in content


def test_a_body_of_unknown_length_is_limited_too(served, client):
    with socket.create_connection((served.host, served.port)) as raw:
        heading = (
            f"POST /api/corrections HTTP/1.1\r\nHost: 127.0.0.1:{served.port}\r\nCookie: {client.cookie}\r\n"
            "X-Bagwise: 1\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
        )
        raw.sendall(heading.encode())
        answer = b""
        try:
            for _ in range(40):
                raw.sendall(b"10000\r\n" + b" " * 65536 + b"\r\n")
            raw.sendall(b"0\r\n\r\n")
        except OSError:  # it stopped to listen
            pass
        raw.settimeout(90)
        answer = raw.recv(65536)
    assert answer.startswith(b"HTTP/1.1 413")


def test_the_rate_is_limited_for_each_client_alone(monkeypatch):
    """Without a socket and with a clock that stands: a busy machine may be slower than the limit."""
    monkeypatch.setattr("bagwise.app.review.guard.time", SimpleNamespace(monotonic=lambda: 0.0))
    guard = Guard("127.0.0.1", 5000, "x")
    app = make_app(None, guard)
    fast, other = (first_part(enter(guard, authorization=basic("x"))) for _ in range(2))
    answers = [call(app, "/static/none", cookie=fast) for _ in range(RATE + 5)]
    assert [status for status, _, _ in answers] == [404] * RATE + [429] * 5
    assert b"wait a moment" in answers[-1][2]
    assert call(app, "/static/none", cookie=other)[0] == 404


def test_guesses_are_limited():
    guard = Guard("127.0.0.1", 5000)
    asked = RequestHead("GET", "/", "token=guess", {"host": "127.0.0.1:5000"}, "10.0.0.1")
    for _ in range(GUESSES):
        with pytest.raises(ForbiddenError):
            guard.admit(asked)
    with pytest.raises(TooOftenError):
        guard.admit(asked)


def test_a_password_is_asked_for_beside_the_token():
    guard = Guard("192.168.0.7", 5000, "geheim: ä")
    with pytest.raises(PasswordNeededError):
        enter(guard)
    for wrong in ("", "geheim", "geheim: ä "):
        with pytest.raises(ForbiddenError):
            enter(guard, authorization=basic(wrong))
    with pytest.raises(ForbiddenError):
        enter(guard, authorization="Basic ???")
    for _ in range(2):  # the address is for several people
        assert "HttpOnly" in enter(guard, authorization=basic("geheim: ä")).cookie


def test_a_server_for_everybody_takes_numbers_and_no_names():
    guard = Guard("0.0.0.0", 5000, "x")
    token = f"token={guard.token}"
    for host in ("192.168.0.7:5000", "127.0.0.1:5000", "localhost:5000", "[fe80::1]:5000"):
        with pytest.raises(PasswordNeededError):
            guard.admit(RequestHead("GET", "/", token, {"host": host}, "x"))
    for host in ("evil.example:5000", "192.168.0.7:1", "192.168.0.7"):
        with pytest.raises(ForbiddenError, match="this server is not"):
            guard.admit(RequestHead("GET", "/", token, {"host": host}, "x"))


def review(*arguments):
    command = [sys.executable, "-m", "bagwise.app.cli", "review", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, encoding="utf-8", timeout=120)


def test_another_host_needs_a_password_and_warns(served, monkeypatch):
    done = review(served.run, "--host", "0.0.0.0", "--no-browser")
    assert done.returncode == 2
    assert "BAGWISE_REVIEW_PASSWORD" in done.stderr
    assert (
        "No such option" in review(served.run, "--password", "x").stderr
    )  # all would read it in the list of processes
    monkeypatch.setenv("BAGWISE_REVIEW_PASSWORD", "x")
    done = review(served.run, "--host", "0.0.0.0", "--no-browser")
    assert "Warning: 0.0.0.0 answers other machines" in done.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="a terminal of Unix")
def test_the_password_is_asked_for_and_not_shown(served):
    import fcntl
    import pty
    import termios

    terminal, theirs = pty.openpty()
    command = [
        sys.executable,
        "-m",
        "bagwise.app.cli",
        "review",
        str(served.run),
        "--host",
        "0.0.0.0",
    ]
    process = subprocess.Popen(
        command, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # passwords are read from the terminal of the session
    )  # fmt: skip
    os.close(theirs)
    shown = b""
    for asked in (b"Password", b"Repeat"):
        while asked not in shown:
            shown += os.read(terminal, 1000)
        os.write(terminal, b"sesame\n")
    with suppress(OSError):  # Linux's end of a terminal
        while piece := os.read(terminal, 1000):
            shown += piece
    os.close(terminal)
    assert process.wait(60) == 1
    assert b"answers other machines" in shown
    assert b"sesame" not in shown


# ---------------------------------------------------------------------------------------------------------------------
# Files


@pytest.fixture(scope="module")
def sounds(tmp_path_factory):
    """A server over recordings of noise; beside them a secret, and one recording has become a link to it."""
    folder = tmp_path_factory.mktemp("sounds")
    (folder / "media").mkdir()
    from bagwise.datasets import make_soundscape

    scene = make_soundscape(4, random_state=0)
    scene.write(folder / "scene")
    with Run.create(
        folder / "scene" / "recordings", folder / "run", labels=folder / "scene" / "labels.csv", page=False, jobs=1
    ) as run:
        names = [file["file"] for file in run.material.files]
    (folder / "secret.wav").write_bytes(SOUND)
    (folder / "scene" / "recordings" / "beside.wav").write_bytes(SOUND)  # in the folder, but not of the run
    link = folder / "scene" / "recordings" / names[-1]
    link.unlink()
    link.symlink_to(folder / "secret.wav")
    with serving(folder / "run") as server:
        yield server, names, folder


@pytest.mark.parametrize(
    "name",
    ["../../secret.wav", "..%2F..%2Fsecret.wav", "%2e%2e/%2e%2e/secret.wav", "..%252f..%252fsecret.wav",
     "{folder}/secret.wav", "/etc/passwd", "file:///etc/passwd", "{first}%00", "{first}%00.png", "{first}/../{first}",
     "./{first}", "beside.wav", "..%5C..%5Csecret.wav", "", "."],
)  # fmt: skip
def test_only_files_of_the_run_are_served(sounds, name):
    server, names, folder = sounds
    client = server.client()
    name = name.format(folder=folder, first=names[0])
    for address in (
        "/media/clip?from=0&to=0.5&file=",
        "/media/spectrogram?from=0&to=0.5&file=",
        "/media/picture?file=",
    ):
        status, headers, content = client.send("GET", address + name)
        assert status in (400, 404)
        assert headers["content-type"] == "application/json"
        assert "error" in json.loads(content)


@pytest.mark.parametrize(
    "path",
    ["/static/../server.py", "/static/%2e%2e/server.py", "/static/..%2fserver.py", "/static//etc/passwd",
     "/static/%00", "/../run/manifest.json", "/static/"],
)  # fmt: skip
def test_only_files_of_the_page_are_served(sounds, path):
    status, _, content = sounds[0].client().send("GET", path)
    assert status in (400, 404)
    assert b"import" not in content


def test_links_out_of_the_folder_are_not_followed(sounds):
    server, names, _ = sounds
    client = server.client()
    status, _, content = client.send("GET", f"/media/clip?from=0&to=0.5&file={names[-1]}")
    assert status == 403
    assert b"link" in content
    row = client.get(f"/api/instances?file={names[-1]}&limit=1")["instances"][0]
    shown = client.get(f"/api/show?bag={row['bag']}&instance={row['instance']}")
    assert shown["kind"] == "none"
    assert "link" in shown["why"]
    assert shown["features"]
    assert client.send("GET", f"/media/clip?from=0&to=0.5&file={names[0]}")[0] == 200
