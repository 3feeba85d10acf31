"""CSV in the long form: a row an instance."""

from __future__ import annotations

import csv
import os
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from bagwise.dataset import BagDataset
from bagwise.exceptions import FormatError
from bagwise.io.data.long import (
    BAG,
    BAG_NAME,
    INSTANCE_LABEL,
    LABEL_PREFIX,
    LABELLED,
    LOCATION,
    ROLES,
    LongTable,
    Roles,
    check_marked,
    dense_features,
    encode_label_lists,
    feature_names_of,
    find_roles,
    has_unlabelled,
    instance_label_names,
    location_texts,
    parse_locations,
    pieces_of,
    to_dataset,
)
from bagwise.io.files import atomic_write
from bagwise.io.labels import LIST_MARK, ONE_HOT
from bagwise.io.text import SEPARATORS, defuse, open_rows, undefuse


def read_csv(
    path: str | os.PathLike[str],
    *,
    bag: str | None = None,
    labels: str | None = None,
    instance_label: str | None = None,
    features: Sequence[str] | None = None,
    separator: str | None = None,
) -> tuple[BagDataset, str]:
    """Read a CSV file of instances; also a sentence that says how it was understood.

    Parameters
    ----------
    path : str or path
    bag, labels, instance_label : str or None
        Headings of the columns, where they are not the usual ones (docs/formats/csv.md).
    features : list of str or None
        Headings of the features; by default all other columns.
    separator : {",", ";", "\\t"} or None
        None finds it out.
    """
    path = Path(path)
    rows, separator = open_rows(path, separator, trim=False)
    heading_line, first = next(rows)
    headings = [undefuse(cell.strip()) for cell in first]
    roles = find_roles(headings, f"{path}, row {heading_line}", bag, labels, instance_label, features)
    cells = _Cells.read(path, rows, separator, headings, roles)
    where = cells.where
    indicator, class_names = _labels(cells, roles, headings)
    long = LongTable(
        X=cells.X,
        bag=_column(cells, roles.bag, "bag"),
        feature_names=[headings[i] for i in roles.features],
        bag_name=None if roles.bag_name is None else _column(cells, roles.bag_name, "bag_name"),
        indicator=indicator,
        class_names=class_names,
        labelled=None if roles.labelled is None else _bits(cells, [roles.labelled], headings)[:, 0].astype(bool),
        instance_labels=None if roles.instance_label is None else [
            undefuse(cell) or None for cell in cells.column(roles.instance_label)
        ],
        locations=None if roles.location is None else parse_locations(
            map(undefuse, cells.column(roles.location)), where
        ),
    )  # fmt: skip
    return to_dataset(long, path.stem, where), _understood(separator, headings, roles)


@dataclass(frozen=True)
class _Cells:
    """What is kept of the rows: features as numbers, the columns that are none as text."""

    X: np.ndarray
    others: dict[int, list[str]]
    where: Callable[[int], str]

    @classmethod
    def read(
        cls, path: Path, rows: Iterator[tuple[int, list[str]]], separator: str, headings: list[str], roles: Roles
    ) -> _Cells:
        lines: list[int] = []
        numbers, others = NumberRows(roles.features, headings.__getitem__, separator), _columns_of_text(roles)
        for line, row in rows:
            if len(row) != len(headings):
                raise FormatError(
                    f"{path}, row {line}: there are {len(row)} cells but {len(headings)} headings (separated by "
                    f"{SEPARATORS[separator]}); put cells that contain the separator in quotes."
                )
            numbers.add(row, f"{path}, row {line}")
            lines.append(line)
            for column, kept in others.items():
                kept.append(row[column])
        if not lines:
            raise FormatError(f"{path}: there is a heading but no row below it; add a row for each instance.")
        return cls(numbers.matrix(), others, lambda row: f"{path}, row {lines[row]}")

    def column(self, number: int) -> list[str]:
        return self.others[number]


def _columns_of_text(roles: Roles) -> dict[int, list[str]]:
    named = (roles.bag, roles.bag_name, roles.labels, roles.labelled, roles.instance_label, roles.location)
    return {column: [] for column in (*named, *roles.one_hot) if column is not None}


def _understood(separator: str, headings: list[str], roles: Roles) -> str:
    parts = [f"a row an instance, separated by {SEPARATORS[separator]}", f"bags by {headings[roles.bag]!r}"]
    if roles.labels is not None:
        parts.append(f"labels from lists in {headings[roles.labels]!r}")
    elif roles.one_hot:
        parts.append(f"labels from {len(roles.one_hot)} columns of 0 and 1")
    else:
        parts.append("no bag labels")
    if roles.instance_label is not None:
        parts.append(f"instance labels from {headings[roles.instance_label]!r}")
    return ", ".join([*parts, f"{len(roles.features)} features"])


class NumberRows:
    """The numbers in some columns of rows that come one at a time, so that no row is kept as text.

    Parameters
    ----------
    columns : sequence of int
    heading : function of a column that gives its name, for errors
    separator : str
    """

    def __init__(self, columns: Sequence[int], heading: Callable[[int], str], separator: str = ","):
        self.columns, self.heading, self.separator = columns, heading, separator
        self.values = array("d")

    def add(self, row: list[str], place: str) -> None:
        """Keep the numbers of a row; an error names the place, the column and the likely cause."""
        cells = [row[c] for c in self.columns]
        try:
            self.values.extend(map(float, cells))
        except ValueError:
            raise FormatError(self._why_no_number(row, place)) from None
        if any("_" in cell for cell in cells):  # Python reads 1_000 as a number, nobody else does
            raise FormatError(self._why_no_number(row, place))

    def matrix(self) -> np.ndarray:
        """(m, d) array of all rows."""
        return np.frombuffer(self.values, dtype=np.float64).reshape(-1, len(self.columns))

    def _why_no_number(self, row: list[str], place: str) -> str:
        bad = next(c for c in self.columns if not _is_number(row[c]))
        return _why_no_number(row[bad], self.heading(bad), place, self.separator)


def _why_no_number(cell: str, heading: str, place: str, separator: str) -> str:
    what = f"{place}: the feature {heading!r} is {cell[:40]!r}, which is no number"
    if not cell.strip():
        return f"{place}: the feature {heading!r} is empty; fill in a number, or remove the row."
    if separator != "," and _is_number(cell.replace(",", ".")):
        return f"{what} because of its decimal comma; write {cell.strip().replace(',', '.')}."
    return f"{what}; correct it, or name the columns that are features."


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return "_" not in cell


def _column(cells: _Cells, column: int, name: str) -> list[str]:
    values = [undefuse(cell) for cell in cells.column(column)]
    if not all(values):
        raise FormatError(f"{cells.where(values.index(''))}: the cell of the column {name!r} is empty; name the bag.")
    return values


def _labels(cells: _Cells, roles: Roles, headings: list[str]) -> tuple[np.ndarray | None, list[str] | None]:
    if roles.labels is not None:
        lists = [
            [undefuse(part.strip()) for part in cell.split(LIST_MARK) if part.strip()]
            for cell in cells.column(roles.labels)
        ]
        return encode_label_lists(lists, None)
    if not roles.one_hot:
        return None, None
    names = [headings[column].removeprefix(LABEL_PREFIX) for column in roles.one_hot]
    return _bits(cells, roles.one_hot, headings), names


def _bits(cells: _Cells, columns: Sequence[int], headings: list[str]) -> np.ndarray:
    """(m, k) zeros and ones of some columns."""
    bits = np.zeros((len(cells.X), len(columns)), dtype=np.uint8)
    for j, column in enumerate(columns):
        for i, cell in enumerate(cells.column(column)):
            value = ONE_HOT.get(cell.strip().casefold())
            if value is None:
                raise FormatError(f"{cells.where(i)}: {headings[column]!r} is {cell[:40]!r}; write 0 or 1.")
            bits[i, j] = value
    return bits


def write_csv(dataset: BagDataset, path: str | os.PathLike[str]) -> None:
    """Write a data set as CSV: bag, one column of 0 and 1 for each class, instance label, location, features."""
    names = [str(name) for name in dataset.bag_names]
    write_csv_pieces(pieces_of(dataset), path, numbered=len(set(names)) < len(names), marked=has_unlabelled(dataset))


def write_csv_pieces(
    pieces: Iterable[BagDataset], path: str | os.PathLike[str], numbered: bool, marked: bool | None = None
) -> None:
    """Write one data set that comes in pieces of whole bags with the same classes and features.

    `numbered` writes 0, 1, 2, ... as ``bag`` and the names as ``bag_name``, for names that are not distinct. `marked`
    writes a column that says which bags are labelled; None writes it where the first piece needs it. Cells are
    separated by tabs where the name ends in .tsv, else by commas.
    """
    written = 0
    iterator = iter(pieces)
    first = next(iterator)
    marked = has_unlabelled(first) if marked is None else marked
    headings = _headings(first, numbered, marked)
    with atomic_write(path, "w") as file:
        separator = "\t" if Path(path).suffix.casefold() == ".tsv" else ","
        writer = csv.writer(file, delimiter=separator, lineterminator="\n")
        writer.writerow([defuse(heading) for heading in headings])
        for piece in chain([first], iterator):
            check_marked(piece, marked)
            writer.writerows(_rows(piece, numbered, marked, written))
            written += len(piece)


def _headings(dataset: BagDataset, numbered: bool, marked: bool) -> list[str]:
    headings = [BAG, BAG_NAME] if numbered else [BAG]
    if dataset.Y is not None:
        headings += [f"{LABEL_PREFIX}{name}" for name in dataset.class_names]
    headings += [LABELLED] if marked else []
    headings += [INSTANCE_LABEL] if dataset.instance_labels is not None else []
    headings += [LOCATION] if dataset.locations is not None else []
    return headings + feature_names_of(dataset, ROLES)


def _rows(dataset: BagDataset, numbered: bool, marked: bool, n_before: int) -> Iterator[list[Any]]:
    """A row for every instance; `n_before` bags were written before."""
    instance_labels, locations = instance_label_names(dataset), location_texts(dataset)
    X, offsets = dense_features(dataset), dataset.bags.offsets
    for b, name in enumerate(dataset.bag_names):
        start: list[Any] = [n_before + b] if numbered else []
        start.append(defuse(str(name)))
        if dataset.Y is not None:
            start += dataset.Y[b].tolist()
        if marked:
            start.append(int(dataset.labelled[b]))
        for i in range(offsets[b], offsets[b + 1]):
            row = list(start)
            if instance_labels is not None:
                row.append("" if instance_labels[i] is None else defuse(str(instance_labels[i])))
            if locations is not None:
                row.append(locations[i])
            yield row + X[i].astype(np.float64).tolist()
