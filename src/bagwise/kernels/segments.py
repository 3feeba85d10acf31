"""Bag scores from instance scores, and the rows that stand behind them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numba import njit

VECTORISED = {"reassoc", "contract", "nsz"}  # let sums of products be reordered, so that they use vector registers


class Rows(NamedTuple):
    """Instances as plain arrays: the dense (m, d) `dense`, or the three arrays of a CSR matrix; the others are empty."""

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
def segment_max(scores, offsets):
    """Largest score of every bag and class, and the first row that has it.

    Parameters
    ----------
    scores : (m, c) array
    offsets : (n + 1,) array of int

    Returns
    -------
    (n, c) array and (n, c) array of int
    """
    n_bags, n_classes = offsets.shape[0] - 1, scores.shape[1]
    maxima = np.empty((n_bags, n_classes))
    rows = np.empty((n_bags, n_classes), dtype=np.int64)
    for i in range(n_bags):
        max_of_bag(scores, offsets[i], offsets[i + 1], 0, maxima[i], rows[i])
    return maxima, rows


@njit(cache=True, nogil=True, error_model="numpy")
def max_of_bag(scores, first, last, base, maxima, rows):
    """Largest scores of one bag, rows `first` to `last`; row q of the instances is row q - `base` of `scores`."""
    own = scores[first - base]
    for j in range(own.shape[0]):
        maxima[j] = own[j]
        rows[j] = first
    for q in range(first + 1, last):
        own = scores[q - base]
        for j in range(own.shape[0]):
            larger = own[j] > maxima[j]
            maxima[j] = own[j] if larger else maxima[j]
            rows[j] = q if larger else rows[j]


@njit(cache=True, nogil=True, error_model="numpy")
def segment_softmax(scores, offsets):
    """Softmax-weighted mean score of every bag and class; `scores` becomes the weights (equations 8, 9 and 65).

    Parameters
    ----------
    scores : (m, c) array
        Overwritten: in each bag and class the weights are positive (unless they underflow) and sum to 1.
    offsets : (n + 1,) array of int

    Returns
    -------
    (n, c) array
    """
    n_bags, n_classes = offsets.shape[0] - 1, scores.shape[1]
    bag_scores = np.empty((n_bags, n_classes))
    top, total = np.empty(n_classes), np.empty(n_classes)
    for i in range(n_bags):
        top[:] = scores[offsets[i]]
        for q in range(offsets[i] + 1, offsets[i + 1]):
            for j in range(n_classes):
                top[j] = max(top[j], scores[q, j])
        total[:] = 0.0
        bag_scores[i] = 0.0
        for q in range(offsets[i], offsets[i + 1]):
            for j in range(n_classes):
                below_top = scores[q, j] - top[j]
                weight = np.exp(below_top)  # at most 1: no overflow, whatever the features (equation 65)
                bag_scores[i, j] += weight * below_top
                total[j] += weight
                scores[q, j] = weight
        for j in range(n_classes):
            bag_scores[i, j] = top[j] + bag_scores[i, j] / total[j]
        for q in range(offsets[i], offsets[i + 1]):
            for j in range(n_classes):
                scores[q, j] /= total[j]
    return bag_scores


@njit(cache=True, nogil=True, error_model="numpy", fastmath=VECTORISED)
def weighted_sum_of_bag(scores, weights, first, last, base, sums):
    """Sum over the rows of one bag of weights times scores; `scores` starts at row `base`, `weights` at row 0."""
    own, factor = scores[first - base], weights[first]
    for j in range(sums.shape[0]):
        sums[j] = factor[j] * own[j]
    for q in range(first + 1, last):
        own, factor = scores[q - base], weights[q]
        for j in range(sums.shape[0]):
            sums[j] += factor[j] * own[j]


@njit(cache=True, nogil=True, error_model="numpy", fastmath=VECTORISED)
def score_rows(rows, first, last, weights, out):
    """Scores of rows `first` to `last` under `weights`, (d, c), into the first rows of `out`."""
    if rows.indptr.shape[0] == 0:
        np.dot(rows.dense[first:last], weights, out[: last - first])
        return
    for q in range(first, last):
        own = out[q - first]
        own[:] = 0.0
        for e in range(rows.indptr[q], rows.indptr[q + 1]):
            value, column = rows.data[e], weights[rows.indices[e]]
            for j in range(own.shape[0]):
                own[j] += value * column[j]


@njit(cache=True, nogil=True, error_model="numpy", fastmath=VECTORISED)
def score_row(rows, q, weight):
    """Score of row q under one class's `weight`, (d,)."""
    total = 0.0
    if rows.indptr.shape[0] == 0:
        row = rows.dense[q]
        for k in range(weight.shape[0]):
            total += row[k] * weight[k]
        return total
    for e in range(rows.indptr[q], rows.indptr[q + 1]):
        total += rows.data[e] * weight[rows.indices[e]]
    return total


@njit(cache=True, nogil=True, error_model="numpy", fastmath=VECTORISED)
def add_row(rows, q, factor, total):
    """Add `factor` times row q to `total`, (d,)."""
    if rows.indptr.shape[0] == 0:
        row = rows.dense[q]
        for k in range(total.shape[0]):
            total[k] += factor * row[k]
        return
    for e in range(rows.indptr[q], rows.indptr[q + 1]):
        total[rows.indices[e]] += factor * rows.data[e]
