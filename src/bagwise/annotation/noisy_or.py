"""Noisy-or logistic regression: instances that carry any number of labels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from scipy.special import expit, softmax
from sklearn.exceptions import ConvergenceWarning

from bagwise.annotation.noisy_or_problem import NoisyOrProblem
from bagwise.annotation.objective import (
    PenalizedLikelihood,
    affine_gradient,
    affine_scores,
    by_blocks,
    climb,
    cut_blocks,
    own_places,
)
from bagwise.annotation.rates import RATE, RateParameters, plain_rate
from bagwise.annotation.union_annotator import background_label
from bagwise.core.backends import OBJECTIVES
from bagwise.core.bags import KNOWN_BACKGROUND, Bags, known_labels
from bagwise.core.base import (
    BagClassifierMixin,
    BagEstimator,
    Findings,
    InstanceAnnotatorMixin,
    given_labels,
    name_bags,
)
from bagwise.core.checks import check_count, check_not_negative
from bagwise.core.exceptions import InputError, warn_caller
from bagwise.core.fitted import ITERATED, Attribute, Choice, Numbers
from bagwise.core.typing import BagsLike, InstanceLabelsLike, LabelsLike, RateLike, WeightsLike
from bagwise.core.validation import Evidence, Given, encode_evidence, possible_labels
from bagwise.preprocessing import LinearHead
from bagwise.solvers.result import Callback, CheckpointLike
from bagwise.union import LabelNoise, count_instances


class NoisyOrLogisticRegression(InstanceAnnotatorMixin, BagClassifierMixin, BagEstimator):
    """Logistic regressions for instances with any number of labels each, trained on the labels of bags.

    Instance i carries label c with probability p_ic = sigmoid(w_c . x_i + b_c), whatever else it carries; a bag has
    the labels of its instances. A label is listed unless no instance carries it, so that labels do not meet, and the
    marginal likelihood of the label sets, ::

        L(W) = sum_b [ sum over listed c of log(1 - prod_i (1 - p_ic)) + sum over others of sum_i log(1 - p_ic) ]
               - l2 / 2 ||W||^2,

    costs O(n C): nothing is summed over label sets, and no bag is infeasible. It is right where an instance may hold
    several labels, as a window of some seconds of a recording does; where each has exactly one, as a call or a region,
    `ORedLogisticRegression` knows more and is ahead. No label at all is what background is for other learners.

    Parameters
    ----------
    l2 : float, default=1.0
        Strength of the penalty on the weights (not on the intercepts).
    missed : float, (c,) array or "learn", default=0.0
        Rate at which a label of an instance goes unnoticed by who lists those of the bag: a number in [0, 1) for all
        classes, an array of one per class, or "learn" for one number that is learned with the weights, as a logit
        under a weak prior, Beta(2, 10).
    spurious : float, (c,) array or "learn", default=0.0
        Rate at which a label is listed though nothing noticed carries it.
    own_features : (c,) list of int or None, default=None
        For each class the number of a feature that speaks for it alone, or -1, as in `ORedLogisticRegression`.
    max_iter : int, default=500
        Most iterations of L-BFGS.
    tol : float, default=1e-4
        Tolerance of the gradient.
    device : {None, "cpu", "cuda"}, default=None
        Where the likelihood is evaluated: None, by compiled code on this machine; else by torch (extra "torch") on that
        device, to which the instances are moved once (bags with a `OneOf` stay here). The fitted model is the same.
    verbose : int, default=0
        Print the objective after every so many iterations: 1 for all of them, 10 for every tenth, 0 for none.

    Attributes
    ----------
    classes_ : (c,) array
    coef_, intercept_ : (c, d) and (c,) arrays
    background_label_ : -1 for integer classes, else None
        What `annotate` gives in a bag without labels.
    missed_, spurious_ : float, or (c,) array where an array was given
        The rates that the model was fitted with.
    objective_history_ : (`n_iter_` + 1,) array
        L(W) at the start and after every iteration, with the log-prior of learned rates.
    n_iter_ : int
    converged_ : bool

    Examples
    --------
    Windows in which several species sing at once:

    >>> import numpy as np
    >>> from bagwise import Bags
    >>> from bagwise.annotation import NoisyOrLogisticRegression
    >>> rng = np.random.default_rng(0)
    >>> sings = rng.random((400, 3)) < 0.3  # of 400 windows, which of three species
    >>> bags = Bags(sings + 0.1 * rng.normal(size=(400, 3)), np.arange(0, 401, 4))
    >>> Y = np.logical_or.reduceat(sings, bags.offsets[:-1])
    >>> model = NoisyOrLogisticRegression(l2=0.01).fit(bags, Y)
    >>> bool((model.annotate_sets(bags, Y) == sings).all())
    True
    """

    _takes_evidence = True
    __metadata_request__fit: ClassVar[dict[str, bool]] = {"instance_labels": False}  # routing sends them to scorers
    _fitted: ClassVar[dict[str, Attribute]] = {
        "coef_": Numbers("classes", "features"), "intercept_": Numbers("classes"), **ITERATED,
        "missed_": RATE, "spurious_": RATE, "background_label_": Choice(-1, None),
    }  # fmt: skip

    missed_: Any
    spurious_: Any

    def __init__(
        self,
        l2: float = 1.0,
        *,
        missed: RateLike = 0.0,
        spurious: RateLike = 0.0,
        own_features: Sequence[int] | None = None,
        max_iter: int = 500,
        tol: float = 1e-4,
        device: str | None = None,
        verbose: int = 0,
    ):
        self.l2 = l2
        self.missed = missed
        self.spurious = spurious
        self.own_features = own_features
        self.max_iter = max_iter
        self.tol = tol
        self.device = device
        self.verbose = verbose

    # -- fit ----------------------------------------------------------------------------------------------------------

    def fit(
        self,
        X: BagsLike,
        y: LabelsLike | None = None,
        instance_labels: Bags | None = None,
        callback: Callback | None = None,
        checkpoint: CheckpointLike | None = None,
        sample_weight: WeightsLike | None = None,
    ) -> NoisyOrLogisticRegression:
        """Learn from bags and their labels.

        Parameters
        ----------
        X : Bags, BagDataset, list of 2-d arrays or frames, 3-d array, 2-d array or frame
        y : (n, c) matrix, list or series of label sets, (n,) class values, or BagDataset
            None: the labels of the `BagDataset` that is `X`. More than plain lists may be said (docs/evidence.md).
        instance_labels : Bags or None
            What is known of instances. One row of c numbers per instance: 1 for a label that it carries, 0 for one that
            it does not, NaN for one of which that is not known. Or one index into ``classes_`` per instance, a label
            that it carries whatever else it does; -1 where nothing is known, -2 (`bagwise.core.bags.KNOWN_BACKGROUND`)
            where it carries none.
        callback : callable or None
            Called after every iteration with its number and the objective.
        checkpoint : Checkpoint or None
            Keeps the state of the fit (`bagwise.io.checkpoint`); a fit that was interrupted goes on from it.
        sample_weight : (n,) array or None
            Weight of each bag: a bag of weight 2 counts as two, one of weight 0 is left out.
        """
        self.check_parameters()
        callback = self._progress(callback)
        bags, indicator, weights = self._start_weighted_fit(X, y, sample_weight)
        n_classes = len(self.classes_)
        parameters = self.start_rates()
        known = known_entries(instance_labels, bags.offsets, n_classes)
        check_explained(bags.offsets, indicator, known, parameters.possible)
        likelihood: PenalizedLikelihood
        options: dict[str, Any] = {"l2": self.l2, "rates": self.fitted_rates(), "weights": weights}
        if self.device is None:
            likelihood = NoisyOrObjective(bags, indicator, known, **options)
        else:
            make = OBJECTIVES["NoisyOrLogisticRegression"]
            likelihood = make(bags, indicator, known, device=self.device, **options)
        start = first_weights(indicator, likelihood.n_instances, weights, self.n_features_in_)
        return self.learn(likelihood, start, parameters, callback, checkpoint)

    def learn(
        self,
        likelihood: PenalizedLikelihood,
        start: np.ndarray,
        parameters: RateParameters,
        callback: Callback | None,
        checkpoint: CheckpointLike | None,
    ) -> NoisyOrLogisticRegression:
        """The fit, once classes are known and the bags that count are chosen, wherever their instances are."""
        result, learned = climb(
            likelihood, start, parameters, {},
            max_iter=self.max_iter, tol=self.tol, callback=callback, checkpoint=checkpoint,
            own=own_places(self.own_features, len(self.classes_), self.n_features_in_),
        )  # fmt: skip
        for name, value in learned.items():
            setattr(self, f"{name}_", value)
        self.coef_, self.intercept_ = result.weights[:, :-1].copy(), result.weights[:, -1].copy()
        self.background_label_ = background_label(self.classes_)
        self.n_iter_ = max(result.n_iter, 1)
        self.objective_history_, self.converged_ = result.history, result.converged
        if not result.converged:
            warn_caller(
                f"L-BFGS stopped after {result.n_iter} iterations before its gradient fell below tol={self.tol}; raise "
                "max_iter, scale the features (PerInstance(StandardScaler())) or raise l2.",
                ConvergenceWarning,
            )
        return self

    def start_rates(self) -> RateParameters:
        """The rates that are given or to be learned, over the classes; keeps those that are given."""
        self.missed_, self.spurious_ = (plain_rate(value) for value in (self.missed, self.spurious))
        return RateParameters.of(self.missed, self.spurious, len(self.classes_))

    def check_parameters(self) -> None:
        """Refuse parameters that no fit can take."""
        check_not_negative(self, "l2", "tol")
        check_count(self, "max_iter")

    # -- instances ----------------------------------------------------------------------------------------------------

    def _instance_scores(self, bags: Bags) -> np.ndarray:
        return affine_scores(bags.instances, self._weights())

    def noise_rates(self) -> dict[str, Any]:
        """The rates of missing and spurious labels that the model was fitted with, a number or (c,) each."""
        return {"missed": self.missed_, "spurious": self.spurious_}

    def find(
        self, X: BagsLike, Y: LabelsLike | None = None, instance_labels: InstanceLabelsLike | None = None
    ) -> Findings:
        """Everything that can be said about the instances, from one look at them.

        Parameters
        ----------
        X : Bags, list of 2-d arrays, 3-d array or 2-d array
        Y : labels of the bags in any form, or None
            None: features alone decide.
        instance_labels : Bags or None
            What is known of instances, as of `fit`; with `Y` only.

        Returns
        -------
        Findings
            Rows of the probabilities need not sum to one; ``background`` is the probability that an instance carries no
            label.
        """
        bags = self._start_predict(X)
        if Y is None:
            if instance_labels is not None:
                raise InputError("instance_labels are known labels among those of the bags; pass Y with them.")
            proba = expit(self._instance_scores(bags))
            return Findings(proba.argmax(axis=1), proba, _lacks_all(proba))
        indicator = encode_evidence(Y, self.classes_, len(bags))
        known = known_entries(instance_labels, bags.offsets, len(self.classes_))
        objective = self._objective(bags, indicator, known)
        check_explained(bags.offsets, indicator, known, objective.rates)
        proba, _ = objective.posterior(self._weights())
        listed = np.repeat(possible_labels(indicator), bags.sizes, axis=0) == 1
        carried = listed if known is None else listed | (known == 1)
        labels = np.where(carried, proba, -1.0).argmax(axis=1)
        labels[~carried.any(axis=1)] = -1
        if known is not None:
            labels[(known == 0).all(axis=1)] = -1
        return Findings(labels, proba, _lacks_all(proba))

    def _weights(self) -> np.ndarray:
        return np.hstack([self.coef_, self.intercept_[:, None]])

    def linear_head(self) -> LinearHead:
        """What `bagwise.preprocessing.linear_head` gives of it."""
        return LinearHead(self._weights(), len(self.classes_), "sigmoid")

    def _objective(self, bags: Bags, indicator: Given, known: np.ndarray | None) -> NoisyOrObjective:
        return NoisyOrObjective(bags, indicator, known, l2=0.0, rates=self.fitted_rates())

    def fitted_rates(self) -> LabelNoise | None:
        """Those that are to be learned are zero yet."""
        return LabelNoise.of(self.missed_, self.spurious_, len(self.classes_))

    def predict_instance_sets(self, X: BagsLike) -> np.ndarray:
        """(m, c) 0/1: the labels that each instance carries with a probability above one half, by its features."""
        return np.greater(self.predict_instances_proba(X), 0.5).astype(np.int64)

    def annotate_sets(self, X: BagsLike, Y: LabelsLike | None = None) -> np.ndarray:
        """(m, c) 0/1: the labels that each instance carries with a probability above one half, given its bag's."""
        return np.greater(self.annotate_proba(X, Y), 0.5).astype(np.int64)

    def label_posterior(
        self, X: BagsLike, Y: LabelsLike | None = None, instance_labels: Bags | None = None
    ) -> np.ndarray:
        """(n, c) probability that each label, listed or not, is truly in the bag: carried by one of its instances.

        Without rates of label noise listed labels have probability one and others zero.
        """
        Y, bags = given_labels(X, Y), self._start_predict(X)
        indicator = encode_evidence(Y, self.classes_, len(bags))
        known = known_entries(instance_labels, bags.offsets, len(self.classes_))
        return self._objective(bags, indicator, known).presence(self._weights())

    # -- bags ---------------------------------------------------------------------------------------------------------

    def _log_absent(self, bags: Bags) -> np.ndarray:
        """(n, c) logarithm of the probability that no instance carries the label."""

        def of_block(bags: Bags) -> np.ndarray:
            return -np.add.reduceat(np.logaddexp(0.0, self._instance_scores(bags)), bags.offsets[:-1], axis=0)

        return by_blocks(bags, len(self.classes_), of_block)

    def _bag_scores(self, bags: Bags) -> np.ndarray:
        """Log-odds that the label is in the bag."""
        absent = np.minimum(self._log_absent(bags), -np.finfo(np.float64).tiny)
        return np.log(-np.expm1(absent)) - absent

    def predict_proba(self, X: Any) -> np.ndarray:
        """(n, c) probability that each label is in the bag: 1 - prod_i (1 - p_ic).

        After a fit on (n,) values, where each bag has exactly one label, the probabilities of that label.
        """
        bags = self._start_predict_bags(X)
        if self.single_label_:
            return softmax(self._bag_scores(bags), axis=1)  # of all bags with one label, their odds
        return -np.expm1(self._log_absent(bags))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        own = tags.bag_tags
        own.probabilities = own.background = own.label_sets = True
        own.instance_labels = own.sample_weight = own.callback = own.checkpoint = True
        return tags


def noisy_or_of(model: Any, links: np.ndarray | None = None) -> NoisyOrLogisticRegression:
    """One whose instances are the log-odds of a fitted model, times slopes and plus offsets, the (c, 2) `links`."""
    found, n_classes = NoisyOrLogisticRegression(**model.noise_rates()), len(model.classes_)
    links = np.tile([1.0, 0.0], (n_classes, 1)) if links is None else links
    found.classes_, found.single_label_, found.n_features_in_ = model.classes_, model.single_label_, n_classes
    found.coef_, found.intercept_ = np.diag(links[:, 0]), links[:, 1]
    found.missed_, found.spurious_ = model.noise_rates().values()
    found.background_label_ = model.background_label_
    return found


class NoisyOrObjective(PenalizedLikelihood):
    """The likelihood that `NoisyOrLogisticRegression` maximises, of instances in memory.

    Bags are gone through in blocks, so that no array of all instances and classes is made. `known` is (m, c), 1 or 0
    where that an instance carries a label is known, -1 elsewhere.
    """

    def __init__(
        self,
        bags: Bags,
        indicator: Given,
        known: np.ndarray | None,
        *,
        l2: float,
        rates: LabelNoise | None,
        weights: np.ndarray | None = None,
    ):
        super().__init__(l2)
        self.bags = bags
        self.problem = NoisyOrProblem(bags.offsets, indicator, known)
        self.rates = rates
        self.bag_weights = weights
        self.n_instances = count_instances(bags.offsets, weights)
        self.statistics = np.empty((len(bags), 3))

    def log_likelihood(self, weights: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = 0.0, np.zeros(weights.shape)
        for part, rows in self._blocks(len(weights)):
            residual, logs = self._infer(weights, part, rows, residual=True)
            if self.bag_weights is None:
                value += float(logs.sum())
            else:
                counts = self.bag_weights[part]
                value += float((counts @ logs).sum())
                residual *= np.repeat(counts, self.bags.sizes[part])[:, None]
                self.statistics[part] *= counts[:, None]
            gradient += affine_gradient(self.bags.instances[rows], residual)
        return value, gradient

    def posterior(self, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(m, c) posteriors of instances, and (n, c) log-likelihoods of what was given about each label of each bag."""
        found = [self._infer(weights, part, rows, residual=False) for part, rows in self._blocks(len(weights))]
        return np.concatenate([part for part, _ in found]), np.concatenate([part for _, part in found])

    def _infer(self, weights: np.ndarray, part: slice, rows: slice, *, residual: bool) -> tuple[np.ndarray, np.ndarray]:
        values, rates = affine_scores(self.bags.instances[rows], weights), self.rates
        problem = self.problem.part(part)
        return values, problem.infer(values, rates, residual=residual, statistics=self.statistics[part])

    def presence(self, weights: np.ndarray) -> np.ndarray:
        """(n, c) probability that some instance of the bag carries the label, given what was said of the bag."""
        return self.problem.presence(affine_scores(self.bags.instances, weights), self.rates)

    def _blocks(self, n_classes: int) -> list[tuple[slice, slice]]:
        """Bags that follow each other, and their rows."""
        offsets = self.bags.offsets
        return [
            (slice(first, last), slice(int(offsets[first]), int(offsets[last])))
            for first, last in cut_blocks(offsets, n_classes)
        ]


def first_weights(given: Given, n_instances: float, bag_weights: np.ndarray | None, n_features: int) -> np.ndarray:
    """No weights, and intercepts at which as many bags have each label as list it."""
    values, n_bags = given.values if isinstance(given, Evidence) else given, len(given)
    listed = np.average(np.nan_to_num(values, nan=0.5, posinf=1.0, neginf=0.0), axis=0, weights=bag_weights)
    per_bag = n_instances / (n_bags if bag_weights is None else bag_weights.sum())
    absent = np.clip(1.0 - listed, 0.5 / n_bags, 1.0 - 0.5 / n_bags) ** (1.0 / per_bag)
    return np.column_stack([np.zeros((len(absent), n_features)), np.log1p(-absent) - np.log(absent)])


def _lacks_all(proba: np.ndarray) -> np.ndarray:
    """(m,) probability that an instance carries no label."""
    return np.prod(1.0 - proba, axis=1)


def known_entries(instance_labels: InstanceLabelsLike | None, offsets: np.ndarray, n_classes: int) -> np.ndarray | None:
    """(m, c) int8 of what is known of instances: 1 where a label is carried, 0 where it is not, -1 elsewhere."""
    if instance_labels is None:
        return None
    given = instance_labels if isinstance(instance_labels, Bags) else Bags.from_list(instance_labels)
    if given.instances.ndim == 1:
        index = known_labels(given, offsets, n_classes, background=True)
        assert index is not None
        known = np.full((len(index), n_classes), -1, dtype=np.int8)
        known[index == n_classes] = 0
        carried = np.flatnonzero((index >= 0) & (index < n_classes))
        known[carried, index[carried]] = 1
        return known
    if not np.array_equal(given.offsets, offsets) or given.instances.shape[1] != n_classes:
        raise InputError(
            f"instance_labels have {given.n_instances} rows of {given.instances.shape[1]} in {len(given)} bags; "
            f"expected {offsets[-1]} rows of {n_classes} in {len(offsets) - 1} bags, one column per class."
        )
    values = np.asarray(given.instances, dtype=np.float64)
    bad = np.argwhere(~(np.isnan(values) | (values == 0.0) | (values == 1.0)))
    if len(bad):
        row, column = bad[0]
        raise InputError(
            f"instance_labels hold {values[row, column]:g} for instance {row}, class {column}; expected 1 (carried), 0 "
            f"(not carried) or NaN (not known). An index per instance is a (m,) array ({KNOWN_BACKGROUND}: no label)."
        )
    return np.where(np.isnan(values), -1, values).astype(np.int8)


def check_explained(offsets: np.ndarray, given: Given, known: np.ndarray | None, rates: LabelNoise | None) -> None:
    """What is known of instances must fit what is said of their bags, unless rates excuse it."""
    if known is None:
        return
    values = given.values if isinstance(given, Evidence) else given
    missed = np.zeros(given.shape[1]) if rates is None else rates.missed
    spurious = np.zeros(given.shape[1]) if rates is None else rates.spurious
    absent = (values == -np.inf) | ((values == 0.0) & (missed == 0.0))
    there = (values == np.inf) | ((values == 1.0) & (spurious == 0.0))
    carried = np.logical_or.reduceat(known == 1, offsets[:-1], axis=0)
    lacked = np.logical_and.reduceat(known == 0, offsets[:-1], axis=0)
    for wrong, problem in (
        (carried & (values == -np.inf), "is said not to hold, but one of its instances is known to carry it"),
        (carried & absent, "does not list, but one of its instances is known to carry it"),
        (lacked & there, "lists, but all of its instances are known not to carry it"),
    ):
        bags = np.flatnonzero(wrong.any(axis=1))
        if len(bags):
            label = int(np.flatnonzero(wrong[bags[0]])[0])
            cure = "" if np.isinf(values[bags[0], label]) else ", or allow for label noise (missed, spurious)"
            raise InputError(
                f"Class {label} is a label that bag {bags[0]} {problem} ({name_bags(bags)}); correct one of the two"
                f"{cure}."
            )
