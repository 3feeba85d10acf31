"""What is worked out about every instance: one object, whatever the learner."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bagwise.core.exceptions import InputError

NEGLIGIBLE = 5e-5  # a probability that rounds to 0.0000


@dataclass(frozen=True)
class Findings:
    """What is worked out about every instance.

    Attributes
    ----------
    labels : (m,) int64
        Index into ``classes_``, -1 where there is none: in a bag without labels, or where an instance is known to be
        background.
    proba : (m, c) array or None
        Probability of every class; None where the model gives none.
    background : (m,) array or None
        Probability of belonging to no class; None where the model knows no background. Rows of `proba` sum to one less
        this.
    """

    labels: np.ndarray
    proba: np.ndarray | None = None
    background: np.ndarray | None = None

    @property
    def probability(self) -> np.ndarray | None:
        """(m,) probability of the label given, zero where there is none; None without probabilities."""
        if self.proba is None:
            return None
        given = self.labels >= 0
        probability = np.zeros(len(self.labels))
        probability[given] = self.proba[given, self.labels[given]]
        return probability

    @property
    def second(self) -> np.ndarray:
        """(m,) int64 next probable class beside the label, -1 where its probability rounds to zero or is not known."""
        if self.proba is None:
            return np.full(len(self.labels), -1, dtype=np.int64)
        others = self.proba.copy()
        given = self.labels >= 0
        others[given, self.labels[given]] = -1.0
        second = others.argmax(axis=1)
        return np.where(others[np.arange(len(second)), second] >= NEGLIGIBLE, second, -1).astype(np.int64)


def check_known_listed(
    offsets: np.ndarray, indicator: np.ndarray, known: np.ndarray | None, missed: np.ndarray | None = None
) -> None:
    """An instance that is known to be of a class must be in a bag that carries it, unless it may have been `missed`."""
    if known is None:
        return
    n_classes = indicator.shape[1]
    bag = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    rows = np.flatnonzero((known >= 0) & (known < n_classes))  # background is listed nowhere
    outside = rows[indicator[bag[rows], known[rows]] == 0]
    if missed is not None:
        outside = outside[missed[known[outside]] == 0.0]
    if len(outside):
        i = outside[0]
        raise InputError(
            f"Instance {i - offsets[bag[i]]} of bag {bag[i]} is known to be of class {known[i]}, which its bag "
            f"does not carry ({len(outside)} such instance(s)); add the label to the bag or set the instance to -1."
        )


def set_known(labels: np.ndarray, proba: np.ndarray | None, known: np.ndarray | None) -> None:
    """Give the known instances their label, with probability one, in place."""
    if known is None:
        return
    rows = np.flatnonzero(known >= 0)
    labels[rows] = known[rows]
    if proba is not None:
        proba[rows] = 0.0
        proba[rows, known[rows]] = 1.0


def share_among_labels(proba: np.ndarray, listed: np.ndarray) -> np.ndarray:
    """(m, c) probabilities given that the label is one of the `listed`, an (m, c) 0/1 array.

    Where the probability of all of them is zero, each is as probable as the next.
    """
    shared = proba * listed
    total = shared.sum(axis=1, keepdims=True)
    nothing = total[:, 0] == 0.0
    if nothing.any():
        shared[nothing] = listed[nothing]
        total[nothing, 0] = listed[nothing].sum(axis=1)
    return shared / total
