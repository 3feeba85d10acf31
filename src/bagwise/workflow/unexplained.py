"""What is left unexplained by the annotations of a run."""

from __future__ import annotations

from collections.abc import Sequence

from bagwise.dataset import as_column
from bagwise.io.annotations import Annotations
from bagwise.report.result import Problem
from bagwise.workflow.find import Found
from bagwise.workflow.told import Told


def unexplained_labels(told: Told, found: Found) -> list[tuple[str, list[str]]]:
    """For each bag the labels that it lists and none of its instances was given."""
    dataset = told.dataset
    names = as_column([*found.classes, ""])
    given = dataset.bags.split(names[found.label])
    triples = zip(dataset.bag_names, dataset.label_sets, given, strict=True)
    missing = [(str(name), sorted((listed or set()) - set(labels))) for name, listed, labels in triples]
    return [(name, labels) for name, labels in missing if labels]


def never_given(
    annotations: Annotations, unexplained: Sequence[tuple[str, list[str]]], named: Sequence[Problem]
) -> list[Problem]:
    """Labels that no instance of any bag was given, but for those of bags that are named as a problem already."""
    given = {row["label"] for row in annotations.rows}
    bags: dict[str, list[str]] = {}
    for bag, labels in unexplained:
        for label in labels:
            bags.setdefault(label, []).append(bag)
    known = {name for name, _ in named}
    return [
        (names[0], f"{names[0]}: the label {label!r} was given to no instance, here or in any other of the "
                   f"{len(names)} bag(s) that list it; check what was found there.")
        for label, names in sorted(bags.items())
        if label not in given and not known.intersection(names)
    ]  # fmt: skip
