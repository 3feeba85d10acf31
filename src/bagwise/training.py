"""Train a model on a data set read from a file: label names, instance labels, progress and checkpoints."""

from __future__ import annotations

import inspect
import os
from typing import Any

import numpy as np
import scipy
import scipy.sparse as sp

from bagwise._version import __version__
from bagwise.bags import BagDataset, Bags
from bagwise.base import sort_classes
from bagwise.batch import settings_of
from bagwise.exceptions import InputError
from bagwise.io.checkpoint import Checkpoint, fingerprint
from bagwise.pipeline import final_step, fit_parameters
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
    """Fit a model of the catalogue; its classes are then the names of the data set's classes.

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
            "(--labels, in Python labels_from)."
        )
    final = final_step(model)
    takes = inspect.signature(final.fit).parameters
    parameters: dict[str, Any] = {}
    if use_known or getattr(final, "needs_instance_labels", False):
        parameters["instance_labels"] = _known_labels(final, dataset, takes)
    if callback is not None and "callback" in takes:
        parameters["callback"] = callback
    keeper = None
    if checkpoint is not None:
        if "checkpoint" not in takes:
            raise InputError(
                f"{type(final).__name__} keeps no checkpoints; ORedLogisticRegression, SupportInstanceMachine and CLPL "
                "do. Train it without."
            )
        keeper = Checkpoint(checkpoint, _identity(model, dataset, use_known), interval)
        parameters["checkpoint"] = keeper
    model.fit(dataset.bags, dataset.label_sets, **fit_parameters(model, **parameters))
    return keeper


def _known_labels(final: Any, dataset: BagDataset, takes: Any) -> Bags:
    """Instance labels as indices into the classes that the learner will have: the sorted names that occur."""
    if "instance_labels" not in takes:
        raise InputError(f"{type(final).__name__} cannot learn from instance labels; train it without.")
    if dataset.instance_labels is None:
        raise InputError(
            f"Data set {dataset.name!r} has no instance labels, which {type(final).__name__} was to learn from."
        )
    classes = sort_classes(set().union(*dataset.label_sets)).tolist()
    column = {name: c for c, name in enumerate(classes)}
    recode = np.array([column.get(name, -1) for name in dataset.class_names] + [-1])
    return Bags(recode[dataset.instance_labels.instances], dataset.instance_labels.offsets)


def _identity(model: Any, dataset: BagDataset, use_known: bool) -> dict[str, Any]:
    X = dataset.bags.instances
    parts = [X.data, X.indices, X.indptr] if sp.issparse(X) else [X]
    known = [dataset.instance_labels.instances] if use_known and dataset.instance_labels is not None else []
    return {
        "data": fingerprint(*parts, dataset.bags.offsets, dataset.Y, *known),
        "classes": [str(name) for name in dataset.class_names],
        "settings": settings_of(model),
        "steps": {key: str(value) for key, value in sorted(model.get_params(deep=True).items())},
        "versions": {"bagwise": __version__, "numpy": np.__version__, "scipy": scipy.__version__},
    }
