"""What every solver returns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from bagwise.core.typing import Callback

__all__ = ["Callback", "CheckpointLike", "SolveResult", "has_settled"]


class CheckpointLike(Protocol):
    """Keeps the state of a solver outside of the process, as `bagwise.io.checkpoint.Checkpoint` does."""

    def load(self) -> dict[str, np.ndarray] | None:
        """The arrays that were kept last, or None."""

    def save(self, **arrays: Any) -> None:
        """Keep these arrays."""

    def remember(
        self, objective: Callable[[np.ndarray], tuple[float, np.ndarray]]
    ) -> Callable[[np.ndarray], tuple[float, np.ndarray]]:
        """The objective, which gives again what was evaluated before an interruption."""


@dataclass(frozen=True)
class SolveResult:
    """Weights, the objective there, the iterations used, whether the tolerance was met, the objective's history.

    Examples
    --------
    >>> import numpy as np
    >>> from bagwise.solvers import SolveResult
    >>> result = SolveResult(np.zeros(2), objective=1.5, n_iter=2, converged=True, history=np.array([4.0, 2.0, 1.5]))
    >>> bool(result.history[-1] == result.objective), result.converged
    (True, True)
    """

    weights: np.ndarray
    objective: float
    n_iter: int
    converged: bool
    history: np.ndarray = field(default_factory=lambda: np.empty(0))


def has_settled(last: float, value: float, tol: float) -> bool:
    """Whether an iteration changed the objective by no more than the share `tol` of its size; never where that is 0."""
    return tol > 0.0 and abs(value - last) <= tol * abs(value)
