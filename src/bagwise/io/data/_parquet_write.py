"""Write parquet files of bags, long or nested, piece by piece."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import numpy as np

from bagwise.core.checks import import_pyarrow
from bagwise.core.dataset import BagDataset
from bagwise.core.exceptions import InputError
from bagwise.io._parquet import METADATA_KEY, NEEDED_BY
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
from bagwise.io.files import PathLike, atomic_write


def write_parquet(
    data: BagDataset | Iterable[BagDataset],
    path: PathLike,
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
    tables = _Tables(arrow, first, nested, numbered, marked)
    about: dict[str, Any] = {"version": 1}
    if first.Y is not None or first.instance_labels is not None:
        about["class_names"] = tables.plain(first.class_names, tables.label_type)
    if nested and first.feature_names is not None:
        about["feature_names"] = tables.features
    metadata = {METADATA_KEY: json.dumps(about, ensure_ascii=False).encode()}
    schema = tables.of(first[:1], 0).schema.with_metadata(metadata)
    # dictionaries pay for names, which repeat, not for features, which do not
    repeated = [name for name in schema.names if name in (BAG, BAG_NAME, INSTANCE_LABEL)]
    options = {"use_dictionary": repeated, "compression": "zstd" if nested else "snappy"}
    written = 0
    with atomic_write(path) as file, arrow.parquet.ParquetWriter(file, schema, **options) as writer:
        for piece in pieces:
            check_marked(piece, marked)
            writer.write_table(tables.of(piece, written), row_group_size=PIECE)
            written += len(piece)


class _Tables:
    """Makes Arrow tables of one schema, that of the first piece."""

    def __init__(self, arrow: Any, first: BagDataset, nested: bool, numbered: bool, marked: bool):
        self.arrow, self.nested, self.numbered, self.marked = arrow, nested, numbered, marked
        self.name_type = self._type_of(first.bag_names, "bag names")
        self.label_type = self._type_of(first.class_names, "class names")
        self.features = feature_names_of(first, ROLES)

    def _type_of(self, names: list[Any], what: str) -> Any:
        if all(is_int64(name) for name in names):
            return self.arrow.int64()
        kinds = {"whole number" if _is_whole(name) else "text" for name in names}
        if len(kinds) == 1:  # text, or whole numbers beyond 64 bits
            return self.arrow.string()
        raise InputError(f"The {what} are of several kinds ({', '.join(sorted(kinds))}); make them all text.")

    def plain(self, names: list[Any], kind: Any) -> list[Any]:
        """Names as the file holds them, None for None."""
        is_text = kind == self.arrow.string()
        strange = next((name for name in names if not is_text and name is not None and not is_int64(name)), None)
        if strange is not None:
            raise InputError(
                f"The name {strange!r} is no whole number of 64 bits, as the names before it are; make them all text."
            )
        return [None if name is None else str(name) if is_text else int(name) for name in names]

    def of(self, piece: BagDataset, n_before: int) -> Any:
        """The table of a piece before which so many bags were written."""
        arrow, bags = self.arrow, piece.bags
        repeat = np.arange(len(piece)) if self.nested else bags.bag_index
        names = arrow.array(self.plain(piece.bag_names, self.name_type), type=self.name_type).take(repeat)
        columns = {BAG: names}
        if self.numbered:
            columns = {BAG: arrow.array(n_before + np.arange(len(piece))).take(repeat), BAG_NAME: names}
        if piece.Y is not None:
            class_names = self.plain(piece.class_names, self.label_type)
            sets = [[class_names[c] for c in np.flatnonzero(row)] for row in piece.Y]
            columns[LABELS] = arrow.array(sets, type=arrow.list_(self.label_type)).take(repeat)
        if self.marked:
            columns[LABELLED] = arrow.array(piece.labelled.astype(np.uint8)).take(repeat)
        labels, X = instance_label_names(piece), dense_features(piece)
        known = None if labels is None else arrow.array(self.plain(labels, self.label_type), type=self.label_type)
        if self.nested:
            offsets = bags.offsets.astype(np.int32)
            if known is not None:
                columns[INSTANCE_LABELS] = arrow.ListArray.from_arrays(offsets, known)
            rows = arrow.FixedSizeListArray.from_arrays(arrow.array(np.ascontiguousarray(X).ravel()), X.shape[1])
            columns[INSTANCES] = arrow.ListArray.from_arrays(offsets, rows)
            return arrow.table(columns)
        if known is not None:
            columns[INSTANCE_LABEL] = known
        locations = location_texts(piece)
        if locations is not None:
            columns[LOCATION] = arrow.array(locations, type=arrow.string())
        return arrow.table(columns | {name: np.ascontiguousarray(X[:, j]) for j, name in enumerate(self.features)})


def _is_whole(name: Any) -> bool:
    return isinstance(name, (int, np.integer)) and not isinstance(name, bool)
