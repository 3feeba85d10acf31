"""Row-wise softmax pieces, compiled so that no second (m, c) array is made."""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def softmax_row(scores, i):
    """Turn row i of `scores` into its softmax; returns the log of the normaliser."""
    top = scores[i, 0]
    for c in range(1, scores.shape[1]):
        top = max(top, scores[i, c])
    total = 0.0
    for c in range(scores.shape[1]):
        scores[i, c] = np.exp(scores[i, c] - top)
        total += scores[i, c]
    inverse = 1.0 / total
    for c in range(scores.shape[1]):
        scores[i, c] *= inverse
    return top + np.log(total)


@njit(cache=True, nogil=True, error_model="numpy")
def softmax_in_place(scores):
    """Turn every row of `scores` into its softmax."""
    for i in range(scores.shape[0]):
        softmax_row(scores, i)


@njit(cache=True, nogil=True, error_model="numpy")
def sum_log_partition(scores, direction, step):
    """Sum over rows of log sum_c exp(scores + step * direction)."""
    result = 0.0
    for i in range(scores.shape[0]):
        top = -np.inf
        for c in range(scores.shape[1]):
            top = max(top, scores[i, c] + step * direction[i, c])
        total = 0.0
        for c in range(scores.shape[1]):
            total += np.exp(scores[i, c] + step * direction[i, c] - top)
        result += top + np.log(total)
    return result
