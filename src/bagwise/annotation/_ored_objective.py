"""The objective that ORed logistic regression maximises, and its E-step."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from joblib import effective_n_jobs

from bagwise.annotation._background import counted_instances
from bagwise.annotation._rates import RateParameters
from bagwise.kernels.softmax import softmax_in_place, sum_log_partition
from bagwise.kernels.union import Rates, UnionProblem

Objective = Callable[[np.ndarray], tuple[float, np.ndarray]]
THREADING_FROM = 200_000  # entries of the score matrix from which a thread pays for its start


def affine_scores(X: Any, weights: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
    """(m, c) float64 scores X w_c + b_c; `weights` is (c, d + 1), the intercept last."""
    coef, intercept = weights[:, :-1], weights[:, -1]
    if sp.issparse(X) or X.dtype != np.float64:
        scores = np.ascontiguousarray(X @ coef.T.astype(X.dtype), dtype=np.float64)
    else:
        scores = np.matmul(X, coef.T, out=out)
    scores += intercept
    return scores


def affine_gradient(X: Any, residual: np.ndarray) -> np.ndarray:
    """(c, d + 1) sum over instances of residual_ic times (x_i, 1)."""
    gradient = np.empty((residual.shape[1], X.shape[1] + 1))
    gradient[:, -1] = residual.sum(axis=0)
    if sp.issparse(X):
        gradient[:, :-1] = (X.T @ residual.astype(X.dtype, copy=False)).T
    else:
        gradient[:, :-1] = residual.T.astype(X.dtype, copy=False) @ X
    return gradient


def inference_threads(n_entries: int, n_jobs: int | None) -> int:
    """Threads for a score matrix of that many entries: `n_jobs`, or where it is None the processors at hand.

    Fewer where OMP_NUM_THREADS says so, and one where there is too little work for more.
    """
    if n_entries < THREADING_FROM:
        return 1
    if n_jobs is not None:
        return effective_n_jobs(n_jobs)
    available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    limit = os.environ.get("OMP_NUM_THREADS", "")
    return min(available, int(limit)) if limit.isdigit() and int(limit) > 0 else available


class PenalizedLikelihood:
    """What a fit maximises, whoever computes the log-likelihood of weights (c, d + 1), the intercept last.

        L(W) = scale * sum_b log P(Y_b | X_b, W) - l2 / 2 ||W without intercepts||^2

    `scale` is 1, or more where the bags are a sample that stands for all of them. A subclass gives
    `log_likelihood(weights)`, the sum over bags and its gradient, and `n_instances`; where `rates` are not None that
    also fills `statistics`, whose rows sum to what the gradient in the rates is made of. For EM it gives `bend`, for a
    background of a given share `background_mass`.
    """

    n_instances: int
    statistics: np.ndarray
    rates: Rates | None

    def __init__(self, l2: float, scale: float = 1.0):
        self.l2 = l2
        self.scale = scale

    def log_likelihood(self, weights: np.ndarray) -> tuple[float, np.ndarray]:
        raise NotImplementedError

    def bend(self, weights: np.ndarray, direction: np.ndarray) -> Callable[[float], float]:
        """How far the summed log-partition function A(W + t D) is above its tangent at W, as a function of t."""
        raise NotImplementedError

    def background_mass(self, weights: np.ndarray) -> Callable[[float], tuple[float, int]]:
        """Shift of the background's score to its posterior, summed over the instances that count, and their number."""
        raise NotImplementedError

    def errors(self, weights: np.ndarray) -> np.ndarray:
        """(n,) estimated errors of the posteriors, zero where a bag is exact."""
        raise NotImplementedError

    def expectation(self, weights: np.ndarray) -> ORedExpectation:
        """The E-step of generalised EM."""
        return ORedExpectation(self, weights)

    def value_and_gradient(self, weights: np.ndarray) -> tuple[float, np.ndarray]:
        """L(W) and its gradient."""
        value, gradient = self.log_likelihood(weights)
        gradient *= self.scale
        gradient[:, :-1] -= self.l2 * weights[:, :-1]
        penalty = 0.5 * self.l2 * float(np.vdot(weights[:, :-1], weights[:, :-1]))
        return self.scale * value - penalty, gradient

    def negative_mean(self, weights: np.ndarray) -> tuple[float, np.ndarray]:
        """-L(W) / m and its gradient: what the minimiser sees, so that its tolerance does not depend on m."""
        value, gradient = self.value_and_gradient(weights)
        return -value / self.n_instances, -gradient / self.n_instances

    def learning_rates(self, parameters: RateParameters, shape: tuple[int, ...]) -> Objective:
        """-(L(W, rates) + log-prior of the learned rates) / m and its gradient, in weights and then logits, flat."""
        size = int(np.prod(shape))

        def negative_mean(flat: np.ndarray) -> tuple[float, np.ndarray]:
            weights, logits = flat[:size].reshape(shape), flat[size:]
            self.rates = parameters.rates(logits)
            value, gradient = self.value_and_gradient(weights)
            value += parameters.log_prior(logits)
            of_rates = parameters.gradient(logits, self.statistics)
            return -value / self.n_instances, -np.concatenate([gradient.ravel(), of_rates]) / self.n_instances

        return negative_mean


class ORedObjective(PenalizedLikelihood):
    """Of instances in memory, by compiled code; the gradient is X^T (q - p), which one E-step gives."""

    def __init__(
        self,
        X: Any,
        problem: UnionProblem,
        *,
        l2: float,
        scale: float = 1.0,
        method: str,
        max_exact_labels: int,
        n_jobs: int | None = None,
        rates: Rates | None = None,
    ):
        super().__init__(l2, scale)
        self.X = X
        self.problem = problem
        self.method = method
        self.max_exact_labels = max_exact_labels
        self.n_jobs = n_jobs
        self.rates = rates
        self.n_instances = X.shape[0]
        self.statistics = np.empty((len(problem.offsets) - 1, 3))  # of the last evaluation, with rates
        self._scores: np.ndarray | None = None  # one (m, c) array, used again at every evaluation

    def residual(self, weights: np.ndarray) -> tuple[float, np.ndarray]:
        """Log-likelihood, and posterior minus prior probabilities (overwritten by the next call)."""
        if self._scores is None:
            self._scores = np.empty((self.n_instances, len(weights)))
        residual = affine_scores(self.X, weights, self._scores)
        log_likelihood = self._infer(residual, True, statistics=self.statistics)
        return float(log_likelihood.sum()), residual

    def log_likelihood(self, weights: np.ndarray) -> tuple[float, np.ndarray]:
        value, residual = self.residual(weights)
        return value, affine_gradient(self.X, residual)

    def bend(self, weights: np.ndarray, direction: np.ndarray) -> Callable[[float], float]:
        scores, along = affine_scores(self.X, weights), affine_scores(self.X, direction)
        base = sum_log_partition(scores, along, 0.0)
        proba = scores.copy()
        softmax_in_place(proba)
        tangent = float(np.vdot(proba, along))
        return lambda step: sum_log_partition(scores, along, step) - base - step * tangent

    def background_mass(self, weights: np.ndarray) -> Callable[[float], tuple[float, int]]:
        scores, problem = affine_scores(self.X, weights), self.problem
        counted = counted_instances(problem)

        def mass(shift: float) -> tuple[float, int]:
            posterior = scores.copy()
            posterior[:, -1] += shift
            self._infer(posterior, residual=False)
            return float(posterior[counted, -1].sum()), int(counted.sum())

        return mass

    def errors(self, weights: np.ndarray) -> np.ndarray:
        errors = np.zeros(len(self.problem.n_labels))
        self._infer(affine_scores(self.X, weights), False, errors=errors)
        return errors

    def _infer(self, scores: np.ndarray, residual: bool, **options: Any) -> np.ndarray:
        return self.problem.infer_in_place(
            scores,
            softmax=True,
            residual=residual,
            method=self.method,
            max_exact_labels=self.max_exact_labels,
            n_threads=inference_threads(scores.size, self.n_jobs),
            rates=self.rates,
            **options,
        )


class ORedExpectation:
    """E-step at some weights: objective, gradient, and the surrogate of equation 10 along a direction."""

    def __init__(self, objective: PenalizedLikelihood, weights: np.ndarray):
        self._objective = objective
        self._weights = weights
        self.objective, self.gradient = objective.value_and_gradient(weights)

    def surrogate_change(self, direction: np.ndarray) -> Callable[[float], float]:
        """g(W + t D, W) - g(W, W), penalty included, as a function of t.

        The surrogate is linear in the scores but for the log-partition function, and its slope at t = 0 is that of
        the objective, <gradient, D>; so the posterior itself need not be kept:
        g(t) - g(0) = t <gradient, D> - (A(t) - A(0) - t <p, XD>) - l2 / 2 t^2 ||D||^2,
        A the summed log-partition function.
        """
        objective = self._objective
        bend = objective.bend(self._weights, direction)
        slope = float(np.vdot(self.gradient, direction))
        curvature = objective.l2 * float(np.vdot(direction[:, :-1], direction[:, :-1]))

        def change(step: float) -> float:
            return step * slope - objective.scale * bend(step) - 0.5 * step * step * curvature

        return change


class DeviceObjective(PenalizedLikelihood):
    """Of instances that were moved to a device of torch (`bagwise.nn.device`)."""

    def __init__(
        self,
        X: Any,
        problem: UnionProblem,
        n_columns: int,
        *,
        device: str,
        l2: float,
        max_exact_labels: int,
        possible: Rates | None,
        rates: Rates | None,
    ):
        from bagwise.nn import check_torch

        check_torch()
        from bagwise.nn.device import DeviceLikelihood

        super().__init__(l2)
        self.rates = rates
        self.n_instances = X.shape[0]
        self._here = partial(ORedObjective, X, problem, l2=l2, method="auto", max_exact_labels=max_exact_labels)
        self._likelihood = DeviceLikelihood(X, problem, n_columns, device, max_exact_labels, possible)

    def log_likelihood(self, weights: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient, self.statistics = self._likelihood.value_and_gradient(weights, self.rates)
        return value, gradient

    def errors(self, weights: np.ndarray) -> np.ndarray:
        return self._here(rates=self.rates).errors(weights)

    def background_mass(self, weights: np.ndarray) -> Callable[[float], tuple[float, int]]:
        """By compiled code: a dozen evaluations after the fit."""
        return self._here(rates=self.rates).background_mass(weights)
