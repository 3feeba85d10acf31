"""Hot functions on plain arrays."""

# ruff: noqa: E402 - the cache is settled before the first kernel is declared
from bagwise.kernels._cache import is_compiled, use_writable_cache

use_writable_cache()

from bagwise.kernels._union_infer import infer
from bagwise.kernels.hausdorff import hausdorff_distances
from bagwise.kernels.union import union_posterior

__all__ = ["are_compiled", "hausdorff_distances", "union_posterior"]


def are_compiled() -> bool:
    """Whether the kernel that every fit runs through has been compiled before."""
    return is_compiled(infer)
