"""What was found where and when: labels by file, by hour of the day and by date, as plain data and as tables."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

from bagwise.featurize.medium import Medium
from bagwise.io.annotations import Annotations
from bagwise.io.tables import write_csv

BY_FILE, BY_HOUR, BY_DATE = "labels-by-file.csv", "labels-by-hour.csv", "labels-by-date.csv"
HOURS = range(24)


def write_field_tables(annotations: Annotations[Medium], folder: Path) -> list[Path]:
    """Write labels by file, and where files tell their time by hour and by date; gives the paths. Tables have none."""
    if not annotations.medium.places:
        return []
    tables = {BY_FILE: labels_by_file(annotations)}
    if is_dated(annotations):
        survey = survey_of(annotations)
        tables |= {BY_HOUR: survey.rows("hour"), BY_DATE: survey.rows("date")}
    for name, rows in tables.items():
        write_csv(rows, folder / name)
    return [folder / name for name in tables]


def is_dated(annotations: Annotations[Medium]) -> bool:
    """Whether any file tells when it was recorded."""
    return any("recorded" in file for file in annotations.files)


def labels_by_file(annotations: Annotations[Medium]) -> list[dict[str, Any]]:
    """A row for each label of each file: instances, first and longest, highest probability.

    A file in which nothing was named has one row with an empty label and no instance: it was looked at.
    """
    has_start = "start" in annotations.medium.places
    dated, placed = is_dated(annotations), any("latitude" in file for file in annotations.files)
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


Key = tuple[str, Any]
"""Site, and hour of the day or date."""


@dataclass
class Survey:
    """How often each label was found and how much was recorded, by site and hour and by site and date.

    Attributes
    ----------
    labels : list of str
    timed : bool
        Whether files have a length.
    files, minutes : dict
        "hour" or "date" to a counter of recordings, and of minutes, by site and that.
    instances, found_in : dict
        "hour" or "date" to a counter of instances, and to the files that hold any, by label, site and that.
    undated : int
        Files that tell no time.
    """

    labels: list[str]
    timed: bool
    files: dict[str, Counter[Key]] = field(default_factory=lambda: {"hour": Counter(), "date": Counter()})
    minutes: dict[str, dict[Key, float]] = field(
        default_factory=lambda: {"hour": defaultdict(float), "date": defaultdict(float)}
    )
    instances: dict[str, Counter[tuple[str, Key]]] = field(
        default_factory=lambda: {"hour": Counter(), "date": Counter()}
    )
    found_in: dict[str, dict[tuple[str, Key], set[str]]] = field(
        default_factory=lambda: {"hour": defaultdict(set), "date": defaultdict(set)}
    )
    undated: int = 0

    def rows(self, by: str) -> list[dict[str, Any]]:
        """A row for each label, site, and hour or date at which there was a recording there."""
        rows = []
        for label in self.labels:
            for key in sorted(self.files[by]):
                site, when = key
                row = {
                    "label": label, "site": site, by: when, "instances": self.instances[by][label, key],
                    "files": len(self.found_in[by].get((label, key), ())), "files_recorded": self.files[by][key],
                }  # fmt: skip
                rows.append(row | ({"minutes_recorded": round(self.minutes[by][key], 3)} if self.timed else {}))
        return rows

    def totals(self, by: str) -> dict[str, dict[Any, int]]:
        """Label to instances by hour or date, all sites together."""
        totals: dict[str, dict[Any, int]] = {label: {} for label in self.labels}
        for (label, (_, when)), count in self.instances[by].items():
            totals[label][when] = totals[label].get(when, 0) + count
        return totals

    def recorded(self, by: str) -> dict[Any, int]:
        """Recordings by hour or date, all sites together."""
        counts: Counter[Any] = Counter()
        for (_, when), count in self.files[by].items():
            counts[when] += count
        return dict(counts)


def survey_of(annotations: Annotations[Medium]) -> Survey:
    """Count instances and recordings; a recording counts for each hour and date that it reaches into."""
    survey = Survey(annotations.classes, annotations.medium.timed)
    sites: dict[str, str] = {}
    for file in annotations.files:
        if "recorded" not in file:
            survey.undated += 1
            continue
        site = sites[file["file"]] = file.get("site", "")
        seen: set[tuple[str, Any]] = set()
        for when, minutes in _by_the_hour(datetime.fromisoformat(file["recorded"]), file.get("seconds", 0.0)):
            for by, value in (("hour", when.hour), ("date", when.date().isoformat())):
                survey.minutes[by][site, value] += minutes
                if (by, value) not in seen:
                    seen.add((by, value))
                    survey.files[by][site, value] += 1
    for row in annotations.shown():
        if row["file"] in sites:
            site, time = sites[row["file"]], datetime.fromisoformat(row["time"])
            for by, value in (("hour", time.hour), ("date", time.date().isoformat())):
                survey.instances[by][row["label"], (site, value)] += 1
                survey.found_in[by][row["label"], (site, value)].add(row["file"])
    return survey


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


def summarize_field(annotations: Annotations[Medium]) -> dict[str, Any] | None:
    """What the page shows of it: pictures by hour and date, and a row for each site; None for media without times.

    Returns
    -------
    dict or None
        ``grids`` (one for the hours and one for the dates: name, unit, columns, rows of label, counts, and what was
        recorded), ``sites``, ``undated`` (files that tell no time), ``dated``.
    """
    if annotations.medium.recorded is None:
        return None
    n_dated = sum("recorded" in file for file in annotations.files)
    facts: dict[str, Any] = {"dated": n_dated, "undated": len(annotations.files) - n_dated, "grids": []}
    facts["sites"] = _sites(annotations)
    if n_dated:
        survey = survey_of(annotations)
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
        "by": by, "unit": unit, "columns": list(columns.values()), "recorded": join(survey.recorded(by)),
        "rows": rows[:MOST_LABELS], "left_out": len(rows[MOST_LABELS:]),
        "most": max((count for _, counts in found for count in counts), default=0),
    }  # fmt: skip


def _sites(annotations: Annotations[Medium]) -> list[dict[str, Any]]:
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
