"""Where M3IC's weights live: the features themselves, or the space of an RBF kernel.

Both give scores of all instances under a random start (balanced exactly) or under a solution, products of witnesses for
the cutting planes, and `along`, each instance's part along the direction u of the sum of the bags' means; the `length`
of that sum says how much that part counts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from sklearn.metrics.pairwise import rbf_kernel

from bagwise.clustering._shared import unit_direction
from bagwise.core.bags import Bags
from bagwise.core.checks import check_allocation
from bagwise.kernels.clusters import combine_rows, multiply_rows, score_few
from bagwise.kernels.segments import Rows

FEW_FEATURES = 64  # below it a general matrix product scores faster than dot products, row by row


@dataclass(frozen=True)
class Expansion:
    """W = k/(k-1) sum_i weights_i (e_{r_i} - 1/k) (x) x_i + shift (x) u, over the witnesses x_i.

    Attributes
    ----------
    rows : (n,) rows of the witnesses
    clusters : (n,) clusters r_i
    weights : (n,) array
    shift : (k,) array, of sum zero
    """

    rows: np.ndarray
    clusters: np.ndarray
    weights: np.ndarray
    shift: np.ndarray

    def coefficients(self) -> np.ndarray:
        """(n, k) coefficients of the witnesses in the k weight vectors."""
        k = len(self.shift)
        out = np.zeros((len(self.rows), k))
        out[np.arange(len(self.rows)), self.clusters] = self.weights
        out -= self.weights[:, None] / k
        return out * (k / (k - 1))


class LinearSpace:
    """Weights are vectors of features."""

    def __init__(self, bags: Bags):
        X = bags.instances
        self.X = X.astype(np.float64) if sp.issparse(X) else np.ascontiguousarray(X, dtype=np.float64)
        self.rows = Rows.of(self.X)
        shares = _shares(bags)
        size = float(shares @ np.asarray(abs(self.X).sum(axis=1)).ravel())
        self.u, self.length = unit_direction(np.asarray(shares @ self.X).ravel(), size)
        self.along = np.asarray(self.X @ self.u)

    def random_scores(self, rng: np.random.RandomState, n_clusters: int) -> np.ndarray:
        W = rng.standard_normal((n_clusters, self.X.shape[1]))
        W -= np.outer(W @ self.u, self.u)  # orthogonal to u: the sums of all clusters' scores are zero
        return self._score(W)

    def _score(self, W: np.ndarray) -> np.ndarray:
        if not sp.issparse(self.X) and W.shape[1] < FEW_FEATURES:
            return self.X @ W.T
        scores = np.empty((self.X.shape[0], len(W)))
        score_few(*self.rows, W, np.ascontiguousarray(W.T) if sp.issparse(self.X) else W.T, scores)
        return scores

    def multiplier(self, rows: np.ndarray, clusters: np.ndarray, n_clusters: int) -> Callable[[np.ndarray], np.ndarray]:
        factor = (n_clusters / (n_clusters - 1)) ** 2

        def multiply(weights: np.ndarray) -> np.ndarray:
            sums, products = np.zeros((n_clusters, self.X.shape[1])), np.empty(len(rows))
            multiply_rows(*self.rows, rows, clusters, weights, factor, sums, products)
            return products

        return multiply

    def weight_vectors(self, expansion: Expansion) -> np.ndarray:
        """(k, d) weights."""
        W = np.outer(expansion.shift, self.u)
        combine_rows(*self.rows, expansion.rows, expansion.coefficients(), W)
        return W

    def scores(self, expansion: Expansion) -> np.ndarray:
        return self._score(self.weight_vectors(expansion))


class KernelSpace:
    """Weights are sums of images of instances under exp(-gamma ||x - z||^2) (Appendix D)."""

    def __init__(self, bags: Bags, gamma: float):
        m = bags.n_instances
        check_allocation(
            16 * m * m,  # the matrix, and the distances it is made from
            f"The kernel matrix of {m} instances",
            "use fewer bags, or kernel='linear' on random Fourier features of bagwise.preprocessing",
        )
        self.K = rbf_kernel(bags.instances, gamma=gamma)
        self.shares = _shares(bags)
        sums = self.K @ self.shares
        self.length = float(np.sqrt(max(self.shares @ sums, 0.0)))
        self.along = sums / self.length  # <phi(x), u> with u = sum_i shares_i phi(x_i) / length

    def random_scores(self, rng: np.random.RandomState, n_clusters: int) -> np.ndarray:
        coefficients = rng.standard_normal((len(self.K), n_clusters))
        scores = self.K @ coefficients
        return scores - np.outer(self.along, self.along @ coefficients)

    def multiplier(self, rows: np.ndarray, clusters: np.ndarray, n_clusters: int) -> Callable[[np.ndarray], np.ndarray]:
        factor = (n_clusters / (n_clusters - 1)) ** 2
        K = self.K[np.ix_(rows, rows)]
        everyone = np.arange(len(rows))

        def multiply(weights: np.ndarray) -> np.ndarray:
            by_cluster = np.zeros((len(rows), n_clusters))
            by_cluster[everyone, clusters] = weights
            sums = K @ by_cluster
            return factor * (sums[everyone, clusters] - sums.mean(axis=1))

        return multiply

    def coefficients(self, expansion: Expansion) -> np.ndarray:
        """(m, k) coefficients of all instances in the k weight vectors."""
        out = np.outer(self.shares / self.length, expansion.shift)
        out[expansion.rows] += expansion.coefficients()
        return out

    def scores(self, expansion: Expansion) -> np.ndarray:
        return self.K[expansion.rows].T @ expansion.coefficients() + np.outer(self.along, expansion.shift)


def _shares(bags: Bags) -> np.ndarray:
    """(m,) weights 1 / n_i that make the sum of the bags' means."""
    return np.repeat(1.0 / bags.sizes, bags.sizes)
