"""Bags from tables in memory (pandas, polars, pyarrow, ...), whatever library they belong to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from bagwise.core.columns import Columns, is_missing, place_in_table
from bagwise.core.dataset import BagDataset
from bagwise.core.exceptions import InputError
from bagwise.io.data._long import LongTable, encode_label_lists, to_dataset
from bagwise.io.labels import LIST_MARK


def read_table(
    table: Any,
    bag: str = "bag",
    labels: str | Sequence[str] | None = None,
    instance_labels: str | None = None,
    features: Sequence[str] | None = None,
) -> BagDataset:
    """The data set of a table in memory, a row per instance.

    Parameters
    ----------
    table : table
        Of pandas, polars, pyarrow or another library of tables, or whatever gives an Arrow stream.
    bag : str
        The column that names the bag of each row.
    labels : str, list of str or None
        The labels of the bag, the same on all of its rows: a column of lists or of text ``a;b;c``, or several columns
        of 0 and 1, one for each class.
    instance_labels : str or None
        The column of the instances' own labels, empty where unknown.
    features : list of str or None
        By default all other columns.

    Examples
    --------
    >>> import pyarrow
    >>> from bagwise import read_table
    >>> data = read_table(pyarrow.table({"bag": ["a", "a"], "who": ["wren;robin"] * 2, "x": [0.5, 1.5]}), labels="who")
    >>> sorted(data.label_sets[0]), data.feature_names
    (['robin', 'wren'], ['x'])
    """
    columns = Columns(table)
    ids = columns.keys(bag)
    one_hot = list(labels) if labels is not None and not isinstance(labels, str) else []
    text = labels if isinstance(labels, str) else None
    if features is None:
        taken = {bag, text, instance_labels, *one_hot}
        features = [name for name in columns.names if name not in taken]
    indicator, class_names = _labels(columns, text, one_hot)
    long = LongTable(
        X=columns.numbers(features),
        bag=ids,
        feature_names=[str(name) for name in features],
        indicator=indicator,
        class_names=class_names,
        instance_labels=None if instance_labels is None else _instance_labels(columns, instance_labels),
    )
    return to_dataset(long, "table", place_in_table)


def _labels(columns: Columns, text: str | None, one_hot: list[str]) -> tuple[np.ndarray | None, list[Any] | None]:
    if one_hot:
        arrays = [columns.values(name) for name in one_hot]
        for name, array in zip(one_hot, arrays, strict=True):
            if array.dtype.kind not in "biuf" or not np.isin(array, (0, 1)).all():
                raise InputError(f"The label column {name!r} holds more than 0 and 1; correct it.")
        return np.stack(arrays, axis=1).astype(np.uint8), list(one_hot)
    if text is None:
        return None, None
    lists = []
    for value in columns.values(text).tolist():
        if isinstance(value, str):
            value = [part.strip() for part in value.split(LIST_MARK) if part.strip()]
        many = isinstance(value, (list, tuple, np.ndarray))
        lists.append(list(value) if many else [] if is_missing(value) else [value])
    return encode_label_lists(lists, None)


def _instance_labels(columns: Columns, name: str) -> list[Any]:
    return [None if is_missing(value) or value == "" else value for value in columns.values(name).tolist()]
