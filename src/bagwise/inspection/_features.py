"""What features are worth: over all bags, and to one instance."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils import Bunch, check_random_state

from bagwise.core.bags import Bags, as_bags
from bagwise.core.checks import check_allocation, is_count
from bagwise.core.dataset import BagDataset
from bagwise.core.exceptions import InputError
from bagwise.core.typing import BagsLike, LabelsLike, Learner, Seed
from bagwise.core.validation import split_dataset
from bagwise.metrics import get_scorer


def permutation_importance(
    estimator: Any,
    X: BagsLike,
    y: LabelsLike | None = None,
    *,
    scoring: str | None = None,
    n_repeats: int = 5,
    random_state: Seed = None,
) -> Bunch:
    """How much worse a fitted learner is where one feature is permuted over the instances of all bags.

    As `sklearn.inspection.permutation_importance`, which takes plain tables alone.

    Parameters
    ----------
    estimator : fitted learner, pipeline or search
    X, y : bags and their labels in any form, or a BagDataset alone
        Best of bags that were not learned from.
    scoring : str or None
        A name that `bagwise.metrics.get_scorer` knows; None: the learner's `score`. The measures of instances need a
        `BagDataset` with their labels.
    n_repeats : int
        Permutations of each feature.
    random_state : int, RandomState or None

    Returns
    -------
    Bunch of importances_mean and importances_std, (d,) each, and importances, (d, n_repeats).

    Examples
    --------
    >>> from bagwise import ORedLogisticRegression
    >>> from bagwise.datasets import make_gaussian_bags
    >>> from bagwise.inspection import permutation_importance
    >>> data = make_gaussian_bags(n_bags=60, n_features=4, random_state=0)
    >>> model = ORedLogisticRegression().fit(data)
    >>> permutation_importance(model, data, scoring="instance_accuracy", random_state=0).importances.shape
    (4, 5)
    """
    if not is_count(n_repeats):
        raise InputError(f"n_repeats must be a whole number, 1 or more. Got {n_repeats!r}.")
    bags, rng = as_bags(split_dataset(X, y)[0]), check_random_state(random_state)
    measure: Any = estimator.score if scoring is None else partial(get_scorer(scoring).score, estimator)

    def score(instances: Any) -> float:
        changed = Bags(instances, bags.offsets, bags.feature_names)
        return float(measure(replace(X, bags=changed)) if isinstance(X, BagDataset) else measure(changed, y))

    before = score(bags.instances)
    found = np.empty((bags.n_features, n_repeats))
    for j in range(bags.n_features):
        for r in range(n_repeats):
            found[j, r] = before - score(_with_column(bags.instances, j, rng.permutation(bags.n_instances)))
    return Bunch(importances_mean=found.mean(axis=1), importances_std=found.std(axis=1), importances=found)


def _with_column(instances: Any, j: int, order: np.ndarray) -> Any:
    """The instances with the values of one feature in another order."""
    if sp.issparse(instances):
        columns = sp.csc_matrix(instances)
        parts = [columns[:, :j], columns[order, j], columns[:, j + 1 :]]
        return sp.hstack(parts, format="csr")
    changed = instances.copy()
    changed[:, j] = instances[order, j]
    return changed


def feature_contributions(model: Learner, X: BagsLike, reference: Any = None) -> np.ndarray:
    """What each feature adds to the scores of the labels of every instance.

    The score (`instance_decision_function`) less the score of the same instance with that one feature at its
    reference. Of a linear learner that is the coefficient times the distance to the reference, and the contributions of
    all features add up to the difference of the scores; of any other learner, what the feature decides alone.

    Parameters
    ----------
    model : fitted annotator or pipeline
    X : Bags, list of 2-d arrays, 3-d array or 2-d array
        The instances to explain; each costs as many predictions as it has features.
    reference : (d,) array or None
        What counts as nothing remarkable; None: the mean of these instances.

    Returns
    -------
    (m, c, d) array

    Examples
    --------
    >>> from bagwise import ORedLogisticRegression
    >>> from bagwise.datasets import make_gaussian_bags
    >>> from bagwise.inspection import feature_contributions
    >>> data = make_gaussian_bags(n_bags=60, n_features=4, random_state=0)
    >>> model = ORedLogisticRegression().fit(data)
    >>> feature_contributions(model, data.bags[:1]).argmax(axis=2).shape == (data.bags.sizes[0], 5)
    True
    """
    if not hasattr(model, "instance_decision_function"):
        raise InputError(f"{type(model).__name__} gives instances no scores, so there is nothing to explain.")
    bags = as_bags(X)
    if sp.issparse(bags.instances):
        raise InputError("Contributions are of dense features, and these are sparse; pass the bags that matter, dense.")
    scores = np.asarray(model.instance_decision_function(bags))
    mean = bags.instances.mean(axis=0) if reference is None else np.asarray(reference, dtype=np.float64)
    if mean.shape != (bags.n_features,):
        raise InputError(f"reference has shape {mean.shape}; expected a value for each of {bags.n_features} features.")
    check_allocation(
        8 * scores.size * bags.n_features,
        f"Contributions of {bags.n_features} features to {scores.shape[1]} labels of {len(scores)} instances",
        "pass fewer bags",
    )
    found = np.empty((*scores.shape, bags.n_features))
    for j in range(bags.n_features):
        instances = bags.instances.copy()
        instances[:, j] = mean[j]
        found[:, :, j] = scores - model.instance_decision_function(Bags(instances, bags.offsets, bags.feature_names))
    return found
