"""Inclusion-exclusion in pairs of doubles: for bags whose alternating sums cancel more than doubles can bear.

The sums are those of `_exact.inclusion_exclusion`. A number is the unevaluated sum of two doubles, so that sums,
products and quotients are wrong by some 2^-104 of their size. Terms are at most 1, since rows sum to 1, and each is
split once more, at a fixed power of two: sums over subsets of the upper parts have no rounding at all, and what is
left is too small for its own roundings to matter. Subsets go in blocks of the lowest labels, which stay in the cache.
"""

from typing import Any

import numpy as np

from bagwise.kernels import intrinsic, njit
from bagwise.union.constants import TINY, UNIT_ROUNDOFF

LOW = 8  # labels of a block
BLOCK = 1 << LOW


@intrinsic
def _fma(context: Any, a: Any, b: Any, c: Any) -> Any:
    """a * b + c, rounded once."""
    from numba import types

    return types.float64(types.float64, types.float64, types.float64), lambda _, builder, __, args: builder.fma(*args)


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _two_sum(a, b):
    """a + b as a pair, without error."""
    total = a + b
    other = total - a
    return total, (a - (total - other)) + (b - other)


@njit(cache=True, nogil=True, error_model="numpy")
def _mass_of_subsets(A, i, first, count, start, high, low):
    """Pairs start + sum of A[i, first + j] over j in L, for the subsets L of `count` labels."""
    high[0], low[0] = start, 0.0
    for j in range(count):
        half, value = 1 << j, A[i, first + j]
        for t in range(half):
            total, error = _two_sum(high[t], value)
            high[half + t], low[half + t] = total, low[t] + error


@njit(cache=True, nogil=True, error_model="numpy")
def _coefficients(without, first, count, high, low):
    """Pairs prod over j not in L of (without_j - 1)."""
    high[0], low[0] = 1.0, 0.0
    for j in range(count):
        factor, rest = _two_sum(without[first + j], -1.0)
        half = 1 << j
        for t in range(half):
            high[half + t], low[half + t] = high[t], low[t]
            value = high[t] * factor
            low[t] = _fma(high[t], factor, -value) + (low[t] * factor + high[t] * rest)
            high[t] = value


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc"})
def _total(values):
    total = 0.0
    for t in range(values.size):
        total += values[t]
    return total


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc"})
def _add_by_label(values, count, first, sums):
    """Add the sums of the values of subsets that hold label j to sums[first + j]; returns that of all values."""
    for j in range(count - 1, -1, -1):
        half, upper = np.uint64(1 << j), 0.0
        for t in range(half):
            upper += values[half + t]
            values[t] += values[half + t]
        sums[first + j] += upper
    return values[0]


@njit(cache=True, nogil=True, error_model="numpy")
def _add_up(of_block, of_blocks, k, sums):
    """sums[j] and sums[k]: over subsets that hold label j, and over all, of (2, ...) upper parts and rests."""
    sums[:] = 0.0
    total = 0.0
    for part in range(2):  # the upper parts first: their sums are exact
        _add_by_label(of_block[part], LOW, 0, sums)
        total += _add_by_label(of_blocks[part], k - LOW, LOW, sums)
    sums[k] = total


@njit(cache=True, nogil=True, error_model="numpy")
def _split_terms(terms, rests, sigma, of_block, of_blocks, block, upper, lower):
    """Split terms at the power of two that `sigma` stands for, and add them up by label of the block, and by block."""
    for t in range(BLOCK):
        top = (terms[t] + sigma) - sigma
        rest = (terms[t] - top) + rests[t]
        of_block[0, t] += top
        of_block[1, t] += rest
        upper[t], lower[t] = top, rest
    of_blocks[0, block], of_blocks[1, block] = _total(upper), _total(lower)


@njit(cache=True, nogil=True, error_model="numpy")
def inclusion_exclusion_in_pairs(A, free, n, k, without, bound, pull):
    """As `_exact.inclusion_exclusion`, for k > LOW labels with without_j <= 1; (log P, whether it is certified).

    Certificate, u the unit roundoff: a factor s_i(L) is wrong by 2 (k + 4) u^2 of itself, the product of n of them by
    at most 10 n^2 u^2 more, the quotient by some u^2 again. The upper parts are multiples of 2^(k - 52) whose 2^k terms
    add up exactly; a rest is at most 2^(k - 53) + (3 n + 10) u, and 2^k of them are added with fewer than
    2^(k - LOW) + BLOCK + 2 k roundings each.
    """
    smallest = 1.0
    for i in range(n):
        for j in range(k):
            smallest = min(smallest, A[i, j] + free[i])
    for j in range(k):
        if without[j] > 1.0:
            return 0.0, False
    if smallest < TINY:
        return 0.0, False
    n_blocks = 1 << (k - LOW)
    sigma = 1.5 * 2.0**k
    near, near_rest = np.empty((n, BLOCK)), np.empty((n, BLOCK))
    far, far_rest = np.empty((n, n_blocks)), np.empty((n, n_blocks))
    for i in range(n):
        _mass_of_subsets(A, i, 0, LOW, 0.0, near[i], near_rest[i])
        _mass_of_subsets(A, i, LOW, k - LOW, free[i], far[i], far_rest[i])
    near_sign, near_sign_rest = np.empty(BLOCK), np.empty(BLOCK)
    far_sign, far_sign_rest = np.empty(n_blocks), np.empty(n_blocks)
    _coefficients(without, 0, LOW, near_sign, near_sign_rest)
    _coefficients(without, LOW, k - LOW, far_sign, far_sign_rest)
    of_block, of_blocks = np.zeros((n + 1, 2, BLOCK)), np.empty((n + 1, 2, n_blocks))
    product, rest = np.empty(BLOCK), np.empty(BLOCK)
    quotient, left, upper, lower = np.empty(BLOCK), np.empty(BLOCK), np.empty(BLOCK), np.empty(BLOCK)
    absolute = 0.0
    for block in range(n_blocks):
        sign, sign_rest = far_sign[block], far_sign_rest[block]
        for t in range(BLOCK):
            value = near_sign[t] * sign
            rest[t] = _fma(near_sign[t], sign, -value) + (near_sign[t] * sign_rest + near_sign_rest[t] * sign)
            product[t] = value
        for i in range(n):
            base, base_rest = far[i, block], far_rest[i, block]
            for t in range(BLOCK):
                mass, error = _two_sum(base, near[i, t])
                error += base_rest + near_rest[i, t]
                value = product[t] * mass
                rest[t] = _fma(rest[t], mass, _fma(product[t], error, _fma(product[t], mass, -value)))
                product[t] = value
        for t in range(BLOCK):
            absolute += abs(product[t])
        _split_terms(product, rest, sigma, of_block[n], of_blocks[n], block, upper, lower)
        for i in range(n):
            base, base_rest = far[i, block], far_rest[i, block]
            for t in range(BLOCK):
                mass, error = _two_sum(base, near[i, t])
                error += base_rest + near_rest[i, t]
                inverse = 1.0 / mass if mass > 0.0 else 0.0  # the empty subset, without free mass: it has no part
                value = product[t] * inverse
                left[t] = (_fma(-value, mass, product[t]) + (rest[t] - value * error)) * inverse
                quotient[t] = value
            _split_terms(quotient, left, sigma, of_block[i], of_blocks[i], block, upper, lower)
    sums = np.empty(k + 1)
    _add_up(of_block[n], of_blocks[n], k, sums)
    probability = sums[k]
    unit = UNIT_ROUNDOFF
    relative = (10.0 * n * n + 2.0 * n * (k + 4) + 40.0) * unit * unit
    fixed = (n_blocks + BLOCK + 2 * k) * unit * 2.0**k * (2.0 ** (k - 53) + (3 * n + 10) * unit)
    if not 2.0 * (relative * absolute + fixed) + 8.0 * unit * probability <= bound * probability:
        return 0.0, False
    for j in range(pull.size and k):  # the sum over L without j is P less that over L with j
        pull[j] = sums[j] / probability - 1.0
    for i in range(n):
        _add_up(of_block[i], of_blocks[i], k, sums)
        total = free[i] * max(sums[k], 0.0)
        for j in range(k):
            A[i, j] *= max(sums[j], 0.0)
            total += A[i, j]
        for j in range(k):
            A[i, j] /= total
        free[i] *= max(sums[k], 0.0) / total
    return np.log(probability), True
