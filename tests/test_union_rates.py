"""Union inference with labels that may be wrong, against enumeration of all assignments and noticed subsets."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import logsumexp

import oracles
from bagwise.core.exceptions import ApproximationWarning, InputError
from bagwise.union import METHODS, LabelNoise, UnionProblem, union_posterior
from bagwise.union._exact import SUBSTITUTION, _forward, inclusion_exclusion
from conftest import random_bags

EXACT = 1e-12


def draw(seed, n_classes=5, largest=4, n_labels=4, background=None, with_known=False, concentration=1.0):
    """Bags, class-wise rates, and known instances of any class."""
    rng = np.random.default_rng(seed)
    proba, offsets, Y = random_bags(rng, 3, n_classes, largest, n_labels, concentration)
    if seed % 3 == 0:
        Y[0] = 0  # nothing was listed
    known = None
    if with_known:
        known = np.where(rng.random(offsets[-1]) < 0.3, rng.integers(0, n_classes, offsets[-1]), -1)
    missed, spurious = rng.uniform(0, 0.9, n_classes), rng.uniform(0, 0.9, n_classes)
    missed[rng.random(n_classes) < 0.2] = 0.0
    spurious[rng.random(n_classes) < 0.2] = 0.0
    return proba, offsets, Y, missed, spurious, known


def check_against_enumeration(method, seed, background, with_known, **options):
    proba, offsets, Y, missed, spurious, known = draw(seed, background=background, with_known=with_known, **options)
    likelihood, expected, _ = oracles.union_with_rates(proba, offsets, Y, missed, spurious, background, known)
    log_likelihood, posterior = union_posterior(
        proba, offsets, Y, background=background, known=known, method=method, missed=missed, spurious=spurious
    )
    assert_allclose(np.exp(log_likelihood), likelihood, rtol=0, atol=EXACT)
    finite = likelihood > 0
    assert_allclose(log_likelihood[finite], np.log(likelihood[finite]), rtol=1e-9, atol=1e-10)
    assert_allclose(posterior, expected, rtol=0, atol=EXACT)


@pytest.mark.parametrize("with_known", [False, True], ids=["unknown", "known"])
@pytest.mark.parametrize("background", [None, 2], ids=["plain", "background"])
@pytest.mark.parametrize("method", METHODS)
def test_methods_equal_enumeration(method, background, with_known):
    for seed in range(6):
        check_against_enumeration(method, seed, background, with_known, concentration=[1.0, 0.3, 5.0][seed % 3])


@pytest.mark.parametrize("method", METHODS)
def test_methods_equal_enumeration_at_the_largest_size(method):
    check_against_enumeration(method, 1, 5, False, n_classes=6, largest=5, n_labels=4)


@given(st.integers(0, 2**32 - 1), st.sampled_from(list(METHODS)), st.booleans(), st.booleans())
@settings(max_examples=40, deadline=None)
def test_methods_equal_enumeration_on_any_bag(seed, method, with_background, with_known):
    check_against_enumeration(method, seed, 0 if with_background else None, with_known, n_classes=4, largest=3)


@pytest.mark.parametrize("background", [None, 0], ids=["plain", "background"])
def test_all_label_sets_together_have_probability_one(background):
    rng = np.random.default_rng(4)
    n_classes = 6
    proba = rng.dirichlet(np.ones(n_classes), 5)
    missed, spurious = rng.uniform(0, 0.8, (2, n_classes))
    columns = [c for c in range(n_classes) if c != background]
    total = 0.0
    for bits in itertools.product([0, 1], repeat=len(columns)):
        Y = np.zeros((1, n_classes), dtype=np.uint8)
        Y[0, columns] = bits
        arguments = {"background": background, "missed": missed, "spurious": spurious}
        total += float(np.exp(union_posterior(proba, [0, 5], Y, **arguments)[0][0]))
    assert abs(total - 1.0) < EXACT


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("with_known", [False, True], ids=["unknown", "known"])
def test_rates_of_zero_change_no_bit(method, with_known):
    proba, offsets, Y, _, _, known = draw(2, with_known=with_known, background=1)
    plain = union_posterior(proba, offsets, Y, background=1, known=known, method=method)
    zero = union_posterior(
        proba, offsets, Y, background=1, known=known, method=method, missed=0.0, spurious=np.zeros(5)
    )
    for one, other in zip(plain, zero, strict=True):
        assert_array_equal(one, other)


@pytest.mark.parametrize("method", METHODS)
def test_the_kernel_of_rates_at_zero_is_that_without(method):
    proba, offsets, Y, _, _, known = draw(7, with_known=True, background=1)
    problem = UnionProblem.build(offsets, Y, 1, known)
    plain, other = proba.copy(), proba.copy()
    expected = problem.infer_in_place(plain, softmax=False, residual=False, method=method)
    nothing = LabelNoise(np.zeros(5), np.zeros(5))
    found = problem.infer_in_place(other, softmax=False, residual=False, method=method, rates=nothing)
    assert_allclose(found, expected, rtol=EXACT)
    assert_allclose(other, plain, rtol=0, atol=EXACT)


@pytest.mark.parametrize("share", [0.9, 1e-3, 1e-9, 1e-15, 1e-40])
@pytest.mark.parametrize("n_instances", [1, 2, 300])
def test_one_label_is_written_out_as_long_as_no_digits_are_lost(n_instances, share):
    proba = share * np.random.default_rng(n_instances).dirichlet([1.0, 2.0], n_instances)
    proba[:, 1] = 1.0 - proba[:, 0]
    for rates in ({}, {"missed": [0.2, 0.0], "spurious": 0.0}, {"missed": [0.2, 0.0], "spurious": 1e-6}):
        answers = [
            union_posterior(proba, [0, n_instances], [[1, 0]], background=1, method=method, **rates)
            for method in ("auto", "forward-backward")
        ]
        assert_allclose(*(likelihood for likelihood, _ in answers), rtol=0, atol=1e-10)
        assert_allclose(*(posterior for _, posterior in answers), rtol=0, atol=1e-10)


@pytest.mark.parametrize("scale", [1e-9, 1e9])
def test_the_mass_of_many_instances_is_kept_where_its_product_is_no_number(scale):
    """One label, by the formula: sum_i log s_i + log(1 - (1 - nu) prod_i f_i / s_i), f of what is not listed."""
    proba = scale * np.random.default_rng(0).dirichlet([1.0, 2.0], 300)
    free = 0.3 * proba[:, 0] + 0.2 * proba[:, 1]
    total = free + 0.7 * proba[:, 0]
    likelihood, posterior = union_posterior(proba, [0, 300], [[1, 0]], missed=[0.3, 0.2], spurious=0.1)
    expected = np.log(total).sum() + np.log1p(-0.9 * np.prod(free / total)) + np.log1p(-0.1)
    assert_allclose(likelihood, expected, rtol=1e-12)
    assert_allclose(posterior.sum(axis=1), 1.0)


@pytest.mark.parametrize("without", [(0.0, 0.0, 0.0), (0.0, 0.3, 0.0)], ids=["right", "wrong"])
def test_the_certificate_is_the_derived_one(without):
    n, k, u = 5, 3, 2.0**-53
    rows = np.random.default_rng(0).dirichlet(np.ones(k + 1), n)
    terms = [
        np.prod([without[j] - 1.0 for j in range(k) if not L >> j & 1])
        * np.prod([row[k] + sum(row[j] for j in range(k) if L >> j & 1) for row in rows])
        for L in range(2**k)
    ]
    roundings = n * (k + 1) + 2 * k + 4 + (k if max(without) > 0.0 else 0)
    certified = 2.0 * roundings * u * np.sum(np.abs(terms)) / np.sum(terms)

    def done(bound):
        room = [np.empty(2**k) for _ in range(3)]
        A, free = rows[:, :k].copy(), rows[:, k].copy()
        return inclusion_exclusion(A, free, n, k, np.array(without), *room, bound, np.empty(k))[1]

    assert done(certified * (1 + 1e-9))
    assert not done(certified * (1 - 1e-9))


@pytest.mark.parametrize("method", ["auto", "forward-backward"])
def test_logarithms_keep_what_went_unnoticed(method):
    """One of three instances is noticed, of a label of probability 1e-300; the others' one label is missed, at .2."""
    proba = np.tile([1e-300, 1.0], (3, 1))
    likelihood, posterior = union_posterior(proba, [0, 3], [[1, 0]], missed=[0.4, 0.2], method=method)
    assert_allclose(likelihood, np.log(3) + np.log(0.6) + 2 * np.log(0.2) - 300 * np.log(10), rtol=1e-12)
    assert_allclose(posterior, np.tile([1 / 3, 2 / 3], (3, 1)), rtol=1e-9)


def test_substitution_needs_no_free_mass():
    A = np.random.default_rng(0).dirichlet(np.ones(3), 4)
    free, sums, pull = np.zeros(4), np.empty(8), np.empty(0)
    log_probability, done = _forward(A.copy(), free, 4, 3, np.zeros(3), sums, SUBSTITUTION, pull)
    assert done  # no fall-back
    assert_allclose(log_probability, union_posterior(A, [0, 4], [[1, 1, 1]])[0][0])


def test_no_bag_is_infeasible_where_labels_may_be_spurious():
    proba = np.random.default_rng(0).dirichlet(np.ones(5), 1)
    ones = np.ones((1, 5), dtype=np.uint8)
    assert np.isinf(union_posterior(proba, [0, 1], ones)[0][0])
    for method in METHODS:
        log_likelihood, posterior = union_posterior(proba, [0, 1], ones, spurious=0.1, method=method)
        likelihood, expected, _ = oracles.union_with_rates(proba, [0, 1], ones, np.zeros(5), np.full(5, 0.1))
        assert_allclose(np.exp(log_likelihood), likelihood, rtol=1e-11)
        assert_allclose(posterior, expected, rtol=0, atol=EXACT)


@pytest.mark.parametrize("max_exact", [16, 1], ids=["exact", "propagated"])
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("with_known", [False, True], ids=["unknown", "known"])
def test_gradients_in_scores_and_rates_equal_differences(method, with_known, max_exact):
    background, n_classes = 4, 5
    for seed in range(5):
        _, offsets, Y, _, _, known = draw(seed, background=background, with_known=with_known)
        rng = np.random.default_rng(seed)
        scores, logits = rng.normal(size=(offsets[-1], n_classes)), rng.normal(-1.0, 1.0, 2)
        problem = UnionProblem.build(offsets, Y, background, known)

        def value(scores, logits, problem=problem, statistics=None, residual=None):
            missed, spurious = 1.0 / (1.0 + np.exp(-logits))
            rates = LabelNoise(np.full(n_classes, missed), np.full(n_classes, spurious))
            out = scores.copy() if residual is None else residual
            return problem.infer_in_place(
                out, softmax=True, residual=True, method=method, max_exact_labels=max_exact, rates=rates,
                statistics=statistics,
            ).sum()  # fmt: skip

        residual, statistics = scores.copy(), np.empty((len(Y), 3))
        value(scores, logits, statistics=statistics, residual=residual)
        noticed, unnoticed, pull = statistics.sum(axis=0)
        missed, spurious = 1.0 / (1.0 + np.exp(-logits))
        gradient = [(1 - missed) * unnoticed - missed * noticed, spurious * pull]
        step = 1e-5
        for j in range(2):
            shift = step * np.eye(2)[j]
            slope = (value(scores, logits + shift) - value(scores, logits - shift)) / (2 * step)
            assert_allclose(gradient[j], slope, rtol=1e-6, atol=1e-6)
        for i, c in itertools.product(range(offsets[-1]), range(n_classes)):
            shift = np.zeros_like(scores)
            shift[i, c] = step
            slope = (value(scores + shift, logits) - value(scores - shift, logits)) / (2 * step)
            assert_allclose(residual[i, c], slope, rtol=1e-6, atol=1e-6)


def test_rows_sum_to_one_and_threads_change_nothing():
    rng = np.random.default_rng(3)
    proba, offsets, Y = random_bags(rng, 40, 8, 12, 6, 0.3)
    problem, rates = UnionProblem.build(offsets, Y), LabelNoise(np.full(8, 0.2), np.full(8, 0.05))
    results = []
    for n_threads in (1, 2, 3):
        scores, statistics = np.log(proba), np.empty((len(Y), 3))
        likelihood = problem.infer_in_place(
            scores, softmax=True, residual=False, n_threads=n_threads, rates=rates, statistics=statistics
        )
        results.append((likelihood, scores, statistics))
    assert_allclose(results[0][1].sum(axis=1), 1.0, rtol=1e-12)
    for result in results[1:]:
        for one, other in zip(results[0], result, strict=True):
            assert_array_equal(one, other)


@pytest.mark.parametrize(
    "missed", [[0.0] * 4, [0.3, 0.0, 0.0, 0.3], [0.0, 0.4, 0.0, 0.3]], ids=["spurious", "both", "both, far away"]
)
def test_scores_far_apart_go_through_logarithms(missed):
    scores = np.array([[0.0, -900.0, -950.0, -905.0], [0.0, -2000.0, -2001.0, -2003.0], [-800.0, 0.0, -1.0, -801.0]])
    scores += np.array([[50.0], [-30.0], [7.0]])  # a row may be moved as a whole
    Y = np.array([[0, 1, 1, 0]], dtype=np.uint8)
    rates = LabelNoise.of(np.array(missed), 0.1, 4)
    problem = UnionProblem.build(np.array([0, 3]), Y)
    found, difference = scores.copy(), scores.copy()
    likelihood = problem.infer_in_place(found, softmax=True, residual=False, rates=rates)
    problem.infer_in_place(difference, softmax=True, residual=True, rates=rates)
    proba = np.exp(scores - scores.max(axis=1, keepdims=True))
    proba /= proba.sum(axis=1, keepdims=True)
    assert np.isfinite(likelihood).all()
    assert_allclose(difference, found - proba, rtol=0, atol=1e-12)
    if missed[0] == 0.0:  # class 0 explains nothing: the others' ratios decide, lifted to where nothing underflows
        lifted = np.exp(scores[:, 1:] - scores[:, 1:].max(axis=1, keepdims=True))
        proba = np.insert(lifted / lifted.sum(axis=1, keepdims=True), 0, 0.0, axis=1)
    _, expected, _ = oracles.union_with_rates(proba, [0, 3], Y, rates.missed, rates.spurious)
    assert_allclose(found, expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize("softmax", [False, True], ids=["probabilities", "scores"])
@pytest.mark.parametrize("method", METHODS)
def test_logarithms_take_over_where_rescaling_underflows(method, softmax):
    n, missed = 6, np.array([0.0, 0.3, 0.0, 0.0, 0.0, 0.5])
    log_p = np.random.default_rng(1).uniform(-320, -280, (n, 6)) * np.log(10) / 2.4  # six multiply to 1e-750
    log_p[:, 0] = 0.0
    # five labels are listed; of the second and of one that is not, instances may have gone unnoticed
    noticed = log_p[:, :5] + np.log1p(-missed[:5])
    states = np.hstack([noticed, log_p[:, [1, 5]] + np.log(missed[[1, 5]])])
    choices = np.array([c for c in itertools.product(range(7), repeat=n) if {*range(5)} <= {*c}])
    weights = states[np.arange(n), choices].sum(axis=1)
    likelihood = logsumexp(weights)
    expected = np.zeros((n, 7))
    for i, state in itertools.product(range(n), range(7)):
        expected[i, state] = np.exp(logsumexp(weights, b=choices[:, i] == state) - likelihood)
    expected[:, 1] += expected[:, 5]
    rates, problem = (
        LabelNoise(missed, np.zeros(6)),
        UnionProblem.build(np.array([0, n]), np.array([[1, 1, 1, 1, 1, 0]])),
    )
    found = log_p + 50.0 * np.arange(n)[:, None] if softmax else np.exp(log_p)
    found_likelihood = problem.infer_in_place(found, softmax=softmax, residual=False, method=method, rates=rates)
    assert_allclose(found_likelihood, [likelihood], rtol=1e-10)
    assert_allclose(found, expected[:, [0, 1, 2, 3, 4, 6]], atol=1e-8)


def test_a_single_bag_of_many_labels_is_warned_of():
    proba = np.random.default_rng(0).dirichlet(np.full(6, 0.1), 6)
    with pytest.warns(ApproximationWarning):
        union_posterior(proba, [0, 6], np.ones((1, 6), np.uint8), max_exact_labels=2, missed=0.01, spurious=0.01)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"missed": -0.1}, "missed must be in"),
        ({"spurious": 1.0}, "spurious must be in"),
        ({"missed": [0.1, 0.2]}, "has shape"),
        ({"missed": [0.1, 2.0, 0.1]}, "missed of class 1"),
        ({"spurious": "learn"}, "no rate"),
        ({"missed": np.nan}, "missed must be in"),
    ],
)
def test_bad_rates_are_named(arguments, message):
    with pytest.raises(InputError, match=message):
        union_posterior(np.full((2, 3), 1 / 3), [0, 2], [[1, 0, 1]], **arguments)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"max_exact_labels": -1}, "max_exact_labels=-1 must be a whole number, 1 or more"),
        ({"max_exact_labels": 1.5}, "max_exact_labels=1.5 must be a whole number"),
        ({"max_exact_labels": None}, "max_exact_labels=None must be a whole number"),
        ({"offsets": [0, 1.5, 2]}, "offsets must hold whole numbers"),
        ({"known": [0.5, -1]}, "known must hold whole numbers"),
        ({"known": ["a", "b"]}, "known must hold whole numbers"),
    ],
)
def test_arguments_that_are_no_whole_numbers_are_named(arguments, message):
    with pytest.raises(InputError, match=message):
        union_posterior(**{"proba": [[0.5, 0.5]] * 2, "offsets": [0, 2], "Y": [[1, 1]], **arguments})


@pytest.mark.parametrize("rates", [None, LabelNoise(np.full(6, 0.01), np.full(6, 0.01))], ids=["right", "wrong"])
def test_only_bags_that_are_approximated_have_an_error(rates):
    proba = np.random.default_rng(0).dirichlet(np.full(6, 0.1), 8)
    problem = UnionProblem.build(np.array([0, 2, 8]), np.array([[1, 1, 0, 0, 0, 0], [1, 1, 1, 1, 1, 1]]))
    errors = np.full(2, np.nan)
    problem.infer_in_place(proba, softmax=False, residual=False, max_exact_labels=3, rates=rates, errors=errors)
    assert errors[0] == 0.0
    assert 0.0 < errors[1] < 1.0
