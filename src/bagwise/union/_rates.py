"""Compiled union inference with label noise: instances go unnoticed, labels are listed for nothing.

An observer notices an instance of class c with probability 1 - missed[c]; a label that nothing noticed carries is
listed all the same with probability spurious[c]. What an instance shows is then one of the listed labels, noticed, or
nothing: its label was missed, whatever it is, or it is background. That is the local problem of `_exact` again,
with A[i, j] = (1 - missed_j) p_ij, the rest in `free`, and need[j] = 1 - spurious_j: the same algorithms solve it.
"""

import numpy as np
from numba import njit

from bagwise.kernels.softmax import softmax_row
from bagwise.union._exact import log_add, solve
from bagwise.union._infer import solve_in_logs
from bagwise.union._propagate import propagate
from bagwise.union.constants import TINY


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "contract"})
def _hidden_mass(probabilities, i, hidden):
    """Sum over classes of hidden_c p_ic: positive terms only, so any order is safe."""
    total = 0.0
    for c in range(hidden.size):
        total += hidden[c] * probabilities[i, c]
    return total


@njit(cache=True, nogil=True, error_model="numpy")
def _sort_labels(labels, first, last, background, relaxed, missed, spurious, n_known, columns, need, noticed, hidden):
    """Put the labels that need an instance first, those that do not (and the background) behind them.

    need[j] : probability that label j is neither spurious nor carried by a known instance that was noticed
    noticed[j] : probability that an instance of label j is noticed
    hidden[c] : probability that an instance of the class says nothing about the listed labels, since it went unnoticed;
        0 for the labels behind, of which a noticed instance says nothing either

    Returns the number of labels that need one, and that of all columns.
    """
    for c in range(missed.size):
        hidden[c] = missed[c]
    k = 0
    for position in range(first, last):
        c = labels[position]
        needed = 0.0 if relaxed else (1.0 - spurious[c]) * missed[c] ** n_known[c]
        if needed > 0.0:
            columns[k], need[k], noticed[k] = c, needed, 1.0 - missed[c]
            k += 1
        else:
            hidden[c] = 0.0
    width = k
    for position in range(first, last):
        c = labels[position]
        if relaxed or not (1.0 - spurious[c]) * missed[c] ** n_known[c] > 0.0:
            columns[width] = c
            width += 1
    if background >= 0:
        hidden[background] = 0.0
        columns[width] = background
        width += 1
    return k, width


@njit(cache=True, nogil=True, error_model="numpy")
def _row_logs(probabilities, i, raw, r, softmax, normalizer, columns, k, width, missed, hidden, logs):
    """logs[r] : logarithms of the noticed required labels, of the optional columns, and last of the hidden mass."""
    logs[r, width] = -np.inf
    for c in range(hidden.size):
        if hidden[c] > 0.0:
            value = raw[r, c] - normalizer if softmax else np.log(probabilities[i, c])
            logs[r, width] = log_add(logs[r, width], value + np.log(hidden[c]))
    for j in range(width):
        c = columns[j]
        value = raw[r, c] - normalizer if softmax else np.log(probabilities[i, c])
        logs[r, j] = value + np.log1p(-missed[c]) if j < k else value


@njit(cache=True, nogil=True, error_model="numpy")
def _gather(
    probabilities, rows, n, raw, softmax, normalizers, columns, k, width, missed, noticed, some_hidden, hidden, masses,
    logs, A, free,
):  # fmt: skip
    """Local problem of the bag: like that of `_infer`, with the hidden mass as one more optional column.

    masses[r] : the hidden mass, -1 where only the logarithms know it
    """
    mass, product = 0.0, 1.0
    for r in range(n):
        i = rows[r]
        loose = _hidden_mass(probabilities, i, hidden) if some_hidden else 0.0
        masses[r] = A[r, width] = loose
        for j in range(k, width):
            A[r, j] = probabilities[i, columns[j]]
            loose += A[r, j]
        total = loose
        for j in range(k):
            A[r, j] = probabilities[i, columns[j]] * noticed[j]
            total += A[r, j]
        if total == 0.0 and not softmax:
            return -np.inf
        if total < TINY and softmax:  # softmax has underflowed: only the logarithms know the ratios
            _row_logs(
                probabilities, i, raw, r, softmax, normalizers[r], columns, k, width, missed, hidden, logs
            )  # fmt: skip
            masses[r] = -1.0
            top = -np.inf
            for j in range(width + 1):
                top = max(top, logs[r, j])
            if top == -np.inf:
                return -np.inf
            total = loose = 0.0
            for j in range(width + 1):
                A[r, j] = np.exp(logs[r, j] - top)
                total += A[r, j]
                if j >= k:
                    loose += A[r, j]
            mass += top
        product *= total
        if product < TINY or product > 1.0 / TINY:
            mass += np.log(product)
            product = 1.0
        inverse = 1.0 / total
        for j in range(k):
            A[r, j] *= inverse
        free[r] = loose * inverse
        for j in range(k, width + 1):
            A[r, j] = A[r, j] / loose if loose > 0.0 else 0.0
    return mass + np.log(product)


@njit(cache=True, nogil=True, error_model="numpy")
def _write_row(scores, i, sign, spread, mass, hidden, raw, r, normalizer, log_mass):
    """scores[i] becomes `sign` times itself plus `spread`, the posterior of going unnoticed, shared among classes."""
    if mass > TINY:
        factor = spread / mass
        for c in range(hidden.size):
            scores[i, c] *= sign + factor * hidden[c]
        return
    for c in range(hidden.size):
        part = 0.0
        if mass > 0.0:
            part = hidden[c] * scores[i, c] / mass
        elif mass < 0.0 and hidden[c] > 0.0 and log_mass > -np.inf:
            part = np.exp(np.log(hidden[c]) + raw[r, c] - normalizer - log_mass)
        scores[i, c] = sign * scores[i, c] + spread * part


@njit(cache=True, nogil=True, error_model="numpy")
def _known_instances(scores, softmax, start, stop, known, background, listed, missed):
    """Log-likelihood of the known instances, and how many of them went unnoticed for sure: of a label not listed."""
    likelihood, n_unlisted = 0.0, 0
    for i in range(start, stop):
        if known[i] < 0:
            continue
        c = known[i]
        log_known = scores[i, c] if softmax else np.log(scores[i, c])
        likelihood += log_known - (softmax_row(scores, i) if softmax else 0.0)
        if c != background and not listed[c]:
            likelihood += np.log(missed[c])
            n_unlisted += 1
    return likelihood, n_unlisted


@njit(cache=True, nogil=True, error_model="numpy")
def infer_with_rates(
    scores, softmax, offsets, label_starts, labels, background, known, relaxed, missed, spurious, first, last,
    method, bound, max_exact, residual, log_likelihood, statistics, errors,
):  # fmt: skip
    """Union inference of the bags first .. last - 1 with label noise, in place over `scores`.

    Arguments as of `bagwise.union._infer.infer`, and

    missed, spurious : (c,) rates in [0, 1), those of the background not looked at
    relaxed : a relaxed bag is one whose listed labels are spurious with rate 1
    statistics : (n, 3) out; what the gradient in rates that all classes share is made of, per bag: expected number of
        instances that were noticed, that went unnoticed, and the pull of the spurious labels; with them
        d / d logit(missed) = (1 - missed) unnoticed - missed noticed and d / d logit(spurious) = spurious pull
    """
    n_classes = scores.shape[1]
    most_rows, most_labels = 1, 1
    for b in range(first, last):
        most_rows = max(most_rows, offsets[b + 1] - offsets[b])
        most_labels = max(most_labels, label_starts[b + 1] - label_starts[b])
    A, logs = np.empty((most_rows, most_labels + 2)), np.empty((most_rows, most_labels + 2))
    free, masses, normalizers = np.empty(most_rows), np.empty(most_rows), np.zeros(most_rows)
    raw = np.empty((most_rows if softmax else 1, n_classes))
    most_subsets = 1 << min(most_labels, max_exact)
    signed, sums, ratio = np.empty(most_subsets), np.empty(most_subsets), np.empty(most_subsets)
    rows, columns = np.empty(most_rows, np.int64), np.empty(most_labels + 1, np.int64)
    need, pull, seen = np.empty(most_labels), np.empty(most_labels), np.empty(most_labels)
    hidden, log_absent = np.empty(n_classes), np.zeros(n_classes)
    n_known, listed = np.zeros(n_classes, np.int64), np.zeros(n_classes, np.bool_)
    some_known, some_relaxed, some_missed = known.size > 0, relaxed.size > 0, False
    log_absent_all = 0.0
    for c in range(n_classes):
        if c != background:
            log_absent[c] = np.log1p(-spurious[c])
            log_absent_all += log_absent[c]
            some_missed |= missed[c] > 0.0
    n_real = n_classes - (1 if background >= 0 else 0)
    sign = -1.0 if residual else 0.0
    for b in range(first, last):
        start, stop = offsets[b], offsets[b + 1]
        n = 0
        for i in range(start, stop):
            if some_known and known[i] >= 0:
                n_known[known[i]] += 1
            else:
                rows[n] = i
                n += 1
        likelihood, error = log_absent_all, 0.0
        for position in range(label_starts[b], label_starts[b + 1]):
            listed[labels[position]] = True
            likelihood -= log_absent[labels[position]]
        k, width = _sort_labels(
            labels, label_starts[b], label_starts[b + 1], background, some_relaxed and relaxed[b], missed, spurious,
            n_known, columns, need, seen, hidden,
        )  # fmt: skip
        if softmax:
            for r in range(n):
                for c in range(n_classes):
                    raw[r, c] = scores[rows[r], c]
                normalizers[r] = softmax_row(scores, rows[r])
        unnoticed, noticed, drawn = 0.0, 0.0, float(label_starts[b + 1] - label_starts[b] - n_real)
        if some_known:
            own, n_unlisted = _known_instances(scores, softmax, start, stop, known, background, listed, missed)
            likelihood += own
            unnoticed += n_unlisted
        if likelihood > -np.inf:
            likelihood += _gather(
                scores, rows, n, raw, softmax, normalizers, columns, k, width, missed, seen, some_missed, hidden,
                masses, logs, A, free,
            )  # fmt: skip
        if likelihood > -np.inf:
            if k > max_exact:
                result, error = propagate(A, free, n, k, need, pull, errors.size > 0, bound)
                likelihood += result
            else:
                result, done = solve(A, free, n, k, need, method, bound, signed, sums, ratio, pull)
                if not done:
                    for r in range(n):
                        _row_logs(
                            scores, rows[r], raw, r, softmax, normalizers[r], columns, k, width, missed, hidden, logs
                        )  # fmt: skip
                    result = solve_in_logs(logs, n, k, width + 1, need, A, free, pull)
                likelihood += result
        log_likelihood[b] = likelihood
        if errors.size > 0:
            errors[b] = error

        if likelihood == -np.inf:
            noticed = unnoticed = drawn = 0.0
            for i in range(start, stop):
                for c in range(n_classes):
                    scores[i, c] = 0.0 if residual else np.nan
        else:
            for j in range(k):
                drawn += pull[j]
                unnoticed -= n_known[columns[j]] * pull[j]
            for r in range(n):
                i = rows[r]
                spread = free[r] * A[r, width]
                unnoticed += spread
                _write_row(scores, i, sign, spread, masses[r], hidden, raw, r, normalizers[r], logs[r, width])
                for j in range(k):
                    scores[i, columns[j]] += A[r, j]
                    noticed += A[r, j]
                for j in range(k, width):
                    scores[i, columns[j]] += A[r, j] * free[r]
            if some_known:
                for i in range(start, stop):
                    if known[i] >= 0:
                        for c in range(n_classes):
                            scores[i, c] *= sign
                        scores[i, known[i]] += 1.0
        statistics[b, 0], statistics[b, 1], statistics[b, 2] = noticed, unnoticed, drawn
        for position in range(label_starts[b], label_starts[b + 1]):
            listed[labels[position]] = False
        if some_known:
            for i in range(start, stop):
                if known[i] >= 0:
                    n_known[known[i]] = 0
