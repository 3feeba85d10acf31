"""What the maximum margin clusterings do with few clusters: scores, sums by cluster, and the witness of every bag."""

from __future__ import annotations

from bagwise.kernels._cache import njit
from bagwise.kernels.segments import VECTORISED


@njit(cache=True, nogil=True, error_model="numpy")
def decide_bags(scores, offsets, factor, rows, clusters, margins):
    """The instance of the largest margin of every bag, its best cluster and that margin.

    One pass over the scores, several times faster than numpy's reductions over a handful of clusters.

    Parameters
    ----------
    scores : (m, k) array
    offsets : (n + 1,) array of int
    factor : float
        k / (k - 1).
    rows, clusters, margins : (n,) arrays
        Receive the results.
    """
    n_clusters = scores.shape[1]
    for i in range(offsets.shape[0] - 1):
        rows[i], clusters[i], margins[i] = offsets[i], 0, -1.0  # stays where scores overflow
        for q in range(offsets[i], offsets[i + 1]):
            own = scores[q]
            top, at, total = own[0], 0, own[0]
            for p in range(1, n_clusters):
                total += own[p]
                if own[p] > top:
                    top, at = own[p], p
            margin = factor * (top - total / n_clusters)
            if margin > margins[i]:
                rows[i], clusters[i], margins[i] = q, at, margin


@njit(cache=True, nogil=True, error_model="numpy", fastmath=VECTORISED)
def score_few(X, data, indices, indptr, W, columns, scores):
    """scores = X W' for few clusters, where a general matrix product is several times slower; columns is W'."""
    n_clusters = W.shape[0]
    sparse = indptr.shape[0] > 0
    for q in range(scores.shape[0]):
        if sparse:
            own = scores[q]
            for p in range(n_clusters):
                own[p] = 0.0
            for e in range(indptr[q], indptr[q + 1]):
                value, column = data[e], columns[indices[e]]
                for p in range(n_clusters):
                    own[p] += value * column[p]
        else:
            row = X[q]
            for p in range(n_clusters):
                weight, total = W[p], 0.0
                for f in range(weight.shape[0]):
                    total += row[f] * weight[f]
                scores[q, p] = total


@njit(cache=True, nogil=True, error_model="numpy", fastmath=VECTORISED)
def sum_by_cluster(X, data, indices, indptr, rows, clusters, weights, sums):
    """Add weights_i x_i to the sum of cluster i, for the rows given of `Rows`."""
    for i in range(rows.shape[0]):
        weight, total, q = weights[i], sums[clusters[i]], rows[i]
        if weight == 0.0:
            continue
        if indptr.shape[0] > 0:
            for e in range(indptr[q], indptr[q + 1]):
                total[indices[e]] += weight * data[e]
        else:
            row = X[q]
            for f in range(total.shape[0]):
                total[f] += weight * row[f]


@njit(cache=True, nogil=True, error_model="numpy", fastmath=VECTORISED)
def multiply_rows(X, data, indices, indptr, rows, clusters, weights, factor, sums, products):
    """products_i = factor <x_i, sums of r_i - mean of the sums>, sums_r = sum of weights_i x_i over cluster r."""
    n_clusters, n_features = sums.shape
    sparse = indptr.shape[0] > 0
    sum_by_cluster(X, data, indices, indptr, rows, clusters, weights, sums)
    for f in range(n_features):
        mean = 0.0
        for r in range(n_clusters):
            mean += sums[r, f]
        mean /= n_clusters
        for r in range(n_clusters):
            sums[r, f] -= mean
    for i in range(rows.shape[0]):
        total, product, q = sums[clusters[i]], 0.0, rows[i]
        if sparse:
            for e in range(indptr[q], indptr[q + 1]):
                product += data[e] * total[indices[e]]
        else:
            row = X[q]
            for f in range(n_features):
                product += row[f] * total[f]
        products[i] = factor * product


@njit(cache=True, nogil=True, error_model="numpy", fastmath=VECTORISED)
def combine_rows(X, data, indices, indptr, rows, coefficients, W):
    """Add coefficients_ip x_i to every W_p; bags beyond their margin have none and are passed over."""
    for i in range(rows.shape[0]):
        q = rows[i]
        for p in range(W.shape[0]):
            value, weight = coefficients[i, p], W[p]
            if value == 0.0:
                continue
            if indptr.shape[0] > 0:
                for e in range(indptr[q], indptr[q + 1]):
                    weight[indices[e]] += value * data[e]
            else:
                row = X[q]
                for f in range(weight.shape[0]):
                    weight[f] += value * row[f]
