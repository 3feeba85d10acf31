"""Marks that people made, compared with the instances of a run: what they corrected."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bagwise.app.formats._annotations import Annotations, plain_cell
from bagwise.app.formats._marks import Mark, Marks

Correction = tuple[Any, int, Any]
"""Bag, number of the instance in it, and its label, "" for noise; or a list of several labels."""

NOTHING_THERE = "no instance was found there"
LEAST_OVERLAP = 0.5  # of a mark and an instance, intersection over union
LEAST_INSIDE = 0.5  # of an instance in a mark that may hold several
# How far a mark may lie next to its instance because numbers were rounded when written; also a share of its length.
ROUNDING = {"time": 2e-4, "frequency": 0.06, "x": 0.05, "y": 0.05}
ROUNDING_SHARE = 0.05
_EDGES = {"time": ("start", "end"), "frequency": ("low", "high")}
_SIDES = {"x": ("left", "width"), "y": ("top", "height")}
_COLUMNS = ("polygon", *(name for pair in (*_EDGES.values(), *_SIDES.values()) for name in pair))


def compare_marks(annotations: Annotations, marks: Marks) -> tuple[list[Correction], list[tuple[str, str]]]:
    """What the marks say otherwise than the run.

    An instance is found by bag and number where the mark tells them. Else by place: the instance that lies exactly
    there up to rounding, one of the same label first; else that of the same file which overlaps most (intersection over
    union of at least 0.5, in time only where the mark has no frequencies, of boxes where it has a polygon), one that is
    shown and has no mark yet first. Where an instance may carry several labels, all marks on it say its labels
    together.

    Returns
    -------
    corrections : list of (bag, instance, label)
        Instances whose label in the marks is not that of the run; and, with the label "", those that the format showed
        in a file it covers and that have no mark any more.
    problems : list of (name, message)
        Marks that lie on no instance or in no file of the run, and instances with marks of different labels.
    """
    edits = find_edits(annotations, marks, boxes=False)
    return edits.corrections, edits.problems


@dataclass(frozen=True)
class Edits:
    """What the marks say otherwise than the run.

    Attributes
    ----------
    corrections : list of (bag, instance, label)
        See `compare_marks`.
    moved : list of (bag, instance, place, label)
        Instances that lie elsewhere now; a place has the columns that the marks have.
    drawn : list of (file, place, label)
        Marks where there is no instance. A label is a tuple of several where instances may carry several.
    problems : list of (name, message)
    """

    corrections: list[Correction]
    moved: list[tuple[Any, int, dict[str, float], Any]]
    drawn: list[tuple[str, dict[str, float], Any]]
    problems: list[tuple[str, str]]


def find_edits(annotations: Annotations, marks: Marks, boxes: bool = True) -> Edits:
    """What the marks say otherwise than the run; with `boxes` also which ones were drawn and moved.

    A mark that overlaps its instance and does not lie exactly there moved it. Of marks where there is no instance, and
    instances that lost their mark, those that overlap in the same file belong together, those of one label first: these
    moved too. What is left of such marks was drawn, and what is left of such instances is background. Marks that a
    machine made, with a confidence, draw nothing.
    """
    groups, problems = annotations.by_instance(), list[tuple[str, str]]()
    rows = [own[0] for own in groups]
    named = [[row["label"] for row in own if annotations.is_shown(row) or marks.every_instance] for own in groups]
    shown = np.array([any(map(annotations.is_shown, own)) for own in groups], dtype=bool)
    found: dict[int, list[Mark]] = defaultdict(list)
    homeless: list[Mark] = []
    for i, mark in _find_instances(annotations, rows, marks, shown):
        if not isinstance(i, str):
            found[i].append(mark)
        elif boxes and "start" in mark and "confidence" not in mark and i.startswith(NOTHING_THERE):
            homeless.append(mark)
        else:
            problems.append((str(mark.get("file", mark.get("bag"))), f"{mark['source']}: {i}"))
    lost = [i for i, row in enumerate(rows) if i not in found and shown[i] and row.get("file") in marks.covered]
    pairs = _moved_pairs(rows, lost, homeless) if boxes else {}
    moved = [(rows[i]["bag"], rows[i]["instance"], _place(mark), mark["label"]) for i, mark in pairs.items()]
    taken = {id(mark) for mark in pairs.values()}
    drawn = [(mark["file"], _place(mark), mark["label"]) for mark in homeless if id(mark) not in taken]
    if annotations.label_sets:
        drawn = _of_one_place(drawn)
    corrections: list[Correction] = []
    for i, row in enumerate(rows):
        if i not in found:
            if shown[i] and row.get("file") in marks.covered and i not in pairs:
                corrections.append((row["bag"], row["instance"], ""))
            continue
        given = {_plain(mark["label"]): mark["label"] for mark in found[i]}
        now = {_plain(label) for label in named[i]} - {""}
        if annotations.label_sets:
            labels = [label for plain, label in given.items() if plain]
            places = [_place(mark) for mark in found[i]]
            if boxes and _lies_elsewhere(row, found[i][0]) and all(place == places[0] for place in places):
                moved.append((row["bag"], row["instance"], places[0], tuple(labels) or ""))
                continue
            is_whole = "" in given or row.get("file") in marks.covered  # else a row may have been left out
            if {*given} - {""} != now and (is_whole or not now.issuperset(given)):
                corrections.append((row["bag"], row["instance"], labels if len(labels) > 1 else (labels or [""])[0]))
            continue
        if len(given) > 1:
            text = (
                f"instance {row['instance']} of {row['bag']} is marked as {' and as '.join(map(repr, given.values()))}"
            )
            problems.append((str(row["bag"]), f"{found[i][-1]['source']}: {text}; leave one of them."))
            continue
        ((plain, label),) = given.items()
        if boxes and len(found[i]) == 1 and _lies_elsewhere(row, found[i][0]):
            moved.append((row["bag"], row["instance"], _place(found[i][0]), label))
            continue
        if {plain} - {""} != now:
            corrections.append((row["bag"], row["instance"], label))
    return Edits(corrections, moved, drawn, problems)


def _of_one_place(drawn: Sequence[tuple[str, dict[str, float], Any]]) -> list[tuple[str, dict[str, float], Any]]:
    """Marks that lie in the same place as one with all of their labels."""
    found: dict[Any, tuple[str, dict[str, float], list[str]]] = {}
    for file, place, label in drawn:
        found.setdefault((file, *place.items()), (file, place, []))[2].append(label)
    return [(file, place, tuple(filter(None, labels)) or "") for file, place, labels in found.values()]


def _place(mark: Mark) -> dict[str, float]:
    return {name: mark[name] for pair in _EDGES.values() for name in pair if name in mark}


def _lies_elsewhere(row: Mapping[str, Any], mark: Mark) -> bool:
    """Whether a mark lies next to the instance that it is on by more than numbers lose when they are written."""
    own, given = intervals(row), intervals(_place(mark))
    for axis in own.keys() & given.keys() if "bag" not in mark else ():
        length = own[axis][1] - own[axis][0]
        reach = min(ROUNDING[axis], ROUNDING_SHARE * length) + 1e-9
        if max(abs(a - b) for a, b in zip(own[axis], given[axis], strict=True)) > reach:
            return True
    return False


def _moved_pairs(rows: Sequence[Mapping[str, Any]], lost: Sequence[int], homeless: Sequence[Mark]) -> dict[int, Mark]:
    """Instances that lost their mark and where they are marked now: the same label first, then what overlaps most."""
    options = []
    for i in lost:
        own = intervals(rows[i])
        for j, mark in enumerate(homeless):
            if mark["file"] != rows[i].get("file"):
                continue
            given = intervals(_place(mark))
            axes = sorted(own.keys() & given.keys())
            spans = np.array([[*own[axis], *given[axis]] for axis in axes]).T
            together = np.maximum(np.minimum(spans[1], spans[3]) - np.maximum(spans[0], spans[2]), 0.0).prod()
            size = (spans[1] - spans[0]).prod() + (spans[3] - spans[2]).prod() - together
            if together > 0:
                options.append((_plain(mark["label"]) != _plain(rows[i]["label"]), -together / size, i, j))
    pairs: dict[int, Mark] = {}
    used: set[int] = set()
    for *_, i, j in sorted(options):
        if i not in pairs and j not in used:
            pairs[i] = homeless[j]
            used.add(j)
    return pairs


def _plain(label: str) -> str:
    """A label as any of the formats can hold it."""
    return plain_cell(label).strip()


def _find_instances(
    annotations: Annotations, rows: Sequence[Mapping[str, Any]], marks: Marks, shown: np.ndarray
) -> list[tuple[int | str, Mark]]:
    """For each mark the index of its instance, or what is wrong."""
    keys = {(str(row["bag"]), row["instance"]): i for i, row in enumerate(rows)}
    by_file: dict[str, list[int]] = defaultdict(list, {str(file["file"]): [] for file in annotations.files})
    for i, row in enumerate(rows):
        by_file[str(row.get("file"))].append(i)
    found: list[tuple[int | str, Mark]] = []
    placed: dict[str, list[Mark]] = defaultdict(list)
    for mark in marks.rows:
        if "bag" in mark:
            key = (mark["bag"], mark["instance"])
            found.append((keys.get(key, f"the run has no instance {key[1]:g} of a bag {key[0]!r}."), mark))
        elif mark.get("file") not in by_file:
            found.append((f"the run has no file {mark.get('file')!r}, or several of that name.", mark))
        else:
            placed[mark["file"]].append(mark)
    for name, own in placed.items():
        index = np.array(by_file[name], dtype=int)
        for j, mark in zip(_match(own, [rows[i] for i in index], shown[index], annotations), own, strict=True):
            place = ", ".join(f"{key} {mark[key]:g}" for key in _COLUMNS if key in mark and key != "polygon")
            where = f"{name}{', ' if place else ''}{place}"
            found.append((f"{NOTHING_THERE} ({where})." if j is None else int(index[j]), mark))
    return found


def _match(
    marks: Sequence[Mark], rows: Sequence[Mapping[str, Any]], shown: np.ndarray, annotations: Annotations
) -> list[int | None]:
    """For each mark of a file the instance of that file that it is on; several where it may carry several labels."""
    taken = np.zeros(len(rows), dtype=bool)
    labels = np.array([_plain(row["label"]) for row in rows], dtype=object)
    boxes: dict[tuple[str, ...], _Boxes] = {}
    places: list[tuple[Mark, _Boxes, np.ndarray]] = []
    for mark in marks:
        columns = tuple(key for key in _COLUMNS if key in mark)
        if columns not in boxes:
            boxes[columns] = _Boxes(rows, columns)
        places.append((mark, boxes[columns], boxes[columns].equal(mark)))
    matched: list[int | None] = [None] * len(marks)

    def take(m: int, instances: np.ndarray) -> None:
        if matched[m] is None and len(instances):
            matched[m] = int(instances[0])
            taken[instances[0]] = not annotations.label_sets

    for m, (mark, _, exact) in enumerate(places):  # first, so that another label does not take what is this one's
        free = exact[~taken[exact]]
        take(m, free[shown[free] & (labels[free] == _plain(mark["label"]))])
    for m, (_, _, exact) in enumerate(places):
        free = exact[~taken[exact]]
        take(m, free[np.argsort(~shown[free], kind="stable")])
    for m, (mark, box, exact) in enumerate(places):
        if not len(exact):
            near, overlap = box.overlapping(mark)
            exact = near[np.lexsort((-overlap, ~shown[near], taken[near]))]
        take(m, exact)
    return matched


def match_instances(
    rows: Sequence[Mapping[str, Any]], others: Sequence[Mapping[str, Any]], columns: Sequence[str]
) -> list[tuple[int, int]]:
    """Pairs of instances of one file in two runs that lie in the same place, each instance in one pair at the most.

    Pairs overlap by half of their union or more; those that overlap most are joined first. Which of the runs comes
    first makes no difference.
    """
    boxes = _Boxes(others, columns)
    overlaps = [boxes.overlapping(row) for row in rows]
    options = [
        (-share, i + j, abs(i - j), i, j)
        for i, (near, shares) in enumerate(overlaps)
        for j, share in zip(near.tolist(), shares.tolist(), strict=True)
    ]
    pairs: list[tuple[int, int]] = []
    own: set[int] = set()
    other: set[int] = set()
    for *_, i, j in sorted(options):
        if i not in own and j not in other:
            pairs.append((i, j))
            own.add(i)
            other.add(j)
    return sorted(pairs)


class _Boxes:
    """The places of the instances of a file along the axes that some marks tell."""

    def __init__(self, rows: Sequence[Mapping[str, Any]], columns: Sequence[str]):
        known = bool(columns) and all(column in row for row in rows for column in columns)
        spans = [intervals({column: row[column] for column in columns}) for row in rows] if known else []
        self.axes = list(spans[0]) if spans else []
        edges = np.array([[span[axis] for axis in self.axes] for span in spans], dtype=float)
        self.low, self.high = edges.reshape(-1, len(self.axes) or 1, 2).transpose(2, 0, 1)
        self.order = np.argsort(self.low[:, 0], kind="stable")
        self.sorted_low = self.low[self.order, 0]
        rounding = np.array([ROUNDING[axis] for axis in self.axes] or [0.0])
        self.rounding = np.minimum(rounding, ROUNDING_SHARE * (self.high - self.low)) + 1e-9

    def _of(self, mark: Mapping[str, Any]) -> tuple[np.ndarray, np.ndarray]:
        span = intervals(mark)
        low, high = np.array([span[axis] for axis in self.axes], dtype=float).T
        return low, high

    def _beginning(self, first: float, last: float) -> np.ndarray:
        """Indices of the instances that begin between two points of the first axis: only these need a look."""
        left = np.searchsorted(self.sorted_low, first, side="left")
        right = np.searchsorted(self.sorted_low, last, side="right")
        return np.sort(self.order[left:right])

    def equal(self, mark: Mark) -> np.ndarray:
        """Indices of the instances that lie where the mark does, the nearest first."""
        if not self.axes:
            return np.empty(0, dtype=int)
        low, high = self._of(mark)
        reach = ROUNDING[self.axes[0]] + 1e-9
        near = self._beginning(low[0] - reach, low[0] + reach)
        away = np.abs(self.low[near] - low), np.abs(self.high[near] - high)
        near_enough = np.all(np.maximum(*away) <= self.rounding[near], axis=1)
        distance = (away[0] + away[1]).sum(axis=1)[near_enough].round(6)
        return near[near_enough][np.argsort(distance, kind="stable")]

    def inside(self, mark: Mark) -> np.ndarray:
        """Indices of the instances of which half or more lies in a mark."""
        low, high = self._of(mark)
        together = np.maximum(np.minimum(self.high, high) - np.maximum(self.low, low), 0.0).prod(axis=1)
        size = (self.high - self.low).prod(axis=1)
        return np.flatnonzero((size > 0) & (together >= LEAST_INSIDE * size))

    def overlapping(self, mark: Mapping[str, Any]) -> tuple[np.ndarray, np.ndarray]:
        """Indices of the instances that overlap a mark enough, and intersection over union of each."""
        if not self.axes:
            return np.empty(0, dtype=int), np.empty(0)
        low, high = self._of(mark)
        near = self._beginning(2 * low[0] - high[0], high[0])  # what begins before that is too long or too far away
        together = np.minimum(self.high[near], high) - np.maximum(self.low[near], low)
        area = np.maximum(together, 0.0).prod(axis=1)
        union = (self.high[near] - self.low[near]).prod(axis=1) + max((high - low).prod(), 0.0) - area
        share = np.divide(area, union, out=np.zeros(len(near)), where=union > 0)
        enough = share >= LEAST_OVERLAP
        return near[enough], share[enough]


def instances_inside(rows: Sequence[Mapping[str, Any]], marks: Iterable[Mark]) -> dict[int, set[str]]:
    """The labels of the marks that each instance lies in, by its number.

    An instance lies in a mark with a band if half of it or more does, in time and frequency. A mark without one says
    what is somewhere in its time; an instance lies in it if they overlap by half of their union or more.
    """
    own: dict[str, list[int]] = defaultdict(list)
    for i, row in enumerate(rows):
        own[str(row["file"])].append(i)
    boxes: dict[tuple[str, bool], _Boxes] = {}
    found: dict[int, set[str]] = defaultdict(set)
    for mark in marks:
        name, has_band = mark["file"], "low" in mark and "high" in mark
        if name not in own:
            continue
        if (name, has_band) not in boxes:
            columns = ("start", "end", "low", "high") if has_band else ("start", "end")
            boxes[name, has_band] = _Boxes([rows[i] for i in own[name]], columns)
        near = boxes[name, has_band].inside(mark) if has_band else boxes[name, has_band].overlapping(mark)[0]
        for j in near.tolist():
            found[own[name][j]].add(mark["label"])
    return dict(found)


def intervals(place: Mapping[str, Any]) -> dict[str, tuple[float, float]]:
    """From where to where a place reaches along each axis that it tells; the box of a polygon."""
    found = {axis: (place[a], place[b]) for axis, (a, b) in _EDGES.items() if a in place and b in place}
    found |= {axis: (place[a], place[a] + place[b]) for axis, (a, b) in _SIDES.items() if a in place and b in place}
    if "polygon" in place and "x" not in found:
        across, down = zip(*place["polygon"], strict=True)
        found |= {"x": (min(across), max(across)), "y": (min(down), max(down))}
    return found
