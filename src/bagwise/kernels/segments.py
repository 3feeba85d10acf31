"""Bag scores from instance scores, and the rows that stand behind them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from bagwise.kernels._cache import njit

VECTORISED = {"reassoc", "contract", "nsz"}  # let sums of products be reordered, so that they use vector registers


class Rows(NamedTuple):
    """Instances as plain arrays: the (m, d) array `dense`, or the three of a CSR matrix; the others are empty."""

    dense: np.ndarray
    data: np.ndarray
    indices: np.ndarray
    indptr: np.ndarray

    @classmethod
    def of(cls, instances: Any) -> Rows:
        """Rows of a C-ordered float64 array or CSR matrix."""
        if sp.issparse(instances):
            return cls(np.empty((0, instances.shape[1])), instances.data, instances.indices, instances.indptr)
        return cls(instances, np.empty(0), np.empty(0, dtype=np.int32), np.empty(0, dtype=np.int32))


@njit(cache=True, nogil=True, error_model="numpy")
def segment_max(scores, offsets, maxima, rows):
    """Largest score of every bag and class, and the first row that has it.

    Parameters
    ----------
    scores : (m, c) array
        Its first row is row ``offsets[0]`` of the instances.
    offsets : (n + 1,) array of int
    maxima : (n, c) array
        Receives the scores.
    rows : (n, c) array of int
        Receives the rows.
    """
    base = offsets[0]
    for i in range(offsets.shape[0] - 1):
        own, top, at = scores[offsets[i] - base], maxima[i], rows[i]
        for j in range(own.shape[0]):
            top[j] = own[j]
            at[j] = offsets[i]
        for q in range(offsets[i] + 1, offsets[i + 1]):
            own = scores[q - base]
            for j in range(own.shape[0]):
                larger = own[j] > top[j]
                top[j] = own[j] if larger else top[j]
                at[j] = q if larger else at[j]


@njit(cache=True, nogil=True, error_model="numpy", fastmath=VECTORISED)
def segment_weighted_sum(scores, weights, offsets, sums):
    """Sum over each bag's rows of weights times scores, into `sums` (n, c); both start at row ``offsets[0]``."""
    base = offsets[0]
    for i in range(offsets.shape[0] - 1):
        own, factor, total = scores[offsets[i] - base], weights[offsets[i] - base], sums[i]
        for j in range(own.shape[0]):
            total[j] = factor[j] * own[j]
        for q in range(offsets[i] + 1, offsets[i + 1]):
            own, factor = scores[q - base], weights[q - base]
            for j in range(own.shape[0]):
                total[j] += factor[j] * own[j]


@njit(cache=True, nogil=True, error_model="numpy")
def segment_softmax(scores, offsets, bag_scores):
    """Softmax-weighted mean score of every bag and class; `scores` becomes the weights (equations 8, 9 and 65).

    Parameters
    ----------
    scores : (m, c) array
        Overwritten: in each bag and class the weights sum to 1.
    offsets : (n + 1,) array of int
    bag_scores : (n, c) array
        Receives the mean scores.
    """
    n_classes = scores.shape[1]
    top, total = np.empty(n_classes), np.empty(n_classes)
    for i in range(offsets.shape[0] - 1):
        first, last = offsets[i], offsets[i + 1]
        for j in range(n_classes):
            top[j] = scores[first, j]
            total[j] = 0.0
            bag_scores[i, j] = 0.0
        for q in range(first + 1, last):
            for j in range(n_classes):
                top[j] = max(top[j], scores[q, j])
        for q in range(first, last):
            for j in range(n_classes):
                below_top = scores[q, j] - top[j]
                weight = np.exp(below_top)  # at most 1: no overflow, whatever the features (equation 65)
                bag_scores[i, j] += weight * below_top
                total[j] += weight
                scores[q, j] = weight
        for j in range(n_classes):
            bag_scores[i, j] = top[j] + bag_scores[i, j] / total[j]
        for q in range(first, last):
            for j in range(n_classes):
                scores[q, j] /= total[j]


@njit(cache=True, nogil=True, error_model="numpy", fastmath=VECTORISED)
def score_rows(X, data, indices, indptr, first, last, weights, out):
    """Scores of rows `first` to `last` of `Rows` under `weights`, (d, c), into the first rows of `out`."""
    if indptr.shape[0] == 0:
        np.dot(X[first:last], weights, out[: last - first])
        return
    for q in range(first, last):
        own = out[q - first]
        for j in range(own.shape[0]):
            own[j] = 0.0
        for e in range(indptr[q], indptr[q + 1]):
            value, column = data[e], weights[indices[e]]
            for j in range(own.shape[0]):
                own[j] += value * column[j]


@njit(cache=True, nogil=True, error_model="numpy", fastmath=VECTORISED)
def score_chosen_rows(X, data, indices, indptr, rows, weights, scores):
    """Score of one row for every bag and class, row rows_ij under weights_j, into `scores` (n, c)."""
    for i in range(rows.shape[0]):
        for j in range(rows.shape[1]):
            weight, total, q = weights[j], 0.0, rows[i, j]
            if indptr.shape[0] == 0:
                row = X[q]
                for k in range(weight.shape[0]):
                    total += row[k] * weight[k]
            else:
                for e in range(indptr[q], indptr[q + 1]):
                    total += data[e] * weight[indices[e]]
            scores[i, j] = total
