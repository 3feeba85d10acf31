"""Transformers of instances against their formulas."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.decomposition import PCA
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.impute import SimpleImputer
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, StandardScaler

from bagwise import Bags, ORedLogisticRegression, make_pipeline
from bagwise.core.exceptions import InputError, MemoryLimitError
from bagwise.datasets import make_gaussian_bags
from bagwise.preprocessing import (
    CLPLScaler,
    PerInstance,
    RandomFourierFeatures,
    RBFDictionary,
    SparseReducer,
    TermScaler,
    mean_squared_distance,
)
from bagwise.preprocessing._instances import TERM_SIZE


@pytest.fixture
def X():
    return np.random.default_rng(0).normal(size=(40, 3)) * [1.0, 10.0, 0.1] + 5.0


def test_per_instance_is_the_transformer_on_all_instances():
    bags = make_gaussian_bags(n_bags=20, random_state=0).bags
    for transformer in (StandardScaler(), PCA(2)):
        lifted = PerInstance(transformer).fit(bags)
        out = lifted.transform(bags)
        assert isinstance(out, Bags)
        assert_array_equal(out.offsets, bags.offsets)
        assert_allclose(out.instances, transformer.fit_transform(bags.instances))
        assert_array_equal(PerInstance(transformer).fit_transform(list(bags)).instances, out.instances)
        assert lifted.n_features_in_ == 8
    assert PerInstance(StandardScaler()).fit_transform(bags.instances).shape == bags.instances.shape
    sparse = Bags(sp.csr_matrix(bags.instances), bags.offsets)
    assert sp.issparse(PerInstance(MaxAbsScaler()).fit_transform(sparse).instances)
    names = PerInstance(PCA(2)).fit(bags).get_feature_names_out()
    assert list(names) == ["pca0", "pca1"]


def test_per_instance_refuses_a_transformer_that_changes_the_number_of_rows():
    class Halves:
        def get_params(self, deep=True):
            return {}

        def fit(self, X, y=None):
            return self

        def transform(self, X):
            return X[::2]

    bags = make_gaussian_bags(n_bags=4, random_state=0).bags
    with pytest.raises(InputError, match="Halves turned .* one row for each row"):
        PerInstance(Halves()).fit(bags).transform(bags)


def test_missing_features_go_to_a_transformer_that_takes_them():
    data = make_gaussian_bags(n_bags=20, random_state=0)
    holes = np.where(data.bags.instances > 2.0, np.nan, data.bags.instances)
    assert np.isnan(holes).any()
    bags = Bags(holes, data.bags.offsets)
    filled = PerInstance(SimpleImputer(strategy="median", add_indicator=True)).fit(bags)
    np.testing.assert_array_equal(filled.transform(bags).instances, filled.transformer_.fit_transform(holes))
    model = make_pipeline(filled, ORedLogisticRegression()).fit(bags, data.Y)
    assert model.annotate(bags, data.Y).shape == (bags.n_instances,)
    with pytest.raises(InputError, match=r"Input X contains NaN .* for example with PerInstance\(SimpleImputer"):
        make_pipeline(PerInstance(StandardScaler()), ORedLogisticRegression()).fit(bags, data.Y)
    with pytest.raises(InputError, match="Input X contains NaN"):
        PerInstance(PCA(2)).fit(bags)
    holes[3, 1] = np.inf
    with pytest.raises(InputError, match="Input X contains inf .* in bag 0, row 3 of that bag, feature 1; 1 such"):
        filled.transform(Bags(holes, data.bags.offsets))


def test_clpl_scaler_step_by_step(X):
    scaled = CLPLScaler().fit_transform(X)
    unit = (X - X.min(0)) / (X.max(0) - X.min(0))
    centred = unit - unit.mean(0)
    assert_allclose(scaled, centred / np.sqrt(sum(np.linalg.norm(row) ** 2 for row in centred)))
    assert_allclose(np.sum(scaled**2), 1.0)
    constant = CLPLScaler().fit_transform(np.column_stack([X, np.ones(40)]))
    assert_array_equal(constant[:, 3], 0.0)
    assert_array_equal(CLPLScaler().fit_transform(np.ones((3, 2))), 0.0)
    centred = X - X.mean(axis=0)
    assert_allclose(CLPLScaler(unit_range=False).fit_transform(X), centred / np.linalg.norm(centred))


def test_fourier_features_approximate_the_kernel(X):
    X = (X - X.mean(0)) / X.std(0)
    features = RandomFourierFeatures(gamma=0.3, n_components=4000, random_state=0).fit_transform(X)
    assert features.shape == (40, 8000)
    assert_allclose((features**2).sum(axis=1), 1.0)  # cos^2 + sin^2
    assert np.abs(features @ features.T - rbf_kernel(X, gamma=0.3)).max() < 0.08
    few = RandomFourierFeatures(gamma=0.3, n_components=5, random_state=1).fit(X)
    angles = X @ few.frequencies_
    expected = np.stack([np.cos(angles), np.sin(angles)], axis=2).reshape(40, 10) / np.sqrt(5)
    assert_allclose(few.transform(X), expected)
    assert_allclose(few.transform(sp.csr_matrix(X)), expected)
    draws = RandomFourierFeatures(gamma=0.3, n_components=20000, random_state=0).fit(X).frequencies_
    assert_allclose(draws.var(), 2 * 0.3, rtol=0.03)


@pytest.mark.parametrize("size", [1e-3, 1.0, 50.0])
def test_fourier_gamma_follows_the_scale(size):
    X = size * np.random.default_rng(0).normal(size=(30, 4))
    distances = [np.sum((a - b) ** 2) for i, a in enumerate(X) for b in X[:i]]
    features = RandomFourierFeatures(gamma="scale", random_state=0).fit(X)
    assert_allclose(features.gamma_, 2.0 / np.mean(distances), rtol=1e-10)
    unit = RandomFourierFeatures(gamma="scale", random_state=0).fit_transform(X / size)
    assert_allclose(features.transform(X), unit, atol=1e-10)
    assert RandomFourierFeatures(gamma="scale").fit(np.ones((3, 2))).gamma_ == 1.0


def test_mean_squared_distance_over_all_pairs(X):
    pairs = [np.sum((X[i] - X[j]) ** 2) for i in range(40) for j in range(40) if i != j]
    assert_allclose(mean_squared_distance(X), np.mean(pairs))
    assert_allclose(mean_squared_distance(sp.csr_matrix(X)), np.mean(pairs))


def test_rbf_dictionary_is_the_kernel_vector(X):
    full = RBFDictionary(width=0.5).fit(X)
    delta = 0.5 * mean_squared_distance(X)
    assert_allclose(full.transform(X), rbf_kernel(X, X, gamma=1 / delta), atol=1e-12)
    assert RBFDictionary(size=0.25, random_state=0).fit_transform(X).shape == (40, 10)
    assert RBFDictionary(size=7, random_state=0).fit_transform(X).shape == (40, 7)
    assert RBFDictionary(size=100).fit_transform(X).shape == (40, 40)
    part = RBFDictionary(size=7, random_state=0).fit(X)
    assert all(any(np.array_equal(z, x) for x in X) for z in part.dictionary_)


def test_whitening_makes_the_weights_norm_the_rkhs_norm(X):
    X = (X - X.mean(0)) / X.std(0)
    model = RBFDictionary(width=0.3, whiten=True).fit(X)
    features = model.transform(X)
    kernel = rbf_kernel(X, X, gamma=1 / model.delta_)
    assert_allclose(features @ features.T, kernel, atol=1e-8)  # <phi(x), phi(z)> = K(x, z) on the dictionary
    # f = sum_i a_i K(., x_i) has squared RKHS norm a' K a; its weights on the features have the same norm
    a = np.random.default_rng(1).normal(size=40)
    weights = features.T @ a
    assert_allclose(weights @ weights, a @ kernel @ a, rtol=1e-8)


@pytest.mark.parametrize(
    ("transformer", "message"),
    [
        (
            RandomFourierFeatures(gamma=0.0),
            "'gamma' parameter of RandomFourierFeatures must be a positive number or 'scale'. Got 0.0",
        ),
        (RandomFourierFeatures(n_components=0), "'n_components' parameter"),
        (RBFDictionary(width=-1.0), "'width' parameter of RBFDictionary must be a positive number"),
        (RBFDictionary(size=1.5), "'size' parameter of RBFDictionary"),
        (RBFDictionary(size=0), "'size' parameter of RBFDictionary"),
    ],
    ids=repr,
)
def test_bad_parameters(X, transformer, message):
    with pytest.raises(InputError, match=message):
        transformer.fit(X)


def test_a_dictionary_that_does_not_fit_is_refused(X, monkeypatch):
    monkeypatch.setenv("BAGWISE_MEMORY_LIMIT", "1000")
    with pytest.raises(MemoryLimitError, match="dictionary of 40.*smaller dictionary with size="):
        RBFDictionary().fit(X)


@pytest.mark.parametrize("n_components", [3, 50])
def test_sparse_features_are_reduced_to_the_leading_components(n_components):
    """Against numpy's singular value decomposition, up to the sign of a component; dense features stay."""
    rng = np.random.default_rng(0)
    X = np.where(rng.random((60, 8)) < 0.3, rng.normal(size=(60, 8)) * np.arange(1, 9), 0.0)
    model = SparseReducer(n_components, random_state=0)
    found = model.fit_transform(sp.csr_matrix(X))
    _, _, right = np.linalg.svd(X, full_matrices=False)
    wanted = X @ right[: min(n_components, 8)].T
    assert_allclose(np.abs(found), np.abs(wanted), atol=1e-6)
    assert_allclose(model.transform(X), found, atol=1e-12)
    assert len(model.get_feature_names_out()) == found.shape[1]
    assert_array_equal(model.fit_transform(X), X)
    assert_array_equal(model.transform(sp.csr_matrix(X)), X)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_terms_are_weighted_as_scikit_learn_does(seed, dtype):
    counts = np.random.default_rng(seed).poisson(0.5, (60, 15)).astype(dtype)
    counts[4] = 0.0
    scaled = TermScaler().fit_transform(sp.csr_matrix(counts))
    assert sp.issparse(scaled)
    assert scaled.dtype == dtype
    length = TERM_SIZE * np.sqrt(np.count_nonzero(counts) / 60)
    assert_allclose(scaled.toarray(), length * TfidfTransformer().fit_transform(counts).toarray(), rtol=1e-5)
    assert_allclose(TermScaler().fit_transform(counts), scaled.toarray(), rtol=1e-6)
    lengths = np.sqrt(scaled.multiply(scaled).sum(axis=1)).A1
    assert_allclose(np.delete(lengths, 4), length, rtol=1e-5)


def test_sparse_instances_are_filled_for_who_takes_dense_ones(monkeypatch):
    dense = np.random.default_rng(0).poisson(0.5, (40, 6)).astype(float)
    bags, sparse = Bags(dense, [0, 15, 40]), Bags(sp.csr_matrix(dense), [0, 15, 40])
    for transformer in (StandardScaler(), CLPLScaler()):
        expected = PerInstance(transformer).fit_transform(bags).instances
        assert_allclose(PerInstance(transformer).fit_transform(sparse).instances, expected)
        assert_allclose(PerInstance(transformer).fit(bags).transform(sparse).instances, expected)
    monkeypatch.setenv("BAGWISE_MEMORY_LIMIT", "1000")
    with pytest.raises(MemoryLimitError, match="StandardScaler, which takes no sparse features, needs an array"):
        PerInstance(StandardScaler()).fit(sparse)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("size", [1e154, 1e200, 1e300])
def test_features_without_a_variance_are_refused(size):
    """scikit-learn would divide them by 1, or by NaN, without a word."""
    data = make_gaussian_bags(n_bags=20, random_state=0)
    large = Bags(data.bags.instances * np.where(np.arange(8) == 3, size, 1.0), data.bags.offsets)
    with pytest.raises(InputError, match=r"cannot scale feature 3: .* variance is (inf|nan); .* Divide the feature"):
        PerInstance(StandardScaler()).fit(large)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("whiten", [True, False])
@pytest.mark.parametrize("size", [1e-200, 1e-155, 1e154, 1e300])
def test_distances_that_are_no_numbers_are_refused(X, size, whiten):
    for transformer in (RBFDictionary(whiten=whiten), RandomFourierFeatures(gamma="scale", random_state=0)):
        if size == 1e-200:  # the squares are 0, and all instances alike
            assert np.isfinite(transformer.fit(X * size).transform(X * size)).all()
            continue
        with pytest.raises(InputError, match="how far apart the instances are: their mean squared distance is"):
            transformer.fit(X * size)


@pytest.mark.filterwarnings("error")
def test_instances_without_a_distance_are_refused_and_far_ones_unlike_all(X):
    dictionary = RBFDictionary(whiten=True).fit(X)
    assert_array_equal(dictionary.transform(np.full((1, 3), 1e200)), 0.0)
    with pytest.raises(InputError, match=r"the largest feature is 2\d, .* over .*e-3\d\d are no numbers"):
        RBFDictionary(width=1e-312, whiten=True).fit(X)


def test_a_transformer_that_cannot_learn_is_named():
    bags = make_gaussian_bags(n_bags=6, random_state=0).bags
    with pytest.raises(
        InputError, match=r"MinMaxScaler\(feature_range=\(1, 0\)\) cannot learn .* smaller than maximum"
    ):
        PerInstance(MinMaxScaler(feature_range=(1, 0))).fit(bags)
    with pytest.raises(InputError, match=r"PCA\(n_components=50\) cannot learn from the instances"):
        PerInstance(PCA(50)).fit(bags)
    for what in (7, "max", [], StandardScaler, None):
        with pytest.raises(InputError, match="'transformer' parameter of PerInstance must be a transformer"):
            PerInstance(what).fit(bags)
