"""Which bags no assignment of labels to instances can explain, and which are learned from."""

from __future__ import annotations

import numpy as np

from bagwise.bags import Bags
from bagwise.base import name_bags
from bagwise.exceptions import InfeasibleBagWarning, InputError, warn_caller
from bagwise.findings import check_known_listed
from bagwise.kernels.union import Rates


def infeasible_bags(
    offsets: np.ndarray,
    indicator: np.ndarray,
    known: np.ndarray | None,
    background: bool,
    rates: Rates | None = None,
) -> tuple[np.ndarray, str]:
    """(n,) mask of the bags whose label set no assignment gives, and what is wrong with the first of them.

    With `rates`, a label that may be spurious needs no instance, and a bag in which all went unnoticed no label.
    """
    sizes = np.diff(offsets)
    n_classes = indicator.shape[1]
    n_labels = indicator.sum(axis=1).astype(np.int64)
    strict = np.ones(n_classes, dtype=bool) if rates is None else rates.spurious[:n_classes] == 0.0
    needed, free = indicator[:, strict].sum(axis=1).astype(np.int64), sizes
    if known is not None:
        check_known_listed(offsets, indicator, known, None if rates is None else rates.missed)
        bag = np.repeat(np.arange(len(sizes)), sizes)
        rows = np.flatnonzero(known >= 0)
        listed = rows[known[rows] < indicator.shape[1]]  # not those that are known to be background
        covered = np.zeros_like(indicator)
        covered[bag[listed], known[listed]] = 1
        needed = needed - (covered & indicator)[:, strict].sum(axis=1, dtype=np.int64)
        free = sizes - np.bincount(bag[rows], minlength=len(sizes))
    impossible = needed > free
    if not background and not (rates is not None and rates.missed.any()):
        impossible |= n_labels == 0
    if not impossible.any():
        return impossible, ""
    b = int(np.flatnonzero(impossible)[0])
    if n_labels[b] == 0:
        reason = f"bag {b} carries no label (background=True allows that)."
    else:
        reason = f"bag {b} carries {n_labels[b]} labels but has {sizes[b]} instance(s)."
    return impossible, reason


def relaxed_bags(
    offsets: np.ndarray, indicator: np.ndarray, known: np.ndarray | None, background: bool, rates: Rates | None
) -> np.ndarray | None:
    """(n,) mask of the bags whose instances are to carry labels of the set, but not all; None where there are none.

    With a warning that names them; a bag without labels to choose from is an error.
    """
    impossible, reason = infeasible_bags(offsets, indicator, known, background, rates)
    if np.any(impossible & ~indicator.any(axis=1)):
        empty = np.flatnonzero(~indicator.any(axis=1))
        raise InputError(
            f"{len(empty)} bag(s) carry no label, {name_bags(empty)}; an instance can only be given a label of its "
            "bag. Leave these bags out, use predict_instances, or fit with background=True."
        )
    if not impossible.any():
        return None
    warn_caller(
        f"{impossible.sum()} of {len(impossible)} bags cannot be explained, {name_bags(np.flatnonzero(impossible))}: "
        f"{reason} Their instances are given labels of the set, not all of which then occur.",
        InfeasibleBagWarning,
    )
    return impossible


def select_bags(
    bags: Bags,
    indicator: np.ndarray,
    known: np.ndarray | None,
    *,
    background: bool,
    on_infeasible: str,
    prune: float = 0.0,
    rates: Rates | None = None,
) -> tuple[Bags, np.ndarray, np.ndarray | None, np.ndarray | None]:
    """Leave out pruned bags and, unless they are relaxed, those that no assignment explains.

    Returns
    -------
    bags, indicator, known
        Of those that are left.
    relaxed : (n,) bool or None
        Which of them are to carry labels of their set, but not all.
    """
    impossible, reason = infeasible_bags(bags.offsets, indicator, known, background, rates)
    keep, relaxed = np.ones(len(bags), dtype=bool), None
    if impossible.any():
        named = name_bags(np.flatnonzero(impossible))
        message = f"{impossible.sum()} of {len(bags)} bags cannot be explained, {named}: {reason}"
        if on_infeasible == "error":
            raise InputError(f"{message} Correct their labels, or pass on_infeasible='drop' or 'relax'.")
        if on_infeasible == "relax":
            relaxed = impossible & indicator.any(axis=1)
        keep = ~impossible if relaxed is None else ~impossible | relaxed
        if not keep.all():
            warn_caller(
                f"{message} They are left out of the likelihood; pass on_infeasible='error' to stop instead, "
                "'relax' to use them all the same.",
                InfeasibleBagWarning,
            )
    if prune > 0.0:
        n_labels = indicator.sum(axis=1).astype(float)
        cost = np.where(keep, bags.sizes * n_labels * 2.0**n_labels, -1.0)
        keep[np.argsort(-cost, kind="stable")[: int(prune * keep.sum())]] = False
    if not keep.any():
        raise InputError("No bag is left to learn from: all of them are infeasible or pruned.")
    if keep.all():
        return bags, indicator, known, relaxed
    if known is not None:
        known = Bags(known, bags.offsets)[keep].instances
    return bags[keep], indicator[keep], known, None if relaxed is None else relaxed[keep]
