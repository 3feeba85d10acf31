"""Pipelines that also annotate, and unions of what transformers of bags give.

scikit-learn's `Pipeline` forwards only the methods it knows (`predict`, `decision_function`, ...). `BagPipeline` is
one that forwards the methods of annotators as well, as do `bagwise.model_selection.BagGridSearchCV` and its sister,
and `final_step` serves code that may be handed either.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import wraps
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn import get_config
from sklearn.model_selection import GridSearchCV, RandomizedSearchCV
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.pipeline import make_pipeline as sklearn_make_pipeline
from sklearn.pipeline import make_union as sklearn_make_union
from sklearn.utils import get_tags
from sklearn.utils.metaestimators import available_if

from bagwise.core.bags import Bags
from bagwise.core.base import BagClassifierMixin, BagTags, Findings, InstanceAnnotatorMixin
from bagwise.core.dataset import BagDataset
from bagwise.core.exceptions import InputError
from bagwise.core.fitted import savable
from bagwise.core.typing import BagsLike, InstanceLabelsLike, LabelsLike, Learner, Transformer, WeightsLike
from bagwise.core.validation import split_dataset


def unwrap(estimator: Any) -> Any:
    """The best estimator of a search by scikit-learn (before its fit, its `estimator`); others as they are.

    Examples
    --------
    >>> from sklearn.model_selection import GridSearchCV
    >>> from bagwise import ORedLogisticRegression
    >>> from bagwise.pipeline import unwrap
    >>> unwrap(GridSearchCV(ORedLogisticRegression(), {"l2": [0.1, 1.0]}))
    ORedLogisticRegression()
    """
    if isinstance(estimator, (GridSearchCV, RandomizedSearchCV)):
        return getattr(estimator, "best_estimator_", estimator.estimator)
    return estimator


def final_step(estimator: Any) -> Any:
    """The last step of a pipeline, or the estimator itself; a search stands for its best estimator.

    Examples
    --------
    >>> from sklearn.preprocessing import StandardScaler
    >>> from bagwise import ORedLogisticRegression, make_pipeline
    >>> from bagwise.pipeline import final_step
    >>> from bagwise.preprocessing import PerInstance
    >>> final_step(make_pipeline(PerInstance(StandardScaler()), ORedLogisticRegression(l2=0.1)))
    ORedLogisticRegression(l2=0.1)
    """
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
    if _loses_instances(estimator):
        return replace(tags, annotates=False, probabilities=False, background=False, instance_labels=False)
    return tags


def _own_tags(estimator: Any) -> BagTags:
    if not hasattr(estimator, "__sklearn_tags__"):
        return BagTags()
    return getattr(get_tags(estimator), "bag_tags", BagTags())  # estimators of other libraries have no tags for bags


def _loses_instances(estimator: Any) -> bool:
    """Whether a pipeline makes one row of every bag on the way to its last step, which then cannot annotate."""
    estimator = unwrap(estimator)
    if not isinstance(estimator, Pipeline):
        return False
    *before, last = (step for _, step in estimator.steps)
    return any(_makes_rows_of_bags(step) for step in before) or _loses_instances(last)


def _makes_rows_of_bags(step: Any) -> bool:
    if isinstance(step, Pipeline):
        return any(_makes_rows_of_bags(inner) for _, inner in step.steps)
    return _own_tags(step).row_per_bag


def classes_of(estimator: Any) -> list[Any] | None:
    """The labels that a fitted learner knows, in the order of its columns; None where it knows none.

    Examples
    --------
    >>> from bagwise import ORedLogisticRegression, make_pipeline
    >>> from bagwise.pipeline import classes_of
    >>> classes_of(make_pipeline(ORedLogisticRegression()).fit([[[0.0]], [[1.0]]], [{"wren"}, {"robin"}]))
    ['robin', 'wren']
    >>> classes_of(ORedLogisticRegression()) is None
    True
    """
    classes = getattr(final_step(estimator), "classes_", None)
    return None if classes is None else classes.tolist()


def find_instances(
    estimator: Any, X: BagsLike, Y: LabelsLike | None = None, instance_labels: InstanceLabelsLike | None = None
) -> Findings:
    """`find` of the last step, the transform being made once: for estimators, pipelines of any kind and searches.

    Examples
    --------
    >>> from bagwise import ORedLogisticRegression, make_pipeline
    >>> from bagwise.datasets import make_gaussian_bags
    >>> from bagwise.pipeline import find_instances
    >>> data = make_gaussian_bags(n_bags=30, random_state=0)
    >>> found = find_instances(make_pipeline(ORedLogisticRegression()).fit(data), data.bags, data.Y)
    >>> found.labels.shape == (data.bags.n_instances,)
    True
    """
    return final_step(estimator).find(transform_for_final(estimator, X), Y, instance_labels)


def transform_for_final(estimator: Any, X: Any) -> Any:
    """`X` as the last step of a fitted pipeline sees it, a data set with its labels; as it is for a plain estimator.

    Examples
    --------
    >>> from sklearn.decomposition import PCA
    >>> from bagwise import ORedLogisticRegression, make_pipeline
    >>> from bagwise.datasets import make_gaussian_bags
    >>> from bagwise.pipeline import transform_for_final
    >>> from bagwise.preprocessing import PerInstance
    >>> data = make_gaussian_bags(n_bags=30, random_state=0)
    >>> model = make_pipeline(PerInstance(PCA(2)), ORedLogisticRegression()).fit(data)
    >>> transform_for_final(model, data.bags).n_features
    2
    """
    estimator = unwrap(estimator)
    if not isinstance(estimator, Pipeline):
        return X
    given = X
    for _, transformer in estimator.steps[:-1]:
        if transformer is not None and transformer != "passthrough":
            X = transformer.transform(X)
    if isinstance(given, BagDataset) and isinstance(X, Bags):
        X = replace(given, bags=X, feature_names=X.feature_names)
    return transform_for_final(estimator.steps[-1][1], X)


def fit_parameters(estimator: Any, **parameters: Any) -> dict[str, Any]:
    """Keyword arguments for `fit` that reach the last step of a pipeline, or the estimator itself.

    Examples
    --------
    >>> from bagwise import ORedLogisticRegression, make_pipeline
    >>> from bagwise.pipeline import fit_parameters
    >>> fit_parameters(ORedLogisticRegression(), sample_weight=[1.0])
    {'sample_weight': [1.0]}
    >>> fit_parameters(make_pipeline(ORedLogisticRegression()), sample_weight=[1.0])
    {'oredlogisticregression__sample_weight': [1.0]}
    """
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
        return _final_has(method)(self) and not _loses_instances(self)

    return check


def _forwarded(method: Callable[..., Any], available: Callable[[str], Callable[[Any], bool]]) -> Any:
    """The method as one that asks the last step; a pipeline for which `available` does not hold has none."""
    name = method.__name__

    @wraps(method)
    def ask(self: Any, X: BagsLike, *others: Any, **named: Any) -> Any:
        return getattr(final_step(self), name)(transform_for_final(self, X), *others, **named)

    return available_if(available(name))(ask)


class ForwardsToFinal:
    """The methods of annotators, forwarded to the last step of a pipeline or of the best estimator of a search.

    Examples
    --------
    >>> from bagwise import M3MIML, ORedLogisticRegression, make_pipeline
    >>> from bagwise.pipeline import ForwardsToFinal
    >>> model = make_pipeline(ORedLogisticRegression())
    >>> isinstance(model, ForwardsToFinal), hasattr(model, "annotate_proba")
    (True, True)
    >>> hasattr(make_pipeline(M3MIML()), "annotate_proba")
    False
    """

    find = _forwarded(InstanceAnnotatorMixin.find, _final_sees_instances)
    predict_instances = _forwarded(InstanceAnnotatorMixin.predict_instances, _final_sees_instances)
    annotate = _forwarded(InstanceAnnotatorMixin.annotate, _final_sees_instances)
    instance_decision_function = _forwarded(InstanceAnnotatorMixin.instance_decision_function, _final_sees_instances)
    predict_instances_proba = _forwarded(InstanceAnnotatorMixin.predict_instances_proba, _final_sees_instances)
    log_proba = _forwarded(InstanceAnnotatorMixin.log_proba, _final_sees_instances)
    annotate_proba = _forwarded(InstanceAnnotatorMixin.annotate_proba, _final_sees_instances)
    background_proba = _forwarded(InstanceAnnotatorMixin.background_proba, _final_sees_instances)
    predict_label_sets = _forwarded(BagClassifierMixin.predict_label_sets, _final_has)

    @available_if(_final_has("label_posterior"))
    def label_posterior(
        self, X: BagsLike, Y: LabelsLike | None = None, instance_labels: InstanceLabelsLike | None = None
    ) -> np.ndarray:
        """(n, c) probability that each label, listed or not, is truly in the bag."""
        Y = split_dataset(X, Y)[1]
        return final_step(self).label_posterior(transform_for_final(self, X), Y, instance_labels)


class BagPipeline(ForwardsToFinal, Pipeline):
    """scikit-learn's `Pipeline` with the methods of instance annotators forwarded to the last step.

    Examples
    --------
    >>> from sklearn.preprocessing import StandardScaler
    >>> from bagwise import ORedLogisticRegression
    >>> from bagwise.datasets import make_gaussian_bags
    >>> from bagwise.pipeline import BagPipeline
    >>> from bagwise.preprocessing import PerInstance
    >>> data = make_gaussian_bags(n_bags=60, random_state=0)
    >>> model = BagPipeline([("scale", PerInstance(StandardScaler())), ("learn", ORedLogisticRegression())]).fit(data)
    >>> model.annotate(data).shape == (data.bags.n_instances,), model.named_steps["learn"].coef_.shape
    (True, (5, 8))
    """

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

    Examples
    --------
    >>> from sklearn.decomposition import PCA
    >>> from sklearn.preprocessing import StandardScaler
    >>> from bagwise.datasets import make_gaussian_bags
    >>> from bagwise.pipeline import BagFeatureUnion
    >>> from bagwise.preprocessing import PerInstance
    >>> parts = [("all", PerInstance(StandardScaler())), ("main", PerInstance(PCA(2)))]
    >>> bags = make_gaussian_bags(n_bags=20, n_features=4, random_state=0).bags
    >>> BagFeatureUnion(parts).fit_transform(bags).n_features
    6
    """

    def set_output(self, *, transform: str | None = None) -> BagFeatureUnion:
        """Of the parts; bags stay `Bags`."""
        for _, part, _ in self._iter():
            part.set_output(transform=transform)
        return self

    def _hstack(self, Xs: Any) -> Any:
        return _side_by_side(Xs) if all(isinstance(X, Bags) for X in Xs) else super()._hstack(Xs)


def _side_by_side(parts: Sequence[Bags]) -> Bags:
    """The same bags with the features of all parts; names are kept where all have some and no two are alike."""
    for part in parts:
        if not np.array_equal(part.offsets, parts[0].offsets):
            raise InputError(f"{part!r} and {parts[0]!r} are not the same bags, so their features cannot be joined.")
    instances = [part.instances if part.instances.ndim == 2 else part.instances[:, None] for part in parts]
    stacked = sp.hstack(instances, format="csr") if any(map(sp.issparse, instances)) else np.hstack(instances)
    names = [name for part in parts for name in part.feature_names or [""]]
    known = len(set(names)) == stacked.shape[1]
    return Bags(stacked, parts[0].offsets, names if known else None)


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
