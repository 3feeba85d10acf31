"""What is left unexplained by the annotations of a run."""

from __future__ import annotations

from collections.abc import Collection, Sequence

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
    annotations: Annotations,
    unexplained: Sequence[tuple[str, list[str]]],
    named: Sequence[Problem],
    untold: Collection[str] = (),
) -> list[Problem]:
    """Labels that no instance of any bag was given.

    But for those of bags that are named as a problem already, and those that are `untold` apart from others: a remark
    says so, and one of them cannot but go without.
    """
    given = {row["label"] for row in annotations.rows}
    bags: dict[str, list[str]] = {}
    for bag, labels in unexplained:
        for label in labels:
            bags.setdefault(label, []).append(bag)
    known = {name for name, _ in named}
    return [
        (label, f"The label {label!r} was given to no instance of the {len(names)} {annotations.medium.bags} that list "
                f"it, such as {names[0]}; check what was found there.")
        for label, names in sorted(bags.items())
        if label not in given and label not in untold and not known.intersection(names)
    ]  # fmt: skip
