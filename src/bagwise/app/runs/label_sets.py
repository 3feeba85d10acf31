"""Instances that carry any number of labels: what a learner of label sets says of them, and what a person does."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bagwise.app.runs.corrections import ALSO, CONFIRMED, LABEL, NOISE, Correction, check_correction
from bagwise.app.runs.layout import RunLayout
from bagwise.core.exceptions import InputError

BETWEEN = "; "  # of the labels of one instance, in one cell
CARRIED = 0.5  # probability above which an instance is said to carry a label


@dataclass(frozen=True)
class FurtherLabels:
    """The labels of instances beyond their first, an entry per label: by row, then the most probable first.

    Attributes
    ----------
    row, label : (k,) int arrays
        Number of the instance, and index of the class.
    probability : (k,) array
    """

    row: np.ndarray
    label: np.ndarray
    probability: np.ndarray

    @classmethod
    def of(cls, entries: Sequence[tuple[np.ndarray, np.ndarray, np.ndarray]]) -> FurtherLabels:
        """Parts put together and in order."""
        row, label, probability = (np.concatenate(part) for part in zip(*entries, strict=True))
        order = np.lexsort((label, -probability, row))
        return cls(row[order].astype(np.int64), label[order].astype(np.int64), probability[order].astype(np.float64))

    def replaced(self, rows: np.ndarray, entries: tuple[np.ndarray, np.ndarray, np.ndarray]) -> FurtherLabels:
        """With others for the instances of which a mask over all says so."""
        stay = ~rows[self.row]
        return FurtherLabels.of([(self.row[stay], self.label[stay], self.probability[stay]), entries])

    def aligned(self, rows: np.ndarray) -> FurtherLabels:
        """For other instances: `rows` are their places among these, -1 where there is none."""
        known = np.flatnonzero(rows >= 0)
        place = np.full(max(int(rows.max(initial=-1)), int(self.row.max(initial=-1))) + 1, -1)
        place[rows[known]] = known
        new = place[self.row]
        return FurtherLabels.of([(new[new >= 0], self.label[new >= 0], self.probability[new >= 0])])

    def updated(self, rows: np.ndarray, others: FurtherLabels, index: np.ndarray, n_instances: int) -> FurtherLabels:
        """With what others say of the instances `rows` out of `n_instances`; theirs are `index`."""
        changed = np.zeros(n_instances, dtype=bool)
        changed[rows] = True
        place = dict(zip(index.tolist(), rows.tolist(), strict=True))
        kept = [i for i, row in enumerate(others.row.tolist()) if row in place]
        new = np.array([place[row] for row in others.row[kept].tolist()], dtype=np.int64)
        return self.replaced(changed, (new, others.label[kept], others.probability[kept]))


NONE = FurtherLabels(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64), np.empty(0))


def split_sets(proba: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, Any]:
    """The first label of each instance, -1 where it carries none, the next that it does not carry, and the others.

    `proba` are the (k, c) probabilities of the labels of the instances `rows`.
    """
    carried = proba > CARRIED
    first = np.where(carried.any(axis=1), proba.argmax(axis=1), -1)
    second = np.where(carried, -1.0, proba).argmax(axis=1) if proba.shape[1] else first
    second = np.where(carried.all(axis=1), -1, second)
    others = carried.copy()
    named = np.flatnonzero(first >= 0)
    others[named, first[named]] = False
    place, label = np.nonzero(others)
    return first, second, (rows[place], label, proba[place, label])


def row_per_label(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Rows with ``labels``, a list of what is said of each, as one row per label; one without a label stays."""
    found: list[dict[str, Any]] = []
    for row in rows:
        plain = {name: value for name, value in row.items() if name != "labels"}
        found += [{**plain, **label} for label in row["labels"]] or [plain]
    return found


def check_label_set(given: Any, sizes: Mapping[str, int] | RunLayout) -> tuple[str, int | None, list[Any]]:
    """Bag, instance and labels of what somebody wants to say; a label, or a list of all that the instance carries.

    An ellipsis in the list, which says that it may carry others too, is its last entry then.
    """
    try:
        bag, instance, labels = given
    except (TypeError, ValueError):
        labels = None
    if not isinstance(labels, (list, tuple, set, frozenset)):
        bag, instance, label = check_correction(given, sizes)
        return bag, instance, [label]
    names = [*dict.fromkeys(sorted(labels, key=str) if isinstance(labels, (set, frozenset)) else labels)] or [""]
    at_least = ... in names
    names = [name for name in names if name is not ...]
    if at_least and names in ([], [""]):
        raise InputError(f"Instance {instance!r} of {bag!r} is said to carry '...' alone; name a label before it.")
    if instance is None:
        raise InputError(f"Of the bag {bag!r} a list of labels was given; say each for itself.")
    if len(names) > 1 and "" in names:
        raise InputError(f"Instance {instance!r} of {bag!r} is said to carry {names} and nothing; leave '' out.")
    checked = [check_correction((bag, instance, name), sizes) for name in names]
    return checked[0][0], checked[0][1], [*(name for *_, name in checked), *[...] * at_least]


def label_set_entries(
    bag: str, instance: int, labels: Sequence[Any], before: Sequence[str], by: str
) -> list[Correction]:
    """The rows that say which labels an instance carries and no others; `before` are those that it had.

    With an ellipsis at the end: which it carries at least.
    """
    if labels[-1] is ...:
        return [Correction(bag, instance, label, ALSO, label if label in before else "", by) for label in labels[:-1]]
    same = {*labels} == {*(before or [""])}
    action = CONFIRMED if same else LABEL if labels[0] else NOISE
    first = Correction(bag, instance, labels[0], action, BETWEEN.join(before), by)
    further = [Correction(bag, instance, label, ALSO, label if label in before else "", by) for label in labels[1:]]
    return [first, *further]


def joined_labels(entries: Iterable[Correction], label_sets: bool) -> list[tuple[str, int | None, Any]]:
    """Bag, instance and label of rows; several of one instance are a list where it may carry several labels."""
    found: dict[Any, tuple[str, int | None, Any]] = {}
    for number, entry in enumerate(entries):
        key = number if entry.instance is None else (entry.bag, entry.instance)
        before = found.pop(key, None)
        together = before is not None and (entry.action == ALSO or (label_sets and entry.label and before[2] != [""]))
        found[key] = (entry.bag, entry.instance, [*before[2], entry.label] if together and before else [entry.label])
    return [(bag, i, labels if len(labels) > 1 else labels[0]) for bag, i, labels in found.values()]
