"""What every solver returns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

Callback = Callable[[int, float], None]
"""Called after every iteration with its number, from 1, and the objective."""


@dataclass(frozen=True)
class SolveResult:
    """Weights, the objective there, the iterations used, whether the tolerance was met, the objective's history."""

    weights: np.ndarray
    objective: float
    n_iter: int
    converged: bool
    history: np.ndarray = field(default_factory=lambda: np.empty(0))
