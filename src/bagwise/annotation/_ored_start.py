"""Where the weights of ORed logistic regression start from."""

from __future__ import annotations

from typing import Any

import numpy as np

BACKGROUND = object()  # beside the classes, which may be any value


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
