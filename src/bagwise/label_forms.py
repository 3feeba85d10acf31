"""Labels of bags in their three forms: an indicator matrix, label sets, one value a bag."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from bagwise.bags import as_indicator
from bagwise.exceptions import InputError


def learn_labels(Y: Any, n_bags: int) -> tuple[np.ndarray, np.ndarray, bool]:
    """Indicator matrix, classes and whether each bag has one label, from any of the three forms of `Y`.

    An (n, c) 0/1 matrix gives the classes 0..c-1 (a data frame: its column names); a list of label sets gives the
    sorted labels; (n,) values give the sorted values.
    """
    if Y is None:
        raise InputError("This estimator requires y to be passed, but the target y is None.")
    sets = _as_label_sets(Y)
    if sets is not None:
        if not any(sets):
            raise InputError("No bag carries any label; at least one label is needed to learn from.")
        classes = sort_classes(set().union(*sets))
        _check_rows(len(sets), n_bags)
        return _encode_sets(sets, classes), classes, False
    columns = getattr(Y, "columns", None)
    if not sp.issparse(Y):
        Y = np.asarray(Y)
    if Y.ndim == 2 and Y.shape[1] == 1 and not sp.issparse(Y) and not np.isin(Y, (0, 1)).all():
        Y = column_or_1d(Y, warn=True)  # a column of class values, not a matrix of one class
    if Y.ndim == 1:
        check_classification_targets(Y)
        classes, codes = np.unique(Y, return_inverse=True)
        _check_rows(len(Y), n_bags)
        return np.eye(len(classes), dtype=np.uint8)[codes], classes, True
    indicator = as_indicator(Y)
    _check_rows(len(indicator), n_bags)
    if indicator.shape[1] == 0:
        raise InputError("Y has no columns; pass one column per class.")
    if not indicator.any():
        raise InputError("No bag carries any label; at least one label is needed to learn from.")
    classes = np.arange(indicator.shape[1]) if columns is None else _as_class_array(list(columns))
    return indicator, classes, False


def encode_labels(Y: Any, classes: np.ndarray, n_bags: int, *, drop_unknown: bool = False) -> np.ndarray:
    """(n, c) indicator matrix of `Y`, in any of its forms, over the classes that were learned.

    A label of another class is an error, or with `drop_unknown` left out.
    """
    sets = _as_label_sets(Y)
    if sets is not None:
        _check_rows(len(sets), n_bags)
        return _encode_sets(sets, classes, drop_unknown)
    Y = Y if sp.issparse(Y) else np.asarray(Y)
    _check_rows(Y.shape[0] if Y.ndim else 0, n_bags)
    if Y.ndim == 1:
        return _encode_sets([{value} for value in Y.tolist()], classes, drop_unknown)
    indicator = as_indicator(Y)
    if indicator.shape[1] != len(classes):
        raise InputError(
            f"Y has {indicator.shape[1]} columns but {len(classes)} classes were learned; pass one column per class."
        )
    return indicator


def decode_labels(indicator: np.ndarray, classes: np.ndarray) -> list[set[Any]]:
    """Label sets from an indicator matrix."""
    names = classes.tolist()
    return [{names[c] for c in np.flatnonzero(row)} for row in indicator]


def sort_classes(labels: Iterable[Hashable]) -> np.ndarray:
    """Distinct labels as an array: sorted where they can be compared, else by type name and representation."""
    labels = list(labels)
    try:
        labels = sorted(labels)  # type: ignore[type-var]
    except TypeError:
        labels.sort(key=lambda label: (type(label).__name__, repr(label)))
    return _as_class_array(labels)


def _as_class_array(labels: list[Any]) -> np.ndarray:
    kinds = {type(label) for label in labels}
    if kinds in ({int}, {str}, {bool}) or all(issubclass(kind, np.integer) for kind in kinds):
        array = np.asarray(labels)
        if array.dtype != object and array.tolist() == [
            getattr(label, "item", lambda x=label: x)() for label in labels
        ]:
            return array
    array = np.empty(len(labels), dtype=object)
    array[:] = labels
    return array


def _as_label_sets(Y: Any) -> list[set[Any]] | None:
    """`Y` as a list of sets if it is one (or of lists, tuples, arrays), None if it is another form."""
    if isinstance(Y, np.ndarray) and Y.dtype == object and Y.ndim == 1:
        Y = Y.tolist()
    if not isinstance(Y, (list, tuple)) or not Y:
        return None
    containers = [isinstance(row, (set, frozenset, list, tuple, np.ndarray)) for row in Y]
    if not any(containers):
        return None
    if not all(containers):
        i = containers.index(False)
        raise InputError(f"The labels of bag {i} are {Y[i]!r}; expected a set of labels, as for the other bags.")
    rows = [row.tolist() if isinstance(row, np.ndarray) else list(row) for row in Y]
    for i, row in enumerate(rows):
        if not _hashable(row):
            raise InputError(f"A label of bag {i} is not hashable: {row!r}; labels must be strings, numbers or such.")
    sets = [set(row) for row in rows]
    if all(len(labels) == len(row) for labels, row in zip(sets, rows, strict=True)):
        return sets
    if len({len(row) for row in rows}) == 1 and set().union(*sets) <= {0, 1}:
        return None  # no set holds a label twice: this is an indicator matrix written as lists
    i = next(i for i, row in enumerate(rows) if len(sets[i]) < len(row))
    raise InputError(f"The labels of bag {i} hold one twice: {rows[i]!r}; pass each label once, or a 0/1 matrix.")


def _hashable(row: list[Any]) -> bool:
    try:
        hash(tuple(row))
    except TypeError:
        return False
    return True


def _encode_sets(sets: list[set[Any]], classes: np.ndarray, drop_unknown: bool = False) -> np.ndarray:
    column = {label: c for c, label in enumerate(classes.tolist())}
    indicator = np.zeros((len(sets), len(classes)), dtype=np.uint8)
    for i, labels in enumerate(sets):
        for label in labels:
            if label not in column and drop_unknown:
                continue
            if label not in column:
                known = ", ".join(repr(name) for name in list(column)[:8]) + (", ..." if len(column) > 8 else "")
                raise InputError(f"Bag {i} carries the unknown label {label!r}; the classes are {known}.")
            indicator[i, column[label]] = 1
    return indicator


def _check_rows(n_rows: int, n_bags: int) -> None:
    if n_rows != n_bags:
        raise InputError(f"Y has {n_rows} rows but X has {n_bags} bags; pass one row per bag.")
