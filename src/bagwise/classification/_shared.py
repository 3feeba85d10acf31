"""What the learners of the papers share: the T-criterion, and classes without a second side."""

from __future__ import annotations

import numpy as np

from bagwise.core.bags import Bags
from bagwise.core.base import BagClassifierMixin, BagEstimator
from bagwise.core.exceptions import InputError
from bagwise.core.typing import BagsLike, LabelsLike, WeightsLike
from bagwise.core.validation import distinct_bags, validate_weights

NEVER, ALWAYS = -1e6, 1.0
"""Scores of a class that no training bag carries, or every one: any score <= -1 (>= 1) solves the problem of such a
class, and one that was never seen must not win where all others are negative."""


class TCriterionClassifier(BagClassifierMixin, BagEstimator):
    """Root of the learners that predict by the T-criterion; a subclass gives `_bag_scores(bags)`."""

    def _start_class_problems(
        self, X: BagsLike, y: LabelsLike | None, sample_weight: WeightsLike | None
    ) -> tuple[np.ndarray, Bags, np.ndarray, np.ndarray, np.ndarray]:
        """Distinct bags of some weight: their numbers, themselves, indicator, weights (ones where none were given).

        Last (c,) scores of constant classes, NaN for others: a class that no bag or every bag carries has nothing to
        learn from.
        """
        bags, indicator = self._start_fit(X, y)
        weights = validate_weights(sample_weight, len(bags))
        index = np.arange(len(bags)) if weights is None else np.flatnonzero(weights)
        first, weights = distinct_bags(bags[index], indicator[index], None if weights is None else weights[index])
        index = index[first]
        bags, indicator = bags[index], indicator[index]
        if indicator.shape[1] == 1 and indicator.all():
            raise InputError(
                f"{type(self).__name__} needs bags that differ in their labels, but there is one class only, "
                f"{self.classes_[0]!r}, and every bag carries it; add bags without it or a second class."
            )
        carried = indicator.mean(axis=0)
        constant = np.where(carried == 0, NEVER, np.where(carried == 1, ALWAYS, np.nan))
        return index, bags, indicator, np.ones(len(bags)) if weights is None else weights, constant

    def _bag_label_sets(self, bags: Bags) -> np.ndarray:
        return t_criterion(self._bag_scores(bags))


def t_criterion(scores: np.ndarray) -> np.ndarray:
    """(n, c) indicator of the classes with a score of zero or more, or of the best one where there is none.

    The T-criterion of Boutell et al. (2004), Pattern Recognition 37, 1757-1771.
    """
    labels = (scores >= 0).astype(np.uint8)
    empty = np.flatnonzero(~labels.any(axis=1))
    labels[empty, scores[empty].argmax(axis=1)] = 1
    return labels
