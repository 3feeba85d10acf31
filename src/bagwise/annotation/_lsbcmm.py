"""LSB-CMM: a conditional mixture for superset labels, its components chosen by logistic stick-breaking."""

from __future__ import annotations

import warnings
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from bagwise.annotation._lsbcmm_em import log_stick_weights, variational_em
from bagwise.core.bags import Bags
from bagwise.core.base import BagClassifierMixin, BagEstimator, InstanceAnnotatorMixin, name_bags
from bagwise.core.checks import check_allocation, check_count, check_not_negative, check_positive, check_that, is_count
from bagwise.core.exceptions import InfeasibleBagWarning, InputError
from bagwise.core.fitted import ITERATED, Attribute, Numbers
from bagwise.core.typing import BagsLike, LabelsLike, Seed, WeightsLike
from bagwise.core.validation import distinct_bags
from bagwise.solvers.result import Callback

COMPONENTS_PER_CLASS = 5  # Pham et al.


class LSBCMM(InstanceAnnotatorMixin, BagClassifierMixin, BagEstimator):
    """Every instance carries the label set of its bag as candidates, one of which is its own.

    A component z of K is chosen by breaking a stick (s is the logistic function), and a label y is drawn from it::

        p(z = k | x) = phi_k(x) = s(w_k . x + b_k) prod over j < k of (1 - s(w_j . x + b_j)),     phi_K the rest,
        p(y = l | z = k) = theta_kl,     theta_k ~ Dirichlet(alpha, ..., alpha),     w_k ~ N(0, sigma2 I).

    That a candidate set does not depend on which of its labels is the true one takes the rest out of the likelihood.
    Variational EM with q(z_n, y_n) for every instance and q(theta_k) = Dirichlet(beta_k) raises the lower bound ::

        sum_n log sum_{k, l in Y_n} phi_k(x_n) exp(E log theta_kl)  -  sum_k KL(q(theta_k) || Dirichlet(alpha))
            -  sum_k ||w_k||^2 / (2 sigma2)

    on the log posterior of the sticks. Unlike `ORedLogisticRegression` it does not ask that every label of a bag
    occur in it.

    Parameters
    ----------
    n_components : int or None, default=None
        K. None: five times the number of classes, as in Pham et al.
    alpha : float, default=0.05
        Of the Dirichlet prior; below 1 it makes components that stand for few labels.
    sigma2 : float, default=1.0
        Prior variance of the stick weights (the intercepts are free), so features should be scaled alike
        (``PerInstance(StandardScaler())``).
    max_iter : int, default=200
    tol : float, default=1e-3
        Tolerance of the change of the bound.
    random_state : int, RandomState or None
        Draws the initial responsibilities.
    verbose : int, default=0
        Print the objective after every so many iterations: 1 for all of them, 10 for every tenth, 0 for none.

    Attributes
    ----------
    classes_ : (c,) array
    sticks_ : (K - 1, d + 1) array
        Weights w_k with the intercept last.
    label_counts_ : (K, c) array
        beta, parameters of q(theta).
    objective_history_ : (`n_iter_`,) array
        The bound after every iteration; it never falls.
    n_iter_ : int
    converged_ : bool

    Notes
    -----
    Model and inference follow the original publication: q(z, y) and q(theta) in closed form, the sticks as K - 1
    separate weighted logistic regressions, at their most probable value rather than with a distribution of their
    own, so that no bound on the logistic function is needed. Choices made here: up to three Newton steps for each
    stick an iteration instead of an optimisation to the end (docs/mimlfast-lsb.md); component k starts with label
    k mod c, and every instance is shared at random among the components of its candidates; a component that has lost
    all of its instances is closed, its stick's weights set to zero, where that lowers no bound.

    `predict_instances_proba` is sum_k phi_k(x) beta_kl / sum beta_k,
    `annotate_proba` the same on the bag's labels alone, the score of a bag the largest in it (Pham et al., section
    6.4), and its label set the union of its instances' most probable labels.

    References
    ----------
    L.-P. Liu, T. G. Dietterich (2012): A conditional multinomial mixture model for superset label learning. NIPS,
    548-556.
    Pham, Raich and Fern, Dynamic programming for instance annotation in multi-instance multi-label learning,
    sections 6.1 and 6.4.

    Examples
    --------
    >>> from bagwise.annotation._lsbcmm import LSBCMM
    >>> from bagwise.datasets import make_gaussian_bags
    >>> data = make_gaussian_bags(n_bags=60, random_state=0)
    >>> model = LSBCMM(random_state=0).fit(data.bags, data.Y)
    >>> model.annotate_proba(data.bags, data.Y).shape == (data.bags.n_instances, 5)
    True
    """

    _fitted: ClassVar[dict[str, Attribute]] = {
        "sticks_": Numbers("sticks", "features+1", empty=True),  # one component has no stick
        "label_counts_": Numbers("sticks+1", "classes", low=0), **ITERATED,
    }  # fmt: skip

    def __init__(
        self,
        n_components: int | None = None,
        *,
        alpha: float = 0.05,
        sigma2: float = 1.0,
        max_iter: int = 200,
        tol: float = 1e-3,
        verbose: int = 0,
        random_state: Seed = None,
    ):
        self.n_components = n_components
        self.alpha = alpha
        self.sigma2 = sigma2
        self.max_iter = max_iter
        self.tol = tol
        self.verbose = verbose
        self.random_state = random_state

    # -- fit ----------------------------------------------------------------------------------------------------------

    def fit(
        self,
        X: BagsLike,
        y: LabelsLike | None = None,
        callback: Callback | None = None,
        sample_weight: WeightsLike | None = None,
    ) -> LSBCMM:
        """Learn from bags and their labels.

        Parameters
        ----------
        X : Bags, BagDataset, list of 2-d arrays or frames, 3-d array, 2-d array or frame
        y : (n, c) 0/1 matrix, list or series of label sets, (n,) class values, or BagDataset
            None: the labels of the `BagDataset` that is `X`.
            Bags without labels are left out with a warning: their instances have no candidates.
        callback : callable or None
            Called after every iteration with its number and the bound.
        sample_weight : (n,) array or None
            Weight of each bag: a bag of weight 2 counts as two, one of weight 0 is left out.
        """
        self.check_parameters()
        bags, indicator, weights = self._start_weighted_fit(X, y, sample_weight)
        labelled = indicator.any(axis=1)
        if not labelled.all():
            empty = np.flatnonzero(~labelled)
            warnings.warn(
                f"{len(empty)} of {len(bags)} bags carry no label, {name_bags(empty)}; their instances have no "
                "candidate labels and are left out.",
                InfeasibleBagWarning,
                stacklevel=2,
            )
            bags, indicator = bags[labelled], indicator[labelled]
            weights = None if weights is None else weights[labelled]
        index, weights = distinct_bags(bags, indicator, weights)
        bags, indicator = bags[index], indicator[index]
        mask = np.repeat(indicator, bags.sizes, axis=0).astype(np.float64)
        n_classes = len(self.classes_)
        n_components = COMPONENTS_PER_CLASS * n_classes if self.n_components is None else self.n_components
        check_allocation(
            48 * len(mask) * n_components,
            f"The responsibilities of {n_components} components for {len(mask)} instances",
            "lower n_components",
        )
        seed = check_random_state(self.random_state).randint(2**31 - 1)
        result, self.label_counts_ = variational_em(
            with_intercept(bags),
            mask,
            n_components,
            alpha=self.alpha,
            sigma2=self.sigma2,
            max_iter=self.max_iter,
            tol=self.tol,
            rng=np.random.default_rng(seed),
            callback=self._progress(callback),
            weights=None if weights is None else np.repeat(weights, bags.sizes),
        )
        self.sticks_, self.objective_history_ = result.weights, result.history
        self.n_iter_, self.converged_ = result.n_iter, result.converged
        if not result.converged:
            warnings.warn(
                f"Variational EM stopped after {result.n_iter} iterations, the bound still rising by more than "
                f"tol={self.tol} of its size; raise max_iter or tol, or scale the features.",
                ConvergenceWarning,
                stacklevel=2,
            )
        return self

    def check_parameters(self) -> None:
        """Refuse parameters that no fit can take."""
        check_that(
            self, "n_components", lambda value: value is None or is_count(value), "None or a whole number, 1 or more"
        )
        check_positive(self, "alpha", "sigma2")
        check_count(self, "max_iter")
        check_not_negative(self, "tol")

    # -- predict ------------------------------------------------------------------------------------------------------

    def _scores_and_proba(self, bags: Bags) -> tuple[np.ndarray, np.ndarray]:
        proba = self._instance_scores(bags)
        return proba, proba

    def component_proba(self, X: BagsLike) -> np.ndarray:
        """(m, K) probabilities phi of the components; rows sum to 1."""
        return self._component_proba(self._start_predict(X))

    def _component_proba(self, bags: Bags) -> np.ndarray:
        return np.exp(log_stick_weights(with_intercept(bags) @ self.sticks_.T))

    def _instance_scores(self, bags: Bags) -> np.ndarray:
        return self._component_proba(bags) @ (self.label_counts_ / self.label_counts_.sum(axis=1, keepdims=True))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = False
        tags.bag_tags.probabilities = True
        return tags


def with_intercept(bags: Bags) -> np.ndarray:
    """(m, d + 1) float64 instances, a column of ones last."""
    if sp.issparse(bags.instances):
        raise InputError(
            "LSBCMM does not take sparse features, since each of its sticks needs a dense d x d matrix; reduce them "
            "first, for example with PerInstance(TruncatedSVD(100)), or pass a dense array."
        )
    return np.hstack([bags.instances.astype(np.float64, copy=False), np.ones((bags.n_instances, 1))])
