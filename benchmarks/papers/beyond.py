"""Past the papers: the library's own best, beside what the papers reach when every instance is labelled."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from benchmarks.papers.data import path_of, reason_of
from benchmarks.papers.experiment import Experiment, Report
from benchmarks.papers.runs import Run, Store
from benchmarks.papers.tables import OURS, Cell, Table, figure, mark_best, mean_of, published

DATA = ("hja-filtered", "msrc", "carroll-24", "frost-24")
QUICK_DATA = ("carroll-24",)
MARK = "k-slr"  # Table 8 of Pham et al.: kernel logistic regression trained on labelled instances


def runs(quick: bool) -> list[Run]:
    data = [name for name in (QUICK_DATA if quick else DATA) if path_of(name)]
    options = (("folds", 3),) if quick else ()
    return [Run("folds", name, method, (), options) for name in data for method in OURS]


def report(store: Store, quick: bool, folder: Path) -> Report:
    entry = published("pham")["table-8"]
    cells = []
    for name in DATA:
        position = entry["columns"].index(name)
        values: dict[str, np.ndarray] = {}
        column = []
        for run in (run for run in runs(quick) if run.data == name):
            values[run.method] = 100.0 * np.array([record["accuracy"] for record in store[run]])
            column.append(
                Cell(
                    run.method,
                    name,
                    published=figure(entry["rows"][MARK], position),
                    published_deviation=figure(entry["deviations"][MARK], position),
                    reason=reason_of(name),
                    **mean_of(values[run.method]),  # type: ignore[arg-type]
                )
            )
        cells += mark_best(column, values)
    note = (
        "Published here is K-SLR of Pham et al., Table 8, which sees every training label; ours see the "
        "labels of bags alone, and one setting for all data sets."
    )
    return Report([Table("Inductive accuracy from bag labels alone", cells)], notes=[note])


EXPERIMENTS: dict[str, Experiment] = {"beyond": Experiment("Past the papers", runs, report)}
