"""What may be passed to an estimator: bags in any form, weights, and labels as a matrix, as sets or as values."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d, validate_data

from bagwise.core.bags import Bags, as_bags, as_indicator, is_flat
from bagwise.core.dataset import BagDataset
from bagwise.core.evidence import MARKERS, SAID, OneOf, names_in
from bagwise.core.exceptions import InputError
from bagwise.core.typing import BagsLike, LabelsLike, WeightsLike

LEAST_CONFIDENCE = 1e-9
"""A confidence below this is taken for this; who is surer than that says Absent."""


@dataclass(frozen=True, eq=False)
class Evidence:
    """What is said of bags where that is more than plain lists. Made by `as_evidence`.

    Attributes
    ----------
    values : (n, c) float64 array
        1: listed. 0: not listed. NaN: not known, it may be there or not. Between 0 and 1: the confidence that it is
        there. inf and -inf: certainly there, certainly not.
    groups : (n,) object array of tuples, or None
        Of each bag, tuples of columns of which one at least is there.
    columns : sequence or None
        What the classes are called; None: 0, 1, 2, ...
    """

    values: np.ndarray
    groups: np.ndarray | None = None
    columns: Sequence[Hashable] | None = None

    def __len__(self) -> int:
        return len(self.values)

    @property
    def shape(self) -> tuple[int, int]:
        return self.values.shape

    def __getitem__(self, rows: Any) -> Evidence:
        """That of some bags: a slice, integers or a mask."""
        return replace(self, values=self.values[rows], groups=None if self.groups is None else self.groups[rows])

    def ordered(self, order: np.ndarray) -> Evidence:
        """With other columns in the place of 0, 1, 2, ..."""
        groups, place = None, np.argsort(order)
        if self.groups is not None:
            groups = self.groups.copy()
            groups[:] = [tuple(tuple(sorted(place[list(g)].tolist())) for g in of_bag) for of_bag in self.groups]
        return Evidence(self.values[:, order], groups)

    @property
    def is_list(self) -> np.ndarray:
        """(n,) whether no more is said of a bag than which labels are listed."""
        plain: np.ndarray = np.all(np.isin(self.values, (0.0, 1.0)), axis=1)
        if self.groups is not None:
            plain = plain & np.array([not groups for groups in self.groups])
        return plain

    @property
    def listed(self) -> np.ndarray:
        """(n, c) uint8, 1 where a label is listed, certain, or more probable than not."""
        return (self.values > 0.5).astype(np.uint8)

    @property
    def possible(self) -> np.ndarray:
        """(n, c) uint8, 1 where a label may be in the bag, by what is said of it."""
        return ((self.values != 0.0) & (self.values != -np.inf)).astype(np.uint8)


Given: TypeAlias = np.ndarray | Evidence
"""(n, c) 0/1 array where plain lists are all that is said of bags."""


def listed_labels(given: Given) -> np.ndarray:
    """(n, c) 0/1 array of the labels that are listed, certain, or more probable than not."""
    return given.listed if isinstance(given, Evidence) else given


def possible_labels(given: Given) -> np.ndarray:
    """(n, c) 0/1 array of the labels that may be in the bag: the listed ones, and what evidence says beside these."""
    return given.possible if isinstance(given, Evidence) else given


def as_evidence(values: np.ndarray, groups: Iterable[Iterable[Iterable[int]]] | None = None) -> Given:
    """Numbers and groups of columns, checked, in their simplest form; plain lists as the (n, c) uint8 array they are.

    Of a group, members that are absent are left out, and members that are not listed may be there. A group that says
    nothing new, since it holds a certain label or all labels of another group, is left out.
    """
    values = np.array(values, dtype=np.float64)
    bad = np.argwhere(~(np.isinf(values) | np.isnan(values) | ((values >= 0.0) & (values <= 1.0))))
    if len(bad):
        i, c = bad[0]
        raise InputError(
            f"The label matrix holds {values[i, c]:g} at bag {i}, class {c}; expected only 0 and 1 (1 where the bag "
            "carries the label), a confidence between them, NaN (not known), inf (certainly there) or -inf (certainly "
            "not)."
        )
    unsure = (values > 0.0) & (values < LEAST_CONFIDENCE)
    values[unsure] = LEAST_CONFIDENCE
    kept = None
    if groups is not None:
        kept = np.empty(len(values), dtype=object)
        for bag, of_bag in enumerate(groups):
            kept[bag] = _simplified(bag, values[bag], [frozenset(group) for group in of_bag])
        if not any(map(len, kept)):
            kept = None
    if kept is None and np.isin(values, (0.0, 1.0)).all():
        return values.astype(np.uint8)
    return Evidence(values, kept)


def _simplified(bag: int, values: np.ndarray, groups: list[frozenset[int]]) -> tuple[tuple[int, ...], ...]:
    """The groups of a bag that say something; its values follow from groups in place."""
    found: set[frozenset[int]] = set()
    for group in groups:
        members = frozenset(c for c in group if values[c] != -np.inf)
        if not members:
            raise InputError(
                f"Bag {bag} holds a group (OneOf) all of whose labels are absent from it; one of them must be able to "
                "be there: take one of these back."
            )
        for c in members:
            if values[c] == 0.0:
                values[c] = np.nan
        if len(members) == 1:
            values[next(iter(members))] = np.inf  # all others are absent
        found.add(members)
    certain = frozenset(np.flatnonzero(values == np.inf).tolist())
    open_groups = [group for group in found if not group & certain]
    return tuple(tuple(sorted(g)) for g in sorted(open_groups, key=sorted) if not any(o < g for o in open_groups))


def _evidence_of_sets(sets: list[set[Any]], column: dict[Any, int]) -> tuple[Given, np.ndarray]:
    """Label sets with markers over the classes of these columns, and how many names of each are none of them.

    A group with a member of another class says nothing of these: that one may be what is there.
    """
    values = np.zeros((len(sets), len(column)))
    n_unknown = np.zeros(len(sets), dtype=np.int64)
    groups: list[list[list[int]]] = [[] for _ in sets]
    for i, labels in enumerate(sets):
        stated: dict[Any, Any] = {}
        for label in labels:
            names = names_in(label)
            columns = [column[name] for name in names if name in column]
            n_unknown[i] += len(names) - len(columns)
            if isinstance(label, OneOf):
                if len(columns) == len(names):
                    groups[i].append(columns)
                continue
            if names[0] in stated:
                raise InputError(
                    f"The labels of bag {i} say two things of {names[0]!r}, {stated[names[0]]!r} and {label!r}; "
                    "keep one of them."
                )
            stated[names[0]] = label
            if columns:
                values[i, columns[0]] = SAID.get(type(label), 1.0)
    return as_evidence(values, groups), n_unknown


CONTAINERS = (set, frozenset, list, tuple, np.ndarray)
"""What may hold the labels of one bag."""


def split_dataset(X: BagsLike, y: LabelsLike | None) -> tuple[BagsLike, LabelsLike | None]:
    """Bags and labels; where a `BagDataset` is passed alone, both are its own."""
    if isinstance(X, BagDataset) and y is None:
        return X, X
    return X, y


def validate_bags(estimator: Any, X: BagsLike, *, reset: bool) -> Bags:
    """`X` in any input form as `Bags` of finite features; sets or checks ``n_features_in_``.

    NaN is let through to an estimator whose ``_takes_nan`` says that it knows what to do with it.

    Features that have a name are put into the order of the fit; see `_check_features`.

    Parameters
    ----------
    estimator : estimator
        Receives ``n_features_in_`` (and ``feature_names_in_``) when `reset` is true, else is compared with them.
    X : Bags, BagDataset, list of 2-d arrays or frames, 3-d array, 2-d array or frame
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
        if bags.n_features == 0:
            raise InputError("Found array with 0 feature(s) while a minimum of 1 is required.")
        if reset:
            _set_features(estimator, bags)
        else:
            bags = _check_features(estimator, bags)
    check_finite(bags, may_miss=getattr(estimator, "_takes_nan", False))
    return bags


def _set_features(estimator: Any, bags: Bags) -> None:
    estimator.n_features_in_ = bags.n_features
    estimator.__dict__.pop("feature_names_in_", None)  # of an earlier fit
    if bags.feature_names is not None:
        estimator.feature_names_in_ = np.array(bags.feature_names, dtype=object)


def _check_features(estimator: Any, bags: Bags) -> Bags:
    """The bags with their features in the order of the fit, where both sides have names.

    Bags without names are taken to be in order, as are those of a model that was fitted without.
    """
    expected = getattr(estimator, "feature_names_in_", None)
    if bags.feature_names is not None and expected is not None:
        return bags.with_features(expected.tolist(), type(estimator).__name__)
    if bags.n_features != estimator.n_features_in_:
        raise InputError(
            f"X has {bags.n_features} features, but {type(estimator).__name__} is expecting "
            f"{estimator.n_features_in_} features as input; pass instances with the features it was trained on."
        )
    return bags


def check_finite(bags: Bags, may_miss: bool = False) -> None:
    """Raise an error that names bag and row of the first NaN or infinite feature; of the first infinite one."""
    values = bags.instances.data if sp.issparse(bags.instances) else bags.instances
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(values.sum()):
            return
    bad = np.isinf(values) if may_miss else ~np.isfinite(values)
    if not bad.any():  # finite values whose sum overflowed, or missing ones
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
        f"bag, feature {column}; {int(bad.sum())} such value(s) in all. Fill or drop them first"
        f"{', for example with PerInstance(SimpleImputer())' if what == 'NaN' else ''}."
    )


def check_single_precision(X: Any) -> None:
    """Raise an `InputError` where features are too large for trees, which would take them for infinite."""
    largest = max(float(X.max()), -float(X.min()))
    if largest > float(np.finfo(np.float32).max):
        raise InputError(
            f"The largest feature is {largest:.3g}, and trees work in single precision, which ends at 3.4e38; divide "
            "the features by a power of ten, or scale them, for example with PerInstance(MinMaxScaler())."
        )


def validate_weights(sample_weight: WeightsLike | None, n_bags: int) -> np.ndarray | None:
    """(n,) float64 weights of the bags, None where none were given; one number is the weight of each."""
    if sample_weight is None:
        return None
    try:
        weights = np.asarray(sample_weight, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"sample_weight must hold numbers, one a bag: {error}.") from error
    if weights.ndim == 0:
        weights = np.full(n_bags, float(weights))
    if weights.shape != (n_bags,):
        raise InputError(f"sample_weight has shape {weights.shape}; expected ({n_bags},), one weight for each bag.")
    bad = np.flatnonzero(~(np.isfinite(weights) & (weights >= 0.0)))
    if len(bad):
        raise InputError(f"The weight of bag {bad[0]} is {weights[bad[0]]}; weights must be finite and not negative.")
    if not weights.any():
        raise InputError("All weights are zero, so no bag is left to learn from; give some bags a positive weight.")
    return weights


def distinct_bags(
    bags: Bags, given: Given, weights: np.ndarray | None = None, known: np.ndarray | None = None
) -> tuple[np.ndarray | slice, np.ndarray | None]:
    """Which bags to learn from where copies of a bag are one bag of their summed weight, and these weights.

    Copies have the same instances, labels and known instances. A learner that draws bags at random, or stops short of
    its optimum, so ends where it would with the weights in their place, to the last bit: where there are weights or
    copies, the order of the bags is one that does not depend on the order in which they came. Without either, a
    slice of all and None.

    Examples
    --------
    >>> import numpy as np
    >>> from bagwise import Bags
    >>> from bagwise.core.validation import distinct_bags
    >>> bags, labels = Bags.from_list([[[1.0]], [[2.0]], [[1.0]]]), np.array([[1], [0], [1]])
    >>> index, weights = distinct_bags(bags, labels)
    >>> sorted(zip(index.tolist(), weights.tolist()))
    [(0, 2.0), (1, 1.0)]
    """
    as_they_are = slice(None), None
    if weights is not None and np.all(weights == 1.0):
        weights = None
    if weights is None:  # a glance at the first instances is enough where no two are alike
        sums = np.asarray(bags.instances[bags.offsets[:-1]].sum(axis=1)).ravel()
        if len(np.unique(sums)) == len(bags):
            return as_they_are
    X, said = bags.instances, given.values if isinstance(given, Evidence) else given
    groups = given.groups if isinstance(given, Evidence) else None
    keys = np.empty(len(bags), dtype=np.uint64)
    for b, (start, stop) in enumerate(pairwise(bags.offsets.tolist())):
        parts = [X[start:stop]] if not sp.issparse(X) else []
        if sp.issparse(X):
            own = slice(X.indptr[start], X.indptr[stop])
            parts += [
                X.data[own],
                X.indices[own].astype(np.int64),
                np.diff(X.indptr[start : stop + 1]).astype(np.int64),
            ]
        parts += [said[b]] if known is None else [said[b], known[start:stop]]
        digest = blake2b(repr(None if groups is None else groups[b]).encode(), digest_size=8)
        for part in parts:
            digest.update(np.ascontiguousarray(part).tobytes())
        keys[b] = int.from_bytes(digest.digest(), "little")
    _, index, place = np.unique(keys, return_index=True, return_inverse=True)
    if weights is None and len(index) == len(bags):
        return as_they_are
    return index, np.bincount(place, weights).astype(np.float64)


def refuse_sparse(learner: Any, bags: Bags) -> None:
    """An error where a learner of dense features is given sparse ones."""
    if sp.issparse(bags.instances):
        raise InputError(
            f"{type(learner).__name__} does not take sparse features; reduce them first, for example with "
            "PerInstance(TruncatedSVD(100)), or pass a dense array."
        )


def learn_labels(Y: LabelsLike | None, n_bags: int) -> tuple[np.ndarray, np.ndarray, bool]:
    """Indicator matrix, classes and whether each bag has one label, from any of the three forms of `Y`.

    An (n, c) 0/1 matrix gives the classes 0..c-1 (a data frame: its column names); a list of label sets gives the
    sorted labels; (n,) values give the sorted values; a `BagDataset` gives its classes in their order. Evidence, which
    is more than plain lists, is refused.
    """
    given, classes, single = learn_evidence(Y, n_bags)
    return plain_labels(given), classes, single


def learn_evidence(Y: LabelsLike | None, n_bags: int) -> tuple[Given, np.ndarray, bool]:
    """The same for learners that take evidence: an `Evidence` in place of the matrix where more is said than lists."""
    if Y is None:
        raise InputError("This estimator requires y to be passed, but the target y is None.")
    given: Any = Y
    columns = _headings(Y)
    if isinstance(Y, BagDataset):
        given, columns = _labels_of(Y), Y.class_names
    sets = _as_label_sets(given)
    if sets is not None:
        classes = sort_classes({name for labels in sets for label in labels for name in names_in(label)})
        _check_rows(len(sets), n_bags)
        given = _encode_sets(sets, classes)[0]
        _check_some_label(given)
        return given, classes, False
    if not sp.issparse(given) and not isinstance(given, Evidence):
        given = np.asarray(given)
    is_array = isinstance(given, np.ndarray)
    if is_array and given.ndim == 2 and given.shape[1] == 1 and not np.isin(given, (0, 1)).all():
        _check_values(given[:, 0])  # before the warning that goes with it
        given = column_or_1d(given, warn=True)  # a column of class values, not a matrix of one class
    if is_array and given.ndim == 1:
        _check_values(given)
        check_classification_targets(given)
        classes, codes = np.unique(given, return_inverse=True)
        _check_rows(len(given), n_bags)
        return np.eye(len(classes), dtype=np.uint8)[codes], classes, True
    indicator = as_given(given)
    _check_rows(len(indicator), n_bags)
    if indicator.shape[1] == 0:
        raise InputError("Y has no columns; pass one column per class.")
    _check_some_label(indicator)
    classes = np.arange(indicator.shape[1]) if columns is None else _as_class_array(list(columns))
    return indicator, classes, False


def _check_some_label(given: Given) -> None:
    if not possible_labels(given).any():
        raise InputError("No bag carries any label; at least one label is needed to learn from.")


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


def as_given(Y: Any, n_columns: int | None = None) -> Given:
    """A label matrix as (n, c) uint8 of 0 and 1, or as evidence where floats say more than that.

    Where there are so many columns, lists of label sets over these may be given, too.
    """
    if isinstance(Y, Evidence):
        return Y
    if n_columns is not None and isinstance(Y, (list, tuple)) and any(isinstance(row, (set, frozenset)) for row in Y):
        return encode_evidence(Y, np.arange(n_columns), len(Y))
    Y = Y.toarray() if sp.issparse(Y) else np.asarray(Y)
    if Y.ndim == 2 and Y.dtype.kind == "f" and not ((Y == 0) | (Y == 1)).all():
        return as_evidence(Y)
    return as_indicator(Y)


def plain_labels(given: Given) -> np.ndarray:
    """The 0/1 matrix, for whoever can take no more than lists."""
    if isinstance(given, Evidence):
        raise InputError(
            "The labels say more than plain lists (confidences, NaN, inf, Certain, Possible, Absent or OneOf), which "
            "ORedLogisticRegression, NoisyOrLogisticRegression, ORedForest and ORedNetwork take, and this does not; "
            "pass what is listed, a matrix of 0 and 1: np.where(Y > 0.5, 1, 0)."
        )
    return given


def encode_labels(Y: LabelsLike | None, classes: np.ndarray, n_bags: int, *, drop_unknown: bool = False) -> np.ndarray:
    """(n, c) indicator matrix of `Y`, in any of its forms, over the classes that were learned.

    A label of another class is an error, or with `drop_unknown` left out. Evidence is refused.
    """
    return plain_labels(encode_evidence(Y, classes, n_bags, drop_unknown=drop_unknown))


def encode_evidence(Y: LabelsLike | None, classes: np.ndarray, n_bags: int, *, drop_unknown: bool = False) -> Given:
    """The same for learners that take evidence."""
    indicator, n_unknown = _encode(Y, classes, n_bags)
    if n_unknown.any() and not drop_unknown:
        bag = int(np.flatnonzero(n_unknown)[0])
        known = classes.tolist()
        names = {name for label in (_plain_sets(Y) or [])[bag] for name in names_in(label)}
        label = next(label for label in sort_classes(names).tolist() if label not in set(known))
        shown = ", ".join(repr(name) for name in known[:8]) + (", ..." if len(known) > 8 else "")
        raise InputError(f"Bag {bag} carries the unknown label {label!r}; the classes are {shown}.")
    return indicator


def encode_known(Y: LabelsLike | None, classes: np.ndarray, n_bags: int) -> tuple[np.ndarray, np.ndarray]:
    """(n, c) indicator over the classes that were learned, and the (n,) number of labels of other classes.

    Of evidence: the labels that are listed, certain, or more probable than not.
    """
    given, n_unknown = _encode(Y, classes, n_bags)
    return listed_labels(given), n_unknown


def _encode(Y: LabelsLike | None, classes: np.ndarray, n_bags: int) -> tuple[Given, np.ndarray]:
    sets = _plain_sets(Y)
    if sets is not None:
        _check_rows(len(sets), n_bags)
        return _encode_sets(sets, classes)
    table: Any = Y if sp.issparse(Y) or isinstance(Y, Evidence) else np.asarray(Y)
    _check_rows(table.shape[0] if len(table.shape) else 0, n_bags)
    indicator = as_given(table)
    if indicator.shape[1] != len(classes):
        raise InputError(
            f"Y has {indicator.shape[1]} columns but {len(classes)} classes were learned; pass one column per class."
        )
    columns = _headings(Y)
    if columns is not None:
        order = np.array(_order_of(columns, classes.tolist()))
        if isinstance(indicator, Evidence):
            return indicator.ordered(order), np.zeros(len(indicator), dtype=np.int64)
        indicator = indicator[:, order]
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
    if sets is None and not sp.issparse(Y) and not isinstance(Y, Evidence):
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


def _encode_sets(sets: list[set[Any]], classes: np.ndarray) -> tuple[Given, np.ndarray]:
    """Indicator or evidence, and how many labels of each bag are none of the classes."""
    column = {label: c for c, label in enumerate(classes.tolist())}
    if any(type(label) in MARKERS for labels in sets for label in labels):
        return _evidence_of_sets(sets, column)
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
