"""What is worth knowing about the labels of bags: which are hard to learn, and which no instance was given."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

import numpy as np

from bagwise.app.formats import Annotations
from bagwise.app.media.files import Problem
from bagwise.app.media.media_type import MediaType
from bagwise.app.media.media_types import TABLE
from bagwise.app.report.facts import HardLabels, find_hard_labels, remarks_on_labels
from bagwise.app.runs.find import Found
from bagwise.app.runs.supervision import Supervision
from bagwise.core.dataset import BagDataset, as_column
from bagwise.scale import BagSource


def hard_labels(supervision: Supervision) -> HardLabels:
    """Labels that the labelled bags cannot distinguish; those of instances that somebody named can."""
    dataset = supervision.dataset
    if dataset.Y is None:
        return HardLabels(0)
    named = {dataset.class_names[c] for c in np.unique(supervision.known) if c >= 0}
    return find_hard_labels(dataset.Y[dataset.labelled], dataset.class_names, named)


def label_remarks(supervision: Supervision, media_type: MediaType) -> list[str]:
    """Sentences for people, with the cure in the words of the media type."""
    return remarks_on_labels(hard_labels(supervision), media_type)


def source_remarks(source: BagSource) -> list[str]:
    """The same of bags that are read by pieces, from their labels alone."""
    if source.Y is None:
        return []
    return remarks_on_labels(find_hard_labels(source.Y[source.labelled], source.class_names, set()), TABLE)


def dataset_remarks(dataset: BagDataset, use_known: bool = False) -> list[str]:
    """The same of a file of bags; what it knows of instances counts where it is learned from."""
    if not use_known:
        dataset = replace(dataset, instance_labels=None)
    return label_remarks(Supervision(dataset, np.zeros(dataset.bags.n_instances, dtype=bool)), TABLE)


def unexplained_labels(supervision: Supervision, found: Found) -> list[tuple[str, list[str]]]:
    """For each bag the labels that it lists and none of its instances was given."""
    dataset = supervision.dataset
    names = as_column([*found.classes, ""])
    given = dataset.bags.split(names[found.label])
    triples = zip(dataset.bag_names, dataset.label_sets, given, strict=True)
    missing = [(str(name), sorted((listed or set()) - set(labels))) for name, listed, labels in triples]
    return [(name, labels) for name, labels in missing if labels]


def never_given(
    annotations: Annotations,
    unexplained: Sequence[tuple[str, list[str]]],
    named: Sequence[Problem],
    inseparable: Collection[str] = (),
) -> list[Problem]:
    """Labels that no instance of any bag was given.

    But for those of bags that are named as a problem already, and those that are `inseparable` from others: a remark
    says so, and one of them cannot but go without.
    """
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
            f"it, such as {names[0]}; check what was found there.",
        )
        for label, names in sorted(bags.items())
        if label not in given and label not in inseparable and not known.intersection(names)
    ]
