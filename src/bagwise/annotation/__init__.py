"""Instance annotators."""

from bagwise.annotation._dummy import MostFrequentAnnotator
from bagwise.annotation._lsbcmm import LSBCMM
from bagwise.annotation._mimlfast import MIMLFast
from bagwise.annotation._observers import Observers, learn_from_observers, observer_log_odds
from bagwise.annotation._query import query_order
from bagwise.annotation._sim import SupportInstanceMachine
from bagwise.annotation._supervised import SupervisedAnnotator
from bagwise.annotation.clpl import CLPL
from bagwise.annotation.forest import ORedForest
from bagwise.annotation.noisy_or import NoisyOrLogisticRegression
from bagwise.annotation.ored import ORedLogisticRegression
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
    "observer_log_odds",
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
