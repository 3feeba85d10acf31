"""A parquet file of bags by ranges of its rows: which bags there are, from the columns of bags and labels alone.

A first pass reads no features (of nested files it must, since only they say how many instances a bag has) and gives the
outline of the file; after that any range of rows that holds whole bags can be read, as often as needed.
"""

from __future__ import annotations

import os
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np

from bagwise.bags import Bags, offsets_of
from bagwise.dataset import BagDataset
from bagwise.exceptions import FormatError
from bagwise.io.data.long import LABEL_PREFIX, LABELLED
from bagwise.io.data.parquet import INSTANCE_LABELS, ParquetBags, _place
from bagwise.io.parquet_file import arrow_errors, plain_labels, python_values
from bagwise.io.parquet_footer import read_footer

LIGHT_ROWS = 1 << 17  # of columns of bags and labels that are read at a time
READ_ROWS = 1 << 15  # of features
READ_BAGS = 1 << 8


@dataclass(frozen=True)
class FileOutline:
    """What a file says of its bags, without their instances.

    Attributes
    ----------
    sizes : (n,) number of instances of each bag
    keys : (n, 2) uint64, which tell the bags apart; none where every row is a bag
    first_rows : (n,) row at which each bag begins
    n_listed, listed : (n,) number of labels of each bag, and all of these in a row, as numbers of `labels`
    labels : list of the labels that occur
    labelled : (n,) bool
    """

    sizes: np.ndarray
    keys: np.ndarray
    first_rows: np.ndarray
    n_listed: np.ndarray
    listed: np.ndarray
    labels: list[Any]
    labelled: np.ndarray


@dataclass(frozen=True)
class Fingerprint:
    """By which a file is known again: its size, when it was changed, and where its footer says that things are."""

    size: int
    changed: int
    footer: str

    @classmethod
    def of(cls, path: str | os.PathLike[str]) -> Fingerprint:
        about = os.stat(path)
        return cls(about.st_size, about.st_mtime_ns, blake2b(read_footer(Path(path)), digest_size=16).hexdigest())


class ParquetParts(ParquetBags):
    """`ParquetBags` that are read by ranges of rows."""

    @property
    def has_labels(self) -> bool:
        return self.roles.labels is not None or bool(self.roles.one_hot)

    @property
    def has_instance_labels(self) -> bool:
        return self._instance_label_column is not None

    @property
    def _instance_label_column(self) -> str | None:
        if self.form == "nested":
            return INSTANCE_LABELS if INSTANCE_LABELS in self.headings else None
        return None if self.roles.instance_label is None else self.headings[self.roles.instance_label]

    @property
    def group_rows(self) -> np.ndarray:
        """Row at which each row group begins, and the number of rows."""
        metadata = self._file.metadata
        return offsets_of([metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)])

    # -- the first pass -----------------------------------------------------------------------------------------------

    def outline(self) -> FileOutline:
        """The bags of the file; an error names the row where those of one bag do not stand together, or disagree."""
        with arrow_errors(self.path):
            return _nested_outline(self) if self.form == "nested" else _long_outline(self)

    def light_batches(self, names: list[str]) -> Iterator[tuple[int, Any]]:
        """First row, and batch, of these columns."""
        first = 0
        size = READ_BAGS if self.form == "nested" and self._instances in names else LIGHT_ROWS
        for batch in self._file.iter_batches(batch_size=size, columns=names):
            yield first, batch
            first += len(batch)

    def known(self, class_names: Sequence[Any], n_instances: int) -> np.ndarray:
        """(m,) int32 class of every instance, -1 where unknown."""
        name, codes, at = self._instance_label_column, np.full(n_instances, -1, dtype=np.int32), 0
        column = {label: c for c, label in enumerate(class_names)} | {None: -1}
        assert name is not None
        with arrow_errors(self.path):
            for first, batch in self.light_batches([name]):
                values = python_values(self._arrow, batch.column(0))
                if self.form == "nested":
                    values = [label for row in values for label in row or ()]
                for label in plain_labels(values):
                    if label not in column:
                        raise FormatError(
                            f"{self.path}, from row {first + 1} on: the instance label {label!r} is no label of any "
                            "bag; correct it, or leave it empty."
                        )
                    codes[at] = column[label]
                    at += 1
        return codes

    # -- ranges of rows -----------------------------------------------------------------------------------------------

    def bags(self, start: int, ranges: Sequence[tuple[int, np.ndarray]]) -> Iterator[Bags]:
        """Bags of ranges of rows that follow each other from row `start` on: the row where each ends, its bags' sizes.

        Features alone are read.
        """
        names = [self.headings[i] for i in self.roles.features]
        for (stop, sizes), batches in zip(
            ranges, self._ranges(names, start, [stop for stop, _ in ranges]), strict=True
        ):
            with arrow_errors(self.path):
                X = self._collect(batches, stop - start, int(sizes.sum()))
            yield Bags(X, offsets_of(sizes))
            start = stop

    def dataset(self, start: int, stop: int) -> BagDataset:
        """Everything in a range of rows."""
        with arrow_errors(self.path):
            (batches,) = self._ranges(self._columns(), start, [stop])
            return self._to_dataset(self._arrow.Table.from_batches(list(batches)), start)

    def bag_name_at(self, row: int) -> Any:
        """What the bag of a row is called."""
        name = self.headings[self.roles.bag]
        (batches,) = self._ranges([name], row, [row + 1])
        return python_values(self._arrow, next(batches).column(0))[0]

    def first_size(self) -> np.ndarray:
        """Number of instances of the first bag of a nested file."""
        (batches,) = self._ranges([self._instances], 0, [1])
        return np.asarray(self._arrow.compute.list_value_length(next(batches).column(0)))

    def _collect(self, batches: Iterator[Any], n_rows: int, n_instances: int) -> np.ndarray:
        """The features of some batches in one array, which is all the memory that it takes beside a batch."""
        X, at, rows = None, 0, 0
        for batch in batches:
            table = self._arrow.Table.from_batches([batch])
            if self.form == "nested":
                block = self._nested_features(table, partial(_place, self.path, 0))[0]
            else:
                block = self._features(table)
            if X is None:
                X = np.empty((n_instances, block.shape[1]), dtype=self.dtype)
            if at + len(block) > n_instances:
                break
            X[at : at + len(block)] = block
            at, rows = at + len(block), rows + len(batch)
        if X is None or at != n_instances or rows != n_rows:
            raise FormatError(
                f"{self.path}: it holds other instances than at the first pass; leave it alone meanwhile."
            )
        return X

    def _ranges(self, names: list[str], start: int, stops: Sequence[int]) -> Iterator[Iterator[Any]]:
        """For each range of rows, an iterator of batches of these columns, to be used up before the next."""
        groups = self.group_rows
        first = int(np.searchsorted(groups, start, side="right")) - 1
        last = int(np.searchsorted(groups, stops[-1], side="left"))
        size = READ_BAGS if self.form == "nested" else READ_ROWS
        stream = self._file.iter_batches(batch_size=size, row_groups=list(range(first, last)), columns=names)
        left: list[Any] = []  # what of the last batch belongs to later ranges
        at = int(groups[first])

        def until(stop: int) -> Iterator[Any]:
            nonlocal at
            while at < stop:
                batch = left.pop() if left else next(stream, None)
                if batch is None:
                    return
                skipped = max(start - at, 0)
                if skipped >= len(batch):
                    at += len(batch)
                    continue
                if at + len(batch) > stop:
                    left.append(batch.slice(stop - at))
                    batch = batch.slice(0, stop - at)
                at += len(batch)
                yield batch.slice(skipped) if skipped else batch

        for stop in stops:
            yield until(stop)


# ---------------------------------------------------------------------------------------------------------------------
# The first pass


class _Labels:
    """Labels of bags as numbers, in order of appearance."""

    def __init__(self, given: list[Any] | None, path: Path):
        self.number: dict[Any, int] = {label: i for i, label in enumerate(given or [])}
        self.fixed, self.path = given is not None, path
        self.counts, self.codes = array("i"), array("i")  # not lists, which would take several times the room

    def add(self, labels: Sequence[Any], place: str) -> None:
        distinct = dict.fromkeys(labels)
        for label in distinct:
            if self.fixed and label not in self.number:
                raise FormatError(
                    f"{place}: the label {label!r} is none of the classes that the file's metadata names."
                )
            self.codes.append(self.number.setdefault(label, len(self.number)))
        self.counts.append(len(distinct))


def _long_outline(file: ParquetParts) -> FileOutline:
    roles, arrow = file.roles, file._arrow
    used = [roles.bag, roles.labels, roles.labelled, *roles.one_hot]
    names = [file.headings[i] for i in used if i is not None]
    one_hot = [file.headings[i].removeprefix(LABEL_PREFIX) for i in roles.one_hot]
    labels = _Labels(one_hot if roles.one_hot else file.class_names, file.path)
    starts, keys, marks = list[np.ndarray](), list[np.ndarray](), list[np.ndarray]()
    last_id: Any = None
    last_set: Any = None
    last_mark = False
    for first_row, batch in file.light_batches(names):
        where = partial(_place, file.path, first_row)
        ids = file._coded(batch.column(names[0]), where)
        begins = np.concatenate(
            [[first_row == 0 or ids.values[ids.codes[0]] != last_id], ids.codes[1:] != ids.codes[:-1]]
        )
        rows = np.flatnonzero(begins)
        last_id = ids.values[ids.codes[-1]]
        starts.append(first_row + rows)
        keys.append(_keys([ids.values[code] for code in ids.codes[rows]]))
        table = arrow.Table.from_batches([batch])
        if file.has_labels:
            found = _labels_at(file, table, rows, where)
            for row, given in zip(rows, found, strict=True):
                labels.add(given, where(int(row)))
            # rows on which the labels are written otherwise than on the row above must still name the same ones
            doubtful = np.flatnonzero(_changes(file, table, where) & ~begins)
            bag = np.cumsum(begins) - 1
            for row, given in zip(doubtful, _labels_at(file, table, doubtful, where), strict=True):
                right = set(found[bag[row]]) if bag[row] >= 0 else last_set
                if set(given) != right:
                    raise FormatError(
                        f"{where(int(row))}: the labels differ from the first row of the same bag; make them the same "
                        "on all rows of a bag."
                    )
            last_set = set(found[-1]) if len(found) else last_set
        if roles.labelled is not None:
            bits = file._bits(table, roles.labelled, where).astype(bool)
            differs = np.concatenate([[bits[0] != last_mark], bits[1:] != bits[:-1]]) & ~begins
            if differs.any():
                raise FormatError(
                    f"{where(int(np.argmax(differs)))}: {LABELLED!r} differs from the first row of the same bag; make "
                    "it the same on all rows of a bag."
                )
            marks.append(bits[rows])
            last_mark = bool(bits[-1])
    return _outline(file, labels, np.concatenate(starts), None, np.concatenate(keys), marks)


def _nested_outline(file: ParquetParts) -> FileOutline:
    roles, arrow = file.roles, file._arrow
    lengths = INSTANCE_LABELS if INSTANCE_LABELS in file.headings else file._instances
    used = [roles.labels, roles.labelled, *roles.one_hot]
    names = [file.headings[i] for i in used if i is not None]
    one_hot = [file.headings[i].removeprefix(LABEL_PREFIX) for i in roles.one_hot]
    labels = _Labels(one_hot if roles.one_hot else file.class_names, file.path)
    sizes, marks = list[np.ndarray](), list[np.ndarray]()
    for first_row, batch in file.light_batches([*names, lengths]):
        where = partial(_place, file.path, first_row)
        table = arrow.Table.from_batches([batch])
        found = np.asarray(arrow.compute.list_value_length(batch.column(lengths)).fill_null(0))
        if (found == 0).any():
            raise FormatError(f"{where(int(np.argmin(found)))}: the bag is empty; remove its row.")
        sizes.append(found)
        if file.has_labels:
            rows = np.arange(len(batch))
            for row, given in zip(rows, _labels_at(file, table, rows, where), strict=True):
                labels.add(given, where(int(row)))
        if roles.labelled is not None:
            marks.append(file._bits(table, roles.labelled, where).astype(bool))
    all_sizes = np.concatenate(sizes).astype(np.int64)
    return _outline(file, labels, np.arange(len(all_sizes)), all_sizes, np.empty((0, 2), np.uint64), marks)


def _outline(
    file: ParquetParts,
    labels: _Labels,
    first_rows: np.ndarray,
    sizes: np.ndarray | None,
    keys: np.ndarray,
    marks: list[np.ndarray],
) -> FileOutline:
    counts = np.zeros(len(first_rows), np.int64)
    if file.has_labels:
        counts += np.frombuffer(labels.counts, np.int32)
    labelled = np.concatenate(marks) if marks else np.full(len(first_rows), file.has_labels)
    wrong = ~labelled & (counts > 0)
    if wrong.any():
        row = int(first_rows[np.argmax(wrong)])
        raise FormatError(
            f"{_place(file.path, 0, row)}: {LABELLED!r} is 0, but the bag has labels; write 1, or clear them."
        )
    return FileOutline(
        sizes=np.diff(np.append(first_rows, file.n_rows)) if sizes is None else sizes, keys=keys,
        first_rows=first_rows, n_listed=counts, listed=np.frombuffer(labels.codes, np.int32).copy(),
        labels=list(labels.number), labelled=labelled,
    )  # fmt: skip


def _labels_at(file: ParquetParts, table: Any, rows: np.ndarray, where: Any) -> list[list[Any]]:
    """The labels on some rows of a table."""
    if not len(rows):
        return []
    roles = file.roles
    taken = table.take(file._arrow.array(rows))

    def at(row: int) -> str:
        return where(int(rows[row]))

    if roles.labels is not None:
        return file._label_lists(file._column(taken, roles.labels), at)
    bits = np.stack([file._bits(taken, i, at) for i in roles.one_hot], axis=1)
    names = [file.headings[i].removeprefix(LABEL_PREFIX) for i in roles.one_hot]
    return [[names[c] for c in np.flatnonzero(row)] for row in bits]


def _changes(file: ParquetParts, table: Any, where: Any) -> np.ndarray:
    """(m,) rows on which labels are written otherwise than on the row above; true on the first."""
    roles, arrow = file.roles, file._arrow
    changed = np.ones(table.num_rows, dtype=bool)
    if roles.labels is None:
        bits = np.stack([file._bits(table, i, where) for i in roles.one_hot], axis=1)
        changed[1:] = (bits[1:] != bits[:-1]).any(axis=1)
        return changed
    column = file._column(table, roles.labels).combine_chunks()
    if not arrow.types.is_list(column.type) and not arrow.types.is_large_list(column.type):
        codes = _codes(arrow, column)
        changed[1:] = codes[1:] != codes[:-1]
        return changed
    sizes = np.asarray(arrow.compute.list_value_length(column).fill_null(0)).astype(np.int64)
    changed[1:] = sizes[1:] != sizes[:-1]
    codes, offsets = _codes(arrow, column.flatten()), offsets_of(sizes)
    row_of = np.repeat(np.arange(len(sizes)), sizes)
    position = np.flatnonzero(~changed[row_of])  # entries of rows with as many labels as the row above
    other = codes[position] != codes[position - sizes[row_of[position]]]
    assert offsets[-1] == len(codes)
    changed[row_of[position[other]]] = True
    return changed


def _codes(arrow: Any, values: Any) -> np.ndarray:
    """One number a value; the same value may have several, one number is of one value only."""
    if not arrow.types.is_dictionary(values.type):
        values = values.dictionary_encode()
    return np.asarray(values.indices.fill_null(-1))


def _keys(names: list[Any]) -> np.ndarray:
    """(n, 2) numbers by which bags are told apart: a whole number as it is, a text by its digest."""
    if names and isinstance(names[0], int):
        keys = np.zeros((len(names), 2), dtype=np.uint64)
        keys[:, 0] = np.array(names, dtype=np.int64).view(np.uint64)
        return keys
    digests = b"".join(blake2b(name.encode(), digest_size=16).digest() for name in names)
    return np.frombuffer(digests, dtype=np.uint64).reshape(-1, 2)
