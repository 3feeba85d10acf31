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

    Somebody may have said it of the bag, or named an instance so, which puts the label into its bag; what was said last
    counts, as it does in the label sets.
    """
    said = {(one["bag"], one["label"]) for one in corrections if one["action"] in (PRESENT, ABSENT)}
    places, rows = now.places, []
    where = now.rows(np.array([places.row(row["bag"], row["instance"]) for row in doubts.rows], dtype=np.int64))
    for row, place in zip(doubts.rows, where, strict=True):
        bag = places.number[row["bag"]]
        is_listed = row["label"] in (now.listed(bag) or ())
        is_settled = (
            (row["bag"], row["label"]) in said
            or is_listed != (row["kind"] == DOUBTFUL)
            or row["label"] in now.named(bag)
        )
        shown = {key: place[key] for key in ("file", "place", "start", "end") if key in place}
        rows.append(row | shown | {"said": (PRESENT if is_listed else ABSENT) if is_settled else None})
    return rows
