"""Compiled union inference for more labels than can be summed over: belief propagation, and how far it is off.

On the local problem of `_exact`. Instances and labels are the two sides of a graph; a label's only message to an
instance is how much more probable it is that the label is explained if the instance carries it than if not,

    m_ij = 1 / P(j is explained by the others),    P = 1 - (1 - without_j) prod over l != i of (1 - a_lj),

where a_lj is the probability that instance l carries j, by its own mass and the messages of all *other* labels. At a
fixed point log P is that of Bethe,

    log P = sum_j log P(j is explained) + sum_ij log S_ij - (k - 1) sum_i log Z_i,
    Z_i = free_i + sum_j A_ij m_ij,    S_ij = Z_i - A_ij m_ij + A_ij,

exact where the graph has no loops. It is stationary in the messages, so that the beliefs A_ij m_ij / Z_i are its very
gradient in log A_ij: no row is negative, each sums to 1, and a solver that climbs log P sees no contradiction. Sums and
products of positive numbers only: what must cancel is kept as a pair of a probability and its complement.
"""

import numpy as np

from bagwise.kernels import njit
from bagwise.union._exact import n_strict, solve
from bagwise.union.constants import INCLUSION_EXCLUSION

TOLERANCE = 1e-10  # largest change of a belief in the last sweep
MAX_SWEEPS = 300
FAR_OUT = 1e12  # where every instance is needed messages grow without end, ever more slowly: they start out there
SMALLEST = 1e-290  # a label that only one instance can carry sends it this, where it would send infinity
GROUP = 12  # labels whose joint, exact posterior the beliefs are held against


@njit(cache=True, nogil=True, error_model="numpy")
def _behind(n, k, weights, others):
    """others[j] = sum of the weights of the labels behind j."""
    for i in range(n):
        others[k - 1, i] = 0.0
    for j in range(k - 1, 0, -1):
        for i in range(n):
            others[j - 1, i] = others[j, i] + weights[j, i]


@njit(cache=True, nogil=True, error_model="numpy")
def _sweep(shares, free, n, k, without, weights, others, mass, work):
    """Every label's messages once, in turn, from those of all others.

    shares, weights : (k, n) A, and A times the messages, which change
    mass : (n,) out; free mass and weights of a row together
    """
    _behind(n, k, weights, others)
    before, carried, spared = work[0], work[1], work[2]
    for i in range(n):
        before[i] = free[i]
    for j in range(k):
        some, none = 0.0, 1.0  # how probable it is that at least one of the instances so far carries j, and that none
        for i in range(n):
            carried[i], spared[i] = some, none
            others[j, i] += before[i]
            total = shares[j, i] + others[j, i]
            some += none * (shares[j, i] / total)
            none *= others[j, i] / total
        behind = 0.0
        for i in range(n - 1, -1, -1):
            others_do = without[j] + (1.0 - without[j]) * (carried[i] + spared[i] * behind)
            behind = (shares[j, i] + others[j, i] * behind) / (shares[j, i] + others[j, i])
            weights[j, i] = shares[j, i] / max(others_do, SMALLEST)
            before[i] += weights[j, i]
    for i in range(n):
        mass[i] = before[i]


@njit(cache=True, nogil=True, error_model="numpy")
def _settle(n, k, weights, mass, beliefs):
    """Weights as shares of their rows; returns the largest change since the last call."""
    change = 0.0
    for j in range(k):
        for i in range(n):
            belief = weights[j, i] / mass[i]
            change = max(change, abs(belief - beliefs[j, i]))
            beliefs[j, i] = belief
    return change


@njit(cache=True, nogil=True, error_model="numpy")
def _log_probability(shares, free, n, k, without, weights, others, mass, explained, absent, work):
    """log P of Bethe, all of it from the same messages; -inf where a label has no mass anywhere.

    explained, absent : (k,) out; P(j is explained), and prod_i (1 - a_ij)
    """
    _behind(n, k, weights, others)
    result, before = 0.0, work[0]
    for i in range(n):
        result += np.log(mass[i])
        before[i] = free[i]
    for j in range(k):
        some, none = 0.0, 1.0
        for i in range(n):
            rest = before[i] + others[j, i]
            total = shares[j, i] + rest
            some += none * (shares[j, i] / total)
            none *= rest / total
            before[i] += weights[j, i]
            result += np.log(total / mass[i])
        explained[j], absent[j] = without[j] + (1.0 - without[j]) * some, none
        result += np.log(explained[j])
    return result


@njit(cache=True, nogil=True, error_model="numpy")
def _distance(shares, free, n, k, without, weights, beliefs, absent, bound):
    """Largest difference between a belief and the exact posterior of its group of labels, all others as believed.

    What belief propagation leaves out is that labels compete in more than one instance at a time. Groups of labels,
    those least sure of an instance together, are solved exactly in the place of their messages: the difference is what
    the loops within the group do.
    """
    size = min(GROUP, k)
    A, left, group_without, pull = np.empty((n, size)), np.empty(n), np.empty(size), np.empty(0)
    signed, sums, ratio = np.empty(1 << size), np.empty(1 << size), np.empty(1 << size)
    certainty = np.empty(k)
    for j in range(k):
        certainty[j] = (without[j] - 1.0) * absent[j]
    order = np.argsort(certainty)
    largest = 0.0
    for first in range(0, k, size):
        group = order[first : first + size]
        for g in range(group.size):
            group_without[g] = without[group[g]]
        for i in range(n):
            left[i] = free[i]
            for position in range(k):
                if position < first or position >= first + size:
                    left[i] += weights[order[position], i]
            total = left[i]
            for g in range(group.size):
                A[i, g] = shares[group[g], i]
                total += A[i, g]
            left[i] /= total
            for g in range(group.size):
                A[i, g] /= total
        _, done = solve(A, left, n, group.size, group_without, INCLUSION_EXCLUSION, bound, signed, sums, ratio, pull)
        if not done:
            return 1.0
        for i in range(n):
            for g in range(group.size):
                largest = max(largest, abs(A[i, g] - beliefs[group[g], i]))
    return largest


@njit(cache=True, nogil=True, error_model="numpy")
def propagate(A, free, n, k, without, pull, measure, bound):
    """Beliefs over `A` and `free`, in place; returns (log P of Bethe, estimated error of the beliefs where `measure`).

    `pull` as of `solve`.
    """
    n_needed = n_strict(without, k)
    if n_needed > n:
        return -np.inf, 0.0
    shares, weights, others, beliefs = np.empty((k, n)), np.empty((k, n)), np.empty((k, n)), np.empty((k, n))
    own, mass, work = np.empty(n), np.empty(n), np.empty((3, n))
    explained, absent = np.empty(k), np.empty(k)
    some_free = 0.0
    for i in range(n):
        some_free += free[i]
    start = FAR_OUT if n_needed == n and k == n and some_free == 0.0 else 1.0
    for i in range(n):
        own[i] = free[i]
        for j in range(k):
            shares[j, i] = beliefs[j, i] = A[i, j]
            weights[j, i] = start * A[i, j]
    for _ in range(MAX_SWEEPS):
        _sweep(shares, own, n, k, without, weights, others, mass, work)
        if _settle(n, k, weights, mass, beliefs) < TOLERANCE:
            break
    result = _log_probability(shares, own, n, k, without, weights, others, mass, explained, absent, work)
    if result == -np.inf:
        return result, 0.0
    for i in range(n):
        for j in range(k):
            A[i, j] = beliefs[j, i]
        free[i] = own[i] / mass[i]
    if pull.size > 0:
        for j in range(k):
            pull[j] = (1.0 - without[j]) * absent[j] / explained[j]
    error = _distance(shares, own, n, k, without, weights, beliefs, absent, bound) if measure else 0.0
    return result, error
