"""Checks of what measures are given."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from bagwise.core.bags import Bags, as_indicator
from bagwise.core.exceptions import InputError
from bagwise.core.validation import validate_weights


def as_label_matrix(Y: Any, name: str) -> np.ndarray:
    try:
        Y = as_indicator(Y)
    except ValueError as error:  # ours, or numpy's for ragged rows
        raise InputError(f"{name} must be an (n, c) matrix of 0 and 1. {error}") from error
    if Y.size == 0:
        raise InputError(f"{name} has shape {Y.shape}; pass at least one bag and one class.")
    return Y


def as_truth_and_scores(Y: Any, scores: Any) -> tuple[np.ndarray, np.ndarray]:
    Y = as_label_matrix(Y, "Y")
    try:
        scores = np.asarray(scores)
        if np.iscomplexobj(scores):
            raise TypeError("They are complex.")
        scores = scores.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"scores must be an (n, c) array of real numbers. {error}") from error
    check_same_shape(Y, scores, "scores")
    bad = np.argwhere(~np.isfinite(scores))
    if len(bad):
        i, c = bad[0]
        raise InputError(f"scores hold {scores[i, c]} at bag {i}, class {c}; scores must be finite.")
    return Y, scores


def weights_of(sample_weight: ArrayLike | None, n_bags: int) -> np.ndarray:
    """(n,) weights, ones where none were given."""
    weights = validate_weights(sample_weight, n_bags)
    return np.ones(n_bags) if weights is None else weights


def as_outcomes(outcome: Any, probability: Any) -> tuple[np.ndarray, np.ndarray]:
    outcome, probability = (np.asarray(values, dtype=np.float64) for values in (outcome, probability))
    if outcome.shape != probability.shape:
        raise InputError(
            f"outcome has shape {outcome.shape} but probability has shape {probability.shape}; pass one of each."
        )
    outcome, probability = outcome.ravel(), probability.ravel()
    if not len(outcome):
        raise InputError("There is nothing to compare; pass at least one outcome and its probability.")
    if not np.isin(outcome, (0.0, 1.0)).all():
        raise InputError("outcome must hold 0 and 1 only: whether it was true.")
    bad = np.flatnonzero(~((probability >= 0.0) & (probability <= 1.0)))
    if len(bad):
        raise InputError(f"probability holds {probability[bad[0]]} at position {bad[0]}; it must be in [0, 1].")
    return outcome, probability


def check_same_shape(Y: np.ndarray, other: np.ndarray, name: str) -> None:
    if Y.shape != other.shape:
        raise InputError(f"Y has shape {Y.shape} but {name} has shape {other.shape}; pass (n_bags, n_classes).")


def as_values(values: Any, name: str) -> np.ndarray:
    """(m,) array of class values; values of mixed kinds, tuples and None stay the objects that they are."""
    if isinstance(values, Bags):
        values = values.instances
    if isinstance(values, (list, tuple)):
        kinds = {type(value) for value in values}
        numbers = all(issubclass(kind, (int, float, np.number, np.bool_)) for kind in kinds)
        array = np.empty(len(values), dtype=object)
        array[:] = values
        values = np.asarray(values) if numbers or kinds <= {str, np.str_} else array
    values = np.asarray(values)
    if values.ndim != 1 or not len(values):
        raise InputError(f"{name} has shape {values.shape}; expected one value each, and at least one.")
    if values.dtype.kind in "fc" and not np.isfinite(values).all():
        raise InputError(f"{name} holds NaN or infinity at position {np.isfinite(values).argmin()}.")
    return values


def check_same_length(y: Any, other: Any, name: str) -> None:
    if len(y) != len(other):
        raise InputError(f"y has {len(y)} values but {name} has {len(other)}; pass as many of each.")


def as_codes(y: Any, labels: Any) -> tuple[np.ndarray, np.ndarray]:
    """Class values and cluster names as integers from 0."""
    y, labels = as_values(y, "y"), as_values(labels, "labels")
    check_same_length(y, labels, "labels")
    return _encode(y, "y"), _encode(labels, "labels")


def _encode(values: np.ndarray, name: str) -> np.ndarray:
    if values.dtype != object:
        return np.unique(values, return_inverse=True)[1]
    codes: dict[Any, int] = {}
    try:
        return np.array([codes.setdefault(value, len(codes)) for value in values.tolist()])
    except TypeError as error:
        raise InputError(f"{name} holds a value that cannot be hashed: {error}; use strings or numbers.") from None
