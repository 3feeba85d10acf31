"""Sequential minimal optimisation for support vector machines whose examples share a kernel matrix.

An example is a pair of a label l and an instance i, and the kernel of two pairs is between[l, l'] * gram[i, i'], so
that one matrix of the instances serves all labels. A single machine is the case of one label.
"""

from __future__ import annotations

import numpy as np

from bagwise.kernels._cache import njit

SMALLEST_CURVATURE = 1e-12
BLOCK = 256  # examples whose best is found with vector instructions before the best one is looked for

# Without not-a-numbers, a maximum over a block can be taken by vector instructions. Infinities are used.
_fast = njit(cache=True, nogil=True, fastmath={"nnan", "nsz", "reassoc", "contract"})


@_fast
def _step_block(row, up, low, near, far, ahead, behind, start, stop):
    """Take a step in the residuals of a block; their highest and lowest value among those that may move."""
    highest, lowest = -np.inf, np.inf
    for t in range(start, stop):
        value = row[t] - ahead * near[t] + behind * far[t]
        row[t] = value
        highest = max(highest, value + up[t])
        lowest = min(lowest, value + low[t])
    return highest, lowest


@_fast
def _best_gain(row, low, near, diagonal, highest, own, share, other, start, stop):
    """Most that a step with the first example and one of the block, both free to move, would gain."""
    most = 0.0
    for t in range(start, stop):
        gap = max(highest - row[t] - low[t], 0.0)
        most = max(most, gap * gap / max(own + other * diagonal[t] - share * near[t], SMALLEST_CURVATURE))
    return most


@njit(cache=True, nogil=True)
def _find_highest(row, up, start, stop):
    """Where a block is highest; by looking again, since fast arithmetic may have rounded another way."""
    best = start
    for t in range(start + 1, stop):
        if row[t] + up[t] > row[best] + up[best]:
            best = t
    return best


@njit(cache=True, nogil=True)
def _find_gain(row, low, near, diagonal, highest, own, share, other, start, stop):
    """Where a block gains most."""
    best, most = start, -1.0
    for t in range(start, stop):
        gain = _best_gain(row, low, near, diagonal, highest, own, share, other, t, t + 1)
        if gain > most:
            best, most = t, gain
    return best


@njit(cache=True, nogil=True)
def _free(coefficients, lower, upper, up, low, label, t):
    """Note whether a coefficient may rise and fall."""
    up[label, t] = 0.0 if coefficients[label, t] < upper[label, t] else -np.inf
    low[label, t] = 0.0 if coefficients[label, t] > lower[label, t] else np.inf


@njit(cache=True, nogil=True)
def descend_pairs(
    gram: np.ndarray,
    between: np.ndarray,
    lower: np.ndarray,
    upper: np.ndarray,
    coefficients: np.ndarray,
    residuals: np.ndarray,
    tol: float,
    max_iter: int,
) -> int:
    """Maximise sum_p y_p b_p - b' K b / 2 with lower <= b <= upper and sum b = 0, two coefficients at a time.

    Parameters
    ----------
    gram : (m, m) array
        Symmetric kernel of the instances.
    between : (c, c) float64 array
        Symmetric kernel of the labels.
    lower, upper : (c, m) arrays
        0 and C_p for a positive example, -C_p and 0 for a negative one.
    coefficients : (c, m) float64 array
        Where to start; changed in place. Inside the bounds, with sum zero.
    residuals : (c, m) float64 array
        y - K b; changed in place, the last step included.
    tol : float
        Ends when no pair violates the optimality conditions by more.
    max_iter : int

    Returns
    -------
    n_iter : int
        `max_iter` if that ended it.

    Notes
    -----
    The pair is chosen by the second-order rule of Fan, Chen and Lin (2005): the first raises the objective fastest,
    the second raises it most in one step with the first.
    """
    n_labels, n = residuals.shape
    diagonal = np.empty(n)
    for t in range(n):
        diagonal[t] = gram[t, t]
    up = np.where(coefficients < upper, 0.0, -np.inf)  # added to a value, takes those at the bound out of a maximum
    low = np.where(coefficients > lower, 0.0, np.inf)
    label_i = i = label_j = j = 0
    step = 0.0
    for iteration in range(max_iter):
        highest, lowest = -np.inf, np.inf
        block_label = block = 0
        for label in range(n_labels):
            ahead, behind = step * between[label_i, label], step * between[label_j, label]
            for start in range(0, n, BLOCK):
                stop = min(start + BLOCK, n)
                top, bottom = _step_block(
                    residuals[label], up[label], low[label], gram[i], gram[j], ahead, behind, start, stop
                )
                lowest = min(lowest, bottom)
                if top > highest:
                    highest, block_label, block = top, label, start
        if not highest - lowest > tol:
            return iteration
        label_i = block_label
        i = _find_highest(residuals[label_i], up[label_i], block, min(block + BLOCK, n))
        highest = residuals[label_i, i]
        own, most = between[label_i, label_i] * diagonal[i], 0.0
        for label in range(n_labels):
            share, other = 2.0 * between[label_i, label], between[label, label]
            for start in range(0, n, BLOCK):
                stop = min(start + BLOCK, n)
                gain = _best_gain(
                    residuals[label], low[label], gram[i], diagonal, highest, own, share, other, start, stop
                )
                if gain > most:
                    most, block_label, block = gain, label, start
        label_j = block_label
        share, other = 2.0 * between[label_i, label_j], between[label_j, label_j]
        j = _find_gain(
            residuals[label_j],
            low[label_j],
            gram[i],
            diagonal,
            highest,
            own,
            share,
            other,
            block,
            min(block + BLOCK, n),
        )
        curvature = max(own + other * diagonal[j] - share * gram[i, j], SMALLEST_CURVATURE)
        room_up = upper[label_i, i] - coefficients[label_i, i]
        room_down = coefficients[label_j, j] - lower[label_j, j]
        step = min((highest - residuals[label_j, j]) / curvature, room_up, room_down)
        # A coefficient that meets its bound is set to it: rounding must not leave it a hair's breadth inside.
        coefficients[label_i, i] = upper[label_i, i] if step == room_up else coefficients[label_i, i] + step
        coefficients[label_j, j] = lower[label_j, j] if step == room_down else coefficients[label_j, j] - step
        _free(coefficients, lower, upper, up, low, label_i, i)
        _free(coefficients, lower, upper, up, low, label_j, j)
    for label in range(n_labels):
        ahead, behind = step * between[label_i, label], step * between[label_j, label]
        _step_block(residuals[label], up[label], low[label], gram[i], gram[j], ahead, behind, 0, n)
    return max_iter
