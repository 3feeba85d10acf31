"""Which bags no assignment of labels to instances can explain."""

from __future__ import annotations

import numpy as np

from bagwise.exceptions import InputError


def infeasible_bags(
    offsets: np.ndarray, indicator: np.ndarray, known: np.ndarray | None, background: bool
) -> tuple[np.ndarray, str]:
    """(n,) mask of the bags whose label set no assignment gives, and what is wrong with the first of them."""
    sizes = np.diff(offsets)
    n_labels = indicator.sum(axis=1).astype(np.int64)
    needed, free = n_labels, sizes
    if known is not None:
        bag = np.repeat(np.arange(len(sizes)), sizes)
        rows = np.flatnonzero(known >= 0)
        outside = rows[indicator[bag[rows], known[rows]] == 0]
        if len(outside):
            i = outside[0]
            raise InputError(
                f"Instance {i - offsets[bag[i]]} of bag {bag[i]} is known to be of class {known[i]}, which its bag "
                f"does not carry ({len(outside)} such instance(s)); add the label to the bag or set the instance to -1."
            )
        covered = np.zeros_like(indicator)
        covered[bag[rows], known[rows]] = 1
        needed = n_labels - covered.sum(axis=1)
        free = sizes - np.bincount(bag[rows], minlength=len(sizes))
    impossible = needed > free
    if not background:
        impossible |= n_labels == 0
    if not impossible.any():
        return impossible, ""
    b = int(np.flatnonzero(impossible)[0])
    if n_labels[b] == 0:
        reason = f"bag {b} carries no label (background=True allows that)."
    else:
        reason = f"bag {b} carries {n_labels[b]} labels but has {sizes[b]} instance(s)."
    return impossible, reason
