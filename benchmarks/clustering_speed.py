"""Speed of M3IC as ratios within one run.

    python -m benchmarks clustering-speed [--quick]

- One start against scikit-learn's KMeans (n_init=1) on the same instances, Corel and Reuters1: at most 2. Both depend
  on where they start, so the figure is the ratio of the mean seconds over the same number of seeds, taken in turns.
- BAMIC against one start of M3IC on Natural Scene4: at least 20.
- Seconds a bag from 1,000 to 100,000 bags: at most 20 % more than at 1,000. The bags of a size are those of the next
  smaller one and more, and every size runs the same seeds for the same number of convex problems, so that what is
  compared is the work and not the luck of the starts.

All on one thread.
"""

from __future__ import annotations

import argparse
import time
import warnings
from typing import Any

import numpy as np
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from bagwise.clustering import BAMIC, M3IC
from bagwise.clustering.scaling import scale_bags
from bagwise.core.bags import Bags
from benchmarks.clustering_tables import build, scaling_of
from benchmarks.common import SECONDS, Record, show, with_ratio

N_ITERATIONS = 6  # convex problems of the starts whose time is set against the number of bags


def main(quick: bool = False) -> list[Record]:
    """Measure, print and return one record a figure."""
    records = []
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # a start may leave a cluster empty
        for name in ("Corel", "Reuters1"):
            built = build(name)
            if built is not None:
                records += [against_kmeans(name, scaled, built[0], quick) for scaled in ("none", scaling_of(name))]
        built = build("Natural Scene4")
        if built is not None:
            records += against_bamic(built[0], quick)
        records += against_size(quick)
    show("M3IC: seconds of one start, ratios within one run", records)
    return records


def against_kmeans(name: str, scaling: str, bags: Bags, quick: bool) -> Record:
    bags = scale_bags(bags, scaling)
    seeds = range(5 if quick else 30)
    ours, theirs = 0.0, 0.0
    M3IC(3, n_init=1, random_state=0).fit(bags)  # compile
    for seed in seeds:
        ours += seconds_of(M3IC(3, n_init=1, random_state=seed), bags)
        theirs += seconds_of(KMeans(3, n_init=1, random_state=seed), bags.instances)
    return record(f"{name}, scaling {scaling}: M3IC", "KMeans", ours / len(seeds), theirs / len(seeds), "<= 2")


def against_bamic(bags: Bags, quick: bool) -> list[Record]:
    """One start of M3IC beside BAMIC with its ten starts, and with one; the distances use all processors."""
    bags = scale_bags(bags, scaling_of("Natural Scene4"))
    M3IC(5, n_init=1, random_state=0).fit(bags)
    ours: list[float] = []
    theirs: dict[int, list[float]] = {10: [], 1: []}
    for seed in range(2 if quick else 8):
        ours.append(seconds_of(M3IC(5, n_init=1, random_state=seed), bags))
        for n_init, times in theirs.items():
            times.append(seconds_of(BAMIC(5, n_init=n_init, random_state=seed), bags))
    return [
        record(f"Natural Scene4: BAMIC, starts {n_init}", "M3IC", float(np.mean(times)), float(np.mean(ours)), ">= 20")
        for n_init, times in theirs.items()
    ]


def against_size(quick: bool) -> list[Record]:
    """Bags of three to seven instances with 20 features: one of a concept, the others noise."""
    sizes = (1_000, 10_000) if quick else (1_000, 10_000, 100_000)
    rng = np.random.default_rng(0)
    lengths = rng.integers(3, 8, sizes[-1])
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    X = rng.normal(size=(offsets[-1], 20))
    X[offsets[:-1] + rng.integers(0, lengths)] += 3 * np.eye(20)[rng.integers(0, 3, sizes[-1])]
    everything = Bags(X, offsets)
    per_bag: dict[int, float] = {}
    for n_bags in sizes:
        bags = everything[:n_bags]
        repeats = max(1, (20_000 if quick else 100_000) // n_bags)
        model = {"n_init": 1, "max_iter": N_ITERATIONS, "tol_outer": 0.0}
        times = [
            min(seconds_of(M3IC(3, random_state=seed, **model), bags) for _ in range(min(repeats, 5)))  # type: ignore[arg-type]
            for seed in range(4)
        ]
        per_bag[n_bags] = float(np.mean(times)) / n_bags
    first = per_bag[sizes[0]]
    return [
        record(f"{n_bags:,} bags: seconds a bag", f"that at {sizes[0]:,}", value, first, "<= 1.2")
        for n_bags, value in per_bag.items()
    ]


def seconds_of(model: Any, data: Any) -> float:
    started = time.perf_counter()
    model.fit(data)
    return time.perf_counter() - started


def record(what: str, beside: str, seconds: float, other: float, asked: str) -> Record:
    ratio = seconds / other
    line = {"figure": f"{what} / {beside}", "seconds": seconds, "other": other, "ratio": ratio, "asked": asked}
    return with_ratio(line, what, beside, ratio, unit=SECONDS, asked=asked)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    main(parser.parse_args().quick)
