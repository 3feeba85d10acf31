"""`fit_source`: a model of the catalogue fitted on a source, as it would be in memory."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline
from sklearn.utils import check_random_state

from bagwise.annotation import CLPL, ORedForest, ORedLogisticRegression, SupportInstanceMachine
from bagwise.annotation.clpl import labelled_bags
from bagwise.calibration import CalibratedAnnotator
from bagwise.core.bags import Bags, offsets_of
from bagwise.core.exceptions import InputError, warn_caller
from bagwise.core.typing import WeightsLike
from bagwise.core.validation import sort_classes, validate_weights
from bagwise.io.checkpoint import Checkpoint, identity_of
from bagwise.pipeline import bag_tags, final_step, fit_parameters, transform_for_final
from bagwise.scale.ahead import read_ahead
from bagwise.scale.cluster import OnCluster
from bagwise.scale.engine import Engine, Here, Training
from bagwise.scale.learner import SummedAmbiguousLoss, SummedLikelihood
from bagwise.scale.machine import SummedHinges
from bagwise.scale.pieces import read_pieces
from bagwise.scale.scaling import Passes, fit_step, width_behind
from bagwise.scale.source import BagSource
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
    checkpoint: str | os.PathLike[str] | CheckpointLike | None = None,
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
        learn by pieces (`bagwise.scale.scaling`).
        `ORedForest` learns from as many bags, drawn at random, as fit into the source's memory, and says how many.
    source : BagSource
    client : distributed.Client or None
        Workers of a Dask cluster read the pieces, which they share storage for, and compute; by default this process.
    callback : callable or None
        Called after every iteration with its number and the objective.
    checkpoint : folder, Checkpoint or None
        Keeps the state of the fit; the same call goes on after an interruption. A folder is cleared at the end.
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
    source = source.finer(widest(model, source))
    final = final_step(model)
    weights = validate_weights(sample_weight, len(source))
    labels = _labels_of(source, final, use_known, all_classes, weights)
    own = isinstance(checkpoint, (str, os.PathLike))
    if own:
        identity = source_identity(model, source, use_known)
        identity |= {} if weights is None else {"sample_weight": weights.tolist()}
        checkpoint = Checkpoint(checkpoint, identity)  # type: ignore[arg-type]
    LEARNERS[type(final)](model, source, labels, client, callback, checkpoint)
    if own:
        checkpoint.clear()  # type: ignore[union-attr]
    return model


def check_learner(model: Any, checkpoint: bool = False) -> None:
    """Refuse a model that cannot learn from pieces, or keep checkpoints where these are wanted."""
    final = final_step(model)
    if isinstance(final, CalibratedAnnotator):
        raise InputError(
            "CalibratedAnnotator fits again on folds in memory, so it cannot go by pieces; fit the estimator inside "
            "(--set calibrate=none), or fit in memory."
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


@dataclass(frozen=True)
class _Labels:
    """Of the labelled bags of a source: those that occur, sorted, are the classes."""

    classes: np.ndarray
    training: Training
    labelled: LabelledBags


def _labels_of(
    source: BagSource, final: Any, use_known: bool, all_classes: bool, weights: np.ndarray | None
) -> _Labels:
    if source.Y is None or not source.Y.any():
        raise InputError(
            f"{source.name} carries no bag labels, so nothing can be learned from it; add a column of labels."
        )
    training = Training.of(source)
    Y = source.Y if training.used.all() else source.Y[training.used]
    weights = None if weights is None else weights[training.used]
    occur = np.arange(Y.shape[1]) if all_classes else np.flatnonzero(Y.any(axis=0))
    classes = sort_classes([source.class_names[c] for c in occur])
    column = {name: c for c, name in enumerate(source.class_names)}
    order = np.array([column[name] for name in classes.tolist()])
    indicator = Y if np.array_equal(order, np.arange(Y.shape[1])) else Y[:, order]
    known = None
    if use_known:
        if not bag_tags(final).instance_labels:
            raise InputError(f"{type(final).__name__} cannot learn from instance labels; train it without.")
        code = np.full(Y.shape[1] + 1, -1)  # the last entry takes the -1 of unknown instances
        code[order] = np.arange(len(order))
        used = np.repeat(training.used, np.diff(source.offsets))
        known = code[source.instance_labels()[used]]
        known = known if np.any(known >= 0) else None
    return _Labels(classes, training, LabelledBags.of(training.offsets, indicator, known, weights))


def widest(model: Any, source: BagSource) -> int:
    """Columns of the instances where the steps of a pipeline make most of them."""
    widths = [source.n_features]
    for step in [step for _, step in model.steps[:-1]] if isinstance(model, Pipeline) else []:
        widths.append(width_behind(step, widths[-1], source.n_instances))
    return max(widths)


# ---------------------------------------------------------------------------------------------------------------------
# Learners


def _engine(training: Training, client: Any) -> Engine:
    return Here(training) if client is None else OnCluster.of(training, client)


def _fit_steps(model: Any, engine: Engine, training: Training) -> tuple[Engine, int]:
    """Fit what comes before the learner; gives the engine behind it, and the number of features there."""
    source = training.source
    probe = Bags(np.zeros((1, source.n_features), source.dtype), np.array([0, 1]))
    steps = [step for _, step in model.steps[:-1]] if isinstance(model, Pipeline) else []
    for step in steps:
        if step is None or step == "passthrough":
            continue
        fit_step(step, Passes(engine, training, probe.n_features, probe.instances.dtype))
        engine, probe = engine.then(step), step.transform(probe)
    return engine, probe.n_features


def _fit_ored(
    model: Any,
    source: BagSource,
    labels: _Labels,
    client: Any,
    callback: Callback | None,
    checkpoint: CheckpointLike | None,
) -> None:
    final: ORedLogisticRegression = final_step(model)
    final.check_parameters()
    if final.device is not None:
        raise InputError(
            f"device={final.device!r} holds all instances at once, so it cannot go by pieces; leave it out, or fit in "
            "memory."
        )
    engine, n_features = _fit_steps(model, _engine(labels.training, client), labels.training)
    last = final.last_fit()
    _set_classes(final, labels, n_features)

    def likelihood_of(labelled: LabelledBags, scale: float = 1.0) -> SummedLikelihood:
        return SummedLikelihood(
            engine, labels.training, labelled, background=final.background, scale=scale,
            options=final.objective_options(),
        )  # fmt: skip

    def sample() -> tuple[Bags, np.ndarray, Bags | None, np.ndarray | None]:
        bags, labelled = _sample(model, source, labels)
        known = None if labelled.known is None else Bags(labelled.known, labelled.offsets)
        return transform_for_final(model, bags), labelled.indicator, known, labelled.weights

    final.learn(labels.labelled, likelihood_of, sample, last, callback, checkpoint)


def _fit_clpl(
    model: Any,
    source: BagSource,
    labels: _Labels,
    client: Any,
    callback: Callback | None,
    checkpoint: CheckpointLike | None,
) -> None:
    final: CLPL = final_step(model)
    final.check_parameters()
    engine, n_features = _fit_steps(model, _engine(labels.training, client), labels.training)
    _set_classes(final, labels, n_features)
    learned = labelled_bags(labels.labelled.indicator)
    if labels.labelled.weights is not None:
        learned = learned & (labels.labelled.weights > 0.0)
    labelled = labels.labelled[learned]
    loss = SummedAmbiguousLoss(engine, labels.training, labelled)
    final.learn(loss, loss.n_instances, loss.size, callback, checkpoint)


def _fit_machine(
    model: Any,
    source: BagSource,
    labels: _Labels,
    client: Any,
    callback: Callback | None,
    checkpoint: CheckpointLike | None,
) -> None:
    final: SupportInstanceMachine = final_step(model)
    final.check_parameters()
    engine, n_features = _fit_steps(model, _engine(labels.training, client), labels.training)
    _set_classes(final, labels, n_features)
    keep = final.defined_bags(labels.labelled.indicator)
    if labels.labelled.weights is not None:
        keep = keep & (labels.labelled.weights > 0.0)
    labelled = labels.labelled if keep.all() else labels.labelled[keep]
    problem = SummedHinges(engine, labels.training, labelled, LOSSES[final.loss], float(final.alpha), n_features)
    largest, longest = problem.sizes()
    final.learn(problem, largest, lambda: longest, callback, checkpoint)


def _set_classes(final: Any, labels: _Labels, n_features: int) -> None:
    final.n_features_in_, final.classes_, final.single_label_ = n_features, labels.classes, False


def _fit_sample(
    model: Any,
    source: BagSource,
    labels: _Labels,
    client: Any,
    callback: Callback | None,
    checkpoint: CheckpointLike | None,
) -> None:
    """On as many of the bags, drawn at random, as a share of the memory holds."""
    bags, labelled = _sample(model, source, labels)
    if len(labelled) < len(labels.labelled):
        warn_caller(
            f"{type(final_step(model)).__name__} needs its bags at once: it learned from {len(labelled)} of "
            f"{len(labels.labelled)}, drawn at random, which is what {source.memory / 2**30:.2g} GB allow. "
            "ORedLogisticRegression learns from all of them.",
            UserWarning,
        )
    parameters: dict[str, Any] = {}
    if labelled.known is not None:
        parameters["instance_labels"] = Bags(labelled.known, labelled.offsets)
    if labelled.weights is not None:
        parameters["sample_weight"] = labelled.weights
    if callback is not None and bag_tags(model).callback:
        parameters["callback"] = callback
    sets = [set(labels.classes[row == 1].tolist()) for row in labelled.indicator]
    model.fit(bags, sets, **fit_parameters(model, **parameters))


def _sample(model: Any, source: BagSource, labels: _Labels) -> tuple[Bags, LabelledBags]:
    """Bags, drawn at random, of as many bytes as a share of the memory, and what is said of them."""
    sizes = np.diff(labels.labelled.offsets)
    order = check_random_state(final_step(model).random_state).permutation(len(sizes))
    row_bytes = widest(model, source) * source.dtype.itemsize
    fitting = int(np.searchsorted(np.cumsum(sizes[order]) * row_bytes, source.memory // SHARE_OF_SAMPLE, side="right"))
    index = np.sort(order[: max(fitting, 1)])
    return _gather(labels.training, index), labels.labelled[index]


def _gather(training: Training, index: np.ndarray) -> Bags:
    """These bags, numbers of used ones in rising order, in memory."""
    parts = [(i, positions) for i, positions in enumerate(training.split(index)) if len(index[positions])]
    pieces = [training.source.describe(i) for i, _ in parts]
    chosen = []
    for (number, positions), bags in zip(parts, read_ahead(read_pieces(pieces)), strict=True):
        used = training.used_of(number)
        bags = bags if used is None else bags[used]
        chosen.append(bags[index[positions] - training.starts[number]])
    sizes = np.concatenate([bags.sizes for bags in chosen])
    return Bags(np.concatenate([bags.instances for bags in chosen]), offsets_of(sizes))


LEARNERS: dict[type, Callable[..., None]] = {
    ORedLogisticRegression: _fit_ored,
    CLPL: _fit_clpl,
    SupportInstanceMachine: _fit_machine,
    ORedForest: _fit_sample,
}
