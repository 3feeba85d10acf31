"""What a background class does to ORed logistic regression on data with unlabelled noise."""

from __future__ import annotations

import sys

import numpy as np
from sklearn.metrics import roc_auc_score
from sklearn.preprocessing import StandardScaler

from bagwise import Bags, ORedLogisticRegression
from benchmarks.common import Record, load_real, show

SHARES = (None, 0.3, 0.4, 0.5, 0.6, 0.7)


def background(quick: bool) -> list[Record]:
    """HJA with its unlabelled segments left in: what a background class does, by its expected share."""
    data = load_real("hja_birdsong")
    if data is None:
        return []
    bags = Bags(StandardScaler().fit_transform(data.bags.instances), data.bags.offsets)
    truth = data.instance_labels.instances
    labelled = truth >= 0

    def accuracy(model: ORedLogisticRegression) -> float:
        return 100 * float(np.mean(model.annotate(bags, data.Y)[labelled] == truth[labelled]))

    records = [
        {
            "background": "none",
            "accuracy of the labelled": accuracy(ORedLogisticRegression().fit(bags, data.Y)),
            "AUC": None,
            "AUC, labels unknown": None,
            "labelled called background %": None,
            "unlabelled called background %": None,
        }
    ]
    for share in SHARES[:2] if quick else SHARES:
        model = ORedLogisticRegression(background=True, background_share=share).fit(bags, data.Y)
        given, prior = model.background_proba(bags, data.Y), model.background_proba(bags)
        records.append(
            {
                "background": "by the likelihood" if share is None else f"share {share}",
                "accuracy of the labelled": accuracy(model),
                "AUC": roc_auc_score(~labelled, given),
                "AUC, labels unknown": roc_auc_score(~labelled, prior),
                "labelled called background %": 100 * float(np.mean(given[labelled] > 0.5)),
                "unlabelled called background %": 100 * float(np.mean(given[~labelled] > 0.5)),
            }
        )
    return records


def main(quick: bool = False) -> list[Record]:
    """Print the table and return its records."""
    records = background(quick)
    show("HJA with its unlabelled segments left in", records)
    return records


if __name__ == "__main__":
    main("--quick" in sys.argv)
