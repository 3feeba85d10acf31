"""Instance annotators."""

from bagwise.annotation.ored import ORedLogisticRegression

__all__ = ["ORedLogisticRegression"]
