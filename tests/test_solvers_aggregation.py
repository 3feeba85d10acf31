"""Aggregations: bag scores and the support instances behind them."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from bagwise.solvers.aggregation import AGGREGATIONS
from oracles_sim import random_problem, support_instances


def explicit_support(support, X, offsets, n_classes):
    """(n, c, d) support instances from what a `Support` says of them."""
    n = len(offsets) - 1
    out = np.empty((n, n_classes, X.shape[1]))
    for i, j in np.ndindex(n, n_classes):
        if support.rows.size:
            out[i, j] = X[support.rows[i, j]]
        else:
            bag = slice(offsets[i], offsets[i + 1])
            out[i, j] = support.weights[bag, j] @ X[bag]
    return out


@pytest.mark.parametrize("name", AGGREGATIONS)
@pytest.mark.parametrize("seed", range(5))
def test_support_instances_are_the_papers_and_give_the_scores(name, seed):
    X, offsets, _, W = random_problem(seed, max_size=6)
    bag_scores, support = AGGREGATIONS[name](X @ W.T, offsets)
    expected = support_instances(X, offsets, W, name)
    assert_allclose(explicit_support(support, X, offsets, len(W)), expected, rtol=1e-10, atol=1e-13)
    assert_allclose(bag_scores, np.einsum("jd,ijd->ij", W, expected), rtol=1e-10, atol=1e-13)


def test_the_first_of_equal_instances_is_the_support():
    scores = np.array([[1.0, 0.0], [1.0, 2.0], [0.0, 2.0], [5.0, 5.0]])
    bag_scores, support = AGGREGATIONS["max"](scores, np.array([0, 3, 4]))
    assert_array_equal(bag_scores, [[1.0, 2.0], [5.0, 5.0]])
    assert_array_equal(support.rows, [[0, 1], [3, 3]])


@pytest.mark.parametrize("size", [800.0, 1e5, 1e150])
def test_softmax_does_not_overflow(size):
    """Equation 65: exp(800) is infinite in double precision already."""
    scores = size * np.array([[1.0, -1.0], [0.5, -3.0], [-1.0, -2.0]])
    with np.errstate(over="ignore", invalid="ignore"):
        naive = np.exp(scores) / np.exp(scores).sum(axis=0)
    assert not np.isfinite(naive).all()
    bag_scores, support = AGGREGATIONS["softmax"](scores, np.array([0, 3]))
    assert_allclose(support.weights, [[1.0, 1.0], [0.0, 0.0], [0.0, 0.0]], atol=1e-100)
    assert_allclose(bag_scores, [[size, -size]], rtol=1e-15)


def test_softmax_lies_between_mean_and_max():
    X, offsets, _, W = random_problem(0, n_bags=50, max_size=8)
    low, middle, high = (AGGREGATIONS[name](X @ W.T, offsets)[0] for name in ("mean", "softmax", "max"))
    assert np.all(low <= middle + 1e-12)
    assert np.all(middle <= high + 1e-12)


def test_weights_sum_to_one():
    X, offsets, _, W = random_problem(1, n_bags=30, max_size=8)
    for name in ("softmax", "mean"):
        weights = AGGREGATIONS[name](X @ W.T, offsets)[1].weights
        assert_allclose(np.add.reduceat(weights, offsets[:-1], axis=0), 1.0, rtol=1e-12)


def test_bags_of_one_instance_score_as_it_does():
    X, _, _, W = random_problem(2)
    for aggregate in AGGREGATIONS.values():
        assert_allclose(aggregate(X @ W.T, np.arange(len(X) + 1))[0], X @ W.T, rtol=1e-12)
