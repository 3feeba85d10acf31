"""MIMLNN: distances to medoids, then regularised least squares."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from scipy.linalg import solve_triangular

from bagwise.classification._bag_distance import BagDistanceClassifier
from bagwise.core.checks import check_positive
from bagwise.core.fitted import Attribute, Number, Numbers
from bagwise.core.typing import BagsLike, LabelsLike, Seed, WeightsLike


class MIMLNN(BagDistanceClassifier):
    """k-medoids over bags by Hausdorff distance, bags as distances to the medoids, one ridge regression per class.

    The two-layer network of Zhang and Zhou in place of MIMLSVM's support vector machines. The first layer gives
    z = (d(X, M_1), ..., d(X, M_k)); the weights of the second, linear and without bias, minimise ::

        sum_i ||V' z_i - t_i||^2 + alpha ||V||^2,     t_il = 1 if bag i carries l, else -1,

    so V = (Z'Z + alpha I)^-1 Z'T. A bag is given the classes with a score of zero or more, or the best one.

    Parameters
    ----------
    alpha : float, default=1.0
        The papers' lambda.
    n_medoids : float or int, default=0.4
        A share of the training bags (the papers' "ratio") or a number.
    distance : {"maximal", "minimal", "average"}, default="maximal"
        Hausdorff distance.
    n_jobs : int or None
        Most threads for the distances; None: the processors at hand, where there is work for them.
    random_state : int, RandomState or None
        Start of the k-medoids search (FasterPAM).

    Attributes
    ----------
    classes_ : (c,) array
    medoid_indices_, medoids_ : (k,) array and Bags
    code_coef_ : (k, c) array
        V, zero for a class that no bag or every bag carries.
    intercept_ : (c,) array
        Zero but for such classes.
    n_iter_ : int
        1.

    Notes
    -----
    Solved by the QR decomposition of (Z; sqrt(alpha) I), whose condition is the root of that of Z'Z: with as many
    medoids as bags and a small alpha the normal equations lose half of their digits.

    References
    ----------
    M.-L. Zhang, Z.-H. Zhou (2007): Multi-label learning by instance differentiation. AAAI, 669-674 (the network).
    Z.-H. Zhou, M.-L. Zhang, S.-J. Huang, Y.-F. Li (2012): Multi-instance multi-label learning. Artificial Intelligence
    176, 2291-2320 (MIMLNN).

    Examples
    --------
    >>> from bagwise.classification import MIMLNN
    >>> from bagwise.datasets import make_gaussian_bags
    >>> data = make_gaussian_bags(n_bags=60, random_state=0)
    >>> MIMLNN(random_state=0).fit(data.bags, data.Y).predict(data.bags).shape == data.Y.shape
    True
    """

    _fitted: ClassVar[dict[str, Attribute]] = {
        "code_coef_": Numbers("medoids", "classes"),
        "intercept_": Numbers("classes"),
        "n_iter_": Number(0, whole=True),
    }

    def __init__(
        self,
        alpha: float = 1.0,
        *,
        n_medoids: float | int = 0.4,
        distance: str = "maximal",
        n_jobs: int | None = None,
        random_state: Seed = None,
    ):
        self.alpha = alpha
        self.n_medoids = n_medoids
        self.distance = distance
        self.n_jobs = n_jobs
        self.random_state = random_state

    def fit(self, X: BagsLike, y: LabelsLike | None = None, sample_weight: WeightsLike | None = None) -> MIMLNN:
        """Learn from bags and their labels.

        Parameters
        ----------
        X : Bags, BagDataset, list of 2-d arrays or frames, 3-d array, 2-d array or frame
        y : (n, c) 0/1 matrix, list or series of label sets, (n,) class values, or BagDataset
            None: the labels of the `BagDataset` that is `X`.
        sample_weight : (n,) array or None
            Weight of each bag's squares; one of weight 0 is left out. Medoids are
            distinct bags, whatever these weigh, and a share of them is one of the distinct bags.
        """
        check_positive(self, "alpha")
        index, bags, indicator, weights, constant = self._start_class_problems(X, y, sample_weight)
        codes = self._encode_training(bags, index, weights)
        self.code_coef_ = _ridge_weights(codes, 2.0 * indicator - 1.0, self.alpha, weights)
        self.code_coef_[:, ~np.isnan(constant)] = 0.0
        self.intercept_ = np.where(np.isnan(constant), 0.0, constant)
        self.n_iter_ = 1
        return self

    def _code_scores(self, codes: np.ndarray) -> np.ndarray:
        return codes @ self.code_coef_ + self.intercept_


def _ridge_weights(codes: np.ndarray, targets: np.ndarray, alpha: float, weights: np.ndarray) -> np.ndarray:
    """(k, c) minimiser of ||codes V - targets||^2 + alpha ||V||^2; `weights` (n,) are those of the squares of rows."""
    k = codes.shape[1]
    codes, targets = (np.sqrt(weights)[:, None] * rows for rows in (codes, targets))
    stacked = np.vstack([codes, np.sqrt(alpha) * np.eye(k)])
    padded = np.vstack([targets, np.zeros((k, targets.shape[1]))])
    Q, R = np.linalg.qr(stacked)  # R is regular because alpha > 0
    return solve_triangular(R, Q.T @ padded)
