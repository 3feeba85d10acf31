"""Scalings of bags to cluster, by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

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


def scale_bags(bags: Bags, name: str) -> Bags:
    """The bags scaled in this way; "none" leaves them as they are."""
    check_choice("scaling", name, (*SCALINGS, "none"))
    return bags if name == "none" else SCALINGS[name]().fit_transform(bags)
