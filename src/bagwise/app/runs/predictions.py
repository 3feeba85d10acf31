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
from bagwise.app.runs._evidence import asks_rates, marked_labels
from bagwise.app.runs.label_sets import BETWEEN, NONE, FurtherLabels, split_sets
from bagwise.app.runs.supervision import Supervision, part_of
from bagwise.calibration import CalibratedPrecision, select_at_precision
from bagwise.calibration.novelty import Novelty
from bagwise.core.bags import Bags, cut_bags
from bagwise.core.dataset import BagDataset, as_column
from bagwise.core.exceptions import InfeasibleBagWarning, InputError
from bagwise.core.validation import Given
from bagwise.metrics import reliability_table
from bagwise.pipeline import bag_tags, classes_of, final_step

TRANSDUCTIVE, INDUCTIVE = "transductive", "inductive"
NOVEL, KEPT = "novel", "kept"  # columns that some tables have
MOST_NOISE = 0.5  # what is more probably background is background, whatever the share
DIGITS = 4  # of probabilities that are written
MOST_SCORES = 2**24  # numbers for instances and classes that are worked out at a time
MISSING, SPURIOUS, DISPUTED = "missing", "spurious", "disputed"  # kinds of label issues; the last by observers
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
    further : FurtherLabels or None
        Where instances carry any number of labels: those beyond `label`, which is the most probable one, and -1 for an
        instance without any. None where each carries one.
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
    further: FurtherLabels | None = None

    def names(self, codes: np.ndarray | None = None) -> np.ndarray:
        """(m,) label of each instance, or the class of each code; "" where there is none."""
        return as_column([*self.classes, ""])[self.label if codes is None else codes]

    def entries(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Row, class and probability of each label of each instance, row by row; one of class -1 where it has none."""
        probability = np.ones(len(self.label)) if self.probability is None else self.probability
        rows = np.arange(len(self.label))
        if self.further is None:
            return rows, self.label, probability
        further = self.further
        order = np.argsort(np.concatenate([rows, further.row]), kind="stable")
        pairs = (rows, further.row), (self.label, further.label), (probability, further.probability)
        row, label, probability = (np.concatenate(pair)[order] for pair in pairs)
        return row, label, probability

    def labels_of(self, row: int) -> list[str]:
        """The labels of an instance, the most probable first."""
        codes = [] if self.label[row] < 0 else [int(self.label[row])]
        if self.further is not None:
            first, last = np.searchsorted(self.further.row, [row, row + 1])
            codes += self.further.label[first:last].tolist()
        return [str(self.classes[code]) for code in codes]

    def set_names(self) -> np.ndarray:
        """(m,) the labels of each instance as one text, sorted; its label where it carries but one."""
        names = self.names()
        for row in [] if self.further is None else np.unique(self.further.row).tolist():
            names[row] = BETWEEN.join(sorted(self.labels_of(row)))
        return names

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
        further = None if self.further is None else self.further.aligned(rows)
        return replace(self, **moved, further=further)  # type: ignore[arg-type]

    def updated(self, rows: np.ndarray, others: Predictions, index: np.ndarray) -> Predictions:
        """The same with what others, of the same classes, say of some rows (theirs are `index`)."""
        copies = {name: values.copy() for name, values in vars(self).items() if isinstance(values, np.ndarray)}
        for name, values in copies.items():
            values[rows] = getattr(others, name)[index]
        further = self.further
        if further is not None and others.further is not None:
            further = further.updated(rows, others.further, index, len(self.label))
        return replace(self, **copies, further=further)  # type: ignore[arg-type]

    def corrected(self, supervision: Supervision) -> Predictions:
        """The same with the corrections since; their labels may be new."""
        new = [name for name in supervision.dataset.class_names if name not in set(self.classes)]
        copies = {name: values.copy() for name, values in vars(self).items() if isinstance(values, np.ndarray)}
        copies["checked"] = supervision.checked
        corrected = replace(self, classes=[*self.classes, *new], **copies)  # type: ignore[arg-type]
        return corrected._with_known(supervision)

    def _with_known(self, supervision: Supervision) -> Predictions:
        """Write over what a person knows better, in place, but for further labels."""
        column = {name: c for c, name in enumerate(self.classes)}
        code = np.array([column.get(name, -1) for name in supervision.dataset.class_names] + [-1])
        opened = [(row, self._besides(row, supervision, code)) for row in supervision.open.tolist()]
        named = np.flatnonzero(supervision.known >= 0)
        self.label[named], self.label[supervision.noise] = code[supervision.known[named]], -1
        self.runner_up[supervision.checked] = -1
        if self.probability is not None:
            self.probability[named], self.probability[supervision.noise] = 1.0, 0.0
        if self.noise is not None:
            self.noise[named], self.noise[supervision.noise] = 0.0, 1.0
        if self.further is None:
            return self
        row, also = supervision.also.T
        said = supervision.checked.copy()
        said[supervision.open] = True
        kept = [(row, *entry) for row, entries in opened for entry in entries]
        others = np.array(kept, dtype=np.float64).reshape(-1, 3).T
        entries = (
            np.concatenate([row, others[0].astype(np.int64)]),
            np.concatenate([code[also], others[1].astype(np.int64)]),
            np.concatenate([np.ones(len(row)), others[2]]),
        )
        return replace(self, further=self.further.replaced(said, entries))

    def _besides(self, row: int, supervision: Supervision, code: np.ndarray) -> list[tuple[int, float]]:
        """Class and probability of the labels of an instance that nobody said it carries, where it may carry others."""
        known = {*code[supervision.also[supervision.also[:, 0] == row, 1]].tolist(), int(code[supervision.known[row]])}
        first = [] if self.probability is None else [(int(self.label[row]), float(self.probability[row]))]
        assert self.further is not None
        begin, end = np.searchsorted(self.further.row, [row, row + 1])
        others = zip(self.further.label[begin:end].tolist(), self.further.probability[begin:end].tolist(), strict=True)
        return [(label, chance) for label, chance in (*first, *others) if label >= 0 and label not in known]

    def kept(self, precision: float, max_noise: float) -> np.ndarray:
        """For each of `entries`, whether it is in the largest set of names of which that share is expected to be right.

        What is checked stays.

        See `bagwise.calibration.select_at_precision`. Instances without a label, or more probably noise than
        `max_noise`, are not named and so not kept; nor are novel ones, of which nothing can be expected.
        """
        assert self.probability is not None
        row, label, probability = self.entries()
        named, checked = label >= 0, self.checked[row]
        if self.noise is not None:
            named &= self.noise[row] <= max_noise
        kept = named & checked
        if self.novel is not None:
            named &= ~self.novel[row]
        asked = np.flatnonzero(named & ~checked)
        expected = self.precision.of(label[asked], probability[asked], self.transductive[row[asked]])
        kept[asked] = select_at_precision(expected, precision)
        return kept

    def noise_limit(self, share: float) -> float:
        """The probability of background above which an instance counts as that: one half, or less while that leaves
        fewer than the expected share of those whose bags have labels. Never below the share itself.

        Calibrated probabilities of syllables that are all alike never reach one half, however many are background.
        """
        rows = self.transductive & (self.label >= 0) & ~self.checked
        if self.noise is None or self.further is not None or not rows.any():
            return MOST_NOISE  # an instance that may carry any number of labels is background where it carries none
        enough = float(np.quantile(self.noise[rows], 1.0 - share, method="lower"))
        return round(min(MOST_NOISE, max(enough, share)), DIGITS)

    def reliability(self, now: Predictions) -> list[dict[str, float]] | None:
        """Reliability of what these said of instances that people checked since; None if there are none."""
        row, label, probability = self.entries()
        asked = np.flatnonzero((now.checked & ~self.checked)[row] & (label >= 0))
        if self.probability is None or not len(asked):
            return None
        pairs = zip(row[asked].tolist(), self.names(label[asked]), strict=True)
        right = np.array([str(name) in now.labels_of(i) for i, name in pairs])
        return reliability_table(right, probability[asked])


def predict_labels(model: Any, supervision: Supervision) -> Predictions:
    """Annotate every instance; what a person said of it stands, and what is known of its bag's others counts too."""
    dataset, tags = supervision.dataset, bag_tags(model)
    m, novelty = dataset.bags.n_instances, Novelty.of(model)
    transductive = _has_given_labels(model, supervision)
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
    further = [(NONE.row, NONE.label, NONE.probability)]
    for rows, found in _find_parts(model, supervision, transductive):
        probability = found.probability
        if tags.label_sets:
            labels, second, others = split_sets(found.proba, rows)
            probability = np.where(labels < 0, 0.0, found.proba.max(axis=1, initial=0.0))
            further.append((others[0], others[1], np.round(others[2], DIGITS)))
        else:
            labels, second = found.labels, found.second
        predictions.label[rows], predictions.runner_up[rows] = labels, second
        pairs = (predictions.probability, probability), (predictions.noise, found.background)
        for column, values in pairs:
            if column is not None and values is not None:
                column[rows] = np.round(values, DIGITS)
    if tags.label_sets:
        predictions = replace(predictions, further=FurtherLabels.of(further))
    return predictions._with_known(supervision)


def _has_given_labels(model: Any, supervision: Supervision) -> np.ndarray:
    """(m,) whether the labels of the instance's bag were given, and an instance can be of one of them or of none."""
    dataset, classes = _recoded(model, supervision), {*(classes_of(model) or [])}
    assert dataset.Y is not None
    is_some: np.ndarray = np.any(dataset.Y, axis=1) | bag_tags(model).background
    is_some[[bag for bag, own in supervision.marks.items() if own.names & classes]] = True
    return (dataset.labelled & is_some)[dataset.bags.bag_index]


def _recoded(model: Any, supervision: Supervision) -> BagDataset:
    """The bags by the classes of the model: of labels that came after its fit it knows nothing."""
    return supervision.dataset.recode(classes_of(model) or [], unknown="drop")


def _find_parts(model: Any, supervision: Supervision, transductive: np.ndarray) -> Iterator[tuple[np.ndarray, Any]]:
    """What the model finds of the instances that nobody called background, and of those of bags without labels."""
    label_sets, classes = bag_tags(model).label_sets, classes_of(model) or []
    if label_sets:
        supervision, _ = supervision.without_refuted()
    recoded = _recoded(model, supervision)
    inside = transductive & ~supervision.noise
    parts = [np.flatnonzero(inside), np.flatnonzero(~transductive)]
    if label_sets:  # of bags without known instances no array of them is made
        has_known = np.logical_or.reduceat(supervision.known >= 0, recoded.bags.offsets[:-1])[recoded.bags.bag_index]
        parts = [np.flatnonzero(inside & has_known), np.flatnonzero(inside & ~has_known), parts[1]]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InfeasibleBagWarning)  # named among the problems
        for rows in parts:
            if len(rows):
                part = part_of(recoded, rows)
                known: Any = part.instance_labels
                if label_sets:
                    sets = supervision.known_sets(classes, rows)
                    known = None if sets is None else Bags(sets, part.bags.offsets)
                given = (_given_of(model, supervision, part, rows), known) if transductive[rows[0]] else ()
                yield rows, model.find(part.bags, *given)


def _given_of(model: Any, supervision: Supervision, part: BagDataset, rows: np.ndarray) -> Given:
    """What is said of the labels of the bags of some instances."""
    assert part.Y is not None
    if not supervision.marks or not bag_tags(model).evidence:
        return part.Y
    bags = np.unique(supervision.dataset.bags.bag_index[rows]).tolist()
    return marked_labels(part.Y, part.class_names, supervision.marks, bags, has_rates=asks_rates(model))


def predict_probabilities(model: Any, supervision: Supervision) -> np.ndarray:
    """(m, c) probability of each class of the model for every instance, what a person said of some included.

    A model without probabilities is sure of its labels.
    """
    dataset, classes = supervision.dataset, classes_of(model) or []
    proba = np.zeros((dataset.bags.n_instances, len(classes)), dtype=np.float32)
    transductive = _has_given_labels(model, supervision)
    for rows, found in _find_parts(model, supervision, transductive):
        proba[rows] = found.labels[:, None] == np.arange(len(classes)) if found.proba is None else found.proba
    column = {str(name): c for c, name in enumerate(classes)}
    code = np.array([column.get(str(name), -1) for name in dataset.class_names] + [-1])
    proba[supervision.checked] = 0.0
    rows = np.flatnonzero(code[supervision.known] >= 0)
    proba[rows, code[supervision.known[rows]]] = 1.0
    also = supervision.also[code[supervision.also[:, 1]] >= 0]
    proba[also[:, 0], code[also[:, 1]]] = 1.0
    return proba


def acquisition_order(model: Any, supervision: Supervision, n: int) -> np.ndarray:
    """The order of active learning for the model of a run: rows of at most `n` instances that nobody named yet.

    What was named since the last fit counts. An instance of a label that is new to the model is none of its classes,
    and so is to it what noise is.
    """
    dataset = _recoded(model, supervision)
    if bag_tags(model).label_sets:
        sets = supervision.known_sets(classes_of(model) or [], np.arange(dataset.bags.n_instances))
        known = None if sets is None else Bags(sets, dataset.bags.offsets)
        return query_order(model, dataset.bags, dataset.label_sets, known, n, noise=supervision.noise)
    known = dataset.instance_labels
    new = supervision.known >= 0 if known is None else (supervision.known >= 0) & (known.instances < 0)
    return query_order(model, dataset.bags, dataset.label_sets, known, n, noise=supervision.noise | new)


# ---------------------------------------------------------------------------------------------------------------------
# Labels that may be wrong


def has_rates(model: Any) -> bool:
    """Whether the fitted model models label noise, so that it can report label issues."""
    return hasattr(model, "label_posterior") and any(np.any(rate) for rate in final_step(model).noise_rates().values())


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
    may_be_empty = bag_tags(model).background or np.any(final_step(model).noise_rates()["missed"])
    asked = dataset.labelled & (dataset.Y.any(axis=1) | may_be_empty)
    rows = np.flatnonzero(asked[dataset.bags.bag_index] & ~supervision.noise)
    if not len(rows):
        return []
    part = part_of(dataset, rows)
    given = part.bags, _given_of(model, supervision, part, rows), part.instance_labels
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
    row, label, _ = predictions.entries()
    given: list[set[Any]] = [set() for _ in dataset.bag_names]
    for b, name in zip(dataset.bags.bag_index[row].tolist(), predictions.names(label).tolist(), strict=True):
        given[b].add(name)
    triples = zip(dataset.bag_names, dataset.label_sets, given, strict=True)
    missing = [(str(name), sorted((listed or set()) - labels)) for name, listed, labels in triples]
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
