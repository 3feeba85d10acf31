"""Labels of bags in their three forms: an indicator matrix, label sets, one value a bag."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from bagwise.core.bags import as_indicator
from bagwise.core.dataset import BagDataset
from bagwise.core.exceptions import InputError
from bagwise.core.typing import LabelsLike

CONTAINERS = (set, frozenset, list, tuple, np.ndarray)
"""What may hold the labels of one bag."""


def learn_labels(Y: LabelsLike | None, n_bags: int) -> tuple[np.ndarray, np.ndarray, bool]:
    """Indicator matrix, classes and whether each bag has one label, from any of the three forms of `Y`.

    An (n, c) 0/1 matrix gives the classes 0..c-1 (a data frame: its column names); a list of label sets gives the
    sorted labels; (n,) values give the sorted values; a `BagDataset` gives its classes in their order.
    """
    if Y is None:
        raise InputError("This estimator requires y to be passed, but the target y is None.")
    given: Any = Y
    columns = _headings(Y)
    if isinstance(Y, BagDataset):
        given, columns = _labels_of(Y), Y.class_names
    sets = _as_label_sets(given)
    if sets is not None:
        if not any(sets):
            raise InputError("No bag carries any label; at least one label is needed to learn from.")
        classes = sort_classes(set().union(*sets))
        _check_rows(len(sets), n_bags)
        return _encode_sets(sets, classes)[0], classes, False
    if not sp.issparse(given):
        given = np.asarray(given)
    if given.ndim == 2 and given.shape[1] == 1 and not sp.issparse(given) and not np.isin(given, (0, 1)).all():
        _check_values(given[:, 0])  # before the warning that goes with it
        given = column_or_1d(given, warn=True)  # a column of class values, not a matrix of one class
    if given.ndim == 1:
        _check_values(given)
        check_classification_targets(given)
        classes, codes = np.unique(given, return_inverse=True)
        _check_rows(len(given), n_bags)
        return np.eye(len(classes), dtype=np.uint8)[codes], classes, True
    indicator = as_indicator(given)
    _check_rows(len(indicator), n_bags)
    if indicator.shape[1] == 0:
        raise InputError("Y has no columns; pass one column per class.")
    if not indicator.any():
        raise InputError("No bag carries any label; at least one label is needed to learn from.")
    classes = np.arange(indicator.shape[1]) if columns is None else _as_class_array(list(columns))
    return indicator, classes, False


def _check_values(values: np.ndarray) -> None:
    """Say which value is no label, where it is not numbers; of these scikit-learn says it."""
    if values.dtype != object:
        return
    for i, value in enumerate(values.tolist()):
        if isinstance(value, CONTAINERS):
            raise InputError(
                f"The label of bag {i} is {str(value)[:60]}, in a table of one column; pass the column itself, or a "
                "list, of label sets."
            )
        if value is None or type(value).__name__ in ("NAType", "NaTType") or value != value:  # NaN alone is not itself
            raise InputError(
                f"The label of bag {i} is missing ({value}); give it one, leave the bag out, or pass label sets, which "
                "may be empty."
            )
    kinds = {str if isinstance(value, str) else type(value) for value in values.tolist()}
    if str in kinds and len(kinds) > 1:
        names = ", ".join(sorted(kind.__name__ for kind in kinds))
        raise InputError(f"The labels are of several types ({names}); make all of them text, or all numbers.")


def encode_labels(Y: LabelsLike | None, classes: np.ndarray, n_bags: int, *, drop_unknown: bool = False) -> np.ndarray:
    """(n, c) indicator matrix of `Y`, in any of its forms, over the classes that were learned.

    A label of another class is an error, or with `drop_unknown` left out.
    """
    indicator, n_unknown = encode_known(Y, classes, n_bags)
    if n_unknown.any() and not drop_unknown:
        bag = int(np.flatnonzero(n_unknown)[0])
        known = classes.tolist()
        label = next(label for label in sort_classes((_plain_sets(Y) or [])[bag]).tolist() if label not in set(known))
        shown = ", ".join(repr(name) for name in known[:8]) + (", ..." if len(known) > 8 else "")
        raise InputError(f"Bag {bag} carries the unknown label {label!r}; the classes are {shown}.")
    return indicator


def encode_known(Y: LabelsLike | None, classes: np.ndarray, n_bags: int) -> tuple[np.ndarray, np.ndarray]:
    """(n, c) indicator over the classes that were learned, and the (n,) number of labels of other classes."""
    sets = _plain_sets(Y)
    if sets is not None:
        _check_rows(len(sets), n_bags)
        return _encode_sets(sets, classes)
    table: Any = Y if sp.issparse(Y) else np.asarray(Y)
    _check_rows(table.shape[0] if table.ndim else 0, n_bags)
    indicator = as_indicator(table)
    if indicator.shape[1] != len(classes):
        raise InputError(
            f"Y has {indicator.shape[1]} columns but {len(classes)} classes were learned; pass one column per class."
        )
    columns = _headings(Y)
    if columns is not None:
        indicator = indicator[:, np.array(_order_of(columns, classes.tolist()))]
    return indicator, np.zeros(len(indicator), dtype=np.int64)


def _headings(Y: Any) -> list[Any] | None:
    """The names of the columns of a frame; None for anything else."""
    names = getattr(Y, "column_names", getattr(Y, "columns", None))  # pyarrow calls its arrays columns
    return None if names is None else list(names)


def _order_of(names: list[Any], classes: list[Any]) -> list[int]:
    """Where the classes stand among the columns of a frame; as they come where the classes have no names."""
    if classes == list(range(len(classes))) or names == classes:
        return list(range(len(names)))
    if set(names) != set(classes):
        other = next(name for name in names if name not in set(classes))
        raise InputError(
            f"Y has a column {other!r}, which is none of the classes that were learned "
            f"({', '.join(map(repr, classes[:8]))}); name the columns after these."
        )
    return [names.index(label) for label in classes]


def _plain_sets(Y: Any) -> list[set[Any]] | None:
    """Label sets, class values and data sets as label sets; None for a matrix."""
    if isinstance(Y, BagDataset):
        return decode_labels(_labels_of(Y), _as_class_array(list(Y.class_names)))
    sets = _as_label_sets(Y)
    if sets is None and not sp.issparse(Y):
        values = np.asarray(Y)
        if values.ndim == 1:
            return [{value} for value in values.tolist()]
    return sets


def _labels_of(dataset: BagDataset) -> np.ndarray:
    """The label matrix of a data set of which somebody labelled all bags."""
    if dataset.Y is None:
        raise InputError(f"Data set {dataset.name!r} carries no bag labels; pass labels, or a data set that has some.")
    missing = np.flatnonzero(~dataset.labelled)
    if len(missing):
        raise InputError(
            f"Nobody labelled {len(missing)} of the {len(dataset)} bags of data set {dataset.name!r}, the first of "
            f"them bag {missing[0]}; pass dataset[dataset.labelled] to use the others."
        )
    return dataset.Y


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
    elif hasattr(Y, "to_list"):  # a series of pandas or polars
        Y = Y.to_list()
    elif hasattr(Y, "to_pylist") and not hasattr(Y, "column_names"):  # an array of pyarrow
        Y = Y.to_pylist()
    if not isinstance(Y, (list, tuple)) or not Y:
        return None
    containers = [isinstance(row, CONTAINERS) for row in Y]
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


def _encode_sets(sets: list[set[Any]], classes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Indicator, and how many labels of each bag are none of the classes."""
    column = {label: c for c, label in enumerate(classes.tolist())}
    indicator = np.zeros((len(sets), len(classes)), dtype=np.uint8)
    n_unknown = np.zeros(len(sets), dtype=np.int64)
    for i, labels in enumerate(sets):
        for label in labels:
            if label in column:
                indicator[i, column[label]] = 1
            else:
                n_unknown[i] += 1
    return indicator, n_unknown


def _check_rows(n_rows: int, n_bags: int) -> None:
    if n_rows != n_bags:
        raise InputError(f"Y has {n_rows} rows but X has {n_bags} bags; pass one row per bag.")
