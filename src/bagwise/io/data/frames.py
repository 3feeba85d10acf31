"""Bags from tables in memory (pandas, polars, pyarrow, ...), whatever library they belong to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from bagwise.bags import BagDataset
from bagwise.columns import Columns
from bagwise.exceptions import InputError
from bagwise.io.data.long import LongTable, encode_label_lists, to_dataset
from bagwise.io.labels import LIST_MARK


def read_table(
    table: Any,
    bag: str,
    labels: str | Sequence[str] | None = None,
    instance_labels: str | None = None,
    features: Sequence[str] | None = None,
) -> BagDataset:
    """The data set of a table in the long form; see `bagwise.Bags.from_table`."""
    columns = Columns(table)
    one_hot = list(labels) if labels is not None and not isinstance(labels, str) else []
    text = [labels] if isinstance(labels, str) else []
    named = [bag, *text, *one_hot, *([] if instance_labels is None else [instance_labels])]
    if features is None:
        features = [name for name in columns.names if name not in named]
    for name in [*named, *features]:
        if columns.names.count(name) != 1:
            raise InputError(
                f"The table has {columns.names.count(name)} columns {name!r}, expected one; its columns are "
                f"{', '.join(map(repr, columns.names[:8]))}."
            )
    if not features or columns.n_rows == 0:
        raise InputError(f"The table has {columns.n_rows} rows and {len(features)} features; at least one is needed.")
    indicator, class_names = _labels(columns, text, one_hot)
    long = LongTable(
        X=_features(columns, features),
        bag=_ids(columns, bag),
        feature_names=[str(name) for name in features],
        indicator=indicator,
        class_names=class_names,
        instance_labels=None if instance_labels is None else _instance_labels(columns, instance_labels),
    )
    return to_dataset(long, "table", lambda row: f"The table, row {row}")


def _features(columns: Columns, names: Sequence[str]) -> np.ndarray:
    arrays = []
    for name in names:
        values = columns.values(name)
        if values.dtype.kind not in "biuf":
            raise InputError(f"The column {name!r} holds no numbers; name the columns that are features.")
        arrays.append(values)
    dtype = np.float32 if all(array.dtype == np.float32 for array in arrays) else np.float64
    return np.stack(arrays, axis=1).astype(dtype, copy=False)


def _ids(columns: Columns, name: str) -> list[Any]:
    values = columns.values(name).tolist()
    for row, value in enumerate(values):
        if value is None or value != value:  # NaN is the only value that differs from itself
            raise InputError(f"The table, row {row}: the column {name!r} is empty; name the bag of every row.")
    return values


def _labels(columns: Columns, text: list[str], one_hot: list[str]) -> tuple[np.ndarray | None, list[Any] | None]:
    if one_hot:
        arrays = [columns.values(name) for name in one_hot]
        for name, array in zip(one_hot, arrays, strict=True):
            if array.dtype.kind not in "biuf" or not np.isin(array, (0, 1)).all():
                raise InputError(f"The label column {name!r} holds more than 0 and 1; mend it.")
        return np.stack(arrays, axis=1).astype(np.uint8), list(one_hot)
    if not text:
        return None, None
    lists = []
    for value in columns.values(text[0]).tolist():
        if isinstance(value, str):
            value = [part.strip() for part in value.split(LIST_MARK) if part.strip()]
        lists.append(list(value) if isinstance(value, (list, tuple)) else [] if _is_missing(value) else [value])
    return encode_label_lists(lists, None)


def _instance_labels(columns: Columns, name: str) -> list[Any]:
    return [None if _is_missing(value) or value == "" else value for value in columns.values(name).tolist()]


def _is_missing(value: Any) -> bool:
    return value is None or value != value
