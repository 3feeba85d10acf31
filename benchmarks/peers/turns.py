"""Two sides of a comparison, each a process of its own, fit and predict in turns."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

import numpy as np

SIDES = Path(__file__).parent / "sides"
ONE_THREAD = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL", "NUMBA")}


class Side(NamedTuple):
    """A script of `sides/`, the interpreter that runs it, and the method that it is asked for."""

    python: Path
    script: Path
    method: str


class Outcome(NamedTuple):
    """Least seconds to fit and to predict, and the scores of the test bags; without them, what went wrong."""

    fit: float = np.nan
    predict: float = np.nan
    scores: np.ndarray | None = None
    problem: str = ""


class StoppedError(Exception):
    """A side took too long or crashed; the message says which."""


class Process:
    """A running side; leaving the block ends it."""

    def __init__(self, side: Side, data: Path):
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed with the process
        self._process = subprocess.Popen(
            [str(side.python), str(side.script), str(data), side.method],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            env={**os.environ, **ONE_THREAD, "PYTHONWARNINGS": "ignore"},
        )

    def __enter__(self) -> Process:
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._process.kill()
        self._process.communicate()
        self._errors.close()

    def run_once(self, limit: float) -> Outcome:
        """Fit and predict once; the first time also waits for imports and data, which are not timed."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        started = time.perf_counter()
        clock = threading.Timer(limit, self._process.kill)
        clock.start()
        try:
            print(file=self._process.stdin, flush=True)
            line = self._process.stdout.readline()
        except BrokenPipeError:  # it ended before it was asked
            line = ""
        finally:
            clock.cancel()
        if line:
            answer = json.loads(line)
            return Outcome(answer["fit"], answer["predict"], np.array(answer["scores"]))
        if time.perf_counter() - started >= limit:
            raise StoppedError(f"over {limit:g} s, stopped")
        self._process.wait()
        self._errors.seek(0)
        raise StoppedError((self._errors.read().strip().splitlines() or ["ended without an answer"])[-1])


def in_turns(ours: Side, theirs: Side, data: Path, repeats: int, limit: float) -> tuple[Outcome, Outcome]:
    """Both run `repeats` times in turns, after a run that only warms them; no more turns after `limit` seconds.

    A side that fails is not asked again. A run of more than `limit` seconds is stopped.
    """
    with ExitStack() as stack:
        processes = [stack.enter_context(Process(side, data)) for side in (ours, theirs)]
        runs: list[list[Outcome]] = [[], []]
        problems = ["", ""]
        started = time.perf_counter()
        for turn in range(repeats + 1):
            if turn and time.perf_counter() - started > limit:
                break
            for i, process in enumerate(processes):
                if not problems[i]:
                    try:
                        runs[i].append(process.run_once(limit))
                    except StoppedError as error:
                        problems[i] = str(error)
    first, second = (_fastest(own, problem) for own, problem in zip(runs, problems, strict=True))
    return first, second


def _fastest(runs: list[Outcome], problem: str) -> Outcome:
    timed = runs[1:] or runs  # a side too slow for a second run is judged by its first
    if not timed:
        return Outcome(problem=problem)
    fit, predict = (min(getattr(run, part) for run in timed) for part in ("fit", "predict"))
    return Outcome(fit, predict, timed[-1].scores)
