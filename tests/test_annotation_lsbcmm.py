"""LSB-CMM: the bound, the sticks and the responsibilities against literal computations."""

import itertools
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose
from scipy.special import digamma, gammaln
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from bagwise.annotation import MostFrequentAnnotator
from bagwise.annotation import _lsbcmm_em as em
from bagwise.annotation._lsbcmm import LSBCMM
from bagwise.core.bags import Bags
from bagwise.core.exceptions import InfeasibleBagWarning, InputError, MemoryLimitError
from bagwise.datasets import make_gaussian_bags


def logistic(a):
    return 1.0 / (1.0 + np.exp(-a))


def literal_sticks(x, sticks):
    """Component probabilities of one instance, by breaking the stick piece after piece."""
    left, weights = 1.0, []
    for stick in sticks:
        share = logistic(float(np.dot(stick, x)))
        weights.append(left * share)
        left *= 1.0 - share
    return np.array([*weights, left])


def literal_joint(X, sticks, counts, mask):
    """(m, K, c) responsibilities of every pair (component, label), one instance at a time, and their normalisers."""
    m, (K, c) = len(X), counts.shape
    joint = np.zeros((m, K, c))
    for n, k, label in itertools.product(range(m), range(K), range(c)):
        if mask[n, label]:
            log_theta = digamma(counts[k, label]) - digamma(counts[k].sum())
            joint[n, k, label] = literal_sticks(X[n], sticks)[k] * np.exp(log_theta)
    total = joint.sum(axis=(1, 2))
    return joint / total[:, None, None], total


def literal_bound(X, sticks, counts, mask, alpha, sigma2):
    """E_q[log p] - E_q[log q], term by term, with the best q(z, y)."""
    joint, _ = literal_joint(X, sticks, counts, mask)
    m, (K, c) = len(X), counts.shape
    bound = -sum(float(np.dot(stick[:-1], stick[:-1])) for stick in sticks) / (2 * sigma2)
    log_theta = digamma(counts) - digamma(counts.sum(axis=1, keepdims=True))
    for n, k, label in itertools.product(range(m), range(K), range(c)):
        q = joint[n, k, label]
        if q > 0:
            bound += q * (np.log(literal_sticks(X[n], sticks)[k]) + log_theta[k, label] - np.log(q))
    for k in range(K):
        bound += gammaln(c * alpha) - c * gammaln(alpha) + (alpha - 1) * log_theta[k].sum()
        bound -= gammaln(counts[k].sum()) - gammaln(counts[k]).sum() + ((counts[k] - 1) * log_theta[k]).sum()
    return bound


@pytest.fixture
def tiny():
    rng = np.random.default_rng(3)
    X = np.hstack([rng.normal(size=(6, 2)), np.ones((6, 1))])
    mask = np.array([[1, 0, 1], [1, 1, 0], [0, 1, 0], [1, 1, 1], [0, 0, 1], [0, 1, 1]], float)
    sticks, counts = rng.normal(size=(3, 3)), rng.gamma(2.0, size=(4, 3)) + 0.1
    return X, mask, sticks, counts


def quiet_fit(model, X, Y):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(X, Y)


# ------------------------------------------------------------------------------------------------------------
# Pieces


def test_sticks_equal_the_literal_product_and_sum_to_one(tiny):
    X, _, sticks, _ = tiny
    weights = np.exp(em.log_stick_weights(X @ sticks.T))
    assert_allclose(weights, [literal_sticks(x, sticks) for x in X], rtol=1e-12)
    assert_allclose(weights.sum(axis=1), 1.0, rtol=1e-12)


def test_sticks_sum_to_one_far_out():
    activations = np.array([[800.0, -800.0, 5.0], [-800.0, -800.0, -800.0], [0.0, 40.0, -40.0]])
    log_weights = em.log_stick_weights(activations)
    assert np.isfinite(log_weights).all()
    assert_allclose(np.exp(log_weights).sum(axis=1), 1.0, rtol=1e-12)


def test_responsibilities_and_counts_against_enumeration(tiny):
    X, mask, sticks, counts = tiny
    state = em.expectation(em.log_stick_weights(X @ sticks.T), counts, mask)
    joint, total = literal_joint(X, sticks, counts, mask)
    assert_allclose(state.responsibilities, joint.sum(axis=2), rtol=1e-10)
    assert_allclose(state.label_counts, joint.sum(axis=0), rtol=1e-10)
    assert_allclose(state.log_evidence, np.log(total).sum(), rtol=1e-12)


@pytest.mark.parametrize("alpha", [0.05, 1.0, 3.0])
def test_bound_against_its_literal_terms(tiny, alpha):
    X, mask, sticks, counts = tiny
    state = em.expectation(em.log_stick_weights(X @ sticks.T), counts, mask)
    penalty = 0.5 * np.sum(sticks[:, :-1] ** 2) / 0.7
    ours = state.log_evidence - em.dirichlet_divergence(counts, alpha) - penalty
    assert_allclose(ours, literal_bound(X, sticks, counts, mask, alpha, 0.7), rtol=1e-11)


def test_best_counts_are_a_maximum_of_the_bound(tiny):
    """q(theta) = Dirichlet(alpha + expected counts) beats any other for the q(z, y) that it was made from."""
    X, mask, sticks, counts = tiny
    alpha = 0.3
    joint, _ = literal_joint(X, sticks, counts, mask)
    label_counts = joint.sum(axis=0)

    def part(beta):
        return np.vdot(label_counts, em.expected_log_labels(beta)) - em.dirichlet_divergence(beta, alpha)

    top = part(alpha + label_counts)
    rng = np.random.default_rng(0)
    for _ in range(50):
        assert part((alpha + label_counts) * np.exp(0.2 * rng.normal(size=counts.shape))) < top


def test_stick_update_ends_where_the_gradient_vanishes():
    rng = np.random.default_rng(1)
    X = np.hstack([rng.normal(size=(80, 3)), np.ones((80, 1))])
    responsibilities = rng.dirichlet(np.ones(4), size=80)
    sticks = em.update_sticks(X, np.zeros((3, 4)), responsibilities, 2.0, 50)
    for k, stick in enumerate(sticks):
        gradient = -np.append(stick[:-1], 0.0) / 2.0
        for n in range(80):
            left = responsibilities[n, k:].sum()
            gradient += (responsibilities[n, k] - left * logistic(stick @ X[n])) * X[n]
        assert_allclose(gradient, 0.0, atol=1e-2)  # squared, over a curvature of about 10: ENOUGH


def test_an_empty_component_is_closed():
    X = np.hstack([np.random.default_rng(0).normal(size=(20, 2)), np.ones((20, 1))])
    responsibilities = np.zeros((20, 3))
    responsibilities[:, [0, 2]] = 0.5
    sticks = em.update_sticks(X, np.ones((2, 3)), responsibilities, 1.0, 3)
    assert_allclose(sticks[1], [0.0, 0.0, em.CLOSED])


# ------------------------------------------------------------------------------------------------------------
# The fit


@pytest.mark.parametrize("seed", range(20))
def test_bound_never_falls(seed):
    rng = np.random.default_rng(seed)
    data = make_gaussian_bags(n_bags=30, n_features=3, n_classes=4, separation=rng.uniform(0.5, 5), random_state=seed)
    sigma2, alpha = 10.0 ** rng.uniform(-2, 4), 10.0 ** rng.uniform(-2, 0.5)
    model = LSBCMM(int(rng.integers(1, 15)), alpha=alpha, sigma2=sigma2, max_iter=40, tol=0.0, random_state=seed)
    history = quiet_fit(model, data.bags, data.Y).objective_history_
    assert len(history) == model.n_iter_ >= 2
    assert np.diff(history).min() >= -1e-9 * np.abs(history).max()


def test_last_bound_is_that_of_the_fitted_model():
    data = make_gaussian_bags(n_bags=12, n_features=2, n_classes=3, random_state=4)
    seen = []
    model = LSBCMM(5, max_iter=6, tol=0.0, sigma2=3.0, random_state=0)
    with pytest.warns(ConvergenceWarning, match="stopped after 6"):
        model.fit(data.bags, data.Y, callback=lambda i, value: seen.append((i, value)))
    X = np.hstack([data.bags.instances, np.ones((data.bags.n_instances, 1))])
    mask = np.repeat(data.Y, data.bags.sizes, axis=0).astype(float)
    # label_counts_ are one half step past the history's last entry, so the bound there is no lower
    assert literal_bound(X, model.sticks_, model.label_counts_, mask, 0.05, 3.0) >= model.objective_history_[-1] - 1e-9
    assert seen == list(zip(range(1, 7), model.objective_history_.tolist(), strict=True))


@pytest.mark.parametrize("seed", range(5))
def test_recovers_separated_classes(seed):
    data = make_gaussian_bags(n_bags=80, n_features=6, n_classes=4, separation=8.0, random_state=seed)
    truth = data.instance_labels.instances
    model = quiet_fit(LSBCMM(12, random_state=seed, max_iter=30), data.bags, data.Y)
    dummy = MostFrequentAnnotator().fit(data.bags, data.Y)
    for labels, reference in (
        (model.annotate(data.bags, data.Y), dummy.annotate(data.bags, data.Y)),
        (model.predict_instances(data.bags), dummy.predict_instances(data.bags)),
    ):
        assert np.mean(labels == truth) > 0.85 > np.mean(reference == truth)


def test_probabilities_are_consistent():
    data = make_gaussian_bags(n_bags=40, random_state=1)
    model = quiet_fit(LSBCMM(8, random_state=0, max_iter=20), data.bags, data.Y)
    proba = model.predict_instances_proba(data.bags)
    phi, theta = model.component_proba(data.bags), model.label_counts_ / model.label_counts_.sum(1, keepdims=True)
    for n in (0, 7, -1):
        x = np.append(data.bags.instances[n], 1.0)
        assert_allclose(phi[n], literal_sticks(x, model.sticks_), rtol=1e-10)
        assert_allclose(proba[n], sum(phi[n, k] * theta[k] for k in range(8)), rtol=1e-12)
    assert_allclose(proba.sum(axis=1), 1.0, rtol=1e-12)
    given = model.annotate_proba(data.bags, data.Y)
    listed = np.repeat(data.Y, data.bags.sizes, axis=0)
    assert np.all(given[listed == 0] == 0)
    assert_allclose(given, proba * listed / (proba * listed).sum(1, keepdims=True), rtol=1e-12)
    assert np.array_equal(model.annotate(data.bags, data.Y), model.classes_[given.argmax(axis=1)])
    scores = model.decision_function(data.bags)
    for b, rows in enumerate(data.bags.split(proba)):
        assert_allclose(scores[b], rows.max(axis=0))
        assert set(np.flatnonzero(model.predict(data.bags)[b])) == set(rows.argmax(axis=1))


# ------------------------------------------------------------------------------------------------------------
# Contract


def test_input_forms_seeds_and_class_names():
    data = make_gaussian_bags(n_bags=20, n_classes=3, random_state=2)
    names = ["ant", "bee", "cat"]
    sets = [{names[c] for c in np.flatnonzero(row)} for row in data.Y]
    model = LSBCMM(6, max_iter=10, random_state=5)
    first = quiet_fit(clone(model), data.bags, data.Y)
    second = quiet_fit(clone(model), list(data.bags), sets)
    assert np.array_equal(first.sticks_, second.sticks_)
    assert second.classes_.tolist() == names
    assert set(second.annotate(data.bags, sets)) <= set(names)
    other = quiet_fit(LSBCMM(6, max_iter=10, random_state=6), data.bags, data.Y)
    assert not np.array_equal(first.sticks_, other.sticks_)
    single = Bags(data.bags.instances.astype(np.float32), data.bags.offsets)
    assert np.isfinite(quiet_fit(clone(model), single, data.Y).decision_function(single)).all()


def test_one_class_one_component_and_full_sets():
    X = np.random.default_rng(0).normal(size=(6, 2, 3))
    assert np.all(quiet_fit(LSBCMM(random_state=0), X, np.ones((6, 1))).predict(X) == 1)
    model = quiet_fit(LSBCMM(1, random_state=0), X, np.ones((6, 2)))
    proba = model.predict_instances_proba(X)  # nothing tells the two apart: which one wins is arbitrary
    assert_allclose(proba, np.tile(proba[0], (12, 1)), rtol=1e-12)
    assert_allclose(proba.sum(axis=1), 1.0, rtol=1e-12)


def test_bags_without_labels_are_left_out():
    data = make_gaussian_bags(n_bags=20, n_classes=3, random_state=2)
    Y = data.Y.copy()
    Y[[3, 8]] = 0
    model = LSBCMM(6, tol=1.0, random_state=0)
    with pytest.warns(InfeasibleBagWarning, match="bags 3, 8"):
        model.fit(data.bags, Y)
    with pytest.warns(InfeasibleBagWarning, match="2 of 20 bags carry no label, bags 3, 8"):
        assert_allclose(model.annotate_proba(data.bags, Y).sum(axis=1), 1.0)


@pytest.mark.parametrize(
    "parameters",
    [
        {"n_components": 0},
        {"n_components": 2.5},
        {"sigma2": np.nan},
        {"alpha": 0.0},
        {"sigma2": -1.0},
        {"max_iter": 0},
        {"tol": -1.0},
    ],
)
def test_bad_parameters(parameters):
    with pytest.raises(InputError, match=f"'{next(iter(parameters))}' parameter of LSBCMM"):
        LSBCMM(**parameters).fit([[0.0], [1.0]], [0, 1])


def test_sparse_and_too_large_are_refused(monkeypatch):
    with pytest.raises(InputError, match="sparse.*TruncatedSVD"):
        LSBCMM().fit(sp.csr_matrix(np.eye(4)), [0, 1, 0, 1])
    monkeypatch.setenv("BAGWISE_MEMORY_LIMIT", "1000")
    with pytest.raises(MemoryLimitError, match="10 components for 4 instances"):
        LSBCMM().fit(np.eye(4), [0, 1, 0, 1])
