"""Hot functions on plain arrays."""

# ruff: noqa: E402 - the cache is settled before the first kernel is declared
from bagwise.kernels._cache import cache_folder, get_num_threads, is_compiled, use_writable_cache

use_writable_cache()

from bagwise.kernels.hausdorff import hausdorff_distances

__all__ = ["cache_folder", "get_num_threads", "hausdorff_distances", "is_compiled"]
