"""Whitening within bags against covariances written out, and against discriminant analysis with bags as classes."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

import bagwise
from bagwise import M3IC, Bags
from bagwise.clustering import WithinBagWhitener
from bagwise.core.bags import offsets_of
from bagwise.core.exceptions import InputError, MemoryLimitError
from bagwise.metrics import clustering_accuracy


def random_bags(seed, n_bags=40, n_features=4):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(2, 6, n_bags)
    mixing = rng.normal(size=(n_features, n_features))
    own = np.repeat(rng.normal(size=(n_bags, n_features)), sizes, axis=0)
    return Bags((own + rng.normal(size=(sizes.sum(), n_features))) @ mixing + 7.0, offsets_of(sizes))


def within_covariance(bags):
    parts = [bag - bag.mean(axis=0) for bag in bags]
    return sum(part.T @ part for part in parts) / (bags.n_instances - len(bags))


@pytest.mark.parametrize("seed", range(5))
def test_bags_become_round_and_directions_uncorrelated(seed):
    bags = random_bags(seed)
    white = WithinBagWhitener(shrinkage=1e-9)
    new = white.fit_transform(bags)
    np.testing.assert_allclose(within_covariance(new), np.eye(4), atol=1e-5)
    means = np.array([bag.mean(axis=0) for bag in new])
    np.testing.assert_allclose(means.mean(axis=0), 0.0, atol=1e-8)
    np.testing.assert_allclose(means.T @ means / len(bags), np.diag(white.ratios_), atol=1e-6)
    assert np.all(np.diff(white.ratios_) <= 0)


def test_directions_are_those_of_discriminant_analysis():
    bags = random_bags(0, n_features=5)
    bags = Bags(bags.instances[: bags.offsets[20]], bags.offsets[:21])
    equal = Bags.from_list([bag[:2] for bag in bags])  # of equal size, as its classes weigh the same
    ours = WithinBagWhitener(2, shrinkage=1e-9).fit_transform(equal).instances
    theirs = LinearDiscriminantAnalysis(solver="eigen", n_components=2).fit(equal.instances, equal.bag_index)
    theirs = theirs.transform(equal.instances)
    for a, b in zip(ours.T, theirs.T, strict=True):
        assert abs(np.corrcoef(a, b)[0, 1]) == pytest.approx(1.0, abs=1e-5)


def test_units_of_the_features_do_not_matter():
    bags = random_bags(1)
    factors = np.array([1e-6, 1.0, 1e3, 1e6])
    one = WithinBagWhitener().fit(bags)
    other = WithinBagWhitener().fit(Bags(bags.instances * factors, bags.offsets))
    np.testing.assert_allclose(other.ratios_, one.ratios_, rtol=1e-6)


@pytest.mark.parametrize("n_components", [None, 2])
def test_sparse_flat_and_saved(tmp_path, n_components):
    bags = random_bags(2)
    white = WithinBagWhitener(n_components).fit(bags)
    sparse = WithinBagWhitener(n_components).fit(Bags(sp.csr_matrix(bags.instances), bags.offsets))
    np.testing.assert_allclose(sparse.ratios_, white.ratios_, rtol=1e-6)
    new = white.transform(bags)
    np.testing.assert_allclose(white.transform(bags.instances), new.instances)
    assert new.n_features == len(white.get_feature_names_out()) == (n_components or 4)
    bagwise.save(white, tmp_path / "w.bagwise")
    assert bagwise.load(tmp_path / "w.bagwise").transform(bags) == new


def test_clusters_hidden_by_what_varies_within_bags_are_found():
    """Concepts in two small features, ten times larger noise in four others."""
    rng = np.random.default_rng(0)
    truth = np.arange(90) % 3
    centres = np.array([[1.0, 0.0], [-0.5, 0.8], [-0.5, -0.8]])
    bags = [np.c_[centres[c] + 0.1 * rng.normal(size=(6, 2)), 10 * rng.normal(size=(6, 4))] for c in truth]
    found = M3IC(3, random_state=0).fit(WithinBagWhitener().fit_transform(bags))
    assert clustering_accuracy(truth, found.labels_) == 1.0
    assert clustering_accuracy(truth, M3IC(3, random_state=0).fit(bags).labels_) < 0.6


def test_constant_features_and_bags_of_one_instance():
    X = np.c_[np.random.default_rng(0).normal(size=(20, 2)), np.full(20, 3.0)]
    for bags in (X, Bags(X, np.arange(0, 21, 4))):
        new = WithinBagWhitener().fit(bags).transform(X)
        assert np.isfinite(new).all()
        assert new[:, 2] == pytest.approx(np.zeros(20), abs=1e-8)


def test_bad_input(monkeypatch):
    bags = random_bags(0)
    for wrong in (0, 5, 1.5, "all"):
        with pytest.raises(InputError, match="'n_components' parameter.*number of features, 4"):
            WithinBagWhitener(wrong).fit(bags)
    with pytest.raises(InputError, match="'shrinkage' parameter"):
        WithinBagWhitener(shrinkage=0.0).fit(bags)
    monkeypatch.setenv("BAGWISE_MEMORY_LIMIT", "100")
    with pytest.raises(MemoryLimitError, match="covariances of 4 features"):
        WithinBagWhitener().fit(bags)
