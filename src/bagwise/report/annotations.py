"""What was worked out for every instance, as plain rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from bagwise.bags import BagDataset


def annotation_rows(dataset: BagDataset, labels: np.ndarray, proba: np.ndarray | None = None) -> list[dict[str, Any]]:
    """One row an instance: bag, position in the bag, label, probability, and the truth where it is known.

    Parameters
    ----------
    dataset : BagDataset
    labels : (m,) array of class indices
        What `annotate` gave; a negative index becomes an empty label.
    proba : (m, c) array or None
        What `annotate_proba` gave; the row then tells the probability of its label.
    """
    names = dataset.class_names
    bag_names = dataset.bag_names or list(range(len(dataset)))
    index = dataset.bags.bag_index
    position = np.arange(len(index)) - dataset.bags.offsets[index]
    truth = None if dataset.instance_labels is None else dataset.instance_labels.instances
    rows = []
    for i, label in enumerate(labels):
        row = {
            "bag": bag_names[index[i]],
            "instance": int(position[i]),
            "label": names[label] if label >= 0 else "",
        }
        if proba is not None:
            row["probability"] = round(float(proba[i, label]), 4) if label >= 0 else ""
        if truth is not None:
            row["truth"] = names[truth[i]] if truth[i] >= 0 else ""
        rows.append(row)
    return rows
