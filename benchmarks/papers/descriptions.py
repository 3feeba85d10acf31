"""The papers' tables of data sets: ours, counted, and the published figures."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.papers.data import is_missing, missing_line, path_of
from benchmarks.papers.experiment import Experiment, Report
from benchmarks.papers.runs import Run, Store
from benchmarks.papers.tables import Cell, Table, published

TABLES = {
    "briggs2012": ("table-1", "Briggs et al. (2012), Table 1", "description"),
    "briggs2013": ("table-2", "Briggs et al. (2013), Table II", "description"),
    "pham": ("table-2", "Pham et al., Table 2", "description"),
    "zhang2008": ("table-1", "Zhang and Zhou (2008), Table 1", "description"),
    "m3ic": ("table-3", "Zhang, Wang, Si and Li, Table 3", "description-of-clusters"),
}
NOTES = {
    "m3ic": [
        "Reuters5 of the paper has 1,061 bags, which four classes of 73 to 109 bags cannot hold: they are the "
        "largest "
        "class and three small ones."
    ]
}


def described(paper: str, table: str, kind: str) -> tuple[Callable[[bool], list[Run]], Callable[..., Report]]:
    """Runs and report of one table: a row per data set, a column per quantity."""
    entry: dict[str, Any] = published(paper)[table]

    def runs(quick: bool) -> list[Run]:
        return [Run(kind, data, "dummy") for data in entry["rows"] if path_of(data) is not None]

    def report(store: Store, quick: bool, folder: Path) -> Report:
        cells = []
        for data, figures in entry["rows"].items():
            if is_missing(data):
                continue
            run = Run(kind, data, "dummy")
            for figure_, what in zip(figures, entry["columns"], strict=True):
                ours = float(store[run][0][what]) if run in store else None
                digits = 2 if paper == "zhang2008" and "instances" in what else 1
                digits = 0 if float(figure_).is_integer() and "per bag" not in what else digits
                text = f"{'-' if ours is None else f'{ours:,.{digits}f}'} / {figure_:,.{digits}f}"
                cells.append(Cell(data, what, ours=ours, published=float(figure_), text=text))
        notes = [*NOTES.get(paper, []), *missing_line(entry["rows"])]
        return Report(
            [Table(entry["title"], cells, 1)], notes=notes, about=["Counted in the files; ours, then the paper's."]
        )

    return runs, report


EXPERIMENTS = {
    f"{paper}-{table}": Experiment(title, *described(paper, table, kind))
    for paper, (table, title, kind) in TABLES.items()
}
