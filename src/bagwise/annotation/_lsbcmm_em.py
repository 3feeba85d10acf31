"""Variational EM for the logistic stick-breaking conditional multinomial mixture.

Arrays throughout: `X` is (m, d + 1), the last column ones; `sticks` (K - 1, d + 1), the intercept last; `mask` (m, c)
the candidate labels of each instance as 0.0 and 1.0; `counts` (K, c) the parameters of the Dirichlet posteriors. No
(m, K, c) array is ever made: a joint responsibility is r_nkl = phi_nk g_kl mask_nl / Z_n, a product of three factors.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve
from scipy.linalg.blas import dsyrk
from scipy.special import digamma, expit, gammaln, log_expit

from bagwise.solvers.result import Callback, SolveResult, has_settled

NEGLIGIBLE = 1e-14  # a row whose weight in a stick's regression is below this share of an instance is left out of it
TINY = 1e-300
JITTER = 1e-8  # on the Hessian only: a flat intercept may leave it singular, and backtracking keeps the ascent
HALVINGS = 40
ENOUGH = 1e-6  # of the bound, which is of the order of the number of instances
EMPTY, CLOSED = (
    1e-6,
    -30.0,
)  # a component that holds less than this of one instance is closed: intercept -30, no weights
NEWTON_STEPS = 3  # for each stick an iteration; one ended in worse optima, ten gained nothing (docs/mimlfast-lsb.md)


def log_stick_weights(activations: np.ndarray) -> np.ndarray:
    """(m, K) log phi_k = log s(a_k) + sum over j < k of log s(-a_j), s logistic; the last takes the rest."""
    m, n_sticks = activations.shape
    log_weights = np.zeros((m, n_sticks + 1))
    np.cumsum(log_expit(-activations), axis=1, out=log_weights[:, 1:])
    log_weights[:, :-1] += log_expit(activations)
    return log_weights


@dataclass(frozen=True)
class Expectation:
    """Responsibilities (m, K) of the components times the instances' weights, expected label counts, sum_n log Z_n."""

    responsibilities: np.ndarray
    label_counts: np.ndarray
    log_evidence: float


def expected_log_labels(counts: np.ndarray) -> np.ndarray:
    """(K, c) E[log theta_kl] under Dirichlet(counts_k)."""
    return digamma(counts) - digamma(counts.sum(axis=1, keepdims=True))


def expectation(
    log_weights: np.ndarray, counts: np.ndarray, mask: np.ndarray, weights: np.ndarray | None = None
) -> Expectation:
    """The best q(z_n, y_n), proportional to phi_nk exp(E[log theta_kl]) on the candidate labels.

    `weights` (m,) say how often each instance counts.
    """
    gate = np.exp(expected_log_labels(counts))
    allowed = np.maximum(mask @ gate.T, TINY)
    joint = log_weights + np.log(allowed)
    top = joint.max(axis=1, keepdims=True)
    responsibilities = np.exp(joint - top)
    total = responsibilities.sum(axis=1, keepdims=True)
    responsibilities /= total
    log_evidence = np.log(total) + top
    if weights is not None:
        responsibilities *= weights[:, None]
        log_evidence *= weights[:, None]
    label_counts = gate * ((responsibilities / allowed).T @ mask)
    return Expectation(responsibilities, label_counts, float(np.sum(log_evidence)))


def dirichlet_divergence(counts: np.ndarray, alpha: float) -> float:
    """Sum over components of KL(Dirichlet(counts_k) || Dirichlet(alpha, ..., alpha))."""
    n_components, n_classes = counts.shape
    prior = gammaln(n_classes * alpha) - n_classes * gammaln(alpha)
    return float(
        gammaln(counts.sum(axis=1)).sum()
        - gammaln(counts).sum()
        + np.vdot(counts - alpha, expected_log_labels(counts))
        - n_components * prior
    )


def update_sticks(
    X: np.ndarray, sticks: np.ndarray, responsibilities: np.ndarray, sigma2: float, n_steps: int
) -> np.ndarray:
    """Sticks after up to `n_steps` Newton steps each; the regressions are independent of one another.

    Stick k sees the instances that no earlier stick took, with weight s_n = sum over j >= k of r_nj, of which the
    share r_nk is to be taken: sum_n r_nk log s(a_n) + (s_n - r_nk) log s(-a_n) - ||w||^2 / 2 sigma2 is maximised.
    """
    remaining = np.cumsum(responsibilities[:, ::-1], axis=1)[:, ::-1]
    updated = np.empty_like(sticks)
    for k in range(len(sticks)):
        rows = np.flatnonzero(remaining[:, k] > NEGLIGIBLE)
        weight, taken = remaining[rows, k], responsibilities[rows, k]
        updated[k] = _regress(X[rows] if len(rows) < len(X) else X, weight, taken, sticks[k], sigma2, n_steps)
    return updated


def _regress(
    X: np.ndarray, weight: np.ndarray, taken: np.ndarray, start: np.ndarray, sigma2: float, n_steps: int
) -> np.ndarray:
    """Newton's method with backtracking for one weighted, penalised logistic regression."""
    stick, activation = start, X @ start
    precision = np.full(len(start), 1.0 / sigma2)
    precision[-1] = 0.0
    left = weight - taken

    def objective(activation: np.ndarray, stick: np.ndarray) -> float:
        fit = taken @ log_expit(activation) + left @ log_expit(-activation)
        return float(fit - 0.5 * precision @ stick**2)

    value = objective(activation, stick)
    if taken.sum() < EMPTY:
        closed = np.append(np.zeros(len(start) - 1), CLOSED)
        if np.array_equal(start, closed) or objective(np.full(len(X), CLOSED), closed) >= value:
            return closed
    for _ in range(n_steps):
        probability = expit(activation)
        gradient = X.T @ (taken - weight * probability) - precision * stick
        scaled = X * np.sqrt(weight * probability * (1.0 - probability))[:, None]
        hessian = dsyrk(1.0, scaled.T, lower=1)
        hessian[np.diag_indices_from(hessian)] += precision + JITTER
        try:
            direction = cho_solve(cho_factor(hessian, lower=True, check_finite=False), gradient, check_finite=False)
        except LinAlgError:  # features so large that the sum rounds to a matrix that is not positive definite
            direction = gradient / np.maximum(hessian.diagonal(), JITTER)
        if gradient @ direction <= ENOUGH:  # about twice what is still to be gained
            break
        slope, step = X @ direction, 1.0
        for _ in range(HALVINGS):
            trial = objective(activation + step * slope, stick + step * direction)
            if trial > value:
                break
            step *= 0.5
        else:
            break
        stick, activation, value = stick + step * direction, activation + step * slope, trial
    return stick


def initial_expectation(
    mask: np.ndarray, n_components: int, rng: np.random.Generator, weights: np.ndarray | None = None
) -> Expectation:
    """Component k starts as one of label k mod c; an instance is shared at random among those of its candidates."""
    m, n_classes = mask.shape
    label = np.arange(n_components) % n_classes
    responsibilities = mask[:, label] * rng.standard_exponential((m, n_components)) + 1e-9
    responsibilities /= responsibilities.sum(axis=1, keepdims=True)
    if weights is not None:
        responsibilities *= weights[:, None]
    label_counts = np.zeros((n_components, n_classes))
    label_counts[np.arange(n_components), label] = responsibilities.sum(axis=0)
    return Expectation(responsibilities, label_counts, -np.inf)


def variational_em(
    X: np.ndarray,
    mask: np.ndarray,
    n_components: int,
    *,
    alpha: float,
    sigma2: float,
    max_iter: int,
    tol: float,
    rng: np.random.Generator,
    callback: Callback | None = None,
    weights: np.ndarray | None = None,
) -> tuple[SolveResult, np.ndarray]:
    """Sticks (in the `SolveResult`) and Dirichlet counts; `weights` (m,) say how often each instance counts.

    An iteration updates the sticks, then q(theta), then q(z, y); each raises the bound or leaves it. The bound is
    taken after q(z, y), where it is sum_n log Z_n - KL(q(theta) || prior) - ||w||^2 / 2 sigma2.
    """
    state = initial_expectation(mask, n_components, rng, weights)
    sticks = np.zeros((n_components - 1, X.shape[1]))
    history: list[float] = []
    converged = False
    for iteration in range(1, max_iter + 1):
        sticks = update_sticks(X, sticks, state.responsibilities, sigma2, NEWTON_STEPS)
        counts = alpha + state.label_counts
        state = expectation(log_stick_weights(X @ sticks.T), counts, mask, weights)
        penalty = 0.5 * float(np.sum(sticks[:, :-1] ** 2)) / sigma2
        history.append(state.log_evidence - dirichlet_divergence(counts, alpha) - penalty)
        if callback is not None:
            callback(iteration, history[-1])
        if iteration > 1 and has_settled(history[-2], history[-1], tol):
            converged = True
            break
    result = SolveResult(sticks, history[-1], iteration, converged, np.asarray(history))
    return result, alpha + state.label_counts
