"""Support instance machines."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import ClassVar

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.extmath import row_norms

from bagwise.core.bags import Bags
from bagwise.core.base import BagClassifierMixin, BagEstimator, InstanceAnnotatorMixin, name_bags
from bagwise.core.checks import check_choice, check_count, check_positive
from bagwise.core.exceptions import InfeasibleBagWarning, InputError
from bagwise.core.fitted import ITERATED, Attribute, Choice, Numbers
from bagwise.core.typing import BagsLike, LabelsLike, WeightsLike
from bagwise.core.validation import distinct_bags
from bagwise.solvers.aggregation import AGGREGATIONS
from bagwise.solvers.losses import LOSSES
from bagwise.solvers.result import Callback, CheckpointLike, SolveResult
from bagwise.solvers.subgradient import BagProblem, HingeProblem, cccp, heuristic

SOLVERS: dict[str, Callable[..., SolveResult]] = {"heuristic": heuristic, "cccp": cccp}
LONGEST_STEP = 1e150  # a sub-gradient over alpha, whose square still is a number
CHOICES = {
    "loss": tuple(LOSSES),
    "aggregation": tuple(AGGREGATIONS),
    "solver": tuple(SOLVERS),
    "restart": ("best", "last"),
    "on_undefined": ("drop", "error"),
}


class SupportInstanceMachine(InstanceAnnotatorMixin, BagClassifierMixin, BagEstimator):
    """Linear instance scores, trained so that the bags' labels outrank (or out-score) all other classes.

    Every class j scores an instance with f_j(x) = w_j . x; an aggregation turns the scores of the instances of bag i
    into the bag's score F_ij; the weights minimise ::

        h(W) = alpha / 2 ||W||^2 + loss(F, Y),

    where loss is one of ::

        rank     sum over i, j in Y_i, k not in Y_i of max(0, 1 - (F_ij - F_ik)) / (n |Y_i| (c - |Y_i|))
        hamming  sum over i, j of max(0, 1 - Y_ij F_ij) / (n c), Y_ij = 1 or -1.

    Every aggregation can be written F_ij = w_j . x_ij with a "support instance" x_ij of each bag and class. The
    solvers alternate between finding support instances and descending on the convex problem that is left. With
    `sample_weight` the mean over bags, 1 / n in the losses, is a weighted one.

    Parameters
    ----------
    loss : {"rank", "hamming"}, default="rank"
        Equation 5 or 30.
    aggregation : {"softmax", "max", "mean"}, default="softmax"
        Equation 8, 6, or the plain mean, which needs no alternation.
    solver : {"heuristic", "cccp"}, default="heuristic"
        "heuristic" is Algorithm 4: exactly `n_phases` phases of `n_steps` steps; the objective may rise. "cccp" is
        Algorithm 5, for aggregation="max": the objective never rises, and where `max_steps` steps cannot lower it the
        solver stops.
    alpha : float, default=1e-7
        Weight of the regulariser, lambda in the papers. What is a good value depends on the scale of the features; the
        default suits `bagwise.preprocessing.CLPLScaler`.
    n_phases : int, default=10
        Most rounds of new support instances, T in the paper.
    n_steps : int, default=100
        Steps of projected sub-gradient descent a phase, K in the paper.
    max_steps : int, default=1000
        Most steps a phase of solver="cccp", K_max in the paper.
    restart : {"best", "last"}, default="best"
        Go on from the phase's best weights (2013), or from its last (2012); solver="heuristic" only.
    on_undefined : {"drop", "error"}, default="drop"
        What to do with bags that carry no label or all of them, for which the rank loss is not defined: leave them out
        of training with a warning that names them, or raise an error.
    verbose : int, default=0
        Print the objective after every so many phases: 1 for all of them, 10 for every tenth, 0 for none.

    Attributes
    ----------
    classes_ : (c,) array
    coef_ : (c, d) array
    objective_history_ : (`n_iter_`,) array
        h(W) with the support instances that belong to W (equation 11), after every phase.
    n_iter_ : int
        Phases run.
    converged_ : bool
        With solver="cccp", whether the last phase found nothing lower; the heuristic runs all of its phases.
    aggregation_ : str
        The aggregation that the weights were learned with.

    Notes
    -----
    Bag scores, `decision_function`, are F_ij with the model's own aggregation: the maximum over the instances for
    "max". Label sets, `predict`, are the union of the instances' labels. There is no intercept: centre the features.

    References
    ----------
    .. [1] F. Briggs, X. Z. Fern, R. Raich, Q. Lou (2013): Instance annotation for multi-instance multi-label learning.
           ACM Transactions on Knowledge Discovery from Data 7 (3), article 14.
    .. [2] F. Briggs, X. Z. Fern, R. Raich (2012): Rank-loss support instance machines for MIML instance annotation.
           KDD, 534-542.

    Examples
    --------
    >>> from bagwise import SupportInstanceMachine, make_pipeline
    >>> from bagwise.datasets import make_gaussian_bags
    >>> from bagwise.preprocessing import CLPLScaler, PerInstance
    >>> data = make_gaussian_bags(n_bags=60, random_state=0)
    >>> model = make_pipeline(PerInstance(CLPLScaler()), SupportInstanceMachine(alpha=1e-6))
    >>> model.fit(data.bags, data.Y).annotate(data.bags, data.Y).shape == (data.bags.n_instances,)
    True
    """

    _kept_parameters = ("aggregation",)
    _fitted: ClassVar[dict[str, Attribute]] = {
        "coef_": Numbers("classes", "features"), "aggregation_": Choice(*AGGREGATIONS), **ITERATED,
    }  # fmt: skip

    def __init__(
        self,
        loss: str = "rank",
        aggregation: str = "softmax",
        solver: str = "heuristic",
        alpha: float = 1e-7,
        n_phases: int = 10,
        n_steps: int = 100,
        max_steps: int = 1000,
        *,
        restart: str = "best",
        on_undefined: str = "drop",
        verbose: int = 0,
    ):
        self.loss = loss
        self.aggregation = aggregation
        self.solver = solver
        self.alpha = alpha
        self.n_phases = n_phases
        self.n_steps = n_steps
        self.max_steps = max_steps
        self.restart = restart
        self.on_undefined = on_undefined
        self.verbose = verbose

    def fit(
        self,
        X: BagsLike,
        y: LabelsLike | None = None,
        callback: Callback | None = None,
        checkpoint: CheckpointLike | None = None,
        sample_weight: WeightsLike | None = None,
    ) -> SupportInstanceMachine:
        """Learn from bags and their labels.

        Parameters
        ----------
        X : Bags, BagDataset, list of 2-d arrays or frames, 3-d array, 2-d array or frame
        y : (n, c) 0/1 matrix, list or series of label sets, (n,) class values, or BagDataset
            None: the labels of the `BagDataset` that is `X`.
        callback : callable or None
            Called after every phase with its number and the objective.
        checkpoint : Checkpoint or None
            Keeps the state of the fit (`bagwise.io.checkpoint`); a fit that was interrupted goes on from it.
        sample_weight : (n,) array or None
            Weight of each bag: a bag of weight 2 counts as two, one of weight 0 is left out.
        """
        self.check_parameters()
        bags, indicator, weights = self._start_weighted_fit(X, y, sample_weight)
        keep = self.defined_bags(indicator)
        if not keep.all():
            bags, indicator = bags[keep], indicator[keep]
            weights = None if weights is None else weights[keep]
        index, weights = distinct_bags(bags, indicator, weights)
        bags, indicator = bags[index], indicator[index]
        problem = BagProblem.build(bags, indicator, LOSSES[self.loss], float(self.alpha), weights)
        largest = float(abs(bags.instances).max())
        return self.learn(
            problem, largest, lambda: float(row_norms(bags.instances, squared=True).max()), callback, checkpoint
        )

    def learn(
        self,
        problem: HingeProblem,
        largest: float,
        longest: Callable[[], float],
        callback: Callback | None,
        checkpoint: CheckpointLike | None,
    ) -> SupportInstanceMachine:
        """The fit, wherever the instances are: of them the largest feature and the longest squared norm are given."""
        self._check_size(largest)
        if self.aggregation == "mean":
            problem = problem.first_phase()[0]  # linear: the mean of the scores is the score of the mean
        own = {"restart": self.restart} if self.solver == "heuristic" else {"max_steps": self.max_steps}
        result = SOLVERS[self.solver](
            problem,
            AGGREGATIONS[self.aggregation],
            n_phases=self.n_phases,
            n_steps=self.n_steps,
            callback=self._progress(callback),
            checkpoint=checkpoint,
            **own,
        )
        if result.objective > 1.0 - 1e-9:
            self._warn_of_no_gain(longest(), result.objective)
        self.coef_ = result.weights
        self.objective_history_ = result.history
        self.n_iter_ = result.n_iter
        self.converged_ = result.converged
        self._keep_parameters()
        return self

    def defined_bags(self, indicator: np.ndarray) -> np.ndarray:
        """(n,) mask of the bags whose loss is defined, with a warning about the others."""
        keep = LOSSES[self.loss].is_defined(indicator)
        if keep.all():
            return keep
        undefined = np.flatnonzero(~keep)
        message = (
            f"{len(undefined)} of {len(indicator)} bags carry no label or every one of the {len(self.classes_)} "
            f"class(es), {name_bags(undefined)}, so that the rank loss is not defined for them."
        )
        if not keep.any() or self.on_undefined == "error":
            raise InputError(f"{message} Leave them out, or use loss='hamming'.")
        warnings.warn(
            f"{message} They are left out; pass on_undefined='error' to stop instead, or use loss='hamming'.",
            InfeasibleBagWarning,
            stacklevel=3,
        )
        return keep

    def _warn_of_no_gain(self, longest: float, objective: float) -> None:
        # the weights are a mean of sub-gradients over alpha, each at most 2 R long (Appendix 1): scores stay below this
        farthest = 2.0 * longest / self.alpha
        wrong, cure = ("too large", "Lower") if farthest < 0.5 else ("too small", "Raise")
        reason = (
            f"alpha={self.alpha} is {wrong} for features of this scale. {cure} alpha, or scale the features with "
            "PerInstance(CLPLScaler())."
        )
        if farthest == 0.0:
            reason = "all features are zero. Check how they were made."
        warnings.warn(
            f"The objective ended at {objective:.3g}, no lower than the 1 of zero weights: {reason}",
            ConvergenceWarning,
            stacklevel=4,
        )

    def _check_size(self, largest: float) -> None:
        if not largest / self.alpha < LONGEST_STEP:
            raise InputError(
                f"Features as large as {largest:.3g} make steps overflow with alpha={self.alpha}; scale them, for "
                "example with PerInstance(CLPLScaler())."
            )

    def check_parameters(self) -> None:
        """Refuse parameters that no fit can take."""
        for name, allowed in CHOICES.items():
            check_choice(name, getattr(self, name), allowed)
        check_positive(self, "alpha")
        check_count(self, "n_phases", "n_steps", "max_steps")
        if self.solver == "cccp":
            self._check_cccp()

    def _check_cccp(self) -> None:
        if self.aggregation == "softmax":
            raise InputError(
                "aggregation='softmax' is not convex, so solver='cccp' cannot be used; use solver='heuristic', or "
                "aggregation='max'."
            )
        if self.aggregation == "mean":
            raise InputError(
                "aggregation='mean' is linear, so the objective is convex as it is and solver='cccp' has nothing to "
                "do; use solver='heuristic', or aggregation='max'."
            )
        if self.restart != "best":
            raise InputError(
                f"solver='cccp' has to keep the best weights, so restart={self.restart!r} cannot be used; use "
                "restart='best', or solver='heuristic'."
            )

    def _instance_scores(self, bags: Bags) -> np.ndarray:
        return np.ascontiguousarray(bags.instances @ self.coef_.T, dtype=np.float64)

    def _bag_scores(self, bags: Bags) -> np.ndarray:
        """Aggregated instance scores."""
        return AGGREGATIONS[self.aggregation_](self._instance_scores(bags), bags.offsets)[0]
