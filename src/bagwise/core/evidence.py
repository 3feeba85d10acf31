"""What may be said of a bag beyond a plain list of labels: certain, possible, absent, one of several, a confidence."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from bagwise.core.exceptions import InputError

LEAST_CONFIDENCE = 1e-9
"""A confidence below this is taken for this; who is surer than that says Absent."""


@dataclass(frozen=True)
class Certain:
    """In a label set: the label is certainly in the bag, whatever the rates of missed and spurious labels.

    Examples
    --------
    >>> from bagwise import Absent, Certain, OneOf, Possible
    >>> heard = {"wren", Certain("tit"), Possible("robin"), Absent("crow"), OneOf("blackcap", "warbler")}
    """

    label: Hashable


@dataclass(frozen=True)
class Possible:
    """In a label set: the label may be in the bag or not."""

    label: Hashable


@dataclass(frozen=True)
class Absent:
    """In a label set: the label is certainly not in the bag, whatever the rates of missed and spurious labels."""

    label: Hashable


@dataclass(frozen=True, init=False)
class OneOf:
    """In a label set: one of the labels at least is in the bag; each of them may be, and none by itself need be."""

    labels: tuple[Hashable, ...]

    def __init__(self, *labels: Hashable):
        if len(set(labels)) < 2:
            raise InputError(
                f"OneOf{labels!r} names {len(set(labels))} label(s); pass two or more, or the label itself where it is "
                "known."
            )
        object.__setattr__(self, "labels", tuple(dict.fromkeys(labels)))

    def __repr__(self) -> str:
        return f"OneOf({', '.join(map(repr, self.labels))})"


SAID: dict[type, float] = {Certain: np.inf, Possible: np.nan, Absent: -np.inf}
"""What a marker of a label set is as a number."""


MARKERS = (*SAID, OneOf)


def names_in(label: Any) -> tuple[Hashable, ...]:
    """The labels that an entry of a label set names."""
    if isinstance(label, OneOf):
        return label.labels
    return (label.label,) if type(label) in SAID else (label,)


@dataclass(frozen=True, eq=False)
class Evidence:
    """What is said of bags where that is more than plain lists. Made by `as_evidence`.

    Attributes
    ----------
    values : (n, c) float64 array
        1: listed. 0: not listed. NaN: not known, it may be there or not. Between 0 and 1: the confidence that it is
        there. inf and -inf: certainly there, certainly not.
    groups : (n,) object array of tuples, or None
        Of each bag, tuples of columns of which one at least is there.
    columns : sequence or None
        What the classes are called; None: 0, 1, 2, ...
    """

    values: np.ndarray
    groups: np.ndarray | None = None
    columns: Sequence[Hashable] | None = None

    def __len__(self) -> int:
        return len(self.values)

    @property
    def shape(self) -> tuple[int, int]:
        return self.values.shape

    def __getitem__(self, rows: Any) -> Evidence:
        """That of some bags: a slice, integers or a mask."""
        return replace(self, values=self.values[rows], groups=None if self.groups is None else self.groups[rows])

    def ordered(self, order: np.ndarray) -> Evidence:
        """With other columns in the place of 0, 1, 2, ..."""
        groups, place = None, np.argsort(order)
        if self.groups is not None:
            groups = self.groups.copy()
            groups[:] = [tuple(tuple(sorted(place[list(g)].tolist())) for g in of_bag) for of_bag in self.groups]
        return Evidence(self.values[:, order], groups)

    @property
    def is_list(self) -> np.ndarray:
        """(n,) whether no more is said of a bag than which labels are listed."""
        plain: np.ndarray = np.all(np.isin(self.values, (0.0, 1.0)), axis=1)
        if self.groups is not None:
            plain = plain & np.array([not groups for groups in self.groups])
        return plain

    @property
    def listed(self) -> np.ndarray:
        """(n, c) uint8, 1 where a label is listed, certain, or more probable than not."""
        return (self.values > 0.5).astype(np.uint8)

    @property
    def possible(self) -> np.ndarray:
        """(n, c) uint8, 1 where a label may be in the bag, by what is said of it."""
        return ((self.values != 0.0) & (self.values != -np.inf)).astype(np.uint8)


Given: TypeAlias = np.ndarray | Evidence
"""(n, c) 0/1 array where plain lists are all that is said of bags."""


def listed_labels(given: Given) -> np.ndarray:
    """(n, c) 0/1 array of the labels that are listed, certain, or more probable than not."""
    return given.listed if isinstance(given, Evidence) else given


def possible_labels(given: Given) -> np.ndarray:
    """(n, c) 0/1 array of the labels that may be in the bag: the listed ones, and what evidence says beside these."""
    return given.possible if isinstance(given, Evidence) else given


def as_evidence(values: np.ndarray, groups: Iterable[Iterable[Iterable[int]]] | None = None) -> Given:
    """Numbers and groups of columns, checked, in their simplest form; plain lists as the (n, c) uint8 array they are.

    Of a group, members that are absent are left out, and members that are not listed may be there. A group that says
    nothing new, since it holds a certain label or all labels of another group, is left out.
    """
    values = np.array(values, dtype=np.float64)
    bad = np.argwhere(~(np.isinf(values) | np.isnan(values) | ((values >= 0.0) & (values <= 1.0))))
    if len(bad):
        i, c = bad[0]
        raise InputError(
            f"The label matrix holds {values[i, c]:g} at bag {i}, class {c}; expected only 0 and 1 (1 where the bag "
            "carries the label), a confidence between them, NaN (not known), inf (certainly there) or -inf (certainly "
            "not)."
        )
    unsure = (values > 0.0) & (values < LEAST_CONFIDENCE)
    values[unsure] = LEAST_CONFIDENCE
    kept = None
    if groups is not None:
        kept = np.empty(len(values), dtype=object)
        for bag, of_bag in enumerate(groups):
            kept[bag] = _simplified(bag, values[bag], [frozenset(group) for group in of_bag])
        if not any(map(len, kept)):
            kept = None
    if kept is None and np.isin(values, (0.0, 1.0)).all():
        return values.astype(np.uint8)
    return Evidence(values, kept)


def _simplified(bag: int, values: np.ndarray, groups: list[frozenset[int]]) -> tuple[tuple[int, ...], ...]:
    """The groups of a bag that say something; its values follow from groups in place."""
    found: set[frozenset[int]] = set()
    for group in groups:
        members = frozenset(c for c in group if values[c] != -np.inf)
        if not members:
            raise InputError(
                f"Bag {bag} holds a group (OneOf) all of whose labels are absent from it; one of them must be able to "
                "be there: take one of these back."
            )
        for c in members:
            if values[c] == 0.0:
                values[c] = np.nan
        if len(members) == 1:
            values[next(iter(members))] = np.inf  # all others are absent
        found.add(members)
    certain = frozenset(np.flatnonzero(values == np.inf).tolist())
    open_groups = [group for group in found if not group & certain]
    return tuple(tuple(sorted(g)) for g in sorted(open_groups, key=sorted) if not any(o < g for o in open_groups))


def evidence_of_sets(sets: list[set[Any]], column: dict[Any, int]) -> tuple[Given, np.ndarray]:
    """Label sets with markers over the classes of these columns, and how many names of each are none of them.

    A group with a member of another class says nothing of these: that one may be what is there.
    """
    values = np.zeros((len(sets), len(column)))
    n_unknown = np.zeros(len(sets), dtype=np.int64)
    groups: list[list[list[int]]] = [[] for _ in sets]
    for i, labels in enumerate(sets):
        told: dict[Any, Any] = {}
        for label in labels:
            names = names_in(label)
            columns = [column[name] for name in names if name in column]
            n_unknown[i] += len(names) - len(columns)
            if isinstance(label, OneOf):
                if len(columns) == len(names):
                    groups[i].append(columns)
                continue
            if names[0] in told:
                raise InputError(
                    f"The labels of bag {i} say two things of {names[0]!r}, {told[names[0]]!r} and {label!r}; keep one "
                    "of them."
                )
            told[names[0]] = label
            if columns:
                values[i, columns[0]] = SAID.get(type(label), 1.0)
    return as_evidence(values, groups), n_unknown
