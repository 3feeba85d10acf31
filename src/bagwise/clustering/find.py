"""Clusters of bags without labels: settings chosen, tested against noise, and compared with a baseline."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.metrics import adjusted_rand_score

from bagwise.clustering._bamic import BAMIC
from bagwise.clustering._cpm3c import CPM3C
from bagwise.clustering._kmeans import MajorityKMeans, MeanKMeans
from bagwise.clustering._m3ic import M3IC
from bagwise.clustering._mixture import BagMixture
from bagwise.clustering._plain import PlainKMeans
from bagwise.clustering._shared import quietly
from bagwise.clustering._stability import Halves, Trial, is_steadier, try_halves, try_stability
from bagwise.clustering.scaling import choose_scaling, scale_bags
from bagwise.clustering.sweep import Record, choose_setting, mean_silhouette, sweep
from bagwise.core.bags import Bags
from bagwise.core.checks import check_choice

METHODS: dict[str, type[Any]] = {
    "mixture": BagMixture,
    "m3ic": M3IC,
    "cpm3c": CPM3C,
    "bamic": BAMIC,
    "kmeans": MajorityKMeans,
    "mean-kmeans": MeanKMeans,
    "plain-kmeans": PlainKMeans,
}
BASELINE = "plain-kmeans"
"""What every other method is compared with."""
BLANK: Record = {"chosen": False, "stability": None, "noise": None, "gap": None}
Progress = Callable[[str, int, int], None]


def make_clusterer(name: str, **settings: Any) -> Any:
    """A fresh clusterer with those of the settings that it has and that are not None."""
    check_choice("method", name, METHODS)
    model = METHODS[name]()
    known = model.get_params()
    return model.set_params(**{key: value for key, value in settings.items() if key in known and value is not None})


@dataclass(frozen=True)
class Baseline:
    """Clusters that a user would find without bags, to compare others with.

    Attributes
    ----------
    labels : (n,) array of int
    rows : str
        What was made of a bag, in words.
    agreement : float
        Adjusted Rand index with the clusters that are compared with it.
    trial : Trial or None
        Its own, over the same numbers of clusters; None without a test.
    halves : Halves or None
        What fits to halves of the bags say of it.
    is_better : bool
        Whether its stability, and by how much that exceeds noise, are larger than those of the clusters compared.
    """

    labels: np.ndarray
    rows: str
    agreement: float
    trial: Trial | None
    halves: Halves | None
    is_better: bool

    @property
    def sizes(self) -> list[int]:
        return np.bincount(self.labels).tolist()


@dataclass(frozen=True)
class Clustering:
    """Clusters of bags, how they were chosen and what the baseline gives.

    Attributes
    ----------
    model : fitted clusterer
    scaling : str
    bags : Bags
        Scaled.
    records : list of dict
        One for each setting that was tried, as `sweep` gives them; those that were tested with ``stability``,
        ``noise`` and ``gap`` of the trial; ``chosen`` says which one was taken.
    trial : Trial or None
        None without a test.
    baseline : Baseline
    halves : Halves or None
        What fits to halves of the bags say: their stability, and how often each bag stays in its cluster. None where
        the bags are too few.
    """

    model: Any
    scaling: str
    bags: Bags
    records: list[Record]
    trial: Trial | None
    baseline: Baseline
    halves: Halves | None

    @property
    def labels(self) -> np.ndarray:
        """(n,) cluster of each bag."""
        return self.model.labels_

    @property
    def witnesses(self) -> np.ndarray:
        """(n,) index of each bag's witness within the bag."""
        return self.model.witnesses_

    @property
    def margins(self) -> np.ndarray:
        """(n,) margin of each bag."""
        return self.model.margins_

    @property
    def objective(self) -> float:
        return float(self.model.objective_)

    @property
    def sizes(self) -> list[int]:
        return np.bincount(self.labels, minlength=self.model.n_clusters).tolist()


def find_clusters(
    bags: Bags,
    model: Any,
    n_clusters: Sequence[int],
    *,
    scaling: str = "auto",
    costs: Sequence[float] | None = None,
    balances: Sequence[float] | None = None,
    n_noise: int = 19,
    seed: int = 0,
    jobs: int | None = None,
    progress: Progress = lambda what, done, total: None,
) -> Clustering:
    """Choose the number of clusters and the settings without labels, and cluster.

    Where several costs or balances are given, those of the largest silhouette are taken for each number of clusters.
    The number is the one whose stability exceeds that of noise most; without noise, the one of the largest silhouette.

    Parameters
    ----------
    bags : Bags
        As they came.
    model : clusterer
        Of `METHODS`; gives all settings that are not chosen here.
    n_clusters : numbers of clusters to try
    scaling : name of a scaling, or "auto"
    costs, balances : values of ``C`` and ``balance`` to try, for clusterers that have them
    n_noise : int
        Sets of noise; 0 for no test.
    seed : int
    jobs : int or None
    progress : called with what is done, how much and of how much
    """
    if isinstance(model, PlainKMeans):
        scaling = "none"  # it scales the rows that it makes
    scaling = choose_scaling(bags) if scaling == "auto" else scaling
    scaled = scale_bags(bags, scaling)
    records = _try_settings(scaled, model, n_clusters, costs, balances, seed, jobs, progress)
    best = {k: choose_setting([record for record in records if record["n_clusters"] == k]) for k in n_clusters}
    tunable = costs is not None or balances is not None
    settings = {k: {name: best[k][name] for name in ("C", "balance")} if tunable else {} for k in n_clusters}
    trial = None
    if n_noise:
        trial = try_stability(
            scaled,
            model,
            n_clusters,
            settings=settings,
            n_noise=n_noise,
            random_state=seed,
            n_jobs=jobs,
            progress=partial(progress, "sets of noise"),
        )
        for record in trial.records:
            best[record["n_clusters"]].update(record)
    if trial is not None and trial.p_value is not None:
        k = trial.n_clusters
    else:
        k = choose_setting(list(best.values()))["n_clusters"]
    best[k]["chosen"] = True
    final = clone(model).set_params(n_clusters=k, **settings[k])
    if tunable:
        final.set_params(n_init=1, random_state=best[k]["seed"])
    final.fit(scaled)
    halves = try_halves(scaled, final, final.labels_, seed)
    advance = partial(progress, "sets of noise, baseline")
    baseline = _fit_baseline(bags, final, n_clusters, trial, halves, seed, jobs, advance)
    return Clustering(final, scaling, scaled, records, trial, baseline, halves)


def _try_settings(
    bags: Bags,
    model: Any,
    ks: Sequence[int],
    costs: Sequence[float] | None,
    balances: Sequence[float] | None,
    seed: int,
    jobs: int | None,
    progress: Progress,
) -> list[Record]:
    """A record for each setting: that of `sweep` where the clusterer has C and balance, else size and silhouette."""
    if costs is not None or balances is not None:
        own = model.get_params()
        tried = sweep(
            bags,
            ks,
            C=costs or own["C"],
            balance=own["balance"] if balances is None else balances,
            n_seeds=own["n_init"],
            estimator=model,
            random_state=seed,
            n_jobs=jobs,
            progress=partial(progress, "settings"),
        )
        renamed = {"stability": "seeds"}  # of starts on the same bags, weaker evidence than that of halves
        return [{**BLANK, **{renamed.get(name, name): record[name] for name in record}} for record in tried]
    silhouette = mean_silhouette(bags, random_state=seed)
    records = []
    for done, k in enumerate(ks):
        progress("settings", done, len(ks))
        with quietly():
            fitted = clone(model).set_params(n_clusters=k).fit(bags)
        sizes = np.bincount(fitted.labels_, minlength=k).tolist()
        measures = {"objective": float(fitted.objective_), "silhouette": silhouette(fitted.labels_)}
        records.append({**BLANK, "n_clusters": k, "sizes": sizes, **measures})
    progress("settings", len(ks), len(ks))
    return records


def _fit_baseline(
    bags: Bags,
    final: Any,
    ks: Sequence[int],
    trial: Trial | None,
    halves: Halves | None,
    seed: int,
    jobs: int | None,
    progress: Callable[[int, int], None],
) -> Baseline:
    """The baseline: of the number of clusters that its own trial chooses, without one of as many as were found."""
    model, k, own = make_clusterer(BASELINE, random_state=seed), final.n_clusters, trial
    if trial is not None and trial.p_value is not None and not isinstance(final, PlainKMeans):
        own = try_stability(bags, model, ks, n_noise=trial.n_noise, random_state=seed, n_jobs=jobs, progress=progress)
        k = own.n_clusters
    model.set_params(n_clusters=k).fit(bags)
    own_halves = try_halves(bags, model, model.labels_, seed)
    is_better = own is not None and trial is not None and is_steadier(own, own_halves, trial, halves)
    rows = "TF-IDF of whole bags" if model.words_ else "scaled statistics of bags"
    agreement = adjusted_rand_score(model.labels_, final.labels_)
    return Baseline(model.labels_, rows, agreement, own, own_halves, is_better)
