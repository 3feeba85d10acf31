"""More data than memory: pieces of bags from disk, and fits that sum over them."""

from bagwise.scale._evaluate import evaluate_source
from bagwise.scale._source import BagSource
from bagwise.scale.fit import fit_source

__all__ = ["BagSource", "evaluate_source", "fit_source"]
