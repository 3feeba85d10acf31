"""What every model of the catalog keeps: shapes, round trips, clones, weights, background."""

import re

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

from bagwise import load, save
from bagwise.catalog import CATALOG, make_model
from bagwise.datasets import make_gaussian_bags
from bagwise.pipeline import bag_tags, final_step, fit_parameters

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")  # of convergence, since fits are short

DATA = make_gaussian_bags(n_bags=24, n_features=4, n_classes=3, separation=3.0, random_state=0)
NEW = make_gaussian_bags(n_bags=8, n_features=4, n_classes=3, separation=3.0, random_state=1)
SHORT = {
    "ored-rbf": {"size": 10}, "ored-em": {"max_iter": 5}, "mimlfast": {"max_epochs": 3, "n_components": 8},
    "ored-forest": {"n_estimators": 8, "n_rounds": 2, "n_round_trees": 8}, "lsb-cmm": {"max_iter": 5},
    "ored-forest-background": {"n_estimators": 8, "n_rounds": 2, "n_round_trees": 8}, "mimlboost": {"n_rounds": 2},
    "k-ored-em": {"max_iter": 20}, "k-sim-softmax": {"n_steps": 20}, "k-mimlfast": {"max_epochs": 3, "n_components": 8},
    "bag-stack": {"n_estimators": 5, "cv": 2, "members": [make_model("ored")]},
    "bag-stack-network": {"n_estimators": 5, "cv": 2, "members": [make_model("ored")]},
    "noisy-or-network": {"epochs": 2, "n_members": 2, "n_rounds": 0, "hidden": (8,)},
    "ored-network": {"epochs": 2, "n_members": 2, "n_rounds": 0, "hidden": (8,)},
    "ored-mix": {"epochs": 2, "n_members": 2, "n_rounds": 1, "hidden": (8,), "n_estimators": 8},
}  # fmt: skip
OTHER_FEATURES = {"ored-patch"}  # patches of spectrograms: tests/test_nn_patch.py
NAMES = [name for name in CATALOG if name not in OTHER_FEATURES]


def made(name):
    if re.fullmatch("ored-network|ored-mix|noisy-or-network", name):
        pytest.importorskip("torch", reason="torch is not there; make test-torch makes an environment with it")
    return make_model(name, **SHORT.get(name, {}))


def fit(model, index=slice(None), **parameters):
    if bag_tags(model).needs_instance_labels:
        parameters["instance_labels"] = DATA.instance_labels[index]
    return model.fit(DATA.bags[index], DATA.Y[index], **fit_parameters(model, **parameters))


@pytest.fixture(scope="module", params=NAMES)
def fitted(request):
    """A name and its model, fitted once for all tests of this file."""
    return request.param, fit(made(request.param))


def predictions(model):
    """Everything that a model predicts of new bags, by the name of the method."""
    found = {name: getattr(model, name)(NEW.bags) for name in ("predict", "decision_function")}
    tags = bag_tags(model)
    if tags.annotates:
        found |= {name: getattr(model, name)(NEW.bags) for name in ("predict_instances", "instance_decision_function")}
        found["annotate"] = model.annotate(NEW.bags, NEW.Y)
    if tags.probabilities:
        found["predict_instances_proba"] = model.predict_instances_proba(NEW.bags)
        found["annotate_proba"] = model.annotate_proba(NEW.bags, NEW.Y)
    if tags.background:
        found["background_proba"] = model.background_proba(NEW.bags)
    return found


def test_shapes_and_values(fitted):
    _, model = fitted
    found = predictions(model)
    n, m, c = len(NEW.bags), NEW.bags.n_instances, len(model.classes_)
    assert model.n_features_in_ == DATA.bags.n_features
    assert found["predict"].shape == found["decision_function"].shape == (n, c)
    assert set(np.unique(found["predict"])) <= {0, 1}
    assert all(np.isfinite(values).all() for values in found.values())
    if not bag_tags(model).annotates:
        assert not hasattr(model, "annotate")
        return
    assert found["predict_instances"].shape == found["annotate"].shape == (m,)
    assert found["instance_decision_function"].shape == (m, c)
    background = getattr(model, "background_label_", None)
    listed = NEW.Y[NEW.bags.bag_index, np.clip(found["annotate"], 0, None)] == 1
    assert (listed | (found["annotate"] == background)).all()  # labels of the bag's own set alone


def test_probabilities_sum_to_one(fitted):
    _, model = fitted
    if not bag_tags(model).probabilities:
        assert not hasattr(model, "annotate_proba")
        return
    if bag_tags(model).label_sets:
        return
    for proba, background in (
        (model.predict_instances_proba(NEW.bags), lambda: model.background_proba(NEW.bags)),
        (model.annotate_proba(NEW.bags, NEW.Y), lambda: model.background_proba(NEW.bags, NEW.Y)),
    ):
        assert proba.min() >= 0
        rest = background() if bag_tags(model).background else 0.0
        assert_allclose(proba.sum(axis=1) + rest, 1.0, atol=1e-6)


def test_it_is_saved_and_loaded_to_the_bit(fitted, tmp_path):
    _, model = fitted
    save(model, tmp_path / "model.bagwise")
    again = load(tmp_path / "model.bagwise")
    assert type(again) is type(model)
    before, after = predictions(model), predictions(again)
    assert before.keys() == after.keys()
    for name, values in before.items():
        assert_array_equal(after[name], values, err_msg=name)


def test_a_clone_has_the_parameters_and_nothing_of_the_fit(fitted):
    _, model = fitted
    copy = clone(model)
    assert repr(copy) == repr(model)
    with pytest.raises(Exception, match="not fitted"):
        copy.predict(NEW.bags)


def test_a_bag_of_weight_zero_is_left_out(fitted):
    """Of the learner alone: the transformers before it see all bags."""
    name, model = fitted
    if not bag_tags(model).sample_weight:
        return
    kept = slice(0, len(DATA) - 4)
    weights = np.ones(len(DATA))
    weights[kept.stop :] = 0.0
    weighted = fit(final_step(made(name)), sample_weight=weights)
    without = fit(final_step(made(name)), kept)
    assert_allclose(weighted.decision_function(NEW.bags), without.decision_function(NEW.bags), rtol=1e-6, atol=1e-8)


def test_a_background_is_what_its_name_says(fitted):
    name, model = fitted
    assert bag_tags(model).background == (name.endswith("background") or bag_tags(model).label_sets)
