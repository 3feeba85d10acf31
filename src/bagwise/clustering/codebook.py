"""Kinds of instances, and how many of each kind a bag holds."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.cluster import KMeans
from sklearn.metrics.pairwise import euclidean_distances

from bagwise.bags import Bags

MOST_LEARNED = 20_000  # instances that a codebook is learned from
FEWEST_KINDS, MOST_KINDS = 8, 64
BLOCK = 2**20  # memberships held at once


class Codebook(NamedTuple):
    """Kinds of instances as round Gaussians of one width and equal weight.

    Attributes
    ----------
    centres : (v, d) array
    width : float
        Variance of an instance around its centre, in each direction.
    """

    centres: np.ndarray
    width: float

    def memberships(self, X: Any) -> np.ndarray:
        """(m, v) probability of each kind for each instance."""
        squares = euclidean_distances(X, self.centres, squared=True).astype(np.float64, copy=False)
        squares -= squares.min(axis=1, keepdims=True)
        shares = np.exp(-squares / (2.0 * self.width)) if self.width > 0.0 else (squares == 0.0).astype(np.float64)
        return shares / shares.sum(axis=1, keepdims=True)

    def counts(self, bags: Bags) -> np.ndarray:
        """(n, v) expected number of instances of each kind in each bag."""
        found = np.empty((len(bags), len(self.centres)))
        most = max(1, BLOCK // len(self.centres))
        first = 0
        while first < len(bags):  # as many whole bags as fit, at least one
            last = max(first + 1, int(np.searchsorted(bags.offsets, bags.offsets[first] + most, side="right")) - 1)
            rows = slice(bags.offsets[first], bags.offsets[last])
            shares = self.memberships(bags.instances[rows])
            found[first:last] = np.add.reduceat(shares, bags.offsets[first:last] - bags.offsets[first], axis=0)
            first = last
        return found


def learn_codebook(bags: Bags, rng: np.random.RandomState) -> Codebook:
    """Kinds by k-means of all instances, about the root of their number: 8 at least, 64 at most."""
    X = bags.instances
    if X.shape[0] > MOST_LEARNED:
        X = X[np.sort(rng.permutation(X.shape[0])[:MOST_LEARNED])]
    n_kinds = int(np.clip(round(bags.n_instances**0.5), FEWEST_KINDS, MOST_KINDS))
    n_kinds = min(n_kinds, _count_distinct(X))
    model = KMeans(n_kinds, n_init=1, random_state=rng.randint(2**31 - 1)).fit(X)
    width = float(model.inertia_) / (X.shape[0] * X.shape[1])
    return Codebook(np.asarray(model.cluster_centers_, dtype=np.float64), width)


def _count_distinct(X: Any) -> int:
    """How many instances differ; more centres than these cannot be."""
    return len(np.unique(X.toarray() if sp.issparse(X) else X, axis=0))


def count_words(bags: Bags) -> sp.csr_matrix:
    """(n, d) words of each bag, every instance given as many as it has different ones, whatever its unit or length."""
    X = sp.csr_matrix(bags.instances, dtype=np.float64)
    totals = np.asarray(X.sum(axis=1)).ravel()
    different = np.asarray((X > 0).sum(axis=1)).ravel()
    weights = different / np.where(totals > 0.0, totals, 1.0)
    gather = sp.csr_matrix((weights, np.arange(X.shape[0]), bags.offsets), shape=(len(bags), X.shape[0]))
    return gather @ X
