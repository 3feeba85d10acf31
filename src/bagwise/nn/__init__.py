"""The room of torch (extra "torch"): union likelihood on tensors, and the device that fits are moved to."""

from __future__ import annotations

from typing import Any

__all__ = ["UnionLikelihoodLoss", "union_log_likelihood"]


def check_torch() -> None:
    """Say how to get torch where it is not there; a plain install does without."""
    try:
        import torch  # noqa: F401
    except ImportError as error:
        raise ImportError(f"This needs torch, and {error}; pip install 'bagwise[torch]'.") from error


def __getattr__(name: str) -> Any:
    """Names that need torch are looked up when they are asked for: the room itself can be entered without."""
    if name not in __all__:
        raise AttributeError(f"module 'bagwise.nn' has no attribute {name!r}")
    check_torch()
    from bagwise.nn import union

    return getattr(union, name)
