"""One-slack cutting planes for the convex problem inside M3IC (equations 19 to 30 of the paper)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from bagwise.kernels.cuts import most_violated
from bagwise.solvers._qp import KKT_TOLERANCE, QuadraticProgram, solve_qp
from bagwise.solvers.result import SolveResult

ENOUGH = 0.5  # of the gain so far; see `solve_cutting_plane`


@dataclass(frozen=True)
class MarginProblem:
    """Problem (19): a mean of hinge losses, a norm, and a bound on how far the clusters' scores may drift apart.

        min_W  1/2 ||W||^2 + C/n sum_i max(0, 1 - <W, v_i>)
        s.t.   |<w_p - w_q, u>| <= slack  for all clusters p, q,
        v_i = k/(k-1) (e_{r_i} - 1/k) (x) x_i,

    with x_i the witness of bag i, r_i its cluster and u a direction of length 1. Only inner products appear, so the
    same problem serves the linear and the kernel form.

    Attributes
    ----------
    multiply : callable
        ``multiply(c)`` gives the (n,) products <v_i, sum_l c_l v_l>.
    clusters : (n,) array of int
        r_i.
    along : (n,) array
        <x_i, u>; zeros where there is no direction to balance.
    n_clusters : int
    C : float
    slack : float
        Zero or more.
    """

    multiply: Callable[[np.ndarray], np.ndarray]
    clusters: np.ndarray
    along: np.ndarray
    n_clusters: int
    C: float
    slack: float

    @property
    def factor(self) -> float:
        return self.n_clusters / (self.n_clusters - 1)

    def drift(self, weights: np.ndarray) -> np.ndarray:
        """(k,) products of sum_i weights_i v_i with e_p (x) u."""
        sums = np.bincount(self.clusters, weights * self.along, self.n_clusters)
        return self.factor * (sums - sums.sum() / self.n_clusters)


@dataclass(frozen=True)
class CuttingPlaneResult(SolveResult):
    """W = sum_i weights_i v_i + shift (x) u, and how it was reached.

    Attributes
    ----------
    objective : float
        Problem (19) at W, and `history` the lowest met after every quadratic program.
    half_norm : float
        1/2 ||W||^2.
    lower_bound : float
        The optimum under the cuts, which that of problem (19) cannot be below.
    n_cuts : int
    kkt_residual : float
        The largest of the quadratic programs.
    """

    shift: np.ndarray = field(default_factory=lambda: np.empty(0))
    half_norm: float = 0.0
    lower_bound: float = -np.inf
    n_cuts: int = 0
    kkt_residual: float = 0.0


def solve_cutting_plane(
    problem: MarginProblem, *, tol: float, start_value: float | None = None, max_cuts: int = 1000
) -> CuttingPlaneResult:
    """Add the most violated constraint until none is violated by more than `tol` (steps 5 to 9 of Table 1).

    Parameters
    ----------
    problem : MarginProblem
    tol : float
        epsilon_2: how far the loss may exceed the slack of the cuts. The answer's objective is within C * tol of the
        minimum.
    start_value : float or None
        The objective at a point that is known. If given, the search also ends when what is left to gain is at most
        `ENOUGH` times what was gained on it: far from a solution of the outer problem, more is wasted.
    max_cuts : int
        Theorem 5 bounds the number of cuts by max(2 / tol, 8 C R^2 / tol^2), R^2 = k/(k-1) max ||x_i||^2; in practice
        it is tens.

    Returns
    -------
    CuttingPlaneResult
        The best of the points visited. `converged` is false when `max_cuts` were not enough, or when a quadratic
        program could not be solved and its most violated constraint was there already.

    References
    ----------
    T. Joachims (2006): Training linear SVMs in linear time. KDD, 217-226.
    """
    cuts = _Cuts(problem)
    cuts.add(np.ones(cuts.n_bags))  # the most violated constraint at W = 0, the optimum without cuts
    margins, mask = np.empty(cuts.n_bags), np.empty(cuts.n_bags)
    history, residual, best_value, lower = list[float](), 0.0, np.inf, -np.inf
    while True:
        point = cuts.solve()
        residual = max(residual, point.residual)
        scores = point.shift * problem.factor
        loss, known = most_violated(
            point.alpha, cuts.products, scores, problem.clusters, problem.along, cuts.masks, margins, mask
        )
        if point.residual <= KKT_TOLERANCE:
            lower = point.half_norm + problem.C * point.xi
        value = point.half_norm + problem.C * loss
        if value < best_value or not history:
            best, best_value = point, value
        history.append(best_value)
        gap = problem.C * tol
        if start_value is not None:
            gap = max(gap, ENOUGH * (start_value - best_value))
        converged = best_value - lower <= gap
        if converged or known or cuts.count >= max_cuts:
            break
        cuts.add(mask)
    weights = best.alpha @ cuts.masks[: len(best.alpha)] / cuts.n_bags
    return CuttingPlaneResult(
        weights=weights,
        objective=best_value,
        n_iter=len(history),
        converged=converged,
        history=np.asarray(history),
        shift=best.shift,
        half_norm=best.half_norm,
        lower_bound=lower,
        n_cuts=cuts.count,
        kkt_residual=residual,
    )


class _Cuts:
    """The cuts c_j found so far, each a vector x_j = 1/n sum_i c_ji v_i, by their products with all that matters."""

    def __init__(self, problem: MarginProblem):
        self.problem = problem
        self.n_bags = len(problem.clusters)
        self.count = 0
        self.masks, self.products = np.empty((8, self.n_bags)), np.empty((8, self.n_bags))
        self.drifts, self.offsets = np.empty((8, problem.n_clusters)), np.empty(8)
        self.gram = np.empty((8, 8))

    def add(self, mask: np.ndarray) -> None:
        """Add the cut of these bags, 1 where a bag is in it and 0 elsewhere."""
        s = self.count
        if s == len(self.masks):
            for name in ("masks", "products", "drifts", "offsets"):
                old = getattr(self, name)
                setattr(self, name, np.concatenate([old, np.empty_like(old)]))
            self.gram = np.pad(self.gram, (0, s))
        weights = mask / self.n_bags
        self.masks[s], self.products[s] = mask, self.problem.multiply(weights)
        self.drifts[s], self.offsets[s] = self.problem.drift(weights), weights.sum()
        self.gram[s, : s + 1] = self.gram[: s + 1, s] = self.masks[: s + 1] @ self.products[s] / self.n_bags
        self.count += 1

    def solve(self) -> _CutOptimum:
        s, problem = self.count, self.problem
        return solve_under_cuts(self.gram[:s, :s], self.drifts[:s], self.offsets[:s], C=problem.C, slack=problem.slack)


@dataclass(frozen=True)
class _CutOptimum:
    """The optimum under cuts x_j: W = sum_j alpha_j x_j + shift (x) u, half its squared norm, and xi."""

    alpha: np.ndarray
    shift: np.ndarray
    half_norm: float
    xi: float
    residual: float


def solve_under_cuts(
    gram: np.ndarray, drifts: np.ndarray, offsets: np.ndarray, *, C: float, slack: float
) -> _CutOptimum:
    """The dual of Proposition 2: the smallest 1/2 ||W||^2 + C xi with <W, x_j> >= offsets_j - xi, xi >= 0, and balance.

    That all pairs of <w_p, u> differ by at most l is that they lie between some h - l and h. The multipliers of the k
    lower and k upper bounds are the first variables, 2k where the paper has 2k^2; their sums are equal because h is
    free. With l = 0 they could grow without end: W is then orthogonal to u, which is taken out of the cuts instead. The
    optimum is at most C, that of W = 0, so ||W||^2 <= 2 C and no pair can differ by more than 2 sqrt(C): a larger l
    bounds nothing and is left out.

    Parameters
    ----------
    gram : (s, s) array
        <x_i, x_j>.
    drifts : (s, k) array
        <x_j, e_p (x) u>; every row sums to zero.
    offsets : (s,) array
    C, slack : float

    Returns
    -------
    _CutOptimum
        With the KKT residual of the quadratic program.
    """
    s, k = drifts.shape
    binding = slack < 2.0 * np.sqrt(C) and bool(drifts.any())
    e = 2 * k if binding and slack > 0.0 else 0
    P, q = np.empty((e + s, e + s)), np.zeros(e + s)
    equal, limited = np.zeros((1 if e else 0, e + s)), np.zeros((1, e + s))
    P[e:, e:] = gram
    q[e:], limited[0, e:] = -offsets, 1.0
    if e:
        P[:k, :k] = P[k:e, k:e] = np.eye(k)
        P[:k, k:e] = P[k:e, :k] = -P[:k, :k]
        P[e:, :k], P[e:, k:e] = drifts, -drifts
        P[:e, e:] = P[e:, :e].T
        q[:k], equal[0, :k], equal[0, k:e] = slack, 1.0, -1.0
    elif binding:
        P -= drifts @ drifts.T
    solution = solve_qp(QuadraticProgram(P, q, equal, np.zeros(len(equal)), limited, np.array([float(C)])))
    alpha = solution.x[e:]
    total = alpha.sum()
    if total > C:  # by rounding, or because no solver succeeded: the point is kept feasible
        alpha = alpha * (C / total)
    drift = alpha @ drifts
    shift = np.zeros(k)
    if binding:
        shift = _balance(drift, solution.x[:k] - solution.x[k:e] if e else -drift, slack)
    products = gram @ alpha + drifts @ shift
    half_norm = 0.5 * float(alpha @ (gram @ alpha) + 2.0 * drift @ shift + shift @ shift)
    return _CutOptimum(alpha, shift, half_norm, max(0.0, float((offsets - products).max())), solution.residual)


def _balance(drift: np.ndarray, shift: np.ndarray, slack: float) -> np.ndarray:
    """The shift of sum zero that brings drift + shift within the slack, unchanged where it is."""
    shift = shift - shift.sum() / len(shift)
    scores = drift + shift
    spread = float(scores.max() - scores.min())
    return shift if spread <= slack else (slack / spread) * scores - drift
