"""What all estimators share: validation of bags and labels, class handling, and the two mixins."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from bagwise.bags import Bags, as_bags, as_indicator
from bagwise.exceptions import InputError

# ---------------------------------------------------------------------------------------------------------------------
# Bags


def validate_bags(estimator: Any, X: Any, *, reset: bool) -> Bags:
    """`X` in any input form as `Bags` of finite features; sets or checks ``n_features_in_``.

    Parameters
    ----------
    estimator : estimator
        Receives ``n_features_in_`` (and ``feature_names_in_``) when `reset` is true, else is compared with them.
    X : Bags, list of 2-d arrays, 3-d array or 2-d array
    reset : bool
        True in `fit`, False everywhere else.
    """
    if is_flat(X):
        X = validate_data(
            estimator,
            X,
            reset=reset,
            accept_sparse="csr",
            dtype=[np.float64, np.float32],
            ensure_all_finite=False,
        )
        bags = as_bags(X)
    else:
        bags = as_bags(X)
        if bags.instances.ndim != 2:
            raise InputError("The bags hold one value an instance; expected a feature vector for each instance.")
        if reset:
            estimator.n_features_in_ = bags.n_features
        elif bags.n_features != estimator.n_features_in_:
            raise InputError(
                f"X has {bags.n_features} features, but {type(estimator).__name__} is expecting "
                f"{estimator.n_features_in_} features as input; pass instances with the features it was trained on."
            )
        if bags.n_features == 0:
            raise InputError("Found array with 0 feature(s) while a minimum of 1 is required.")
    check_finite(bags)
    return bags


def is_flat(X: Any) -> bool:
    """Whether `X` is a plain table, each row a bag of one instance."""
    if isinstance(X, Bags):
        return False
    if isinstance(X, (list, tuple)):
        return not (len(X) and (sp.issparse(X[0]) or np.ndim(X[0]) == 2))
    if isinstance(X, np.ndarray):
        return X.ndim != 3 and not (X.dtype == object and X.ndim == 1 and X.size and np.ndim(X[0]) == 2)
    return True


def check_finite(bags: Bags) -> None:
    """Raise an error that names bag and row of the first NaN or infinite feature."""
    values = bags.instances.data if sp.issparse(bags.instances) else bags.instances
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(values.sum()):
            return
    bad = ~np.isfinite(values)
    if not bad.any():  # finite values whose sum overflowed
        return
    if sp.issparse(bags.instances):
        position = int(np.flatnonzero(bad)[0])
        row = int(np.searchsorted(bags.instances.indptr, position, side="right")) - 1
        column, value = int(bags.instances.indices[position]), values[position]
    else:
        row, column = (int(i) for i in np.argwhere(bad)[0])
        value = values[row, column]
    bag = int(np.searchsorted(bags.offsets, row, side="right")) - 1
    what = "NaN" if np.isnan(value) else "inf"
    raise InputError(
        f"Input X contains {what} (infinity or NaN is not allowed) in bag {bag}, row {row - bags.offsets[bag]} of that "
        f"bag, feature {column}; {int(bad.sum())} such value(s) in all. Fill or drop them first."
    )


# ---------------------------------------------------------------------------------------------------------------------
# Labels


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


# ---------------------------------------------------------------------------------------------------------------------
# Estimators


class BagEstimator(BaseEstimator):
    """Root of all bagwise estimators: turns `X` into `Bags` once, at the edge."""

    def _start_fit(self, X: Any, Y: Any) -> tuple[Bags, np.ndarray]:
        """Validated bags and label indicator; sets ``n_features_in_``, ``classes_`` and ``single_label_``."""
        bags = validate_bags(self, X, reset=True)
        indicator, self.classes_, self.single_label_ = learn_labels(Y, len(bags))
        return bags, indicator

    def _start_predict(self, X: Any) -> Bags:
        check_is_fitted(self)
        return validate_bags(self, X, reset=False)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


class BagClassifierMixin(ClassifierMixin):
    """Bag scores and label sets; a subclass gives `_bag_scores(bags)` and may give `_bag_label_sets(bags)`."""

    classes_: np.ndarray
    single_label_: bool
    _start_predict: Any
    _bag_scores: Any

    def decision_function(self, X: Any) -> np.ndarray:
        """Score of every class for every bag, higher is more likely present.

        Returns
        -------
        (n, c) array. After a fit on (n,) values of two classes, the (n,) difference of the two, as scikit-learn's
        classifiers give.
        """
        scores = self._bag_scores(self._start_predict(X))
        if self.single_label_ and scores.shape[1] == 2:
            return scores[:, 1] - scores[:, 0]
        return scores

    def predict(self, X: Any) -> np.ndarray:
        """Label sets as an (n, c) indicator matrix; after a fit on (n,) values, the (n,) most likely values."""
        bags = self._start_predict(X)
        if self.single_label_:
            return self.classes_[self._bag_scores(bags).argmax(axis=1)]
        return self._bag_label_sets(bags).astype(np.int64)

    def predict_label_sets(self, X: Any) -> list[set[Any]]:
        """The predicted labels of each bag as a set of class values."""
        predicted = self.predict(X)
        if self.single_label_:
            return [{label} for label in predicted.tolist()]
        return decode_labels(predicted, self.classes_)

    def score(self, X: Any, y: Any) -> float:
        """Share of the bags whose label set is predicted exactly."""
        predicted = self.predict(X)
        if self.single_label_:
            predicted = encode_labels(predicted, self.classes_, len(predicted))
        truth = encode_labels(y, self.classes_, len(predicted))
        return float(np.mean((predicted == truth).all(axis=1)))

    def _bag_label_sets(self, bags: Bags) -> np.ndarray:
        """(n, c) indicator; by default the classes whose score is positive."""
        return self._bag_scores(bags) > 0

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        return tags


class InstanceAnnotatorMixin:
    """Labels for instances; a subclass gives `_instance_scores(bags)`."""

    classes_: np.ndarray
    _start_predict: Any
    _instance_scores: Any

    def instance_decision_function(self, X: Any) -> np.ndarray:
        """(m, c) score of every class for every instance."""
        return self._instance_scores(self._start_predict(X))

    def predict_instances(self, X: Any) -> np.ndarray:
        """(m,) most likely class of every instance when the labels of its bag are not known."""
        scores = self.instance_decision_function(X)
        return self.classes_[scores.argmax(axis=1)]

    def annotate(self, X: Any, Y: Any) -> np.ndarray:
        """(m,) most likely class of every instance among the labels of its bag."""
        bags = self._start_predict(X)
        indicator = encode_labels(Y, self.classes_, len(bags))
        check_no_empty_sets(indicator)
        scores = restrict_to_labels(self._instance_scores(bags), bags, indicator)
        return self.classes_[scores.argmax(axis=1)]


def restrict_to_labels(scores: np.ndarray, bags: Bags, indicator: np.ndarray) -> np.ndarray:
    """Instance scores with -inf for every class that the instance's bag does not carry."""
    return np.where(np.repeat(indicator, bags.sizes, axis=0) == 1, scores, -np.inf)


def union_of_best(scores: np.ndarray, bags: Bags) -> np.ndarray:
    """(n, c) indicator of the labels that are the best of some instance of the bag."""
    indicator = np.zeros((len(bags), scores.shape[1]), dtype=np.uint8)
    indicator[bags.bag_index, scores.argmax(axis=1)] = 1
    return indicator


def check_no_empty_sets(indicator: np.ndarray) -> None:
    """Annotation needs something to choose from."""
    empty = np.flatnonzero(~indicator.any(axis=1))
    if len(empty):
        raise InputError(
            f"{len(empty)} bag(s) carry no label, {name_bags(empty)}; an instance can only be given a label of its "
            "bag. Leave these bags out, or use predict_instances."
        )


def name_bags(index: Any, limit: int = 5) -> str:
    """ "bag 3" or "bags 3, 7, 9, ..." for messages."""
    index = [int(i) for i in index]
    shown = ", ".join(str(i) for i in index[:limit]) + (", ..." if len(index) > limit else "")
    return f"bag {shown}" if len(index) == 1 else f"bags {shown}"
