"""Convex learning from partial labels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

from bagwise.core.bags import Bags
from bagwise.core.base import BagClassifierMixin, BagEstimator, InstanceAnnotatorMixin, name_bags
from bagwise.core.checks import check_count, check_positive
from bagwise.core.exceptions import InfeasibleBagWarning, warn_caller
from bagwise.core.fitted import ITERATED, Attribute, Numbers
from bagwise.core.typing import BagsLike, LabelsLike, WeightsLike
from bagwise.core.validation import distinct_bags
from bagwise.solvers import minimize_lbfgs
from bagwise.solvers.result import Callback, CheckpointLike
from bagwise.union import count_instances


class CLPL(InstanceAnnotatorMixin, BagClassifierMixin, BagEstimator):
    """Linear instance scores, trained as if each instance were given its bag's label set to choose from.

    The bags are taken apart: every instance x comes with its bag's labels Y, one of which is right. The weights
    minimise ::

        1/2 ||W||^2 + C sum over instances of [ max(0, 1 - mean over j in Y of f_j(x))^2
                                               + sum over j not in Y of max(0, 1 + f_j(x))^2 ],   f_j(x) = w_j . x,

    a convex and smooth bound on the instances' unknown 0/1 loss (section 5.1.3 of [1]_, after [2]_).

    Parameters
    ----------
    C : float, default=1000.0
        Weight of the loss. The papers search 10 to 10,000 on features scaled by `bagwise.preprocessing.CLPLScaler`.
    max_iter : int, default=1000
        Most iterations of L-BFGS.
    tol : float, default=1e-6
        Tolerance of the gradient, for instances of norm 1 on average.
    verbose : int, default=0
        Print the objective after every so many iterations: 1 for all of them, 10 for every tenth, 0 for none.

    Attributes
    ----------
    classes_ : (c,) array
    coef_ : (c, d) array
    objective_history_ : (`n_iter_` + 1,) array
        The objective at the start and after every iteration.
    converged_ : bool
    n_iter_ : int

    Notes
    -----
    Bag scores, `decision_function`, are the largest of the instances'; label sets, `predict`, the union of the
    instances' labels. There is no intercept: centre the features. Bags without labels are left out of training.

    References
    ----------
    .. [1] F. Briggs, X. Z. Fern, R. Raich, Q. Lou (2013): Instance annotation for multi-instance multi-label learning.
           ACM Transactions on Knowledge Discovery from Data 7 (3), article 14.
    .. [2] T. Cour, B. Sapp, B. Taskar (2011): Learning from partial labels. Journal of Machine Learning Research 12,
           1225-1261.

    Examples
    --------
    >>> from bagwise import make_pipeline
    >>> from bagwise.annotation import CLPL
    >>> from bagwise.datasets import make_gaussian_bags
    >>> from bagwise.preprocessing import CLPLScaler, PerInstance
    >>> data = make_gaussian_bags(n_bags=60, random_state=0)
    >>> model = make_pipeline(PerInstance(CLPLScaler()), CLPL()).fit(data.bags, data.Y)
    >>> model.annotate(data.bags, data.Y).shape == (data.bags.n_instances,)
    True
    """

    def __init__(self, C: float = 1000.0, *, max_iter: int = 1000, tol: float = 1e-6, verbose: int = 0):
        self.C = C
        self.max_iter = max_iter
        self.tol = tol
        self.verbose = verbose

    def fit(
        self,
        X: BagsLike,
        y: LabelsLike | None = None,
        callback: Callback | None = None,
        checkpoint: CheckpointLike | None = None,
        sample_weight: WeightsLike | None = None,
    ) -> CLPL:
        """Learn from bags and their labels.

        Parameters
        ----------
        X : Bags, BagDataset, list of 2-d arrays or frames, 3-d array, 2-d array or frame
        y : (n, c) 0/1 matrix, list or series of label sets, (n,) class values, or BagDataset
            None: the labels of the `BagDataset` that is `X`.
        callback : callable or None
            Called after every iteration with its number and the objective.
        checkpoint : Checkpoint or None
            Keeps the state of the fit (`bagwise.io.checkpoint`); a fit that was interrupted goes on from it.
        sample_weight : (n,) array or None
            Weight of each bag: a bag of weight 2 counts as two, one of weight 0 is left out.
        """
        self.check_parameters()
        bags, indicator, weights = self._start_weighted_fit(X, y, sample_weight)
        labelled = bags_with_labels(indicator)
        if not labelled.all():
            bags, indicator = bags[labelled], indicator[labelled]
            weights = None if weights is None else weights[labelled]
        index, weights = distinct_bags(bags, indicator, weights)
        bags, indicator = bags[index], indicator[index]
        instances, candidates = bags.instances, np.repeat(indicator, bags.sizes, axis=0)
        rows = None if weights is None else np.repeat(weights, bags.sizes)
        n_instances = count_instances(bags.offsets, weights)
        size = norm_of(*largest_and_squares(instances, rows), n_instances)
        return self.learn(SummedLoss(instances / size, candidates, rows), n_instances, size, callback, checkpoint)

    def learn(
        self,
        loss: Callable[[np.ndarray], tuple[float, np.ndarray]],
        n_instances: float,
        size: float,
        callback: Callback | None,
        checkpoint: CheckpointLike | None,
    ) -> CLPL:
        """The fit, wherever the instances are: `loss` is summed over those divided by `size`, their norm on average.

        W X^T = (s W) (X / s)^T: with instances of norm 1 on average one tolerance does for any scale of the features.
        """
        callback = self._progress(callback)
        unit = self.C * n_instances
        penalty = min(1.0 / unit / size / size, 1e100)  # features of 1e-200 would make it infinite

        def objective(weights: np.ndarray) -> tuple[float, np.ndarray]:
            value, gradient = loss(weights)
            value = value / n_instances + 0.5 * penalty * float(np.vdot(weights, weights))
            return value, gradient / n_instances + penalty * weights

        result = minimize_lbfgs(
            objective if checkpoint is None else checkpoint.remember(objective),
            np.zeros((len(self.classes_), self.n_features_in_)),
            max_iter=self.max_iter,
            tol=self.tol,
            callback=None if callback is None else (lambda i, value: callback(i, unit * value)),
        )
        if not result.converged:
            warn_caller(
                f"L-BFGS stopped after {result.n_iter} iterations before its gradient fell below tol={self.tol}; raise "
                "max_iter, scale the features (PerInstance(CLPLScaler())) or lower C.",
                ConvergenceWarning,
            )
        self.coef_ = result.weights / size
        self.objective_history_ = unit * result.history
        self.n_iter_ = max(result.n_iter, 1)
        self.converged_ = result.converged
        return self

    _fitted: ClassVar[dict[str, Attribute]] = {"coef_": Numbers("classes", "features"), **ITERATED}

    def check_parameters(self) -> None:
        """Refuse parameters that no fit can take."""
        check_positive(self, "C", "tol")
        check_count(self, "max_iter")

    def _instance_scores(self, bags: Bags) -> np.ndarray:
        return np.asarray(bags.instances @ self.coef_.T, dtype=np.float64)


def _ambiguous_loss(
    scores: np.ndarray, candidates: np.ndarray, weights: np.ndarray | None = None
) -> tuple[float, np.ndarray]:
    """Summed squared-hinge ambiguous loss of instances, and its derivative with respect to their scores.

    Parameters
    ----------
    scores : (m, c) array
    candidates : (m, c) array of 0 and 1
        The labels that each instance may have, at least one.
    weights : (m,) array or None
        How often each instance counts.

    Returns
    -------
    float and (m, c) array
    """
    listed = candidates == 1
    n_listed = listed.sum(axis=1)
    short = np.maximum(1.0 - np.where(listed, scores, 0.0).sum(axis=1) / n_listed, 0.0)
    excess = np.where(listed, 0.0, np.maximum(1.0 + scores, 0.0))
    derivative = np.where(listed, (-2.0 * short / n_listed)[:, None], 2.0 * excess)
    if weights is None:
        return float(short @ short + np.vdot(excess, excess)), derivative
    value = weights @ (short**2 + np.einsum("ic,ic->i", excess, excess))
    return float(value), derivative * weights[:, None]


class SummedLoss:
    """`_ambiguous_loss` of linear scores of instances, summed, and its gradient in the (c, d) weights."""

    def __init__(self, X: Any, candidates: np.ndarray, weights: np.ndarray | None = None):
        self.X, self.candidates, self.weights = X, candidates, weights

    def __call__(self, weights: np.ndarray) -> tuple[float, np.ndarray]:
        value, derivative = _ambiguous_loss(np.asarray(self.X @ weights.T), self.candidates, self.weights)
        return value, np.asarray(self.X.T @ derivative).T


def bags_with_labels(indicator: np.ndarray) -> np.ndarray:
    """(n,) which bags can be learned from; a warning names the others."""
    labelled: np.ndarray = np.asarray(indicator.any(axis=1))
    if not labelled.all():
        warn_caller(
            f"{(~labelled).sum()} of {len(indicator)} bags carry no label, {name_bags(np.flatnonzero(~labelled))}; "
            "CLPL cannot learn from them and leaves them out.",
            InfeasibleBagWarning,
        )
    return labelled


def largest_and_squares(X: Any, weights: np.ndarray | None = None) -> tuple[float, float]:
    """The largest absolute feature, and the summed squares of all relative to it (those of 1e200 are no numbers).

    `weights` (m,) say how often the squares of an instance count.
    """
    values = X.data if sp.issparse(X) else X
    largest = float(np.abs(values).max(initial=0.0))
    if largest == 0.0:
        return 0.0, 0.0
    squares = np.square(values / largest, dtype=np.float64)
    if weights is None:
        return largest, float(np.sum(squares))
    if sp.issparse(X):
        return largest, float(np.repeat(weights, np.diff(X.indptr)) @ squares)
    return largest, float(weights @ squares.sum(axis=1))


def norm_of(largest: float, squares: float, n_instances: float) -> float:
    """Root mean square norm of the instances; 1 where all are zero."""
    return largest * float(np.sqrt(squares / n_instances)) if largest > 0.0 else 1.0
