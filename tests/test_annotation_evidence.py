"""What may be said of bags beyond plain lists, in the learners: fits, annotations, presence of labels, bad input."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import bagwise
from bagwise import Absent, BagDataset, Bags, Certain, InputError, OneOf, ORedLogisticRegression, Possible
from bagwise.annotation import MostFrequentAnnotator, ORedForest
from bagwise.annotation.objective import ORedObjective
from bagwise.calibration import CalibratedAnnotator
from bagwise.core.exceptions import InfeasibleBagWarning
from bagwise.core.validation import Evidence, as_evidence, encode_evidence, encode_known, learn_evidence
from bagwise.datasets import make_gaussian_bags
from bagwise.metrics import get_scorer
from bagwise.pipeline import bag_tags
from bagwise.union import LabelNoise, UnionProblem, union_posterior
from test_union_evidence import enumerate_all


@pytest.fixture(scope="module")
def data():
    return make_gaussian_bags(n_bags=80, n_classes=4, separation=6.0, random_state=0)


def spoken(Y, seed=0, share=0.4):
    """Of some labels that are listed less than that, and of some that are not more."""
    rng = np.random.default_rng(seed)
    values = Y.astype(float)
    some = rng.random(Y.shape) < share
    values[some & (Y == 1)] = rng.choice([np.nan, 0.9, 0.6, np.inf], np.sum(some & (Y == 1)))
    values[some & (Y == 0)] = rng.choice([np.nan, 0.1, 0.3, -np.inf], np.sum(some & (Y == 0)))
    return values


def possible_bags(data, evidence):
    """The bags that some assignment explains, and what is said of them."""
    uniform = np.full((data.bags.n_instances, evidence.shape[1]), 0.25)
    fine = np.isfinite(union_posterior(uniform, data.bags.offsets, evidence)[0])
    return data[fine], evidence[fine]


LEARNERS = [
    ORedLogisticRegression(),
    ORedLogisticRegression(solver="em", max_iter=10),
    ORedLogisticRegression(background=True, background_share=0.1),
    ORedLogisticRegression(missed=0.1, spurious="learn", prune=0.1),
    ORedLogisticRegression(solver="em", batch_fraction=0.5, max_iter=5, random_state=0),
    ORedForest(n_estimators=20, n_rounds=2, n_round_trees=20, random_state=0),
    ORedForest(n_estimators=20, n_rounds=2, n_round_trees=20, spurious=0.05, background=True, random_state=0),
]


@pytest.mark.parametrize("learner", LEARNERS, ids=lambda learner: str(learner)[:60])
def test_learners_take_evidence_and_name_only_labels_that_may_be_there(learner, data):
    values = spoken(data.Y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # little is said of few bags
        model = learner.fit(data.bags, values, sample_weight=np.linspace(0.5, 1.5, len(data)))
    may = (values != 0) & (values != -np.inf)
    labels = model.annotate(data.bags, values)
    fair = may.any(axis=1)[data.bags.bag_index]
    assert may[data.bags.bag_index[fair], labels[fair].astype(int)].all()
    proba = model.annotate_proba(data.bags, values)
    assert np.all(proba[values[data.bags.bag_index] == -np.inf] == 0.0)
    assert np.mean(model.predict_instances(data.bags) == data.instance_labels.instances) > 0.8
    presence = model.label_posterior(data.bags, values)
    assert_allclose(presence[values == np.inf], 1.0, atol=1e-9)
    assert_allclose(presence[values == -np.inf], 0.0, atol=1e-9)
    assert bag_tags(model).evidence


def test_the_evidence_that_says_what_lists_say_fits_the_same_model(data):
    plain = ORedLogisticRegression().fit(data.bags, data.Y)
    floats = ORedLogisticRegression().fit(data.bags, data.Y.astype(float))
    assert_array_equal(plain.coef_, floats.coef_)
    certain = np.where(data.Y == 1, np.inf, -np.inf)
    assert_allclose(ORedLogisticRegression().fit(data.bags, certain).coef_, plain.coef_, atol=2e-3)
    noisy = ORedLogisticRegression(missed=0.3, spurious=0.2).fit(data.bags, certain)
    assert_allclose(noisy.coef_, plain.coef_, atol=2e-3)  # whatever the rates
    sets = [{Certain(c) for c in np.flatnonzero(row)} | {Absent(c) for c in np.flatnonzero(row == 0)} for row in data.Y]
    assert_array_equal(
        ORedLogisticRegression().fit(data.bags, sets).coef_, ORedLogisticRegression().fit(data.bags, certain).coef_
    )


def test_presence_of_labels_equals_enumeration():
    rng = np.random.default_rng(0)
    X, names = rng.normal(size=(40, 3)), ["a", "b", "c", "d"]
    sets = [{names[i % 4], Possible(names[(i + 1) % 4])} for i in range(20)]
    model = ORedLogisticRegression(missed=0.2, spurious=0.1).fit(Bags(X, np.arange(0, 41, 2)), sets)
    bag = rng.normal(size=(3, 3))
    for labels in ({"a", Possible("b"), Absent("c")}, {OneOf("a", "b"), OneOf("b", "c"), "d"}, {Certain("a"), "b"}):
        found = model.label_posterior([bag], [labels])[0]
        evidence = encode_evidence([labels], np.array(names), 1)
        groups = [] if evidence.groups is None else evidence.groups[0]
        proba = model.predict_instances_proba([bag])
        _, posterior, presence = enumerate_all(proba, evidence.values[0], groups, None, 0.2, 0.1)
        assert_allclose(found, presence, atol=1e-10)
        assert_allclose(model.annotate_proba([bag], [labels]), posterior, atol=1e-10)


@pytest.mark.parametrize("rates", [None, LabelNoise.of(0.2, 0.1, 4)], ids=["right", "wrong"])
def test_the_gradient_of_a_fit_equals_differences(data, rates):
    values = spoken(data.Y, share=0.7)
    sets = as_evidence(values, [[[0, 1], [1, 2]] if values[i, 1] != -np.inf else [] for i in range(len(values))])
    data, sets = possible_bags(data, sets)
    problem = UnionProblem.build(data.bags.offsets, sets)
    objective = ORedObjective(data.bags.instances, problem, l2=0.5, method="auto", max_exact_labels=16, rates=rates)
    rng = np.random.default_rng(0)
    weights, direction = (rng.normal(size=(4, data.bags.n_features + 1)) for _ in range(2))
    _, gradient = objective.value_and_gradient(weights)
    ends = [objective.value_and_gradient(weights + step * direction)[0] for step in (1e-5, -1e-5)]
    assert_allclose(np.vdot(gradient, direction), (ends[0] - ends[1]) / 2e-5, rtol=1e-6)


def test_own_labels_alone_give_the_same_with_evidence(data, monkeypatch):
    groups = [[[0, 2], [2, 3]] if i % 3 == 0 else [] for i in range(len(data))]
    values = spoken(data.Y)
    values[::3] = np.where(values[::3] == -np.inf, 0.0, values[::3])
    data, evidence = possible_bags(data, as_evidence(values, groups))
    whole = ORedLogisticRegression().fit(data.bags, evidence)
    expected = whole.annotate(data.bags, evidence)
    monkeypatch.setattr("bagwise.annotation.objective.OWN_FROM", 0)
    monkeypatch.setattr("bagwise.annotation.objective.BLOCK_ENTRIES", 60)
    own = ORedLogisticRegression().fit(data.bags, evidence)
    assert_allclose(own.coef_, whole.coef_, atol=1e-6)
    assert_array_equal(whole.annotate(data.bags, evidence), expected)


def test_partial_labels_are_groups(data):
    """Faces with several candidate names: bags of one instance of which one label is right."""
    rng = np.random.default_rng(0)
    truth, X = data.instance_labels.instances, data.bags.instances
    bags = Bags(X, np.arange(len(X) + 1))
    sets = []
    for y in truth:
        other = rng.choice(np.setdiff1d(np.arange(4), [y]), rng.integers(0, 3), replace=False).tolist()
        sets.append({OneOf(int(y), *other)} if other else {int(y)})
    model = ORedLogisticRegression().fit(bags, sets)
    assert np.mean(model.predict_instances(bags) == truth) > 0.9
    forest = ORedForest(n_estimators=50, n_rounds=3, n_round_trees=40, random_state=0).fit(bags, sets)
    assert np.mean(forest.annotate(bags, sets) == truth) > 0.9
    as_lists = [
        {name for label in s for name in (label.labels if isinstance(label, OneOf) else (label,))} for s in sets
    ]
    with pytest.warns(InfeasibleBagWarning, match=r"OneOf.*Possible"):
        ORedLogisticRegression().fit(bags, as_lists)
    with pytest.raises(InputError, match=r"OneOf.*Possible"):
        ORedLogisticRegression(on_infeasible="error").fit(bags, as_lists)


def test_bags_that_evidence_makes_impossible_are_named_dropped_and_relaxed():
    X = np.random.default_rng(0).normal(size=(9, 2))
    bags = Bags(X, [0, 1, 3, 6, 9])
    sets = [{Certain("a"), Certain("b")}, {"a", OneOf("b", "c")}, {"c", Possible("a")}, {"b"}]
    with pytest.warns(InfeasibleBagWarning, match=r"1 of 4 bags.*bag 0.*1 instance\(s\), too few"):
        model = ORedLogisticRegression().fit(bags, sets)
    relaxed = ORedLogisticRegression(on_infeasible="relax").fit(bags, sets)
    assert relaxed.predict(bags).shape == (4, 3)
    with pytest.warns(InfeasibleBagWarning, match="not all of which then occur"):
        assert model.annotate(bags, sets)[0] in ("a", "b")
    nothing = [{Absent("a")}, *sets[1:]]
    with pytest.warns(InfeasibleBagWarning, match="1 of 4 bags carry no label, bag 0: .*by their features alone"):
        assert model.annotate(bags, nothing)[0] in ("b", "c")


def test_known_instances_go_with_evidence(data):
    known = Bags(
        np.where(np.arange(data.bags.n_instances) % 5 == 0, data.instance_labels.instances, -1), data.bags.offsets
    )
    model = ORedLogisticRegression().fit(data.bags, np.where(data.Y == 1, np.nan, 0.0), instance_labels=known)
    assert model.predict_instances(data.bags).shape == (data.bags.n_instances,)
    i = int(np.flatnonzero(known.instances >= 0)[0])
    bag = int(data.bags.bag_index[i])
    values = data.Y.astype(float)
    values[bag, known.instances[i]] = -np.inf
    for learner in (ORedLogisticRegression(), ORedLogisticRegression(missed=0.3)):
        with pytest.raises(InputError, match=f"of bag {bag} is known to be of class {known.instances[i]}"):
            learner.fit(data.bags, values, instance_labels=known)


def test_learners_of_lists_refuse_more_and_say_who_takes_it(data):
    values = spoken(data.Y)
    with pytest.raises(InputError, match="ORedForest and ORedNetwork take"):
        MostFrequentAnnotator().fit(data.bags, values)
    with pytest.raises(InputError, match="pass missed=0"):
        ORedForest(missed=0.1).fit(data.bags, values)
    with pytest.raises(InputError, match="expected only 0 and 1"):
        BagDataset(data.bags, Y=values)
    model = MostFrequentAnnotator().fit(data.bags, data.Y)
    with pytest.raises(InputError, match="more than plain lists"):
        model.annotate(data.bags, values)


def test_a_calibrated_model_annotates_by_evidence(data):
    model = CalibratedAnnotator(ORedLogisticRegression(), cv=3).fit(data.bags, data.Y)
    values = np.where(data.Y == 1, np.nan, -np.inf)
    labels = model.annotate(data.bags, values)
    assert (data.Y[data.bags.bag_index, labels] == 1).all()


def test_measures_take_for_listed_what_is_certain_or_more_probable_than_not(data):
    values = np.array([[1.0, 0.6, 0.5, np.nan, np.inf, -np.inf, 0.0]])
    truth, unknown = encode_known(values, np.arange(7), 1)
    assert truth.tolist() == [[1, 1, 0, 0, 1, 0, 0]]
    assert unknown.tolist() == [0]
    model = ORedLogisticRegression().fit(data.bags, data.Y)
    soft = np.where(data.Y == 1, 0.9, 0.1)
    score = get_scorer("average_precision")
    assert score(model, data.bags, soft) == score(model, data.bags, data.Y)
    assert model.score(data.bags, soft) == model.score(data.bags, data.Y)


def test_names_frames_and_classes():
    sets = [{"b", Possible("d")}, {OneOf("a", "c"), Absent("e")}]
    given, classes, single = learn_evidence(sets, 2)
    assert classes.tolist() == ["a", "b", "c", "d", "e"]
    assert not single
    assert_array_equal(given.values, [[0, 1, 0, np.nan, 0], [np.nan, 0, np.nan, 0, -np.inf]])
    assert given.groups.tolist() == [(), ((0, 2),)]
    assert isinstance(given[[1]], Evidence)
    assert given[1:].groups.tolist() == [((0, 2),)]
    assert repr(OneOf("a", "b")) == "OneOf('a', 'b')"
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"b": [1.0, 0.0], "a": [np.nan, 0.3]})
    given, classes, _ = learn_evidence(frame, 2)
    assert classes.tolist() == ["b", "a"]
    assert_array_equal(given.values, [[1.0, np.nan], [0.0, 0.3]])


@pytest.mark.parametrize(
    ("Y", "message"),
    [
        ([{"a", Absent("a")}, {"b"}], "bag 0 say two things of 'a'"),
        ([{"a"}, {OneOf("a", "b"), Absent("a"), Absent("b")}], "Bag 1 holds a group.*all of whose labels are absent"),
        (np.array([[1.0, 3.5], [0.0, 1.0]]), "holds 3.5 at bag 0, class 1"),
        ([{Absent("a")}, {Absent("b")}], "No bag carries any label"),
    ],
)
def test_what_cannot_be_said_is_named(Y, message):
    with pytest.raises(InputError, match=message):
        ORedLogisticRegression().fit(np.zeros((2, 2)), Y)


def test_names_of_other_classes_are_named(data):
    model = ORedLogisticRegression().fit(np.eye(2), [{"a"}, {"b"}])
    for labels in ({OneOf("a", "z")}, {Absent("z")}, {Possible("z"), "a"}):
        with pytest.raises(InputError, match="unknown label 'z'"):
            model.annotate(np.eye(2), [labels, {"b"}])


def test_a_model_of_evidence_is_saved_and_cloned(data, tmp_path):
    model = ORedLogisticRegression().fit(data.bags, spoken(data.Y))
    bagwise.save(model, tmp_path / "model.bagwise")
    assert_array_equal(bagwise.load(tmp_path / "model.bagwise").predict(data.bags), model.predict(data.bags))
