"""Compiled noisy-or: a bag has a label where any of its instances carries it, each instance and label for itself.

With p_ic the probability that instance i carries label c and n_c the probability that such an instance is noticed, no
instance of c is noticed with probability B_c = prod_i (1 - n_c p_ic). The probability of what was given about c is ::

    E_c = u_c + v_c B_c

for two numbers that say what it was: (1, nu - 1) for a listed label, which is spurious at rate nu, (0, 1 - nu) for one
that is not listed, (1, 0) for one of which nothing is known, (a, 1 - 2 a) for a confidence of a. Labels do not meet in
the likelihood: all of it costs O(n C), and nothing is summed over subsets.
"""

import numpy as np

from bagwise.kernels._cache import njit

SMALL = 1e-200  # where a product of probabilities goes over into its logarithm
CERTAIN = 1e-13  # exp(-|score|) below which 1 - p is the exponential itself


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _log_lacks(score, e):
    """log(1 - p) from the log-odds and exp(-|score|)."""
    return -np.log1p(e) - max(score, 0.0)


@njit(cache=True, nogil=True, error_model="numpy")
def _log_absent(scores, small, start, stop, c, known, some_known, rate):
    """log B summed, not multiplied: where B rounds to one, 1 - B still has its digits."""
    total = 0.0
    for i in range(start, stop):
        if some_known and known[i, c] >= 0:
            continue
        e = small[i, c]
        if rate == 0.0:
            total += _log_lacks(scores[i, c], e)
        else:
            total += np.log1p(-(1.0 - rate) * (1.0 if scores[i, c] >= 0.0 else e) / (1.0 + e))
    return total


@njit(cache=True, nogil=True, error_model="numpy")
def _log_sum(scores, start, stop, c, known, some_known):
    """Logarithm of the sum of probabilities that are too small for a double."""
    top = -np.inf
    for i in range(start, stop):
        if not some_known or known[i, c] < 0:
            top = max(top, scores[i, c])
    if top == -np.inf:
        return top
    total = 0.0
    for i in range(start, stop):
        if not some_known or known[i, c] < 0:
            total += np.exp(scores[i, c] - top)
    return top + np.log(total)


@njit(cache=True, nogil=True, error_model="numpy")
def infer_noisy_or(scores, small, offsets, u, v, direct, missed, known, residual, log_likelihood, statistics):
    """Overwrite the log-odds of instances by their posterior (or posterior minus probability), label by label.

    Parameters
    ----------
    scores : (m, c) log-odds
    small : (m, c) exp(-|scores|)
    offsets : (n + 1,)
    u, v : (n, c)
    direct : (n, c) bool
        Whether what was given is about the label being there, whatever was noticed: n_c is one.
    missed : (c,) rates 1 - n_c
    known : (m, c) int8 or (0, 0)
        1 where the instance is known to carry the label, 0 where it is known not to, -1 elsewhere.
    residual : bool
    log_likelihood : (n, c) out
        log E, and the logarithms of the probabilities of what is known of instances; -inf where nothing explains what
        was given about a label, whose posterior is NaN there and whose residual is zero.
    statistics : (n, 3) out
        What the gradient in rates that all labels share is made of: instances that were noticed, instances that went
        unnoticed, and the pull of the spurious labels, as of `bagwise.union`: d / d logit(missed) = (1 - missed)
        unnoticed - missed noticed, and d / d logit(spurious) = spurious pull.
    """
    n_bags, n_classes = u.shape
    some_known = known.shape[0] > 0
    product, logs, n_carriers = np.empty(n_classes), np.empty(n_classes), np.empty(n_classes)
    rest = np.empty(n_classes)  # vB / E: how much of what was given rests on nobody being noticed
    for b in range(n_bags):
        start, stop = offsets[b], offsets[b + 1]
        for c in range(n_classes):
            product[c], logs[c], n_carriers[c], log_likelihood[b, c] = 1.0, 0.0, 0.0, 0.0
        for i in range(start, stop):
            for c in range(n_classes):
                e = small[i, c]
                if some_known and known[i, c] >= 0:
                    log_likelihood[b, c] += _log_lacks(scores[i, c] if known[i, c] == 0 else -scores[i, c], e)
                    n_carriers[c] += known[i, c]
                    continue
                rate = 0.0 if direct[b, c] else missed[c]
                if rate == 0.0 and e < CERTAIN and scores[i, c] > 0.0:
                    logs[c] -= scores[i, c]
                    continue
                product[c] *= rate + (1.0 - rate) * (e if scores[i, c] >= 0.0 else 1.0) / (1.0 + e)
                if product[c] < SMALL:
                    logs[c] += np.log(product[c])
                    product[c] = 1.0
        noticed, unnoticed, pull = 0.0, 0.0, 0.0
        for c in range(n_classes):
            rate = 0.0 if direct[b, c] else missed[c]
            factor = v[b, c] * rate ** n_carriers[c]  # known carriers were missed too, each by itself
            absent = logs[c] + np.log(product[c])
            if factor < 0.0:
                absent = _log_absent(scores, small, start, stop, c, known, some_known, rate)
                value = u[b, c] + factor + factor * np.expm1(absent)  # (u + v) - v (1 - B): both terms are positive
                if value > SMALL:
                    logs[c] = np.log(value)
                else:
                    logs[c] = _log_sum(scores, start, stop, c, known, some_known) + np.log(-factor * (1.0 - rate))
                rest[c] = factor * np.exp(absent - logs[c])
            elif u[b, c] == 0.0:
                logs[c] = np.log(factor) + absent
                rest[c] = 1.0
            else:
                logs[c] = np.log(u[b, c] + factor * np.exp(absent))
                rest[c] = factor * np.exp(absent - logs[c])
            log_likelihood[b, c] += logs[c]
            if logs[c] > -np.inf and not direct[b, c]:
                unnoticed += n_carriers[c] * rest[c]
                pull -= rest[c] if v[b, c] < 0.0 else 1.0 if v[b, c] > 0.0 else 0.0
        for i in range(start, stop):
            for c in range(n_classes):
                if logs[c] == -np.inf:
                    scores[i, c] = 0.0 if residual else np.nan
                    continue
                e = small[i, c]
                carries = (1.0 if scores[i, c] >= 0.0 else e) / (1.0 + e)
                if some_known and known[i, c] >= 0:
                    scores[i, c] = known[i, c] - (carries if residual else 0.0)
                    continue
                rate = 0.0 if direct[b, c] else missed[c]
                change = -carries * rest[c]
                if rate > 0.0:
                    lacks = (e if scores[i, c] >= 0.0 else 1.0) / (1.0 + e)
                    free = rate + (1.0 - rate) * lacks
                    missing = carries * rate * (1.0 + rest[c] * (1.0 / free - 1.0))
                    change *= (1.0 - rate) * lacks / free
                    unnoticed += missing
                    noticed += carries + change - missing
                if not np.isfinite(rest[c]):  # it is there, and all probabilities underflow: their ratios count
                    change = np.exp(scores[i, c] + np.log1p(-rate) - logs[c])
                scores[i, c] = change if residual else min(max(carries + change, 0.0), 1.0)
        statistics[b, 0], statistics[b, 1], statistics[b, 2] = noticed, unnoticed, pull
