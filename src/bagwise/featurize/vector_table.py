"""Vectors that somebody worked out already: windows of recordings, each with file, start, end and vector."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from bagwise.exceptions import FormatError
from bagwise.featurize.audio_file import audio_info
from bagwise.featurize.embedding import TABLE
from bagwise.featurize.files import FileBags

SLACK = 0.05  # seconds between two windows that are no gap


@dataclass(frozen=True)
class Windows:
    """The windows of one recording in order of time: (m,) starts and ends in seconds, and (m, e) vectors."""

    start: np.ndarray
    end: np.ndarray
    vectors: np.ndarray

    def gaps(self, seconds: float) -> list[tuple[float, float]]:
        """First and last second of what no window covers; a rest at the end that holds no whole window is none."""
        reach = np.maximum.accumulate(self.end)
        edges = zip(np.concatenate([[0.0], reach]), np.append(self.start, seconds), strict=True)
        found = [(float(a), float(b)) for a, b in edges if b - a > SLACK]
        length = float(np.max(self.end - self.start))
        if found and found[-1][1] == seconds and found[-1][1] - found[-1][0] < length:
            found.pop()
        return found

    def nearest(self, middle: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """For each moment the window whose middle is nearest to it, and whether that window holds it."""
        centre = (self.start + self.end) / 2
        order = np.argsort(centre, kind="stable")
        right = np.clip(np.searchsorted(centre[order], middle), 1, max(len(centre) - 1, 1))
        left = order[right - 1]
        right = order[np.minimum(right, len(centre) - 1)]
        best = np.where(np.abs(centre[right] - middle) < np.abs(centre[left] - middle), right, left)
        return best, (self.start[best] <= middle) & (middle <= self.end[best])


@dataclass(frozen=True)
class VectorTable:
    """Vectors of the windows of recordings.

    Attributes
    ----------
    name, fingerprint : str
        Of the file that they come from.
    windows : dict
        File to its windows.
    size : int
        Numbers of a vector.
    join : bool
        Whether vectors stand beside the features of the medium, or alone.
    are_instances : bool
        Whether the windows are the instances; otherwise each instance gets the vector of the window nearest to it.
    problems : tuple of (name, message)
        What could not be used of the file.
    """

    name: str
    fingerprint: str
    windows: Mapping[str, Windows]
    size: int
    join: bool
    are_instances: bool
    problems: tuple[tuple[str, str], ...] = ()

    @property
    def about(self) -> dict[str, Any]:
        return {
            "kind": TABLE, "name": self.name, "fingerprint": self.fingerprint,
            "settings": {"windows": self.are_instances}, "size": self.size, "join": self.join,
        }  # fmt: skip

    def of_file(self, name: str) -> VectorTable:
        """What a process that reads the file needs: the windows of that file."""
        return replace(self, windows={name: self.windows[name]} if name in self.windows else {})

    def instances(self, path: Path, name: str) -> FileBags:
        """The windows of a file as instances, all in one part, with what is wrong with them."""
        own, seconds = self._of(name), audio_info(path).seconds
        inside = own.start < seconds
        n, problems = int(inside.sum()), []
        places = {"start": own.start[inside], "end": own.end[inside]}
        places |= {"low": np.zeros(n), "high": np.full(n, np.inf)}  # up to where the recording ends
        gaps = own.gaps(seconds)
        if gaps:
            more = f" ({len(gaps)} gaps in all)" if len(gaps) > 1 else ""
            problems.append(
                f"no window of {self.name} covers {gaps[0][0]:.2f} to {gaps[0][1]:.2f} s of it{more}; nothing is found "
                "there."
            )
        if n < len(own.start):
            problems.append(
                f"{len(own.start) - n} window(s) of {self.name} begin after its end at {seconds:.2f} s and are not "
                "used; check the table."
            )
        return FileBags(["part"], [n], np.empty((n, 0)), places, {"heard": True}, problems, vectors=own.vectors[inside])

    def describe(self, path: Path, name: str, found: FileBags) -> FileBags:
        """What was found in a file, or in a part of it, each instance with the vector of the window nearest to it."""
        own = self._of(name)
        middle = (np.asarray(found.locations["start"]) + np.asarray(found.locations["end"])) / 2
        best, inside = own.nearest(middle)
        problems = []
        if not inside.all():
            at = float(middle[np.argmin(inside)])
            problems.append(
                f"{int(np.sum(~inside))} of its syllables, such as that at {at:.2f} s, lie in no window of "
                f"{self.name}; they have the vector of the nearest one."
            )
        return replace(found, vectors=own.vectors[best], problems=[*found.problems, *problems])

    def _of(self, name: str) -> Windows:
        if name not in self.windows:
            raise FormatError(
                f"{name}: no row of {self.name} names it, so that it has no vectors; add them (--embeddings)."
            )
        return self.windows[name]
