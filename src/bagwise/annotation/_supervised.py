"""The reference from above: a classifier trained on the labels of the instances themselves."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.utils.validation import has_fit_parameter

from bagwise.core.bags import Bags, known_labels
from bagwise.core.base import BagClassifierMixin, BagEstimator, InstanceAnnotatorMixin
from bagwise.core.checks import check_that, in_our_words
from bagwise.core.exceptions import InputError
from bagwise.core.fitted import Attribute, Part
from bagwise.core.typing import BagsLike, LabelsLike, WeightsLike
from bagwise.core.validation import validate_weights


class SupervisedAnnotator(InstanceAnnotatorMixin, BagClassifierMixin, BagEstimator):
    """Any scikit-learn classifier trained on labelled instances: what bag labels alone are measured against.

    With `LogisticRegression` the SLR of Pham et al., with `LinearSVC` the SISL SVM of Briggs et al.

    Parameters
    ----------
    estimator : classifier or None
        Must have `predict_proba` or `decision_function`. None: `LogisticRegression(max_iter=1000)`.

    Attributes
    ----------
    estimator_ : the fitted copy
    classes_ : (c,) array

    Examples
    --------
    >>> from bagwise.annotation import SupervisedAnnotator
    >>> from bagwise.datasets import make_gaussian_bags
    >>> data = make_gaussian_bags(n_bags=60, random_state=0)
    >>> model = SupervisedAnnotator().fit(data.bags, data.Y, instance_labels=data.instance_labels)
    >>> labels = model.predict_instances(data.bags)
    >>> bool((labels == data.instance_labels.instances).mean() > 0.6)
    True
    >>> SupervisedAnnotator().fit(data.bags, data.Y)
    Traceback (most recent call last):
    ...
    bagwise.core.exceptions.InputError: SupervisedAnnotator learns from labelled instances; pass
    instance_labels, Bags of class indices with -1 where unknown.
    """

    __metadata_request__fit: ClassVar[dict[str, bool]] = {"instance_labels": True}
    _fitted: ClassVar[dict[str, Attribute]] = {"estimator_": Part("predict")}

    def _check_fitted(self) -> None:
        """The classifier's classes are numbers of ours; with two it may give one score."""
        super()._check_fitted()
        inner = getattr(self.estimator_, "classes_", None)
        if inner is None or not any(hasattr(self.estimator_, name) for name in ("predict_proba", "decision_function")):
            raise InputError("SupervisedAnnotator.estimator_ is no classifier; fit it again")
        if inner.dtype.kind != "i" or len(inner) < 2 or inner.min() < 0 or inner.max() >= len(self.classes_):
            raise InputError("SupervisedAnnotator.estimator_ knows classes that are none of its own; fit it again")

    def __init__(self, estimator: Any = None):
        self.estimator = estimator

    def fit(
        self,
        X: BagsLike,
        y: LabelsLike | None = None,
        instance_labels: Bags | None = None,
        sample_weight: WeightsLike | None = None,
    ) -> SupervisedAnnotator:
        """Learn from the instances whose label is known.

        Parameters
        ----------
        X, y : bags and their labels, in any form
        instance_labels : Bags of int
            Index into ``classes_`` of each instance, -1 where unknown. May be left out only where every bag has
            exactly one label, which its instances then carry.
        sample_weight : (n,) array or None
            Weight of each bag, which its instances are given to the classifier with.
        """
        bags, indicator = self._start_fit(X, y)
        labels = known_labels(instance_labels, bags.offsets, len(self.classes_))
        if labels is None:
            if np.any(indicator.sum(axis=1) != 1):
                raise InputError(
                    "SupervisedAnnotator learns from labelled instances; pass instance_labels, Bags of class indices "
                    "with -1 where unknown."
                )
            labels = np.repeat(indicator.argmax(axis=1), bags.sizes)
        weights = validate_weights(sample_weight, len(bags))
        of_rows = np.ones(bags.n_instances) if weights is None else np.repeat(weights, bags.sizes)
        rows = np.flatnonzero((labels >= 0) & (of_rows > 0.0))
        if len(rows) == 0:
            raise InputError("No instance has a known label (all are -1), so there is nothing to learn from.")
        if len(np.unique(labels[rows])) < 2:
            raise InputError(
                f"All labelled instances are of one class, {self.classes_[labels[rows[0]]]!r}; at least two are needed."
            )
        check_that(self, "estimator", _is_classifier, "a classifier with predict_proba or decision_function, or None")
        model = LogisticRegression(max_iter=1000) if self.estimator is None else clone(self.estimator)
        weighted = {} if weights is None else {"sample_weight": of_rows[rows]}
        if weighted and not has_fit_parameter(model, "sample_weight"):
            raise InputError(f"{type(model).__name__} takes no sample_weight; use another classifier, or no weights.")
        cure = "Change its parameters or the data, or use another classifier."
        with in_our_words(f"{model} cannot learn from the labelled instances", cure):
            self.estimator_ = model.fit(bags.instances[rows], labels[rows], **weighted)
        return self

    def _instance_scores(self, bags: Bags) -> np.ndarray:
        return self._scores_and_proba(bags)[0]

    def _scores_and_proba(self, bags: Bags) -> tuple[np.ndarray, np.ndarray | None]:
        """A class of which no labelled instance was seen has the lowest score and probability zero."""
        model, proba = self.estimator_, None
        if hasattr(model, "predict_proba"):  # comparable between instances, so that a bag may take their maximum
            seen = model.predict_proba(bags.instances)
            proba = np.zeros((bags.n_instances, len(self.classes_)))
            proba[:, model.classes_] = seen
        else:
            seen = model.decision_function(bags.instances)
            if seen.ndim == 1:  # two classes: one number, positive for the second
                seen = np.column_stack([-seen, seen])
        scores = np.full((bags.n_instances, len(self.classes_)), min(float(seen.min()), 0.0) - 1.0)
        scores[:, model.classes_] = seen
        return scores, proba

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = False  # not from fit(X, Y) alone: several labels need instance_labels
        model = getattr(self, "estimator_", self.estimator)
        tags.bag_tags.probabilities = model is None or hasattr(model, "predict_proba")
        tags.bag_tags.needs_instance_labels = True
        return tags


def _is_classifier(value: Any) -> bool:
    able = hasattr(value, "fit") and (hasattr(value, "predict_proba") or hasattr(value, "decision_function"))
    return value is None or (able and not isinstance(value, type))
