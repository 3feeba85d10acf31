"""A forest of decision trees as plain arrays: growing it with scikit-learn, and walking down it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from bagwise.exceptions import InputError
from bagwise.fitted import Numbers, TupleOf

FITTED = TupleOf(
    Numbers("trees", whole=True), Numbers("nodes", whole=True), Numbers("nodes"), Numbers("nodes", whole=True),
    Numbers("nodes", whole=True), Numbers("leaves", "outputs"),
)  # fmt: skip
"""The arrays of a `Forest` as an attribute of an estimator; `Forest.check` looks at their indices."""


class Forest(NamedTuple):
    """Trees one after another; node numbers count over all of them, and children come after their parent.

    Attributes
    ----------
    roots : (t,) int64
    feature : (n,) int64
        That a node asks for, -1 in a leaf.
    threshold : (n,) float64
        An instance goes left where its feature, in single precision, is not larger.
    left, right : (n,) int64
        Children; in a leaf `left` is the row of `values` that belongs to it.
    values : (leaves, c) float32
        Class shares of every leaf.
    """

    roots: np.ndarray
    feature: np.ndarray
    threshold: np.ndarray
    left: np.ndarray
    right: np.ndarray
    values: np.ndarray

    @classmethod
    def of(cls, trees: Sequence[Any], n_classes: int) -> Forest:
        """The arrays of fitted scikit-learn trees whose classes are column numbers."""

        def shares(tree: Any, is_leaf: np.ndarray) -> np.ndarray:
            found = np.zeros((int(is_leaf.sum()), n_classes), dtype=np.float32)
            counts = tree.tree_.value[is_leaf, 0]
            found[:, tree.classes_] = counts / counts.sum(axis=1, keepdims=True)
            return found

        return cls._of(trees, shares)

    @classmethod
    def of_regression(cls, trees: Sequence[Any]) -> Forest:
        """The arrays of fitted scikit-learn regression trees; a leaf has one value for each of their targets."""
        return cls._of(trees, lambda tree, is_leaf: tree.tree_.value[is_leaf, :, 0].astype(np.float32))

    @classmethod
    def _of(cls, trees: Sequence[Any], values_of: Callable[[Any, np.ndarray], np.ndarray]) -> Forest:
        roots, features, thresholds, lefts, rights, values = [], [], [], [], [], []
        n_nodes = n_leaves = 0
        for tree in trees:
            inner = tree.tree_
            is_leaf = inner.children_left < 0
            found = values_of(tree, is_leaf)
            left = inner.children_left.astype(np.int64) + n_nodes
            left[is_leaf] = n_leaves + np.arange(len(found))
            roots.append(n_nodes)
            features.append(np.where(is_leaf, -1, inner.feature))
            thresholds.append(np.where(is_leaf, 0.0, inner.threshold))
            lefts.append(left)
            rights.append(np.where(is_leaf, -1, inner.children_right.astype(np.int64) + n_nodes))
            values.append(found)
            n_nodes, n_leaves = n_nodes + inner.node_count, n_leaves + len(found)
        return cls(
            np.array(roots, dtype=np.int64),
            np.concatenate(features).astype(np.int64),
            np.concatenate(thresholds),
            np.concatenate(lefts),
            np.concatenate(rights),
            np.concatenate(values),
        )

    def check(self, n_features: int) -> None:
        """Refuse arrays that would lead a walk astray: a model file may hold anything."""
        n_nodes, inner = len(self.feature), self.feature >= 0
        number = np.arange(n_nodes)
        fits = (
            len({len(self.feature), len(self.threshold), len(self.left), len(self.right)}) == 1
            and self.values.ndim == 2
            and np.all((self.roots >= 0) & (self.roots < n_nodes))
            and np.all(self.feature < n_features)
            and np.all((self.left[inner] > number[inner]) & (self.left[inner] < n_nodes))
            and np.all((self.right[inner] > number[inner]) & (self.right[inner] < n_nodes))
            and np.all((self.left[~inner] >= 0) & (self.left[~inner] < len(self.values)))
        )
        if not fits:
            raise InputError("The trees of this model do not fit together; fit it again, or load an undamaged file.")

    def mean_shares(self, X: np.ndarray) -> np.ndarray:
        """(m, c) class shares of the leaves that each instance falls into, averaged over the trees."""
        out = self._sums(X)
        return out / out.sum(axis=1, keepdims=True)  # shares in single precision do not sum to 1 exactly

    def mean_values(self, X: np.ndarray) -> np.ndarray:
        """(m, c) values of the leaves that each row falls into, averaged over the trees."""
        return self._sums(X) / len(self.roots)

    def _sums(self, X: np.ndarray) -> np.ndarray:
        self.check(X.shape[1])
        out = np.zeros((len(X), self.values.shape[1]))
        X = np.ascontiguousarray(X, dtype=np.float32)  # as scikit-learn's trees see it
        walk(X, self.roots, self.feature, self.threshold, self.left, self.right, self.values, out)
        return out


@njit(cache=True, nogil=True, error_model="numpy")
def walk(X, roots, feature, threshold, left, right, values, out):
    """Add to `out` the values of the leaf that every instance reaches in every tree."""
    for t in range(roots.shape[0]):
        for i in range(X.shape[0]):
            node = roots[t]
            while feature[node] >= 0:
                if X[i, feature[node]] <= threshold[node]:
                    node = left[node]
                else:
                    node = right[node]
            leaf = left[node]
            for c in range(out.shape[1]):
                out[i, c] += values[leaf, c]
