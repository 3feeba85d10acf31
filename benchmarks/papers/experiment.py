"""An experiment: the runs it needs, and what it makes of them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from benchmarks.papers.data import missing_line
from benchmarks.papers.runs import Run, Store
from benchmarks.papers.tables import Grid, ResultTable, Table


@dataclass(frozen=True)
class Report:
    """What is printed and written: how it was measured, tables, pictures (title, path) and lines of text."""

    tables: list[Table] = field(default_factory=list)
    pictures: list[tuple[str, Path]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    about: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Experiment:
    """One table or figure of a paper.

    Attributes
    ----------
    title : str
    runs : callable
        Whether the short form is wanted -> the runs.
    report : callable
        Store, whether short, folder for pictures -> report. All runs are in the store, unless it is `partial`.
    partial : bool
        Whether the report can be made of the runs that are finished, and says which are not.
    keeps : bool
        The same, and figures of the page that is there stand for runs that are not (`Store.kept`).
    tables : tuple of ResultTable
        Where it is nothing but tables.
    """

    title: str
    runs: Callable[[bool], list[Run]]
    report: Callable[[Store, bool, Path], Report]
    partial: bool = False
    keeps: bool = False
    tables: tuple[ResultTable, ...] = ()

    def with_grid(self, given: Mapping[str, Sequence[Any]]) -> Experiment | None:
        """The same tables with settings of one's own; None where no method of them has a setting of these names."""

        def own(grid: Grid) -> Grid:
            def settings(row: str, data: str, quick: bool) -> list[dict[str, Any]]:
                usual = grid(row, data, quick)
                names = [name for name in given if any(name in each for each in usual)]
                if not names:
                    return usual
                others = [{n: v for n, v in each.items() if n not in names} for each in usual]
                kept = [each for i, each in enumerate(others) if each not in others[:i]]
                values = itertools.product(*(given[name] for name in names))
                return [{**each, **dict(zip(names, chosen, strict=True))} for each in kept for chosen in values]

            return settings

        known = {
            name for table in self.tables for row in table.entry["rows"] for each in table.grid(row, "carroll", False)
            for name in each
        }  # fmt: skip
        if not known & set(given):
            return None
        return table_experiment(self.title, *(replace(table, grid=own(table.grid)) for table in self.tables))


def table_experiment(
    title: str, *tables: ResultTable, about: Sequence[str] = (), notes: Sequence[str] = ()
) -> Experiment:
    """An experiment that is nothing but tables of methods and data sets; `about` stands above them."""

    def report(store: Store, quick: bool, folder: Path) -> Report:
        absent = missing_line(dict.fromkeys(data for table in tables for data in table.entry["columns"]))
        shown = [table.table_of(store, quick) for table in tables]
        return Report(shown, notes=[*notes, *absent], about=list(about))

    return Experiment(
        title,
        lambda quick: [run for table in tables for run in table.runs(quick)],
        report,
        keeps=True,
        tables=tables,
    )
