"""The small kernels, each against the same in a line or two of numpy; instances dense and sparse."""

from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose
from scipy.special import logsumexp, softmax

from bagwise.kernels.clusters import combine_rows, decide_bags, multiply_rows, score_few, sum_by_cluster
from bagwise.kernels.cuts import largest_violation, most_violated
from bagwise.kernels.segments import (
    Rows,
    score_chosen_rows,
    score_rows,
    segment_max,
    segment_softmax,
    segment_weighted_sum,
)
from bagwise.union._infer import softmax_in_place, softmax_row, sum_log_partition

SEEDS = range(6)
OFFSETS = np.array([0, 1, 4, 6, 11])


def bags_of(values, offsets=OFFSETS):
    return [values[a:b] for a, b in pairwise(offsets)]


def instances_of(rng, sparse, m=11, d=5):
    X = rng.normal(size=(m, d)) * (rng.random((m, d)) < 0.6)
    return X, Rows.of(sp.csr_matrix(X) if sparse else X)


# ---------------------------------------------------------------------------------------------------------------------
# Bags


@pytest.mark.parametrize("seed", SEEDS)
def test_the_largest_score_of_a_bag_and_the_first_row_that_has_it(seed):
    """Also of a part of the bags, whose scores begin with their first row."""
    rng = np.random.default_rng(seed)
    scores = rng.integers(-2, 3, (11, 3)).astype(float)  # many are equal
    for first in (0, 1, 2):
        offsets = OFFSETS[first:]
        maxima, rows = np.empty((len(offsets) - 1, 3)), np.empty((len(offsets) - 1, 3), dtype=np.int64)
        segment_max(scores[offsets[0] :], offsets, maxima, rows)
        bags = bags_of(scores, offsets)
        assert np.array_equal(maxima, [bag.max(axis=0) for bag in bags])
        assert np.array_equal(rows - offsets[:-1, None], [bag.argmax(axis=0) for bag in bags])


@pytest.mark.parametrize("seed", SEEDS)
def test_weighted_sums_of_bags(seed):
    rng = np.random.default_rng(seed)
    scores, weights = rng.normal(size=(2, 11, 3))
    for first in (0, 2):
        offsets = OFFSETS[first:]
        sums = np.full((len(offsets) - 1, 3), np.nan)
        segment_weighted_sum(scores[offsets[0] :], weights[offsets[0] :], offsets, sums)
        assert_allclose(sums, [bag.sum(axis=0) for bag in bags_of(scores * weights, offsets)], rtol=1e-12)


@pytest.mark.parametrize("scale", [1.0, 500.0])
@pytest.mark.parametrize("seed", SEEDS)
def test_softmax_of_bags(seed, scale):
    scores = scale * np.random.default_rng(seed).normal(size=(11, 3))
    weights, found = scores.copy(), np.full((4, 3), np.nan)
    segment_softmax(weights, OFFSETS, found)
    expected = [softmax(bag, axis=0) for bag in bags_of(scores)]
    assert_allclose(weights, np.concatenate(expected), atol=1e-12)
    assert_allclose(found, [(w * s).sum(axis=0) for w, s in zip(expected, bags_of(scores), strict=True)], rtol=1e-9)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("seed", SEEDS)
def test_scores_of_rows(seed, sparse):
    rng = np.random.default_rng(seed)
    X, rows = instances_of(rng, sparse)
    weights, out = rng.normal(size=(5, 3)), np.full((11, 3), np.nan)
    score_rows(*rows, 2, 9, weights, out)
    assert_allclose(out[:7], X[2:9] @ weights, atol=1e-12)
    assert np.isnan(out[7:]).all()
    chosen, scores = rng.integers(0, 11, (4, 3)), np.full((4, 3), np.nan)
    score_chosen_rows(*rows, chosen, np.ascontiguousarray(weights.T), scores)
    assert_allclose(scores, np.einsum("ijd,dj->ij", X[chosen], weights), atol=1e-12)


# ---------------------------------------------------------------------------------------------------------------------
# Clusters


@pytest.mark.parametrize("k", [2, 3, 5])
@pytest.mark.parametrize("seed", SEEDS)
def test_the_witness_of_a_bag(seed, k):
    scores = np.random.default_rng(seed).integers(-3, 4, (11, k)).astype(float)
    rows, clusters, margins = np.empty(4, dtype=np.int64), np.empty(4, dtype=np.int64), np.empty(4)
    decide_bags(scores, OFFSETS, k / (k - 1), rows, clusters, margins)
    own = k / (k - 1) * (scores.max(axis=1) - scores.mean(axis=1))
    first = [int(np.argmax(np.round(bag, 9))) for bag in bags_of(own)]
    expected = OFFSETS[:-1] + first
    assert_allclose(margins, own[expected], rtol=1e-12, atol=1e-12)
    assert_allclose(own[rows], own[expected], rtol=1e-12, atol=1e-12)
    assert np.array_equal(clusters, scores[rows].argmax(axis=1))
    assert np.all((rows >= OFFSETS[:-1]) & (rows < OFFSETS[1:]))


def test_a_witness_where_nothing_is_a_number():
    rows, clusters, margins = np.full(1, -9), np.full(1, -9), np.zeros(1)
    decide_bags(np.full((2, 2), np.nan), np.array([0, 2]), 2.0, rows, clusters, margins)
    assert (rows[0], clusters[0], margins[0]) == (0, 0, -1.0)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("seed", SEEDS)
def test_sums_and_products_by_cluster(seed, sparse):
    rng = np.random.default_rng(seed)
    X, instances = instances_of(rng, sparse)
    k, W = 3, rng.normal(size=(3, 5))
    scores = np.full((11, k), np.nan)
    score_few(*instances, W, np.ascontiguousarray(W.T), scores)
    assert_allclose(scores, X @ W.T, atol=1e-12)
    rows, clusters = rng.permutation(11)[:7], rng.integers(0, k, 7)
    weights = rng.normal(size=7) * (rng.random(7) < 0.7)
    start = rng.normal(size=(k, 5))
    expected = np.zeros((k, 5))
    np.add.at(expected, clusters, weights[:, None] * X[rows])
    sums = start.copy()
    sum_by_cluster(*instances, rows, clusters, weights, sums)
    assert_allclose(sums, start + expected, atol=1e-12)
    sums, products = np.zeros((k, 5)), np.full(7, np.nan)
    multiply_rows(*instances, rows, clusters, weights, 1.7, sums, products)
    centred = expected - expected.mean(axis=0)
    assert_allclose(products, 1.7 * np.einsum("id,id->i", X[rows], centred[clusters]), atol=1e-12)
    coefficients = rng.normal(size=(7, k)) * (rng.random((7, k)) < 0.6)
    combined = start.copy()
    combine_rows(*instances, rows, coefficients, combined)
    assert_allclose(combined, start + coefficients.T @ X[rows], atol=1e-12)


# ---------------------------------------------------------------------------------------------------------------------
# Cuts and quadratic programs


@pytest.mark.parametrize("seed", SEEDS)
def test_the_most_violated_constraint(seed):
    rng = np.random.default_rng(seed)
    n, s, k = 9, 3, 2
    alpha, products, shift = rng.normal(size=s), rng.normal(size=(s + 2, n)), rng.normal(size=k)
    clusters, along = rng.integers(0, k, n), rng.normal(size=n)
    expected = shift[clusters] * along + alpha @ products[:s]
    below = (expected < 1.0).astype(float)
    for known_at in (None, 0, s - 1, s):  # a cut of an earlier problem, behind the s of this one, does not count
        masks = np.tile(1.0 - below, (s + 2, 1))
        if known_at is not None:
            masks[known_at] = below
        margins, mask = np.full(n, np.nan), np.full(n, np.nan)
        loss, known = most_violated(alpha, products, shift, clusters, along, masks, margins, mask)
        assert_allclose(margins, expected, rtol=1e-12)
        assert np.array_equal(mask, below)
        assert_allclose(loss, np.maximum(0.0, 1.0 - expected).mean(), rtol=1e-12)
        assert known == (known_at is not None and known_at < s)


def test_a_margin_of_one_is_kept():
    margins, mask = np.empty(2), np.empty(2)
    arguments = (np.ones(1), np.array([[1.0, 0.5]]), np.zeros(1), np.zeros(2, dtype=np.int64), np.zeros(2))
    loss, known = most_violated(*arguments, np.array([[0.0, 0.0]]), margins, mask)
    assert (loss, known, mask.tolist()) == (0.25, False, [0.0, 1.0])


def violation(P, q, A, b, G, h, x, y, z):
    """The optimality conditions, a line each."""
    curvature, force = P @ x, A.T @ y + G.T @ z
    gradient, slack = curvature + q + force, h - G @ x
    scale = max(1.0, *np.abs(curvature), *np.abs(q), *np.abs(force))
    gap = np.maximum(gradient, 0.0) @ x + z @ np.maximum(slack, 0.0)
    infeasible = max(0.0, *np.abs(A @ x - b), *-slack)
    largest = max(1.0, *x, *np.abs(b), *np.abs(h))
    return max(
        0.0, (-gradient).max() / scale, gap / max(1.0, abs(x @ curvature), abs(q @ x)), infeasible / largest
    )  # fmt: skip


@pytest.mark.parametrize("size", [0.1, 1.0, 30.0])
@pytest.mark.parametrize("seed", range(30))
def test_the_largest_violation_of_a_quadratic_program(seed, size):
    """At points of all kinds, so that each of the conditions is the worst somewhere."""
    rng = np.random.default_rng(seed)
    n, e, u = 4, 2, 3
    root = rng.normal(size=(n, n))
    P, q, A, b = root @ root.T, rng.normal(size=n), rng.normal(size=(e, n)), size * rng.normal(size=e)
    G, h, x = rng.normal(size=(u, n)), size * rng.normal(size=u), np.abs(rng.normal(size=n)) * rng.choice([0.01, 1, 9])
    y, z = rng.normal(size=e) * rng.choice([0.1, 5]), np.abs(rng.normal(size=u)) * rng.choice([0.1, 5])
    which = seed % 4
    if which == 1:  # feasible: what is left is stationarity and the gap
        b, h = A @ x, G @ x + np.abs(rng.normal(size=u))
    elif which == 2:  # stationary too: the gap alone
        b, h, q = A @ x, G @ x + np.abs(rng.normal(size=u)), -(P @ x + A.T @ y + G.T @ z)
    elif which == 3:  # stationary, far outside
        q = -(P @ x + A.T @ y + G.T @ z) + 0.1
    found = largest_violation(P, q, A, b, G, h, x, y, z)
    assert_allclose(found, violation(P, q, A, b, G, h, x, y, z), rtol=1e-9, atol=1e-12)
    assert largest_violation(P, np.full(n, np.nan), A, b, G, h, x, y, z) == np.inf


# ---------------------------------------------------------------------------------------------------------------------
# Softmax


@pytest.mark.parametrize("scale", [1.0, 800.0])
@pytest.mark.parametrize("seed", SEEDS)
def test_softmax_of_rows(seed, scale):
    rng = np.random.default_rng(seed)
    scores, direction = scale * rng.normal(size=(7, 4)), rng.normal(size=(7, 4))
    found = scores.copy()
    softmax_in_place(found)
    assert_allclose(found, softmax(scores, axis=1), atol=1e-12)
    row = scores[:3].copy()
    assert_allclose(softmax_row(row, 1), logsumexp(scores[1]), rtol=1e-12)
    assert np.array_equal(row[[0, 2]], scores[[0, 2]])
    assert_allclose(
        sum_log_partition(scores, direction, 0.7), logsumexp(scores + 0.7 * direction, axis=1).sum(), rtol=1e-12
    )
