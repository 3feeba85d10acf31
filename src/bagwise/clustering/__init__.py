"""Clusterers of bags."""

from bagwise.clustering.bamic import BAMIC
from bagwise.clustering.cpm3c import CPM3C
from bagwise.clustering.m3ic import M3IC, Claims
from bagwise.clustering.majority import MajorityKMeans
from bagwise.clustering.mean_kmeans import MeanKMeans
from bagwise.clustering.mixture import BagMixture
from bagwise.clustering.stability import Trial, try_stability
from bagwise.clustering.sweep import choose_setting, sweep
from bagwise.clustering.whitening import WithinBagWhitener

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
