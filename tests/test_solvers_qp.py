"""Quadratic programs against enumeration, each solver against the other, and what happens when they fail."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bagwise.solvers import _qp as qp
from bagwise.solvers._qp import KKT_TOLERANCE, QuadraticProgram, kkt_residual, solve_qp
from oracles_clustering import solve_qp_by_enumeration


def make_problem(rng, n, scale=1.0, limit=1.0):
    B = rng.normal(size=(n, n)) * scale
    return QuadraticProgram(
        B @ B.T, -rng.uniform(0, 1, n), np.empty((0, n)), np.empty(0), np.ones((1, n)), np.array([limit])
    )


def value(problem, x):
    return 0.5 * x @ problem.P @ x + problem.q @ x


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("name", list(qp._SOLVERS))
def test_each_solver_finds_the_enumerated_optimum(monkeypatch, name, seed):
    rng = np.random.default_rng(seed)
    problem = make_problem(rng, int(rng.integers(1, 6)), 10.0 ** rng.uniform(-3, 3), 10.0 ** rng.uniform(-2, 2))
    monkeypatch.setattr(qp, "_SOLVERS", {name: qp._SOLVERS[name]})
    solution = solve_qp(problem)
    optimum, _ = solve_qp_by_enumeration(problem.P, problem.q, problem.h[0])
    assert solution.solver == name
    assert solution.solved
    assert solution.x.min() >= 0
    assert solution.x.sum() <= problem.h[0] * (1 + 1e-7)
    assert value(problem, solution.x) == pytest.approx(optimum, rel=1e-6)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.floats(-4, 4), st.integers(1, 30))
def test_the_answer_scales_with_the_features(seed, exponent, n):
    """Features s times as large: P is s^2 times as large, and x s^2 times as small where no limit binds."""
    rng = np.random.default_rng(seed)
    problem = make_problem(rng, n, limit=1e12)
    factor = 10.0**exponent
    scaled = QuadraticProgram(problem.P * factor, problem.q, problem.A, problem.b, problem.G, problem.h)
    first, second = solve_qp(problem), solve_qp(scaled)
    assert first.solved
    assert second.solved
    assert value(scaled, second.x) == pytest.approx(value(problem, first.x) / factor, rel=1e-5)


def test_equalities_and_flat_directions():
    """A singular P with an equality: min 1/2 (x0 + x1 - 1)^2 with x0 = x1."""
    P = np.ones((2, 2))
    problem = QuadraticProgram(P, -np.ones(2), np.array([[1.0, -1.0]]), np.zeros(1), np.ones((1, 2)), np.array([5.0]))
    np.testing.assert_allclose(solve_qp(problem).x, [0.5, 0.5], atol=1e-6)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("name", list(qp._SOLVERS))
def test_any_units_of_variables_and_constraints(monkeypatch, name, seed):
    """The optimality conditions of a convex program, looked at in the units in which it was given, prove an optimum."""
    rng = np.random.default_rng(seed)
    n, n_equal, n_upper = int(rng.integers(3, 7)), int(rng.integers(0, 3)), int(rng.integers(0, 3))
    units, feasible = 10.0 ** rng.uniform(-2, 2, n), rng.uniform(0, 1, n)
    rows = 10.0 ** rng.uniform(-2, 2, n_equal + n_upper)[:, None] * rng.uniform(-1, 1, (n_equal + n_upper, n))
    B = rng.normal(size=(n, n))
    limits = rows @ feasible + np.concatenate([np.zeros(n_equal), rng.uniform(0, 0.5, n_upper)])
    problem = QuadraticProgram(
        B @ B.T / np.outer(units, units), rng.normal(size=n) / units, rows[:n_equal] / units, limits[:n_equal],
        rows[n_equal:] / units, limits[n_equal:],
    )  # fmt: skip
    monkeypatch.setattr(qp, "_SOLVERS", {name: qp._SOLVERS[name]})
    solution = solve_qp(problem)
    assert solution.solved
    in_units = QuadraticProgram(
        problem.P * np.outer(units, units),
        problem.q * units,
        problem.A * units,
        problem.b,
        problem.G * units,
        problem.h,
    )
    assert kkt_residual(in_units, solution.x / units, solution.y, solution.z) < 1e-5


def test_residual_tells_wrong_points_from_right_ones():
    problem = make_problem(np.random.default_rng(0), 4)
    right = solve_qp(problem)
    assert kkt_residual(problem, right.x, right.y, right.z) < 1e-6
    assert kkt_residual(problem, right.x + 0.1, right.y, right.z) > 1e-3
    assert kkt_residual(problem, right.x * 0.5, right.y, right.z) > 1e-3
    assert kkt_residual(problem, right.x, right.y, right.z + 1.0) > 1e-3
    assert kkt_residual(problem, np.full(4, np.nan), right.y, right.z) == np.inf


def wrong(problem):
    return np.full(len(problem.q), 0.1), np.zeros(len(problem.b)), np.zeros(len(problem.h))


def broken(problem):
    return tuple(np.full(len(limits), np.nan) for limits in (problem.q, problem.b, problem.h))


@pytest.mark.parametrize("first", [wrong, broken])
def test_second_solver_takes_over(monkeypatch, first):
    monkeypatch.setattr(qp, "_SOLVERS", {"first": first, "clarabel": qp._SOLVERS["clarabel"]})
    problem = make_problem(np.random.default_rng(1), 4)
    solution = solve_qp(problem)
    assert (solution.solver, solution.solved) == ("clarabel", True)
    assert value(problem, solution.x) == pytest.approx(solve_qp_by_enumeration(problem.P, problem.q, 1.0)[0], rel=1e-6)


def test_the_better_of_two_failures_is_kept(monkeypatch):
    monkeypatch.setattr(qp, "_SOLVERS", {"broken": broken, "wrong": wrong})
    solution = solve_qp(make_problem(np.random.default_rng(2), 4))
    assert solution.solver == "wrong"
    assert KKT_TOLERANCE < solution.residual < np.inf
    monkeypatch.setattr(qp, "_SOLVERS", {"broken": broken})
    nothing = solve_qp(make_problem(np.random.default_rng(2), 4))
    assert (nothing.solver, nothing.residual) == ("none", np.inf)
    assert not nothing.x.any()
    assert not nothing.y.any()
    assert not nothing.z.any()


def test_a_limit_far_away_is_no_matter_for_the_terminal(capfd):
    """PIQP takes 1e30 for infinite and prints a remark of its own."""
    problem = make_problem(np.random.default_rng(3), 3, limit=1e40)
    assert solve_qp(problem).solver == "piqp"
    captured = capfd.readouterr()
    assert captured.out + captured.err == ""
