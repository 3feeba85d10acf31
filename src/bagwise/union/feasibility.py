"""Which bags no assignment of labels to instances can explain, and which are learned from."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bagwise.core.bags import Bags, offsets_of
from bagwise.core.base import check_known_listed, name_bags
from bagwise.core.evidence import Evidence, Given, possible_labels
from bagwise.core.exceptions import InfeasibleBagWarning, InputError, warn_caller
from bagwise.union.constants import FEW_LABELS
from bagwise.union.problem import MAX_EXACT_LABELS, LabelNoise, UnionModel

SAY_IT = (
    "Where one of several labels is there, say so (OneOf); where one may be there, too (Possible, or NaN in a matrix)."
)


def infeasible_bags(
    offsets: np.ndarray,
    given: Given,
    known: np.ndarray | None,
    background: bool,
    rates: LabelNoise | None = None,
    weights: np.ndarray | None = None,
) -> tuple[np.ndarray, str]:
    """(n,) mask of the bags whose label set no assignment gives, and what is wrong with the first of them.

    With `rates`, a label that may be spurious needs no instance, and a bag in which all went unnoticed no label. Bags
    of weight zero are not asked.
    """
    if isinstance(given, Evidence):
        return _without_explanation(offsets, given, known, background, rates, weights)
    indicator, sizes = given, np.diff(offsets)
    n_classes = indicator.shape[1]
    n_labels = indicator.sum(axis=1).astype(np.int64)
    strict = slice(None) if rates is None else rates.spurious[:n_classes] == 0.0
    needed, free = n_labels if rates is None else indicator[:, strict].sum(axis=1).astype(np.int64), sizes
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
    if weights is not None:
        impossible &= weights > 0.0
    if not impossible.any():
        return impossible, ""
    b = int(np.flatnonzero(impossible)[0])
    if n_labels[b] == 0:
        reason = f"bag {b} carries no label (background=True allows that)."
    elif free[b] == sizes[b]:
        reason = f"bag {b} carries {n_labels[b]} labels but has {sizes[b]} instance(s). {SAY_IT}"
    else:
        reason = (
            f"bag {b} carries {needed[b]} label(s) that no known instance has, but {free[b]} instance(s) that are not "
            "known."
        )
    return impossible, reason


def _without_explanation(
    offsets: np.ndarray,
    evidence: Evidence,
    known: np.ndarray | None,
    background: bool,
    rates: LabelNoise | None,
    weights: np.ndarray | None,
) -> tuple[np.ndarray, str]:
    """As `infeasible_bags`, by inference where all classes are as probable: groups may share what they need."""
    check_known_listed(offsets, evidence, known, None if rates is None else rates.missed)
    n_classes = evidence.shape[1]
    problem = UnionModel(n_classes, background, rates).problem(offsets, evidence, known)
    uniform = np.full((int(offsets[-1]), n_classes + background), 1.0 / (n_classes + background))
    limit = FEW_LABELS if evidence.groups is None else MAX_EXACT_LABELS  # propagation knows what no label can share
    found = problem.infer_in_place(uniform, softmax=False, residual=False, rates=rates, max_exact_labels=limit)
    impossible = np.isneginf(found)
    if weights is not None:
        impossible &= weights > 0.0
    if not impossible.any():
        return impossible, ""
    b = int(np.flatnonzero(impossible)[0])
    return impossible, (
        f"bag {b} has {np.diff(offsets)[b]} instance(s), too few for all labels and groups that it must carry, or no "
        f"label that they may have. {SAY_IT}"
    )


@dataclass(frozen=True)
class LabelledBags:
    """What is said of bags, without their instances, which may be anywhere.

    Attributes
    ----------
    index : (n,) number of each bag among those that the fit was given
    offsets : (n + 1,) int64
    indicator : (n, c) array of 0 and 1, or Evidence
    known : (m,) int or None
        Column of the instances whose label is known, -1 elsewhere.
    relaxed : (n,) bool or None
        Bags that are to carry labels of their set, but not all.
    weights : (n,) float or None
        How much each bag counts in the likelihood; None: as much as any other.
    """

    index: np.ndarray
    offsets: np.ndarray
    indicator: Any  # an array, or `Evidence`, which is sliced alike
    known: np.ndarray | None = None
    relaxed: np.ndarray | None = None
    weights: np.ndarray | None = None

    @classmethod
    def of(
        cls,
        offsets: np.ndarray,
        indicator: Given,
        known: np.ndarray | None = None,
        weights: np.ndarray | None = None,
    ) -> LabelledBags:
        return cls(np.arange(len(indicator)), offsets, indicator, known, weights=weights)

    def __len__(self) -> int:
        return len(self.index)

    @property
    def n_instances(self) -> float:
        """Instances, each counted as often as its bag."""
        return count_instances(self.offsets, self.weights)

    def __getitem__(self, key: Any) -> LabelledBags:
        """Some of the bags: a slice, which takes no room, integers or a mask."""
        if isinstance(key, slice):
            first, last, _ = key.indices(len(self))
            start, stop = self.offsets[first], self.offsets[last]
            return LabelledBags(
                self.index[key], self.offsets[first : last + 1] - start, self.indicator[key],
                None if self.known is None else self.known[start:stop],
                None if self.relaxed is None else self.relaxed[key],
                None if self.weights is None else self.weights[key],
            )  # fmt: skip
        known = None if self.known is None else Bags(self.known, self.offsets)[key].instances
        return LabelledBags(
            self.index[key], offsets_of(np.diff(self.offsets)[key]), self.indicator[key], known,
            None if self.relaxed is None else self.relaxed[key],
            None if self.weights is None else self.weights[key],
        )  # fmt: skip


def count_instances(offsets: np.ndarray, weights: np.ndarray | None) -> float:
    """Instances of bags, each counted as often as its bag weighs."""
    return int(offsets[-1]) if weights is None else float(weights @ np.diff(offsets))


def relaxed_bags(
    offsets: np.ndarray,
    given: Given,
    known: np.ndarray | None,
    background: bool,
    rates: LabelNoise | None,
    relaxed: np.ndarray | None = None,
) -> np.ndarray | None:
    """(n,) mask of the bags whose instances are to carry labels of the set, but not all; None where there are none.

    Those that are `relaxed` already, and with a warning that names them those that nothing explains; a bag without
    labels to choose from is an error.
    """
    impossible, reason = infeasible_bags(offsets, given, known, background, rates)
    some = possible_labels(given).any(axis=1)
    if np.any(impossible & ~some):
        empty = np.flatnonzero(~some)
        raise InputError(
            f"{len(empty)} bag(s) carry no label, {name_bags(empty)}; an instance can only be given a label of its "
            "bag. Leave these bags out, use predict_instances, or fit with background=True."
        )
    if relaxed is None:
        relaxed = np.zeros_like(impossible)
    impossible &= ~relaxed
    if not impossible.any():
        return relaxed if relaxed.any() else None
    warn_caller(
        f"{impossible.sum()} of {len(impossible)} bags cannot be explained, {name_bags(np.flatnonzero(impossible))}: "
        f"{reason} Their instances are given labels of the set, not all of which then occur.",
        InfeasibleBagWarning,
    )
    return impossible | relaxed


def select_bags(
    labelled: LabelledBags,
    *,
    background: bool,
    on_infeasible: str | None = None,
    prune: float = 0.0,
    rates: LabelNoise | None = None,
) -> LabelledBags:
    """Leave out bags of weight zero, pruned ones and, unless they are relaxed, those that no assignment explains.

    `on_infeasible` is "drop", "error" or "relax"; None drops them where the learner leaves no choice.
    """
    indicator, sizes = possible_labels(labelled.indicator), np.diff(labelled.offsets)
    impossible, reason = infeasible_bags(
        labelled.offsets, labelled.indicator, labelled.known, background, rates, labelled.weights
    )
    keep, relaxed = np.ones(len(labelled), dtype=bool) if labelled.weights is None else labelled.weights > 0.0, None
    left_out = ""
    if impossible.any():
        named = name_bags(np.flatnonzero(impossible))
        message = f"{impossible.sum()} of {len(labelled)} bags cannot be explained, {named}: {reason}"
        if on_infeasible == "error":
            raise InputError(f"{message} Correct their labels, or pass on_infeasible='drop' or 'relax'.")
        if on_infeasible == "relax":
            relaxed = impossible & indicator.any(axis=1)
        dropped = impossible if relaxed is None else impossible & ~relaxed
        keep &= ~dropped
        if dropped.any():
            who = "They" if relaxed is None else "Those without labels"
            others = ", 'relax' to use those with labels all the same" if relaxed is None else ""
            cure = "" if on_infeasible is None else f"; pass on_infeasible='error' to stop instead{others}"
            left_out = f"{message} {who} are left out of the likelihood{cure}."
    if prune > 0.0:
        n_labels = indicator.sum(axis=1).astype(float)
        cost = np.where(keep, sizes * n_labels * 2.0**n_labels, -1.0)
        keep[np.argsort(-cost, kind="stable")[: int(prune * keep.sum())]] = False
    if not keep.any():
        raise InputError(f"No bag is left to learn from: all of them are infeasible or pruned. {reason}".rstrip())
    if left_out:
        warn_caller(left_out, InfeasibleBagWarning)
    labelled = replace(labelled, relaxed=relaxed)
    return labelled if keep.all() else labelled[keep]
