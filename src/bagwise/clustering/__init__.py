"""Clusterers of bags."""

from bagwise.clustering.bamic import BAMIC
from bagwise.clustering.cpm3c import CPM3C
from bagwise.clustering.m3ic import M3IC, Claims
from bagwise.clustering.majority import MajorityKMeans
from bagwise.clustering.sweep import choose_setting, sweep
from bagwise.clustering.whitening import WithinBagWhitener

__all__ = ["BAMIC", "CPM3C", "M3IC", "Claims", "MajorityKMeans", "WithinBagWhitener", "choose_setting", "sweep"]
