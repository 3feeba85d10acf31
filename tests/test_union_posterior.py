"""Union inference against enumeration, against itself by other methods, and at its numerical edges."""

import itertools
from dataclasses import fields

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import logsumexp

import oracles
from bagwise.core.bags import offsets_of
from bagwise.core.exceptions import InputError, MemoryLimitError
from bagwise.union import METHODS, UnionProblem, union_posterior
from bagwise.union._exact import inclusion_exclusion
from bagwise.union.constants import ERROR_BOUND
from conftest import random_bags

EXACT = 1e-12
TOLERANCE = dict.fromkeys(METHODS, EXACT) | {"forward-substitution": 1e-6}  # it cancels


def known_for(rng, offsets, Y, background):
    """Some known instances, each of a label that its bag may hold."""
    known = np.full(offsets[-1], -1)
    for b in range(len(Y)):
        allowed = list(np.flatnonzero(Y[b])) + ([] if background is None else [background])
        for i in range(offsets[b], offsets[b + 1]):
            if rng.random() < 0.3:
                known[i] = rng.choice(allowed)
    return known


def check_against_enumeration(seed, method, with_background, with_known, concentration):
    rng = np.random.default_rng(seed)
    proba, offsets, Y = random_bags(rng, 4, 6, 6, 5, concentration)
    background = 5 if with_background else None
    known = known_for(rng, offsets, Y, background) if with_known else None
    expected_likelihood, expected = oracles.union_posterior(proba, offsets, Y, background, known)
    log_likelihood, posterior = union_posterior(proba, offsets, Y, background=background, known=known, method=method)
    tolerance = TOLERANCE[method]
    assert_array_equal(np.isinf(log_likelihood), np.isinf(expected_likelihood))
    finite = np.isfinite(expected_likelihood)
    assert_allclose(np.exp(log_likelihood[finite]), np.exp(expected_likelihood[finite]), rtol=0, atol=tolerance)
    assert_allclose(log_likelihood[finite], expected_likelihood[finite], rtol=1e-6, atol=tolerance * 1e3)
    assert_allclose(posterior, expected, rtol=0, atol=tolerance)


@pytest.mark.parametrize("with_known", [False, True], ids=["unknown", "known"])
@pytest.mark.parametrize("with_background", [False, True], ids=["plain", "background"])
@pytest.mark.parametrize("method", METHODS)
def test_methods_equal_enumeration(method, with_background, with_known):
    for seed in range(6):
        check_against_enumeration(seed, method, with_background, with_known, [1.0, 0.3, 5.0][seed % 3])


@given(st.integers(0, 2**32 - 1), st.sampled_from(list(METHODS)), st.booleans(), st.booleans())
@settings(max_examples=60, deadline=None)
def test_methods_equal_enumeration_on_any_bag(seed, method, with_background, with_known):
    check_against_enumeration(seed, method, with_background, with_known, 1.0)


@pytest.mark.parametrize("seed", range(12))
def test_auto_equals_forward_backward_on_large_bags(seed):
    rng = np.random.default_rng(seed)
    n_classes, n_labels = 16, int(rng.integers(8, 15))
    sizes = rng.integers(n_labels, 61, 3)
    offsets = offsets_of(sizes)
    proba = 10.0 ** rng.uniform(-12, 0, (offsets[-1], n_classes))
    Y = np.zeros((3, n_classes), dtype=np.uint8)
    for b in range(3):
        Y[b, rng.choice(n_classes, n_labels, replace=False)] = 1
    background = 0 if seed % 2 else None
    one = union_posterior(proba, offsets, Y, background=background, method="auto")
    other = union_posterior(proba, offsets, Y, background=background, method="forward-backward")
    assert_allclose(one[0], other[0], rtol=1e-9, atol=1e-9)
    assert_allclose(one[1], other[1], rtol=0, atol=1e-9)


def test_certificate_sends_cancelling_bags_to_forward_backward():
    # ten labels, ten instances, all but one label nearly excluded: P is tiny beside the alternating terms
    proba = np.full((10, 10), 1e-6)
    proba[:, 0] = 1.0
    ones = np.ones((1, 10), np.uint8)
    automatic = union_posterior(proba, [0, 10], ones)
    safe = union_posterior(proba, [0, 10], ones, method="forward-backward")
    assert_allclose(automatic[1], 0.1, atol=1e-12)  # by symmetry
    assert_allclose(automatic[0], safe[0], rtol=1e-14)


@pytest.mark.parametrize("seed", range(4))
def test_what_is_certified_is_right_and_what_is_not_is_refused(seed):
    # from labels that are all likely to one that is nearly sure: digits are lost one after another
    rng, outcomes = np.random.default_rng(seed), []
    for rare in np.geomspace(1.0, 1e-8, 33):
        proba = rare * rng.uniform(0.5, 1.0, (8, 7))
        proba[:, 0] = 1.0
        proba /= proba.sum(axis=1, keepdims=True)
        _, truth = union_posterior(proba, [0, 8], np.ones((1, 7), np.uint8), method="forward-backward")
        found, work = proba.copy(), [np.empty(1 << 7) for _ in range(3)]
        _, certified = inclusion_exclusion(found, np.zeros(8), 8, 7, np.zeros(7), *work, ERROR_BOUND, np.empty(0))
        outcomes.append(certified)
        if certified:
            assert np.abs(found - truth).max() < ERROR_BOUND
    assert outcomes[0]
    assert not outcomes[-1]


def test_nothing_underflows_at_a_thousand_instances():
    rng = np.random.default_rng(0)
    proba = rng.dirichlet(np.ones(30), 1000) * 1e-3
    Y = np.zeros((1, 30), np.uint8)
    Y[0, :6] = 1
    for method in ("auto", "forward-backward"):
        log_likelihood, posterior = union_posterior(proba, [0, 1000], Y, method=method)
        assert np.isfinite(log_likelihood).all()
        assert log_likelihood[0] < -5000
        assert_allclose(posterior.sum(axis=1), 1.0, rtol=1e-12)
        # with so many instances the union constraint is as good as met: the posterior is the restricted prior
        assert_allclose(posterior[:, :6], proba[:, :6] / proba[:, :6].sum(axis=1, keepdims=True), atol=1e-10)


@pytest.mark.parametrize("method", METHODS)
def test_logarithms_take_over_where_rescaling_underflows(method):
    rng = np.random.default_rng(1)
    n = 6
    log_p = rng.uniform(-320, -280, (n, n)) * np.log(10) / 2.4  # about 1e-125: six of them multiply to 1e-750
    log_p[:, 0] = 0.0
    log_likelihood, posterior = union_posterior(np.exp(log_p), [0, n], np.ones((1, n), np.uint8), method=method)
    assignments = np.array(list(itertools.permutations(range(n))))
    weights = log_p[np.arange(n), assignments].sum(axis=1)
    assert_allclose(log_likelihood[0], logsumexp(weights), rtol=1e-10)
    for i in range(n):
        for c in range(n):
            chosen = weights[assignments[:, i] == c]
            assert_allclose(posterior[i, c], np.exp(logsumexp(chosen) - logsumexp(weights)), atol=1e-8)


def test_zero_probabilities_that_leave_one_assignment():
    proba = np.array([[1.0, 0.0, 0.0], [0.5, 0.5, 0.0], [0.2, 0.3, 0.5]])
    for method in METHODS:
        log_likelihood, posterior = union_posterior(proba, [0, 3], [[1, 1, 1]], method=method)
        assert_allclose(log_likelihood, np.log(1.0 * 0.5 * 0.5), rtol=1e-12)
        assert_allclose(posterior, np.eye(3), atol=1e-12)


@pytest.mark.parametrize("method", METHODS)
def test_infeasible_bags(method):
    proba = np.full((4, 3), 1 / 3)
    Y = [[1, 1, 0], [0, 0, 0], [0, 0, 1]]  # two labels on one instance; no label; fine
    log_likelihood, posterior = union_posterior(proba, [0, 1, 2, 4], Y, method=method)
    assert_array_equal(np.isneginf(log_likelihood), [True, True, False])
    assert np.isnan(posterior[:2]).all()
    assert_allclose(posterior[2:], [[0, 0, 1], [0, 0, 1]])


def test_background_explains_a_bag_without_labels():
    proba = np.array([[0.2, 0.8], [0.6, 0.4]])
    log_likelihood, posterior = union_posterior(proba, [0, 2], [[0, 0]], background=1)
    assert_allclose(log_likelihood, np.log(0.8 * 0.4))
    assert_allclose(posterior, [[0, 1], [0, 1]])


def test_known_label_outside_of_the_bag_is_infeasible():
    log_likelihood, posterior = union_posterior(np.full((2, 3), 1 / 3), [0, 2], [[1, 1, 0]], known=[2, -1])
    assert np.isneginf(log_likelihood[0])
    assert np.isnan(posterior).all()


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=40, deadline=None)
def test_order_of_instances_and_labels_does_not_matter(seed):
    rng = np.random.default_rng(seed)
    proba, offsets, Y = random_bags(rng, 1, 7, 9, 6)
    rows, columns = rng.permutation(len(proba)), rng.permutation(7)
    likelihood, posterior = union_posterior(proba, offsets, Y)
    shuffled_likelihood, shuffled = union_posterior(proba[rows][:, columns], offsets, Y[:, columns])
    assert_allclose(shuffled_likelihood, likelihood, rtol=1e-9, atol=1e-9)
    assert_allclose(shuffled, posterior[rows][:, columns], atol=1e-9)
    assert_allclose(posterior.sum(axis=1), 1.0, rtol=1e-12)
    assert (posterior[:, Y[0] == 0] == 0).all()


def test_threads_give_the_same_bits():
    rng = np.random.default_rng(0)
    proba, offsets, Y = random_bags(rng, 200, 10, 8, 6)
    problem = UnionProblem.build(offsets, Y)
    results = []
    for n_threads in (1, 2, 3):
        scores = np.log(proba)
        likelihood = problem.infer_in_place(scores, softmax=True, residual=True, n_threads=n_threads)
        results.append((likelihood, scores))
    for likelihood, scores in results[1:]:
        assert_array_equal(likelihood, results[0][0])
        assert_array_equal(scores, results[0][1])


def test_softmax_of_large_scores_keeps_ratios_that_probabilities_lose():
    scores = np.array([[2000.0, 0.0, -3.0], [2000.0, -1.0, 0.0]])  # probabilities of labels 1 and 2 underflow to 0
    problem = UnionProblem.build(np.array([0, 2]), np.array([[0, 1, 1]], np.uint8))
    posterior = scores.copy()
    likelihood = problem.infer_in_place(posterior, softmax=True, residual=False)
    straight, crossed = np.exp(0.0 + 0.0), np.exp(-3.0 - 1.0)
    assert_allclose(posterior[:, 1], [straight / (straight + crossed), crossed / (straight + crossed)])
    assert_allclose(likelihood, -4000.0 + np.log(straight + crossed))


def test_memory_is_checked_before_it_is_allocated(monkeypatch):
    monkeypatch.setenv("BAGWISE_MEMORY_LIMIT", "1e6")
    proba = np.full((40, 14), 1 / 14)
    with pytest.raises(MemoryLimitError, match=r"bag 0 \(40 instances, 14 labels\).*lower max_exact_labels"):
        union_posterior(proba, [0, 40], np.ones((1, 14), np.uint8))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"method": "magic"}, "method='magic' is not known; use one of 'auto'"),
        ({"proba": [[-0.1, 1.1]]}, "negative, infinite or NaN"),
        ({"proba": [[np.nan, 1.0]]}, "negative, infinite or NaN"),
        ({"offsets": [0, 2]}, "offsets must rise strictly from 0 to the number of rows of proba, 1"),
        ({"Y": [[1, 1, 0]]}, r"Y has shape \(1, 3\) but there are 1 bags and 2 classes"),
        ({"Y": [[2, 1]]}, "holds 2 at bag 0, class 0"),
        ({"background": 5}, "background=5 is not a column"),
        ({"known": [7]}, "known must hold a column index 0..1"),
    ],
)
def test_bad_arguments(changes, message):
    arguments = {"proba": [[0.5, 0.5]], "offsets": [0, 1], "Y": [[1, 0]]} | changes
    with pytest.raises(InputError, match=message):
        union_posterior(arguments.pop("proba"), arguments.pop("offsets"), arguments.pop("Y"), **arguments)


def test_scores_of_the_wrong_width_are_refused():
    problem = UnionProblem.build(np.array([0, 1]), np.array([[0, 0, 1]], np.uint8))
    with pytest.raises(InputError, match="at least 3 columns"):
        problem.infer_in_place(np.zeros((1, 2)), softmax=True, residual=False)


@pytest.mark.parametrize("known", [False, True])
def test_bags_of_one_label_have_the_product_of_its_probabilities_however_small(known):
    rng = np.random.default_rng(0)
    offsets, Y = np.array([0, 3, 4, 9]), np.array([[0, 1, 0], [1, 0, 0], [0, 0, 1]])
    scores = rng.normal(scale=500.0, size=(9, 3))
    told = np.where(np.arange(9) % 4 == 0, np.repeat(Y.argmax(axis=1), np.diff(offsets)), -1) if known else None
    of_instance = np.repeat(Y.argmax(axis=1), np.diff(offsets))
    log_proba = scores - np.logaddexp.reduce(scores, axis=1, keepdims=True)
    expected = np.add.reduceat(log_proba[np.arange(9), of_instance], offsets[:-1])
    posterior = scores.copy()
    found = UnionProblem.build(offsets, Y, known=told).infer_in_place(posterior, softmax=True, residual=False)
    assert_allclose(found, expected, rtol=1e-12)
    assert expected.min() < -1000  # beyond what a probability can say
    assert_allclose(posterior, np.eye(3)[of_instance])


@pytest.mark.parametrize("seed", range(6))
def test_a_part_of_a_problem_is_the_problem_of_its_bags_alone(seed):
    rng = np.random.default_rng(seed)
    proba, offsets, Y = random_bags(rng, n_bags=7, n_classes=5, max_size=6, max_labels=3)
    known = np.where(rng.random(len(proba)) < 0.2, 0, -1) if seed % 2 else None
    relaxed = rng.random(7) < 0.3 if seed > 2 else None
    whole = UnionProblem.build(offsets, Y, 4 if seed % 3 else None, known, relaxed)
    for first in range(7):
        for last in range(first + 1, 8):
            rows = slice(offsets[first], offsets[last])
            alone = UnionProblem.build(
                offsets[first : last + 1] - offsets[first], Y[first:last], 4 if seed % 3 else None,
                None if known is None else known[rows], None if relaxed is None else relaxed[first:last],
            )  # fmt: skip
            part = whole.part(first, last)
            for field in fields(UnionProblem):
                assert_array_equal(getattr(part, field.name), getattr(alone, field.name), err_msg=field.name)


@pytest.mark.parametrize("softmax", [False, True])
def test_residuals_are_posteriors_less_probabilities(softmax):
    proba, offsets, Y = random_bags(np.random.default_rng(0), 5, 6, 6, 4, 1.0)
    found = np.log(proba) + 3.0 if softmax else proba.copy()
    likelihood = UnionProblem.build(offsets, Y).infer_in_place(found, softmax=softmax, residual=True)
    expected, posterior = union_posterior(proba, offsets, Y)
    assert_allclose(likelihood, expected, rtol=1e-12)
    assert_allclose(found, posterior - proba, atol=1e-12)


@pytest.mark.parametrize("method", ["auto", "forward-backward"])
def test_logarithms_keep_the_mass_outside_of_the_labels(method):
    """Three instances, one of which carries a label of probability 1e-300: P = 3 (1/4)^2 1e-300."""
    proba = np.tile([0.25, 1e-300, 0.75], (3, 1))
    likelihood, posterior = union_posterior(proba, [0, 3], [[1, 1, 0]], method=method)
    assert_allclose(likelihood, np.log(3) + 2 * np.log(0.25) - 300 * np.log(10), rtol=1e-12)
    assert_allclose(posterior, np.tile([2 / 3, 1 / 3, 0.0], (3, 1)), rtol=1e-9)
