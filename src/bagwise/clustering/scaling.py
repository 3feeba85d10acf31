"""Scalings of bags to cluster, by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.preprocessing import Normalizer, StandardScaler

from bagwise.bags import Bags
from bagwise.clustering.whitening import WithinBagWhitener
from bagwise.parameters import check_choice
from bagwise.preprocessing import PerInstance

SCALINGS: dict[str, Callable[[], Any]] = {
    "within-bag": WithinBagWhitener,
    "standard": lambda: PerInstance(StandardScaler()),
    "length": lambda: PerInstance(Normalizer()),
}
"""within-bag: by the covariance within bags, for measurements. standard: every feature to variance 1. length: every
instance to length 1, for counts of words and the like."""


WORDS_ZERO = 0.5  # share of zeros from which on features that are never negative are counts of words and the like


def are_words(bags: Bags) -> bool:
    """Whether the features are counts of words, or like them: never negative, and most of them zero."""
    X = bags.instances
    values = X.data if sp.issparse(X) else X
    n_zero = X.shape[0] * X.shape[1] - np.count_nonzero(values)
    return n_zero > WORDS_ZERO * X.shape[0] * X.shape[1] and not np.any(values < 0)


def choose_scaling(bags: Bags) -> str:
    """The scaling that suits the features, by what they are: "length" for words, else "within-bag"."""
    return "length" if are_words(bags) else "within-bag"


def scale_bags(bags: Bags, name: str) -> Bags:
    """The bags scaled in this way; "none" leaves them as they are, "auto" asks `choose_scaling`."""
    check_choice("scaling", name, (*SCALINGS, "none", "auto"))
    name = choose_scaling(bags) if name == "auto" else name
    return bags if name == "none" else SCALINGS[name]().fit_transform(bags)
