"""Importances against scikit-learn's, contributions against coefficients, pictures by what they hold."""

import matplotlib as mpl
import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.inspection import permutation_importance as sklearn_importance
from sklearn.metrics import confusion_matrix
from sklearn.model_selection import LearningCurveDisplay
from sklearn.preprocessing import StandardScaler

from bagwise import Bags, ORedLogisticRegression, SupportInstanceMachine, make_pipeline
from bagwise.classification import MIMLNN
from bagwise.core.exceptions import InputError
from bagwise.datasets import make_gaussian_bags
from bagwise.inspection import feature_contributions, permutation_importance
from bagwise.metrics import calibration_error, instance_outcomes
from bagwise.plotting import BagDisplay, InstanceConfusionDisplay, ReliabilityDisplay
from bagwise.preprocessing import PerInstance

mpl.use("Agg")


@pytest.fixture(scope="module")
def data():
    return make_gaussian_bags(n_bags=40, n_features=4, n_classes=3, separation=3.0, random_state=0)


@pytest.fixture(scope="module")
def model(data):
    return make_pipeline(PerInstance(StandardScaler()), ORedLogisticRegression()).fit(data)


@pytest.fixture(autouse=True)
def closed():
    yield
    import matplotlib.pyplot as plt

    plt.close("all")


def test_importances_equal_scikit_learns_on_a_table():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 3)), rng.integers(0, 2, 60)
    X[:, 1] += 2.0 * y
    model = ORedLogisticRegression().fit(X, y)
    found = permutation_importance(model, X, y, n_repeats=3, random_state=0)
    theirs = sklearn_importance(model, X, y, n_repeats=40, random_state=0)
    assert found.importances.shape == (3, 3)
    assert_allclose(found.importances_mean, theirs.importances_mean, atol=4 * theirs.importances_std.max())
    assert found.importances_mean.argmax() == theirs.importances_mean.argmax() == 1


def test_a_feature_that_nothing_depends_on_has_none(data):
    wide = Bags(np.hstack([data.bags.instances, np.ones((data.bags.n_instances, 1))]), data.bags.offsets)
    for bags in (wide, Bags(sp.csr_matrix(wide.instances), wide.offsets)):
        model = ORedLogisticRegression().fit(bags, data.Y)
        found = permutation_importance(model, bags, data.Y, scoring="average_precision", n_repeats=2, random_state=0)
        assert_array_equal(found.importances[4], 0.0)
        assert found.importances_mean[:4].max() > 0.01
    with pytest.raises(InputError, match="n_repeats must be a whole number"):
        permutation_importance(model, bags, data.Y, n_repeats=0)


def test_contributions_of_a_linear_model_are_coefficients_times_distances(data, model):
    found = feature_contributions(model, data.bags)
    scaler, final = model[0].transformer_, model[-1]
    away = (data.bags.instances - data.bags.instances.mean(axis=0)) / scaler.scale_
    assert_allclose(found, away[:, None, :] * final.coef_, atol=1e-10)
    reference = np.arange(4.0)
    at = model.instance_decision_function(reference[None])
    assert_allclose(
        feature_contributions(model, data.bags, reference).sum(axis=2),
        model.instance_decision_function(data.bags) - at,
        atol=1e-10,
    )


def test_contributions_say_what_they_cannot_do(data, model):
    with pytest.raises(InputError, match="gives instances no scores"):
        feature_contributions(MIMLNN().fit(data.bags, data.Y), data.bags)
    with pytest.raises(InputError, match=r"reference has shape \(2,\); expected a value for each of 4"):
        feature_contributions(model, data.bags, [0.0, 1.0])
    with pytest.raises(InputError, match="dense"):
        feature_contributions(model, Bags(sp.csr_matrix(data.bags.instances), data.bags.offsets))


def test_a_bag_is_drawn_with_its_posterior(data, model):
    display = BagDisplay.from_estimator(model, data, bag=5)
    rows = data.bags.bag_index == 5
    assert_array_equal(display.im_.get_array(), model.annotate_proba(data.bags, data.Y)[rows])
    assert [tick.get_fontweight() == "bold" for tick in display.ax_.get_xticklabels()] == (data.Y[5] == 1).tolist()
    alone = BagDisplay.from_estimator(model, data.bags, bag=5, ax=display.ax_)
    assert alone.ax_ is display.ax_
    assert_allclose(alone.proba, model.predict_instances_proba(data.bags)[rows])
    sets = [set(labels) for labels in data.label_sets]
    background = ORedLogisticRegression(background=True).fit(data.bags, sets)
    display = BagDisplay.from_estimator(background, data.bags, sets, bag=5)
    assert display.labels[-1] == "background"
    assert_allclose(display.proba.sum(axis=1), 1.0)
    assert_array_equal(display.listed[:-1], data.Y[5] == 1)
    with pytest.raises(InputError, match="There is no bag 40; there are 40"):
        BagDisplay.from_estimator(model, data, bag=40)
    with pytest.raises(InputError, match="SupportInstanceMachine gives instances no probabilities"):
        BagDisplay.from_estimator(SupportInstanceMachine(loss="hamming", alpha=1e-2).fit(data), data)


def test_reliability_is_that_of_the_measure(data, model):
    display = ReliabilityDisplay.from_estimator(model, data, n_bins=4)
    outcome, probability = instance_outcomes(data.instance_labels, model.predict_instances_proba(data.bags))
    assert display.error == calibration_error(outcome, probability, 4)
    assert_array_equal(display.line_.get_xdata(), [row["confidence"] for row in display.table])
    assert "ORedLogisticRegression, calibration error" in display.line_.get_label()
    other = ReliabilityDisplay.from_predictions([1, 0], [0.9, 0.2], ax=display.ax_)
    assert other.line_.get_ydata().tolist() == [0.0, 1.0]
    with pytest.raises(InputError, match="instance_labels"):
        ReliabilityDisplay.from_estimator(model, data.bags)


@pytest.mark.parametrize("given", [False, True])
def test_confusion_counts_instances(data, model, given):
    display = InstanceConfusionDisplay.from_estimator(model, data, given=given, colorbar=False)
    labels = model.annotate(data.bags, data.Y) if given else model.predict_instances(data.bags)
    assert_array_equal(display.confusion_matrix, confusion_matrix(data.instance_labels.instances, labels))
    assert len(display.ax_.get_xticks()) == 3


def test_learning_curves_are_scikit_learns(data):
    sizes = {"train_sizes": [0.5, 1.0], "cv": 3}
    display = LearningCurveDisplay.from_estimator(ORedLogisticRegression(), data.bags, data.Y, **sizes)
    assert len(display.train_sizes) == 2
    assert np.isfinite(display.test_scores).all()
