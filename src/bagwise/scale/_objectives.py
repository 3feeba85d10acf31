"""Objectives of learners that are sums over pieces: ORed logistic regression, CLPL and support instance machines."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from sklearn.utils.extmath import row_norms

from bagwise.annotation.clpl import SummedLoss, largest_and_squares, norm_of
from bagwise.annotation.noisy_or import NoisyOrObjective, check_explained, known_entries
from bagwise.annotation.objective import ORedObjective, PenalizedLikelihood
from bagwise.core.bags import Bags
from bagwise.kernels.pegasos import Support, take_step
from bagwise.scale._engine import Engine, Sums
from bagwise.solvers.aggregation import AGGREGATIONS, Aggregation, averaging_matrix
from bagwise.solvers.em import SHRINK
from bagwise.solvers.losses import Loss
from bagwise.solvers.subgradient import Descent
from bagwise.union import LabelledBags, LabelNoise, UnionModel

STEPS_AT_ONCE = 3  # lengths of a backtracking search that one pass looks at


class SummedLikelihood(PenalizedLikelihood):
    """The likelihood of bags that are in pieces: that of each piece by the compiled code, added up."""

    def __init__(
        self,
        engine: Engine,
        labelled: LabelledBags,
        *,
        background: bool,
        scale: float = 1.0,
        options: dict[str, Any],
    ):
        super().__init__(options["l2"], scale)
        self.rates = options["rates"]
        self.n_instances = labelled.n_instances
        self.items = engine.of_labelled(partial(_objective, background, options), labelled)

    def log_likelihood(self, weights: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient, statistics = self.items.total(_evaluate, weights, self.rates)
        self.statistics = statistics[None, :]
        return float(value), gradient

    def bend(self, weights: np.ndarray, direction: np.ndarray) -> Callable[[float], float]:
        found: dict[float, float] = {}

        def at(step: float) -> float:
            if step not in found:  # a pass costs more than a few lengths: those that the search would ask for next too
                steps = step * SHRINK ** np.arange(STEPS_AT_ONCE)
                (values,) = self.items.total(_bend, weights, direction, steps)
                found.update(zip(steps.tolist(), values.tolist(), strict=True))
            return found[step]

        return at

    def errors(self, weights: np.ndarray) -> np.ndarray:
        (errors,) = self.items.total(_errors, weights, self.rates, join=_one_after_another)
        return errors

    def background_mass(self, weights: np.ndarray) -> Callable[[float], tuple[float, float]]:
        def mass(shift: float) -> tuple[float, float]:
            total, count = self.items.total(_background_mass, weights, shift, self.rates)
            return float(total), float(count)

        return mass


class SummedNoisyOr(PenalizedLikelihood):
    """The likelihood of `NoisyOrLogisticRegression` of bags that are in pieces."""

    log_likelihood = SummedLikelihood.log_likelihood

    def __init__(self, engine: Engine, labelled: LabelledBags, *, l2: float, rates: Rates):
        super().__init__(l2)
        self.rates = rates[0]
        self.n_instances = labelled.n_instances
        self.items = engine.of_labelled(partial(_noisy_or, rates), labelled)


Rates = tuple[LabelNoise | None, LabelNoise | None]
"""Those to begin with, and those that are possible: where one is to be learned it is zero yet, and may excuse."""


def _noisy_or(rates: Rates, bags: Bags, labelled: LabelledBags) -> NoisyOrObjective:
    """The objective of one piece."""
    known = None
    if labelled.known is not None:
        known = known_entries(Bags(labelled.known, bags.offsets), bags.offsets, labelled.indicator.shape[1])
    check_explained(bags.offsets, labelled.indicator, known, rates[1])
    return NoisyOrObjective(bags, labelled.indicator, known, l2=0.0, rates=rates[0], weights=labelled.weights)


def _objective(background: bool, options: dict[str, Any], bags: Bags, labelled: LabelledBags) -> ORedObjective:
    """The objective of one piece."""
    model = UnionModel(labelled.indicator.shape[1], background, max_exact_labels=options["max_exact_labels"])
    problem = model.problem(bags.offsets, labelled.indicator, labelled.known, labelled.relaxed)
    return ORedObjective(bags.instances, problem, weights=labelled.weights, **options)


def _evaluate(item: ORedObjective | NoisyOrObjective, weights: np.ndarray, rates: LabelNoise | None) -> Sums:
    """Log-likelihood, gradient and what the gradient in the rates is made of."""
    item.rates = rates
    value, gradient = item.log_likelihood(weights)
    return value, gradient, np.zeros(3) if rates is None else item.statistics.sum(axis=0)


def _bend(item: ORedObjective, weights: np.ndarray, direction: np.ndarray, steps: np.ndarray) -> Sums:
    bend = item.bend(weights, direction)
    return (np.array([bend(step) for step in steps]),)


def _background_mass(item: ORedObjective, weights: np.ndarray, shift: float, rates: LabelNoise | None) -> Sums:
    item.rates = rates
    return item.background_mass(weights)(shift)


def _errors(item: ORedObjective, weights: np.ndarray, rates: LabelNoise | None) -> Sums:
    """Of the bags."""
    item.rates = rates
    return (item.errors(weights),)


def _one_after_another(one: Sums, other: Sums) -> Sums:
    return (np.concatenate([one[0], other[0]]),)


# ---------------------------------------------------------------------------------------------------------------------
# CLPL


class SummedAmbiguousLoss:
    """The loss of CLPL over instances in pieces, divided by their norm on average."""

    def __init__(self, engine: Engine, labelled: LabelledBags):
        self.n_instances = labelled.n_instances
        largest, squares = engine.of_labelled(_weighted, labelled).total(_squares, join=_relative)
        self.size = norm_of(largest, squares, self.n_instances)
        self.items = engine.of_labelled(partial(_loss, self.size), labelled)

    def __call__(self, weights: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = self.items.total(SummedLoss.__call__, weights)
        return float(value), gradient


def _weighted(bags: Bags, labelled: LabelledBags) -> tuple[Any, np.ndarray | None]:
    """Instances and their weights."""
    return bags.instances, None if labelled.weights is None else np.repeat(labelled.weights, bags.sizes)


def _squares(item: tuple[Any, np.ndarray | None]) -> Sums:
    """The largest feature, and the squares of all relative to it."""
    return largest_and_squares(*item)


def _relative(one: Sums, other: Sums) -> Sums:
    largest = max(one[0], other[0])
    if largest == 0.0:
        return one
    return largest, sum(squares * (at / largest) ** 2 for at, squares in (one, other))


def _loss(size: float, bags: Bags, labelled: LabelledBags) -> SummedLoss:
    X, weights = _weighted(bags, labelled)
    return SummedLoss(X / size, np.repeat(labelled.indicator, bags.sizes, axis=0), weights)


# ---------------------------------------------------------------------------------------------------------------------
# Support instance machines: every step of a descent is a pass


@dataclass(frozen=True)
class _SupportAt:
    """Support instances by how they are computed: an aggregation, and the weights it is applied at."""

    aggregation: Aggregation
    weights: np.ndarray


Piece = tuple[Any, np.ndarray, np.ndarray, np.ndarray | None]
"""Instances, offsets and labels of bags, and how often they count."""


class SummedHinges:
    """As `bagwise.solvers.subgradient.BagProblem`, with values and sub-gradients that are sums over pieces.

    Support instances are not kept, which would take a number for every instance and class: each pass finds them again
    from the weights that they belong to.
    """

    def __init__(
        self,
        engine: Engine,
        labelled: LabelledBags,
        loss: Loss,
        alpha: float,
        n_features: int,
        means: bool = False,
    ):
        self._made = (engine, labelled, loss, alpha, n_features)
        self.alpha, self._loss = alpha, loss
        # weighted bags count as often as their weights say
        self._n_bags = float(len(labelled) if labelled.weights is None else labelled.weights.sum())
        self._shape = labelled.indicator.shape[1], n_features
        self._items = engine.of_labelled(partial(_bags_of, means), labelled)

    @property
    def start(self) -> np.ndarray:
        return np.zeros(self._shape)

    def sizes(self) -> tuple[float, float]:
        """The largest feature, and the longest squared norm of an instance."""
        largest, longest = self._items.total(_sizes, join=_larger)
        return float(largest), float(longest)

    def mean_support(self) -> _SupportAt:
        return _SupportAt(AGGREGATIONS["mean"], self.start)

    def first_phase(self) -> tuple[SummedHinges, _SupportAt]:
        return SummedHinges(*self._made, means=True), self.mean_support()

    def aggregate(self, aggregation: Aggregation, weights: np.ndarray) -> tuple[float, _SupportAt]:
        support = _SupportAt(aggregation, weights.copy())
        value, _ = self._value_and_pull(support, weights, False)
        return value, support

    def descend(
        self,
        support: _SupportAt,
        start: np.ndarray,
        *,
        n_steps: int,
        first_step: int = 1,
        skip_start: bool = False,
        upper_bound: bool = False,
    ) -> Descent:
        """As `bagwise.solvers.subgradient.BagProblem.descend`."""
        weights, best, values = start.copy(), start.copy(), np.empty(n_steps + 1)
        lowest = np.inf
        for step in range(n_steps + 1):
            values[step], pull = self._value_and_pull(support, weights, upper_bound)
            if values[step] < lowest and not (skip_start and step == 0):
                lowest, best = values[step], weights.copy()
            if step < n_steps:
                take_step(weights, np.ascontiguousarray(pull), self.alpha, first_step + step)
        return Descent(best, weights, values)

    def _value_and_pull(self, support: _SupportAt, weights: np.ndarray, upper_bound: bool) -> tuple[float, np.ndarray]:
        """The objective with these support instances, and the sub-gradient of its loss."""
        value, pull = self._items.total(_hinges, self._loss, support, weights, upper_bound)
        penalty = 0.5 * self.alpha * float(np.vdot(weights, weights))
        return float(value) / self._n_bags + penalty, pull / self._n_bags


def _bags_of(means: bool, bags: Bags, labelled: LabelledBags) -> Piece:
    """Bags, labels and weights of a piece; with `means`, each bag's mean for its only instance."""
    X, offsets = bags.instances.astype(np.float64, copy=False), bags.offsets
    if means:
        X, offsets = averaging_matrix(offsets) @ X, np.arange(len(bags) + 1)
    return X, offsets, labelled.indicator, labelled.weights


def _sizes(item: Piece) -> Sums:
    return float(abs(item[0]).max()), float(row_norms(item[0], squared=True).max())


def _larger(one: Sums, other: Sums) -> Sums:
    return tuple(max(a, b) for a, b in zip(one, other, strict=True))


def _hinges(item: Piece, loss: Loss, support_at: _SupportAt, weights: np.ndarray, upper_bound: bool) -> Sums:
    """Loss of the bags of a piece, times their number, and its sub-gradient."""
    X, offsets, Y, counts = item
    scores = _scores_of(X, weights)
    _, support = support_at.aggregation(_scores_of(X, support_at.weights), offsets)
    shares = _shares_of(support, scores.shape)
    if upper_bound:  # classes that a bag does not list have the largest score under the weights as they are
        largest = _shares_of(AGGREGATIONS["max"](scores, offsets)[1], scores.shape)
        shares = np.where(np.repeat(Y, np.diff(offsets), axis=0) == 1, shares, largest)
    bag_scores = np.add.reduceat(shares * scores, offsets[:-1], axis=0)
    value, slopes = loss(bag_scores, Y, counts)
    shares *= np.repeat(slopes, np.diff(offsets), axis=0)
    pull = np.asarray((X.T @ shares).T)
    return len(Y) * value, len(Y) * pull


def _scores_of(X: Any, weights: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(X @ weights.T)


def _shares_of(support: Support, shape: tuple[int, ...]) -> np.ndarray:
    """(m, c) part that every instance has in the support instance of its bag and class."""
    if not support.rows.size:
        return support.weights
    shares = np.zeros(shape)
    shares[support.rows, np.arange(shape[1])] = 1.0
    return shares
