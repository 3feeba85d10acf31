"""What was said of the labels of bags beyond lists, from the table and from corrections, as learners take it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from bagwise.core.evidence import Absent, OneOf, Possible
from bagwise.core.validation import Given, as_evidence
from bagwise.io.labels import parse_mark
from bagwise.pipeline import final_step


@dataclass
class BagMarks:
    """What is said of the labels of one bag beyond a list.

    Attributes
    ----------
    values : dict
        Label to its number, as of `bagwise.core.validation`: NaN for possible, a confidence, -inf for absent. What
        several observers say together is a confidence also where the label is listed.
    groups : list of tuple of labels
    """

    values: dict[Any, float] = field(default_factory=dict)
    groups: list[tuple[Any, ...]] = field(default_factory=list)

    @classmethod
    def of(cls, entries: Iterable[str] | BagMarks) -> BagMarks:
        """From the entries of a table, or a copy."""
        if isinstance(entries, BagMarks):
            return cls(dict(entries.values), list(entries.groups))
        found = cls()
        for entry in entries:
            mark = parse_mark(entry)
            if isinstance(mark, OneOf):
                found.groups.append(mark.labels)
            elif isinstance(mark, Possible):
                found.values[mark.label] = np.nan
            elif isinstance(mark, Absent):
                found.values[mark.label] = -np.inf
            elif not isinstance(mark, str):
                found.values[mark.label] = mark.confidence
        return found

    @property
    def names(self) -> set[Any]:
        """The labels that may be there by it."""
        return {name for name, value in self.values.items() if value not in (0.0, -np.inf)}.union(*self.groups)

    @property
    def is_open(self) -> bool:
        """Whether it says more than that labels are absent, which a list without rates says too."""
        return bool(self.names)


def asks_rates(model: Any) -> bool:
    """Whether the learner is asked to model label noise."""
    final = final_step(model)
    asked = final_step(getattr(final, "estimator", final)).get_params(deep=False)
    rates = [asked[name] for name in ("missed", "spurious") if name in asked]
    return any(isinstance(rate, str) or bool(np.any(rate)) for rate in rates)


def marked_labels(
    Y: np.ndarray, classes: Sequence[Any], marks: Mapping[int, BagMarks], bags: Sequence[int], *, has_rates: bool
) -> Given:
    """The (n, c) lists of bags with what is said beyond them, as a learner takes it; the lists where that is nothing.

    Parameters
    ----------
    Y : (n, c) 0/1 array over `classes`
    marks : dict
        Number of a bag to what is said of it.
    bags : list of int
        Number of the bag of each row; -1 where it is none.
    has_rates : bool
        Whether the learner models label noise: only then is a label that is absent more than one that is not listed.
    """
    open_rows = {i: marks[bag] for i, bag in enumerate(bags) if bag in marks and (has_rates or marks[bag].is_open)}
    if not open_rows:
        return Y
    column = {name: c for c, name in enumerate(classes)}
    values = np.asarray(Y, dtype=np.float64).copy()
    groups: list[list[list[int]]] = [[] for _ in values]
    for i, own in open_rows.items():
        for name, value in own.values.items():
            if name in column and (value != -np.inf or has_rates):
                values[i, column[name]] = value
        # a group says nothing of these classes where one of its labels is another; absent ones are no part of it
        for group in own.groups:
            left = [name for name in group if own.values.get(name) != -np.inf]
            if all(name in column for name in left) and not any(values[i, column[name]] == 1 for name in left):
                groups[i].append([column[name] for name in left])
    return as_evidence(values, groups)
