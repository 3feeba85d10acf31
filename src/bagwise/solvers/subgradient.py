"""Projected sub-gradient descent on a bag-level hinge loss, and the two procedures built on it: heuristic and CCCP.

References
----------
.. [1] F. Briggs, X. Z. Fern, R. Raich, Q. Lou (2013): Instance annotation for multi-instance multi-label learning. ACM
       Transactions on Knowledge Discovery from Data 7 (3), article 14.
.. [2] F. Briggs, X. Z. Fern, R. Raich (2012): Rank-loss support instance machines for MIML instance annotation. KDD,
       534-542.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp

from bagwise.core.bags import Bags, cut_bags
from bagwise.kernels.pegasos import ONE_ROW, UPPER_BOUND, WEIGHTED_ROWS, Layout, Support, pegasos
from bagwise.kernels.segments import Rows
from bagwise.solvers.aggregation import Aggregation, averaging_matrix
from bagwise.solvers.losses import Loss, label_lists
from bagwise.solvers.result import Callback, CheckpointLike, SolveResult

BLOCK_ENTRIES = 8192  # instance scores that are worked on at a time: they stay in the processor's cache
LEAST_ROWS = 64  # of a block, however many classes there are


@dataclass(frozen=True)
class BagProblem:
    """alpha / 2 ||W||^2 + loss(F, Y) for weights W, (c, d), and bag scores F, (n, c), that an aggregation gives.

    Attributes
    ----------
    instances : (m, d) float64 array or CSR matrix
    offsets : (n + 1,) array of int
    Y : (n, c) array of 0 and 1
    loss : Loss
    alpha : float
        lambda of the papers.
    relative : (n,) array or None
        Weights of the bags' terms, 1 on average.
    """

    instances: Any
    offsets: np.ndarray
    Y: np.ndarray
    loss: Loss
    alpha: float
    relative: np.ndarray | None = None

    @classmethod
    def build(
        cls, bags: Bags, Y: np.ndarray, loss: Loss, alpha: float, weights: np.ndarray | None = None
    ) -> BagProblem:
        """`weights` of the bags are taken relative to their mean, so that the loss stays a mean over bags."""
        instances = bags.instances.astype(np.float64, copy=False)
        if not sp.issparse(instances):
            instances = np.require(instances, requirements=["C", "W"])  # what the kernels are compiled for
        relative = None if weights is None else weights / weights.mean()
        return cls(instances, np.require(bags.offsets, requirements=["C", "W"]), Y, loss, alpha, relative)

    @property
    def start(self) -> np.ndarray:
        """The zero weights from which every solver starts; the objective is 1 there."""
        return np.zeros((self.Y.shape[1], self.instances.shape[1]))

    def _layout(self) -> Layout:
        """What the kernels see of bags and labels."""
        cuts = cut_bags(self.offsets, max(LEAST_ROWS, BLOCK_ENTRIES // self.Y.shape[1]))
        blocks = np.array([0, *(last for _, last in cuts)])
        block_rows = int(np.diff(self.offsets[blocks]).max())
        weights = self.loss.bag_weights(self.Y)
        weights = weights if self.relative is None else weights * self.relative
        return Layout(self.offsets, *label_lists(self.Y), weights, blocks, block_rows)

    def _means(self) -> BagProblem:
        """The same problem with each bag's mean for its only instance."""
        instances = averaging_matrix(self.offsets) @ self.instances
        return replace(self, instances=instances, offsets=np.arange(len(self.offsets)))

    def aggregate(self, aggregation: Aggregation, weights: np.ndarray) -> tuple[float, Support]:
        """The objective (equation 11), convex only where the aggregation is linear, and the support, at `weights`."""
        bag_scores, support = aggregation(np.asarray(self.instances @ weights.T), self.offsets)
        value, _ = self.loss(bag_scores, self.Y, self.relative)
        return value + 0.5 * self.alpha * float(np.vdot(weights, weights)), support

    def mean_support(self) -> Support:
        """The bags' means for all support instances, as weights of their rows."""
        sizes = np.diff(self.offsets)
        shares = np.repeat(1.0 / sizes, sizes)[:, None].repeat(self.Y.shape[1], axis=1)
        return Support(rows=np.full(self.Y.shape, -1), weights=shares)

    def first_phase(self) -> tuple[BagProblem, Support]:
        """The problem with the bags' means for all support instances, which needs no other instances."""
        return self._means(), Support(weights=np.ones(self.Y.shape))

    def descend(
        self,
        support: Support,
        start: np.ndarray,
        *,
        n_steps: int,
        first_step: int = 1,
        skip_start: bool = False,
        upper_bound: bool = False,
    ) -> Descent:
        """Pegasos on the convex problem that fixed support instances leave (Algorithm 1 of [1]_).

        Step t goes from W to the projection of W - V / (alpha t) on the ball ||W||^2 <= 2 / alpha, which holds the
        solution (Lemma 4.1); V is a sub-gradient of alpha / 2 ||W||^2 + loss.

        Parameters
        ----------
        support : Support
        start : (c, d) array
        n_steps : int
        first_step : int
            Number of the first step, which sets its length.
        skip_start : bool
            Let the best weights be the best after some step, even where the start is better.
        upper_bound : bool
            Use the fixed support for the labels of a bag only; the score of any other class is the largest under the
            current weights. That is CCCP's convex upper bound (equation 25) instead of equation 26.

        Returns
        -------
        Descent
            With n_steps + 1 values: at the start and after every step.

        Notes
        -----
        A step costs one product of instances and weights (none where each support instance is one row: then n c inner
        products) and a sweep over the bags. The slopes of the hinges are small whole numbers of which a step changes
        few, so the sub-gradient is kept and moved by the changed ones only.
        """
        if upper_bound:
            mode = UPPER_BOUND
        else:
            mode = ONE_ROW if support.rows.size else WEIGHTED_ROWS
        weights, best, values = start.copy(), start.copy(), np.empty(n_steps + 1)
        rows, layout = Rows.of(self.instances), self._layout()
        loss, alpha = self.loss.code, self.alpha
        pegasos(mode, rows, layout, support, loss, alpha, first_step, skip_start, weights, best, values)
        return Descent(best, weights, values)


class HingeProblem(Protocol):
    """What `heuristic` and `cccp` ask of a problem; they hand its supports back to it unseen.

    `bagwise.scale` has one whose bags are in pieces.
    """

    @property
    def start(self) -> np.ndarray: ...
    def aggregate(self, aggregation: Aggregation, weights: np.ndarray) -> tuple[float, Any]: ...
    def mean_support(self) -> Any: ...
    def first_phase(self) -> tuple[HingeProblem, Any]: ...
    def descend(
        self,
        support: Any,
        start: np.ndarray,
        *,
        n_steps: int,
        first_step: int = ...,
        skip_start: bool = ...,
        upper_bound: bool = ...,
    ) -> Descent: ...


@dataclass(frozen=True)
class Descent:
    """What `descend` went through: weights of the lowest value, last weights, and the value at every step."""

    best: np.ndarray
    last: np.ndarray
    values: np.ndarray

    @property
    def best_value(self) -> float:
        return float(self.values.min())


def heuristic(
    problem: HingeProblem,
    aggregation: Aggregation,
    *,
    n_phases: int,
    n_steps: int,
    restart: str = "best",
    callback: Callback | None = None,
    checkpoint: CheckpointLike | None = None,
) -> SolveResult:
    """Alternate between finding the support instances and descending with them fixed (Algorithm 4 of [1]_).

    Parameters
    ----------
    problem : HingeProblem
    aggregation : Aggregation
    n_phases, n_steps : int
        T and K of the paper. The first phase uses the bags' means for support; its best weights are never the zero
        weights from which it starts, since they could not tell one instance from another.
    restart : {"best", "last"}
        Go on from the phase's weights of the lowest convex objective, as in [1]_, or from its last, as in [2]_.
    callback : callable or None
        Called after every phase with its number and the objective.
    checkpoint : Checkpoint or None
        Keeps the weights of every phase; if it has kept any, the phases after them are run.

    Returns
    -------
    SolveResult
        The history is the true objective (equation 11) after every phase; it may rise.
    """

    def descend(phase_problem: HingeProblem, support: Any, weights: np.ndarray, first: bool) -> np.ndarray:
        descent = phase_problem.descend(support, weights, n_steps=n_steps, skip_start=first)
        return descent.best if restart == "best" else descent.last

    result = _run_phases(problem, aggregation, problem.first_phase(), descend, n_phases, callback, checkpoint)
    return replace(result, converged=True)


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
    algorithm as printed would return zero. Here the first phase is then replaced by one with the bags' means for all
    scores, as the heuristic's, provided that it lowers the objective.

    Parameters
    ----------
    problem : HingeProblem
    aggregation : Aggregation
        Convex in the weights, with one row for support: ``AGGREGATIONS["max"]``.
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

    def lower(_: HingeProblem, support: Any, weights: np.ndarray, first: bool) -> np.ndarray | None:
        lowered = _lower_bound(problem, support, weights, n_steps, max_steps)
        return _lower_mean(problem, aggregation, n_steps) if lowered is None and first else lowered

    start = problem, problem.mean_support()
    return _run_phases(problem, aggregation, start, lower, n_phases, callback, checkpoint)


def _run_phases(
    problem: HingeProblem,
    aggregation: Aggregation,
    start: tuple[HingeProblem, Any],
    step: Callable[[HingeProblem, Any, np.ndarray, bool], np.ndarray | None],
    n_phases: int,
    callback: Callback | None,
    checkpoint: CheckpointLike | None,
) -> SolveResult:
    """Alternate between `step`, which gives new weights for fixed supports, and the supports at these weights.

    `start` is the problem of the first phase and its support. A step that gives None has converged.
    """
    weights, history, converged = problem.start, list[float](), False
    phase_problem, support = start
    kept = None if checkpoint is None else checkpoint.load()
    if kept is not None:
        weights, history, phase_problem = kept["weights"], kept["history"].tolist(), problem
        support = problem.aggregate(aggregation, weights)[1]
    while len(history) < n_phases and not converged:
        lower = step(phase_problem, support, weights, not history)
        converged = lower is None
        weights, phase_problem = weights if lower is None else lower, problem
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
