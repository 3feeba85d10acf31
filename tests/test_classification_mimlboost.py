"""MIMLBoost against a literal run of the algorithm and against votes and weights found by hand."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import minimize_scalar
from sklearn.svm import SVC
from sklearn.utils.estimator_checks import check_estimator

from bagwise import Bags
from bagwise.classification import MIMLBoost
from bagwise.classification import _mimlboost as mimlboost
from bagwise.classification._mimlboost import LARGEST_VOTE, _best_vote, _reweight
from bagwise.classification._shared import NEVER
from bagwise.core.exceptions import InputError, MemoryLimitError
from bagwise.datasets import make_gaussian_bags

TOL = 1e-8


@pytest.fixture(scope="module")
def data():
    return make_gaussian_bags(n_bags=30, n_features=3, n_classes=3, separation=1.5, random_state=0)


def literal_boosting(bags, Y, n_rounds, C, gamma, label_coding):
    """Table 1 of Zhou and Zhang (2007), one (bag, label) pair after the other; returns votes and a scoring function."""
    n, c = Y.shape
    weights = {(i, l): 1.0 / (n * c) for i in range(n) for l in range(c)}
    sign = {pair: 1.0 if Y[pair] else -1.0 for pair in weights}
    rounds = []
    mean_weight = 1.0 / (c * bags.n_instances)  # of an instance of a pair: all of them sum to one
    for _ in range(n_rounds):
        targets, instance_weights = [], []
        for l in range(c):
            targets.append(np.concatenate([[sign[i, l]] * len(bags[i]) for i in range(n)]))
            weight = np.concatenate([[weights[i, l] / len(bags[i])] * len(bags[i]) for i in range(n)])
            instance_weights.append(weight / mean_weight)
        if label_coding == "separate":
            machines = [
                SVC(C=C, gamma=gamma, tol=TOL).fit(bags.instances, targets[l], sample_weight=instance_weights[l])
                for l in range(c)
            ]
        else:
            pairs = np.concatenate([with_number(bags.instances, l, c) for l in range(c)])
            one = SVC(C=C, gamma=gamma, tol=TOL)
            one.fit(pairs, np.concatenate(targets), sample_weight=np.concatenate(instance_weights))
            machines = [one] * c

        def predict(bag, l, machines=machines):
            return machines[l].predict(bag if label_coding == "separate" else with_number(bag, l, c))

        errors = {(i, l): np.mean(predict(bags[i], l) != sign[i, l]) for i, l in weights}
        if all(e < 0.5 for e in errors.values()):
            break

        def loss(v, errors=errors, weights=weights):
            return sum(weights[pair] * np.exp((2 * errors[pair] - 1) * v) for pair in weights)

        vote = minimize_scalar(loss, bounds=(0, 10), method="bounded", options={"xatol": 1e-10}).x
        rounds.append((vote, predict))
        weights = {pair: w * np.exp((2 * errors[pair] - 1) * vote) for pair, w in weights.items()}
        total = sum(weights.values())
        weights = {pair: w / total for pair, w in weights.items()}

    def score(bag):
        return [sum(v * predict(bag, l).mean() for v, predict in rounds) for l in range(c)]

    return np.array([v for v, _ in rounds]), score


def with_number(instances, l, n_labels):
    return np.column_stack([instances, np.full(len(instances), l / (n_labels - 1))])


@pytest.mark.parametrize("label_coding", ["separate", "feature"])
def test_a_literal_run(data, label_coding, monkeypatch):
    monkeypatch.setattr(mimlboost, "TOLERANCE", TOL)  # at its own, instances on the border fall on either side
    model = MIMLBoost(n_rounds=4, C=1.0, gamma=0.3, label_coding=label_coding).fit(data.bags, data.Y)
    votes, score = literal_boosting(data.bags, data.Y, 4, 1.0, 0.3, label_coding)
    assert model.n_iter_ == len(votes) == 4
    assert_allclose(model.votes_, votes, atol=1e-4)
    test = make_gaussian_bags(n_bags=15, n_features=3, n_classes=3, random_state=1).bags
    assert_allclose(model.decision_function(test), [score(bag) for bag in test], atol=1e-3)


def test_vote_and_weights_by_hand():
    # two pairs, one right throughout (e = 0), one wrong throughout (e = 1): AdaBoost's vote, 1/2 log((1 - w) / w)
    weights = np.array([[0.8, 0.2]])
    errors = np.array([[0.0, 1.0]])
    vote = _best_vote(weights, errors)
    assert_allclose(vote, 0.5 * np.log(4.0), rtol=1e-9)
    again = _reweight(weights, errors, vote)
    assert_allclose(again / again.sum(), [[0.5, 0.5]], rtol=1e-9)  # AdaBoost's: the learner is now at chance
    assert_allclose(again.sum(), 2.0 * np.sqrt(0.8 * 0.2), rtol=1e-9)  # and its bound of the loss
    # e = 1/4 and 3/4: 2 e - 1 = -+1/2, so the vote doubles
    assert_allclose(_best_vote(weights, np.array([[0.25, 0.75]])), np.log(4.0), rtol=1e-9)
    assert _best_vote(weights, np.array([[1.0, 0.0]])) == 0.0  # worse than chance
    assert _best_vote(weights, np.array([[0.0, 0.0]])) == LARGEST_VOTE


@pytest.mark.parametrize("seed", range(5))
def test_vote_minimises_the_exponential_loss(seed):
    rng = np.random.default_rng(seed)
    weights = rng.random((6, 3))
    weights /= weights.sum()
    errors = rng.integers(0, 5, (6, 3)) / 4 * 0.8
    vote = _best_vote(weights, errors)
    grid = np.linspace(0, LARGEST_VOTE, 5001)
    losses = [(weights * np.exp((2 * errors - 1) * v)).sum() for v in grid]
    assert (weights * np.exp((2 * errors - 1) * vote)).sum() <= min(losses) + 1e-12


def test_training_loss_falls_with_every_round(data):
    """The weighted exponential loss bounds the share of the pairs that are wrong; a round never raises it."""
    signs = 2.0 * data.Y - 1.0
    losses = []
    for n_rounds in range(1, 9):
        model = MIMLBoost(n_rounds=n_rounds, gamma=0.3).fit(data.bags, data.Y)
        losses.append(np.exp(-signs * model.decision_function(data.bags)).mean())
    assert np.diff(losses).max() <= 1e-10
    assert losses[-1] < losses[0]


def test_a_perfect_first_round_is_kept():
    X = np.array([[0.0], [0.1], [5.0], [5.1]])
    Y = np.array([[1, 0], [1, 0], [0, 1], [0, 1]])
    model = MIMLBoost(C=100.0).fit(X, Y)
    assert model.n_iter_ == 1
    assert model.votes_.tolist() == [1.0]
    assert_array_equal(model.predict(X), Y)


@pytest.mark.parametrize(
    ("parameters", "match"),
    [
        ({"n_rounds": 0}, "The 'n_rounds' parameter of MIMLBoost must be a whole number, 1 or more. Got 0"),
        ({"n_rounds": 2.5}, "The 'n_rounds' parameter of MIMLBoost must be a whole number, 1 or more"),
        ({"C": 0}, "The 'C' parameter of MIMLBoost must be a positive number"),
        ({"label_coding": "number"}, "label_coding='number' is not known; use one of 'separate', 'feature'"),
        ({"gamma": -0.1}, "The 'gamma' parameter of MIMLBoost must be a positive number"),
    ],
)
def test_bad_parameters(data, parameters, match):
    with pytest.raises(InputError, match=match):
        MIMLBoost(**parameters).fit(data.bags, data.Y)


def test_classes_without_a_second_side(data):
    with pytest.raises(InputError, match="MIMLBoost needs bags that differ in their labels"):
        MIMLBoost().fit(data.bags, np.ones((len(data), 1)))
    Y = np.column_stack([data.Y[:, 0], np.zeros(len(data)), np.ones(len(data))])
    model = MIMLBoost(n_rounds=2).fit(data.bags, Y)
    assert_array_equal(model.decision_function(data.bags)[:, 1:], np.tile([NEVER, 1.0], (len(data), 1)))
    constant = MIMLBoost(n_rounds=2).fit(data.bags, Y[:, 1:])
    assert_array_equal(constant.predict(data.bags), np.tile([0, 1], (len(data), 1)))


def test_a_kernel_that_does_not_fit(data, monkeypatch):
    monkeypatch.setenv("BAGWISE_MEMORY_LIMIT", "1000")
    with pytest.raises(MemoryLimitError, match="MIMLBoost's kernel of .* instances and its 25 rounds"):
        MIMLBoost().fit(data.bags, data.Y)


def test_all_input_forms_and_class_names():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20, 3, 4))
    Y = (rng.random((20, 3)) < 0.4).astype(int)
    Y[:2] = [[1, 1, 1], [0, 0, 1]]
    reference = MIMLBoost(n_rounds=3).fit(X, Y).decision_function(X)
    joint = MIMLBoost(n_rounds=3, label_coding="feature")
    joint_reference = joint.fit(X, Y).decision_function(X)
    sparse = [sp.csr_matrix(x) for x in X]
    assert_allclose(joint.fit(sparse, Y).decision_function(sparse), joint_reference, atol=1e-6)
    names = np.array(["ant", "bee", "cat"])
    for form in (Bags.from_list(list(X)), list(X), [sp.csr_matrix(x) for x in X]):
        model = MIMLBoost(n_rounds=3, n_jobs=2).fit(form, [set(names[row == 1]) for row in Y])
        assert model.classes_.tolist() == names.tolist()
        assert_allclose(model.decision_function(form), reference, atol=1e-6)
    assert set(MIMLBoost(n_rounds=3).fit(X, names[Y.argmax(axis=1)]).predict(X)) <= set(names)
    bag = X[0]
    same = MIMLBoost(n_rounds=3).fit([bag] * 8, np.array([[1, 0], [0, 1]] * 4))  # identical bags
    assert np.isfinite(same.decision_function([bag])).all()


def test_check_estimator():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the checks feed degenerate data on purpose
        results = check_estimator(MIMLBoost(n_rounds=3), on_fail=None, on_skip=None)
    failed = [f"{r['check_name']}: {r['exception']}" for r in results if r["status"] == "failed"]
    assert len(results) > 40
    assert not failed, "\n".join(failed)
