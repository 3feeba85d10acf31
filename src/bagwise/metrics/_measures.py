"""The measures: label sets and rankings of bags, labels and probabilities of instances, clusters of bags.

References
----------
.. [1] Z.-H. Zhou, M.-L. Zhang, S.-J. Huang, Y.-F. Li (2012): Multi-instance multi-label learning. Artificial
       Intelligence 176, 2291-2320.
.. [2] M.-L. Zhang, Z.-H. Zhou (2008): M3MIML: a maximum margin method for multi-instance multi-label
       learning. ICDM, 688-697.
.. [3] F. Briggs, X. Z. Fern, R. Raich, Q. Lou (2013): Instance annotation for multi-instance multi-label
       learning. ACM Transactions on Knowledge Discovery from Data 7 (3), article 14.
.. [4] A. T. Pham, R. Raich, X. Z. Fern: Dynamic programming for instance annotation in multi-instance
       multi-label learning, section 6.4.
.. [5] D. Zhang, F. Wang, L. Si, T. Li: Maximum margin multiple instance clustering with its applications to
       image and text clustering, section 4.3.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import linear_sum_assignment
from sklearn.metrics import (
    label_ranking_average_precision_score,
    label_ranking_loss,
    normalized_mutual_info_score,
)

from bagwise.core.bags import Bags, as_indicator
from bagwise.core.exceptions import InputError
from bagwise.core.validation import validate_weights

# -- bags --------------------------------------------------------------------------------------------------------------

Z = 1.959963984540054  # of a two-sided interval of 95 %


def hamming_loss(Y: ArrayLike, Y_pred: ArrayLike, *, sample_weight: ArrayLike | None = None) -> float:
    """Share of the (bag, class) cells that are predicted wrongly.

    ``1 / (n c) * sum_ij [Y_ij != Y_pred_ij]``: equation 1 of Briggs et al. (2013), scikit-learn's
    ``hamming_loss``.

    Parameters
    ----------
    Y, Y_pred : (n, c) array of 0 and 1
    sample_weight : (n,) array or None
        Weight of each bag in the mean.

    Examples
    --------
    >>> from bagwise.metrics import hamming_loss
    >>> hamming_loss([[1, 0], [0, 1]], [[1, 1], [0, 1]])
    0.25
    """
    truth, predicted = _as_label_matrix(Y, "Y"), _as_label_matrix(Y_pred, "Y_pred")
    _check_shape(truth, predicted, "Y_pred")
    weights = validate_weights(sample_weight, len(truth))
    return float(np.average(np.mean(predicted != truth, axis=1), weights=weights))


def ranking_loss(Y: ArrayLike, scores: ArrayLike, *, sample_weight: ArrayLike | None = None) -> float:
    """Share of the (carried, not carried) pairs of labels that the scores put in the wrong order.

    ``1 / n * sum_i 1 / (|Y_i| |N_i|) * sum_{j in Y_i, k in N_i} [F_ij <= F_ik]``, where ``N_i`` is the
    complement of ``Y_i``: equation 2 of Briggs et al. (2013), as in Zhou et al. (2012) and Zhang and Zhou (2008).
    This is scikit-learn's ``label_ranking_loss``, which counts ties as errors too. A bag whose label set is
    empty or full has no pair and counts 0.

    Parameters
    ----------
    Y : (n, c) array of 0 and 1
    scores : (n, c) array of finite numbers
    sample_weight : (n,) array or None
        Weight of each bag in the mean.

    Examples
    --------
    >>> from bagwise.metrics import ranking_loss
    >>> ranking_loss([[1, 0, 0]], [[0.5, 0.5, 0.1]])
    0.5
    """
    truth, ranked = _as_truth_and_scores(Y, scores)
    weights = validate_weights(sample_weight, len(truth))
    if truth.shape[1] == 1:  # scikit-learn takes one column for a binary problem and refuses it
        return 0.0
    return float(label_ranking_loss(truth, ranked, sample_weight=weights))


def one_error(Y: ArrayLike, scores: ArrayLike, *, sample_weight: ArrayLike | None = None) -> float:
    """Share of the bags whose top-ranked label they do not carry.

    ``1 / n * sum_i [argmax_j F_ij not in Y_i]``, as in Zhou et al. (2012) and Zhang and Zhou (2008). Where
    several labels share the top score, one that the bag does not carry makes it an error. A bag without
    labels would be an error whatever the scores, so such bags are left out; there must be at least one other.

    Parameters
    ----------
    Y : (n, c) array of 0 and 1
    scores : (n, c) array of finite numbers
    sample_weight : (n,) array or None
        Weight of each bag in the mean.

    Examples
    --------
    >>> from bagwise.metrics import one_error
    >>> one_error([[1, 0], [0, 1]], [[0.9, 0.2], [0.7, 0.6]])
    0.5
    """
    truth, ranked = _as_truth_and_scores(Y, scores)
    labelled = truth.any(axis=1)
    if not labelled.any():
        raise InputError("No bag carries any label, so the one-error is not defined; pass bags with labels.")
    truth, ranked = truth[labelled], ranked[labelled]
    on_top = ranked == ranked.max(axis=1, keepdims=True)
    return _mean((on_top & (truth == 0)).any(axis=1), sample_weight, labelled)


def coverage(
    Y: ArrayLike, scores: ArrayLike, *, normalized: bool = False, sample_weight: ArrayLike | None = None
) -> float:
    """How many steps down the ranked list of labels it takes, on average, to meet all that the bag carries.

    ``1 / n * sum_i max_{j in Y_i} rank_i(j) - 1``, as in Zhou et al. (2012) and Zhang and Zhou (2008), where
    ``rank_i(j)`` is the number of labels that score at least as much as ``j``: scikit-learn's
    ``coverage_error`` minus 1. A bag without labels needs no step and counts 0 (scikit-learn's minus 1 would
    give it -1).

    Parameters
    ----------
    Y : (n, c) array of 0 and 1
    scores : (n, c) array of finite numbers
    normalized : bool, default=False
        Divide the count by the number of classes ``c``, as Table 7 of Pham et al. does.
    sample_weight : (n,) array or None
        Weight of each bag in the mean.

    Notes
    -----
    Pham et al. do not print their normalisation. Their dummy reveals it: the class frequencies of the
    training bags as scores, here the mean of ten 10-fold cross-validations, in percent.

    ==============  =========  =========  ===============
    data            published  count / c  count / (c - 1)
    ==============  =========  =========  ===============
    HJA (union)     45.1       45.3       49.1
    MSRC v2         53.0       53.9       56.4
    Letter-Carroll  48.4       49.0       51.1
    Letter-Frost    49.0       50.0       52.2
    ==============  =========  =========  ===============

    For the Letter sets ``c`` is 24, the letters that occur; with all 26 the third column would be 45.3 and
    46.2. The small excess comes from tied frequencies: broken by column order, the four are 44.9, 52.8, 48.3
    and 49.0.

    Examples
    --------
    >>> from bagwise.metrics import coverage
    >>> coverage([[1, 0, 1, 0]], [[0.9, 0.5, 0.3, 0.1]])
    2.0
    >>> coverage([[1, 0, 1, 0]], [[0.9, 0.5, 0.3, 0.1]], normalized=True)
    0.5
    """
    truth, ranked = _as_truth_and_scores(Y, scores)
    lowest = np.where(truth == 1, ranked, np.inf).min(axis=1)
    behind = np.maximum((ranked >= lowest[:, None]).sum(axis=1) - 1, 0)  # a bag without labels needs no step
    steps = np.average(behind, weights=validate_weights(sample_weight, len(truth)))
    return float(steps / truth.shape[1] if normalized else steps)


def average_precision(Y: ArrayLike, scores: ArrayLike, *, sample_weight: ArrayLike | None = None) -> float:
    """How pure the top of the ranked list is, seen from each label that the bag carries.

    ``1 / n * sum_i 1 / |Y_i| * sum_{j in Y_i} |{k in Y_i: F_ik >= F_ij}| / |{k: F_ik >= F_ij}|``, as in Zhou
    et al. (2012) and Zhang and Zhou (2008): scikit-learn's ``label_ranking_average_precision_score``. A bag
    without labels counts 1.

    Parameters
    ----------
    Y : (n, c) array of 0 and 1
    scores : (n, c) array of finite numbers
    sample_weight : (n,) array or None
        Weight of each bag in the mean.

    Examples
    --------
    >>> from bagwise.metrics import average_precision
    >>> average_precision([[1, 0, 1, 0]], [[0.9, 0.5, 0.3, 0.1]])  # (1/1 + 2/3) / 2
    0.8333333333333333
    """
    truth, ranked = _as_truth_and_scores(Y, scores)
    weights = validate_weights(sample_weight, len(truth))
    return float(label_ranking_average_precision_score(truth, ranked, sample_weight=weights))


def rank_hinge_loss(Y: ArrayLike, scores: ArrayLike, *, sample_weight: ArrayLike | None = None) -> float:
    """Unregularised rank hinge loss of the support instance machine.

    ``sum_i sum_{j in Y_i, k in N_i} beta_i max(0, 1 - (F_ij - F_ik))`` with ``beta_i = 1 / (n |Y_i| |N_i|)``,
    ``N_i`` the complement of ``Y_i``: equations 5 and 11 of Briggs et al. (2013) without the regulariser, and
    one fold of their equation 37. That is a mean over bags. In the paper no label set is empty or full; such
    bags have no pair and are left out here, ``n`` counts the others, and there must be at least one.

    Parameters
    ----------
    Y : (n, c) array of 0 and 1
    scores : (n, c) array of finite numbers
    sample_weight : (n,) array or None
        Weight of each bag in the mean.

    Notes
    -----
    Takes O(c log c) per bag. Raise the scores of ``N_i`` by 1 and sort all: the loss is the sum of the
    differences over the pairs with a label of ``Y_i`` below one of ``N_i``. Each gap between neighbours lies
    within as many pairs as there are labels of ``Y_i`` below it times labels of ``N_i`` above it; no term is
    negative, so nothing cancels.

    Examples
    --------
    >>> from bagwise.metrics import rank_hinge_loss
    >>> rank_hinge_loss([[1, 0, 0]], [[2.0, 1.5, 0.0]])  # (0.5 + 0) / 2
    0.25
    """
    truth, ranked = _as_truth_and_scores(Y, scores)
    n_labels = truth.sum(axis=1, dtype=np.int64)
    defined = (n_labels > 0) & (n_labels < truth.shape[1])
    if not defined.any():
        raise InputError("Every bag carries no label or all of them, so there is no pair to rank; pass other bags.")
    truth, ranked, n_labels = truth[defined], ranked[defined], n_labels[defined]
    n_others = truth.shape[1] - n_labels
    raised = ranked + (truth == 0)
    order = np.argsort(raised, axis=1)
    carried = np.take_along_axis(truth, order, axis=1).astype(np.int64)
    gaps = np.diff(np.take_along_axis(raised, order, axis=1), axis=1)
    below = np.cumsum(carried, axis=1)[:, :-1]
    above = n_others[:, None] - np.cumsum(1 - carried, axis=1)[:, :-1]
    return _mean((gaps * (below * above)).sum(axis=1) / (n_labels * n_others), sample_weight, defined)


# -- instances ---------------------------------------------------------------------------------------------------------


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
    truth, given = _as_values(y, "y"), _as_values(y_pred, "y_pred")
    _check_length(truth, given, "y_pred")
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
    right = truth == given if all(numeric) else [a == b for a, b in zip(truth.tolist(), given.tolist(), strict=True)]
    return _mean(right, sample_weight, known)


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
    truth = _as_label_matrix(Y, "Y")
    _check_length(truth, labels, "labels")
    given, bag = labels.instances, labels.bag_index
    right = (given >= 0) & (truth[bag, np.maximum(given, 0)] == 1)
    share = np.bincount(bag, right, minlength=len(truth)) / labels.sizes
    carries = truth.any(axis=1)
    return _mean(share[carries], sample_weight, carries)


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
    truth = _as_label_matrix(Y, "Y")
    _check_length(truth, labels, "labels")
    given = np.zeros(truth.shape, dtype=bool)
    named = labels.instances >= 0
    given[labels.bag_index[named], labels.instances[named]] = True
    carries = truth.any(axis=1)
    share = (given & (truth == 1))[carries].sum(axis=1) / truth[carries].sum(axis=1)
    return _mean(share, sample_weight, carries)


def wilson_interval(share: ArrayLike, n: ArrayLike, z: ArrayLike = Z) -> tuple[np.ndarray, np.ndarray]:
    r"""Wilson's interval of a share that was seen in `n` answers.

    .. math:: \frac{\hat p + z^2/2n \pm z \sqrt{\hat p (1 - \hat p)/n + z^2/4n^2}}{1 + z^2/n}

    Parameters
    ----------
    share : array in [0, 1]
    n : array
        Answers; of an estimate with another variance v, share (1 - share) / v. Nothing answered gives (0, 1).
    z : array
        Quantile of the normal distribution; the default gives 95 %.

    References
    ----------
    Wilson, Probable inference, the law of succession, and statistical inference, 1927.

    Examples
    --------
    >>> from bagwise.metrics import wilson_interval
    >>> [round(float(end), 2) for end in wilson_interval(0.93, 100)]
    [0.86, 0.97]
    """
    p, n, z = (np.asarray(values, dtype=np.float64) for values in (share, n, z))
    none = n <= 0
    square = z * z / np.where(none, 1.0, n)
    half = z * np.sqrt(p * (1.0 - p) / np.where(none, 1.0, n) + (square / z) ** 2 / 4.0)
    low, high = (p + square / 2.0 - half) / (1.0 + square), (p + square / 2.0 + half) / (1.0 + square)
    return np.where(none | (p == 0.0), 0.0, low), np.where(none | (p == 1.0), 1.0, high)


def reliability_table(outcome: ArrayLike, probability: ArrayLike, n_bins: int = 10) -> list[dict[str, float]]:
    """Mean probability and share of true outcomes in bins of equal width.

    Parameters
    ----------
    outcome : array of 0 and 1
        Whether it was true: labels of bags as an (n, c) matrix, or whether the class of an instance was right.
    probability : array of the same shape, in [0, 1]
    n_bins : int

    Returns
    -------
    list of dict
        For each bin that holds any ``low`` and ``high``, its edges; ``confidence``, the mean probability; ``accuracy``,
        the share that was true; ``count``. A probability on an edge belongs to the bin above.

    Examples
    --------
    >>> from bagwise.metrics import reliability_table
    >>> reliability_table([1, 0, 0, 0], [0.75, 0.75, 0.25, 0.25], n_bins=2)[1]
    {'low': 0.5, 'high': 1.0, 'confidence': 0.75, 'accuracy': 0.5, 'count': 2}
    """
    true, confidence = (np.asarray(values, dtype=np.float64) for values in (outcome, probability))
    if true.shape != confidence.shape:
        raise InputError(
            f"outcome has shape {true.shape} but probability has shape {confidence.shape}; pass one of each."
        )
    true, confidence = true.ravel(), confidence.ravel()
    if not len(true):
        raise InputError("There is nothing to compare; pass at least one outcome and its probability.")
    if not np.isin(true, (0.0, 1.0)).all():
        raise InputError("outcome must hold 0 and 1 only: whether it was true.")
    bad = np.flatnonzero(~((confidence >= 0.0) & (confidence <= 1.0)))
    if len(bad):
        raise InputError(f"probability holds {confidence[bad[0]]} at position {bad[0]}; it must be in [0, 1].")
    if n_bins < 1:
        raise InputError(f"n_bins={n_bins}: there must be at least one bin.")
    which = np.minimum((confidence * n_bins).astype(np.int64), n_bins - 1)
    counts = np.bincount(which, minlength=n_bins)
    confidences = np.bincount(which, confidence, minlength=n_bins)
    accuracies = np.bincount(which, true, minlength=n_bins)
    return [
        {
            "low": i / n_bins,
            "high": (i + 1) / n_bins,
            "confidence": float(confidences[i] / counts[i]),
            "accuracy": float(accuracies[i] / counts[i]),
            "count": int(counts[i]),
        }
        for i in np.flatnonzero(counts).tolist()
    ]


def calibration_error(outcome: ArrayLike, probability: ArrayLike, n_bins: int = 10) -> float:
    """Expected calibration error: the mean difference of accuracy and confidence over the bins.

    ``sum over bins of count / n |accuracy - confidence|``, the bins of `reliability_table`.

    Examples
    --------
    >>> from bagwise.metrics import calibration_error
    >>> calibration_error([[1, 0], [1, 0]], [[0.75, 0.25], [0.75, 0.25]])
    0.25
    """
    table = reliability_table(outcome, probability, n_bins)
    error = sum(row["count"] * abs(row["accuracy"] - row["confidence"]) for row in table)
    return float(error / sum(row["count"] for row in table))


def instance_outcomes(y: ArrayLike | Bags, proba: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """For the instances of known class: whether the most probable class is right, and its probability.

    What `reliability_table` and `calibration_error` take.

    Parameters
    ----------
    y : (m,) array of class indices, or Bags of them
        -1 where the class is not known; such instances are left out.
    proba : (m, c) array

    Examples
    --------
    >>> from bagwise.metrics import instance_outcomes
    >>> instance_outcomes([1, -1, 0], [[0.2, 0.8], [0.5, 0.5], [0.3, 0.7]])
    (array([1., 0.]), array([0.8, 0.7]))
    """
    truth, table = _as_values(y, "y"), np.asarray(proba, dtype=np.float64)
    if table.ndim != 2 or len(table) != len(truth):
        raise InputError(
            f"proba has shape {table.shape} but y {len(truth)} values; pass a row of probabilities for each."
        )
    known = truth >= 0
    if not known.any():
        raise InputError("The class of no instance is known, so nothing can be compared; pass instance labels.")
    best = table[known].argmax(axis=1)
    return (best == truth[known]).astype(np.float64), table[known, best]


# -- clusters ----------------------------------------------------------------------------------------------------------


def clustering_accuracy(y: ArrayLike, labels: ArrayLike) -> float:
    """Share of the bags in the right cluster, under the best one-to-one match of clusters to classes.

    ``max_map 1 / n * sum_i [y_i = map(labels_i)]``, section 4.3.1 of Zhang et al. (2011), by the Hungarian
    method. Where there are more clusters than classes, those left over match nothing: their bags are wrong.

    Parameters
    ----------
    y : (n,) array of class values
    labels : (n,) array of cluster names, as in ``labels_``

    Examples
    --------
    >>> from bagwise.metrics import clustering_accuracy
    >>> clustering_accuracy(["a", "a", "b", "b"], [1, 1, 0, 1])
    0.75
    """
    y_codes, label_codes = _codes(y, labels)
    n_classes, n_clusters = y_codes.max() + 1, label_codes.max() + 1
    counts = np.bincount(y_codes * n_clusters + label_codes, minlength=n_classes * n_clusters)
    counts = counts.reshape(n_classes, n_clusters)
    return float(counts[linear_sum_assignment(counts, maximize=True)].sum() / len(y_codes))


def normalized_mutual_information(y: ArrayLike, labels: ArrayLike) -> float:
    """Mutual information of classes and clusters over the geometric mean of their entropies.

    ``I(y, labels) / sqrt(H(y) H(labels))``, equation 33 of Zhang et al. (2011): scikit-learn's
    ``normalized_mutual_info_score(average_method="geometric")``. 0 where one of the two is constant, 1 where
    both are. (Their equation 34 is the same once the factor ``n`` is put back into the logarithm of its
    numerator.)

    Parameters
    ----------
    y : (n,) array of class values
    labels : (n,) array of cluster names, as in ``labels_``

    Examples
    --------
    >>> from bagwise.metrics import normalized_mutual_information
    >>> normalized_mutual_information([1, 1, 2, 2, 3, 3], [3, 3, 3, 3, 3, 3])
    0.0
    """
    return float(normalized_mutual_info_score(*_codes(y, labels), average_method="geometric"))


# -- what came ---------------------------------------------------------------------------------------------------------


def _as_label_matrix(Y: Any, name: str) -> np.ndarray:
    try:
        Y = as_indicator(Y)
    except ValueError as error:  # ours, or numpy's for ragged rows
        raise InputError(f"{name} must be an (n, c) matrix of 0 and 1. {error}") from error
    if Y.size == 0:
        raise InputError(f"{name} has shape {Y.shape}; pass at least one bag and one class.")
    return Y


def _as_truth_and_scores(Y: Any, scores: Any) -> tuple[np.ndarray, np.ndarray]:
    Y = _as_label_matrix(Y, "Y")
    try:
        scores = np.asarray(scores)
        if np.iscomplexobj(scores):
            raise TypeError("They are complex.")
        scores = scores.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"scores must be an (n, c) array of real numbers. {error}") from error
    _check_shape(Y, scores, "scores")
    bad = np.argwhere(~np.isfinite(scores))
    if len(bad):
        i, c = bad[0]
        raise InputError(f"scores hold {scores[i, c]} at bag {i}, class {c}; scores must be finite.")
    return Y, scores


def _mean(values: Any, sample_weight: ArrayLike | None, used: Any) -> float:
    """Mean of the values of what is `used`, a mask, by the weights of all; NaN where nothing is."""
    weights = validate_weights(sample_weight, len(used))
    return float(np.average(values, weights=None if weights is None else weights[used])) if len(values) else np.nan


def _check_shape(Y: np.ndarray, other: np.ndarray, name: str) -> None:
    if Y.shape != other.shape:
        raise InputError(f"Y has shape {Y.shape} but {name} has shape {other.shape}; pass (n_bags, n_classes).")


def _as_values(values: Any, name: str) -> np.ndarray:
    """(m,) array of class values; values of mixed kinds, tuples and None stay the objects that they are."""
    if isinstance(values, Bags):
        values = values.instances
    if isinstance(values, (list, tuple)):
        kinds = {type(value) for value in values}
        numbers = all(issubclass(kind, (int, float, np.number, np.bool_)) for kind in kinds)
        array = np.empty(len(values), dtype=object)
        array[:] = values
        values = np.asarray(values) if numbers or kinds <= {str, np.str_} else array
    values = np.asarray(values)
    if values.ndim != 1 or not len(values):
        raise InputError(f"{name} has shape {values.shape}; expected one value each, and at least one.")
    if values.dtype.kind in "fc" and not np.isfinite(values).all():
        raise InputError(f"{name} holds NaN or infinity at position {np.isfinite(values).argmin()}.")
    return values


def _check_length(y: Any, other: Any, name: str) -> None:
    if len(y) != len(other):
        raise InputError(f"y has {len(y)} values but {name} has {len(other)}; pass as many of each.")


def _codes(y: Any, labels: Any) -> tuple[np.ndarray, np.ndarray]:
    """Class values and cluster names as integers from 0."""
    y, labels = _as_values(y, "y"), _as_values(labels, "labels")
    _check_length(y, labels, "labels")
    return _encode(y, "y"), _encode(labels, "labels")


def _encode(values: np.ndarray, name: str) -> np.ndarray:
    if values.dtype != object:
        return np.unique(values, return_inverse=True)[1]
    codes: dict[Any, int] = {}
    try:
        return np.array([codes.setdefault(value, len(codes)) for value in values.tolist()])
    except TypeError as error:
        raise InputError(f"{name} holds a value that cannot be hashed: {error}; use strings or numbers.") from None
