"""Calibration of learners of label sets: against a general minimizer's optimum, known labels, and identities."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import minimize
from scipy.special import expit, logit
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

import bagwise
from bagwise import Absent, Bags, ORedLogisticRegression, Possible, make_pipeline
from bagwise.annotation import NoisyOrLogisticRegression
from bagwise.calibration import CalibratedAnnotator, CalibratedLabelSets
from bagwise.calibration._label_sets import OWN_SPREAD, SPREAD, fit_links, nearest_links
from bagwise.core.exceptions import CalibrationWarning, InputError
from bagwise.preprocessing import PerInstance

NAMES = ["crow", "tit", "wren"]


def windows(n_bags, seed, noise=1.2):
    rng = np.random.default_rng(seed)
    truth = rng.random((n_bags * 6, 3)) < 0.25
    X = truth @ (1.5 * np.random.default_rng(9).normal(size=(3, 8))) + noise * rng.normal(size=(len(truth), 8))
    bags = Bags(X, np.arange(0, len(truth) + 1, 6))
    return bags, np.logical_or.reduceat(truth, bags.offsets[:-1]).astype(int), truth


def calibration_error(proba, truth):
    bins = np.minimum((10 * proba.ravel()).astype(int), 9)
    gaps = [proba.ravel()[bins == k].sum() - truth.ravel()[bins == k].sum() for k in range(10)]
    return np.abs(gaps).sum() / proba.size


def test_instances_are_as_probable_as_is_said():
    """Nobody labelled an instance, and yet their probabilities come nearer to the truth."""
    errors = []
    for seed in range(4):
        bags, Y, truth = windows(60, seed)
        new, _, new_truth = windows(300, 100 + seed)
        model = CalibratedLabelSets(NoisyOrLogisticRegression(l2=0.01)).fit(bags, Y)
        inner = model.estimator_
        before, after = inner.predict_instances_proba(new), model.predict_instances_proba(new)
        given = inner.annotate_proba(bags, Y), model.annotate_proba(bags, Y)
        errors.append(
            [
                calibration_error(p, t)
                for p, t in zip((before, after, *given), (new_truth,) * 2 + (truth,) * 2, strict=True)
            ]
        )
        for c in range(3):  # no ranking of instances changes
            order = np.argsort(inner.instance_decision_function(new)[:, c])
            assert np.diff(after[order, c]).min() >= 0.0
        assert_array_equal(model.predict(new), inner.predict(new))
        assert_array_equal(model.decision_function(new), inner.decision_function(new))
    before, after, given_before, given_after = np.mean(errors, axis=0)
    assert after < 0.7 * before
    assert given_after < 0.7 * given_before


def test_slopes_and_offsets_are_those_of_a_general_minimizer():
    rng = np.random.default_rng(0)
    scores = Bags(rng.normal(size=(60, 2)), np.arange(0, 61, 4))
    Y = (rng.random((15, 2)) < 0.5).astype(np.uint8)

    def penalized(flat):
        shared, own = flat[:2], flat[2:].reshape(2, 2)
        logs, offsets = (shared + own).T
        proba = expit(scores.instances * np.exp(logs) + offsets)
        listed = 1 - np.multiply.reduceat(1 - proba, scores.offsets[:-1])
        value = np.sum(np.log(np.where(Y == 1, listed, 1 - listed)))
        return -value + 0.5 * np.sum((shared / SPREAD) ** 2) + 0.5 * np.sum((own / OWN_SPREAD) ** 2)

    best = minimize(
        penalized, np.zeros(6), method="Nelder-Mead", options={"maxiter": 20_000, "xatol": 1e-8, "fatol": 1e-12}
    ).x
    logs, offsets = (best[:2] + best[2:].reshape(2, 2)).T
    assert_allclose(fit_links(scores, Y, None, None), np.column_stack([np.exp(logs), offsets]), rtol=2e-3, atol=2e-3)


def test_the_nearest_links_are_those_of_a_logistic_regression():
    """With many instances the prior is nothing, and soft labels are rows of both classes with weights."""
    rng = np.random.default_rng(1)
    scores = rng.normal(size=(20_000, 1))
    wanted = expit(0.4 * scores - 0.7)
    slope, offset = nearest_links(scores, logit(wanted))[0]
    weights = np.concatenate([wanted.ravel(), 1 - wanted.ravel()])
    both = LogisticRegression(C=np.inf, tol=1e-10).fit(
        np.vstack([scores, scores]), np.repeat([1, 0], len(scores)), sample_weight=weights
    )
    assert_allclose([slope, offset], [both.coef_[0, 0], both.intercept_[0]], atol=5e-3)


def test_it_is_saved_and_knows_the_bags_again(tmp_path):
    bags, Y, _ = windows(40, 0)
    model = make_pipeline(PerInstance(StandardScaler()), CalibratedLabelSets(NoisyOrLogisticRegression())).fit(bags, Y)
    bagwise.save(model, tmp_path / "m.bagwise")
    again = bagwise.load(tmp_path / "m.bagwise")
    assert_array_equal(model.annotate_proba(bags, Y), again.annotate_proba(bags, Y))
    assert_array_equal(model.predict_instances_proba(bags), again.predict_instances_proba(bags))
    assert model[-1].seen_bags_.size == 40
    assert again[-1].reliability_["bags"] == 40


def test_evidence_and_known_instances_go_through():
    bags, Y, truth = windows(40, 0)
    sets = [{name for name, listed in zip(NAMES, row, strict=True) if listed} for row in Y]
    sets[0] = {Possible("crow"), Absent("tit"), "wren"}
    model = CalibratedLabelSets(NoisyOrLogisticRegression()).fit(bags, sets)
    assert model.classes_.tolist() == NAMES
    proba = model.annotate_proba(bags, sets)
    assert (proba[:6, 1] == 0).all()
    assert (proba[:6, 0] > 0).any()
    known = np.full(truth.shape, np.nan)
    known[0] = [0, 0, 1]
    found = model.find(bags, sets, Bags(known, bags.offsets)).proba
    assert_array_equal(found[0], [0, 0, 1])
    presence = model.label_posterior(bags, Y)
    assert_allclose(presence, Y, atol=1e-12)


def test_too_few_bags_and_other_learners_are_named():
    bags, Y, _ = windows(6, 0)
    with pytest.warns(CalibrationWarning, match=r"6 labelled bag\(s\) are too few"):
        model = CalibratedLabelSets(NoisyOrLogisticRegression()).fit(bags, Y)
    assert_allclose(model.predict_instances_proba(bags), model.estimator_.predict_instances_proba(bags))
    assert model.reliability() is None
    with pytest.raises(InputError, match="CalibratedAnnotator calibrates that"):
        CalibratedLabelSets(ORedLogisticRegression()).fit(bags, Y)
    with pytest.raises(InputError, match="CalibratedLabelSets"):
        CalibratedAnnotator(NoisyOrLogisticRegression()).fit(bags, Y)
