"""Labels and probabilities of all instances: from the bag's labels where they are known, else from the model alone."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from bagwise.annotation import query_order
from bagwise.app.formats.results import Piece
from bagwise.app.runs.supervision import Supervision
from bagwise.calibration import CalibratedPrecision, select_at_precision
from bagwise.calibration.novelty import Novelty
from bagwise.core.bags import Bags, cut_bags, offsets_of
from bagwise.core.base import Findings
from bagwise.core.dataset import BagDataset, as_column
from bagwise.core.exceptions import InfeasibleBagWarning, InputError
from bagwise.metrics import reliability_table
from bagwise.pipeline import bag_tags, classes_of, final_step

TRANSDUCTIVE, INDUCTIVE = "transductive", "inductive"
NOVEL, KEPT = "novel", "kept"  # columns that some tables have
DIGITS = 4  # of probabilities that are written
MOST_SCORES = 2**24  # numbers for instances and classes that are worked out at a time


@dataclass(frozen=True)
class Found:
    """The annotations of every instance, as columns.

    Attributes
    ----------
    classes : list
    label, runner_up : (m,) arrays of class indices
        -1 where there is none.
    probability, noise : (m,) arrays or None
        Of the label, and of belonging to no class; rounded as they are written. None where the model gives none.
    transductive : (m,) array of bool
        Whether the labels of the instance's bag were known.
    checked : (m,) array of bool
        Whether a person said so.
    novel : (m,) array of bool or None
        Whether the instance is out of the distribution of the training set; None where the model cannot tell.
    promise : CalibratedPrecision
        What precision can be expected of the probabilities.
    """

    classes: list[Any]
    label: np.ndarray
    runner_up: np.ndarray
    probability: np.ndarray | None
    noise: np.ndarray | None
    transductive: np.ndarray
    checked: np.ndarray
    novel: np.ndarray | None = None
    promise: CalibratedPrecision = field(default_factory=CalibratedPrecision)


def find_labels(model: Any, supervision: Supervision) -> Found:
    """Annotate every instance; what a person said of it stands, and what is known of its bag's others counts too."""
    dataset, classes, tags = supervision.dataset, classes_of(model) or [], bag_tags(model)
    m, novelty = dataset.bags.n_instances, Novelty.of(model)
    assert dataset.Y is not None
    given_bags = dataset.labelled & (dataset.Y.any(axis=1) | tags.background)
    transductive = given_bags[dataset.bags.bag_index]
    found = Found(
        classes,
        np.full(m, -1),
        np.full(m, -1),
        np.zeros(m) if tags.probabilities else None,
        np.zeros(m) if tags.background else None,
        transductive,
        supervision.checked,
        None if novelty is None else novelty.is_novel(dataset.bags.instances),
        CalibratedPrecision.of_model(final_step(model)),
    )
    recoded = dataset.recode(classes, unknown="drop")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InfeasibleBagWarning)  # named among the problems
        for rows in (np.flatnonzero(transductive & ~supervision.noise), np.flatnonzero(~transductive)):
            if len(rows):
                _put(found, rows, _find_rows(model, recoded, rows, is_told=bool(transductive[rows[0]])))
    _say(found, supervision, classes)
    return found


def _find_rows(model: Any, dataset: BagDataset, rows: np.ndarray, is_told: bool) -> Findings:
    """What the model says of some instances: bags without the instances that are noise."""
    index, sizes = np.unique(dataset.bags.bag_index[rows], return_counts=True)
    offsets = offsets_of(sizes)
    whole = len(rows) == dataset.bags.n_instances
    bags = dataset.bags if whole else Bags(dataset.bags.instances[rows], offsets)
    if not is_told:
        return model.find(bags)
    assert dataset.Y is not None
    known = None
    if dataset.instance_labels is not None:
        known = Bags(dataset.instance_labels.instances[rows], offsets)
    return model.find(bags, dataset.Y[index], instance_labels=known)


def _put(found: Found, rows: np.ndarray, findings: Findings) -> None:
    found.label[rows], found.runner_up[rows] = findings.labels, findings.second
    if found.probability is not None and findings.probability is not None:
        found.probability[rows] = np.round(findings.probability, DIGITS)
    if found.noise is not None and findings.background is not None:
        found.noise[rows] = np.round(findings.background, DIGITS)


def _say(found: Found, supervision: Supervision, classes: Sequence[Any]) -> None:
    """Write over what a person knows better."""
    column = {name: c for c, name in enumerate(classes)}
    code = np.array([column.get(name, -1) for name in supervision.dataset.class_names] + [-1])
    named = np.flatnonzero(supervision.known >= 0)
    found.label[named], found.label[supervision.noise] = code[supervision.known[named]], -1
    found.runner_up[supervision.checked] = -1
    if found.probability is not None:
        found.probability[named], found.probability[supervision.noise] = 1.0, 0.0
    if found.noise is not None:
        found.noise[named], found.noise[supervision.noise] = 0.0, 1.0


def with_said(found: Found, supervision: Supervision) -> Found:
    """The annotations with the corrections since; their labels may be new."""
    classes = [*found.classes, *(name for name in supervision.dataset.class_names if name not in set(found.classes))]
    copies = {
        name: values.copy() if isinstance(values, np.ndarray) else values
        for name, values in vars(found).items()
        if name not in ("classes", "checked")
    }
    said = Found(classes=classes, checked=supervision.checked, **copies)  # type: ignore[arg-type]
    _say(said, supervision, classes)
    return said


def finding_columns(dataset: BagDataset, found: Found, rows: Any = slice(None)) -> dict[str, list[Any]]:
    """Columns of plain values, a row per instance (or for each of `rows`): its place, what was worked out for it."""
    names, label = as_column([*found.classes, ""]), found.label[rows]
    absent = [None] * len(label)
    columns = {name: values[rows].tolist() for name, values in (dataset.locations or {}).items()}
    return columns | {
        "label": names[label].tolist(),
        "probability": absent if found.probability is None else found.probability[rows].tolist(),
        "runner_up": names[found.runner_up[rows]].tolist(),
        "noise": absent if found.noise is None else found.noise[rows].tolist(),
        "mode": np.where(found.transductive[rows], TRANSDUCTIVE, INDUCTIVE).tolist(),
        "bag": as_column([*dataset.bag_names, None])[dataset.bags.bag_index[rows]].tolist(),
        "instance": dataset.positions[rows].tolist(),
        **({} if found.novel is None else {NOVEL: found.novel[rows].tolist()}),
    }


def finding_rows(dataset: BagDataset, found: Found) -> list[dict[str, Any]]:
    """The same as one dict an instance."""
    columns = finding_columns(dataset, found)
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def keep_for_precision(found: Found, precision: float, max_noise: float) -> np.ndarray:
    """(m,) the largest set of named instances of which that share is expected to be right; what people said stays.

    See `bagwise.calibration.select_at_precision`. Instances without a label, or more probably noise than `max_noise`,
    are not named and so not kept; nor are novel ones, of which nothing can be expected.
    """
    assert found.probability is not None
    named = found.label >= 0
    if found.noise is not None:
        named &= found.noise <= max_noise
    kept = named & found.checked
    if found.novel is not None:
        named &= ~found.novel
    open_rows = np.flatnonzero(named & ~found.checked)
    columns = (found.label, found.probability, found.transductive)
    promised = found.promise.of(*(column[open_rows] for column in columns))
    kept[open_rows] = select_at_precision(promised, precision)
    return kept


def said_reliability(first: Found, now: Found) -> list[dict[str, float]] | None:
    """Reliability of what the first fit said of the instances that people looked at since; None if there are none."""
    looked_at = np.flatnonzero(now.checked & ~first.checked & (first.label >= 0))
    if first.probability is None or not len(looked_at):
        return None
    before, after = (as_column([*found.classes, ""])[found.label[looked_at]] for found in (first, now))
    return reliability_table(before == after, first.probability[looked_at])


def ask_order(model: Any, supervision: Supervision, n: int) -> np.ndarray:
    """`query_order` for the model of a run: rows of at most `n` instances that nobody named yet.

    What was named since the last fit counts. An instance of a label that is new to the model is none of its classes,
    and so is to it what noise is.
    """
    dataset = supervision.dataset.recode(classes_of(model) or [], unknown="drop")
    known = dataset.instance_labels
    strange = supervision.known >= 0 if known is None else (supervision.known >= 0) & (known.instances < 0)
    return query_order(model, dataset.bags, dataset.label_sets, known, n, noise=supervision.noise | strange)


# ---------------------------------------------------------------------------------------------------------------------
# Pieces of a file


def annotate_piece(model: Any, dataset: BagDataset, use_labels: bool) -> Piece:
    """Columns bag, instance, what was found (see `finding_columns`), places, and truth where it is known.

    `use_labels` chooses among the labels of the bag (transductive), where somebody labelled it; otherwise the features
    alone decide.
    """
    bare = BagDataset(
        dataset.bags,
        dataset.Y if use_labels else np.zeros((len(dataset), dataset.n_classes), np.uint8),
        dataset.class_names,
        bag_names=dataset.bag_names,
        locations=dataset.locations,
        labelled=dataset.labelled if use_labels else np.zeros(len(dataset), bool),
    )
    if use_labels:
        _refuse_unknown(bare, classes_of(model) or [])
    found = find_labels(model, Supervision(bare, np.zeros(dataset.bags.n_instances, dtype=bool)))
    columns = finding_columns(bare, found)
    first = ("bag", "instance", "label")
    piece = {name: columns.pop(name) for name in first}
    for name, values in (("probability", found.probability), ("noise", found.noise)):
        cells = columns.pop(name)
        if values is not None:
            piece[name] = cells
    if found.probability is None:
        columns.pop("runner_up")
    if dataset.instance_labels is not None:
        piece["truth"] = as_column([*dataset.class_names, ""])[dataset.instance_labels.instances].tolist()
    return piece | columns


def _refuse_unknown(dataset: BagDataset, classes: Sequence[Any]) -> None:
    """Refuse bags with labels that the model never saw, by name: a number would count within the piece only."""
    unknown = [name for name in dataset.class_names if name not in set(classes)]
    for name, labels in zip(dataset.bag_names, dataset.label_sets, strict=True) if unknown else ():
        strange = [label for label in unknown if label in (labels or set())]
        if strange:
            raise InputError(
                f"The bag {name!r} carries the label {strange[0]!r}, which the model does not know; leave it out, "
                "train again, or do not use the labels (--inductive)."
            )


def in_parts(model: Any, dataset: BagDataset) -> Iterator[BagDataset]:
    """The bags in parts of at most `MOST_SCORES` numbers for instances and classes, or of one bag."""
    most = max(MOST_SCORES // max(len(classes_of(model) or []), 1), 1)
    cuts = cut_bags(dataset.bags.offsets, most)
    for first, last in cuts:
        yield dataset if len(cuts) == 1 else dataset[first:last]


def predict_piece(model: Any, dataset: BagDataset, with_scores: bool = False) -> Piece:
    """Columns bag, labels and, if asked for, ``score:NAME`` of every class."""
    classes = classes_of(model) or []
    predicted = np.asarray(model.predict(dataset.bags))
    if predicted.ndim == 1:
        sets = [[label] for label in predicted.tolist()]
    else:  # bags share few different label sets, so each is written out once
        packed = np.packbits(predicted.astype(bool), axis=1)
        _, first, which = np.unique(packed, axis=0, return_index=True, return_inverse=True)
        distinct = [
            [label for label, bit in zip(classes, row, strict=True) if bit] for row in predicted[first].tolist()
        ]
        sets = [distinct[i] for i in which]
    columns: dict[str, Sequence[Any]] = {"bag": dataset.bag_names, "labels": sets}
    if with_scores:
        scores = np.asarray(model.decision_function(dataset.bags))
        if scores.ndim == 1:
            columns[f"score:{classes[-1]}"] = scores.tolist()
        else:
            columns |= {f"score:{label}": scores[:, c].tolist() for c, label in enumerate(classes)}
    return columns
