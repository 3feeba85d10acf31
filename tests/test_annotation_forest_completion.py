"""Forgotten labels by whole bags: rates against simulations and Bayes' rule, completed sets against enumeration."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import approx_fprime
from scipy.special import expit
from sklearn.metrics import average_precision_score

from bagwise import Bags, load, save
from bagwise.annotation import ORedForest, _forest_completion
from bagwise.annotation import forest as forest_module
from bagwise.annotation._forest_completion import Completion, Listing, instances_a_label, listing_likelihood
from bagwise.annotation.rates import PRIOR_RIGHT, PRIOR_WRONG
from bagwise.calibration import CalibratedAnnotator
from bagwise.core.exceptions import InputError
from bagwise.union import union_posterior

# -- how labels come to be listed -------------------------------------------------------------------------------------


def simulated(seed, missed, n_bags=1000, n_classes=6, slope=2.0, offset=0.5):
    """Scores of a judge, which labels are there, and which of them are listed."""
    rng = np.random.default_rng(seed)
    scores = rng.normal(-1.0, 2.5, (n_bags, n_classes))
    there = rng.random(scores.shape) < expit(slope * scores + offset)
    return scores, there, (there & (rng.random(scores.shape) >= missed)).astype(np.uint8)


@pytest.mark.parametrize(
    "parameters",
    [(-1.0, 0.3, 0.2), (-6.0, 1.0, -2.0), (2.0, -1.0, 0.0), (-1.0, 0.3, -0.7, 0.2), (-3.0, 0.0, 1.0, -1.0)],
)
@pytest.mark.parametrize("has_false", [False, True])
def test_the_likelihood_of_listings_and_its_gradient(parameters, has_false):
    """Of one judge, and of two; where false labels are listed, and where none are."""
    judged = [simulated(seed, 0.2, n_bags=30) for seed in range(len(parameters) - 2)]
    scores, listed = np.stack([scores for scores, _, _ in judged]).reshape(len(judged), -1), judged[0][2]
    counts, listed = np.random.default_rng(0).integers(1, 4, listed.size) * 1.0, listed.ravel().astype(float)
    at, false = np.array(parameters), np.tile([0.0, 0.01, 0.0, 0.1, 0.02, 0.0], 30) * has_false

    def literal(flat):
        missed, z = expit(flat[0]), sum(np.exp(slope) * one for slope, one in zip(flat[1:-1], scores, strict=True))
        listing = false + (1 - false) * (1 - missed) / (1 + np.exp(-(z + flat[-1])))
        value = counts @ (listed * np.log(listing) + (1 - listed) * np.log(1 - listing))
        return value + PRIOR_WRONG * np.log(missed) + PRIOR_RIGHT * np.log(1 - missed)

    value, gradient = listing_likelihood(at, scores, listed, counts, false)
    assert value == pytest.approx(literal(at), rel=1e-10)
    assert_allclose(gradient, approx_fprime(at, literal, 1e-7), rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("missed", [0.0, 0.2, 0.4])
@pytest.mark.parametrize("seed", range(4))
def test_the_rate_at_which_labels_go_missing_is_found(seed, missed):
    scores, there, listed = simulated(seed, missed)
    found = Listing.fit(scores[None], listed, np.ones(len(scores)), np.zeros(6))
    assert found.missed == pytest.approx(missed, abs=0.07)
    assert found.slopes == pytest.approx(2.0, rel=0.3)
    forgotten = found.missing_probability(scores[None])[listed == 0]
    assert forgotten.sum() == pytest.approx((there & (listed == 0)).sum(), abs=0.07 * there.sum())


@pytest.mark.parametrize("seed", range(3))
def test_false_labels_do_not_hide_the_missing_ones(seed):
    """A false label beside one in thirty that is not there: taken for true, it is what the judge does not know."""
    scores, _, listed = simulated(seed, 0.2)
    false = np.random.default_rng(seed).random(listed.shape) < 0.03
    spoiled = np.where(false, 1, listed).astype(np.uint8)
    ones = np.ones(len(scores))
    known = Listing.fit(scores[None], spoiled, ones, np.full(6, 0.03))
    assert known.missed == pytest.approx(0.2, abs=0.07)
    assert known.slopes == pytest.approx(2.0, rel=0.3)
    assert Listing.fit(scores[None], spoiled, ones, np.zeros(6)).slopes < 0.75 * known.slopes


def test_two_judges_count_for_what_they_know():
    """A judge that knows nothing counts for nothing; two that know half each count alike."""
    rng = np.random.default_rng(3)
    halves = rng.normal(-0.5, 1.8, (2, 1500, 6))
    there = rng.random(halves.shape[1:]) < expit(1.5 * halves.sum(axis=0) + 0.5)
    listed = (there & (rng.random(there.shape) >= 0.25)).astype(np.uint8)
    found = Listing.fit(halves, listed, np.ones(1500), np.zeros(6))
    assert found.slopes == pytest.approx([1.5, 1.5], rel=0.25)
    assert found.missed == pytest.approx(0.25, abs=0.05)
    one = Listing.fit(np.stack([halves.sum(axis=0), rng.normal(size=there.shape)]), listed, np.ones(1500), np.zeros(6))
    assert one.slopes[1] < 0.1 < 1.2 < one.slopes[0]


def test_bags_of_weight_two_count_as_two_bags():
    scores, _, listed = simulated(1, 0.3, n_bags=60)
    weights = np.where(np.arange(60) % 3 == 0, 2.0, 1.0)
    twice = np.repeat(np.arange(60), weights.astype(int))
    weighted, copied = (
        Listing.fit(scores[None], listed, weights, np.zeros(6)),
        Listing.fit(scores[None, twice], listed[twice], np.ones(80), np.zeros(6)),
    )
    for one, other in zip(weighted, copied, strict=True):
        assert_allclose(one, other, rtol=1e-4)


@given(st.floats(0.001, 0.95), st.floats(0.1, 5.0), st.floats(-3.0, 3.0), st.floats(-8.0, 8.0))
def test_forgotten_is_what_bayes_says(missed, slope, offset, score):
    there = expit(slope * score + offset)
    joint = {(1, 1): there * (1 - missed), (1, 0): there * missed, (0, 0): 1 - there}  # there, listed
    expected = joint[1, 0] / (joint[1, 0] + joint[0, 0])
    assert Listing(missed, np.array([slope]), offset).missing_probability(np.array([[score]]))[0] == pytest.approx(
        expected, rel=1e-9, abs=1e-12
    )


def test_instances_a_label():
    bags = Bags(np.zeros((7, 1)), np.array([0, 3, 7]))
    posterior = np.eye(3)[[0, 0, 1, 2, 2, 2, 2]]
    assert instances_a_label(posterior, bags, np.ones(2), 3) == pytest.approx(7 / 3)
    assert instances_a_label(posterior, bags, np.array([1.0, 3.0]), 3) == pytest.approx((3 + 3 * 4) / (2 + 3 * 1))
    assert instances_a_label(posterior, bags, np.ones(2), 2) == pytest.approx(3 / 2)  # the third is the background
    assert instances_a_label(np.eye(3)[[2] * 7], bags, np.ones(2), 2) == 0.0


# -- completed label sets ---------------------------------------------------------------------------------------------


def completion_of(sizes, indicator, known=None, background=False, seed=0):
    rng = np.random.default_rng(seed)
    bags = Bags(rng.normal(size=(sum(sizes), 2)), np.append(0, np.cumsum(sizes)))
    rng = np.random.RandomState(seed)
    return Completion(bags, np.array(indicator, dtype=np.uint8), known, np.ones(len(sizes)), background, rng)


def test_sets_are_drawn_as_probably_as_labels_are_there():
    completion = completion_of([6, 6], [[1, 0, 0], [0, 1, 0]])
    present = np.array([[1.0, 0.7, 0.1], [0.4, 1.0, 0.0]])
    drawn = np.mean([completion.draw(present, None) for _ in range(4000)], axis=0)
    assert_allclose(drawn, present, atol=0.03)
    assert_array_equal(drawn[present == 1.0], 1.0)


def test_a_bag_without_a_label_has_one_by_its_odds_unless_all_may_be_background():
    present = np.array([[0.02, 0.01, 0.0]])
    drawn = np.mean([completion_of([3], [[0, 0, 0]], seed=s).draw(present, None)[0] for s in range(3000)], axis=0)
    assert_allclose(drawn[:2], [2 / 3, 1 / 3], atol=0.05)
    free = completion_of([3], [[0, 0, 0]], background=True)
    assert not np.any([free.draw(0.0 * present, None) for _ in range(20)])


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("background", [False, True])
def test_every_set_that_is_drawn_can_be(seed, background):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 4, 12)
    known = np.where(rng.random(sizes.sum()) < 0.3, rng.integers(0, 4, sizes.sum()), -1)
    indicator = np.zeros((12, 4), dtype=np.uint8)
    completion = completion_of(sizes, indicator, known, background, seed)
    for _ in range(20):
        sets = completion.draw(np.where(completion.certain, 1.0, 0.6), None)
        assert (sets >= completion.certain).all()  # what is known is there
        column = 4 if background else None
        proba = np.full((sizes.sum(), 4 + background), 1.0 / (4 + background))
        marked = np.where(known[:, None] < 0, proba, np.eye(4 + background)[known])
        listed = np.hstack([sets, np.zeros((12, int(background)), dtype=np.uint8)])
        likelihood, _ = union_posterior(marked, completion.bags.offsets, listed, background=column)
        assert np.isfinite(likelihood).all()


def test_posteriors_are_means_over_the_completed_sets(monkeypatch):
    """Each by union inference; that sets are drawn as probably as they should is another test."""
    rng = np.random.default_rng(0)
    completion = completion_of([4, 5], [[1, 0, 0], [0, 1, 0]])
    proba, drawn, draw = rng.dirichlet(np.ones(3), 9), [], completion.draw
    monkeypatch.setattr(completion, "present", lambda proba, spurious: np.array([[1.0, 0.5, 0.2], [0.3, 1.0, 0.6]]))
    monkeypatch.setattr(completion, "draw", lambda *args: drawn.append(draw(*args)) or drawn[-1])
    monkeypatch.setattr(_forest_completion, "N_DRAWS", 7)
    likelihood, posterior = completion.infer(proba, np.zeros(3))
    assert len({sets.tobytes() for sets in drawn}) > 2
    expected = [union_posterior(proba, completion.bags.offsets, sets) for sets in drawn]
    assert_allclose(likelihood, np.mean([one[0] for one in expected], axis=0), rtol=1e-12)
    assert_allclose(posterior, np.mean([one[1] for one in expected], axis=0), atol=1e-12)


def test_without_forgotten_labels_the_posterior_is_that_of_the_listed(monkeypatch):
    rng = np.random.default_rng(1)
    completion = completion_of([3, 4], [[1, 1, 0], [0, 1, 1]])
    proba = rng.dirichlet(np.ones(3), 7)
    monkeypatch.setattr(completion, "present", lambda proba, spurious: completion.certain.astype(float))
    for spurious in (0.0, 0.1):
        expected = union_posterior(proba, completion.bags.offsets, completion.indicator, spurious=spurious)
        for mine, theirs in zip(completion.infer(proba, np.full(3, spurious)), expected, strict=True):
            assert_allclose(mine, theirs, atol=1e-12)


# -- the forest -------------------------------------------------------------------------------------------------------


def chorus(seed, n_bags=300, n_classes=6, dropped=0.25):
    """Bags of two or three labels with some four instances each, which overlap; labels dropped as a whole."""
    rng = np.random.default_rng(seed)
    means = np.random.default_rng(0).normal(size=(n_classes, 6)) * 1.3
    bags, rows = [], []
    Y = np.zeros((n_bags, n_classes), dtype=np.uint8)
    for b in range(n_bags):
        labels = np.repeat(rng.choice(n_classes, rng.integers(2, 4), replace=False), 4)
        Y[b, labels] = 1
        bags.append(means[labels] + rng.normal(size=(len(labels), 6)))
        rows.append(labels)
    listed = np.where(rng.random(Y.shape) < dropped, 0, Y).astype(np.uint8)
    return Bags.from_list(bags), Y, listed, np.concatenate(rows)


@pytest.fixture(scope="module")
def spoiled():
    return chorus(0)


def test_judges_of_bags_find_the_rate_and_the_labels(spoiled):
    bags, Y, listed, labels = spoiled
    completion = Completion(bags, listed, None, np.ones(len(bags)), False, np.random.RandomState(0))
    proba = 0.7 * np.eye(6)[labels] + 0.05
    found = Listing.fit(completion.judge(proba)[None], listed, np.ones(len(bags)), np.zeros(listed.shape[1]))
    assert found.missed == pytest.approx(0.25, abs=0.06)
    present = completion.present(proba, np.zeros(listed.shape[1]))
    assert_array_equal(present[listed == 1], 1.0)
    open_pairs = listed == 0
    assert present[open_pairs & (Y == 1)].mean() > present[open_pairs & (Y == 0)].mean() + 0.5


@pytest.mark.parametrize("seed", range(3))
def test_forests_complete_label_sets_where_labels_have_many_instances(seed, monkeypatch):
    bags, _, listed, _ = chorus(seed)
    used = listed.any(axis=1)
    settings = {"n_estimators": 40, "n_rounds": 5, "n_round_trees": 40, "random_state": 0}
    plain = ORedForest(**settings).fit(bags[used], listed[used])
    starts, rounds = [], ORedForest._rounds
    monkeypatch.setattr(ORedForest, "_rounds", lambda self, *args: starts.append(args[4]) or rounds(self, *args))
    completed = ORedForest(missed=0.6, **settings).fit(bags, listed)
    assert starts[0].completion is not None
    new, _, _, truth = chorus(seed + 100)
    right = [np.mean(model.predict_instances(new) == truth) for model in (plain, completed)]
    assert right[1] > right[0] + 0.01
    assert completed.missed_ == 0.6
    assert np.isfinite(completed.objective_history_).all()


def test_few_instances_a_label_are_judged_one_by_one(spoiled, monkeypatch):
    bags, _, listed, _ = spoiled
    starts, rounds = [], ORedForest._rounds
    monkeypatch.setattr(ORedForest, "_rounds", lambda self, *args: starts.append(args[4]) or rounds(self, *args))
    monkeypatch.setattr(forest_module, "MANY", 50.0)
    ORedForest(5, n_rounds=1, n_round_trees=10, missed=0.5, random_state=0).fit(bags, listed)
    assert starts[0].completion is None


def test_completion_beside_background_known_instances_weights_and_false_labels(spoiled):
    bags, Y, listed, labels = spoiled
    rng = np.random.default_rng(0)
    told = Bags(np.where(rng.random(len(labels)) < 0.1, labels, -1), bags.offsets)
    weights = rng.integers(0, 3, len(bags)).astype(float)
    model = ORedForest(
        20, n_rounds=2, n_round_trees=20, missed=0.5, spurious="learn", background=True, random_state=0, n_jobs=2
    ).fit(bags, listed, instance_labels=told, sample_weight=weights)
    assert 0.0 < model.spurious_ < 0.2
    kept = weights > 0
    proba = model.annotate_proba(bags[kept], listed[kept])
    assert_allclose(proba.sum(axis=1) + model.background_proba(bags[kept], listed[kept]), 1.0, atol=1e-9)
    presence = model.label_posterior(bags, listed)
    assert presence[(listed == 0) & (Y == 1)].mean() > presence[(listed == 0) & (Y == 0)].mean() + 0.1


def test_bags_that_were_learned_from_are_judged_as_a_whole(spoiled, monkeypatch, tmp_path):
    bags, _, listed, labels = spoiled
    found, believed = [], Completion.believed
    monkeypatch.setattr(Completion, "believed", lambda *args: found.append(believed(*args)) or found[-1])
    model = ORedForest(10, n_rounds=2, n_round_trees=20, missed=0.5, random_state=0).fit(bags, listed)
    presence, (last,) = model.label_posterior(bags, listed), found
    by_instances = label_presence_of(model, bags, listed)
    unlisted = listed == 0
    assert_allclose(presence[unlisted], np.where(last >= 1e-4, last, 0.0)[unlisted], rtol=1e-6)
    assert_array_equal(presence[~unlisted], by_instances[~unlisted])
    order = np.random.default_rng(0).permutation(len(bags))[:30]
    assert_array_equal(model.label_posterior(bags[order], listed[order]), presence[order])
    new = Bags(bags.instances + 0.5, bags.offsets)  # never seen: by their instances, as without completion
    assert_array_equal(model.label_posterior(new, listed), label_presence_of(model, new, listed))
    told = np.full(len(labels), -1)
    b, c = np.argwhere(unlisted & listed.any(axis=1)[:, None])[0]
    rows = slice(bags.offsets[b], bags.offsets[b + 1])
    told[rows.start] = c
    after = model.label_posterior(bags, listed, Bags(told, bags.offsets))
    assert after[b, c] == pytest.approx(1.0)
    assert_array_equal(np.delete(after, b, axis=0), np.delete(presence, b, axis=0))
    own = np.flatnonzero(listed[b])
    told[rows] = own[np.arange(bags.sizes[b]) % len(own)]  # all of them are something else
    assert model.label_posterior(bags, listed, Bags(told, bags.offsets))[b, c] == pytest.approx(0.0, abs=1e-9)
    b, c = np.argwhere(~unlisted)[0]  # listed when it was learned from, and no more: nobody asked
    fewer = listed.copy()
    fewer[b, c] = 0
    assert model.label_posterior(bags, fewer)[b, c] == label_presence_of(model, bags, fewer)[b, c]
    save(model, tmp_path / "model.bagwise")
    assert_array_equal(load(tmp_path / "model.bagwise").label_posterior(bags, listed), presence)
    del model.missing_bags_
    with pytest.raises(InputError, match="not of which bags"):
        model._check_fitted()
    used = listed.any(axis=1)
    assert not hasattr(model.set_params(missed=0.0).fit(bags[used], listed[used]), "missing_labels_")


def test_where_sets_are_not_completed_unseen_instances_speak(spoiled, monkeypatch):
    bags, Y, listed, _ = spoiled
    monkeypatch.setattr(forest_module, "MANY", 50.0)
    found, rounds = [], ORedForest._rounds
    monkeypatch.setattr(ORedForest, "_rounds", lambda *args: found.append(rounds(*args)) or found[-1])
    model = ORedForest(30, n_rounds=4, n_round_trees=30, missed=0.5, random_state=0).fit(bags, listed)
    presence, unlisted = model.label_posterior(bags, listed), listed == 0
    for b, c in np.argwhere(unlisted)[:50]:
        rows = slice(bags.offsets[b], bags.offsets[b + 1])
        expected = 1.0 - np.prod(1.0 - found[0].posterior[rows, c])
        assert presence[b, c] == pytest.approx(expected if expected >= 1e-4 else 0.0, rel=1e-5)
    forgotten = (Y == 1)[unlisted]
    by_heart = average_precision_score(forgotten, label_presence_of(model, bags, listed)[unlisted])
    assert average_precision_score(forgotten, presence[unlisted]) > by_heart
    used = listed.any(axis=1)
    plain = ORedForest(5, n_rounds=1, spurious=0.1, random_state=0).fit(bags[used], listed[used])
    assert not hasattr(plain, "missing_labels_")


def label_presence_of(model, bags, listed):
    union = model.union_model()
    return union.presence(union.problem(bags.offsets, listed), model._prior(bags))


def test_whole_bags_rank_forgotten_labels_better_than_their_instances():
    gains = []
    for seed in range(4):
        bags, Y, listed, _ = chorus(seed)
        model = ORedForest(40, n_rounds=4, n_round_trees=40, missed=0.6, random_state=0).fit(bags, listed)
        unlisted, forgotten = listed == 0, (Y == 1)[listed == 0]
        by_bags = average_precision_score(forgotten, model.label_posterior(bags, listed)[unlisted])
        gains.append(by_bags - average_precision_score(forgotten, label_presence_of(model, bags, listed)[unlisted]))
    assert np.mean(gains) > 0.02


def test_calibrated_probabilities_are_of_labels_that_are_there(spoiled):
    bags, Y, listed, _ = spoiled
    forest = ORedForest(20, n_rounds=3, n_round_trees=30, missed=0.6, random_state=0)
    model = CalibratedAnnotator(forest).fit(bags, listed)
    assert listed.mean() < Y.mean() - 0.08
    assert model.predict_proba(bags).mean() == pytest.approx(Y.mean(), abs=0.05)
