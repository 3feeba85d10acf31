"""Delimited text with a row per instance: our CSV, that of the mimllearning package, and the ``.data`` of musk."""

from __future__ import annotations

import csv
import re
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from bagwise.core.dataset import BagDataset, as_column
from bagwise.core.exceptions import FormatError, InputError
from bagwise.io.data._long import (
    BAG,
    BAG_NAME,
    INSTANCE_LABEL,
    LABEL_PREFIX,
    LABELLED,
    LOCATION,
    ROLES,
    Roles,
    check_bare,
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
    unique_names,
)
from bagwise.io.files import PathLike, atomic_write, defuse, undefuse
from bagwise.io.labels import LIST_MARK, split_labels
from bagwise.io.tables import check_width, csv_writer, open_rows

BITS = {"0": 0, "1": 1, "0.0": 0, "1.0": 1, "0.": 0, "1.": 1, "false": 0, "true": 1}
MUSK, CONFORMATION = "musk", "conformation"
_COUNT = re.compile(r"[1-9][0-9]{0,5}")

# ---------------------------------------------------------------------------------------------------------------------
# Reading


def read_csv(
    path: PathLike,
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
    line, first = next(rows)
    headings = [undefuse(cell.strip()) for cell in first]
    roles = find_roles(headings, f"{path}, row {line}", bag, labels, instance_label, features)
    found = _Rows(path, rows, headings, roles, (line, source), separator)
    values: dict[str, Any] = {}
    if roles.bag_name is not None:
        values["bag_name"] = found.names(roles.bag_name)
    if roles.labels is not None:
        lists = [split_labels(cell, LIST_MARK) for cell in found.cells[roles.labels]]
        values["indicator"], values["class_names"] = encode_label_lists(lists, None)
    if roles.labelled is not None:
        values["labelled"] = found.bits([roles.labelled])[:, 0].astype(bool)
    if roles.instance_label is not None:
        values["instance_labels"] = [undefuse(cell) or None for cell in found.cells[roles.instance_label]]
    if roles.location is not None:
        values["locations"] = parse_locations(map(undefuse, found.cells[roles.location]), found.where)
    understood = f"a row per instance, {source}, {roles.described(headings)}, {len(roles.features)} features"
    return found.dataset(**values), understood


def read_miml_csv(path: PathLike) -> tuple[BagDataset, str]:
    """Read the CSV of mimllearning: the number of labels, a heading, a row per instance with its bag's labels."""
    path = Path(path)
    rows, _, source = open_rows(path, ",")
    line, first = next(rows)
    if len(first) != 1 or not _COUNT.fullmatch(first[0]):
        raise FormatError(f"{path}, row {line}: expected the number of labels alone, got {','.join(first)[:40]!r}.")
    n_labels = int(first[0])
    line, headings = next(rows, (line + 1, []))
    if len(headings) < n_labels + 2 or len(set(headings)) < len(headings):
        raise FormatError(
            f"{path}, row {line}: expected different names of the bag's id, of at least one feature and of "
            f"{n_labels} labels, got {len(headings)} names ({len(set(headings))} different)."
        )
    split = len(headings) - n_labels
    roles = Roles(0, range(1, split), one_hot=dict(enumerate(headings[split:], start=split)))
    found = _Rows(path, rows, headings, roles, (line, source), text=str)
    return found.dataset(), f"a row per instance, {split - 1} features and {n_labels} labels"


def read_musk(path: PathLike) -> tuple[BagDataset, str]:
    """Read a file in the manner of ``clean1.data``: molecule, conformation, features and class on every row."""
    path = Path(path)
    rows, _, source = open_rows(path, ",")
    line, first = next(rows)
    width = len(first)
    if width < 4:
        raise FormatError(
            f"{path}, row {line}: there are {width} cells but expected at least 4: molecule, conformation, features, "
            "class."
        )
    roles = Roles(0, range(2, width - 1), one_hot={width - 1: MUSK}, location=1)
    found = _Rows(path, chain([(line, first)], rows), width, roles, (line, source), text=str)
    dataset = found.dataset(locations={CONFORMATION: as_column(found.cells[1])})
    return dataset, f"a row per conformation, {width - 3} features, one class"


class _Rows:
    """The columns of rows that come one at a time; features become numbers at once, so that no row is kept as text.

    Parameters
    ----------
    path : path
    rows : iterable of (line, cells)
    headings : list of str or int
        Or how many columns there are, which have no names.
    roles : Roles
    about : (line, source)
        Where the headings stand, and how the file was understood, for errors.
    separator : str
    text : function
        What a cell of text says.
    """

    def __init__(
        self,
        path: Path,
        rows: Iterable[tuple[int, list[str]]],
        headings: list[str] | int,
        roles: Roles,
        about: tuple[int, str],
        separator: str = ",",
        text: Callable[[str], str] = undefuse,
    ):
        self.path, self.headings, self.roles, self.separator, self.text = path, headings, roles, separator, text
        self.lines, width = list[int](), headings if isinstance(headings, int) else len(headings)
        self.cells: dict[int, list[str]] = {column: [] for column in roles.others}
        numbers = array("d")
        for line, row in rows:
            check_width(row, width, path, line, *about)
            cells = [row[c] for c in roles.features]
            try:
                numbers.extend(map(float, cells))
            except ValueError:
                raise FormatError(self._why_no_number(row, line)) from None
            if any("_" in cell for cell in cells):  # Python reads 1_000 as a number, nobody else does
                raise FormatError(self._why_no_number(row, line))
            self.lines.append(line)
            for column, kept in self.cells.items():
                kept.append(row[column])
        if not self.lines:
            raise FormatError(f"{path}: there is a heading but no row below it; add a row for each instance.")
        self.X = np.frombuffer(numbers, dtype=np.float64).reshape(-1, len(roles.features))

    def heading(self, column: int) -> str:
        return f"column {column + 1}" if isinstance(self.headings, int) else self.headings[column]

    def where(self, row: int) -> str:
        return f"{self.path}, row {self.lines[row]}"

    def dataset(self, **values: Any) -> BagDataset:
        """The data set, with what was made of columns besides those of bags, features, and zeros and ones."""
        roles = self.roles
        if roles.one_hot:
            values |= {"indicator": self.bits(list(roles.one_hot)), "class_names": list(roles.one_hot.values())}
        if not isinstance(self.headings, int):
            values["feature_names"] = [self.headings[i] for i in roles.features]
        return to_dataset(self.X, self.names(roles.bag), self.path.stem, self.where, **values)

    def names(self, column: int) -> list[str]:
        """Names of bags."""
        values = [self.text(cell) for cell in self.cells[column]]
        if not all(values):
            place = self.where(values.index(""))
            raise FormatError(f"{place}: the cell of the column {self.heading(column)!r} is empty; name the bag.")
        return values

    def bits(self, columns: Sequence[int]) -> np.ndarray:
        """(m, k) zeros and ones."""
        bits = np.zeros((len(self.lines), len(columns)), dtype=np.uint8)
        for j, column in enumerate(columns):
            for i, cell in enumerate(self.cells[column]):
                value = BITS.get(cell.strip().casefold())
                if value is None:
                    raise FormatError(f"{self.where(i)}: {self.heading(column)!r} is {cell[:40]!r}; write 0 or 1.")
                bits[i, j] = value
        return bits

    def _why_no_number(self, row: list[str], line: int) -> str:
        """The likely cause, with its place and column."""
        column = next(c for c in self.roles.features if not _is_number(row[c]))
        cell, what = row[column], f"{self.path}, row {line}: the feature {self.heading(column)!r} is"
        if not cell.strip():
            return f"{what} empty; fill in a number, or remove the row."
        what = f"{what} {cell[:40]!r}, which is no number"
        if self.separator != "," and _is_number(cell.replace(",", ".")):
            return f"{what} because of its decimal comma; write {cell.strip().replace(',', '.')}."
        return f"{what}; correct it, or name the columns that are features."


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return "_" not in cell


# ---------------------------------------------------------------------------------------------------------------------
# Writing


def write_bags_csv(
    data: BagDataset | Iterable[BagDataset],
    path: PathLike,
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


def write_miml_csv(dataset: BagDataset, path: PathLike) -> None:
    """Write the CSV of mimllearning. Its reader cuts at commas, so names must not hold any."""
    if dataset.Y is None:
        raise InputError("The CSV of mimllearning needs bag labels, and the data set has none; use csv or parquet.")
    names, X, offsets = unique_names(dataset), dense_features(dataset), dataset.bags.offsets
    headings = ["id", *feature_names_of(dataset), *map(str, dataset.class_names)]
    check_bare([*headings, *names], "the CSV of mimllearning")
    if len(set(headings)) < len(headings):
        raise InputError("A feature and a class have the same name, or one is named 'id'; rename it.")
    with atomic_write(path, "w") as file:
        file.write(f"{dataset.n_classes}\n")
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(headings)
        for b, name in enumerate(names):
            bits = dataset.Y[b].tolist()
            for row in X[offsets[b] : offsets[b + 1]].astype(np.float64).tolist():
                writer.writerow([name, *row, *bits])


def write_musk(dataset: BagDataset, path: PathLike) -> None:
    """Write a file in the manner of ``clean1.data``; the data must have exactly one class."""
    if dataset.Y is None or dataset.n_classes != 1:
        raise InputError(
            f"A musk file holds exactly one class, and the data set has {dataset.n_classes}; use csv or parquet."
        )
    names, X, offsets = unique_names(dataset), dense_features(dataset), dataset.bags.offsets
    conformations = (dataset.locations or {}).get(CONFORMATION)
    with atomic_write(path, "w") as file:
        for b, name in enumerate(names):
            for i in range(offsets[b], offsets[b + 1]):
                given = None if conformations is None else conformations[i]
                conformation = f"{name}_{i - offsets[b] + 1}" if given is None else str(given)
                check_bare((name, conformation), "a musk file")
                numbers = ",".join(map(repr, X[i].astype(np.float64).tolist()))
                file.write(f"{name},{conformation},{numbers},{dataset.Y[b, 0]}.\n")
