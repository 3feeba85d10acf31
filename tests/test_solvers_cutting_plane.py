"""Cutting planes against clarabel on problem (19) with all its slacks and constraints."""

from dataclasses import replace

import numpy as np
import pytest

from bagwise.solvers import cutting_plane
from bagwise.solvers.cutting_plane import ENOUGH, MarginProblem, solve_cutting_plane, solve_under_cuts
from oracles_clustering import constraint_vectors, solve_n_slack


def make_problem(seed, k, balance, C=1.0, scale=1.0):
    """A random problem with its vectors v_i, its direction and its witnesses."""
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(6, 25)), int(rng.integers(2, 6))
    witnesses = scale * (rng.normal(size=(n, d)) + rng.normal(size=d))
    clusters = rng.integers(0, k, n)
    direction = scale * n * (rng.normal(size=d) + 0.3)
    vectors = constraint_vectors(witnesses, clusters, k)
    unit, length = direction / np.linalg.norm(direction), np.linalg.norm(direction)
    gram = vectors @ vectors.T
    problem = MarginProblem(lambda c: gram @ c, clusters, witnesses @ unit, k, C, balance / length)
    return problem, vectors, direction, witnesses


def weights_of(result, vectors, direction, k):
    """W itself, from its expansion."""
    unit = direction / np.linalg.norm(direction)
    return (result.weights @ vectors).reshape(k, -1) + np.outer(result.shift, unit)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("balance", [0.0, 0.5, 1e3])
@pytest.mark.parametrize("k", [2, 3, 5])
def test_objective_within_tolerance_of_the_full_problem(seed, balance, k):
    C, tol = [0.1, 1.0, 16.0][seed % 3], 1e-3
    problem, vectors, direction, witnesses = make_problem(seed, k, balance, C)
    result = solve_cutting_plane(problem, tol=tol)
    optimum, _ = solve_n_slack(vectors, direction, k, C, balance)
    W = weights_of(result, vectors, direction, k)
    margins = vectors @ W.ravel()
    objective = 0.5 * (W**2).sum() + C * np.maximum(0, 1 - margins).mean()
    assert result.converged
    assert result.objective == pytest.approx(objective, rel=1e-6, abs=1e-9)
    assert result.half_norm == pytest.approx(0.5 * (W**2).sum(), rel=1e-6, abs=1e-9)
    assert optimum - 1e-6 * (1 + optimum) <= result.objective <= optimum + C * tol + 1e-6
    assert result.lower_bound <= optimum + 1e-6 * (1 + optimum)
    scores = W @ direction
    assert scores.max() - scores.min() <= balance + 1e-12 * np.linalg.norm(direction)
    R2 = k / (k - 1) * (witnesses**2).sum(axis=1).max()
    assert result.n_cuts <= max(2 / tol, 8 * C * R2 / tol**2)
    assert np.diff(result.history, prepend=np.inf).max() <= 0


@pytest.mark.parametrize("seed", range(10))
def test_every_one_slack_constraint_holds(seed):
    """Equation (22), mean(c (1 - margin)) <= xi + tol, xi the slack of the cuts: many c, and the worst (Theorem 3)."""
    problem, vectors, direction, _ = make_problem(seed, 3, 0.5)
    result = solve_cutting_plane(problem, tol=1e-3)
    margins = vectors @ weights_of(result, vectors, direction, 3).ravel()
    xi = result.lower_bound - result.half_norm  # C = 1
    masks = np.random.default_rng(seed).integers(0, 2, (200, len(margins)))
    violations = (np.vstack([masks, margins < 1]) * (1 - margins)).mean(axis=1)
    assert violations.max() == violations[-1]
    assert violations[-1] <= xi + 1e-3 + 1e-9


@pytest.mark.parametrize("scale", [1e-3, 1e3])
def test_units_of_the_features_do_not_matter(scale):
    """Features s times as large and C / s^2: W / s, J / s^2."""
    reference = solve_cutting_plane(make_problem(3, 3, 0.5)[0], tol=1e-4)
    scaled = solve_cutting_plane(make_problem(3, 3, 0.5, C=1 / scale**2, scale=scale)[0], tol=1e-4)
    assert scaled.converged
    assert scaled.objective * scale**2 == pytest.approx(reference.objective, abs=2e-4)


@pytest.mark.parametrize("seed", range(10))
def test_an_early_end_leaves_less_than_promised(seed):
    problem, *_ = make_problem(seed, 3, 0.5, C=4.0)
    early = solve_cutting_plane(problem, tol=1e-6, start_value=4.0)
    full = solve_cutting_plane(problem, tol=1e-6)
    assert early.n_cuts <= full.n_cuts
    assert early.objective - full.objective <= ENOUGH * (4.0 - early.objective) + 1e-5


def test_too_few_cuts_are_told():
    problem, *_ = make_problem(0, 3, 0.5, C=16.0)
    result = solve_cutting_plane(problem, tol=1e-6, max_cuts=2)
    assert not result.converged
    assert result.n_cuts == 2
    assert result.lower_bound < result.objective


@pytest.mark.parametrize("seed", range(5))
def test_the_first_cut_is_that_of_all_bags(seed):
    """Under it alone W = a x, x the mean of the vectors: a = min(C, 1 / ||x||^2) in closed form."""
    problem, vectors, _, _ = make_problem(seed, 3, 1e6, C=4.0)
    mean = vectors.mean(axis=0)
    result = solve_cutting_plane(problem, tol=1e-9, max_cuts=1)
    assert result.n_cuts == 1
    np.testing.assert_allclose(result.weights @ vectors, min(4.0, 1.0 / (mean @ mean)) * mean, rtol=1e-6)


def test_a_point_beyond_its_limit_is_brought_back(monkeypatch):
    solve = cutting_plane.solve_qp
    monkeypatch.setattr(
        cutting_plane, "solve_qp", lambda program: (lambda found: replace(found, x=3.0 * found.x))(solve(program))
    )
    gram, drifts, offsets = np.array([[2.0, 0.5], [0.5, 1.0]]), np.zeros((2, 3)), np.ones(2)
    found = solve_under_cuts(gram, drifts, offsets, C=0.4, slack=1.0)
    assert found.alpha.sum() == pytest.approx(0.4)
    assert found.half_norm == pytest.approx(0.5 * found.alpha @ gram @ found.alpha)


@pytest.mark.parametrize("seed", range(10))
def test_balance_in_2k_variables_is_that_of_all_pairs(seed):
    """Under one cut of all bags the primal is a small problem: compare with clarabel on it, all pairs written out."""
    rng = np.random.default_rng(seed)
    k, d = int(rng.integers(2, 6)), 3
    cut = rng.normal(size=(1, k, d))
    cut -= cut.mean(axis=1, keepdims=True)
    unit = rng.normal(size=d)
    unit /= np.linalg.norm(unit)
    slack = float(rng.uniform(0.01, 0.3))
    found = solve_under_cuts(np.array([[(cut**2).sum()]]), cut @ unit, np.array([1.0]), C=3.0, slack=slack)
    W = found.alpha[0] * cut[0] + np.outer(found.shift, unit)
    optimum, expected = solve_n_slack(cut.reshape(1, -1), unit, k, 3.0, slack)
    assert found.residual < 1e-6
    assert found.half_norm + 3.0 * found.xi == pytest.approx(optimum, rel=1e-6)
    np.testing.assert_allclose(W, expected, atol=1e-5)
    assert np.ptp(W @ unit) <= slack + 1e-6


def test_numbers_that_overflow_are_told():
    problem, *_ = make_problem(0, 3, 0.5)
    broken = MarginProblem(
        lambda c: np.full(len(c), np.nan), problem.clusters, problem.along, 3, problem.C, problem.slack
    )
    result = solve_cutting_plane(broken, tol=1e-3)
    assert not result.converged
    assert result.kkt_residual == np.inf
