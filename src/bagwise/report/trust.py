"""How far the probabilities of a run can be believed: what the page and the command line say of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bagwise.io.annotations.annotations import Annotations
from bagwise.likeness import ALARM

N_UNLIKE = 20  # instances unlike anything in training that are listed, the surest first
Table = list[dict[str, float]]


@dataclass(frozen=True)
class Trust:
    """What is known about the probabilities of a run.

    Attributes
    ----------
    calibrated : bool
        Whether the model put its probabilities right by bags that it held out.
    bags : dict or None
        Reliability tables of the labels of held-out bags, "before" and "after", and the number of "bags"
        (``bag_reliability_`` of the model).
    instances : list or None
        Reliability table of the instances that people looked at: what was said before they did.
    precision : float or None
        That was asked for.
    """

    calibrated: bool
    bags: dict[str, Any] | None = None
    instances: Table | None = None
    precision: float | None = None


def table_error(table: Sequence[dict[str, float]]) -> float:
    """Expected calibration error of a reliability table."""
    total = sum(row["count"] for row in table)
    return sum(row["count"] * abs(row["accuracy"] - row["confidence"]) for row in table) / total


def summarize_trust(trust: Trust, annotations: Annotations) -> dict[str, Any]:
    """The figures of the page's section.

    Returns
    -------
    dict
        ``calibrated``; ``bags`` (rows, number of bags, error before and after) and ``instances`` (rows, error), None
        where nothing is known; ``precision`` and ``unlike``, sentences or None; ``unlike_rows``, the surest first.
    """
    bags = None
    if trust.bags is not None:
        bags = {
            "bags": trust.bags["bags"], "rows": trust.bags["after"], "before": table_error(trust.bags["before"]),
            "after": table_error(trust.bags["after"]),
        }  # fmt: skip
    instances = None
    if trust.instances:
        instances = {"rows": trust.instances, "error": table_error(trust.instances)}
    unlike = [row for row in annotations.shown() if row.get("unlike")]
    unlike.sort(key=lambda row: -(row["probability"] or 0.0))
    return {
        "calibrated": trust.calibrated, "bags": bags, "instances": instances,
        "precision": precision_in_words(annotations, trust.precision), "unlike": unlike_in_words(annotations),
        "unlike_rows": unlike[:N_UNLIKE],
    }  # fmt: skip


def precision_in_words(annotations: Annotations, precision: float | None) -> str | None:
    """How many instances are kept for a precision; None where none was asked for."""
    if precision is None:
        return None
    named = [row for row in annotations.rows if annotations.is_named(row)]
    kept = [row for row in named if row["kept"]]
    if not kept:
        return (
            f"for a precision of {100 * precision:g} % none of {len(named)} named instances is sure enough; all are "
            "marked in the long table (kept: False)"
        )
    promised = sum(row["probability"] for row in named)
    recall = sum(row["probability"] for row in kept) / promised if promised else 0.0
    least = min(row["probability"] for row in kept)
    strange = sum(1 for row in named if row.get("unlike") and not row["kept"])
    return (
        f"for a precision of {100 * precision:g} % {len(kept)} of {len(named)} named instances are kept "
        f"({100 * len(kept) / len(named):.0f} %, those of probability {least:.2f} and more"
        + (f", without {strange} unlike anything in training" if strange else "")
        + f"), and with them {100 * recall:.0f} % of the labels that are expected to be right; the others are "
        "marked in the long table (kept: False)"
    )


def unlike_in_words(annotations: Annotations) -> str | None:
    """How many instances are unlike anything in training; None where there are none, or the model cannot tell."""
    n = sum(1 for row in annotations.rows if row.get("unlike"))
    if not n:
        return None
    share = n / len(annotations.rows)
    return (
        f"{n} of {len(annotations.rows)} instances ({100 * share:.0f} %) are unlike anything in training; of bags of "
        f"the same kind it is {100 * ALARM:.0f} %"
        + (". Their labels, however probable, are guesses about what the model never met" if share > 5 * ALARM else "")
    )
