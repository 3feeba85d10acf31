"""A row of the page for every file, with or without a picture: what is in it, and where along it."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

from bagwise.featurize.medium import Medium
from bagwise.io.annotations import Annotations

MOST_FILES = 10_000  # rows of the page
MOST_LABELS = 8  # named of a file
STRIP = 120  # columns of the strip of a file, fewer where files are many
MOST_MARKS = 60_000  # columns of all strips together
UNITS = ("seconds", "characters")


def file_rows(annotations: Annotations[Medium]) -> list[dict[str, Any]]:
    """For each file its name, site, time, length, counts, labels, least probability, and strip.

    A strip has for each label the columns, of so many, in which it is the most frequent one, as pairs of first column
    and number of columns.
    """
    files = annotations.files[:MOST_FILES]
    if not annotations.medium.places:
        return []
    shown = annotations.shown_by_file()
    total = Counter(row["file"] for row in annotations.rows)
    columns = min(STRIP, MOST_MARKS // max(len(files), 1))
    found = []
    for file in files:
        rows = shown[file["file"]]
        labels = Counter(row["label"] for row in rows).most_common()
        sure = [row["probability"] for row in rows if row["probability"] is not None]
        length = next((file[unit] for unit in UNITS if unit in file), 0)
        found.append(
            {
                "file": file["file"], "site": file.get("site", ""), "recorded": file.get("recorded", ""),
                "seconds": file.get("seconds"), "named": len(rows), "noise": total[file["file"]] - len(rows),
                "labels": labels[:MOST_LABELS], "more": len(labels[MOST_LABELS:]),
                "least": min(sure) if sure else None, "columns": columns,
                "strip": _strip(rows, file.get("start", 0.0), length, columns) if length and columns > 3 else {},
            }
        )  # fmt: skip
    return found


def _strip(rows: list[dict[str, Any]], begin: float, length: float, columns: int) -> dict[str, list[tuple[int, int]]]:
    counts: dict[int, Counter[str]] = defaultdict(Counter)
    for row in rows:
        first = min(max(int((row["start"] - begin) / length * columns), 0), columns - 1)
        last = min(max(int((row["end"] - begin) / length * columns), first), columns - 1)
        for column in range(first, last + 1):
            counts[column][row["label"]] += 1
    strip: dict[str, list[tuple[int, int]]] = {}
    for column in sorted(counts):
        label = min(counts[column], key=lambda name: (-counts[column][name], name))
        runs = strip.setdefault(label, [])
        if runs and sum(runs[-1]) == column:
            runs[-1] = runs[-1][0], runs[-1][1] + 1
        else:
            runs.append((column, 1))
    return strip
