"""Labels that may be missing or spurious, with the instance that is evidence for each."""

from __future__ import annotations

from typing import Any

import numpy as np

from bagwise.app.runs.supervision import Supervision
from bagwise.core.bags import Bags, offsets_of
from bagwise.pipeline import bag_tags, classes_of, final_step

MISSING, SPURIOUS = "missing", "spurious"
N_ISSUES = 20  # of each kind
LEAST_PROBABILITY = 0.1


def has_rates(model: Any) -> bool:
    """Whether the fitted model models label noise, so that it can report label issues."""
    return hasattr(model, "label_posterior") and final_step(model).union_model().noise is not None


def label_issues(model: Any, supervision: Supervision, n: int = N_ISSUES) -> list[dict[str, Any]]:
    """The likeliest missing and spurious labels of the labelled bags, at most `n` of each kind, the likeliest first.

    Not those that a person has settled: who said of a bag that it holds a label, or does not, is not asked again.

    Returns
    -------
    list of dict
        "kind" ("missing": not listed but probably there; "spurious": listed but probably not), "bag", "label",
        "probability" (that the label is in the bag), "instance" (number within the bag of the one that most probably
        carries it) and "instance_probability". Empty where the model takes labels for right.
    """
    if not has_rates(model):
        return []
    classes = classes_of(model) or []
    dataset = supervision.dataset.recode(classes, unknown="drop")
    assert dataset.Y is not None
    may_be_empty = bag_tags(model).background or final_step(model).union_model().noise.missed.any()
    asked = dataset.labelled & (dataset.Y.any(axis=1) | may_be_empty)
    rows = np.flatnonzero(asked[dataset.bags.bag_index] & ~supervision.noise)
    if not len(rows):
        return []
    index, sizes = np.unique(dataset.bags.bag_index[rows], return_counts=True)
    offsets = offsets_of(sizes)
    bags, listed = Bags(dataset.bags.instances[rows], offsets), dataset.Y[index]
    known = None if dataset.instance_labels is None else Bags(dataset.instance_labels.instances[rows], offsets)
    presence = model.label_posterior(bags, listed, known)
    proba = model.find(bags, listed, known).proba
    number = {str(dataset.bag_names[i]): b for b, i in enumerate(index)}
    column = {str(label): c for c, label in enumerate(classes)}
    for bag, label in supervision.settled:
        if bag in number and label in column:
            presence[number[bag], column[label]] = np.nan
    found: list[dict[str, Any]] = []
    for kind, issue in (
        (MISSING, np.where(listed == 0, presence, -1.0)),
        (SPURIOUS, np.where(listed == 1, 1.0 - presence, -1.0)),
    ):
        order = np.argsort(-np.nan_to_num(issue, nan=-1.0), axis=None, kind="stable")[:n]
        for b, c in zip(*np.unravel_index(order, issue.shape), strict=True):
            if not issue[b, c] >= LEAST_PROBABILITY:
                break
            best = offsets[b] + int(proba[offsets[b] : offsets[b + 1], c].argmax())
            found.append(
                {
                    "kind": kind,
                    "bag": str(dataset.bag_names[index[b]]),
                    "label": str(classes[c]),
                    "probability": round(float(presence[b, c]), 4),
                    "instance": int(dataset.positions[rows[best]]),
                    "instance_probability": round(float(proba[best, c]), 4),
                }
            )
    return found
