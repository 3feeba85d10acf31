"""How much of the instances is background: which of them count, and the shift that gives the share asked for."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.optimize import brentq

from bagwise.exceptions import BackgroundShareWarning, warn_caller
from bagwise.kernels.union import UnionProblem

FARTHEST_SHIFT = 30.0
CLOSE_ENOUGH = 1e-3  # of the shift


def counted_instances(problem: UnionProblem) -> np.ndarray:
    """(m,) which instances the expected share of background speaks of: the unknown ones of bags that list labels.

    All of a bag without labels is background, and what an instance is known to be is known. Were these counted, the
    others would have to make up for them: where most recordings are empty, nothing else could be background any more.
    """
    listed = np.repeat(problem.n_labels > 0, np.diff(problem.offsets))
    return listed & (problem.known < 0) if len(problem.known) else listed


def shift_to_share(
    background_at: Callable[[float], np.ndarray], counted: np.ndarray, share: float, *, warn: bool = True
) -> float:
    """The shift of the background's score at which its mean posterior over the `counted` instances is the share.

    Zero, with a `BackgroundShareWarning`, where there is no such shift: as far as it goes, what is left of the classes
    in bags of which nothing is known would be all or nothing.

    Parameters
    ----------
    background_at : callable
        Shift to the (m,) posterior probabilities of the background.
    counted : (m,) bool
    share : float
    warn : bool
    """

    def above(shift: float) -> float:
        return float(np.mean(background_at(shift)[counted])) - share

    if not counted.any():  # all is known, so that there is no share to be had
        return 0.0
    least, most = above(-FARTHEST_SHIFT), above(FARTHEST_SHIFT)
    if least > 0.0 or most < 0.0:
        if warn:
            warn_caller(
                f"The expected share of background, {share:g}, cannot be had: of the {int(counted.sum())} unknown "
                f"instances in bags with labels between {least + share:.3g} and {most + share:.3g} can be background, "
                "since every label needs an instance. The background stays as the likelihood has it; ask for a share "
                "between the two.",
                BackgroundShareWarning,
            )
        return 0.0
    return float(brentq(above, -FARTHEST_SHIFT, FARTHEST_SHIFT, xtol=CLOSE_ENOUGH))
