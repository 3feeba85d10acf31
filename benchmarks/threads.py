"""How far learners are apart that were fitted with one thread of BLAS and with two.

`python -m benchmarks threads`
"""

from __future__ import annotations

import sys
import warnings

import numpy as np
from threadpoolctl import threadpool_limits

from bagwise import BagDataset
from bagwise.catalog import make_model
from bagwise.datasets import make_gaussian_bags
from benchmarks.common import Record, show

LEARNERS = ("ored", "ored-background", "ored-rbf", "ored-forest", "sim-max", "clpl", "mimlfast", "mimlnn", "mimlsvm")


def made(quick: bool) -> BagDataset:
    return make_gaussian_bags(
        n_bags=200 if quick else 1000, n_features=100, n_classes=20, labels_per_bag=(1, 3), random_state=0
    )


def answers(name: str, data: BagDataset, n_threads: int) -> tuple[np.ndarray, np.ndarray]:
    """Scores and label sets of the bags, by a model fitted with so many threads, asked with one."""
    with warnings.catch_warnings(), threadpool_limits(n_threads, "blas"):
        warnings.simplefilter("ignore")  # that a solver was stopped
        model = make_model(name).fit(data.bags, data.Y)
    with threadpool_limits(1, "blas"):
        return model.decision_function(data.bags), model.predict(data.bags)


def main(quick: bool = False) -> list[Record]:
    """Print the table and return its records."""
    data = made(quick)
    records: list[Record] = []
    for name in LEARNERS:
        (one, sets), (two, other) = (answers(name, data, n_threads) for n_threads in (1, 2))
        records.append(
            {
                "learner": name,
                "apart, of the largest score": float(np.abs(one - two).max() / np.abs(one).max()),
                "same bits": bool(np.array_equal(one, two)),
                "label sets that differ": int((sets != other).any(axis=1).sum()),
            }
        )
    title = f"One thread of BLAS and two, {data.bags.n_instances} instances of {data.bags.n_features} features"
    show(title, records, left=("learner",))
    return records


if __name__ == "__main__":
    main("--quick" in sys.argv)
