"""Are there clusters at all, and how many: stability beside that of noise of the same shape."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score
from threadpoolctl import threadpool_limits

from bagwise.bags import Bags, as_bags
from bagwise.base import check_finite
from bagwise.clustering._shared import check_clusterable, check_enough_bags, check_n_clusters
from bagwise.clustering.mixture import BagMixture, fit_multinomials
from bagwise.clustering.noise import noise_maker
from bagwise.exceptions import InputError
from bagwise.parameters import is_count

LEVEL = 0.05  # of the test
FEWEST_NOISE = 19  # sets that can give p = LEVEL
MOST = {"n_init": 3, "n_codebooks": 3}  # starts and codebooks of a fit of half of the bags: many are made
LEAST_SPREAD = 0.02  # of stability in noise: a few sets of noise may agree by chance
Record = dict[str, Any]
Learner = Callable[[np.ndarray, int, int], Callable[[np.ndarray], np.ndarray]]


@dataclass(frozen=True)
class Trial:
    """What is known of clusters without labels.

    Attributes
    ----------
    records : list of dict
        For each number of clusters: ``n_clusters``; ``stability``, the mean adjusted Rand index between what two
        halves of the bags say of each half; ``noise``, the mean of the same over sets of noise; ``gap``, the
        difference. None where the bags are too few for that number.
    p_value : float or None
        Share of the sets of noise, the bags themselves among them, whose largest excess over the mean, in standard
        deviations, is as large.
    n_noise : int
    """

    records: list[Record]
    p_value: float | None
    n_noise: int

    @property
    def has_clusters(self) -> bool | None:
        """Whether the bags are more stable than noise; None where that could not be told."""
        return None if self.p_value is None else self.p_value <= LEVEL

    @property
    def n_clusters(self) -> int:
        """The number of clusters of the largest gap; the smallest where none could be told."""
        told = [record for record in self.records if record["gap"] is not None]
        if not told:
            return min(record["n_clusters"] for record in self.records)
        return max(told, key=lambda record: record["gap"])["n_clusters"]

    def in_words(self) -> str:
        """The verdict as a sentence."""
        if self.p_value is None:
            return "The bags are too few to tell clusters from noise."
        against = f"p = {self.p_value:.2g} against {self.n_noise} sets of noise of the same shape"
        if self.has_clusters:
            return f"The clusters are more stable than those of noise ({against})."
        return f"No stable clusters: noise gives clusters as stable as these ({against})."


def try_stability(
    X: Any,
    estimator: Any,
    n_clusters: int | Iterable[int] = (2, 3, 4, 5, 6),
    *,
    settings: Mapping[int, Mapping[str, Any]] | None = None,
    n_noise: int = 19,
    n_splits: int = 5,
    max_bags: int = 1000,
    random_state: int = 0,
    n_jobs: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Trial:
    """Fit two halves of the bags, ask each for the clusters of both, and do the same with noise of the same shape.

    What is there can be found in either half of the bags; noise cannot. But a long cloud without clusters is cut in two
    at the same place every time, so that stability alone proves nothing: it is compared with that of `noise_maker`.
    The test is of the largest excess over all numbers of clusters, so that trying many costs no false alarms.

    Parameters
    ----------
    X : Bags, list of 2-d arrays, 3-d array or 2-d array
        Scaled as they will be for the fit.
    estimator : clusterer of bags
        Fitted with at most three starts, and three codebooks, a time.
    n_clusters : int or several
    settings : mapping or None
        Other parameters for some numbers of clusters.
    n_noise : int, default=19
        Sets of noise; 19 are the fewest that can give p = 0.05.
    n_splits : int, default=5
        Ways to halve the bags.
    max_bags : int, default=1000
        At most so many bags, drawn once, are looked at.
    random_state : int, default=0
    n_jobs : int or None
        Sets of noise in parallel.
    progress : callable or None
        Called with the sets done and their number.

    Returns
    -------
    Trial

    Examples
    --------
    >>> import numpy as np
    >>> from bagwise.clustering import MeanKMeans, try_stability
    >>> rng = np.random.default_rng(0)
    >>> corners = 5 * np.eye(3)[np.arange(60) % 3]
    >>> bags = [corner + rng.normal(size=(4, 3)) for corner in corners]
    >>> trial = try_stability(bags, MeanKMeans(n_init=1), [2, 3], n_splits=3)
    >>> trial.has_clusters, trial.n_clusters
    (True, 3)
    >>> noise = [rng.normal(size=(4, 3)) for _ in range(60)]
    >>> try_stability(noise, MeanKMeans(n_init=1), [2, 3], n_splits=3).has_clusters
    False
    """
    if not is_count(n_noise) or n_noise < FEWEST_NOISE:
        raise InputError(f"n_noise must be a whole number, {FEWEST_NOISE} or more: fewer sets of noise prove nothing.")
    for name, value in (("n_splits", n_splits), ("max_bags", max_bags)):
        if not is_count(value):
            raise InputError(f"{name} must be a whole number, 1 or more. Got {value!r}.")
    bags = as_bags(X)
    check_finite(bags)
    ks = list(n_clusters) if isinstance(n_clusters, Iterable) else [n_clusters]
    for k in ks:
        probe = clone(estimator).set_params(n_clusters=k)
        check_n_clusters(probe)
        check_enough_bags(probe, len(bags))
    check_clusterable(bags)
    if len(bags) > max_bags:
        bags = bags[np.sort(np.random.default_rng(random_state).permutation(len(bags))[:max_bags])]
    tried = [k for k in ks if len(bags) // 2 >= 2 * k]
    if not tried:
        return Trial([_record(k) for k in ks], None, n_noise)
    models = {k: _made_light(clone(estimator).set_params(**(settings or {}).get(k, {}))) for k in tried}
    make, seeds = noise_maker(bags), np.random.SeedSequence(random_state).spawn(n_noise + 1)
    work = Parallel(n_jobs=n_jobs, return_as="generator")(
        delayed(_stabilities)(make(np.random.default_rng(seed)) if i else bags, models, seed, n_splits)
        for i, seed in enumerate(seeds)
    )
    values = []
    for stabilities in work:
        values.append(stabilities)
        if progress is not None:
            progress(len(values), len(seeds))
    return _judge(np.array(values), ks, tried)


def _judge(values: np.ndarray, ks: Sequence[int], tried: Sequence[int]) -> Trial:
    """The trial from (1 + n_noise, number of ks) stabilities, those of the bags first."""
    noise = values[1:].mean(axis=0)
    # the bags are among the sets here, as they are one more of them if they are noise: only so is p exact
    centre, width = values.mean(axis=0), np.maximum(values.std(axis=0), LEAST_SPREAD)
    largest = ((values - centre) / width).max(axis=1)
    p_value = float(np.mean(largest >= largest[0]))
    found = {k: _record(k, float(values[0, j]), float(noise[j])) for j, k in enumerate(tried)}
    return Trial([found.get(k, _record(k)) for k in ks], p_value, len(values) - 1)


def _record(k: int, stability: float | None = None, noise: float | None = None) -> Record:
    gap = None if stability is None or noise is None else stability - noise
    return {"n_clusters": k, "stability": stability, "noise": noise, "gap": gap}


def _made_light(model: Any) -> Any:
    own = model.get_params()
    return model.set_params(**{name: min(own[name], most) for name, most in MOST.items() if name in own})


def _stabilities(bags: Bags, models: Mapping[int, Any], seed: np.random.SeedSequence, n_splits: int) -> list[float]:
    rng = np.random.default_rng(seed)
    splits = [rng.permutation(len(bags)) for _ in range(n_splits)]
    seeds = rng.integers(2**31 - 1, size=(n_splits, 2))
    learners: dict[str, Learner] = {}
    found = []
    with threadpool_limits(1), warnings.catch_warnings():  # so small are the fits that threads only wait for each other
        warnings.simplefilter("ignore", ConvergenceWarning)
        for k, model in models.items():
            name = repr(clone(model).set_params(n_clusters=2))
            if name not in learners:
                learners[name] = _learner(model, bags, int(seeds[0, 0]))
            learn = learners[name]
            found.append(
                float(np.mean([_agreement(learn, split, k, own) for split, own in zip(splits, seeds, strict=True)]))
            )
    return found


def _agreement(learn: Learner, order: np.ndarray, k: int, seeds: np.ndarray) -> float:
    """Mean adjusted Rand index, over both halves of the bags, of what was learned from either."""
    half = len(order) // 2
    halves = order[:half], order[half:]
    ask = [learn(rows, k, int(seed)) for rows, seed in zip(halves, seeds, strict=True)]
    return float(np.mean([adjusted_rand_score(ask[0](rows), ask[1](rows)) for rows in halves]))


def _learner(model: Any, bags: Bags, seed: int) -> Learner:
    """A function of bags to learn from, number of clusters and seed that gives a function of bags to their clusters."""
    if isinstance(model, BagMixture):  # kinds are learned once: they take most of the time, and no bag's cluster
        counts = model.count_kinds(bags, seed)

        def learn(rows: np.ndarray, k: int, own: int) -> Callable[[np.ndarray], np.ndarray]:
            fit = fit_multinomials(counts[rows], k, model, np.random.RandomState(own))
            return lambda others: (counts[others] @ fit.log_words.T + fit.log_shares).argmax(axis=1)

    else:

        def learn(rows: np.ndarray, k: int, own: int) -> Callable[[np.ndarray], np.ndarray]:
            fitted = clone(model).set_params(n_clusters=k, random_state=own).fit(bags[rows])
            return lambda others: fitted.predict(bags[others])

    return learn
