"""Which bags a parquet file holds, from the columns of bags and labels alone.

A first pass reads no features (of nested files it must, since only they say how many instances a bag has) and gives the
outline of the file; after that any range of rows that holds whole bags can be read, as often as needed.
"""

from __future__ import annotations

import os
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np

from bagwise.core.bags import offsets_of
from bagwise.core.exceptions import FormatError
from bagwise.io._footer import read_footer
from bagwise.io.data._long import INSTANCE_LABELS, LABELLED, place
from bagwise.io.files import PathLike


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
    def of(cls, path: PathLike) -> Fingerprint:
        about = os.stat(path)
        return cls(about.st_size, about.st_mtime_ns, blake2b(read_footer(Path(path)), digest_size=16).hexdigest())


class _Labels:
    """Labels of bags as numbers, in order of appearance."""

    def __init__(self, given: list[Any] | None):
        self.number: dict[Any, int] = {label: i for i, label in enumerate(given or [])}
        self.fixed = given is not None
        self.counts, self.codes = array("i"), array("i")  # not lists, which would take several times the room
        self.last = dict[Any, None]()

    def add(self, given: list[Any], begins: bool, place: str) -> None:
        """The labels of one row; those of a row with which no bag begins must be those of the row before."""
        labels = dict.fromkeys(given)
        if not begins:
            if labels.keys() != self.last.keys():
                raise _differ(place, "the labels differ")
            return
        self.last = labels
        for label in labels:
            if self.fixed and label not in self.number:
                raise FormatError(
                    f"{place}: the label {label!r} is none of the classes that the file's metadata names."
                )
            self.codes.append(self.number.setdefault(label, len(self.number)))
        self.counts.append(len(labels))


def read_outline(file: Any) -> FileOutline:
    """The bags of a `ParquetBags`; an error names the row where those of one bag do not stand together, or disagree."""
    roles, nested = file.roles, file.nested
    bag = file.headings[roles.bag]
    if nested:  # instance labels say how many instances a bag has, without reading these
        bag = INSTANCE_LABELS if INSTANCE_LABELS in file.headings else file._instances
    used = [file.headings[i] for i in (roles.labels, roles.labelled, *roles.one_hot) if i is not None]
    labels = _Labels(list(roles.one_hot.values()) or file.class_names)
    starts, keys = list[np.ndarray](), [np.empty((0, 2), np.uint64)]
    sizes, marks = list[np.ndarray](), list[np.ndarray]()
    last_id: Any = None
    last_mark = False
    for first_row, batch in file.light_batches([bag, *used]):
        where = partial(place, file.path, first_row)
        table = file._arrow.Table.from_batches([batch])
        begins = np.ones(len(batch), dtype=bool)
        if nested:
            found = np.asarray(file._arrow.compute.list_value_length(batch.column(bag)).fill_null(0))
            if (found == 0).any():
                raise FormatError(f"{where(int(np.argmin(found)))}: the bag is empty; remove its row.")
            sizes.append(found)
        else:
            codes, names = file._coded(batch.column(bag), where)
            begins[0] = first_row == 0 or names[codes[0]] != last_id
            begins[1:] = codes[1:] != codes[:-1]
            last_id = names[codes[-1]]
            keys.append(_keys([names[code] for code in codes[begins]]))
        rows = np.flatnonzero(begins)
        starts.append(first_row + rows)
        if file.has_labels:
            # rows on which the labels are written otherwise than on the row above must still name the same ones
            looked = np.flatnonzero(begins if begins.all() else begins | _changes(file, table, where))
            for row, given in zip(looked, _labels_at(file, table, looked, where), strict=True):
                labels.add(given, begins[row], where(int(row)))
        if roles.labelled is not None:
            bits = file._bits(table, roles.labelled, where).astype(bool)
            differs = np.concatenate([[bits[0] != last_mark], bits[1:] != bits[:-1]]) & ~begins
            if differs.any():
                raise _differ(where(int(np.argmax(differs))), f"{LABELLED!r} differs")
            marks.append(bits[rows])
            last_mark = bool(bits[-1])
    first_rows = np.concatenate(starts)
    counts = np.zeros(len(first_rows), np.int64)
    if file.has_labels:
        counts += np.frombuffer(labels.counts, np.int32)
    labelled = np.concatenate(marks) if marks else np.full(len(first_rows), file.has_labels)
    wrong = ~labelled & (counts > 0)
    if wrong.any():
        first = int(first_rows[np.argmax(wrong)])
        raise FormatError(
            f"{place(file.path, 0, first)}: {LABELLED!r} is 0, but the bag has labels; write 1, or clear them."
        )
    return FileOutline(
        sizes=np.concatenate(sizes).astype(np.int64) if nested else np.diff(np.append(first_rows, file.n_rows)),
        keys=np.concatenate(keys),
        first_rows=first_rows,
        n_listed=counts,
        listed=np.frombuffer(labels.codes, np.int32).copy(),
        labels=list(labels.number),
        labelled=labelled,
    )


def _differ(place: str, what: str) -> FormatError:
    return FormatError(f"{place}: {what} from the first row of the same bag; make them the same on all rows of a bag.")


def _labels_at(file: Any, table: Any, rows: np.ndarray, where: Any) -> list[list[Any]]:
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
    names = list(roles.one_hot.values())
    return [[names[c] for c in np.flatnonzero(row)] for row in bits]


def _changes(file: Any, table: Any, where: Any) -> np.ndarray:
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
    """One number per value; the same value may have several, one number is of one value only."""
    if not arrow.types.is_dictionary(values.type):
        values = values.dictionary_encode()
    return np.asarray(values.indices.fill_null(-1))


def _keys(names: list[Any]) -> np.ndarray:
    """(n, 2) numbers by which bags are distinguished: a whole number as it is, a text by its digest."""
    if names and isinstance(names[0], int):
        keys = np.zeros((len(names), 2), dtype=np.uint64)
        keys[:, 0] = np.array(names, dtype=np.int64).view(np.uint64)
        return keys
    digests = b"".join(blake2b(name.encode(), digest_size=16).digest() for name in names)
    return np.frombuffer(digests, dtype=np.uint64).reshape(-1, 2)


def check_distinct(files: Sequence[Any], outlines: Sequence[FileOutline]) -> None:
    """No bag is in two files, or in two places of one."""
    keys = np.concatenate([outline.keys for outline in outlines])
    if not len(keys):
        return
    order = np.lexsort((keys[:, 1], keys[:, 0]))
    same = np.flatnonzero((keys[order[1:]] == keys[order[:-1]]).all(axis=1))
    if not len(same):
        return
    starts = offsets_of([len(outline.keys) for outline in outlines])
    bags = sorted(order[same[0] : same[0] + 2].tolist())
    (one, first), (other, second) = (
        (f := int(np.searchsorted(starts, bag, side="right")) - 1, int(outlines[f].first_rows[bag - starts[f]]))
        for bag in bags
    )
    name = files[other].bag_name_at(second)
    if one == other:
        raise FormatError(
            f"{files[one].path}, row {second + 1}: the bag {name!r} began at row {first + 1} and was left; sort the "
            "rows by bag, so that the file can be read in pieces."
        )
    raise FormatError(
        f"{files[other].path}, row {second + 1}: the bag {name!r} is also in {files[one].path}, row {first + 1}; put "
        "all rows of a bag into one file, or name the bags differently if they are not the same."
    )
