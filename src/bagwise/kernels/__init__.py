"""Hot functions on plain arrays."""

from bagwise.kernels.union import union_posterior

__all__ = ["union_posterior"]
