"""Transformers of instances, as scikit-learn's; `PerInstance`, which lifts any of them to bags; `BagStatistics`."""

from bagwise.core.fitted import savable
from bagwise.preprocessing._bag_statistics import BagStatistics
from bagwise.preprocessing._kernel_features import RandomFourierFeatures, RBFDictionary, mean_squared_distance
from bagwise.preprocessing._per_instance import PerInstance, check_variances
from bagwise.preprocessing._reduction import SparseReducer, filled
from bagwise.preprocessing._scalers import CLPLScaler, TermScaler, column_moments

__all__ = [
    "BagStatistics",
    "CLPLScaler",
    "PerInstance",
    "RBFDictionary",
    "RandomFourierFeatures",
    "SparseReducer",
    "TermScaler",
    "check_variances",
    "column_moments",
    "filled",
    "mean_squared_distance",
]

savable(BagStatistics, CLPLScaler, PerInstance, RandomFourierFeatures, RBFDictionary, SparseReducer, TermScaler)
