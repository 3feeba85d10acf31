"""Computations that know their own name: what is done, on which data, by which method with which settings.

Every table and figure is a function of runs, so that two tables that need the same fit share it, and an interrupted
reproduction goes on where it stopped: each finished run is one line of a file.
"""

from __future__ import annotations

import itertools
import json
import math
import os
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from joblib import Parallel, delayed, parallel_config

Record = dict[str, Any]
Options = tuple[tuple[str, Any], ...]


@dataclass(frozen=True)
class Run:
    """One computation.

    Attributes
    ----------
    kind : str
        A name in `benchmarks.papers.kinds.KINDS`.
    data : str
        A name in `benchmarks.papers.data.SOURCES`.
    method : str
        A name in `benchmarks.papers.methods.METHODS`.
    settings : pairs of name and value
        Of the method.
    options : pairs of name and value
        Of the kind, such as the number of folds.
    """

    kind: str
    data: str
    method: str
    settings: Options = ()
    options: Options = ()

    @property
    def key(self) -> str:
        return json.dumps([self.kind, self.data, self.method, dict(self.settings), dict(self.options)], sort_keys=True)

    def __str__(self) -> str:
        given = ", ".join(f"{name}={value}" for name, value in (*self.settings, *self.options))
        return f"{self.data}, {self.method}{f' ({given})' if given else ''}, {self.kind}"


class Store:
    """Finished runs, in memory and as lines of a file.

    Parameters
    ----------
    path : path
        Lines of JSON; created with the first run. A last line that was cut off is passed over.

    Attributes
    ----------
    kept : dict
        Figures of cells on the pages that are there, by paper, table, row and column: shown, and marked, where the
        runs are not in the file.
    """

    def __init__(self, path: Path):
        self.path = path
        self._records: dict[str, list[Record]] = {}
        self._seconds: dict[str, float] = {}
        self._like: dict[tuple[str, ...], list[float]] = {}
        self._torn = False
        self.kept: dict[tuple[str, ...], dict[str, Any]] = {}
        if path.is_file():
            text = path.read_text(encoding="utf-8")
            self._torn = bool(text) and not text.endswith("\n")
            for line in text.splitlines():
                try:
                    entry = json.loads(line)
                except json.JSONDecodeError:  # the line that was being written when the last reproduction was stopped
                    continue
                self._remember(entry["key"], entry["records"], entry["seconds"])

    def __contains__(self, run: Run) -> bool:
        return run.key in self._records

    def __getitem__(self, run: Run) -> list[Record]:
        return self._records[run.key]

    def earlier(self, cell: Any, paper: str, title: str) -> Any:
        """The cell with what an earlier run left on the page (`kept`: paper, table, row and column), if it did."""
        known = self.kept.get((paper, title, cell.row, cell.column))
        return cell if known is None else replace(cell, kept=True, **known)

    def seconds(self, runs: Iterable[Run]) -> float:
        """What the finished ones of these took, each counted once."""
        return sum(self._seconds.get(key, 0.0) for key in {run.key for run in runs})

    def expected(self, run: Run) -> float:
        """The mean seconds of finished runs of this kind, data and method, else of this kind and method, else inf."""
        for known in ([run.kind, run.data, run.method], [run.kind, run.method]):
            of_like = self._like.get(tuple(known))
            if of_like:
                return sum(of_like) / len(of_like)
        return math.inf

    def _remember(self, key: str, records: list[Record], seconds: float) -> None:
        self._records[key] = records
        self._seconds[key] = seconds
        kind, data, method, *_ = json.loads(key)
        for like in ((kind, data, method), (kind, method)):
            self._like.setdefault(like, []).append(seconds)

    def add(self, run: Run, records: list[Record], seconds: float) -> None:
        self._remember(run.key, records, seconds)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a", encoding="utf-8") as file:
            line = {"key": run.key, **asdict(run), "seconds": round(seconds, 3), "records": records}
            file.write(("\n" if self._torn else "") + json.dumps(line) + "\n")
            file.flush()
            os.fsync(file.fileno())
        self._torn = False


def execute(
    runs: Iterable[Run],
    store: Store,
    perform: Callable[[Run], list[Record]],
    *,
    jobs: int = 1,
    until: float = math.inf,
) -> Iterator[Run]:
    """Perform the runs that are not in the store yet; yields each when it is stored.

    Several at a time begin with those that take longest, so that no core waits for the last. After `until`, a time
    of `time.monotonic`, none begins.
    """
    missing = list({run.key: run for run in runs if run not in store}.values())
    if not missing:
        return
    in_time = itertools.takewhile(lambda run: time.monotonic() < until, missing)
    if jobs == 1:
        results: Any = (_timed(perform, run) for run in in_time)
    else:
        missing.sort(key=store.expected, reverse=True)
        with parallel_config("loky", inner_max_num_threads=1):
            results = Parallel(n_jobs=jobs, return_as="generator_unordered", pre_dispatch="n_jobs", batch_size=1)(
                delayed(_timed)(perform, run) for run in in_time
            )
    for run, records, seconds in results:
        store.add(run, records, seconds)
        yield run


def _timed(perform: Callable[[Run], list[Record]], run: Run) -> tuple[Run, list[Record], float]:
    started = time.perf_counter()
    return run, perform(run), time.perf_counter() - started
