"""Measures by name, as scikit-learn's searches want them: ``scoring=get_scorer("average_precision")``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import UndefinedMetricWarning
from sklearn.utils.metadata_routing import UNUSED

from bagwise.core.bags import Bags, as_bags, known_labels
from bagwise.core.dataset import BagDataset
from bagwise.core.exceptions import InputError, warn_caller
from bagwise.core.typing import BagsLike, InstanceLabelsLike, LabelsLike, WeightsLike
from bagwise.core.validation import encode_known, split_dataset, validate_weights
from bagwise.metrics._measures import (
    average_precision,
    coverage,
    explained_share,
    hamming_loss,
    instance_accuracy,
    listed_share,
    one_error,
    rank_hinge_loss,
    ranking_loss,
)
from bagwise.pipeline import bag_tags, final_step, find_instances

OF_BAGS: dict[str, Callable[..., float]] = {
    "average_precision": average_precision,
    "neg_hamming_loss": hamming_loss,
    "neg_ranking_loss": ranking_loss,
    "neg_one_error": one_error,
    "neg_coverage": coverage,
    "neg_rank_hinge_loss": rank_hinge_loss,
}
OF_INSTANCES = ("instance_accuracy", "annotation_accuracy", "listed_share", "explained_share")


def _measure_bags(name: str, model: Any, X: BagsLike, truth: np.ndarray, weights: np.ndarray | None) -> float:
    """A measure of predicted label sets or scores; with its sign turned where the name says so."""
    if name == "neg_hamming_loss":
        predicted = encode_known(model.predict(X), final_step(model).classes_, len(truth))[0]
    else:
        predicted = _scores(model, X)
    value = OF_BAGS[name](truth, predicted, sample_weight=weights)
    return -value if name.startswith("neg_") else value


def _scores(model: Any, X: BagsLike) -> np.ndarray:
    """(n, c) scores of the classes."""
    scores = np.asarray(model.decision_function(X))
    return scores if scores.ndim == 2 else np.column_stack([-scores, scores])


def _annotated(model: Any, bags: Bags, truth: np.ndarray, *, given: bool) -> Bags:
    """Class index of every instance, chosen among the labels of its bag where these are `given`."""
    tags = bag_tags(model)
    if not tags.annotates:
        raise InputError(f"{type(final_step(model)).__name__} does not annotate instances; use a scorer of bags.")
    rows: np.ndarray = np.ones(len(bags), dtype=bool)
    if given and not tags.background:
        rows = np.asarray(truth.any(axis=1))  # among no labels there is none to choose
    labels = np.full(bags.n_instances, -1)
    if rows.any():
        labels[rows[bags.bag_index]] = find_instances(model, bags[rows], truth[rows] if given else None).labels
    return Bags(labels, bags.offsets)


class BagScorer(BaseEstimator):
    """A measure that can be called with a fitted model, bags and labels; higher is better.

    Labels of a class that the model does not know are left out, since it has no score for them, and so are bags that
    carry no other; so a label that is in one fold only does not spoil a search. Bags of which nothing is left count as
    the measures count a bag without labels, without loss (0, or a share of 1), and `UndefinedMetricWarning` says so: it
    is the same for all candidates, so that the other folds choose.

    Parameters
    ----------
    name : str
        One of `get_scorer_names`.

    Examples
    --------
    >>> from bagwise import ORedLogisticRegression
    >>> from bagwise.datasets import make_gaussian_bags
    >>> from bagwise.metrics import BagScorer
    >>> data = make_gaussian_bags(n_bags=60, random_state=0)
    >>> model = ORedLogisticRegression().fit(data[:40])
    >>> BagScorer("neg_hamming_loss")(model, data[40:]) < 0.0, BagScorer("instance_accuracy")(model, data[40:]) > 0.5
    (True, True)
    """

    __metadata_request__score: ClassVar[dict[str, Any]] = {"estimator": UNUSED, "instance_labels": True}

    def __init__(self, name: str):
        self.name = name

    def score(
        self,
        estimator: Any,
        X: BagsLike,
        y: LabelsLike | None = None,
        sample_weight: WeightsLike | None = None,
        instance_labels: InstanceLabelsLike | None = None,
    ) -> float:
        """The measure.

        Parameters
        ----------
        estimator : fitted learner, pipeline or search
        X, y : bags and their labels in any form, or a BagDataset alone
        sample_weight : (n,) array or None
            Weight of each bag in the mean.
        instance_labels : Bags of int or None
            For ``instance_accuracy`` and ``annotation_accuracy``: index of the class of each instance, a column of `y`,
            -1 where unknown; None: those of the `BagDataset` that is `X` or `y`.
        """
        X, y = split_dataset(X, y)
        data, bags = X, as_bags(X)
        classes = final_step(estimator).classes_
        weights = validate_weights(sample_weight, len(bags))
        truth, n_unknown = encode_known(y, classes, len(bags))
        keep = truth.any(axis=1) | (n_unknown == 0)
        if not keep.any():
            return self._nothing_to_score(len(bags))

        if not keep.all():
            X, truth, weights = bags[keep], truth[keep], None if weights is None else weights[keep]
        if self.name in OF_BAGS:
            return float(_measure_bags(self.name, estimator, X, truth, weights))
        labels = _annotated(estimator, as_bags(X), truth, given=self.name in ("annotation_accuracy", "explained_share"))
        if self.name.endswith("accuracy"):
            known = Bags(_instance_labels(self.name, data, y, instance_labels, classes, bags), bags.offsets)[keep]
            weights = None if weights is None else np.repeat(weights, labels.sizes)
            return instance_accuracy(known.instances, labels.instances, sample_weight=weights)
        share = listed_share if self.name == "listed_share" else explained_share
        value = share(truth, labels, sample_weight=weights)
        return self._nothing_to_score(len(truth)) if np.isnan(value) else value

    __call__ = score

    def _nothing_to_score(self, n_bags: int) -> float:
        """The measure without loss; NaN would make the mean over all folds NaN."""
        value = 0.0 if self.name.startswith("neg_") else 1.0
        warn_caller(
            f"{self.name}: none of the {n_bags} held-out bags carries a label that the model was trained on, so there "
            f"is nothing to score, and they count as {value:g}; use fewer folds, leave out labels of one bag only, or "
            "pass labels as a matrix, whose classes are the same in all folds.",
            UndefinedMetricWarning,
        )
        return value


def _instance_labels(
    name: str,
    X: BagsLike,
    y: LabelsLike | None,
    given: InstanceLabelsLike | None,
    classes: np.ndarray,
    bags: Bags,
) -> np.ndarray:
    """(m,) index into the model's classes of every instance, -1 where unknown, of no class or of none of these."""
    for data in (X, y):
        if given is None and isinstance(data, BagDataset) and data.instance_labels is not None:
            return data.recode(classes.tolist(), unknown="drop").instance_labels.instances  # type: ignore[union-attr]
    if given is None:
        raise InputError(
            f"The scorer {name!r} compares labels of instances; pass a BagDataset that has them, or instance_labels."
        )
    if np.ndim(y) != 2 and not isinstance(y, BagDataset):  # type: ignore[arg-type]
        raise InputError(
            f"The scorer {name!r} was given instance_labels, which are columns of y, but y is no matrix, so that they "
            "could mean other classes in another fold; pass y as an (n, c) matrix, or a BagDataset for bags and labels."
        )
    known = known_labels(given, bags.offsets, len(classes), background=True)
    assert known is not None
    return np.where(known == len(classes), -1, known)


def get_scorer(name: str) -> BagScorer:
    """A measure by its name, for ``scoring=`` of scikit-learn's searches and `cross_val_score`.

    Bags: ``average_precision``, ``neg_hamming_loss``, ``neg_ranking_loss``, ``neg_one_error``, ``neg_coverage`` and
    ``neg_rank_hinge_loss``, losses with their sign turned. Instances of known class: ``instance_accuracy`` (from
    features alone) and ``annotation_accuracy`` (the labels of the bags being given). Instances, by the labels of their
    bags: ``listed_share`` and ``explained_share``.

    Examples
    --------
    >>> from sklearn.model_selection import cross_val_score
    >>> from bagwise import ORedLogisticRegression
    >>> from bagwise.datasets import make_gaussian_bags
    >>> from bagwise.metrics import get_scorer
    >>> data = make_gaussian_bags(n_bags=60, random_state=0)
    >>> scores = cross_val_score(ORedLogisticRegression(), data, scoring=get_scorer("instance_accuracy"), cv=3)
    >>> bool((scores > 0.5).all())
    True
    """
    if name not in get_scorer_names():
        raise InputError(f"There is no scorer {name!r}; there are {', '.join(get_scorer_names())}.")
    return BagScorer(name)


def get_scorer_names() -> list[str]:
    """The names that `get_scorer` knows.

    Examples
    --------
    >>> from bagwise.metrics import get_scorer_names
    >>> "average_precision" in get_scorer_names(), "instance_accuracy" in get_scorer_names()
    (True, True)
    """
    return [*OF_BAGS, *OF_INSTANCES]
