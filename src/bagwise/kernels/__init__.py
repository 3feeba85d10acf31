"""Hot functions on plain arrays."""

from bagwise.kernels._cache import cache_folder, get_num_threads, intrinsic, is_compiled, njit
from bagwise.kernels.hausdorff import hausdorff_distances

__all__ = ["cache_folder", "get_num_threads", "hausdorff_distances", "intrinsic", "is_compiled", "njit"]
