"""Choosing the number of clusters, C and balance without labels."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import combinations, product
from typing import Any, TypeVar

import numpy as np
from joblib import delayed
from sklearn.base import clone
from sklearn.metrics import adjusted_rand_score, silhouette_score
from sklearn.utils import check_random_state

from bagwise.clustering._cpm3c import CPM3C
from bagwise.clustering._m3ic import M3IC
from bagwise.clustering._shared import all_done, as_values, quietly, start_trials
from bagwise.core.bags import Bags
from bagwise.core.checks import check_choice
from bagwise.core.exceptions import InputError
from bagwise.core.typing import BagsLike
from bagwise.kernels.hausdorff import KINDS
from bagwise.solvers.medoids import bag_distances

Record = dict[str, Any]
Setting = TypeVar("Setting", bound=Mapping[str, Any])

C_VALUES = (0.25, 1.0, 4.0, 16.0)
BALANCE_VALUES = (0.0, 0.1, 1.0, 10.0)
"""A coarse form of the grids in section 4.2 of the paper."""


def sweep(
    X: BagsLike,
    n_clusters: int | Iterable[int] = (2, 3, 4, 5),
    *,
    C: float | Iterable[float] = C_VALUES,
    balance: float | Iterable[float] = BALANCE_VALUES,
    n_seeds: int = 5,
    estimator: M3IC | CPM3C | None = None,
    distance: str = "average",
    max_bags: int = 1000,
    random_state: Any = 0,
    n_jobs: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> list[Record]:
    """Fit M3IC (or CPM3C) at every setting from several seeds, and score the clusters without labels.

    Parameters
    ----------
    X : Bags, list of 2-d arrays, 3-d array or 2-d array
        Scaled as they will be for the fit.
    n_clusters, C, balance : a value, or several
    n_seeds : int, default=5
        Starts at each setting, one per seed. Every setting has seeds of its own: what is good is then found in more
        places than `n_seeds`.
    estimator : M3IC, CPM3C or None
        Gives all other parameters, such as the kernel; None for M3IC with its defaults.
    distance : {"average", "maximal", "minimal"}, default="average"
        Hausdorff distance of the silhouette.
    max_bags : int, default=1000
        The silhouette is taken over at most so many bags, drawn once: their distances are all pairs.
    random_state : int, RandomState or None, default=0
    n_jobs : int or None
        Settings in parallel.
    progress : callable or None
        Called with the settings done and their number.

    Returns
    -------
    list of dict
        One for each setting, in the order of `n_clusters`, then `C`, then `balance`: these three, and

        - ``objective``: the lowest J of the seeds; comparable at equal C only;
        - ``cost``: J / C, between 0 and 1: W = 0 costs 1;
        - ``seed``: that start's; ``M3IC(..., n_init=1, random_state=seed)`` gives these clusters again;
        - ``sizes``: its clusters' sizes, the largest first;
        - ``silhouette``: mean silhouette of its clusters over the distances of bags, -1 to 1; None with one cluster;
        - ``stability``: mean adjusted Rand index of all pairs of seeds; None with one seed.

    See Also
    --------
    choose_setting : takes one of the records.

    Examples
    --------
    >>> import numpy as np
    >>> from bagwise.clustering import choose_setting, sweep
    >>> rng = np.random.default_rng(0)
    >>> corners = 5 * np.eye(3)[np.arange(45) % 3]
    >>> bags = [corner + rng.normal(size=(4, 3)) for corner in corners]
    >>> records = sweep(bags, [2, 3, 4], C=1.0, balance=[0.0, 1.0])
    >>> len(records), choose_setting(records)["n_clusters"]
    (6, 3)
    """
    check_choice("distance", distance, KINDS)
    estimator = M3IC() if estimator is None else estimator
    bags, ks = start_trials(estimator, X, n_clusters, n_seeds=n_seeds, max_bags=max_bags)
    rng = check_random_state(random_state)
    silhouette = mean_silhouette(bags, distance=distance, max_bags=max_bags, random_state=rng)
    settings = list(product(ks, as_values(C), as_values(balance)))
    if not settings:
        raise InputError("There is no setting to try; give at least one value of n_clusters, C and balance.")
    seeds = rng.randint(2**31 - 1, size=(len(settings), n_seeds)).tolist()
    tasks = (
        delayed(_try_setting)(bags, setting, own_seeds, estimator, silhouette)
        for setting, own_seeds in zip(settings, seeds, strict=True)
    )
    return all_done(tasks, len(settings), n_jobs, progress)


def mean_silhouette(
    bags: Bags, *, distance: str = "average", max_bags: int = 1000, random_state: Any = 0
) -> Callable[[np.ndarray], float | None]:
    """A function of the clusters of bags: their mean silhouette by Hausdorff distance, over at most so many bags.

    The bags are drawn once, since the distances are those of all pairs. It gives -1 to 1, or None where there are not
    at least two clusters and one bag more than clusters.
    """
    sample = np.sort(check_random_state(random_state).permutation(len(bags))[:max_bags])
    distances = bag_distances(bags[sample], kind=distance, n_jobs=None)
    return partial(_silhouette, sample, distances)


def _silhouette(sample: np.ndarray, distances: np.ndarray, labels: np.ndarray) -> float | None:
    own = labels[sample]
    if not 2 <= len(np.unique(own)) < len(own):
        return None
    return float(silhouette_score(distances, own, metric="precomputed"))


def choose_setting(records: Sequence[Setting]) -> Setting:
    """The setting of the largest silhouette among those that use all their clusters; the more stable of equals.

    Where no setting uses all its clusters, all are eligible. J cannot choose: it grows with C and falls with balance
    and with the number of clusters, whatever the data.

    Examples
    --------
    >>> from bagwise.clustering import choose_setting
    >>> records = [{"C": 1.0, "sizes": [9, 0], "silhouette": 0.7}, {"C": 4.0, "sizes": [5, 4], "silhouette": 0.5}]
    >>> choose_setting(records)["C"]
    4.0
    """
    if not records:
        raise InputError("There are no records to choose from; pass those of sweep.")
    full = [record for record in records if min(record["sizes"]) > 0] or list(records)
    return max(full, key=lambda record: (_or_least(record["silhouette"]), _or_least(record.get("stability"))))


def _or_least(value: float | None) -> float:
    return -np.inf if value is None else value


def _try_setting(
    bags: Bags,
    setting: tuple[int, float, float],
    seeds: list[int],
    estimator: M3IC | CPM3C,
    silhouette: Callable[[np.ndarray], float | None],
) -> Record:
    n_clusters, C, balance = setting
    model = clone(estimator).set_params(n_clusters=n_clusters, C=C, balance=balance, n_init=1)
    fits = []
    with quietly():
        for seed in seeds:
            fitted = clone(model).set_params(random_state=seed).fit(bags)
            fits.append((fitted.objective_, seed, fitted.labels_))
    objective, seed, labels = min(fits, key=lambda fit: fit[0])
    pairs = [adjusted_rand_score(a, b) for (_, _, a), (_, _, b) in combinations(fits, 2)]
    return {
        "n_clusters": n_clusters,
        "C": C,
        "balance": balance,
        "objective": float(objective),
        "cost": float(objective / C),
        "seed": seed,
        "sizes": np.bincount(labels, minlength=n_clusters).tolist(),
        "silhouette": silhouette(labels),
        "stability": float(np.mean(pairs)) if pairs else None,
    }
