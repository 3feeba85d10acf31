"""Networks under the exact union likelihood: an annotator like the others."""

from __future__ import annotations

import warnings
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from scipy.special import ndtr
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from bagwise.annotation._background import (
    BackgroundMixin,
    background_label,
    counted_instances,
    listed_labels,
    move_last_column,
    shift_to_share,
    union_problem,
)
from bagwise.annotation._calibration import CalibratedMixin
from bagwise.annotation._feasibility import LabelledBags, relaxed_bags, select_bags
from bagwise.annotation._rates import RateParameters, WrongLabelsMixin, plain_rate
from bagwise.bags import Bags, known_labels
from bagwise.base import BagClassifierMixin, BagEstimator, InstanceAnnotatorMixin, union_of_best
from bagwise.exceptions import InputError
from bagwise.findings import Findings
from bagwise.fitted import ITERATED, Attribute, ListOf, Number, Numbers, TupleOf
from bagwise.kernels.softmax import softmax_in_place
from bagwise.parameters import check_count, check_not_negative, check_positive, check_that, is_count
from bagwise.solvers.result import Callback

BLOCK = 1 << 14  # instances that are judged at a time


class ORedNetwork(
    BackgroundMixin, CalibratedMixin, WrongLabelsMixin, InstanceAnnotatorMixin, BagClassifierMixin, BagEstimator
):
    """Small networks trained on bag labels that are the union of instance labels, their probabilities averaged.

    The model of `bagwise.ORedLogisticRegression` with a network in place of the linear scores: the exact likelihood of
    the label sets is what the networks are trained by (`bagwise.nn.union_log_likelihood`). All members are trained at
    once, as batched products, each without a part of the bags; of every member the weights are kept under which these
    bags were most likely.

    Parameters
    ----------
    hidden : tuple of int, default=(256, 256)
        Units of the hidden layers.
    n_members : int, default=10
    dropout : float, default=0.5
    epochs : int, default=300
        Passes over the bags, on one cycle of the learning rate.
    learning_rate : float, default=3e-3
        The highest of the cycle.
    weight_decay : float, default=0.05
    held_out : float, default=0.1
        Share of the bags that a member does not learn from; 0: none, and the weights of the last epoch are kept.
    batch_instances : int, default=32768
        Most instances of a batch of whole bags.
    background : bool, default=False
        Add a class that any bag may hold without listing it, as of `ORedLogisticRegression`.
    background_share : float or None, default=None
    missed, spurious : float or (c,) array, default=0.0
        Rates of wrong labels, as of `ORedLogisticRegression`; they are given, not learned.
    on_infeasible : {"drop", "error", "relax"}, default="drop"
    max_exact_labels : int, default=16
    warm_start : bool, default=False
        Start from the weights of the last fit, if classes and features are the same.
    device : {None, "cpu", "cuda"}, default=None
        None is the processor.
    random_state : int, RandomState or None

    Attributes
    ----------
    classes_ : (c,) array
    layers_ : tuple of pairs of arrays
        (e, a, b) weights and (e, 1, b) biases; the model predicts, is saved and loaded without torch.
    epochs_ : (e,) array
        The epoch whose weights were kept, of every member.
    objective_history_ : (n_iter_,) array
        Mean log-likelihood a bag of every epoch, dropout and all.
    n_iter_ : int
    converged_ : bool
        Whether all epochs were run.
    missed_, spurious_, background_shift_, background_label_
        As of `ORedLogisticRegression`.

    Examples
    --------
    >>> from bagwise.datasets import make_gaussian_bags
    >>> from bagwise.nn import ORedNetwork
    >>> data = make_gaussian_bags(n_bags=40, random_state=0)
    >>> model = ORedNetwork(hidden=(16,), n_members=2, epochs=5, random_state=0).fit(data.bags, data.Y)
    >>> model.annotate(data.bags, data.Y).shape == (data.bags.n_instances,)
    True
    """

    _fitted: ClassVar[dict[str, Attribute]] = {
        "layers_": ListOf(TupleOf(Numbers("members", "_in", "_out"), Numbers("members", 1, "_out"))),
        "epochs_": Numbers("members", whole=True, low=0), "max_exact_labels": Number(1, 30, whole=True), **ITERATED,
    }  # fmt: skip

    def _check_fitted(self) -> None:
        super()._check_fitted()
        widths = [self.n_features_in_, *(bias.shape[2] for _, bias in self.layers_)]
        if [weight.shape[1] for weight, _ in self.layers_] != widths[:-1]:
            raise InputError("ORedNetwork.layers_ do not fit together; fit it again")
        if widths[-1] != len(self.classes_) + self._has_background:
            raise InputError(f"ORedNetwork.layers_ end in {widths[-1]} scores; fit it again")

    calibrate = None  # no parameter of it: a member that did not see a bag is surer than all of them are together

    def __init__(
        self,
        hidden: tuple[int, ...] = (256, 256),
        n_members: int = 10,
        *,
        dropout: float = 0.5,
        epochs: int = 300,
        learning_rate: float = 3e-3,
        weight_decay: float = 0.05,
        held_out: float = 0.1,
        batch_instances: int = 1 << 15,
        background: bool = False,
        background_share: float | None = None,
        missed: Any = 0.0,
        spurious: Any = 0.0,
        on_infeasible: str = "drop",
        max_exact_labels: int = 16,
        warm_start: bool = False,
        device: str | None = None,
        random_state: Any = None,
    ):
        self.hidden = hidden
        self.n_members = n_members
        self.dropout = dropout
        self.epochs = epochs
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.held_out = held_out
        self.batch_instances = batch_instances
        self.background = background
        self.background_share = background_share
        self.missed = missed
        self.spurious = spurious
        self.on_infeasible = on_infeasible
        self.max_exact_labels = max_exact_labels
        self.warm_start = warm_start
        self.device = device
        self.random_state = random_state

    # -- fit ----------------------------------------------------------------------------------------------------------

    def fit(self, X: Any, Y: Any, instance_labels: Bags | None = None, callback: Callback | None = None) -> ORedNetwork:
        """Learn from bags and their labels.

        Parameters
        ----------
        X : Bags, list of 2-d arrays, 3-d array or 2-d array
        Y : (n, c) 0/1 matrix, list of label sets, or (n,) class values
        instance_labels : Bags of int or None
            Index into ``classes_`` of the instances whose label is known, -1 elsewhere.
        callback : callable or None
            Called after every epoch with its number and the mean log-likelihood a bag.
        """
        from bagwise.nn import check_torch

        check_torch()
        self._check_parameters()
        last = (self.classes_.tolist(), self._has_background, self.layers_) if self._goes_on() else None
        bags, indicator = self._start_fit(X, Y)
        refuse_sparse(bags)
        rates = RateParameters.of(self.missed, self.spurious, len(self.classes_), self.background)
        if rates.learned:
            raise InputError("ORedNetwork learns no rates of wrong labels; give missed and spurious as numbers.")
        known = known_labels(instance_labels, bags.offsets, len(self.classes_), background=self.background)
        told = select_bags(
            LabelledBags.of(bags.offsets, indicator, known),
            background=self.background,
            on_infeasible=self.on_infeasible,
            rates=rates.rates(),
        )
        bags = bags if len(told) == len(bags) else bags[told.index]
        indicator, known, relaxed = told.indicator, told.known, told.relaxed
        self.background_label_ = background_label(self.classes_)
        self.missed_, self.spurious_ = plain_rate(self.missed), plain_rate(self.spurious)
        self.__dict__.pop("background_shift_", None)
        if self.background:
            self.background_shift_ = 0.0
        self._train(bags, indicator, known, relaxed, rates, last, callback)
        if self.background and self.background_share is not None:
            self._move_background(bags, indicator, known, relaxed)
        return self

    def _goes_on(self) -> bool:
        return bool(self.warm_start) and hasattr(self, "layers_")

    def _train(
        self,
        bags: Bags,
        indicator: np.ndarray,
        known: np.ndarray | None,
        relaxed: np.ndarray | None,
        rates: RateParameters,
        last: tuple[list[Any], bool, Any] | None,
        callback: Callback | None,
    ) -> None:
        from bagwise.nn._members import Plan, train_members

        rng = check_random_state(self.random_state)
        same = last is not None and last[:2] == (self.classes_.tolist(), bool(self.background))
        trained = train_members(
            bags.instances,
            union_problem(bags.offsets, indicator, self.background, known, relaxed),
            rates.rates(),
            held_out_bags(len(bags), self.n_members, self.held_out, rng),
            Plan(
                (bags.n_features, *self.hidden, len(self.classes_) + bool(self.background)), self.n_members,
                self.dropout, self.epochs, self.learning_rate, self.weight_decay, self.batch_instances,
                self.max_exact_labels,
            ),
            device=self.device or "cpu",
            rng=rng,
            start=last[2] if last is not None and same else None,
            callback=callback,
        )  # fmt: skip
        self.layers_ = trained.layers
        self.epochs_, self.objective_history_ = trained.epochs, np.asarray(trained.history)
        self.n_iter_, self.converged_ = max(len(trained.history), 1), trained.failed is None
        if trained.failed is not None:
            warnings.warn(
                f"The loss was no number any more at epoch {trained.failed} of {self.epochs}; the weights of before "
                "are kept. Scale the features (PerInstance(StandardScaler())) or lower learning_rate.",
                ConvergenceWarning,
                stacklevel=3,
            )

    def _move_background(
        self, bags: Bags, indicator: np.ndarray, known: np.ndarray | None, relaxed: np.ndarray | None
    ) -> None:
        """Shift the background's scores until its mean posterior over the training instances is the share asked."""
        problem = union_problem(bags.offsets, indicator, True, known, relaxed)
        unmoved = self._probabilities(bags)

        def background_at(shift: float) -> np.ndarray:
            proba = move_last_column(unmoved.copy(), shift)
            problem.infer_in_place(
                proba, softmax=False, residual=False, rates=self._rates(), max_exact_labels=self.max_exact_labels
            )
            return proba[:, -1]

        self.background_shift_ = shift_to_share(
            background_at, counted_instances(problem), float(self.background_share or 0)
        )

    def _check_parameters(self) -> None:
        check_that(
            self, "hidden", lambda value: isinstance(value, (tuple, list)) and all(map(is_count, value)),
            "a tuple of whole numbers, 1 or more",
        )  # fmt: skip
        check_count(self, "n_members", "epochs", "batch_instances")
        check_positive(self, "learning_rate")
        check_not_negative(self, "weight_decay")
        check_that(self, "dropout", lambda value: 0 <= value < 1, "in [0, 1)")
        check_that(self, "held_out", lambda value: 0 <= value <= 0.5, "in [0, 0.5]")
        check_that(self, "background_share", lambda value: value is None or 0 < value < 1, "None or in (0, 1)")

    # -- predict ------------------------------------------------------------------------------------------------------

    def _plain_scores(self, bags: Bags) -> np.ndarray:
        """(m, c) or, with background, (m, c + 1) logarithms of the mean of the members' probabilities."""
        refuse_sparse(bags)
        X = np.asarray(bags.instances)
        proba = np.concatenate([_mean_proba(self.layers_, X[i : i + BLOCK]) for i in range(0, len(X), BLOCK)])
        if self._has_background:
            move_last_column(proba, self.background_shift_)
        return np.log(proba)

    def _probabilities(self, bags: Bags) -> np.ndarray:
        return self._as_probabilities(self._plain_scores(bags), bags)

    def _instance_scores(self, bags: Bags) -> np.ndarray:
        return self._probabilities(bags)[:, : len(self.classes_)]

    def _find_alone(self, bags: Bags) -> Findings:
        proba = self._probabilities(bags)
        return self._findings(proba[:, : len(self.classes_)].argmax(axis=1), proba)

    def _find_listed(self, bags: Bags, indicator: np.ndarray, known: np.ndarray | None) -> Findings:
        """The posterior given the labels of the bags; the most probable of them is the label."""
        relaxed = relaxed_bags(bags.offsets, indicator, known, self._has_background, self._rates())
        problem = union_problem(bags.offsets, indicator, self._has_background, known, relaxed)
        posterior = self._probabilities(bags)
        problem.infer_in_place(
            posterior, softmax=False, residual=False, rates=self._rates(), max_exact_labels=self.max_exact_labels
        )
        return self._findings(listed_labels(posterior, bags, indicator, known), posterior)

    def _union_problem(self, bags: Bags, indicator: np.ndarray, known: np.ndarray | None) -> Any:
        return union_problem(bags.offsets, indicator, self._has_background, known)

    def _bag_scores(self, bags: Bags) -> np.ndarray:
        """The largest probability in the bag; where bags have one label each, sum_i log p_ic."""
        proba = self._instance_scores(bags)
        if self.single_label_:
            with np.errstate(divide="ignore"):
                return np.add.reduceat(np.maximum(np.log(proba), -1e300), bags.offsets[:-1], axis=0)
        return np.maximum.reduceat(proba, bags.offsets[:-1], axis=0)

    def _bag_label_sets(self, bags: Bags) -> np.ndarray:
        """The union of the instances' most probable labels, the background left out."""
        return union_of_best(self._probabilities(bags), bags)[:, : len(self.classes_)]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = False
        own = tags.bag_tags
        own.probabilities = own.instance_labels = own.callback = own.warm_start = True
        own.background = self._has_background if hasattr(self, "layers_") else bool(self.background)
        tags.non_deterministic = self.random_state is None
        return tags


def held_out_bags(n_bags: int, n_members: int, share: float, rng: np.random.RandomState) -> np.ndarray | None:
    """(e, n) bags that each member does not learn from, another part for each as far as they go; None for none."""
    if share == 0.0 or n_bags < 4:
        return None
    n_parts = max(2, round(1.0 / share))
    part = rng.permutation(n_bags) % n_parts
    return np.stack([part == e % n_parts for e in range(n_members)])


def refuse_sparse(bags: Bags) -> None:
    if sp.issparse(bags.instances):
        raise InputError(
            "ORedNetwork does not take sparse features; reduce them first, for example with "
            "PerInstance(TruncatedSVD(100)), or pass a dense array."
        )


def _mean_proba(layers: Any, X: np.ndarray) -> np.ndarray:
    """(m, c) mean of the members' probabilities, as `bagwise.nn._members.Members` computes their scores."""
    hidden = np.asarray(X, dtype=np.float32)
    for i, (weight, bias) in enumerate(layers):
        if i:
            hidden = hidden * ndtr(hidden)  # GELU
        hidden = hidden @ weight + bias
    scores = hidden.astype(np.float64)
    flat = scores.reshape(-1, scores.shape[2])
    softmax_in_place(flat)
    return flat.reshape(scores.shape).mean(axis=0)
