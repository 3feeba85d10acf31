"""Instance annotators."""

from bagwise.annotation.clpl import CLPL
from bagwise.annotation.dummy import MostFrequentAnnotator
from bagwise.annotation.forest import ORedForest
from bagwise.annotation.lsbcmm import LSBCMM
from bagwise.annotation.mimlfast import MIMLFast
from bagwise.annotation.noisy_or import NoisyOrLogisticRegression
from bagwise.annotation.observers import Observers, learn_from_observers
from bagwise.annotation.ored import ORedLogisticRegression
from bagwise.annotation.query import query_order
from bagwise.annotation.sim import SupportInstanceMachine
from bagwise.annotation.supervised import SupervisedAnnotator
from bagwise.core.fitted import savable

__all__ = [
    "CLPL",
    "LSBCMM",
    "MIMLFast",
    "MostFrequentAnnotator",
    "NoisyOrLogisticRegression",
    "ORedForest",
    "ORedLogisticRegression",
    "Observers",
    "SupervisedAnnotator",
    "SupportInstanceMachine",
    "learn_from_observers",
    "query_order",
]

savable(
    CLPL,
    LSBCMM,
    MIMLFast,
    MostFrequentAnnotator,
    NoisyOrLogisticRegression,
    ORedForest,
    ORedLogisticRegression,
    SupervisedAnnotator,
    SupportInstanceMachine,
)
