"""The look of each label: a colour, and a pattern over it where there are more labels than colours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bagwise.featurize.stages import COLOURS

PATTERNS = ("", "stripes", "dots", "checks")
"""Names of the patterns in the order in which they are needed; the pages draw them."""


@dataclass(frozen=True)
class Look:
    """What a label looks like: a colour as ``#rrggbb``, and the name of a pattern, "" for none; as text the colour."""

    colour: str
    pattern: str

    def __str__(self) -> str:
        return self.colour


def class_colours(names: Sequence[str]) -> dict[str, Look]:
    """A look for each class: no colour comes twice until all are used, and then it bears another pattern.

    Ninety-six classes look different; after that they come again.
    """
    return {
        name: Look(COLOURS[i % len(COLOURS)], PATTERNS[i // len(COLOURS) % len(PATTERNS)])
        for i, name in enumerate(names)
    }
