"""What the bag-level learners share: the T-criterion, classes without a second side, checks of parameters."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from numbers import Real
from typing import Any

import numpy as np

from bagwise.exceptions import InputError
from bagwise.memory import memory_limit

NEVER, ALWAYS = -1e6, 1.0
"""Scores of a class that no training bag carries, or every one: any score <= -1 (>= 1) solves the problem of such a
class, and one that was never seen must not win where all others are negative."""


def t_criterion(scores: np.ndarray) -> np.ndarray:
    """(n, c) indicator of the classes with a score of zero or more, or of the best one where there is none.

    The T-criterion of Boutell et al. (2004), Pattern Recognition 37, 1757-1771.
    """
    labels = (scores >= 0).astype(np.uint8)
    empty = np.flatnonzero(~labels.any(axis=1))
    labels[empty, scores[empty].argmax(axis=1)] = 1
    return labels


def constant_scores(indicator: np.ndarray) -> np.ndarray:
    """(c,) score of the classes that no bag or every bag carries, NaN for those that can be learned."""
    carried = indicator.mean(axis=0)
    return np.where(carried == 0, NEVER, np.where(carried == 1, ALWAYS, np.nan))


def check_learnable(indicator: np.ndarray, classes: np.ndarray, name: str) -> None:
    """One class that every bag carries leaves nothing to tell apart."""
    if indicator.shape[1] == 1 and indicator.all():
        raise InputError(
            f"{name} needs bags that differ in their labels, but there is one class only, {classes[0]!r}, "
            "and every bag carries it; add bags without it or a second class."
        )


def check_choice(name: str, value: Any, allowed: Iterable[Any]) -> None:
    allowed = tuple(allowed)
    if value not in allowed:
        raise InputError(f"{name}={value!r} is not known; use one of {', '.join(map(repr, allowed))}.")


def check_positive(estimator: Any, *names: str) -> None:
    """The named parameters must be finite numbers above zero."""
    for name in names:
        value = getattr(estimator, name)
        if not (isinstance(value, Real) and not isinstance(value, bool) and 0 < float(value) < np.inf):
            raise InputError(f"The '{name}' parameter of {type(estimator).__name__} must be positive. Got {value!r}.")


def check_count(estimator: Any, *names: str) -> None:
    """The named parameters must be whole numbers of 1 or more."""
    for name in names:
        value = getattr(estimator, name)
        if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 1:
            raise InputError(f"The '{name}' parameter of {type(estimator).__name__} must be 1 or more. Got {value!r}.")


def row_blocks(n_rows: int, bytes_per_row: int) -> Iterator[slice]:
    """Slices over the rows whose workspace stays below a sixteenth of the memory limit (and 256 MiB)."""
    room = min(memory_limit() // 16, 2**28)
    size = int(max(1, min(n_rows, room // max(bytes_per_row, 1))))
    for start in range(0, n_rows, size):
        yield slice(start, min(start + size, n_rows))
