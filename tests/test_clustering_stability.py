"""Noise of many shapes is called noise, clusters are called clusters, and noise has the shape that it should."""

import numpy as np
import pytest
import scipy.sparse as sp

from bagwise import Bags
from bagwise.clustering import M3IC, BagMixture, MeanKMeans, Trial, try_stability
from bagwise.clustering._stability import _critical_width, _noise_maker, _test
from bagwise.clustering.scaling import scale_bags
from bagwise.core.exceptions import InputError
from bagwise.solvers.aggregation import bag_means

N, SIZE, D = 60, 4, 5
OFFSETS = np.arange(N + 1) * SIZE
SHAPES = {
    "gaussian": lambda rng: rng.normal(size=(N * SIZE, D)),
    "uniform": lambda rng: rng.uniform(size=(N * SIZE, D)),
    "heavy tails": lambda rng: rng.standard_t(2, size=(N * SIZE, D)),
    "stretched": lambda rng: rng.normal(size=(N * SIZE, D)) @ np.diag([9.0, 3.0, 1.0, 1.0, 0.1]),
    "bags differ": lambda rng: (
        rng.normal(size=(N * SIZE, D)) + np.repeat(rng.normal(size=(N, D)) * [5.0, 1.0, 0.3, 0.1, 0.1], SIZE, axis=0)
    ),
    "counts": lambda rng: rng.poisson(0.3 * rng.gamma(1.0, size=40), size=(N * SIZE, 40)).astype(float),
}


def clusters(seed, k=3, distance=4.0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N, SIZE, D)) + distance * np.eye(D)[np.arange(N) % k][:, None, :]
    return Bags(X.reshape(-1, D), OFFSETS)


@pytest.mark.parametrize("shape", SHAPES)
def test_noise_is_called_noise(shape):
    """At a level of .05: one draw in twenty may be taken for clusters, and which one rounding decides."""
    trials = [
        try_stability(
            scale_bags(Bags(SHAPES[shape](np.random.default_rng(seed)), OFFSETS), "auto"),
            BagMixture(n_codebooks=1, n_init=1), [2, 3], n_splits=1,
        )
        for seed in (11, 12, 13)
    ]  # fmt: skip
    noise = [trial for trial in trials if not trial.has_clusters]
    assert len(noise) >= 2
    assert all(trial.in_words().startswith("No stable clusters") for trial in noise)


@pytest.mark.parametrize(
    "model", [BagMixture(n_codebooks=1, n_init=2), MeanKMeans(n_init=1), M3IC(n_init=2)], ids=lambda m: type(m).__name__
)
def test_clusters_are_called_clusters(model):
    trial = try_stability(scale_bags(clusters(0, distance=6.0), "auto"), model, [2, 3], n_splits=2)
    assert trial.has_clusters is True
    assert trial.p_value == 1 / 20
    assert trial.n_clusters == 3 or isinstance(model, M3IC)  # one start in two finds a worse optimum
    best = trial.records[1]
    assert best["stability"] > 0.8
    assert best["gap"] == pytest.approx(best["stability"] - best["noise"])
    assert "more stable than those of noise" in trial.in_words()


def test_p_is_the_rank_among_all_sets():
    values = np.array([[0.5, 0.2], *([0.1, 0.1 + 0.01 * i] for i in range(19))])
    assert _test(values, [2, 3], [2, 3]).p_value == 1 / 20
    for seed in range(20):  # if the bags are noise, every rank is as probable
        drawn = np.random.default_rng(seed).random((20, 3))
        z = (drawn - drawn.mean(axis=0)) / drawn.std(axis=0)
        rank = (z.max(axis=1) >= z[0].max()).mean()
        assert _test(drawn, [2, 3, 4], [2, 3, 4]).p_value == pytest.approx(rank)


def test_seeds_settings_and_few_bags():
    bags = clusters(1)
    first, second = (try_stability(bags, MeanKMeans(n_init=1), [2, 3], n_splits=1, random_state=3) for _ in range(2))
    assert first == second
    told = try_stability(bags[:10], MeanKMeans(n_init=1), [2, 4], n_splits=1)
    assert told.records[1] == {"n_clusters": 4, "stability": None, "noise": None, "gap": None}
    assert told.n_clusters == 2
    few = try_stability(bags[:6], MeanKMeans(n_init=1), [2, 3])
    assert few == Trial([{"n_clusters": k, "stability": None, "noise": None, "gap": None} for k in (2, 3)], None, 19)
    assert few.has_clusters is None
    assert "too few" in few.in_words()
    assert few.n_clusters == 2
    with pytest.raises(InputError, match="n_noise must be a whole number, 19 or more"):
        try_stability(bags, MeanKMeans(), n_noise=18)
    with pytest.raises(InputError, match="n_clusters"):
        try_stability(bags, MeanKMeans(), [1])


def test_progress_counts_the_sets():
    seen = []
    try_stability(clusters(2)[:12], MeanKMeans(n_init=1), 2, n_splits=1, progress=lambda *step: seen.append(step))
    assert seen == [(i, 20) for i in range(1, 21)]


# -- noise


def test_noise_keeps_means_spread_and_sizes_and_loses_modes():
    bags = clusters(5, k=2, distance=10.0)
    make = _noise_maker(bags)
    before = bag_means(bags)
    covariances, within = [], []
    for seed in range(30):
        noise = make(np.random.default_rng(seed))
        assert noise.sizes.tolist() == bags.sizes.tolist()
        after = bag_means(noise)
        covariances.append(np.cov(after.T))
        within.append((noise.instances - np.repeat(after, SIZE, axis=0)).std(axis=0))
        one_mode, two_modes = (_critical_width(means @ [1.0, -1.0, 0.0, 0.0, 0.0]) for means in (after, before))
        assert one_mode < two_modes
    np.testing.assert_allclose(np.mean(covariances, axis=0), np.cov(before.T), atol=0.15 * np.cov(before.T).max())
    own = (bags.instances - np.repeat(before, SIZE, axis=0)).std(axis=0)
    np.testing.assert_allclose(np.mean(within, axis=0), own, rtol=0.05)


@pytest.mark.parametrize("seed", range(5))
def test_critical_width_is_where_one_mode_is_left(seed):
    values = np.random.default_rng(seed).normal(size=60) + 6.0 * (np.arange(60) % 2)
    width = _critical_width(values)

    def n_modes(h):
        grid = np.linspace(values.min() - 3, values.max() + 3, 2000)
        density = np.exp(-0.5 * ((grid[:, None] - values) / h) ** 2).sum(axis=1)
        return int(((density[1:-1] > density[:-2]) & (density[1:-1] > density[2:])).sum())

    assert n_modes(1.03 * width) == 1
    assert n_modes(0.95 * width) > 1
    assert _critical_width(np.zeros(5)) == 0.0
    outlier = np.append(np.random.default_rng(seed).normal(size=60), 40.0)
    assert _critical_width(outlier) < 2.0  # a far bag is a tail, and stays one


@pytest.mark.parametrize("sparse", [False, True])
def test_words_keep_their_numbers_and_lose_their_company(sparse):
    rng = np.random.default_rng(0)
    pairs = np.repeat(rng.random((40, 6)) < 0.25, 2, axis=1)  # every word comes with its neighbour
    X = (pairs * rng.integers(1, 4, size=pairs.shape)).astype(float)
    bags = Bags(sp.csr_matrix(X) if sparse else X, np.arange(21) * 2)
    noise = _noise_maker(bags)(np.random.default_rng(1))
    assert sp.issparse(noise.instances) is sparse
    after = noise.instances.toarray() if sparse else noise.instances
    np.testing.assert_allclose(after.sum(axis=0), X.sum(axis=0))
    totals, drawn = (np.add.reduceat(values, bags.offsets[:-1], axis=0) for values in (X, after))
    np.testing.assert_allclose(np.sort(drawn, axis=0), np.sort(totals, axis=0))  # bags as a whole were shuffled
    together = [np.corrcoef(values > 0, rowvar=False)[0, 1] for values in (totals, drawn)]
    assert together[0] > 0.99
    assert abs(together[1]) < 0.8
