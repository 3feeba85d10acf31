"""The order of questions: against enumeration, and what must hold of any order."""

from itertools import product

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.preprocessing import StandardScaler

from bagwise import Bags, ORedLogisticRegression, make_pipeline
from bagwise.annotation import (
    CLPL,
    NoisyOrLogisticRegression,
    ORedForest,
    SupportInstanceMachine,
    _query,
    query_order,
)
from bagwise.annotation._query import class_entropy, information_in_bags
from bagwise.annotation._query_sets import binary_entropy, information_of_sets
from bagwise.classification import MIMLSVM
from bagwise.core.bags import KNOWN_BACKGROUND
from bagwise.core.exceptions import InputError
from bagwise.datasets import make_gaussian_bags
from bagwise.preprocessing import PerInstance


@pytest.fixture(scope="module")
def data():
    return make_gaussian_bags(
        n_bags=120, n_features=5, n_classes=4, separation=2.5, background_share=0.2, random_state=3
    )


@pytest.fixture(scope="module")
def model(data):
    return ORedLogisticRegression(background=True, background_share=0.2).fit(data.bags, data.Y)


def entropy_of_class(table):
    """H(class | noise or not) of a dict of weights by value, "noise" among them."""
    total = sum(table.values())
    classes = {value: weight / total for value, weight in table.items() if value != "noise" and weight > 0}
    mass = sum(classes.values())
    return -sum(weight * np.log(weight / mass) for weight in classes.values())


def enumerate_information(prior, labels, n_classes, known, i):
    """Sum over the others of the fall of entropy that the answer about `i` brings, by listing all assignments."""
    n, width = prior.shape
    weights = {}
    for values in product(range(width), repeat=n):
        named = {value for value in values if value < n_classes}
        if named != labels or any(known[j] >= 0 and values[j] != known[j] for j in range(n)):
            continue
        weights[values] = np.prod(prior[np.arange(n), values])
    total = sum(weights.values())

    def entropy(j, given):
        table = {}
        for values, weight in weights.items():
            if given is None or values[i] == given:
                key = "noise" if values[j] == n_classes else values[j]
                table[key] = table.get(key, 0.0) + weight
        return entropy_of_class(table)

    result = 0.0
    for j in set(range(n)) - {i}:
        result += entropy(j, None)
        for answer in range(width):
            share = sum(weight for values, weight in weights.items() if values[i] == answer) / total
            if share > 0:
                result -= share * entropy(j, answer)
    return result


@pytest.mark.parametrize("background", [False, True])
@pytest.mark.parametrize("seed", range(12))
def test_information_in_bags_is_that_of_enumeration(seed, background, monkeypatch):
    monkeypatch.setattr(_query, "NEGLIGIBLE", 0.0)
    rng = np.random.default_rng(seed)
    sizes, n_classes = rng.integers(2, 5, 3), 3
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    m = offsets[-1]
    prior = rng.dirichlet(np.full(n_classes + background, 0.7), m)
    left_out = np.zeros(m, dtype=bool)
    known = np.full(m, -1)
    indicator = np.zeros((3, n_classes), dtype=np.uint8)
    for b, size in enumerate(sizes):
        indicator[b, rng.choice(n_classes, rng.integers(1, min(size, n_classes) + 1), replace=False)] = 1
        if size > 3:
            left_out[offsets[b]] = True
            indicator[b] = 0
            indicator[b, :2] = 1
        if size > 2:
            known[offsets[b] + 1] = np.flatnonzero(indicator[b])[0]
    rows = np.flatnonzero(~left_out & (known < 0))
    got = information_in_bags(prior, offsets, indicator, rows, known=known, left_out=left_out)
    for row, value in zip(rows, got, strict=True):
        b = np.searchsorted(offsets, row, side="right") - 1
        own = np.arange(offsets[b], offsets[b + 1])
        own = own[~left_out[own]]
        expected = enumerate_information(
            prior[own], set(np.flatnonzero(indicator[b]).tolist()), n_classes, known[own], int(np.sum(own < row))
        )
        assert_allclose(value, expected, atol=1e-9)
        assert value >= 0


def test_class_entropy_leaves_the_question_of_noise_out():
    rows = np.array([[0.5, 0.5], [0.25, 0.25], [0.0, 0.0], [1.0, 0.0], [0.0, 0.3]])
    assert_allclose(class_entropy(rows), [np.log(2), 0.5 * np.log(2), 0.0, 0.0, 0.0], atol=1e-15)


def test_an_answer_that_settles_its_bag_comes_first():
    """Two bags of the same uncertainty; in one the labels must be shared, so one answer tells the other too."""
    prior = np.array([[0.5, 0.5], [0.5, 0.5], [0.5, 0.5], [0.5, 0.5], [0.5, 0.5]])
    offsets = np.array([0, 2, 5])
    indicator = np.ones((2, 2), dtype=np.uint8)
    known = np.array([-1, -1, 0, 1, -1])
    got = information_in_bags(prior, offsets, indicator, np.array([0, 4]), known=known, left_out=np.zeros(5, bool))
    assert_allclose(got, [np.log(2), 0.0], atol=1e-12)


def test_known_instances_never_come_and_all_others_do(data, model):
    rng = np.random.default_rng(0)
    truth = data.instance_labels.instances
    asked = rng.random(len(truth)) < 0.4
    codes = np.where(asked, np.where(truth >= 0, truth, KNOWN_BACKGROUND), -1)
    order = query_order(model, data.bags, data.Y, Bags(codes, data.bags.offsets), len(truth))
    assert order.dtype == np.int64
    assert_array_equal(np.sort(order), np.flatnonzero(~asked))
    as_mask = query_order(
        model,
        data.bags,
        data.Y,
        Bags(np.maximum(codes, -1), data.bags.offsets),
        len(truth),
        noise=codes == KNOWN_BACKGROUND,
    )
    assert_array_equal(order, as_mask)


def test_the_first_of_more_are_the_same(data, model):
    """Up to 200, which are chosen one by one."""
    assert_array_equal(query_order(model, data.bags, data.Y, n=150)[:30], query_order(model, data.bags, data.Y, n=30))


@pytest.mark.parametrize("seed", range(5))
def test_a_permutation_of_the_bags_permutes_the_order(data, model, seed):
    order = query_order(model, data.bags, data.Y, n=40)
    index = np.random.default_rng(seed).permutation(len(data.bags))
    rows, _ = data.bags.select(index)
    again = query_order(model, data.bags[index], data.Y[index], n=40)
    assert_array_equal(rows[again], order)


def test_the_first_fifty_differ_and_are_spread(data, model):
    """Every bag is there three times: a plain order by entropy asks the same thrice."""
    bags = Bags.from_list([*data.bags, *data.bags, *data.bags])
    Y = np.vstack([data.Y] * 3)
    m = data.bags.n_instances
    order = query_order(model, bags, Y, n=50)
    assert len(set((order % m).tolist())) == 50
    assert len(set(bags.bag_index[order].tolist())) >= 25
    proba = model.find(bags, Y).proba
    assert len(set(np.flatnonzero(proba[order].sum(axis=0) > 1))) == 4  # all classes are asked about
    X = StandardScaler().fit_transform(bags.instances)[order]
    distance = ((X[:, None] - X[None]) ** 2).sum(axis=2)[np.triu_indices(50, 1)]
    assert distance.min() > 1e-3


def test_look_alikes_make_an_answer_more_useful():
    """Two instances of the same entropy, one of them in a crowd."""
    entropy, novelty = np.full(7, 0.5), np.eye(7)
    novelty[1:6, 1:6] = 0.6
    novelty[0, 6] = novelty[6, 0] = 0.1
    np.fill_diagonal(novelty, 1.0)
    order = _query._choose(entropy, np.zeros(7), novelty, np.ones((7, 7)), np.arange(7), 7)
    assert order[0] in range(1, 6)
    assert set(order[1:3].tolist()) & {0, 6} or order[1] in range(1, 6)
    assert_array_equal(np.sort(order), np.arange(7))
    no_overlap = _query._choose(entropy, np.arange(7) * 1e-6, novelty, np.eye(7), np.arange(7), 7)
    assert no_overlap[0] == 6  # alike, but of other classes: only what is settled in the bag counts


def test_unlabelled_bags_are_asked_about_by_features_alone(data, model):
    sets = [{int(c) for c in np.flatnonzero(row)} for row in data.Y]
    whole = query_order(model, data.bags, data.Y, n=20)
    assert_array_equal(query_order(model, data.bags, sets, n=20), whole)
    nothing = query_order(model, data.bags, None, n=20)
    assert_array_equal(query_order(model, data.bags, [None] * len(sets), n=20), nothing)
    some = query_order(model, data.bags, [None, None, *sets[2:]], n=data.bags.n_instances)
    assert_array_equal(np.sort(some), np.arange(data.bags.n_instances))


def test_labels_that_the_model_does_not_know_are_left_out(data, model):
    sets = [{int(c) for c in np.flatnonzero(row)} for row in data.Y]
    strange = [labels | {99} for labels in sets]
    assert_array_equal(query_order(model, data.bags, strange, n=20), query_order(model, data.bags, sets, n=20))


@pytest.mark.parametrize(
    "learner",
    [
        ORedLogisticRegression(),
        make_pipeline(PerInstance(StandardScaler()), ORedLogisticRegression(background=True)),
        ORedForest(n_estimators=5, n_rounds=1, n_round_trees=5, random_state=0),
        SupportInstanceMachine(alpha=1e-3),
        CLPL(),
    ],
    ids=lambda learner: type(learner).__name__,
)
def test_every_annotator_gives_an_order(data, learner):
    listed = data.Y.any(axis=1)
    rows, _ = data.bags.select(listed)
    bags, Y = data.bags[listed], data.Y[listed]
    learner.fit(bags, Y)
    order = query_order(learner, bags, Y, n=bags.n_instances)
    assert_array_equal(np.sort(order), np.arange(len(rows)))


def test_without_probabilities_the_smallest_margins_come_first(data):
    listed = data.Y.any(axis=1)
    bags, Y = data.bags[listed], data.Y[listed]
    model = SupportInstanceMachine(alpha=1e-3).fit(bags, Y)
    first = query_order(model, bags, Y, n=30)
    scores = np.where(np.repeat(Y, bags.sizes, axis=0) == 1, model.instance_decision_function(bags), -np.inf)
    best = np.sort(scores, axis=1)
    margin = best[:, -1] - best[:, -2]
    assert np.isfinite(margin[first]).all()  # where a bag has one label there is nothing to ask
    assert np.median(margin[first]) < np.median(margin[np.isfinite(margin)]) / 2


def test_sparse_features(data):
    sparse = Bags(sp.csr_matrix(np.maximum(data.bags.instances, 0)), data.bags.offsets)
    model = ORedLogisticRegression(background=True).fit(sparse, data.Y)
    order = query_order(model, sparse, data.Y, n=sparse.n_instances)
    assert_array_equal(np.sort(order), np.arange(sparse.n_instances))


def test_a_bag_that_cannot_be_explained_is_no_obstacle(model):
    bags = Bags.from_list([np.zeros((1, 5)), np.ones((3, 5))])
    order = query_order(model, bags, np.array([[1, 1, 1, 0], [1, 1, 0, 0]]), n=4)
    assert_array_equal(np.sort(order), np.arange(4))


def test_where_nothing_is_open_all_still_come():
    bags = Bags.from_list([np.zeros((2, 2)), np.ones((3, 2))])
    model = ORedLogisticRegression().fit(bags, [{"a"}, {"b"}])
    assert_array_equal(query_order(model, bags, [{"a"}, {"b"}], n=9), np.arange(5))
    everything = Bags(np.array([0, 0, 1, 1, 1]), bags.offsets)
    assert len(query_order(model, bags, [{"a"}, {"b"}], everything, n=9)) == 0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"n": 0}, "n=0; expected how many"),
        ({"n": 2.5}, "n=2.5; expected how many"),
        ({"noise": np.zeros(3, dtype=bool)}, "expected one bool for each"),
        ({"noise": np.zeros(1000)}, "expected one bool for each"),
        ({"known": Bags(np.array([7.0]), [0, 1])}, "arranged otherwise"),
        ({"Y": np.ones((3, 4))}, "3 rows"),
        ({"bags": np.ones((2, 2, 9)), "Y": np.ones((2, 4))}, "9 features"),
    ],
)
def test_bad_input(data, model, changes, message):
    given = {"bags": data.bags, "Y": data.Y, "known": None, "n": 5} | changes
    with pytest.raises(InputError, match=message):
        query_order(model, **given)


def test_known_of_a_class_that_the_bag_does_not_list(data, model):
    codes = np.full(data.bags.n_instances, -1)
    bag = int(np.flatnonzero(data.Y[:, 0] == 0)[0])
    codes[data.bags.offsets[bag]] = 0
    with pytest.raises(InputError, match="which its bag does not carry"):
        query_order(model, data.bags, data.Y, Bags(codes, data.bags.offsets), 5)


def test_a_model_of_bags_alone_is_refused(data):
    with pytest.raises(InputError, match="does not annotate instances"):
        query_order(MIMLSVM(), data.bags, data.Y, None, 5)


# ---------------------------------------------------------------------------------------------------------------------
# Instances that carry any number of labels


def entropy_of(p):
    return -sum(q * np.log(q) for q in (p, 1 - p) if q > 0)


def test_what_an_answer_about_a_label_set_settles_is_that_of_all_assignments():
    """Who carries a label of a bag of four: all subsets are gone through, label by label."""
    rng = np.random.default_rng(0)
    prior = rng.uniform(0.05, 0.9, size=(4, 3))
    expected = np.zeros(4)
    for p in prior.T:
        sets = [s for s in product((0, 1), repeat=4) if any(s)]
        weight = np.array([np.prod([q if x else 1 - q for q, x in zip(p, s, strict=True)]) for s in sets])
        weight /= weight.sum()
        sets = np.array(sets)
        for i in range(4):
            for j in set(range(4)) - {i}:
                expected[i] += entropy_of(weight @ sets[:, j])
                for x in (0, 1):
                    given = weight * (sets[:, i] == x)
                    expected[i] -= given.sum() * entropy_of(given @ sets[:, j] / given.sum())
    assert_allclose(information_of_sets(prior, np.array([2, 0])), expected[[2, 0]], rtol=1e-10)


def test_a_model_of_label_sets_asks_what_it_does_not_know():
    rng = np.random.default_rng(3)
    sings = rng.random((240, 3)) < 0.3
    bags = Bags(sings + 0.3 * rng.normal(size=(240, 3)), np.arange(0, 241, 6))
    Y = np.logical_or.reduceat(sings, bags.offsets[:-1]).astype(int)
    model = make_pipeline(PerInstance(StandardScaler()), NoisyOrLogisticRegression(l2=0.03)).fit(bags, Y)
    order = query_order(model, bags, Y, n=240)
    assert sorted(order) == list(range(240))
    entropy = binary_entropy(model.annotate_proba(bags, Y)).sum(axis=1)
    assert entropy[order[:60]].mean() > 2 * entropy[order[-60:]].mean()
    known = np.full((240, 3), np.nan)
    known[order[0]] = sings[order[0]]
    noise = np.zeros(240, dtype=bool)
    noise[order[1]] = not sings[order[1]].any()
    again = query_order(model, bags, Y, Bags(known, bags.offsets), n=240, noise=noise)
    assert not {int(i) for i in order[: 1 + noise.sum()]} & {int(i) for i in again}
    unlabelled = query_order(model, bags, None, n=5)
    assert len({*unlabelled.tolist()}) == 5
