"""`make fuzz`: so many changed inputs of each kind.

They are tried in parts, several at a time, each in a process of its own, so that a crash is seen and reported with the
input that brought it about (in ``fuzz-output/``). A part is the same inputs whatever is tried at the same time.
"""

from __future__ import annotations

import faulthandler
import json
import math
import multiprocessing
import os
import random
import resource
import shutil
import tempfile
import time
from collections import Counter, deque
from dataclasses import dataclass, field
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

import click

from benchmarks.fuzz.kinds import Kind, Ready, find_kinds
from benchmarks.fuzz.mutate import mutate
from benchmarks.fuzz.running import MEMORY, MEMORY_LIMIT, limit_memory, place_of, try_input

STUCK = 600  # seconds of the clock after which a process that is not even interrupted is ended
PART = 5_000  # inputs of a process
GRACE = 30  # seconds after the last minute for what a part is at
OUTCOME = "outcome.json"
MOST_KEPT = 3  # inputs of one find


@dataclass
class Outcome:
    """What came of the inputs of one kind."""

    kind: str
    n_inputs: int = 0
    n_read: int = 0
    n_refused: int = 0
    slowest: float = 0.0
    peak_bytes: int = 0
    failures: list[dict[str, Any]] = field(default_factory=list)

    def add(self, other: Outcome) -> None:
        """Join what came of other inputs of the kind."""
        self.n_inputs += other.n_inputs
        self.n_read += other.n_read
        self.n_refused += other.n_refused
        self.slowest = max(self.slowest, other.slowest)
        self.peak_bytes = max(self.peak_bytes, other.peak_bytes)
        self.failures += other.failures


def make_input(kind: Kind, ready: Ready, rng: random.Random) -> bytes:
    """A changed example, or nothing but noise."""
    seed = rng.choice(ready.seeds)
    if kind.deep is not None and rng.random() < kind.share:
        return kind.deep(seed, rng)
    if rng.random() < 0.02:
        return bytes(rng.randrange(256) for _ in range(rng.randrange(200)))
    return mutate(seed, rng.choice(ready.seeds), kind.tokens, rng)


def prepare(kind: Kind, folder: Path) -> tuple[Ready, list[dict[str, Any]]]:
    """Examples and reader, with all that is compiled and imported once; and what was wrong with the examples."""
    place = folder / "made"
    place.mkdir()
    ready, failures = kind.make(place), []
    n_read = 0
    for i, raw in enumerate(ready.seeds):
        path = folder / f"seed{kind.endings[i % len(kind.endings)]}"
        path.write_bytes(raw)
        was_read, problem = try_input(kind, ready, path, folder)
        path.unlink()
        n_read += was_read
        if problem is not None:
            failures.append({"input": "", "problem": problem})
    if not n_read:
        failures.append({"input": "", "problem": "no valid example can be read"})
    return ready, failures


def fuzz_kind(
    kind: Kind, count: int, seed: int | str, folder: Path, keep: Path | None = None, deadline: float = math.inf
) -> Outcome:
    """Give so many inputs, one after the other as a file in `folder`; those that fail are copied to `keep`."""
    outcome, kept = Outcome(kind.name), Counter[str]()
    ready, outcome.failures = prepare(kind, folder)
    if keep is not None:
        limit_memory()
    rng = random.Random(f"{kind.name} {seed}")
    for i in range(count):
        if time.monotonic() > deadline:
            break
        path = folder / f"input{rng.choice(kind.endings)}"
        path.write_bytes(make_input(kind, ready, rng))
        if keep is not None:
            faulthandler.dump_traceback_later(STUCK, exit=True)
        started = time.process_time()
        was_read, problem = try_input(kind, ready, path, folder)
        outcome.slowest = max(outcome.slowest, time.process_time() - started)
        outcome.n_inputs += 1
        outcome.n_read += was_read
        outcome.n_refused += not was_read and problem is None
        if problem is not None:
            outcome.failures.append({"input": f"{seed}-{i}", "problem": problem})
            kept[place_of(problem)] += 1
            if keep is not None and kept[place_of(problem)] <= MOST_KEPT:
                shutil.copy(path, keep / f"{kind.name}-{seed}-{i}{path.suffix}")
        path.unlink(missing_ok=True)
    faulthandler.cancel_dump_traceback_later()
    ready.close()
    outcome.peak_bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return outcome


def _work(kind: Kind, count: int, part: int, seed: int, folder: Path, keep: Path, deadline: float) -> None:
    os.environ["BAGWISE_MEMORY_LIMIT"] = str(MEMORY_LIMIT)
    tempfile.tempdir = str(folder)
    os.chdir(folder)
    log = os.open(keep / f"{kind.name}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(log, 1)  # libraries tell there what they think of a file
    os.dup2(log, 2)
    outcome = fuzz_kind(kind, count, f"{seed}.{part}", folder, keep, deadline)
    (folder / OUTCOME).write_text(json.dumps(vars(outcome)))


@dataclass
class _Part:
    """Some inputs of a kind, and the process that tries them in a folder of its own."""

    name: str
    process: Any
    folder: tempfile.TemporaryDirectory[str]

    def finish(self, out: Path) -> Outcome:
        """What came of them; the last input is kept where the process died of it."""
        self.process.join()
        with self.folder as place:
            if (kept := Path(place, OUTCOME)).exists():
                return Outcome(**json.loads(kept.read_text()))
            for path in Path(place).glob("input*"):
                shutil.copy(path, out / f"{self.name}-{self.process.pid}-crash{path.suffix}")
        return Outcome(self.name, failures=[{"input": "", "problem": f"died with exit code {self.process.exitcode}"}])


@click.command()
@click.option("--count", type=int, default=100_000, show_default=True, help="Inputs of each kind.")
@click.option("--kind", "names", multiple=True, help="Only these; by default all.")
@click.option("--seed", type=int, default=0, show_default=True)
@click.option("--jobs", type=int, default=os.cpu_count(), show_default="processors", help="Processes at a time.")
@click.option("--minutes", type=float, default=math.inf, help="Stop after so many; by default when all are tried.")
@click.option("--out", type=click.Path(path_type=Path), default=Path("fuzz-output"), show_default=True)
def main(count: int, names: tuple[str, ...], seed: int, jobs: int, minutes: float, out: Path) -> None:
    """Try all that reads bytes; exit code 1 if it crashed, hung, grew or raised anything but our errors."""
    deadline = time.monotonic() + 60 * minutes
    out = out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # each thread reserves memory
    context = multiprocessing.get_context("fork")  # all is imported already
    click.echo(f"{'kind':<28} {'inputs':>8} {'read':>8} {'refused':>8} {'failed':>7} {'slowest':>9} {'peak':>8}")
    kinds = find_kinds()  # imported once
    place = "/dev/shm" if os.path.isdir("/dev/shm") else None
    n_parts = math.ceil(count / PART)
    waiting = deque((part, name) for part in range(n_parts) for name in names or kinds)
    left = dict.fromkeys(names or kinds, n_parts)
    outcomes = {name: Outcome(name) for name in left}
    running: dict[Any, _Part] = {}
    bad = False
    while waiting or running:
        while waiting and len(running) < jobs:
            number, name = waiting.popleft()
            folder = tempfile.TemporaryDirectory(dir=place)
            n = min(PART, count - PART * number)
            process = context.Process(
                target=_work, args=(kinds[name], n, number, seed, Path(folder.name), out, deadline)
            )
            process.start()
            running[process.sentinel] = _Part(name, process, folder)
        late = deadline + GRACE - time.monotonic()
        if late < 0:  # it hangs in a library, where no signal is looked at
            for part in running.values():
                part.process.kill()
        for sentinel in wait(list(running), None if math.isinf(late) else max(late, 1.0)):
            part = running.pop(sentinel)
            outcomes[part.name].add(part.finish(out))
            left[part.name] -= 1
            if not left[part.name]:
                bad |= _report(outcomes[part.name], out)
        if time.monotonic() > deadline:
            waiting.clear()
    for name in left:
        if left[name]:
            bad |= _report(outcomes[name], out)
    raise SystemExit(1 if bad else 0)


def _report(outcome: Outcome, out: Path) -> bool:
    """Tell what came of a kind; gives whether anything is wrong."""
    click.echo(
        f"{outcome.kind:<28} {outcome.n_inputs:>8} {outcome.n_read:>8} {outcome.n_refused:>8} "
        f"{len(outcome.failures):>7} {outcome.slowest:>8.2f}s {outcome.peak_bytes / 2**20:>5.0f}MiB"
    )
    (out / f"{outcome.kind}.json").write_text(json.dumps(vars(outcome), indent=1))
    places = Counter(place_of(failure["problem"]) for failure in outcome.failures)
    for place, times in places.most_common():
        first = next(failure["input"] for failure in outcome.failures if place_of(failure["problem"]) == place)
        click.echo(f"  {times} times, first with input {first}: {place}")
    return bool(outcome.failures) or outcome.peak_bytes > MEMORY
