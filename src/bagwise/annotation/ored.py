"""ORed logistic regression with exact union inference."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from bagwise.annotation.objective import (
    Block,
    ORedObjective,
    PenalizedLikelihood,
    affine_scores,
    climb,
    own_labels_pay,
    own_places,
)
from bagwise.annotation.rates import RateParameters, keep_if_useful, plain_rate
from bagwise.annotation.union_annotator import (
    AUTO,
    NOISE_AND_BACKGROUND,
    UnionAnnotator,
    background_label,
    has_background,
    shift_of_mass,
)
from bagwise.core.backends import OBJECTIVES
from bagwise.core.bags import Bags, known_labels
from bagwise.core.checks import check_allocation, check_choice, check_not_negative, check_that, is_count
from bagwise.core.exceptions import InputError, warn_caller
from bagwise.core.fitted import ITERATED, Attribute, Choice, Maybe, Number, Numbers
from bagwise.core.typing import BagsLike, LabelsLike, RateLike, Seed, WeightsLike
from bagwise.core.validation import validate_weights
from bagwise.preprocessing import LinearHead
from bagwise.solvers import SolveResult, generalized_em
from bagwise.solvers.result import Callback, CheckpointLike
from bagwise.union import (
    METHODS,
    LabelledBags,
    LabelNoise,
    UnionModel,
    UnionProblem,
    select_bags,
    warn_approximation,
)

ITERATIONS = {"lbfgs": 500, "em": 50}  # 50: the paper's stopping rule
TOLERANCES = {"lbfgs": 1e-4, "em": 1e-8}
BACKGROUND = object()  # beside the classes, which may be any value
LikelihoodOf = Callable[..., PenalizedLikelihood]
"""Of `LabelledBags` and, by keyword, a scale."""
ON_INFEASIBLE = ("drop", "error", "relax")


class ORedLogisticRegression(UnionAnnotator):
    """Multinomial logistic regression for instances, trained on bag labels that are the union of instance labels.

    p(y_i = c | x_i) is a softmax of affine scores; a bag's label set is the union of its instances' labels. The
    marginal likelihood of the label sets, ::

        L(W) = sum_b log sum over {y : union(y) = Y_b} prod_i p(y_i | x_i, W)  -  l2 / 2 ||W||^2,

    is computed exactly (`bagwise.union.union_posterior`) and maximised. With `missed` and `spurious` the listed
    labels may be wrong, as in that function; what is truly in a bag, listed or not, `label_posterior` says.

    Parameters
    ----------
    l2 : float, default=1.0
        Strength of the penalty on the weights (not on the intercepts). The paper uses 0 and stops early.
    solver : {"lbfgs", "em"}, default="lbfgs"
        "lbfgs" climbs L itself, whose gradient is X^T (posterior - prior); "em" is the paper's generalised EM, one
        backtracked gradient step after each E-step.
    max_iter : int or None
        Most iterations; by default 500 for "lbfgs" and the paper's 50 for "em".
    tol : float or None
        With "lbfgs" a tolerance of the gradient, by default 1e-4; with "em" one of the change of L, by default 1e-8
        (0: run all iterations; with batch_fraction < 1, where every iteration sees other bags, all are run).
    inference : str, default="auto"
        Method of `union_posterior`.
    background : bool or "auto", default="auto"
        Add a class that any bag may hold without listing it: noise, clutter, what nobody labelled. Bags with no
        label become ordinary: all of their instances are background. "auto": where there are such bags (with a
        warning), or an instance is known to be background. False leaves bags without labels out.
    background_share : float or None, default=None
        Expected share of background among the training instances that are in a bag with labels and not known. The
        likelihood alone overrates the background, which is allowed in every bag; given a share, the background's
        intercept is moved after the fit until its mean posterior probability is that share. The other weights, and so
        the ranking of instances, stay the likelihood's: a constraint inside the fit was measured to cost accuracy
        (docs/ored.md). An infeasible share is reported (`BackgroundShareWarning`) and moves nothing.
    own_features : (c,) list of int or None, default=None
        For each class, in the order of ``classes_``, the number of a feature that speaks for it alone, such as the
        score that another model gives that class, or -1. One weight that all these classes share is learned first,
        from few bags where need be; penalised is then how far their weights are from it, not from zero. Needs
        solver="lbfgs".
    prune : float, default=0.0
        Share of the bags, those with the largest ``n |Y| 2^|Y|``, to leave out of training (section 6.6.1).
    batch_fraction : float, default=1.0
        Share of the bags drawn for each EM iteration (section 6.6.2); needs solver="em".
    max_exact_labels : int, default=16
        Bags with more labels are inferred by belief propagation, with an `ApproximationWarning` where its estimated
        error matters.
    on_infeasible : {"drop", "error", "relax"}, default="drop"
        What to do with a bag that has more labels than instances (or none, without background): leave it out with a
        warning that names it, raise an error, or only require that its instances carry labels of the set (as if their
        spurious rate were 1). With spurious > 0 there is no such bag.
    missed : float, (c,) array or "learn", default=0.0
        Rate at which an instance goes unnoticed by who lists the labels: a number in [0, 1) for all classes, an array
        of one a class, or "learn" for one number that is learned with the weights (solver="lbfgs"), as a logit under a
        weak prior, Beta(2, 10). It is a rate of instances, not of labels: a label is missed when all of its
        instances are. A learned rate is kept only if it ranks the labels of held-out bags (three folds) better than
        none; else ``missed_`` is 0. That takes about four times as long as the fit alone.
    spurious : float, (c,) array or "learn", default=0.0
        Rate at which a label is listed though nothing noticed carries it.
    verbose : int, default=0
        Print the objective after every so many iterations: 1 for all of them, 10 for every tenth, 0 for none.
    warm_start : bool, default=False
        Start from the weights of the last fit: each class that was there from its own, a new one from zero, the
        background from the background. With another number of features all start from zero.
    n_jobs : int or None
        Most threads of the inference; None: the processors at hand, where there is work for them.
    device : {None, "cpu", "cuda"}, default=None
        Where L-BFGS evaluates the likelihood: None, by compiled code on this machine; else by torch (extra "torch") on
        that device, to which the instances are moved once (bags of which more is said than a list stay here). The
        fitted model is the same: its weights are arrays, it is saved, loaded and asked without torch.
    random_state : int, RandomState or None
        Draws the bags of each iteration where batch_fraction < 1.

    Attributes
    ----------
    classes_ : (c,) array
    coef_, intercept_ : (c, d) and (c,) arrays
    background_ : bool
        Whether there is a background.
    background_coef_, background_intercept_ : (d,) and () arrays, with a background
    background_shift_ : float, with a background
        By how much the intercept was moved after the fit (see `background_share`); a warm start begins without it.
    background_label_ : -1 for integer classes, else None
        What `annotate` gives in a bag without labels.
    objective_history_ : (`n_iter_` + 1,) array
        L(W) at the start and after every iteration, with the log-prior of learned rates; with batch_fraction < 1 an
        estimate from the bags drawn. Also called ``log_likelihood_history_``.
    missed_, spurious_ : float, or (c,) array where an array was given
        The rates that the model was fitted with.
    n_iter_ : int
    converged_ : bool

    References
    ----------
    Pham, Raich and Fern, Dynamic programming for instance annotation in multi-instance multi-label learning;
    equations 1 to 5 (model), 10 and 22 (EM), 26 to 28 (prediction).

    Examples
    --------
    >>> from bagwise import ORedLogisticRegression
    >>> from bagwise.datasets import make_gaussian_bags
    >>> data = make_gaussian_bags(n_bags=60, random_state=0)
    >>> model = ORedLogisticRegression().fit(data.bags, data.Y)
    >>> model.annotate(data.bags, data.Y).shape == (data.bags.n_instances,)
    True
    """

    __metadata_request__fit: ClassVar[dict[str, bool]] = {"instance_labels": False}  # routing sends them to scorers
    _gives_scores = True
    _fitted: ClassVar[dict[str, Attribute]] = {
        "coef_": Numbers("classes", "features"), "intercept_": Numbers("classes"), **ITERATED,
        "background_coef_": Maybe(Numbers("features")), "background_intercept_": Maybe(Number()),
        "inference": Choice(*METHODS), "max_exact_labels": Number(1, 30, whole=True), **NOISE_AND_BACKGROUND,
    }  # fmt: skip

    def _check_fitted(self) -> None:
        super()._check_fitted()
        has = [hasattr(self, name) for name in ("background_coef_", "background_intercept_", "background_shift_")]
        if any(has) != all(has) or (self.background is True and not any(has)):
            raise InputError("ORedLogisticRegression has a background but no weights for it; fit it again")

    def __init__(
        self,
        l2: float = 1.0,
        *,
        solver: str = "lbfgs",
        max_iter: int | None = None,
        tol: float | None = None,
        inference: str = "auto",
        background: bool | str = AUTO,
        background_share: float | None = None,
        own_features: Sequence[int] | None = None,
        prune: float = 0.0,
        batch_fraction: float = 1.0,
        max_exact_labels: int = 16,
        on_infeasible: str = "drop",
        missed: RateLike = 0.0,
        spurious: RateLike = 0.0,
        verbose: int = 0,
        warm_start: bool = False,
        n_jobs: int | None = None,
        device: str | None = None,
        random_state: Seed = None,
    ):
        self.l2 = l2
        self.solver = solver
        self.max_iter = max_iter
        self.tol = tol
        self.inference = inference
        self.background = background
        self.background_share = background_share
        self.own_features = own_features
        self.prune = prune
        self.batch_fraction = batch_fraction
        self.max_exact_labels = max_exact_labels
        self.on_infeasible = on_infeasible
        self.missed = missed
        self.spurious = spurious
        self.verbose = verbose
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.device = device
        self.random_state = random_state

    # -- fit ----------------------------------------------------------------------------------------------------------

    def fit(
        self,
        X: BagsLike,
        y: LabelsLike | None = None,
        instance_labels: Bags | None = None,
        callback: Callback | None = None,
        checkpoint: CheckpointLike | None = None,
        sample_weight: WeightsLike | None = None,
    ) -> ORedLogisticRegression:
        """Learn from bags and their labels.

        Parameters
        ----------
        X : Bags, BagDataset, list of 2-d arrays or frames, 3-d array, 2-d array or frame
        y : (n, c) matrix, list or series of label sets, (n,) class values, or BagDataset
            Beyond plain lists of 0 and 1 a matrix may hold confidences, NaN (not known), inf and -inf (certainly there,
            certainly not), and label sets `Certain`, `Possible`, `Absent` and `OneOf` (docs/evidence.md). None: the
            labels of the `BagDataset` that is `X`.
        instance_labels : Bags of int or None
            Index into ``classes_`` of the instances whose label is known, -1 elsewhere: mixed granularity. With a
            background, -2 (`bagwise.core.bags.KNOWN_BACKGROUND`) says that an instance is known to be of no class.
        callback : callable or None
            Called after every iteration with its number and the objective.
        checkpoint : Checkpoint or None
            Keeps the state of the fit (`bagwise.io.checkpoint`); a fit that was interrupted goes on from it.
        sample_weight : (n,) array or None
            Weight of each bag: a bag of weight 2 counts as two, one of weight 0 is left out.
        """
        self.check_parameters()
        last = self.last_fit()
        bags, indicator = self._start_fit(X, y)
        known = known_labels(instance_labels, bags.offsets, len(self.classes_), background=bool(self.background))
        weights = validate_weights(sample_weight, len(bags))
        if weights is not None and self.device is not None:
            raise InputError(
                f"device={self.device!r} takes no sample_weight; fit with device=None, or without weights."
            )
        self.learn(
            LabelledBags.of(bags.offsets, indicator, known, weights), partial(self._likelihood, bags),
            lambda: (bags, indicator, instance_labels, weights), last, callback, checkpoint,
        )  # fmt: skip
        return self

    def last_fit(self) -> tuple[dict[Any, np.ndarray], dict[str, Any]]:
        """Weights by class and rates to start from; nothing unless a fit goes on from the last one."""
        if not (self.warm_start and hasattr(self, "coef_")):
            return {}, {}
        return _weights_by_class(self), {"missed": self.missed_, "spurious": self.spurious_}

    def learn(
        self,
        labelled: LabelledBags,
        likelihood_of: LikelihoodOf,
        sample: Callable[[], tuple[Bags, np.ndarray, Bags | None, np.ndarray | None]],
        last: tuple[dict[Any, np.ndarray], dict[str, Any]],
        callback: Callback | None,
        checkpoint: CheckpointLike | None,
    ) -> None:
        """The fit, wherever the instances are: `likelihood_of` bags that are learned from knows them.

        `sample` gives bags in memory, with labels, known instances and weights, on which rates are judged: all or some.

        ``classes_``, ``single_label_`` and ``n_features_in_`` are set; `last` is what `last_fit` gave before that.
        """
        callback = self._progress(callback)
        parameters = RateParameters.of(self.missed, self.spurious, len(self.classes_))
        self.background_ = has_background(self, labelled, parameters.may_miss)
        if "missed" in parameters.learned:
            parameters = keep_if_useful(parameters, self, *sample())
        parameters = replace(parameters, background=self.background_)
        labelled = select_bags(
            labelled, background=self.background_, on_infeasible=self.on_infeasible, prune=self.prune,
            rates=parameters.possible,
        )  # fmt: skip
        self.background_label_ = background_label(self.classes_)
        problem = UnionProblem.build(labelled.offsets, labelled.indicator)
        problem.check_memory(self.max_exact_labels)
        weights = _start_weights(last[0], self.classes_, self.background_, self.n_features_in_)
        self.missed_, self.spurious_ = (plain_rate(value) for value in (self.missed, self.spurious))
        likelihood = likelihood_of(labelled)
        if self.solver == "em":
            result = self._solve_by_em(likelihood, labelled, likelihood_of, weights, callback, checkpoint)
        else:
            result, learned = climb(
                likelihood, weights, parameters, last[1],
                max_iter=self._max_iter(), tol=self._tol(), callback=callback, checkpoint=checkpoint,
                own=own_places(self.own_features, len(self.classes_), self.n_features_in_),
            )  # fmt: skip
            for name, value in learned.items():
                setattr(self, f"{name}_", value)
        self._set_weights(result.weights)
        if self.background_ and self.background_share is not None:
            self._move_background(likelihood)
        if np.any(problem.n_labels > self.max_exact_labels):
            warn_approximation(problem, self.max_exact_labels, likelihood.errors(self._weights()))
        self.n_iter_ = max(result.n_iter, 1)
        self.objective_history_, self.converged_ = result.history, result.converged
        if self.solver == "lbfgs" and not result.converged:
            warn_caller(
                f"L-BFGS stopped after {result.n_iter} iterations before its gradient fell below tol={self._tol()}; "
                "raise max_iter, scale the features (PerInstance(StandardScaler())) or raise l2.",
                ConvergenceWarning,
            )

    def _solve_by_em(
        self,
        likelihood: PenalizedLikelihood,
        labelled: LabelledBags,
        likelihood_of: LikelihoodOf,
        weights: np.ndarray,
        callback: Callback | None,
        checkpoint: CheckpointLike | None,
    ) -> SolveResult:
        expectation = likelihood.expectation
        if self.batch_fraction < 1.0:
            kept = None if checkpoint is None else checkpoint.load()
            n_drawn = 0 if kept is None else len(kept["history"]) - 1
            expectation = self._sampled_expectation(labelled, likelihood_of, n_drawn)
        return generalized_em(
            expectation,
            weights,
            max_iter=self._max_iter(),
            tol=self._tol() if self.batch_fraction == 1.0 else 0.0,
            first_step=1.0 / likelihood.n_instances,
            callback=callback,
            checkpoint=checkpoint,
        )

    def _sampled_expectation(self, labelled: LabelledBags, likelihood_of: LikelihoodOf, n_drawn: int) -> Any:
        """An E-step on a fresh sample of the bags at each call, scaled up to all; `n_drawn` were drawn before."""
        rng = check_random_state(self.random_state)
        size = max(1, round(self.batch_fraction * len(labelled)))
        for _ in range(n_drawn):  # a fit that goes on draws what it would have drawn
            rng.choice(len(labelled), size, replace=False)

        def expectation(weights: np.ndarray) -> Any:
            sample = labelled[rng.choice(len(labelled), size, replace=False)]
            return likelihood_of(sample, scale=len(labelled) / size).expectation(weights)

        return expectation

    def _move_background(self, likelihood: PenalizedLikelihood) -> None:
        """Shift the background's intercept until its mean posterior over the instances that count is the share."""
        mass = likelihood.background_mass(self._weights())
        self.background_shift_ = shift_of_mass(mass, float(self.background_share or 0.0))
        self.background_intercept_ += self.background_shift_

    def _likelihood(self, bags: Bags, labelled: LabelledBags, scale: float = 1.0) -> PenalizedLikelihood:
        """What is climbed, of the bags that are learned from, all `bags` being in memory: here, or on the device."""
        chosen = bags if np.array_equal(labelled.index, np.arange(len(bags))) else bags[labelled.index]
        problem = self._fit_model().problem(chosen.offsets, labelled.indicator, labelled.known, labelled.relaxed)
        options = self.objective_options()
        if self.device is None:
            return ORedObjective(chosen.instances, problem, scale=scale, weights=labelled.weights, **options)
        return OBJECTIVES["ORedLogisticRegression"](
            chosen.instances, problem, len(self.classes_) + self.background_, device=self.device, l2=self.l2,
            max_exact_labels=self.max_exact_labels, rates=options["rates"],
        )  # fmt: skip

    def objective_options(self) -> dict[str, Any]:
        """Of an `ORedObjective`, whichever bags it is of."""
        return {
            "l2": self.l2, "method": self.inference, "max_exact_labels": self.max_exact_labels, "n_jobs": self.n_jobs,
            "rates": self._fit_model().noise,
        }  # fmt: skip

    def _fit_model(self) -> UnionModel:
        """The model of a fit that has begun: rates that are to be learned are zero yet."""
        n_classes, background = len(self.classes_), self.background_
        noise = LabelNoise.of(self.missed_, self.spurious_, n_classes, background)
        return UnionModel(n_classes, background, noise, self.inference, self.max_exact_labels, self.n_jobs)

    def check_parameters(self) -> None:
        """Refuse parameters that no fit can take."""
        check_choice("solver", self.solver, ITERATIONS)
        check_choice("inference", self.inference, METHODS)
        check_choice("on_infeasible", self.on_infeasible, ON_INFEASIBLE)
        check_not_negative(self, "l2", *(() if self.tol is None else ("tol",)))
        check_that(
            self, "max_iter", lambda value: value is None or is_count(value), "None or a whole number, 1 or more"
        )
        check_that(self, "prune", lambda value: 0 <= value < 1, "in [0, 1)")
        check_that(self, "batch_fraction", lambda value: 0 < value <= 1, "in (0, 1]")
        check_that(
            self, "max_exact_labels", lambda value: is_count(value) and value <= 30, "a whole number from 1 to 30"
        )
        self._check_background_share()
        if self.batch_fraction < 1.0 and self.solver != "em":
            raise InputError(
                f"batch_fraction={self.batch_fraction} draws other bags at every step, which solver='lbfgs' cannot "
                "follow; use solver='em'."
            )
        on_device = self.solver == "lbfgs" and self.inference in ("auto", "inclusion-exclusion")
        if self.device is not None and not on_device:
            raise InputError(
                f"device={self.device!r} needs solver='lbfgs' and inference='auto' (inclusion-exclusion, with its "
                f"fall-back); got solver={self.solver!r} and inference={self.inference!r}."
            )
        if self.solver == "em" and self.own_features is not None:
            raise InputError("solver='em' knows no own_features; use solver='lbfgs'.")
        if self.solver == "em" and any(isinstance(rate, str) for rate in (self.missed, self.spurious)):
            raise InputError(
                "solver='em' steps in the weights alone, so it cannot learn missed or spurious; use solver='lbfgs', or "
                "give the rates."
            )

    # -- weights ------------------------------------------------------------------------------------------------------

    def _max_iter(self) -> int:
        return ITERATIONS[self.solver] if self.max_iter is None else self.max_iter

    def _tol(self) -> float:
        return TOLERANCES[self.solver] if self.tol is None else self.tol

    def _weights(self) -> np.ndarray:
        weights = np.hstack([self.coef_, self.intercept_[:, None]])
        if self._has_background:
            weights = np.vstack([weights, np.append(self.background_coef_, self.background_intercept_)])
        return weights

    def _set_weights(self, weights: np.ndarray) -> None:
        n_classes = len(self.classes_)
        self.coef_, self.intercept_ = weights[:n_classes, :-1].copy(), weights[:n_classes, -1].copy()
        for name in ("background_coef_", "background_intercept_", "background_shift_"):
            self.__dict__.pop(name, None)
        if self.background_:
            self.background_coef_, self.background_intercept_ = weights[-1, :-1].copy(), float(weights[-1, -1])
            self.background_shift_ = 0.0

    def linear_head(self) -> LinearHead:
        """What `bagwise.preprocessing.linear_head` gives of it."""
        return LinearHead(self._weights(), len(self.classes_), "softmax")

    # -- predict ------------------------------------------------------------------------------------------------------

    @property
    def log_likelihood_history_(self) -> np.ndarray:
        """Another name of ``objective_history_``."""
        return self.objective_history_

    def union_model(self) -> UnionModel:
        """How label sets follow from the labels of instances, inferred as the parameters say."""
        return replace(
            super().union_model(), method=self.inference, max_exact_labels=self.max_exact_labels, n_jobs=self.n_jobs
        )

    def _prior(self, bags: Bags, *, listed: bool = False) -> np.ndarray:
        """Scores; a softmax makes probabilities of them."""
        weights = self._weights()
        check_allocation(
            8 * bags.n_instances * len(weights),
            f"An array of {bags.n_instances} instances by {len(weights)} classes",
            "ask for fewer bags at a time, or for labels alone (predict_instances, annotate, predict)",
        )
        return affine_scores(bags.instances, weights)

    def _instance_scores(self, bags: Bags) -> np.ndarray:
        return affine_scores(bags.instances, np.hstack([self.coef_, self.intercept_[:, None]]))

    def _labels_by(self, model: UnionModel, problem: UnionProblem, bags: Bags) -> tuple[Callable[..., np.ndarray], int]:
        """With many classes, from the scores of the labels of each bag alone."""
        weights = self._weights()
        if model.noise is not None or sp.issparse(bags.instances) or not own_labels_pay(problem, len(weights)):
            return super()._labels_by(model, problem, bags)

        def infer(block: Block, bags: Bags, indicator: np.ndarray, errors: np.ndarray | None) -> np.ndarray:
            posterior = block.own.of_instances(bags.instances, weights)
            model.infer(block.own.problem, posterior, softmax=True, errors=errors)
            return block.own.best(posterior)

        return infer, weights.shape[1]


def _weights_by_class(model: Any) -> dict[Any, np.ndarray]:
    """(d + 1,) weights of every class as the solver left them, the intercept last; the background's under `BACKGROUND`.

    The shift of the background's intercept comes after the fit and is taken back here: a start from the moved one
    would have to undo it first.
    """
    weights = np.hstack([model.coef_, model.intercept_[:, None]])
    by_class = dict(zip(model.classes_.tolist(), weights, strict=True))
    if hasattr(model, "background_coef_"):
        unmoved = model.background_intercept_ - model.background_shift_
        by_class[BACKGROUND] = np.append(model.background_coef_, unmoved)
    return by_class


def _start_weights(last: dict[Any, np.ndarray], classes: np.ndarray, background: bool, n_features: int) -> np.ndarray:
    """(c or c + 1, d + 1) weights to start from: those of the last fit where the class was there, else zero."""
    keys = [*classes.tolist(), *([BACKGROUND] if background else [])]
    start = np.zeros((len(keys), n_features + 1))
    for row, key in zip(start, keys, strict=True):
        if key in last and len(last[key]) == len(row):
            row[:] = last[key]
    return start
