"""Whether a rate of missing labels ranks the labels of held-out bags better."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.metrics import average_precision_score
from sklearn.model_selection import KFold

from bagwise.core.bags import Bags
from bagwise.core.evidence import Given, listed_labels
from bagwise.core.exceptions import InputError

N_FOLDS = 3
FEWEST_LABELS = 30  # listed in all bags together: with fewer there is nothing to judge by


def is_judge(model: Any) -> bool:
    return getattr(model, "_is_judge", False)


def enough_to_judge(given: Given) -> bool:
    return len(given) >= N_FOLDS and listed_labels(given).sum() >= FEWEST_LABELS


def missed_is_useful(
    model: Any,
    bags: Bags,
    indicator: Given,
    instance_labels: Bags | None,
    weights: np.ndarray | None = None,
    with_rate: list[float] | None = None,
) -> bool:
    """Whether some fold's labels are ranked as well by the model with its rate `missed` as by one that has none.

    The likelihood cannot tell: where labels have many instances a high rate costs it next to nothing, and forgives
    every instance that the model cannot tell apart. How well it tells bags with a label from bags without can. That
    all folds must speak against the rate is because few bags say little, and a rate that changes little does no harm.
    `with_rate` are the precisions of the folds with the rate, where they are known already.
    """
    if not enough_to_judge(indicator):
        return True
    try:
        without = held_out_precisions(model, 0.0, bags, indicator, instance_labels, weights)
    except InputError:  # only missed labels explain these bags
        return True
    if with_rate is None:
        with_rate = held_out_precisions(model, model.missed, bags, indicator, instance_labels, weights)
    return any(mine >= other for mine, other in zip(with_rate, without, strict=True))


def held_out_precisions(
    model: Any,
    missed: Any,
    bags: Bags,
    indicator: Given,
    instance_labels: Bags | None,
    weights: np.ndarray | None,
) -> list[float]:
    """Of every fold: average precision of all pairs of bag and label, by the probability that the label is listed."""
    return [
        precision
        for judge, test in cross_fitted(model, missed, bags, indicator, instance_labels, weights)
        for precision in precision_of_fold(judge, test, bags, indicator, weights)
    ]


def precision_of_fold(
    judge: Any, test: np.ndarray, bags: Bags, indicator: Given, weights: np.ndarray | None
) -> list[float]:
    """That of the bags `test`, by a model that was fitted on the others; nothing where they list no label."""
    listed = listed_labels(indicator[test])
    if not listed.any():
        return []
    counts = None if weights is None else np.repeat(weights[test], indicator.shape[1])
    held = bags[test]
    probable = judge.union_model().listed_probability(judge._probabilities(held), held.offsets)
    return [float(average_precision_score(listed.ravel(), probable.ravel(), sample_weight=counts))]


def cross_fitted(
    model: Any,
    missed: Any,
    bags: Bags,
    indicator: Given,
    instance_labels: Bags | None,
    weights: np.ndarray | None = None,
) -> Iterator[tuple[Any, np.ndarray]]:
    """The model with that rate fitted on all folds but one, and the bags of that one."""
    for train, test in KFold(N_FOLDS, shuffle=True, random_state=0).split(np.arange(len(indicator))):
        judge = clone(model).set_params(missed=missed, verbose=0)
        judge._is_judge = True  # it learns a rate without asking judges of its own
        own = None if instance_labels is None else instance_labels[train]
        weighted = {} if weights is None else {"sample_weight": weights[train]}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the fit on all bags says it again
            judge.fit(bags[train], indicator[train], instance_labels=own, **weighted)
        yield judge, test
