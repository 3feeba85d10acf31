"""What a kind of input is, and the kinds by name."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bagwise.core.exceptions import BagwiseError


@dataclass(frozen=True)
class Ready:
    """Valid examples, what reads an input and uses what it gives, and what lets go of what the reader holds."""

    seeds: list[bytes]
    read: Callable[[Path], Any]
    close: Callable[[], None] = lambda: None


@dataclass(frozen=True)
class Kind:
    """A kind of input.

    Attributes
    ----------
    name : str
    make : function of an empty folder, which is there as long as inputs are read, that gives `Ready`
    endings : tuple of str
        Of the file that an input is given as; one of several is drawn for each input.
    tokens : list of bytes
        What an input may hold that a change of single bytes would seldom bring about.
    deep : function of bytes and a random generator, or None
        Changes what lies inside of a container, so that its checksums are right again.
    share : float
        How often `deep` is taken.
    errors : tuple of exception classes
        Refusals; anything else is a find.
    names_file : bool
        Whether a refusal must name the file.
    """

    name: str
    make: Callable[[Path], Ready]
    endings: tuple[str, ...]
    tokens: list[bytes]
    deep: Callable[[bytes, random.Random], bytes] | None = None
    share: float = 0.5
    errors: tuple[type[BaseException], ...] = (BagwiseError,)
    names_file: bool = True


def find_kinds() -> dict[str, Kind]:
    """All kinds by name, in the order in which they are tried."""
    from benchmarks.fuzz import api, data, hdf5, marks, media, models, networks, runs

    groups = (data, hdf5, models, marks, media, networks, runs, api)
    return {kind.name: kind for group in groups for kind in group.KINDS}
