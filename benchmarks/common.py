"""What the benchmarks share: where real data is, how time and memory are taken, how figures are shown."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bagwise import BagDataset
from bagwise.app.report.tables import format_table
from bagwise.datasets import load_npz

Record = dict[str, Any]

SUMMARY = "summary"  # the key of a record that holds its line in the closing table
FASTER, SECONDS, MEMORY = "times as fast", "times the seconds", "times the memory"


def data_folder() -> Path | None:
    """The folder that BAGWISE_DATA names, else ../shared/data beside the repository, else None."""
    folder = Path(os.environ.get("BAGWISE_DATA", Path(__file__).parents[2] / "shared" / "data"))
    return folder if folder.is_dir() else None


def load_real(name: str) -> BagDataset | None:
    """A real data set, or None with a line that says it is not there."""
    folder = data_folder()
    if folder is None or not (folder / f"{name}.npz").is_file():
        print(f"  {name}.npz is not there (set BAGWISE_DATA to the folder that holds it): left out")
        return None
    return load_npz(folder / f"{name}.npz")


def fastest(functions: dict[str, Callable[[], Any]], repeats: int = 7) -> dict[str, float]:
    """Seconds of the fastest run of each, in turns, so that a noisy spell hits all of them; the first only warms."""
    times: dict[str, list[float]] = {name: [] for name in functions}
    for _ in range(repeats + 1):
        for name, function in functions.items():
            started = time.perf_counter()
            function()
            times[name].append(time.perf_counter() - started)
    return {name: min(values[1:]) for name, values in times.items()}


@contextmanager
def peak_memory() -> Iterator[dict[str, int]]:
    """Bytes by which this process grew at most inside the block (Linux; sampled every few milliseconds)."""
    result: dict[str, int] = {}
    statm = Path("/proc/self/statm")
    if not statm.exists():
        yield result
        return
    page = os.sysconf("SC_PAGE_SIZE")

    def resident() -> int:
        return int(statm.read_text().split()[1]) * page

    base, stop = resident(), threading.Event()
    result["growth"] = 0

    def watch() -> None:
        while not stop.wait(0.002):
            result["growth"] = max(result["growth"], resident() - base)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield result
    finally:
        stop.set()
        watcher.join()


def with_ratio(
    record: Record, what: str, beside: str, ratio: float | None, *, unit: str = FASTER, asked: str = "", note: str = ""
) -> Record:
    """The record, and with it its line in the closing table of all ratios: `ratio` is that of `what` to `beside`."""
    line = {"what": what, "beside": beside, "ratio": ratio, "is": unit, "asked": asked, "note": note}
    return {**record, SUMMARY: line}


def show(title: str, records: list[Record], left: Collection[str] = ()) -> None:
    """Print records of equal keys as a table, the columns named in `left` aligned left, as the first always is."""
    print(f"\n{title}\n")
    if records:
        headings = [key for key in records[0] if key != SUMMARY]
        rows = [[_text(record.get(key)) for key in headings] for record in records]
        print(format_table(headings, rows, right=[i for i, key in enumerate(headings) if i and key not in left]))


def _text(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:.3g}" if isinstance(value, float) else str(value)
