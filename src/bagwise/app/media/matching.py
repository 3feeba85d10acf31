"""Syllables matched with events that people marked."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np

from bagwise.core.dataset import Places

Box = dict[str, Any]
AXES = ("start", "end", "low", "high")


def match_events(locations: Sequence[Box], events: Sequence[Box]) -> np.ndarray:
    """(m,) index of the event that each location overlaps most, -1 where it overlaps none.

    This is how the segments of HJA Birdsong got their labels from boxes drawn by hand. Overlap is area in time and
    frequency, or time alone where the events have no frequencies (keys ``low`` and ``high``).
    """
    by_file = _by_file(events)
    matches = np.full(len(locations), -1)
    for i, location in enumerate(locations):
        best = 0.0
        for j in by_file[location["file"]]:
            area = _overlap(location, events[j], "start", "end") * _height(location, events[j])
            if area > best:
                best, matches[i] = area, j
    return matches


def covered_share(locations: Sequence[Box], events: Sequence[Box]) -> np.ndarray:
    """(n,) share of the duration of each event during which a location lies in its band of frequencies."""
    by_file = _by_file(locations)
    shares = np.zeros(len(events))
    for j, event in enumerate(events):
        spans = [
            (max(event["start"], locations[i]["start"]), min(event["end"], locations[i]["end"]))
            for i in by_file[event["file"]]
            if _height(locations[i], event) > 0
        ]
        shares[j] = _union_length(spans) / (event["end"] - event["start"])
    return shares


def _union_length(spans: Sequence[tuple[float, float]]) -> float:
    """Length of the union of spans on a line; spans that end before they start count nothing."""
    total, reached = 0.0, -np.inf
    for start, end in sorted(spans):
        if end > max(start, reached):
            total += end - max(start, reached)
            reached = end
    return total


def seconds_covered(places: Places) -> float:
    """Seconds of all files in which anything was found."""
    by_file: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for name, start, end in zip(places["file"], places["start"].tolist(), places["end"].tolist(), strict=True):
        by_file[name].append((start, end))
    return sum(map(_union_length, by_file.values()))


def _by_file(boxes: Sequence[Box]) -> dict[str, list[int]]:
    index: dict[str, list[int]] = defaultdict(list)
    for i, box in enumerate(boxes):
        index[box["file"]].append(i)
    return index


def _overlap(one: Box, other: Box, start: str, end: str) -> float:
    return max(0.0, min(one[end], other[end]) - max(one[start], other[start]))


def _height(location: Box, event: Box) -> float:
    return _overlap(location, event, "low", "high") if "low" in event else 1.0


def count_inside(places: Places, others: Places) -> np.ndarray:
    """(m,) how many of the other boxes have their middle in each box: of those found with shorter frames, its parts.

    Places are columns: file, start, end, low and high.
    """
    counts = np.zeros(len(places["file"]), dtype=np.int64)
    mine, theirs = (np.array([own[key] for key in AXES], dtype=np.float64) for own in (places, others))
    middle = (theirs[::2] + theirs[1::2]) / 2
    for name in set(places["file"]):
        own, inside = np.flatnonzero(places["file"] == name), np.flatnonzero(others["file"] == name)
        box, point = mine[:, own, None], middle[:, None, inside]
        counts[own] = np.all((box[::2] <= point) & (point <= box[1::2]), axis=0).sum(axis=1)
    return counts
