"""Compiled union inference over many bags: each bag reduced to its local problem, solved, and written back.

The solvers of the local problem are in `_exact`.
"""

import numpy as np
from numba import njit

from bagwise.kernels.softmax import softmax_row
from bagwise.union._exact import copy_normalized, log_add, log_forward_backward, solve
from bagwise.union._propagate import propagate
from bagwise.union.constants import TINY


@njit(cache=True, nogil=True, error_model="numpy")
def _unknown_rows(start, stop, known, some_known, rows, covered):
    """List the instances whose label is not known, and mark the labels that the others carry."""
    n = 0
    for i in range(start, stop):
        if some_known and known[i] >= 0:
            covered[known[i]] = True
        else:
            rows[n] = i
            n += 1
    return n


@njit(cache=True, nogil=True, error_model="numpy")
def _sort_labels(labels, first, last, background, covered, relaxed, columns):
    """Put the labels that an unknown instance must still carry first, those that it may carry behind them."""
    k = 0
    for position in range(first, last):
        if not (relaxed or covered[labels[position]]):
            columns[k] = labels[position]
            k += 1
    width = k
    for position in range(first, last):
        if relaxed or covered[labels[position]]:
            columns[width] = labels[position]
            width += 1
    if background >= 0:
        columns[width] = background
        width += 1
    return k, width


@njit(cache=True, nogil=True, error_model="numpy")
def _gather(probabilities, logs, have_logs, rows, n, columns, k, width, A, free):
    """Local problem of the bag: `A` becomes the (n, width) shares of its columns in each unknown instance's row.

    Returns the log of the mass that the bag's columns have in all rows, -inf where a row has none. Behind the k
    required columns, `A` keeps each optional column's share of the free mass.
    """
    mass, product = 0.0, 1.0
    for r in range(n):
        total = 0.0
        for j in range(width):
            A[r, j] = probabilities[rows[r], columns[j]]
            total += A[r, j]
        if total == 0.0 and not have_logs:
            return -np.inf
        if total < TINY and have_logs:  # softmax has underflowed: only the logarithms know the ratios
            top = -np.inf
            for j in range(width):
                top = max(top, logs[r, j])
            if top == -np.inf:
                return -np.inf
            total = 0.0
            for j in range(width):
                A[r, j] = np.exp(logs[r, j] - top)
                total += A[r, j]
            mass += top
        product *= total
        if product < TINY or product > 1.0 / TINY:
            mass += np.log(product)
            product = 1.0
        loose = 0.0
        for j in range(width):
            A[r, j] /= total
            if j >= k:
                loose += A[r, j]
        free[r] = loose
        for j in range(k, width):
            A[r, j] = A[r, j] / loose if loose > 0.0 else 0.0
    return mass + np.log(product)


@njit(cache=True, nogil=True, error_model="numpy")
def solve_in_logs(logs, n, k, width, need, A, free, pull):
    """`log_forward_backward` on the gathered logarithms, each row first normalised to its mass."""
    log_A, log_free = np.empty((n, k)), np.empty(n)
    for r in range(n):
        total = -np.inf
        log_free[r] = -np.inf
        for j in range(width):
            total = log_add(total, logs[r, j])
            if j >= k:
                log_free[r] = log_add(log_free[r], logs[r, j])
        log_free[r] -= total
        for j in range(k):
            log_A[r, j] = logs[r, j] - total
    result = log_forward_backward(log_A, log_free, n, k, need, pull)
    if result > -np.inf:
        copy_normalized(log_A, log_free, n, k, A, free)
    return result


@njit(cache=True, nogil=True, error_model="numpy")
def infer(
    scores, softmax, offsets, label_starts, labels, background, known, relaxed, first, last,
    method, bound, max_exact, residual, log_likelihood, errors,
):  # fmt: skip
    """Union inference of the bags first .. last - 1, in place over `scores`.

    scores : (m, c) probabilities, or (softmax true) any scores whose softmax is the probability
    labels[label_starts[b] : label_starts[b + 1]] : label columns of bag b, the background column not among them
    background : column that any bag may hold unlisted, or -1
    known : (m,) column of an instance whose label is known, or -1; (0,) where none is
    relaxed : (n,) true where the listed labels may occur but need not; (0,) where no bag is relaxed
    method, bound : see `solve`; more than `max_exact` required labels are approximated, see `propagate`
    residual : write posterior minus probability (the gradient's weights) rather than the posterior
    log_likelihood : (n,) out; -inf for a bag that nothing explains (its posterior rows are NaN, residual rows 0)
    errors : (n,) out; estimated error of the posterior, 0 where it is exact; (0,) where nobody asks for it
    """
    n_classes = scores.shape[1]
    most_rows, most_labels = 1, 1
    for b in range(first, last):
        most_rows = max(most_rows, offsets[b + 1] - offsets[b])
        most_labels = max(most_labels, label_starts[b + 1] - label_starts[b])
    A, logs, free = (
        np.empty((most_rows, most_labels + 1)),
        np.empty((most_rows, most_labels + 1)),
        np.empty(most_rows),
    )
    most_subsets = 1 << min(most_labels, max_exact)
    signed, sums, ratio = np.empty(most_subsets), np.empty(most_subsets), np.empty(most_subsets)
    rows, columns = np.empty(most_rows, np.int64), np.empty(most_labels + 1, np.int64)
    covered = np.zeros(n_classes, np.bool_)
    need, pull = np.ones(most_labels), np.empty(0)
    some_known, some_relaxed = known.size > 0, relaxed.size > 0
    for b in range(first, last):
        start, stop = offsets[b], offsets[b + 1]
        n = _unknown_rows(start, stop, known, some_known, rows, covered)
        k, width = _sort_labels(
            labels,
            label_starts[b],
            label_starts[b + 1],
            background,
            covered,
            some_relaxed and relaxed[b],
            columns,
        )
        if some_known:
            for i in range(start, stop):
                if known[i] >= 0:
                    covered[known[i]] = False

        likelihood, error = 0.0, 0.0
        if softmax:
            for r in range(n):
                for j in range(width):
                    logs[r, j] = scores[rows[r], columns[j]]
                normalizer = softmax_row(scores, rows[r])
                for j in range(width):
                    logs[r, j] -= normalizer
        if some_known:
            for i in range(start, stop):
                if known[i] < 0:
                    continue
                log_known = scores[i, known[i]] if softmax else np.log(scores[i, known[i]])
                likelihood += log_known - (softmax_row(scores, i) if softmax else 0.0)
                allowed = known[i] == background
                for position in range(label_starts[b], label_starts[b + 1]):
                    allowed |= labels[position] == known[i]
                if not allowed:
                    likelihood = -np.inf
        certain = softmax and k == 1 and width == 1 and n > 0  # one label and nothing else: all instances carry it
        if certain:
            for r in range(n):
                likelihood += logs[r, 0]
                A[r, 0] = 1.0
        elif likelihood > -np.inf:
            likelihood += _gather(scores, logs, softmax, rows, n, columns, k, width, A, free)
        if not certain and likelihood > -np.inf:
            if k > max_exact:
                result, error = propagate(A, free, n, k, need, pull, errors.size > 0, bound)
                likelihood += result
            else:
                result, done = solve(A, free, n, k, need, method, bound, signed, sums, ratio, pull)
                if not done:
                    if not softmax:
                        for r in range(n):
                            for j in range(width):
                                logs[r, j] = np.log(scores[rows[r], columns[j]])
                    result = solve_in_logs(logs, n, k, width, need, A, free, pull)
                likelihood += result
        log_likelihood[b] = likelihood
        if errors.size > 0:
            errors[b] = error

        if likelihood == -np.inf:
            blank = 0.0 if residual else np.nan
            for i in range(start, stop):
                for c in range(n_classes):
                    scores[i, c] = blank
            continue
        sign = -1.0 if residual else 0.0
        for i in range(start, stop):
            for c in range(n_classes):
                scores[i, c] *= sign
        if some_known:
            for i in range(start, stop):
                if known[i] >= 0:
                    scores[i, known[i]] += 1.0
        for r in range(n):
            for j in range(k):
                scores[rows[r], columns[j]] += A[r, j]
            for j in range(k, width):
                scores[rows[r], columns[j]] += A[r, j] * free[r]
