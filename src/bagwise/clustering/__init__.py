"""Clusterers of bags, scalings for them, and the choice of their settings without labels."""

from bagwise.clustering._bamic import BAMIC
from bagwise.clustering._cpm3c import CPM3C
from bagwise.clustering._kmeans import MajorityKMeans, MeanKMeans
from bagwise.clustering._m3ic import M3IC, Claims
from bagwise.clustering._mixture import BagMixture
from bagwise.clustering._stability import Trial, try_stability
from bagwise.clustering.scaling import WithinBagWhitener
from bagwise.clustering.sweep import choose_setting, sweep
from bagwise.core.fitted import savable

__all__ = [
    "BAMIC",
    "CPM3C",
    "M3IC",
    "BagMixture",
    "Claims",
    "MajorityKMeans",
    "MeanKMeans",
    "Trial",
    "WithinBagWhitener",
    "choose_setting",
    "sweep",
    "try_stability",
]

savable(BAMIC, CPM3C, M3IC, BagMixture, MajorityKMeans, MeanKMeans, WithinBagWhitener)
