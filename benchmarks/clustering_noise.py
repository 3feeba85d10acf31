"""Is noise called noise, and are clusters called clusters; which number of clusters is taken?

    python -m benchmarks clustering-noise [--quick]

Noise of eight shapes, 150 bags (of five instances where not said otherwise), three sets each: how many of them
`try_stability` (two to four clusters, three splits, two codebooks) calls noise at its level of 0.05, and how many
margins of M3IC are 1 or more on the same bags. Then the sets of Zhang et al. (2011) and others: the verdict, the number
of clusters taken from 2 to 6, that of the silhouette, and the true one.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from bagwise.clustering import M3IC, BagMixture, try_stability
from bagwise.clustering.scaling import scale_bags
from bagwise.clustering.sweep import mean_silhouette
from bagwise.core.bags import Bags
from benchmarks.clustering_methods import GROUPS, OTHERS
from benchmarks.clustering_tables import build
from benchmarks.common import Record, show

N_BAGS, SIZE, N_FEATURES = 150, 5, 6
NUMBERS = (2, 3, 4, 5, 6)
N_SETS = 3  # of noise of each shape
LONG = np.array([4.0, 1.0, 0.3, 0.1, 0.1, 0.1])  # how far bags differ in each direction


def _instances(rng: np.random.Generator) -> np.ndarray:
    return rng.normal(size=(N_BAGS * SIZE, N_FEATURES))


def _differing(rng: np.random.Generator, offsets: np.ndarray) -> np.ndarray:
    return _instances(rng) + np.repeat(offsets, SIZE, axis=0)


SHAPES: dict[str, Callable[[np.random.Generator], np.ndarray]] = {
    "Gaussian": _instances,
    "uniform": lambda rng: rng.uniform(size=(N_BAGS * SIZE, N_FEATURES)),
    "heavy tails (t, 2 degrees)": lambda rng: rng.standard_t(2, size=(N_BAGS * SIZE, N_FEATURES)),
    "stretched and turned": lambda rng: _instances(rng) * [9, 3, 1, 1, 1, 0.1] @ rng.normal(size=(6, 6)),
    "bags differ, Gaussian": lambda rng: _differing(rng, rng.normal(size=(N_BAGS, N_FEATURES)) * LONG),
    "bags differ, uniform": lambda rng: _differing(rng, rng.uniform(-2, 2, size=(N_BAGS, N_FEATURES)) * LONG),
    "counts of words": lambda rng: rng.poisson(0.2 * rng.gamma(1.0, size=60), size=(N_BAGS * SIZE, 60)).astype(float),
    "bags of one instance": lambda rng: rng.normal(size=(N_BAGS, N_FEATURES)),
}


def main(quick: bool = False) -> list[Record]:
    """Measure, print and return the records of both tables."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        noise = [_noise(name, 2 if quick else N_SETS) for name in SHAPES]
        show("Noise", noise)
        names = [name for names in GROUPS.values() for name in names]
        sets = {name: build(name) for name in (names[:2] if quick else names)}
        sets |= {name: make() for name, make in OTHERS.items() if not quick or name.startswith("made")}
        real = [_real(name, *built) for name, built in sets.items() if built is not None]
        show("Sets with known groups", real, left=("verdict",))
    return [*noise, *real]


def _noise(name: str, n_sets: int) -> Record:
    called, clear = 0, []
    for seed in range(n_sets):
        X = SHAPES[name](np.random.default_rng(1000 + seed))
        bags = scale_bags(Bags(X, np.arange(N_BAGS + 1) * (len(X) // N_BAGS)), "auto")
        trial = try_stability(bags, BagMixture(n_codebooks=2, n_init=2), (2, 3, 4), n_splits=3, random_state=seed)
        called += trial.has_clusters is False
        clear.append(float((M3IC(3, random_state=seed).fit(bags).margins_ >= 1.0).mean()))
    return {
        "shape": name, "sets": n_sets, "called noise": called, "margins of M3IC of 1 or more": f"{np.mean(clear):.2f}",
    }  # fmt: skip


def _real(name: str, bags: Bags, truth: np.ndarray) -> Record:
    scaled = scale_bags(bags, "auto")
    trial = try_stability(scaled, BagMixture(), NUMBERS)
    silhouette = mean_silhouette(scaled)
    values = {k: silhouette(BagMixture(k, random_state=0).fit(scaled).labels_) or -1.0 for k in NUMBERS}
    return {
        "data": name,
        "verdict": "clusters" if trial.has_clusters else "no stable clusters",
        "p": f"{trial.p_value:.2f}",
        "k": trial.n_clusters,
        "k of silhouette": max(values, key=lambda k: values[k]),
        "true k": len(np.unique(truth)),
        **{f"gap {record['n_clusters']}": f"{record['gap']:.2f}" for record in trial.records},
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    main(parser.parse_args().quick)
