"""What a person waits for who reviews 60 recordings of 10 s: the page, an answer, learning, marks from Raven.

Asked for, in seconds on two free cores: page open 2, answer .2, learning 10, import 5. Seconds of the clock count what
else the machine does; those of the processor, of all processes that take part (browser, server, learning), do not.
"""

from __future__ import annotations

import csv
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from bagwise import Run
from bagwise.datasets import make_soundscape
from benchmarks.common import Record, show
from benchmarks.page import open_browser
from benchmarks.review_load import Client, serving

N_FILES, N_ANSWERS, N_OPENED = 60, 30, 3
ASKED = {"page open": 2.0, "answer": 0.2, "learning": 10.0, "import of Raven": 5.0}
PATIENCE = 120.0  # seconds
TICK = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100


def processor_seconds() -> float:
    """Of all processes below this one, with those of theirs that have ended."""
    parents, seconds = {}, {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        number = int(path.parent.name)
        parents[number], seconds[number] = int(fields[1]), sum(map(int, fields[11:15])) / TICK
    below, found = {os.getpid()}, set[int]()
    while below - found:
        found |= below
        below = {number for number, parent in parents.items() if parent in found}
    return sum(seconds.get(number, 0.0) for number in found - {os.getpid()}) + sum(os.times()[2:4])


class Watch:
    """Seconds of the clock and of the processor by what was done."""

    def __init__(self) -> None:
        self.taken: dict[str, list[tuple[float, float]]] = {}

    @contextmanager
    def of(self, what: str) -> Iterator[None]:
        clock, processor = time.perf_counter(), processor_seconds()
        yield
        self.taken.setdefault(what, []).append((time.perf_counter() - clock, processor_seconds() - processor))

    def records(self) -> list[Record]:
        return [
            {
                "what": what,
                "times": len(pairs),
                "clock, median s": float(np.median([clock for clock, _ in pairs])),
                "slowest": max(clock for clock, _ in pairs),
                "processor, mean s": float(np.mean([processor for _, processor in pairs])),
                "asked": ASKED.get(what),
            }
            for what, pairs in self.taken.items()
        ]


def open_page(browser: Any, address: str) -> None:
    """Until instances are listed and the spectrogram of the first is seen."""
    browser.get(address)
    until = time.monotonic() + PATIENCE
    while not browser.execute_script(
        "return document.querySelector('.row') && document.querySelector('.sound img')?.naturalWidth > 0"
    ):
        if time.monotonic() > until:
            raise TimeoutError("The page shows no instances.")
        time.sleep(0.01)


def learn(client: Client) -> None:
    """Until it has learned and all is written."""
    client.post("/api/refit")
    until = time.monotonic() + PATIENCE
    while (state := client.get("/api/refit"))["state"] == "running" and time.monotonic() < until:
        time.sleep(0.05)
    if state["state"] != "idle":
        raise RuntimeError(f"It did not learn: {state}")


def name_otherwise(folder: Path, labels: list[str], n: int) -> None:
    """Other names for the first marks of some tables of Raven, as a person would put them right."""
    for path in sorted(folder.glob("recording*.txt"))[:n]:
        with path.open(encoding="utf-8", newline="") as file:
            heading, *rows = list(csv.reader(file, delimiter="\t"))
        column = next(i for i, name in enumerate(heading) if name.lower() in {"label", "annotation", "species"})
        if not rows:
            continue
        rows[0][column] = next(label for label in labels if label != rows[0][column])
        with path.open("w", encoding="utf-8", newline="") as file:
            csv.writer(file, delimiter="\t").writerows([heading, *rows])


def main(quick: bool = False) -> list[Record]:
    """Print the table and return its records."""
    watch, rng = Watch(), np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as name, open_browser() as browser:
        folder, run = Path(name), Path(name) / "run"
        sounds, table, _ = make_soundscape(N_FILES // 3 if quick else N_FILES, random_state=0).write(folder)
        with Run.create(sounds, run, labels=table, page=False, formats=["raven"]) as made:
            rows, labels = made.annotations(), list(made.labels)
        if browser is not None:
            with serving(run) as server:
                address = server.address
                for _ in range(N_OPENED):
                    with watch.of("page open"):
                        open_page(browser, address)
                    address = f"http://{server.host}:{server.port}/"  # the token lets in once
                browser.get("about:blank")
        with serving(run) as server:
            client = server.client()
            for i in rng.choice(len(rows), N_ANSWERS, replace=False):
                answer = {"bag": rows[i]["bag"], "instance": rows[i]["instance"], "label": str(rng.choice(labels))}
                with watch.of("answer"):
                    client.post("/api/corrections", {"corrections": [answer]})
                    client.get("/api/instances?order=useful&limit=100")
            with watch.of("learning"):
                learn(client)
        name_otherwise(run / "raven", labels, N_FILES // 2)
        with watch.of("import of Raven"):
            command = [sys.executable, "-m", "bagwise.app.cli", "correct", str(run), "--from", str(run / "raven")]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    records = watch.records()
    show(f"Seconds for {len(rows)} instances in {N_FILES} recordings; load {os.getloadavg()[0]:.0f}", records)
    return records


if __name__ == "__main__":
    main("--quick" in sys.argv)
