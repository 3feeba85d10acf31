"""Union inference above `max_exact_labels`: belief propagation against exact inference and finite differences."""

import itertools
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from bagwise.core.bags import offsets_of
from bagwise.core.exceptions import ApproximationWarning
from bagwise.union import LabelNoise, UnionProblem, union_posterior
from conftest import random_bags


def made_bag(seed, n, k, spread=1.0, background=False):
    """Rows of which each prefers some labels, and labels of unequal frequency."""
    rng = np.random.default_rng(seed)
    weights = spread * np.exp(rng.normal(size=k + background))
    proba = rng.dirichlet(weights, n) + 1e-12
    Y = np.zeros((1, k + background), np.uint8)
    Y[:, :k] = 1
    return proba, Y


def propagated(proba, Y, max_exact_labels=1, rates=None, background=None, known=None):
    """Log-likelihood, posterior and estimated error of one bag."""
    problem = UnionProblem.build(np.array([0, len(proba)]), Y, background, known)
    posterior, errors = proba.copy(), np.zeros(1)
    log_likelihood = problem.infer_in_place(
        posterior, softmax=False, residual=False, max_exact_labels=max_exact_labels, rates=rates, errors=errors
    )
    return log_likelihood[0], posterior, errors[0]


def as_if_independent(proba):
    """What stood in this place before: prod_c (1 - prod_i (1 - p_ic)) and its gradient, clipped."""
    shares = proba / proba.sum(axis=1, keepdims=True)
    absent = np.prod(1 - shares, axis=0)
    push = absent / ((1 - absent) * (1 - shares))
    posterior = np.maximum(shares * (1 + push - (push * shares).sum(axis=1, keepdims=True)), 0)
    return posterior / posterior.sum(axis=1, keepdims=True)


@given(st.integers(0, 2**32 - 1), st.booleans(), st.booleans())
@settings(max_examples=60, deadline=None)
def test_exact_where_competition_has_no_loops(seed, with_rates, with_background):
    rng = np.random.default_rng(seed)
    n, k = int(rng.integers(4, 9)), int(rng.integers(2, 6))
    support = np.zeros((n, k), bool)
    joined = list(rng.permutation(k)[:1])
    for i in range(n):  # a tree: each instance joins one label that is there and any number that is not
        new = [c for c in range(k) if c not in joined]
        own = [rng.choice(joined), *rng.choice(new, min(len(new), int(rng.integers(0, 3))), replace=False)]
        support[i, own] = True
        joined += own[1:]
    background = k if with_background else None
    proba = np.where(support, rng.uniform(0.05, 1.0, (n, k)), 0.0)
    proba = np.hstack([proba, rng.uniform(0.0, 0.5, (n, 1))]) if with_background else proba
    Y = np.zeros((1, proba.shape[1]), np.uint8)
    Y[0, :k] = 1
    rates = LabelNoise.of(0.0, rng.uniform(0.01, 0.5, proba.shape[1]), proba.shape[1]) if with_rates else None
    spurious = 0.0 if rates is None else rates.spurious
    expected, exact = union_posterior(proba, [0, n], Y, background=background, spurious=spurious)
    found, posterior, _ = propagated(proba, Y, rates=rates, background=background)
    if np.isinf(expected[0]):
        assert found < -100.0 or np.isinf(found)
        return
    assert_allclose(found, expected[0], rtol=1e-8, atol=1e-8)
    assert_allclose(posterior, exact, rtol=0, atol=1e-7)


@pytest.mark.parametrize(("n", "spread", "most"), [(8, 1.0, 0.05), (8, 0.2, 0.2), (14, 0.2, 0.08), (40, 0.2, 0.01)])
def test_near_exact_and_far_nearer_than_independence(n, spread, most):
    ours, plain = [], []
    for seed in range(100):
        proba, Y = made_bag(seed, n, 6, spread)
        exact_likelihood, exact = union_posterior(proba, [0, n], Y)
        log_likelihood, posterior, _ = propagated(proba, Y, max_exact_labels=3)
        assert log_likelihood <= exact_likelihood[0] + 1e-9  # from below, in all that was ever tried
        assert (posterior >= 0).all()
        assert_allclose(posterior.sum(axis=1), 1.0, rtol=1e-12)
        ours.append(np.abs(posterior - exact).max())
        plain.append(np.abs(as_if_independent(proba) - exact).max())
    assert np.mean(ours) < 0.25 * np.mean(plain)
    assert np.quantile(ours, 0.95) < most


@pytest.mark.parametrize("seed", range(60))
def test_up_to_a_group_of_labels_the_estimate_is_the_error(seed):
    rng = np.random.default_rng(seed)
    k, background = int(rng.integers(2, 11)), bool(seed % 2)
    proba, Y = made_bag(seed, k + int(rng.integers(0, 10)), k, [0.1, 1.0][seed % 3 == 0], background)
    rates = LabelNoise.of(rng.uniform(0, 0.3, Y.shape[1]), rng.uniform(0, 0.3, Y.shape[1]), Y.shape[1])
    rates = rates if seed % 4 < 2 else None
    arguments = {} if rates is None else {"missed": rates.missed, "spurious": rates.spurious}
    column = k if background else None
    _, exact = union_posterior(proba, [0, len(proba)], Y, background=column, **arguments)
    _, posterior, error = propagated(proba, Y, rates=rates, background=column)
    if rates is None:
        assert_allclose(error, np.abs(posterior - exact)[:, :k].max(), atol=1e-7)
    else:  # the estimate is of what is noticed, the posterior of what is there
        assert np.abs(posterior - exact).max() <= 1.5 * error + 1e-7


def test_the_estimate_is_of_the_size_of_the_error():
    for seed in range(200):
        n = [15, 18, 24, 50][seed % 4]
        proba, Y = made_bag(seed, n, 14, [0.1, 1.0, 0.03][seed % 3])
        _, exact = union_posterior(proba, [0, n], Y)
        _, posterior, error = propagated(proba, Y)
        truth = np.abs(posterior - exact).max()
        assert truth <= 4.0 * error + 1e-9
        assert error <= 4.0 * truth + 1e-9


@pytest.mark.parametrize(("n", "k"), [(3, 3), (6, 4), (9, 9), (12, 8), (18, 18), (40, 24)])
@pytest.mark.parametrize("with_rates", [False, True], ids=["right", "wrong"])
def test_the_beliefs_are_the_gradient(n, k, with_rates):
    rng = np.random.default_rng(n * k)
    scores = 2.0 * rng.normal(size=(n, k + 2))  # one class that is not listed, and a background
    Y = np.zeros((1, k + 2), np.uint8)
    Y[0, :k] = 1
    known = np.full(n, -1)
    if n > k:
        known[0] = 0
    rates = LabelNoise(np.full(k + 2, 0.1), np.full(k + 2, 0.05)) if with_rates else None
    problem = UnionProblem.build(np.array([0, n]), Y, k + 1 if n > k else None, known)

    def value(scores):
        out = scores.copy()
        return problem.infer_in_place(out, softmax=True, residual=True, max_exact_labels=1, rates=rates)[0], out

    _, residual = value(scores)
    for i, c in itertools.product(range(0, n, max(1, n // 6)), range(0, k + 2, max(1, k // 6))):
        step = np.zeros_like(scores)
        step[i, c] = 1e-4
        assert_allclose(residual[i, c], (value(scores + step)[0] - value(scores - step)[0]) / 2e-4, atol=1e-6)


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=30, deadline=None)
def test_order_of_instances_and_labels_does_not_matter(seed):
    rng = np.random.default_rng(seed)
    proba, Y = made_bag(seed, 12, 8, 0.3)
    rows, columns = rng.permutation(12), rng.permutation(8)
    likelihood, posterior, error = propagated(proba, Y)
    shuffled_likelihood, shuffled, shuffled_error = propagated(proba[rows][:, columns], Y)
    assert_allclose(shuffled_likelihood, likelihood, atol=1e-7)
    assert_allclose(shuffled, posterior[rows][:, columns], atol=1e-6)
    assert_allclose(shuffled_error, error, atol=1e-6)


def test_sixty_four_labels_and_probabilities_far_apart():
    rng = np.random.default_rng(0)
    for n, spread in ((64, 1.0), (70, 8.0), (300, 30.0)):
        log_proba = spread * rng.normal(size=(n, 64))
        proba = np.exp(log_proba - log_proba.max(axis=1, keepdims=True))
        log_likelihood, posterior, error = propagated(proba, np.ones((1, 64), np.uint8), max_exact_labels=16)
        assert np.isfinite(log_likelihood)
        assert_allclose(posterior.sum(axis=1), 1.0, rtol=1e-10)
        assert (posterior.sum(axis=0) > 0.99).all()  # every label is carried by somebody
        assert 0.0 <= error <= 1.0


def test_zeros_that_leave_one_assignment():
    proba = np.array([[1.0, 0.0, 0.0], [0.5, 0.5, 0.0], [0.2, 0.3, 0.5]])
    log_likelihood, posterior, error = propagated(proba, np.ones((1, 3), np.uint8))
    assert_allclose(log_likelihood, np.log(1.0 * 0.5 * 0.5), rtol=1e-10)
    assert_allclose(posterior, np.eye(3), atol=1e-9)
    assert error < 1e-9


def test_what_nothing_explains():
    ones = np.ones((1, 3), np.uint8)
    assert np.isneginf(propagated(np.full((2, 3), 1 / 3), ones)[0])  # more labels than instances
    assert np.isneginf(propagated(np.array([[0.5, 0.5, 0.0]] * 4), ones)[0])  # a label that nobody can carry
    spurious = LabelNoise.of(0.0, 0.1, 3)
    assert np.isfinite(propagated(np.full((2, 3), 1 / 3), ones, rates=spurious)[0])
    assert np.isfinite(propagated(np.array([[0.5, 0.5, 0.0]] * 4), ones, rates=spurious)[0])


def test_warns_of_an_error_that_matters_and_of_no_other():
    tight, Y = made_bag(0, 8, 8, 0.1)
    with pytest.warns(ApproximationWarning, match=r"max_exact_labels=5 labels.*estimated 0\.01.*bag 0 with 8 labels"):
        union_posterior(tight, [0, 8], Y, max_exact_labels=5)
    loose, Y = made_bag(0, 200, 20, 0.3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        _, posterior = union_posterior(loose, [0, 200], Y)
    assert_allclose(posterior.sum(axis=1), 1.0, rtol=1e-12)


def test_a_bag_above_the_limit_needs_no_memory_of_one_below(monkeypatch):
    monkeypatch.setenv("BAGWISE_MEMORY_LIMIT", "1e6")
    proba, Y = made_bag(0, 60, 20)
    assert np.isfinite(union_posterior(proba, [0, 60], Y)[0]).all()


def test_threads_give_the_same_bits():
    rng = np.random.default_rng(0)
    proba, offsets, Y = random_bags(rng, 100, 10, 12, 9, 0.3)
    problem = UnionProblem.build(offsets, Y)
    results = []
    for n_threads in (1, 2, 3):
        scores, errors = np.log(proba), np.zeros(len(Y))
        likelihood = problem.infer_in_place(
            scores, softmax=True, residual=True, max_exact_labels=4, n_threads=n_threads, errors=errors
        )
        results.append((likelihood, scores, errors))
    assert (results[0][2][Y.sum(axis=1) <= 4] == 0).all()
    for result in results[1:]:
        for one, other in zip(results[0], result, strict=True):
            assert_array_equal(one, other)


def test_bags_up_to_the_limit_do_not_change_beside_one_above():
    rng = np.random.default_rng(1)
    sizes = np.array([9, 12, 5])
    offsets, proba = offsets_of(sizes), rng.dirichlet(np.full(8, 0.4), sizes.sum())
    Y = np.array([[1] * 4 + [0] * 4, [1] * 8, [1, 1] + [0] * 6], np.uint8)
    expected = union_posterior(proba, offsets, Y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = union_posterior(proba, offsets, Y, max_exact_labels=5)
    small = np.repeat([True, False, True], sizes)
    assert_array_equal(found[0][[0, 2]], expected[0][[0, 2]])
    assert_array_equal(found[1][small], expected[1][small])
