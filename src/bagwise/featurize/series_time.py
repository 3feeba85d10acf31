"""The times of a series: seconds, milliseconds or since 1970, ISO times with zones, or none."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import Any

import numpy as np

from bagwise.exceptions import FormatError, InputError

UNITS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
EPOCH = 1e8  # seconds from which on a time is one since 1970: none of before 1973 is meant
_UNIT_WORDS = {
    "s": "s", "sec": "s", "second": "s", "seconds": "s", "ms": "ms", "msec": "ms", "millis": "ms", "millisecond": "ms",
    "milliseconds": "ms", "us": "us", "µs": "us", "microseconds": "us", "ns": "ns", "nanoseconds": "ns",
}  # fmt: skip
_CLOCK = re.compile(
    r"(?:(?P<name>time|t|timestamp|datetime|date_?time|epoch|unix_?time|unix_?timestamp)"
    rf"(?:[\s_.]*[\[(]?(?P<unit>{'|'.join(_UNIT_WORDS)})[\])]?)?|(?P<alone>seconds|milliseconds))$",
    re.IGNORECASE,
)
_SHAPE = re.compile(r"\d{4}-\d\d-\d\d(?P<between>[T ])(?P<time>\d\d:\d\d(?::\d\d(?P<fraction>\.\d+)?)?)(?P<zone>.*)$")


@dataclass(frozen=True)
class Clock:
    """Where times are from.

    Attributes
    ----------
    heading : str
        Of the column, "" where there is none.
    kind : {"none", "seconds", "epoch", "clock"}
        No column; seconds since some start; numbers since 1970; times as text or moments.
    unit : str
        Of numbers.
    first : float
        The number of the first row, as it stands in the file.
    recorded : str
        The moment of the first row in ISO form, where it is known.
    pattern : str
        How times that are text are written, in the letters of strftime.
    """

    heading: str = ""
    kind: str = "none"
    unit: str = "s"
    first: float = 0.0
    recorded: str = ""
    pattern: str = ""


def find_clock(headings: list[str]) -> list[int]:
    """The column of times; of a date and a time of day both."""
    folded = [heading.strip().lower() for heading in headings]
    if "date" in folded and "time" in folded:
        return [folded.index("date"), folded.index("time")]
    found = [j for j, heading in enumerate(folded) if _CLOCK.fullmatch(heading)]
    return found[:1]


def read_clock(
    headings: list[str], columns: list[Any], lines: list[str], unit: str, zone: str, path: str
) -> tuple[Clock, np.ndarray | None]:
    """The clock of some columns, and the seconds of all rows, which must rise; None where there is no column."""
    if not columns:
        return Clock(), None
    heading = " ".join(headings)
    cells = columns[0] if len(columns) == 1 else [f"{day} {time}" for day, time in zip(*columns, strict=True)]
    there = _zone(zone, path) if zone else None
    numbers = _as_numbers(cells)
    if numbers is not None:
        clock, times = _read_numbers(heading, numbers, lines, unit, there)
    else:
        clock, times = _read_moments(heading, cells, lines, there)
    still = np.flatnonzero(np.diff(times) <= 0)
    if len(still):
        raise FormatError(f"{lines[still[0] + 1]}: the time does not rise; sort the rows by {heading!r}.")
    return clock, times


def _as_numbers(cells: Any) -> np.ndarray | None:
    """Times that are numbers, with decimal commas too; None where the first is none."""
    if isinstance(cells, np.ndarray):
        return cells.astype(np.float64) if cells.dtype.kind in "biuf" else None
    try:
        float(cells[0].replace(",", "."))
    except ValueError:
        return None
    found = np.full(len(cells), np.nan)
    for i, cell in enumerate(cells):
        try:
            found[i] = float(cell.replace(",", "."))
        except ValueError:
            break
    return found


def _read_numbers(
    heading: str, numbers: np.ndarray, lines: list[str], unit: str, there: tzinfo | None
) -> tuple[Clock, np.ndarray]:
    bad = np.flatnonzero(~np.isfinite(numbers))
    if len(bad):
        raise FormatError(f"{lines[bad[0]]}: the time ({heading!r}) is no number; give every row its time.")
    first = float(numbers[0])
    if unit == "auto":
        told = _CLOCK.fullmatch(heading.strip())
        word = (told["unit"] or told["alone"] or "") if told else ""
        unit = _UNIT_WORDS.get(word.lower(), "") or _unit_of(first)
    seconds = first * UNITS[unit]
    if seconds < EPOCH:
        return Clock(heading, "seconds", unit, first), numbers * UNITS[unit]
    moment = datetime.fromtimestamp(0, UTC) + timedelta(seconds=seconds)
    recorded = (moment if there is None else moment.astimezone(there)).isoformat()
    return Clock(heading, "epoch", unit, first, recorded), (numbers - first) * UNITS[unit]


def _unit_of(first: float) -> str:
    """The unit of a time since 1970 by its size: one of these years has 10, 13, 16 or 19 digits before the point."""
    return next((unit for unit, most in (("s", 1e11), ("ms", 1e14), ("us", 1e17)) if abs(first) < most), "ns")


def _read_moments(heading: str, cells: Any, lines: list[str], there: tzinfo | None) -> tuple[Clock, np.ndarray]:
    if isinstance(cells, np.ndarray) and cells.dtype.kind == "M":
        missing = np.flatnonzero(np.isnat(cells))
        if len(missing):
            raise FormatError(f"{lines[missing[0]]}: the time ({heading!r}) is blank; give every row its time.")
        whole = np.datetime_as_string(cells, "us").tolist()
    else:
        whole = cells
    moments = [_moment(cell, heading, line) for cell, line in zip(whole, lines, strict=True)]
    mixed = [i for i, moment in enumerate(moments) if (moment.tzinfo is None) != (moments[0].tzinfo is None)]
    if mixed:
        raise FormatError(
            f"{lines[mixed[0]]}: some times tell their offset from UTC and others do not ({whole[mixed[0]]!r}); "
            "write all of them in one way."
        )
    seconds = _seconds(moments, there)
    first = moments[0] if moments[0].tzinfo is not None or there is None else moments[0].replace(tzinfo=there)
    first = first.astimezone(there) if there is not None else first
    if first.tzinfo is not None:  # the offset of the start, so that seconds can be added across a change of the clocks
        first = first.replace(tzinfo=timezone(first.utcoffset() or timedelta()))
    return Clock(heading, "clock", "s", 0.0, first.isoformat(), _pattern(whole[0])), seconds - seconds[0]


def _moment(cell: str, heading: str, line: str) -> datetime:
    try:
        return datetime.fromisoformat(cell.strip())
    except ValueError:
        raise FormatError(
            f"{line}: the time ({heading!r}) is {cell!r}; expected seconds, or ISO times such as 2024-05-01T05:30:00."
        ) from None


def _seconds(moments: list[datetime], there: tzinfo | None) -> np.ndarray:
    """Seconds since 1970; of an hour that a clock shows twice the second is meant where else time would go back."""
    if moments[0].tzinfo is not None:
        return np.array([moment.timestamp() for moment in moments])
    zone = UTC if there is None else there
    seconds = np.array([moment.replace(tzinfo=zone).timestamp() for moment in moments])
    for i in range(1, len(seconds)):
        if seconds[i] <= seconds[i - 1]:
            seconds[i] = moments[i].replace(tzinfo=zone, fold=1).timestamp()
    return seconds


def _pattern(cell: str) -> str:
    """How a time is written, in the letters of strftime; "" where it is written in another way."""
    shape = _SHAPE.fullmatch(cell.strip())
    if shape is None:
        return ""
    time = "%H:%M:%S" if shape["time"].count(":") == 2 else "%H:%M"
    zone = "%Z" if shape["zone"] else ""
    return f"%Y-%m-%d{shape['between']}{time}{'.%f' if shape['fraction'] else ''}{zone}"


def _zone(name: str, path: str) -> tzinfo:
    from zoneinfo import ZoneInfo

    try:
        return ZoneInfo(name)
    except Exception as error:  # missing data and odd names fail in several ways
        raise InputError(
            f"{path}: there is no time zone {name!r} (--medium-set time_zone={name}); use names such as Europe/Berlin."
        ) from error
