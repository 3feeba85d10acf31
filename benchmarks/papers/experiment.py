"""An experiment: the runs it needs, and what it makes of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.papers.runs import Run, Store
from benchmarks.papers.tables import ResultTable, Table


@dataclass(frozen=True)
class Report:
    """What is printed and written: tables, pictures (title, path) and lines of text."""

    tables: list[Table] = field(default_factory=list)
    pictures: list[tuple[str, Path]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


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
    """

    title: str
    runs: Callable[[bool], list[Run]]
    report: Callable[[Store, bool, Path], Report]
    partial: bool = False


def table_experiment(title: str, *tables: ResultTable, notes: Sequence[str] = ()) -> Experiment:
    """An experiment that is nothing but tables of methods and data sets."""
    return Experiment(
        title,
        lambda quick: [run for table in tables for run in table.runs(quick)],
        lambda store, quick, folder: Report([table.table_of(store, quick) for table in tables], notes=list(notes)),
    )
