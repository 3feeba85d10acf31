"""Past the papers: the library's own best, beside what the papers reach when every instance is labelled."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from benchmarks.papers.data import path_of, reason_of
from benchmarks.papers.experiment import Experiment, Report
from benchmarks.papers.pham import kernel_grid
from benchmarks.papers.runs import Run, Store
from benchmarks.papers.tables import OURS, Cell, Table, best_of, figure, mark_best, mean_of, published

DATA = ("hja-filtered", "msrc", "carroll-24", "frost-24")
QUICK_DATA = ("carroll-24",)
MARK = "k-slr"  # Table 8 of Pham et al.: kernel logistic regression trained on labelled instances


def runs(quick: bool) -> list[Run]:
    data = [name for name in (QUICK_DATA if quick else DATA) if path_of(name)]
    return [run for name in data for method in (*OURS, MARK) for run in settings_of(method, name, quick)]


def settings_of(method: str, data: str, quick: bool) -> list[Run]:
    options = (("folds", 3),) if quick else ()
    grid = kernel_grid(method, data, quick) if method == MARK else [{}]
    return [Run("folds", data, method, tuple(settings.items()), options) for settings in grid]


def report(store: Store, quick: bool, folder: Path) -> Report:
    entry = published("pham")["table-8"]
    cells = []
    for name in DATA:
        position = entry["columns"].index(name)
        values: dict[str, np.ndarray] = {}
        column = []
        if not any(run.data == name for run in runs(quick)):
            continue
        for method in (*OURS, MARK):
            _, records = best_of(settings_of(method, name, quick), store, "accuracy")
            values[method] = 100.0 * np.array([record["accuracy"] for record in records])
            column.append(
                Cell(
                    method,
                    name,
                    published=figure(entry["rows"][MARK], position),
                    published_deviation=figure(entry["deviations"][MARK], position),
                    reason=reason_of(name, method),
                    **mean_of(values[method]),  # type: ignore[arg-type]
                )
            )
        cells += mark_best(column, values)
    note = (
        "Published here is K-SLR of Pham et al., Table 8, which sees the label of every training instance, as our own "
        "k-slr in the last row does (the better of two widths). The others see the labels of bags alone and have one "
        "setting for all data sets."
    )
    return Report([Table("Inductive accuracy from bag labels alone", cells)], notes=[note])


EXPERIMENTS: dict[str, Experiment] = {"beyond": Experiment("Past the papers", runs, report)}
