"""Regions of pictures as run lengths, the way COCO has them: down the columns, outside first.

A region is given by its rings: closed lines of points x, y, of which it is what lies inside of an odd number. So a ring
inside of another is a hole, and separate rings are parts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

Ring = Sequence[Sequence[float]] | np.ndarray
Rings = list[list[list[float]]]
"""Rings as plain lists, the largest first."""
_MOST_BITS = 65  # of a number, as it is written: more than 2**62 points has no picture
_CODE, _BITS = 48, 5  # of the text form: digits of five bits from the character "0" on, a sixth for "more follows"


def rings_of(row: Mapping[str, Any]) -> Rings:
    """All rings of a region of a picture: its outer edge, ``polygon``, is all there is where ``rings`` are empty."""
    return row.get("rings") or [row["polygon"]]


def _ring_runs(rings: Sequence[Ring], height: int, width: int) -> tuple[np.ndarray, np.ndarray]:
    """First point of every run inside of the rings, and the first behind it, numbered down the columns.

    A point is inside where its middle is.
    """
    # The even-odd rule, one scan line per column of points, all edges of a ring at once: an edge is turned to run from
    # left to right, and crosses each column whose middle lies within its width, at a row found by interpolation.
    columns, crossings = [], []
    for ring in rings:
        points = np.asarray(ring, dtype=float).reshape(-1, 2)
        ends = np.roll(points, -1, axis=0)
        points, ends = (np.where((points[:, :1] <= ends[:, :1]), a, b) for a, b in ((points, ends), (ends, points)))
        first = np.clip(np.ceil(points[:, 0] - 0.5), 0, width).astype(np.int64)
        n = np.clip(np.ceil(ends[:, 0] - 0.5), 0, width).astype(np.int64) - first
        edge = np.repeat(np.arange(len(points)), n)
        column = np.arange(len(edge)) - np.repeat(np.cumsum(n) - n, n) + first[edge]
        share = (column + 0.5 - points[edge, 0]) / (ends[edge, 0] - points[edge, 0])
        columns.append(column)
        crossings.append(points[edge, 1] + share * (ends[edge, 1] - points[edge, 1]))
    column, crossing = np.concatenate(columns), np.concatenate(crossings)
    # closed lines cross a column an even number of times, so sorted crossings are starts and ends of runs by turns
    order = np.lexsort((crossing, column))
    rows = np.clip(np.ceil(crossing[order] - 0.5), 0, height).astype(np.int64).reshape(-1, 2)
    runs = column[order].reshape(-1, 2) * height + rows
    runs = runs[runs[:, 1] > runs[:, 0]]
    # runs that touch, at the edge of two columns too, are one
    apart = np.append(True, runs[1:, 0] > runs[:-1, 1]) if len(runs) else np.empty(0, dtype=bool)
    return runs[apart, 0], runs[np.append(apart[1:], True), 1] if len(runs) else runs[:, 1]


def ring_area(rings: Sequence[Ring], height: int, width: int) -> int:
    """Points inside of the rings."""
    starts, ends = _ring_runs(rings, height, width)
    return int((ends - starts).sum())


def ring_counts(rings: Sequence[Ring], height: int, width: int) -> list[int]:
    """Lengths of the runs outside and inside by turns."""
    edges = np.stack(_ring_runs(rings, height, width), axis=1).ravel()
    counts = np.diff(np.concatenate([[0], edges, [height * width]])).tolist()
    return counts if counts[-1] else counts[:-1]


def compress_counts(counts: Sequence[int]) -> str:
    """The text form of run lengths, as pycocotools and SAM write it; from the fourth on less the last but one."""
    text = []
    for i, count in enumerate(counts):
        rest, more = count - (counts[i - 2] if i > 2 else 0), True
        while more:
            digit = rest & 0x1F
            rest >>= _BITS
            more = rest != (-1 if digit & 0x10 else 0)
            text.append(chr((digit | 0x20 if more else digit) + _CODE))
    return "".join(text)


def expand_counts(text: str) -> list[int]:
    """Run lengths of their text form; `ValueError` where it is none."""
    counts: list[int] = []
    value = shift = 0
    for letter in text:
        digit = ord(letter) - _CODE
        if not 0 <= digit < 64:
            raise ValueError(f"{letter!r} is no part of run lengths")
        value |= (digit & 0x1F) << shift
        shift += _BITS
        if shift > _MOST_BITS:  # a number that goes on for a megabyte would take hours
            raise ValueError("one of the run lengths has more digits than any picture needs")
        if digit & 0x20:
            continue
        if digit & 0x10:
            value -= 1 << shift
        counts.append(value + (counts[-2] if len(counts) > 2 else 0))
        value = shift = 0
    if shift:
        raise ValueError("the run lengths break off")
    return counts


def sample_counts(counts: Sequence[int], size: tuple[int, int], shape: tuple[int, int]) -> np.ndarray:
    """(height, width) whether the points of a copy of that shape are inside; `size` is that of the picture."""
    n_points = sum(counts)  # of Python's integers, which do not overflow
    if min(counts, default=0) < 0 or n_points != size[0] * size[1]:
        raise ValueError(f"the run lengths are those of {n_points} points, not of {size[0]} x {size[1]}")
    lengths = np.asarray(counts, dtype=np.int64)
    rows, columns = (((np.arange(n) + 0.5) * whole / n).astype(np.int64) for n, whole in zip(shape, size, strict=True))
    index = columns[None, :] * size[0] + rows[:, None]
    return np.searchsorted(np.cumsum(lengths), index, side="right") % 2 == 1
