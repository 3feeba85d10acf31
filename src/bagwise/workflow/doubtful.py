"""Labels that somebody may have forgotten or made up, with the instance that speaks for each."""

from __future__ import annotations

from typing import Any

import numpy as np

from bagwise.bags import Bags
from bagwise.pipeline import bag_tags, final_step
from bagwise.workflow.told import Told

FORGOTTEN, DOUBTFUL = "forgotten", "doubtful"
N_DOUBTFUL = 20  # of each kind
LEAST_DOUBT = 0.1


def has_rates(model: Any) -> bool:
    """Whether the fitted model reckons with wrong labels, so that it can doubt any."""
    final = final_step(model)
    rates = (getattr(final, "missed_", 0.0), getattr(final, "spurious_", 0.0))
    return hasattr(model, "label_posterior") and any(np.any(rate) for rate in rates)


def doubtful_labels(model: Any, told: Told, n: int = N_DOUBTFUL) -> list[dict[str, Any]]:
    """The likeliest forgotten and doubtful labels of the labelled bags, at most `n` of each kind, the likeliest first.

    Not those that a person has settled: who said of a bag that it holds a label, or does not, is not asked again.

    Returns
    -------
    list of dict
        "kind" ("forgotten": not listed but probably there; "doubtful": listed but probably not), "bag", "label",
        "probability" (that the label is in the bag), "instance" (number within the bag of the one that most probably
        carries it) and "instance_probability". Empty where the model takes labels for right.
    """
    if not has_rates(model):
        return []
    classes = final_step(model).classes_.tolist()
    dataset = told.dataset.recode(classes, unknown="drop")
    assert dataset.Y is not None
    may_be_empty = bag_tags(model).background or np.any(final_step(model).missed_)
    asked = dataset.labelled & (dataset.Y.any(axis=1) | may_be_empty)
    rows = np.flatnonzero(asked[dataset.bags.bag_index] & ~told.noise)
    if not len(rows):
        return []
    index, sizes = np.unique(dataset.bags.bag_index[rows], return_counts=True)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    bags, listed = Bags(dataset.bags.instances[rows], offsets), dataset.Y[index]
    known = None if dataset.instance_labels is None else Bags(dataset.instance_labels.instances[rows], offsets)
    presence = model.label_posterior(bags, listed, known)
    proba = model.find(bags, listed, known).proba
    number = {str(dataset.bag_names[i]): b for b, i in enumerate(index)}
    column = {str(label): c for c, label in enumerate(classes)}
    for bag, label in told.settled:
        if bag in number and label in column:
            presence[number[bag], column[label]] = np.nan
    found: list[dict[str, Any]] = []
    for kind, doubt in (
        (FORGOTTEN, np.where(listed == 0, presence, -1.0)),
        (DOUBTFUL, np.where(listed == 1, 1.0 - presence, -1.0)),
    ):
        order = np.argsort(-np.nan_to_num(doubt, nan=-1.0), axis=None, kind="stable")[:n]
        for b, c in zip(*np.unravel_index(order, doubt.shape), strict=True):
            if not doubt[b, c] >= LEAST_DOUBT:
                break
            best = offsets[b] + int(proba[offsets[b] : offsets[b + 1], c].argmax())
            found.append(
                {
                    "kind": kind, "bag": str(dataset.bag_names[index[b]]), "label": str(classes[c]),
                    "probability": round(float(presence[b, c]), 4),
                    "instance": int(dataset.positions[rows[best]]),
                    "instance_probability": round(float(proba[best, c]), 4),
                }
            )  # fmt: skip
    return found
