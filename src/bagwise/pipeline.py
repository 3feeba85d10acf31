"""Pipelines that also annotate, and unions of what transformers of bags give.

scikit-learn's `Pipeline` forwards only the methods it knows (`predict`, `decision_function`, ...). `BagPipeline` is
one that forwards the methods of annotators as well, as do `bagwise.model_selection.BagGridSearchCV` and its sister,
and `final_step` serves code that may be handed either.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn import get_config
from sklearn.model_selection import GridSearchCV, RandomizedSearchCV
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.pipeline import make_pipeline as sklearn_make_pipeline
from sklearn.pipeline import make_union as sklearn_make_union
from sklearn.utils import get_tags
from sklearn.utils.metaestimators import available_if

from bagwise.core.bags import Bags, side_by_side
from bagwise.core.base import BagTags, Findings
from bagwise.core.fitted import savable
from bagwise.core.typing import BagsLike, InstanceLabelsLike, LabelsLike, Learner, Transformer, WeightsLike
from bagwise.core.validation import split_dataset


def unwrap(estimator: Any) -> Any:
    """The best estimator of a search by scikit-learn (before its fit, its `estimator`); others as they are."""
    if isinstance(estimator, (GridSearchCV, RandomizedSearchCV)):
        return getattr(estimator, "best_estimator_", estimator.estimator)
    return estimator


def final_step(estimator: Any) -> Any:
    """The last step of a pipeline, or the estimator itself; a search stands for its best estimator."""
    estimator = unwrap(estimator)
    return final_step(estimator.steps[-1][1]) if isinstance(estimator, Pipeline) else estimator


def bag_tags(estimator: Any) -> BagTags:
    """What the estimator, or the last step of a pipeline or of the best estimator of a search, can do with bags.

    Examples
    --------
    >>> from bagwise import M3MIML, ORedLogisticRegression, make_pipeline
    >>> from bagwise.pipeline import bag_tags
    >>> bag_tags(make_pipeline(ORedLogisticRegression())).probabilities, bag_tags(M3MIML()).probabilities
    (True, False)
    """
    tags = _own_tags(final_step(estimator))
    if loses_instances(estimator):
        return replace(tags, annotates=False, probabilities=False, background=False, instance_labels=False)
    return tags


def _own_tags(estimator: Any) -> BagTags:
    if not hasattr(estimator, "__sklearn_tags__"):
        return BagTags()
    return getattr(get_tags(estimator), "bag_tags", BagTags())  # estimators of other libraries have no tags for bags


def loses_instances(estimator: Any) -> bool:
    """Whether a pipeline makes one row of every bag on the way to its last step, which then cannot annotate."""
    estimator = unwrap(estimator)
    if not isinstance(estimator, Pipeline):
        return False
    *before, last = (step for _, step in estimator.steps)
    return any(_makes_rows_of_bags(step) for step in before) or loses_instances(last)


def _makes_rows_of_bags(step: Any) -> bool:
    if isinstance(step, Pipeline):
        return any(_makes_rows_of_bags(inner) for _, inner in step.steps)
    return _own_tags(step).row_per_bag


def classes_of(estimator: Any) -> list[Any] | None:
    """The labels that a fitted learner knows, in the order of its columns; None where it knows none."""
    classes = getattr(final_step(estimator), "classes_", None)
    return None if classes is None else classes.tolist()


def find_instances(
    estimator: Any, X: BagsLike, Y: LabelsLike | None = None, instance_labels: InstanceLabelsLike | None = None
) -> Findings:
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


def _final_has(method: str) -> Callable[[Any], bool]:
    def check(self: Any) -> bool:
        getattr(final_step(self), method)  # raises AttributeError where the final step has none
        return True

    return check


def _final_sees_instances(method: str) -> Callable[[Any], bool]:
    def check(self: Any) -> bool:
        return _final_has(method)(self) and not loses_instances(self)

    return check


class ForwardsToFinal:
    """The methods of annotators, forwarded to the last step of a pipeline or of the best estimator of a search."""

    def _ask(self, method: str, X: BagsLike, *others: Any) -> Any:
        return getattr(final_step(self), method)(transform_for_final(self, X), *others)

    @available_if(_final_sees_instances("find"))
    def find(
        self, X: BagsLike, Y: LabelsLike | None = None, instance_labels: InstanceLabelsLike | None = None
    ) -> Findings:
        """Labels, probabilities and background of the instances; see `InstanceAnnotatorMixin.find`."""
        return self._ask("find", X, Y, instance_labels)

    @available_if(_final_sees_instances("predict_instances"))
    def predict_instances(self, X: BagsLike) -> np.ndarray:
        """(m,) class of every instance, the labels of its bag not known."""
        return self._ask("predict_instances", X)

    @available_if(_final_sees_instances("annotate"))
    def annotate(self, X: BagsLike, Y: LabelsLike | None = None) -> np.ndarray:
        """(m,) class of every instance among the labels of its bag; `Y` may be left out where `X` is a BagDataset."""
        return self._ask("annotate", X, split_dataset(X, Y)[1])

    @available_if(_final_sees_instances("instance_decision_function"))
    def instance_decision_function(self, X: BagsLike) -> np.ndarray:
        """(m, c) instance scores."""
        return self._ask("instance_decision_function", X)

    @available_if(_final_sees_instances("predict_instances_proba"))
    def predict_instances_proba(self, X: BagsLike) -> np.ndarray:
        """(m, c) instance probabilities."""
        return self._ask("predict_instances_proba", X)

    @available_if(_final_sees_instances("log_proba"))
    def log_proba(self, X: BagsLike) -> np.ndarray:
        """Logarithms of the probabilities of instances, a background's behind the classes'."""
        return self._ask("log_proba", X)

    @available_if(_final_sees_instances("annotate_proba"))
    def annotate_proba(self, X: BagsLike, Y: LabelsLike | None = None) -> np.ndarray:
        """(m, c) instance posteriors given the labels of the bag."""
        return self._ask("annotate_proba", X, split_dataset(X, Y)[1])

    @available_if(_final_sees_instances("background_proba"))
    def background_proba(self, X: BagsLike, Y: LabelsLike | None = None) -> np.ndarray:
        """(m,) probability of the background."""
        return self._ask("background_proba", X, Y)

    @available_if(_final_has("label_posterior"))
    def label_posterior(
        self, X: BagsLike, Y: LabelsLike | None = None, instance_labels: InstanceLabelsLike | None = None
    ) -> np.ndarray:
        """(n, c) probability that each label, listed or not, is truly in the bag."""
        return self._ask("label_posterior", X, split_dataset(X, Y)[1], instance_labels)

    @available_if(_final_has("predict_label_sets"))
    def predict_label_sets(self, X: BagsLike) -> list[set[Any]]:
        """Predicted label sets."""
        return self._ask("predict_label_sets", X)


class BagPipeline(ForwardsToFinal, Pipeline):
    """scikit-learn's `Pipeline` with the methods of instance annotators forwarded to the last step."""

    def fit(self, X: BagsLike, y: LabelsLike | None = None, **parameters: Any) -> BagPipeline:
        """Fit the steps, one after another.

        Parameters
        ----------
        X, y : bags and their labels in any form, or a BagDataset alone
        **parameters
            ``step__name`` goes to a step, and a name alone (`instance_labels`, `sample_weight`, `callback`) to the last
            one. With scikit-learn's metadata routing enabled, to the steps that request it.
        """
        X, y = split_dataset(X, y)
        if not get_config()["enable_metadata_routing"]:
            plain = {name: value for name, value in parameters.items() if "__" not in name}
            others = {name: value for name, value in parameters.items() if name not in plain}
            parameters = {**others, **fit_parameters(self, **plain)}
        super().fit(X, y, **parameters)
        return self

    @available_if(_final_has("score"))
    def score(
        self, X: BagsLike, y: LabelsLike | None = None, sample_weight: WeightsLike | None = None, **parameters: Any
    ) -> float:
        """Score of the last step: of a learner, the share of the bags whose label set is predicted exactly."""
        X, y = split_dataset(X, y)
        return super().score(X, y, sample_weight, **parameters)


class BagFeatureUnion(FeatureUnion, auto_wrap_output_keys=None):  # type: ignore[call-arg]
    """scikit-learn's `FeatureUnion` of transformers that give `Bags`: their features side by side, bag by bag.

    What works on instances alone may as well be joined inside, ``PerInstance(FeatureUnion(...))``.
    """

    def set_output(self, *, transform: str | None = None) -> BagFeatureUnion:
        """Of the parts; bags stay `Bags`."""
        for _, part, _ in self._iter():
            part.set_output(transform=transform)
        return self

    def _hstack(self, Xs: Any) -> Any:
        return side_by_side(Xs) if all(isinstance(X, Bags) for X in Xs) else super()._hstack(Xs)


def make_union(*transformers: Transformer, n_jobs: int | None = None, verbose: bool = False) -> BagFeatureUnion:
    """`sklearn.pipeline.make_union` with a `BagFeatureUnion`.

    Examples
    --------
    >>> from sklearn.decomposition import PCA
    >>> from sklearn.preprocessing import StandardScaler
    >>> from bagwise.datasets import make_gaussian_bags
    >>> from bagwise.pipeline import make_union
    >>> from bagwise.preprocessing import PerInstance
    >>> bags = make_gaussian_bags(n_bags=20, n_features=4, random_state=0).bags
    >>> make_union(PerInstance(StandardScaler()), PerInstance(PCA(2))).fit_transform(bags).n_features
    6
    """
    return BagFeatureUnion(sklearn_make_union(*transformers).transformer_list, n_jobs=n_jobs, verbose=verbose)


def make_pipeline(*steps: Learner | Transformer, memory: Any = None, verbose: bool = False) -> BagPipeline:
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


savable(BagPipeline)
