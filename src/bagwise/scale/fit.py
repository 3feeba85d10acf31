"""`fit_source`: a model of the catalogue fitted on a source, as it would be in memory."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline
from sklearn.utils import check_random_state

from bagwise.annotation import (
    CLPL,
    NoisyOrLogisticRegression,
    ORedForest,
    ORedLogisticRegression,
    SupportInstanceMachine,
)
from bagwise.annotation.clpl import bags_with_labels
from bagwise.annotation.noisy_or import first_weights
from bagwise.calibration import CalibratedAnnotator, CalibratedLabelSets
from bagwise.core.bags import Bags, offsets_of
from bagwise.core.exceptions import InputError, warn_caller
from bagwise.core.typing import LabelsLike, WeightsLike
from bagwise.core.validation import (
    Evidence,
    Given,
    learn_evidence,
    plain_labels,
    possible_labels,
    sort_classes,
    validate_weights,
)
from bagwise.io.checkpoint import Checkpoint, array_fingerprint, identity_of
from bagwise.io.files import PathLike
from bagwise.pipeline import bag_tags, final_step, fit_parameters, transform_for_final
from bagwise.scale._engine import Engine, Here, Training
from bagwise.scale._objectives import SummedAmbiguousLoss, SummedHinges, SummedLikelihood, SummedNoisyOr
from bagwise.scale._pieces import read_ahead, read_pieces
from bagwise.scale._scaling import fit_step, width_behind
from bagwise.scale._source import BagSource
from bagwise.scale.cluster import OnCluster
from bagwise.solvers.losses import LOSSES
from bagwise.solvers.result import Callback, CheckpointLike
from bagwise.union import LabelledBags

SHARE_OF_SAMPLE = 4  # a learner that needs its bags at once takes as much again for each of its steps


def fit_source(
    model: Any,
    source: BagSource,
    client: Any = None,
    *,
    callback: Callback | None = None,
    checkpoint: PathLike | CheckpointLike | None = None,
    labels: LabelsLike | None = None,
    use_known: bool = False,
    all_classes: bool = False,
    sample_weight: WeightsLike | None = None,
) -> Any:
    """Fit a model on the labelled bags of a source, piece by piece; its classes are the labels that occur.

    The weights are those of a fit in memory: the likelihood is a sum over bags, so that only sums over pieces are kept.

    Parameters
    ----------
    model : estimator or pipeline
        `ORedLogisticRegression`, `CLPL` or `SupportInstanceMachine`, whose every step is a pass, behind steps that
        learn by pieces (`PerInstance` of a scaler, of `RandomFourierFeatures` or of `RBFDictionary`).
        `ORedForest` learns from as many bags, drawn at random, as fit into the source's memory, and says how many.
    source : BagSource
    client : distributed.Client or None
        Workers of a Dask cluster read the pieces, which they share storage for, and compute; by default this process.
    callback : callable or None
        Called after every iteration with its number and the objective.
    checkpoint : folder, Checkpoint or None
        Keeps the state of the fit; the same call goes on after an interruption. A folder is cleared at the end.
    labels : (n, c) matrix or list of label sets, or None
        What is said of each bag of the source, in place of what it lists itself: more than plain lists may be said
        (docs/evidence.md). The columns of a matrix are the classes of the source. All of its classes are learned.
    use_known : bool
        Learn from the known instance labels too.
    all_classes : bool
        Learn all classes of the source, those that no labelled bag carries too. `ORedForest` cannot.
    sample_weight : (n,) array or None
        Weight of each bag of the source in the learner, not in the steps before it.

    Returns
    -------
    model : the same, fitted

    Examples
    --------
    >>> from bagwise.catalog import make_model
    >>> from bagwise.datasets import make_gaussian_bags
    >>> from bagwise.scale import BagSource, fit_source
    >>> source = BagSource.from_dataset(make_gaussian_bags(n_bags=60, random_state=0), piece_bags=25)
    >>> fit_source(make_model("ored"), source)[-1].coef_.shape
    (5, 8)
    """
    check_learner(model, checkpoint is not None)
    source = source.finer(_widest(model, source))
    weights = validate_weights(sample_weight, len(source))
    given, names = (source.Y, source.class_names) if labels is None else _said(source, labels)
    if labels is not None:
        source, all_classes = source.labelled_only(np.arange(len(source))), True
    fit = _SourceFit(model, source, client, callback, use_known, all_classes, weights, given, names)
    learn = LEARNERS[type(fit.final)]
    if not isinstance(checkpoint, (str, os.PathLike)):
        learn(fit, checkpoint)
        return model
    identity = source_identity(model, source, use_known)
    identity |= {} if weights is None else {"sample_weight": weights.tolist()}
    if labels is not None:
        said = fit.labelled.indicator
        said = said if isinstance(said, Evidence) else Evidence(said)
        groups = [] if said.groups is None else said.groups.tolist()
        identity |= {"labels": [array_fingerprint(said.values), repr(groups), *map(repr, fit.classes.tolist())]}
    state = Checkpoint(checkpoint, identity)
    learn(fit, state)
    state.clear()
    return model


def check_learner(model: Any, checkpoint: bool = False) -> None:
    """Refuse a model that cannot learn from pieces, or keep checkpoints where these are wanted."""
    final = final_step(model)
    if isinstance(final, (CalibratedAnnotator, CalibratedLabelSets)):
        raise InputError(
            f"{type(final).__name__} fits again on folds in memory, so it cannot go by pieces; fit the estimator "
            "inside (--set calibrate=none), or fit in memory."
        )
    learns = type(final) in LEARNERS
    if not learns or not (model is final or isinstance(model, Pipeline)):
        names = ", ".join(kind.__name__ for kind in LEARNERS)
        raise InputError(
            f"{type(final if not learns else model).__name__} cannot learn from pieces; {names} can, alone or as the "
            "last step of a pipeline. Use one of them, or fit in memory."
        )
    if checkpoint and not bag_tags(model).checkpoint:
        raise InputError(f"{type(final).__name__} keeps no checkpoints; train it without.")


def source_identity(model: Any, source: BagSource, use_known: bool = False) -> dict[str, Any]:
    """What makes two fits on a source the same."""
    return {"use_known": use_known, **identity_of(model, source.identity())}


def _widest(model: Any, source: BagSource) -> int:
    """Columns of the instances where the steps of a pipeline make most of them."""
    widths = [source.n_features]
    for step in [step for _, step in model.steps[:-1]] if isinstance(model, Pipeline) else []:
        widths.append(width_behind(step, widths[-1], source.n_instances))
    return max(widths)


def _said(source: BagSource, labels: LabelsLike) -> tuple[Given, list[Any]]:
    """What is said of the bags of a source, and the names of the classes, which a matrix has of the source."""
    given, classes, _ = learn_evidence(labels, len(source))
    names = classes.tolist()
    if names == list(range(len(names))) and len(names) == len(source.class_names):
        names = list(source.class_names)
    return given, names


class _SourceFit:
    """One fit: the labelled bags of the source, whose labels that occur, sorted, are the classes."""

    def __init__(
        self,
        model: Any,
        source: BagSource,
        client: Any,
        callback: Callback | None,
        use_known: bool,
        all_classes: bool,
        weights: np.ndarray | None,
        given: Given | None,
        names: list[Any],
    ):
        if given is None or not possible_labels(given).any():
            raise InputError(
                f"{source.name} carries no bag labels, so nothing can be learned from it; add a column of labels."
            )
        self.model, self.final = model, final_step(model)
        self.source, self.client, self.callback = source, client, callback
        self.steps = [step for _, step in model.steps[:-1]] if isinstance(model, Pipeline) else []
        self.training = training = Training.of(source)
        Y = given if training.used.all() else given[training.used]
        if not bag_tags(self.final).evidence:
            Y = plain_labels(Y)
        occur = np.arange(Y.shape[1]) if all_classes else np.flatnonzero(possible_labels(Y).any(axis=0))
        self.classes = sort_classes([names[c] for c in occur])
        column = {name: c for c, name in enumerate(names)}
        order = np.array([column[name] for name in self.classes.tolist()])
        known = None
        if use_known:
            if not bag_tags(self.final).instance_labels:
                raise InputError(f"{type(self.final).__name__} cannot learn from instance labels; train it without.")
            place = {name: c for c, name in enumerate(self.classes.tolist())}
            code = np.array([*(place.get(name, -1) for name in source.class_names), -1])  # the last one: not known
            known = code[source.instance_labels()[np.repeat(training.used, np.diff(source.offsets))]]
            known = known if np.any(known >= 0) else None
        weights = None if weights is None else weights[training.used]
        indicator: Given = Y
        if not np.array_equal(order, np.arange(Y.shape[1])):
            indicator = Y.ordered(order) if isinstance(Y, Evidence) else Y[:, order]
        self.labelled = LabelledBags.of(training.offsets, indicator, known, weights)

    def start(self) -> tuple[Engine, int]:
        """Fit what comes before the learner; gives the engine behind it, and the number of features there."""
        self.final.check_parameters()
        device = getattr(self.final, "device", None)
        if device is not None:
            raise InputError(
                f"device={device!r} holds all instances at once, so it cannot go by pieces; leave it out, or fit "
                "in memory."
            )
        engine: Engine = Here(self.training) if self.client is None else OnCluster.of(self.training, self.client)
        probe = Bags(np.zeros((1, self.source.n_features), self.source.dtype), np.array([0, 1]))
        for step in self.steps:
            if step is None or step == "passthrough":
                continue
            fit_step(step, engine, probe.n_features, probe.instances.dtype)
            engine, probe = engine.then(step), step.transform(probe)
        return engine, probe.n_features

    def set_classes(self, n_features: int) -> None:
        self.final.n_features_in_, self.final.classes_, self.final.single_label_ = n_features, self.classes, False
        self.final.largest_bag_ = int(np.diff(self.labelled.offsets).max())

    def kept(self, learned: np.ndarray) -> LabelledBags:
        """What is said of those bags that have a weight."""
        weights = self.labelled.weights
        learned = learned if weights is None else learned & (weights > 0.0)
        return self.labelled if learned.all() else self.labelled[learned]

    def ored(self, checkpoint: CheckpointLike | None) -> None:
        final: ORedLogisticRegression = self.final
        engine, n_features = self.start()
        last = final.last_fit()
        self.set_classes(n_features)

        def likelihood_of(labelled: LabelledBags, scale: float = 1.0) -> SummedLikelihood:
            options = final.objective_options()
            return SummedLikelihood(engine, labelled, background=final.background_, scale=scale, options=options)

        def sample() -> tuple[Bags, np.ndarray, Bags | None, np.ndarray | None]:
            bags, labelled = self.sample()
            known = None if labelled.known is None else Bags(labelled.known, labelled.offsets)
            return transform_for_final(self.model, bags), labelled.indicator, known, labelled.weights

        final.learn(self.labelled, likelihood_of, sample, last, self.callback, checkpoint)

    def noisy_or(self, checkpoint: CheckpointLike | None) -> None:
        final: NoisyOrLogisticRegression = self.final
        engine, n_features = self.start()
        self.set_classes(n_features)
        parameters, labelled = final.start_rates(), self.kept(np.ones(len(self.labelled), dtype=bool))
        rates = final.fitted_rates(), parameters.possible
        likelihood = SummedNoisyOr(engine, labelled, l2=final.l2, rates=rates)
        start = first_weights(labelled.indicator, likelihood.n_instances, labelled.weights, n_features)
        final.learn(likelihood, start, parameters, self.callback, checkpoint)

    def clpl(self, checkpoint: CheckpointLike | None) -> None:
        engine, n_features = self.start()
        self.set_classes(n_features)
        loss = SummedAmbiguousLoss(engine, self.kept(bags_with_labels(self.labelled.indicator)))
        self.final.learn(loss, loss.n_instances, loss.size, self.callback, checkpoint)

    def machine(self, checkpoint: CheckpointLike | None) -> None:
        final: SupportInstanceMachine = self.final
        engine, n_features = self.start()
        self.set_classes(n_features)
        labelled = self.kept(final.defined_bags(self.labelled.indicator))
        problem = SummedHinges(engine, labelled, LOSSES[final.loss], float(final.alpha), n_features)
        largest, longest = problem.sizes()
        final.learn(problem, largest, lambda: longest, self.callback, checkpoint)

    def on_sample(self, checkpoint: CheckpointLike | None) -> None:
        """On as many of the bags, drawn at random, as a share of the memory holds."""
        bags, labelled = self.sample()
        if len(labelled) < len(self.labelled):
            warn_caller(
                f"{type(self.final).__name__} needs its bags at once: it learned from {len(labelled)} of "
                f"{len(self.labelled)}, drawn at random, which is what {self.source.memory / 2**30:.2g} GB allow. "
                "ORedLogisticRegression learns from all of them.",
                UserWarning,
            )
        parameters: dict[str, Any] = {}
        if labelled.known is not None:
            parameters["instance_labels"] = Bags(labelled.known, labelled.offsets)
        if labelled.weights is not None:
            parameters["sample_weight"] = labelled.weights
        if self.callback is not None and bag_tags(self.model).callback:
            parameters["callback"] = self.callback
        said = labelled.indicator
        if isinstance(said, Evidence):
            said = replace(said, columns=self.classes.tolist())
        else:
            said = [set(self.classes[row == 1].tolist()) for row in said]
        self.model.fit(bags, said, **fit_parameters(self.model, **parameters))

    def sample(self) -> tuple[Bags, LabelledBags]:
        """Bags, drawn at random, of as many bytes as a share of the memory, and what is said of them."""
        source, training = self.source, self.training
        sizes = np.diff(self.labelled.offsets)
        order = check_random_state(self.final.random_state).permutation(len(sizes))
        ends = np.cumsum(sizes[order]) * _widest(self.model, source) * source.dtype.itemsize
        fitting = int(np.searchsorted(ends, source.memory // SHARE_OF_SAMPLE, side="right"))
        index = np.sort(order[: max(fitting, 1)])
        parts = [(i, positions) for i, positions in enumerate(training.split(index)) if len(index[positions])]
        pieces = [source.describe(i) for i, _ in parts]
        chosen = []
        for (number, positions), bags in zip(parts, read_ahead(read_pieces(pieces)), strict=True):
            used = training.used_of(number)
            bags = bags if used is None else bags[used]
            chosen.append(bags[index[positions] - training.starts[number]])
        sizes = np.concatenate([bags.sizes for bags in chosen])
        return Bags(np.concatenate([bags.instances for bags in chosen]), offsets_of(sizes)), self.labelled[index]


LEARNERS: dict[type, Callable[[_SourceFit, CheckpointLike | None], None]] = {
    ORedLogisticRegression: _SourceFit.ored,
    NoisyOrLogisticRegression: _SourceFit.noisy_or,
    CLPL: _SourceFit.clpl,
    SupportInstanceMachine: _SourceFit.machine,
    ORedForest: _SourceFit.on_sample,
}
