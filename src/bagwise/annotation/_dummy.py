"""The reference from below: what label counts alone give."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from bagwise.core.bags import Bags
from bagwise.core.base import BagClassifierMixin, BagEstimator, InstanceAnnotatorMixin
from bagwise.core.fitted import Attribute, Numbers
from bagwise.core.typing import BagsLike, LabelsLike, WeightsLike


class MostFrequentAnnotator(InstanceAnnotatorMixin, BagClassifierMixin, BagEstimator):
    """Looks at no feature: every score is the share of training bags that carry the label.

    The dummy of Pham et al. `predict_instances` gives the most common label of the training bags, `annotate` the most
    common one of the bag's own set, `decision_function` the shares (best for the ranking measures among constant
    scores), `predict` the labels of more than half of the bags (best for the Hamming loss).

    Attributes
    ----------
    share_ : (c,) array

    Examples
    --------
    >>> from bagwise.annotation import MostFrequentAnnotator
    >>> model = MostFrequentAnnotator().fit([[[0.0], [1.0]], [[2.0]], [[3.0]]], [{"wren", "robin"}, {"wren"}, {"tit"}])
    >>> model.classes_.tolist(), model.share_.round(2).tolist()
    (['robin', 'tit', 'wren'], [0.33, 0.33, 0.67])
    >>> model.predict_instances([[[9.0], [9.0]]]).tolist()
    ['wren', 'wren']
    """

    _fitted: ClassVar[dict[str, Attribute]] = {"share_": Numbers("classes", low=0, high=1)}

    def fit(
        self, X: BagsLike, y: LabelsLike | None = None, sample_weight: WeightsLike | None = None
    ) -> MostFrequentAnnotator:
        """Count; with `sample_weight` each bag as often as it weighs."""
        _, indicator, weights = self._start_weighted_fit(X, y, sample_weight)
        self.share_ = np.average(indicator, axis=0, weights=weights)
        return self

    def _instance_scores(self, bags: Bags) -> np.ndarray:
        return np.tile(self.share_, (bags.n_instances, 1))

    def _bag_scores(self, bags: Bags) -> np.ndarray:
        return np.tile(self.share_, (len(bags), 1))

    def _bag_label_sets(self, bags: Bags) -> np.ndarray:
        return np.tile(self.share_ > 0.5, (len(bags), 1))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = True
        return tags
