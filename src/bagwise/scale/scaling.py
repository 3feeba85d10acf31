"""Transformers of instances that learn from pieces what they would learn from all instances at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.preprocessing import MinMaxScaler, StandardScaler

from bagwise.core.bags import Bags
from bagwise.core.checks import check_allocation
from bagwise.core.exceptions import InputError
from bagwise.preprocessing import (
    CLPLScaler,
    PerInstance,
    RandomFourierFeatures,
    RBFDictionary,
    check_variances,
    column_moments,
)
from bagwise.scale.engine import Engine, Sums, Task, Training


@dataclass(frozen=True)
class Passes:
    """Goes through all training instances for a transformer."""

    engine: Engine
    training: Training
    n_features: int
    dtype: np.dtype

    def total(self, task: Task) -> Sums:
        return self.engine.items(_instances, [()] * self.training.source.n_pieces).total(task)

    @property
    def n_instances(self) -> int:
        return int(self.training.offsets[-1])

    def moments(self) -> tuple[int, np.ndarray, np.ndarray]:
        """Number of instances, means of the features, and summed squared deviations from these."""
        return self.total(_Moments())

    def range(self) -> tuple[np.ndarray, np.ndarray]:
        """Least and greatest of every feature."""
        return self.total(_Range())


def fit_step(step: Any, passes: Passes) -> None:
    """Fit a step of a pipeline, `PerInstance` of one of `BY_PIECES`."""
    transformer = step.transformer if isinstance(step, PerInstance) else step
    learn = BY_PIECES.get(type(transformer)) if isinstance(step, PerInstance) else None
    if learn is None:
        names = ", ".join(kind.__name__ for kind in BY_PIECES)
        raise InputError(
            f"{type(transformer).__name__} cannot learn from pieces; before the learner PerInstance of {names} can."
        )
    step.transformer_ = fitted = clone(transformer)
    with np.errstate(over="ignore", invalid="ignore"):  # numbers that are too large for it are told of below
        learn(fitted, passes)
    check_variances(fitted)
    step.n_features_in_ = fitted.n_features_in_ = passes.n_features


def width_behind(step: Any, n_features: int, n_instances: int) -> int:
    """Features that a step makes of so many, learned from so many instances."""
    transformer = getattr(step, "transformer", None)
    if isinstance(transformer, RandomFourierFeatures):
        return 2 * transformer.n_components
    if isinstance(transformer, RBFDictionary):
        return transformer.dictionary_size(n_instances)
    return n_features


def _fit_standard(scaler: StandardScaler, passes: Passes) -> None:
    """As scikit-learn does: a feature whose variance is lost in rounding is constant, and is not divided."""
    n, mean, squares = passes.moments()
    scaler.n_samples_seen_ = np.int64(n)
    scaler.mean_ = mean if scaler.with_mean or scaler.with_std else None
    scaler.var_ = scaler.scale_ = None
    if scaler.with_std:
        scaler.var_ = squares / n
        eps = np.finfo(np.float64).eps
        constant = scaler.var_ <= n * eps * scaler.var_ + (n * mean * eps) ** 2
        scaler.scale_ = np.where(constant, 1.0, np.sqrt(scaler.var_))


def _fit_min_max(scaler: MinMaxScaler, passes: Passes) -> None:
    """Two rows that reach as far as all of them say the same."""
    scaler.fit(np.stack(passes.range()))
    scaler.n_samples_seen_ = passes.n_instances


def _fit_clpl(scaler: CLPLScaler, passes: Passes) -> None:
    scaler.fit_range(*passes.range())
    _, mean, squares = passes.total(_Moments(scaler.to_unit))
    scaler.fit_moments(mean, squares)


def _fit_fourier(features: RandomFourierFeatures, passes: Passes) -> None:
    features.draw(passes.n_features, passes.dtype, lambda: _mean_distance(*passes.moments()))


def _fit_dictionary(features: RBFDictionary, passes: Passes) -> None:
    rows = features.draw_rows(passes.n_instances)
    check_allocation(
        8 * len(rows) * max(len(rows), 1), f"A dictionary of {len(rows)} instances", "choose a smaller one with size="
    )
    starts = passes.training.offsets[passes.training.starts[:-1]]
    details = [(int(start), rows) for start in starts]
    chosen, *moments = passes.engine.items(_with_rows, details).total(_Dictionary())
    features.fit_dictionary(chosen, _mean_distance(*moments))


BY_PIECES: dict[type, Callable[[Any, Passes], None]] = {
    StandardScaler: _fit_standard,
    MinMaxScaler: _fit_min_max,
    CLPLScaler: _fit_clpl,
    RandomFourierFeatures: _fit_fourier,
    RBFDictionary: _fit_dictionary,
}


def _mean_distance(n: int, mean: np.ndarray, squares: np.ndarray) -> float:
    return float(2.0 * squares.sum() / (n - 1)) if n > 1 else 0.0


# ---------------------------------------------------------------------------------------------------------------------
# What is asked of a piece


def _instances(bags: Bags, _: Any) -> np.ndarray:
    if sp.issparse(bags.instances):
        raise InputError("Sparse instances are not scaled by pieces; fit them in memory, or make them dense.")
    return bags.instances


def _with_rows(bags: Bags, detail: tuple[int, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """The instances, and those of the rows that are in this piece."""
    X, (start, rows) = _instances(bags, None), detail
    return X, X[rows[np.searchsorted(rows, start) : np.searchsorted(rows, start + len(X))] - start]


@dataclass(frozen=True, repr=False)
class _Moments(Task):
    """Number, means and summed squared deviations of the columns, joined as Chan, Golub and LeVeque do."""

    transform: Callable[[np.ndarray], np.ndarray] | None = None

    def __call__(self, item: np.ndarray) -> Sums:
        X = item if self.transform is None else self.transform(item)
        return len(X), *column_moments(X)

    def add(self, one: Sums, other: Sums) -> Sums:
        (n, mean, squares), (m, other_mean, other_squares) = one, other
        difference = other_mean - mean
        return (
            n + m,
            mean + difference * (m / (n + m)),
            squares + other_squares + difference**2 * (n * m / (n + m)),
        )


class _Range(Task):
    def __call__(self, item: np.ndarray) -> Sums:
        return item.min(axis=0), item.max(axis=0)

    def add(self, one: Sums, other: Sums) -> Sums:
        return np.minimum(one[0], other[0]), np.maximum(one[1], other[1])


class _Dictionary(Task):
    """The chosen rows, and the moments of all."""

    def __call__(self, item: tuple[np.ndarray, np.ndarray]) -> Sums:
        return item[1], *_Moments()(item[0])

    def add(self, one: Sums, other: Sums) -> Sums:
        return np.concatenate([one[0], other[0]]), *_Moments().add(one[1:], other[1:])
