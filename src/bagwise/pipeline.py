"""Pipelines that also annotate.

scikit-learn's `Pipeline` forwards only the methods it knows (`predict`, `decision_function`, ...). `BagPipeline` is
one that forwards the methods of annotators as well, and `final_step` serves code that may be handed either.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.model_selection import GridSearchCV, RandomizedSearchCV
from sklearn.pipeline import Pipeline
from sklearn.pipeline import make_pipeline as sklearn_make_pipeline
from sklearn.utils import get_tags
from sklearn.utils.metaestimators import available_if

from bagwise.findings import Findings
from bagwise.tags import BagTags


def unwrap(estimator: Any) -> Any:
    """What a parameter search of scikit-learn found (or, before its fit, searches); others as they are."""
    if isinstance(estimator, (GridSearchCV, RandomizedSearchCV)):
        return getattr(estimator, "best_estimator_", estimator.estimator)
    return estimator


def final_step(estimator: Any) -> Any:
    """The last step of a pipeline, or the estimator itself; a search stands for its best estimator."""
    estimator = unwrap(estimator)
    return final_step(estimator.steps[-1][1]) if isinstance(estimator, Pipeline) else estimator


def bag_tags(estimator: Any) -> BagTags:
    """What the estimator, or the last step of a pipeline or of what a search found, can do with bags.

    Examples
    --------
    >>> from bagwise import M3MIML, ORedLogisticRegression, make_pipeline
    >>> from bagwise.pipeline import bag_tags
    >>> bag_tags(make_pipeline(ORedLogisticRegression())).probabilities, bag_tags(M3MIML()).probabilities
    (True, False)
    """
    final = final_step(estimator)
    if not hasattr(final, "__sklearn_tags__"):
        return BagTags()
    return getattr(get_tags(final), "bag_tags", BagTags())  # an estimator of others says nothing of bags


def find_instances(estimator: Any, X: Any, Y: Any = None, instance_labels: Any = None) -> Findings:
    """`find` of the last step, the transform being made once: for estimators, pipelines of any kind and searches."""
    return final_step(estimator).find(transform_for_final(estimator, X), Y, instance_labels)


def transform_for_final(estimator: Any, X: Any) -> Any:
    """`X` as the last step of a fitted pipeline sees it; unchanged for a plain estimator."""
    estimator = unwrap(estimator)
    if not isinstance(estimator, Pipeline):
        return X
    for _, transformer in estimator.steps[:-1]:
        if transformer is not None and transformer != "passthrough":
            X = transformer.transform(X)
    return transform_for_final(estimator.steps[-1][1], X)


def fit_parameters(estimator: Any, **parameters: Any) -> dict[str, Any]:
    """Keyword arguments for `fit` that reach the last step of a pipeline, or the estimator itself."""
    estimator = unwrap(estimator)
    if not isinstance(estimator, Pipeline):
        return parameters
    name, last = estimator.steps[-1]
    return {f"{name}__{key}": value for key, value in fit_parameters(last, **parameters).items()}


def _final_has(method: str) -> Any:
    def check(self: Pipeline) -> bool:
        getattr(final_step(self), method)  # raises AttributeError where the final step has none
        return True

    return check


class BagPipeline(Pipeline):
    """scikit-learn's `Pipeline` with the methods of instance annotators forwarded to the last step."""

    def _final(self, X: Any) -> tuple[Any, Any]:
        return final_step(self), transform_for_final(self, X)

    @available_if(_final_has("find"))
    def find(self, X: Any, Y: Any = None, instance_labels: Any = None) -> Findings:
        """Everything that can be said about the instances; see `InstanceAnnotatorMixin.find`."""
        final, X = self._final(X)
        return final.find(X, Y, instance_labels)

    @available_if(_final_has("predict_instances"))
    def predict_instances(self, X: Any) -> np.ndarray:
        """(m,) class of every instance, the labels of its bag not known."""
        final, X = self._final(X)
        return final.predict_instances(X)

    @available_if(_final_has("annotate"))
    def annotate(self, X: Any, Y: Any) -> np.ndarray:
        """(m,) class of every instance among the labels of its bag."""
        final, X = self._final(X)
        return final.annotate(X, Y)

    @available_if(_final_has("instance_decision_function"))
    def instance_decision_function(self, X: Any) -> np.ndarray:
        """(m, c) instance scores."""
        final, X = self._final(X)
        return final.instance_decision_function(X)

    @available_if(_final_has("predict_instances_proba"))
    def predict_instances_proba(self, X: Any) -> np.ndarray:
        """(m, c) instance probabilities."""
        final, X = self._final(X)
        return final.predict_instances_proba(X)

    @available_if(_final_has("annotate_proba"))
    def annotate_proba(self, X: Any, Y: Any) -> np.ndarray:
        """(m, c) instance posteriors given the labels of the bag."""
        final, X = self._final(X)
        return final.annotate_proba(X, Y)

    @available_if(_final_has("background_proba"))
    def background_proba(self, X: Any, Y: Any = None) -> np.ndarray:
        """(m,) probability of the background."""
        final, X = self._final(X)
        return final.background_proba(X, Y)

    @available_if(_final_has("label_posterior"))
    def label_posterior(self, X: Any, Y: Any, instance_labels: Any = None) -> np.ndarray:
        """(n, c) probability that each label, listed or not, is truly in the bag."""
        final, X = self._final(X)
        return final.label_posterior(X, Y, instance_labels)

    @available_if(_final_has("predict_label_sets"))
    def predict_label_sets(self, X: Any) -> list[set[Any]]:
        """Predicted label sets."""
        final, X = self._final(X)
        return final.predict_label_sets(X)


def make_pipeline(*steps: Any, memory: Any = None, verbose: bool = False) -> BagPipeline:
    """`sklearn.pipeline.make_pipeline` with a `BagPipeline`.

    Examples
    --------
    >>> from sklearn.preprocessing import StandardScaler
    >>> from bagwise import ORedLogisticRegression, make_pipeline
    >>> from bagwise.datasets import make_gaussian_bags
    >>> from bagwise.preprocessing import PerInstance
    >>> data = make_gaussian_bags(n_bags=60, random_state=0)
    >>> model = make_pipeline(PerInstance(StandardScaler()), ORedLogisticRegression()).fit(data.bags, data.Y)
    >>> model.annotate(data.bags, data.Y).shape == (data.bags.n_instances,)
    True
    """
    return BagPipeline(sklearn_make_pipeline(*steps).steps, memory=memory, verbose=verbose)
