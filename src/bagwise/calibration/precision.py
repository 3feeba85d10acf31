"""What the name of an instance is worth, and the largest set of names of a wanted precision (selective prediction).

An instance of a held-out bag is named c, with probability p. Nobody knows whether that is right, but the label set of
the bag is evidence. Let Z be the labels of the bag beside c, and g the probability that the name is right:

- right: the bag lists c; what else it lists has nothing to do with it;
- wrong: the instance is of a class c', as probably as the model says, w_c' = p_c' / (1 - p). Then Z holds c', which is
  1 / P(c') times as probable as of any bag, and c is listed only if something else carries it, as often as bags that
  list c' list it: P(c | c').

Against the probability of Z in any bag that is

    P(c listed, Z)     = g + (1 - g) sum over c' in Z of w_c' / P(c') P(c | c'),
    P(c not listed, Z) = (1 - g) times something that does not depend on g.

g = sigmoid(a logit p + b) of greatest likelihood is what the names of the model are worth. What counts is one standard
error less, instances of one bag being one observation: few bags are worth little. Of a label that is in nearly every
bag no bag tells anything: names of it are not covered.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit, logit

from bagwise.calibration._recalibration import EVERYWHERE, SMALLEST
from bagwise.core.base import NEGLIGIBLE
from bagwise.metrics import reliability_table

TINY = 1e-300
SUREST = 1.0 - NEGLIGIBLE  # probabilities beyond it, which are written as one, have no log-odds of their own
BOUNDS = ((-3.0, 3.0), (-10.0, 10.0))  # of the logarithm of the slope, and of the offset


def log_odds(probability: np.ndarray) -> np.ndarray:
    return logit(np.clip(probability, 1.0 - SUREST, SUREST))


@dataclass(frozen=True, eq=False)
class PrecisionModel:
    """What the name of an instance is worth where only its features were seen: sigmoid(slope logit p + offset).

    Attributes
    ----------
    slope, offset : float
    covariance : (2, 2) array
        Of the logarithm of the slope and the offset: how well the bags determine them.
    covered : (c,) array of bool
        Classes of which bags tell anything: not those that all of them list.
    """

    slope: float
    offset: float
    covariance: np.ndarray
    covered: np.ndarray

    def lower_bound(self, probability: np.ndarray) -> np.ndarray:
        """One standard error below."""
        odds = log_odds(probability)
        change = np.stack([self.slope * odds, np.ones_like(odds)], axis=1)
        variance = np.einsum("ij,jk,ik->i", change, self.covariance, change)
        return expit(self.slope * odds + self.offset - np.sqrt(np.maximum(variance, 0.0)))


@dataclass(frozen=True)
class CalibratedPrecision:
    """How precise the names of a model are expected to be.

    Attributes
    ----------
    uniform : float
        Share of probability that calibration spreads over all classes: of instances that mislead the model, however
        sure it is.
    new : PrecisionModel or None
        Of instances whose bags' labels are not given; None where bags could not tell it, and `uniform` has to do.
    """

    uniform: float = 0.0
    new: PrecisionModel | None = None

    @classmethod
    def of_model(cls, model: Any) -> CalibratedPrecision:
        """That of a fitted estimator; one that is not calibrated is as precise as it says."""
        return getattr(model, "calibrated_precision", cls)()

    def of(self, labels: np.ndarray, probability: np.ndarray, listed: np.ndarray | bool) -> np.ndarray:
        """(m,) confidence in these labels; `listed`: the labels of their bags were given.

        Labels are indices of classes; one that the model does not know counts as if it were given.
        """
        spread = (1.0 - self.uniform) * probability
        if self.new is None:
            return spread
        n_classes = len(self.new.covered)
        covered = np.append(self.new.covered, False)[np.minimum(labels, n_classes)]
        return np.where(covered & ~np.asarray(listed), self.new.lower_bound(probability), spread)


def select_at_precision(confidence: np.ndarray, precision: float) -> np.ndarray:
    """(m,) mask of the largest set of instances, all above a threshold, of which that share is expected to be right.

    The expected share of right labels in a set is the mean `confidence`, so the threshold is the smallest one above
    which that mean is at least the `precision`; single instances of the set may be less sure than that. Empty where
    not even the surest is.
    """
    order = np.argsort(-confidence, kind="stable")
    ordered = confidence[order]
    mean = np.cumsum(ordered) / np.arange(1, len(ordered) + 1)
    last_of_equals = np.append(ordered[1:] < ordered[:-1], True) if len(ordered) else np.empty(0, dtype=bool)
    enough = np.flatnonzero((mean >= precision - 1e-12) & last_of_equals)
    kept = np.zeros(len(confidence), dtype=bool)
    if len(enough):
        kept[order[: enough[-1] + 1]] = True
    return kept


@dataclass(frozen=True)
class Named:
    """What instances are named, and what their bags say to it.

    Attributes
    ----------
    probability : (m,) array
        Of the most probable class.
    listed : (m,) array of bool
        Whether the bag lists it.
    excused : (m,) array
        How probable what the bag lists is where the name is wrong and listed all the same, beside where it is right.
    label : (m,) array
        The class.
    by_chance : (m,) array
        How probable it is that the bag lists the name where that is wrong.
    """

    probability: np.ndarray
    listed: np.ndarray
    excused: np.ndarray
    label: np.ndarray
    by_chance: np.ndarray

    @classmethod
    def of(cls, proba: np.ndarray, bag_index: np.ndarray, Y: np.ndarray, weights: np.ndarray) -> Named:
        """Of (m, c) probabilities, a background's last, in bags with (n, c) label sets that count so much each."""
        n_classes = Y.shape[1]
        rows = np.arange(len(proba))
        best = proba[:, :n_classes].argmax(axis=1)
        sets = np.asarray(Y, dtype=np.float64)
        counts = weights @ sets
        share = (counts + 0.5) / (weights.sum() + 1.0)
        # of bags that list the row's label: the column's
        together = (sets.T @ (weights[:, None] * sets) + share) / (counts[:, None] + 1.0)
        wrong = proba.copy()
        wrong[rows, best] = 0.0
        wrong /= np.maximum(wrong.sum(axis=1, keepdims=True), TINY)
        by_chance = np.einsum("ic,ic->i", wrong[:, :n_classes], together.T[best])
        if proba.shape[1] > n_classes:
            by_chance += wrong[:, n_classes] * share[best]
        wrong[:, :n_classes] *= sets[bag_index] / share
        excused = np.einsum("ic,ic->i", wrong[:, :n_classes], together.T[best])
        if proba.shape[1] > n_classes:  # background is in any bag, and says nothing of its labels
            excused += wrong[:, n_classes] * share[best]
        return cls(proba[rows, best], sets[bag_index, best] > 0.0, excused, best, by_chance)


def names_table(
    proba: np.ndarray, offsets: np.ndarray, Y: np.ndarray, weights: np.ndarray, known: np.ndarray | None = None
) -> dict[str, Any] | None:
    """How often names of instances are right, by their probability; arguments are those of `fit_precision`.

    Bags list the right names and, by chance, a share t of the wrong ones: of names of which a share l is listed,
    (l - t) / (1 - t) are right. Names of which bags tell nothing do not count; None where none is left.

    Returns
    -------
    dict
        ``count``, ``confidence`` (mean probability) and ``accuracy`` of all names, and ``rows`` of bins of probability
        like those of `bagwise.metrics.reliability_table`.
    """
    named, counted = _counted(proba, offsets, Y, weights, known)
    if not counted.any():
        return None
    probability, listed, chance = (
        values[counted] for values in (np.clip(named.probability, 0.0, 1.0), named.listed, named.by_chance)
    )
    rows = reliability_table(listed, probability)
    for row in rows:
        inside = (probability >= row["low"]) & ((probability < row["high"]) | (row["high"] == 1.0))
        row["accuracy"] = _beyond_chance(listed[inside], chance[inside])
    right = _beyond_chance(listed, chance)
    return {"count": len(probability), "confidence": float(probability.mean()), "accuracy": right, "rows": rows}


def _beyond_chance(listed: np.ndarray, by_chance: np.ndarray) -> float:
    share, chance = float(listed.mean()), float(by_chance.mean())
    return float(np.clip((share - chance) / max(1.0 - chance, SMALLEST), 0.0, 1.0))


def _counted(
    proba: np.ndarray, offsets: np.ndarray, Y: np.ndarray, weights: np.ndarray, known: np.ndarray | None
) -> tuple[Named, np.ndarray]:
    """The names, and (m,) which of them bags tell something of."""
    sizes = np.diff(offsets)
    named = Named.of(proba, np.repeat(np.arange(len(sizes)), sizes), Y, weights)
    covered = _covered(Y, weights)
    return named, covered[named.label] if known is None else covered[named.label] & (known == -1)


def _covered(Y: np.ndarray, weights: np.ndarray) -> np.ndarray:
    return np.average(Y, axis=0, weights=np.maximum(weights, SMALLEST)) < EVERYWHERE


def named_likelihood(parameters: np.ndarray, named: Named) -> tuple[np.ndarray, np.ndarray]:
    """(m,) log-likelihoods and their (m, 2) gradients in the logarithm of the slope and the offset."""
    slope = np.exp(parameters[0])
    odds = log_odds(named.probability)
    right = expit(slope * odds + parameters[1])
    wrong = expit(-slope * odds - parameters[1])
    listed_in_all = np.maximum(right + wrong * named.excused, TINY)
    value = np.where(named.listed, np.log(listed_in_all), np.log(np.maximum(wrong, TINY)))
    by_eta = np.where(named.listed, right * wrong * (1.0 - named.excused) / listed_in_all, -right)
    return value, np.stack([by_eta * slope * odds, by_eta], axis=1)


def fit_precision(
    proba: np.ndarray,
    offsets: np.ndarray,
    Y: np.ndarray,
    weights: np.ndarray | None = None,
    known: np.ndarray | None = None,
) -> PrecisionModel:
    """From probabilities that did not see the bags.

    `weights` (n,) are those of the bags. Instances that are known, (m,) other than -1, tell nothing of the model and
    are left out. A weak prior leans towards nothing to put right.
    """
    sizes = np.diff(offsets)
    of_bags = np.ones(len(sizes)) if weights is None else weights
    named, counted = _counted(proba, offsets, Y, of_bags, known)
    of_rows = np.repeat(of_bags, sizes) * counted

    def negative(parameters: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = named_likelihood(parameters, named)
        return 0.5 * float(parameters @ parameters) - float(of_rows @ value), parameters - of_rows @ gradient

    found = minimize(negative, np.zeros(2), jac=True, method="L-BFGS-B", bounds=BOUNDS).x
    pulls = np.add.reduceat(counted[:, None] * named_likelihood(found, named)[1], offsets[:-1], axis=0)
    inverse = np.linalg.inv(_curvature(negative, found))
    # a sandwich: bags, not instances, are independent; the prior counts as one more, so that no bags tell nothing
    covariance = inverse @ (pulls.T @ (of_bags[:, None] * pulls) + np.eye(2)) @ inverse
    return PrecisionModel(float(np.exp(found[0])), float(found[1]), covariance, _covered(Y, of_bags))


def _curvature(
    negative: Callable[[np.ndarray], tuple[float, np.ndarray]], at: np.ndarray, step: float = 1e-4
) -> np.ndarray:
    """(2, 2) second derivatives by differences of the gradient; at least that of the prior in every direction."""
    moves = step * np.eye(2)
    rows = [(negative(at + move)[1] - negative(at - move)[1]) / (2.0 * step) for move in moves]
    values, vectors = np.linalg.eigh(0.5 * (np.array(rows) + np.array(rows).T))
    return (vectors * np.maximum(values, 1.0)) @ vectors.T
