"""Labels by file, by hour of the day and by date, as plain data and as tables."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

from bagwise.app.formats import Annotations
from bagwise.io.inside import open_folder
from bagwise.io.tables import write_csv

BY_FILE, BY_HOUR, BY_DATE = "labels-by-file.csv", "labels-by-hour.csv", "labels-by-date.csv"
HOURS = range(24)
UNITS = ("hour", "date")
Key = tuple[Any, ...]


def write_field_tables(annotations: Annotations, folder: Path) -> list[Path]:
    """Write labels by file, and where files tell their time by hour and by date; gives the paths. Tables have none."""
    if not annotations.media_type.places:
        return []
    tables = {BY_FILE: labels_by_file(annotations)}
    if _is_dated(annotations):
        survey = Survey(annotations)
        tables |= {BY_HOUR: survey.rows("hour"), BY_DATE: survey.rows("date")}
    paths = [open_folder(folder, name) for name in tables]
    for path, rows in zip(paths, tables.values(), strict=True):
        write_csv(rows, path)
    return paths


def _is_dated(annotations: Annotations) -> bool:
    """Whether any file tells when it was recorded."""
    return any("recorded" in file for file in annotations.files)


def labels_by_file(annotations: Annotations) -> list[dict[str, Any]]:
    """A row for each label of each file: instances, first and longest, highest probability.

    A file in which nothing was named has one row with an empty label and no instance: it was looked at.
    """
    has_start = "start" in annotations.media_type.places
    dated, placed = _is_dated(annotations), any("latitude" in file for file in annotations.files)
    found = []
    for file in annotations.files:
        facts: dict[str, Any] = {"file": file["file"]}
        if "site" in file:
            facts["site"] = file["site"]
        if placed:
            facts |= {key: file.get(key, "") for key in ("latitude", "longitude")}
        if dated:
            facts["recorded"] = file.get("recorded", "")
        found.append((file["file"], facts))
    groups: dict[str, dict[str, list[dict[str, Any]]]] = defaultdict(lambda: defaultdict(list))
    for row in annotations.shown():
        groups[row["file"]][row["label"]].append(row)
    return [
        facts | _group(label, groups[name].get(label, []), has_start, dated)
        for name, facts in found
        for label in sorted(groups[name]) or [""]
    ]


def _group(label: str, members: list[dict[str, Any]], has_start: bool, dated: bool) -> dict[str, Any]:
    sure = [row["probability"] for row in members if row["probability"] is not None]
    facts: dict[str, Any] = {"label": label, "instances": len(members)}
    if has_start:
        first = min(members, key=lambda row: row["start"]) if members else {}
        longest = max((row["end"] - row["start"] for row in members), default=None)
        facts["first"] = first.get("start", "")
        if dated:
            facts["first_time"] = first.get("time", "")
        facts["longest"] = "" if longest is None else round(longest, 4)
    return facts | {"highest_probability": max(sure) if sure else ""}


class Survey:
    """How often each label was predicted and how much was recorded, by site and hour and by site and date.

    A recording counts for each hour and date that it reaches into.

    Attributes
    ----------
    undated : int
        Files without a time.
    """

    def __init__(self, annotations: Annotations) -> None:
        self.undated = 0
        self._labels, self._timed = annotations.classes, annotations.media_type.timed
        # by unit ("hour" or "date"), then by (site, hour or date), for instances by (label, site, hour or date)
        self._files: dict[str, dict[Key, set[str]]] = {by: defaultdict(set) for by in UNITS}
        self._minutes: dict[str, dict[Key, float]] = {by: defaultdict(float) for by in UNITS}
        self._instances: dict[str, dict[Key, list[str]]] = {by: defaultdict(list) for by in UNITS}
        for file in annotations.files:
            if "recorded" not in file:
                self.undated += 1
                continue
            for when, minutes in _by_the_hour(datetime.fromisoformat(file["recorded"]), file.get("seconds", 0.0)):
                for by, value in _units(when):
                    self._files[by][file.get("site", ""), value].add(file["file"])
                    self._minutes[by][file.get("site", ""), value] += minutes
        sites = {file["file"]: file.get("site", "") for file in annotations.files if "recorded" in file}
        for row in annotations.shown():
            if row["file"] in sites:
                for by, value in _units(datetime.fromisoformat(row["time"])):
                    self._instances[by][row["label"], sites[row["file"]], value].append(row["file"])

    def rows(self, by: str) -> list[dict[str, Any]]:
        """A row for each label, site, and hour or date at which there was a recording there."""
        rows = []
        for label in self._labels:
            for (site, when), files in sorted(self._files[by].items()):
                found = self._instances[by].get((label, site, when), [])
                row = {"label": label, "site": site, by: when, "instances": len(found), "files": len(set(found))}
                row["files_recorded"] = len(files)
                if self._timed:
                    row["minutes_recorded"] = round(self._minutes[by][site, when], 3)
                rows.append(row)
        return rows

    def totals(self, by: str) -> dict[str, Counter[Any]]:
        """Label to instances by hour or date, all sites together."""
        totals: dict[str, Counter[Any]] = {label: Counter() for label in self._labels}
        for (label, _, when), found in self._instances[by].items():
            totals[label][when] += len(found)
        return totals

    def recorded(self, by: str) -> Counter[Any]:
        """Recordings by hour or date, all sites together."""
        counts: Counter[Any] = Counter()
        for (_, when), files in self._files[by].items():
            counts[when] += len(files)
        return counts


def _units(when: datetime) -> list[tuple[str, Any]]:
    return [("hour", when.hour), ("date", when.date().isoformat())]


def _by_the_hour(start: datetime, seconds: float) -> Iterable[tuple[datetime, float]]:
    """A moment of each hour that a recording reaches into, and its minutes in it."""
    end = start + timedelta(seconds=seconds)
    while True:
        edge = start.replace(minute=0, second=0, microsecond=0) + timedelta(hours=1)
        yield start, (min(edge, end) - start).total_seconds() / 60
        if edge >= end:
            return
        start = edge


# ---------------------------------------------------------------------------------------------------------------------
# For the page

MOST_LABELS = 60  # rows of a picture
MOST_COLUMNS = 92


def summarize_field(annotations: Annotations) -> dict[str, Any] | None:
    """What the page shows of it: pictures by hour and date, and a row for each site; None for media without times.

    Returns
    -------
    dict or None
        ``grids`` (one for the hours and one for the dates: name, unit, columns, rows of label, counts, and what was
        recorded), ``sites``, ``undated`` (files that tell no time), ``dated``.
    """
    if not annotations.media_type.dated:
        return None
    n_dated = sum("recorded" in file for file in annotations.files)
    facts: dict[str, Any] = {"dated": n_dated, "undated": len(annotations.files) - n_dated, "grids": []}
    facts["sites"] = _sites(annotations)
    if n_dated:
        survey = Survey(annotations)
        hours = {hour: f"{hour:02d}" for hour in HOURS}
        dates, unit = _date_columns(survey.recorded("date"))
        facts["grids"] = [
            _grid(survey, "hour", "hour of the day", dict.fromkeys(HOURS), hours),
            _grid(survey, "date", unit, dates, {name: name for name in dict.fromkeys(dates.values())}),
        ]
    return facts


def _date_columns(recorded: Mapping[str, int]) -> tuple[dict[str, str], str]:
    """The column of each date with recordings: days, or weeks or months where these would be too many."""
    days = [date.fromisoformat(text) for text in sorted(recorded)]
    span = (days[-1] - days[0]).days + 1
    if span <= MOST_COLUMNS:
        every = [days[0] + timedelta(days=i) for i in range(span)]
        return {day.isoformat(): day.isoformat() for day in every}, "date"
    if span <= 7 * MOST_COLUMNS:
        return {day.isoformat(): (day - timedelta(days=day.weekday())).isoformat() for day in days}, "week from Monday"
    if len({(day.year, day.month) for day in days}) <= MOST_COLUMNS:
        return {day.isoformat(): f"{day:%Y-%m}" for day in days}, "month"
    return {day.isoformat(): f"{day:%Y}" for day in days}, "year"


def _grid(
    survey: Survey, by: str, unit: str, column_of: Mapping[Any, str | None], columns: Mapping[Any, str]
) -> dict[str, Any]:
    """Counts of the labels in the columns of a picture, those found most first."""

    def join(counts: Mapping[Any, int]) -> list[int]:
        joined: Counter[Any] = Counter()
        for when, count in counts.items():
            joined[column_of.get(when) or when] += count
        return [joined[column] for column in columns]

    found = [(label, join(counts)) for label, counts in survey.totals(by).items() if counts]
    found.sort(key=lambda row: (-sum(row[1]), row[0]))
    rows = [{"label": label, "counts": counts} for label, counts in found]
    return {
        "by": by,
        "unit": unit,
        "columns": list(columns.values()),
        "recorded": join(survey.recorded(by)),
        "rows": rows[:MOST_LABELS],
        "left_out": len(rows[MOST_LABELS:]),
        "most": max((count for _, counts in found for count in counts), default=0),
    }


def _sites(annotations: Annotations) -> list[dict[str, Any]]:
    """A row for each site: place, files, minutes, instances, labels."""
    sites: dict[str, dict[str, Any]] = {}
    for file in annotations.files:
        if file.get("site"):
            start = {"site": file["site"], "latitude": None, "longitude": None, "files": 0, "minutes": 0.0}
            site = sites.setdefault(file["site"], start | {"instances": 0, "labels": set()})
            site["files"] += 1
            site["minutes"] += file.get("seconds", 0.0) / 60
            site |= {key: file[key] for key in ("latitude", "longitude") if key in file}
    for row in annotations.shown():
        if row.get("site"):
            sites[row["site"]]["instances"] += 1
            sites[row["site"]]["labels"].add(row["label"])
    return [
        site | {"labels": len(site["labels"]), "minutes": round(site["minutes"], 1)}
        for _, site in sorted(sites.items())
    ]
