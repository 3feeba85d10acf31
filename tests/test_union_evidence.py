"""Union inference with more evidence than plain lists, against enumeration of all assignments and noticed subsets."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from bagwise import Absent, Certain, OneOf, Possible
from bagwise.core.exceptions import ApproximationWarning, InputError
from bagwise.core.validation import Evidence, as_evidence
from bagwise.union import METHODS, LabelNoise, UnionProblem, union_posterior
from conftest import random_bags

EXACT = 1e-10


def enumerate_all(proba, values, groups, background=None, missed=0.0, spurious=0.0, known=None):
    """Likelihood, posterior and presence of labels of one bag, from every assignment and every noticed subset."""
    n, n_classes = proba.shape
    missed, spurious = np.broadcast_to(missed, n_classes), np.broadcast_to(spurious, n_classes)
    total, posterior, presence = 0.0, np.zeros((n, n_classes)), np.zeros(n_classes)
    for assignment in itertools.product(range(n_classes), repeat=n):
        if known is not None and any(k >= 0 and k != a for k, a in zip(known, assignment, strict=True)):
            continue
        there = set(assignment)
        weight = np.prod([proba[i, c] for i, c in enumerate(assignment)])
        weight *= all(there & set(group) for group in groups)
        for c in range(n_classes):
            if c == background or values[c] in (0.0, 1.0) or np.isnan(values[c]):
                continue
            said = {np.inf: (1.0, 0.0), -np.inf: (0.0, 1.0)}.get(values[c], (values[c], 1.0 - values[c]))
            weight *= said[0] if c in there else said[1]
        if weight == 0.0:
            continue
        chance = 0.0
        for noticed in itertools.product([False, True], repeat=n):
            part, shown = 1.0, set()
            for i, is_noticed in enumerate(noticed):
                c = assignment[i]
                rate = 1.0 if c == background else missed[c]
                part *= 1.0 - rate if is_noticed else rate
                shown |= {c} if is_noticed else set()
            for c in range(n_classes):
                if c == background or values[c] not in (0.0, 1.0):
                    continue
                listed = 1.0 if c in shown else spurious[c]
                part *= listed if values[c] == 1.0 else 1.0 - listed
            chance += part
        total += weight * chance
        for i, c in enumerate(assignment):
            posterior[i, c] += weight * chance
        presence[list(there)] += weight * chance
    with np.errstate(invalid="ignore"):
        return total, posterior / total, presence / total


def draw(seed, n_classes=5, background=None, with_groups=True):
    """A bag of which anything may be said."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 5))
    proba = rng.dirichlet(np.full(n_classes, [1.0, 0.3][seed % 2]), n)
    kinds = [0.0, 0.0, 1.0, np.nan, np.inf, -np.inf, rng.uniform(0.01, 0.49), rng.uniform(0.51, 0.99)]
    values = rng.choice(kinds, n_classes)
    if background is not None:
        values[background] = 0.0
    columns = [c for c in range(n_classes) if c != background and values[c] != -np.inf]
    groups = [
        rng.choice(columns, int(rng.integers(2, len(columns) + 1)), replace=False).tolist()
        for _ in range(int(rng.integers(0, 4)) if with_groups and len(columns) > 1 else 0)
    ]
    made = as_evidence(values[None], [groups])
    if not isinstance(made, Evidence):
        return proba, values, [], made
    return proba, made.values[0], [] if made.groups is None else list(made.groups[0]), made


def check(seed, method, background, with_rates, with_known, **options):
    proba, values, groups, evidence = draw(seed, background=background, **options)
    rng, n_classes = np.random.default_rng(seed + 1), proba.shape[1]
    missed, spurious = (rng.uniform(0, 0.9, n_classes) * (rng.random(n_classes) < 0.8) for _ in range(2))
    if not with_rates:
        missed = spurious = np.zeros(n_classes)
    known = np.where(rng.random(len(proba)) < 0.3, rng.integers(0, n_classes, len(proba)), -1) if with_known else None
    likelihood, expected, _ = enumerate_all(proba, values, groups, background, missed, spurious, known)
    found, posterior = union_posterior(
        proba, [0, len(proba)], evidence, background=background, known=known, method=method, missed=missed,
        spurious=spurious,
    )  # fmt: skip
    assert_allclose(np.exp(found[0]), likelihood, rtol=1e-9, atol=1e-14)
    if likelihood > 0:
        assert_allclose(found[0], np.log(likelihood), rtol=0, atol=EXACT)
    assert_allclose(posterior, expected, rtol=0, atol=EXACT)


@pytest.mark.parametrize("with_known", [False, True], ids=["unknown", "known"])
@pytest.mark.parametrize("with_rates", [False, True], ids=["right", "wrong"])
@pytest.mark.parametrize("background", [None, 2], ids=["plain", "background"])
@pytest.mark.parametrize("method", METHODS)
def test_all_evidence_equals_enumeration(method, background, with_rates, with_known):
    for seed in range(12):
        check(seed, method, background, with_rates, with_known)


@given(st.integers(0, 2**32 - 1), st.sampled_from(list(METHODS)), st.booleans(), st.booleans(), st.booleans())
@settings(max_examples=100, deadline=None)
def test_all_evidence_equals_enumeration_on_any_bag(seed, method, with_background, with_rates, with_known):
    check(seed, method, 0 if with_background else None, with_rates, with_known, n_classes=4)


GROUPS = {
    "disjoint": [[0, 1], [2, 3]],
    "overlapping": [[0, 1], [1, 2]],
    "three in a ring": [[0, 1], [1, 2], [2, 0]],
    "within another": [[0, 1], [0, 1, 2]],
    "with a listed label": [[0, 4], [2, 3]],
    "with a confident label": [[0, 5], [5, 1]],
    "with an absent label": [[0, 6], [1, 6, 2]],
}


@pytest.mark.parametrize("rates", [(0.0, 0.0), (0.3, 0.2), (0.0, 0.2), (0.4, 0.0)], ids=str)
@pytest.mark.parametrize("groups", GROUPS.values(), ids=GROUPS)
def test_groups_equal_enumeration(groups, rates):
    rng = np.random.default_rng(3)
    proba = rng.dirichlet(np.ones(7), 4)
    evidence = as_evidence([[0.0, 0.0, np.nan, 0.0, 1.0, 0.7, -np.inf]], [groups])
    kept = [] if evidence.groups is None else evidence.groups[0]
    likelihood, expected, _ = enumerate_all(proba, evidence.values[0], kept, None, *rates)
    asked, _, _ = enumerate_all(proba, evidence.values[0], groups, None, *rates)
    assert_allclose(likelihood, asked)  # what was left out says nothing
    for method in METHODS:
        found, posterior = union_posterior(proba, [0, 4], evidence, missed=rates[0], spurious=rates[1], method=method)
        assert_allclose(found, np.log(likelihood), rtol=0, atol=EXACT)
        assert_allclose(posterior, expected, rtol=0, atol=EXACT)


@pytest.mark.parametrize("scale", [1.0, 200.0, 900.0], ids=["near", "far", "beyond softmax"])
def test_scores_and_residuals_are_those_of_probabilities(scale):
    for seed in range(40):
        _, values, groups, evidence = draw(seed)
        n = int(np.random.default_rng(seed).integers(1, 5))
        scores = scale * np.random.default_rng(seed).normal(size=(n, 5))
        proba = np.exp(scores - scores.max(axis=1, keepdims=True))
        proba /= proba.sum(axis=1, keepdims=True)
        for rates in (None, LabelNoise.of([0.3, 0.0, 0.2, 0.0, 0.5], 0.1, 5)):
            problem = UnionProblem.build(np.array([0, n]), evidence)
            found, residual = scores.copy(), scores.copy()
            likelihood = problem.infer_in_place(found, softmax=True, residual=False, rates=rates)
            again = problem.infer_in_place(residual, softmax=True, residual=True, rates=rates)
            assert_array_equal(likelihood, again)
            if scale == 1.0:
                pair = (0.0, 0.0) if rates is None else (rates.missed, rates.spurious)
                expected, posterior, _ = enumerate_all(proba, values, groups, None, *pair)
                assert_allclose(np.exp(likelihood), expected, rtol=1e-9)
                assert_allclose(found, posterior, rtol=0, atol=EXACT)
            if np.isfinite(likelihood):
                assert_allclose(found.sum(axis=1), 1.0, rtol=1e-9)
                assert_allclose(residual, found - proba, rtol=0, atol=1e-9)


@pytest.mark.parametrize("method", METHODS)
def test_gradients_in_scores_and_rates_equal_differences(method):
    step = 1e-5
    for seed in range(14):
        _, _, _, evidence = draw(seed, background=4)
        rng = np.random.default_rng(seed)
        n = int(rng.integers(2, 5))
        known = np.where(rng.random(n) < 0.3, rng.integers(0, 5, n), -1) if seed % 2 else None
        problem = UnionProblem.build(np.array([0, n]), evidence, 4, known)
        scores, logits = rng.normal(size=(n, 5)), rng.normal(-1.0, 1.0, 2)

        def value(scores, logits, residual=None, statistics=None, problem=problem):
            missed, spurious = 1.0 / (1.0 + np.exp(-logits))
            out = scores.copy() if residual is None else residual
            rates = LabelNoise(np.full(5, missed), np.full(5, spurious))
            return problem.infer_in_place(
                out, softmax=True, residual=True, method=method, rates=rates, statistics=statistics
            )[0]

        residual, statistics = scores.copy(), np.empty((1, 3))
        if not np.isfinite(value(scores, logits, residual, statistics)):
            continue
        noticed, unnoticed, pull = statistics[0]
        missed, spurious = 1.0 / (1.0 + np.exp(-logits))
        gradient = [(1 - missed) * unnoticed - missed * noticed, spurious * pull]
        for j in range(2):
            shift = step * np.eye(2)[j]
            slope = (value(scores, logits + shift) - value(scores, logits - shift)) / (2 * step)
            assert_allclose(gradient[j], slope, rtol=1e-6, atol=1e-6)
        for i, c in itertools.product(range(n), range(5)):
            shift = np.zeros_like(scores)
            shift[i, c] = step
            slope = (value(scores + shift, logits) - value(scores - shift, logits)) / (2 * step)
            assert_allclose(residual[i, c], slope, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("method", METHODS)
def test_plain_lists_as_evidence_are_plain_lists(method):
    proba, offsets, Y = random_bags(np.random.default_rng(0), 20, 6, 6, 4, 0.5)
    expected = union_posterior(proba, offsets, Y, method=method)
    found = union_posterior(proba, offsets, Y.astype(float), method=method)
    inside = union_posterior(proba, offsets, Evidence(Y.astype(float)), method=method)
    for one, other, third in zip(expected, found, inside, strict=True):
        assert_array_equal(one, other)
        assert_allclose(third, one, rtol=1e-12, atol=1e-12)


def test_sets_of_columns_say_the_same():
    proba = np.random.default_rng(0).dirichlet(np.ones(6), 4)
    sets = [{0, Possible(1), Absent(2)}, {Certain(3), OneOf(4, 5)}]
    values = np.array([[1, np.nan, -np.inf, 0, 0, 0], [0, 0, 0, np.inf, np.nan, np.nan]])
    groups = np.empty(2, dtype=object)
    groups[:] = [(), ((4, 5),)]
    expected = union_posterior(proba, [0, 2, 4], Evidence(values, groups), missed=0.2, spurious=0.1)
    found = union_posterior(proba, [0, 2, 4], sets, missed=0.2, spurious=0.1)
    for one, other in zip(expected, found, strict=True):
        assert_array_equal(one, other)


@pytest.mark.parametrize("with_rates", [False, True], ids=["right", "wrong"])
def test_propagation_carries_evidence_and_groups(with_rates):
    """Against exact inference, where every instance has few labels: near, and its beliefs are the gradient."""
    rates = {"missed": 0.05, "spurious": 0.05} if with_rates else {}
    worst = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        proba = rng.dirichlet(np.full(8, 0.2), 10)
        values = np.array([[1.0, 1.0, 0.8, 0.3, np.nan, np.inf, 0.0, 0.0]])
        evidence = as_evidence(values, [[[6, 7]]])
        exact = union_posterior(proba, [0, 10], evidence, **rates)
        problem = UnionProblem.build(np.array([0, 10]), evidence)
        found = proba.copy()
        noise = LabelNoise.of(*rates.values(), 8) if rates else None
        problem.infer_in_place(found, softmax=False, residual=False, max_exact_labels=1, rates=noise)
        assert_allclose(found.sum(axis=1), 1.0)
        worst.append(np.abs(found - exact[1]).max())
    assert np.median(worst) < 0.02
    scores, step = np.random.default_rng(0).normal(size=(6, 8)), 1e-5
    problem = UnionProblem.build(np.array([0, 6]), evidence)
    residual = scores.copy()
    problem.infer_in_place(residual, softmax=True, residual=True, max_exact_labels=1, rates=noise)
    for i, c in itertools.product(range(6), range(8)):
        ends = []
        for sign in (1, -1):
            moved = scores.copy()
            moved[i, c] += sign * step
            ends.append(problem.infer_in_place(moved, softmax=True, residual=True, max_exact_labels=1, rates=noise)[0])
        assert_allclose(residual[i, c], (ends[0] - ends[1]) / (2 * step), rtol=1e-5, atol=1e-5)


def test_only_finite_evidence_counts_towards_the_limit():
    proba = np.random.default_rng(0).dirichlet(np.ones(40), 5)
    values = np.full((1, 40), np.nan)
    values[0, :3] = 1.0
    values[0, 30:] = -np.inf
    problem = UnionProblem.build(np.array([0, 5]), Evidence(values))
    assert problem.n_labels.tolist() == [3]
    assert problem.n_possible.tolist() == [30]
    likelihood, posterior = union_posterior(proba, [0, 5], values)
    merged = np.column_stack([proba[:, :3], proba[:, 3:30].sum(axis=1)])
    expected, plain = union_posterior(merged, [0, 5], [[1, 1, 1, 0]], background=3)
    assert_allclose(likelihood, expected)
    assert_allclose(posterior[:, :3], plain[:, :3])


def test_overlapping_groups_above_the_limit_are_refused_with_a_cure():
    proba = np.full((6, 6), 1 / 6)
    sets = [{OneOf(0, 1), OneOf(1, 2), OneOf(2, 3), OneOf(3, 4)}]
    with pytest.raises(InputError, match=r"Bag 0 has up to 4 labels and groups.*overlap.*raise max_exact_labels"):
        union_posterior(proba, [0, 6], sets, max_exact_labels=3)
    apart = [{0, 1, OneOf(2, 3), OneOf(4, 5)}]
    with pytest.warns(ApproximationWarning):
        union_posterior(np.random.default_rng(0).dirichlet(np.full(6, 0.1), 4), [0, 4], apart, max_exact_labels=2)


def test_a_group_takes_one_instance_where_its_labels_take_two():
    proba = np.array([[0.2, 0.3, 0.5]])
    assert np.isinf(union_posterior(proba, [0, 1], [[1, 1, 0]])[0][0])
    likelihood, posterior = union_posterior(proba, [0, 1], [{OneOf(0, 1)}])
    assert_allclose(likelihood, np.log(0.5))
    assert_allclose(posterior, [[0.4, 0.6, 0.0]])
    assert np.isinf(union_posterior(proba, [0, 1], [{OneOf(0, 1), OneOf(2, 0), Absent(0)}])[0][0])


@pytest.mark.parametrize(
    ("Y", "message"),
    [
        ([[1.0, 1.2, 0.0]], "holds 1.2 at bag 0, class 1; expected only 0 and 1.*confidence"),
        ([[1.0, -0.1, 0.0]], "holds -0.1 at bag 0, class 1"),
        ([{0, Absent(0)}], "bag 0 say two things of 0"),
        ([{Certain(0), Possible(0)}], "say two things of 0"),
        ([{OneOf(0, 1), Absent(0), Absent(1)}], "all of whose labels are absent"),
        ([{OneOf(0, 7)}], "unknown label 7"),
        ([{Absent(9)}], "unknown label 9"),
    ],
)
def test_what_cannot_be_said_is_named(Y, message):
    with pytest.raises(InputError, match=message):
        union_posterior(np.full((1, 3), 1 / 3), [0, 1], Y)


@pytest.mark.parametrize("labels", [(), ("a",), ("a", "a")])
def test_a_group_has_two_members(labels):
    with pytest.raises(InputError, match="pass two or more"):
        OneOf(*labels)
