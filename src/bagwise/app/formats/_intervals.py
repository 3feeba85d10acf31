"""A table of the intervals of labels over windows; and marks of intervals back to the windows in them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bagwise.app.formats.annotations import Annotations
from bagwise.app.formats.marks import (
    FileNames,
    Mark,
    Marks,
    Spelling,
    all_files,
    read_place,
    read_table,
    require_columns,
)
from bagwise.app.media.windows import Part, join_windows, own_parts
from bagwise.io.inside import open_folder
from bagwise.io.tables import write_csv
from bagwise.io.text import defuse, undefuse

NAME = "intervals.csv"
HEADINGS = ("file", "bag", "start", "end", "label", "probability", "windows")
LEAST_INSIDE = 0.5  # of the part of a window that a mark must hold


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
    table = read_table(path)
    require_columns(table, ["file", "start", "end", "label"])
    names, labels = FileNames(annotations, defuse), Spelling(annotations.classes, defuse, undefuse)
    rows = [
        {
            "source": source,
            "file": names(cells["file"]),
            "label": labels(cells["label"]),
            **({"recording": undefuse(cells["bag"])} if cells.get("bag") else {}),
            **read_place(cells, {"start": "start", "end": "end"}, source),
        }
        for source, cells in table.records()
    ]
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
            {
                "source": mark["source"],
                "label": mark["label"],
                "file": mark["file"],
                "bag": str(row["bag"]),
                "instance": row["instance"],
            }
            for row in inside
        ]
    return Marks(found, marks.covered, marks.every_instance)
