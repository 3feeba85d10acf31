"""Where a forest's rounds start when labels go missing: with what a smooth model says of bags that it did not see.

From label sets alone an instance may be of any class that was missed, and the first trees learn that as noise. A kernel
model of the same likelihood has no such start. It also judges, at a tenth of the cost of forests, whether a rate of
missed labels is borne out by held-out bags.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.metrics import average_precision_score
from sklearn.preprocessing import StandardScaler

from bagwise.annotation._rates import WrongLabelsMixin
from bagwise.annotation.ored import ORedLogisticRegression
from bagwise.bags import Bags
from bagwise.preprocessing import RBFDictionary

WIDTH, SIZE, L2 = 0.5, 600, 0.03  # as of "ored-rbf" in the catalogue


def smooth_model(forest: Any, bags: Bags) -> tuple[WrongLabelsMixin, Bags]:
    """The kernel model with the forest's rates and background, and the bags in its features."""
    scaled = StandardScaler().fit_transform(bags.instances)
    features = RBFDictionary(WIDTH, size=SIZE, whiten=True, random_state=0).set_output(transform="default")
    model = ORedLogisticRegression(
        l2=L2, background=forest.background, missed=forest.missed, spurious=forest.spurious, random_state=0
    )
    return model, Bags(features.fit_transform(scaled), bags.offsets)


def ranking_of_sets(proba: np.ndarray, bags: Bags, indicator: np.ndarray, weights: np.ndarray | None = None) -> float:
    """Average precision of all pairs of bag and label, by the probability that some instance carries it, weighted."""
    carried = np.minimum(proba[:, : indicator.shape[1]], 1.0 - 1e-15)
    absent = np.add.reduceat(np.log1p(-carried), bags.offsets[:-1], axis=0)
    counts = None if weights is None else np.repeat(weights, indicator.shape[1])
    return float(average_precision_score(indicator.ravel(), -absent.ravel(), sample_weight=counts))
