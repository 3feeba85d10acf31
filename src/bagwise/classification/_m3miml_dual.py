"""Problem 4 of Zhang and Zhou (2008), class by class: its kernel matrix, its solution, its bias.

The problem of class l is a support vector classifier. Its positive examples are the means, in feature space, of the
bags that carry l; its negative ones are the single instances of the other bags. The kernel of a mean is the mean of
the kernel.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import linear_kernel, rbf_kernel
from sklearn.svm import SVC

from bagwise.classification._shared import row_blocks
from bagwise.core.bags import Bags
from bagwise.core.checks import check_allocation, memory_limit
from bagwise.solvers import maximize_svm_dual
from bagwise.solvers.result import SolveResult

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

    @property
    def n_means(self) -> int:
        return int(self.as_mean.sum())

    def __len__(self) -> int:
        return self.n_means + int(self.bags.sizes[self.as_instances].sum())

    @property
    def signs(self) -> np.ndarray:
        """1 for means, -1 for instances."""
        signs = np.full(len(self), -1.0)
        signs[: self.n_means] = 1.0
        return signs

    def bounds(self, C: float, weights: np.ndarray) -> np.ndarray:
        """C times the weight of the bag that each example comes from."""
        instances = np.repeat(self.as_instances, self.bags.sizes)
        return C * np.concatenate([weights[self.as_mean], np.repeat(weights, self.bags.sizes)[instances]])

    def positions_of(self, part: Examples) -> np.ndarray:
        """Where the examples of `part`, a subset of these, stand among them."""
        mean_at = np.cumsum(self.as_mean) - 1
        rows = np.repeat(self.as_instances, self.bags.sizes)
        instance_at = self.n_means + np.cumsum(rows) - 1
        wanted = np.repeat(part.as_instances, self.bags.sizes)
        return np.concatenate([mean_at[part.as_mean], instance_at[wanted]])

    def coefficients(self, dual: np.ndarray) -> np.ndarray:
        """(m,) weight of every instance in w (equation 9): alpha_i / n_i in a mean, -beta_ij alone."""
        sizes = self.bags.sizes
        weights = np.zeros(self.bags.n_instances)
        weights[np.repeat(self.as_mean, sizes)] = np.repeat(
            dual[: self.n_means] / sizes[self.as_mean], sizes[self.as_mean]
        )
        weights[np.repeat(self.as_instances, sizes)] = -dual[self.n_means :]
        return weights


def mean_map_gram(examples: Examples, kernel: str, gamma: float) -> np.ndarray:
    """(len(examples), len(examples)) kernel matrix, with each block of kernel values computed once.

    Bags that appear both as a mean and as instances get their mean by summing rows of the instances' part. Bags that
    appear as a mean only are averaged block by block, so their instances are never in memory squared.
    """
    bags, p = examples.bags, examples.n_means
    gram = np.empty((len(examples), len(examples)))
    singles = bags[examples.as_instances] if examples.as_instances.any() else None
    both = examples.as_mean & examples.as_instances
    stored = both[examples.as_mean]  # of the means, those whose instances are rows as well
    if singles is not None:
        for rows in row_blocks(singles.n_instances, 8 * singles.n_instances):
            values = kernel_matrix(singles.instances[rows], singles.instances, kernel, gamma)
            gram[p + rows.start : p + rows.stop, p:] = values
        if both.any():
            kept = both[examples.as_instances]
            sums = np.add.reduceat(gram[p:, p:], singles.offsets[:-1], axis=0)[kept]
            gram[np.flatnonzero(stored), p:] = sums / singles.sizes[kept][:, None]
    if not stored.all():
        lone = bags[examples.as_mean & ~examples.as_instances]
        at = np.flatnonzero(~stored)
        for block in _bag_blocks(lone, max(lone.n_instances, 1 if singles is None else singles.n_instances)):
            part = lone[block]
            if singles is not None:
                gram[at[block], p:] = _row_means(kernel_matrix(part.instances, singles.instances, kernel, gamma), part)
            columns = _row_means(kernel_matrix(part.instances, lone.instances, kernel, gamma), part)
            gram[np.ix_(at[block], at)] = _row_means(columns.T, lone).T
    if stored.any():  # a mean's kernel with these is a mean over columns that are there already
        assert singles is not None
        kept = both[examples.as_instances]
        sums = np.add.reduceat(gram[:p, p:], singles.offsets[:-1], axis=1)[:, kept]
        means = sums / singles.sizes[kept]
        gram[:p, np.flatnonzero(stored)] = means
        gram[np.flatnonzero(stored), :p] = means.T
    gram[p:, :p] = gram[:p, p:].T
    return gram


def _bag_blocks(bags: Bags, width: int) -> list[slice]:
    """Slices of bags whose instances, times `width`, make a block of modest size."""
    room = max(1, min(memory_limit() // 16, 2**28) // (8 * width))
    cuts, start = [0], 0
    for i in range(1, len(bags)):
        if bags.offsets[i + 1] - bags.offsets[start] > room:
            cuts.append(i)
            start = i
    return [slice(a, b) for a, b in zip(cuts, [*cuts[1:], len(bags)], strict=True)]


def _row_means(values: np.ndarray, bags: Bags) -> np.ndarray:
    """Mean over the rows of each bag."""
    return np.add.reduceat(values, bags.offsets[:-1], axis=0) / bags.sizes[:, None]


# ------------------------------------------------------------------------------------------------------------
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


def best_bias(outputs: np.ndarray, signs: np.ndarray, weights: np.ndarray | None = None) -> float:
    """Middle of the biases that minimise the summed hinge loss: where the KKT conditions hold, theirs.

    The loss is piecewise linear in b with a kink at signs_i - outputs_i for each example; left of all kinks its slope
    is minus the number of positive examples, and each kink adds one. So the minimum lies between two order statistics.
    With 0 < alpha_il < C in the solution both are equation 16. With weights of the hinges each kink adds its own.
    """
    weights = np.ones(len(signs)) if weights is None else weights
    kinks = signs - outputs
    order = np.argsort(kinks, kind="stable")
    slope = np.cumsum(weights[order]) - weights[signs > 0].sum()  # to the right of each kink
    level = 1e-9 * weights.sum()  # a slope of this size is rounding
    first, last = int(np.argmax(slope >= -level)), int(np.argmax(slope > level))
    return float(0.5 * (kinks[order[first]] + kinks[order[last]]))


def solve_class(
    examples: Examples,
    gram: np.ndarray,
    bounds: np.ndarray,
    solver: str,
    *,
    max_iter: int,
    tol: float,
) -> ClassSolution:
    """Solve the problem of one class; its matrix is `gram`, its dual variables are at most `bounds`."""
    signs = examples.signs
    result = SOLVERS[solver](gram, signs, bounds, max_iter=max_iter, tol=tol)
    used = np.flatnonzero(result.weights)
    outputs = gram[:, used] @ (signs * result.weights)[used]
    bias = best_bias(outputs, signs, bounds)
    slack = float(bounds @ np.maximum(0.0, 1.0 - signs * (outputs + bias)))
    norm = float(result.weights.sum() - result.objective)  # 1/2 ||w||^2, from the dual objective itself
    history = result.history if len(result.history) else np.array([result.objective])
    coefficients = examples.coefficients(result.weights)
    return ClassSolution(coefficients, bias, result.objective, norm + slack, result.n_iter, result.converged, history)


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
    """Solve every class of `indicator`, each of which some bags carry and some do not.

    One kernel matrix serves all classes where it fits in memory with the part that each class takes; else each class
    computes its own. What does not fit either way is refused before anything is allocated.
    """
    carries = indicator.astype(bool)
    problems = [Examples(bags, column, ~column) for column in carries.T]
    everything = Examples(bags, np.any(carries, axis=1), np.any(~carries, axis=1))
    largest = max(len(problem) for problem in problems)
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

    def solve(problem: Examples) -> ClassSolution:
        if shared is None:
            gram = mean_map_gram(problem, kernel, gamma)
        else:
            at = everything.positions_of(problem)
            gram = shared[np.ix_(at, at)]
        return solve_class(problem, gram, problem.bounds(C, weights), solver, max_iter=max_iter, tol=tol)

    # threads, not processes: libsvm and BLAS release the interpreter, and the matrix is not copied
    return Parallel(n_jobs=n_jobs, prefer="threads")(delayed(solve)(problem) for problem in problems)
