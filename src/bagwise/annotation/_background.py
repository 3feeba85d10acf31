"""A class that any bag may hold unlisted: its column, which instances its share speaks of, and the shift to that."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from scipy.optimize import brentq

from bagwise.bags import Bags
from bagwise.exceptions import BackgroundShareWarning, warn_caller
from bagwise.findings import Findings
from bagwise.fitted import Attribute, Choice, Maybe, Number
from bagwise.kernels.union import UnionProblem
from bagwise.parameters import check_that

FARTHEST_SHIFT = 30.0
CLOSE_ENOUGH = 1e-3  # of the shift


class BackgroundMixin:
    """What annotators with a background class share: the classes' columns come first, the background's is the last.

    A subclass keeps ``background_shift_`` once it is fitted with one, and only then.
    """

    _fitted: ClassVar[dict[str, Attribute]] = {
        "background_label_": Choice(-1, None), "background_shift_": Maybe(Number()),
    }  # fmt: skip

    classes_: np.ndarray
    background_shift_: float

    @classmethod
    def _upgrade(cls, params: dict[str, Any], state: dict[str, Any]) -> None:
        super()._upgrade(params, state)  # type: ignore[misc]
        if isinstance(state.get("classes_"), np.ndarray):  # earlier versions had no background, or gave it no name
            state.setdefault("background_label_", background_label(state["classes_"]))

    def _check_background_share(self) -> None:
        check_that(self, "background_share", lambda value: value is None or 0 < value < 1, "None or in (0, 1)")

    @property
    def _has_background(self) -> bool:
        """Whether what was fitted knows a background class, whatever the parameter was set to since."""
        return hasattr(self, "background_shift_")

    def _findings(self, labels: np.ndarray, proba: np.ndarray) -> Findings:
        """With the background's column, if there is one, taken apart from the classes'."""
        return Findings(labels, proba[:, : len(self.classes_)], proba[:, -1] if self._has_background else None)


def background_label(classes: np.ndarray) -> int | None:
    """What an instance of no class is called beside these."""
    return -1 if np.issubdtype(classes.dtype, np.integer) else None


def union_problem(
    offsets: np.ndarray,
    indicator: np.ndarray,
    background: bool,
    known: np.ndarray | None = None,
    relaxed: np.ndarray | None = None,
) -> UnionProblem:
    """The bags' sizes and labels, with a column for the background behind the classes' where there is one."""
    return UnionProblem.build(offsets, indicator, indicator.shape[1] if background else None, known, relaxed)


def listed_labels(
    posterior: np.ndarray, bags: Bags, indicator: np.ndarray, known: np.ndarray | None = None
) -> np.ndarray:
    """(m,) most probable listed label of every instance; -1 in a bag without labels and where background is known."""
    listed, n_classes = np.repeat(indicator, bags.sizes, axis=0), indicator.shape[1]
    labels = np.where(listed == 1, posterior[:, :n_classes], -1.0).argmax(axis=1)
    labels[~listed.any(axis=1)] = -1
    if known is not None:  # those of a class that is not listed went unnoticed
        labels[known >= 0] = known[known >= 0]
        labels[known == n_classes] = -1
    return labels


def counted_instances(problem: UnionProblem) -> np.ndarray:
    """(m,) which instances the expected share of background speaks of: the unknown ones of bags that list labels.

    All of a bag without labels is background, and what an instance is known to be is known. Were these counted, the
    others would have to make up for them: where most recordings are empty, nothing else could be background any more.
    """
    listed = np.repeat(problem.n_labels > 0, np.diff(problem.offsets))
    return listed & (problem.known < 0) if len(problem.known) else listed


def shift_to_share(background_at: Callable[[float], np.ndarray], counted: np.ndarray, share: float) -> float:
    """As `shift_of_mass`, from the (m,) posterior probabilities of the background at a shift, and who counts.

    `counted` is a mask, or holds how much each instance counts.
    """
    count = float(counted.sum())
    return shift_of_mass(lambda shift: (float(np.sum(background_at(shift) * counted)), count), share)


def shift_of_mass(mass: Callable[[float], tuple[float, float]], share: float) -> float:
    """The shift of the background's score at which its mean posterior over the instances that count is the share.

    Zero, with a `BackgroundShareWarning`, where there is no such shift: moved as far as it goes, a model would take
    everything for background, or nothing, wherever the labels are not told.

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
            f"The expected share of background, {share:g}, cannot be had: of the {count:g} unknown "
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
