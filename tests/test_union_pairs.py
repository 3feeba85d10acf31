"""Inclusion-exclusion in pairs of doubles: against rational numbers, and forward-backward, without cancellation."""

from fractions import Fraction

import numpy as np
import pytest
from numpy.testing import assert_allclose

from bagwise.union import union_posterior
from bagwise.union._exact import _forward_backward, solve
from bagwise.union._pairs import LOW, inclusion_exclusion_in_pairs
from bagwise.union.constants import ERROR_BOUND, INCLUSION_EXCLUSION, MANY_LABELS

WITHIN = 1e-9


def local_problem(seed, n, k, sharpness=1.0, free=True, spurious=True):
    rng = np.random.default_rng(seed)
    p = np.exp(sharpness * rng.normal(size=(n, k + 1)))
    if not free:
        p[:, k] = 0.0
    p /= p.sum(axis=1, keepdims=True)
    without = np.where(rng.random(k) < 0.3, rng.random(k), 0.0) if spurious else np.zeros(k)
    return p[:, :k].copy(), p[:, k].copy(), without


def in_pairs(A, free, without):
    A, free, pull = A.copy(), free.copy(), np.empty(len(without))
    log_probability, done = inclusion_exclusion_in_pairs(A, free, *A.shape, without, ERROR_BOUND, pull)
    return log_probability, A, free, pull, done


def by_rational_numbers(A, free, without):
    """P and numerators of the posterior, exactly, from the alternating sum."""
    n, k = A.shape
    exact = [[Fraction(value) for value in row] for row in A]
    rest = [Fraction(value) for value in free]
    total, numerators = Fraction(0), [[Fraction(0)] * (k + 1) for _ in range(n)]
    for subset in range(1 << k):
        weight = Fraction(1)
        for j in range(k):
            if not subset >> j & 1:
                weight *= Fraction(without[j]) - 1
        masses = [rest[i] + sum(exact[i][j] for j in range(k) if subset >> j & 1) for i in range(n)]
        term = weight
        for mass in masses:
            term *= mass
        total += term
        if term == 0:
            continue
        for i in range(n):
            share = term / masses[i]
            for j in range(k):
                if subset >> j & 1:
                    numerators[i][j] += share * exact[i][j]
            numerators[i][k] += share * rest[i]
    return total, np.array([[float(value / total) for value in row] for row in numerators])


@pytest.mark.parametrize("free", [False, True])
def test_rational_numbers(free):
    A, rest, without = local_problem(3, 10, MANY_LABELS, sharpness=2.0, free=free, spurious=free)
    total, posterior = by_rational_numbers(A, rest, without)
    log_probability, q, q_free, _, done = in_pairs(A, rest, without)
    assert done
    assert_allclose(log_probability, np.log(float(total)), atol=1e-12)
    assert_allclose(np.column_stack([q, q_free]), posterior, rtol=1e-10, atol=1e-13)


@pytest.mark.parametrize("k", [LOW + 1, LOW + 2, 12])
@pytest.mark.parametrize("extra", [0, 1, 6, 30])
def test_forward_backward(k, extra):
    for seed in range(4):
        A, free, without = local_problem(
            seed, k + extra, k, sharpness=[0.3, 1.0, 2.0, 4.0][seed], free=seed % 2 == 0, spurious=seed < 2
        )
        log_probability, q, q_free, pull, done = in_pairs(A, free, without)
        own, own_free, own_pull = A.copy(), free.copy(), np.empty(k)
        expected, kept = _forward_backward(own, own_free, *A.shape, without, np.empty(1 << k), own_pull)
        assert kept
        if not done:  # a bag of which next to nothing is left after cancellation
            assert expected < np.log(1e-8)
            continue
        assert_allclose(log_probability, expected, atol=WITHIN)
        assert_allclose(np.column_stack([q, q_free]), np.column_stack([own, own_free]), rtol=0, atol=WITHIN)
        assert_allclose(pull, own_pull, rtol=0, atol=WITHIN)


def test_what_doubles_cannot_certify_pairs_do():
    """As many labels as instances: doubles keep seven digits of such sums."""
    A, free, without = local_problem(0, 14, 14, sharpness=0.5, free=False, spurious=False)
    arrays = [np.empty(1 << 14) for _ in range(3)]
    own, own_free = A.copy(), free.copy()
    log_probability, done = solve(
        own, own_free, 14, 14, without, INCLUSION_EXCLUSION, ERROR_BOUND, *arrays, np.empty(0)
    )
    alone = in_pairs(A, free, without)
    assert done
    assert alone[-1]
    assert log_probability == alone[0]  # so `solve` has asked them
    expected = union_posterior(A, [0, 14], np.ones((1, 14), int), method="forward-backward")
    assert_allclose(log_probability, expected[0][0], atol=WITHIN)
    assert_allclose(own, expected[1], rtol=0, atol=WITHIN)


def test_it_refuses_what_its_certificate_does_not_cover():
    A, free, without = local_problem(0, 12, 10)
    without[2] = 1.5  # likely not to be there: terms above one
    assert not in_pairs(A, free, without)[-1]
    A, free, without = local_problem(1, 12, 10, free=False, spurious=False)
    A[:, 0] = 1e-200
    assert not in_pairs(A, free, without)[-1]
    A[:, 0] = 1e-14  # nothing of P is left above the rounding of terms that are as large as one
    A /= A.sum(axis=1, keepdims=True)
    assert not in_pairs(A, free, without)[-1]
