"""Problem 3 of Zhang and Zhou (2008) and its dual, class by class: kernel matrix, solution, bias.

The problem of class l is a support vector classifier. Its positive examples are the means, in feature space, of the
bags that carry l; its negative ones are the single instances of the other bags. The kernel of a mean is the mean of
the kernel.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from joblib import Parallel, delayed, effective_n_jobs
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import linear_kernel, rbf_kernel
from sklearn.svm import SVC, LinearSVC

from bagwise.core.bags import Bags, cut_bags
from bagwise.core.checks import check_allocation, memory_limit
from bagwise.solvers import maximize_svm_dual
from bagwise.solvers.aggregation import averaging_matrix
from bagwise.solvers.result import SolveResult
from bagwise.solvers.support import rows_at_once

KERNELS = ("linear", "rbf")
ROUTES = {
    "linear": "approximation='primal'",
    "rbf": "approximation='nystroem' or approximation='fourier' (with n_components=)",
}


def kernel_matrix(X: Any, Z: Any, kernel: str, gamma: float) -> np.ndarray:
    """(len(X), len(Z)) float64 kernel values."""
    values = linear_kernel(X, Z) if kernel == "linear" else rbf_kernel(X, Z, gamma=gamma)
    return np.asarray(values, dtype=np.float64)


@dataclass(frozen=True)
class Examples:
    """Rows of a kernel matrix: the means of some bags, then the instances of some bags, in the order of the bags."""

    bags: Bags
    as_mean: np.ndarray  # (n,) bool
    as_instances: np.ndarray  # (n,) bool

    @cached_property
    def taken(self) -> np.ndarray:
        """(n + m,) which means, and which instances behind them, are examples."""
        return np.concatenate([self.as_mean, np.repeat(self.as_instances, self.bags.sizes)])

    def __len__(self) -> int:
        return int(self.taken.sum())

    @property
    def signs(self) -> np.ndarray:
        """1 for means, -1 for instances."""
        n_means = int(self.as_mean.sum())
        return np.repeat([1.0, -1.0], [n_means, len(self) - n_means])

    def bounds(self, C: float, weights: np.ndarray) -> np.ndarray:
        """C times the weight of the bag that each example comes from."""
        return C * np.concatenate([weights, np.repeat(weights, self.bags.sizes)])[self.taken]

    def positions_of(self, part: Examples) -> np.ndarray:
        """Where the examples of `part`, a subset of these, stand among them."""
        return (np.cumsum(self.taken) - 1)[part.taken]

    def coefficients(self, dual: np.ndarray) -> np.ndarray:
        """(m,) weight of every instance in w (equation 9): alpha_i / n_i in a mean, -beta_ij alone."""
        n, sizes = len(self.bags), self.bags.sizes
        weights = np.zeros(len(self.taken))
        weights[self.taken] = dual
        return np.repeat(weights[:n] / sizes, sizes) - weights[n:]


def mean_map_gram(examples: Examples, kernel: str, gamma: float) -> np.ndarray:
    """(len(examples), len(examples)) kernel matrix, of blocks of kernel values that are averaged at once."""
    bags, taken, n = examples.bags, examples.taken, len(examples.bags)
    gram, at = np.empty((len(examples), len(examples))), np.cumsum(taken) - 1
    for first, last in cut_bags(bags.offsets, rows_at_once(24 * bags.n_instances)):
        block, rows = slice(first, last), slice(n + bags.offsets[first], n + bags.offsets[last])
        part = bags[block]
        values = kernel_matrix(part.instances, bags.instances, kernel, gamma)
        means = np.add.reduceat(values, bags.offsets[:-1], axis=1) / bags.sizes
        values = np.hstack([means, values])[:, taken]
        gram[at[rows][taken[rows]]] = values[taken[rows]]
        means = np.add.reduceat(values, part.offsets[:-1], axis=0) / part.sizes[:, None]
        gram[at[block][taken[block]]] = means[taken[block]]
    return gram


# ---------------------------------------------------------------------------------------------------------------------
# Solutions


@dataclass(frozen=True)
class ClassSolution:
    """Weights of the instances in w (equation 9), bias, both objectives, iterations, convergence, history."""

    coefficients: np.ndarray
    bias: float
    dual_objective: float
    primal_objective: float
    n_iter: int
    converged: bool
    history: np.ndarray


def solve_smo(
    gram: np.ndarray, signs: np.ndarray, bounds: np.ndarray | float, *, max_iter: int, tol: float
) -> SolveResult:
    """The dual variables by sequential minimal optimisation (libsvm's, through scikit-learn)."""
    model = SVC(C=1.0, kernel="precomputed", tol=tol, max_iter=max_iter)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the estimator warns of it, with the cure
        model.fit(gram, signs, sample_weight=np.broadcast_to(bounds, signs.shape).copy())
    dual = np.zeros(len(signs))
    dual[model.support_] = np.abs(model.dual_coef_[0])
    n_iter = int(np.max(model.n_iter_))
    return SolveResult(dual, dual_value(gram, signs, dual), n_iter, model.fit_status_ == 0 and n_iter != max_iter)


SOLVERS = {"smo": solve_smo, "frank-wolfe": maximize_svm_dual}


def dual_value(gram: np.ndarray, signs: np.ndarray, dual: np.ndarray) -> float:
    """Equation 13 for one class."""
    used = np.flatnonzero(dual)
    signed = (signs * dual)[used]
    return float(dual.sum() - 0.5 * signed @ (gram[np.ix_(used, used)] @ signed))


def best_bias(outputs: np.ndarray, signs: np.ndarray, weights: np.ndarray) -> float:
    """Middle of the biases that minimise the summed hinge loss: where the KKT conditions hold, theirs.

    The loss is piecewise linear in b with a kink at signs_i - outputs_i for each example; left of all kinks its slope
    is minus the number of positive examples, and each kink adds one. So the minimum lies between two order statistics.
    With 0 < alpha_il < C in the solution both are equation 16. With weights of the hinges each kink adds its own.
    """
    kinks = signs - outputs
    order = np.argsort(kinks, kind="stable")
    slope = np.cumsum(weights[order]) - weights[signs > 0].sum()  # to the right of each kink
    level = 1e-9 * weights.sum()  # a slope of this size is rounding
    first, last = int(np.argmax(slope >= -level)), int(np.argmax(slope > level))
    return float(0.5 * (kinks[order[first]] + kinks[order[last]]))


def solve_all(
    bags: Bags,
    indicator: np.ndarray,
    weights: np.ndarray,
    *,
    kernel: str,
    gamma: float,
    C: float,
    solver: str,
    max_iter: int,
    tol: float,
    n_jobs: int | None,
) -> list[ClassSolution]:
    """Solve the dual for every class of `indicator`, each of which some bags carry and some do not.

    One kernel matrix serves all classes where it fits in memory with the part that each class takes; else each class
    computes its own. What does not fit either way is refused before anything is allocated.
    """
    carries = indicator.astype(bool)
    problems = [Examples(bags, column, ~column) for column in carries.T]
    everything = Examples(bags, np.any(carries, axis=1), np.any(~carries, axis=1))
    largest = max(map(len, problems), default=0)
    n_workers = min(effective_n_jobs(n_jobs), len(problems))
    check_allocation(
        8 * largest**2 * n_workers,
        f"The exact kernel of M3MIML ({largest} x {largest} numbers"
        + (f", {n_workers} at a time)" if n_workers > 1 else ")"),
        f"choose {ROUTES[kernel]}, or train on fewer bags",
    )
    shared = None
    if len(problems) > 1 and 8 * (len(everything) ** 2 + n_workers * largest**2) <= memory_limit():
        shared = mean_map_gram(everything, kernel, gamma)

    def solve(examples: Examples) -> ClassSolution:
        if shared is None:
            gram = mean_map_gram(examples, kernel, gamma)
        else:
            at = everything.positions_of(examples)
            gram = shared[np.ix_(at, at)]
        signs, bounds = examples.signs, examples.bounds(C, weights)
        result = SOLVERS[solver](gram, signs, bounds, max_iter=max_iter, tol=tol)
        used = np.flatnonzero(result.weights)
        bias, slack = _bias_and_slack(gram[:, used] @ (signs * result.weights)[used], signs, bounds)
        norm = float(result.weights.sum() - result.objective)  # 1/2 ||w||^2, from the dual objective itself
        history = result.history if len(result.history) else np.array([result.objective])
        return ClassSolution(
            examples.coefficients(result.weights), bias, result.objective, norm + slack, result.n_iter,
            result.converged, history,
        )  # fmt: skip

    # threads, not processes: libsvm and BLAS release the interpreter, and the matrix is not copied
    return Parallel(n_jobs=n_jobs, prefer="threads")(delayed(solve)(problem) for problem in problems)


def _bias_and_slack(outputs: np.ndarray, signs: np.ndarray, costs: np.ndarray) -> tuple[float, float]:
    """The best bias, and what the slacks cost under it."""
    bias = best_bias(outputs, signs, costs)
    return bias, float(costs @ np.maximum(0.0, 1.0 - signs * (outputs + bias)))


# ---------------------------------------------------------------------------------------------------------------------
# Problem 3 on explicit features: the route for sets whose exact kernel would not fit


def solve_primal(
    bags: Bags,
    indicator: np.ndarray,
    weights: np.ndarray,
    *,
    C: float,
    max_iter: int,
    tol: float,
    n_jobs: int | None,
    random_state: int,
) -> list[ClassSolution]:
    """Solve Problem 3 for every class of `indicator` on the features of `bags`, by liblinear.

    The `coefficients` of a solution are the (D,) weights themselves.
    """
    features = bags.instances
    if not sp.issparse(features):
        check_allocation(
            16 * features.shape[0] * features.shape[1],
            f"The training examples of M3MIML ({features.shape[0]} instances with {features.shape[1]} features, twice)",
            "lower n_components or train on fewer bags",
        )
    means = averaging_matrix(bags.offsets) @ features

    def solve(carries: np.ndarray) -> ClassSolution:
        examples = Examples(bags, carries, ~carries)
        parts = [means[carries], features[examples.taken[len(bags) :]]]
        rows = sp.vstack(parts, format="csr") if sp.issparse(features) else np.concatenate(parts)
        signs, costs = examples.signs, examples.bounds(C, weights)
        model = LinearSVC(C=1.0, loss="hinge", dual=True, tol=tol, max_iter=max_iter, random_state=random_state)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # the estimator warns of it, with the cure
            model.fit(rows, signs, sample_weight=costs)
        coef, n_iter = model.coef_[0], int(model.n_iter_)
        bias, slack = _bias_and_slack(rows @ coef, signs, costs)  # liblinear penalises the bias, Problem 3 does not
        primal = 0.5 * float(coef @ coef) + slack
        return ClassSolution(coef, bias, np.nan, primal, n_iter, n_iter < max_iter, np.array([primal]))

    return Parallel(n_jobs=n_jobs, prefer="threads")(delayed(solve)(column) for column in indicator.astype(bool).T)
