"""Bag-level learners."""

from bagwise.classification.m3miml import M3MIML




__all__ = ["M3MIML"]
