"""What is worked out about every instance: one object, whatever the learner."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit, logit

from bagwise.exceptions import InputError

NEGLIGIBLE = 5e-5  # a probability that rounds to 0.0000
SUREST = 1.0 - NEGLIGIBLE  # probabilities beyond it, which are written as one, have no log-odds of their own


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


def log_odds(probability: np.ndarray) -> np.ndarray:
    return logit(np.clip(probability, 1.0 - SUREST, SUREST))


@dataclass(frozen=True, eq=False)
class Trust:
    """What the name of an instance is worth where only its features were seen: sigmoid(slope logit p + offset).

    Attributes
    ----------
    slope, offset : float
    covariance : (2, 2) array
        Of the logarithm of the slope and the offset: how well the bags tell them.
    witnessed : (c,) array of bool
        Classes of which bags tell anything: not those that all of them list.
    """

    slope: float
    offset: float
    covariance: np.ndarray
    witnessed: np.ndarray

    def cautious(self, probability: np.ndarray) -> np.ndarray:
        """With one standard error to spare."""
        odds = log_odds(probability)
        change = np.stack([self.slope * odds, np.ones_like(odds)], axis=1)
        variance = np.einsum("ij,jk,ik->i", change, self.covariance, change)
        return expit(self.slope * odds + self.offset - np.sqrt(np.maximum(variance, 0.0)))


@dataclass(frozen=True)
class Promise:
    """How far the probabilities of a model may be promised.

    Attributes
    ----------
    doubt : float
        Share of instances whose features mislead the model, however sure it is, as far as calibration could see.
    trust : Trust or None
        Of instances whose bags' labels are not told; None where bags could not tell it, and doubt has to do.
    """

    doubt: float = 0.0
    trust: Trust | None = None

    @classmethod
    def of_model(cls, final: Any) -> Promise:
        """That of a fitted learner; one that is not calibrated promises what it says."""
        trust = None
        if hasattr(final, "trust_slope_"):
            witnessed = final.trust_classes_.astype(bool)
            trust = Trust(final.trust_slope_, final.trust_offset_, final.trust_covariance_, witnessed)
        return cls(float(getattr(final, "doubt_", 0.0)), trust)

    def of(self, labels: np.ndarray, probability: np.ndarray, told: np.ndarray | bool) -> np.ndarray:
        """(m,) what can be promised of these labels; `told`: the labels of their bags were known.

        Labels are indices of classes; one that the model does not know is promised as if it were told.
        """
        doubted = (1.0 - self.doubt) * probability
        if self.trust is None:
            return doubted
        n_classes = len(self.trust.witnessed)
        witnessed = np.append(self.trust.witnessed, False)[np.minimum(labels, n_classes)]
        return np.where(witnessed & ~np.asarray(told), self.trust.cautious(probability), doubted)


def promise_precision(promised: np.ndarray, precision: float) -> np.ndarray:
    """(m,) mask of the largest set of instances, all above a threshold, of which that share is expected to be right.

    The expected share of right labels in a set is the mean of what is `promised` of each, so the threshold is the
    smallest one above which that mean is at least the `precision`; single instances of the set may be less sure than
    that. Empty where not even the surest is.
    """
    order = np.argsort(-promised, kind="stable")
    ordered = promised[order]
    mean = np.cumsum(ordered) / np.arange(1, len(ordered) + 1)
    last_of_equals = np.append(ordered[1:] < ordered[:-1], True) if len(ordered) else np.empty(0, dtype=bool)
    enough = np.flatnonzero((mean >= precision - 1e-12) & last_of_equals)
    kept = np.zeros(len(promised), dtype=bool)
    if len(enough):
        kept[order[: enough[-1] + 1]] = True
    return kept


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
