"""Labels of bags that somebody may have forgotten or made up, as the page asks about them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from bagwise.review.snapshot import Snapshot
from bagwise.workflow.corrections import ABSENT, PRESENT
from bagwise.workflow.doubtful import DOUBTFUL, doubtful_labels, has_rates
from bagwise.workflow.told import Told

MOST = 100  # of each kind


@dataclass(frozen=True)
class Doubts:
    """What one version of the model doubts.

    Attributes
    ----------
    has_rates : bool
        Whether the model reckons with wrong labels; one that does not doubts none.
    rows : list of dict
        See `bagwise.workflow.doubtful.doubtful_labels`.
    """

    has_rates: bool
    rows: list[dict[str, Any]]


def find_doubts(model: Any, told: Told) -> Doubts:
    return Doubts(has_rates(model), doubtful_labels(model, told, MOST))


def show_doubts(doubts: Doubts, now: Snapshot, corrections: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The rows with where their instance is, and what was said of the label since: "present", "absent" or None.

    Somebody may have said it of the bag, or named an instance so, which puts the label into its bag.
    """
    said = {(one["bag"], one["label"]): one["action"] for one in corrections if one["action"] in (PRESENT, ABSENT)}
    places, rows = now.places, []
    for row in doubts.rows:
        was_listed = row["kind"] == DOUBTFUL
        bag = places.number[row["bag"]]
        is_listed = row["label"] in (now.listed(bag) or ())
        answer = said.get((row["bag"], row["label"]))
        if answer is None and is_listed != was_listed:
            answer = PRESENT if is_listed else ABSENT
        if answer is None and row["label"] in now.named(bag):
            answer = PRESENT
        (where,) = now.rows(np.array([places.row(row["bag"], row["instance"])]))
        shown = {key: value for key, value in where.items() if key in ("file", "place", "start", "end")}
        rows.append(row | shown | {"said": answer})
    return rows
