"""Networks under the exact union likelihood: an annotator like the others."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from scipy.special import expit, ndtr
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.metaestimators import available_if

from bagwise.annotation.forest import grow_forest
from bagwise.annotation.noisy_or import NoisyOrLogisticRegression, check_explained, known_entries, noisy_or_of
from bagwise.annotation.noisy_or_problem import NoisyOrProblem, log_odds
from bagwise.annotation.rates import RateParameters, keep_if_useful, plain_rate
from bagwise.annotation.union_annotator import (
    NOISE_AND_BACKGROUND,
    UnionAnnotator,
    background_label,
    move_last_column,
    shift_to_share,
)
from bagwise.core.bags import Bags, known_labels
from bagwise.core.base import Findings, given_labels
from bagwise.core.checks import check_choice, check_count, check_not_negative, check_positive, check_that, is_count
from bagwise.core.exceptions import InputError, warn_caller
from bagwise.core.fitted import (
    ITERATED,
    Attribute,
    Choice,
    Either,
    ListOf,
    Maybe,
    Number,
    Numbers,
    Record,
    Text,
    TupleOf,
    savable,
)
from bagwise.core.typing import BagsLike, InstanceLabelsLike, LabelsLike, WeightsLike
from bagwise.core.validation import Given, refuse_sparse, validate_weights
from bagwise.kernels.forest import FITTED as FOREST
from bagwise.kernels.forest import Forest
from bagwise.nn import SMALLEST, check_torch
from bagwise.solvers.result import Callback, CheckpointLike
from bagwise.union import LabelledBags, LabelNoise, UnionModel, UnionProblem, select_bags, softmax_in_place

BLOCK = 1 << 14  # instances that are judged at a time
MODULES = ("patch",)
"""Networks of our own."""
LABELS_PER_INSTANCE = ("one", "any")


def _gives_label_sets(self: Any) -> bool:
    if not self._has_label_sets:
        raise AttributeError("Instances have one label each here; fit with labels_per_instance='any'.")
    return True


class ORedNetwork(UnionAnnotator):
    """Small networks trained on bag labels that are the union of instance labels, their probabilities averaged.

    The model of `bagwise.ORedLogisticRegression` with a network in place of the linear scores: the exact likelihood of
    the label sets is what the networks are trained by (`bagwise.nn.union_log_likelihood`). All members are trained at
    once, as batched products, each without a part of the bags; of every member the weights are kept under which these
    bags were most likely. Then, in rounds, new networks learn all instances from the posterior that the
    last ones give together: one network believes its first guess of who carries which label, several correct it.

    Parameters
    ----------
    hidden : tuple of int, default=(256, 256)
        Units of the hidden layers; () for a linear model.
    n_members : int, default=10
    labels_per_instance : {"one", "any"}, default="one"
        "any": an instance has any number of labels, as a window of some seconds of a recording has. The model is that
        of `bagwise.annotation.NoisyOrLogisticRegression`, with its methods `predict_instance_sets` and `annotate_sets`;
        no label at all is what background is otherwise.
    dropout : float, default=0.5
    n_rounds : int, default=1
        Rounds by the posterior; 0: none.
    epochs : int, default=100
        Passes over the bags, on one cycle of the learning rate; of later rounds at most.
    learning_rate : float, default=3e-3
        The highest of the cycle.
    weight_decay : float, default=0.05
    held_out : float, default=0.1
        Share of the bags that a member does not learn from in the first round; 0: none, and the weights of the last
        epoch are kept.
    batch_instances : int or None, default=None
        Most instances of a batch of whole bags; None: an eighth of all, at most 32768.
    n_estimators : int, default=0
        Extremely randomised trees that are grown on the posterior of the networks (as `bagwise.ORedForest` grows its
        own); the probabilities of the two are averaged. 0: networks alone.
    module : None, torch.nn.Module, function or str, default=None
        A network of one's own, which gives (m, outputs) scores of (m, features) instances (float32); `hidden` and
        `dropout` are not looked at then. Every member is a copy of a module as it is; a function of the numbers of
        features and outputs makes each of them. One of our own has a name ("patch"). A model file holds its weights:
        give it again after loading (``set_params(module=...)``).
    background : bool, default=False
        Add a class that any bag may hold without listing it, as of `ORedLogisticRegression`.
    background_share : float or None, default=None
    missed, spurious : float, (c,) array or "learn", default=0.0
        Rates of label noise, as of `ORedLogisticRegression`. Learned ones maximise the likelihood of the label sets of
        held-out bags; that a rate of missed labels is worth having is asked of three folds, each fitted with and
        without (where an instance has one label).
    on_infeasible : {"drop", "error", "relax"}, default="drop"
    max_exact_labels : int, default=16
    warm_start : bool, default=False
        Start from the weights of the last fit, if classes and features are the same.
    n_jobs : int or None
        Trees in parallel (threads).
    device : {None, "cpu", "cuda"}, default=None
        None is the processor.
    verbose : int, default=0
        Print the likelihood after every so many epochs: 1 for all of them, 10 for every tenth, 0 for none.
    random_state : int, RandomState or None

    Attributes
    ----------
    classes_ : (c,) array
    layers_ : tuple of pairs of arrays
        (e, a, b) weights and (e, 1, b) biases; the model predicts, is saved and loaded without torch.
    module_states_, module_name_ : list of dicts of arrays and str, with a module
        What each member has learned, by name, and the class of the module; prediction needs torch then.
    forest_ : tuple of arrays, with n_estimators
        See `bagwise.kernels.forest.Forest`.
    epochs_ : (e,) array
        The epoch of the first round whose weights were kept, of every member.
    objective_history_ : (`n_iter_`,) array
        Mean log-likelihood a bag of every epoch, dropout and all; in later rounds that of the instances
        under the posterior.
    n_iter_ : int
        Epochs of all rounds.
    converged_ : bool
        Whether all epochs were run.
    labels_per_instance_ : str
        That of the fit.
    missed_, spurious_, background_shift_, background_label_
        As of `ORedLogisticRegression`.

    Examples
    --------
    >>> from bagwise.datasets import make_gaussian_bags
    >>> from bagwise.nn import ORedNetwork
    >>> data = make_gaussian_bags(n_bags=40, random_state=0)
    >>> model = ORedNetwork(hidden=(16,), n_members=2, epochs=5, n_rounds=1, random_state=0).fit(data.bags, data.Y)
    >>> model.annotate(data.bags, data.Y).shape == (data.bags.n_instances,)
    True
    """

    __metadata_request__fit: ClassVar[dict[str, bool]] = {"instance_labels": False}  # routing sends them to scorers
    _kept_parameters = ("labels_per_instance",)
    forest_: tuple[Any, ...]
    labels_per_instance_: str
    _fitted: ClassVar[dict[str, Attribute]] = {
        "layers_": Maybe(ListOf(TupleOf(Numbers("members", "_in", "_out"), Numbers("members", 1, "_out")))),
        "module_states_": Maybe(ListOf(Record(Either(Numbers(...), Numbers(..., whole=True))))),
        "module_name_": Maybe(Text()),
        "forest_": Maybe(FOREST),
        "epochs_": Numbers("epochs", whole=True, low=0),
        "labels_per_instance_": Maybe(Choice(*LABELS_PER_INSTANCE)),
        "module": Choice(None, *MODULES),
        "device": Choice(None, "cpu", "cuda"),
        "max_exact_labels": Number(1, 30, whole=True),
        **ITERATED,
        **NOISE_AND_BACKGROUND,
    }

    def _check_fitted(self) -> None:
        super()._check_fitted()
        n_columns = len(self.classes_) + self._has_background
        if hasattr(self, "forest_"):
            forest = Forest(*self.forest_)
            forest.check(self.n_features_in_)
            if forest.n_columns != n_columns:
                raise InputError(f"ORedNetwork.forest_ has leaves of {forest.n_columns} classes; fit it again")
        if hasattr(self, "layers_") == hasattr(self, "module_states_"):
            raise InputError("ORedNetwork needs layers_ or module_states_, and one of the two only; fit it again")
        if not hasattr(self, "layers_"):
            return
        widths = [self.n_features_in_, *(bias.shape[2] for _, bias in self.layers_)]
        if [weight.shape[1] for weight, _ in self.layers_] != widths[:-1]:
            raise InputError("ORedNetwork.layers_ do not fit together; fit it again")
        if widths[-1] != n_columns:
            raise InputError(f"ORedNetwork.layers_ end in {widths[-1]} scores; fit it again")

    def __init__(
        self,
        hidden: tuple[int, ...] = (256, 256),
        n_members: int = 10,
        *,
        labels_per_instance: str = "one",
        dropout: float = 0.5,
        n_rounds: int = 1,
        epochs: int = 100,
        learning_rate: float = 3e-3,
        weight_decay: float = 0.05,
        held_out: float = 0.1,
        batch_instances: int | None = None,
        n_estimators: int = 0,
        module: Any = None,
        background: bool = False,
        background_share: float | None = None,
        missed: Any = 0.0,
        spurious: Any = 0.0,
        on_infeasible: str = "drop",
        max_exact_labels: int = 16,
        warm_start: bool = False,
        n_jobs: int | None = None,
        device: str | None = None,
        verbose: int = 0,
        random_state: Any = None,
    ):
        self.hidden = hidden
        self.n_members = n_members
        self.labels_per_instance = labels_per_instance
        self.dropout = dropout
        self.n_rounds = n_rounds
        self.epochs = epochs
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.held_out = held_out
        self.batch_instances = batch_instances
        self.n_estimators = n_estimators
        self.module = module
        self.background = background
        self.background_share = background_share
        self.missed = missed
        self.spurious = spurious
        self.on_infeasible = on_infeasible
        self.max_exact_labels = max_exact_labels
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.device = device
        self.verbose = verbose
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
    ) -> ORedNetwork:
        """Learn from bags and their labels.

        Parameters
        ----------
        X : Bags, BagDataset, list of 2-d arrays or frames, 3-d array, 2-d array or frame
        y : (n, c) matrix, list or series of label sets, (n,) class values, or BagDataset
            None: the labels of the `BagDataset` that is `X`. More than plain lists may be said (docs/evidence.md).
        instance_labels : Bags of int or None
            Index into ``classes_`` of the instances whose label is known, -1 elsewhere. With any number of labels per
            instance, as of `NoisyOrLogisticRegression.fit`.
        callback : callable or None
            Called after every epoch with its number and the mean log-likelihood a bag.
        checkpoint : Checkpoint or None
            Keeps the state of the fit (`bagwise.io.checkpoint`); a fit that was interrupted goes on from it.
        sample_weight : (n,) array or None
            How much each bag counts in the likelihood.
        """
        check_torch()
        self.check_parameters()
        last = self._last_fit()
        bags, indicator = self._start_fit(X, y)
        refuse_sparse(self, bags)
        weights = validate_weights(sample_weight, len(bags))
        rates = RateParameters.of(self.missed, self.spurious, len(self.classes_), self.background)
        self.background_label_ = background_label(self.classes_)
        self.missed_, self.spurious_ = plain_rate(self.missed), plain_rate(self.spurious)
        self._keep_parameters()
        problem: UnionProblem | NoisyOrProblem
        select = self._any_labels if self._has_label_sets else self._one_label
        problem, index, rates = select(bags, indicator, instance_labels, weights, rates)
        bags = bags if len(index) == len(bags) else bags[index]
        weights = np.ones(len(bags)) if weights is None else weights[index]
        for old in ("background_shift_", "layers_", "module_states_", "module_name_", "forest_"):
            self.__dict__.pop(old, None)
        if self.background:
            self.background_shift_ = 0.0
        self._train(bags, problem, weights, rates, last, self._progress(callback), checkpoint)
        if isinstance(problem, UnionProblem) and self.background and self.background_share is not None:
            of_rows, share = np.repeat(weights, bags.sizes), float(self.background_share)
            self.background_shift_ = shift_to_share(
                self.union_model(), problem, self._probabilities(bags), of_rows, share
            )
        return self

    def _one_label(
        self, bags: Bags, given: Given, instance_labels: Bags | None, weights: np.ndarray | None, rates: RateParameters
    ) -> tuple[UnionProblem, np.ndarray, RateParameters]:
        """The problem of the bags that are learned from, which of the bags these are, and the rates."""
        known = known_labels(instance_labels, bags.offsets, len(self.classes_), background=self.background)
        rates = keep_if_useful(rates, self, bags, given, instance_labels, weights)
        labelled = select_bags(
            LabelledBags.of(bags.offsets, given, known, weights),
            background=self.background,
            on_infeasible=self.on_infeasible,
            rates=rates.possible,
        )
        model = UnionModel(len(self.classes_), bool(self.background), max_exact_labels=self.max_exact_labels)
        problem = model.problem(labelled.offsets, labelled.indicator, labelled.known, labelled.relaxed)
        return problem, labelled.index, rates

    def _any_labels(
        self, bags: Bags, given: Given, instance_labels: Bags | None, weights: np.ndarray | None, rates: RateParameters
    ) -> tuple[NoisyOrProblem, np.ndarray, RateParameters]:
        """The same where an instance has any number of labels: all bags that have a weight."""
        known = known_entries(instance_labels, bags.offsets, len(self.classes_))
        check_explained(bags.offsets, given, known, rates.possible)
        problem, index = NoisyOrProblem(bags.offsets, given, known), np.arange(len(bags))
        if weights is None or weights.all():
            return problem, index, rates
        index = np.flatnonzero(weights)
        return problem.part(index), index, rates

    def _last_fit(self) -> tuple[Any, Any]:
        """What makes the weights of the last fit of use for another one, and these, where a fit is to go on from it."""
        if not (self.warm_start and hasattr(self, "epochs_")):
            return None, None
        plain = hasattr(self, "layers_")
        return self._use_of_weights(self._has_background, plain), self.layers_ if plain else self.module_states_

    def _use_of_weights(self, background: bool, plain: bool) -> Any:
        return self.classes_.tolist(), self.n_features_in_, bool(background), plain

    def _train(
        self,
        bags: Bags,
        problem: UnionProblem | NoisyOrProblem,
        weights: np.ndarray,
        rates: RateParameters,
        last: tuple[Any, Any],
        callback: Callback | None,
        checkpoint: CheckpointLike | None,
    ) -> None:
        from bagwise.nn._heads import AnyLabels, OneLabel
        from bagwise.nn._training import Trainer
        from bagwise.nn.device import as_device

        rng = check_random_state(self.random_state)
        out = _held_out_bags(len(bags), self.n_members, self.held_out, rng)
        if rates.learned and out is None:
            raise InputError(
                f"missed and spurious are learned from bags that are held out, and of {len(bags)} none are "
                f"(held_out={self.held_out}); hold some out of 4 bags or more, or give the rates."
            )
        start = last[1] if last[0] == self._use_of_weights(self.background, self.module is None) else None
        n_columns = len(self.classes_) + bool(self.background)
        head: OneLabel | AnyLabels
        if isinstance(problem, UnionProblem):
            head = OneLabel(problem, n_columns, as_device(self.device or "cpu"), self.max_exact_labels)
        else:
            head = AnyLabels(problem)
        trainer = Trainer(self, bags.instances, head, n_columns, rates, weights, out, rng, start)
        trainer.train(callback, checkpoint)
        if self.module is None:
            self.layers_ = trainer.ensemble.arrays()
        else:
            self.module_states_ = trainer.ensemble.arrays()
            self.module_name_ = type(trainer.ensemble.members[0]).__name__
        if self.n_estimators and isinstance(problem, UnionProblem):
            self._grow_trees(bags, problem, weights, trainer.rates, rng)
        self.epochs_, self.objective_history_ = trainer.epochs, np.asarray(trainer.history)
        self.n_iter_, self.converged_ = max(len(trainer.history), 1), trainer.failed is None
        learned = {name: float(getattr(trainer.rates, name)[0]) for name in rates.learned}
        for name, value in learned.items():
            setattr(self, f"{name}_", value)
        rates.warn_of_bounds(learned)
        if trainer.failed is not None:
            epoch, step = trainer.failed
            warn_caller(
                f"The loss was no number any more at step {step}, in epoch {epoch}; the last good weights are kept. "
                "Scale the features (PerInstance(StandardScaler())) or lower learning_rate.",
                ConvergenceWarning,
            )

    # -- networks -----------------------------------------------------------------------------------------------------

    def _grow_trees(
        self,
        bags: Bags,
        problem: UnionProblem,
        weights: np.ndarray,
        rates: LabelNoise | None,
        rng: np.random.RandomState,
    ) -> None:
        """Trees on all pairs of instance and label, weighted by the posterior of the networks."""
        posterior = self._network_proba(bags.instances)
        UnionModel(len(self.classes_), bool(self.background), rates).infer(problem, posterior)
        instances = np.ascontiguousarray(bags.instances, dtype=np.float32)
        of_rows = np.repeat(weights, bags.sizes)
        self.forest_ = tuple(grow_forest(instances, posterior, of_rows, self.n_estimators, rng, n_jobs=self.n_jobs))

    def _mean_proba(self, X: np.ndarray) -> np.ndarray:
        """(m, c) mean of the members' probabilities, and where there are trees of these and theirs."""
        proba = self._network_proba(X)
        return proba if not hasattr(self, "forest_") else 0.5 * (proba + Forest(*self.forest_).mean_shares(X))

    def _network_proba(self, X: np.ndarray) -> np.ndarray:
        if hasattr(self, "layers_"):
            blocks = (X[i : i + BLOCK] for i in range(0, len(X), BLOCK))
            return np.concatenate([_mean_proba(self.layers_, block, self._has_label_sets) for block in blocks])
        if self.module is None:
            raise InputError(
                f"This model holds the weights of a module {self.module_name_} and not the module itself, which a file "
                "cannot keep; give it again: model.set_params(module=...), in a pipeline orednetwork__module=..."
            )
        check_torch()
        from bagwise.nn._members import probabilities_of

        n_columns = len(self.classes_) + self._has_background
        return probabilities_of(self, n_columns, self.module_states_, X, self._has_label_sets)

    def _saved_params(self) -> dict[str, Any]:
        """Without a module of anybody's, of which a file holds the weights."""
        params = super()._saved_params()
        return params if isinstance(self.module, str) else {**params, "module": None}

    def check_parameters(self) -> None:
        """Refuse parameters that no fit can take."""
        check_that(
            self,
            "hidden",
            lambda value: isinstance(value, (tuple, list)) and all(map(is_count, value)),
            "a tuple of whole numbers, 1 or more",
        )
        check_count(self, "n_members", "epochs", *(() if self.batch_instances is None else ("batch_instances",)))
        for name in ("n_rounds", "n_estimators"):
            check_that(self, name, lambda value: value == 0 or is_count(value), "a whole number, 0 or more")
        check_that(
            self,
            "module",
            lambda value: value is None or callable(value) or value in MODULES,
            f"None, a torch.nn.Module, a function of features and outputs, or one of {', '.join(MODULES)}",
        )
        check_positive(self, "learning_rate")
        check_not_negative(self, "weight_decay")
        check_that(self, "dropout", lambda value: 0 <= value < 1, "in [0, 1)")
        check_that(self, "held_out", lambda value: 0 <= value <= 0.5, "in [0, 0.5]")
        check_choice("labels_per_instance", self.labels_per_instance, LABELS_PER_INSTANCE)
        if self.labels_per_instance == "any":
            for name in ("background", "background_share", "n_estimators"):
                if getattr(self, name):
                    raise InputError(
                        f"{name}={getattr(self, name)!r} needs labels_per_instance='one': an instance with any number "
                        "of labels is background where it has none, and trees tell single labels apart; leave it out."
                    )
        self._check_background_share()

    # -- predict ------------------------------------------------------------------------------------------------------

    @property
    def _has_label_sets(self) -> bool:
        """Whether an instance has any number of labels: in the fitted model, before the fit as it is asked for."""
        return getattr(self, "labels_per_instance_", self.labels_per_instance) == "any"

    def union_model(self) -> UnionModel:
        """How label sets follow from the labels of instances, inferred as `max_exact_labels` says."""
        return replace(super().union_model(), max_exact_labels=self.max_exact_labels)

    def _prior(self, bags: Bags, *, listed: bool = False) -> np.ndarray:
        """The mean of the members' probabilities, none of which is zero."""
        refuse_sparse(self, bags)
        proba = self._mean_proba(np.asarray(bags.instances))
        if self._has_background:
            move_last_column(proba, self.background_shift_)
        return np.maximum(proba, SMALLEST)

    # -- any number of labels per instance: a noisy-or of the log-odds ------------------------------------------------

    def _over_odds(self, X: BagsLike) -> tuple[NoisyOrLogisticRegression, Bags]:
        bags = self._start_predict(X)
        return noisy_or_of(self), Bags(self._instance_scores(bags), bags.offsets)

    def _instance_scores(self, bags: Bags) -> np.ndarray:
        return log_odds(self._prior(bags)) if self._has_label_sets else super()._instance_scores(bags)

    def find(
        self, X: BagsLike, Y: LabelsLike | None = None, instance_labels: InstanceLabelsLike | None = None
    ) -> Findings:
        """Everything that can be said about the instances: one label each, or as of `NoisyOrLogisticRegression.find`.

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
        """
        if not self._has_label_sets:
            return super().find(X, Y, instance_labels)
        model, odds = self._over_odds(X)
        return model.find(odds, Y, instance_labels)

    def annotate(self, X: BagsLike, Y: LabelsLike | None = None) -> np.ndarray:
        """(m,) most likely class of every instance among the labels of its bag."""
        Y = given_labels(X, Y)
        if not self._has_label_sets:
            return super().annotate(X, Y)
        model, odds = self._over_odds(X)
        return model.annotate(odds, Y)

    @available_if(_gives_label_sets)
    def predict_instance_sets(self, X: BagsLike) -> np.ndarray:
        """(m, c) 0/1: the labels that each instance carries with a probability above one half, by its features."""
        model, odds = self._over_odds(X)
        return model.predict_instance_sets(odds)

    @available_if(_gives_label_sets)
    def annotate_sets(self, X: BagsLike, Y: LabelsLike | None = None) -> np.ndarray:
        """(m, c) 0/1: the labels that each instance carries with a probability above one half, given its bag's."""
        model, odds = self._over_odds(X)
        return model.annotate_sets(odds, given_labels(X, Y))

    def label_posterior(
        self, X: BagsLike, Y: LabelsLike | None = None, instance_labels: Bags | None = None
    ) -> np.ndarray:
        """(n, c) probability that each label, listed or not, is truly in the bag: carried by one of its instances."""
        Y = given_labels(X, Y)
        if not self._has_label_sets:
            return super().label_posterior(X, Y, instance_labels)
        model, odds = self._over_odds(X)
        return model.label_posterior(odds, Y, instance_labels)

    def _bag_scores(self, bags: Bags) -> np.ndarray:
        if not self._has_label_sets:
            return super()._bag_scores(bags)
        model, odds = self._over_odds(bags)
        return model._bag_scores(odds)

    def _bag_label_sets(self, bags: Bags) -> np.ndarray:
        return self._bag_scores(bags) > 0 if self._has_label_sets else super()._bag_label_sets(bags)

    def predict_proba(self, X: Any) -> np.ndarray:
        """(n, c) probability that each label is among the bag's: 1 - prod_i (1 - p_ic)."""
        if not self._has_label_sets:
            return super().predict_proba(X)
        model, odds = self._over_odds(self._start_predict_bags(X))
        return model.predict_proba(odds)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = False
        if self._has_label_sets:
            tags.bag_tags.label_sets = tags.bag_tags.background = True
        tags.non_deterministic = self.random_state is None
        return tags


def _held_out_bags(n_bags: int, n_members: int, share: float, rng: np.random.RandomState) -> np.ndarray | None:
    """(e, n) bags that each member does not learn from, another part for each as far as they go; None for none."""
    if share == 0.0 or n_bags < 4:
        return None
    n_parts = max(2, round(1.0 / share))
    part = rng.permutation(n_bags) % n_parts
    return np.stack([part == e % n_parts for e in range(n_members)])


def _mean_proba(layers: Any, X: np.ndarray, label_sets: bool) -> np.ndarray:
    """(m, c) mean of the members' probabilities, as `bagwise.nn._members.Members` computes their scores."""
    hidden = np.asarray(X, dtype=np.float32)
    for i, (weight, bias) in enumerate(layers):
        if i:
            hidden = hidden * ndtr(hidden)  # GELU
        hidden = hidden @ weight + bias
    scores = hidden.astype(np.float64)
    if label_sets:
        return expit(scores).mean(axis=0)
    flat = scores.reshape(-1, scores.shape[2])
    softmax_in_place(flat)
    return flat.reshape(scores.shape).mean(axis=0)


savable(ORedNetwork)
