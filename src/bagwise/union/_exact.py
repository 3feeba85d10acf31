"""Compiled union inference.

Everything here works on one bag reduced to its core (the "local problem"): ``A[i, j]`` is the probability that
unknown instance i carries label j, ``free[i]`` the probability that it carries something of which nothing is said
(the background class, or a label that a known instance carries already); each row sums to 1. What is said of label j is
``without[j]`` times as probable where no instance carries it as where one does: 0 is a label that must appear, between
0 and 1 one that is likely to (a confidence above one half, or a label that may be spurious), above 1 one that is likely
not to. With U the set of labels that appear, a solver gives

    P = sum over U of P(U) prod over j not in U of without_j,

returns log P, and writes the posterior over `A` and `free` in place. It also writes ``pull[j]``, where asked for: with
need_j = 1 - without_j, by what share P would rise if label j needed no instance, -need_j d log P / d need_j.

A label of the local problem may also be a group of which one member must appear; its mass is the sum of theirs.

Subsets of the k required labels are the integers 0 .. 2^k - 1, bit j for label j. Arrays over subsets are built and
summed by doubling and halving, so that the inner loops run over contiguous memory and rounding errors grow with k,
not with 2^k. Offsets into them are unsigned: a signed index may be negative (counted from the end), and the check for
that keeps a loop from being vectorised.
"""

import numpy as np

from bagwise.kernels import njit
from bagwise.union._pairs import inclusion_exclusion_in_pairs
from bagwise.union.constants import (
    FEW_LABELS,
    FEW_LABELS_NOISE,
    FORWARD,
    INCLUSION_EXCLUSION,
    MANY_LABELS,
    SUBSTITUTION,
    TINY,
    UNDERFLOW,
    UNIT_ROUNDOFF,
)


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _subset_sums(A, i, k, base, sums):
    """sums[L] = base + sum of A[i, j] over j in L."""
    sums[0] = base
    for j in range(k):
        half, value = np.uint64(1 << j), A[i, j]
        for t in range(half):
            sums[half + t] = sums[t] + value


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _fold(values, start, size):
    """Sum of values[start : start + size] (size a power of two) by halving; destroys them."""
    while size > 4:
        size >>= np.uint64(1)
        for t in range(size):
            values[start + t] += values[start + size + t]
    if size == 4:
        one, two, three = start + np.uint64(1), start + np.uint64(2), start + np.uint64(3)
        return (values[start] + values[two]) + (values[one] + values[three])
    if size == 2:
        return values[start] + values[start + np.uint64(1)]
    return values[start]


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _normalize_rows(A, free, n, k):
    for i in range(n):
        total = free[i]
        for j in range(k):
            A[i, j] = max(A[i, j], 0.0)
            total += A[i, j]
        inverse = 1.0 / total
        for j in range(k):
            A[i, j] *= inverse
        free[i] *= inverse


@njit(cache=True, nogil=True, error_model="numpy")
def copy_normalized(q, q_free, n, k, A, free):
    """Write a posterior over the local problem, each row scaled to sum to 1 (by loops: slices compile very slowly)."""
    for i in range(n):
        for j in range(k):
            A[i, j] = q[i, j]
        free[i] = q_free[i]
    _normalize_rows(A, free, n, k)


@njit(cache=True, nogil=True, error_model="numpy")
def inclusion_exclusion(A, free, n, k, without, signed, sums, ratio, bound, pull):
    """P = sum over L of w(L) F(L), F(L) = prod_i s_i(L); returns (log P, True), or (0, False) if not certified.

    F(L) is the probability that the union is within L, so that P(U) is the alternating sum of F over the subsets of U;
    put into P above, the coefficient is w(L) = prod over j not in L of (without_j - 1): (-1)^(k - |L|) where all labels
    must appear, and without a change of sign for a label that is likely not to.

    Certificate: s_i(L) carries at most k roundings, the product over n instances n (k + 1), the division by s_i(L)
    k + 1 and the halving sums k; w(L) carries k more where some without_j > 0, and is exact elsewhere. Since
    A[i, j] / s_i(L) <= 1 for j in L, every numerator is wrong by at most (n (k + 1) + 2 k + 4) u sum|w F| (3 k where
    some without_j > 0), and so is P; a posterior by at most twice that over P.
    """
    size = 1 << k
    smallest = 1.0
    for i in range(n):
        for j in range(k):
            smallest = min(smallest, A[i, j] + free[i])
    if smallest < TINY:
        return 0.0, False
    signed[0] = 1.0
    inexact = 0
    for j in range(k):
        half, factor = np.uint64(1 << j), without[j] - 1.0
        if without[j] > 0.0:
            inexact = k
        for t in range(half):  # the upper half has label j; the lower lacks it, and takes the factor
            signed[half + t] = signed[t]
            signed[t] *= factor
    for i in range(n):
        _subset_sums(A, i, k, free[i], sums)
        for t in range(size):
            signed[t] *= sums[t]
    # signed[L] is now w(L) F(L). P is its sum; the sum of its sizes bounds what was lost to cancellation.
    for t in range(size):
        ratio[t] = signed[t]
        sums[t] = abs(signed[t])
    if pull.size > 0:
        for j in range(k - 1, 0, -1):
            half = np.uint64(1 << j)
            for t in range(half):
                ratio[t] += ratio[half + t]
            pull[j] = _fold(ratio, half, half)
        pull[0] = ratio[1]
        probability = ratio[0] + ratio[1]
    else:
        probability = _fold(ratio, np.uint64(0), np.uint64(size))
    total = _fold(sums, np.uint64(0), np.uint64(size))
    if not 2.0 * (n * (k + 1) + 2 * k + 4 + inexact) * UNIT_ROUNDOFF * total <= bound * probability:
        return 0.0, False
    # need_j = 1 - without_j stands, with a minus, in w(L) for just the L without j, so that -need_j dP / d need_j is
    # minus the sum over these: the sum over L with j, which pull[j] is, less P.
    if pull.size > 0:
        for j in range(k):
            pull[j] = pull[j] / probability - 1.0
    # Given that instance i carries j, the others must stay within L: the posterior of j is A[i, j] / P times the sum of
    # w(L) F(L) / s_i(L) over L with j, that of nothing is free[i] / P times the sum over all L. All k sums come from
    # one array by folding: the upper half's sum is the top label's, and adding the halves leaves the same task for the
    # labels below it. So it is 2^(k+1) additions in place of k 2^(k-1); P cancels when rows are scaled to sum to 1.
    for i in range(n):
        _subset_sums(A, i, k, free[i], sums)
        if sums[0] == 0.0:
            sums[0] = np.inf  # without free mass the empty subset has no part in any posterior
        for t in range(size):
            ratio[t] = signed[t] / sums[t]
        for j in range(k - 1, 0, -1):
            half = np.uint64(1 << j)
            for t in range(half):
                ratio[t] += ratio[half + t]
            A[i, j] *= _fold(ratio, half, half)
        A[i, 0] *= ratio[1]
        free[i] *= ratio[0] + ratio[1]
    _normalize_rows(A, free, n, k)
    return np.log(probability), True


@njit(cache=True, nogil=True, error_model="numpy")
def _one_label(A, free, n, without, bound, pull):
    """The sum of `inclusion_exclusion` written out for one label: P = 1 + (without - 1) prod_i free_i.

    The posterior of the label is A[i, 0] / P: an instance that carries it explains the bag, whatever the others are.

    Certificate: the product carries n roundings, the difference one, and a posterior three more.
    """
    absent = 1.0 - without[0]
    for i in range(n):
        absent *= free[i]
    probability = 1.0 - absent
    if not 2.0 * (n * abs(absent) + 4) * UNIT_ROUNDOFF <= bound * probability:
        return 0.0, False
    if pull.size > 0:
        pull[0] = absent / probability
    for i in range(n):
        A[i, 0] /= probability
        free[i] = max(free[i] - absent, 0.0) / probability
    return np.log(probability), True


@njit(cache=True, nogil=True, error_model="numpy")
def _end_law(without, k, end):
    """end[U] = how probable what was said is where just the labels U appear: the product of `without` over the others.

    What is said is weighed at the end of the recursions, so that they run over positive terms whatever was said.
    """
    end[0] = 1.0
    for j in range(k):
        half = np.uint64(1 << j)
        for t in range(half):
            end[half + t] = end[t]
            end[t] *= without[j]


@njit(cache=True, nogil=True, error_model="numpy")
def _pull_of_end(alpha, end, without, k, pull):
    """`pull` from the (scaled) law of the union of all instances and `_end_law`."""
    together = 0.0
    for t in range(1 << k):
        together += alpha[t] * end[t]
    for j in range(k):
        bit = np.uint64(1 << j)
        missing = 0.0
        for block in range(np.uint64(0), np.uint64(1 << k), bit + bit):
            for t in range(block, block + bit):
                missing += alpha[t] * end[t + bit]
        pull[j] = (1.0 - without[j]) * missing / together


@njit(cache=True, nogil=True, error_model="numpy")
def _forward_step(old, new, A, i, k, sums):
    """new[L] = old[L] s_i(L) + sum over j in L of A[i, j] old[L without j] (Proposition 1 of the paper)."""
    size = np.uint64(1 << k)
    for t in range(size):
        new[t] = old[t] * sums[t]
    for j in range(k):
        bit, value = np.uint64(1 << j), A[i, j]
        for block in range(np.uint64(0), size, bit + bit):
            for t in range(block, block + bit):
                new[t + bit] += value * old[t]


@njit(cache=True, nogil=True, error_model="numpy")
def _backward_step(old, new, A, i, k, sums):
    """new[L] = old[L] s_i(L) + sum over j not in L of A[i, j] old[L with j]."""
    size = np.uint64(1 << k)
    for t in range(size):
        new[t] = old[t] * sums[t]
    for j in range(k):
        bit, value = np.uint64(1 << j), A[i, j]
        for block in range(np.uint64(0), size, bit + bit):
            for t in range(block, block + bit):
                new[t] += value * old[t + bit]


@njit(cache=True, nogil=True, error_model="numpy")
def _rescale(values, size):
    largest = 0.0
    for t in range(size):
        largest = max(largest, values[t])
    if largest > 0.0:
        for t in range(size):
            values[t] /= largest
    return largest


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "contract"})
def _combine(alpha, beta, A, free, i, k, q, q_free):
    """Posterior numerators of instance i; returns their sum. Only positive terms, so any order of sums is safe."""
    # alpha[L]: the others before this one carry just L; beta[L]: what was said, if all up to this one carry just L.
    # Carrying j leads to a set with j, from that set itself or from it without j; carrying nothing leads nowhere.
    together = 0.0
    for t in range(1 << k):
        together += alpha[t] * beta[t]
    q_free[i] = free[i] * together
    total = q_free[i]
    for j in range(k):
        bit = np.uint64(1 << j)
        mass = 0.0
        for block in range(np.uint64(0), np.uint64(1 << k), bit + bit):
            for t in range(block, block + bit):
                mass += (alpha[t] + alpha[t + bit]) * beta[t + bit]
        q[i, j] = A[i, j] * mass
        total += q[i, j]
    return total


@njit(cache=True, nogil=True, error_model="numpy")
def _forward_backward(A, free, n, k, without, sums, pull):
    """O(n k 2^k), positive terms only, rescaled at every instance; (log P, digits kept)."""
    size = 1 << k
    # A chain whose state is the set of labels that instances 0 .. i - 1 carry: alpha[i] is its law, beta how probable
    # what was said is from each state on. Scales of beta cancel in the posterior; those of alpha are kept for P.
    alpha = np.zeros((n + 1, size))
    alpha[0, 0] = 1.0
    scale = 0.0
    for i in range(n):
        _subset_sums(A, i, k, free[i], sums)
        _forward_step(alpha[i], alpha[i + 1], A, i, k, sums)
        largest = _rescale(alpha[i + 1], size)
        if largest == 0.0:
            return -np.inf, False
        scale += np.log(largest)
    beta = np.zeros((2, size))
    _end_law(without, k, beta[0])
    together = 0.0
    for t in range(size):
        together += alpha[n, t] * beta[0, t]
    if together < UNDERFLOW:
        return -np.inf, False
    scale += np.log(together)
    if pull.size > 0:
        _pull_of_end(alpha[n], beta[0], without, k, pull)
    q, q_free = np.empty((n, k)), np.empty(n)
    for i in range(n - 1, -1, -1):
        old, new = beta[0], beta[1]
        if (n - 1 - i) % 2 == 1:
            old, new = beta[1], beta[0]
        _subset_sums(A, i, k, free[i], sums)
        _backward_step(old, new, A, i, k, sums)
        if _combine(alpha[i], old, A, free, i, k, q, q_free) < UNDERFLOW:
            return -np.inf, False
        _rescale(new, size)
    copy_normalized(q, q_free, n, k, A, free)
    return scale, True


@njit(cache=True, nogil=True, error_model="numpy")
def log_add(a, b):
    if a == -np.inf:
        return b
    if b == -np.inf:
        return a
    top = max(a, b)
    return top + np.log1p(np.exp(min(a, b) - top))


@njit(cache=True, nogil=True, error_model="numpy")
def log_forward_backward(A, free, n, k, shows, without, pull):
    """Forward-backward on logarithms `A` and `free`: the last resort where rescaled probabilities underflow.

    Column s of `A` may show several labels at once, the bits of shows[s]: so it is where groups overlap. Writes
    probabilities over `A` and `free`; returns log P, -inf for a bag that cannot be explained.
    """
    size, n_columns = 1 << k, shows.size
    alpha = np.full((n + 1, size), -np.inf)
    alpha[0, 0] = 0.0
    for i in range(n):
        for t in range(size):
            if alpha[i, t] == -np.inf:
                continue
            alpha[i + 1, t] = log_add(alpha[i + 1, t], alpha[i, t] + free[i])
            for s in range(n_columns):
                to = t | shows[s]
                alpha[i + 1, to] = log_add(alpha[i + 1, to], alpha[i, t] + A[i, s])
    end = np.empty(size)
    _end_law(without, k, end)
    beta = np.log(end)
    result = -np.inf
    for t in range(size):
        result = log_add(result, alpha[n, t] + beta[t])
    if result == -np.inf:
        return result
    for i in range(n - 1, -1, -1):
        new = np.full(size, -np.inf)
        mass = np.full(n_columns + 1, -np.inf)
        for t in range(size):
            new[t] = beta[t] + free[i]
            mass[n_columns] = log_add(mass[n_columns], alpha[i, t] + beta[t] + free[i])
            for s in range(n_columns):
                onward = A[i, s] + beta[t | shows[s]]
                new[t] = log_add(new[t], onward)
                mass[s] = log_add(mass[s], alpha[i, t] + onward)
        for s in range(n_columns):
            A[i, s] = np.exp(mass[s] - result)
        free[i] = np.exp(mass[n_columns] - result)
        beta = new
    if pull.size > 0:
        top = -np.inf
        for t in range(size):
            top = max(top, alpha[n, t])
        for t in range(size):
            alpha[n, t] = np.exp(alpha[n, t] - top)
        _pull_of_end(alpha[n], end, without, k, pull)
    _normalize_rows(A, free, n, n_columns)
    return result


@njit(cache=True, nogil=True, error_model="numpy")
def _leave_one_out(alpha, A, i, free_mass, k, sums, rest):
    """Substitution (Proposition 3): the law of the union without one instance; False where it divides by zero."""
    # alpha[L] = rest[L] s_i(L) + sum over j in L of A[i, j] rest[L without j], solved for `rest` from small L to large.
    # The differences cancel where an instance carries most of the mass: it is here since it is the paper's method.
    _subset_sums(A, i, k, free_mass, sums)
    for t in range(1 << k):
        value = alpha[t]
        for j in range(k):
            if t & (1 << j):
                value -= A[i, j] * rest[t ^ (1 << j)]
        if sums[t] == 0.0:
            if t != 0:
                return False
            rest[t] = 0.0  # no free mass: the union of one or more others is never empty
        else:
            rest[t] = value / sums[t]
    return True


@njit(cache=True, nogil=True, error_model="numpy")
def _chain(A, free, n, k, skip, sums, alpha, spare):
    """Rescaled forward recursion over all instances but `skip`; result in `alpha`, returns the log of its scale."""
    size = 1 << k
    for t in range(size):
        alpha[t] = 0.0
    alpha[0] = 1.0
    scale = 0.0
    for i in range(n):
        if i == skip:
            continue
        _subset_sums(A, i, k, free[i], sums)
        _forward_step(alpha, spare, A, i, k, sums)
        largest = _rescale(spare, size)
        if largest == 0.0:
            return -np.inf
        scale += np.log(largest)
        for t in range(size):
            alpha[t] = spare[t]
    return scale


@njit(cache=True, nogil=True, error_model="numpy")
def _forward(A, free, n, k, without, sums, method, pull):
    """The paper's algorithms: FORWARD re-runs the recursion without each instance (Algorithm 1,
    O(n^2 k 2^k)), SUBSTITUTION runs it once and removes each instance by substitution (Algorithm 2, O(n k 2^k))."""
    size = 1 << k
    alpha, spare, rest, end = np.empty(size), np.empty(size), np.empty(size), np.empty(size)
    _end_law(without, k, end)
    scale = _chain(A, free, n, k, -1, sums, alpha, spare)
    if scale == -np.inf:
        return -np.inf, False
    together = 0.0
    for t in range(size):
        together += alpha[t] * end[t]
    if together <= UNDERFLOW:
        return -np.inf, False
    log_probability = scale + np.log(together)
    if pull.size > 0:
        _pull_of_end(alpha, end, without, k, pull)
    q, q_free = np.empty((n, k)), np.empty(n)
    for i in range(n):
        if method == SUBSTITUTION and n > 1:
            if not _leave_one_out(alpha, A, i, free[i], k, sums, rest):
                return -np.inf, False
        elif _chain(A, free, n, k, i, sums, rest, spare) == -np.inf:
            return -np.inf, False
        if not _combine(rest, end, A, free, i, k, q, q_free) > UNDERFLOW:  # Proposition 2
            return -np.inf, False
    copy_normalized(q, q_free, n, k, A, free)
    return log_probability, True


@njit(cache=True, nogil=True, error_model="numpy")
def n_strict(without, k):
    """Number of labels that must appear: with more of them than instances, nothing explains a bag."""
    count = 0
    for j in range(k):
        count += without[j] == 0.0
    return count


@njit(cache=True, nogil=True, error_model="numpy")
def solve(A, free, n, k, without, method, bound, signed, sums, ratio, pull):
    """Exact solution of one local problem by the chosen method or its fall-back; (log P, digits kept).

    `pull` is (k,) or longer, or (0,) where nobody asks for it.
    """
    if k == 0:
        for i in range(n):
            free[i] = 1.0
        return 0.0, True
    if k > n and n_strict(without, k) > n:
        return -np.inf, True
    if method == INCLUSION_EXCLUSION:
        strict = bound
        if k <= FEW_LABELS:
            strict *= 0.01 if pull.size == 0 else FEW_LABELS_NOISE
        if k == 1:
            result, done = _one_label(A, free, n, without, strict, pull)
        else:
            result, done = inclusion_exclusion(A, free, n, k, without, signed, sums, ratio, strict, pull)
        if not done and k >= MANY_LABELS:
            result, done = inclusion_exclusion_in_pairs(A, free, n, k, without, bound, pull)
    elif method in (FORWARD, SUBSTITUTION):
        result, done = _forward(A, free, n, k, without, sums, method, pull)
    else:
        result, done = 0.0, False
    if done:
        return result, True
    return _forward_backward(A, free, n, k, without, sums, pull)
