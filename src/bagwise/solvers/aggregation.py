"""How instance scores become bag scores, and which instances stand behind them.

An aggregation maps (m, c) instance scores to (n, c) bag scores F_ij = w_j . x_ij, and says which support instances
x_ij it used: while these are held fixed, the bag scores are linear in the weights. Support instances are never built
(there are n c of them, of d features each): a `Support` names rows, or weights of rows.

References
----------
.. [1] F. Briggs, X. Z. Fern, R. Raich, Q. Lou (2013): Instance annotation for multi-instance multi-label learning. ACM
       Transactions on Knowledge Discovery from Data 7 (3), article 14, section 4.2.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy.sparse as sp

from bagwise.core.bags import Bags
from bagwise.kernels.pegasos import Support
from bagwise.kernels.segments import segment_max, segment_softmax

Aggregation = Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, Support]]
"""(m, c) instance scores, which it may overwrite, and (n + 1,) offsets -> (n, c) bag scores and their support."""


def _aggregate_max(scores: np.ndarray, offsets: np.ndarray) -> tuple[np.ndarray, Support]:
    """The largest score of the bag; its instance, the first of equals, is the support (equations 6 and 7 of [1]_)."""
    shape = (len(offsets) - 1, scores.shape[1])
    bag_scores, rows = np.empty(shape), np.empty(shape, dtype=np.int64)
    segment_max(scores, offsets, bag_scores, rows)
    return bag_scores, Support(rows=rows)


def _aggregate_softmax(scores: np.ndarray, offsets: np.ndarray) -> tuple[np.ndarray, Support]:
    """The scores' mean under weights exp(score) / sum exp(score), computed safely (equations 8 to 10, 65 of [1]_)."""
    bag_scores = np.empty((len(offsets) - 1, scores.shape[1]))
    segment_softmax(scores, offsets, bag_scores)
    return bag_scores, Support(weights=scores)


def _aggregate_mean(scores: np.ndarray, offsets: np.ndarray) -> tuple[np.ndarray, Support]:
    """The plain mean: the support of the first phase of every solver (Algorithms 4 and 5 of [1]_)."""
    sizes = np.diff(offsets)
    bag_scores = np.add.reduceat(scores, offsets[:-1], axis=0) / sizes[:, None]
    scores[:] = np.repeat(1.0 / sizes, sizes)[:, None]
    return bag_scores, Support(weights=scores)


def bag_means(bags: Bags) -> np.ndarray:
    """(n, d) float64 mean of the instances of each bag."""
    means = averaging_matrix(bags.offsets) @ bags.instances
    return np.asarray(means.todense() if sp.issparse(means) else means, dtype=np.float64)


def averaging_matrix(offsets: np.ndarray) -> sp.csr_matrix:
    """(n, m) matrix whose product with the instances are the means of the bags."""
    sizes = np.diff(offsets)
    shares, m = np.repeat(1.0 / sizes, sizes), int(offsets[-1])
    return sp.csr_matrix((shares, np.arange(m), offsets), shape=(len(sizes), m))


AGGREGATIONS: dict[str, Aggregation] = {
    "max": _aggregate_max,
    "softmax": _aggregate_softmax,
    "mean": _aggregate_mean,
}
