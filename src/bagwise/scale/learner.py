"""Objectives of learners that are sums over pieces: ORed logistic regression and CLPL."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bagwise.annotation.clpl import SummedLoss, largest_and_squares, norm_of
from bagwise.annotation.objective import ORedObjective, PenalizedLikelihood
from bagwise.core.bags import Bags
from bagwise.scale.engine import Engine, Items, Sums, Task, Training
from bagwise.solvers.em import SHRINK
from bagwise.union import LabelledBags, LabelNoise, UnionModel

STEPS_AT_ONCE = 3  # lengths of a backtracking search that one pass looks at


class SummedLikelihood(PenalizedLikelihood):
    """The likelihood of bags that are in pieces: that of each piece by the compiled code, added up."""

    def __init__(
        self,
        engine: Engine,
        training: Training,
        labelled: LabelledBags,
        *,
        background: bool,
        scale: float = 1.0,
        options: dict[str, Any],
    ):
        super().__init__(options["l2"], scale)
        self.rates = options["rates"]
        self.n_instances = labelled.n_instances
        self.items: Items = engine.items(_MakeObjective(background, options), pieces_of(training, labelled))

    def log_likelihood(self, weights: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient, statistics = self.items.total(_Evaluate(weights, self.rates))
        self.statistics = statistics[None, :]
        return float(value), gradient

    def bend(self, weights: np.ndarray, direction: np.ndarray) -> Callable[[float], float]:
        found: dict[float, float] = {}

        def at(step: float) -> float:
            if step not in found:  # a pass costs more than a few lengths: those that the search would ask for next too
                steps = step * SHRINK ** np.arange(STEPS_AT_ONCE)
                (values,) = self.items.total(_Bend(weights, direction, steps))
                found.update(zip(steps.tolist(), values.tolist(), strict=True))
            return found[step]

        return at

    def errors(self, weights: np.ndarray) -> np.ndarray:
        (errors,) = self.items.total(_Errors(weights, self.rates))
        return errors

    def background_mass(self, weights: np.ndarray) -> Callable[[float], tuple[float, float]]:
        def mass(shift: float) -> tuple[float, float]:
            total, count = self.items.total(_BackgroundMass(weights, shift, self.rates))
            return float(total), float(count)

        return mass


def pieces_of(training: Training, labelled: LabelledBags) -> list[LabelledBags | None]:
    """What is said of the bags of each piece, whose numbers count from the first used one there; None of no bag."""
    parts: list[LabelledBags | None] = []
    for positions, first in zip(training.split(labelled.index), training.starts, strict=False):
        part = labelled[positions] if len(labelled.index[positions]) else None
        parts.append(None if part is None else replace(part, index=part.index - first))
    return parts


@dataclass(frozen=True)
class _MakeObjective:
    """The objective of one piece."""

    background: bool
    options: dict[str, Any]

    def __call__(self, bags: Bags, labelled: LabelledBags) -> ORedObjective:
        bags = selected(bags, labelled)
        model = UnionModel(
            labelled.indicator.shape[1], self.background, max_exact_labels=self.options["max_exact_labels"]
        )
        problem = model.problem(bags.offsets, labelled.indicator, labelled.known, labelled.relaxed)
        return ORedObjective(bags.instances, problem, weights=labelled.weights, **self.options)


@dataclass(frozen=True, repr=False)
class _Evaluate(Task):
    """Log-likelihood, gradient and what the gradient in the rates is made of."""

    weights: np.ndarray
    rates: LabelNoise | None

    def __call__(self, item: ORedObjective) -> Sums:
        item.rates = self.rates
        value, gradient = item.log_likelihood(self.weights)
        return value, gradient, np.zeros(3) if self.rates is None else item.statistics.sum(axis=0)


@dataclass(frozen=True, repr=False)
class _Bend(Task):
    weights: np.ndarray
    direction: np.ndarray
    steps: np.ndarray

    def __call__(self, item: ORedObjective) -> Sums:
        bend = item.bend(self.weights, self.direction)
        return (np.array([bend(step) for step in self.steps]),)


@dataclass(frozen=True, repr=False)
class _BackgroundMass(Task):
    weights: np.ndarray
    shift: float
    rates: LabelNoise | None

    def __call__(self, item: ORedObjective) -> Sums:
        item.rates = self.rates
        return item.background_mass(self.weights)(self.shift)


@dataclass(frozen=True, repr=False)
class _Errors(Task):
    """Of the bags, one after another."""

    weights: np.ndarray
    rates: LabelNoise | None

    def __call__(self, item: ORedObjective) -> Sums:
        item.rates = self.rates
        return (item.errors(self.weights),)

    def add(self, one: Sums, other: Sums) -> Sums:
        return (np.concatenate([one[0], other[0]]),)


# ---------------------------------------------------------------------------------------------------------------------
# CLPL


class SummedAmbiguousLoss:
    """The loss of CLPL over instances in pieces, divided by their norm on average."""

    def __init__(self, engine: Engine, training: Training, labelled: LabelledBags):
        self.n_instances = labelled.n_instances
        details = pieces_of(training, labelled)
        largest, squares = engine.items(_weighted, details).total(_Norm())
        self.size = norm_of(largest, squares, self.n_instances)
        self.items: Items = engine.items(_MakeLoss(self.size), details)

    def __call__(self, weights: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = self.items.total(_Loss(weights))
        return float(value), gradient


def selected(bags: Bags, labelled: LabelledBags) -> Bags:
    return bags if np.array_equal(labelled.index, np.arange(len(bags))) else bags[labelled.index]


def _weighted(bags: Bags, labelled: LabelledBags) -> tuple[Bags, np.ndarray | None]:
    """The bags that are learned from, and the weights of their instances."""
    bags = selected(bags, labelled)
    return bags, None if labelled.weights is None else np.repeat(labelled.weights, bags.sizes)


@dataclass(frozen=True)
class _MakeLoss:
    size: float

    def __call__(self, bags: Bags, labelled: LabelledBags) -> SummedLoss:
        bags, weights = _weighted(bags, labelled)
        return SummedLoss(bags.instances / self.size, np.repeat(labelled.indicator, bags.sizes, axis=0), weights)


@dataclass(frozen=True, repr=False)
class _Loss(Task):
    weights: np.ndarray

    def __call__(self, item: SummedLoss) -> Sums:
        return item(self.weights)


class _Norm(Task):
    """The largest feature, and the squares of all relative to it."""

    def __call__(self, item: tuple[Bags, np.ndarray | None]) -> Sums:
        bags, weights = item
        return largest_and_squares(bags.instances, weights)

    def add(self, one: Sums, other: Sums) -> Sums:
        largest = max(one[0], other[0])
        if largest == 0.0:
            return one
        return largest, sum(squares * (at / largest) ** 2 for at, squares in (one, other))
