"""The papers' protocols on a source: fits by pieces, and what they say of held-out bags gathered piece by piece."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.base import clone

from bagwise.core.exceptions import InputError
from bagwise.model_selection import MODES, Record, measure_bags, split_bags
from bagwise.pipeline import bag_tags, final_step, transform_for_final
from bagwise.scale.fit import check_learner, fit_source
from bagwise.scale.source import BagSource


def evaluate_source(
    estimator: Any,
    source: BagSource,
    mode: str = "inductive",
    cv: int = 10,
    random_state: int | None = 0,
    *,
    name: str | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> list[Record]:
    """As `bagwise.model_selection.evaluate`, on the labelled bags of a source, fold after fold.

    Labels and scores of the bags are in memory, their instances are not.

    Parameters
    ----------
    estimator : estimator or pipeline
        That `fit_source` takes; cloned for every fit.
    source : BagSource
    mode, cv, random_state, name, progress
        As of `bagwise.model_selection.evaluate`.

    Returns
    -------
    list of dict
        The same records.
    """
    if mode not in MODES:
        raise InputError(f"mode={mode!r} is not known; use 'inductive' or 'transductive'.")
    check_learner(estimator)
    if source.Y is None:
        raise InputError(f"Data set {source.name!r} carries no bag labels, so nothing can be learned from it.")
    final = final_step(estimator)
    index = np.flatnonzero(source.labelled)
    everything = np.arange(len(index))
    splits = [(everything, everything)]
    if mode == "inductive":
        splits = split_bags(cv, len(index), random_state)
    base = {"dataset": source.name, "model": name or type(final).__name__, "mode": mode}
    records = []
    for fold, (train, test) in enumerate(splits):
        started = time.perf_counter()
        model = fit_source(clone(estimator), source.labelled_only(index[train]), all_classes=True)
        fitted = time.perf_counter()
        record = {"n_train": len(train), "n_test": len(test), **_judged(model, source, index[test], mode)}
        record |= {"fit_seconds": fitted - started, "predict_seconds": time.perf_counter() - fitted}
        records.append({**base, "fold": fold, **record})
        if progress is not None:
            progress(fold + 1, len(splits))
    return records


def _judged(model: Any, source: BagSource, test: np.ndarray, mode: str) -> Record:
    """The measures of one fold."""
    final, columns = final_step(model), _columns_of(model, source)
    annotates = bag_tags(model).annotates and source.has_instance_labels
    right = asked = 0
    labels, scores = [], []
    for number, piece in enumerate(source.pieces()):
        start, stop = source.bag_starts[number], source.bag_starts[number + 1]
        inside = test[(test >= start) & (test < stop)] - start
        if not len(inside):
            continue
        piece = piece if len(inside) == len(piece) else piece[inside]
        X = transform_for_final(model, piece.bags)
        if annotates and piece.instance_labels is not None:
            told = np.asarray(piece.Y)[:, columns]
            found = final.annotate(X, told) if mode == "transductive" else final.predict_instances(X)
            truth = piece.instance_labels.instances
            given = _as_columns(found, final.classes_, columns)
            right, asked = right + int(np.sum((given == truth) & (truth >= 0))), asked + int(np.sum(truth >= 0))
        if mode == "inductive":
            labels.append(_spread(final.predict(X), columns, len(source.class_names), 0))
            scores.append(_spread(final.decision_function(X), columns, len(source.class_names), -np.inf))
    record: Record = {"accuracy": right / asked} if asked else {}
    if mode == "inductive":
        record |= measure_bags(np.asarray(source.Y)[test], np.concatenate(labels), _finite(np.concatenate(scores)))
    return record


def _columns_of(model: Any, source: BagSource) -> np.ndarray:
    """Column of the source's labels of each class that was learned."""
    column = {name: c for c, name in enumerate(source.class_names)}
    return np.array([column[name] for name in final_step(model).classes_.tolist()])


def _as_columns(values: np.ndarray, classes: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Class values of instances as columns of the source's labels; -1 for the background."""
    column = {value: int(c) for value, c in zip(classes.tolist(), columns, strict=True)}
    return np.array([column.get(value, -1) for value in values.tolist()])


def _spread(values: np.ndarray, columns: np.ndarray, n_columns: int, empty: Any) -> np.ndarray:
    spread = np.full((len(values), n_columns), empty, dtype=np.result_type(values, type(empty)))
    spread[:, columns] = values
    return spread


def _finite(scores: np.ndarray) -> np.ndarray:
    """Below all others where a class was not learned."""
    lowest = scores[np.isfinite(scores)].min(initial=0.0)
    return np.where(np.isneginf(scores), lowest - 1.0, scores)
