"""What the bag-level learners share: the T-criterion, classes without a second side, blocks of rows."""

from __future__ import annotations

from collections.abc import Iterator

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


def row_blocks(n_rows: int, bytes_per_row: int) -> Iterator[slice]:
    """Slices over the rows whose workspace stays below a sixteenth of the memory limit (and 256 MiB)."""
    room = min(memory_limit() // 16, 2**28)
    size = int(max(1, min(n_rows, room // max(bytes_per_row, 1))))
    for start in range(0, n_rows, size):
        yield slice(start, min(start + size, n_rows))
