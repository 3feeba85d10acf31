"""A forest of decision trees as plain arrays: growing it with scikit-learn, and walking down it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from bagwise.core.bags import offsets_of
from bagwise.core.checks import check_allocation
from bagwise.core.exceptions import InputError
from bagwise.core.fitted import Numbers, Size, TupleOf
from bagwise.kernels._cache import njit

DAMAGED = "The trees of this model do not fit together; fit it again, or load an undamaged file."
FITTED, FITTED_SECOND = (
    TupleOf(
        Numbers(f"trees{which}", whole=True),
        Numbers(f"nodes{which}", whole=True),
        Numbers(f"nodes{which}"),
        Numbers(f"nodes{which}", whole=True),
        Numbers(f"said{which}+1", whole=True),
        Numbers(f"entries{which}", whole=True, empty=True),
        Numbers(f"entries{which}", empty=True),
        Size("outputs"),
    )
    for which in ("", "_second")
)
"""The arrays of a `Forest`, and of a second one, as attributes of an estimator; `Forest.check` looks at indices."""


class Forest(NamedTuple):
    """Trees one after another; node numbers count over all of them, and a left child comes right after its parent.

    A node takes ten bytes, and leaves that say the same share what they say: most are of one class.

    Attributes
    ----------
    roots : (t,) int64
    feature : (n,) int16 or int32
        That a node asks for, -1 in a leaf.
    threshold : (n,) float32
        An instance goes left where its feature, in single precision, is not larger.
    link : (n,) int32
        The right child; in a leaf the number of what it says.
    starts : (s + 1,) int32
        Where in `columns` and `shares` each of the different things that leaves say begins.
    columns, shares : (e,) uint16 or int32, and float32
        Classes that are not zero there, and their shares.
    n_columns : int
    """

    roots: np.ndarray
    feature: np.ndarray
    threshold: np.ndarray
    link: np.ndarray
    starts: np.ndarray
    columns: np.ndarray
    shares: np.ndarray
    n_columns: int

    @classmethod
    def of(cls, trees: Sequence[Any], n_classes: int) -> Forest:
        """The arrays of fitted scikit-learn trees whose classes are column numbers."""

        return cls._of(trees, lambda tree, is_leaf: _shares_in(tree, is_leaf, n_classes))

    @classmethod
    def of_regression(cls, trees: Sequence[Any]) -> Forest:
        """The arrays of fitted scikit-learn regression trees; a leaf has one value for each of their targets."""
        return cls._of(trees, _values_in)

    @classmethod
    def _of(cls, trees: Sequence[Any], values_of: Callable[[Any, np.ndarray], np.ndarray]) -> Forest:
        roots, features, thresholds, links, leaves = [], [], [], [], _Leaves()
        n_nodes = 0
        for tree in trees:
            inner = tree.tree_
            is_leaf = inner.children_left < 0
            number = np.arange(inner.node_count)
            if np.any((inner.children_left != number + 1) & ~is_leaf):
                raise RuntimeError("scikit-learn numbers the nodes of trees in another order than is expected here.")
            link = inner.children_right.astype(np.int64) + n_nodes
            link[is_leaf] = leaves.add(values_of(tree, is_leaf))
            roots.append(n_nodes)
            features.append(np.where(is_leaf, -1, inner.feature))
            thresholds.append(_round_down(np.where(is_leaf, 0.0, inner.threshold)))
            links.append(link)
            n_nodes += inner.node_count
        return cls(
            np.array(roots, dtype=np.int64),
            _narrow(np.concatenate(features), np.int16),
            np.concatenate(thresholds),
            np.concatenate(links).astype(np.int32),
            *leaves.arrays(),
        )

    def check(self, n_features: int) -> None:
        """Refuse arrays that would lead a walk astray: a model file may hold anything."""
        fits = (
            len({len(self.feature), len(self.threshold), len(self.link)}) == 1
            and len(self.columns) == len(self.shares)
            and type(self.n_columns) is int
            and 0 <= self.n_columns < 2**62
            and _fits(self.roots, self.feature, self.link, self.starts, self.columns, self.n_columns, n_features)
        )
        if not fits:
            raise InputError(DAMAGED)

    def mean_shares(self, X: np.ndarray) -> np.ndarray:
        """(m, c) class shares of the leaves that each instance falls into, averaged over the trees."""
        return _summing_to_one(self._sums(X))

    def mean_values(self, X: np.ndarray) -> np.ndarray:
        """(m, c) values of the leaves that each row falls into, averaged over the trees."""
        return self._sums(X) / len(self.roots)

    def _sums(self, X: np.ndarray) -> np.ndarray:
        self.check(X.shape[1])
        check_allocation(
            8 * len(X) * self.n_columns, f"What trees say of {len(X)} instances", "ask for fewer bags at a time"
        )
        out = np.zeros((len(X), self.n_columns))
        X = np.ascontiguousarray(X, dtype=np.float32)  # as scikit-learn's trees see it
        _walk(X, self.roots, self.feature, self.threshold, self.link, self.starts, self.columns, self.shares, out)
        return out


def tree_shares(tree: Any, X: np.ndarray, n_classes: int) -> np.ndarray:
    """(m, c) class shares that one fitted scikit-learn tree gives to (m, d) single precision.

    The same bits as of ``Forest.of([tree], n_classes)``, without making one: for a tree that is asked once.
    """
    return _summing_to_one(_shares_in(tree, tree.tree_.apply(X), n_classes).astype(np.float64))


def tree_values(tree: Any, X: Any) -> np.ndarray:
    """(m, c) values that one fitted scikit-learn regression tree gives to (m, d) single precision, dense or sparse.

    The same bits as of ``Forest.of_regression([tree])``, without making one.
    """
    return _values_in(tree, tree.tree_.apply(X)).astype(np.float64)


def _values_in(tree: Any, nodes: np.ndarray) -> np.ndarray:
    """Values of all targets in nodes of a fitted scikit-learn regression tree, in single precision."""
    return tree.tree_.value[nodes, :, 0].astype(np.float32)


def _shares_in(tree: Any, nodes: np.ndarray, n_classes: int) -> np.ndarray:
    """Class shares in nodes of a fitted scikit-learn tree whose classes are column numbers, in single precision."""
    counts = tree.tree_.value[nodes, 0]
    found = np.zeros((len(counts), n_classes), dtype=np.float32)
    found[:, tree.classes_] = counts / counts.sum(axis=1, keepdims=True)
    return found


def _summing_to_one(shares: np.ndarray) -> np.ndarray:
    return shares / shares.sum(axis=1, keepdims=True)  # in single precision they do not exactly


class _Leaves:
    """What leaves say, each different thing once."""

    def __init__(self) -> None:
        self._number: dict[bytes, int] = {}
        self._rows: list[np.ndarray] = []

    def add(self, values: np.ndarray) -> np.ndarray:
        """(leaves,) numbers of the rows of (leaves, c) values."""
        values = np.ascontiguousarray(values, dtype=np.float32) + np.float32(0.0)  # no negative zeros
        different, index = np.unique(values.view(f"V{4 * values.shape[1]}").ravel(), return_inverse=True)
        different = different.view(np.float32).reshape(-1, values.shape[1])
        numbers = np.empty(len(different), dtype=np.int64)
        for i, row in enumerate(different):
            key = row.tobytes()
            number = self._number.setdefault(key, len(self._rows))
            if number == len(self._rows):
                self._rows.append(row)
            numbers[i] = number
        return numbers[index.ravel()]

    def arrays(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
        """`starts`, `columns`, `shares` and `n_columns` of a `Forest`."""
        values = np.stack(self._rows)
        rows, columns = np.nonzero(values)
        starts = offsets_of(np.bincount(rows, minlength=len(values))).astype(np.int32)
        return starts, _narrow(columns, np.uint16), values[rows, columns], values.shape[1]


def _narrow(numbers: np.ndarray, kind: type) -> np.ndarray:
    """In few bytes where they fit, else in four."""
    return numbers.astype(kind if numbers.max(initial=0) <= np.iinfo(kind).max else np.int32)


def _round_down(thresholds: np.ndarray) -> np.ndarray:
    """The largest number in single precision that is not larger: no such number is on another side of it."""
    near = thresholds.astype(np.float32)
    return np.where(near > thresholds, np.nextafter(near, np.float32(-np.inf)), near).astype(np.float32)


@njit(cache=True, nogil=True, error_model="numpy")
def _fits(roots, feature, link, starts, columns, n_columns, n_features):
    """Whether no index leads out of its array, and no node to itself or to one before it."""
    n_nodes, n_said = feature.shape[0], starts.shape[0] - 1
    fits = n_said >= 0
    for root in roots:
        fits &= (root >= 0) & (root < n_nodes)
    for node in range(n_nodes):
        inner = feature[node] >= 0
        first, end = (node + 2, n_nodes) if inner else (0, n_said)  # the left child comes right after its parent
        fits &= (feature[node] < n_features) & (link[node] >= first) & (link[node] < end)
    for i in range(n_said):
        fits &= (starts[i] >= 0) & (starts[i] <= starts[i + 1])
    for column in columns:
        fits &= (column >= 0) & (column < n_columns)
    return fits and starts[n_said] <= columns.shape[0]


@njit(cache=True, nogil=True, error_model="numpy")
def _walk(X, roots, feature, threshold, link, starts, columns, shares, out):
    """Add to `out` the values of the leaf that every instance reaches in every tree."""
    for t in range(roots.shape[0]):
        for i in range(X.shape[0]):
            node = roots[t]
            while feature[node] >= 0:
                if X[i, feature[node]] <= threshold[node]:
                    node += 1
                else:
                    node = np.int64(link[node])
            leaf = link[node]
            for e in range(starts[leaf], starts[leaf + 1]):
                out[i, columns[e]] += shares[e]
