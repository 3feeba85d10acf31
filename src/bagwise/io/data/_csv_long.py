"""CSV in the long form: a row per instance."""

from __future__ import annotations

import os
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bagwise.core.dataset import BagDataset
from bagwise.core.exceptions import FormatError
from bagwise.io.data._long import (
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
    instance_label_names,
    location_texts,
    parse_locations,
    to_dataset,
    to_write,
)
from bagwise.io.labels import LIST_MARK, split_labels
from bagwise.io.tables import csv_writer
from bagwise.io.text import check_width, defuse, open_rows, undefuse

ONE_HOT = {"0": False, "1": True, "0.0": False, "1.0": True, "false": False, "true": True}


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
    rows, separator, source = open_rows(path, separator, trim=False)
    heading_line, first = next(rows)
    headings = [undefuse(cell.strip()) for cell in first]
    roles = find_roles(headings, f"{path}, row {heading_line}", bag, labels, instance_label, features)
    numbers, lines = NumberRows(roles.features, headings.__getitem__, separator), list[int]()
    named = (roles.bag, roles.bag_name, roles.labels, roles.labelled, roles.instance_label, roles.location)
    cells: dict[int, list[str]] = {i: [] for i in (*named, *roles.one_hot) if i is not None}
    for line, row in rows:
        check_width(row, len(headings), path, line, heading_line, source)
        numbers.add(row, f"{path}, row {line}")
        lines.append(line)
        for column, kept in cells.items():
            kept.append(row[column])
    if not lines:
        raise FormatError(f"{path}: there is a heading but no row below it; add a row for each instance.")

    def where(row: int) -> str:
        return f"{path}, row {lines[row]}"

    def names_in(column: int) -> list[str]:
        values = [undefuse(cell) for cell in cells[column]]
        if not all(values):
            place = where(values.index(""))
            raise FormatError(f"{place}: the cell of the column {headings[column]!r} is empty; name the bag.")
        return values

    def bits_in(columns: Sequence[int]) -> np.ndarray:
        """(m, k) zeros and ones."""
        bits = np.zeros((len(lines), len(columns)), dtype=np.uint8)
        for j, column in enumerate(columns):
            for i, cell in enumerate(cells[column]):
                value = ONE_HOT.get(cell.strip().casefold())
                if value is None:
                    raise FormatError(f"{where(i)}: {headings[column]!r} is {cell[:40]!r}; write 0 or 1.")
                bits[i, j] = value
        return bits

    long = LongTable(X=numbers.matrix(), bag=names_in(roles.bag), feature_names=[headings[i] for i in roles.features])
    if roles.bag_name is not None:
        long.bag_name = names_in(roles.bag_name)
    if roles.labels is not None:
        long.indicator, long.class_names = encode_label_lists(
            [split_labels(cell, LIST_MARK) for cell in cells[roles.labels]], None
        )
    elif roles.one_hot:
        long.indicator = bits_in(roles.one_hot)
        long.class_names = [headings[column].removeprefix(LABEL_PREFIX) for column in roles.one_hot]
    if roles.labelled is not None:
        long.labelled = bits_in([roles.labelled])[:, 0].astype(bool)
    if roles.instance_label is not None:
        long.instance_labels = [undefuse(cell) or None for cell in cells[roles.instance_label]]
    if roles.location is not None:
        long.locations = parse_locations(map(undefuse, cells[roles.location]), where)
    return to_dataset(long, path.stem, where), _understood(source, headings, roles)


def _understood(source: str, headings: list[str], roles: Roles) -> str:
    parts = [f"a row per instance, {source}", f"bags by {headings[roles.bag]!r}"]
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


def write_csv(
    data: BagDataset | Iterable[BagDataset],
    path: str | os.PathLike[str],
    numbered: bool | None = None,
    marked: bool | None = None,
) -> None:
    """Write a data set as CSV: bag, one column of 0 and 1 for each class, instance label, location, features.

    It may come in pieces of whole bags with the same classes and features; `numbered` and `marked` are those of
    `to_write`. Cells are separated by tabs where the name ends in .tsv, else by commas.
    """
    first, pieces, numbered, marked = to_write(data, numbered, marked)
    written = 0
    headings = [defuse(heading) for heading in _headings(first, numbered, marked)]
    with csv_writer(path, headings, "\t" if Path(path).suffix.casefold() == ".tsv" else ",") as writer:
        for piece in pieces:
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
