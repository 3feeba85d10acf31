"""Instance annotators."""

from bagwise.annotation.dummy import MostFrequentAnnotator
from bagwise.annotation.ored import ORedLogisticRegression
from bagwise.annotation.supervised import SupervisedAnnotator

__all__ = ["MostFrequentAnnotator", "ORedLogisticRegression", "SupervisedAnnotator"]
