"""Transformers of instances, as scikit-learn's; `PerInstance`, which lifts any of them to bags; `BagStatistics`."""

from bagwise.core.fitted import savable
from bagwise.preprocessing._bag_statistics import BagStatistics
from bagwise.preprocessing._heads import LinearHead, linear_head
from bagwise.preprocessing._instances import (
    CLPLScaler,
    RandomFourierFeatures,
    RBFDictionary,
    SparseReducer,
    TermScaler,
    column_moments,
    filled,
    mean_squared_distance,
)
from bagwise.preprocessing._per_instance import PerInstance, check_variances

__all__ = [
    "BagStatistics",
    "CLPLScaler",
    "LinearHead",
    "PerInstance",
    "RBFDictionary",
    "RandomFourierFeatures",
    "SparseReducer",
    "TermScaler",
    "check_variances",
    "column_moments",
    "filled",
    "linear_head",
    "mean_squared_distance",
]

savable(BagStatistics, CLPLScaler, PerInstance, RandomFourierFeatures, RBFDictionary, SparseReducer, TermScaler)
