"""How good are label sets, rankings, instance labels and clusters; the truth always comes first.

Bag measures take ``Y``, the (n, c) 0/1 matrix of the labels that the bags carry, beside a prediction of the
same shape: 0/1 label sets for the Hamming loss, scores (higher = more likely present) for the others. A tie
between a label that the bag carries and one that it does not counts against the prediction everywhere, so
that constant scores gain nothing.

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
from scipy.optimize import linear_sum_assignment
from sklearn.metrics import (
    coverage_error,
    label_ranking_average_precision_score,
    label_ranking_loss,
    normalized_mutual_info_score,
)

from bagwise.bags import Bags, as_indicator
from bagwise.exceptions import InputError

# ------------------------------------------------------------------------------------------------------------
# Label sets and rankings of bags


def hamming_loss(Y: Any, Y_pred: Any) -> float:
    """Share of the (bag, class) cells that are predicted wrongly.

    ``1 / (n c) * sum_ij [Y_ij != Y_pred_ij]``: equation 1 of Briggs et al. [3]_, scikit-learn's
    ``hamming_loss``.

    Parameters
    ----------
    Y, Y_pred : (n, c) array of 0 and 1

    Examples
    --------
    >>> from bagwise.metrics import hamming_loss
    >>> hamming_loss([[1, 0], [0, 1]], [[1, 1], [0, 1]])
    0.25
    """
    Y, Y_pred = _as_label_matrix(Y, "Y"), _as_label_matrix(Y_pred, "Y_pred")
    _check_same_shape(Y, Y_pred, "Y_pred")
    return float(np.mean(Y_pred != Y))


def ranking_loss(Y: Any, scores: Any) -> float:
    """Share of the (carried, not carried) pairs of labels that the scores put in the wrong order.

    ``1 / n * sum_i 1 / (|Y_i| |N_i|) * sum_{j in Y_i, k in N_i} [F_ij <= F_ik]``, where ``N_i`` is the
    complement of ``Y_i``: equation 2 of Briggs et al. [3]_, as in Zhou et al. [1]_ and Zhang and Zhou [2]_.
    This is scikit-learn's ``label_ranking_loss``, which counts ties as errors too. A bag whose label set is
    empty or full has no pair and counts 0.

    Parameters
    ----------
    Y : (n, c) array of 0 and 1
    scores : (n, c) array of finite numbers

    Examples
    --------
    >>> from bagwise.metrics import ranking_loss
    >>> ranking_loss([[1, 0, 0]], [[0.5, 0.5, 0.1]])
    0.5
    """
    Y, scores = _as_truth_and_scores(Y, scores)
    if Y.shape[1] == 1:  # scikit-learn takes one column for a binary problem and refuses it
        return 0.0
    return float(label_ranking_loss(Y, scores))


def one_error(Y: Any, scores: Any) -> float:
    """Share of the bags whose top-ranked label they do not carry.

    ``1 / n * sum_i [argmax_j F_ij not in Y_i]``, as in Zhou et al. [1]_ and Zhang and Zhou [2]_. Where
    several labels share the top score, one that the bag does not carry makes it an error. A bag without
    labels would be an error whatever the scores, so such bags are left out; there must be at least one other.

    Parameters
    ----------
    Y : (n, c) array of 0 and 1
    scores : (n, c) array of finite numbers

    Examples
    --------
    >>> from bagwise.metrics import one_error
    >>> one_error([[1, 0], [0, 1]], [[0.9, 0.2], [0.7, 0.6]])
    0.5
    """
    Y, scores = _as_truth_and_scores(Y, scores)
    labelled = Y.any(axis=1)
    if not labelled.any():
        raise InputError("No bag carries any label, so the one-error is not defined; pass bags with labels.")
    Y, scores = Y[labelled], scores[labelled]
    on_top = scores == scores.max(axis=1, keepdims=True)
    return float(np.mean((on_top & (Y == 0)).any(axis=1)))


def coverage(Y: Any, scores: Any, *, normalized: bool = False) -> float:
    """How many steps down the ranked list of labels it takes, on average, to meet all that the bag carries.

    ``1 / n * sum_i max_{j in Y_i} rank_i(j) - 1``, as in Zhou et al. [1]_ and Zhang and Zhou [2]_, where
    ``rank_i(j)`` is the number of labels that score at least as much as ``j``: scikit-learn's
    ``coverage_error`` minus 1. A bag without labels needs no step and counts 0 (scikit-learn's minus 1 would
    give it -1).

    Parameters
    ----------
    Y : (n, c) array of 0 and 1
    scores : (n, c) array of finite numbers
    normalized : bool, default=False
        Divide the count by the number of classes ``c``, as Table 7 of Pham et al. [4]_ does.

    Notes
    -----
    Pham et al. [4]_ do not print their normalisation. Their dummy tells it: the class frequencies of the
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
    Y, scores = _as_truth_and_scores(Y, scores)
    labelled = Y.any(axis=1)
    steps = 0.0
    if Y.shape[1] > 1 and labelled.any():  # scikit-learn refuses one column
        steps = (coverage_error(Y[labelled], scores[labelled]) - 1) * labelled.mean()
    return float(steps / Y.shape[1] if normalized else steps)


def average_precision(Y: Any, scores: Any) -> float:
    """How pure the top of the ranked list is, seen from each label that the bag carries.

    ``1 / n * sum_i 1 / |Y_i| * sum_{j in Y_i} |{k in Y_i: F_ik >= F_ij}| / |{k: F_ik >= F_ij}|``, as in Zhou
    et al. [1]_ and Zhang and Zhou [2]_: scikit-learn's ``label_ranking_average_precision_score``. A bag
    without labels counts 1.

    Parameters
    ----------
    Y : (n, c) array of 0 and 1
    scores : (n, c) array of finite numbers

    Examples
    --------
    >>> from bagwise.metrics import average_precision
    >>> average_precision([[1, 0, 1, 0]], [[0.9, 0.5, 0.3, 0.1]])  # (1/1 + 2/3) / 2
    0.8333333333333333
    """
    Y, scores = _as_truth_and_scores(Y, scores)
    return float(label_ranking_average_precision_score(Y, scores))


def rank_hinge_loss(Y: Any, scores: Any) -> float:
    """Unregularised rank hinge loss of the support instance machine.

    ``sum_i sum_{j in Y_i, k in N_i} beta_i max(0, 1 - (F_ij - F_ik))`` with ``beta_i = 1 / (n |Y_i| |N_i|)``,
    ``N_i`` the complement of ``Y_i``: equations 5 and 11 of Briggs et al. [3]_ without the regulariser, and
    one fold of their equation 37. That is a mean over bags. In the paper no label set is empty or full; such
    bags have no pair and are left out here, ``n`` counts the others, and there must be at least one.

    Parameters
    ----------
    Y : (n, c) array of 0 and 1
    scores : (n, c) array of finite numbers

    Notes
    -----
    Takes O(c log c) a bag. Raise the scores of ``N_i`` by 1 and sort all: the loss is the sum of the
    differences over the pairs with a label of ``Y_i`` below one of ``N_i``. Each gap between neighbours lies
    within as many pairs as there are labels of ``Y_i`` below it times labels of ``N_i`` above it; no term is
    negative, so nothing cancels.

    Examples
    --------
    >>> from bagwise.metrics import rank_hinge_loss
    >>> rank_hinge_loss([[1, 0, 0]], [[2.0, 1.5, 0.0]])  # (0.5 + 0) / 2
    0.25
    """
    Y, scores = _as_truth_and_scores(Y, scores)
    n_labels = Y.sum(axis=1, dtype=np.int64)
    defined = (n_labels > 0) & (n_labels < Y.shape[1])
    if not defined.any():
        raise InputError("Every bag carries no label or all of them, so there is no pair to rank; pass other bags.")
    Y, scores, n_labels = Y[defined], scores[defined], n_labels[defined]
    n_others = Y.shape[1] - n_labels
    raised = scores + (Y == 0)
    order = np.argsort(raised, axis=1)
    carried = np.take_along_axis(Y, order, axis=1).astype(np.int64)
    gaps = np.diff(np.take_along_axis(raised, order, axis=1), axis=1)
    below = np.cumsum(carried, axis=1)[:, :-1]
    above = n_others[:, None] - np.cumsum(1 - carried, axis=1)[:, :-1]
    return float(np.mean((gaps * (below * above)).sum(axis=1) / (n_labels * n_others)))


def listed_share(Y: Any, labels: Bags) -> float:
    """Share of the instances whose label is one that their bag carries: what bag labels alone say of instance labels.

    A label that the bag does not carry is certainly wrong. The mean over the bags that carry any label; NaN where none
    does.

    Parameters
    ----------
    Y : (n, c) array of 0 and 1
    labels : Bags of int
        Class index of every instance, negative where it was given none, which counts as a label not carried.

    Examples
    --------
    >>> from bagwise import Bags
    >>> from bagwise.metrics import listed_share
    >>> listed_share([[1, 0], [1, 1]], Bags.from_list([[0, 1], [0, 1]]))
    0.75
    """
    Y = _as_label_matrix(Y, "Y")
    _check_same_length(Y, labels, "labels")
    given, bag = labels.instances, labels.bag_index
    right = (given >= 0) & (Y[bag, np.maximum(given, 0)] == 1)
    share = np.bincount(bag, right, minlength=len(Y)) / labels.sizes
    return _mean(share[Y.any(axis=1)])


def explained_share(Y: Any, labels: Bags) -> float:
    """Share of the labels that a bag carries which some instance of it was given.

    A label that none was given is certainly missed. The mean over the bags that carry any label; NaN where none does.

    Parameters
    ----------
    Y : (n, c) array of 0 and 1
    labels : Bags of int
        Class index of every instance, negative where it was given none.

    Examples
    --------
    >>> from bagwise import Bags
    >>> from bagwise.metrics import explained_share
    >>> explained_share([[1, 0], [1, 1]], Bags.from_list([[0, 1], [0, 0]]))
    0.75
    """
    Y = _as_label_matrix(Y, "Y")
    _check_same_length(Y, labels, "labels")
    given = np.zeros(Y.shape, dtype=bool)
    named = labels.instances >= 0
    given[labels.bag_index[named], labels.instances[named]] = True
    carries = Y.any(axis=1)
    return _mean((given & (Y == 1))[carries].sum(axis=1) / Y[carries].sum(axis=1))


def _mean(values: np.ndarray) -> float:
    return float(values.mean()) if len(values) else float("nan")


# ------------------------------------------------------------------------------------------------------------
# Probabilities


def reliability_table(outcome: Any, probability: Any, n_bins: int = 10) -> list[dict[str, float]]:
    """What was promised beside what came, in bins of equal width.

    Parameters
    ----------
    outcome : array of 0 and 1
        Whether it came true: labels of bags as an (n, c) matrix, or whether the class of an instance was right.
    probability : array of the same shape, in [0, 1]
    n_bins : int

    Returns
    -------
    list of dict
        For each bin that holds any ``low`` and ``high``, its edges; ``confidence``, the mean probability; ``accuracy``,
        the share that came true; ``count``. A probability on an edge belongs to the bin above.

    Examples
    --------
    >>> from bagwise.metrics import reliability_table
    >>> reliability_table([1, 0, 0, 0], [0.75, 0.75, 0.25, 0.25], n_bins=2)[1]
    {'low': 0.5, 'high': 1.0, 'confidence': 0.75, 'accuracy': 0.5, 'count': 2}
    """
    outcome, probability = _as_outcomes(outcome, probability)
    if n_bins < 1:
        raise InputError(f"n_bins={n_bins}: there must be at least one bin.")
    which = np.minimum((probability * n_bins).astype(np.int64), n_bins - 1)
    counts = np.bincount(which, minlength=n_bins)
    promised = np.bincount(which, probability, minlength=n_bins)
    came = np.bincount(which, outcome, minlength=n_bins)
    return [
        {
            "low": i / n_bins, "high": (i + 1) / n_bins, "confidence": float(promised[i] / counts[i]),
            "accuracy": float(came[i] / counts[i]), "count": int(counts[i]),
        }
        for i in np.flatnonzero(counts).tolist()
    ]  # fmt: skip


def calibration_error(outcome: Any, probability: Any, n_bins: int = 10) -> float:
    """Expected calibration error: how far what came is from what was promised, on the mean over the bins.

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


def instance_outcomes(y: Any, proba: Any) -> tuple[np.ndarray, np.ndarray]:
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
    y, proba = _as_values(y, "y"), np.asarray(proba, dtype=np.float64)
    if proba.ndim != 2 or len(proba) != len(y):
        raise InputError(f"proba has shape {proba.shape} but y {len(y)} values; pass a row of probabilities for each.")
    known = y >= 0
    if not known.any():
        raise InputError("The class of no instance is known, so nothing can be compared; pass instance labels.")
    best = proba[known].argmax(axis=1)
    return (best == y[known]).astype(np.float64), proba[known, best]


# ------------------------------------------------------------------------------------------------------------
# Instances and clusters


def instance_accuracy(y: Any, y_pred: Any) -> float:
    """Share of the instances with a known class that are given that class.

    Parameters
    ----------
    y : (m,) array of class values, or Bags of them
        The truth. -1 among numbers, None among anything else marks an unknown class; such instances are left
        out.
    y_pred : (m,) array of class values, or Bags of them

    Examples
    --------
    >>> from bagwise.metrics import instance_accuracy
    >>> instance_accuracy([0, 1, -1, 1], [0, 0, 1, 1])
    0.6666666666666666
    """
    y, y_pred = _as_values(y, "y"), _as_values(y_pred, "y_pred")
    _check_same_length(y, y_pred, "y_pred")
    numeric = [np.issubdtype(a.dtype, np.number) for a in (y, y_pred)]
    text = [a.dtype.kind == "U" for a in (y, y_pred)]
    if (numeric[0] and text[1]) or (text[0] and numeric[1]):
        raise InputError(
            f"y holds values such as {y.tolist()[0]!r} but y_pred such as {y_pred.tolist()[0]!r}; "
            "give both as class indices or both as class names."
        )
    known = y != -1 if numeric[0] else np.array([value is not None for value in y])
    if not known.any():
        raise InputError("The class of no instance is known, so there is no accuracy; pass instance labels.")
    y, y_pred = y[known], y_pred[known]
    if all(numeric):
        return float(np.mean(y == y_pred))
    return float(np.mean([a == b for a, b in zip(y.tolist(), y_pred.tolist(), strict=True)]))


def clustering_accuracy(y: Any, labels: Any) -> float:
    """Share of the bags in the right cluster, under the best one-to-one match of clusters to classes.

    ``max_map 1 / n * sum_i [y_i = map(labels_i)]``, section 4.3.1 of Zhang et al. [5]_, by the Hungarian
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
    y_codes, label_codes = _as_codes(y, labels)
    n_classes, n_clusters = y_codes.max() + 1, label_codes.max() + 1
    counts = np.bincount(y_codes * n_clusters + label_codes, minlength=n_classes * n_clusters)
    counts = counts.reshape(n_classes, n_clusters)
    return float(counts[linear_sum_assignment(counts, maximize=True)].sum() / len(y_codes))


def normalized_mutual_information(y: Any, labels: Any) -> float:
    """Mutual information of classes and clusters over the geometric mean of their entropies.

    ``I(y, labels) / sqrt(H(y) H(labels))``, equation 33 of Zhang et al. [5]_: scikit-learn's
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
    return float(normalized_mutual_info_score(*_as_codes(y, labels), average_method="geometric"))


# ------------------------------------------------------------------------------------------------------------
# Validation


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
    _check_same_shape(Y, scores, "scores")
    bad = np.argwhere(~np.isfinite(scores))
    if len(bad):
        i, c = bad[0]
        raise InputError(f"scores hold {scores[i, c]} at bag {i}, class {c}; scores must be finite.")
    return Y, scores


def _as_outcomes(outcome: Any, probability: Any) -> tuple[np.ndarray, np.ndarray]:
    outcome, probability = (np.asarray(values, dtype=np.float64) for values in (outcome, probability))
    if outcome.shape != probability.shape:
        raise InputError(
            f"outcome has shape {outcome.shape} but probability has shape {probability.shape}; pass one of each."
        )
    outcome, probability = outcome.ravel(), probability.ravel()
    if not len(outcome):
        raise InputError("There is nothing to compare; pass at least one outcome and its probability.")
    if not np.isin(outcome, (0.0, 1.0)).all():
        raise InputError("outcome must hold 0 and 1 only: whether it came true.")
    bad = np.flatnonzero(~((probability >= 0.0) & (probability <= 1.0)))
    if len(bad):
        raise InputError(f"probability holds {probability[bad[0]]} at position {bad[0]}; it must be in [0, 1].")
    return outcome, probability


def _check_same_shape(Y: np.ndarray, other: np.ndarray, name: str) -> None:
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


def _check_same_length(y: Any, other: Any, name: str) -> None:
    if len(y) != len(other):
        raise InputError(f"y has {len(y)} values but {name} has {len(other)}; pass as many of each.")


def _as_codes(y: Any, labels: Any) -> tuple[np.ndarray, np.ndarray]:
    """Class values and cluster names as integers from 0."""
    y, labels = _as_values(y, "y"), _as_values(labels, "labels")
    _check_same_length(y, labels, "labels")
    return _encode(y, "y"), _encode(labels, "labels")


def _encode(values: np.ndarray, name: str) -> np.ndarray:
    if values.dtype != object:
        return np.unique(values, return_inverse=True)[1]
    codes: dict[Any, int] = {}
    try:
        return np.array([codes.setdefault(value, len(codes)) for value in values.tolist()])
    except TypeError as error:
        raise InputError(f"{name} holds a value that cannot be hashed: {error}; use strings or numbers.") from None
