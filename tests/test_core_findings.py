"""One look at the instances gives everything: `find`, its views, and how often it looks."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline as sklearn_make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from bagwise import M3MIML, Bags, ORedLogisticRegression, SupportInstanceMachine, make_pipeline
from bagwise.annotation import CLPL, LSBCMM, MIMLFast, MostFrequentAnnotator, ORedForest, SupervisedAnnotator
from bagwise.calibration import select_at_precision
from bagwise.core import base as base_module
from bagwise.core.bags import KNOWN_BACKGROUND
from bagwise.core.base import Findings
from bagwise.core.exceptions import InfeasibleBagWarning, InputError
from bagwise.datasets import make_gaussian_bags
from bagwise.pipeline import bag_tags, find_instances, fit_parameters
from bagwise.preprocessing import PerInstance
from bagwise.union import UnionProblem
from oracles import union_posterior as enumerate_posterior

PLAIN = {
    "sim": SupportInstanceMachine(alpha=1e-3),
    "clpl": CLPL(C=10.0),
    "mimlfast": MIMLFast(max_epochs=20, random_state=0),
    "m3miml": M3MIML(kernel="linear"),
    "most-frequent": MostFrequentAnnotator(),
    "svm": SupervisedAnnotator(LinearSVC()),
}
PROBABILISTIC = {
    "ored": ORedLogisticRegression(),
    "ored-background": ORedLogisticRegression(background=True),
    "forest": ORedForest(10, n_rounds=1, n_round_trees=10, random_state=0),
    "forest-background": ORedForest(10, n_rounds=1, n_round_trees=10, background=True, random_state=0),
    "lsb-cmm": LSBCMM(random_state=0),
    "logistic": SupervisedAnnotator(LogisticRegression()),
}
MODELS = PLAIN | PROBABILISTIC
UNION = ("ored", "ored-background", "forest", "forest-background")
BACKGROUND = ("ored-background", "forest-background")


@pytest.fixture(scope="module")
def data():
    return make_gaussian_bags(n_bags=40, n_features=4, n_classes=4, separation=2.0, random_state=0)


@pytest.fixture(scope="module")
def fitted(data):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for model in MODELS.values():
            needs = bag_tags(model).needs_instance_labels
            model.fit(data.bags, data.Y, **({"instance_labels": data.instance_labels} if needs else {}))
    return MODELS


@pytest.mark.parametrize("name", MODELS)
def test_the_other_methods_are_views_of_find(fitted, data, name):
    model = fitted[name]
    alone, listed = model.find(data.bags), model.find(data.bags, data.Y)
    for found, labels, proba, args in (
        (alone, model.predict_instances, "predict_instances_proba", (data.bags,)),
        (listed, model.annotate, "annotate_proba", (data.bags, data.Y)),
    ):
        assert isinstance(found, Findings)
        assert found.labels.dtype == np.int64
        assert_array_equal(model.classes_[found.labels], labels(*args))
        assert hasattr(model, proba) == (found.proba is not None) == (name in PROBABILISTIC)
        if found.proba is not None:
            assert_array_equal(found.proba, getattr(model, proba)(*args))
        assert hasattr(model, "background_proba") == (found.background is not None) == (name in BACKGROUND)
        if found.background is not None:
            assert_array_equal(found.background, model.background_proba(*args))
    assert data.Y[data.bags.bag_index, listed.labels].all()
    assert_array_equal(alone.labels, model.instance_decision_function(data.bags).argmax(axis=1))


@pytest.mark.parametrize("name", MODELS)
def test_one_find_is_one_validation_and_one_inference(fitted, data, name, monkeypatch):
    calls = []
    infer, validate = UnionProblem.infer_in_place, base_module.validate_bags
    scores = type(fitted[name])._instance_scores
    monkeypatch.setattr(
        UnionProblem, "infer_in_place", lambda self, *a, **k: calls.append("infer") or infer(self, *a, **k)
    )
    monkeypatch.setattr(base_module, "validate_bags", lambda *a, **k: calls.append("validate") or validate(*a, **k))
    monkeypatch.setattr(
        type(fitted[name]), "_instance_scores", lambda self, bags: calls.append("score") or scores(self, bags)
    )
    fitted[name].find(data.bags, data.Y, data.instance_labels)
    assert calls.count("validate") == 1
    assert calls.count("infer") == (name in UNION)
    assert calls.count("score") <= 1
    calls.clear()
    fitted[name].find(data.bags)
    assert calls.count("validate") == 1
    assert "infer" not in calls
    assert calls.count("score") <= 1


@pytest.mark.parametrize("name", MODELS)
def test_known_instances_keep_their_label(fitted, data, name):
    model, truth = fitted[name], data.instance_labels.instances
    known = np.where(np.arange(len(truth)) % 3 == 0, truth, -1)
    found = model.find(data.bags, data.Y, Bags(known, data.bags.offsets))
    rows = known >= 0
    assert_array_equal(found.labels[rows], truth[rows])
    if found.proba is not None:
        assert_array_equal(found.proba[rows], np.eye(data.n_classes)[truth[rows]])
        assert_array_equal(found.probability[rows], 1.0)
        assert_allclose(found.proba.sum(axis=1), 1.0 if found.background is None else 1.0 - found.background)
    if name not in UNION:  # each instance for itself: the others stay as they were
        assert_array_equal(found.labels[~rows], model.find(data.bags, data.Y).labels[~rows])


@pytest.mark.parametrize("name", UNION)
def test_what_is_known_of_some_is_news_about_the_others(fitted, data, name):
    """Against every assignment written out."""
    model, truth = fitted[name], data.instance_labels.instances
    few = np.flatnonzero(data.bags.sizes <= 5)[:8]
    bags, Y = data.bags[few], data.Y[few]
    known = Bags(truth, data.bags.offsets)[few].instances.copy()
    known[np.arange(len(known)) % 2 == 0] = -1
    found = model.find(bags, Y, Bags(known, bags.offsets))
    prior, background = np.exp(model.log_proba(bags)), None
    if prior.shape[1] > data.n_classes:
        background = data.n_classes
        Y = np.column_stack([Y, np.zeros(len(Y), int)])
    _, expected = enumerate_posterior(prior, bags.offsets, Y, background, known)
    assert_allclose(found.proba, expected[:, : data.n_classes], rtol=1e-7, atol=1e-10)
    if background is not None:
        assert_allclose(found.background, expected[:, background], rtol=1e-7, atol=1e-10)
    others = known < 0
    blind = model.find(bags, Y[:, : data.n_classes]).proba
    assert np.abs(found.proba[others] - blind[others]).max() > 0.05


@pytest.mark.parametrize("name", BACKGROUND)
def test_an_instance_may_be_known_to_be_background(fitted, data, name):
    model = fitted[name]
    known = np.full(data.bags.n_instances, -1)
    known[0] = KNOWN_BACKGROUND
    found = model.find(data.bags, data.Y, Bags(known, data.bags.offsets))
    assert (found.labels[0], found.background[0], found.proba[0].sum()) == (-1, 1.0, 0.0)
    assert (found.labels[1:] >= 0).all()
    Y = np.column_stack([data.Y, np.zeros(len(data), int)])[:1]
    n = data.bags.sizes[0]
    _, expected = enumerate_posterior(
        np.exp(model.log_proba(data.bags[:1])), np.array([0, n]), Y, 4, np.array([4] + [-1] * (n - 1))
    )
    assert_allclose(found.background[:n], expected[:, -1], rtol=1e-7)
    again = clone(model).fit(data.bags, data.Y, Bags(known, data.bags.offsets))
    assert np.abs(again.decision_function(data.bags) - model.decision_function(data.bags)).max() > 1e-4
    with pytest.raises(InputError, match="-2 is background, for a model that has one"):
        fitted["ored"].find(data.bags, data.Y, Bags(known, data.bags.offsets))


@pytest.mark.parametrize("name", MODELS)
def test_bad_known_instances(fitted, data, name):
    model = fitted[name]
    with pytest.raises(InputError, match="pass Y with them"):
        model.find(data.bags, instance_labels=data.instance_labels)
    outside = data.instance_labels.instances.copy()
    outside[0] = np.flatnonzero(data.Y[0] == 0)[0]
    with pytest.raises(InputError, match="Instance 0 of bag 0 is known to be of class"):
        model.find(data.bags, data.Y, Bags(outside, data.bags.offsets))
    with pytest.raises(InputError, match="Y is None; pass them, or use predict_instances"):
        model.annotate(data.bags, None)


def test_probability_and_second_class():
    proba = np.array([[0.7, 0.3, 0.0], [0.2, 0.79996, 0.00004], [0.1, 0.5, 0.4], [0.99996, 0.00004, 0.0]])
    found = Findings(np.array([0, 1, -1, 0]), proba)
    assert found.probability.tolist() == [0.7, 0.79996, 0.0, 0.99996]
    assert found.second.tolist() == [1, 0, 1, -1]  # what rounds to 0.0000 is none
    assert Findings(np.array([0, 0])).probability is None
    assert Findings(np.array([0, 0])).second.tolist() == [-1, -1]
    assert Findings(np.zeros(1, int), np.ones((1, 1))).second.tolist() == [-1]


def test_find_through_pipelines_and_searches(data):
    steps = PerInstance(StandardScaler()), ORedLogisticRegression(background=True)
    ours = make_pipeline(*steps).fit(data.bags, data.Y)
    X = ours[:-1].transform(data.bags)
    expected = ours[-1].find(X, data.Y, data.instance_labels)
    search = GridSearchCV(make_pipeline(*steps), {"oredlogisticregression__l2": [1.0]}, cv=2)
    nested = make_pipeline(PerInstance(StandardScaler()), make_pipeline(ORedLogisticRegression(background=True)))
    for model in (ours, sklearn_make_pipeline(*steps), search, nested):
        found = find_instances(model.fit(data.bags, data.Y), data.bags, data.Y, data.instance_labels)
        assert_array_equal(found.labels, expected.labels)
        assert_allclose(found.proba, expected.proba, rtol=1e-9, atol=1e-12)
        assert_allclose(found.background, expected.background, rtol=1e-9, atol=1e-12)
    assert_array_equal(ours.find(data.bags, data.Y, data.instance_labels).proba, expected.proba)
    assert_array_equal(nested.find(data.bags).labels, ours.find(data.bags).labels)
    assert fit_parameters(nested, callback=1) == {"bagpipeline__oredlogisticregression__callback": 1}


def test_a_pipeline_transforms_once_for_find(data, monkeypatch):
    pipe = make_pipeline(PerInstance(StandardScaler()), ORedLogisticRegression(background=True))
    pipe.fit(data.bags, data.Y)
    calls = []
    transform = PerInstance.transform
    monkeypatch.setattr(PerInstance, "transform", lambda self, X: calls.append(1) or transform(self, X))
    pipe.find(data.bags, data.Y)
    assert len(calls) == 1


def test_warnings_point_at_the_callers_line(data):
    bags, Y = Bags(np.zeros((1, 4)), [0, 1]), [[1, 1, 0, 0]]
    for model in (
        ORedLogisticRegression().fit(data.bags, data.Y),
        ORedForest(5, n_rounds=1, n_round_trees=5, random_state=0).fit(data.bags, data.Y),
        make_pipeline(PerInstance(StandardScaler()), ORedLogisticRegression()).fit(data.bags, data.Y),
    ):
        for method in (model.annotate, model.annotate_proba, model.find):
            with pytest.warns(InfeasibleBagWarning, match="Their instances are given labels") as caught:
                method(bags, Y)
            assert caught[0].filename == __file__


def test_what_there_is_depends_on_the_learner(data):
    with_background = make_pipeline(PerInstance(StandardScaler()), ORedLogisticRegression(background=True))
    without = make_pipeline(PerInstance(StandardScaler()), ORedLogisticRegression())
    assert hasattr(with_background, "background_proba")
    assert not hasattr(without, "background_proba")
    with_background.fit(data.bags, data.Y).set_params(oredlogisticregression__background=False)
    assert hasattr(with_background, "background_proba")  # what the fit found, not what the parameter was set to since
    assert bag_tags(with_background).background
    assert not hasattr(make_pipeline(SupportInstanceMachine()), "annotate_proba")
    assert hasattr(make_pipeline(SupervisedAnnotator()), "annotate_proba")
    assert not hasattr(make_pipeline(SupervisedAnnotator(LinearSVC())), "predict_instances_proba")
    search = GridSearchCV(without, {"oredlogisticregression__l2": [1.0]})
    assert bag_tags(search) == bag_tags(ORedLogisticRegression())
    assert not bag_tags(LogisticRegression()).annotates
    assert not bag_tags("passthrough").annotates


@settings(deadline=None, max_examples=150)
@given(
    st.lists(st.integers(0, 10).map(lambda tenths: tenths / 10), max_size=30),
    st.integers(1, 19).map(lambda twentieths: twentieths / 20),
)
def test_a_promised_precision_is_that_of_the_largest_set_above_a_threshold(values, precision):
    probability = np.array(values)
    kept = select_at_precision(probability, precision)
    best = 0
    for threshold in values:
        above = probability >= threshold
        if probability[above].mean() >= precision - 1e-12:
            best = max(best, int(above.sum()))
    assert kept.sum() == best
    if best:
        assert probability[kept].mean() >= precision - 1e-9
        assert probability[kept].min() > probability[~kept].max(initial=-1.0)
