"""Models that are a weighted sum over support rows, and blocks in which many rows are gone through."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.utils import gen_batches

from bagwise.core.checks import memory_limit


def support_rows(weights: np.ndarray) -> np.ndarray:
    """Rows of (m, ...) weights that are not all zero; the first, of weight zero, where there is none."""
    used = np.flatnonzero(weights.reshape(len(weights), -1).any(axis=1))
    return used if len(used) else np.array([0])  # a model file keeps no empty arrays, and kernels want a row


def kernel_scores(X: Any, support: Any, weights: np.ndarray, gamma: float) -> np.ndarray:
    """(m, c) sums over support rows of exp(-gamma ||x - z||^2) times their (s, c) weights."""
    scores = np.empty((X.shape[0], weights.shape[1]))
    for rows in row_blocks(X.shape[0], 16 * len(weights)):
        scores[rows] = rbf_kernel(X[rows], support, gamma=gamma) @ weights
    return scores


def row_blocks(n_rows: int, bytes_per_row: int) -> Iterator[slice]:
    """Slices over the rows whose workspace is modest."""
    return gen_batches(n_rows, rows_at_once(bytes_per_row))


def rows_at_once(bytes_per_row: int) -> int:
    """How many rows have a workspace below a sixteenth of the memory limit (and 256 MiB); one at least."""
    return max(1, min(memory_limit() // 16, 2**28) // max(bytes_per_row, 1))
