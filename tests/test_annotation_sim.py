"""The support instance machine as an estimator: what it learns, what it predicts, and every bad input."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import StandardScaler

from bagwise import Bags, SupportInstanceMachine, make_pipeline
from bagwise.core.exceptions import InfeasibleBagWarning, InputError
from bagwise.datasets import make_gaussian_bags
from bagwise.preprocessing import CLPLScaler, PerInstance, RandomFourierFeatures
from oracles_sim import OBJECTIVES, support_instances

MODELS = [
    {"aggregation": "max"},
    {"aggregation": "softmax"},
    {"aggregation": "mean"},
    {"aggregation": "max", "solver": "cccp"},
    {"loss": "hamming", "aggregation": "max"},
    {"loss": "hamming", "aggregation": "softmax"},
    {"loss": "hamming", "aggregation": "max", "solver": "cccp"},
]


@pytest.fixture(scope="module")
def data():
    return make_gaussian_bags(n_bags=80, n_features=5, n_classes=4, separation=6.0, random_state=0)


@pytest.fixture(scope="module")
def bags(data):
    return PerInstance(StandardScaler()).fit_transform(data.bags)


def accuracy(data, labels):
    return np.mean(labels == data.instance_labels.instances)


@pytest.mark.parametrize("parameters", MODELS, ids=str)
def test_instances_are_annotated(parameters, data, bags):
    model = SupportInstanceMachine(alpha=1e-3, **parameters).fit(bags, data.Y)
    assert model.coef_.shape == (4, 5)
    assert model.n_iter_ == len(model.objective_history_) <= 10
    chance = np.mean(data.Y.sum(axis=1) ** -1.0)
    wanted = 0.8 if model.loss == "rank" else max(chance + 0.1, 0.55)
    assert accuracy(data, model.annotate(bags, data.Y)) > wanted
    if model.loss == "rank":
        assert accuracy(data, model.predict_instances(bags)) > 0.6


@pytest.mark.parametrize("parameters", MODELS, ids=str)
def test_history_ends_with_the_papers_objective_at_the_weights(parameters, data, bags):
    model = SupportInstanceMachine(alpha=1e-2, n_phases=3, n_steps=20, **parameters).fit(bags, data.Y)
    defined = (data.Y.sum(axis=1) > 0) & (data.Y.sum(axis=1) < 4)
    assert defined.all()
    support = support_instances(bags.instances, bags.offsets, model.coef_, model.aggregation)
    expected = OBJECTIVES[model.loss](support, model.coef_, data.Y, 1e-2)
    assert_allclose(model.objective_history_[-1], expected, rtol=1e-10)


@pytest.mark.parametrize("aggregation", ["max", "softmax", "mean"])
def test_bag_scores_are_aggregated_and_label_sets_are_unions(aggregation, data, bags):
    model = SupportInstanceMachine(aggregation=aggregation, alpha=1e-3).fit(bags, data.Y)
    scores = bags.instances @ model.coef_.T
    assert_allclose(model.instance_decision_function(bags), scores)
    support = support_instances(bags.instances, bags.offsets, model.coef_, aggregation)
    expected = np.einsum("jd,ijd->ij", model.coef_, support)
    assert_allclose(model.decision_function(bags), expected, rtol=1e-9, atol=1e-9)
    sets = [set(labels) for labels in bags.split(scores.argmax(axis=1))]
    assert model.predict_label_sets(bags) == sets
    assert_array_equal(model.predict(bags).sum(axis=1), [len(labels) for labels in sets])


def test_label_forms_are_the_same_to_it(data, bags):
    names = np.array(["ant", "bee", "cat", "dog"])
    sets = [set(names[row == 1]) for row in data.Y]
    one, other = (SupportInstanceMachine(alpha=1e-3).fit(bags, Y) for Y in (data.Y, sets))
    assert_array_equal(one.coef_, other.coef_)
    assert_array_equal(other.annotate(bags, sets), names[one.annotate(bags, data.Y)])


def test_one_label_a_bag():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(90, 2, 2)) + 5.0 * np.repeat(np.eye(3, 2), 30, axis=0)[:, None]
    y = np.repeat(["a", "b", "c"], 30)
    model = SupportInstanceMachine(alpha=1e-3).fit(X - X.mean(axis=(0, 1)), y)
    assert np.mean(model.predict(X - X.mean(axis=(0, 1))) == y) > 0.9


def test_sparse_and_single_precision_instances(data, bags):
    expected = SupportInstanceMachine(alpha=1e-2, n_phases=3).fit(bags, data.Y)
    sparse = Bags(sp.csr_matrix(bags.instances), bags.offsets)
    single = Bags(bags.instances.astype(np.float32), bags.offsets)
    for other, tolerance in ((sparse, 1e-6), (single, 0.2)):
        model = clone(expected).fit(other, data.Y)
        assert model.coef_.dtype == np.float64
        assert_allclose(model.coef_, expected.coef_, atol=tolerance * np.abs(expected.coef_).max())
        assert_allclose(model.decision_function(other), model.decision_function(bags), rtol=1e-3, atol=1e-3)


def test_it_is_deterministic(data, bags):
    one, other = (SupportInstanceMachine(alpha=1e-4).fit(bags, data.Y) for _ in range(2))
    assert_array_equal(one.coef_, other.coef_)


def test_callback(data, bags):
    heard = []
    model = SupportInstanceMachine(alpha=1e-2, n_phases=4)
    model.fit(bags, data.Y, callback=lambda phase, value: heard.append((phase, value)))
    assert heard == list(enumerate(model.objective_history_.tolist(), start=1))


def test_fourier_features_with_double_scaling():
    """Rings around a centre: no linear score can tell them apart."""
    rng = np.random.default_rng(0)
    sizes = rng.integers(2, 5, 100)
    labels = rng.integers(0, 3, sizes.sum())
    angle = rng.uniform(0, 2 * np.pi, len(labels))
    radius = 1.0 + 2.0 * labels + 0.1 * rng.normal(size=len(labels))
    bags = Bags(np.column_stack([radius * np.cos(angle), radius * np.sin(angle)]), np.append(0, np.cumsum(sizes)))
    Y = np.zeros((100, 3), dtype=np.uint8)
    Y[bags.bag_index, labels] = 1
    keep = Y.sum(axis=1) < 3
    bags, Y, labels = bags[keep], Y[keep], Bags(labels, bags.offsets)[keep].instances
    linear = make_pipeline(PerInstance(CLPLScaler()), SupportInstanceMachine(alpha=1e-6))
    curved = make_pipeline(
        PerInstance(CLPLScaler()),
        PerInstance(RandomFourierFeatures(gamma=2e3, n_components=50, random_state=0)),
        PerInstance(CLPLScaler()),
        SupportInstanceMachine(alpha=1e-6),
    )
    straight, bent = (np.mean(model.fit(bags, Y).predict_instances(bags) == labels) for model in (linear, curved))
    assert bent > 0.85
    assert bent > straight + 0.3


# -- bad input --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"loss": "logistic"}, "loss='logistic' is not known; use one of 'rank', 'hamming'"),
        ({"aggregation": "sum"}, "aggregation='sum' is not known; use one of 'max', 'softmax', 'mean'"),
        ({"solver": "sgd"}, "solver='sgd' is not known; use one of 'heuristic', 'cccp'"),
        ({"restart": "first"}, "restart='first' is not known; use one of 'best', 'last'"),
        ({"on_undefined": "ignore"}, "on_undefined='ignore' is not known; use one of 'drop', 'error'"),
        (
            {"solver": "cccp", "aggregation": "softmax"},
            "aggregation='softmax' is not convex, so solver='cccp' cannot be used; use solver='heuristic'",
        ),
        ({"solver": "cccp", "aggregation": "mean"}, "aggregation='mean' is linear.*use solver='heuristic'"),
        (
            {"solver": "cccp", "aggregation": "max", "restart": "last"},
            "restart='last' cannot be used; use restart='best'",
        ),
        ({"alpha": 0.0}, "'alpha' parameter .* must be a positive number. Got 0.0"),
        ({"alpha": -1e-7}, "'alpha' parameter"),
        ({"alpha": np.nan}, "'alpha' parameter"),
        ({"alpha": np.inf}, "'alpha' parameter"),
        ({"alpha": "small"}, "'alpha' parameter .* Got 'small'"),
        ({"n_phases": 0}, "'n_phases' parameter .* must be a whole number, 1 or more. Got 0"),
        ({"n_steps": 0}, "'n_steps' parameter"),
        ({"n_steps": 10.5}, "'n_steps' parameter"),
        ({"max_steps": -3}, "'max_steps' parameter"),
    ],
    ids=str,
)
def test_parameters_that_make_no_sense(parameters, message, data, bags):
    with pytest.raises(InputError, match=message):
        SupportInstanceMachine(**parameters).fit(bags, data.Y)


def test_bags_with_no_label_or_all_are_left_out_and_named(data, bags):
    Y = data.Y.copy()
    Y[[3, 17]] = 0
    Y[40] = 1
    with pytest.warns(InfeasibleBagWarning, match="3 of 80 bags carry no label or every one of the 4.*bags 3, 17, 40,"):
        model = SupportInstanceMachine(alpha=1e-2).fit(bags, Y)
    keep = np.setdiff1d(np.arange(80), [3, 17, 40])
    expected = SupportInstanceMachine(alpha=1e-2).fit(bags[keep], Y[keep])
    assert_array_equal(model.coef_, expected.coef_)


def test_bags_with_no_label_or_all_can_be_an_error(data, bags):
    Y = data.Y.copy()
    Y[5] = 1
    with pytest.raises(InputError, match="1 of 80 bags .* bag 5, so that the rank loss is not defined"):
        SupportInstanceMachine(on_undefined="error").fit(bags, Y)


def test_no_bag_left(bags):
    with pytest.raises(InputError, match="rank loss is not defined"):
        SupportInstanceMachine().fit(bags, np.ones((80, 3)))


def test_hamming_loss_takes_all_label_sets(data, bags):
    Y = data.Y.copy()
    Y[[3, 17]] = 0
    Y[40] = 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = SupportInstanceMachine(loss="hamming", alpha=1e-2).fit(bags, Y)
    assert model.coef_.any()


@pytest.mark.parametrize("aggregation", ["max", "softmax", "mean"])
@pytest.mark.parametrize("size", [1e3, 1e8, 1e140])
def test_large_features_do_not_overflow(aggregation, size, data, bags):
    """Scores of 1e5 and more: exp of them is infinite without equation 65."""
    large = Bags(size * bags.instances, bags.offsets)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # alpha is too small for such features, and it says so
        model = SupportInstanceMachine(aggregation=aggregation, alpha=1e-2, n_phases=3).fit(large, data.Y)
        scores = model.decision_function(large)
    assert np.abs(large.instances @ model.coef_.T).max() > 800
    assert np.isfinite(model.coef_).all()
    assert np.isfinite(scores).all()
    assert np.isfinite(model.objective_history_).all()


@pytest.mark.parametrize(("size", "alpha"), [(1e200, 1e-2), (1e5, 1e-150)])
def test_steps_beyond_double_precision_are_refused(size, alpha, data, bags):
    huge = Bags(size * bags.instances, bags.offsets)
    with pytest.raises(InputError, match=r"Features as large as .* make steps overflow with alpha=.*CLPLScaler"):
        SupportInstanceMachine(alpha=alpha).fit(huge, data.Y)


def test_alpha_too_small_for_the_features_is_reported(data, bags):
    large = Bags(1e3 * bags.instances, bags.offsets)
    for parameters in ({"aggregation": "softmax"}, {"aggregation": "max", "solver": "cccp"}):
        with pytest.warns(ConvergenceWarning, match="alpha=1e-07 is too small for features of this scale"):
            SupportInstanceMachine(max_steps=100, **parameters).fit(large, data.Y)


def test_alpha_too_large_for_the_features_is_reported(data, bags):
    """Weights that cannot grow: the cure is the opposite one."""
    for parameters in ({"aggregation": "softmax"}, {"aggregation": "max", "solver": "cccp"}):
        with pytest.warns(ConvergenceWarning, match=r"is too large for features of this scale. Lower alpha"):
            SupportInstanceMachine(alpha=1e12, n_phases=2, **parameters).fit(bags, data.Y)


def test_features_that_are_nothing_are_reported(data, bags):
    with pytest.warns(ConvergenceWarning, match="all features are zero"):
        SupportInstanceMachine(alpha=1e-2).fit(Bags(0 * bags.instances, bags.offsets), data.Y)
