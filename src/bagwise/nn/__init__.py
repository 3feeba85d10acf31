"""The room of torch (extra "torch"): union likelihood of tensors, networks under it, the device that fits are moved to.

Public names are looked up when they are asked for: the room itself can be entered without torch.
"""

from __future__ import annotations

import importlib
from typing import Any

_NAMES = {
    "BagLoader": "bagwise.nn._batches",
    "ORedNetwork": "bagwise.nn.network",
    "UnionLikelihoodLoss": "bagwise.nn._union",
    "union_log_likelihood": "bagwise.nn._union",
}
__all__ = ["BagLoader", "ORedNetwork", "UnionLikelihoodLoss", "union_log_likelihood"]

SMALLEST = 1e-30  # of a probability: its logarithm is finite


def check_torch() -> None:
    """Say how to get torch where it is not there; a plain install does without."""
    try:
        import torch  # noqa: F401
    except ImportError as error:
        raise ImportError(f"This needs torch, and {error}; pip install 'bagwise[torch]'.") from error


def __getattr__(name: str) -> Any:
    if name not in _NAMES:
        raise AttributeError(f"module 'bagwise.nn' has no attribute {name!r}")
    if name != "ORedNetwork":  # which needs torch for its fit alone
        check_torch()
    return getattr(importlib.import_module(_NAMES[name]), name)
