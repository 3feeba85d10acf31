"""Bags through scikit-learn's own tools, and pipelines that annotate."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score, cross_validate
from sklearn.pipeline import make_pipeline as sklearn_make_pipeline
from sklearn.preprocessing import StandardScaler

from bagwise import Bags, ORedLogisticRegression, make_pipeline
from bagwise.annotation import MostFrequentAnnotator, SupervisedAnnotator
from bagwise.core.exceptions import InputError
from bagwise.datasets import make_gaussian_bags
from bagwise.pipeline import final_step, fit_parameters, transform_for_final
from bagwise.preprocessing import PerInstance, RBFDictionary


@pytest.fixture(scope="module")
def data():
    return make_gaussian_bags(n_bags=60, n_features=4, n_classes=3, separation=6.0, random_state=0)


def test_pipeline_forwards_the_annotators_methods(data):
    pipe = make_pipeline(PerInstance(StandardScaler()), ORedLogisticRegression(background=True)).fit(data.bags, data.Y)
    final, X = pipe[-1], pipe[:-1].transform(data.bags)
    assert_array_equal(pipe.annotate(data.bags, data.Y), final.annotate(X, data.Y))
    assert_array_equal(pipe.annotate_proba(data.bags, data.Y), final.annotate_proba(X, data.Y))
    assert_array_equal(pipe.predict_instances(data.bags), final.predict_instances(X))
    assert_array_equal(pipe.predict_instances_proba(data.bags), final.predict_instances_proba(X))
    assert_array_equal(pipe.instance_decision_function(data.bags), final.instance_decision_function(X))
    assert_array_equal(pipe.background_proba(data.bags, data.Y), final.background_proba(X, data.Y))
    assert pipe.predict_label_sets(data.bags) == final.predict_label_sets(X)
    assert_array_equal(pipe.predict(data.bags), final.predict(X))
    assert not hasattr(make_pipeline(PerInstance(StandardScaler())), "annotate")


def test_kernel_pipeline_learns(data):
    pipe = make_pipeline(
        PerInstance(StandardScaler()),
        PerInstance(RBFDictionary(width=1.0, whiten=True)),
        ORedLogisticRegression(l2=0.1),
    ).fit(data.bags, data.Y)
    assert np.mean(pipe.annotate(data.bags, data.Y) == data.instance_labels.instances) > 0.9


def test_scikit_learn_searches_and_scores(data):
    pipe = sklearn_make_pipeline(PerInstance(StandardScaler()), ORedLogisticRegression())
    scores = cross_val_score(pipe, data.bags, data.Y, cv=3)
    assert scores.shape == (3,)
    assert np.isfinite(scores).all()
    parallel = cross_validate(pipe, data.bags, data.Y, cv=3, n_jobs=2, scoring="f1_micro")
    assert (parallel["test_score"] > 0.5).all()
    search = GridSearchCV(pipe, {"oredlogisticregression__l2": [0.1, 1.0]}, cv=3).fit(data.bags, data.Y)
    assert search.best_estimator_.predict(data.bags).shape == data.Y.shape
    names = np.array(["left", "right"])[(np.arange(60) % 2)]
    assert cross_val_score(MostFrequentAnnotator(), data.bags, names, cv=3).shape == (3,)


def test_helpers_serve_plain_estimators_and_pipelines(data):
    plain = MostFrequentAnnotator()
    assert final_step(plain) is plain
    assert transform_for_final(plain, data.bags) is data.bags
    assert fit_parameters(plain, a=1) == {"a": 1}
    pipe = sklearn_make_pipeline("passthrough", PerInstance(StandardScaler()), plain).fit(data.bags, data.Y)
    assert final_step(pipe) is plain
    assert transform_for_final(pipe, data.bags).instances.std() == pytest.approx(1.0)
    assert fit_parameters(pipe, a=1) == {"mostfrequentannotator__a": 1}


def test_supervised_annotator_is_its_classifier_on_the_instances(data):
    y, X = data.instance_labels.instances, data.bags.instances
    model = SupervisedAnnotator(LogisticRegression()).fit(data.bags, data.Y, instance_labels=data.instance_labels)
    reference = LogisticRegression().fit(X, y)
    assert_array_equal(model.predict_instances(data.bags), reference.predict(X))
    assert_array_equal(model.predict_instances_proba(data.bags), reference.predict_proba(X))
    allowed = np.where(data.Y[data.bags.bag_index] == 1, reference.predict_proba(X), -1)
    assert_array_equal(model.annotate(data.bags, data.Y), allowed.argmax(axis=1))
    pieces = data.bags.split(reference.predict_proba(X))
    assert_array_equal(model.decision_function(data.bags), [piece.max(axis=0) for piece in pieces])


def test_supervised_annotator_leaves_out_unknown_instances_and_unseen_classes(data):
    y = data.instance_labels.instances.copy()
    y[(y == 2) | (np.arange(len(y)) % 3 == 0)] = -1
    model = SupervisedAnnotator().fit(data.bags, data.Y, instance_labels=Bags(y, data.bags.offsets))
    reference = LogisticRegression(max_iter=1000).fit(data.bags.instances[y >= 0], y[y >= 0])
    assert_array_equal(model.predict_instances(data.bags), reference.predict(data.bags.instances))
    assert_array_equal(model.predict_instances_proba(data.bags)[:, 2], 0.0)
    for labels, message in (
        (None, "learns from labelled instances; pass instance_labels"),
        (Bags(np.full(len(y), -1), data.bags.offsets), "No instance has a known label"),
        (Bags(np.where(y == 0, 0, -1), data.bags.offsets), "of one class"),
    ):
        with pytest.raises(InputError, match=message):
            SupervisedAnnotator().fit(data.bags, data.Y, instance_labels=labels)
