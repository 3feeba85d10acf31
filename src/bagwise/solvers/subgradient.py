"""Projected sub-gradient descent on a bag-level hinge loss, and the alternating heuristic built on it.

References
----------
.. [1] F. Briggs, X. Z. Fern, R. Raich, Q. Lou (2013): Instance annotation for multi-instance multi-label learning. ACM
       Transactions on Knowledge Discovery from Data 7 (3), article 14.
.. [2] F. Briggs, X. Z. Fern, R. Raich (2012): Rank-loss support instance machines for MIML instance annotation. KDD,
       534-542.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numba import njit

from bagwise.aggregation import Aggregation, Support
from bagwise.bags import Bags
from bagwise.kernels.ranking import hinge_slopes
from bagwise.kernels.segments import (
    VECTORISED,
    Rows,
    score_chosen_rows,
    score_rows,
    segment_max,
    segment_weighted_sum,
)
from bagwise.losses import Loss, label_lists
from bagwise.solvers.result import Callback, CheckpointLike, SolveResult

# how the score of a bag and a class comes about: from one row, from weighted rows, or (CCCP) from one row or weighted
# rows for the bag's labels and the best row under the current weights for all other classes
ONE_ROW, WEIGHTED_ROWS, UPPER_BOUND = 0, 1, 2
DENSE_FROM = 0.35  # share of changed slopes from which a product with all rows beats adding row after row
BLOCK_ENTRIES = 8192  # instance scores that are worked on at a time: they stay in the processor's cache


class Layout(NamedTuple):
    """Bags and labels as plain arrays: bag i's labels are ``labels[label_starts[i]:label_starts[i + 1]]``."""

    offsets: np.ndarray
    label_starts: np.ndarray
    labels: np.ndarray
    bag_weights: np.ndarray
    blocks: np.ndarray  # first bag of every block that is worked on at a time, and the number of bags
    block_rows: int  # rows of the largest block


@dataclass(frozen=True)
class BagProblem:
    """alpha / 2 ||W||^2 + loss(F, Y) for weights W, (c, d), and bag scores F, (n, c), that an aggregation gives.

    Attributes
    ----------
    instances : (m, d) float64 array or CSR matrix
    offsets : (n + 1,) array of int
    Y : (n, c) array of 0 and 1
    loss : Loss
    alpha : float
        lambda of the papers.
    """

    instances: Any
    offsets: np.ndarray
    Y: np.ndarray
    loss: Loss
    alpha: float

    @classmethod
    def build(cls, bags: Bags, Y: np.ndarray, loss: Loss, alpha: float) -> BagProblem:
        instances = bags.instances.astype(np.float64, copy=False)
        if not sp.issparse(instances):
            instances = np.require(instances, requirements=["C", "W"])  # what the kernels are compiled for
        return cls(instances, np.require(bags.offsets, requirements=["C", "W"]), Y, loss, alpha)

    @property
    def start(self) -> np.ndarray:
        """The zero weights from which every solver starts; the objective is 1 there."""
        return np.zeros((self.Y.shape[1], self.instances.shape[1]))

    def layout(self) -> Layout:
        """What the kernels see of bags and labels."""
        blocks = _block_starts(self.offsets, self.Y.shape[1])
        block_rows = int(np.diff(self.offsets[blocks]).max())
        return Layout(self.offsets, *label_lists(self.Y), self.loss.bag_weights(self.Y), blocks, block_rows)

    def means(self) -> BagProblem:
        """The same problem with each bag's mean for its only instance."""
        sizes = np.diff(self.offsets)
        n_bags, n_instances = len(sizes), self.offsets[-1]
        averaging = sp.csr_matrix(
            (np.repeat(1.0 / sizes, sizes), np.arange(n_instances), self.offsets), shape=(n_bags, n_instances)
        )
        return replace(self, instances=averaging @ self.instances, offsets=np.arange(n_bags + 1))

    def aggregate(self, aggregation: Aggregation, weights: np.ndarray) -> tuple[float, Support]:
        """The objective (equation 11), convex only where the aggregation is linear, and the support, at `weights`."""
        bag_scores, support = aggregation(np.asarray(self.instances @ weights.T), self.offsets)
        value, _ = self.loss(bag_scores, self.Y)
        return value + 0.5 * self.alpha * float(np.vdot(weights, weights)), support


@dataclass(frozen=True)
class Descent:
    """What `descend` went through: weights of the lowest value, last weights, and the value at every step."""

    best: np.ndarray
    last: np.ndarray
    values: np.ndarray

    @property
    def best_value(self) -> float:
        return float(self.values.min())


def descend(
    problem: BagProblem,
    support: Support,
    start: np.ndarray,
    *,
    n_steps: int,
    first_step: int = 1,
    skip_start: bool = False,
    upper_bound: bool = False,
) -> Descent:
    """Pegasos on the convex problem that fixed support instances leave (Algorithm 1 of [1]_).

    Step t goes from W to the projection of W - V / (alpha t) on the ball ||W||^2 <= 2 / alpha, which holds the solution
    (Lemma 4.1); V is a sub-gradient of alpha / 2 ||W||^2 + loss.

    Parameters
    ----------
    problem : BagProblem
    support : Support
    start : (c, d) array
    n_steps : int
    first_step : int
        Number of the first step, which sets its length.
    skip_start : bool
        Let the best weights be the best after some step, even where the start is better.
    upper_bound : bool
        Use the fixed support for the labels of a bag only; the score of any other class is the largest under the
        current weights. That is CCCP's convex upper bound (equation 25) instead of equation 26.

    Returns
    -------
    Descent
        With n_steps + 1 values: at the start and after every step.

    Notes
    -----
    A step costs one product of instances and weights (none where each support instance is one row: then n c inner
    products) and a sweep over the bags. The slopes of the hinges are small whole numbers of which a step changes few,
    so the sub-gradient is kept and moved by the changed ones only.
    """
    if upper_bound:
        mode = UPPER_BOUND
    else:
        mode = WEIGHTED_ROWS if support.rows is None else ONE_ROW
    weights, best, values = start.copy(), start.copy(), np.empty(n_steps + 1)
    support_arrays = (
        np.empty((0, 0), dtype=np.int64) if support.rows is None else support.rows,
        np.empty((0, 0)) if support.weights is None else support.weights,
    )
    rows, layout = Rows.of(problem.instances), problem.layout()
    loss, alpha = problem.loss.code, problem.alpha
    _pegasos(mode, rows, layout, support_arrays, loss, alpha, first_step, skip_start, weights, best, values)
    return Descent(best, weights, values)


def heuristic(
    problem: BagProblem,
    aggregation: Aggregation,
    *,
    n_phases: int,
    n_steps: int,
    restart: str = "best",
    callback: Callback | None = None,
    checkpoint: CheckpointLike | None = None,
) -> SolveResult:
    """Alternate between finding the support instances and descending with them fixed (Algorithm 4 of [1]_).

    Parameters
    ----------
    problem : BagProblem
    aggregation : Aggregation
    n_phases, n_steps : int
        T and K of the paper. The first phase uses the bags' means for support; its best weights are never the zero
        weights from which it starts, since they could not tell one instance from another.
    restart : {"best", "last"}
        Go on from the phase's weights of the lowest convex objective, as in [1]_, or from its last, as in [2]_.
    callback : callable or None
        Called after every phase with its number and the objective.
    checkpoint : Checkpoint or None
        Keeps the weights of every phase; if it has kept any, the phases after them are run.

    Returns
    -------
    SolveResult
        The history is the true objective (equation 11) after every phase; it may rise.
    """
    weights, history = problem.start, list[float]()
    phase_problem = problem.means()
    support = Support(weights=np.ones(problem.Y.shape))
    kept = None if checkpoint is None else checkpoint.load()
    if kept is not None:
        weights, history, phase_problem = kept["weights"], kept["history"].tolist(), problem
        support = problem.aggregate(aggregation, weights)[1]
    for phase in range(len(history) + 1, n_phases + 1):
        descent = descend(phase_problem, support, weights, n_steps=n_steps, skip_start=phase == 1)
        weights = descent.best if restart == "best" else descent.last
        phase_problem = problem
        value, support = problem.aggregate(aggregation, weights)
        history.append(value)
        if checkpoint is not None:
            checkpoint.save(weights=weights, history=history)
        if callback is not None:
            callback(phase, value)
    return SolveResult(weights, history[-1], n_phases, True, np.asarray(history))


def _block_starts(offsets: np.ndarray, n_classes: int) -> np.ndarray:
    """First bag of every block, and the number of bags: blocks of about `BLOCK_ENTRIES` scores, at least 64 rows."""
    n_rows = max(64, BLOCK_ENTRIES // n_classes)
    n_bags, starts = len(offsets) - 1, [0]
    while starts[-1] < n_bags:
        bag = starts[-1]
        starts.append(max(bag + 1, int(np.searchsorted(offsets, offsets[bag] + n_rows, side="right")) - 1))
    return np.asarray(starts)


# The kernels below pass tuples of arrays and loop over bags inside: handing a dozen arrays to a function for every bag
# costs more than what is done there for a bag of four instances.


@njit(cache=True, nogil=True, error_model="numpy")
def _pegasos(mode, rows, layout, support, loss, alpha, first_step, skip_start, weights, best, values):
    """All steps; `weights` holds the start and is moved, `best` and `values` are filled."""
    n_bags, (n_classes, n_features) = layout.bag_weights.shape[0], weights.shape
    slopes = np.zeros((n_bags, n_classes))  # of every bag and class, as they now stand in `pull`
    behind = np.full((n_bags, n_classes), -1)  # the row to which each of them belongs, -1 for weighted rows
    pull = np.zeros((n_classes, n_features))  # sub-gradient of the loss
    transposed = np.empty((n_features, n_classes))
    shape = (layout.block_rows, n_classes)
    changed, product = np.empty((shape[0] * n_classes + 1, 2), dtype=np.uint32), np.empty(weights.shape)
    work = (np.empty(shape), np.empty(shape), np.full(shape, -1), np.empty(shape), np.empty(shape[0]), changed, product)
    n_steps, lowest = values.shape[0] - 1, np.inf
    for step in range(n_steps + 1):
        _copy(weights.T, transposed)
        n_active = 0.0
        for b in range(layout.blocks.shape[0] - 1):
            start, stop = layout.blocks[b], layout.blocks[b + 1]
            _score_block(start, stop, mode, rows, layout, support, weights, transposed, work)
            n_active += _update_block(start, stop, mode, rows, layout, support, loss, work, slopes, behind, pull)
        # each active hinge is 1 plus a linear function of the weights, whose gradients sum to `pull`
        values[step] = n_active + _inner(pull, weights) + 0.5 * alpha * _inner(weights, weights)
        if values[step] < lowest and not (skip_start and step == 0):
            lowest = values[step]
            _copy(weights, best)
        if step < n_steps:
            _move(weights, pull, alpha, first_step + step)


@njit(cache=True, nogil=True, error_model="numpy")
def _score_block(start, stop, mode, rows, layout, support, weights, transposed, work):
    """Scores of the bags `start` to `stop` and, for `UPPER_BOUND`, the rows behind them, into `work`."""
    scores, bag_scores, best_rows = work[:3]
    support_rows, shares = support
    if mode == ONE_ROW:
        chosen = support_rows[start:stop]
        score_chosen_rows(rows.dense, rows.data, rows.indices, rows.indptr, chosen, weights, bag_scores)
        return
    offsets = layout.offsets[start : stop + 1]
    base, last = offsets[0], offsets[stop - start]
    score_rows(rows.dense, rows.data, rows.indices, rows.indptr, base, last, transposed, scores)
    if mode == WEIGHTED_ROWS:
        segment_weighted_sum(scores, shares[base:last], offsets, bag_scores)
        return
    segment_max(scores, offsets, bag_scores, best_rows)
    for i in range(start, stop):  # the bag's labels keep their fixed support
        for a in range(layout.label_starts[i], layout.label_starts[i + 1]):
            j = layout.labels[a]
            row, total = support_rows[i, j], 0.0
            if row >= 0:
                total = scores[row - base, j]
            else:
                for q in range(offsets[i - start], offsets[i - start + 1]):
                    total += shares[q, j] * scores[q - base, j]
            bag_scores[i - start, j], best_rows[i - start, j] = total, row


@njit(cache=True, nogil=True, error_model="numpy")
def _update_block(start, stop, mode, rows, layout, support, loss, work, slopes, behind, pull):
    """Bring `slopes`, `behind` and `pull` of some bags up to date; the weighted number of their active hinges."""
    scores, bag_scores, new_behind, new_slopes, n_active, changed, product = work
    support_rows, shares = support
    if mode == ONE_ROW:
        new_behind = support_rows[start:stop]
    hinge_slopes(loss, bag_scores, layout.label_starts[start : stop + 1], layout.labels, n_active, new_slopes)
    total, n_changed, n_classes = 0.0, 0, slopes.shape[1]
    for i in range(start, stop):
        total += layout.bag_weights[i] * n_active[i - start]
        old, new, old_rows, new_rows = slopes[i], new_slopes[i - start], behind[i], new_behind[i - start]
        for j in range(n_classes):  # counted without branches: which slopes change is hard to foresee
            changed[n_changed, 0], changed[n_changed, 1] = i - start, j
            if mode == UPPER_BOUND:
                n_changed += (old[j] != new[j]) | ((new[j] != 0.0) & (old_rows[j] != new_rows[j]))
            else:
                n_changed += old[j] != new[j]
    if mode == WEIGHTED_ROWS and rows.indptr.shape[0] == 0 and n_changed > DENSE_FROM * (stop - start) * n_classes:
        _pull_densely(start, stop, rows.dense, layout, shares, new_slopes, slopes, scores, product, pull)
    else:
        _pull_changed(start, changed[:n_changed], rows, layout, shares, new_slopes, new_behind, slopes, behind, pull)
    return total


@njit(cache=True, nogil=True, error_model="numpy", fastmath=VECTORISED)
def _pull_changed(start, changed, rows, layout, shares, new_slopes, new_behind, slopes, behind, pull):
    """Replace the changed slopes, one after another, in `slopes`, `behind` and `pull`."""
    X, data, indices, indptr = rows
    offsets, bag_weights = layout.offsets[start:], layout.bag_weights[start:]
    slopes, behind = slopes[start:], behind[start:]
    for e in range(changed.shape[0]):
        i, j = changed[e, 0], changed[e, 1]
        weight, first, last = bag_weights[i], offsets[i], offsets[i + np.uint32(1)]
        old, new = slopes[i, j], new_slopes[i, j]
        old_row, new_row = behind[i, j], new_behind[i, j]
        if old != 0.0 and old_row != new_row:
            _pull_on(X, data, indices, indptr, shares, -weight * old, old_row, first, last, j, pull[j])
            old = 0.0
        if old != new:
            _pull_on(X, data, indices, indptr, shares, weight * (new - old), new_row, first, last, j, pull[j])
        slopes[i, j], behind[i, j] = new, new_row


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _pull_on(X, data, indices, indptr, shares, factor, row, first, last, j, total):
    """Add `factor` times the support instance of class j: one row, or the bag's rows, weighted, where `row` is -1."""
    for q in range(first if row < 0 else row, last if row < 0 else row + 1):
        own = factor * shares[q, j] if row < 0 else factor
        if indptr.shape[0] > 0:
            for e in range(indptr[q], indptr[q + 1]):
                total[indices[e]] += own * data[e]
        else:
            x = X[q]
            for k in range(total.shape[0]):
                total[k] += own * x[k]


@njit(cache=True, nogil=True, error_model="numpy", fastmath=VECTORISED)
def _pull_densely(start, stop, X, layout, shares, new_slopes, slopes, scores, product, pull):
    """Replace all slopes of some bags at once, by one product with the instances; `scores` is overwritten."""
    base, last = layout.offsets[start], layout.offsets[stop]
    for i in range(start, stop):
        weight, old, new = layout.bag_weights[i], slopes[i], new_slopes[i - start]
        for q in range(layout.offsets[i], layout.offsets[i + 1]):
            own, share = scores[q - base], shares[q]
            for j in range(old.shape[0]):
                own[j] = weight * (new[j] - old[j]) * share[j]
        for j in range(old.shape[0]):
            old[j] = new[j]
    np.dot(scores[: last - base].T, X[base:last], product)
    for j in range(pull.shape[0]):
        for k in range(pull.shape[1]):
            pull[j, k] += product[j, k]


@njit(cache=True, nogil=True, error_model="numpy", fastmath=VECTORISED)
def _inner(a, b):
    total = 0.0
    for j in range(a.shape[0]):
        for k in range(a.shape[1]):
            total += a[j, k] * b[j, k]
    return total


@njit(cache=True, nogil=True, error_model="numpy", fastmath=VECTORISED)
def _move(weights, pull, alpha, t):
    """Step t: W - (alpha W + pull) / (alpha t), projected on the ball ||W||^2 <= 2 / alpha."""
    keep, length = 1.0 - 1.0 / t, 1.0 / (alpha * t)
    for j in range(weights.shape[0]):
        for k in range(weights.shape[1]):
            weights[j, k] = keep * weights[j, k] - length * pull[j, k]
    norm = np.sqrt(_inner(weights, weights))
    radius = np.sqrt(2.0 / alpha)
    if norm > radius:
        for j in range(weights.shape[0]):
            for k in range(weights.shape[1]):
                weights[j, k] *= radius / norm


@njit(cache=True, nogil=True, error_model="numpy")
def _copy(source, target):
    for j in range(source.shape[0]):
        for k in range(source.shape[1]):
            target[j, k] = source[j, k]
