"""Labels and probabilities of all instances: from the bag's labels where they are known, else from the model alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bagwise.bags import BagDataset
from bagwise.pipeline import final_step

TRANSDUCTIVE, INDUCTIVE = "transductive", "inductive"


@dataclass(frozen=True)
class Findings:
    """What was worked out for every instance.

    Attributes
    ----------
    labels : list of str, "" where there is none
    proba : (m, c) array or None
        None where the model gives no probabilities.
    noise : (m,) array or None
        Probability of belonging to no class; None where the model knows none.
    known : (m,) array of bool
        Whether the labels of the instance's bag were known.
    """

    labels: list[str]
    proba: np.ndarray | None
    noise: np.ndarray | None
    known: np.ndarray


def find_labels(model: Any, dataset: BagDataset, label_sets: Sequence[set[str] | None]) -> Findings:
    """Annotate every instance of a data set.

    Parameters
    ----------
    model : fitted annotator
    dataset : BagDataset
    label_sets : list of sets, None where nobody labelled the bag
        Labels that the model does not know must be taken out before.
    """
    final = final_step(model)
    m, classes = dataset.bags.n_instances, final.classes_
    has_noise = hasattr(final, "background_coef_")
    labelled = np.array([labels is not None and (bool(labels) or has_noise) for labels in label_sets])
    known = labelled[dataset.bags.bag_index]
    labels = np.full(m, None, dtype=object)
    proba = np.zeros((m, len(classes))) if hasattr(model, "annotate_proba") else None
    noise = np.zeros(m) if has_noise else None
    for told, rows in ((True, known), (False, ~known)):
        if not rows.any():
            continue
        index = np.flatnonzero(labelled == told)
        bags = dataset.bags[index]
        given = ([label_sets[int(i)] or set() for i in index],) if told else ()
        labels[rows] = model.annotate(bags, *given) if told else model.predict_instances(bags)
        if proba is not None:
            proba[rows] = (model.annotate_proba if told else model.predict_instances_proba)(bags, *given)
        if noise is not None:
            noise[rows] = model.background_proba(bags, *given)
    return Findings(["" if label is None else str(label) for label in labels], proba, noise, known)


def finding_rows(dataset: BagDataset, classes: Sequence[str], found: Findings) -> list[dict[str, Any]]:
    """One row an instance: where it was and what was worked out for it."""
    assert dataset.locations is not None
    assert dataset.bag_names is not None
    index = dataset.bags.bag_index
    number = np.arange(len(index)) - dataset.bags.offsets[index]
    column = {name: c for c, name in enumerate(classes)}
    rows = []
    for i, label in enumerate(found.labels):
        row = dict(dataset.locations[i])
        if "box" in row:
            row |= dict(zip(("left", "top", "width", "height"), row.pop("box"), strict=True))
        row |= {"label": label, "probability": None, "runner_up": "", "noise": None}
        if found.proba is not None:
            row |= _sureness(found.proba[i], classes, column.get(label))
        if found.noise is not None:
            row["noise"] = round(float(found.noise[i]), 4)
        row |= {
            "mode": TRANSDUCTIVE if found.known[i] else INDUCTIVE,
            "bag": dataset.bag_names[index[i]],
            "instance": int(number[i]),
        }
        rows.append(row)
    return rows


def _sureness(proba: np.ndarray, classes: Sequence[str], label: int | None) -> dict[str, Any]:
    """Probability of the label, and the next probable class where there is any."""
    others = proba.copy()
    if label is not None:
        others[label] = -1.0
    second = int(others.argmax())
    return {
        "probability": 0.0 if label is None else round(float(proba[label]), 4),
        "runner_up": classes[second] if others[second] >= 5e-5 else "",  # what rounds to 0.0000 is none
    }
