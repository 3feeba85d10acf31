"""One fit for tables and media: label names, known instances, settings, selection, progress and checkpoints."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone

from bagwise.app.media.files import Problem
from bagwise.app.runs.learner import learner_inside, settings_of, with_last_step
from bagwise.app.runs.supervision import Supervision, training_set
from bagwise.calibration.novelty import ATTRIBUTE, Novelty
from bagwise.core.dataset import BagDataset
from bagwise.core.exceptions import CalibrationWarning, InfeasibleBagWarning, InputError
from bagwise.io.checkpoint import Checkpoint, fingerprint, identity_of
from bagwise.model_selection import search_by_rank_loss
from bagwise.pipeline import bag_tags, final_step, fit_parameters
from bagwise.solvers.result import Callback


def fit_dataset(
    model: Any,
    dataset: BagDataset,
    *,
    use_known: bool = False,
    checkpoint: str | os.PathLike[str] | None = None,
    callback: Callback | None = None,
    interval: float = 10.0,
) -> Checkpoint | None:
    """Fit a model of the catalogue on the labelled bags; its classes are then the names of the labels that occur.

    Parameters
    ----------
    model : estimator or pipeline
    dataset : BagDataset with labels
    use_known : bool
        Learn from the known instance labels too. Learners that need them get them in any case.
    checkpoint : folder or None
        Where the state of the fit is kept, so that the same call goes on after an interruption.
    callback : callable or None
        Called after every iteration, by learners that have any.
    interval : float
        Seconds between two checkpoints.

    Returns
    -------
    Checkpoint or None
        To be cleared when the model is saved.
    """
    if dataset.Y is None:
        raise InputError(
            f"Data set {dataset.name!r} carries no bag labels, so nothing can be learned from it; give them in a table "
            "(--labels)."
        )
    final, tags = final_step(model), bag_tags(model)
    wanted = use_known or tags.needs_instance_labels
    if wanted and not tags.instance_labels:
        raise InputError(f"{type(final).__name__} cannot learn from instance labels; train it without.")
    if wanted and dataset.instance_labels is None:
        raise InputError(
            f"Data set {dataset.name!r} has no instance labels, which {type(final).__name__} was to learn from."
        )
    if checkpoint is not None and not tags.checkpoint:
        raise InputError(
            f"{type(final).__name__} keeps no checkpoints; ORedLogisticRegression, ORedNetwork, "
            "SupportInstanceMachine and CLPL do. Train it without."
        )
    training = labelled_bags(dataset, wanted)
    state = None
    if checkpoint is not None:
        state = Checkpoint(checkpoint, _fit_identity(model, training), interval)
    _fit_training_set(model, training, state, callback)
    return state


def labelled_bags(dataset: BagDataset, use_known: bool = False) -> BagDataset:
    """The labelled bags as they are, those without a label too: what to do with these is the learner's to decide."""
    noise = np.zeros(dataset.bags.n_instances, dtype=bool)
    if not use_known and dataset.instance_labels is not None:
        dataset = BagDataset(dataset.bags, dataset.Y, dataset.class_names, labelled=dataset.labelled, name=dataset.name)
    elif dataset.instance_labels is not None and not dataset.labelled.all():
        dataset = dataset[dataset.labelled]
        noise = np.zeros(dataset.bags.n_instances, dtype=bool)
    return training_set(Supervision(dataset, noise), takes_empty=True, takes_known=use_known)


def _fit_training_set(
    model: Any, training: BagDataset, checkpoint: Checkpoint | None = None, callback: Callback | None = None
) -> None:
    """Fit, giving the learner what it takes of known instances, progress and checkpoint."""
    tags = bag_tags(model)
    parameters: dict[str, Any] = {}
    if training.instance_labels is not None:
        parameters["instance_labels"] = training.instance_labels
    if callback is not None and tags.callback:
        parameters["callback"] = callback
    if checkpoint is not None:
        parameters["checkpoint"] = checkpoint
    model.fit(training.bags, training, **fit_parameters(model, **parameters))


def fit_supervised(
    model: Any, supervision: Supervision, *, checkpoint: Path | None = None, callback: Callback | None = None
) -> list[Problem]:
    """Fit the model of a run, and keep with it what its training instances look like.

    Gives the bags whose labels cannot be explained.

    Parameters
    ----------
    model : unfitted estimator or pipeline
    supervision : Supervision
    checkpoint : folder or None
        A fit that was interrupted there goes on, if it was the same one; another one is discarded.
    callback : callable or None
    """
    tags = bag_tags(model)
    training = training_set(supervision, takes_empty=tags.background, takes_known=tags.instance_labels)
    problems = _unexplainable(training)
    state = None
    if checkpoint is not None and tags.checkpoint:
        identity = _fit_identity(model, training)
        try:
            state = Checkpoint(checkpoint, identity)
        except InputError:  # of a fit that was never finished, with other data or settings
            Checkpoint.forget(checkpoint)
            state = Checkpoint(checkpoint, identity)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InfeasibleBagWarning)  # named among the problems
        warnings.simplefilter("ignore", CalibrationWarning)  # the page says so
        try:
            _fit_training_set(model, training, state, callback)
        except InputError as error:
            if not problems:
                raise
            raise InputError(f"{error} The first of {len(problems)} problem(s): {problems[0][1]}") from error
    novelty = Novelty.learn(training.bags)
    setattr(model, ATTRIBUTE, None if novelty is None else novelty.to_dict())
    if state is not None:
        state.clear()
    return problems


def _unexplainable(training: BagDataset) -> list[Problem]:
    assert training.Y is not None
    counts, sizes = training.Y.sum(axis=1, dtype=np.int64), training.bags.sizes
    bags = [(str(training.bag_names[i]), counts[i], sizes[i]) for i in np.flatnonzero(counts > sizes)]
    return [(bag, f"{bag}: {n} labels but {size} instance(s), so not all can be explained.") for bag, n, size in bags]


def select_setting(
    model: Any,
    training: BagDataset,
    name: str,
    values: Sequence[Any],
    *,
    folds: int,
    seed: int | None,
    jobs: int | None,
) -> dict[str, Any]:
    """Set the named setting to the value of least cross-validated rank loss; gives name and value."""
    learner = learner_inside(model)  # calibration changes no ranking, and costs folds within folds
    candidate = clone(with_last_step(model, learner))
    search = search_by_rank_loss(candidate, name, values, cv=folds, random_state=seed)
    best = search.set_params(refit=False, n_jobs=jobs).fit(training.bags, training.label_sets).best_params_
    chosen = {key.rsplit("__", 1)[-1]: value for key, value in best.items()}
    learner.set_params(**chosen)
    return chosen


def _fit_identity(model: Any, training: BagDataset) -> dict[str, Any]:
    """What makes two fits the same: data, labels, settings, versions."""
    X = training.bags.instances
    parts = [X.data, X.indices, X.indptr] if sp.issparse(X) else [X]
    known = [] if training.instance_labels is None else [training.instance_labels.instances]
    names = np.frombuffer("\n".join(map(repr, training.class_names)).encode(), np.uint8)
    assert training.Y is not None
    data = fingerprint(*parts, training.bags.offsets, names, training.Y, *known)
    return {"settings": settings_of(model), **identity_of(model, data)}
