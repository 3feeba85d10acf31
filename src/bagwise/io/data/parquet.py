"""Parquet: long (a row an instance) or nested (a row a bag), read in parts, so that a file may exceed the memory.

Long files have the columns of `bagwise.io.data.long`. Nested files have a row a bag: ``bag``, ``labels`` (list),
``labelled``, ``instances`` (list of lists of numbers) and ``instance_labels`` (list). The key ``bagwise`` of the
file's metadata holds JSON: the names of all classes, in order, and of the features where the columns do not tell them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np

from bagwise.columns import import_pyarrow
from bagwise.dataset import BagDataset
from bagwise.exceptions import FormatError
from bagwise.io.data.long import (
    LABEL_PREFIX,
    Coded,
    LongTable,
    Roles,
    encode_label_lists,
    find_roles,
    parse_locations,
    to_dataset,
)
from bagwise.io.labels import LIST_MARK
from bagwise.io.parquet_file import (
    NEEDED_BY,
    arrow_errors,
    arrow_values,
    matrix_of,
    nested_columns,
    open_file,
    plain_labels,
    python_values,
    read_about,
    text_columns,
)
from bagwise.io.parquet_footer import count_bytes, count_values
from bagwise.io.text import check_readable
from bagwise.memory import check_allocation

INSTANCES, INSTANCE_LABELS = "instances", "instance_labels"
BATCH_ROWS = 1 << 15
BATCH_BAGS = 1 << 10
# What reading takes, in bytes (measured): a feature is held as the file has it and as the row of an instance; a row has
# codes of its bag and an order; a cell of labels, names or places becomes a Python object, one of 0 and 1 does not; a
# name that occurs once takes more.
_COPIES, _ROW, _CELL, _BIT, _NAME = 2, 80, 64, 16, 500
_LEAST_NAME = 4  # bytes of a name in the file: the length of a text, or a number


class ParquetBags:
    """A parquet file of bags, whose metadata was read and checked, and nothing else yet.

    Parameters
    ----------
    path : str or path
    bag, labels, instance_label : str or None
        Headings of columns, where they are not the usual ones.
    features : list of str or None
        Headings of the features of a long file; by default all other columns.
    with_labels : bool
        Whether labels, instance labels and locations are read too.

    Attributes
    ----------
    form : {"long", "nested"}
    n_rows : int
        Rows that the file says it has.
    class_names : list or None
    feature_names : list of str or None
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        bag: str | None = None,
        labels: str | None = None,
        instance_label: str | None = None,
        features: Sequence[str] | None = None,
        with_labels: bool = True,
    ):
        self.path = check_readable(path)
        self._arrow = import_pyarrow(NEEDED_BY)
        with arrow_errors(self.path):
            file = open_file(self._arrow, self.path)
            self.schema = file.schema_arrow
            self._file = open_file(self._arrow, self.path, text_columns(file))
            self.n_rows = self._file.metadata.num_rows
            about = read_about(self.schema, self.path)
        self.headings = list(self.schema.names)
        nested = nested_columns(self._arrow, self.schema)
        self.form = "nested" if nested and features is None else "long"
        self.class_names = about.get("class_names")
        where = f"{self.path}, its columns"
        if self.form == "nested":
            self._instances = INSTANCES if INSTANCES in nested else nested[0]
            self.roles = find_roles(self.headings, where, bag, labels, instance_label, features=[self._instances])
            self.feature_names = about.get("feature_names")
        else:
            self.roles = find_roles(self.headings, where, bag, labels, instance_label, features)
            self.feature_names = [self.headings[i] for i in self.roles.features]
            self._check_feature_types()
        if not with_labels:
            self.roles = Roles(bag=self.roles.bag, features=self.roles.features, bag_name=self.roles.bag_name)
        self.with_labels = with_labels
        if self.n_rows < 1:
            raise FormatError(f"{self.path}: it has no rows; there is nothing to read in it.")

    def _check_feature_types(self) -> None:
        types = self._arrow.types
        for i in self.roles.features:
            kind = self.schema.field(i).type
            if not (types.is_floating(kind) or types.is_integer(kind) or types.is_boolean(kind)):
                raise FormatError(
                    f"{self.path}: the column {self.headings[i]!r} holds {str(kind)[:60]}, not numbers; name the "
                    "columns that are features, or remove it."
                )

    @property
    def dtype(self) -> Any:
        """float32 where the file's features are, else float64."""
        kinds = {self.schema.field(i).type for i in self.roles.features}
        if self.form == "nested":
            kinds = {kind.value_type.value_type for kind in kinds}
        return np.float32 if kinds == {self._arrow.float32()} else np.float64

    def understood(self) -> str:
        """How the file was understood, one sentence."""
        row = "a row an instance" if self.form == "long" else f"a row a bag, instances in {self._instances!r}"
        parts = [f"{row}, {self.n_rows} rows in {self._file.num_row_groups} row group(s)"]
        parts.append(f"bags by {self.headings[self.roles.bag]!r}")
        if self.roles.labels is not None:
            parts.append(f"labels from {self.headings[self.roles.labels]!r}")
        elif self.roles.one_hot:
            parts.append(f"labels from {len(self.roles.one_hot)} columns of 0 and 1")
        return ", ".join(parts)

    # -- reading ------------------------------------------------------------------------------------------------------

    def read(self) -> BagDataset:
        """The whole file; its size is held against the memory first."""
        self._check_memory()
        with arrow_errors(self.path):
            batches = list(self._batches())
            table = self._arrow.Table.from_batches(batches)
            return self._to_dataset(table, 0)

    def iter_bags(self) -> Iterator[BagDataset]:
        """The file as a series of data sets of whole bags, each about as large as a batch.

        The rows of a bag must stand one after another.
        """
        self._learn_classes()
        convert = self._iter_long if self.form == "long" else self._iter_nested
        iterator = convert()
        while True:
            with arrow_errors(self.path):
                dataset = next(iterator, None)
            if dataset is None:
                return
            yield dataset

    @property
    def n_cells(self) -> int:
        """Numbers that the features are, as the file says."""
        if self.form == "nested":
            return count_values(self.path).get(self._instances, 0)
        return self.n_rows * len(self.roles.features)

    @property
    def n_bytes(self) -> int:
        """About what reading the whole file takes: features, rows, and the other columns, however well packed."""
        values, sizes = count_values(self.path), count_bytes(self.path)
        total = _COPIES * self.n_cells * np.dtype(self.dtype).itemsize + _ROW * self.n_rows
        for name, cell in self._other_columns().items():
            total += cell * values.get(name, 0)
            if cell != _BIT:
                size = sizes.get(name, 0)
                total += _COPIES * size + _NAME * min(values.get(name, 0), size // _LEAST_NAME)
        return total

    def _other_columns(self) -> dict[str, int]:
        """The columns that are read beside features, and what a cell of each takes beside the row."""
        roles = self.roles
        bits = {self.headings[i] for i in (*roles.one_hot, roles.labelled) if i is not None}
        features = {self.headings[i] for i in roles.features}
        cells = {name: _BIT if name in bits else _CELL for name in self._columns() if name not in features}
        return {**cells, self.headings[roles.bag]: 0}

    def _check_memory(self) -> None:
        what = f"{self.path} with {self.n_rows} rows and {self.n_cells} numbers"
        check_allocation(self.n_bytes, what, "convert or predict it, which read it in parts")

    def check_rows(self, n_rows: int, what: str) -> None:
        """Hold rows of one bag, or of bags that come together, against the memory."""
        n_features = len(self.roles.features) if self.form == "long" else 0  # of a nested file they are there already
        size = _COPIES * n_features * np.dtype(self.dtype).itemsize + _ROW + sum(self._other_columns().values())
        check_allocation(n_rows * size, what, "split this bag")

    def _columns(self) -> list[str]:
        roles = self.roles
        used = [roles.bag, roles.bag_name, roles.labels, roles.labelled, roles.instance_label, roles.location]
        names = [self.headings[i] for i in [*used, *roles.one_hot, *roles.features] if i is not None]
        if self.form == "nested" and self.with_labels and INSTANCE_LABELS in self.headings:
            names.append(INSTANCE_LABELS)
        return list(dict.fromkeys(names))

    def _batches(self) -> Iterator[Any]:
        size = BATCH_ROWS if self.form == "long" else BATCH_BAGS
        yield from self._file.iter_batches(batch_size=size, columns=self._columns())

    def _learn_classes(self) -> None:
        """Where the metadata names no classes, those that occur: a first pass over one column of labels."""
        roles = self.roles
        if self.class_names is not None or roles.one_hot or not self.with_labels:
            return
        if roles.labels is not None:
            name = self.headings[roles.labels]
        elif self.form == "nested" and INSTANCE_LABELS in self.headings:
            name = INSTANCE_LABELS
        elif roles.instance_label is not None:
            name = self.headings[roles.instance_label]
        else:
            return
        found: set[Any] = set()
        with arrow_errors(self.path):
            for batch in self._file.iter_batches(batch_size=BATCH_ROWS, columns=[name]):
                if roles.labels is not None:
                    labels = [label for row in self._label_lists(batch.column(0), None) for label in row]
                else:
                    values = python_values(self._arrow, batch.column(0))
                    rows = values if self.form == "nested" else [values]
                    labels = plain_labels([label for row in rows for label in row or ()])
                found.update(label for label in labels if label is not None)
        self.class_names = sorted(found, key=lambda label: (str(type(label)), label))

    def _iter_long(self) -> Iterator[BagDataset]:
        """Whole bags: the last bag of a batch waits for the next one, where it may go on."""
        pending: list[Any] = []
        first_row, n_pending, last_id, seen = 0, 0, None, set[int | bytes]()
        for batch in self._batches():
            ids = self._coded(batch.column(self.headings[self.roles.bag]), partial(_place, self.path, first_row))
            starts = np.flatnonzero(ids.codes[1:] != ids.codes[:-1]) + 1
            if not pending or ids.values[ids.codes[0]] != last_id:
                starts = np.concatenate([[0], starts])
            last_id = ids.values[ids.codes[-1]]
            for start in starts:
                name = ids.values[ids.codes[start]]
                # a long text as its digest, which takes little room; not as its hash, which names may share
                key = name if isinstance(name, int) else blake2b(name.encode(), digest_size=16).digest()
                if key in seen:
                    raise FormatError(
                        f"{self.path}, row {first_row + n_pending + start + 1}: the bag {name!r} began earlier and was "
                        "left; sort the rows by bag, so that the file can be read in parts."
                    )
                seen.add(key)
            if len(starts) and n_pending + starts[-1] > 0:
                table = self._arrow.Table.from_batches([*pending, batch.slice(0, starts[-1])])
                yield self._to_dataset(table, first_row)
                first_row += table.num_rows
                pending, n_pending = [batch.slice(starts[-1])], batch.num_rows - int(starts[-1])
            else:
                pending.append(batch)
                n_pending += batch.num_rows
                self.check_rows(n_pending, f"{self.path}: the bag {str(last_id)[:60]!r}")
        if pending:
            yield self._to_dataset(self._arrow.Table.from_batches(pending), first_row)

    def _iter_nested(self) -> Iterator[BagDataset]:
        first_row = 0
        for batch in self._batches():
            yield self._to_dataset(self._arrow.Table.from_batches([batch]), first_row)
            first_row += len(batch)

    # -- conversion ---------------------------------------------------------------------------------------------------

    def _to_dataset(self, table: Any, first_row: int) -> BagDataset:
        where = partial(_place, self.path, first_row)
        if table.num_rows == 0:
            raise FormatError(f"{self.path}: it has no rows; there is nothing to read in it.")
        roles = self.roles
        bag = self._coded(self._column(table, roles.bag), where)
        bag_name = None if roles.bag_name is None else self._coded(self._column(table, roles.bag_name), where)
        indicator, class_names = self._labels(table, where)
        labelled = None if roles.labelled is None else self._bits(table, roles.labelled, where).astype(bool)
        if self.form == "nested":
            X, sizes = self._nested_features(table, where)
            names = bag if bag_name is None else bag_name
            self.check_rows(int(sizes.sum()), f"{self.path}: bags of {int(sizes.sum())} instances")
            row_of = np.repeat(np.arange(len(sizes)), sizes)
            long = LongTable(
                X, Coded(row_of, [names.values[code] for code in names.codes]), self.feature_names, None,
                None if indicator is None else indicator[row_of], class_names,
                None if labelled is None else labelled[row_of], self._nested_labels(table, sizes, where),
            )  # fmt: skip
            return to_dataset(long, self.path.stem, lambda row: where(int(row_of[row])))
        instance_labels, locations = None, None
        if roles.instance_label is not None:
            instance_labels = plain_labels(python_values(self._arrow, self._column(table, roles.instance_label)))
        if roles.location is not None:
            texts = python_values(self._arrow, self._column(table, roles.location))
            locations = parse_locations((text or "" for text in texts), where)
        X = self._features(table)
        long = LongTable(
            X, bag, self.feature_names, bag_name, indicator, class_names, labelled, instance_labels, locations
        )
        return to_dataset(long, self.path.stem, where)

    def _column(self, table: Any, index: int) -> Any:
        return table.column(self.headings[index])

    def _features(self, table: Any) -> np.ndarray:
        """(m, d) array of the feature columns."""
        X, at = np.empty((table.num_rows, len(self.roles.features)), dtype=self.dtype), 0
        plain = (self._arrow.float32(), self._arrow.float64())
        for batch in table.select([self.headings[i] for i in self.roles.features]).to_batches():
            rows = X[at : at + batch.num_rows]  # filled in parts, so that no second copy of the whole is made
            if all(field.type in plain for field in batch.schema):
                rows[:] = batch.to_tensor(null_to_nan=True, row_major=True).to_numpy()
            else:
                for j, column in enumerate(batch.columns):
                    rows[:, j] = arrow_values(column)
            at += batch.num_rows
        return X

    def _coded(self, column: Any, where: Any) -> Coded:
        """Names of bags; text and whole numbers only."""
        types, kind = self._arrow.types, column.type
        if isinstance(column, self._arrow.ChunkedArray):
            column = column.unify_dictionaries().combine_chunks()
        if not types.is_dictionary(kind):
            column = column.dictionary_encode()
        kind = column.type.value_type
        if not (types.is_string(kind) or types.is_large_string(kind) or types.is_integer(kind)):
            raise FormatError(f"{self.path}: bags are named by {kind}; they must be named by text or whole numbers.")
        if column.null_count:
            row = int(np.argmax(column.is_null().to_numpy(zero_copy_only=False)))
            raise FormatError(f"{where(row)}: the name of the bag is missing; name it.")
        used, first, which = np.unique(column.indices.to_numpy(), return_index=True, return_inverse=True)
        distinct = column.dictionary.take(self._arrow.array(used)).to_pylist()
        seen: dict[Any, int] = {}  # a dictionary may hold a value twice, and in any order
        for i in np.argsort(first):
            seen.setdefault(distinct[i], len(seen))
        codes, values = np.array([seen[value] for value in distinct], dtype=np.int64)[which], list(seen)
        if "" in seen:
            row = int(np.argmax(codes == seen[""]))
            raise FormatError(f"{where(row)}: the name of the bag is empty; name it.")
        return Coded(codes, values)

    def _labels(self, table: Any, where: Any) -> tuple[np.ndarray | None, list[Any] | None]:
        roles = self.roles
        if roles.labels is not None:
            lists = self._label_lists(self._column(table, roles.labels), where)
            try:
                return encode_label_lists(lists, self.class_names)
            except ValueError as error:
                raise FormatError(f"{self.path}: {error}; make it anew.") from error
        if not roles.one_hot:
            return None, self.class_names
        columns = [self._bits(table, i, where) for i in roles.one_hot]
        return np.stack(columns, axis=1), [self.headings[i].removeprefix(LABEL_PREFIX) for i in roles.one_hot]

    def _bits(self, table: Any, index: int, where: Any) -> np.ndarray:
        """(m,) zeros and ones of a column."""
        values = arrow_values(self._column(table, index))
        wrong = ~np.isin(values, (0, 1))
        if wrong.any():
            row = int(np.argmax(wrong))
            raise FormatError(
                f"{where(row)}: {self.headings[index]!r} is {str(values[row])[:40]!r}; its column holds more than 0 "
                "and 1, write one of them."
            )
        return values.astype(np.uint8)

    def _label_lists(self, column: Any, where: Any) -> list[list[Any]]:
        """The labels of every row, from lists or from text a;b;c."""
        lists, known = [], dict[str, list[Any]]()  # the labels of a text are cut and kept once, not on every row
        for i, value in enumerate(python_values(self._arrow, column)):
            if isinstance(value, str):
                if value not in known:
                    known[value] = [part.strip() for part in value.split(LIST_MARK) if part.strip()]
                value = known[value]
            elif value is None:
                value = []
            if not isinstance(value, list) or not all(type(item) in (str, int) for item in value):
                place = self.path if where is None else where(i)
                raise FormatError(f"{place}: the labels are {str(value)[:60]}; write a list of texts.")
            lists.append(value)
        return lists

    def _nested_features(self, table: Any, where: Any) -> tuple[np.ndarray, np.ndarray]:
        """(m, d) instances of all bags, and the sizes of these."""
        instances = table.column(self._instances).combine_chunks()
        if instances.null_count:
            raise FormatError(f"{self.path}: a bag has no instances; remove its row.")
        sizes = np.asarray(self._arrow.compute.list_value_length(instances))
        if (sizes == 0).any():
            raise FormatError(f"{where(int(np.argmin(sizes)))}: the bag is empty; remove its row.")
        X = matrix_of(self._arrow, instances.flatten(), self.path).astype(self.dtype, copy=False)
        names = self.feature_names
        if names is not None and len(names) != X.shape[1]:
            raise FormatError(
                f"{self.path}: instances have {X.shape[1]} features but the metadata names {len(names)}; make it anew."
            )
        return X, sizes

    def _nested_labels(self, table: Any, sizes: np.ndarray, where: Any) -> list[Any] | None:
        """The label of every instance, None where unknown."""
        if not self.with_labels or INSTANCE_LABELS not in self.headings:
            return None
        flat: list[Any] = []
        for i, labels in enumerate(python_values(self._arrow, table.column(INSTANCE_LABELS))):
            if not isinstance(labels, list) or len(labels) != sizes[i]:
                raise FormatError(f"{where(i)}: {INSTANCE_LABELS} do not hold one label for each instance.")
            flat += labels
        return plain_labels(flat)


def _place(path: Path, first_row: int, row: int) -> str:
    return f"{path}, row {first_row + row + 1}"


def read_parquet(path: str | os.PathLike[str], **options: Any) -> tuple[BagDataset, str]:
    """Read a parquet file of either form; also a sentence that says how it was understood.

    Options are those of `ParquetBags`.
    """
    source = ParquetBags(path, **options)
    return source.read(), source.understood()
