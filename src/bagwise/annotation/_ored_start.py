"""Where the weights of ORed logistic regression start from, and where the background's intercept ends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.optimize import brentq

BACKGROUND = object()  # beside the classes, which may be any value
FARTHEST_SHIFT = 30.0


def weights_by_class(model: Any) -> dict[Any, np.ndarray]:
    """(d + 1,) weights of every class as the solver left them, the intercept last; the background's under `BACKGROUND`.

    The shift of the background's intercept comes after the fit and is taken back here: a start from the moved one
    would have to undo it first.
    """
    weights = np.hstack([model.coef_, model.intercept_[:, None]])
    by_class = dict(zip(model.classes_.tolist(), weights, strict=True))
    if hasattr(model, "background_coef_"):
        unmoved = model.background_intercept_ - getattr(model, "background_shift_", 0.0)  # absent in older files
        by_class[BACKGROUND] = np.append(model.background_coef_, unmoved)
    return by_class


def start_weights(last: dict[Any, np.ndarray], classes: np.ndarray, background: bool, n_features: int) -> np.ndarray:
    """(c or c + 1, d + 1) weights to start from: those of the last fit where the class was there, else zero."""
    keys = [*classes.tolist(), *([BACKGROUND] if background else [])]
    start = np.zeros((len(keys), n_features + 1))
    for row, key in zip(start, keys, strict=True):
        if key in last and len(last[key]) == len(row):
            row[:] = last[key]
    return start


def shift_to_share(mean_background: Callable[[float], float], share: float) -> float:
    """The shift of the intercept at which the mean posterior of the background is the share, or the farthest."""
    if mean_background(-FARTHEST_SHIFT) >= share:
        return -FARTHEST_SHIFT
    if mean_background(FARTHEST_SHIFT) <= share:
        return FARTHEST_SHIFT
    return float(brentq(lambda shift: mean_background(shift) - share, -FARTHEST_SHIFT, FARTHEST_SHIFT, xtol=1e-3))
