"""Which bags no assignment of labels to instances can explain."""

from __future__ import annotations

import numpy as np

from bagwise.findings import check_known_listed


def infeasible_bags(
    offsets: np.ndarray, indicator: np.ndarray, known: np.ndarray | None, background: bool
) -> tuple[np.ndarray, str]:
    """(n,) mask of the bags whose label set no assignment gives, and what is wrong with the first of them."""
    sizes = np.diff(offsets)
    n_labels = indicator.sum(axis=1).astype(np.int64)
    needed, free = n_labels, sizes
    if known is not None:
        check_known_listed(offsets, indicator, known)
        bag = np.repeat(np.arange(len(sizes)), sizes)
        rows = np.flatnonzero(known >= 0)
        listed = rows[known[rows] < indicator.shape[1]]  # not those that are known to be background
        covered = np.zeros_like(indicator)
        covered[bag[listed], known[listed]] = 1
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
