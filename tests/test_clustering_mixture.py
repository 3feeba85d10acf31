"""The mixture of kinds against EM written out with loops, against brute force and against groups that are known."""

import itertools
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import logsumexp

import bagwise
from bagwise import Bags
from bagwise.clustering import BagMixture, MeanKMeans
from bagwise.clustering._mixture import _Codebook, _count_words, _learn_codebook, _maximise, _run_em, fit_multinomials
from bagwise.clustering.scaling import are_words, choose_scaling, scale_bags
from bagwise.core.bags import offsets_of
from bagwise.core.exceptions import InputError
from bagwise.metrics import clustering_accuracy


def random_counts(seed, n=12, v=5):
    rng = np.random.default_rng(seed)
    return rng.poisson(2.0, size=(n, v)).astype(float) + np.eye(v)[rng.integers(v, size=n)]


def log_density(counts, log_words, log_shares, smoothing):
    """The objective of the docstring, term by term."""
    total = 0.0
    for row in counts:
        total += logsumexp([log_shares[c] + sum(row * log_words[c]) for c in range(len(log_shares))])
    shares = counts.sum(axis=0) / counts.sum()
    for c in range(len(log_shares)):
        total += smoothing * sum(counts.shape[1] * shares * log_words[c]) + log_shares[c]
    return total


@pytest.mark.parametrize("seed", range(8))
def test_every_step_raises_what_the_docstring_says(seed):
    counts, k = random_counts(seed), 2 + seed % 2
    start = np.random.default_rng(seed).dirichlet(np.ones(k), size=len(counts))
    fit = _run_em(counts, start, 0.3, 0.0, 30)
    assert np.diff(fit.history).min() >= -1e-9 * abs(fit.history[0])
    assert fit.history[-1] == pytest.approx(log_density(counts, fit.log_words, fit.log_shares, 0.3), rel=1e-7)
    sparse = _run_em(sp.csr_matrix(counts), start, 0.3, 0.0, 30)
    np.testing.assert_allclose(sparse.posteriors, fit.posteriors, atol=1e-9)


@pytest.mark.parametrize("seed", range(4))
def test_no_assignment_is_better_than_what_the_starts_find(seed):
    """From all assignments of six bags to two clusters EM reaches nothing above the best of twenty starts."""
    counts = random_counts(seed, n=6, v=4)
    reached = []
    for labels in itertools.product([0, 1], repeat=5):
        start = np.eye(2)[[0, *labels]]
        reached.append(_run_em(counts, start, 0.3, 1e-10, 300).history[-1])
    model = BagMixture(n_init=20, tol=1e-10, max_iter=300)
    found = fit_multinomials(counts, 2, model, np.random.RandomState(seed))
    assert found.history[-1] == pytest.approx(max(reached), rel=1e-4)


def test_hard_assignments_are_smoothed_shares():
    counts = random_counts(3)
    labels = np.arange(len(counts)) % 3
    overall = counts.sum(axis=0) / counts.sum() * counts.shape[1]
    log_words, log_shares = _maximise(counts, np.eye(3)[labels], 0.5 * overall)
    for c in range(3):
        words = counts[labels == c].sum(axis=0) + 0.5 * overall
        np.testing.assert_allclose(np.exp(log_words[c]), words / words.sum(), rtol=1e-7)
    np.testing.assert_allclose(np.exp(log_shares), [5 / 15] * 3)


# -- kinds


@pytest.mark.parametrize("seed", range(5))
def test_memberships_are_those_of_gaussians(seed, monkeypatch):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 6, size=9)
    bags = Bags(rng.normal(size=(sizes.sum(), 3)), offsets_of(sizes))
    codebook = _Codebook(rng.normal(size=(4, 3)), 0.7)
    densities = np.exp([[-0.5 * ((x - c) ** 2).sum() / 0.7 for c in codebook.centres] for x in bags.instances])
    expected = densities / densities.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(codebook.memberships(bags.instances), expected, rtol=1e-9)
    counted = [expected[first:last].sum(axis=0) for first, last in itertools.pairwise(bags.offsets)]
    np.testing.assert_allclose(codebook.counts(bags), counted, rtol=1e-9)
    monkeypatch.setattr("bagwise.clustering._mixture.BLOCK", 8)  # two instances at once
    np.testing.assert_allclose(codebook.counts(bags), counted, rtol=1e-9)


def test_codebooks_have_no_more_kinds_than_there_are_instances():
    bags = Bags(np.repeat(np.eye(3), 4, axis=0), np.arange(13))
    codebook = _learn_codebook(bags, np.random.RandomState(0))
    assert len(codebook.centres) == 3
    assert codebook.width == pytest.approx(0.0, abs=1e-12)
    assert sorted(map(tuple, codebook.counts(bags)[::4].round(6))) == sorted(map(tuple, np.eye(3)))


def test_words_do_not_depend_on_the_length_of_an_instance():
    X = np.array([[2.0, 0.0, 1.0, 0.0], [0.0, 0.0, 5.0, 0.0], [0.0, 0.0, 0.0, 0.0], [1.0, 1.0, 0.0, 2.0]])
    bags = Bags(X, [0, 2, 4])
    expected = [[2 * 2 / 3, 0.0, 2 / 3 + 1.0, 0.0], [3 / 4, 3 / 4, 0.0, 3 * 2 / 4]]
    np.testing.assert_allclose(_count_words(bags).toarray(), expected)
    scaled = Bags(X * np.array([[3.0], [0.1], [1.0], [7.0]]), bags.offsets)
    np.testing.assert_allclose(_count_words(scaled).toarray(), expected)


def test_what_words_are():
    rng = np.random.default_rng(0)
    words = Bags((rng.random((20, 8)) < 0.2) * 3.0, np.arange(11) * 2)
    assert are_words(words)
    assert are_words(Bags(sp.csr_matrix(words.instances), words.offsets))
    assert not are_words(Bags(-words.instances, words.offsets))
    assert not are_words(Bags(rng.random((20, 8)), words.offsets))
    assert choose_scaling(words) == "length"
    assert choose_scaling(Bags(rng.normal(size=(20, 8)), words.offsets)) == "within-bag"
    assert scale_bags(words, "auto") == scale_bags(words, "length")


# -- the clusterer


def made(seed, n=60, k=3, size=5, witnesses=1, distance=5.0):
    """Bags in k groups: some instances at the corner of the group, the others at the origin."""
    rng = np.random.default_rng(seed)
    truth = np.arange(n) % k
    X = rng.normal(size=(n, size, 6))
    X[:, :witnesses] += distance * np.eye(6)[truth][:, None, :]
    return Bags(X.reshape(-1, 6), np.arange(n + 1) * size), truth


@pytest.mark.parametrize("seed", range(3))
def test_it_finds_groups_that_one_instance_tells(seed):
    bags, truth = made(seed, distance=8.0)
    model = BagMixture(3, random_state=seed).fit(bags)
    assert clustering_accuracy(truth, model.labels_) > 0.95
    assert (model.witnesses_ == 0).mean() > 0.9
    assert model.predict(bags).tolist() == model.labels_.tolist()
    assert np.all(np.diff(np.bincount(model.labels_)) <= 0)
    np.testing.assert_allclose(model.cluster_proba(bags), model.probabilities_)
    np.testing.assert_allclose(model.probabilities_.sum(axis=1), 1.0)
    assert (model.margins_ >= 0.0).all()
    new, truth = made(seed + 100, distance=8.0)
    assert clustering_accuracy(truth, model.predict(new)) > 0.9


def test_margins_are_likelihood_ratios_of_a_mean_instance():
    bags, _ = made(0)
    model = BagMixture(3, random_state=0).fit(bags)
    ranked = np.sort(model.probabilities_, axis=1)
    expected = 1.0 - (ranked[:, -2] / ranked[:, -1]) ** (1.0 / bags.sizes)
    np.testing.assert_allclose(model.margins_, expected, atol=1e-9)


def test_words_sparse_and_dense_alike(tmp_path):
    rng = np.random.default_rng(0)
    truth = np.arange(40) % 2
    rates = np.where(np.arange(20) < 10, 0.5, 0.05)
    X = np.vstack([rng.poisson(rates if c else rates[::-1], size=(3, 20)) for c in truth]).astype(float)
    dense = BagMixture(2, random_state=0).fit(Bags(X, np.arange(41) * 3))
    sparse = BagMixture(2, random_state=0).fit(Bags(sp.csr_matrix(X), np.arange(41) * 3))
    assert dense.kinds_ == sparse.kinds_ == "features"
    assert clustering_accuracy(truth, dense.labels_) == 1.0
    assert dense.labels_.tolist() == sparse.labels_.tolist()
    assert dense.witnesses_.tolist() == sparse.witnesses_.tolist()
    bagwise.save(sparse, tmp_path / "m.bagwise")
    assert bagwise.load(tmp_path / "m.bagwise").predict(Bags(X, np.arange(41) * 3)).tolist() == dense.labels_.tolist()


def test_a_saved_model_knows_its_codebooks(tmp_path):
    bags, _ = made(1)
    model = BagMixture(3, random_state=0).fit(bags)
    bagwise.save(model, tmp_path / "m.bagwise")
    np.testing.assert_array_equal(bagwise.load(tmp_path / "m.bagwise").cluster_proba(bags), model.probabilities_)


def test_same_seed_same_clusters():
    bags, _ = made(2, distance=2.0)
    first, second = (BagMixture(3, random_state=7).fit(bags) for _ in range(2))
    np.testing.assert_array_equal(first.probabilities_, second.probabilities_)


def test_bad_input():
    bags, _ = made(0, n=8)
    with pytest.raises(InputError, match="features below zero; use kinds='codebooks'"):
        BagMixture(2, kinds="features").fit(bags)
    with pytest.raises(InputError, match="kinds"):
        BagMixture(2, kinds="words").fit(bags)
    for name, value in (("smoothing", 0.0), ("n_codebooks", 0), ("n_clusters", 1), ("n_clusters", 9)):
        with pytest.raises(InputError, match=name):
            BagMixture(2).set_params(**{name: value}).fit(bags)


def test_more_clusters_than_different_bags_are_told():
    X = np.repeat(np.array([[0.0, 1.0], [5.0, 0.0]]), 6, axis=0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = BagMixture(4, random_state=0).fit(Bags(X, np.arange(13)))
    assert len(np.unique(model.labels_)) == 2
    assert any("Only 2 of 4 clusters hold a bag" in str(w.message) for w in caught)


# -- k-means of means


@pytest.mark.parametrize("seed", range(5))
def test_means_are_clustered(seed):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 5, size=30)
    bags = Bags(rng.normal(size=(sizes.sum(), 2)), offsets_of(sizes))
    model = MeanKMeans(3, random_state=seed).fit(bags)
    means = np.array([bag.mean(axis=0) for bag in bags])
    distances = np.linalg.norm(means[:, None] - model.cluster_centers_, axis=2)
    assert model.labels_.tolist() == distances.argmin(axis=1).tolist() == model.predict(bags).tolist()
    assert model.objective_ == pytest.approx((distances.min(axis=1) ** 2).sum(), rel=1e-6)
    ranked = np.sort(distances, axis=1)
    np.testing.assert_allclose(model.margins_, 1.0 - ranked[:, 0] / ranked[:, 1], atol=1e-9)
    for i, bag in enumerate(bags):
        to_own = np.linalg.norm(bag - model.cluster_centers_[model.labels_[i]], axis=1)
        assert model.witnesses_[i] == to_own.argmin()
