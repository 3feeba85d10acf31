"""L-BFGS, generalised EM and Frank-Wolfe on problems whose answer is known."""

from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import linprog

from bagwise.solvers._frank_wolfe import _best_vertex, maximize_svm_dual
from bagwise.solvers._lbfgs import minimize_lbfgs
from bagwise.solvers._qp import QuadraticProgram, solve_qp
from bagwise.solvers.em import SUFFICIENT_INCREASE, generalized_em
from bagwise.solvers.result import has_settled

SEEDS = range(5)


def quadratic(seed, d=6):
    """1/2 <w, A w> - <b, w>, of (2, d / 2) weights; where it is least."""
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(d, d))
    A, b = root @ root.T + np.eye(d), rng.normal(size=d)

    def objective(weights):
        flat = weights.ravel()
        return float(0.5 * flat @ A @ flat - b @ flat), (A @ flat - b).reshape(weights.shape)

    return objective, np.linalg.solve(A, b).reshape(2, -1), A, b


@pytest.mark.parametrize(("last", "value", "tol", "settled"), [
    (1.0, 1.0, 0.0, False), (1.0, 1.0, 1e-3, True), (100.0, 101.0, 0.01, True), (100.0, 101.0, 0.009, False),
    (-101.0, -100.0, 0.01, True), (-102.0, -100.0, 0.01, False), (0.0, 1.0, 0.5, False), (2.0, 1.0, 1.0, True),
])  # fmt: skip
def test_when_a_change_is_small(last, value, tol, settled):
    assert has_settled(last, value, tol) == settled


# ---------------------------------------------------------------------------------------------------------------------
# L-BFGS


@pytest.mark.parametrize("seed", SEEDS)
def test_lbfgs_finds_the_minimum(seed):
    objective, answer, _, _ = quadratic(seed)
    told = []
    start = np.full((2, 3), 3.0)
    result = minimize_lbfgs(objective, start, max_iter=200, tol=1e-9, callback=lambda i, value: told.append((i, value)))
    assert result.converged
    assert_allclose(result.weights, answer, atol=1e-7)
    assert result.objective == objective(result.weights)[0]
    assert result.history[0] == objective(start)[0]
    assert len(result.history) == result.n_iter + 1
    assert np.diff(result.history).max() <= 0.0
    assert told == list(enumerate(result.history.tolist()))[1:]


def test_lbfgs_ends_by_its_rules():
    objective, _, _, _ = quadratic(0)
    start = np.full((2, 3), 3.0)
    short = minimize_lbfgs(objective, start, max_iter=2, tol=1e-9)
    assert (short.n_iter, short.converged, len(short.history)) == (2, False, 3)
    loose, tight = (minimize_lbfgs(objective, start, max_iter=500, tol=tol) for tol in (1.0, 1e-5))
    assert loose.converged
    assert loose.n_iter < tight.n_iter
    assert np.abs(objective(loose.weights)[1]).max() <= 1.0
    assert np.abs(objective(tight.weights)[1]).max() <= 1e-5


# ---------------------------------------------------------------------------------------------------------------------
# EM


class Exact:
    """An E-step whose surrogate is the objective itself: EM is then gradient ascent, each step searched for."""

    def __init__(self, objective, weights, tried):
        self.value, self.weights, self.tried = objective, weights, tried
        found, gradient = objective(weights)
        self.objective, self.gradient = -found, -gradient

    def surrogate_change(self, direction):
        def change(step):
            self.tried.append(step)
            return -self.value(self.weights + step * direction)[0] - self.objective

        return change


@pytest.mark.parametrize("seed", SEEDS)
def test_em_climbs_to_the_maximum(seed):
    objective, answer, _, _ = quadratic(seed)
    start, told = np.zeros((2, 3)), []
    result = generalized_em(
        lambda weights: Exact(objective, weights, []), start, max_iter=5_000, tol=0.0, first_step=1.0,
        callback=lambda i, value: told.append((i, value)),
    )  # fmt: skip
    assert_allclose(result.weights, answer, atol=1e-5)
    assert_allclose(result.objective, -objective(answer)[0], rtol=1e-10)
    assert result.history[0] == -objective(start)[0]
    assert np.diff(result.history).min() >= -1e-12
    assert told == list(enumerate(result.history.tolist()))[1:]


def test_every_step_of_em_rises_as_far_as_half_the_slope_promises():
    objective, _, _, _ = quadratic(1)
    weights, first = np.zeros((2, 3)), 64.0
    tried = []
    result = generalized_em(
        lambda weights: Exact(objective, weights, tried), weights, max_iter=1, tol=0.0, first_step=first
    )
    slope = float(np.sum(objective(weights)[1] ** 2))
    (step,) = np.unique(np.round(result.weights / -objective(weights)[1], 12))
    assert result.objective - result.history[0] >= SUFFICIENT_INCREASE * step * slope
    assert tried[0] == first  # and then half of it, and so on
    assert set(tried) == {first / 2**i for i in range(round(np.log2(first / step)) + 1)}
    before = Exact(objective, weights, []).surrogate_change(-objective(weights)[1])
    assert before(2 * step) < SUFFICIENT_INCREASE * 2 * step * slope


def test_the_search_of_em_starts_at_twice_the_last_step():
    objective, _, _, _ = quadratic(2)
    one, two = [], []
    generalized_em(lambda w: Exact(objective, w, one), np.zeros((2, 3)), max_iter=1, tol=0.0, first_step=1.0)
    generalized_em(lambda w: Exact(objective, w, two), np.zeros((2, 3)), max_iter=2, tol=0.0, first_step=1.0)
    assert two[: len(one)] == one
    assert two[len(one)] == 2 * one[-1]


def test_em_that_goes_on_where_it_had_ended_counts_its_iterations():
    objective, _, _, _ = quadratic(2)
    kept = {}
    checkpoint = SimpleNamespace(load=lambda: None, save=lambda **state: kept.update(state))
    settings = {"max_iter": 3, "tol": 0.0, "first_step": 1.0, "checkpoint": checkpoint}
    first = generalized_em(lambda weights: Exact(objective, weights, []), np.zeros((2, 3)), **settings)
    checkpoint.load = lambda: {**kept, "history": np.asarray(kept["history"])}
    again = generalized_em(lambda weights: Exact(objective, weights, []), np.zeros((2, 3)), **settings)
    assert (again.n_iter, again.objective) == (first.n_iter, first.objective) == (3, first.history[3])


def test_em_ends_by_its_rules():
    objective, answer, _, _ = quadratic(3)

    def run(start, max_iter, tol):
        return generalized_em(
            lambda weights: Exact(objective, weights, []), start, max_iter=max_iter, tol=tol, first_step=1.0
        )

    short = run(np.zeros((2, 3)), 3, 0.0)
    assert (short.n_iter, short.converged, len(short.history)) == (3, False, 4)
    loose = run(np.zeros((2, 3)), 5_000, 1e-3)
    assert loose.converged
    assert has_settled(*loose.history[-2:], 1e-3)
    assert not any(has_settled(*pair, 1e-3) for pair in zip(loose.history[:-2], loose.history[1:-1], strict=True))
    still = run(answer, 5_000, 0.0)
    assert still.converged
    assert_allclose(still.weights, answer, atol=1e-9)


def test_the_search_of_em_ends_where_a_step_moves_the_weights_no_more():
    objective, _, _, _ = quadratic(4)
    start, tried = np.full((2, 3), 1e6), []

    def downhill(weights):
        state = Exact(objective, weights, tried)
        state.gradient = -state.gradient  # no step is long enough to rise
        return state

    result = generalized_em(downhill, start, max_iter=5, tol=0.0, first_step=1.0)
    assert (result.n_iter, result.converged) == (1, True)
    assert_allclose(result.weights, start, rtol=0)
    length, end = np.linalg.norm(objective(start)[1]), 1e-15 * (1.0 + 1e6)
    assert min(tried) * length < end <= 2.0 * min(tried) * length


# ---------------------------------------------------------------------------------------------------------------------
# Frank-Wolfe


@pytest.mark.parametrize("seed", range(25))
def test_the_best_vertex_is_that_of_a_linear_program(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 9))
    gradient, signs = rng.normal(size=n) + rng.choice([-1, 0, 1]), rng.choice([-1.0, 1.0], n)
    bounds = rng.uniform(0.1, 2.0, n) if seed % 2 else 1.5
    vertex = _best_vertex(gradient, signs, bounds)
    limits = np.broadcast_to(bounds, n)
    assert np.all((vertex >= 0) & (vertex <= limits + 1e-12))
    assert abs(signs @ vertex) < 1e-9
    expected = linprog(-gradient, A_eq=signs[None], b_eq=[0.0], bounds=list(zip(np.zeros(n), limits, strict=True)))
    assert_allclose(gradient @ vertex, -expected.fun, atol=1e-9)


@pytest.mark.parametrize("seed", SEEDS)
def test_frank_wolfe_on_the_dual_of_a_support_vector_classifier(seed):
    rng = np.random.default_rng(seed)
    n, C, tol = 14, 0.7, 1e-3
    X, signs = rng.normal(size=(n, 3)), np.repeat([-1.0, 1.0], n // 2)
    gram, told = X @ X.T, []
    result = maximize_svm_dual(
        gram, signs, C, max_iter=20_000, tol=tol, callback=lambda i, value: told.append((i, value))
    )
    P = gram * np.outer(signs, signs)
    exact = solve_qp(QuadraticProgram(P, -np.ones(n), signs[None], np.zeros(1), np.eye(n), np.full(n, C)))
    best = float(exact.x.sum() - 0.5 * exact.x @ P @ exact.x)
    a = result.weights
    assert result.converged
    assert_allclose(result.objective, a.sum() - 0.5 * a @ P @ a, rtol=1e-9)
    assert best - tol * max(1.0, abs(result.objective)) - 1e-9 <= result.objective <= best + 1e-6
    assert np.all((a >= -1e-12) & (a <= C + 1e-12))
    assert abs(signs @ a) < 1e-9
    assert np.diff(result.history).min() >= -1e-12
    assert told == list(enumerate(result.history.tolist()))[1:]
    cut = maximize_svm_dual(gram, signs, C, max_iter=1, tol=tol)
    assert (cut.n_iter, cut.converged, len(cut.history)) == (1, False, 2)
