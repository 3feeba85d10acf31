"""Transformers of instances that learn from pieces what they would learn from all instances at once."""

from __future__ import annotations

from collections.abc import Callable
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
from bagwise.scale._engine import Engine, Items, Sums


def fit_step(step: Any, engine: Engine, n_features: int, dtype: np.dtype) -> None:
    """Fit a step of a pipeline, `PerInstance` of one of `BY_PIECES`, on instances of so many features."""
    transformer = step.transformer if isinstance(step, PerInstance) else step
    learn = BY_PIECES.get(type(transformer)) if isinstance(step, PerInstance) else None
    if learn is None:
        names = ", ".join(kind.__name__ for kind in BY_PIECES)
        raise InputError(
            f"{type(transformer).__name__} cannot learn from pieces; before the learner PerInstance of {names} can."
        )
    step.transformer_ = fitted = clone(transformer)
    fitted.n_features_in_ = step.n_features_in_ = n_features
    with np.errstate(over="ignore", invalid="ignore"):  # numbers that are too large for it are told of below
        learn(fitted, engine, dtype)
    check_variances(fitted)
    fitted.n_features_in_ = n_features


def width_behind(step: Any, n_features: int, n_instances: int) -> int:
    """Features that a step makes of so many, learned from so many instances."""
    transformer = getattr(step, "transformer", None)
    if isinstance(transformer, RandomFourierFeatures):
        return 2 * transformer.n_components
    if isinstance(transformer, RBFDictionary):
        return transformer.dictionary_size(n_instances)
    return n_features


def _fit_standard(scaler: StandardScaler, engine: Engine, dtype: np.dtype) -> None:
    """As scikit-learn does: a feature whose variance is lost in rounding is constant, and is not divided."""
    n, mean, squares = _each(engine).total(_moments, join=_join_moments)
    scaler.n_samples_seen_ = np.int64(n)
    scaler.mean_ = mean if scaler.with_mean or scaler.with_std else None
    scaler.var_ = scaler.scale_ = None
    if scaler.with_std:
        scaler.var_ = squares / n
        eps = np.finfo(np.float64).eps
        constant = scaler.var_ <= n * eps * scaler.var_ + (n * mean * eps) ** 2
        scaler.scale_ = np.where(constant, 1.0, np.sqrt(scaler.var_))


def _fit_min_max(scaler: MinMaxScaler, engine: Engine, dtype: np.dtype) -> None:
    """Two rows that reach as far as all of them say the same."""
    scaler.fit(np.stack(_each(engine).total(_range, join=_join_ranges)))
    scaler.n_samples_seen_ = int(engine.training.offsets[-1])


def _fit_clpl(scaler: CLPLScaler, engine: Engine, dtype: np.dtype) -> None:
    instances = _each(engine)
    scaler.fit_range(*instances.total(_range, join=_join_ranges))
    _, mean, squares = instances.total(_moments, scaler.to_unit, join=_join_moments)
    scaler.fit_moments(mean, squares)


def _fit_fourier(features: RandomFourierFeatures, engine: Engine, dtype: np.dtype) -> None:
    def distance() -> float:
        return _mean_distance(*_each(engine).total(_moments, join=_join_moments))

    features.draw(features.n_features_in_, dtype, distance)


def _fit_dictionary(features: RBFDictionary, engine: Engine, dtype: np.dtype) -> None:
    offsets = engine.training.offsets
    rows = features.draw_rows(int(offsets[-1]))
    check_allocation(
        8 * len(rows) * max(len(rows), 1), f"A dictionary of {len(rows)} instances", "choose a smaller one with size="
    )
    details = [(int(start), rows) for start in offsets[engine.training.starts[:-1]]]
    chosen, *moments = engine.items(_with_rows, details).total(_dictionary, join=_join_dictionaries)
    features.fit_dictionary(chosen, _mean_distance(*moments))


BY_PIECES: dict[type, Callable[[Any, Engine, np.dtype], None]] = {
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


def _each(engine: Engine) -> Items:
    """All training instances."""
    return engine.items(_instances, [()] * engine.training.source.n_pieces)


def _instances(bags: Bags, _: Any) -> np.ndarray:
    if sp.issparse(bags.instances):
        raise InputError("Sparse instances are not scaled by pieces; fit them in memory, or make them dense.")
    return bags.instances


def _with_rows(bags: Bags, detail: tuple[int, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """The instances, and those of the rows that are in this piece."""
    X, (start, rows) = _instances(bags, None), detail
    return X, X[rows[np.searchsorted(rows, start) : np.searchsorted(rows, start + len(X))] - start]


def _moments(X: np.ndarray, transform: Callable[[np.ndarray], np.ndarray] | None = None) -> Sums:
    """Number, means of the columns, and summed squared deviations from these."""
    return len(X), *column_moments(X if transform is None else transform(X))


def _join_moments(one: Sums, other: Sums) -> Sums:
    """As Chan, Golub and LeVeque do."""
    (n, mean, squares), (m, other_mean, other_squares) = one, other
    difference = other_mean - mean
    return (
        n + m,
        mean + difference * (m / (n + m)),
        squares + other_squares + difference**2 * (n * m / (n + m)),
    )


def _range(X: np.ndarray) -> Sums:
    return X.min(axis=0), X.max(axis=0)


def _join_ranges(one: Sums, other: Sums) -> Sums:
    return np.minimum(one[0], other[0]), np.maximum(one[1], other[1])


def _dictionary(item: tuple[np.ndarray, np.ndarray]) -> Sums:
    """The chosen rows, and the moments of all."""
    return item[1], *_moments(item[0])


def _join_dictionaries(one: Sums, other: Sums) -> Sums:
    return np.concatenate([one[0], other[0]]), *_join_moments(one[1:], other[1:])
