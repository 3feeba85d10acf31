"""Labels and probabilities of all instances: from the bag's labels where they are known, else from the model alone."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from bagwise.annotation import query_order
from bagwise.app.formats import Annotations
from bagwise.app.formats.results import Piece
from bagwise.app.media.files import Problem
from bagwise.app.runs.supervision import Supervision, part_of
from bagwise.calibration import CalibratedPrecision, select_at_precision
from bagwise.calibration.novelty import Novelty
from bagwise.core.bags import cut_bags
from bagwise.core.dataset import BagDataset, as_column
from bagwise.core.exceptions import InfeasibleBagWarning, InputError
from bagwise.metrics import reliability_table
from bagwise.pipeline import bag_tags, classes_of, final_step

TRANSDUCTIVE, INDUCTIVE = "transductive", "inductive"
NOVEL, KEPT = "novel", "kept"  # columns that some tables have
MOST_NOISE = 0.5  # what is more probably background is background, whatever the share
DIGITS = 4  # of probabilities that are written
MOST_SCORES = 2**24  # numbers for instances and classes that are worked out at a time
MISSING, SPURIOUS = "missing", "spurious"  # kinds of label issues
N_ISSUES = 20  # of each kind
LEAST_PROBABILITY = 0.1  # of a label issue


@dataclass(frozen=True)
class Predictions:
    """The annotations of every instance, as columns.

    Attributes
    ----------
    classes : list
    label, runner_up : (m,) arrays of class indices
        -1 where there is none.
    transductive : (m,) array of bool
        Whether the labels of the instance's bag were known.
    checked : (m,) array of bool
        Whether a person said so.
    probability, noise : (m,) arrays or None
        Of the label, and of belonging to no class; rounded as they are written. None where the model gives none.
    novel : (m,) array of bool or None
        Whether the instance is out of the distribution of the training set; None where the model cannot tell.
    precision : CalibratedPrecision
        What precision can be expected of the probabilities.
    """

    classes: list[Any]
    label: np.ndarray
    runner_up: np.ndarray
    transductive: np.ndarray
    checked: np.ndarray
    probability: np.ndarray | None = None
    noise: np.ndarray | None = None
    novel: np.ndarray | None = None
    precision: CalibratedPrecision = field(default_factory=CalibratedPrecision)

    def names(self, codes: np.ndarray | None = None) -> np.ndarray:
        """(m,) label of each instance, or the class of each code; "" where there is none."""
        return as_column([*self.classes, ""])[self.label if codes is None else codes]

    def columns(self, dataset: BagDataset, rows: Any = slice(None)) -> dict[str, list[Any]]:
        """Columns of plain values, a row per instance (or for each of `rows`): its place, and what was predicted."""
        absent = [None] * len(self.label[rows])
        columns = {name: values[rows].tolist() for name, values in (dataset.locations or {}).items()}
        return columns | {
            "label": self.names(self.label[rows]).tolist(),
            "probability": absent if self.probability is None else self.probability[rows].tolist(),
            "runner_up": self.names(self.runner_up[rows]).tolist(),
            "noise": absent if self.noise is None else self.noise[rows].tolist(),
            "mode": np.where(self.transductive[rows], TRANSDUCTIVE, INDUCTIVE).tolist(),
            "bag": as_column([*dataset.bag_names, None])[dataset.bags.bag_index[rows]].tolist(),
            "instance": dataset.positions[rows].tolist(),
            **({} if self.novel is None else {NOVEL: self.novel[rows].tolist()}),
        }

    def aligned(self, rows: np.ndarray) -> Predictions:
        """The same for other instances: `rows` are their places among these, -1 where nothing was predicted yet."""
        missing = {"label": -1, "runner_up": -1}
        columns = {name: values for name, values in vars(self).items() if isinstance(values, np.ndarray)}
        moved = {
            name: np.where(rows >= 0, values[rows], missing.get(name, 0)).astype(values.dtype)
            for name, values in columns.items()
        }
        return replace(self, **moved)  # type: ignore[arg-type]

    def updated(self, rows: np.ndarray, others: Predictions, index: np.ndarray) -> Predictions:
        """The same with what others, of the same classes, say of some rows (theirs are `index`)."""
        copies = {name: values.copy() for name, values in vars(self).items() if isinstance(values, np.ndarray)}
        for name, values in copies.items():
            values[rows] = getattr(others, name)[index]
        return replace(self, **copies)  # type: ignore[arg-type]

    def corrected(self, supervision: Supervision) -> Predictions:
        """The same with the corrections since; their labels may be new."""
        new = [name for name in supervision.dataset.class_names if name not in set(self.classes)]
        copies = {name: values.copy() for name, values in vars(self).items() if isinstance(values, np.ndarray)}
        copies["checked"] = supervision.checked
        corrected = replace(self, classes=[*self.classes, *new], **copies)  # type: ignore[arg-type]
        corrected._set_known(supervision)
        return corrected

    def _set_known(self, supervision: Supervision) -> None:
        """Write over what a person knows better."""
        column = {name: c for c, name in enumerate(self.classes)}
        code = np.array([column.get(name, -1) for name in supervision.dataset.class_names] + [-1])
        named = np.flatnonzero(supervision.known >= 0)
        self.label[named], self.label[supervision.noise] = code[supervision.known[named]], -1
        self.runner_up[supervision.checked] = -1
        if self.probability is not None:
            self.probability[named], self.probability[supervision.noise] = 1.0, 0.0
        if self.noise is not None:
            self.noise[named], self.noise[supervision.noise] = 0.0, 1.0

    def kept(self, precision: float, max_noise: float) -> np.ndarray:
        """(m,) the largest set of named instances of which that share is expected to be right; what is checked stays.

        See `bagwise.calibration.select_at_precision`. Instances without a label, or more probably noise than
        `max_noise`, are not named and so not kept; nor are novel ones, of which nothing can be expected.
        """
        assert self.probability is not None
        named = self.label >= 0
        if self.noise is not None:
            named &= self.noise <= max_noise
        kept = named & self.checked
        if self.novel is not None:
            named &= ~self.novel
        rows = np.flatnonzero(named & ~self.checked)
        expected = self.precision.of(self.label[rows], self.probability[rows], self.transductive[rows])
        kept[rows] = select_at_precision(expected, precision)
        return kept

    def noise_limit(self, share: float) -> float:
        """The probability of background above which an instance counts as that: one half, or less while that leaves
        fewer than the expected share of those whose bags have labels. Never below the share itself.

        Calibrated probabilities of syllables that are all alike never reach one half, however many are background.
        """
        rows = self.transductive & (self.label >= 0) & ~self.checked
        if self.noise is None or not rows.any():
            return MOST_NOISE
        enough = float(np.quantile(self.noise[rows], 1.0 - share, method="lower"))
        return round(min(MOST_NOISE, max(enough, share)), DIGITS)

    def reliability(self, now: Predictions) -> list[dict[str, float]] | None:
        """Reliability of what these said of instances that people checked since; None if there are none."""
        rows = np.flatnonzero(now.checked & ~self.checked & (self.label >= 0))
        if self.probability is None or not len(rows):
            return None
        return reliability_table(self.names()[rows] == now.names()[rows], self.probability[rows])


def predict_labels(model: Any, supervision: Supervision) -> Predictions:
    """Annotate every instance; what a person said of it stands, and what is known of its bag's others counts too."""
    dataset, tags = _recoded(model, supervision), bag_tags(model)
    m, novelty = dataset.bags.n_instances, Novelty.of(model)
    transductive = _has_given_labels(dataset, tags.background)
    predictions = Predictions(
        classes_of(model) or [],
        np.full(m, -1),
        np.full(m, -1),
        transductive,
        supervision.checked,
        np.zeros(m) if tags.probabilities else None,
        np.zeros(m) if tags.background else None,
        None if novelty is None else novelty.is_novel(dataset.bags.instances),
        CalibratedPrecision.of_model(final_step(model)),
    )
    for rows, found in _find_parts(model, dataset, supervision.noise, transductive):
        predictions.label[rows], predictions.runner_up[rows] = found.labels, found.second
        pairs = (predictions.probability, found.probability), (predictions.noise, found.background)
        for column, values in pairs:
            if column is not None and values is not None:
                column[rows] = np.round(values, DIGITS)
    predictions._set_known(supervision)
    return predictions


def _has_given_labels(dataset: BagDataset, background: bool) -> np.ndarray:
    """(m,) whether the labels of the instance's bag were given, and an instance can be of one of them or of none."""
    assert dataset.Y is not None
    return (dataset.labelled & (dataset.Y.any(axis=1) | background))[dataset.bags.bag_index]


def _recoded(model: Any, supervision: Supervision) -> BagDataset:
    """The bags by the classes of the model: of labels that came after its fit it knows nothing."""
    return supervision.dataset.recode(classes_of(model) or [], unknown="drop")


def _find_parts(
    model: Any, recoded: BagDataset, noise: np.ndarray, transductive: np.ndarray
) -> Iterator[tuple[np.ndarray, Any]]:
    """What the model finds of the instances that nobody called background, and of those of bags without labels."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InfeasibleBagWarning)  # named among the problems
        for rows in (np.flatnonzero(transductive & ~noise), np.flatnonzero(~transductive)):
            if len(rows):
                part = part_of(recoded, rows)
                given = (part.Y, part.instance_labels) if transductive[rows[0]] else ()
                yield rows, model.find(part.bags, *given)


def predict_probabilities(model: Any, supervision: Supervision) -> np.ndarray:
    """(m, c) probability of each class of the model for every instance, what a person said of some included.

    A model without probabilities is sure of its labels.
    """
    dataset, classes = supervision.dataset, classes_of(model) or []
    proba = np.zeros((dataset.bags.n_instances, len(classes)), dtype=np.float32)
    recoded = _recoded(model, supervision)
    transductive = _has_given_labels(recoded, bag_tags(model).background)
    for rows, found in _find_parts(model, recoded, supervision.noise, transductive):
        proba[rows] = found.labels[:, None] == np.arange(len(classes)) if found.proba is None else found.proba
    column = {str(name): c for c, name in enumerate(classes)}
    code = np.array([column.get(str(name), -1) for name in dataset.class_names] + [-1])
    proba[supervision.checked] = 0.0
    rows = np.flatnonzero(code[supervision.known] >= 0)
    proba[rows, code[supervision.known[rows]]] = 1.0
    return proba


def acquisition_order(model: Any, supervision: Supervision, n: int) -> np.ndarray:
    """The order of active learning for the model of a run: rows of at most `n` instances that nobody named yet.

    What was named since the last fit counts. An instance of a label that is new to the model is none of its classes,
    and so is to it what noise is.
    """
    dataset = _recoded(model, supervision)
    known = dataset.instance_labels
    new = supervision.known >= 0 if known is None else (supervision.known >= 0) & (known.instances < 0)
    return query_order(model, dataset.bags, dataset.label_sets, known, n, noise=supervision.noise | new)


# ---------------------------------------------------------------------------------------------------------------------
# Labels that may be wrong


def has_rates(model: Any) -> bool:
    """Whether the fitted model models label noise, so that it can report label issues."""
    return hasattr(model, "label_posterior") and final_step(model).union_model().noise is not None


def label_issues(model: Any, supervision: Supervision, n: int = N_ISSUES) -> list[dict[str, Any]]:
    """The likeliest missing and spurious labels of the labelled bags, at most `n` of each kind, the likeliest first.

    Not those that a person has settled: who said of a bag that it holds a label, or does not, is not asked again.

    Returns
    -------
    list of dict
        "kind" ("missing": not listed but probably there; "spurious": listed but probably not), "bag", "label",
        "probability" (that the label is in the bag), "instance" (number within the bag of the one that most probably
        carries it) and "instance_probability". Empty where the model takes labels for right.
    """
    if not has_rates(model):
        return []
    classes = classes_of(model) or []
    dataset = supervision.dataset.recode(classes, unknown="drop")
    assert dataset.Y is not None
    may_be_empty = bag_tags(model).background or final_step(model).union_model().noise.missed.any()
    asked = dataset.labelled & (dataset.Y.any(axis=1) | may_be_empty)
    rows = np.flatnonzero(asked[dataset.bags.bag_index] & ~supervision.noise)
    if not len(rows):
        return []
    part = part_of(dataset, rows)
    given = part.bags, part.Y, part.instance_labels
    presence, proba = model.label_posterior(*given), model.find(*given).proba
    number = {name: b for b, name in enumerate(part.bag_names)}
    column = {str(label): c for c, label in enumerate(classes)}
    for bag, label in supervision.settled:
        if bag in number and label in column:
            presence[number[bag], column[label]] = np.nan
    issues: list[dict[str, Any]] = []
    listed = part.Y == 1
    chances = ((MISSING, np.where(listed, -1.0, presence)), (SPURIOUS, np.where(listed, 1.0 - presence, -1.0)))
    for kind, chance in chances:
        order = np.argsort(-np.nan_to_num(chance, nan=-1.0), axis=None, kind="stable")[:n]
        for b, c in zip(*np.unravel_index(order, chance.shape), strict=True):
            if not chance[b, c] >= LEAST_PROBABILITY:
                break
            first, last = part.bags.offsets[b : b + 2]
            best = first + int(proba[first:last, c].argmax())
            issues.append(
                {
                    "kind": kind,
                    "bag": str(part.bag_names[b]),
                    "label": str(classes[c]),
                    "probability": round(float(presence[b, c]), DIGITS),
                    "instance": int(dataset.positions[rows[best]]),
                    "instance_probability": round(float(proba[best, c]), DIGITS),
                }
            )
    return issues


def unexplained_labels(supervision: Supervision, predictions: Predictions) -> list[tuple[str, list[str]]]:
    """For each bag the labels that it lists and none of its instances was given."""
    dataset = supervision.dataset
    given = dataset.bags.split(predictions.names())
    triples = zip(dataset.bag_names, dataset.label_sets, given, strict=True)
    missing = [(str(name), sorted((listed or set()) - set(labels))) for name, listed, labels in triples]
    return [(name, labels) for name, labels in missing if labels]


def never_given(
    annotations: Annotations,
    unexplained: Sequence[tuple[str, list[str]]],
    named: Sequence[Problem],
) -> list[Problem]:
    """Labels that no instance of any bag was given, but for those of bags that are named as a problem already."""
    media_type, given = annotations.media_type, {row["label"] for row in annotations.rows}
    bags: dict[str, list[str]] = {}
    for bag, labels in unexplained:
        for label in labels:
            bags.setdefault(label, []).append(bag)
    known = {name for name, _ in named}
    return [
        (
            label,
            f"The label {label!r} was given to no instance of the {len(names)} {media_type.bags} that list "
            f"it, such as {names[0]}; check what was found there, or label some {media_type.instances} of it.",
        )
        for label, names in sorted(bags.items())
        if label not in given and not known.intersection(names)
    ]


# ---------------------------------------------------------------------------------------------------------------------
# Pieces of a file


def annotate_piece(model: Any, dataset: BagDataset, use_labels: bool) -> Piece:
    """Columns bag, instance, the predictions (`Predictions.columns`), places, and truth where it is known.

    `use_labels` chooses among the labels of the bag (transductive), where somebody labelled it; otherwise the features
    alone decide.
    """
    if use_labels:
        _refuse_unknown(dataset, classes_of(model) or [])
        bare = replace(dataset, instance_labels=None)
    else:
        Y = np.zeros((len(dataset), dataset.n_classes), np.uint8)
        bare = replace(dataset, instance_labels=None, Y=Y, labelled=np.zeros(len(dataset), bool))
    predictions = predict_labels(model, Supervision(bare, np.zeros(dataset.bags.n_instances, dtype=bool)))
    columns = predictions.columns(bare)
    piece = {name: columns.pop(name) for name in ("bag", "instance", "label")}
    for name, values in (("probability", predictions.probability), ("noise", predictions.noise)):
        cells = columns.pop(name)
        if values is not None:
            piece[name] = cells
    if predictions.probability is None:
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
