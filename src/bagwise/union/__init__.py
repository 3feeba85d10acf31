"""The likelihood of what is listed for a bag: exact kernels, belief propagation, label noise, and which bags can be."""

from pathlib import Path

from bagwise.kernels import cache_folder, is_compiled
from bagwise.union._infer import infer, softmax_in_place, sum_log_partition
from bagwise.union._posterior import check_bags, union_posterior
from bagwise.union._problem import (
    MAX_EXACT_LABELS,
    METHODS,
    LabelledBags,
    LabelNoise,
    UnionModel,
    UnionProblem,
    as_rates,
    count_instances,
    infeasible_bags,
    inference_threads,
    log_absence,
    relaxed_bags,
    select_bags,
    union_log_odds,
    warn_approximation,
)

__all__ = [
    "MAX_EXACT_LABELS",
    "METHODS",
    "LabelNoise",
    "LabelledBags",
    "UnionModel",
    "UnionProblem",
    "are_compiled",
    "as_rates",
    "check_bags",
    "compiled_folder",
    "count_instances",
    "infeasible_bags",
    "inference_threads",
    "log_absence",
    "relaxed_bags",
    "select_bags",
    "softmax_in_place",
    "sum_log_partition",
    "union_log_odds",
    "union_posterior",
    "warn_approximation",
]


def are_compiled() -> bool:
    """Whether the kernel that every fit runs through has been compiled before.

    Examples
    --------
    >>> from bagwise.union import are_compiled
    >>> are_compiled() in (True, False)
    True
    """
    return is_compiled(infer)


def compiled_folder() -> Path:
    """Where that kernel is kept.

    Examples
    --------
    >>> from bagwise.union import compiled_folder
    >>> compiled_folder().is_absolute()
    True
    """
    return cache_folder(infer)
