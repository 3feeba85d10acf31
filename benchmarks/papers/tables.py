"""Tables of ours beside the published: cells, their marks, and the choice of a setting."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import ttest_rel

from benchmarks.papers.data import SOURCES, gain_of, is_missing, path_of, reason_of
from benchmarks.papers.runs import Record, Run, Store

HIGHER_IS_BETTER = ("accuracy", "average_precision", "nmi")
LEVEL = 0.05  # of the paired t-tests
OURS = ("ored", "ored-rbf", "ored-forest")  # not from the papers; one setting for all data sets
OURS_ON_UNLABELLED = ("ored-background",)  # in their place where many instances carry no label
WITHOUT_DEVIATION = 1.0  # what counts as a deviation where the paper prints none, in the table's units


@dataclass(frozen=True)
class Cell:
    """One figure of a table.

    Attributes
    ----------
    ours, deviation : float or None
        None where the data is not there or the run was left out.
    published, published_deviation : float or None
    setting : str
        That was chosen.
    best : bool
        Not distinguishable from our best method of the column by a two-tailed paired t-test.
    reason : str or None
        Known, for a difference or an empty cell.
    higher : bool
        Whether more is better.
    text : str or None
        Shown as it is, in place of figures.
    beside : bool
        Whether the figure stands beside a published one, or the dash of one that is not there.
    differs : bool
        Whether the difference means anything; of seconds on other machines it does not.
    gain : str or None
        The known reason where ours is better.
    kept : bool
        From the page as an earlier run left it, since the single folds of that run are not there any more.
    settings_run : (int, int) or None
        How many of the grid's settings were run, and how many there are, where some were not.
    """

    row: str
    column: str
    ours: float | None = None
    deviation: float | None = None
    published: float | None = None
    published_deviation: float | None = None
    setting: str = ""
    best: bool = False
    reason: str | None = None
    higher: bool = True
    text: str | None = None
    beside: bool = True
    differs: bool = True
    gain: str | None = None
    kept: bool = False
    settings_run: tuple[int, int] | None = None

    @property
    def difference(self) -> float | None:
        if self.ours is None or self.published is None or not self.differs:
            return None
        return self.ours - self.published

    @property
    def falls_short(self) -> bool:
        """Worse than published by more than a published standard deviation."""
        return self._differs(-1)

    @property
    def stands_out(self) -> bool:
        """Better than published by more than a published standard deviation."""
        return self._differs(1)

    def _differs(self, sign: int) -> bool:
        difference = self.difference
        allowed = self.published_deviation if self.published_deviation is not None else WITHOUT_DEVIATION
        return difference is not None and sign * (difference if self.higher else -difference) > allowed + 1e-9


@dataclass(frozen=True)
class Table:
    """Cells under a title; `rows` and `columns` give their order."""

    title: str
    cells: list[Cell]
    digits: int = 1
    notes: list[str] = field(default_factory=list)

    @property
    def rows(self) -> list[str]:
        return list(dict.fromkeys(cell.row for cell in self.cells))

    @property
    def columns(self) -> list[str]:
        return list(dict.fromkeys(cell.column for cell in self.cells))


@lru_cache
def published(paper: str) -> dict[str, Any]:
    """The figures of a paper, as they are in published/."""
    with (Path(__file__).parent / "published" / f"{paper}.toml").open("rb") as file:
        return tomllib.load(file)


def figure(values: Sequence[float] | None, position: int) -> float | None:
    """A published figure; None where the paper has a dash or no such row."""
    if values is None or math.isnan(values[position]):
        return None
    return float(values[position])


Grid = Callable[[str, str, bool], list[dict[str, Any]]]
"""Row, data set and whether the short form is wanted -> settings to choose from."""


@dataclass(frozen=True)
class ResultTable:
    """A table whose rows are methods and whose columns are data sets.

    Attributes
    ----------
    paper, table : str
        Names in published/.
    kind : str
        "folds" or "training".
    grid : callable
        Settings of each row; the best by `tuning` is shown.
    tuning : str
        Measure by which the setting is chosen.
    measure, scale, digits
        What is shown, times what, with how many digits.
    quick_columns : tuple of str
        Data sets of the short form.
    quick_rows : tuple of str or None
        Rows of the short form, None for all.
    ours : tuple of str
        Methods of our own, further rows without a published figure.
    variants : dict
        Further rows next to the published figures of another.
    differs : bool
        Whether differences mean anything.
    as_on : dict
        By row and column, the data set whose runs make the cell, where the row does not see what sets the two apart.
    """

    paper: str
    table: str
    kind: str
    grid: Grid
    tuning: str = "accuracy"
    measure: str = "accuracy"
    scale: float = 100.0
    digits: int = 1
    options: tuple[tuple[str, Any], ...] = ()
    quick_columns: tuple[str, ...] = ()
    quick_rows: tuple[str, ...] | None = None
    ours: tuple[str, ...] = ()
    variants: Mapping[str, str] = field(default_factory=dict)
    differs: bool = True
    as_on: Mapping[tuple[str, str], str] = field(default_factory=dict)

    @property
    def entry(self) -> dict[str, Any]:
        return published(self.paper)[self.table]

    def settings(self, row: str, data: str, quick: bool) -> list[Run]:
        options = (("folds", 3),) if quick and self.kind == "folds" else self.options
        grid = [{}] if row in self.ours else self.grid(row, data, quick)
        used = self.as_on.get((row, data), data)
        return [Run(self.kind, used, row, tuple(s.items()), options) for s in grid]

    @property
    def columns(self) -> list[str]:
        """Data sets, without those that could not be had."""
        return [data for data in self.entry["columns"] if not is_missing(data)]

    def chosen(self, quick: bool) -> list[tuple[str, str]]:
        """Row and column of every cell that is computed."""
        shown = [
            row for row in (*self.entry["rows"], *self.variants)
            if not quick or self.quick_rows is None or row in self.quick_rows
        ]  # fmt: skip
        columns = self.quick_columns if quick else self.columns
        return [
            (row, data)
            for row in (*shown, *self.ours)
            for data in columns
            if path_of(data) is not None and self.has_cell(row, data)
        ]

    def published_of(self, part: str, row: str, data: str) -> float | None:
        """A figure of the paper, of its `part` "rows" or "deviations"."""
        of_row = self.entry.get(part, {}).get(self.variants.get(row, row))
        return figure(of_row, self.entry["columns"].index(data))

    def has_cell(self, row: str, data: str) -> bool:
        """Whether the paper prints a figure there, or the row is ours and made for such data."""
        if row in self.ours:
            return SOURCES[data].unlabelled == (row in OURS_ON_UNLABELLED)
        return self.published_of("rows", row, data) is not None

    def runs(self, quick: bool) -> list[Run]:
        return [run for row, data in self.chosen(quick) for run in self.settings(row, data, quick)]

    def table_of(self, store: Store, quick: bool) -> Table:
        computed = set(self.chosen(quick))
        cells = []
        for data in self.columns:
            column: list[Cell] = []
            values: dict[str, np.ndarray] = {}
            for row in (*self.entry["rows"], *self.variants, *self.ours):
                base = Cell(
                    row,
                    data,
                    published=self.published_of("rows", row, data),
                    published_deviation=self.published_of("deviations", row, data),
                    reason=reason_of(data, row, (row, data) in computed),
                    higher=self.measure in HIGHER_IS_BETTER,
                    differs=self.differs,
                    gain=gain_of(data, row),
                )
                if not self.has_cell(row, data):
                    continue
                if (row, data) not in computed:
                    column.append(base)
                    continue
                cell, found = best_cell(base, self.settings(row, data, quick), store, self.tuning, self.measure)
                if found is None:
                    column.append(or_not_yet(store.earlier(cell, self.paper, self.entry["title"])))
                    continue
                values[row] = self.scale * found
                column.append(replace(cell, **mean_of(values[row])))
            cells += mark_best(column, values)
        return Table(self.entry["title"], cells, self.digits)


def best_cell(
    cell: Cell, runs: Sequence[Run], store: Store, tuning: str, measure: str
) -> tuple[Cell, np.ndarray | None]:
    """The cell with the setting of the best run so far, and the values of that run; None where none is there."""
    finished = [run for run in runs if run in store]
    if not finished:
        return cell, None
    run, records = best_of(finished, store, tuning)
    part = None if len(finished) == len(runs) else (len(finished), len(runs))
    values = np.array([record[measure] for record in records])
    return replace(cell, setting=setting_text(run), settings_run=part), values


def or_not_yet(cell: Cell) -> Cell:
    """A cell without a figure says that its runs are still to come."""
    return cell if cell.ours is not None else replace(cell, reason="not computed yet")


def best_of(runs: Iterable[Run], store: Store, measure: str) -> tuple[Run, list[Record]]:
    """The run with the best mean of a measure; of equals the first."""
    sign = 1.0 if measure in HIGHER_IS_BETTER else -1.0
    found = [(run, store[run]) for run in runs]
    return max(found, key=lambda item: sign * float(np.mean([record[measure] for record in item[1]])))


def mean_of(values: np.ndarray) -> dict[str, float | None]:
    return {"ours": float(values.mean()), "deviation": float(values.std()) if len(values) > 1 else None}


def setting_text(run: Run) -> str:
    return ", ".join(
        f"{name}={value:g}" if isinstance(value, float) else f"{name}={value}" for name, value in run.settings
    )


def mark_best(cells: list[Cell], values: dict[str, np.ndarray]) -> list[Cell]:
    """Mark the methods that a paired t-test over the folds cannot tell from the best, as Pham et al. do in bold."""
    scored = [cell for cell in cells if cell.ours is not None]
    if not scored:
        return cells
    sign = 1.0 if scored[0].higher else -1.0
    top = max(scored, key=lambda cell: sign * cell.ours)  # type: ignore[operator]
    if any(cell.kept for cell in scored):  # single folds are not there to compare with
        return cells
    marked = {cell.row for cell in scored if not differs(values[cell.row], values[top.row])}
    return [replace(cell, best=cell.row in marked) for cell in cells]


def differs(first: np.ndarray, second: np.ndarray) -> bool:
    """Whether a two-tailed paired t-test tells the two apart; single values differ where they are not equal."""
    if len(first) < 2:
        return bool(np.any(first != second))
    difference = first - second
    if np.ptp(difference) == 0:
        return bool(difference[0] != 0)
    return bool(ttest_rel(first, second).pvalue < LEVEL)


def win_tie_loss(pairs: Iterable[tuple[np.ndarray, np.ndarray]], higher: bool) -> str:
    """How often the first is significantly better, not told apart, significantly worse."""
    counts = {1: 0, 0: 0, -1: 0}
    for first, second in pairs:
        sign = np.sign(np.mean(first) - np.mean(second)) * (1 if higher else -1)
        counts[int(sign) if differs(first, second) else 0] += 1
    return f"{counts[1]}/{counts[0]}/{counts[-1]}"
