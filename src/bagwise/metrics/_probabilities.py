"""Calibration of probabilities."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from bagwise.core.bags import Bags
from bagwise.core.exceptions import InputError
from bagwise.metrics._validation import as_outcomes, as_values


def reliability_table(outcome: ArrayLike, probability: ArrayLike, n_bins: int = 10) -> list[dict[str, float]]:
    """Mean probability and share of true outcomes in bins of equal width.

    Parameters
    ----------
    outcome : array of 0 and 1
        Whether it was true: labels of bags as an (n, c) matrix, or whether the class of an instance was right.
    probability : array of the same shape, in [0, 1]
    n_bins : int

    Returns
    -------
    list of dict
        For each bin that holds any ``low`` and ``high``, its edges; ``confidence``, the mean probability; ``accuracy``,
        the share that was true; ``count``. A probability on an edge belongs to the bin above.

    Examples
    --------
    >>> from bagwise.metrics import reliability_table
    >>> reliability_table([1, 0, 0, 0], [0.75, 0.75, 0.25, 0.25], n_bins=2)[1]
    {'low': 0.5, 'high': 1.0, 'confidence': 0.75, 'accuracy': 0.5, 'count': 2}
    """
    true, confidence = as_outcomes(outcome, probability)
    if n_bins < 1:
        raise InputError(f"n_bins={n_bins}: there must be at least one bin.")
    which = np.minimum((confidence * n_bins).astype(np.int64), n_bins - 1)
    counts = np.bincount(which, minlength=n_bins)
    confidences = np.bincount(which, confidence, minlength=n_bins)
    accuracies = np.bincount(which, true, minlength=n_bins)
    return [
        {
            "low": i / n_bins,
            "high": (i + 1) / n_bins,
            "confidence": float(confidences[i] / counts[i]),
            "accuracy": float(accuracies[i] / counts[i]),
            "count": int(counts[i]),
        }
        for i in np.flatnonzero(counts).tolist()
    ]


def calibration_error(outcome: ArrayLike, probability: ArrayLike, n_bins: int = 10) -> float:
    """Expected calibration error: the mean difference of accuracy and confidence over the bins.

    ``sum over bins of count / n |accuracy - confidence|``, the bins of `reliability_table`.

    Examples
    --------
    >>> from bagwise.metrics import calibration_error
    >>> calibration_error([[1, 0], [1, 0]], [[0.75, 0.25], [0.75, 0.25]])
    0.25
    """
    table = reliability_table(outcome, probability, n_bins)
    error = sum(row["count"] * abs(row["accuracy"] - row["confidence"]) for row in table)
    return float(error / sum(row["count"] for row in table))


def instance_outcomes(y: ArrayLike | Bags, proba: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """For the instances of known class: whether the most probable class is right, and its probability.

    What `reliability_table` and `calibration_error` take.

    Parameters
    ----------
    y : (m,) array of class indices, or Bags of them
        -1 where the class is not known; such instances are left out.
    proba : (m, c) array

    Examples
    --------
    >>> from bagwise.metrics import instance_outcomes
    >>> instance_outcomes([1, -1, 0], [[0.2, 0.8], [0.5, 0.5], [0.3, 0.7]])
    (array([1., 0.]), array([0.8, 0.7]))
    """
    truth, table = as_values(y, "y"), np.asarray(proba, dtype=np.float64)
    if table.ndim != 2 or len(table) != len(truth):
        raise InputError(
            f"proba has shape {table.shape} but y {len(truth)} values; pass a row of probabilities for each."
        )
    known = truth >= 0
    if not known.any():
        raise InputError("The class of no instance is known, so nothing can be compared; pass instance labels.")
    best = table[known].argmax(axis=1)
    return (best == truth[known]).astype(np.float64), table[known, best]
