"""Bag-level learners."""

from bagwise.classification.m3miml import M3MIML
from bagwise.classification.mimlboost import MIMLBoost
from bagwise.classification.mimlnn import MIMLNN
from bagwise.classification.mimlsvm import MIMLSVM

__all__ = ["M3MIML", "MIMLNN", "MIMLSVM", "MIMLBoost"]
