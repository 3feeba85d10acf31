"""M3IC against brute force, planted clusters, its own kernel form in explicit features, and bad input."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import rbf_kernel

import bagwise
from bagwise import M3IC, Bags
from bagwise.clustering._m3ic import decide, instance_margins
from bagwise.clustering._spaces import Expansion, KernelSpace, LinearSpace
from bagwise.core.bags import offsets_of
from bagwise.core.exceptions import InputError, MemoryLimitError
from bagwise.metrics import clustering_accuracy
from bagwise.solvers import _qp as qp
from oracles_clustering import decide_by_loops, largest_imbalance, m3ic_objective, sum_of_means


def random_bags(seed, n_bags=12, n_features=3, shift=0.5):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 6, n_bags)
    X = rng.normal(size=(sizes.sum(), n_features)) + shift * rng.normal(size=n_features)
    return Bags(X, offsets_of(sizes))


def planted_bags(seed, k=3, n_bags=60, n_features=5, noise=0.3):
    """Every bag holds one instance of its cluster's concept, at a random place among instances of nothing."""
    rng = np.random.default_rng(seed)
    centres = 4 * np.linalg.qr(rng.normal(size=(n_features, n_features)))[0][:k]
    sizes, truth = rng.integers(1, 7, n_bags), np.arange(n_bags) % k
    offsets = offsets_of(sizes)
    X = noise * rng.normal(size=(offsets[-1], n_features))
    places = rng.integers(0, sizes)
    X[offsets[:-1] + places] += centres[truth]
    return Bags(X, offsets), truth, places


def quiet_fit(model, X):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # on noise a cluster may stay empty
        return model.fit(X)


# ---------------------------------------------------------------------------------------------------------------------
# The procedure


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 6))
def test_decision_is_that_of_brute_force(seed, k):
    bags = random_bags(seed)
    W = np.random.default_rng(seed).normal(size=(k, bags.n_features))
    found = decide(bags.instances @ W.T, bags.offsets)
    for i, (place, cluster, margin) in enumerate(decide_by_loops(bags, W)):
        assert found.witnesses[i] - bags.offsets[i] == place
        assert found.clusters[i] == cluster
        assert found.margins[i] == pytest.approx(margin, rel=1e-9, abs=1e-12)


def test_the_first_of_equal_instances_decides():
    found = decide(np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]]), np.array([0, 3]))
    assert (found.witnesses[0], found.clusters[0]) == (0, 0)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("seed", range(20))
def test_objective_never_rises(kernel, seed):
    k, C, balance = [(2, 1.0, 0.1), (3, 8.0, 0.0), (4, 0.5, 2.0)][seed % 3]
    bags = random_bags(seed, n_bags=25)
    model = quiet_fit(M3IC(k, C, balance, kernel=kernel, n_init=1, tol_outer=0.0, random_state=seed), bags)
    assert len(model.objective_history_) >= 1
    assert np.all(np.diff(model.objective_history_) < 0)
    assert model.objective_history_[0] <= C * (1 + 1e-9)  # W = 0 costs C
    assert model.objective_history_[-1] == model.objective_


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
@pytest.mark.parametrize("C", [0.1, 10.0, 1000.0])
def test_features_of_mean_zero_leave_nothing_to_balance(C, scale):
    """Rounding makes their sum a direction of no meaning; W = 0 still costs C, and no solution costs more."""
    bags = random_bags(0, n_bags=25)
    means = np.array([bag.mean(axis=0) for bag in bags])
    centred = Bags(scale * (bags.instances - means.mean(axis=0)), bags.offsets)
    for balance in (0.0, 0.1, 10.0):
        model = quiet_fit(M3IC(3, C, balance, n_init=2, random_state=0), centred)
        assert model.objective_history_[0] <= C * (1 + 1e-9)
        assert model.objective_ == pytest.approx(m3ic_objective(centred, model.coef_, C), rel=1e-6)


@pytest.mark.parametrize("seed", range(20))
def test_fitted_attributes_are_those_of_the_weights(seed):
    k, C, balance = 2 + seed % 3, 2.0, [0.0, 0.3, 5.0][seed % 3]
    bags = random_bags(seed)
    model = quiet_fit(M3IC(k, C, balance, random_state=seed), bags)
    W = model.coef_
    truth = decide_by_loops(bags, W)
    assert model.witnesses_.tolist() == [place for place, _, _ in truth]
    assert model.labels_.tolist() == [cluster for _, cluster, _ in truth]
    np.testing.assert_allclose(model.margins_, [margin for _, _, margin in truth], rtol=1e-9)
    assert model.objective_ == pytest.approx(m3ic_objective(bags, W, C), rel=1e-6)
    assert largest_imbalance(bags, W) <= balance + 1e-12 * np.linalg.norm(sum_of_means(bags))
    np.testing.assert_allclose(W.sum(axis=0), 0.0, atol=1e-9)  # what all clusters share costs norm and gains nothing


@pytest.mark.parametrize("seed", range(10))
def test_more_starts_never_end_higher(seed):
    bags = random_bags(seed, n_bags=30)
    few = quiet_fit(M3IC(3, n_init=1, random_state=seed), bags)
    many = quiet_fit(M3IC(3, n_init=6, random_state=seed), bags)
    assert many.objective_ <= few.objective_
    together = quiet_fit(M3IC(3, n_init=6, n_jobs=2, random_state=seed), bags)
    assert together.labels_.tolist() == many.labels_.tolist()
    assert together.objective_ == many.objective_


def test_cluster_zero_is_the_largest():
    bags, truth, _ = planted_bags(0, n_bags=60)
    model = M3IC(3, random_state=0).fit(bags[np.flatnonzero((truth != 2) | (np.arange(60) < 15))])
    assert np.all(np.diff(np.bincount(model.labels_)) <= 0)
    assert model.n_cuts_.shape == (model.n_iter_,)
    assert model.n_cuts_.min() >= 1


# ---------------------------------------------------------------------------------------------------------------------
# Planted clusters


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("k", [2, 3, 4])
def test_planted_clusters_and_witnesses_are_found(k, seed):
    bags, truth, places = planted_bags(seed, k)
    model = M3IC(k, n_init=10, random_state=seed).fit(bags)
    assert clustering_accuracy(truth, model.labels_) == 1.0
    assert np.mean(model.witnesses_ == places) == 1.0
    more, truth, _ = planted_bags(seed, k, n_bags=100)  # the same concepts, other bags
    assert clustering_accuracy(truth, model.predict(more)) == 1.0


def test_kernel_finds_what_no_hyperplane_separates():
    """One concept in the middle, one on a ring around it."""
    rng = np.random.default_rng(0)
    truth = np.arange(60) % 2
    angle = rng.uniform(0, 2 * np.pi, 60)
    X = np.where(truth[:, None] == 1, 3 * np.c_[np.cos(angle), np.sin(angle)], 0.0) + 0.1 * rng.normal(size=(60, 2))
    bags = Bags(np.repeat(X, 2, axis=0), np.arange(61) * 2)
    model = M3IC(2, kernel="rbf", gamma=0.3, C=10.0, n_init=10, random_state=0).fit(bags)
    assert clustering_accuracy(truth, model.labels_) == 1.0
    assert clustering_accuracy(truth, quiet_fit(M3IC(2, C=10.0, random_state=0), bags).labels_) < 0.9


# ---------------------------------------------------------------------------------------------------------------------
# Forms of the same thing


@pytest.mark.parametrize("seed", range(5))
def test_kernel_space_is_the_linear_space_of_explicit_features(seed):
    """Features whose inner products are the kernel: the same products, directions and scores."""
    bags, k, gamma = random_bags(seed), 3, 0.4
    values, vectors = np.linalg.eigh(rbf_kernel(bags.instances, gamma=gamma))
    explicit = Bags(vectors * np.sqrt(np.maximum(values, 0)), bags.offsets)
    kernel, linear = KernelSpace(bags, gamma), LinearSpace(explicit)
    rng = np.random.default_rng(seed)
    rows, clusters = bags.offsets[:-1], rng.integers(0, k, len(bags))
    shift = rng.normal(size=k)
    expansion = Expansion(rows, clusters, rng.uniform(size=len(bags)), shift - shift.mean())
    assert kernel.length == pytest.approx(linear.length)
    np.testing.assert_allclose(kernel.along, linear.along, atol=1e-8)
    weights = rng.uniform(size=len(bags))
    np.testing.assert_allclose(
        kernel.multiplier(rows, clusters, k)(weights), linear.multiplier(rows, clusters, k)(weights), atol=1e-8
    )
    np.testing.assert_allclose(kernel.scores(expansion), linear.scores(expansion), atol=1e-8)


@pytest.mark.parametrize("space", [LinearSpace, lambda bags: KernelSpace(bags, 0.5)], ids=["linear", "rbf"])
def test_starts_are_balanced(space):
    bags = random_bags(1, n_bags=20)
    scores = space(bags).random_scores(np.random.RandomState(0), 3)
    totals = [scores[bags.bag_index == i].mean(axis=0) for i in range(len(bags))]
    np.testing.assert_allclose(np.sum(totals, axis=0), 0.0, atol=1e-8)


@pytest.mark.parametrize("balance", [0.0, 0.5])
def test_sparse_and_float32_give_what_dense_gives(balance):
    bags, _, _ = planted_bags(3)
    bags = Bags(np.where(np.abs(bags.instances) > 0.2, bags.instances, 0.0).astype(np.float32), bags.offsets)
    wide = Bags(bags.instances.astype(np.float64), bags.offsets)
    dense = quiet_fit(M3IC(3, balance=balance, n_init=1, random_state=0), wide)
    for X in (bags, Bags(sp.csr_matrix(bags.instances), bags.offsets)):
        model = quiet_fit(M3IC(3, balance=balance, n_init=1, random_state=0), X)
        assert model.labels_.tolist() == dense.labels_.tolist()
        np.testing.assert_allclose(model.coef_, dense.coef_, atol=1e-5)
        assert model.predict(X).tolist() == dense.labels_.tolist()


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_forms_of_input_agree(kernel):
    rng = np.random.default_rng(0)
    cube = rng.normal(size=(15, 3, 4))
    first = quiet_fit(M3IC(2, kernel=kernel, random_state=0), cube)
    second = quiet_fit(M3IC(2, kernel=kernel, random_state=0), list(cube))
    assert first.labels_.tolist() == second.labels_.tolist() == first.predict(list(cube)).tolist()
    assert quiet_fit(M3IC(2, kernel=kernel, random_state=0), cube).fit_predict(cube).tolist() == first.labels_.tolist()


@pytest.mark.parametrize("factor", [2.0**-8, 2.0**8])
def test_units_only_change_C(factor):
    bags, _, _ = planted_bags(4)
    one = M3IC(3, C=2.0, n_init=1, random_state=0).fit(bags)
    other = M3IC(3, C=2.0 / factor**2, n_init=1, random_state=0).fit(Bags(bags.instances * factor, bags.offsets))
    assert other.labels_.tolist() == one.labels_.tolist()
    assert other.objective_ * factor**2 == pytest.approx(one.objective_, rel=1e-3)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_saved_and_loaded(tmp_path, kernel):
    bags, _, _ = planted_bags(5)
    model = quiet_fit(M3IC(3, kernel=kernel, gamma=0.1, random_state=0), bags)
    bagwise.save(model, tmp_path / "m.bagwise")
    assert bagwise.load(tmp_path / "m.bagwise").predict(bags).tolist() == model.labels_.tolist()


def test_kernel_blocks_do_not_change_predictions(monkeypatch):
    bags, _, _ = planted_bags(6)
    model = quiet_fit(M3IC(3, kernel="rbf", gamma=0.1, random_state=0), bags)
    monkeypatch.setattr("bagwise.solvers.support.rows_at_once", lambda bytes_per_row: 1)
    assert model.predict(bags).tolist() == model.labels_.tolist()


def test_a_second_fit_forgets_the_first_kernel():
    bags, _, _ = planted_bags(7)
    model = M3IC(3, random_state=0).fit(bags)
    model.set_params(kernel="rbf", gamma=0.1)
    quiet_fit(model, bags)
    assert not hasattr(model, "coef_")
    assert model.predict(bags).tolist() == model.labels_.tolist()


# ---------------------------------------------------------------------------------------------------------------------
# Several clusters a bag


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.floats(0.0, 2.0))
def test_claims_are_those_of_the_instances(seed, threshold):
    bags = random_bags(seed)
    model = quiet_fit(M3IC(3, C=4.0, n_init=1, random_state=0), bags)
    claims = model.assign(bags, threshold=threshold)
    scores = bags.instances @ model.coef_.T
    expected = np.zeros((len(bags), 3), dtype=int)
    for i, bag in enumerate(bags):
        for x in bag:
            own = model.coef_ @ x
            if 1.5 * (own.max() - own.mean()) >= threshold:
                expected[i, own.argmax()] = 1
    margins = instance_margins(scores)
    np.testing.assert_allclose(claims.instance_margins, margins)
    if np.abs(margins - threshold).min() > 1e-9:  # else rounding may decide
        assert claims.clusters.tolist() == expected.tolist()
    claimed = claims.instance_clusters >= 0
    assert np.array_equal(claimed, claims.instance_margins >= threshold)
    assert np.array_equal(claims.instance_clusters[claimed], scores.argmax(axis=1)[claimed])
    some = claims.clusters.any(axis=1)
    assert np.all(claims.clusters[np.flatnonzero(some), model.labels_[some]] == 1)


def test_bags_of_two_concepts_are_given_both():
    """The groups of section 5.1: tigers with elephants, elephants with foxes, foxes with tigers."""
    pure, _, _ = planted_bags(0, noise=0.05)
    model = M3IC(3, random_state=0).fit(pure)
    concepts = [pure.instances[pure.offsets[i] + model.witnesses_[i]] for i in range(3)]
    owner = [int(model.labels_[i]) for i in range(3)]
    for a, b in ((0, 1), (1, 2), (2, 0)):
        claims = model.assign([np.array([concepts[a], concepts[b], np.zeros(5)])], threshold=0.5)
        assert np.flatnonzero(claims.clusters[0]).tolist() == sorted([owner[a], owner[b]])
        assert claims.instance_clusters.tolist() == [owner[a], owner[b], -1]


def test_lower_thresholds_claim_more():
    bags = random_bags(2, n_bags=30)
    model = quiet_fit(M3IC(3, random_state=0), bags)
    counts = [model.assign(bags, threshold=t).clusters.sum() for t in (0.0, 0.5, 1.0, 2.0, 1e9)]
    assert counts == sorted(counts, reverse=True)
    assert counts[-1] == 0


@pytest.mark.parametrize("threshold", ["high", None, np.nan])
def test_a_threshold_is_a_number(threshold):
    bags = random_bags(2)
    with pytest.raises(InputError, match="threshold of assign must be a number. Got"):
        quiet_fit(M3IC(2, random_state=0), bags).assign(bags, threshold=threshold)


# ---------------------------------------------------------------------------------------------------------------------
# Bad input and bad luck


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_clusters": 1}, "n_clusters.*2 or more. Got 1"),
        ({"n_clusters": 2.5}, "n_clusters.*2 or more. Got 2.5"),
        ({"n_clusters": 3.0}, "n_clusters.*2 or more. Got 3.0"),
        ({"n_clusters": np.inf}, "n_clusters.*2 or more. Got inf"),
        ({"n_clusters": "two"}, "n_clusters.*2 or more. Got 'two'"),
        ({"n_clusters": 13}, "n_clusters=13 is more than the 12 bags"),
        ({"C": 0.0}, "'C' parameter.*positive.*Got 0.0"),
        ({"C": -1.0}, "'C' parameter.*positive.*Got -1.0"),
        ({"C": np.inf}, "'C' parameter.*positive"),
        ({"balance": -0.1}, "'balance' parameter.*zero or more. Got -0.1"),
        ({"balance": np.nan}, "'balance' parameter.*zero or more"),
        ({"kernel": "poly"}, "kernel='poly' is not known; use one of 'linear', 'rbf'"),
        ({"gamma": 0.0}, "'gamma' parameter.*positive"),
        ({"n_init": 0}, "'n_init' parameter.*1 or more"),
        ({"tol_inner": 0.0}, "'tol_inner' parameter.*positive"),
        ({"tol_outer": -1.0}, "'tol_outer' parameter.*zero or more"),
        ({"max_iter": 0}, "'max_iter' parameter.*1 or more"),
    ],
    ids=lambda value: str(sorted(value.items())) if isinstance(value, dict) else "",
)
def test_bad_parameters(parameters, message):
    with pytest.raises(InputError, match=message):
        M3IC(**{"n_clusters": 2, **parameters}).fit(random_bags(0))


@pytest.mark.parametrize(
    ("X", "message"),
    [
        ([np.ones((3, 2))], "There is 1 bag .*needs at least 2"),
        ([np.zeros((2, 3))] * 4, "All features are zero"),
        ([sp.csr_matrix((2, 3))] * 4, "All features are zero"),
        ([np.ones((2, 3))] * 4, "All instances are identical"),
        ([np.ones((2, 3)), np.ones((1, 3))], "All instances are identical"),
        ([np.arange(6.0).reshape(2, 3)] * 4, "All bags are identical"),
        ([sp.csr_matrix(np.arange(6.0).reshape(2, 3))] * 4, "All bags are identical"),
        ([np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([[3.0, 4.0], [1.0, 2.0]])], "All bags are identical"),
        ([np.array([[1.0], [3.0]]), np.array([[3.0], [1.0], [3.0]])], "All bags are identical"),
        ([np.array([[np.nan, 1.0]]), np.ones((1, 2))], "NaN.*bag 0"),
        (1e200 * np.arange(1.0, 9.0).reshape(4, 1, 2), r"largest feature is 8e\+200.*scale the features"),
        (1e-200 * np.arange(1.0, 9.0).reshape(4, 1, 2), "largest feature is 8e-200.*scale the features"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_bad_data(X, message):
    with pytest.raises(InputError, match=message):
        M3IC(2).fit(X)


def test_kernel_matrix_over_the_limit(monkeypatch):
    monkeypatch.setenv("BAGWISE_MEMORY_LIMIT", "1e4")
    with pytest.raises(MemoryLimitError, match=r"kernel matrix of \d+ instances.*kernel='linear'"):
        M3IC(2, kernel="rbf").fit(random_bags(0, n_bags=30))


def test_predict_checks_features_and_fit():
    model = quiet_fit(M3IC(2, random_state=0), random_bags(0))
    with pytest.raises(InputError, match="2 features, but M3IC is expecting 3"):
        model.predict([np.ones((2, 2))])
    with pytest.raises(ValueError, match="not fitted"):
        M3IC(2).predict(random_bags(0))


def broken(problem):
    return tuple(np.full(len(limits), np.nan) for limits in (problem.q, problem.b, problem.h))


def test_a_broken_first_solver_is_replaced(monkeypatch):
    bags, truth, _ = planted_bags(8)
    monkeypatch.setattr(qp, "_SOLVERS", {"broken": broken, "clarabel": qp._SOLVERS["clarabel"]})
    assert clustering_accuracy(truth, M3IC(3, random_state=0).fit(bags).labels_) == 1.0


def wrong(problem):
    return np.full(len(problem.q), 0.1), np.zeros(len(problem.b)), np.zeros(len(problem.h))


def test_unsolved_programs_are_told_and_the_point_is_feasible(monkeypatch):
    bags, _, _ = planted_bags(8)
    monkeypatch.setattr(qp, "_SOLVERS", {"wrong": wrong})
    with pytest.warns(ConvergenceWarning, match=r"[1-9]\d* of \d+ convex problems did not meet tol_inner"):
        model = M3IC(3, C=0.01, balance=0.05, random_state=0).fit(bags)
    assert largest_imbalance(bags, model.coef_) <= 0.05 + 1e-9
    assert model.objective_ == pytest.approx(m3ic_objective(bags, model.coef_, 0.01), rel=1e-6)


def test_unsolved_programs_are_told_with_their_figures(monkeypatch):
    bags, _, _ = planted_bags(8)
    monkeypatch.setattr(qp, "_SOLVERS", {"broken": broken})
    with pytest.warns(ConvergenceWarning) as caught:
        model = M3IC(3, balance=0.5, random_state=0).fit(bags)
    assert any("largest KKT residual of their quadratic programs was inf" in str(w.message) for w in caught)
    assert largest_imbalance(bags, model.coef_) <= 0.5 + 1e-9  # the best feasible point: W = 0
    assert model.objective_ == pytest.approx(1.0)


def test_too_few_iterations_and_empty_clusters_are_told():
    bags = random_bags(0, n_bags=40)
    with pytest.warns(ConvergenceWarning, match="max_iter=1 "):
        M3IC(2, max_iter=1, tol_outer=0.0, random_state=0).fit(bags)
    line = np.linspace(-1, 1, 40)[:, None]  # on a line there are two sides, not four
    with pytest.warns(ConvergenceWarning, match="Only 2 of 4 clusters hold a bag"):
        M3IC(4, balance=10.0, random_state=0).fit(line)


def test_one_feature_and_one_instance_a_bag():
    """What scikit-learn checks with one cluster, which is an error here."""
    line = np.r_[np.linspace(-2, -1, 10), np.linspace(1, 2, 10)][:, None]
    model = M3IC(2, random_state=0).fit(line)
    assert clustering_accuracy(np.arange(20) >= 10, model.labels_) == 1.0
    assert model.get_params()["n_clusters"] == 2
    half = [model.predict(line[i : i + 1])[0] for i in range(20)]
    assert half == model.predict(line).tolist()
    with pytest.raises(ValueError, match="Reshape your data"):
        model.predict(line.ravel())
