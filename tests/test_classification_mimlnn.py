"""MIMLNN against the closed form of its second layer."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.utils.estimator_checks import check_estimator

from bagwise import Bags
from bagwise.classification import MIMLNN
from bagwise.classification._mimlnn import _ridge_weights
from bagwise.classification._shared import NEVER, t_criterion
from bagwise.core.exceptions import InputError
from bagwise.datasets import make_gaussian_bags
from bagwise.kernels.hausdorff import hausdorff_distances


@pytest.fixture(scope="module")
def data():
    return make_gaussian_bags(n_bags=50, n_features=4, n_classes=3, random_state=0)


@pytest.mark.parametrize("distance", ["maximal", "minimal", "average"])
@pytest.mark.parametrize("alpha", [0.01, 1.0, 10.0])
def test_scores_are_those_of_the_normal_equations(data, distance, alpha):
    model = MIMLNN(alpha, n_medoids=0.3, distance=distance).fit(data.bags, data.Y)
    assert len(model.medoids_) == 15
    medoids = data.bags[model.medoid_indices_]
    Z = hausdorff_distances(data.bags.instances, data.bags.offsets, medoids.instances, medoids.offsets, kind=distance)
    V = np.linalg.solve(Z.T @ Z + alpha * np.eye(15), Z.T @ np.where(data.Y == 1, 1.0, -1.0))
    assert_allclose(model.code_coef_, V, rtol=1e-6, atol=1e-9)
    test = make_gaussian_bags(n_bags=20, n_features=4, n_classes=3, random_state=1).bags
    codes = hausdorff_distances(test.instances, test.offsets, medoids.instances, medoids.offsets, kind=distance)
    assert_allclose(model.decision_function(test), codes @ V, rtol=1e-6, atol=1e-9)
    assert_array_equal(model.predict(test), t_criterion(model.decision_function(test)))


def test_ridge_weights_are_stationary():
    rng = np.random.default_rng(0)
    Z, T = rng.normal(size=(20, 6)), rng.normal(size=(20, 2))
    V = _ridge_weights(Z, T, 0.7, np.ones(20))
    assert_allclose(Z.T @ (Z @ V - T) + 0.7 * V, 0.0, atol=1e-12)


def test_identical_bags_are_solved_all_the_same():
    bag = np.random.default_rng(0).normal(size=(3, 2))
    model = MIMLNN(n_medoids=1.0).fit([bag] * 8, np.array([[1, 0], [0, 1]] * 4))
    assert np.isfinite(model.decision_function([bag, bag + 1.0])).all()


@pytest.mark.parametrize(
    ("parameters", "match"),
    [
        ({"alpha": 0.0}, "The 'alpha' parameter of MIMLNN must be a positive number. Got 0.0"),
        ({"distance": "median"}, "distance='median' is not known"),
        ({"n_medoids": 51}, "MIMLNN was asked for 51 medoids but there are only 50 bags"),
        ({"n_medoids": 2.0}, "'n_medoids' parameter of MIMLNN must be a share"),
    ],
)
def test_bad_parameters(data, parameters, match):
    with pytest.raises(InputError, match=match):
        MIMLNN(**parameters).fit(data.bags, data.Y)


def test_classes_without_a_second_side(data):
    with pytest.raises(InputError, match="MIMLNN needs bags that differ in their labels"):
        MIMLNN(random_state=0).fit(data.bags, np.ones((len(data), 1)))
    Y = np.column_stack([data.Y[:, 0], np.zeros(len(data)), np.ones(len(data))])
    model = MIMLNN(random_state=0).fit(data.bags, Y)
    assert_array_equal(model.decision_function(data.bags)[:, 1:], np.tile([NEVER, 1.0], (len(data), 1)))


def test_all_input_forms_and_class_names():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20, 3, 4))
    Y = (rng.random((20, 3)) < 0.4).astype(int)
    Y[:2] = [[1, 1, 1], [0, 0, 1]]
    reference = MIMLNN(random_state=0).fit(X, Y).decision_function(X)
    names = np.array(["ant", "bee", "cat"])
    for form in (Bags.from_list(list(X)), list(X), [sp.csr_matrix(x) for x in X]):
        model = MIMLNN(random_state=0).fit(form, [set(names[row == 1]) for row in Y])
        assert model.classes_.tolist() == names.tolist()
        assert_allclose(model.decision_function(form), reference, atol=1e-9)
    assert set(MIMLNN(random_state=0).fit(X, names[Y.argmax(axis=1)]).predict(X)) <= set(names)


def test_check_estimator():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the checks feed degenerate data on purpose
        results = check_estimator(MIMLNN(), on_fail=None, on_skip=None)
    failed = [f"{r['check_name']}: {r['exception']}" for r in results if r["status"] == "failed"]
    assert len(results) > 40
    assert not failed, "\n".join(failed)
