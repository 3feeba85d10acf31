"""Which scaling or kernel M3IC needs on Natural Scene 1 to 3.

    python -m benchmarks clustering-scaling [--quick]

The features of a region are its mean colour (3) and its differences in colour to four neighbours (12). Every scaling is
brought to a mean squared length of 1, so that C means the same; C goes from soft to hard margins, the balance from
strict to loose, and each setting has five starts (two with an RBF kernel). Shown is the best accuracy over these
settings, chosen by the labels, beside the published. RBF kernels run on Natural Scene1, with gamma a multiple (0.3, 1,
3) of one over the mean squared distance.
"""

from __future__ import annotations

import argparse
import itertools
import warnings
from collections.abc import Callable

import numpy as np
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import minmax_scale, normalize, quantile_transform, scale

from bagwise.clustering import M3IC, WithinBagWhitener
from bagwise.core.bags import Bags
from bagwise.metrics import clustering_accuracy
from bagwise.preprocessing import mean_squared_distance
from benchmarks.clustering_tables import build, published_figure
from benchmarks.common import Record, show

DATA = ("Natural Scene1", "Natural Scene2", "Natural Scene3")
N_COLOURS = 3
COSTS, BALANCES = (1.0, 16.0, 256.0, 4096.0), (0.0, 1.0, 10.0)
WIDTHS = (0.3, 1.0, 3.0)

SCALINGS: dict[str, Callable[[Bags], np.ndarray]] = {
    "as they are": lambda bags: bags.instances,
    "variance 1": lambda bags: scale(bags.instances),
    "range 0 to 1": lambda bags: minmax_scale(bags.instances),
    "instances of length 1": lambda bags: normalize(bags.instances),
    "variance 1, then length 1": lambda bags: normalize(scale(bags.instances)),
    "ranks": lambda bags: quantile_transform(bags.instances, n_quantiles=200) - 0.5,
    "PCA, whitened": lambda bags: PCA(whiten=True).fit_transform(bags.instances),
    "differences alone": lambda bags: bags.instances[:, N_COLOURS:],
    "colours alone": lambda bags: bags.instances[:, :N_COLOURS],
    "colours alone, whitened": lambda bags: PCA(whiten=True).fit_transform(bags.instances[:, :N_COLOURS]),
    "within-bag whitening": lambda bags: WithinBagWhitener().fit_transform(bags).instances,
    "within-bag, 4 directions": lambda bags: WithinBagWhitener(4).fit_transform(bags).instances,
}


def main(quick: bool = False) -> list[Record]:
    """Measure, print and return one record a scaling."""
    sets = {name: built for name in (DATA[:1] if quick else DATA) if (built := build(name)) is not None}
    records: list[Record] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        for title, scaling in SCALINGS.items() if sets else ():
            cells = {name: best_linear(scaling, *built, quick) for name, built in sets.items()}
            records.append({"scaling": title, "kernel": "linear", **cells})
        if DATA[0] in sets:
            for title, width in itertools.product(("variance 1", "as they are"), (1.0,) if quick else WIDTHS):
                accuracy = best_rbf(SCALINGS[title], *sets[DATA[0]], width, quick)
                records.append({"scaling": title, "kernel": f"rbf {width:g}", DATA[0]: accuracy})
    if records:
        records.append(
            {"scaling": "published", "kernel": "-", **{name: published_figure(4, name, "M3IC") for name in sets}}
        )
        show("M3IC on Natural Scene: best accuracy in percent by scaling", records)
    return records


def unit_size(rows: np.ndarray, offsets: np.ndarray) -> Bags:
    return Bags(rows / np.sqrt((rows**2).sum(axis=1).mean()), offsets)


def best_linear(scaling: Callable[[Bags], np.ndarray], bags: Bags, truth: np.ndarray, quick: bool) -> float:
    scaled = unit_size(scaling(bags), bags.offsets)
    settings = itertools.product(COSTS[1:3], BALANCES[:1]) if quick else itertools.product(COSTS, BALANCES)
    models = [M3IC(3, C, balance, n_init=2 if quick else 5, random_state=0) for C, balance in settings]
    return round(100 * max(clustering_accuracy(truth, model.fit(scaled).labels_) for model in models), 1)


def best_rbf(scaling: Callable[[Bags], np.ndarray], bags: Bags, truth: np.ndarray, width: float, quick: bool) -> float:
    rows = scaling(bags)
    if quick:  # the kernel matrix of every sixth bag
        chosen = np.arange(0, len(bags), 6)
        bags, truth = Bags(rows, bags.offsets)[chosen], truth[chosen]
        rows = bags.instances
    gamma = width / mean_squared_distance(rows)
    models = [
        M3IC(3, C, balance, kernel="rbf", gamma=gamma, n_init=2, random_state=0)
        for C, balance in itertools.product((1.0, 64.0), (0.1, 10.0))
    ]
    scaled = Bags(rows, bags.offsets)
    return round(100 * max(clustering_accuracy(truth, model.fit(scaled).labels_) for model in models), 1)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    main(parser.parse_args().quick)
