"""MIMLSVM and the distance representation against literal oracles."""

import itertools
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from scipy.spatial.distance import cdist
from sklearn.svm import SVC
from sklearn.utils.estimator_checks import check_estimator

from bagwise import Bags
from bagwise.classification import MIMLSVM
from bagwise.classification._shared import NEVER, t_criterion
from bagwise.core.exceptions import InputError, MemoryLimitError
from bagwise.datasets import make_gaussian_bags
from bagwise.solvers.medoids import find_medoids


def literal_codes(bags, medoids):
    """Maximal Hausdorff distances by a double loop."""
    codes = np.empty((len(bags), len(medoids)))
    for i, j in itertools.product(range(len(bags)), range(len(medoids))):
        D = cdist(bags[i], medoids[j])
        codes[i, j] = max(D.min(axis=1).max(), D.min(axis=0).max())
    return codes


@pytest.fixture(scope="module")
def data():
    return make_gaussian_bags(n_bags=50, n_features=4, n_classes=3, random_state=0)


def test_scores_are_those_of_one_svc_a_class_on_the_distances(data):
    model = MIMLSVM(C=2.0, gamma=0.1, n_medoids=12).fit(data.bags, data.Y)
    test = make_gaussian_bags(n_bags=20, n_features=4, n_classes=3, random_state=1).bags
    medoids = data.bags[model.medoid_indices_]
    assert model.medoids_ == medoids
    assert len(medoids) == 12
    train_codes, test_codes = literal_codes(data.bags, medoids), literal_codes(test, medoids)
    expected = np.column_stack(
        [SVC(C=2.0, gamma=0.1).fit(train_codes, y).decision_function(test_codes) for y in data.Y.T]
    )
    assert_allclose(model.decision_function(test), expected, atol=1e-6)
    assert_array_equal(model.predict(test), t_criterion(expected))


@pytest.mark.parametrize("seed", range(5))
def test_medoids_are_a_local_optimum_and_often_the_best(seed):
    rng = np.random.default_rng(seed)
    points = rng.normal(size=(12, 2))
    D = cdist(points, points)
    found = find_medoids(D, 3, random_state=0)[0]
    cost = D[:, found].min(axis=1).sum()
    swaps = [(set(found) - {a}) | {b} for a in found for b in range(12) if b not in found]
    assert all(cost <= D[:, sorted(swap)].min(axis=1).sum() + 1e-12 for swap in swaps)
    best = min(D[:, list(choice)].min(axis=1).sum() for choice in itertools.combinations(range(12), 3))
    assert cost <= 1.2 * best
    assert_array_equal(found, find_medoids(D, 3, random_state=0)[0])


@pytest.mark.parametrize(("n_medoids", "count"), [(0.2, 10), (0.01, 1), (1.0, 50), (1, 1), (50, 50)])
def test_medoids_are_a_share_or_a_number_of_the_bags(data, n_medoids, count):
    chosen = MIMLSVM(n_medoids=n_medoids, random_state=0).fit(data.bags, data.Y).medoid_indices_
    assert len(chosen) == count
    assert np.all(np.diff(chosen) > 0)


@pytest.mark.parametrize("n_medoids", [0.0, 1.5, -1, "all", True, np.nan])
def test_bad_medoids(data, n_medoids):
    with pytest.raises(InputError, match=r"'n_medoids' parameter of MIMLSVM must be a share in \(0, 1\] or a number"):
        MIMLSVM(n_medoids=n_medoids).fit(data.bags, data.Y)


def test_fewer_bags_than_medoids(data):
    with pytest.raises(InputError, match="MIMLSVM was asked for 51 medoids but there are only 50 bags"):
        MIMLSVM(n_medoids=51).fit(data.bags, data.Y)


@pytest.mark.parametrize(
    ("parameters", "match"),
    [
        ({"C": -1.0}, "The 'C' parameter of MIMLSVM must be a positive number. Got -1.0"),
        ({"gamma": 0}, "The 'gamma' parameter of MIMLSVM must be a positive number. Got 0"),
        ({"distance": "median"}, "distance='median' is not known; use one of 'maximal', 'minimal', 'average'"),
    ],
)
def test_bad_parameters(data, parameters, match):
    with pytest.raises(InputError, match=match):
        MIMLSVM(**parameters).fit(data.bags, data.Y)


def test_one_class_that_every_bag_carries(data):
    with pytest.raises(InputError, match="MIMLSVM needs bags that differ in their labels"):
        MIMLSVM(random_state=0).fit(data.bags, np.ones((len(data), 1)))


def test_a_class_in_no_bag_or_in_every_bag(data):
    Y = np.column_stack([data.Y[:, 0], np.zeros(len(data)), np.ones(len(data))])
    model = MIMLSVM(random_state=0).fit(data.bags, Y)
    assert_array_equal(model.decision_function(data.bags)[:, 1:], np.tile([NEVER, 1.0], (len(data), 1)))
    assert_array_equal(model.predict(data.bags)[:, 1:], np.tile([0, 1], (len(data), 1)))
    constant = MIMLSVM(random_state=0).fit(data.bags, Y[:, 1:])
    assert_array_equal(constant.predict(data.bags), np.tile([0, 1], (len(data), 1)))


def test_distances_that_do_not_fit(data, monkeypatch):
    monkeypatch.setenv("BAGWISE_MEMORY_LIMIT", "1000")
    with pytest.raises(MemoryLimitError, match="distances between all 50 bags .*train MIMLSVM on fewer bags"):
        MIMLSVM(random_state=0).fit(data.bags, data.Y)


def test_identical_bags():
    bag = np.random.default_rng(0).normal(size=(3, 2))
    model = MIMLSVM(n_medoids=3).fit([bag] * 8, np.array([[1, 0], [0, 1]] * 4))
    assert np.isfinite(model.decision_function([bag, bag + 1.0])).all()


def test_all_input_forms_and_class_names():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20, 3, 4))
    Y = (rng.random((20, 3)) < 0.4).astype(int)
    Y[:2] = [[1, 1, 1], [0, 0, 1]]
    reference = MIMLSVM(random_state=0).fit(X, Y).decision_function(X)
    names = np.array(["ant", "bee", "cat"])
    for form in (Bags.from_list(list(X)), list(X), [sp.csr_matrix(x) for x in X]):
        model = MIMLSVM(random_state=0).fit(form, [set(names[row == 1]) for row in Y])
        assert model.classes_.tolist() == names.tolist()
        assert_allclose(model.decision_function(form), reference, atol=1e-9)
    flat = X[:, 0]  # bags of one instance
    assert MIMLSVM(random_state=0).fit(flat, Y).predict(flat).shape == Y.shape
    assert set(MIMLSVM(random_state=0).fit(X, names[Y.argmax(axis=1)]).predict(X)) <= set(names)


def test_jobs_and_seeds(data):
    one = MIMLSVM(random_state=0).fit(data.bags, data.Y)
    assert_array_equal(
        one.decision_function(data.bags),
        MIMLSVM(n_jobs=2, random_state=0).fit(data.bags, data.Y).decision_function(data.bags),
    )


def test_check_estimator():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the checks feed degenerate data on purpose
        results = check_estimator(MIMLSVM(), on_fail=None, on_skip=None)
    failed = [f"{r['check_name']}: {r['exception']}" for r in results if r["status"] == "failed"]
    assert len(results) > 40
    assert not failed, "\n".join(failed)


def test_features_whose_distances_overflow():
    data = make_gaussian_bags(n_bags=20, random_state=0)
    model = MIMLSVM(random_state=0).fit(data.bags, data.Y)
    with pytest.raises(InputError, match="so large that distances between bags are no numbers to MIMLSVM; scale them"):
        model.predict(Bags(1e200 * data.bags.instances, data.bags.offsets))
