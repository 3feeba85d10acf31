"""How often people agreed with the model, with intervals."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from bagwise.workflow.corrections import CONFIRMED, LABEL, NOISE

Z = 1.959963984540054  # of a two-sided interval of 95 %
WINDOW = 50  # answers over which the agreement is averaged
MOST_POINTS = 200  # of its curve


def wilson_interval(confirmed: int, answered: int, z: float = Z) -> tuple[float, float]:
    r"""Wilson's interval of a share.

    .. math:: \frac{\hat p + z^2/2n \pm z \sqrt{\hat p (1 - \hat p)/n + z^2/4n^2}}{1 + z^2/n}

    Parameters
    ----------
    confirmed, answered : int
        Nothing answered gives (0, 1).
    z : float
        Quantile of the normal distribution; the default gives 95 %.

    References
    ----------
    Wilson, Probable inference, the law of succession, and statistical inference, 1927.
    """
    if answered == 0:
        return 0.0, 1.0
    share, square = confirmed / answered, z * z / answered
    middle = share + square / 2
    half = z * math.sqrt(share * (1 - share) / answered + square / (4 * answered))
    low, high = (middle - half) / (1 + square), (middle + half) / (1 + square)
    return (0.0 if confirmed == 0 else low), (1.0 if confirmed == answered else high)


def share_row(confirmed: int, answered: int) -> dict[str, Any]:
    """Counts, share and interval; the share is None where nobody answered."""
    low, high = wilson_interval(confirmed, answered)
    share = confirmed / answered if answered else None
    return {"confirmed": confirmed, "answered": answered, "share": share, "low": low, "high": high}


def first_answers(corrections: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """What was said first of each instance: what was said later answers the person, not the model."""
    first: dict[tuple[str, int], Mapping[str, Any]] = {}
    for correction in corrections:
        if correction["action"] in (CONFIRMED, LABEL, NOISE):
            first.setdefault((correction["bag"], correction["instance"]), correction)
    return list(first.values())


def agreement_curve(answers: Sequence[Mapping[str, Any]]) -> list[tuple[int, float]]:
    """Number of answers, and the share of the last 50 of them that agreed with the model."""
    agreed = [answer["action"] == CONFIRMED for answer in answers]
    sums = [0]
    for one in agreed:
        sums.append(sums[-1] + one)
    step = max(1, math.ceil(len(agreed) / MOST_POINTS))
    ends = sorted({*range(step, len(agreed) + 1, step), *([len(agreed)] if agreed else [])})
    return [(end, (sums[end] - sums[max(0, end - WINDOW)]) / min(end, WINDOW)) for end in ends]


def label_shares(answers: Iterable[Mapping[str, Any]], labels: Iterable[str]) -> list[dict[str, Any]]:
    """For each label how many of the answers to instances that were given it confirmed it."""
    confirmed: dict[str, int] = dict.fromkeys(labels, 0)
    answered = dict.fromkeys(confirmed, 0)
    for answer in answers:
        if answer["before"] in answered:
            answered[answer["before"]] += 1
            confirmed[answer["before"]] += answer["action"] == CONFIRMED
    return [{"label": label, **share_row(confirmed[label], answered[label])} for label in answered]
