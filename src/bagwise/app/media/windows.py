"""Windows of one recording that follow each other, as one interval per label.

Windows overlap, so each stands for the part of the time that is nearer to its middle than to that of its neighbours.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Any

DIGITS = 6
Part = tuple[float, float, Mapping[str, Any]]
"""Start and end of the part of the time that a window stands for, and its row."""


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
    by_window: dict[tuple[float, float], list[Mapping[str, Any]]] = defaultdict(
        list
    )  # one with several labels has rows
    for row in rows:
        by_window[row["start"], row["end"]].append(row)
    going: dict[str, dict[str, Any]] = {}  # the intervals that the last window is in, by their label
    for start, end, first in own_parts([own[0] for own in by_window.values()]):
        before, going = going, {}
        for row in by_window[first["start"], first["end"]]:
            if not is_shown(row):
                continue
            label, interval = row["label"], before.get(row["label"])
            if interval is None or interval["end"] != start:
                interval = {
                    "file": row["file"],
                    "bag": row["bag"],
                    "start": start,
                    "end": end,
                    "label": label,
                    "rows": [],
                }
                found.append(interval)
            interval["end"] = end
            interval["rows"].append(row)
            going[label] = interval
    for interval in found:
        known = [row["probability"] for row in interval["rows"] if row["probability"] is not None]
        interval["probability"] = round(sum(known) / len(known), 4) if known else None
        interval["windows"] = len(interval["rows"])
    return found
