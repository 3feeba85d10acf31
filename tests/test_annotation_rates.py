"""Annotators with labels that may be wrong: gradients, learned rates, what they say of labels, and every option."""

import json
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import bagwise
import oracles
from bagwise import Bags, ORedLogisticRegression
from bagwise.annotation import ORedForest
from bagwise.annotation.objective import ORedObjective
from bagwise.annotation.rates import RateParameters
from bagwise.calibration import CalibratedAnnotator
from bagwise.catalog import make_model
from bagwise.core.bags import KNOWN_BACKGROUND
from bagwise.core.exceptions import InfeasibleBagWarning, InputError
from bagwise.datasets import make_gaussian_bags
from bagwise.io.checkpoint import Checkpoint
from bagwise.union import UnionProblem, union_posterior

BOTH = {"missed": "learn", "spurious": "learn"}


@pytest.fixture(scope="module")
def data():
    return make_gaussian_bags(n_bags=150, n_features=5, n_classes=5, separation=5.0, random_state=0)


@pytest.fixture(scope="module")
def unnoticed(data):
    """Labels as somebody lists them who notices 70 % of the instances, and lists 3 % of the others for nothing."""
    rng = np.random.default_rng(1)
    Y = np.zeros_like(data.Y)
    seen = rng.random(data.bags.n_instances) >= 0.3
    Y[data.bags.bag_index[seen], data.instance_labels.instances[seen]] = 1
    Y[rng.random(Y.shape) < 0.03] = 1
    return Y


def right(data, labels):
    return np.mean(labels == data.instance_labels.instances)


@pytest.mark.parametrize("max_exact", [16, 1], ids=["exact", "propagated"])
@pytest.mark.parametrize(("background", "known"), [(False, False), (True, False), (False, True), (True, True)])
@pytest.mark.parametrize("rates", [BOTH, {"missed": "learn", "spurious": 0.1}, {"missed": 0.2, "spurious": "learn"}])
def test_gradient_in_weights_and_rates_equals_finite_differences(rates, background, known, max_exact):
    rng = np.random.default_rng(0)
    data = make_gaussian_bags(n_bags=12, n_features=3, n_classes=4, separation=1.5, random_state=0)
    m, Y = data.bags.n_instances, data.Y.copy()
    Y[::4] = np.roll(Y[::4], 1, axis=1)
    labels = np.where(rng.random(m) < 0.3, data.instance_labels.instances, -1) if known else None
    listed = np.hstack([Y, np.zeros((12, 1), np.uint8)]) if background else Y
    problem = UnionProblem.build(data.bags.offsets, listed, 4 if background else None, labels)
    parameters = RateParameters.of(rates["missed"], rates["spurious"], 4, background)
    shape = (listed.shape[1], 4)
    objective = ORedObjective(data.bags.instances, problem, l2=0.7, method="auto", max_exact_labels=max_exact)
    value_and_gradient = objective.learning_rates(parameters, shape)
    flat = np.concatenate([rng.normal(size=np.prod(shape)), rng.normal(-1.0, 0.5, len(parameters.learned))])
    _, gradient = value_and_gradient(flat)
    for j in range(len(flat)):
        step = 1e-5 * np.eye(len(flat))[j]
        slope = (value_and_gradient(flat + step)[0] - value_and_gradient(flat - step)[0]) / 2e-5
        assert_allclose(gradient[j] * m, slope * m, rtol=1e-6, atol=1e-6)


def test_learned_rates_are_near_the_true_ones(data, unnoticed):
    learned = ORedLogisticRegression(**BOTH).fit(data.bags, unnoticed)
    assert abs(learned.missed_ - 0.3) < 0.06
    assert abs(learned.spurious_ - 0.03) < 0.02
    assert np.diff(learned.objective_history_).min() >= -1e-9


def test_learned_rates_win_back_accuracy():
    lost, won = [], []
    for seed in range(4):
        data = make_gaussian_bags(n_bags=150, n_features=5, n_classes=6, separation=4.0, random_state=seed)
        seen = np.random.default_rng(seed).random(data.bags.n_instances) >= 0.4
        Y = np.zeros_like(data.Y)
        Y[data.bags.bag_index[seen], data.instance_labels.instances[seen]] = 1
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", InfeasibleBagWarning)
            models = [ORedLogisticRegression().fit(data.bags, labels) for labels in (data.Y, Y)]
        models.append(ORedLogisticRegression(**BOTH).fit(data.bags, Y))
        clean, plain, learned = (right(data, model.predict_instances(data.bags)) for model in models)
        lost.append(clean - plain)
        won.append(learned - plain)
    assert np.mean(lost) > 0.01
    assert np.mean(won) > 0.5 * np.mean(lost)


def test_rates_of_zero_change_no_bit(data):
    plain = ORedLogisticRegression().fit(data.bags, data.Y)
    zero = ORedLogisticRegression(missed=np.zeros(5), spurious=0).fit(data.bags, data.Y)
    assert_array_equal(plain.coef_, zero.coef_)
    assert_array_equal(plain.annotate_proba(data.bags, data.Y), zero.annotate_proba(data.bags, data.Y))


@pytest.mark.parametrize("background", [False, True])
def test_posteriors_are_those_of_union_inference(data, unnoticed, background):
    model = ORedLogisticRegression(missed=[0.1, 0.2, 0.3, 0.2, 0.0], spurious=0.05, background=background)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InfeasibleBagWarning)
        model.fit(data.bags, unnoticed)
    found = model.find(data.bags, unnoticed)
    proba = model.predict_instances_proba(data.bags)
    missed, listed = np.asarray(model.missed_), unnoticed
    if background:
        proba = np.column_stack([proba, model.background_proba(data.bags)])
        missed, listed = np.append(missed, 0.0), np.column_stack([unnoticed, np.zeros(len(unnoticed))])
    _, expected = union_posterior(
        proba, data.bags.offsets, listed, background=5 if background else None, missed=missed, spurious=0.05
    )
    assert_allclose(found.proba, expected[:, :5], rtol=0, atol=1e-9)
    bag = data.bags.bag_index
    named = found.labels >= 0
    assert_array_equal(named, unnoticed.any(axis=1)[bag])
    assert unnoticed[bag[named], found.labels[named]].all()  # only labels of the bag's own set


def test_label_posterior_equals_enumeration():
    data = make_gaussian_bags(
        n_bags=12, n_features=3, n_classes=4, separation=1.5, instances_per_bag=(2, 4), random_state=3
    )
    missed, spurious = np.array([0.2, 0.0, 0.4, 0.3]), np.array([0.1, 0.2, 0.0, 0.3])
    model = ORedLogisticRegression(missed=missed, spurious=spurious).fit(data.bags, data.Y)
    proba = model.predict_instances_proba(data.bags)
    _, _, expected = oracles.union_with_rates(proba, data.bags.offsets, data.Y, missed, spurious)
    found = model.label_posterior(data.bags, data.Y)
    assert_allclose(found, expected, rtol=0, atol=1e-10)
    known = np.full(data.bags.n_instances, -1)
    known[0] = 2
    _, _, expected = oracles.union_with_rates(proba, data.bags.offsets, data.Y, missed, spurious, known=known)
    found = model.label_posterior(data.bags, data.Y, Bags(known, data.bags.offsets))
    assert_allclose(found, expected, rtol=0, atol=1e-10)
    certain = ORedLogisticRegression().fit(data.bags, data.Y).label_posterior(data.bags, data.Y)
    assert_allclose(certain, data.Y, rtol=0, atol=1e-10)


def test_label_posterior_knows_a_background():
    data = make_gaussian_bags(
        n_bags=10, n_features=3, n_classes=3, separation=1.5, instances_per_bag=(2, 4), random_state=3
    )
    model = ORedLogisticRegression(background=True, missed=0.2, spurious=0.1).fit(data.bags, data.Y)
    proba = np.column_stack([model.predict_instances_proba(data.bags), model.background_proba(data.bags)])
    Y = np.column_stack([data.Y, np.zeros(10, np.uint8)])
    rates = np.array([[0.2] * 3 + [0], [0.1] * 3 + [0]])
    _, _, expected = oracles.union_with_rates(proba, data.bags.offsets, Y, *rates, background=3)
    assert_allclose(model.label_posterior(data.bags, data.Y), expected[:, :3], rtol=0, atol=1e-10)


def test_forgotten_and_made_up_labels_are_found(data, unnoticed):
    model = make_model("ored", **BOTH).fit(data.bags, unnoticed)
    presence = model.label_posterior(data.bags, unnoticed)
    forgotten, made_up = (data.Y == 1) & (unnoticed == 0), (data.Y == 0) & (unnoticed == 1)
    assert presence[forgotten].mean() > presence[(data.Y == 0) & (unnoticed == 0)].mean() + 0.5
    assert np.median(presence[made_up]) < np.quantile(presence[(data.Y == 1) & (unnoticed == 1)], 0.05)


def test_bags_that_nothing_explained_are_ordinary(data):
    Y = data.Y.copy()
    Y[0], Y[1] = 1, 0
    small = int(np.argmin(data.bags.sizes))
    Y[small] = 1
    with warnings.catch_warnings():
        warnings.simplefilter("error", InfeasibleBagWarning)
        model = ORedLogisticRegression(missed=0.1, spurious=0.1).fit(data.bags, Y)
        labels = model.annotate(data.bags, Y)
    assert (labels[data.bags.bag_index == 1] == model.background_label_).all()
    with pytest.warns(InfeasibleBagWarning, match="no label"):  # nothing goes unnoticed, so something is missing
        ORedLogisticRegression(spurious=0.1).fit(data.bags, Y)


def test_relaxed_bags_are_those_of_spurious_rate_one():
    rng = np.random.default_rng(0)
    proba, Y = rng.dirichlet(np.ones(4), 2), np.array([[1, 1, 1, 0]], np.uint8)
    problem = UnionProblem.build(np.array([0, 2]), Y, relaxed=np.array([True]))
    relaxed = proba.copy()
    problem.infer_in_place(relaxed, softmax=False, residual=False)
    _, nearly = union_posterior(proba, [0, 2], Y, spurious=1 - 1e-12)
    assert_allclose(relaxed, nearly, rtol=0, atol=1e-10)


def test_known_instances_of_an_unlisted_class_went_unnoticed(data):
    known = np.full(data.bags.n_instances, -1)
    c = int(np.flatnonzero(data.Y[0] == 0)[0])
    known[0] = c
    values = Bags(known, data.bags.offsets)
    with pytest.raises(InputError, match="which its bag does not carry"):
        ORedLogisticRegression(spurious=0.1).fit(data.bags, data.Y, instance_labels=values)
    model = ORedLogisticRegression(missed="learn").fit(data.bags, data.Y, instance_labels=values)
    found = model.find(data.bags, data.Y, values)
    assert found.labels[0] == c
    assert found.proba[0, c] == pytest.approx(1.0)
    known[0] = KNOWN_BACKGROUND
    model = ORedLogisticRegression(missed=0.1, background=True).fit(data.bags, data.Y, instance_labels=values)
    assert model.find(data.bags, data.Y, values).labels[0] == -1


def test_every_option_goes_with_rates(data, unnoticed, tmp_path):
    options = [
        {"background": True, "background_share": 0.2}, {"prune": 0.1}, {"on_infeasible": "relax"},
        {"inference": "forward-backward"}, {"inference": "forward"}, {"max_exact_labels": 1}, {"n_jobs": 2},
    ]  # fmt: skip
    for option in options:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = ORedLogisticRegression(**BOTH, **option).fit(data.bags, unnoticed)
        assert 0.0 < model.missed_ < 0.6, option
    em = ORedLogisticRegression(solver="em", missed=0.3, spurious=0.03).fit(data.bags, unnoticed)
    assert np.diff(em.objective_history_).min() >= -1e-9
    ORedLogisticRegression(solver="em", missed=0.3, batch_fraction=0.5, random_state=0).fit(data.bags, data.Y)
    seen = []
    whole = ORedLogisticRegression(**BOTH)
    whole.fit(data.bags, unnoticed, callback=lambda i, value: seen.append(value))
    assert_allclose(seen, whole.objective_history_[1:])

    class Killed(Exception):
        pass

    def stop(i, value):
        if i == 6:
            raise Killed

    identity = {"fit": "this"}
    with pytest.raises(Killed):
        ORedLogisticRegression(**BOTH).fit(
            data.bags, unnoticed, callback=stop, checkpoint=Checkpoint(tmp_path, identity, 0.0)
        )
    again = ORedLogisticRegression(**BOTH).fit(data.bags, unnoticed, checkpoint=Checkpoint(tmp_path, identity, 0.0))
    assert_array_equal(again.coef_, whole.coef_)
    assert again.missed_ == whole.missed_
    warm = whole.set_params(warm_start=True).fit(data.bags, unnoticed)
    assert warm.n_iter_ < again.n_iter_ / 2
    assert warm.missed_ == pytest.approx(again.missed_, abs=0.01)


@pytest.mark.parametrize(
    "rates", [BOTH, {"missed": 0.3, "spurious": [0.0, 0.1, 0.0, 0.0, 0.2]}], ids=["learn", "given"]
)
@pytest.mark.parametrize("learner", [ORedLogisticRegression, ORedForest])
def test_rates_are_in_the_model_file(learner, rates, data, unnoticed, tmp_path):
    small = {"n_estimators": 10, "n_rounds": 2, "n_round_trees": 20, "random_state": 0} if learner is ORedForest else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InfeasibleBagWarning)  # bags without labels, where the rate is not borne out
        model = learner(**small, **rates).fit(data.bags, unnoticed)
    bagwise.save(model, tmp_path / "model.bagwise")
    again = bagwise.load(tmp_path / "model.bagwise")
    assert_array_equal(again.missed_, model.missed_)
    assert_array_equal(again.spurious_, model.spurious_)
    some = unnoticed.any(axis=1)
    assert_array_equal(
        again.annotate_proba(data.bags[some], unnoticed[some]), model.annotate_proba(data.bags[some], unnoticed[some])
    )
    assert_array_equal(again.label_posterior(data.bags, unnoticed), model.label_posterior(data.bags, unnoticed))


@pytest.mark.parametrize("learner", [ORedLogisticRegression, ORedForest])
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"missed": -0.1}, "missed must be in"),
        ({"spurious": 1.0}, "spurious must be in"),
        ({"missed": [0.1, 0.2]}, "there are 5 classes"),
        ({"spurious": "guess"}, "or 'learn'"),
        ({"missed": None}, "missed"),
    ],
)
def test_bad_rates_are_named(learner, arguments, message, data):
    with pytest.raises(InputError, match=message):
        learner(**arguments).fit(data.bags, data.Y)


def test_what_cannot_be_learned_is_named(data):
    with pytest.raises(InputError, match="solver='em' steps in the weights alone"):
        ORedLogisticRegression(solver="em", missed="learn").fit(data.bags, data.Y)


def test_a_rate_that_runs_away_is_a_warning(data):
    rng = np.random.default_rng(0)
    nothing = np.zeros((len(data), 5), np.uint8)
    nothing[np.arange(4), rng.integers(0, 5, 4)] = 1  # of 150 bags nearly all list nothing
    with pytest.warns(UserWarning, match="missed ran to 0.9.*next to nothing about the instances"):
        ORedLogisticRegression(missed="learn").fit(data.bags, nothing[:, nothing.any(axis=0)])


def test_the_forest_learns_rates(data):
    rng = np.random.default_rng(0)
    seen, unnoticed = rng.random(data.bags.n_instances) >= 0.6, np.zeros_like(data.Y)
    unnoticed[data.bags.bag_index[seen], data.instance_labels.instances[seen]] = 1
    small = {"n_estimators": 50, "n_rounds": 4, "n_round_trees": 50, "random_state": 0}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InfeasibleBagWarning)
        plain = ORedForest(**small).fit(data.bags, unnoticed)
    learned = ORedForest(**small, **BOTH).fit(data.bags, unnoticed)
    assert 0.4 < learned.missed_ < 0.75
    assert right(data, learned.predict_instances(data.bags)) > right(data, plain.predict_instances(data.bags))
    some = unnoticed.any(axis=1)
    labels = learned.find(data.bags[some], unnoticed[some]).labels
    assert unnoticed[some][data.bags[some].bag_index, labels].all()
    assert not hasattr(make_model("clpl"), "label_posterior")


def small(name, **settings):
    if name == "ored":
        return ORedLogisticRegression(**settings)
    return ORedForest(20, n_rounds=3, n_round_trees=20, random_state=0, **settings)


@pytest.mark.parametrize("missed", [0.3, "learn"])
@pytest.mark.parametrize("name", ["ored", "forest"])
def test_known_background_goes_with_missed_labels(name, missed, data, unnoticed):
    known = np.full(data.bags.n_instances, -1)
    known[::7] = KNOWN_BACKGROUND
    model = small(name, background=True, missed=missed, spurious=0.05).fit(
        data.bags, unnoticed, Bags(known, data.bags.offsets)
    )
    assert model.find(data.bags, unnoticed, Bags(known, data.bags.offsets)).labels[::7].tolist() == [-1] * len(
        known[::7]
    )


def test_what_is_wrong_with_a_bag_counts_what_is_known(data):
    known = np.full(data.bags.n_instances, -1)
    b = int(np.argmax(data.Y.sum(axis=1) >= data.bags.sizes))
    known[data.bags.offsets[b]] = KNOWN_BACKGROUND
    model = small("ored", background=True, on_infeasible="error")
    with pytest.raises(InputError, match=rf"bag {b} carries \d label\(s\) that no known instance has, but \d instance"):
        model.fit(data.bags, data.Y, Bags(known, data.bags.offsets))


@pytest.mark.parametrize("name", ["ored", "forest"])
def test_a_bag_without_labels_is_annotated_where_labels_may_be_missed(name, data, unnoticed):
    assert (~unnoticed.any(axis=1)).any()
    model = small(name, missed=0.3).fit(data.bags, unnoticed)
    proba = model.annotate_proba(data.bags, unnoticed)
    assert_allclose(proba.sum(axis=1), 1.0)
    empty = (~unnoticed.any(axis=1))[data.bags.bag_index]
    assert (model.annotate(data.bags, unnoticed)[empty] == -1).all()
    assert right(data, proba.argmax(axis=1)) > 0.8
    with pytest.warns(InfeasibleBagWarning, match=r"carry no label.*background=True"):
        small(name).fit(data.bags[unnoticed.any(axis=1)], unnoticed[unnoticed.any(axis=1)]).annotate(
            data.bags, unnoticed
        )


@pytest.mark.parametrize("name", ["ored", "forest"])
def test_calibrated_probabilities_are_of_labels_that_are_there(name, data, monkeypatch):
    monkeypatch.setattr("bagwise.annotation.forest.MANY", np.inf)  # instances go unnoticed one by one
    rng = np.random.default_rng(3)
    seen, listed = rng.random(data.bags.n_instances) >= 0.5, np.zeros_like(data.Y)
    listed[data.bags.bag_index[seen], data.instance_labels.instances[seen]] = 1
    model = CalibratedAnnotator(small(name, missed=0.5)).fit(data.bags, listed)
    there, said = data.Y.mean(), model.predict_proba(data.bags).mean()
    assert listed.mean() < there - 0.1
    assert abs(said - there) < 0.06


def test_rates_travel_through_the_command_line(data, unnoticed, tmp_path):
    from click.testing import CliRunner

    from bagwise import BagDataset, Run, write_dataset
    from bagwise.app.cli.main import main
    from bagwise.app.runs.learner import apply_settings

    table = tmp_path / "made.csv"
    write_dataset(BagDataset(data.bags, unnoticed, list("abcde")), table)
    out = tmp_path / "run"
    settings = ["--set", "missed=learn", "--set", "spurious=learn"]
    done = CliRunner().invoke(main, ["annotate", str(table), "--out", str(out), "--model", "ored", *settings])
    assert done.exit_code in (0, 3), done.output
    done = CliRunner().invoke(main, ["info", str(out), "--json"])
    assert done.exit_code == 0, done.output
    facts = json.loads(done.output)
    assert facts["kind"] == "run"
    assert abs(facts["missed"] - 0.3) < 0.1
    rows = facts["label_issues"]
    assert {row["kind"] for row in rows} == {"missing", "spurious"}
    best = ORedLogisticRegression(missed=facts["missed"], spurious=facts["spurious"])
    assert best.fit(data.bags, unnoticed).label_posterior(data.bags, unnoticed)[unnoticed == 0].max() - 0.02 < max(
        row["probability"] for row in rows
    )  # also where nothing is listed
    with Run.open(out) as run:
        dataset = run.supervision().dataset
        number = {name: i for i, name in enumerate(dataset.bag_names)}
        for row in rows:
            listed = dataset.label_sets[number[row["bag"]]]
            assert (row["label"] in listed) == (row["kind"] == "spurious")
            assert 0 <= row["instance"] < dataset.bags.sizes[number[row["bag"]]]
    text = CliRunner().invoke(main, ["info", str(out)]).output
    assert "missing" in text
    assert "it is that" in text
    assert "Label issues" in (out / "report.html").read_text(encoding="utf-8")
    model = json.loads(CliRunner().invoke(main, ["info", str(out / "model.bagwise"), "--json"]).output)
    assert model["missed_"] == facts["missed"]
    with pytest.raises(InputError, match="must be a number in \\[0, 1\\), or 'learn'"):
        apply_settings(make_model("ored"), {"missed": "guess"})
    for text, value in (("0.2", 0.2), (".2", 0.2), ("2e-1", 0.2), ("+.2", 0.2)):
        assert apply_settings(make_model("ored-forest"), {"missed": text}).missed == value
    for text, value in (("0.5", 0.5), ("log2", "log2"), ("3", 3), ("none", None)):
        assert apply_settings(make_model("ored-forest"), {"max_features": text}).max_features == value
    for model, text in (("ored-forest", "all"), ("bag-stack", "0"), ("bag-stack", "1.5")):
        with pytest.raises(InputError, match="'max_features' parameter of .* must be 'sqrt', 'log2'"):
            apply_settings(make_model(model), {"max_features": text}).fit(data.bags, data.Y)
