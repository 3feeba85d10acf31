"""The constrained concave-convex procedure of M3IC-MBM (Table 1 of the paper), in whatever space."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from bagwise.clustering._spaces import Expansion, Space
from bagwise.kernels.clusters import decide_bags
from bagwise.solvers.cutting_plane import HingeProblem, solve_cutting_plane


@dataclass(frozen=True)
class Decision:
    """What scores decide: for each bag its witness (a row of all instances), its cluster and its margin."""

    witnesses: np.ndarray
    clusters: np.ndarray
    margins: np.ndarray


@dataclass
class Run:
    """One start of the procedure, from random weights to a local minimum."""

    expansion: Expansion
    decision: Decision
    objective: float
    half_norm: float
    history: list[float] = field(default_factory=list)
    n_cuts: list[int] = field(default_factory=list)
    converged: bool = False
    unsolved: int = 0
    kkt_residual: float = 0.0


def instance_margins(scores: np.ndarray) -> np.ndarray:
    """(m,) modified margins k/(k-1) (max_u s_u - mean_v s_v) of (m, k) scores (equation 11)."""
    k = scores.shape[1]
    return (k / (k - 1)) * (scores.max(axis=1) - scores.sum(axis=1) / k)


def decide(scores: np.ndarray, offsets: np.ndarray) -> Decision:
    """Step 14 of Table 1: the instance of the largest margin decides, and its largest score is the bag's cluster."""
    n_bags, k = len(offsets) - 1, scores.shape[1]
    rows, clusters = np.empty(n_bags, dtype=np.int64), np.empty(n_bags, dtype=np.int64)
    margins = np.empty(n_bags)
    decide_bags(scores, offsets, k / (k - 1), rows, clusters, margins)
    return Decision(rows, clusters, margins)


def run_start(
    space: Space,
    offsets: np.ndarray,
    *,
    n_clusters: int,
    C: float,
    balance: float,
    tol_outer: float,
    tol_inner: float,
    max_iter: int,
    seed: int,
) -> Run:
    """Linearise the margins at the present weights, solve the convex problem, repeat.

    The convex problem lies above the objective J and meets it where it was made, so a lower value there is a lower J. A
    solution that is not lower, which the tolerance of the cutting planes allows close to a minimum, ends the run
    without being taken: J never rises.
    """
    slack = balance / space.length if space.length > 0.0 else 0.0
    at = decide(space.random_scores(np.random.RandomState(seed), n_clusters), offsets)
    run: Run | None = None
    for _ in range(max_iter):
        problem = HingeProblem(
            space.multiplier(at.witnesses, at.clusters, n_clusters),
            at.clusters, space.along[at.witnesses], n_clusters, float(C), slack,
        )  # fmt: skip
        inner = solve_cutting_plane(problem, tol=tol_inner, start_value=C if run is None else run.objective)
        expansion = Expansion(at.witnesses, at.clusters, inner.weights, inner.shift)
        reached = decide(space.scores(expansion), offsets)
        value = inner.half_norm + C * float(np.maximum(0.0, 1.0 - reached.margins).mean())
        last = np.inf if run is None else run.objective
        if run is None:
            run = Run(expansion, reached, value, inner.half_norm)
        run.n_cuts.append(inner.n_cuts)
        run.unsolved += not inner.converged
        run.kkt_residual = max(run.kkt_residual, inner.kkt_residual)
        if value < last:
            run.expansion, run.decision, run.objective, run.half_norm = expansion, reached, value, inner.half_norm
            run.history.append(value)
        run.converged = last - value <= tol_outer * last if np.isfinite(last) else value == 0.0
        if run.converged:
            break
        at = reached
    assert run is not None
    return run
