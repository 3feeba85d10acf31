"""A learned rate of missed labels, judged by held-out bags."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.metrics import average_precision_score
from sklearn.model_selection import KFold

from bagwise import Bags, ORedLogisticRegression
from bagwise.annotation import ORedForest, _forest_anchor
from bagwise.annotation import forest as forest_module
from bagwise.annotation._forest_anchor import (
    TREES,
    Anchor,
    KernelJudge,
    Opinion,
    as_of_labels,
    find_missed,
    missed_labels,
    ranking_of_sets,
)
from bagwise.annotation.rates import RateParameters, learn_rates, missed_is_useful
from bagwise.datasets import make_gaussian_bags
from bagwise.union import LabelledBags, UnionProblem


def unjudged(**parameters):
    model = ORedLogisticRegression(**parameters)
    model._is_judge = True
    return model


def two_clusters_a_class(seed):
    """Right labels of many instances that no linear model tells apart: the likelihood calls most of them unnoticed."""
    data = make_gaussian_bags(
        n_bags=120, n_features=3, n_classes=8, instances_per_bag=(8, 16), separation=6.0, random_state=seed
    )
    labels = data.instance_labels.instances % 4
    Y = np.zeros((len(data), 4), np.uint8)
    Y[data.bags.bag_index, labels] = 1
    return data.bags, Y


def half_dropped(seed):
    data = make_gaussian_bags(n_bags=120, n_features=5, n_classes=5, separation=5.0, random_state=seed)
    rng = np.random.default_rng(seed)
    Y = np.zeros_like(data.Y)
    seen = rng.random(data.bags.n_instances) < 0.5
    Y[data.bags.bag_index[seen], data.instance_labels.instances[seen]] = 1
    return data, Y


def precisions(bags, Y, missed):
    """Average precision of the listed labels of each of three folds, written out."""
    found = []
    for train, test in KFold(3, shuffle=True, random_state=0).split(Y):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = unjudged(missed=missed).fit(bags[train], Y[train])
        scores = []
        for b in test:
            proba = model.predict_instances_proba(bags[[b]])
            scores.append(1 - np.prod(1 - (1 - model.missed_) * proba, axis=0))
        found.append(average_precision_score(Y[test].ravel(), np.ravel(scores)))
    return np.array(found)


@pytest.mark.parametrize("seed", range(4))
def test_a_rate_that_all_held_out_bags_speak_against_is_not_kept(seed):
    bags, Y = two_clusters_a_class(seed)
    free = unjudged(missed="learn").fit(bags, Y)
    assert free.missed_ > 0.6  # though no label is missing
    pays = np.any(precisions(bags, Y, "learn") > precisions(bags, Y, 0.0))
    judged = ORedLogisticRegression(missed="learn").fit(bags, Y)
    expected = free if pays else ORedLogisticRegression().fit(bags, Y)
    assert judged.missed_ == expected.missed_
    assert_array_equal(judged.coef_, expected.coef_)


def test_such_rates_are_kept_and_not_kept():
    kept = [
        missed_is_useful(ORedLogisticRegression(missed="learn"), *two_clusters_a_class(seed), None) for seed in range(6)
    ]
    assert 0 < np.mean(kept) < 1


@pytest.mark.parametrize("seed", range(4))
def test_a_rate_that_held_out_bags_bear_out_is_kept(seed):
    data, Y = half_dropped(seed)
    judged = ORedLogisticRegression(missed="learn").fit(data.bags, Y)
    free = unjudged(missed="learn").fit(data.bags, Y)
    assert judged.missed_ == free.missed_ > 0.3
    assert_array_equal(judged.coef_, free.coef_)


def test_the_spurious_rate_is_learned_either_way():
    bags, Y = two_clusters_a_class(3)
    judged = ORedLogisticRegression(missed="learn", spurious="learn").fit(bags, Y)
    alone = ORedLogisticRegression(missed=0.0, spurious="learn").fit(bags, Y)
    assert judged.missed_ == 0.0
    assert judged.spurious_ == alone.spurious_ > 0.0


def test_known_instances_and_bags_that_only_missed_labels_explain():
    data, Y = half_dropped(1)
    known = np.where(np.arange(data.bags.n_instances) % 5 == 0, data.instance_labels.instances, -1)
    values = Bags(known, data.bags.offsets)  # some of labels that are not listed: without missed ones an error
    model = ORedLogisticRegression(missed="learn").fit(data.bags, Y, instance_labels=values)
    assert model.missed_ > 0.3
    strict = ORedLogisticRegression(missed="learn", on_infeasible="error").fit(data.bags, Y)  # some sets are empty
    assert strict.missed_ > 0.3


def test_few_labels_are_no_judges():
    data, Y = half_dropped(0)
    few = np.flatnonzero(Y.any(axis=1))[:8]
    free, judged = unjudged(missed="learn"), ORedLogisticRegression(missed="learn")
    assert judged.fit(data.bags[few], Y[few]).missed_ == free.fit(data.bags[few], Y[few]).missed_ > 0.0


@pytest.mark.parametrize("power", [0.5, 1.0, 2.0])
def test_rates_and_the_power_of_probabilities_are_found_together(power):
    rng = np.random.default_rng(0)
    proba = rng.dirichlet(np.full(5, 0.3), 8000) + 1e-9
    proba /= proba.sum(axis=1, keepdims=True)
    labels = (proba.cumsum(axis=1) > rng.random((8000, 1))).argmax(axis=1)
    seen, Y = rng.random(8000) >= 0.3, np.zeros((2000, 5), np.uint8)
    Y[np.arange(8000)[seen] // 4, labels[seen]] = 1
    Y[rng.random(Y.shape) < 0.05] = 1
    told = proba ** (1.0 / power)
    told /= told.sum(axis=1, keepdims=True)
    parameters = RateParameters.of("learn", "learn", 5)
    problem = UnionProblem.build(np.arange(0, 8001, 4), Y)
    logits, _, sharpened = learn_rates(parameters, problem, told, parameters.start({}))
    missed, spurious = parameters.values(logits).values()
    assert abs(missed - 0.3) < 0.02
    assert abs(spurious - 0.05) < 0.02
    assert np.abs(sharpened - proba).mean() < 0.01


def small_forest(**parameters):
    return ORedForest(30, n_rounds=3, n_round_trees=30, random_state=0, **parameters)


@pytest.mark.parametrize("seed", range(2))
def test_a_forest_finds_the_rate_at_which_labels_went_missing(seed):
    data, Y = half_dropped(seed)
    assert abs(small_forest(missed="learn").fit(data.bags, Y).missed_ - 0.5) < 0.15


@pytest.mark.parametrize("background", [False, True])
def test_the_opinion_on_a_bag_knows_nothing_of_its_labels(background):
    data, Y = half_dropped(1)
    forest = small_forest(missed=0.3, background=background)
    before = KernelJudge(forest, data.bags, LabelledBags.of(data.bags.offsets, Y), background).opinion(0.3).proba
    assert before.shape == (data.bags.n_instances, 5 + background)
    changed = Y.copy()
    changed[7] = 1 - changed[7]
    after = KernelJudge(forest, data.bags, LabelledBags.of(data.bags.offsets, changed), background).opinion(0.3).proba
    own = data.bags.bag_index == 7
    assert_array_equal(after[own], before[own])
    assert not np.array_equal(after, before)
    assert np.allclose(before.sum(axis=1), 1.0)


def test_how_label_sets_are_ranked():
    proba = np.array([[0.9, 0.1], [0.5, 0.5], [0.2, 0.8]])
    bags = Bags(np.zeros((3, 1)), np.array([0, 2, 3]))
    Y = np.array([[1, 0], [0, 1]])
    carried = np.array([1 - 0.1 * 0.5, 1 - 0.9 * 0.5, 0.2, 0.8])
    assert ranking_of_sets(proba, bags, Y) == average_precision_score(Y.ravel(), carried)


def overlapping_bags(seed, n_classes=8, n_bags=120):
    """Bags with some five instances a label, of classes that overlap; a fifth of the labels is dropped."""
    rng = np.random.default_rng(seed)
    centers, Y = rng.normal(0.0, 1.4, (n_classes, 6)), np.zeros((n_bags, n_classes), np.uint8)
    bags, labels = [], []
    for b in range(n_bags):
        listed = rng.choice(n_classes, rng.integers(1, 4), replace=False)
        labels.append(np.repeat(listed, rng.geometric(0.2, len(listed))))
        bags.append(centers[labels[-1]] + rng.normal(size=(len(labels[-1]), 6)))
        Y[b, listed] = 1
    return bags, np.where(rng.random(Y.shape) < 0.2, 0, Y), np.concatenate(labels)


@pytest.mark.parametrize(
    ("learned", "precisions", "without", "chosen"),
    [
        (0.4, [0.7, 0.7, 0.7], [0.9, 0.6, 0.9], 0.4),  # not every fold speaks against it
        (0.4, [0.7, 0.7, 0.7], [0.8, 0.8, 0.8], 0.0),
        (0.04, [0.7, 0.7, 0.7], [0.8, 0.8, 0.8], 0.04),  # too small to be of consequence, and not judged
    ],
)
def test_held_out_bags_decide_whether_there_is_a_rate(learned, precisions, without, chosen, monkeypatch):
    proba = np.full((1, 5), 0.2)
    monkeypatch.setattr(KernelJudge, "opinion", lambda self, missed: Opinion(proba, precisions))
    monkeypatch.setattr(_forest_anchor, "learn_rates", lambda *args: (None, None))
    monkeypatch.setattr(RateParameters, "mean_missed", lambda *args: learned)
    monkeypatch.setattr("bagwise.annotation.rates._held_out_precisions", lambda *args: without)
    data, Y = half_dropped(0)
    forest, parameters = small_forest(missed="learn"), RateParameters.of("learn", 0.0, 5)
    forest.background_ = False  # as its fit finds before it asks
    found, said = find_missed(forest, parameters, data.bags, LabelledBags.of(data.bags.offsets, Y))
    assert found.chosen["missed"] == chosen
    assert said is (proba if chosen == 0.4 else None)  # what was said at the rate that is taken


@pytest.mark.parametrize("rate", [0.1, 0.6])
def test_the_share_of_labels_of_which_nothing_is_noticed(rate):
    """Against all that may go unnoticed, drawn many times."""
    rng = np.random.default_rng(0)
    bags = Bags(np.zeros((9, 1)), np.array([0, 2, 3, 9]))
    posterior, weights = rng.dirichlet(np.full(4, 0.5), 9), np.array([1.0, 2.0, 0.5])
    n_drawn, carried, missed = 20_000, 0.0, 0.0
    labels = (posterior.cumsum(axis=1)[None] > rng.random((n_drawn, 9, 1))).argmax(axis=2)
    noticed = rng.random((n_drawn, 9)) >= rate
    for c in range(4):
        there = np.maximum.reduceat(labels == c, bags.offsets[:-1], axis=1)
        seen = np.maximum.reduceat((labels == c) & noticed, bags.offsets[:-1], axis=1)
        carried += (there @ weights).sum()
        missed += ((there & ~seen) @ weights).sum()
    same = np.full(4, rate)
    assert missed_labels(same, posterior, bags, weights) == pytest.approx(missed / carried, rel=0.02)
    certain = np.eye(3)[[0, 0, 1, 2, 2, 2, 2, 2, 2]]
    expected = (1.0 * rate**2 + 2.0 * 0.3 + 0.5 * rate**6) / 3.5
    assert missed_labels(np.array([rate, 0.3, rate]), certain, bags, weights) == pytest.approx(expected)


def test_rates_of_labels_are_those_of_instances_where_each_has_one():
    bags, weights = Bags(np.zeros((4, 1)), np.array([0, 2, 4])), np.ones(2)
    parameters = RateParameters.of([0.2, 0.4], 0.0, 2)
    alone, together = np.eye(2)[[0, 1, 1, 0]], np.eye(2)[[0, 0, 1, 1]]
    np.testing.assert_allclose(as_of_labels(parameters, alone, bags, weights).given["missed"], [0.2, 0.4])
    fewer = np.array([0.2, 0.4]) * (0.2**2 + 0.4**2) / (0.2 + 0.4)
    np.testing.assert_allclose(as_of_labels(parameters, together, bags, weights).given["missed"], fewer)


def test_trees_are_taught_by_rates_of_labels(monkeypatch):
    monkeypatch.setattr(forest_module, "MANY", np.inf)  # instances go unnoticed one by one
    bags, Y, labels = overlapping_bags(0)
    starts, rounds = [], ORedForest._rounds
    monkeypatch.setattr(ORedForest, "_rounds", lambda self, *args: starts.append(args[4]) or rounds(self, *args))
    assert small_forest(missed=0.55).fit(bags, Y).missed_ == 0.55
    bag_of_rows = np.repeat(np.arange(len(bags)), [len(bag) for bag in bags])
    counts = np.unique(bag_of_rows * 8 + labels, return_counts=True)[1]
    (taught,) = set(starts[0].parameters.given["missed"])
    assert np.mean(0.55**counts) < taught < 0.4  # instances that are mistaken for another label stand alone more often


def test_a_chosen_rate_next_to_its_bound_is_told(monkeypatch):
    data, Y = half_dropped(0)
    monkeypatch.setattr(RateParameters, "mean_missed", lambda *args: 0.9)
    with pytest.warns(UserWarning, match=r"missed ran to 0\.900"):
        model = small_forest(missed="learn").fit(data.bags, Y)
    assert model.missed_ == 0.9


@pytest.mark.parametrize("seed", range(3))
def test_trees_that_reckon_with_missed_labels_do_not_teach_themselves(seed, monkeypatch):
    bags, Y, labels = overlapping_bags(seed)
    forest = ORedForest(50, n_rounds=8, n_round_trees=40, missed=0.7, random_state=0)
    held = np.mean(forest.fit(bags, Y).predict_instances(bags) == labels)
    monkeypatch.setattr("bagwise.annotation.forest.enough_to_judge", lambda indicator: False)
    free = np.mean(forest.fit(bags, Y).predict_instances(bags) == labels)
    assert held > free + 0.01


def test_trees_are_held_in_the_share_that_ranks_label_sets_best():
    rng = np.random.default_rng(0)
    bags, Y, _ = overlapping_bags(0)
    bags = Bags.from_list(bags)
    right = np.where(Y[bags.bag_index] == 1, 0.9, 0.1)
    wrong = rng.random(right.shape)
    assert_array_equal(Anchor(wrong, bags, Y).hold(right), right)  # trees that are right need no other opinion
    assert_array_equal(Anchor(right, bags, Y).hold(right.copy()), right)
    held = Anchor(right, bags, Y).hold(wrong)
    of_trees = np.unique(np.round((held - right) / (wrong - right), 6))
    assert of_trees == min(TREES)


def test_a_forest_with_rates_is_calibrated_by_what_its_trees_say(monkeypatch):
    bags, Y, _ = overlapping_bags(0)
    said = []
    out_of_bag = ORedForest._out_of_bag
    monkeypatch.setattr(ORedForest, "_out_of_bag", lambda *args: said.append(out_of_bag(*args)) or said[-1])
    held = ORedForest(10, n_rounds=2, n_round_trees=20, missed=0.5, random_state=0).fit_held_out(bags, Y)
    assert_array_equal(held.log_proba, np.log(said[-1]))  # to no power, and nothing mixed into it


@pytest.mark.parametrize(("name", "many"), [("hold", np.inf), ("halve", 2.0)])
@pytest.mark.parametrize(("missed", "held"), [(0.0, False), (0.02, False), (0.3, True), ([0.0, 0.5] * 4, True)])
def test_trees_are_held_where_many_labels_may_be_missed(missed, held, name, many, monkeypatch):
    bags, Y, _ = overlapping_bags(0)
    calls, guesses = [], []
    hold = getattr(Anchor, name)
    monkeypatch.setattr(forest_module, "MANY", many)
    opinion = KernelJudge.opinion
    monkeypatch.setattr(KernelJudge, "opinion", lambda *args: guesses.append(1) or opinion(*args))
    monkeypatch.setattr(Anchor, name, lambda self, shares: calls.append(1) or hold(self, shares))
    listed = Y.any(axis=1)
    bags, Y = [bag for bag, some in zip(bags, listed, strict=True) if some], Y[listed]
    ORedForest(5, n_rounds=2, n_round_trees=10, missed=missed, spurious=0.01, random_state=0).fit(bags, Y)
    assert len(calls) == (2 if held else 0)
    assert len(guesses) == held  # a rate that is given decides without a kernel model


@pytest.mark.parametrize("weighted", [False, True])
def test_a_learned_rate_starts_from_what_was_said_when_it_was_judged(weighted, monkeypatch):
    """No fit is made twice, and the rounds start from what was said when the rate was learned."""
    data, Y = half_dropped(1)
    weights = {"sample_weight": np.arange(len(Y)) % 3} if weighted else {}
    said, starts, opinion, start = [], [], KernelJudge.opinion, ORedForest._start

    def heard(self, missed):
        said.append((missed, opinion(self, missed)))
        return said[-1][1]

    monkeypatch.setattr(KernelJudge, "opinion", heard)
    monkeypatch.setattr(ORedForest, "_start", lambda *args: starts.append(start(*args)) or starts[-1])
    learned = small_forest(missed="learn").fit(data.bags, Y, **weights)
    ((missed, once),) = said
    assert missed == "learn"
    kept = starts[0].anchor.smooth  # of the same bags, in an order of the forest's
    assert_array_equal(np.sort(kept, axis=0), np.sort(once.proba, axis=0))
    assert learned.missed_ > 0.05


def test_a_rate_of_false_labels_alone_sharpens_nothing(monkeypatch):
    bags, Y, _ = overlapping_bags(0)
    listed = Y.any(axis=1)
    bags, Y = [bag for bag, some in zip(bags, listed, strict=True) if some], Y[listed]
    monkeypatch.setattr(
        "bagwise.annotation.forest.learn_rates",
        lambda parameters, problem, proba, logits, weights: (logits, 1.0, np.full_like(proba, np.nan)),
    )
    forest = ORedForest(5, n_rounds=2, n_round_trees=10, spurious="learn", random_state=0).fit(bags, Y)
    assert np.isfinite(forest.objective_history_).all()
