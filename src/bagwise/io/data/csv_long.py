"""CSV in the long form: a row an instance."""

from __future__ import annotations

import csv
import os
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
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
from bagwise.io.text import SEPARATORS, TextTable, defuse, read_rows, undefuse


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
    table = read_rows(path, separator, trim=False)
    headings = [cell.strip() for cell in table.rows[0]]
    roles = find_roles(
        [undefuse(h) for h in headings], f"{path}, row {table.lines[0]}", bag, labels, instance_label, features
    )
    where = partial(_place, path, table.lines)
    if len(table.rows) < 2:
        raise FormatError(f"{path}: there is a heading but no row below it; add a row for each instance.")
    headings = [undefuse(heading) for heading in headings]
    width = len(headings)
    for i, row in enumerate(table.rows[1:]):
        if len(row) != width:
            raise FormatError(
                f"{where(i)}: there are {len(row)} cells but {width} headings (separated by "
                f"{SEPARATORS[table.separator]}); put cells that contain the separator in quotes."
            )
    X = parse_numbers(table.rows[1:], roles.features, headings, where, table.separator)
    indicator, class_names = _labels(table, roles, headings, where)
    long = LongTable(
        X=X,
        bag=_column(table, roles.bag, where, "bag"),
        feature_names=[headings[i] for i in roles.features],
        bag_name=None if roles.bag_name is None else _column(table, roles.bag_name, where, "bag_name"),
        indicator=indicator,
        class_names=class_names,
        labelled=None if roles.labelled is None else _bits(table, [roles.labelled], headings, where)[:, 0].astype(bool),
        instance_labels=None if roles.instance_label is None else [
            undefuse(row[roles.instance_label]) or None for row in table.rows[1:]
        ],
        locations=None if roles.location is None else parse_locations(
            (undefuse(row[roles.location]) for row in table.rows[1:]), where
        ),
    )  # fmt: skip
    return to_dataset(long, path.stem, where), _understood(table.separator, headings, roles)


def _place(path: Path, lines: list[int], row: int) -> str:
    return f"{path}, row {lines[row + 1]}"


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


def parse_numbers(
    rows: list[list[str]], columns: list[int], headings: list[str], where: Any, separator: str = ","
) -> np.ndarray:
    """(m, d) array of the numbers in some columns; an error names row, column and the likely cause."""
    X = np.empty((len(rows), len(columns)))
    for i, row in enumerate(rows):
        try:
            X[i] = [float(row[c]) for c in columns]
        except ValueError:
            raise FormatError(_why_no_number(row, columns, headings, where(i), separator)) from None
        if any("_" in row[c] for c in columns):  # Python reads 1_000 as a number, nobody else does
            raise FormatError(_why_no_number(row, columns, headings, where(i), separator))
    return X


def _why_no_number(row: list[str], columns: list[int], headings: list[str], place: str, separator: str) -> str:
    bad = next(c for c in columns if not _is_number(row[c]))
    cell = row[bad]
    what = f"{place}: the feature {headings[bad]!r} is {cell[:40]!r}, which is no number"
    if not cell.strip():
        return f"{place}: the feature {headings[bad]!r} is empty; fill in a number, or remove the row."
    if separator != "," and _is_number(cell.replace(",", ".")):
        return f"{what} because of its decimal comma; write {cell.strip().replace(',', '.')}."
    return f"{what}; correct it, or name the columns that are features."


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return "_" not in cell


def _column(table: TextTable, column: int, where: Any, name: str) -> list[str]:
    values = [undefuse(row[column]) for row in table.rows[1:]]
    if not all(values):
        raise FormatError(f"{where(values.index(''))}: the cell of the column {name!r} is empty; name the bag.")
    return values


def _labels(
    table: TextTable, roles: Roles, headings: list[str], where: Any
) -> tuple[np.ndarray | None, list[str] | None]:
    if roles.labels is not None:
        cells = [
            [undefuse(part.strip()) for part in row[roles.labels].split(LIST_MARK) if part.strip()]
            for row in table.rows[1:]
        ]
        return encode_label_lists(cells, None)
    if not roles.one_hot:
        return None, None
    names = [headings[column].removeprefix(LABEL_PREFIX) for column in roles.one_hot]
    return _bits(table, roles.one_hot, headings, where), names


def _bits(table: TextTable, columns: Sequence[int], headings: list[str], where: Any) -> np.ndarray:
    """(m, k) zeros and ones of some columns."""
    bits = np.zeros((len(table.rows) - 1, len(columns)), dtype=np.uint8)
    for i, row in enumerate(table.rows[1:]):
        for j, column in enumerate(columns):
            value = ONE_HOT.get(row[column].strip().casefold())
            if value is None:
                raise FormatError(f"{where(i)}: {headings[column]!r} is {row[column][:40]!r}; write 0 or 1.")
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
