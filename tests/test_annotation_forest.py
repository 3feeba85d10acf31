"""ORedForest: its arrays against scikit-learn's trees, its rounds against a literal run, and what it can learn."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import softmax
from sklearn.tree import DecisionTreeClassifier, ExtraTreeClassifier

import bagwise
from bagwise import Bags, ORedLogisticRegression
from bagwise.annotation import ORedForest
from bagwise.annotation import forest as forest_module
from bagwise.core.bags import offsets_of
from bagwise.core.exceptions import InfeasibleBagWarning, InputError, MemoryLimitError
from bagwise.datasets import make_gaussian_bags
from bagwise.kernels.forest import Forest, _round_down, tree_shares
from bagwise.metrics import calibration_error
from bagwise.union import union_posterior

FAST = {"n_estimators": 20, "n_rounds": 3, "n_round_trees": 20, "random_state": 0}


@pytest.fixture(scope="module")
def data():
    return make_gaussian_bags(n_bags=40, n_features=4, n_classes=4, separation=2.0, random_state=0)


# -- the forest as arrays ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("kind", [ExtraTreeClassifier, DecisionTreeClassifier])
def test_mean_shares_are_those_of_the_trees(kind, seed):
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(80, 3)).round(1), rng.choice([0, 2, 3], 80)  # ties, and a class that no tree knows
    trees = [kind(random_state=t, min_samples_leaf=3).fit(X, y, sample_weight=rng.random(80)) for t in range(4)]
    new = rng.normal(size=(50, 3)).round(1)
    expected = np.zeros((50, 4))
    for tree in trees:
        expected[:, tree.classes_] += tree.predict_proba(new) / 4
    assert_allclose(Forest.of(trees, 4).mean_shares(new), expected, atol=1e-6)
    single = new.astype(np.float32)
    assert_array_equal(tree_shares(trees[0], single, 4), Forest.of(trees[:1], 4).mean_shares(new))


def test_arrays_that_lead_astray_are_refused():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 3)), rng.integers(0, 2, 40)
    forest = Forest.of([ExtraTreeClassifier(random_state=0).fit(X, y)], 2)
    inner, leaf = np.flatnonzero(forest.feature >= 0)[0], np.flatnonzero(forest.feature < 0)[0]
    for name, place, value in (
        ("link", inner, inner),  # a circle
        ("link", inner, len(forest.feature)),
        ("feature", inner, 3),
        ("feature", -1, 0),  # its left child would be behind all nodes
        ("link", leaf, len(forest.starts) - 1),
        ("link", leaf, -1),
        ("starts", -1, len(forest.shares) + 1),
        ("starts", 0, -1),
        ("columns", 0, 2),
    ):
        bent = getattr(forest, name).copy()
        bent[place] = value
        with pytest.raises(InputError, match="The trees of this model do not fit together"):
            forest._replace(**{name: bent}).mean_shares(X)
    for bent in ({"roots": np.array([10**9])}, {"n_columns": "2"}, {"shares": forest.shares[:-1]}):
        with pytest.raises(InputError, match="do not fit together"):
            forest._replace(**bent).mean_shares(X)
    with pytest.raises(MemoryLimitError, match="What trees say of 40 instances"):
        forest._replace(n_columns=10**15).mean_shares(X)


def test_thresholds_in_single_precision_divide_as_those_in_double():
    rng = np.random.default_rng(0)
    exact = np.concatenate([rng.normal(size=500), [0.1, -0.1, 1e-40, -1e300, 1.0]])
    with np.errstate(over="ignore"):
        near = exact.astype(np.float32)
        values = np.concatenate([np.nextafter(near, np.float32(side)) for side in (-np.inf, np.inf)] + [near])
        rounded = _round_down(exact)
    for threshold, ours in zip(exact, rounded, strict=True):
        assert_array_equal(values.astype(np.float64) <= threshold, values <= ours)


def test_a_node_takes_ten_bytes_and_equal_leaves_are_kept_once():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(2000, 3)), rng.integers(0, 6, 2000)
    forest = Forest.of([ExtraTreeClassifier(random_state=t).fit(X, y) for t in range(3)], 6)
    assert sum(array.nbytes for array in forest[1:4]) == 10 * len(forest.feature)
    assert len(forest.starts) == 7  # every leaf is of one of the six classes
    assert_array_equal(np.sort(forest.columns), np.arange(6))
    assert_array_equal(forest.shares, 1.0)


def test_leaves_of_a_tree_have_a_bound(data, monkeypatch):
    plain = ORedForest(**FAST).fit(data.bags, data.Y)
    monkeypatch.setattr(forest_module, "MOST_LEAVES", 10)
    bound = ORedForest(**FAST).fit(data.bags, data.Y)
    n_leaves = [int((model.forest_[1] < 0).sum()) for model in (plain, bound)]
    assert n_leaves[1] <= 10 * FAST["n_estimators"] < n_leaves[0]


# -- the rounds -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("known", [False, True], ids=["blind", "some known"])
def test_one_round_is_the_literal_one(data, known):
    """Uniform start, trees on bootstrapped bags, each instance judged by the trees that did not see its bag."""
    heard = []
    model = ORedForest(n_estimators=5, n_rounds=1, n_round_trees=6, random_state=3)
    truth = data.instance_labels.instances
    labels_known = np.where(np.arange(len(truth)) % 4 == 0, truth, -1) if known else None
    told = Bags(labels_known, data.bags.offsets) if known else None
    model.fit(data.bags, data.Y, instance_labels=told, callback=lambda *call: heard.append(call))
    rng = np.random.RandomState(3)
    n, c = len(data.bags), data.n_classes
    X = data.bags.instances.astype(np.float32)
    _, q = union_posterior(np.full((len(X), c), 1 / c), data.bags.offsets, data.Y, known=labels_known)
    if known:
        rows = labels_known >= 0
        assert_array_equal(q[rows], np.eye(c)[truth[rows]])  # examples of their class, of weight one
    total, judges = np.full((len(X), c), 0.3 / c), np.full(len(X), 0.3)
    for _ in range(6):
        drawn = rng.randint(n, size=n)
        seed = int(rng.randint(np.iinfo(np.int32).max))
        pairs, labels, weights = [], [], []
        for i in range(len(X)):
            times = np.sum(drawn == data.bags.bag_index[i])
            for label in range(c):
                if times and q[i, label] >= 0.01:
                    pairs.append(X[i])
                    labels.append(label)
                    weights.append(times * q[i, label])
        tree = ExtraTreeClassifier(max_features="sqrt", random_state=seed).fit(pairs, labels, sample_weight=weights)
        for i in range(len(X)):
            if data.bags.bag_index[i] not in drawn:
                total[i, tree.classes_] += tree.predict_proba(X[i : i + 1])[0]
                judges[i] += 1
    log_likelihood, _ = union_posterior(total / judges[:, None], data.bags.offsets, data.Y, known=labels_known)
    assert_allclose(model.objective_history_, [log_likelihood.sum()], rtol=1e-5)
    assert heard == [(1, model.objective_history_[0])]


def test_new_instances_are_raised_to_the_power_of_the_greatest_out_of_bag_likelihood():
    data = make_gaussian_bags(n_bags=90, n_features=6, separation=4.0, random_state=0)
    seen, new = data[:60], data[60:]
    model = ORedForest(n_estimators=60, n_round_trees=40, n_rounds=3, random_state=0)
    held = model.fit_held_out(seen.bags, seen.Y)
    assert len(held.index) == len(seen)
    powers = model.power_ * np.array([0.9, 1.0, 1.1])
    values = []
    for power in powers:
        proba = softmax(power * held.log_proba, axis=1)
        values.append(union_posterior(proba, seen.bags.offsets, seen.Y)[0].sum())
    assert values[1] > max(values[0], values[2])
    truth = new.instance_labels.instances
    proba = model.predict_instances_proba(new.bags)
    plain = np.exp(model.log_proba(new.bags))
    assert_allclose(proba, softmax(model.power_ * np.log(plain), axis=1), rtol=1e-9)
    right = (proba.argmax(axis=1) == truth).astype(float)
    assert calibration_error(right, proba.max(axis=1)) < 0.6 * calibration_error(right, plain.max(axis=1))
    given, sets = model.annotate_proba(new.bags, new.Y), model.predict(new.bags)
    del model.power_  # as in a model of an earlier version
    assert_array_equal(model.annotate_proba(new.bags, new.Y), given)
    assert_array_equal(model.predict(new.bags), sets)
    assert_allclose(model.predict_instances_proba(new.bags), plain, rtol=1e-12)


def test_power_is_bounded_and_not_sought_from_few_labels():
    easy = make_gaussian_bags(n_bags=40, separation=50.0, random_state=0)
    assert ORedForest(**FAST).fit(easy).power_ == 4.0
    assert ORedForest(**FAST).fit(easy[:8]).power_ == 1.0


def test_probabilities(data):
    model = ORedForest(**FAST).fit(data.bags, data.Y)
    proba, posterior = model.predict_instances_proba(data.bags), model.annotate_proba(data.bags, data.Y)
    for values in (proba, posterior):
        assert values.shape == (data.bags.n_instances, data.n_classes)
        assert_allclose(values.sum(axis=1), 1.0, rtol=1e-9)
    assert proba.min() > 0  # no label is impossible
    assert_allclose(
        posterior, union_posterior(np.exp(model.log_proba(data.bags)), data.bags.offsets, data.Y)[1], rtol=1e-12
    )
    assert np.all(posterior[np.repeat(data.Y, data.bags.sizes, axis=0) == 0] == 0)
    assert_array_equal(model.annotate(data.bags, data.Y), model.classes_[posterior.argmax(axis=1)])
    assert_allclose(model.decision_function(data.bags), [bag.max(axis=0) for bag in Bags(proba, data.bags.offsets)])


def ring_bags(seed):
    """Two labels that no line tells apart: one around the other."""
    rng = np.random.default_rng(seed)
    offsets = offsets_of(rng.integers(2, 5, 80))
    labels = rng.integers(0, 2, offsets[-1])
    angle = rng.uniform(0, 2 * np.pi, len(labels))
    radius = np.where(labels == 1, 3.0, 1.0) + rng.normal(0, 0.3, len(labels))
    bags = Bags(np.column_stack([radius * np.cos(angle), radius * np.sin(angle)]), offsets)
    Y = np.zeros((len(bags), 2), dtype=int)
    Y[bags.bag_index, labels] = 1
    return bags, Y, labels


@pytest.mark.parametrize("seed", range(4))
def test_it_learns_what_a_line_cannot(seed):
    bags, Y, labels = ring_bags(seed)
    new, _, truth = ring_bags(seed + 100)
    forest = ORedForest(50, n_rounds=5, n_round_trees=40, random_state=0).fit(bags, Y)
    line = ORedLogisticRegression().fit(bags, Y)
    assert np.mean(forest.predict_instances(new) == truth) > 0.9
    assert np.mean(forest.predict_instances(new) == truth) > np.mean(line.predict_instances(new) == truth) + 0.2
    assert np.mean(forest.annotate(bags, Y) == labels) > 0.9
    assert forest.objective_history_[-1] > forest.objective_history_[0]


def test_known_instances_tell_labels_apart_that_always_come_together():
    """Both labels are in every bag: bag labels say nothing of which is which, a few known instances do."""
    rng = np.random.default_rng(0)
    truth = np.tile([0, 1, 0, 1], 40)
    bags = Bags(rng.normal(size=(160, 2)) + 4.0 * np.where(truth == 0, -1, 1)[:, None], 4 * np.arange(41))
    for labels in (truth, 1 - truth):  # whichever way round
        known = Bags(np.where(np.arange(160) < 40, labels, -1), bags.offsets)
        model = ORedForest(30, n_rounds=4, n_round_trees=30, random_state=0)
        model.fit(bags, np.ones((40, 2), int), instance_labels=known)
        assert np.mean(model.predict_instances(bags) == labels) > 0.95


def test_known_labels_of_bags_that_are_left_out_go_with_them():
    rng = np.random.default_rng(0)
    bags = Bags.from_list([rng.normal(size=(n, 2)) for n in (1, 3, 3, 3)])
    Y, known = np.array([[1, 1], [1, 0], [0, 1], [1, 1]]), np.array([0, -1, 0, -1, 1, 1, -1, 0, 1, -1])
    with pytest.warns(InfeasibleBagWarning, match="bag 0"):
        model = ORedForest(**FAST).fit(bags, Y, Bags(known, bags.offsets))
    rest = ORedForest(**FAST).fit(bags[1:], Y[1:], Bags(known, bags.offsets)[1:])
    assert_array_equal(model.decision_function(bags), rest.decision_function(bags))
    with pytest.raises(InputError, match="Instance 0 of bag 1 is known to be of class 1, which its bag"):
        ORedForest(**FAST).fit(bags, Y, Bags(np.where(np.arange(10) == 1, 1, -1), bags.offsets))


def test_scales_of_features_do_not_matter(data):
    factors = 2.0 ** np.arange(-2, 2)  # exact in floating point
    scaled = Bags(data.bags.instances * factors, data.bags.offsets)
    plain = ORedForest(**FAST).fit(data.bags, data.Y)
    other = ORedForest(**FAST).fit(scaled, data.Y)
    agree = np.mean(plain.predict_instances(data.bags) == other.predict_instances(scaled))
    assert agree > 0.97


# -- inputs -----------------------------------------------------------------------------------------------------------


def test_seeds_threads_and_names(data):
    reference = ORedForest(**FAST).fit(data.bags, data.Y)
    threads = ORedForest(**FAST, n_jobs=2).fit(data.bags, data.Y)
    assert_array_equal(reference.decision_function(data.bags), threads.decision_function(data.bags))
    names = np.array(["ant", "bee", "cat", "dog"])
    named = ORedForest(**FAST).fit(data.bags, [set(names[row == 1]) for row in data.Y])
    assert_array_equal(named.annotate(data.bags, data.Y), names[reference.annotate(data.bags, data.Y)])
    single = ORedForest(**FAST).fit(data.bags, names[data.Y.argmax(axis=1)])
    assert set(single.predict(data.bags)) <= set(names)


def test_a_saved_forest_gives_the_same(data, tmp_path):
    model = ORedForest(**FAST).fit(data.bags, data.Y)
    bagwise.save(model, tmp_path / "forest.bagwise")
    again = bagwise.load(tmp_path / "forest.bagwise")
    assert_array_equal(again.annotate_proba(data.bags, data.Y), model.annotate_proba(data.bags, data.Y))


def test_bags_that_cannot_be_explained():
    rng = np.random.default_rng(0)
    bags = Bags.from_list([rng.normal(size=(n, 2)) for n in (1, 3, 3, 3)])
    Y = np.array([[1, 1], [1, 0], [0, 1], [1, 1]])
    with pytest.warns(InfeasibleBagWarning, match=r"1 of 4 bags cannot be explained, bag 0.*left out of the li"):
        model = ORedForest(**FAST).fit(bags, Y)
    with pytest.warns(InfeasibleBagWarning, match="Their instances are given labels of the set"):
        posterior = model.annotate_proba(bags, Y)
    assert_allclose(posterior.sum(axis=1), 1.0)
    with pytest.raises(InputError, match="No bag is left to learn from"):
        ORedForest(**FAST).fit(bags[:1], Y[:1])
    with pytest.warns(InfeasibleBagWarning, match="1 of 1 bags carry no label, bag 0: .*by their features alone"):
        assert_array_equal(model.annotate(bags[1:2], [[0, 0]]), model.predict_instances(bags[1:2]))


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_estimators": 0}, "'n_estimators' parameter of ORedForest must be a whole number, 1 or more. Got 0"),
        ({"n_rounds": 1.5}, "'n_rounds' parameter"),
        ({"smoothing": 0.0}, "'smoothing' parameter of ORedForest must be a positive number. Got 0.0"),
    ],
)
def test_bad_parameters(parameters, message, data):
    with pytest.raises(InputError, match=message):
        ORedForest(**parameters).fit(data.bags, data.Y)


def test_sparse_features_are_refused(data):
    with pytest.raises(InputError, match="ORedForest does not take sparse features"):
        ORedForest().fit(Bags(sp.csr_matrix(data.bags.instances), data.bags.offsets), data.Y)
