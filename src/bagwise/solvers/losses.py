"""Bag-level hinge losses: value and derivative of them as functions of bag scores and labels.

References
----------
.. [1] F. Briggs, X. Z. Fern, R. Raich, Q. Lou (2013): Instance annotation for multi-instance multi-label learning. ACM
       Transactions on Knowledge Discovery from Data 7 (3), article 14.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from bagwise.core.bags import offsets_of
from bagwise.kernels.ranking import HAMMING, RANK, hinge_slopes


@dataclass(frozen=True)
class Loss:
    """What a solver needs to know of a loss.

    Attributes
    ----------
    code : int
        Its branch in `bagwise.kernels.ranking.hinge_slopes`.
    bag_weights : callable
        Maps the (n, c) label matrix to the (n,) factors of the bags' hinges.
    is_defined : callable
        Maps the label matrix to the (n,) mask of the bags whose loss is defined.
    """

    code: int
    bag_weights: Callable[[np.ndarray], np.ndarray]
    is_defined: Callable[[np.ndarray], np.ndarray]

    def __call__(
        self, bag_scores: np.ndarray, Y: np.ndarray, relative: np.ndarray | None = None
    ) -> tuple[float, np.ndarray]:
        """Value and (n, c) derivative with respect to the bag scores (a sub-gradient where there is a kink).

        `relative` (n,) weights of the bags, 1 on average, multiply their terms.

        >>> LOSSES["rank"](np.array([[2.0, 1.5, 0.0]]), np.array([[1, 0, 0]]))
        (0.25, array([[-0.5,  0.5,  0. ]]))
        """
        bag_scores = np.ascontiguousarray(bag_scores, dtype=np.float64)
        n_active, slopes = np.empty(len(bag_scores)), np.empty(bag_scores.shape)
        hinge_slopes(self.code, bag_scores, *label_lists(Y), n_active, slopes)
        # a hinge is 1 plus a linear function of the scores where it is active, so its value follows from its slope
        values = n_active + np.einsum("ij,ij->i", slopes, bag_scores)
        weights = self.bag_weights(Y) if relative is None else relative * self.bag_weights(Y)
        slopes *= weights[:, None]
        return float(weights @ values), slopes


def label_lists(Y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The classes of each bag, one bag after another, and the (n + 1,) positions at which the bags' lists start."""
    rows, labels = np.nonzero(Y)
    return offsets_of(np.bincount(rows, minlength=len(Y))), labels.astype(np.int64)


def _rank_weights(Y: np.ndarray) -> np.ndarray:
    n_labels = Y.sum(axis=1, dtype=np.float64)
    return 1.0 / (len(Y) * n_labels * (Y.shape[1] - n_labels))


def _has_pairs(Y: np.ndarray) -> np.ndarray:
    n_labels = Y.sum(axis=1, dtype=np.int64)
    return (n_labels > 0) & (n_labels < Y.shape[1])


def _hamming_weights(Y: np.ndarray) -> np.ndarray:
    return np.full(len(Y), 1.0 / Y.size)


def _always(Y: np.ndarray) -> np.ndarray:
    return np.ones(len(Y), dtype=bool)


LOSSES: dict[str, Loss] = {
    "rank": Loss(RANK, _rank_weights, _has_pairs),
    "hamming": Loss(HAMMING, _hamming_weights, _always),
}
"""The losses by name.

rank: sum_ijk beta_i max(0, 1 - (F_ij - F_ik)) over j in Y_i and k not, beta_i = 1 / (n |Y_i| (c - |Y_i|)), equation 5
of [1]_. No label set may be empty or full. Pairs exactly at the margin count as inactive, as in equation 27.

hamming: 1 / (n c) sum_ij max(0, 1 - Y_ij F_ij) with Y_ij = 1 for labels and -1 else, equation 30 of [1]_: one
independent problem per class, which leaves the classes' scores uncalibrated.
"""
