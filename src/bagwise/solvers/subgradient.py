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
    add_row,
    max_of_bag,
    score_row,
    score_rows,
    weighted_sum_of_bag,
)
from bagwise.losses import Loss, label_lists
from bagwise.solvers.result import Callback, SolveResult

# how the score of a bag and a class comes about: from one row, from weighted rows, or (CCCP) from one row or weighted
# rows for the bag's labels and the best row under the current weights for all other classes
ONE_ROW, WEIGHTED_ROWS, UPPER_BOUND = 0, 1, 2
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
            instances = np.ascontiguousarray(instances)
        return cls(instances, bags.offsets, Y, loss, alpha)

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
        """The objective at `weights`, not convex unless the aggregation is linear, and the support there (equation 11)."""
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
    _pegasos(
        mode,
        Rows.of(problem.instances),
        problem.layout(),
        np.empty((0, 0), dtype=np.int64) if support.rows is None else support.rows,
        np.empty((0, 0)) if support.weights is None else support.weights,
        problem.loss.code,
        problem.alpha,
        first_step,
        weights,
        best,
        values,
    )
    return Descent(best, weights, values)


def heuristic(
    problem: BagProblem,
    aggregation: Aggregation,
    *,
    n_phases: int,
    n_steps: int,
    restart: str = "best",
    callback: Callback | None = None,
) -> SolveResult:
    """Alternate between finding the support instances and descending with them fixed (Algorithm 4 of [1]_).

    Parameters
    ----------
    problem : BagProblem
    aggregation : Aggregation
    n_phases, n_steps : int
        T and K of the paper. The first phase uses the bags' means for support.
    restart : {"best", "last"}
        Go on from the phase's weights of the lowest convex objective, as in [1]_, or from its last, as in [2]_.
    callback : callable or None
        Called after every phase with its number and the objective.

    Returns
    -------
    SolveResult
        The history is the true objective (equation 11) after every phase; it may rise.
    """
    weights, history = problem.start, []
    phase_problem = problem.means()
    support = Support(weights=np.ones(problem.Y.shape))
    for phase in range(1, n_phases + 1):
        descent = descend(phase_problem, support, weights, n_steps=n_steps)
        weights = descent.best if restart == "best" else descent.last
        phase_problem = problem
        value, support = problem.aggregate(aggregation, weights)
        history.append(value)
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


@njit(cache=True, nogil=True, error_model="numpy")
def _pegasos(mode, rows, layout, support_rows, shares, loss, alpha, first_step, weights, best, values):
    """All steps; `weights` holds the start and is moved, `best` and `values` are filled."""
    n_bags, (n_classes, n_features) = layout.bag_weights.shape[0], weights.shape
    slopes = np.zeros((n_bags, n_classes))  # of every bag and class, as they now stand in `pull`
    held = np.full((n_bags, n_classes), -1)  # the row behind each of them, -1 for weighted rows
    pull = np.zeros((n_classes, n_features))  # sub-gradient of the loss
    transposed = np.empty((n_features, n_classes))
    scores = np.empty((layout.block_rows if mode != ONE_ROW else 0, n_classes))
    n_steps, lowest = values.shape[0] - 1, np.inf
    for step in range(n_steps + 1):
        if mode != ONE_ROW:
            transposed[:] = weights.T
        constant = 0.0
        for b in range(layout.blocks.shape[0] - 1):
            constant += _sweep_block(
                b, mode, rows, layout, support_rows, shares, loss, weights, transposed, scores, slopes, held, pull
            )
        # each active hinge is 1 plus a linear function of the weights, whose gradients sum to `pull`
        values[step] = constant + _inner(pull, weights) + 0.5 * alpha * _inner(weights, weights)
        if values[step] < lowest:
            lowest = values[step]
            best[:] = weights
        if step < n_steps:
            _move(weights, pull, alpha, first_step + step)


@njit(cache=True, nogil=True, error_model="numpy")
def _sweep_block(
    b, mode, rows, layout, support_rows, shares, loss, weights, transposed, scores, slopes, held, pull
):
    """Bring `slopes` and `pull` of a block of bags up to date with the weights; the weighted number of active hinges."""
    n_classes, offsets = weights.shape[0], layout.offsets
    bag_scores, raised, new = np.empty(n_classes), np.empty(n_classes), np.empty(n_classes)
    behind = np.full(n_classes, -1)
    first_bag, last_bag = layout.blocks[b], layout.blocks[b + 1]
    base, constant = offsets[first_bag], 0.0
    if mode != ONE_ROW:
        score_rows(rows, base, offsets[last_bag], transposed, scores)
    for i in range(first_bag, last_bag):
        first, last = offsets[i], offsets[i + 1]
        labels = layout.labels[layout.label_starts[i] : layout.label_starts[i + 1]]
        if mode == ONE_ROW:
            behind = support_rows[i]
            for j in range(n_classes):
                bag_scores[j] = score_row(rows, behind[j], weights[j])
        elif mode == WEIGHTED_ROWS:
            weighted_sum_of_bag(scores, shares, first, last, base, bag_scores)
        else:
            max_of_bag(scores, first, last, base, bag_scores, behind)
            _fix_labels(labels, scores, support_rows[i], shares, first, last, base, bag_scores, behind)
        weight = layout.bag_weights[i]
        constant += weight * hinge_slopes(loss, bag_scores, labels, raised, new)
        old, kept = slopes[i], held[i]
        for j in range(n_classes):
            if kept[j] != behind[j] and (old[j] != 0.0 or new[j] != 0.0):
                _add_support(rows, kept[j], shares, first, last, j, -weight * old[j], pull[j])
                _add_support(rows, behind[j], shares, first, last, j, weight * new[j], pull[j])
                old[j], kept[j] = new[j], behind[j]
            elif new[j] != old[j]:
                _add_support(rows, behind[j], shares, first, last, j, weight * (new[j] - old[j]), pull[j])
                old[j] = new[j]
    return constant


@njit(cache=True, nogil=True, error_model="numpy")
def _fix_labels(labels, scores, support_rows, shares, first, last, base, bag_scores, behind):
    """For the labels of a bag, put the score and the row of the fixed support in place of those of the maximum."""
    for a in range(labels.shape[0]):
        j = labels[a]
        behind[j] = support_rows[j]
        if behind[j] >= 0:
            bag_scores[j] = scores[behind[j] - base, j]
        else:
            bag_scores[j] = 0.0
            for q in range(first, last):
                bag_scores[j] += shares[q, j] * scores[q - base, j]


@njit(cache=True, nogil=True, error_model="numpy")
def _add_support(rows, row, shares, first, last, j, factor, total):
    """Add `factor` times the support instance of class j: one row, or the bag's rows, weighted, where `row` is -1."""
    if factor == 0.0:
        return
    if row >= 0:
        add_row(rows, row, factor, total)
    else:
        for q in range(first, last):
            add_row(rows, q, factor * shares[q, j], total)


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
        weights *= radius / norm
