"""Label sets and rankings of bags.

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
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from sklearn.metrics import coverage_error, label_ranking_average_precision_score, label_ranking_loss

from bagwise.core.exceptions import InputError
from bagwise.core.validation import validate_weights
from bagwise.metrics._validation import as_label_matrix, as_truth_and_scores, check_same_shape, weights_of


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
    truth, predicted = as_label_matrix(Y, "Y"), as_label_matrix(Y_pred, "Y_pred")
    check_same_shape(truth, predicted, "Y_pred")
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
    truth, ranked = as_truth_and_scores(Y, scores)
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
    truth, ranked = as_truth_and_scores(Y, scores)
    labelled = truth.any(axis=1)
    if not labelled.any():
        raise InputError("No bag carries any label, so the one-error is not defined; pass bags with labels.")
    weights = weights_of(sample_weight, len(truth))[labelled]
    truth, ranked = truth[labelled], ranked[labelled]
    on_top = ranked == ranked.max(axis=1, keepdims=True)
    return float(np.average((on_top & (truth == 0)).any(axis=1), weights=weights))


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
    truth, ranked = as_truth_and_scores(Y, scores)
    labelled, weights = truth.any(axis=1), weights_of(sample_weight, len(truth))
    steps = 0.0
    if truth.shape[1] > 1 and labelled.any():  # scikit-learn refuses one column
        error = coverage_error(truth[labelled], ranked[labelled], sample_weight=weights[labelled])
        steps = (error - 1) * np.average(labelled, weights=weights)
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
    truth, ranked = as_truth_and_scores(Y, scores)
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
    truth, ranked = as_truth_and_scores(Y, scores)
    n_labels = truth.sum(axis=1, dtype=np.int64)
    defined = (n_labels > 0) & (n_labels < truth.shape[1])
    if not defined.any():
        raise InputError("Every bag carries no label or all of them, so there is no pair to rank; pass other bags.")
    weights = weights_of(sample_weight, len(truth))[defined]
    truth, ranked, n_labels = truth[defined], ranked[defined], n_labels[defined]
    n_others = truth.shape[1] - n_labels
    raised = ranked + (truth == 0)
    order = np.argsort(raised, axis=1)
    carried = np.take_along_axis(truth, order, axis=1).astype(np.int64)
    gaps = np.diff(np.take_along_axis(raised, order, axis=1), axis=1)
    below = np.cumsum(carried, axis=1)[:, :-1]
    above = n_others[:, None] - np.cumsum(1 - carried, axis=1)[:, :-1]
    return float(np.average((gaps * (below * above)).sum(axis=1) / (n_labels * n_others), weights=weights))
