"""More data than memory: pieces of bags from disk, and fits that sum over them."""

from bagwise.scale.evaluate import evaluate_source
from bagwise.scale.fit import fit_source
from bagwise.scale.source import BagSource

__all__ = ["BagSource", "evaluate_source", "fit_source"]
