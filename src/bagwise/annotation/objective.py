"""The objective that ORed logistic regression maximises, and its E-step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.special import logsumexp

from bagwise.annotation.rates import RateParameters
from bagwise.core.bags import Bags, cut_bags
from bagwise.core.exceptions import InputError
from bagwise.solvers import SolveResult, minimize_lbfgs
from bagwise.solvers.result import Callback, CheckpointLike
from bagwise.union import (
    LabelNoise,
    UnionProblem,
    count_instances,
    inference_threads,
    softmax_in_place,
    sum_log_partition,
)

BLOCK_ENTRIES = 2**20  # scores of a block; it stays in the processor's cache from one step to the next
TIE_STEPS, TIE_TOLERANCE = 100, 1e-4
OWN_FROM = 32  # times the labels of a bag, from which number of classes on it is faster to look at its own alone


def cut_blocks(offsets: np.ndarray, n_columns: int) -> list[tuple[int, int]]:
    """First and last bag of blocks of neighbours with at most `BLOCK_ENTRIES` scores, or of one bag."""
    return cut_bags(offsets, max(BLOCK_ENTRIES // max(n_columns, 1), 1))


def by_blocks(bags: Bags, n_columns: int, function: Callable[[Bags], np.ndarray]) -> np.ndarray:
    """What a function gives for bags, of some of them at a time: rows of bags or of instances, one after another."""
    blocks = cut_blocks(bags.offsets, n_columns)
    parts = [function(bags if len(blocks) == 1 else bags[first:last]) for first, last in blocks]
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


@dataclass(frozen=True)
class Block:
    """Bags that follow each other: their rows, their numbers, what is fixed about them."""

    rows: slice
    bags: slice
    problem: UnionProblem

    @classmethod
    def cut(cls, problem: UnionProblem, n_columns: int) -> list[Block]:
        """All bags of a problem in blocks, where work on an instance fills so many columns."""
        rows = problem.offsets.tolist()
        return [
            cls(slice(rows[first], rows[last]), slice(first, last), problem.part(first, last))
            for first, last in cut_blocks(problem.offsets, n_columns)
        ]

    @cached_property
    def own(self) -> _OwnLabels:
        return _OwnLabels.of(self.problem)


def own_labels_pay(problem: UnionProblem, n_columns: int) -> bool:
    """Whether bags have so few labels beside the number of classes that theirs are better looked at alone."""
    return n_columns >= OWN_FROM * (int(np.diff(problem.label_starts).max(initial=0)) + 2)


@dataclass(frozen=True)
class _OwnLabels:
    """Bags whose scores have a column for each of their own labels, then the background's, then all others' together.

    Attributes
    ----------
    problem : UnionProblem
        In these columns.
    columns : (n, k) int
        Class of each of a bag's own columns; 0 where it has fewer.
    filled : (n, k) bool
        Where it has one.
    background : int
        The background among the classes, or -1.
    """

    problem: UnionProblem
    columns: np.ndarray
    filled: np.ndarray
    background: int

    @classmethod
    def of(cls, problem: UnionProblem) -> _OwnLabels:
        n_labels = np.diff(problem.label_starts)
        n_bags = len(n_labels)
        most = int(n_labels.max(initial=0))
        bag = np.repeat(np.arange(n_bags), n_labels)
        place = np.arange(len(problem.labels)) - np.repeat(problem.label_starts[:-1], n_labels)
        columns, filled = np.zeros((n_bags, most), np.int64), np.zeros((n_bags, most), bool)
        columns[bag, place], filled[bag, place] = problem.labels, True
        known = problem.known
        if len(known):
            known = _own_columns(problem, known, columns, filled)
        own = replace(problem, labels=place, known=known, background=most if problem.background >= 0 else -1)
        if len(problem.members):
            own = replace(own, members=_own_members(problem, place))
        if len(problem.said):
            filled = filled.copy()
            filled[bag, place] = problem.said != -np.inf  # what is absent is no answer
        return cls(own, columns, filled, problem.background)

    @cached_property
    def bag(self) -> np.ndarray:
        """(m,) bag of each instance."""
        return np.repeat(np.arange(len(self.columns)), np.diff(self.problem.offsets))

    def gather(self, scores: np.ndarray) -> np.ndarray:
        """(m, k + 2) scores of the own columns and the background, among those of all; the others' is left at -inf."""
        return self._laid_out(lambda columns: scores[np.arange(len(scores)), columns])

    def of_instances(self, X: Any, weights: np.ndarray) -> np.ndarray:
        """The same from dense instances and (c, d + 1) weights, without the scores of other classes."""
        return self._laid_out(lambda columns: np.einsum("ij,ij->i", X, weights[columns, :-1]) + weights[columns, -1])

    def _laid_out(self, scores_of: Callable[[Any], np.ndarray]) -> np.ndarray:
        """From a function that gives the (m,) scores of one class an instance, or of one class."""
        most = self.columns.shape[1]
        own = np.full((len(self.bag), most + 2), -np.inf)
        for j in range(most):
            own[:, j] = scores_of(self.columns[self.bag, j])
        own[:, :most][~self.filled[self.bag]] = -np.inf
        if self.background >= 0:
            own[:, most] = scores_of(np.full(len(self.bag), self.background))
        return own

    def spread(self, posterior: np.ndarray, n_columns: int) -> sp.csr_matrix:
        """The (m, k + 2) posterior as an (m, c) matrix that is zero elsewhere."""
        columns, inside = self.columns[self.bag], self.filled[self.bag]
        if self.background >= 0:
            columns = np.hstack([columns, np.full((len(columns), 1), self.background)])
            inside = np.hstack([inside, np.ones((len(inside), 1), dtype=bool)])
        starts = np.concatenate([[0], np.cumsum(inside.sum(axis=1))])
        values = posterior[:, : columns.shape[1]][inside]
        return sp.csr_matrix((values, columns[inside], starts), shape=(len(columns), n_columns))

    def best(self, posterior: np.ndarray) -> np.ndarray:
        """(m,) class of the most probable own label, -1 in a bag without labels."""
        if not self.columns.shape[1]:
            return np.full(len(self.bag), -1, dtype=np.int64)
        among = np.where(self.filled[self.bag], posterior[:, : self.columns.shape[1]], -1.0)
        labels = self.columns[self.bag, among.argmax(axis=1)]
        labels[~self.filled[self.bag].any(axis=1)] = -1
        return labels


def _own_members(problem: UnionProblem, place: np.ndarray) -> np.ndarray:
    """Members of groups as own columns; each of them is among the labels of its bag, which are in order."""
    n_columns = problem.highest_column + 1
    first, last = problem.group_starts[0], problem.group_starts[-1]
    bag = np.repeat(np.arange(len(problem.group_starts) - 1), np.diff(problem.group_starts))
    sizes = np.diff(problem.member_starts)
    members, bag_of = problem.members.copy(), np.repeat(bag, sizes[first:last])
    mine = slice(problem.member_starts[first], problem.member_starts[last])
    keys = np.repeat(np.arange(len(problem.n_labels)), np.diff(problem.label_starts)) * n_columns + problem.labels
    members[mine] = place[np.searchsorted(keys, bag_of * n_columns + members[mine])]
    return members


def _own_columns(problem: UnionProblem, known: np.ndarray, columns: np.ndarray, filled: np.ndarray) -> np.ndarray:
    """Known classes as own columns; one that is not listed is among all others."""
    most = columns.shape[1]
    own = np.full(len(known), -1, dtype=np.int64)
    rows = np.flatnonzero(known >= 0)
    bag = np.searchsorted(problem.offsets, rows, side="right") - 1
    same = (columns[bag] == known[rows, None]) & filled[bag]
    own[rows] = np.where(same.any(axis=1), same.argmax(axis=1), most + 1) if most else most + 1
    own[rows[known[rows] == problem.background]] = most
    return own


def exponentials(scores: np.ndarray, n_threads: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Overwrite scores by exp(score - top) of their row; gives the (m,) tops and sums of rows in double precision."""
    tops, totals = np.empty(len(scores)), np.empty(len(scores))

    def work(first: int, last: int) -> None:
        part = scores[first:last]
        top = part.max(axis=1)
        tops[first:last] = top
        part -= top[:, None]
        np.exp(part, out=part)
        part.sum(axis=1, dtype=np.float64, out=totals[first:last])

    _in_threads(work, len(scores), n_threads)
    return tops, totals


def _in_threads(work: Callable[[int, int], None], n_rows: int, n_threads: int) -> None:
    """Rows are worked on alone, so that nothing depends on how many threads there are."""
    if n_threads == 1 or n_rows < 2 * n_threads:
        work(0, n_rows)
        return
    cuts: Sequence[int] = np.linspace(0, n_rows, n_threads + 1).astype(int).tolist()
    with ThreadPoolExecutor(n_threads) as pool:
        list(pool.map(work, cuts[:-1], cuts[1:]))


Objective = Callable[[np.ndarray], tuple[float, np.ndarray]]
FEW = 32  # blocks whose scores a search along a line keeps; those of more are made again at every step


def affine_scores(X: Any, weights: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
    """(m, c) float64 scores X w_c + b_c; `weights` is (c, d + 1), the intercept last."""
    coef, intercept = weights[:, :-1], weights[:, -1]
    if sp.issparse(X) or X.dtype != np.float64:
        scores = np.ascontiguousarray(X @ coef.T.astype(X.dtype), dtype=np.float64)
    else:
        scores = np.matmul(X, coef.T, out=out)
    scores += intercept
    return scores


def _plain_scores(X: Any, weights: np.ndarray) -> np.ndarray:
    """The same in the precision of the instances."""
    scores = np.ascontiguousarray(X @ weights[:, :-1].T.astype(X.dtype))
    scores += weights[:, -1].astype(X.dtype)
    return scores


def affine_gradient(X: Any, residual: Any) -> np.ndarray:
    """(c, d + 1) sum over instances of residual_ic, dense or sparse, times (x_i, 1)."""
    gradient = np.empty((residual.shape[1], X.shape[1] + 1))
    gradient[:, -1] = residual.sum(axis=0)
    product = X.T @ residual if sp.issparse(residual) else None
    if product is not None:
        gradient[:, :-1] = (product.toarray() if sp.issparse(product) else product).T
    elif sp.issparse(X):
        gradient[:, :-1] = (X.T @ residual.astype(X.dtype, copy=False)).T
    else:
        gradient[:, :-1] = residual.T.astype(X.dtype, copy=False) @ X
    return gradient


def _weighted_gradient(X: Any, scores: np.ndarray, row_weights: np.ndarray) -> np.ndarray:
    """`affine_gradient` of scores times a weight a row, which is put onto the instances: they have fewer columns."""
    gradient = np.empty((scores.shape[1], X.shape[1] + 1))
    row_weights = row_weights.astype(scores.dtype, copy=False)
    gradient[:, -1] = row_weights @ scores
    if sp.issparse(X):
        gradient[:, :-1] = (X.multiply(row_weights[:, None]).T @ scores).T
    else:
        gradient[:, :-1] = scores.T @ (X * row_weights[:, None])
    return gradient


class PenalizedLikelihood:
    """What a fit maximises, whoever computes the log-likelihood of weights (c, d + 1), the intercept last.

        L(W) = scale * sum_b v_b log P(Y_b | X_b, W) - l2 / 2 ||W without intercepts||^2

    v_b is the weight of a bag, 1 where none are given. What is penalised is the distance from `center`, which is zero
    unless classes have features of their own (`tie`). `scale` is 1, or more where the bags are a sample that stands
    for all of them. A subclass gives `log_likelihood(weights)`, the sum over bags and its gradient, and `n_instances`;
    where `rates` are not None that also fills `statistics`, whose rows sum to what the gradient in the rates is made
    of. For EM it gives `bend`, for a background of a given share `background_mass`.
    """

    n_instances: float  # each counted as often as its bag weighs
    statistics: np.ndarray
    rates: LabelNoise | None
    center: np.ndarray | float = 0.0  # (c, d)

    def __init__(self, l2: float, scale: float = 1.0):
        self.l2 = l2
        self.scale = scale

    def log_likelihood(self, weights: np.ndarray) -> tuple[float, np.ndarray]:
        raise NotImplementedError

    def bend(self, weights: np.ndarray, direction: np.ndarray) -> Callable[[float], float]:
        """How far the summed log-partition function A(W + t D) is above its tangent at W, as a function of t."""
        raise NotImplementedError

    def background_mass(self, weights: np.ndarray) -> Callable[[float], tuple[float, float]]:
        """Shift of the background's score to its posterior, summed over the instances that count, and their number."""
        raise NotImplementedError

    def errors(self, weights: np.ndarray) -> np.ndarray:
        """(n,) estimated errors of the posteriors, zero where a bag is exact."""
        raise NotImplementedError

    def expectation(self, weights: np.ndarray) -> _ORedExpectation:
        """The E-step of generalised EM."""
        return _ORedExpectation(self, weights)

    def value_and_gradient(self, weights: np.ndarray) -> tuple[float, np.ndarray]:
        """L(W) and its gradient."""
        value, gradient = self.log_likelihood(weights)
        gradient *= self.scale
        away = weights[:, :-1] - self.center
        gradient[:, :-1] -= self.l2 * away
        return self.scale * value - 0.5 * self.l2 * float(np.vdot(away, away)), gradient

    def tie(self, weights: np.ndarray, places: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
        """Center the weights of classes on features of their own on one that all share; gives weights to start from.

        `places` are their rows and columns. The shared weight is learned alone, with the intercepts: next to features
        enough to explain all bags it would have nothing left to say.
        """

        def place(flat: np.ndarray) -> np.ndarray:
            tied = np.zeros(weights.shape)
            tied[places], tied[:, -1] = flat[0], flat[1:]
            return tied

        def negative_mean(flat: np.ndarray) -> tuple[float, np.ndarray]:
            value, gradient = self.log_likelihood(place(flat))
            value -= 0.5 * self.l2 * flat[0] ** 2
            slopes = np.append(gradient[places].sum() - self.l2 * flat[0], gradient[:, -1])
            return -value / self.n_instances, -slopes / self.n_instances

        start = np.append(0.0, weights[:, -1])
        found = place(
            minimize_lbfgs(negative_mean, start, max_iter=TIE_STEPS, tol=TIE_TOLERANCE, callback=None).weights
        )
        self.center = found[:, :-1]
        return weights if weights[:, :-1].any() else found

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


def own_places(
    own_features: Sequence[int] | None, n_classes: int, n_features: int
) -> tuple[np.ndarray, np.ndarray] | None:
    """Rows and columns of the weights of the classes that have a feature of their own; None where no class has."""
    if own_features is None:
        return None
    columns = np.asarray(own_features)
    if columns.shape != (n_classes,) or columns.dtype.kind not in "iu" or columns.max() >= n_features:
        raise InputError(
            f"own_features is {list(own_features)}; expected {n_classes} whole numbers, for each class that of one of "
            f"{n_features} features, or -1."
        )
    rows = np.flatnonzero(columns >= 0)
    return (rows, columns[rows]) if len(rows) else None


def climb(
    likelihood: PenalizedLikelihood,
    weights: np.ndarray,
    parameters: RateParameters,
    last_rates: dict[str, Any],
    *,
    max_iter: int,
    tol: float,
    callback: Callback | None,
    checkpoint: CheckpointLike | None,
    own: tuple[np.ndarray, np.ndarray] | None = None,
) -> tuple[SolveResult, dict[str, float]]:
    """L-BFGS on the weights and, where rates are to be learned, on their logits; these rates by name.

    `own` are the places of weights of classes on features of their own. The history is that of the objective itself,
    not of what the minimiser sees; `likelihood` keeps the learned rates.
    """
    objective: Objective = likelihood.negative_mean
    if own is not None:
        if parameters.learned:
            likelihood.rates = parameters.rates(parameters.start(last_rates))
        weights = likelihood.tie(weights, own)
    start = weights
    if parameters.learned:
        objective = likelihood.learning_rates(parameters, weights.shape)
        start = np.concatenate([weights.ravel(), parameters.start(last_rates)])
    m = likelihood.n_instances
    result = minimize_lbfgs(
        objective if checkpoint is None else checkpoint.remember(objective),
        start,
        max_iter=max_iter,
        tol=tol,
        callback=None if callback is None else (lambda i, value: callback(i, -m * value)),
    )
    found, learned = result.weights, {}
    if parameters.learned:
        logits = found[weights.size :]
        found, learned = found[: weights.size].reshape(weights.shape), parameters.values(logits)
        parameters.warn_of_bounds(learned)
        likelihood.rates = parameters.rates(logits)
    return SolveResult(found, -m * result.objective, result.n_iter, result.converged, -m * result.history), learned


class ORedObjective(PenalizedLikelihood):
    """Of instances in memory, by compiled code; the gradient is X^T (q - p), which one E-step gives.

    Bags are gone through in blocks (`bagwise.annotation.objective`), whose sums are added in their order.
    """

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
        rates: LabelNoise | None = None,
        weights: np.ndarray | None = None,
    ):
        super().__init__(l2, scale)
        self.X = X
        self.problem = problem
        self.method = method
        self.max_exact_labels = max_exact_labels
        self.n_jobs = n_jobs
        self.rates = rates
        self.bag_weights = weights
        self.row_weights = None if weights is None else np.repeat(weights, np.diff(problem.offsets))
        self.n_instances = count_instances(problem.offsets, weights)
        self.statistics = np.empty((len(problem.offsets) - 1, 3))  # of the last evaluation, with rates
        self._parts: dict[int, list[Block]] = {}  # by the number of columns
        self._scores: np.ndarray | None = None  # of one block, used again at every evaluation

    def log_likelihood(self, weights: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = 0.0, np.zeros((len(weights), self.X.shape[1] + 1))
        evaluate = self._evaluate_own if self._own_pays(len(weights)) else self._evaluate_all
        for block in self._blocks(len(weights)):
            value += evaluate(block, self.X[block.rows], weights, gradient)
        return value, gradient

    def _evaluate_all(self, block: Block, X: Any, weights: np.ndarray, gradient: np.ndarray) -> float:
        """Log-likelihood of a block from the scores of all classes; adds its part of the gradient."""
        residual = affine_scores(X, weights, self._room(block, len(weights)))
        values = self._infer(block.problem, residual, True, statistics=self.statistics[block.bags])
        if self.bag_weights is not None and self.row_weights is not None:
            residual *= self.row_weights[block.rows, None]
            if self.rates is not None:
                self.statistics[block.bags] *= self.bag_weights[block.bags, None]
        gradient += affine_gradient(X, residual)
        return self._summed(values, block)

    def _summed(self, values: np.ndarray, block: Block) -> float:
        """Of the bags of a block, as often as they count."""
        return float(values.sum() if self.bag_weights is None else self.bag_weights[block.bags] @ values)

    def _evaluate_own(self, block: Block, X: Any, weights: np.ndarray, gradient: np.ndarray) -> float:
        """The same where bags look at their own labels, and at the others only through the normaliser."""
        scores, own = _plain_scores(X, weights), block.own
        posterior = own.gather(scores)
        tops, totals = exponentials(scores, inference_threads(scores.size, self.n_jobs))
        others = np.maximum(totals - np.exp(posterior - tops[:, None]).sum(axis=1), 0.0)
        with np.errstate(divide="ignore"):
            posterior[:, -1] = tops + np.log(others)
        values = self._infer(own.problem, posterior, False)
        inverse = 1.0 / totals
        explained = np.isfinite(values)
        if not explained.all():  # they pull at nothing
            nothing = ~explained[own.bag]
            inverse[nothing], posterior[nothing] = 0.0, 0.0
        if self.row_weights is not None:
            inverse *= self.row_weights[block.rows]
            posterior *= self.row_weights[block.rows, None]
        gradient -= _weighted_gradient(X, scores, inverse)
        gradient += affine_gradient(X, own.spread(posterior, len(weights)))
        return self._summed(values, block)

    def bend(self, weights: np.ndarray, direction: np.ndarray) -> Callable[[float], float]:
        blocks = self._blocks(len(weights))

        def of_block(block: Block) -> Callable[[float], float]:
            counts = None if self.row_weights is None else self.row_weights[block.rows]
            return _bend_of(self.X[block.rows], weights, direction, counts)

        kept = [of_block(block) for block in blocks] if len(blocks) <= FEW else None

        def at(step: float) -> float:
            return sum(bend(step) for bend in kept or map(of_block, blocks))

        return at

    def background_mass(self, weights: np.ndarray) -> Callable[[float], tuple[float, float]]:
        counted: np.ndarray = self.problem.counted_instances
        if self.row_weights is not None:
            counted = counted * self.row_weights

        def mass(shift: float) -> tuple[float, float]:
            moved, total = weights.copy(), 0.0
            moved[-1, -1] += shift
            for block in self._blocks(len(weights)):
                posterior, background = self._posterior(block, moved)
                total += float(posterior[:, background] @ counted[block.rows])
            return total, float(counted.sum())

        return mass

    def errors(self, weights: np.ndarray) -> np.ndarray:
        errors = np.zeros(len(self.problem.n_labels))
        for block in self._blocks(len(weights)):
            self._posterior(block, weights, errors=errors[block.bags])
        return errors

    def _posterior(self, block: Block, weights: np.ndarray, **options: Any) -> tuple[np.ndarray, int]:
        """Posterior of a block's instances, and the column of the background in it."""
        X = self.X[block.rows]
        if self._own_pays(len(weights)) and not sp.issparse(X):
            own = block.own
            posterior = own.of_instances(X, weights)
            self._infer(own.problem, posterior, False, **options)
            return posterior, own.problem.background
        posterior = affine_scores(X, weights, self._room(block, len(weights)))
        self._infer(block.problem, posterior, False, **options)
        return posterior, block.problem.background

    def _blocks(self, n_columns: int) -> list[Block]:
        if n_columns not in self._parts:
            self._parts = {n_columns: Block.cut(self.problem, n_columns)}
        return self._parts[n_columns]

    def _own_pays(self, n_columns: int) -> bool:
        """With rates, any class may be in any bag."""
        return self.rates is None and own_labels_pay(self.problem, n_columns)

    def _room(self, block: Block, n_columns: int) -> np.ndarray:
        """For the scores of a block; the same for all of them."""
        n_rows = block.rows.stop - block.rows.start
        if self._scores is None or len(self._scores) < n_rows or self._scores.shape[1] != n_columns:
            self._scores = np.empty((n_rows, n_columns))
        return self._scores[:n_rows]

    def _infer(self, problem: UnionProblem, scores: np.ndarray, residual: bool, **options: Any) -> np.ndarray:
        return problem.infer_in_place(
            scores,
            softmax=True,
            residual=residual,
            method=self.method,
            max_exact_labels=self.max_exact_labels,
            n_threads=inference_threads(scores.size, self.n_jobs),
            rates=self.rates,
            **options,
        )


def _bend_of(
    X: Any, weights: np.ndarray, direction: np.ndarray, counts: np.ndarray | None = None
) -> Callable[[float], float]:
    """`PenalizedLikelihood.bend` of some instances, each counted so many times."""
    scores, along = affine_scores(X, weights), affine_scores(X, direction)
    proba = scores.copy()
    softmax_in_place(proba)

    def log_partition(step: float) -> float:
        if counts is None:
            return sum_log_partition(scores, along, step)
        return float(counts @ logsumexp(scores + step * along, axis=1))

    if counts is not None:
        proba *= counts[:, None]
    base, tangent = log_partition(0.0), float(np.vdot(proba, along))
    return lambda step: log_partition(step) - base - step * tangent


class _ORedExpectation:
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
