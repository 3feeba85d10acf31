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
    """In a label set: the label may be in the bag or not.

    Examples
    --------
    >>> from bagwise import Possible
    >>> from bagwise.union import union_posterior
    >>> proba = [[0.9, 0.1], [0.5, 0.5]]
    >>> union_posterior(proba, [0, 2], [{0}])[1].round(3).tolist()
    [[1.0, 0.0], [1.0, 0.0]]
    >>> union_posterior(proba, [0, 2], [{0, Possible(1)}])[1].round(3).tolist()
    [[0.947, 0.053], [0.526, 0.474]]
    """

    label: Hashable


@dataclass(frozen=True)
class Absent:
    """In a label set: the label is certainly not in the bag, whatever the rates of missed and spurious labels.

    Examples
    --------
    >>> from bagwise import Absent
    >>> from bagwise.union import union_posterior
    >>> proba = [[0.9, 0.1], [0.5, 0.5]]
    >>> union_posterior(proba, [0, 2], [{0}], missed=0.2)[1].round(3).tolist()
    [[0.984, 0.016], [0.859, 0.141]]
    >>> union_posterior(proba, [0, 2], [{0, Absent(1)}], missed=0.2)[1].round(3).tolist()
    [[1.0, 0.0], [1.0, 0.0]]
    """

    label: Hashable


@dataclass(frozen=True, init=False)
class OneOf:
    """In a label set: one of the labels at least is in the bag; each of them may be, and none by itself need be.

    Examples
    --------
    >>> from bagwise import OneOf
    >>> heard = {"wren", OneOf("blackcap", "warbler")}
    >>> OneOf("warbler")
    Traceback (most recent call last):
    ...
    bagwise.core.exceptions.InputError: OneOf('warbler',) names 1 label(s); pass two or more, or the label itself
    where it is known.
    """

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
