"""CLPL: its loss and gradient, the linear SVM that it amounts to, and bad input."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import LinearSVC

import oracles_sim as oracles
from bagwise import Bags
from bagwise.annotation import CLPL
from bagwise.annotation.clpl import _ambiguous_loss
from bagwise.core.exceptions import InfeasibleBagWarning, InputError
from bagwise.datasets import make_gaussian_bags


@pytest.fixture(scope="module")
def data():
    return make_gaussian_bags(n_bags=60, n_features=5, n_classes=4, separation=6.0, random_state=0)


def random_scores(seed, ties=False):
    rng = np.random.default_rng(seed)
    scores = rng.integers(-2, 3, (30, 6)).astype(float) if ties else 2.0 * rng.normal(size=(30, 6))
    candidates = (rng.random(scores.shape) < 0.4).astype(np.uint8)
    candidates[~candidates.any(axis=1), 0] = 1
    candidates[0] = 1
    return scores, candidates


@pytest.mark.parametrize("ties", [False, True])
def test_loss_equals_the_papers_sum(ties):
    for seed in range(10):
        scores, candidates = random_scores(seed, ties)
        assert_allclose(_ambiguous_loss(scores, candidates)[0], oracles.ambiguous_loss(scores, candidates), rtol=1e-12)


def test_derivative_equals_finite_differences():
    scores, candidates = random_scores(3)
    _, derivative = _ambiguous_loss(scores, candidates)
    for index in np.ndindex(scores.shape):
        step = np.zeros_like(scores)
        step[index] = 1e-6
        ahead, behind = (_ambiguous_loss(scores + s * step, candidates)[0] for s in (1, -1))
        assert_allclose(derivative[index], (ahead - behind) / 2e-6, atol=1e-6)


def reduction(X, candidates):
    """The SVM problem of section 5.1.3: one positive example an instance, one negative for each class ruled out."""
    c = candidates.shape[1]
    examples, signs = [], []
    for x, listed in zip(X, candidates == 1, strict=True):
        examples.append(np.outer(listed / listed.sum(), x).ravel())
        signs.append(1)
        for j in np.flatnonzero(~listed):
            examples.append(np.outer(np.eye(c)[j], x).ravel())
            signs.append(-1)
    return np.array(examples), np.array(signs)


@pytest.mark.parametrize("C", [0.01, 1.0])
@pytest.mark.parametrize("scale", [1.0, 1e-3])
def test_weights_are_those_of_the_equivalent_svm(C, scale):
    """The squared-hinge SVM of liblinear, on the papers' reduction, for features of any scale."""
    X, offsets, Y, _ = oracles.random_problem(0, n_bags=12, n_classes=4, signal=2.0)
    X, C = scale * X, C / scale**2
    examples, signs = reduction(X, np.repeat(Y, np.diff(offsets), axis=0))
    svm = LinearSVC(C=C, loss="squared_hinge", dual=False, fit_intercept=False, tol=1e-10, max_iter=10**5)
    expected = svm.fit(examples, signs).coef_.reshape(4, -1)
    model = CLPL(C=C, tol=1e-10).fit(Bags(X, offsets), Y)
    assert_allclose(model.coef_, expected, rtol=1e-4, atol=1e-5 * np.abs(expected).max())


def test_history_is_the_objective_and_falls(data):
    model = CLPL(C=0.1).fit(data.bags, data.Y)
    history = model.objective_history_
    candidates = np.repeat(data.Y, data.bags.sizes, axis=0)
    at_zero = 0.1 * oracles.ambiguous_loss(np.zeros(candidates.shape), candidates)
    scores = data.bags.instances @ model.coef_.T
    at_end = 0.5 * np.sum(model.coef_**2) + 0.1 * oracles.ambiguous_loss(scores, candidates)
    assert_allclose(history[[0, -1]], [at_zero, at_end], rtol=1e-10)
    assert np.diff(history).max() <= 1e-10 * history[0]
    assert len(history) == model.n_iter_ + 1


def test_instances_are_annotated(data):
    centred = Bags(data.bags.instances - data.bags.instances.mean(axis=0), data.bags.offsets)
    model = CLPL(C=1.0).fit(centred, data.Y)
    truth = data.instance_labels.instances
    assert np.mean(model.annotate(centred, data.Y) == truth) > 0.85
    scores = model.instance_decision_function(centred)
    assert_allclose(model.decision_function(centred), np.maximum.reduceat(scores, centred.offsets[:-1], axis=0))
    assert model.predict_label_sets(centred) == [set(labels) for labels in centred.split(scores.argmax(axis=1))]


def test_sparse_instances_give_the_same_weights(data):
    sparse = Bags(sp.csr_matrix(data.bags.instances), data.bags.offsets)
    one, other = (CLPL(C=1.0, tol=1e-8).fit(X, data.Y) for X in (data.bags, sparse))
    assert_allclose(one.coef_, other.coef_, rtol=1e-3, atol=1e-5)


def test_callback_hears_the_objective(data):
    heard = []
    model = CLPL().fit(data.bags, data.Y, callback=lambda i, value: heard.append((i, value)))
    assert heard == list(enumerate(model.objective_history_[1:].tolist(), start=1))


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"C": 0.0}, "'C' parameter of CLPL must be a positive number. Got 0.0"),
        ({"C": np.nan}, "'C' parameter"),
        ({"tol": -1.0}, "'tol' parameter"),
        ({"max_iter": 0}, "'max_iter' parameter of CLPL must be a whole number, 1 or more. Got 0"),
        ({"max_iter": 2.5}, "'max_iter' parameter"),
    ],
    ids=str,
)
def test_parameters_that_make_no_sense(parameters, message, data):
    with pytest.raises(InputError, match=message):
        CLPL(**parameters).fit(data.bags, data.Y)


def test_bags_without_labels_are_left_out_and_named(data):
    Y = data.Y.copy()
    Y[[2, 9]] = 0
    with pytest.warns(InfeasibleBagWarning, match="2 of 60 bags carry no label, bags 2, 9"):
        model = CLPL().fit(data.bags, Y)
    keep = np.setdiff1d(np.arange(60), [2, 9])
    assert_array_equal(model.coef_, CLPL().fit(data.bags[keep], Y[keep]).coef_)


def test_stopping_early_is_reported(data):
    with pytest.warns(ConvergenceWarning, match="L-BFGS stopped after 2 iterations.*raise max_iter"):
        CLPL(max_iter=2).fit(data.bags, data.Y)


def test_constant_zero_features():
    model = CLPL().fit(np.zeros((4, 1, 2)), np.eye(2)[[0, 1, 0, 1]])
    assert_array_equal(model.coef_, np.zeros((2, 2)))


@pytest.mark.parametrize("size", [1e200, 1e-200])
def test_features_whose_squares_are_no_numbers(data, size):
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = CLPL().fit(Bags(size * data.bags.instances, data.bags.offsets), data.Y)
    assert np.isfinite(model.coef_).all()
    assert np.isfinite(model.objective_history_).all()
    if size > 1:
        assert model.coef_.any()
