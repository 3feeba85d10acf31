"""Calibration of probabilities by held-out bags."""

from __future__ import annotations

import itertools
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import expit, logit
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

import bagwise
from bagwise import Bags, ORedLogisticRegression
from bagwise.annotation import LSBCMM, ORedForest, SupportInstanceMachine
from bagwise.calibration import CalibratedAnnotator
from bagwise.calibration._recalibration import (
    BagLabelNoise,
    HeldOut,
    Recalibration,
    fit_log_odds,
    fit_power,
    label_folds,
    undetermined_shares,
)
from bagwise.core.exceptions import BackgroundShareWarning, CalibrationWarning, InputError
from bagwise.datasets import make_gaussian_bags
from bagwise.metrics import calibration_error, instance_outcomes
from bagwise.pipeline import bag_tags, make_pipeline
from bagwise.preprocessing import PerInstance
from bagwise.union import LabelNoise, UnionModel, UnionProblem, union_log_odds, union_posterior

FOREST = {"n_estimators": 30, "n_rounds": 3, "n_round_trees": 30, "random_state": 0}
MODELS = {"regression": (ORedLogisticRegression, {}), "forest": (ORedForest, FOREST)}


def drawn(seed, n_bags=30, n_classes=4, size=5, background=False):
    """Bags with scores, and label sets drawn from the softmax of the scores."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, size + 1, n_bags)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    scores = rng.normal(0.0, 2.0, (offsets[-1], n_classes + background))
    proba = Recalibration().probabilities(scores)
    labels = (proba.cumsum(axis=1) < rng.random((len(scores), 1))).sum(axis=1)
    Y = np.zeros((n_bags, n_classes + background), dtype=np.uint8)
    Y[np.repeat(np.arange(n_bags), sizes), labels] = 1
    if background:
        Y[:, -1] = 0
    return offsets, scores, labels, Y


def held_out(seed, background=False, rates=None, known=False, shares=None, factor=1.0, **shape):
    offsets, scores, labels, Y = drawn(seed, background=background, **shape)
    named = np.where(np.arange(len(labels)) % 3 == 0, labels, -1) if known else None
    problem = UnionProblem.build(offsets, Y, Y.shape[1] - 1 if background else None, named)
    return HeldOut(problem, factor * scores, UnionModel(4, background, rates), shares or {})


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("background", [False, True])
@pytest.mark.parametrize("with_rates", [False, True])
@pytest.mark.parametrize("known", [False, True])
def test_gradient_of_the_held_out_likelihood(seed, background, with_rates, known):
    n = 4 + background
    rates = LabelNoise(np.full(n, 0.1), np.full(n, 0.05)) if with_rates else None
    bags = held_out(seed, background, rates, known)
    here = np.random.default_rng(seed).normal([0.3, -2.0, 0.5 * background], 0.3)
    value, gradient = bags.negative_log_likelihood(here)
    for i in range(2 + background):
        step = np.zeros(3)
        step[i] = 1e-5
        slope = (bags.negative_log_likelihood(here + step)[0] - bags.negative_log_likelihood(here - step)[0]) / 2e-5
        assert_allclose(gradient[i], slope, rtol=1e-5, atol=1e-5 * abs(value))


@pytest.mark.parametrize("factor", [0.5, 1.0, 2.0])
def test_the_temperature_that_made_the_labels_is_found(factor):
    found = [held_out(seed, factor=factor, n_bags=400).most_likely().temperature for seed in range(6)]
    assert_allclose(np.exp(np.mean(np.log(found))), factor, rtol=0.12)


def test_doubt_that_made_the_labels_is_found():
    found = []
    for seed in range(5):
        offsets, scores, labels, Y = drawn(seed, n_bags=600)
        rng = np.random.default_rng(100 + seed)
        labels = np.where(rng.random(len(labels)) < 0.2, rng.integers(0, 4, len(labels)), labels)
        Y[:] = 0
        Y[np.repeat(np.arange(len(Y)), np.diff(offsets)), labels] = 1
        found.append(HeldOut(UnionProblem.build(offsets, Y), scores, UnionModel(4), {}).most_likely().uniform)
    assert 0.1 < np.mean(found) < 0.3


@pytest.mark.parametrize("seed", range(5))
def test_given_shares_are_met(seed):
    bags = held_out(seed, background=True, shares={4: 0.3})
    found = bags.most_likely()
    listed = np.repeat(bags.problem.n_labels > 0, np.diff(bags.problem.offsets))  # a share of what can be anything else
    assert_allclose(bags.posterior(found)[listed, -1].mean(), 0.3, atol=5e-3)
    assert_allclose(found.shifts[:-1], 0.0)


def test_shares_that_cannot_be_had_are_left_alone():
    """Every label needs an instance, and bags of one label and one instance have none to spare."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 60)
    X = Bags(rng.normal(size=(60, 4)) + 3 * np.eye(3, 4)[y], np.arange(61))
    model = CalibratedAnnotator(ORedLogisticRegression(background=True, background_share=0.3))
    with pytest.warns(BackgroundShareWarning, match="is infeasible"):
        model.fit(X, np.eye(3)[y])
    assert 0.2 < model.new_[0] < 10.0
    assert np.isfinite(model.annotate_proba(X, np.eye(3)[y])).all()
    assert model.background_proba(X).mean() < 0.3


def test_where_every_instance_is_known_there_is_nothing_to_share():
    data = make_gaussian_bags(n_bags=30, random_state=0)
    model = CalibratedAnnotator(ORedLogisticRegression(background=True, background_share=0.1))
    model.fit(data.bags, data.Y, instance_labels=data.instance_labels)
    assert np.isfinite(model.annotate_proba(data.bags, data.Y)).all()


def test_labels_that_are_everywhere_beside_others_have_even_shares():
    Y = np.array([[1, 1, 0], [1, 0, 1], [1, 1, 1], [1, 1, 0]], dtype=np.uint8)
    assert undetermined_shares(Y, np.array([1, 1, 2, 1])) == pytest.approx({0: (0.5 * 3 + 2 / 3) / 5})
    Y[:2, 1:] = 0  # alone in half of the bags, which tell what it is
    assert undetermined_shares(Y, np.ones(4, dtype=int)) == {}


def test_union_log_odds_are_those_of_the_product():
    offsets, scores, _, _ = drawn(0)
    proba = Recalibration().probabilities(scores)
    expected = [1 - np.prod(1 - proba[a:b], axis=0) for a, b in itertools.pairwise(offsets)]
    assert_allclose(expit(union_log_odds(proba, offsets)), expected, rtol=1e-9)


@pytest.mark.parametrize("seed", range(5))
def test_log_odds_are_fitted_as_scikit_learn_does(seed):
    rng = np.random.default_rng(seed)
    log_odds = rng.normal(0, 3, (3000, 4))
    Y = (rng.random(log_odds.shape) < expit(0.4 * log_odds - 1.0)).astype(np.uint8)
    theirs = LogisticRegression(C=np.inf).fit(log_odds.reshape(-1, 1), Y.ravel())
    assert_allclose(fit_log_odds(log_odds, Y), [theirs.coef_[0, 0], theirs.intercept_[0]], rtol=5e-3)


@pytest.mark.parametrize(("missed", "spurious"), [(0.4, 0.0), (0.0, 0.1), (0.5, 0.05)])
def test_log_odds_are_those_of_labels_that_are_there(missed, spurious):
    """Instances are made, noticed or not, and labels listed; what is fitted to lists is the law of what is there."""
    rng = np.random.default_rng(0)
    offsets, said = np.arange(0, 60_001, 3), rng.normal(-1.5, 1.5, (60_000, 2))
    proba = expit(said)
    carried = rng.random(proba.shape) < proba
    there = np.add.reduceat(carried, offsets[:-1], axis=0) > 0
    seen = np.add.reduceat(carried & (rng.random(proba.shape) >= missed), offsets[:-1], axis=0) > 0
    Y = (seen | (rng.random(seen.shape) < spurious)).astype(np.uint8)
    listing = BagLabelNoise.of(proba, offsets, missed, spurious)
    slope, offset = fit_log_odds(union_log_odds(proba, offsets), Y, None, listing)
    assert_allclose([slope, offset], [1.0, 0.0], atol=0.05)
    presence = expit(slope * union_log_odds(proba, offsets) + offset)
    assert abs(presence.mean() - there.mean()) < 0.01
    assert abs(listing.probability(presence).mean() - Y.mean()) < 0.005
    absent = 1 - (1 - spurious) * np.multiply.reduceat(1 - (1 - missed) * proba, offsets[:-1], axis=0)
    assert_allclose(listing.probability(expit(union_log_odds(proba, offsets))), absent, atol=1e-9)
    assert fit_log_odds(union_log_odds(proba, offsets), Y)[1] != pytest.approx(0.0, abs=0.1)


def test_the_power_of_repeated_instances_is_found():
    rng = np.random.default_rng(0)
    log_proba = np.log(Recalibration().probabilities(rng.normal(0, 1.5, (2000, 3))))
    Y = np.eye(3, dtype=np.uint8)[(np.exp(log_proba).cumsum(axis=1) < rng.random((2000, 1))).sum(axis=1)]
    assert_allclose(fit_power(10 * log_proba, Y), 0.1, rtol=0.1)  # each instance ten times over


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 10_000), st.integers(5, 40), st.integers(1, 6), st.integers(2, 5))
def test_folds_hold_all_bags_in_like_numbers(seed, n_bags, n_classes, n_folds):
    rng = np.random.RandomState(seed)
    Y = (rng.rand(n_bags, n_classes) < 0.3).astype(np.uint8)
    folds = label_folds(Y, n_folds, rng)
    assert folds.min() >= 0
    assert folds.max() < n_folds
    rarest = np.argsort(Y.sum(axis=0), kind="stable")[0]
    counts = np.bincount(folds[Y[:, rarest] == 1], minlength=n_folds)
    assert counts.max() - counts.min() <= 1


def test_fingerprints_know_a_bag_again_up_to_rounding():
    rng = np.random.default_rng(0)
    bags = Bags(rng.normal(size=(50, 3)), np.arange(0, 51, 5))
    again = Bags(bags.instances * (1 + 1e-14), bags.offsets).fingerprints()
    assert_array_equal(bags.fingerprints(), again)
    changed = bags.instances.copy()
    changed[0, 0] += 0.01
    assert (Bags(changed, bags.offsets).fingerprints() != again).tolist() == [True] + [False] * 9
    assert len(set(again.tolist())) == 10
    assert not set(Bags(3.7 * bags.instances, bags.offsets).fingerprints().tolist()) & set(again.tolist())
    sparse = pytest.importorskip("scipy.sparse").csr_array(bags.instances)
    assert len(set(Bags(sparse, bags.offsets).fingerprints().tolist())) == 10


# -- the estimators ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MODELS)
def test_labels_and_rankings_of_new_bags_stay(name):
    make, own = MODELS[name]
    data, new = (make_gaussian_bags(n_bags=n, random_state=seed) for n, seed in ((60, 0), (30, 1)))
    plain = make(**own).fit(data.bags, data.Y)
    calibrated = CalibratedAnnotator(make(**own)).fit(data.bags, data.Y)
    assert_array_equal(plain.predict_instances(new.bags), calibrated.predict_instances(new.bags))
    assert_array_equal(plain.predict(new.bags), calibrated.predict(new.bags))
    assert_array_equal(plain.decision_function(new.bags), calibrated.decision_function(new.bags))
    proba = Recalibration(*calibrated.new_).probabilities(plain.log_proba(new.bags))
    union, (slope, offset) = union_log_odds(proba, new.bags.offsets), calibrated.bag_calibration_
    assert slope > 0
    assert_allclose(logit(calibrated.predict_proba(new.bags)), slope * union + offset, atol=1e-6)
    assert_allclose(calibrated.predict_instances_proba(new.bags).sum(axis=1), 1.0)
    assert_allclose(calibrated.annotate_proba(data.bags, data.Y).sum(axis=1), 1.0)


@pytest.mark.parametrize("name", MODELS)
def test_predict_proba_without_calibration_is_the_union(name):
    make, own = MODELS[name]
    data = make_gaussian_bags(n_bags=40, random_state=0)
    model = make(**own).fit(data.bags, data.Y)
    proba = model.predict_instances_proba(data.bags)
    expected = [
        1 - np.prod(1 - proba[a:b], axis=0) for a, b in zip(data.bags.offsets[:-1], data.bags.offsets[1:], strict=True)
    ]
    assert_allclose(model.predict_proba(data.bags), expected, atol=1e-12)


@pytest.mark.parametrize("name", MODELS)
def test_errors_of_probabilities_fall(name):
    """Overlapping classes and many features: a model that learns by heart, judged on bags that it never saw."""
    make, own = MODELS[name]
    before, after = [], []
    for seed in range(4):
        data = make_gaussian_bags(n_bags=200, n_features=30, separation=1.0, random_state=seed)
        train, test = data[:100], data[100:]
        settings = {**own, "l2": 0.01} if name == "regression" else own
        plain = make(**settings)
        for estimator, errors in ((plain, before), (CalibratedAnnotator(plain), after)):
            model = estimator.fit(train.bags, train.Y)
            errors.append(
                [
                    calibration_error(
                        *instance_outcomes(test.instance_labels, model.predict_instances_proba(test.bags))
                    ),
                    calibration_error(test.Y, model.predict_proba(test.bags)),
                ]
            )
    assert (np.mean(after, axis=0) < np.mean(before, axis=0)).all(), (before, after)


@pytest.mark.parametrize("name", MODELS)
def test_bags_that_were_learned_from_have_a_temperature_of_their_own(name):
    make, own = MODELS[name]
    data = make_gaussian_bags(n_bags=60, n_features=20, separation=1.0, random_state=0)
    model = CalibratedAnnotator(make(**own)).fit(data.bags, data.Y)
    assert model.seen_[0] != model.new_[0]
    moved = Bags(data.bags.instances + 0.05, data.bags.offsets)
    for bags, found in ((data.bags, model.seen_), (moved, model.listed_)):
        proba = Recalibration(*found).probabilities(model.estimator_.log_proba(bags))
        _, posterior = union_posterior(proba, bags.offsets, data.Y)
        assert_allclose(model.annotate_proba(bags, data.Y), posterior, atol=1e-9)


def test_a_label_that_is_everywhere_is_told_apart_as_far_as_shares_go():
    """Every bag lists class 0 beside others; without calibration it takes all instances that the others can spare."""
    rights = {None: [], "bag": []}
    for seed in range(3):
        data = make_gaussian_bags(n_bags=80, n_classes=4, separation=4.0, random_state=seed)
        keep = (data.Y[:, 0] == 1) & (data.Y.sum(axis=1) > 1)
        Y, bags, truth = data.Y[keep], data.bags[keep], data.instance_labels[keep].instances
        for how, right in rights.items():
            model = ORedLogisticRegression()
            model = (model if how is None else CalibratedAnnotator(model)).fit(bags, Y)
            right.append(np.mean(model.annotate(bags, Y) == truth))
            if how == "bag":
                assert model.listed_[2][0] < 0.0
                assert_allclose(model.listed_[2][1:], 0.0)
    assert np.mean(rights["bag"]) > np.mean(rights[None])


@pytest.mark.parametrize("name", MODELS)
def test_the_model_file_holds_it_all(name, tmp_path):
    make, own = MODELS[name]
    data, new = (make_gaussian_bags(n_bags=n, random_state=seed) for n, seed in ((40, 0), (20, 1)))
    model = CalibratedAnnotator(make(**own)).fit(data.bags, data.Y)
    bagwise.save(model, tmp_path / "model.bagwise")
    again = bagwise.load(tmp_path / "model.bagwise")
    for part in (data, new):
        assert_array_equal(model.annotate_proba(part.bags, part.Y), again.annotate_proba(part.bags, part.Y))
        assert_array_equal(model.predict_proba(part.bags), again.predict_proba(part.bags))
    assert again.reliability() == model.reliability()


def test_it_goes_with_background_known_instances_rates_and_warm_starts():
    data = make_gaussian_bags(n_bags=60, random_state=0)
    known = np.where(np.arange(data.bags.n_instances) % 7 == 0, data.instance_labels.instances, -1)
    labels = Bags(known, data.bags.offsets)
    inner = ORedLogisticRegression(
        background=True, background_share=0.2, missed=0.05, spurious="learn", warm_start=True
    )
    model, n_iter = CalibratedAnnotator(inner), []
    for _ in range(2):
        model.fit(data.bags, data.Y, instance_labels=labels)
        found = model.find(data.bags, data.Y)
        assert_allclose(found.proba.sum(axis=1) + found.background, 1.0)
        unknown = model.find(data.bags, data.Y, instance_labels=labels).background[known < 0]
        assert_allclose(unknown.mean(), 0.2, atol=0.02)
        n_iter.append(model.estimator_.n_iter_)
    assert n_iter[1] < n_iter[0]  # it goes on from the first
    model.set_params(estimator__background=False, estimator__missed=0.0, estimator__spurious=0.0)
    model.fit(data.bags, data.Y)
    assert len(model.new_[2]) == 5
    fresh = CalibratedAnnotator(ORedLogisticRegression()).fit(data.bags, data.Y)
    assert_allclose(model.annotate_proba(data.bags, data.Y), fresh.annotate_proba(data.bags, data.Y), atol=0.05)


def test_a_pipeline_may_stand_inside_or_around():
    data, new = (make_gaussian_bags(n_bags=n, random_state=seed) for n, seed in ((60, 0), (20, 1)))
    scaler, learner = PerInstance(StandardScaler()), ORedLogisticRegression()
    inside = CalibratedAnnotator(make_pipeline(scaler, learner)).fit(data.bags, data.Y)
    around = make_pipeline(scaler, CalibratedAnnotator(learner)).fit(data.bags, data.Y)
    for model in (inside, around):
        assert_allclose(model.predict_instances_proba(new.bags).sum(axis=1), 1.0)
        assert_array_equal(model.predict(new.bags), inside.estimator_.predict(new.bags))
        assert bag_tags(model).probabilities
    # the scaler of the pipeline inside is fitted without the fold that is held out
    assert_allclose(inside.predict_proba(new.bags), around.predict_proba(new.bags), atol=0.1)


def test_other_annotators_with_probabilities_are_calibrated_too():
    data, new = (make_gaussian_bags(n_bags=n, random_state=seed) for n, seed in ((60, 0), (20, 1)))
    model = CalibratedAnnotator(LSBCMM(random_state=0), cv=3).fit(data.bags, data.Y)
    assert_allclose(model.annotate_proba(new.bags, new.Y).sum(axis=1), 1.0)
    assert_array_equal(model.predict_instances(new.bags), model.estimator_.predict_instances(new.bags))
    assert model.reliability()["bags"] == 60


def test_predictions_of_bags_are_those_of_the_estimator_also_with_a_background():
    data, new = (make_gaussian_bags(n_bags=n, random_state=seed) for n, seed in ((60, 0), (30, 1)))
    learner = ORedLogisticRegression(background=True, background_share=0.3)
    model, plain = (estimator.fit(data.bags, data.Y) for estimator in (CalibratedAnnotator(learner), learner))
    assert_array_equal(model.predict(new.bags), plain.predict(new.bags))
    assert_array_equal(model.decision_function(new.bags), plain.decision_function(new.bags))
    assert_array_equal(model.instance_decision_function(new.bags), plain.instance_decision_function(new.bags))


def test_what_cannot_be_calibrated_is_refused():
    data = make_gaussian_bags(n_bags=12, random_state=0)
    with pytest.raises(InputError, match="SupportInstanceMachine gives instances no probabilities"):
        CalibratedAnnotator(SupportInstanceMachine()).fit(data.bags, data.Y)
    with pytest.raises(InputError, match="'cv' parameter.*2 or more"):
        CalibratedAnnotator(ORedLogisticRegression(), cv=1).fit(data.bags, data.Y)


def test_one_label_a_bag():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 90)
    X = Bags.from_list([rng.normal(0, 1, (6, 4)) + np.eye(3, 4)[label] for label in y])
    model = CalibratedAnnotator(ORedLogisticRegression()).fit(X, y)
    proba = model.predict_proba(X)
    assert_allclose(proba.sum(axis=1), 1.0)
    assert_array_equal(model.classes_[proba.argmax(axis=1)], model.predict(X))


@pytest.mark.parametrize("name", MODELS)
def test_too_few_bags_are_said_and_nothing_is_changed(name):
    make, own = MODELS[name]
    data = make_gaussian_bags(n_bags=8, random_state=0)
    with pytest.warns(
        UserWarning,
        match=r"8 labelled bag\(s\) are too few .* give 10 or more.*stay as they are\.",
    ):
        model = CalibratedAnnotator(make(**own)).fit(data.bags, data.Y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        plain = make(**own).fit(data.bags, data.Y)
    assert model.reliability() is None
    assert_allclose(
        model.annotate_proba(data.bags, data.Y), plain.annotate_proba(data.bags, data.Y), rtol=1e-9, atol=1e-12
    )


def word_bags(rng, n_bags, n_words=300, n_classes=4):
    """Passages of fifteen words, half of them from the topic and half from anywhere; nothing is background."""
    topics = np.random.default_rng(99).dirichlet(np.full(n_words, 0.08), n_classes)
    listed = [rng.choice(n_classes, 2, replace=False) for _ in range(n_bags)]
    truth = [np.concatenate([labels, rng.choice(labels, rng.integers(1, 6))]) for labels in listed]
    passages = [[rng.multinomial(15, 0.5 * topics[k] + 0.5 / n_words) for k in labels] for labels in truth]
    return Bags.from_list([np.array(bag) / np.sqrt(15) for bag in passages]), [set(labels) for labels in listed]


def test_the_share_of_background_in_new_bags_is_learned_from_a_few():
    """What a fit by known labels set is too much for what it never saw; what was told stays as it was."""
    off = {None: [], "bag": []}
    for seed in range(4):
        rng = np.random.default_rng(seed)
        (bags, labels), (new, _) = word_bags(rng, 8), word_bags(rng, 60)
        for calibrate, found in off.items():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", CalibrationWarning)
                model = ORedLogisticRegression(0.1, background=True, background_share=0.1)
                model = model if calibrate is None else CalibratedAnnotator(model)
                model.fit(bags, labels)
            found.append(abs(model.background_proba(new).mean() - 0.1))
            assert_allclose(model.background_proba(bags, labels).mean(), 0.1, atol=1e-3)
            assert calibrate is None or model.reliability() is None
    assert np.mean(off["bag"]) < 0.02 < np.mean(off[None])
    assert max(off["bag"]) < max(off[None])
