"""Small dense quadratic programs: PIQP, and clarabel where PIQP's answer fails the optimality conditions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import clarabel
import numpy as np
import piqp
import scipy.sparse as sp

from bagwise.kernels.cuts import largest_violation

KKT_TOLERANCE = 1e-6
SOLVER_TOLERANCE = 1e-9
FAR = 1e20  # a limit beyond it limits nothing at unit scale; PIQP would drop it from 1e30 on, and print so


@dataclass(frozen=True)
class QuadraticProgram:
    """minimise 1/2 x' P x + q' x  subject to  A x = b,  G x <= h,  x >= 0; P is positive semi-definite."""

    P: np.ndarray
    q: np.ndarray
    A: np.ndarray
    b: np.ndarray
    G: np.ndarray
    h: np.ndarray


@dataclass(frozen=True)
class QPSolution:
    """A point x >= 0, the multipliers of A and G, how far they are from optimal, and the solver that found them."""

    x: np.ndarray
    y: np.ndarray
    z: np.ndarray
    residual: float
    solver: str

    @property
    def solved(self) -> bool:
        return self.residual <= KKT_TOLERANCE


def solve_qp(problem: QuadraticProgram) -> QPSolution:
    """The first solver's answer if it meets the KKT conditions, else the second's, else the better of the two.

    A solver's own word that it succeeded is not taken: the residual is computed here from point and multipliers. The
    problem is first brought to unit scale, so that tolerances mean the same whatever the unit of the features.

    Examples
    --------
    >>> import numpy as np
    >>> from bagwise.solvers._qp import QuadraticProgram, solve_qp
    >>> no_equality = np.empty((0, 2)), np.empty(0)
    >>> problem = QuadraticProgram(np.eye(2), np.array([-2.0, -1.0]), *no_equality, np.ones((1, 2)), np.array([2.0]))
    >>> solve_qp(problem).x.round(6).tolist()
    [1.5, 0.5]
    """
    scaled, to_x, to_y, to_z = _to_unit_scale(problem)
    best = QPSolution(np.zeros(len(problem.q)), np.zeros(len(problem.b)), np.zeros(len(problem.h)), np.inf, "none")
    for name, solver in _SOLVERS.items():
        x, y, z = solver(scaled)
        x, z = np.maximum(x, 0.0), np.maximum(z, 0.0)
        residual = kkt_residual(scaled, x, y, z)
        if residual < best.residual:
            best = QPSolution(x * to_x, y * to_y, z * to_z, residual, name)
        if best.solved:
            break
    return best


def _to_unit_scale(problem: QuadraticProgram) -> tuple[QuadraticProgram, np.ndarray, np.ndarray, np.ndarray]:
    """The same problem in variables whose curvature is alike and whose forces and lengths are at most about 1.

    Also the factors that turn its answer back: those of x, of y and of z.
    """
    curvature = np.diag(problem.P)
    largest = float(curvature.max())
    own = 1.0 / np.sqrt(np.where(curvature > 0.0, curvature, largest if largest > 0.0 else 1.0))
    equal, upper = problem.A * own, problem.G * own
    by_equal, by_upper = (np.maximum(np.abs(rows).max(axis=1), 1e-300) for rows in (equal, upper))
    force = problem.q * own
    size = max(float(force.max()), -float(force.min()))
    size = size if size > 0.0 else 1.0
    near = problem.h / by_upper
    length = min([size, *near[near > 0.0]])
    P = problem.P * (own[:, None] * (own * (length / size)))
    b = problem.b / (by_equal * length)
    scaled = QuadraticProgram(P, force / size, equal / by_equal[:, None], b, upper / by_upper[:, None], near / length)
    return scaled, own * length, size / by_equal, size / by_upper


def kkt_residual(problem: QuadraticProgram, x: np.ndarray, y: np.ndarray, z: np.ndarray) -> float:
    """Largest violation of the optimality conditions at x >= 0 with multipliers y and z >= 0.

    The multipliers of x >= 0 are the positive parts of the gradient of the Lagrangian; its negative parts are the
    violation of stationarity. Each is relative to the size of the terms that should cancel, or to 1 if that is larger.
    Numbers that are not finite are infinitely far off.
    """
    return float(largest_violation(problem.P, problem.q, problem.A, problem.b, problem.G, problem.h, x, y, z))


Answer = tuple[np.ndarray, np.ndarray, np.ndarray]


def _solve_piqp(problem: QuadraticProgram) -> Answer:
    solver = piqp.DenseSolver()
    settings, n, near = solver.settings, len(problem.q), problem.h < FAR
    settings.preconditioner_scale_cost = False  # with it, small cost vectors end the iteration too early
    settings.eps_abs = settings.eps_duality_gap_abs = SOLVER_TOLERANCE
    settings.eps_rel = settings.eps_duality_gap_rel = SOLVER_TOLERANCE
    P, A, G = (np.asfortranarray(matrix) for matrix in (problem.P, problem.A, problem.G[near]))
    solver.setup(P, problem.q, A, problem.b, G, None, problem.h[near], np.zeros(n), None)
    solver.solve()
    result = solver.result
    z = np.zeros(len(problem.h))
    z[near] = result.z_u
    return np.array(result.x), np.array(result.y), z


def _solve_clarabel(problem: QuadraticProgram) -> Answer:
    n, n_equal, n_upper = len(problem.q), len(problem.b), len(problem.h)
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.max_threads = 1
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = SOLVER_TOLERANCE
    size = np.maximum(1.0, np.abs(problem.h))  # a far limit is brought near, or clarabel stops at its size
    rows = sp.csc_matrix(np.vstack([problem.A, problem.G / size[:, None], -np.eye(n)]))
    limits = np.concatenate([problem.b, problem.h / size, np.zeros(n)])
    cones = [clarabel.ZeroConeT(n_equal), clarabel.NonnegativeConeT(n_upper + n)]
    solver = clarabel.DefaultSolver(sp.csc_matrix(np.triu(problem.P)), problem.q, rows, limits, cones, settings)
    result = solver.solve()
    z = np.array(result.z)
    return np.array(result.x), z[:n_equal], z[n_equal : n_equal + n_upper] / size


_SOLVERS: dict[str, Callable[[QuadraticProgram], Answer]] = {"piqp": _solve_piqp, "clarabel": _solve_clarabel}
