"""MIMLSVM: distances to medoids, then one support vector machine per class."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from joblib import Parallel, delayed
from sklearn.svm import SVC

from bagwise.classification._bag_distance import BagDistanceClassifier
from bagwise.core.checks import check_positive
from bagwise.core.fitted import ITERATED, Attribute, Number, Numbers
from bagwise.core.typing import BagsLike, LabelsLike, Seed, WeightsLike
from bagwise.solvers.support import kernel_scores, support_rows


class MIMLSVM(BagDistanceClassifier):
    """k-medoids over bags by Hausdorff distance, bags as distances to the medoids, one Gaussian SVM per class.

    The paper's reduction of multi-instance multi-label learning to multi-label learning: a bag X becomes
    z = (d(X, M_1), ..., d(X, M_k)), and a class is learned by a support vector machine with kernel
    exp(-gamma ||z - z'||^2), positive for the bags that carry it (MLSVM of Boutell et al. 2004). A bag is given the
    classes with a score of zero or more, or the best one (T-criterion).

    Parameters
    ----------
    C : float, default=1.0
    gamma : float, default=0.2
        The papers' value, for features scaled to [0, 1].
    n_medoids : float or int, default=0.2
        A share of the training bags (the papers' "ratio") or a number.
    distance : {"maximal", "minimal", "average"}, default="maximal"
        Hausdorff distance; the paper's is the maximal one.
    n_jobs : int or None
        Classes in parallel (threads), and most threads for the distances. None: one class at a time, and for distances
        the processors at hand where there is work for them.
    random_state : int, RandomState or None
        Start of the k-medoids search (FasterPAM).

    Attributes
    ----------
    classes_ : (c,) array
    medoid_indices_, medoids_ : (k,) array and Bags
        Which training bags are medoids, and these bags.
    support_codes_, dual_coef_, intercept_ : (s, k), (s, c) and (c,) arrays
        Scores are ``exp(-gamma ||z - support_codes_||^2) @ dual_coef_ + intercept_``.
    n_iter_ : int
        Most iterations that a class took.
    objective_history_ : (1,) array
        Dual objective at the end, summed over the classes.
    converged_ : bool

    References
    ----------
    Z.-H. Zhou, M.-L. Zhang (2007): Multi-instance multi-label learning with application to scene classification. NIPS
    19, 1609-1616, algorithm MIMLSVM.

    Examples
    --------
    >>> from bagwise.classification import MIMLSVM
    >>> from bagwise.datasets import make_gaussian_bags
    >>> data = make_gaussian_bags(n_bags=60, random_state=0)
    >>> MIMLSVM(random_state=0).fit(data.bags, data.Y).predict(data.bags).shape == data.Y.shape
    True
    """

    _kept_parameters = ("gamma", "distance")
    _fitted: ClassVar[dict[str, Attribute]] = {
        "gamma_": Number(positive=True),
        "support_codes_": Numbers("support", "medoids"),
        "dual_coef_": Numbers("support", "classes"),
        "intercept_": Numbers("classes"),
        **ITERATED,
    }

    def __init__(
        self,
        C: float = 1.0,
        *,
        gamma: float = 0.2,
        n_medoids: float | int = 0.2,
        distance: str = "maximal",
        n_jobs: int | None = None,
        random_state: Seed = None,
    ):
        self.C = C
        self.gamma = gamma
        self.n_medoids = n_medoids
        self.distance = distance
        self.n_jobs = n_jobs
        self.random_state = random_state

    def fit(self, X: BagsLike, y: LabelsLike | None = None, sample_weight: WeightsLike | None = None) -> MIMLSVM:
        """Learn from bags and their labels.

        Parameters
        ----------
        X : Bags, BagDataset, list of 2-d arrays or frames, 3-d array, 2-d array or frame
        y : (n, c) 0/1 matrix, list or series of label sets, (n,) class values, or BagDataset
            None: the labels of the `BagDataset` that is `X`.
        sample_weight : (n,) array or None
            C of each bag is multiplied by it; one of weight 0 is left out. Medoids are
            distinct bags, whatever these weigh, and a share of them is one of the distinct bags.
        """
        check_positive(self, "C", "gamma")
        index, bags, indicator, weights, constant = self._start_class_problems(X, y, sample_weight)
        codes = self._encode_training(bags, index, weights)
        learned = np.flatnonzero(np.isnan(constant))
        models = Parallel(n_jobs=self.n_jobs, prefer="threads")(
            delayed(SVC(C=self.C, gamma=self.gamma).fit)(codes, indicator[:, c], weights) for c in learned
        )
        self.intercept_ = np.where(np.isnan(constant), 0.0, constant)
        dual = np.zeros((len(codes), len(constant)))
        for c, model in zip(learned, models, strict=True):
            dual[model.support_, c] = model.dual_coef_[0]
            self.intercept_[c] = model.intercept_[0]
        used = support_rows(dual)
        self.support_codes_, self.dual_coef_ = codes[used], dual[used]
        self.objective_history_ = np.array([sum(_dual_objective(model, codes) for model in models)], dtype=np.float64)
        self.converged_ = all(model.fit_status_ == 0 for model in models)
        self.n_iter_ = max([1, *(int(np.max(model.n_iter_)) for model in models)])
        return self

    def _code_scores(self, codes: np.ndarray) -> np.ndarray:
        return kernel_scores(codes, self.support_codes_, self.dual_coef_, self.gamma_) + self.intercept_


def _dual_objective(model: SVC, codes: np.ndarray) -> float:
    """sum(a) - 1/2 ||w||^2, the norm from the outputs of the support vectors."""
    weights = model.dual_coef_[0]
    outputs = model.decision_function(codes[model.support_]) - model.intercept_[0]
    return float(np.abs(weights).sum() - 0.5 * weights @ outputs)
