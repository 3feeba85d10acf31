"""Several observers of the same bags: rates, what is truly there, and the model that is fitted on it."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.preprocessing import StandardScaler

from bagwise import Absent, Certain, InputError, OneOf, ORedLogisticRegression, Possible
from bagwise.annotation import (
    MostFrequentAnnotator,
    NoisyOrLogisticRegression,
    ORedForest,
    learn_from_observers,
    observer_log_odds,
)
from bagwise.annotation._observers import _encode, _fit_prior
from bagwise.datasets import make_gaussian_bags
from bagwise.pipeline import make_pipeline
from bagwise.preprocessing import PerInstance

MISSED, INVENTED = (0.05, 0.2, 0.4), (0.05, 0.1, 0.2)


def observed(Y, rng, missed=MISSED, invented=INVENTED):
    """What observers of these rates list of the true labels."""
    return [
        np.where(Y == 1, rng.random(Y.shape) >= m, rng.random(Y.shape) < v).astype(float)
        for m, v in zip(missed, invented, strict=True)
    ]


@pytest.fixture(scope="module")
def data():
    return make_gaussian_bags(n_bags=300, separation=4.0, random_state=0)


@pytest.mark.parametrize("rates", [(MISSED, INVENTED), ((0.3, 0.3, 0.3), (0.05, 0.05, 0.05))], ids=["unlike", "alike"])
@pytest.mark.parametrize("seed", range(3))
def test_rates_and_labels_of_made_observers_are_found(data, seed, rates):
    lists = observed(data.Y, np.random.default_rng(seed), *rates)
    found = learn_from_observers(ORedLogisticRegression(), data.bags, lists)
    assert_allclose(found.missed, [np.mean(one[data.Y == 1] == 0) for one in lists], atol=0.05)
    assert_allclose(found.invented, [np.mean(one[data.Y == 0] == 1) for one in lists], atol=0.05)

    def wrong(labels):
        return float(np.mean(labels != data.Y))

    ours = wrong(found.presence > 0.5)
    assert ours < min(wrong(one) for one in lists)
    assert ours < wrong(np.mean(lists, axis=0) > 0.5)
    truth = data.instance_labels.instances
    most = (np.mean(lists, axis=0) > 0.5).astype(int)
    majority = ORedLogisticRegression(on_infeasible="relax", missed=0.1).fit(data.bags, most)
    assert np.mean(found.model.predict_instances(data.bags) == truth) > 0.97 * np.mean(
        majority.predict_instances(data.bags) == truth
    )


def test_names_and_bags_that_somebody_did_not_look_at(data):
    rng = np.random.default_rng(0)
    names = np.array(list("edcba"))
    lists = [[set(names[row == 1]) for row in one] for one in observed(data.Y, rng)]
    for one in lists[1:]:
        for i in rng.choice(len(one), 100, replace=False):
            one[i] = None
    for one in lists:
        one[7] = None  # nobody looked at this bag
    found = learn_from_observers(ORedLogisticRegression(), data.bags, lists)
    assert found.model.classes_.tolist() == list("abcde")
    assert found.presence.shape == data.Y.shape
    assert np.isnan(found.evidence.values[7]).all()
    assert_allclose(found.missed, MISSED, atol=0.08)
    labels = found.model.annotate(data.bags, found.evidence)
    assert set(labels) <= {*"abcde", None}  # None where nobody listed anything


def test_what_all_say_is_the_product_of_what_each_says():
    nothing = [np.nan, np.nan, np.nan, np.nan]
    said = _encode((np.array([own]) for own in ([1.0, 0.0, 0.7, 0.0], [0.0, np.nan, 0.0, 0.0], nothing)), 1, None)
    rates = {"missed": np.array([0.1, 0.3, 0.2]), "invented": np.array([0.05, 0.2, 0.1])}
    there = [[0.9 * 0.3, 0.1, 0.7 * 0.3, 0.1 * 0.3]]
    not_there = [[0.05 * 0.8, 0.95, 0.3 * 0.8, 0.95 * 0.8]]
    assert_allclose(said.log_odds(rates), np.log(there) - np.log(not_there))
    assert_allclose(said.unnoticed(rates), 0.1 * 0.3)
    w1, w0 = np.array(there), np.array(not_there)
    assert_allclose(said.evidence(rates).values[:, :3], (w1 / (w1 + w0))[:, :3])
    assert said.evidence(rates).values[0, 3] == 0.0  # nobody lists it, nor calls it possible
    settled = said.evidence(rates, np.array([[0.995, 0.005, 0.5, 0.999]]))
    assert_allclose(settled.values, [[1.0, 0.0, (w1 / (w1 + w0))[0, 2], 0.0]])


def test_rates_by_hand_are_what_an_observer_says():
    assert_allclose(observer_log_odds([1.0, 0.0], 0.2, 0.05), [np.log(0.8 / 0.05), np.log(0.2 / 0.95)])
    assert_allclose(observer_log_odds([np.inf, -np.inf], 0.2, 0.05), observer_log_odds([1.0, 0.0], 0.2, 0.05))
    assert_allclose(observer_log_odds([np.nan, 0.5, 0.9]), [0.0, 0.0, np.log(9.0)], atol=1e-12)


def test_marks_in_lists_say_less_or_more_than_a_list():
    lists = [[{"a", Possible("b")}, {Certain("c"), Absent("a")}], [{OneOf("a", "b"), "c"}, None]]
    said = _encode(lists, 2, None)
    assert said.classes == ["a", "b", "c"]
    assert_allclose(said.values[0][1], [[1, np.nan, 0], [-np.inf, 0, np.inf]])
    assert said.values[1][0].tolist() == [0]
    evidence = said.evidence({"missed": np.array([0.2, 0.2]), "invented": np.array([0.05, 0.05])})
    assert evidence.columns == ["a", "b", "c"]
    assert evidence.groups.tolist() == [((0, 1),), ()]
    assert evidence.values[1, 0] == 0.0  # "absent" is as good as who says it
    bags = [np.eye(2), np.eye(2)]
    certain = np.full((2, 3), np.nan)
    certain[0, :2] = -np.inf  # against all that the group says
    found = learn_from_observers(ORedLogisticRegression(), bags, lists, certain=certain, refit=False)
    assert found.model is None
    assert found.presence[0, 0] == found.presence[0, 1] == 0.0
    assert found.evidence.groups is None


def test_what_is_certain_shows_who_is_wrong(data):
    """Two who agree on inventions outvote the third, until somebody says what is there."""
    rng = np.random.default_rng(0)
    copied = observed(data.Y, rng, (0.3,), (0.15,))[0]
    good = observed(data.Y, rng, (0.1,), (0.02,))[0]
    certain = np.where(data.Y == 1, np.inf, -np.inf)
    certain[150:] = np.nan
    found = learn_from_observers(ORedLogisticRegression(), data.bags, [copied, copied, good], certain=certain)
    assert_allclose(found.presence[:150], data.Y[:150])
    assert_allclose(found.missed, [0.3, 0.3, 0.1], atol=0.06)
    assert_allclose(found.invented, [0.15, 0.15, 0.02], atol=0.06)


@pytest.mark.parametrize(
    "estimator",
    [NoisyOrLogisticRegression(), ORedForest(n_estimators=20, n_rounds=2, n_round_trees=10, background=True)],
    ids=["noisy-or", "forest"],
)  # fmt: skip
def test_other_learners_and_pipelines_learn_from_observers(data, estimator):
    lists = observed(data.Y, np.random.default_rng(0))
    model = make_pipeline(PerInstance(StandardScaler()), estimator)
    found = learn_from_observers(model, data.bags, lists)
    assert_allclose(found.missed, MISSED, atol=0.06)
    assert_allclose(found.invented, INVENTED, atol=0.06)
    assert np.mean((found.presence > 0.5) != data.Y) < min(np.mean(one != data.Y) for one in lists)
    assert found.model.annotate(data.bags, found.evidence).shape == (data.bags.n_instances,)


def test_the_prior_of_labels_is_the_most_likely():
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(4000, 3))
    truth = np.array([-1.0, 0.5, 2.0]), 1.5
    presence = 1.0 / (1.0 + np.exp(-(truth[0] + truth[1] * scores)))
    assert_allclose(_fit_prior(np.zeros(4), scores, presence), [*truth[0], truth[1]], atol=1e-3)


@pytest.mark.parametrize(
    ("lists", "message"),
    [([], "no lists"), ([[{"a"}], [{"a"}, {"b"}]], "Observer 0 has 1 lists but X has 2 bags")],
)
def test_lists_that_do_not_fit_are_named(lists, message):
    with pytest.raises(InputError, match=message):
        learn_from_observers(ORedLogisticRegression(), np.eye(2), lists)


def test_what_is_certain_has_a_row_per_bag():
    with pytest.raises(InputError, match=r"certain has shape \(2,\); expected \(2, 1\)"):
        learn_from_observers(ORedLogisticRegression(), np.eye(2), [[{"a"}, {"a"}]], certain=np.zeros(2))


def test_a_learner_of_plain_lists_is_refused(data):
    with pytest.raises(InputError, match="MostFrequentAnnotator takes plain lists of labels alone"):
        learn_from_observers(MostFrequentAnnotator(), data.bags, [data.Y.astype(float)])
