"""How far names may be promised: evidence against loops, likelihood against differences, and promises that are held."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import expit, logit

from bagwise import Bags, load, save
from bagwise.calibration import CalibratedAnnotator, CalibratedPrecision, PrecisionModel, select_at_precision
from bagwise.calibration._recalibration import Named, fit_precision, named_likelihood, names_table
from bagwise.catalog import make_model
from bagwise.datasets import make_gaussian_bags
from bagwise.pipeline import final_step


@st.composite
def judged(draw):
    sizes = draw(st.lists(st.integers(1, 4), min_size=2, max_size=6))
    rng = np.random.default_rng(draw(st.integers(0, 10_000)))
    n_classes, background = draw(st.integers(2, 5)), draw(st.booleans())
    Y = (rng.random((len(sizes), n_classes)) < 0.5).astype(np.uint8)
    return rng.dirichlet(np.full(n_classes + background, 0.7), sum(sizes)), np.array(sizes), Y


@given(judged())
def test_what_bags_say_to_a_name_is_the_sum_over_what_it_may_be_instead(made):
    proba, sizes, Y = made
    n_bags, n_classes = Y.shape
    bag_index, weights = np.repeat(np.arange(n_bags), sizes), np.arange(1.0, n_bags + 1)
    named = Named.of(proba, bag_index, Y, weights)
    for i, (row, b) in enumerate(zip(proba, bag_index, strict=True)):
        c = int(np.argmax(row[:n_classes]))
        share = [(sum(weights * Y[:, k]) + 0.5) / (sum(weights) + 1) for k in range(n_classes)]
        excused = by_chance = 0.0
        for other in range(len(row)):
            if other == c:
                continue
            weight = row[other] / (row.sum() - row[c])
            both = sum(w * int(y[other % n_classes]) * int(y[c]) for w, y in zip(weights, Y, strict=True))
            given_other = share[c] if other == n_classes else (both + share[c]) / (sum(weights * Y[:, other]) + 1)
            by_chance += weight * given_other
            if other == n_classes:  # the background
                excused += weight * share[c]
            elif Y[b, other]:
                both = sum(w * int(y[other]) * int(y[c]) for w, y in zip(weights, Y, strict=True))
                excused += weight / share[other] * (both + share[c]) / (sum(weights * Y[:, other]) + 1)
        assert named.probability[i] == row[c]
        assert named.listed[i] == bool(Y[b, c])
        assert named.excused[i] == pytest.approx(excused, rel=1e-9, abs=1e-12)
        assert named.by_chance[i] == pytest.approx(by_chance, rel=1e-9, abs=1e-12)


@given(judged(), st.floats(-1.5, 1.5), st.floats(-2.0, 2.0))
def test_the_gradient_is_that_of_differences(made, log_slope, offset):
    proba, sizes, Y = made
    named = Named.of(proba, np.repeat(np.arange(len(sizes)), sizes), Y, np.ones(len(sizes)))
    at, step = np.array([log_slope, offset]), 1e-6
    _, gradient = named_likelihood(at, named)
    for k, move in enumerate(step * np.eye(2)):
        above, below = (named_likelihood(at + sign * move, named)[0] for sign in (1.0, -1.0))
        assert_allclose(gradient[:, k], (above - below) / (2.0 * step), atol=1e-6, rtol=1e-5)


def test_a_name_that_no_set_speaks_against_counts_by_its_bag_alone():
    """Where the label is all that the bag lists, the instance can be nothing else: that says nothing of the model."""
    named = Named.of(np.array([[0.7, 0.3], [0.7, 0.3]]), np.array([0, 1]), np.array([[1, 0], [0, 1]]), np.ones(2))
    assert named.excused[0] == 0.0
    value, _ = named_likelihood(np.zeros(2), named)
    assert_allclose(value, [np.log(0.7), np.log(0.3)])


def bags_of(seed, slope, offset, n_bags=400, n_classes=8, size=4):
    """Bags whose model says p where names are right with probability sigmoid(slope logit p + offset)."""
    rng = np.random.default_rng(seed)
    proba = rng.dirichlet(np.full(n_classes, 0.25), n_bags * size)
    best = proba.argmax(axis=1)
    rows = np.arange(len(proba))
    worth = expit(slope * logit(np.clip(proba[rows, best], 1e-6, 1 - 1e-6)) + offset)
    rest = proba.copy()
    rest[rows, best] = 0.0
    rest /= rest.sum(axis=1, keepdims=True)
    other = (rest.cumsum(axis=1) > rng.random((len(rest), 1))).argmax(axis=1)
    right = rng.random(len(rows)) < worth
    truth = np.where(right, best, other)
    offsets = np.arange(0, len(rows) + 1, size)
    Y = np.zeros((n_bags, n_classes), np.uint8)
    Y[rows // size, truth] = 1
    return proba, offsets, Y, right


@pytest.mark.parametrize(("slope", "offset"), [(1.0, 0.0), (0.5, -0.5), (1.6, 0.4)])
def test_what_names_are_worth_is_found_from_label_sets(slope, offset):
    p = np.array([0.4, 0.6, 0.8, 0.95])
    found = []
    for seed in range(4):
        proba, offsets, Y, _ = bags_of(seed, slope, offset)
        trust = fit_precision(proba, offsets, Y)
        found.append(expit(trust.slope * logit(p) + trust.offset))
    assert_allclose(np.mean(found, axis=0), expit(slope * logit(p) + offset), atol=0.05)


@pytest.mark.parametrize(
    ("slope", "offset", "asked"),
    [(1.0, 0.0, 0.7), (1.0, 0.0, 0.8), (1.0, 0.0, 0.9), (0.6, -0.6, 0.6), (0.6, -0.6, 0.7), (1.5, 0.3, 0.9)],
)
def test_a_promise_is_held(slope, offset, asked):
    """Whatever the probabilities of the model are worth, and without being more cautious than it needs to be."""
    trusts = [fit_precision(*bags_of(seed, slope, offset, n_bags=150)[:3]) for seed in range(8)]
    new, _, _, right = bags_of(100, slope, offset, n_bags=4000)
    kept = [
        select_at_precision(CalibratedPrecision(0.3, trust).of(new.argmax(axis=1), new.max(axis=1), False), asked)
        for trust in trusts
    ]
    got = np.array([right[one].mean() for one in kept if one.sum() >= 50])
    assert len(got) >= 5
    assert np.mean(got >= asked - 0.02) >= 0.75
    assert asked - 0.01 < got.mean() < asked + 0.08


def test_few_bags_promise_less():
    variances = []
    for n_bags in (20, 80, 320):
        trusts = [fit_precision(*bags_of(seed, 1.0, 0.0, n_bags=n_bags)[:3]) for seed in range(6)]
        variances.append(np.mean([np.trace(trust.covariance) for trust in trusts]))
    assert variances[0] > 2 * variances[1] > 4 * variances[2]


def test_the_error_is_that_of_bags_and_not_of_instances():
    """Every instance twice: as many bags, so as little is known. The spread over many draws is what is said."""
    offsets, said = [], []
    for seed in range(60):
        proba, edges, Y, _ = bags_of(seed, 1.0, 0.0, n_bags=60)
        trust = fit_precision(np.repeat(proba, 2, axis=0), 2 * edges, Y)
        offsets.append(trust.offset)
        said.append(np.sqrt(trust.covariance[1, 1]))
    assert 0.6 < np.mean(said) / np.std(offsets) < 1.6


def test_a_bag_of_weight_two_counts_as_two():
    proba, offsets, Y, _ = bags_of(0, 1.0, 0.0, n_bags=30)
    weights = np.where(np.arange(30) < 10, 2.0, 1.0)
    weighted = fit_precision(proba, offsets, Y, weights)
    copied = fit_precision(np.concatenate([proba, proba[:40]]), np.arange(0, 161, 4), np.concatenate([Y, Y[:10]]))
    assert_allclose([weighted.slope, weighted.offset], [copied.slope, copied.offset], rtol=1e-4)
    assert_allclose(weighted.covariance, copied.covariance, rtol=1e-3)


def test_where_nothing_is_told_next_to_nothing_is_promised():
    proba, offsets, Y, _ = bags_of(0, 1.0, 0.0, n_bags=30)
    for untold in ({"weights": np.zeros(30)}, {"known": np.zeros(len(proba), int)}):
        trust = fit_precision(proba, offsets, Y, **untold)
        assert (trust.slope, trust.offset) == (1.0, 0.0)
        assert_allclose(trust.covariance, np.eye(2), atol=1e-6)  # that of the prior
        assert trust.lower_bound(np.array([0.95]))[0] < 0.5
    known = np.full(len(proba), -1)
    known[::3] = 0
    assert fit_precision(proba, offsets, Y, known=known).offset != fit_precision(proba, offsets, Y).offset


@pytest.mark.parametrize("n_bags", [2, 4, 12])
def test_few_bags_promise_little_however_right_they_were(n_bags):
    proba = np.tile([[0.8, 0.2], [0.2, 0.8]], (n_bags, 1))[:n_bags]
    Y = np.eye(2, dtype=np.uint8)[proba.argmax(axis=1)]
    trust = fit_precision(proba, np.arange(n_bags + 1), Y)
    assert trust.lower_bound(np.array([0.8]))[0] < 1.0 - 1.0 / (2 * n_bags)


def test_caution_is_a_standard_error_of_the_log_odds():
    trust = PrecisionModel(1.5, -0.2, np.array([[0.04, 0.01], [0.01, 0.09]]), np.ones(3, bool))
    p = np.array([0.3, 0.9])
    eta = 1.5 * logit(p) - 0.2
    change = np.stack([1.5 * logit(p), np.ones(2)], axis=1)
    error = [np.sqrt(c @ trust.covariance @ c) for c in change]
    assert_allclose(trust.lower_bound(p), expit(eta - error))
    assert np.all(np.isfinite(trust.lower_bound(np.array([0.0, 1.0]))))


def test_what_is_told_is_promised_by_doubt_and_what_is_not_by_trust():
    trust = PrecisionModel(1.0, -1.0, np.zeros((2, 2)), np.array([True, False]))
    promise, p = CalibratedPrecision(0.1, trust), np.array([0.8, 0.8])
    labels = np.array([0, 0])
    assert_allclose(promise.of(labels, p, np.array([True, False])), [0.72, expit(logit(0.8) - 1.0)])
    assert_allclose(promise.of(np.array([1, 2]), p, False), 0.72)  # no witness for it; not known to the model
    assert_allclose(CalibratedPrecision(0.1).of(labels, p, False), 0.72)
    assert_allclose(CalibratedPrecision().of(labels, p, False), p)


def test_labels_that_all_bags_list_bear_no_witness():
    """Names of them are always listed, right or wrong; the others' worth is as if they were not there."""
    proba, offsets, Y, _ = bags_of(0, 1.0, 0.0, n_bags=100)
    assert fit_precision(proba, offsets, Y).covered.all()
    Y[:, 2] = 1
    trust = fit_precision(proba, offsets, Y)
    assert_array_equal(np.flatnonzero(~trust.covered), [2])
    sure = proba.copy()
    those = proba.argmax(axis=1) == 2
    sure[those] = np.where(np.arange(8) == 2, 0.93, 0.01)
    assert_allclose(fit_precision(sure, offsets, Y).offset, trust.offset)


@pytest.mark.parametrize("name", ["ored", "ored-background", "ored-forest"])
def test_calibrated_models_have_a_precision_and_keep_it(name, tmp_path):
    data = make_gaussian_bags(n_bags=40, random_state=0)
    small = {"n_estimators": 10, "n_rounds": 2, "n_round_trees": 20} if name == "ored-forest" else {}
    model = CalibratedAnnotator(make_model(name, **small)).fit(data.bags, data.Y)
    found = CalibratedPrecision.of_model(model).new
    assert found is not None
    save(model, tmp_path / "model.bagwise")
    again = CalibratedPrecision.of_model(load(tmp_path / "model.bagwise")).new
    assert_array_equal(again.covariance, found.covariance)
    assert_array_equal(again.covered, found.covered)
    assert CalibratedPrecision.of_model(final_step(model.estimator_)).new is None  # which is not calibrated


def test_labels_with_noise_are_no_evidence():
    data = make_gaussian_bags(n_bags=40, random_state=0)
    model = CalibratedAnnotator(make_model("ored", missed=0.1)).fit(data.bags, data.Y)
    assert CalibratedPrecision.of_model(model).new is None
    assert model.new_[1] >= 0.0


def test_a_run_keeps_its_promise(tmp_path):
    from bagwise import Run, write_dataset

    data = make_gaussian_bags(n_bags=40, separation=2.0, random_state=0)
    write_dataset(data, tmp_path / "made.csv")
    with Run.create(tmp_path / "made.csv", tmp_path / "run", page=False) as run:
        before = run.predictions().precision
    with Run.open(tmp_path / "run") as run:
        after = run.predictions().precision
    assert (after.uniform, after.new.slope, after.new.offset) == (before.uniform, before.new.slope, before.new.offset)
    assert_array_equal(after.new.covariance, before.new.covariance)


def test_one_class_and_empty_sets_are_no_error():
    trust = fit_precision(np.ones((3, 1)), np.array([0, 2, 3]), np.ones((2, 1), np.uint8))
    assert np.all(np.isfinite(trust.lower_bound(np.array([0.5, 1.0]))))
    bags = Bags(np.zeros((3, 1)), np.array([0, 2, 3]))
    empty = fit_precision(np.full((3, 2), 0.5), bags.offsets, np.zeros((2, 2), np.uint8))
    assert empty.offset < 0.0


@pytest.mark.parametrize("n_right", [0, 300, 1500, 3000])
def test_how_many_names_are_right_is_found_without_knowing_any_instance(n_right):
    """Bags of three labels out of twelve; names that are wrong are listed as often as by chance."""
    estimates, guesses = [], []
    for seed in range(5):
        rng = np.random.default_rng(seed)
        Y = np.zeros((1000, 12), dtype=np.uint8)
        truth = np.array([rng.permutation(12)[:3] for _ in range(len(Y))])
        np.put_along_axis(Y, truth, 1, axis=1)
        truth = truth.ravel()
        is_right = rng.permutation(len(truth)) < n_right
        names = np.where(is_right, truth, (truth + rng.integers(1, 12, len(truth))) % 12)
        proba = np.full((len(truth), 12), 0.3 / 11)
        proba[np.arange(len(truth)), names] = 0.7
        table = names_table(proba, 3 * np.arange(len(Y) + 1), Y, np.ones(len(Y)))
        assert (table["count"], len(table["rows"])) == (len(truth), 1)
        assert table["rows"][0]["accuracy"] == pytest.approx(table["accuracy"])
        estimates.append(table["accuracy"])
        guesses.append(table["guess"])
    assert np.mean(guesses) == pytest.approx(1 / 12, abs=0.03)
    assert np.mean(estimates) == pytest.approx(n_right / 3000, abs=0.03)


def test_labels_of_all_bags_tell_nothing_of_names():
    proba, offsets = np.tile([0.6, 0.4], (20, 1)), np.arange(0, 21, 2)
    assert names_table(proba, offsets, np.ones((10, 2), np.uint8), np.ones(10)) is None


def test_a_calibrated_model_says_how_often_it_names_new_instances_right():
    """A little less than it does: names are wrong more often where few labels are listed by chance."""
    off = []
    for seed in range(4):
        data = make_gaussian_bags(n_bags=300, separation=2.0, random_state=seed)
        model = CalibratedAnnotator(make_model("ored")[-1]).fit(data.bags[:200], data.Y[:200])
        held, new = model.reliability()["names"], data[200:]
        assert sum(row["count"] for row in held["rows"]) == held["count"] == data.bags[:200].n_instances
        off.append(held["accuracy"] - np.mean(model.predict_instances(new.bags) == new.instance_labels.instances))
    assert -0.08 <= np.mean(off) <= 0.03
