"""Hinge losses of bags as whole-number slopes.

Both losses are sums of hinges, each linear in the bag's scores while it is active. So a bag's loss is

    weight * (n_active + sum_j slopes_j * scores_j),

where `slopes` holds small whole numbers: what the kernels here find is which hinges are active, nothing else.
"""

from __future__ import annotations

import numpy as np

from bagwise.kernels._cache import njit

RANK, HAMMING = 0, 1


@njit(cache=True, nogil=True, error_model="numpy")
def hinge_slopes(loss, bag_scores, label_starts, labels, n_active, slopes):
    """Slopes and number of active hinges of every bag.

    Parameters
    ----------
    loss : int
        `RANK` or `HAMMING`.
    bag_scores : (n, c) array, or with more rows
    label_starts : (n + 1,) array of int
    labels : array of int
        The classes that bag i carries are ``labels[label_starts[i]:label_starts[i + 1]]``.
    n_active : (n,) array, or longer
        Receives the number of active hinges.
    slopes : (n, c) array, or with more rows
        Receives the slopes.
    """
    raised = np.empty(bag_scores.shape[1])
    for i in range(label_starts.shape[0] - 1):
        own = labels[label_starts[i] : label_starts[i + 1]]
        if loss == HAMMING:
            n_active[i] = _hamming_hinge(bag_scores[i], own, slopes[i])
        else:
            n_active[i] = _rank_hinge(bag_scores[i], own, raised, slopes[i])


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc"})
def _rank_hinge(scores, labels, raised, slopes):
    """Active pairs of the rank hinge: j in `labels`, k not, with 1 + scores_k - scores_j > 0 (equation 5).

    Every label is compared with all classes in one vectorised sweep: O(p c) for p labels.

    Parameters
    ----------
    scores : (c,) array
    labels : (p,) array of int
    raised : (c,) array
        Workspace.
    slopes : (c,) array
        Receives, for k not in `labels`, how many labels k comes too close to; for a label j, minus how many classes
        come too close to j.

    Returns
    -------
    Number of active pairs.
    """
    for k in range(scores.shape[0]):
        raised[k] = 1.0 + scores[k]
        slopes[k] = 0.0
    for a in range(labels.shape[0]):
        raised[labels[a]] = -np.inf
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


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc"})
def _hamming_hinge(scores, labels, slopes):
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
