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
from bagwise.scale._source import BagSource
from bagwise.scale.fit import check_learner, fit_source


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

    Examples
    --------
    >>> from bagwise.catalog import make_model
    >>> from bagwise.datasets import make_gaussian_bags
    >>> from bagwise.scale import BagSource, evaluate_source
    >>> source = BagSource.from_dataset(make_gaussian_bags(n_bags=60, random_state=0), piece_bags=25)
    >>> [record["n_test"] for record in evaluate_source(make_model("ored"), source, cv=3)]
    [20, 20, 20]
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
    final, class_names = final_step(model), source.class_names
    # column of the source's labels of each class that was learned, and of -1, the background, none
    position = {name: c for c, name in enumerate(class_names)}
    columns = np.array([position[name] for name in final.classes_.tolist()])
    annotates = bag_tags(model).annotates and source.has_instance_labels
    right = asked = 0
    labels, scores = [], []
    for start, piece in zip(source.bag_starts[:-1], source.pieces(), strict=True):
        inside = test[(test >= start) & (test < start + len(piece))] - start
        if not len(inside):
            continue
        piece = piece if len(inside) == len(piece) else piece[inside]
        X = transform_for_final(model, piece.bags)
        if annotates and piece.instance_labels is not None:
            listed = np.asarray(piece.Y)[:, columns]
            found = final.annotate(X, listed) if mode == "transductive" else final.predict_instances(X)
            codes = np.array([position.get(value, -1) for value in found.tolist()])
            truth = piece.instance_labels.instances
            right, asked = right + int(np.sum((codes == truth) & (truth >= 0))), asked + int(np.sum(truth >= 0))
        if mode == "inductive":
            predicted, scored = np.zeros((len(X), len(class_names)), int), np.full((len(X), len(class_names)), -np.inf)
            predicted[:, columns], scored[:, columns] = final.predict(X), final.decision_function(X)
            labels.append(predicted)
            scores.append(scored)
    record: Record = {"accuracy": right / asked} if asked else {}
    if mode == "inductive":
        all_scores = np.concatenate(scores)
        lowest = all_scores[np.isfinite(all_scores)].min(initial=0.0)  # classes that were not learned are below all
        all_scores[np.isneginf(all_scores)] = lowest - 1.0
        record |= measure_bags(np.asarray(source.Y)[test], np.concatenate(labels), all_scores)
    return record
