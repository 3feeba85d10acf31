"""The server of the review page under load, and killed: is every correction that was answered in the file?

Asked for: 50 clients for 60 s with mixed reads and corrections without an error, nothing lost, memory flat; 200 kills
(SIGKILL) among corrections, undos and refits, after each of which the server starts again and nothing answered is lost.
Also measured: how long an answer to a correction takes with more than 10,000 instances.
"""

from __future__ import annotations

import base64
import http.client
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import numpy as np

from bagwise import Run, write_dataset
from bagwise.app.runs.corrections import FILE, CorrectionLog
from bagwise.datasets import make_gaussian_bags
from benchmarks.common import Record, show

ORDERS = ("useful", "least-sure", "file", "label", "time")
CLIENTS, SECONDS, KILLS, ANSWERS = 50, 60.0, 200, 300
START = 60.0  # seconds for a server to start


class Server:
    """A server in a process of its own, started as people start it.

    With a password each client is let in for itself; without, the address lets in once and all of them are the same.
    """

    def __init__(self, run: Path, *options: str, password: str = ""):
        self.run = run
        self.password = password
        self.cookie = ""
        command = [sys.executable, "-m", "bagwise.app.cli", "review", str(run), "--no-browser", *options]
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, encoding="utf-8",
            env=os.environ | {"BAGWISE_REVIEW_PASSWORD": password},
        )  # fmt: skip
        self.errors: list[str] = []
        self.clients: list[Client] = []
        self._collector = threading.Thread(target=self._collect, daemon=True)
        self._collector.start()
        assert self.process.stdout is not None
        self.address = self.process.stdout.readline().strip()
        if not self.address:
            code = self.end()
            raise RuntimeError(f"The server did not start (exit code {code}): {''.join(self.errors)}")
        parts = urlsplit(self.address)
        self.host, self.port, self.token = parts.hostname or "", parts.port or 0, parts.query.removeprefix("token=")

    def _collect(self) -> None:
        assert self.process.stderr is not None
        with self.process.stderr as lines:
            self.errors.extend(lines)

    def client(self) -> Client:
        self.clients.append(Client(self))
        return self.clients[-1]

    def memory(self) -> float:
        """Megabytes that the process holds."""
        status = Path(f"/proc/{self.process.pid}/status").read_text(encoding="utf-8")
        return next(int(line.split()[1]) / 1024 for line in status.splitlines() if line.startswith("VmRSS"))

    def kill(self) -> None:
        self.process.kill()
        self._let_go()

    def end(self) -> int:
        """Ask it to end; gives the exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
        return self._let_go()

    def _let_go(self) -> int:
        code = self.process.wait()
        self._collector.join(10)
        assert self.process.stdout is not None
        self.process.stdout.close()
        return code


@contextmanager
def serving(run: Path, *options: str, password: str = "") -> Iterator[Server]:
    """A server that is gone afterwards, whatever happens."""
    server = Server(run, *options, password=password)
    try:
        yield server
    finally:
        server.end()
        for client in server.clients:
            client.connection.close()


class Client:
    """One browser: a connection that is kept, and the cookie."""

    def __init__(self, server: Server):
        self.server = server
        self.connection = http.client.HTTPConnection(server.host, server.port, timeout=60)
        self.cookie = server.cookie or self.enter()
        if not server.password:
            server.cookie = self.cookie

    def enter(self) -> str:
        """The cookie that the token is exchanged for."""
        self.cookie = ""
        proof = base64.b64encode(f":{self.server.password}".encode()).decode()
        status, headers, _ = self.send(
            "GET", f"/?token={self.server.token}", headers={"Authorization": f"Basic {proof}"}
        )
        if status != 303:
            raise RuntimeError(f"The token was not taken: {status}")
        return headers["set-cookie"].partition(";")[0]

    def send(
        self, method: str, path: str, body: bytes | None = None, headers: dict[str, str] | None = None
    ) -> tuple[int, dict[str, str], bytes]:
        """Status, headers (in lower case) and content of the answer."""
        sent = {"Cookie": self.cookie} | ({} if headers is None else headers)
        if body is not None:
            sent = {"X-Bagwise": "1", "Content-Type": "application/json"} | sent
        self.connection.request(method, path, body, sent)
        answer = self.connection.getresponse()
        return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()

    def get(self, path: str) -> Any:
        return self._value(*self.send("GET", path))

    def post(self, path: str, value: Any = None) -> Any:
        return self._value(*self.send("POST", path, json.dumps({} if value is None else value).encode()))

    def _value(self, status: int, headers: dict[str, str], content: bytes) -> Any:
        if status >= 300:
            raise RuntimeError(f"{status}: {content[:300]!r}")
        return json.loads(content)


def _correction(row: dict[str, Any], label: str, by: str) -> dict[str, Any]:
    return {"corrections": [{"bag": row["bag"], "instance": row["instance"], "label": label}], "by": by}


def _use(server: Server, number: int, until: float, answered: list[str], errors: list[str], reads: list[int]) -> None:
    """One client: looks around, and answers every third time; each answer bears a name of its own."""
    rng = random.Random(number)
    try:
        client = server.client()
        labels = [label["name"] for label in client.get("/api/run")["labels"]]
        rows = client.get("/api/instances?order=least-sure&limit=200")["instances"]
        turn = 0
        while turn < 3 or time.monotonic() < until:  # on a busy machine too each answers once
            turn += 1
            row = rng.choice(rows)
            if turn % 3 == 0:
                by = f"client {number}, {turn}"
                client.post("/api/corrections", _correction(row, rng.choice(labels), by))
                answered.append(by)
                continue
            where = f"bag={quote(row['bag'])}&instance={row['instance']}"
            order = rng.choice(ORDERS)
            client.get(rng.choice([
                "/api/run", f"/api/show?{where}", f"/api/instances?order={order}&limit=50", "/api/history",
            ]))  # fmt: skip
            reads[0] += 1
            time.sleep(0.02)
    except Exception as error:  # whatever it is, it is what is looked for
        errors.append(f"client {number}: {error!r}")


def lost_answers(run: Path, answered: list[str]) -> list[str]:
    """Names of answers that are not in the file."""
    kept = {entry.by for entry in CorrectionLog(run / FILE).in_force()}
    return [by for by in answered if by not in kept]


def measure_load(run: Path, n_clients: int, seconds: float) -> Record:
    """Many clients at once."""
    answered: list[str] = []
    errors: list[str] = []
    reads = [0]
    with serving(run, password="for many") as server:
        client = server.client()  # once round before the memory is looked at: what it loads for an answer stays
        for what in ("history", "run", *(f"instances?order={order}&limit=50" for order in ORDERS)):
            client.get(f"/api/{what}")
        until = time.monotonic() + seconds
        threads = [
            threading.Thread(target=_use, args=(server, i, until, answered, errors, reads)) for i in range(n_clients)
        ]
        for thread in threads:
            thread.start()
        memory = []
        while time.monotonic() < until:
            time.sleep(min(1.0, seconds / 8))
            memory.append(server.memory())
        for thread in threads:
            thread.join()
        code = server.end()
    half = len(memory) // 2
    return {
        "clients": n_clients, "seconds": seconds, "reads": reads[0], "answered": len(answered),
        "lost": len(lost_answers(run, answered)), "errors": len(errors), "first_error": errors[0] if errors else "",
        "memory_half_way_mb": memory[half], "memory_end_mb": memory[-1], "exit_code": code,
    }  # fmt: skip


@dataclass
class Said:
    """What was answered, as a stack of calls that each bear a name, and what was under way when the server died."""

    calls: list[tuple[str, int]] = field(default_factory=list)  # name, and of how many corrections
    under_way: list[tuple[str, int]] | None = None  # the calls, had that been answered too
    n_answered: int = 0

    def answered(self) -> None:
        assert self.under_way is not None
        self.calls, self.under_way = self.under_way, None
        self.n_answered += 1

    def check(self, run: Path) -> bool:
        """Whether the run holds what was answered and no more, each call whole; what was under way may be there."""
        log = CorrectionLog(run / FILE)
        found = list(Counter(entry.by for entry in log.in_force()).items())
        fits = found in (self.calls, self.under_way)
        self.calls, self.under_way = found, None
        return fits


def _talk(client: Client, said: Said, rng: random.Random, kill: int, rows: list[Any], labels: list[str]) -> None:
    """Correct several instances, undo and learn, at random, until the server is gone."""
    for turn in count():
        what = rng.choices(("correct", "undo", "refit"), (6, 3, 1))[0]
        if what == "correct":
            by, chosen = f"kill {kill}, {turn}", rng.sample(rows, rng.randint(1, 40))
            said.under_way = [*said.calls, (by, len(chosen))]
            given = [{key: row[key] for key in ("bag", "instance")} | {"label": rng.choice(labels)} for row in chosen]
            client.post("/api/corrections", {"corrections": given, "by": by})
            said.answered()
        elif client.get("/api/refit")["state"] != "running":  # both are refused while it learns
            said.under_way = said.calls[:-1] if what == "undo" else said.calls
            client.post(f"/api/{what}")
            said.answered()
        time.sleep(0.01)  # below the rate that a client is allowed


def measure_kills(run: Path, n_kills: int, seed: int = 0) -> Record:
    """Kill the server among corrections, undos and refits, start it again, and look what is there, each time.

    A process that was just started needs seconds to learn at all, so every second time the kill waits until it does.
    """
    rng, said = random.Random(seed), Said()
    lost = learning = 0
    for kill in range(n_kills):
        with serving(run) as server:
            lost += not said.check(run)
            client = server.client()
            about = client.get("/api/run")
            lost += about["corrections"] != sum(n for _, n in said.calls)
            rows = client.get("/api/instances?order=least-sure&limit=500")["instances"]
            labels = [label["name"] for label in about["labels"]]
            if kill % 2:
                state = client.post("/api/refit")
                while state["state"] == "running" and state["fraction"] == 0:
                    time.sleep(0.02)
                    state = client.get("/api/refit")
                learning += state["state"] == "running"
            timer = threading.Timer(rng.uniform(0.0, 0.3) if kill % 2 else rng.uniform(0.02, 0.8), server.kill)
            timer.start()
            try:
                _talk(client, said, rng, kill, rows, labels)
            except (OSError, http.client.HTTPException):  # killed
                timer.join()
    lost += not said.check(run)
    with serving(run) as server:  # starts again, and learns
        client = server.client()
        client.post("/api/refit")
        until = time.monotonic() + 60
        while (state := client.get("/api/refit"))["state"] == "running" and time.monotonic() < until:
            time.sleep(0.05)
    return {
        "kills": n_kills, "while_learning": learning, "answered": said.n_answered, "lost": lost,
        "refit_afterwards": state["state"],
    }  # fmt: skip


def measure_answers(run: Path, n: int) -> Record:
    """Milliseconds of single corrections and of the first page, one client, more than 10,000 instances."""
    with serving(run) as server:
        client = server.client()
        about = client.get("/api/run")
        labels = [label["name"] for label in about["labels"]]
        rows = client.get("/api/instances?limit=500")["instances"]
        times = []
        for i in range(n):
            began = time.perf_counter()
            client.post("/api/corrections", _correction(rows[i % len(rows)], labels[i % len(labels)], ""))
            times.append(1000 * (time.perf_counter() - began))
        pages = []
        for i in range(20):
            client.post("/api/corrections", _correction(rows[i], labels[0], ""))
            began = time.perf_counter()
            client.get("/api/instances?limit=100")
            pages.append(1000 * (time.perf_counter() - began))
        began = time.perf_counter()
        client.post("/api/refit")
        while client.get("/api/refit")["state"] == "running":
            time.sleep(0.02)
        refit = time.perf_counter() - began
    return {
        "instances": about["counts"]["instances"], "corrections": n, "median_ms": float(np.median(times)),
        "p95_ms": float(np.quantile(times, 0.95)), "first_page_after_a_correction_ms": float(np.median(pages)),
        "refit_s": refit,
    }  # fmt: skip


def make_table_run(folder: Path, n_bags: int, seed: int = 0) -> Path:
    """A run over a table."""
    write_dataset(make_gaussian_bags(n_bags=n_bags, random_state=seed), folder / "made.csv")
    with Run.create(folder / "made.csv", folder / "run", page=False):
        pass
    return folder / "run"


def main(quick: bool = False) -> list[Record]:
    """Measure, print and return records."""
    os.environ.setdefault("PYTHONPATH", os.pathsep.join(path for path in sys.path if path))
    with tempfile.TemporaryDirectory() as temporary:
        folders = [Path(temporary) / name for name in ("load", "kills", "answers")]
        for folder in folders:
            folder.mkdir()
        load = [measure_load(make_table_run(folders[0], 400), *((8, 5.0) if quick else (CLIENTS, SECONDS)))]
        show("Many clients at once; asked for: no error, nothing lost, memory flat", load)
        kills = [measure_kills(make_table_run(folders[1], 2000), 3 if quick else KILLS)]
        show("Killed among corrections, undos and refits; asked for: nothing lost", kills)
        answers = [measure_answers(make_table_run(folders[2], 2500), 50 if quick else ANSWERS)]
        show("Single answers; asked for: a median below 20 ms", answers)
    return [*load, *kills, *answers]


if __name__ == "__main__":
    main()
