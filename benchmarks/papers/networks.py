"""Networks under the union likelihood beside the same ones given every label: figures of a GPU, kept as data.

`BAGWISE_DEVICE=cuda python -m benchmarks networks` measures them and leaves bench-output/networks.jsonl, which is kept
here as measured/networks.jsonl: on two cores it would take hours.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from benchmarks.networks import KINDS, SETS
from benchmarks.papers.data import SOURCES
from benchmarks.papers.experiment import Experiment, Report
from benchmarks.papers.runs import Run, Store
from benchmarks.papers.tables import Cell, Table

MEASURED = Path(__file__).parent / "measured" / "networks.jsonl"
NOTE = (
    "Ten folds of the bags, those of the other tables; *supervised* are the same networks, and trees, trained with "
    "the label of every instance, which labels of bags cannot beat. Transductive: the labels of the bags are given, "
    "and they were learned from. Measured by `BAGWISE_DEVICE=cuda python -m benchmarks networks` on an NVIDIA H200, "
    "all four sets at the same time; seconds are those of `ored-mix`, trees included. One setting for all data sets."
)


def runs(quick: bool) -> list[Run]:
    return []  # nothing is run here


def report(store: Store, quick: bool, folder: Path) -> Report:
    if not MEASURED.is_file():
        return Report(notes=["Not measured yet."])
    records = [json.loads(line) for line in MEASURED.read_text(encoding="utf-8").splitlines()]
    return Report([table_of(records)], notes=[NOTE])


def table_of(records: list[dict[str, Any]]) -> Table:
    """A row a set: networks and mix, and how far they are below what they reach when they are given every label."""
    titles = {source.file: source.title for source in reversed(SOURCES.values())}  # of several the first
    cells = []
    for record in sorted(records, key=lambda record: SETS.index(record["set"])):
        for kind in KINDS:
            name = f"ored-{kind}"
            below = record[f"{kind} told"] - record[kind]
            figures = {
                name: f"{record[kind]:.1f}", f"{name} supervised": f"{record[f'{kind} told']:.1f}",
                f"{name} below supervised": f"{below:.1f}",
                f"{name} transductive": f"{record[f'{kind} transductive']:.1f}",
            }  # fmt: skip
            cells += [Cell(titles[record["set"]], column, text=text) for column, text in figures.items()]
        cells.append(Cell(titles[record["set"]], "seconds a fit", text=f"{record['s a fit']:.1f}"))
    return Table("Instance accuracy in percent", cells)


EXPERIMENTS: dict[str, Experiment] = {"networks": Experiment("Networks", runs, report)}
