"""Labels by file, by hour of the day and by date, as plain data and as tables."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

from bagwise.app.formats import Annotations
from bagwise.io.files import open_folder
from bagwise.io.tables import write_csv

BY_FILE, BY_HOUR, BY_DATE = "labels-by-file.csv", "labels-by-hour.csv", "labels-by-date.csv"


def write_field_tables(annotations: Annotations, folder: Path) -> list[Path]:
    """Write labels by file, and where files tell their time by hour and by date; gives the paths. Tables have none."""
    if not annotations.media_type.places:
        return []
    tables = {BY_FILE: _labels_by_file(annotations)}
    if _is_dated(annotations):
        survey = _Survey(annotations)
        tables |= {BY_HOUR: survey.rows("hour"), BY_DATE: survey.rows("date")}
    paths = [open_folder(folder, name) for name in tables]
    for path, rows in zip(paths, tables.values(), strict=True):
        write_csv(rows, path)
    return paths


def _is_dated(annotations: Annotations) -> bool:
    """Whether any file tells when it was recorded."""
    return any("recorded" in file for file in annotations.files)


def _labels_by_file(annotations: Annotations) -> list[dict[str, Any]]:
    """A row for each label of each file: instances, first and longest, highest probability.

    A file in which nothing was named has one row with an empty label and no instance: it was looked at.
    """
    has_start = "start" in annotations.media_type.places
    optional = {
        "latitude": any("latitude" in file for file in annotations.files),
        "longitude": any("latitude" in file for file in annotations.files),
        "recorded": _is_dated(annotations),
    }
    shown, found = annotations.shown_by_file(), []
    for file in annotations.files:
        facts: dict[str, Any] = {"file": file["file"], **({"site": file["site"]} if "site" in file else {})}
        facts |= {key: file.get(key, "") for key, is_there in optional.items() if is_there}
        groups: dict[str, list[dict[str, Any]]] = defaultdict(list)
        for row in shown[file["file"]]:
            groups[row["label"]].append(row)
        for label in sorted(groups) or [""]:
            own = groups.get(label, [])
            row = {**facts, "label": label, "instances": len(own)}
            if has_start:
                first = min(own, key=lambda row: row["start"], default={})
                row["first"] = first.get("start", "")
                if optional["recorded"]:
                    row["first_time"] = first.get("time", "")
                row["longest"] = round(max(row["end"] - row["start"] for row in own), 4) if own else ""
            sure = [row["probability"] for row in own if row["probability"] is not None]
            found.append({**row, "highest_probability": max(sure, default="")})
    return found


class _Moment(NamedTuple):
    """An hour of a recording with its minutes in it, or an instance with its label."""

    site: str
    hour: int
    date: str
    file: str
    minutes: float = 0.0
    label: str = ""

    @classmethod
    def at(cls, when: datetime, file: Mapping[str, Any], **facts: Any) -> _Moment:
        return cls(file.get("site", ""), when.hour, when.date().isoformat(), file["file"], **facts)


class _Survey:
    """How often each label was predicted and how much was recorded, by site and hour and by site and date.

    A recording counts for each hour and date that it reaches into.

    Attributes
    ----------
    undated : int
        Files without a time.
    """

    def __init__(self, annotations: Annotations) -> None:
        self._labels, self._timed = annotations.classes, annotations.media_type.timed
        dated = {file["file"]: file for file in annotations.files if "recorded" in file}
        self.undated = len(annotations.files) - len(dated)
        self._recorded = [
            _Moment.at(when, file, minutes=minutes)
            for file in dated.values()
            for when, minutes in by_the_hour(datetime.fromisoformat(file["recorded"]), file.get("seconds", 0.0))
        ]
        self._instances = [
            _Moment.at(datetime.fromisoformat(row["time"]), dated[row["file"]], label=row["label"])
            for row in annotations.shown()
            if row["file"] in dated
        ]

    def rows(self, by: str) -> list[dict[str, Any]]:
        """A row for each label, site, and hour or date at which there was a recording there."""
        recorded: dict[Any, list[_Moment]] = defaultdict(list)
        for moment in self._recorded:
            recorded[moment.site, getattr(moment, by)].append(moment)
        instances: dict[Any, list[str]] = defaultdict(list)
        for moment in self._instances:
            instances[moment.label, moment.site, getattr(moment, by)].append(moment.file)
        rows = []
        for label in self._labels:
            for (site, when), moments in sorted(recorded.items()):
                own = instances.get((label, site, when), [])
                row = {"label": label, "site": site, by: when, "instances": len(own), "files": len(set(own))}
                row["files_recorded"] = len({moment.file for moment in moments})
                if self._timed:
                    row["minutes_recorded"] = round(sum(moment.minutes for moment in moments), 3)
                rows.append(row)
        return rows

    def totals(self, by: str) -> dict[str, Counter[Any]]:
        """Label to instances by hour or date, all sites together."""
        totals: dict[str, Counter[Any]] = defaultdict(Counter)
        for moment in self._instances:
            totals[moment.label][getattr(moment, by)] += 1
        return totals

    def recorded(self, by: str) -> Counter[Any]:
        """Recordings by hour or date, all sites together."""
        return Counter(when for when, _ in {(getattr(moment, by), moment.file) for moment in self._recorded})


def by_the_hour(start: datetime, seconds: float) -> Iterator[tuple[datetime, float]]:
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
    survey, grids = _Survey(annotations), []
    n_dated = len(annotations.files) - survey.undated
    if n_dated:
        dates, unit = _date_columns(survey.recorded("date"))
        hours = {hour: f"{hour:02d}" for hour in range(24)}
        grids = [_grid(survey, "hour", "hour of the day", hours), _grid(survey, "date", unit, dates)]
    return {"dated": n_dated, "undated": survey.undated, "grids": grids, "sites": _sites(annotations)}


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


def _grid(survey: _Survey, by: str, unit: str, column_of: Mapping[Any, str]) -> dict[str, Any]:
    """Counts of the labels in the columns of a picture, those found most first."""
    columns = list(dict.fromkeys(column_of.values()))

    def join(counts: Mapping[Any, int]) -> list[int]:
        joined: Counter[str] = Counter()
        for when, count in counts.items():
            joined[column_of.get(when, "")] += count
        return [joined[column] for column in columns]

    found = [(label, join(counts)) for label, counts in survey.totals(by).items()]
    found.sort(key=lambda row: (-sum(row[1]), row[0]))
    rows = [{"label": label, "counts": counts} for label, counts in found]
    return {
        "by": by,
        "unit": unit,
        "columns": columns,
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
