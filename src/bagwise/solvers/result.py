"""What every solver returns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

Callback = Callable[[int, float], None]
"""Called after every iteration with its number, from 1, and the objective."""


class Keeper(Protocol):
    """Keeps the state of a solver outside of the process (`bagwise.io.checkpoint.Checkpoint`)."""

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
    """Weights, the objective there, the iterations used, whether the tolerance was met, the objective's history."""

    weights: np.ndarray
    objective: float
    n_iter: int
    converged: bool
    history: np.ndarray = field(default_factory=lambda: np.empty(0))
