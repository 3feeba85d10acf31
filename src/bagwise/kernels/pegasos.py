"""Projected sub-gradient descent with fixed support instances: the loop that support instance machines live in."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bagwise.kernels._cache import njit
from bagwise.kernels.ranking import hinge_slopes
from bagwise.kernels.segments import (
    VECTORISED,
    score_chosen_rows,
    score_rows,
    segment_max,
    segment_weighted_sum,
)

# how the score of a bag and a class comes about: from one row, from weighted rows, or (CCCP) from one row or weighted
# rows for the bag's labels and the best row under the current weights for all other classes
ONE_ROW, WEIGHTED_ROWS, UPPER_BOUND = 0, 1, 2
DENSE_FROM = 0.35  # share of changed slopes from which a product with all rows beats adding row after row


class Layout(NamedTuple):
    """Bags and labels as plain arrays: bag i's labels are ``labels[label_starts[i]:label_starts[i + 1]]``."""

    offsets: np.ndarray
    label_starts: np.ndarray
    labels: np.ndarray
    bag_weights: np.ndarray
    blocks: np.ndarray  # first bag of every block that is worked on at a time, and the number of bags
    block_rows: int  # rows of the largest block


class Support(NamedTuple):
    """The support instance of every bag and class, as one row or as a weighted sum of the bag's rows.

    Attributes
    ----------
    rows : (n, c) array of int, or empty
        Row of the instances, -1 where the bag's rows are weighted.
    weights : (m, c) array, or empty
        Weight of every instance of the bag.
    """

    rows: np.ndarray = np.empty((0, 0), dtype=np.int64)
    weights: np.ndarray = np.empty((0, 0))


class _Work(NamedTuple):
    """What one block of bags needs, overwritten by the next: of the largest block's size, once for all steps."""

    scores: np.ndarray  # (rows, c) of instances
    bag_scores: np.ndarray  # (bags, c)
    behind: np.ndarray  # (bags, c) row behind each of them, -1 for weighted rows
    slopes: np.ndarray  # (bags, c) of the hinges
    n_active: np.ndarray  # (bags,) active hinges
    changed: np.ndarray  # (bags * c + 1, 2) bag and class of the slopes that changed
    product: np.ndarray  # (c, d)


# The kernels below pass named tuples of arrays and loop over bags inside: handing a dozen arrays to a function for each
# bag costs more than what is done there for a bag of four instances.


@njit(cache=True, nogil=True, error_model="numpy")
def pegasos(mode, rows, layout, support, loss, alpha, first_step, skip_start, weights, best, values):
    """All steps of `bagwise.solvers.subgradient.BagProblem.descend`.

    Parameters
    ----------
    mode : int
        `ONE_ROW`, `WEIGHTED_ROWS` or `UPPER_BOUND`.
    rows : Rows
    layout : Layout
    support : Support
    loss : int
        The branch of `hinge_slopes`.
    alpha : float
    first_step : int
    skip_start : bool
    weights : (c, d) array
        Holds the start and is moved.
    best : (c, d) array
        Receives the weights of the lowest value.
    values : (n_steps + 1,) array
        Receives the objective at the start and after every step.
    """
    n_bags, (n_classes, n_features) = layout.bag_weights.shape[0], weights.shape
    slopes = np.zeros((n_bags, n_classes))  # of every bag and class, as they now stand in `pull`
    behind = np.full((n_bags, n_classes), -1)  # the row to which each of them belongs, -1 for weighted rows
    pull = np.zeros((n_classes, n_features))  # sub-gradient of the loss
    transposed = np.empty((n_features, n_classes))
    shape = (layout.block_rows, n_classes)
    work = _Work(
        np.empty(shape),
        np.empty(shape),
        np.full(shape, -1),
        np.empty(shape),
        np.empty(shape[0]),
        np.empty((shape[0] * n_classes + 1, 2), dtype=np.uint32),
        np.empty(weights.shape),
    )
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
            take_step(weights, pull, alpha, first_step + step)


@njit(cache=True, nogil=True, error_model="numpy")
def _score_block(start, stop, mode, rows, layout, support, weights, transposed, work):
    """Scores of the bags `start` to `stop` and, for `UPPER_BOUND`, the rows behind them, into `work`."""
    scores, bag_scores, behind = work.scores, work.bag_scores, work.behind
    if mode == ONE_ROW:
        chosen = support.rows[start:stop]
        score_chosen_rows(rows.dense, rows.data, rows.indices, rows.indptr, chosen, weights, bag_scores)
        return
    offsets = layout.offsets[start : stop + 1]
    base, last = offsets[0], offsets[stop - start]
    score_rows(rows.dense, rows.data, rows.indices, rows.indptr, base, last, transposed, scores)
    if mode == WEIGHTED_ROWS:
        segment_weighted_sum(scores, support.weights[base:last], offsets, bag_scores)
        return
    segment_max(scores, offsets, bag_scores, behind)
    for i in range(start, stop):  # the bag's labels keep their fixed support
        for a in range(layout.label_starts[i], layout.label_starts[i + 1]):
            j = layout.labels[a]
            row, total = support.rows[i, j], 0.0
            if row >= 0:
                total = scores[row - base, j]
            else:
                for q in range(offsets[i - start], offsets[i - start + 1]):
                    total += support.weights[q, j] * scores[q - base, j]
            bag_scores[i - start, j], behind[i - start, j] = total, row


@njit(cache=True, nogil=True, error_model="numpy")
def _update_block(start, stop, mode, rows, layout, support, loss, work, slopes, behind, pull):
    """Bring `slopes`, `behind` and `pull` of some bags up to date; the weighted number of their active hinges."""
    new_slopes, n_active, changed = work.slopes, work.n_active, work.changed
    new_behind = support.rows[start:stop] if mode == ONE_ROW else work.behind
    hinge_slopes(loss, work.bag_scores, layout.label_starts[start : stop + 1], layout.labels, n_active, new_slopes)
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
        _pull_densely(start, stop, rows.dense, layout, support.weights, work, slopes, pull)
    else:
        moved = changed[:n_changed]
        _pull_changed(start, moved, rows, layout, support.weights, new_slopes, new_behind, slopes, behind, pull)
    return total


@njit(cache=True, nogil=True, error_model="numpy", fastmath=VECTORISED)
def _pull_changed(start, changed, rows, layout, shares, new_slopes, new_behind, slopes, behind, pull):
    """Replace the changed slopes, one after another, in `slopes`, `behind` and `pull`."""
    X, data, indices, indptr = rows.dense, rows.data, rows.indices, rows.indptr
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
def _pull_densely(start, stop, X, layout, shares, work, slopes, pull):
    """Replace all slopes of some bags at once, by one product with the instances; ``work.scores`` is overwritten."""
    scores, product = work.scores, work.product
    base, last = layout.offsets[start], layout.offsets[stop]
    for i in range(start, stop):
        weight, old, new = layout.bag_weights[i], slopes[i], work.slopes[i - start]
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
def take_step(weights, pull, alpha, t):
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
