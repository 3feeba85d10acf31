"""The clusterers by name."""

from __future__ import annotations

from typing import Any

from bagwise.clustering.bamic import BAMIC
from bagwise.clustering.cpm3c import CPM3C
from bagwise.clustering.m3ic import M3IC
from bagwise.clustering.majority import MajorityKMeans
from bagwise.clustering.mean_kmeans import MeanKMeans
from bagwise.clustering.mixture import BagMixture
from bagwise.parameters import check_choice

METHODS: dict[str, type[Any]] = {
    "mixture": BagMixture,
    "m3ic": M3IC,
    "cpm3c": CPM3C,
    "bamic": BAMIC,
    "kmeans": MajorityKMeans,
    "mean-kmeans": MeanKMeans,
}
BASELINE = "mean-kmeans"
"""What every other method is shown beside."""


def make_clusterer(name: str, **settings: Any) -> Any:
    """A fresh clusterer with those of the settings that it has and that are not None."""
    check_choice("method", name, METHODS)
    model = METHODS[name]()
    known = model.get_params()
    return model.set_params(**{key: value for key, value in settings.items() if key in known and value is not None})
