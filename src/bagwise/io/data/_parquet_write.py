"""Write parquet files of bags, long or nested, piece by piece."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from typing import Any

import numpy as np

from bagwise.core.checks import import_pyarrow
from bagwise.core.dataset import BagDataset
from bagwise.core.exceptions import InputError
from bagwise.io.data._long import (
    BAG,
    BAG_NAME,
    INSTANCE_LABEL,
    INSTANCE_LABELS,
    LABELLED,
    LABELS,
    LOCATION,
    PIECE,
    ROLES,
    check_marked,
    dense_features,
    feature_names_of,
    instance_label_names,
    is_int64,
    location_texts,
    to_write,
)
from bagwise.io.data.parquet import INSTANCES
from bagwise.io.files import atomic_write
from bagwise.io.parquet import METADATA_KEY, NEEDED_BY


def write_parquet(
    data: BagDataset | Iterable[BagDataset],
    path: str | os.PathLike[str],
    *,
    nested: bool = False,
    numbered: bool | None = None,
    marked: bool | None = None,
) -> None:
    """Write a data set as parquet, a row per instance or, `nested`, a row per bag.

    It may come in pieces of whole bags with the same classes and features; `numbered` and `marked` are those of
    `to_write`.
    """
    arrow = import_pyarrow(NEEDED_BY)
    first, pieces, numbered, marked = to_write(data, numbered, marked)
    layout = _Layout(arrow, first, nested, numbered, marked)
    # dictionaries pay for names, which repeat, not for features, which do not
    repeated = [name for name in layout.schema.names if name in (BAG, BAG_NAME, INSTANCE_LABEL)]
    options = {"use_dictionary": repeated, "compression": "zstd" if nested else "snappy"}
    with atomic_write(path) as file, arrow.parquet.ParquetWriter(file, layout.schema, **options) as writer:
        for piece in pieces:
            writer.write_table(layout.table(piece), row_group_size=PIECE)


class _Layout:
    """Schema of the file, and tables that fit it."""

    def __init__(self, arrow: Any, first: BagDataset, nested: bool, numbered: bool, marked: bool):
        self.arrow, self.nested, self.numbered, self.marked, self.written = arrow, nested, numbered, marked, 0
        self.name_type = self._type_of(first.bag_names, "bag names")
        self.label_type = self._type_of(first.class_names, "class names")
        self.float_type = arrow.float32() if first.bags.instances.dtype == np.float32 else arrow.float64()
        self.features = feature_names_of(first, ROLES)
        about: dict[str, Any] = {"version": 1}
        if first.Y is not None or first.instance_labels is not None:
            about["class_names"] = self._names(first.class_names, self.label_type)
        if nested and first.feature_names is not None:
            about["feature_names"] = self.features
        metadata = {METADATA_KEY: json.dumps(about, ensure_ascii=False).encode()}
        self.schema = arrow.schema(self._fields(first), metadata=metadata)

    def _type_of(self, names: list[Any], what: str) -> Any:
        kinds = {type(_plain_name(name)) for name in names}
        if all(is_int64(name) for name in names):
            return self.arrow.int64()
        if len(kinds) == 1:  # text, or whole numbers beyond 64 bits
            return self.arrow.string()
        raise InputError(f"The {what} are of several kinds ({sorted(k.__name__ for k in kinds)}); make them all text.")

    def _fields(self, first: BagDataset) -> list[Any]:
        arrow = self.arrow
        fields = [(BAG, arrow.int64() if self.numbered else self.name_type)]
        fields += [(BAG_NAME, self.name_type)] if self.numbered else []
        fields += [(LABELS, arrow.list_(self.label_type))] if first.Y is not None else []
        fields += [(LABELLED, arrow.uint8())] if self.marked else []
        has_labels = first.instance_labels is not None
        if self.nested:
            fields += [(INSTANCE_LABELS, arrow.list_(self.label_type))] if has_labels else []
            fields += [(INSTANCES, arrow.list_(arrow.list_(self.float_type, first.bags.n_features)))]
        else:
            fields += [(INSTANCE_LABEL, self.label_type)] if has_labels else []
            fields += [(LOCATION, arrow.string())] if first.locations is not None else []
            fields += [(name, self.float_type) for name in self.features]
        return fields

    def _names(self, names: list[Any], kind: Any) -> list[Any]:
        """Names as the file holds them, None for None."""
        if kind == self.arrow.string():
            return [None if name is None else str(_plain_name(name)) for name in names]
        strange = next((name for name in names if name is not None and not is_int64(name)), None)
        if strange is not None:
            raise InputError(
                f"The name {strange!r} is no whole number of 64 bits, as the names before it are; make them all text."
            )
        return [None if name is None else int(name) for name in names]

    def table(self, piece: BagDataset) -> Any:
        """One piece as an Arrow table."""
        check_marked(piece, self.marked)
        arrow, bags = self.arrow, piece.bags
        names = self._names(piece.bag_names, self.name_type)
        ids = [self.written + i for i in range(len(piece))]
        repeat = np.arange(len(piece)) if self.nested else bags.bag_index
        columns = [arrow.array(ids if self.numbered else names, type=self.schema.field(BAG).type).take(repeat)]
        if self.numbered:
            columns.append(arrow.array(names, type=self.name_type).take(repeat))
        if piece.Y is not None:
            class_names = self._names(piece.class_names, self.label_type)
            sets = [[class_names[c] for c in np.flatnonzero(row)] for row in piece.Y]
            columns.append(arrow.array(sets, type=arrow.list_(self.label_type)).take(repeat))
        if self.marked:
            columns.append(arrow.array(piece.labelled.astype(np.uint8)).take(repeat))
        labels = instance_label_names(piece)
        X = dense_features(piece)
        if labels is not None:
            flat = arrow.array(self._names(labels, self.label_type), type=self.label_type)
            columns.append(arrow.ListArray.from_arrays(bags.offsets.astype(np.int32), flat) if self.nested else flat)
        if self.nested:
            rows = arrow.FixedSizeListArray.from_arrays(arrow.array(np.ascontiguousarray(X).ravel()), X.shape[1])
            columns.append(arrow.ListArray.from_arrays(bags.offsets.astype(np.int32), rows))
        else:
            locations = location_texts(piece)
            columns += [] if locations is None else [arrow.array(locations, type=arrow.string())]
            columns += [arrow.array(np.ascontiguousarray(X[:, j])) for j in range(X.shape[1])]
        self.written += len(piece)
        return arrow.Table.from_arrays(columns, schema=self.schema)


def _plain_name(name: Any) -> Any:
    """A class or bag name as text or a whole number."""
    if isinstance(name, (bool, np.bool_)):
        return str(name)
    if isinstance(name, (int, np.integer)):
        return int(name)
    return str(name)
