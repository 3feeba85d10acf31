"""Labels of instances, compared with their true labels or with the labels of their bags."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from bagwise.core.bags import Bags
from bagwise.core.exceptions import InputError
from bagwise.metrics._validation import as_label_matrix, as_values, check_same_length, weights_of


def instance_accuracy(
    y: ArrayLike | Bags, y_pred: ArrayLike | Bags, *, sample_weight: ArrayLike | None = None
) -> float:
    """Share of the instances with a known class that are given that class.

    Parameters
    ----------
    y : (m,) array of class values, or Bags of them
        The truth. -1 among numbers, None among anything else marks an unknown class; such instances are left
        out.
    y_pred : (m,) array of class values, or Bags of them
    sample_weight : (m,) array or None
        Weight of each instance in the mean.

    Examples
    --------
    >>> from bagwise.metrics import instance_accuracy
    >>> instance_accuracy([0, 1, -1, 1], [0, 0, 1, 1])
    0.6666666666666666
    """
    truth, given = as_values(y, "y"), as_values(y_pred, "y_pred")
    check_same_length(truth, given, "y_pred")
    weights = weights_of(sample_weight, len(truth))
    numeric = [np.issubdtype(a.dtype, np.number) for a in (truth, given)]
    text = [a.dtype.kind == "U" for a in (truth, given)]
    if (numeric[0] and text[1]) or (text[0] and numeric[1]):
        raise InputError(
            f"y holds values such as {truth.tolist()[0]!r} but y_pred such as {given.tolist()[0]!r}; "
            "give both as class indices or both as class names."
        )
    known = truth != -1 if numeric[0] else np.array([value is not None for value in truth])
    if not known.any():
        raise InputError("The class of no instance is known, so there is no accuracy; pass instance labels.")
    truth, given = truth[known], given[known]
    if all(numeric):
        return float(np.average(truth == given, weights=weights[known]))
    right = [a == b for a, b in zip(truth.tolist(), given.tolist(), strict=True)]
    return float(np.average(right, weights=weights[known]))


def listed_share(Y: ArrayLike, labels: Bags, *, sample_weight: ArrayLike | None = None) -> float:
    """Share of the instances whose label is one that their bag carries: what bag labels alone can check.

    A label that the bag does not carry is certainly wrong. The mean over the bags that carry any label; NaN where none
    does.

    Parameters
    ----------
    Y : (n, c) array of 0 and 1
    labels : Bags of int
        Class index of every instance, negative where it was given none, which counts as a label not carried.
    sample_weight : (n,) array or None
        Weight of each bag in the mean.

    Examples
    --------
    >>> from bagwise import Bags
    >>> from bagwise.metrics import listed_share
    >>> listed_share([[1, 0], [1, 1]], Bags.from_list([[0, 1], [0, 1]]))
    0.75
    """
    truth = as_label_matrix(Y, "Y")
    check_same_length(truth, labels, "labels")
    given, bag = labels.instances, labels.bag_index
    right = (given >= 0) & (truth[bag, np.maximum(given, 0)] == 1)
    share = np.bincount(bag, right, minlength=len(truth)) / labels.sizes
    carries = truth.any(axis=1)
    return _mean(share[carries], weights_of(sample_weight, len(truth))[carries])


def explained_share(Y: ArrayLike, labels: Bags, *, sample_weight: ArrayLike | None = None) -> float:
    """Share of the labels that a bag carries which some instance of it was given.

    A label that none was given is certainly missed. The mean over the bags that carry any label; NaN where none does.

    Parameters
    ----------
    Y : (n, c) array of 0 and 1
    labels : Bags of int
        Class index of every instance, negative where it was given none.
    sample_weight : (n,) array or None
        Weight of each bag in the mean.

    Examples
    --------
    >>> from bagwise import Bags
    >>> from bagwise.metrics import explained_share
    >>> explained_share([[1, 0], [1, 1]], Bags.from_list([[0, 1], [0, 0]]))
    0.75
    """
    truth = as_label_matrix(Y, "Y")
    check_same_length(truth, labels, "labels")
    given = np.zeros(truth.shape, dtype=bool)
    named = labels.instances >= 0
    given[labels.bag_index[named], labels.instances[named]] = True
    carries = truth.any(axis=1)
    share = (given & (truth == 1))[carries].sum(axis=1) / truth[carries].sum(axis=1)
    return _mean(share, weights_of(sample_weight, len(truth))[carries])


def _mean(values: np.ndarray, weights: np.ndarray) -> float:
    return float(np.average(values, weights=weights)) if len(values) else float("nan")
