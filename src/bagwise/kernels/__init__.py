"""Hot functions on plain arrays."""

from bagwise.kernels.hausdorff import hausdorff_distances
from bagwise.kernels.union import union_posterior

__all__ = ["hausdorff_distances", "union_posterior"]
