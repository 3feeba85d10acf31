"""Hinge losses of one bag as integer slopes.

Both losses are sums of hinges, each linear in the bag's scores while it is active. So a bag's loss is

    weight * (n_active + sum_j slopes_j * scores_j),

where `slopes` holds small whole numbers: what the kernels here find is which hinges are active, nothing else.
"""

from __future__ import annotations

import numpy as np
from numba import njit

RANK, HAMMING = 0, 1
DIRECT_LABELS = 48  # up to so many labels, comparing them with all classes at once beats sorting and searching


@njit(cache=True, nogil=True, error_model="numpy")
def rank_hinge_slopes(scores, labels, raised, slopes):
    """Active pairs of the rank hinge: j in `labels`, k not, with 1 + scores_k - scores_j > 0 (equation 5).

    Parameters
    ----------
    scores : (c,) array
    labels : (p,) array of int
        The classes that the bag carries.
    raised : (c,) array
        Workspace.
    slopes : (c,) array
        Receives, for k not in `labels`, how many labels k comes too close to; for a label j, minus how many classes
        come too close to j.

    Returns
    -------
    int
        Number of active pairs.

    Notes
    -----
    O(c log p): few labels are each compared with all classes in one vectorised sweep; more are sorted, and every
    other class finds its place among them by bisection.
    """
    n_classes = scores.shape[0]
    for k in range(n_classes):
        raised[k] = 1.0 + scores[k]
        slopes[k] = 0.0
    for a in range(labels.shape[0]):
        raised[labels[a]] = -np.inf
    if labels.shape[0] <= DIRECT_LABELS:
        return _compare_each(scores, labels, raised, slopes)
    return _search_sorted(scores, labels, raised, slopes)


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc"})
def _compare_each(scores, labels, raised, slopes):
    n_active = 0.0
    for a in range(labels.shape[0]):
        score = scores[labels[a]]
        hits = 0.0
        for k in range(raised.shape[0]):
            hit = 1.0 if raised[k] > score else 0.0
            slopes[k] += hit
            hits += hit
        slopes[labels[a]] = -hits
        n_active += hits
    return n_active


@njit(cache=True, nogil=True, error_model="numpy")
def _search_sorted(scores, labels, raised, slopes):
    n_labels = labels.shape[0]
    own = scores[labels]
    order = np.argsort(own)
    own = own[order]
    reached = np.zeros(n_labels + 1)  # how many classes come too close to exactly the r lowest labels
    n_active = 0.0
    for k in range(raised.shape[0]):
        low, high = 0, n_labels
        while low < high:
            middle = (low + high) // 2
            if own[middle] < raised[k]:
                low = middle + 1
            else:
                high = middle
        slopes[k] = low
        reached[low] += 1.0
        n_active += low
    hits = 0.0
    for r in range(n_labels, 0, -1):
        hits += reached[r]
        slopes[labels[order[r - 1]]] = -hits
    return n_active


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc"})
def hamming_hinge_slopes(scores, labels, slopes):
    """Active hinges of the Hamming hinge: a label scored below 1, another class above -1 (equation 30)."""
    n_active = 0.0
    for k in range(scores.shape[0]):
        slopes[k] = 1.0 if scores[k] > -1.0 else 0.0
        n_active += slopes[k]
    for a in range(labels.shape[0]):
        j = labels[a]
        n_active -= slopes[j]
        slopes[j] = -1.0 if scores[j] < 1.0 else 0.0
        n_active -= slopes[j]
    return n_active


@njit(cache=True, nogil=True, error_model="numpy")
def hinge_slopes(loss, scores, labels, raised, slopes):
    """Slopes of the loss `loss` (`RANK` or `HAMMING`) of one bag; returns the number of active hinges."""
    if loss == RANK:
        return rank_hinge_slopes(scores, labels, raised, slopes)
    return hamming_hinge_slopes(scores, labels, slopes)


@njit(cache=True, nogil=True, error_model="numpy")
def hinge_losses(loss, bag_scores, label_starts, labels, values, slopes):
    """Loss of every bag, before its weight, into `values` (n,), and its slopes into `slopes` (n, c)."""
    raised = np.empty(bag_scores.shape[1])
    for i in range(bag_scores.shape[0]):
        own = labels[label_starts[i] : label_starts[i + 1]]
        n_active = hinge_slopes(loss, bag_scores[i], own, raised, slopes[i])
        # the slopes of ranked pairs sum to zero, so a common shift changes nothing but the rounding
        shift = bag_scores[i, own[0]] if loss == RANK and own.shape[0] else 0.0
        total = n_active
        for j in range(bag_scores.shape[1]):
            if slopes[i, j] != 0.0:
                total += slopes[i, j] * (bag_scores[i, j] - shift)
        values[i] = total
