"""Bag losses: values and derivatives against the papers' sums, ties included, and against finite differences."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from bagwise.kernels.ranking import RANK, hinge_slopes
from bagwise.metrics import rank_hinge_loss
from bagwise.solvers.losses import LOSSES, label_lists
from oracles_sim import pairs


def literal_rank(F, Y):
    value, derivative = 0.0, np.zeros(F.shape)
    for i, j, k, beta in pairs(Y):
        value += beta * max(0.0, 1.0 - (F[i, j] - F[i, k]))
        if 1.0 + F[i, k] - F[i, j] > 0:
            derivative[i, j] -= beta
            derivative[i, k] += beta
    return value, derivative


def literal_hamming(F, Y):
    value, derivative = 0.0, np.zeros(F.shape)
    for i, j in np.ndindex(*F.shape):
        sign = 1 if Y[i, j] == 1 else -1
        value += max(0.0, 1.0 - sign * F[i, j]) / F.size
        derivative[i, j] = -sign / F.size if sign * F[i, j] < 1 else 0.0
    return value, derivative


LITERAL = {"rank": literal_rank, "hamming": literal_hamming}


def random_bags(seed, n_bags, n_classes, n_labels, ties):
    rng = np.random.default_rng(seed)
    F = rng.integers(-2, 3, (n_bags, n_classes)).astype(float) if ties else 2.0 * rng.normal(size=(n_bags, n_classes))
    Y = np.zeros((n_bags, n_classes), dtype=np.uint8)
    for row in Y:
        row[rng.choice(n_classes, n_labels, replace=False)] = 1
    return F, Y


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize(("n_classes", "n_labels"), [(2, 1), (6, 1), (6, 5), (26, 4), (120, 60), (120, 119)])
def test_value_and_derivative_equal_the_papers_sums(loss, ties, n_classes, n_labels):
    for seed in range(5):
        F, Y = random_bags(seed, 7, n_classes, n_labels, ties)
        value, derivative = LOSSES[loss](F, Y)
        expected, slope = LITERAL[loss](F, Y)
        assert_allclose(value, expected, rtol=1e-10)
        assert_allclose(derivative, slope, rtol=1e-10, atol=1e-15)


def test_rank_hinge_is_the_metric():
    F, Y = random_bags(3, 40, 12, 3, ties=False)
    assert_allclose(LOSSES["rank"](F, Y)[0], rank_hinge_loss(Y, F), rtol=1e-12)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("n_classes", [8, 110])
def test_derivative_equals_finite_differences(loss, n_classes):
    F, Y = random_bags(1, 5, n_classes, max(3, n_classes // 2), ties=False)
    _, derivative = LOSSES[loss](F, Y)
    direction = np.random.default_rng(0).normal(size=F.shape)
    step = 1e-8  # no hinge changes its state over so short a way
    ahead, behind = (LOSSES[loss](F + sign * step * direction, Y)[0] for sign in (1, -1))
    assert_allclose((ahead - behind) / (2 * step), np.vdot(derivative, direction), rtol=1e-6)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(-3, 3), min_size=2, max_size=12), st.data())
def test_slopes_are_the_counts_of_pairs_that_are_too_close(scores, data):
    scores = np.array(scores, dtype=float)
    n_labels = data.draw(st.integers(0, len(scores)))
    labels = np.array(data.draw(st.permutations(range(len(scores))))[:n_labels], dtype=np.int64)
    n_active, slopes = np.empty(1), np.empty((1, len(scores)))
    hinge_slopes(RANK, scores[None], np.array([0, n_labels]), labels, n_active, slopes)
    own = np.isin(np.arange(len(scores)), labels)
    close = own[:, None] & ~own & (1.0 + scores > scores[:, None])
    assert n_active[0] == close.sum()
    assert_array_equal(slopes[0], close.sum(axis=0) - close.sum(axis=1))


def test_loss_at_zero_scores_is_one():
    _, Y = random_bags(0, 10, 7, 2, ties=False)
    for loss in LOSSES.values():  # what Lemma 4.1 asks for
        assert_allclose(loss(np.zeros(Y.shape), Y)[0], 1.0, rtol=1e-12)


def test_which_bags_have_a_rank_loss():
    Y = np.array([[0, 0, 0], [1, 0, 0], [1, 1, 1], [0, 1, 1]])
    assert_array_equal(LOSSES["rank"].is_defined(Y), [False, True, False, True])
    assert LOSSES["hamming"].is_defined(Y).all()


def test_label_lists():
    starts, labels = label_lists(np.array([[0, 1, 1], [0, 0, 0], [1, 0, 0]]))
    assert_array_equal(starts, [0, 2, 2, 3])
    assert_array_equal(labels, [1, 2, 0])
