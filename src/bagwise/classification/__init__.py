"""Learners of the label sets of bags."""

from bagwise.classification._m3miml import M3MIML
from bagwise.classification._mimlboost import MIMLBoost
from bagwise.classification._mimlnn import MIMLNN
from bagwise.classification._mimlsvm import MIMLSVM
from bagwise.classification._stacking import BagStack
from bagwise.core.fitted import savable

__all__ = ["M3MIML", "MIMLNN", "MIMLSVM", "BagStack", "MIMLBoost"]

savable(M3MIML, MIMLNN, MIMLSVM, BagStack, MIMLBoost)
