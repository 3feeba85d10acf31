"""Parquet: long (a row per instance) or nested (a row per bag), read in parts, so that a file may exceed the memory.

Long files have the columns of `bagwise.io.data._long`. Nested files have a row per bag: ``bag``, ``labels`` (list),
``labelled``, ``instances`` (list of lists of numbers) and ``instance_labels`` (list). The key ``bagwise`` of the
file's metadata holds JSON: the names of all classes, in order, and of the features where the columns do not tell them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from bagwise.core.bags import Bags, offsets_of
from bagwise.core.checks import check_allocation, import_pyarrow
from bagwise.core.dataset import BagDataset
from bagwise.core.exceptions import FormatError
from bagwise.io._footer import column_sizes
from bagwise.io._parquet import KIND, METADATA_KEY, NEEDED_BY, arrow_values, matrix_of, open_file, python_values
from bagwise.io.data._long import (
    INSTANCE_LABELS,
    Roles,
    cut_labels,
    encode_label_lists,
    find_roles,
    parse_locations,
    place,
    sorted_names,
    to_dataset,
)
from bagwise.io.data.outline import FileOutline, check_distinct, read_outline
from bagwise.io.files import PathLike, check_readable, damaged

INSTANCES = "instances"
BATCH_ROWS = 1 << 15
BATCH_BAGS = 1 << 10
LIGHT_ROWS = 1 << 17  # of columns of bags and labels that are read at a time
READ_BAGS = 1 << 8  # of nested files
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
    nested : bool
        Whether a row is a bag, not an instance.
    n_rows : int
        Rows that the file says it has.
    class_names : list or None
    feature_names : list of str or None
    """

    def __init__(
        self,
        path: PathLike,
        *,
        bag: str | None = None,
        labels: str | None = None,
        instance_label: str | None = None,
        features: Sequence[str] | None = None,
        with_labels: bool = True,
    ):
        self.path = check_readable(path)
        self._arrow = import_pyarrow(NEEDED_BY)
        with damaged(self.path, KIND):
            file = open_file(self._arrow, self.path)
            self.schema = file.schema_arrow
            self._file = open_file(self._arrow, self.path, _text_columns(file))
            self.n_rows = self._file.metadata.num_rows
            about = _read_about(self.schema, self.path)
        self.headings = list(self.schema.names)
        nested = _nested_columns(self._arrow, self.schema)
        self.nested = bool(nested) and features is None
        self.class_names = about.get("class_names")
        where = f"{self.path}, its columns"
        if self.nested:
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
    def has_labels(self) -> bool:
        return self.roles.labels is not None or bool(self.roles.one_hot)

    @property
    def has_instance_labels(self) -> bool:
        return self._instance_label_column is not None

    @property
    def _instance_label_column(self) -> str | None:
        if not self.nested:
            return None if self.roles.instance_label is None else self.headings[self.roles.instance_label]
        return INSTANCE_LABELS if INSTANCE_LABELS in self.headings and self.with_labels else None

    @property
    def group_rows(self) -> np.ndarray:
        """Row at which each row group begins, and the number of rows."""
        metadata = self._file.metadata
        return offsets_of([metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)])

    @property
    def dtype(self) -> Any:
        """float32 where the file's features are, else float64."""
        kinds = {self.schema.field(i).type for i in self.roles.features}
        if self.nested:
            kinds = {kind.value_type.value_type for kind in kinds}
        return np.float32 if kinds == {self._arrow.float32()} else np.float64

    @property
    def n_features(self) -> int:
        return self.dataset(0, 1).bags.n_features if self.nested else len(self.roles.features)

    def understood(self) -> str:
        """How the file was understood, one sentence."""
        row = f"a row per bag, instances in {self._instances!r}" if self.nested else "a row per instance"
        groups = f"{self.n_rows} rows in {self._file.num_row_groups} row group(s)"
        return f"{row}, {groups}, {self.roles.described(self.headings)}"

    # -- reading ------------------------------------------------------------------------------------------------------

    def read(self) -> BagDataset:
        """The whole file; its size is held against the memory first."""
        what = f"{self.path} with {self.n_rows} rows and {self.n_cells} numbers"
        check_allocation(self.n_bytes, what, "convert or predict it, which read it in parts")
        return self.dataset(0, self.n_rows)

    def iter_bags(self) -> Iterator[BagDataset]:
        """The file as a series of data sets of whole bags, each about as large as a batch.

        A first pass over the columns of bags and labels finds where bags begin; the rows of one must stand one after
        another. Where the metadata names no classes, they are those that occur.
        """
        unknown = self.class_names is None and self.with_labels
        outline = self.outline() if not self.nested or (unknown and self.roles.labels is not None) else None
        if unknown and outline is not None and self.roles.labels is not None:
            self.class_names = sorted_names(outline.labels)
        elif unknown and not self.roles.one_hot and self.has_instance_labels:
            found = {label for _, labels in self._instance_labels() for label in labels}
            self.class_names = sorted_names(found - {None})
        if self.nested:
            stops = np.append(np.arange(BATCH_BAGS, self.n_rows, BATCH_BAGS), self.n_rows)
        else:
            assert outline is not None
            check_distinct([self], [outline])
            self.check_largest(outline)
            starts = outline.first_rows
            ends = np.append(np.arange(BATCH_ROWS, self.n_rows, BATCH_ROWS), self.n_rows)
            last = np.searchsorted(starts, ends) - 1  # bag that a batch ends in
            stops = np.append(starts[np.unique(last[last > 0])], self.n_rows)
        yield from self._datasets(0, stops.tolist())

    @property
    def n_cells(self) -> int:
        """Numbers that the features are, as the file says."""
        if self.nested:
            return column_sizes(self.path).get(self._instances, (0, 0))[0]
        return self.n_rows * len(self.roles.features)

    @property
    def n_bytes(self) -> int:
        """About what reading the whole file takes: features, rows, and the other columns, however well packed."""
        sizes = column_sizes(self.path)
        total = _COPIES * self.n_cells * np.dtype(self.dtype).itemsize + _ROW * self.n_rows
        for name, cell in self._other_columns().items():
            values, size = sizes.get(name, (0, 0))
            total += cell * values
            if cell != _BIT:
                total += _COPIES * size + _NAME * min(values, size // _LEAST_NAME)
        return total

    def _other_columns(self) -> dict[str, int]:
        """The columns that are read besides features, and what a cell of each takes besides the row."""
        roles = self.roles
        bits = {self.headings[i] for i in (*roles.one_hot, roles.labelled) if i is not None}
        features = {self.headings[i] for i in roles.features}
        cells = {name: _BIT if name in bits else _CELL for name in self._columns() if name not in features}
        return {**cells, self.headings[roles.bag]: 0}

    def check_rows(self, n_rows: int, what: str) -> None:
        """Hold rows of one bag, or of bags that come together, against the memory."""
        n_features = len(self.roles.features) if not self.nested else 0  # of a nested file they are there already
        size = _COPIES * n_features * np.dtype(self.dtype).itemsize + _ROW + sum(self._other_columns().values())
        check_allocation(n_rows * size, what, "split this bag")

    def check_largest(self, outline: FileOutline) -> None:
        """Hold the largest bag against the memory: whatever is read at a time, it is one bag at least."""
        bag = int(np.argmax(outline.sizes))
        name, size = self.bag_name_at(int(outline.first_rows[bag])), int(outline.sizes[bag])
        self.check_rows(size, f"{self.path}: the bag {str(name)[:60]!r}, of {size} instances,")

    def _columns(self) -> list[str]:
        names = [self.headings[i] for i in (*self.roles.others, *self.roles.features)]
        return list(dict.fromkeys([*names, self._instance_label_column or names[0]]))

    def _instance_labels(self) -> Iterator[tuple[int, list[Any]]]:
        """First row and labels of each batch, one for each instance, None where unknown."""
        name = self._instance_label_column
        assert name is not None
        with damaged(self.path, KIND):
            for first, batch in self.light_batches([name]):
                values = python_values(self._arrow, batch.column(0))
                yield first, _plain_labels([label for row in values for label in row or ()] if self.nested else values)

    # -- columns -----------------------------------------------------------------------------------------------

    def outline(self) -> FileOutline:
        """The bags of the file, from the columns of bags and labels alone."""
        with damaged(self.path, KIND):
            return read_outline(self)

    def light_batches(self, names: list[str]) -> Iterator[tuple[int, Any]]:
        """First row, and batch, of these columns."""
        first = 0
        size = READ_BAGS if self.nested and self._instances in names else LIGHT_ROWS
        for batch in self._file.iter_batches(batch_size=size, columns=names):
            yield first, batch
            first += len(batch)

    def known(self, class_names: Sequence[Any], n_instances: int) -> np.ndarray:
        """(m,) int32 class of every instance, -1 where unknown."""
        codes, at = np.full(n_instances, -1, dtype=np.int32), 0
        column = {label: c for c, label in enumerate(class_names)} | {None: -1}
        for first, labels in self._instance_labels():
            for label in labels:
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
            with damaged(self.path, KIND):
                X = self._collect(batches, stop - start, int(sizes.sum()))
            yield Bags(X, offsets_of(sizes))
            start = stop

    def dataset(self, start: int, stop: int) -> BagDataset:
        """Everything in a range of rows."""
        return next(self._datasets(start, [stop]))

    def _datasets(self, start: int, stops: Sequence[int]) -> Iterator[BagDataset]:
        for stop, batches in zip(stops, self._ranges(self._columns(), start, stops), strict=True):
            with damaged(self.path, KIND):
                dataset = self._to_dataset(self._arrow.Table.from_batches(list(batches)), start)
            yield dataset
            start = stop

    def bag_name_at(self, row: int) -> Any:
        """What the bag of a row is called."""
        name = self.headings[self.roles.bag]
        (batches,) = self._ranges([name], row, [row + 1])
        return python_values(self._arrow, next(batches).column(0))[0]

    def _collect(self, batches: Iterator[Any], n_rows: int, n_instances: int) -> np.ndarray:
        """The features of some batches in one array, which is all the memory that it takes besides a batch."""
        X, at, rows = None, 0, 0
        for batch in batches:
            table = self._arrow.Table.from_batches([batch])
            if self.nested:
                block = self._nested_features(table, partial(place, self.path, 0))[0]
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
        size = READ_BAGS if self.nested else BATCH_ROWS
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

    # -- conversion ---------------------------------------------------------------------------------------------------

    def _to_dataset(self, table: Any, first_row: int) -> BagDataset:
        where = partial(place, self.path, first_row)
        roles = self.roles
        bag = self._coded(self._column(table, roles.bag), where)
        bag_name = None if roles.bag_name is None else self._coded(self._column(table, roles.bag_name), where)
        indicator, class_names = self._labels(table, where)
        labelled = None if roles.labelled is None else self._bits(table, roles.labelled, where).astype(bool)
        instance_labels, locations = None, None
        row_of = np.arange(table.num_rows)  # of each instance
        if self.nested:
            X, sizes = self._nested_features(table, where)
            self.check_rows(len(X), f"{self.path}: bags of {len(X)} instances")
            row_of = np.repeat(row_of, sizes)
            codes, names = bag if bag_name is None else bag_name
            bag, bag_name = (row_of, [names[code] for code in codes]), None
            instance_labels = self._nested_labels(table, sizes, where)
        else:
            X = self._features(table)
            if roles.instance_label is not None:
                instance_labels = _plain_labels(python_values(self._arrow, self._column(table, roles.instance_label)))
            if roles.location is not None:
                texts = python_values(self._arrow, self._column(table, roles.location))
                locations = parse_locations((text or "" for text in texts), where)
        return to_dataset(
            X,
            bag,
            self.path.stem,
            lambda row: where(int(row_of[row])),
            feature_names=self.feature_names,
            bag_name=bag_name,
            indicator=indicator if indicator is None or not self.nested else indicator[row_of],
            class_names=class_names,
            labelled=labelled if labelled is None or not self.nested else labelled[row_of],
            instance_labels=instance_labels,
            locations=locations,
        )

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

    def _coded(self, column: Any, where: Any) -> tuple[np.ndarray, list[Any]]:
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
        return codes, values

    def _labels(self, table: Any, where: Any) -> tuple[np.ndarray | None, list[Any] | None]:
        roles = self.roles
        if roles.labels is not None:
            lists = self._label_lists(self._column(table, roles.labels), where)
            try:
                return encode_label_lists(lists, self.class_names)
            except ValueError as error:
                raise FormatError(f"{self.path}: {error}; write it again.") from error
        if not roles.one_hot:
            return None, self.class_names
        columns = [self._bits(table, i, where) for i in roles.one_hot]
        return np.stack(columns, axis=1), list(roles.one_hot.values())

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
                    known[value] = cut_labels(value)
                value = known[value]
            elif value is None:
                value = []
            if not isinstance(value, list) or not all(type(item) in (str, int) for item in value):
                raise FormatError(f"{where(i)}: the labels are {str(value)[:60]}; write a list of texts.")
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
                f"{self.path}: instances have {X.shape[1]} features but the metadata names {len(names)}; write it "
                "again."
            )
        return X, sizes

    def _nested_labels(self, table: Any, sizes: np.ndarray, where: Any) -> list[Any] | None:
        """The label of every instance, None where unknown."""
        if self._instance_label_column is None:
            return None
        flat: list[Any] = []
        for i, labels in enumerate(python_values(self._arrow, table.column(INSTANCE_LABELS))):
            if not isinstance(labels, list) or len(labels) != sizes[i]:
                raise FormatError(f"{where(i)}: {INSTANCE_LABELS} do not hold one label for each instance.")
            flat += labels
        return _plain_labels(flat)


def read_parquet(path: PathLike, **options: Any) -> tuple[BagDataset, str]:
    """Read a parquet file of either form; also a sentence that says how it was understood.

    Options are those of `ParquetBags`.
    """
    source = ParquetBags(path, **options)
    return source.read(), source.understood()


def _nested_columns(arrow: Any, schema: Any) -> list[str]:
    """Names of the columns that hold lists of lists of numbers."""
    types = arrow.types

    def is_list(kind: Any) -> bool:
        return types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)

    def is_nested(kind: Any) -> bool:
        if not is_list(kind) or not is_list(kind.value_type):
            return False
        inner = kind.value_type.value_type
        return types.is_floating(inner) or types.is_integer(inner)

    return [name for i, name in enumerate(schema.names) if is_nested(schema.field(i).type)]


def _text_columns(file: Any) -> list[str]:
    """Columns that hold text; read as dictionaries, a long text takes its room once, not on every row.

    Not those that hold lists of text, whose dictionaries pyarrow cannot join.
    """
    return [column.path for column in file.schema if column.physical_type == "BYTE_ARRAY" and "." not in column.path]


def _plain_labels(labels: list[Any]) -> list[Any]:
    """Labels of text or whole numbers; those that are empty text are unknown."""
    for label in labels:
        if label is not None and type(label) not in (str, int):
            raise ValueError(f"an instance label is {str(label)[:40]}; expected text or whole numbers")
    return [None if label == "" else label for label in labels]


def is_nested_file(path: Path) -> bool:
    """Whether a parquet file has a row per bag; nothing but its schema is looked at."""
    arrow = import_pyarrow(NEEDED_BY)
    with damaged(path, KIND):
        return bool(_nested_columns(arrow, open_file(arrow, path).schema_arrow))


def _read_about(schema: Any, path: Path) -> dict[str, Any]:
    """Our own metadata, checked; empty where the file was written by others."""
    raw = (schema.metadata or {}).get(METADATA_KEY)
    if raw is None:
        return {}
    try:
        about = json.loads(raw.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{path}: its metadata {METADATA_KEY.decode()!r} is no JSON; write it again.") from error
    names = {"class_names": (str, int), "feature_names": (str,)}
    for key, kinds in names.items():
        value = about.get(key) if isinstance(about, dict) else 0
        if value is None:
            continue
        if not isinstance(value, list) or not all(type(item) in kinds for item in value):
            raise FormatError(f"{path}: its metadata names no {key} that can be used; write it again.")
        if len(set(value)) < len(value):
            raise FormatError(f"{path}: its metadata names one of the {key} twice; write it again.")
    return about
