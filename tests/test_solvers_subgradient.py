"""Sub-gradient descent, the heuristic and CCCP against the algorithms as printed, and what the theory promises."""

import itertools
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import oracles_sim as oracles
from bagwise import Bags
from bagwise.core.bags import cut_bags
from bagwise.kernels.pegasos import Support
from bagwise.solvers import subgradient
from bagwise.solvers.aggregation import AGGREGATIONS
from bagwise.solvers.losses import LOSSES
from bagwise.solvers.subgradient import BagProblem, cccp, heuristic

LOSS_NAMES = tuple(LOSSES)


def problem_of(X, offsets, Y, loss="rank", alpha=0.1):
    return BagProblem.build(Bags(X, offsets), Y, LOSSES[loss], alpha)


def value_and_subgradient(problem, support, W, upper_bound=False):
    """What one short step shows: it ends at W - V / (1000 alpha), within the ball."""
    descent = problem.descend(support, W, n_steps=1, first_step=1000, upper_bound=upper_bound)
    assert np.vdot(descent.last, descent.last) < 2.0 / problem.alpha * (1 - 1e-9)
    return descent.values[0], 1000 * problem.alpha * (W - descent.last)


def separable_bags(seed, max_size=6):
    return oracles.random_problem(seed, n_bags=30, n_features=5, max_size=max_size, max_labels=2, signal=4.0)[:3]


# -- one sub-gradient -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("aggregation", "upper_bound"),
    [("max", False), ("softmax", False), ("mean", False), ("max", True), ("mean", True)],
    ids=["max", "softmax", "mean", "max, equation 25", "mean, equation 25"],
)
@pytest.mark.parametrize("loss", LOSS_NAMES)
@pytest.mark.parametrize("ties", [False, True])
def test_objective_and_subgradient_equal_the_algorithms_as_printed(loss, aggregation, upper_bound, ties):
    """Algorithms 2 and 3, equations 25, 26, 31 and 32; support instances from other weights than the current ones."""
    for seed in range(8):
        X, offsets, Y, W = oracles.random_problem(seed, n_bags=12, n_classes=6)
        before = np.random.default_rng(seed + 100).normal(size=W.shape)
        if ties:  # whole numbers: instances of equal score and pairs exactly at the margin
            X, W, before = np.round(X), np.round(W), np.round(before)
        problem = problem_of(X, offsets, Y, loss, alpha=0.01)
        _, support = problem.aggregate(AGGREGATIONS[aggregation], before)
        if upper_bound and not support.rows.size:
            support = Support(rows=np.full(Y.shape, -1), weights=support.weights)
        explicit = oracles.support_instances(X, offsets, before, aggregation)
        others = oracles.support_instances(X, offsets, W, "max") if upper_bound else None
        value, V = value_and_subgradient(problem, support, W, upper_bound)
        assert_allclose(value, oracles.OBJECTIVES[loss](explicit, W, Y, 0.01, others), rtol=1e-10)
        if not ties or aggregation == "max":  # elsewhere the scores are no whole numbers, the last bit settles ties
            assert_allclose(V, oracles.SUBGRADIENTS[loss](explicit, W, Y, 0.01, others), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("loss", LOSS_NAMES)
@pytest.mark.parametrize("ties", [False, True])
def test_many_labels_and_classes(loss, ties):
    """Beyond `DIRECT_LABELS` labels pairs are found by searching."""
    X, offsets, Y, W = oracles.random_problem(0, n_bags=6, n_classes=130, max_labels=129)
    if ties:
        X, W = np.round(X), np.round(W)
    assert Y.sum(axis=1).max() > 60
    problem = problem_of(X, offsets, Y, loss, alpha=0.001)
    _, support = problem.aggregate(AGGREGATIONS["max"], W)
    explicit = oracles.support_instances(X, offsets, W, "max")
    value, V = value_and_subgradient(problem, support, W)
    assert_allclose(value, oracles.OBJECTIVES[loss](explicit, W, Y, 0.001), rtol=1e-10)
    assert_allclose(V, oracles.SUBGRADIENTS[loss](explicit, W, Y, 0.001), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("aggregation", ["max", "softmax", "mean"])
@pytest.mark.parametrize("loss", LOSS_NAMES)
def test_subgradient_equals_finite_differences(loss, aggregation):
    X, offsets, Y, W = oracles.random_problem(5)
    problem = problem_of(X, offsets, Y, loss, alpha=0.02)
    _, support = problem.aggregate(AGGREGATIONS[aggregation], W)
    _, V = value_and_subgradient(problem, support, W)
    numeric = np.empty_like(W)
    for index in np.ndindex(W.shape):
        step = np.zeros_like(W)
        step[index] = 1e-7
        ahead, behind = (problem.descend(support, W + s * step, n_steps=1).values[0] for s in (1, -1))
        numeric[index] = (ahead - behind) / 2e-7
    assert_allclose(V, numeric, atol=1e-7)


@pytest.mark.parametrize("aggregation", AGGREGATIONS)
@pytest.mark.parametrize("loss", LOSS_NAMES)
def test_true_objective(loss, aggregation):
    """Equations 11 and 30."""
    for seed in range(5):
        X, offsets, Y, W = oracles.random_problem(seed)
        support = oracles.support_instances(X, offsets, W, aggregation)
        value, _ = problem_of(X, offsets, Y, loss, 0.3).aggregate(AGGREGATIONS[aggregation], W)
        assert_allclose(value, oracles.OBJECTIVES[loss](support, W, Y, 0.3), rtol=1e-10)


# -- the solvers ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("restart", ["best", "last"])
@pytest.mark.parametrize("aggregation", AGGREGATIONS)
@pytest.mark.parametrize("loss", LOSS_NAMES)
def test_heuristic_is_algorithm_4(loss, aggregation, restart):
    X, offsets, Y, _ = oracles.random_problem(3, n_bags=8, n_classes=4)
    result = heuristic(
        problem_of(X, offsets, Y, loss, 0.05), AGGREGATIONS[aggregation], n_phases=3, n_steps=12, restart=restart
    )
    weights, history = oracles.heuristic(X, offsets, Y, loss, aggregation, 0.05, 3, 12, restart)
    assert_allclose(result.weights, weights, rtol=1e-9, atol=1e-11)
    assert_allclose(result.history, history, rtol=1e-10)
    assert result.n_iter == 3
    assert result.objective == result.history[-1]


@pytest.mark.parametrize("loss", LOSS_NAMES)
@pytest.mark.parametrize("seed", range(3))
def test_cccp_is_algorithm_5(loss, seed):
    X, offsets, Y, _ = oracles.random_problem(seed, n_bags=15, n_classes=4, max_labels=2, signal=2.0)
    result = cccp(problem_of(X, offsets, Y, loss, 0.02), AGGREGATIONS["max"], n_phases=4, n_steps=6, max_steps=45)
    weights, history = oracles.cccp(X, offsets, Y, loss, 0.02, 4, 6, 45)
    assert len(history) > 1
    assert_allclose(result.weights, weights, rtol=1e-9, atol=1e-11)
    assert_allclose(result.history, history, rtol=1e-10)
    assert result.n_iter == len(history)


@pytest.mark.parametrize("alpha", [1e-1, 1e-3])
@pytest.mark.parametrize("loss", LOSS_NAMES)
def test_cccp_never_raises_the_objective(loss, alpha):
    n_phases = 0
    for seed in range(20):
        problem = problem_of(*separable_bags(seed), loss, alpha)
        result = cccp(problem, AGGREGATIONS["max"], n_phases=10, n_steps=25, max_steps=200)
        assert np.diff(np.append(1.0, result.history)).max() <= 1e-12  # 1: the objective at the zero start
        n_phases += result.n_iter
    assert n_phases > 150


def test_heuristic_may_raise_the_objective():
    rises = 0
    for seed in range(20):
        problem = problem_of(*separable_bags(seed), alpha=1e-3)
        result = heuristic(problem, AGGREGATIONS["max"], n_phases=10, n_steps=25)
        rises += np.diff(result.history).max() > 1e-3
    assert rises >= 1


def test_cccp_stops_when_it_cannot_lower_the_objective():
    X, offsets, Y, _ = oracles.random_problem(0, n_bags=20)
    result = cccp(problem_of(X, offsets, Y, alpha=0.5), AGGREGATIONS["max"], n_phases=500, n_steps=20, max_steps=40)
    assert result.converged
    assert result.n_iter < 500
    assert result.history[-1] == result.history[-2]  # the last phase found nothing better


def test_cccp_takes_the_means_where_its_first_phase_fails():
    """Five steps do not get below the objective of zero weights here, with which Algorithm 5 as printed then ends."""
    X, offsets, Y = separable_bags(6, max_size=3)
    printed, history = oracles.cccp(X, offsets, Y, "rank", 1e-3, 3, 5, 5)
    assert not printed.any()
    assert_allclose(history, [1.0])
    result = cccp(problem_of(X, offsets, Y, alpha=1e-3), AGGREGATIONS["max"], n_phases=3, n_steps=5, max_steps=5)
    assert result.history[0] < 0.9
    assert np.diff(result.history).max() <= 1e-12


def test_the_first_phase_of_the_heuristic_never_ends_where_it_starts():
    """Zero weights make all instances equal: no support instance can be found from them (Appendix 2)."""
    X, offsets, Y, _ = oracles.random_problem(2, scale=1e3)
    for restart in ("best", "last"):
        result = heuristic(
            problem_of(X, offsets, Y, alpha=1e-9), AGGREGATIONS["max"], n_phases=2, n_steps=3, restart=restart
        )
        assert result.weights.any()


# -- theory -----------------------------------------------------------------------------------------------------------


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    log_alpha=st.floats(-6, 1),
    scale=st.sampled_from([1e-2, 1.0, 30.0]),
    upper_bound=st.booleans(),
    aggregation=st.sampled_from(["max", "softmax"]),
)
def test_ball_and_subgradient_bound_hold_at_every_step(seed, log_alpha, scale, upper_bound, aggregation):
    """Lemma 4.1 and Appendix 1: ||W||^2 <= 2 / alpha, ||V|| <= sqrt(2 alpha) + 2 R."""
    X, offsets, Y, _ = oracles.random_problem(seed, n_bags=6, n_classes=4, scale=scale)
    alpha, radius = 10.0**log_alpha, np.linalg.norm(X, axis=1).max()
    problem = problem_of(X, offsets, Y, alpha=alpha)
    support = Support(weights=np.ones(Y.shape))
    current, phase_problem = problem.start, problem._means()
    for step in range(1, 13):
        if step == 4:
            aggregation = "max" if upper_bound else aggregation
            phase_problem, (_, support) = problem, problem.aggregate(AGGREGATIONS[aggregation], current)
        bound = upper_bound and step >= 4
        descent = phase_problem.descend(support, current, n_steps=1, first_step=step, upper_bound=bound)
        explicit = oracles.support_instances(X, offsets, current, "mean")
        if step >= 4:
            explicit = explicit_support(support, X, offsets)
        others = oracles.support_instances(X, offsets, current, "max") if bound else None
        V = oracles.rank_subgradient(explicit, current, Y, alpha, others)
        assert np.linalg.norm(V) <= (np.sqrt(2 * alpha) + 2 * radius) * (1 + 1e-9)
        assert np.vdot(descent.last, descent.last) <= 2.0 / alpha * (1 + 1e-9)
        taken = oracles.project(current - V / (alpha * step), alpha)
        if not has_tie(explicit, others, X, offsets, Y, current):
            assert_allclose(descent.last, taken, rtol=1e-7, atol=1e-7 * np.abs(taken).max())
        current = descent.last


def bags_of(offsets):
    return [slice(start, stop) for start, stop in itertools.pairwise(offsets)]


def explicit_support(support, X, offsets):
    if support.rows.size:
        return X[support.rows]
    return np.array([support.weights[bag].T @ X[bag] for bag in bags_of(offsets)])


def has_tie(support, others, X, offsets, Y, W):
    """Whether rounding could decide on a pair at the margin, or on the best of a bag's instances."""
    tolerance = 1e-9 * (1.0 + np.abs(X @ W.T).max())
    behind = support if others is None else others
    margins = [1.0 + W[k] @ behind[i, k] - W[j] @ support[i, j] for i, j, k, _ in oracles.pairs(Y)]
    ordered = [np.sort(X[bag] @ W.T, axis=0) for bag in bags_of(offsets)]
    gaps = [np.min(scores[-1] - scores[-2]) for scores in ordered if len(scores) > 1]
    return min(np.abs(margins)) < tolerance or min(gaps, default=1.0) < tolerance


def test_values_along_a_descent_are_those_of_the_weights_it_passes():
    """The sub-gradient is updated, not computed anew: no drift over a thousand steps."""
    X, offsets, Y, W = oracles.random_problem(7, n_bags=25, n_classes=6, max_size=6)
    for upper_bound in (False, True):
        problem = problem_of(X, offsets, Y, alpha=1e-3)
        _, support = problem.aggregate(AGGREGATIONS["max"], W)
        whole = problem.descend(support, W, n_steps=1000, upper_bound=upper_bound)
        again = problem.descend(support, whole.last, n_steps=1, upper_bound=upper_bound)
        best = problem.descend(support, whole.best, n_steps=1, upper_bound=upper_bound)
        assert_allclose(whole.values[-1], again.values[0], rtol=1e-12)
        assert_allclose(whole.best_value, best.values[0], rtol=1e-12)


# -- forms of input ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("aggregation", AGGREGATIONS)
def test_sparse_instances_give_the_same_weights(aggregation):
    X, offsets, Y, _ = oracles.random_problem(4, n_features=12)
    X[np.random.default_rng(0).random(X.shape) < 0.7] = 0.0
    results = [
        heuristic(problem_of(instances, offsets, Y), AGGREGATIONS[aggregation], n_phases=3, n_steps=20)
        for instances in (X, sp.csr_matrix(X), sp.csr_array(X))
    ]
    for other in results[1:]:
        assert_allclose(other.weights, results[0].weights, rtol=1e-8, atol=1e-10)


def test_sparse_instances_give_the_same_weights_by_cccp():
    X, offsets, Y, _ = oracles.random_problem(4, n_features=12)
    X[np.random.default_rng(0).random(X.shape) < 0.7] = 0.0
    dense, sparse = (
        cccp(problem_of(instances, offsets, Y), AGGREGATIONS["max"], n_phases=3, n_steps=20, max_steps=60)
        for instances in (X, sp.csr_matrix(X))
    )
    assert_allclose(sparse.weights, dense.weights, rtol=1e-8, atol=1e-10)


def test_blocks_do_not_matter(monkeypatch):
    X, offsets, Y, _ = oracles.random_problem(6, n_bags=200, n_classes=20, max_size=5)
    results = []
    for n_entries in (1, 10**9):
        monkeypatch.setattr(subgradient, "BLOCK_ENTRIES", n_entries)
        n_blocks = len(problem_of(X, offsets, Y)._layout().blocks) - 1
        assert (n_blocks > 5) == (n_entries == 1)
        results.append(heuristic(problem_of(X, offsets, Y), AGGREGATIONS["softmax"], n_phases=2, n_steps=10))
    assert_allclose(results[0].weights, results[1].weights, rtol=1e-8, atol=1e-10)


def test_a_bag_larger_than_a_block():
    assert cut_bags(np.array([0, 3, 5000, 5001, 5002]), 2048) == [(0, 1), (1, 2), (2, 4)]
    assert cut_bags(np.array([0, 3, 5000]), 2048) == [(0, 1), (1, 2)]  # the last bag alone
    assert cut_bags(np.array([0, 3, 5000]), 9000, np.array([1])) == [(0, 1), (1, 2)]  # at the group in reach


def test_neither_start_nor_instances_are_changed():
    X, offsets, Y, W = oracles.random_problem(8)
    kept_X, kept_W = X.copy(), W.copy()
    problem = problem_of(X, offsets, Y)
    problem.descend(problem.aggregate(AGGREGATIONS["max"], W)[1], W, n_steps=5)
    cccp(problem, AGGREGATIONS["max"], n_phases=2, n_steps=5, max_steps=5)
    assert_array_equal(X, kept_X)
    assert_array_equal(W, kept_W)


def test_instances_are_not_copied():
    X, offsets, Y, _ = oracles.random_problem(8)
    assert np.shares_memory(problem_of(X, offsets, Y).instances, X)
    assert_array_equal(problem_of(X.astype(np.float32), offsets, Y).instances, X.astype(np.float32))


@pytest.mark.parametrize("restart", ["best", "last"])
def test_a_heuristic_that_goes_on_ends_where_one_in_one_go_does(restart):
    X, offsets, Y, _ = oracles.random_problem(10)
    problem, kept = problem_of(X, offsets, Y), {}
    checkpoint = SimpleNamespace(load=lambda: None, save=lambda **state: kept.update(state))
    settings = {"n_steps": 5, "restart": restart}
    whole = heuristic(problem, AGGREGATIONS["softmax"], n_phases=4, **settings)
    heuristic(problem, AGGREGATIONS["softmax"], n_phases=2, checkpoint=checkpoint, **settings)
    checkpoint.load = lambda: {**kept, "history": np.asarray(kept["history"])}
    again = heuristic(problem, AGGREGATIONS["softmax"], n_phases=4, checkpoint=checkpoint, **settings)
    assert_array_equal(again.weights, whole.weights)
    assert_array_equal(again.history, whole.history)


def test_callback_hears_of_every_phase():
    X, offsets, Y, _ = oracles.random_problem(9)
    heard = []
    result = heuristic(
        problem_of(X, offsets, Y),
        AGGREGATIONS["softmax"],
        n_phases=4,
        n_steps=5,
        callback=lambda phase, value: heard.append((phase, value)),
    )
    assert heard == list(enumerate(result.history.tolist(), start=1))
