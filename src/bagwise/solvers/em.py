"""Generalised EM with one backtracked gradient step per iteration (section 4.2 of Pham et al.)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np

from bagwise.solvers.result import Callback, CheckpointLike, SolveResult, has_settled

SUFFICIENT_INCREASE = 0.5  # Armijo's condition: half of the increase that is linear in the step
GROWTH, SHRINK = 2.0, 0.5


class _Expectation(Protocol):
    """An E-step: the objective at its weights, the surrogate's gradient there, and the surrogate along a direction."""

    objective: float
    gradient: np.ndarray

    def surrogate_change(self, direction: np.ndarray) -> Callable[[float], float]:
        """Maps a step length to how much the surrogate rises along `direction`."""


def generalized_em(
    expectation: Callable[[np.ndarray], _Expectation],
    start: np.ndarray,
    *,
    max_iter: int,
    tol: float,
    first_step: float,
    callback: Callback | None = None,
    checkpoint: CheckpointLike | None = None,
) -> SolveResult:
    """Maximise by E-steps, each followed by one gradient step on the surrogate, its length found by backtracking.

    A step that raises the surrogate raises the objective (or leaves it), so the history never falls. The search
    starts from twice the last accepted length. `tol` is a tolerance of the change. With a `checkpoint` that has kept a
    state, goes on from there.

    Examples
    --------
    >>> import numpy as np
    >>> from bagwise.solvers import generalized_em
    >>> class Parabola:  # its own surrogate
    ...     def __init__(self, x):
    ...         self.x, self.objective, self.gradient = x, -float((x - 3.0) @ (x - 3.0)), -2.0 * (x - 3.0)
    ...     def surrogate_change(self, direction):
    ...         return lambda step: Parabola(self.x + step * direction).objective - self.objective
    >>> result = generalized_em(Parabola, np.zeros(1), max_iter=50, tol=1e-9, first_step=0.1)
    >>> result.weights.round(2).tolist(), bool((np.diff(result.history) >= 0.0).all())
    ([3.0], True)
    """
    weights, step = start, first_step
    history: list[float] = []
    converged = False
    kept = None if checkpoint is None else checkpoint.load()
    if kept is not None:
        weights, step, history = kept["weights"], float(kept["step"]), kept["history"].tolist()
    state = expectation(weights)
    if kept is None:
        history.append(state.objective)
    iteration = len(history) - 1
    for iteration in range(len(history), max_iter + 1):
        gradient = state.gradient
        slope = float(np.vdot(gradient, gradient))
        change = state.surrogate_change(gradient)
        while change(step) < SUFFICIENT_INCREASE * step * slope and step * slope > 0.0:
            step *= SHRINK
            if step * np.sqrt(slope) < 1e-15 * (1.0 + np.abs(weights).max()):
                break
        if change(step) < 0.0 or slope == 0.0:  # at the numerical optimum no step helps
            converged = True
            break
        weights = weights + step * gradient
        state = expectation(weights)
        history.append(state.objective)
        if callback is not None:
            callback(iteration, state.objective)
        if has_settled(history[-2], history[-1], tol):
            converged = True
            break
        step *= GROWTH
        if checkpoint is not None:
            checkpoint.save(weights=weights, step=step, history=history)
    return SolveResult(weights, history[-1], iteration, converged, np.asarray(history))
