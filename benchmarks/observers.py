"""Three made observers of HJA's bags: the rates that are found, the labels of bags, and a model fitted on them."""

from __future__ import annotations

import warnings

import numpy as np

from bagwise import ORedLogisticRegression
from bagwise.annotation import learn_from_observers
from benchmarks.common import Record, load_real, show
from benchmarks.ored_speed import standardized

RATES = {  # missed and invented labels of each observer
    "one careful, one careless": ((0.05, 0.2, 0.4), (0.02, 0.05, 0.1)),
    "all miss much": ((0.4, 0.3, 0.3), (0.02, 0.05, 0.05)),
}


def main(quick: bool = False) -> list[Record]:
    data = load_real("hja_birdsong_filtered")
    if data is None:
        return []
    bags, truth = standardized(data), data.instance_labels.instances
    records = []
    for name, (missed, invented) in RATES.items():
        rows = []
        for seed in range(1 if quick else 3):
            rng = np.random.default_rng(seed)
            lists = [
                np.where(data.Y == 1, rng.random(data.Y.shape) >= m, rng.random(data.Y.shape) < v).astype(float)
                for m, v in zip(missed, invented, strict=True)
            ]
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = learn_from_observers(ORedLogisticRegression(), bags, lists)
                majority = (np.mean(lists, axis=0) > 0.5).astype(np.uint8)
                by_majority = ORedLogisticRegression(missed=0.05, on_infeasible="relax").fit(bags, majority)
            rows.append([
                max(np.abs(found.missed - missed).max(), np.abs(found.invented - invented).max()),
                np.mean((found.presence > 0.5) != data.Y), np.mean(majority != data.Y),
                min(np.mean(one != data.Y) for one in lists),
                np.mean(found.model.predict_instances(bags) == truth),
                np.mean(by_majority.predict_instances(bags) == truth),
            ])  # fmt: skip
        far, ours, theirs, best, accuracy, other = np.mean(rows, axis=0)
        records.append({
            "observers": name, "rates off by at most": far, "wrong labels of bags, %": 100 * ours,
            "by majority": 100 * theirs, "of the best observer": 100 * best, "accuracy of instances, %": 100 * accuracy,
            "fitted on the majority": 100 * other,
        })  # fmt: skip
    show("Three observers, HJA", records)
    return records
