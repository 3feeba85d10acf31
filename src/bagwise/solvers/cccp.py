"""The constrained concave-convex procedure for the max aggregation."""

from __future__ import annotations

from typing import Any

import numpy as np

from bagwise.aggregation import Aggregation
from bagwise.solvers.result import Callback, CheckpointLike, SolveResult
from bagwise.solvers.subgradient import HingeProblem


def cccp(
    problem: HingeProblem,
    aggregation: Aggregation,
    *,
    n_phases: int,
    n_steps: int,
    max_steps: int,
    callback: Callback | None = None,
    checkpoint: CheckpointLike | None = None,
) -> SolveResult:
    """Minimise one convex upper bound after another, each touching the objective at the last weights.

    Algorithm 5 of Briggs et al. 2013: in each phase the scores of a bag's labels are replaced by the linear functions
    that touch them from below, the others stay as they are (equation 25). If `n_steps` steps do not lower the bound,
    further rounds follow until one does or `max_steps` is reached; then the procedure ends with the best weights.
    The objective never rises, because it lies below the bound and meets it where the phase starts (equation 64).

    Where alpha is so small that even the first phase, which starts at zero weights, cannot lower its bound, the
    algorithm as printed would return zero. Here the first phase is then made up for by one with the bags' means for all
    scores, as the heuristic's, provided that it lowers the objective.

    Parameters
    ----------
    problem : HingeProblem
    aggregation : Aggregation
        Convex in the weights, with one row for support: `bagwise.aggregation.aggregate_max`.
    n_phases, n_steps, max_steps : int
        T, K and K_max of the paper. The first phase uses the bags' means for the support of their labels.
    callback : callable or None
        Called after every phase with its number and the objective.
    checkpoint : Checkpoint or None
        Keeps the weights of every phase; if it has kept any, the phases after them are run.

    Returns
    -------
    SolveResult
        The history is the true objective (equation 11) after every phase; `converged` says that the last phase could
        not lower it.
    """
    weights, history, support = problem.start, list[float](), problem.mean_support()
    converged = False
    kept = None if checkpoint is None else checkpoint.load()
    if kept is not None:
        weights, history = kept["weights"], kept["history"].tolist()
        support = problem.aggregate(aggregation, weights)[1]
    while len(history) < n_phases and not converged:
        lower = _lower_bound(problem, support, weights, n_steps, max_steps)
        if lower is None and not history:
            lower = _lower_mean(problem, aggregation, n_steps)
        converged = lower is None
        weights = weights if lower is None else lower
        value, support = problem.aggregate(aggregation, weights)
        history.append(value)
        if checkpoint is not None and not converged:
            checkpoint.save(weights=weights, history=history)
        if callback is not None:
            callback(len(history), value)
    return SolveResult(weights, history[-1], len(history), converged, np.asarray(history))


def _lower_bound(
    problem: HingeProblem, support: Any, start: np.ndarray, n_steps: int, max_steps: int
) -> np.ndarray | None:
    """Weights at which the phase's upper bound is lower than at `start`, or None when none are found."""
    last, taken, at_start = start, 0, np.inf
    while taken < max_steps:
        round_steps = min(n_steps, max_steps - taken)
        descent = problem.descend(support, last, n_steps=round_steps, first_step=taken + 1, upper_bound=True)
        if taken == 0:
            at_start = descent.values[0]
        if descent.best_value < at_start:
            return descent.best
        last, taken = descent.last, taken + round_steps
    return None


def _lower_mean(problem: HingeProblem, aggregation: Aggregation, n_steps: int) -> np.ndarray | None:
    """Weights from a descent with the bags' means for support, if the objective is lower there than at zero."""
    means, support = problem.first_phase()
    weights = means.descend(support, problem.start, n_steps=n_steps).best
    at_weights, at_zero = (problem.aggregate(aggregation, W)[0] for W in (weights, problem.start))
    return weights if at_weights < at_zero else None
