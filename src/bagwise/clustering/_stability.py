"""Are there clusters at all, and how many: stability compared with that of noise of the same shape."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from joblib import delayed
from scipy.optimize import linear_sum_assignment
from scipy.stats import t
from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score
from threadpoolctl import threadpool_limits

from bagwise.clustering._mixture import BagMixture, fit_multinomials
from bagwise.clustering._plain import PlainKMeans
from bagwise.clustering._shared import all_done, check_clusterable, quietly, start_trials
from bagwise.clustering.scaling import are_words
from bagwise.core.bags import Bags
from bagwise.core.checks import is_count
from bagwise.core.exceptions import InputError
from bagwise.core.typing import BagsLike
from bagwise.solvers.aggregation import bag_means

LEVEL = 0.05  # of the test
FEWEST_NOISE = 19  # sets that can give p = LEVEL
MOST = {"n_init": 3, "n_codebooks": 3}  # starts and codebooks of a fit of half of the bags: many are made
LEAST_SPREAD = 0.02  # of stability in noise: a few sets of noise may agree by chance
N_SMOOTHED = 20  # directions whose modes are looked at, those of the largest variance between bags
LOWEST_MODE = 0.1  # of the highest
N_GRID = 256  # points at which a density is looked at
Record = dict[str, Any]
_HalfFit = Callable[[np.ndarray, int, int], Callable[[np.ndarray], np.ndarray]]


@dataclass(frozen=True)
class Trial:
    """What is known of clusters without labels.

    Attributes
    ----------
    records : list of dict
        For each number of clusters: ``n_clusters``; ``stability``, the mean adjusted Rand index, on each half of
        the bags, between the clusters learned from either; ``noise``, the mean of the same over sets of noise;
        ``gap``, the difference. None where the bags are too few for that number.
    p_value : float or None
        Share of the sets of noise, the bags themselves among them, whose largest excess over the mean, in standard
        deviations, is as large.
    n_noise : int

    Examples
    --------
    >>> from bagwise.clustering import Trial
    >>> gaps = [{"n_clusters": 2, "gap": 0.1}, {"n_clusters": 3, "gap": 0.6}]
    >>> found = Trial(gaps, p_value=0.05, n_noise=19)
    >>> found.has_clusters, found.n_clusters
    (True, 3)
    """

    records: list[Record]
    p_value: float | None
    n_noise: int

    @property
    def has_clusters(self) -> bool | None:
        """Whether the bags are more stable than noise; None where there were too few bags to test."""
        return None if self.p_value is None else self.p_value <= LEVEL

    @property
    def n_clusters(self) -> int:
        """The number of clusters of the largest gap; the smallest where there were too few bags for all."""
        tested = [record for record in self.records if record["gap"] is not None]
        if not tested:
            return min(record["n_clusters"] for record in self.records)
        return max(tested, key=lambda record: record["gap"])["n_clusters"]

    def in_words(self, finer: str = "n_noise=99") -> str:
        """The verdict as a sentence, with how a finer test is asked for where p is the least possible."""
        if self.p_value is None:
            return "The bags are too few to tell clusters from noise."
        sets = f"{self.n_noise} sets of noise of the same shape"
        against = f"p = {self.p_value:.2g} against {sets}"
        if self.p_value <= 1.0 / (self.n_noise + 1):
            against = f"p <= {self.p_value:.2g}, the least that {sets} can give; {finer} is finer"
        if self.has_clusters:
            return f"The clusters are more stable than those of noise ({against})."
        return f"No stable clusters: noise gives clusters as stable as these ({against})."


def is_steadier(trial: Trial, halves: Halves | None, other: Trial, other_halves: Halves | None) -> bool:
    """Whether clusters are more stable than others, at the number that either trial takes.

    Stability alone favours a method that cuts a long cloud at the same place every time, the gap to noise one that is
    erratic on noise; so both must be larger, and there must be clusters at all. The stability is that of fits with all
    starts: a trial has few, and a method whose starts end in many optima would look worse than it is. It must be larger
    by more than chance (paired t-test over the ways to halve, which are the same for one seed and number of bags).
    """
    if not trial.has_clusters or other.p_value is None or halves is None or other_halves is None:
        return False
    own, rival = (max(record["gap"] for record in one.records if record["gap"] is not None) for one in (trial, other))
    differences = halves.agreements - other_halves.agreements
    n = len(differences)
    chance = t.isf(LEVEL, n - 1) * differences.std(ddof=1) / np.sqrt(n)
    return own > rival and bool(differences.mean() > chance)


def try_stability(
    X: BagsLike,
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
    """Fit two halves of the bags, predict the clusters of both by each, and do the same with noise of the same shape.

    What is there can be found in either half of the bags; noise cannot. But a long cloud without clusters is cut in two
    at the same place every time, so that stability alone proves nothing: it is compared with that of noise
    which keeps all of the bags but their clusters.
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
    bags, ks = start_trials(estimator, X, n_clusters, n_splits=n_splits, max_bags=max_bags)
    check_clusterable(bags)
    if len(bags) > max_bags:
        bags = bags[np.sort(np.random.default_rng(random_state).permutation(len(bags))[:max_bags])]
    tried = [k for k in ks if len(bags) // 2 >= 2 * k]
    if not tried:
        return Trial([_record(k) for k in ks], None, n_noise)
    models = {k: _made_light(clone(estimator).set_params(**(settings or {}).get(k, {}))) for k in tried}
    make, seeds = _noise_maker(bags), np.random.SeedSequence(random_state).spawn(n_noise + 1)
    tasks = (
        delayed(_stabilities)(make(np.random.default_rng(seed)) if i else bags, models, seed, n_splits)
        for i, seed in enumerate(seeds)
    )
    values = all_done(tasks, len(seeds), n_jobs, progress)
    return _test(np.array(values), ks, tried)


def _test(values: np.ndarray, ks: Sequence[int], tried: Sequence[int]) -> Trial:
    """The trial from (1 + n_noise, number of ks) stabilities, those of the bags first."""
    noise = values[1:].mean(axis=0)
    # the bags are among the sets here, as they are one more of them if they are noise: only so is p exact
    centre, width = values.mean(axis=0), np.maximum(values.std(axis=0), LEAST_SPREAD)
    largest = ((values - centre) / width).max(axis=1)
    p_value = float(np.mean(largest >= largest[0]))
    records = {k: _record(k, float(values[0, j]), float(noise[j])) for j, k in enumerate(tried)}
    return Trial([records.get(k, _record(k)) for k in ks], p_value, len(values) - 1)


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
    learners: dict[str, _HalfFit] = {}
    stabilities = []
    with threadpool_limits(1), quietly():  # so small are the fits that threads only wait for each other
        for k, model in models.items():
            name = repr(clone(model).set_params(n_clusters=2))
            if name not in learners:
                learners[name] = _learner(model, bags, int(seeds[0, 0]))
            learn = learners[name]
            agreements = [_agreement(learn, split, k, own) for split, own in zip(splits, seeds, strict=True)]
            stabilities.append(float(np.mean(agreements)))
    return stabilities


def _agreement(learn: _HalfFit, order: np.ndarray, k: int, seeds: np.ndarray) -> float:
    """Mean adjusted Rand index, over both halves of the bags, of what was learned from either."""
    half = len(order) // 2
    halves = order[:half], order[half:]
    one, other = (learn(rows, k, int(seed)) for rows, seed in zip(halves, seeds, strict=True))
    return float(np.mean([adjusted_rand_score(one(rows), other(rows)) for rows in halves]))


def _learner(model: Any, bags: Bags, seed: int) -> _HalfFit:
    """A function of bags to learn from, number of clusters and seed that gives a function of bags to their clusters."""
    if isinstance(model, BagMixture):  # kinds are learned once: they take most of the time, and no bag's cluster
        counts = model.count_kinds(bags, seed)

        def learn(rows: np.ndarray, k: int, own: int) -> Callable[[np.ndarray], np.ndarray]:
            fit = fit_multinomials(counts[rows], k, model, np.random.RandomState(own))
            return lambda others: (counts[others] @ fit.log_words.T + fit.log_shares).argmax(axis=1)

    elif isinstance(model, PlainKMeans):  # its rows, too, are made once: idf and scales are no bag's cluster
        table = model.rows_of(bags)

        def learn(rows: np.ndarray, k: int, own: int) -> Callable[[np.ndarray], np.ndarray]:
            fit = KMeans(k, n_init=model.n_init, random_state=own).fit(table[rows])
            return lambda others: fit.predict(table[others])

    else:

        def learn(rows: np.ndarray, k: int, own: int) -> Callable[[np.ndarray], np.ndarray]:
            fitted = clone(model).set_params(n_clusters=k, random_state=own).fit(bags[rows])
            return lambda others: fitted.predict(bags[others])

    return learn


class Halves(NamedTuple):
    """What fits to random halves of the bags say of a clustering.

    Attributes
    ----------
    shares : (n,) array
        Of each bag the fits without it in which it stays in its cluster.
    agreements : (n_splits,) array
        Stability as `try_stability` has it, of fits with all starts, for each way to halve the bags.
    """

    shares: np.ndarray
    agreements: np.ndarray

    @property
    def stability(self) -> float:
        """The mean over the ways to halve the bags."""
        return float(self.agreements.mean())


def try_halves(bags: Bags, model: Any, labels: np.ndarray, seed: int, n_splits: int = 20) -> Halves | None:
    """How often a bag stays in its cluster when clusters are learned from random halves without it.

    Either half is fitted and asked for the clusters of all bags; they are matched with the given ones so that as many
    bags as possible agree, and the bags of the other half that do are counted. None where half of the bags are fewer
    than the clusters.

    Parameters
    ----------
    bags : Bags
        Scaled as they were for the fit.
    model : clusterer
        With the settings of the fit.
    labels : (n,) array of int
    seed : int
    n_splits : int, default=20
        So often is every bag left out.
    """
    k, rng = int(model.n_clusters), np.random.default_rng(seed)
    half = len(bags) // 2
    if half < k:
        return None
    stayed, agreements = np.zeros(len(bags)), []
    with threadpool_limits(1), quietly():
        learn = _learner(model, bags, seed)
        for _ in range(n_splits):
            order = rng.permutation(len(bags))
            halves = order[:half], order[half:]
            one, other = (learn(rows, k, int(rng.integers(2**31 - 1)))(np.arange(len(bags))) for rows in halves)
            for found, left_out in ((one, halves[1]), (other, halves[0])):
                stayed[left_out] += _matched(found, labels, k)[left_out] == labels[left_out]
            agreements.append(np.mean([adjusted_rand_score(one[rows], other[rows]) for rows in halves]))
    return Halves(stayed / n_splits, np.array(agreements))


def _matched(found: np.ndarray, labels: np.ndarray, k: int) -> np.ndarray:
    """The found clusters under the numbers of the given ones that most of their bags carry, one for each."""
    counts = np.zeros((k, k), dtype=np.int64)
    np.add.at(counts, (found, labels), 1)
    return linear_sum_assignment(-counts)[1][found]


# ---------------------------------------------------------------------------------------------------------------------
# Noise of the same shape: all is kept but what makes clusters


def _noise_maker(bags: Bags) -> Callable[[np.random.Generator], Bags]:
    """A function of a random generator that gives bags of the same sizes, features and shape, without clusters.

    Measurements: an instance is the mean of its bag plus what it differs by. The differences are shuffled over all
    instances. The means are drawn in each principal direction by itself, from the kernel estimate of the smallest
    width that has one mode only (Silverman's critical width), with the variance that they had: noise keeps its
    correlations, its tails and how much bags differ, and loses its clusters.

    Words and other features that are mostly zero and never negative: for every word the bags are shuffled, each with
    its own shuffling. How often a word is used, and how often again in the same bag, stays; which words go together
    does not.

    Parameters
    ----------
    bags : Bags
        Scaled as they will be for the fit.
    """
    return _word_maker(bags) if are_words(bags) else _measurement_maker(bags)


def _measurement_maker(bags: Bags) -> Callable[[np.random.Generator], Bags]:
    X = bags.instances.toarray() if sp.issparse(bags.instances) else bags.instances
    means = bag_means(bags)
    centre = means.mean(axis=0)
    left, lengths, directions = np.linalg.svd(means - centre, full_matrices=False)
    scores = left * lengths
    widths = np.array([_critical_width(column) for column in scores[:, :N_SMOOTHED].T])
    sizes = bags.sizes
    several = np.repeat(sizes > 1, sizes)
    own = np.repeat(sizes, sizes)[several]
    # a mean of n_i instances takes 1 / n_i of their variance with it; the factor gives it back before bags are mixed
    differences = (X - np.repeat(means, sizes, axis=0))[several] * np.sqrt(own / (own - 1.0))[:, None]

    def make(rng: np.random.Generator) -> Bags:
        drawn = np.column_stack([rng.permutation(column) for column in scores.T])
        for j, width in enumerate(widths):
            spread = scores[:, j].std()
            smooth = rng.choice(scores[:, j], len(scores)) + width * rng.normal(size=len(scores))
            # the kernel adds its own variance: shrunk to the one that the scores had (Silverman's smoothed bootstrap)
            drawn[:, j] = smooth * (spread / np.hypot(spread, width) if spread > 0.0 else 1.0)
        rows = np.zeros_like(X, dtype=np.float64)
        rows[several] = rng.permutation(differences)
        rows -= np.repeat(bag_means(Bags(rows, bags.offsets)), sizes, axis=0)
        return Bags(rows + np.repeat(centre + drawn @ directions, sizes, axis=0), bags.offsets)

    return make


def _critical_width(values: np.ndarray) -> float:
    """The smallest width of a Gaussian kernel at which the density of some numbers has one mode (Silverman 1981).

    Bumps below a tenth of the highest are tails, not modes: every far outlier makes one.
    """
    spread = float(values.std())
    if spread == 0.0:
        return 0.0
    low, high = 0.02 * spread, 2.0 * spread
    grid = np.linspace(values.min() - 0.5 * spread, values.max() + 0.5 * spread, N_GRID)
    distances = (grid[:, None] - values) ** 2
    # the number of modes falls as the width grows, so halving log(high / low) finds where it becomes one
    for _ in range(12):
        width = np.sqrt(low * high)
        density = np.exp(-distances / (2.0 * width**2)).sum(axis=1)
        peaks = (density[1:-1] > density[:-2]) & (density[1:-1] >= density[2:])
        if np.count_nonzero(peaks & (density[1:-1] > LOWEST_MODE * density.max())) > 1:
            low = width
        else:
            high = width
    return float(high)


def _word_maker(bags: Bags) -> Callable[[np.random.Generator], Bags]:
    entries = sp.coo_matrix(bags.instances)
    owner = bags.bag_index[entries.row]
    shape, offsets, sizes = bags.instances.shape, bags.offsets, bags.sizes
    dense = not sp.issparse(bags.instances)

    def make(rng: np.random.Generator) -> Bags:
        # a shuffling of the bags for each word, without a table of words times bags in memory at once
        target = np.empty_like(owner)
        order = np.argsort(entries.col, kind="stable")
        edges = np.searchsorted(entries.col[order], np.arange(shape[1] + 1))
        for first, last in pairwise(edges):
            rows = order[first:last]
            target[rows] = rng.permutation(len(sizes))[owner[rows]]
        rows = offsets[target] + rng.integers(0, sizes[target])
        drawn = sp.csr_matrix((entries.data, (rows, entries.col)), shape=shape)
        return Bags(drawn.toarray() if dense else drawn, offsets)

    return make
