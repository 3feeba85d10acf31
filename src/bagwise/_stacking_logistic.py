"""The two logistic regressions of `bagwise.stacking`: on the numbers of a label, and of the judges' logits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit

from bagwise.solvers.lbfgs import minimize_lbfgs

OWN_SCALES = (0.1, 0.3, 1.0)
POOL_PENALTY = 1e-3  # keeps the weights of two judges that say the same near each other


class SharedLogistic(NamedTuple):
    """One logistic regression a label, whose weights are those of all labels plus a part of its own.

    With z standardised over all pairs of bag and label, the logit of label l is z . (u + s v_l) + a + s b_l; they
    minimise the summed negative log-likelihood of all pairs plus half of the squared norm of u, v and b. A small s
    (`own_scale`) makes all labels use the same weights.

    Attributes
    ----------
    coef : (c, k) array
        On features as they are, not standardised.
    intercept : (c,) array
    """

    coef: np.ndarray
    intercept: np.ndarray

    @classmethod
    def fit(
        cls, features: np.ndarray, targets: np.ndarray, own_scale: float, weights: np.ndarray | None = None
    ) -> SharedLogistic:
        """From (n, c, k) features and (n, c) zeros and ones; `weights` (n,) say how often each bag counts."""
        n_classes, n_features = features.shape[1:]
        counts = np.ones(len(features)) if weights is None else weights
        mean = np.average(features.mean(axis=1), axis=0, weights=counts)
        deviation = np.sqrt(np.average(((features - mean) ** 2).mean(axis=1), axis=0, weights=counts))
        deviation = np.where(deviation > 0, deviation, 1.0)
        z = np.ascontiguousarray(((features - mean) / deviation).transpose(1, 0, 2))  # one block a label
        truth = targets.T

        def weights_of(flat: np.ndarray) -> np.ndarray:
            """(c, k + 1), the intercepts last."""
            own = flat[n_features + 1 :].reshape(n_classes, n_features + 1)
            return flat[: n_features + 1] + own_scale * own

        def objective(flat: np.ndarray) -> tuple[float, np.ndarray]:
            weights = weights_of(flat)
            scores = np.matmul(z, weights[:, :-1, None])[:, :, 0] + weights[:, -1:]
            residual = counts * (expit(scores) - truth)
            by_label = np.column_stack([np.matmul(residual[:, None, :], z)[:, 0, :], residual.sum(axis=1)])
            penalised = flat.copy()
            penalised[n_features] = 0.0  # the intercept of all labels is free
            value = np.sum(counts * (np.logaddexp(0.0, scores) - truth * scores)) + 0.5 * penalised @ penalised
            return float(value), np.concatenate([by_label.sum(axis=0), own_scale * by_label.ravel()]) + penalised

        start = np.zeros((n_classes + 1) * (n_features + 1))
        weights = weights_of(minimize_lbfgs(objective, start, max_iter=500, tol=1e-5).weights)
        coef = weights[:, :-1] / deviation
        return cls(coef, weights[:, -1] - coef @ mean)

    def logits(self, features: np.ndarray) -> np.ndarray:
        """(n, c) from (n, c, k)."""
        return np.einsum("nck,ck->nc", features, self.coef) + self.intercept


def choose_own_scale(
    features: np.ndarray, targets: np.ndarray, splits: Sequence[Any], weights: np.ndarray | None = None
) -> tuple[float, np.ndarray]:
    """The `own_scale` of the greatest held-out likelihood, and the (n, c) held-out logits under it."""
    found = {}
    for own_scale in OWN_SCALES:
        logits = np.empty(targets.shape)
        for train, held_out in splits:
            counts = None if weights is None else weights[train]
            judge = SharedLogistic.fit(features[train], targets[train], own_scale, counts)
            logits[held_out] = judge.logits(features[held_out])
        found[own_scale] = logits
    best = max(OWN_SCALES, key=lambda own_scale: mean_log_likelihood(found[own_scale], targets, weights))
    return best, found[best]


def mean_log_likelihood(logits: np.ndarray, targets: np.ndarray, weights: np.ndarray | None = None) -> float:
    """Of zeros and ones, a pair of bag and label; `weights` are those of rows."""
    values = targets * logits - np.logaddexp(0.0, logits)
    return float(np.mean(values) if weights is None else np.average(values, axis=0, weights=weights).mean())


def pool_weights(logits: np.ndarray, targets: np.ndarray, counts: np.ndarray | None = None) -> tuple[np.ndarray, float]:
    """Non-negative weights of the judges and an intercept that make the targets most likely, and that likelihood.

    Parameters
    ----------
    logits : (n, c, k) array
        Of judges that did not see the bag.
    targets : (n, c) array of 0 and 1
    counts : (n,) array or None
        How often each bag counts.

    Returns
    -------
    (k + 1,) array, the intercept last, and the mean log-likelihood of a pair.
    """
    k = logits.shape[2]
    design = np.column_stack([logits.reshape(-1, k), np.ones(targets.size)])
    truth = targets.ravel()
    shares = np.ones(len(truth)) if counts is None else np.repeat(counts, targets.shape[1])
    shares = shares / shares.sum()
    start = np.append(np.full(k, 1.0 / k), 0.0)

    def objective(weights: np.ndarray) -> tuple[float, np.ndarray]:
        scores = design @ weights
        away = weights - start
        value = -mean_log_likelihood(scores, truth, shares) + 0.5 * POOL_PENALTY * away @ away
        return value, design.T @ (shares * (expit(scores) - truth)) + POOL_PENALTY * away

    bounds = [(0.0, None)] * k + [(None, None)]
    weights = minimize(objective, start, jac=True, method="L-BFGS-B", bounds=bounds, options={"gtol": 1e-8}).x
    return weights, mean_log_likelihood(design @ weights, truth, shares)
