"""A class that any bag may hold unlisted: what it is called, and the shift of its scores to an expected share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.optimize import brentq

from bagwise.core.bags import Bags
from bagwise.core.base import name_bags
from bagwise.core.checks import check_that
from bagwise.core.evidence import Given, possible_labels
from bagwise.core.exceptions import BackgroundShareWarning, InfeasibleBagWarning, warn_caller
from bagwise.union import LabelledBags, UnionModel, UnionProblem

AUTO = "auto"
FARTHEST_SHIFT = 30.0
CLOSE_ENOUGH = 1e-3  # of the shift


def has_background(model: Any, labelled: LabelledBags, may_miss: bool) -> bool:
    """Whether a fit has a background: as its parameter says, or with "auto" where something is of no class.

    That is where bags with and without labels are learned from, or an instance is known to be background. Where labels
    `may_miss`, bags without labels need none.
    """
    check_that(model, "background", lambda value: value in (True, False, AUTO), "True, False or 'auto'")
    if model.background != AUTO:
        return bool(model.background)
    given, known = labelled.indicator, labelled.known
    if known is not None and np.any(known == given.shape[1]):
        return True
    used = np.ones(len(given), dtype=bool) if labelled.weights is None else labelled.weights > 0.0
    some = possible_labels(given).any(axis=1)
    empty = np.flatnonzero(used & ~some)
    if may_miss or not len(empty) or not np.any(used & some):
        return False
    warn_caller(
        f"{len(empty)} of {used.sum()} bags carry no label, {name_bags(empty)}: a background class was added, of which "
        "all of their instances are. Pass background=True to have it without this warning, or background=False to "
        "leave out bags whose labels are not known.",
        InfeasibleBagWarning,
    )
    return True


def background_label(classes: np.ndarray) -> int | None:
    """What an instance of no class is called beside these."""
    return -1 if np.issubdtype(classes.dtype, np.integer) else None


def listed_labels(posterior: np.ndarray, bags: Bags, given: Given, known: np.ndarray | None = None) -> np.ndarray:
    """(m,) most probable label of every instance among those that may be in its bag; -1 where there is none.

    These are the labels that are listed, and where evidence says more the certain and possible ones, those of groups
    and those of any confidence; -1 also where background is known.
    """
    listed, n_classes = np.repeat(possible_labels(given), bags.sizes, axis=0), given.shape[1]
    labels = np.where(listed == 1, posterior[:, :n_classes], -1.0).argmax(axis=1)
    labels[~listed.any(axis=1)] = -1
    if known is not None:  # those of a class that is not listed went unnoticed
        labels[known >= 0] = known[known >= 0]
        labels[known == n_classes] = -1
    return labels


def shift_to_share(
    model: UnionModel, problem: UnionProblem, proba: np.ndarray, of_rows: np.ndarray, share: float
) -> float:
    """As `shift_of_mass`, of (m, c + 1) probabilities of instances, each of which counts so much."""
    counted = problem.counted_instances * of_rows
    count = float(counted.sum())

    def mass(shift: float) -> tuple[float, float]:
        posterior = move_last_column(proba.copy(), shift)
        model.infer(problem, posterior)
        return float(np.sum(posterior[:, -1] * counted)), count

    return shift_of_mass(mass, share)


def shift_of_mass(mass: Callable[[float], tuple[float, float]], share: float) -> float:
    """The shift of the background's score at which its mean posterior over the instances that count is the share.

    Zero, with a `BackgroundShareWarning`, where there is no such shift: moved as far as it goes, a model would take
    everything for background, or nothing, in bags without labels.

    Parameters
    ----------
    mass : callable
        Shift to the posterior probability of the background summed over the instances that count, and their number.
    share : float
    """

    def above(shift: float) -> float:
        total, count = mass(shift)
        return total / count - share

    total, count = mass(-FARTHEST_SHIFT)
    if not count:  # all is known, so that there is no share to be had
        return 0.0
    least, most = total / count - share, above(FARTHEST_SHIFT)
    if least > 0.0 or most < 0.0:
        warn_caller(
            f"The expected share of background, {share:g}, is infeasible: of the {count:g} unknown "
            f"instances in bags with labels between {least + share:.3g} and {most + share:.3g} can be background, "
            "since every label needs an instance. The background stays as the likelihood has it; ask for a share "
            "between the two (background_share, --noise-share).",
            BackgroundShareWarning,
        )
        return 0.0
    return float(brentq(above, -FARTHEST_SHIFT, FARTHEST_SHIFT, xtol=CLOSE_ENOUGH))


def move_last_column(proba: np.ndarray, shift: float) -> np.ndarray:
    """Multiply the background's probabilities by exp(shift), and make rows sum to one again; in place."""
    if shift != 0.0:
        proba[:, -1] *= np.exp(shift)
        proba /= proba.sum(axis=1, keepdims=True)
    return proba
