"""Trees over whole bags: what they see against loops, what they say against scikit-learn's."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import expit
from sklearn.tree import ExtraTreeRegressor

from bagwise.classification._stacking import _transformed
from bagwise.core.bags import Bags, offsets_of
from bagwise.kernels.forest import Forest, tree_values
from bagwise.preprocessing.bag_trees import BagTrees, _mean_values, _second_largest, bag_summaries, table_of


@st.composite
def judged_bags(draw):
    sizes = draw(st.lists(st.integers(1, 4), min_size=1, max_size=5))
    rng = np.random.default_rng(draw(st.integers(0, 1000)))
    scores = rng.integers(0, 4, size=(sum(sizes), draw(st.integers(1, 4)))) + draw(st.sampled_from([0.0, 1e-9, 0.3]))
    scores[:, 0] += 0.1
    return scores / scores.sum(axis=1, keepdims=True), Bags(np.zeros((sum(sizes), 1)), offsets_of(sizes))


@given(judged_bags())
def test_summaries_against_loops(judged):
    proba, bags = judged
    found = bag_summaries(proba, bags)
    for i, own in enumerate(bags.split(proba)):
        for c in range(proba.shape[1]):
            ordered = sorted(own[:, c])
            # the union probability by all outcomes: every instance has the label or has not
            absent_everywhere = 1.0
            for p in own[:, c]:
                absent_everywhere *= 1.0 - p
            best = sum(int(np.argmax(row) == c) for row in own)
            wanted = [ordered[-1], ordered[-2] if len(ordered) > 1 else 0.0, 1 - absent_everywhere, sum(ordered), best]
            assert_allclose(found[i, c], wanted, rtol=1e-9, atol=1e-12)
    assert np.isfinite(_transformed(found)).all()


def test_the_second_largest_with_equals():
    bags = Bags(np.zeros((5, 1)), [0, 3, 4, 5])
    proba = np.array([[0.5], [0.5], [0.2], [0.5], [0.5]])
    assert _second_largest(proba, bags, np.array([[0.5], [0.5], [0.5]])).ravel().tolist() == [0.5, 0.0, 0.0]


def test_tree_arrays_against_scikit_learn():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 7)).astype(np.float32)
    Y = (rng.random((60, 3)) < 0.4).astype(float)
    trees = [ExtraTreeRegressor(max_features=0.5, min_samples_leaf=3, random_state=seed).fit(X, Y) for seed in range(9)]
    forest = Forest.of_regression(trees)
    other = rng.normal(size=(2000, 7)).astype(np.float32)
    wanted = np.mean([tree.predict(other) for tree in trees], axis=0)
    assert_allclose(forest.mean_values(other), wanted, atol=1e-6)
    assert_array_equal(_mean_values(forest, sp.csr_matrix(other)), forest.mean_values(other))


@pytest.mark.parametrize("seed", range(5))
def test_a_tree_that_is_asked_once_says_what_its_arrays_say(seed):
    rng = np.random.default_rng(seed)
    X, Y = rng.normal(size=(60, 5)).round(1).astype(np.float32), rng.random((60, 3))
    tree = ExtraTreeRegressor(random_state=seed, min_samples_leaf=2).fit(X, Y)
    other = rng.normal(size=(500, 5)).round(1).astype(np.float32)
    said = tree_values(tree, other)
    assert_array_equal(said, Forest.of_regression([tree]).mean_values(other))
    assert_array_equal(said, tree.predict(other).astype(np.float32))
    assert_array_equal(tree_values(tree, sp.csr_matrix(other)), said)


def test_a_table_beyond_single_precision_is_refused():
    table = np.array([[0.0], [1e300], [1.0]])
    with pytest.raises(ValueError, match="single precision"), np.errstate(over="ignore"):
        BagTrees.grow(table, np.eye(3), np.ones(3), 2, None, None, np.random.RandomState(0))


def test_one_target_and_a_single_leaf():
    X, Y = np.arange(4.0)[:, None], np.ones((4, 1))
    forest = Forest.of_regression([ExtraTreeRegressor(random_state=0).fit(X, Y)])
    assert_array_equal(forest.mean_values(X), np.ones((4, 1)))


def test_held_out_logits_are_of_trees_that_did_not_see_the_bag():
    """Drawn and grown one after the other, and judged by scikit-learn."""
    rng = np.random.default_rng(1)
    table, targets = rng.normal(size=(25, 4)).astype(np.float32), (rng.random((25, 3)) < 0.4).astype(float)
    counts = rng.integers(1, 3, 25).astype(float)
    grown = BagTrees.grow(table, targets, counts, 12, 0.5, None, np.random.RandomState(0))
    draws = np.random.RandomState(0)
    total, judges = np.zeros((25, 3)), np.zeros((25, 1))
    for _ in range(12):
        times = np.bincount(draws.randint(25, size=25), minlength=25)
        tree = ExtraTreeRegressor(max_features=0.5, random_state=draws.randint(2**31 - 1))
        tree.fit(table, targets, sample_weight=times * counts)
        total[times == 0] += tree.predict(table)[times == 0]
        judges[times == 0] += 1
    prior = (counts @ targets) / counts.sum()
    assert_allclose(grown.prior, prior)
    assert_allclose(expit(grown.held_out), np.clip((total + prior) / (judges + 1), 1e-4, 1 - 1e-4), atol=1e-6)
    threads = BagTrees.grow(sp.csr_matrix(table), targets, counts, 12, 0.5, 2, np.random.RandomState(0))
    assert threads.held_out.shape == grown.held_out.shape
    again = BagTrees.grow(table, targets, counts, 12, 0.5, 2, np.random.RandomState(0))
    assert_array_equal(again.held_out, grown.held_out)


def test_the_table_has_numbers_size_and_statistics_side_by_side():
    bags = Bags(np.zeros((3, 1)), [0, 2, 3])
    summaries, statistics = np.arange(20.0).reshape(2, 2, 5), np.full((2, 1), 7.0)
    plain = table_of(bags, summaries)
    assert_array_equal(plain, np.column_stack([summaries.reshape(2, 10), [2.0, 1.0]]))
    assert_array_equal(table_of(bags, summaries, statistics), np.column_stack([plain, [7.0, 7.0]]))
    sparse = table_of(bags, summaries, sp.csr_matrix(statistics))
    assert_array_equal(sparse.toarray(), np.column_stack([plain, [7.0, 7.0]]))
