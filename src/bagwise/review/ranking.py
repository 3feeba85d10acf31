"""The order in which answers help most."""

from __future__ import annotations

from typing import Any

import numpy as np

from bagwise.workflow.ask import ask_order
from bagwise.workflow.told import Told


def rank_rows(model: Any, told: Told) -> np.ndarray:
    """(m,) all rows; those that somebody answered already come last."""
    m = told.dataset.bags.n_instances
    first = ask_order(model, told, m)
    rest = np.ones(m, dtype=bool)
    rest[first] = False
    return np.concatenate([first, np.flatnonzero(rest)])
