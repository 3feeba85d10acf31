"""Models whose scores are linear in the features, as one matrix: what other programs can run."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, RobustScaler, StandardScaler

from bagwise.core.exceptions import InputError
from bagwise.pipeline import unwrap
from bagwise.preprocessing._instances import CLPLScaler
from bagwise.preprocessing._per_instance import PerInstance

AFFINE = (CLPLScaler, MaxAbsScaler, MinMaxScaler, RobustScaler, StandardScaler)
CURE = (
    "Those that can leave are ORed and noisy-or logistic regressions on features that are only scaled "
    "(ored-background, noisy-or)."
)


@dataclass(frozen=True)
class LinearHead:
    """Probabilities of instances from their features x.

    With the link "softmax" they are (1 - uniform) softmax(W x + b) + uniform / k over the k rows, of which the first
    `n_classes` are classes and one more is the background; with "sigmoid" each is sigmoid(w x + b).

    Attributes
    ----------
    weights : (k, d + 1) array
        W, and b in the last column.
    n_classes : int
    link : {"softmax", "sigmoid"}
    uniform : float

    Examples
    --------
    >>> from bagwise import ORedLogisticRegression
    >>> from bagwise.datasets import make_gaussian_bags
    >>> from bagwise.preprocessing import linear_head
    >>> head = linear_head(ORedLogisticRegression().fit(make_gaussian_bags(n_bags=30, random_state=0)))
    >>> head.link, head.n_classes, head.weights.shape
    ('softmax', 5, (5, 9))
    """

    weights: np.ndarray
    n_classes: int
    link: str
    uniform: float = 0.0

    def after(self, slope: np.ndarray, offset: np.ndarray) -> LinearHead:
        """The head of features x that are scaled before, to slope * x + offset."""
        matrix, intercept = self.weights[:, :-1], self.weights[:, -1]
        return replace(self, weights=np.column_stack([matrix * slope, intercept + matrix @ offset]))

    def recalibrated(self, temperature: float, uniform: float, shifts: np.ndarray) -> LinearHead:
        """The head of which the scores are divided by a temperature and shifted, and a share is spread over all."""
        if self.link != "softmax" or self.uniform:
            raise InputError(
                "The probabilities of this model are calibrated together, which no linear head is; fit it "
                "with calibrate=none (--set calibrate=none)."
            )
        weights = self.weights / temperature
        weights[:, -1] += shifts
        return replace(self, weights=weights, uniform=uniform)


def linear_head(estimator: Any) -> LinearHead:
    """What `predict_instances_proba` of a fitted model computes, as one matrix and a link.

    Parameters
    ----------
    estimator : fitted ORed or noisy-or logistic regression, calibrated or not, or a pipeline that scales before it

    Raises
    ------
    InputError
        If the model is another one.

    Examples
    --------
    >>> from bagwise.catalog import make_model
    >>> from bagwise.datasets import make_gaussian_bags
    >>> from bagwise.preprocessing import linear_head
    >>> data = make_gaussian_bags(n_bags=40, random_state=0)
    >>> linear_head(make_model("noisy-or").fit(data.bags, data.Y)).weights.shape
    (5, 9)
    """
    estimator = unwrap(estimator)
    if not isinstance(estimator, Pipeline):
        if not hasattr(estimator, "linear_head"):
            raise InputError(
                f"{type(estimator).__name__} is not linear in the features, so it is no linear head. {CURE}"
            )
        return estimator.linear_head()
    head = linear_head(estimator.steps[-1][1])
    for _, step in reversed(estimator.steps[:-1]):
        if step is not None and step != "passthrough":
            head = head.after(*_slope_and_offset(step))
    return head


def _slope_and_offset(step: Any) -> tuple[np.ndarray, np.ndarray]:
    """What a scaler of single features does to them: it is affine, so that two points say all."""
    scaler = step.transformer_ if isinstance(step, PerInstance) else None
    if not isinstance(scaler, AFFINE) or getattr(scaler, "clip", False):
        name = type(step if scaler is None else scaler).__name__
        raise InputError(
            f"The step {name} does more than scale single features, so the model is no linear head. {CURE}"
        )
    offset, at_one = scaler.transform(np.repeat([[0.0], [1.0]], scaler.n_features_in_, axis=1))
    return at_one - offset, offset
