"""Several observers of the same bags: rates, what is truly there, and the model that is fitted on it."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from bagwise import InputError, ORedLogisticRegression
from bagwise.annotation import MostFrequentAnnotator, learn_from_observers
from bagwise.annotation._observers import _fit_prior, _log_odds
from bagwise.datasets import make_gaussian_bags

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
    listed, looked = np.array([[[1, 0]], [[0, 0]], [[1, 1]]]), np.array([[True], [True], [False]])
    rates = {"missed": np.array([0.1, 0.3, 0.2]), "invented": np.array([0.05, 0.2, 0.1])}
    there = [[0.9 * 0.3, 0.1 * 0.3]]
    not_there = [[0.05 * 0.8, 0.95 * 0.8]]
    assert_allclose(_log_odds(listed, looked, rates), np.log(there) - np.log(not_there))


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


def test_a_learner_without_rates_is_refused(data):
    with pytest.raises(InputError, match="MostFrequentAnnotator has no rates of missed labels"):
        learn_from_observers(MostFrequentAnnotator(), data.bags, [data.Y.astype(float)])
