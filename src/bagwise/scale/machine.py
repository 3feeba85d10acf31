"""The problem of support instance machines over bags that are in pieces: every step of a descent is a pass."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils.extmath import row_norms

from bagwise.core.bags import Bags
from bagwise.kernels.pegasos import take_step
from bagwise.scale.engine import Engine, Items, Sums, Task, Training
from bagwise.scale.learner import pieces_of, selected
from bagwise.solvers.aggregation import AGGREGATIONS, Aggregation, Support, averaging_matrix
from bagwise.solvers.losses import Loss
from bagwise.solvers.subgradient import Descent
from bagwise.union import LabelledBags


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
        training: Training,
        labelled: LabelledBags,
        loss: Loss,
        alpha: float,
        n_features: int,
        means: bool = False,
    ):
        self._made = (engine, training, labelled, loss, alpha, n_features)
        self.alpha, self._loss = alpha, loss
        # weighted bags count as often as their weights say
        self._n_bags = float(len(labelled) if labelled.weights is None else labelled.weights.sum())
        self._shape = labelled.indicator.shape[1], n_features
        self._items: Items = engine.items(_MakeBags(means), pieces_of(training, labelled))

    @property
    def start(self) -> np.ndarray:
        return np.zeros(self._shape)

    def sizes(self) -> tuple[float, float]:
        """The largest feature, and the longest squared norm of an instance."""
        largest, longest = self._items.total(_Sizes())
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
        value, pull = self._items.total(_Hinges(self._loss, support, weights, upper_bound))
        penalty = 0.5 * self.alpha * float(np.vdot(weights, weights))
        return float(value) / self._n_bags + penalty, pull / self._n_bags


@dataclass(frozen=True)
class _MakeBags:
    """Bags, labels and weights of a piece; with `means`, each bag's mean for its only instance."""

    means: bool

    def __call__(self, bags: Bags, labelled: LabelledBags) -> Piece:
        bags = selected(bags, labelled)
        X = bags.instances.astype(np.float64, copy=False)
        if not self.means:
            return X, bags.offsets, labelled.indicator, labelled.weights
        return averaging_matrix(bags.offsets) @ X, np.arange(len(bags) + 1), labelled.indicator, labelled.weights


class _Sizes(Task):
    def __call__(self, item: Piece) -> Sums:
        return float(abs(item[0]).max()), float(row_norms(item[0], squared=True).max())

    def add(self, one: Sums, other: Sums) -> Sums:
        return tuple(max(a, b) for a, b in zip(one, other, strict=True))


@dataclass(frozen=True, repr=False)
class _Hinges(Task):
    """Loss of the bags of a piece, times their number, and its sub-gradient."""

    loss: Loss
    support: _SupportAt
    weights: np.ndarray
    upper_bound: bool

    def __call__(self, item: Piece) -> Sums:
        X, offsets, Y, counts = item
        scores = _scores_of(X, self.weights)
        _, support = self.support.aggregation(_scores_of(X, self.support.weights), offsets)
        shares = _shares_of(support, scores.shape)
        if self.upper_bound:  # classes that a bag does not list have the largest score under the weights as they are
            largest = _shares_of(AGGREGATIONS["max"](scores, offsets)[1], scores.shape)
            shares = np.where(np.repeat(Y, np.diff(offsets), axis=0) == 1, shares, largest)
        bag_scores = np.add.reduceat(shares * scores, offsets[:-1], axis=0)
        value, slopes = self.loss(bag_scores, Y, counts)
        shares *= np.repeat(slopes, np.diff(offsets), axis=0)
        pull = np.asarray((X.T @ shares).T)
        return len(Y) * value, len(Y) * pull


def _scores_of(X: Any, weights: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(X @ weights.T)


def _shares_of(support: Support, shape: tuple[int, ...]) -> np.ndarray:
    """(m, c) part that every instance has in the support instance of its bag and class."""
    if support.rows is None:
        assert support.weights is not None  # a support is one or the other
        return support.weights
    shares = np.zeros(shape)
    shares[support.rows, np.arange(shape[1])] = 1.0
    return shares
