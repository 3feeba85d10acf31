"""What may be said of a label in a label set beyond that it is listed: certain, possible, absent, one of several."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np

from bagwise.core.exceptions import InputError


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
