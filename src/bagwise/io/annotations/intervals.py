"""Windows of one label that follow each other, as one interval; and marks of intervals back to the windows in them.

Windows overlap, so each speaks for the part of the time that is nearer to its middle than to that of its neighbours.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from bagwise.io.annotations.annotations import Annotations, open_folder
from bagwise.io.annotations.marks import (
    FileNames,
    Mark,
    Marks,
    Spelling,
    all_files,
    read_place,
    read_table,
    require_columns,
    table_headings,
)  # fmt: skip
from bagwise.io.tables import write_csv
from bagwise.io.text import defuse, undefuse

NAME = "intervals.csv"
HEADINGS = ("file", "bag", "start", "end", "label", "probability", "windows")
LEAST_INSIDE = 0.5  # of the part of a window that a mark must hold
DIGITS = 6
Part = tuple[float, float, Mapping[str, Any]]
"""Start and end of the part of the time that a window speaks for, and its row."""


def own_parts(rows: Iterable[Mapping[str, Any]]) -> list[Part]:
    """The part of each window of one recording, in the order of time; they touch where windows overlap or touch."""
    windows = sorted(rows, key=lambda row: (row["start"], row["end"]))
    starts, ends = [row["start"] for row in windows], [row["end"] for row in windows]
    for i in range(1, len(windows)):
        if windows[i]["start"] <= windows[i - 1]["end"]:
            starts[i] = ends[i - 1] = round((windows[i]["start"] + windows[i - 1]["end"]) / 2, DIGITS)
    return list(zip(starts, ends, windows, strict=True))


def join_windows(
    rows: Iterable[Mapping[str, Any]], is_shown: Callable[[Mapping[str, Any]], bool]
) -> list[dict[str, Any]]:
    """The intervals of windows of one recording; windows that are not shown are between intervals, not in them.

    Each has file, bag, start, end, label, probability (the mean), windows (how many), and `rows` (these).
    """
    found: list[dict[str, Any]] = []
    last = None
    for start, end, row in own_parts(rows):
        if is_shown(row):
            if last is not None and last["label"] == row["label"] and last["end"] == start:
                last["end"] = end
                last["rows"].append(row)
            else:
                last = {"file": row["file"], "bag": row["bag"], "start": start, "end": end, "label": row["label"]}
                found.append(last | {"rows": [row]})
                last = found[-1]
        else:
            last = None
    for interval in found:
        known = [row["probability"] for row in interval["rows"] if row["probability"] is not None]
        interval["probability"] = round(sum(known) / len(known), 4) if known else None
        interval["windows"] = len(interval["rows"])
    return found


def intervals_by_file(annotations: Annotations) -> dict[str, list[dict[str, Any]]]:
    """The intervals of every file, recording after recording; of those that have none, too."""
    found: dict[str, list[dict[str, Any]]] = {file["file"]: [] for file in annotations.files}
    for own in _by_bag(annotations.rows).values():
        found[own[0]["file"]] += join_windows(own, annotations.is_shown)
    return found


def _by_bag(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[Mapping[str, Any]]]:
    by_bag: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for row in rows:
        by_bag[str(row["bag"])].append(row)
    return by_bag


def write_intervals(annotations: Annotations, folder: Path) -> list[Path]:
    """``intervals.csv``: a row for each interval of one label, with its mean probability and its number of windows."""
    path = open_folder(folder, NAME)
    rows = [
        {key: "" if interval[key] is None else interval[key] for key in HEADINGS}
        for own in intervals_by_file(annotations).values()
        for interval in own
    ]
    write_csv(rows, path, HEADINGS)
    return [path]


def read_intervals(path: Path, annotations: Annotations) -> Marks:
    """The table of intervals; a window is of the label in whose interval half of its part lies."""
    require_columns(path, table_headings(path), ["file", "start", "end", "label"])
    names, labels = FileNames(annotations, defuse), Spelling(annotations.classes, defuse, undefuse)
    rows = [
        {
            "source": source, "file": names(cells["file"]), "label": labels(cells["label"]),
            **({"recording": undefuse(cells["bag"])} if cells.get("bag") else {}),
            **read_place(cells, {"start": "start", "end": "end"}, source),
        }
        for source, cells in read_table(path)
    ]  # fmt: skip
    return spread_marks(Marks(rows, all_files(annotations)), annotations)


def spread_marks(marks: Marks, annotations: Annotations) -> Marks:
    """Marks of intervals as marks of the windows whose part lies in them, by half or more."""
    parts: dict[str, list[Part]] = defaultdict(list)
    for own in _by_bag(annotations.rows).values():
        parts[str(own[0]["file"])] += own_parts(own)
    found: list[Mark] = []
    for mark in marks.rows:
        inside = [
            row
            for start, end, row in parts.get(mark["file"], ())
            if min(end, mark["end"]) - max(start, mark["start"]) >= LEAST_INSIDE * (end - start)
            and mark.get("recording", row["bag"]) == row["bag"]
        ]
        if not inside:
            found.append(mark)  # it is in no file, or on no window: whoever compares says so
        found += [
            {"source": mark["source"], "label": mark["label"], "file": mark["file"], "bag": str(row["bag"]),
             "instance": row["instance"]}
            for row in inside
        ]  # fmt: skip
    return Marks(found, marks.covered, marks.every_instance)
