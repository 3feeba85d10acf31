"""Series of measurements as they come: CSV or parquet, times of several kinds, blank cells, several recordings."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from bagwise.app.media.settings import Settings, choice, number
from bagwise.core.checks import import_pyarrow
from bagwise.core.exceptions import FormatError, InputError
from bagwise.io.files import check_readable, damaged
from bagwise.io.tables import read_arrow, read_rows

UNITS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
LATEST = 2.2e11  # seconds since 1970 up to which there is a calendar, whatever the time zone
EPOCH = 1e8  # seconds from which on a time is one since 1970: none of before 1973 is meant
_UNIT_WORDS = {
    **dict.fromkeys(("s", "sec", "second", "seconds"), "s"),
    **dict.fromkeys(("ms", "msec", "millis", "millisecond", "milliseconds"), "ms"),
    **dict.fromkeys(("us", "µs", "microseconds"), "us"),
    **dict.fromkeys(("ns", "nanoseconds"), "ns"),
}
_CLOCK = re.compile(
    r"(?:(?P<name>time|t|timestamp|datetime|date_?time|epoch|unix_?time|unix_?timestamp)"
    rf"(?:[\s_.]*[\[(]?(?P<unit>{'|'.join(_UNIT_WORDS)})[\])]?)?|(?P<alone>seconds|milliseconds))$",
    re.IGNORECASE,
)
_SHAPE = re.compile(r"\d{4}-\d\d-\d\d(?P<between>[T ])(?P<time>\d\d:\d\d(?::\d\d(?P<fraction>\.\d+)?)?)(?P<zone>.*)$")
AUTO, REFUSE = "auto", "none"
RECORDING = "recording"  # column of the places of instances, where one table holds several
BLANKS = frozenset({"", "na", "n/a", "nan", "null", "none", "-", "?"})
GAP = 4.0  # steps from which on the time between two rows is a gap


@dataclass(frozen=True)
class SeriesSettings(Settings):
    """How series become stretches.

    Attributes
    ----------
    window, step : int
        Rows of a stretch, and rows from the start of one to the start of the next.
    rate : float
        Rows per second, where there is no column of times.
    time : str
        Heading of the column of times; "" finds it.
    time_unit : {"auto", "s", "ms", "us", "ns"}
        Of times that are numbers; "auto" goes by the heading, and by the size of times since 1970.
    time_zone : str
        Of clock times without an offset, and to which times since 1970 are turned, such as Europe/Berlin; "" leaves
        them as they are.
    max_gap : float or None
        Seconds between two rows from which on there is a gap, which no stretch reaches across; None takes four times
        the usual step.
    fill : {"none", "linear", "previous"}
        How blank cells are filled: not at all (they are an error), between the neighbours, or with the one before.
    recording : str
        Heading of a column that names the recordings of one table, each a bag of its own; "" where a file is one.

    Examples
    --------
    >>> from bagwise.app.media import SeriesSettings
    >>> SeriesSettings(window=200, step=100, rate=50.0).fill
    'none'
    """

    window: int = number(128, 4, 10_000_000)
    step: int = number(64, 1, 10_000_000)
    rate: float = number(1.0, 1e-9, 1e12)
    time: str = ""
    time_unit: str = choice(AUTO, *UNITS)
    time_zone: str = ""
    max_gap: float | None = number(None, 1e-9, 1e12)
    fill: str = choice(REFUSE, "linear", "previous")
    recording: str = ""


@dataclass(frozen=True)
class _Clock:
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


@dataclass(frozen=True)
class Series:
    """One recording.

    Attributes
    ----------
    values : (n, k) array
    channels : list of str
    times : (n,) array
        Seconds: as the file has them, of clock times since the first row, of none by the rate.
    rate : float
        Rows per second, by the usual step.
    clock : _Clock
        Where the times are from.
    n_filled : int
        Blank cells that were filled.
    max_gap : float
    """

    values: np.ndarray
    channels: list[str]
    times: np.ndarray
    rate: float
    clock: _Clock
    n_filled: int
    max_gap: float

    @property
    def start(self) -> float:
        return float(self.times[0])

    @property
    def end(self) -> float:
        """When the last row is over."""
        return float(self.times[-1]) + 1.0 / self.rate

    @property
    def pieces(self) -> list[tuple[int, int]]:
        """First row and the row behind the last of each piece without a gap."""
        cuts = np.flatnonzero(np.diff(self.times) > self.max_gap) + 1
        edges = [0, *cuts.tolist(), len(self.times)]
        return list(pairwise(edges))


@dataclass(frozen=True)
class _Table:
    """Headings, columns (cells of text, or an array) and the place of each row in words of errors."""

    path: Path
    headings: list[str]
    columns: list[Any]
    lines: Sequence[int]

    def row(self, i: Any) -> str:
        return f"{self.path}, row {self.lines[int(i)]}"


def read_recordings(path: str | Path, settings: SeriesSettings) -> dict[str, Series]:
    """The recordings of a table by name, all with one clock; "" where no column names them."""
    table = _read_parquet(Path(path)) if Path(path).suffix.lower() in (".parquet", ".pq") else _read_delimited(path)
    n_rows = len(table.lines)
    if not n_rows:
        raise FormatError(f"{path}: there is a heading but no row below it.")
    given = [_column(table, settings.time, "time")] if settings.time else _find_clock(table.headings)
    named = [_column(table, settings.recording, "recording")] if settings.recording else []
    kept = [j for j in range(len(table.headings)) if j not in (*given, *named)]
    if not kept:
        raise FormatError(f"{table.path}: there is no column besides the time.")
    names = np.array([_recording_name(cell) for cell in table.columns[named[0]]] if named else [""] * n_rows, object)
    if named and "" in names:
        where = table.row(np.flatnonzero(names == "")[0])
        raise FormatError(f"{where}: the column {settings.recording!r} is blank; name the recording of every row.")
    rows_of = {name: np.flatnonzero(names == name) for name in dict.fromkeys(names.tolist())}
    clock, times = _read_clock(table, given, list(rows_of.values()), settings)
    values = np.stack([_numbers(table, j) for j in kept], axis=1)
    channels = [table.headings[j] for j in kept]
    found = {}
    for name, rows in rows_of.items():
        seconds = np.arange(len(rows)) / settings.rate if times is None else times[rows]
        steps = np.diff(seconds)
        still = np.flatnonzero(steps <= 0)
        if len(still):
            raise FormatError(
                f"{table.row(rows[still[0] + 1])}: the time does not rise; sort the rows by {clock.heading!r}."
            )
        filled, n_filled = _filled(table, rows, values[rows], seconds, settings.fill, channels)
        usual = float(np.median(steps)) if len(steps) else 1.0 / settings.rate
        gap = GAP * usual if settings.max_gap is None else settings.max_gap
        found[name] = Series(filled, channels, seconds, 1.0 / usual, clock, n_filled, gap)
    return found


def read_series(path: str | Path, settings: SeriesSettings, recording: str = "") -> Series:
    """One recording of a table."""
    found = read_recordings(path, settings)
    if recording not in found:
        raise FormatError(f"{path}: there is no recording {recording!r} in it any more.")
    return found[recording]


def _recording_name(cell: Any) -> str:
    """A cell as a name; numbers without a needless point, "" where it is blank."""
    if isinstance(cell, float):
        return "" if np.isnan(cell) else np.format_float_positional(cell, trim="-")
    return str(cell).strip()


def _column(table: _Table, heading: str, setting: str) -> int:
    if heading not in table.headings:
        raise FormatError(
            f"{table.path}: there is no column {heading!r} (--media-set {setting}={heading}); its columns are "
            f"{', '.join(map(repr, table.headings[:12]))}."
        )
    return table.headings.index(heading)


def _number(cell: str) -> float:
    """A cell of text as a number, with a decimal point or comma; NaN where it is none."""
    try:
        return float(cell.replace(",", "."))
    except ValueError:
        return np.nan


def _numbers(table: _Table, column: int) -> np.ndarray:
    """Cells as numbers, NaN where they are blank; decimal commas are read where no cell of the column has a point."""
    cells, heading = table.columns[column], table.headings[column]
    if isinstance(cells, np.ndarray):
        values = cells.astype(np.float64)
    else:
        with_comma = next((i for i, cell in enumerate(cells) if "," in cell), None)
        if with_comma is not None and any("." in cell for cell in cells):
            raise FormatError(
                f"{table.row(with_comma)}: {cells[with_comma]!r} in the column {heading!r} has a comma, and others "
                "have decimal points; write all numbers in one way, without marks of thousands."
            )
        values = np.array([_number(cell) for cell in cells])
        for i in np.flatnonzero(np.isnan(values)):
            if cells[i].strip().lower() not in BLANKS:
                raise FormatError(
                    f"{table.row(i)}: {cells[i]!r} in the column {heading!r} is no number; expected numbers."
                )
    infinite = np.flatnonzero(np.isinf(values))
    if len(infinite):
        raise FormatError(f"{table.row(infinite[0])}: the column {heading!r} is not a finite number; put it right.")
    return values


def _filled(
    table: _Table, rows: np.ndarray, values: np.ndarray, times: np.ndarray, fill: str, channels: list[str]
) -> tuple[np.ndarray, int]:
    blank = np.isnan(values)
    if not blank.any():
        return values, 0
    i, j = np.argwhere(blank)[0]
    if fill == REFUSE:
        raise FormatError(
            f"{table.row(rows[i])}: the column {channels[j]!r} is blank, one of {int(blank.sum())} blank cell(s); fill "
            "them in, or have them filled (--media-set fill=linear, or fill=previous)."
        )
    for k in np.flatnonzero(blank.any(axis=0)):
        known = np.flatnonzero(~blank[:, k])
        if not len(known):
            raise FormatError(
                f"{table.row(rows[0])}: the column {channels[k]!r} is blank from here to the end; remove it."
            )
        if fill == "linear":
            values[:, k] = np.interp(times, times[known], values[known, k])
        else:
            before = known[np.maximum(np.searchsorted(known, np.arange(len(values)), side="right") - 1, 0)]
            values[:, k] = values[before, k]
    return values, int(blank.sum())


# ---------------------------------------------------------------------------------------------------------------------
# Tables


def _read_delimited(path: str | Path) -> _Table:
    table = read_rows(path)
    table.check_widths()
    columns = [list(column) for column in zip(*table.rows[1:], strict=True)]
    return _Table(table.path, table.rows[0], columns, table.lines[1:])


def _read_parquet(path: Path) -> _Table:
    path = check_readable(path)
    table = read_arrow(path, "cut the recording into several files")
    arrow = import_pyarrow("Reading parquet")
    with damaged(path, "parquet file"):
        columns = [_arrow_column(arrow, table.column(j), path, name) for j, name in enumerate(table.column_names)]
    return _Table(path, [str(name) for name in table.column_names], columns, range(1, table.num_rows + 1))


def _arrow_column(arrow: Any, column: Any, path: Path, name: str) -> Any:
    """Numbers as floats, NaN where there is none; moments as datetime64 or as text with their zone; text as it is."""
    types, kind = arrow.types, column.type
    if types.is_timestamp(kind):
        moments = column.cast(arrow.timestamp("ns", kind.tz))
        if kind.tz is None:
            return moments.to_numpy()
        return ["" if moment is None else moment.isoformat() for moment in column.to_pylist()]
    if types.is_string(kind) or types.is_large_string(kind) or types.is_dictionary(kind):
        return ["" if cell is None else str(cell) for cell in column.to_pylist()]
    try:
        return column.cast(arrow.float64()).to_numpy()
    except arrow.ArrowException as error:
        raise FormatError(f"{path}: the column {name!r} holds {kind}; expected numbers, times or text.") from error


# ---------------------------------------------------------------------------------------------------------------------
# Times: seconds, milliseconds or since 1970, ISO times with zones, or none


def _find_clock(headings: list[str]) -> list[int]:
    """The column of times; of a date and a time of day both."""
    folded = [heading.strip().lower() for heading in headings]
    if "date" in folded and "time" in folded:
        return [folded.index("date"), folded.index("time")]
    found = [j for j, heading in enumerate(folded) if _CLOCK.fullmatch(heading)]
    return found[:1]


def _read_clock(
    table: _Table, given: list[int], recordings: list[np.ndarray], settings: SeriesSettings
) -> tuple[_Clock, np.ndarray | None]:
    """The clock of some columns, and the seconds of all rows; None where there is no column."""
    if not given:
        return _Clock(), None
    heading = " ".join(table.headings[j] for j in given)
    cells: Any = table.columns[given[0]]
    if len(given) > 1:
        cells = [f"{day} {time}" for day, time in zip(*(table.columns[j] for j in given), strict=True)]
    zone = _zone(settings.time_zone, table.path) if settings.time_zone else None
    numbers = np.empty(0)
    if not isinstance(cells, np.ndarray):
        numbers = np.array([_number(cell) for cell in cells])
    elif cells.dtype.kind == "f":
        numbers = cells
    if len(numbers) and not np.isnan(numbers[0]):
        return _read_numbers(table, heading, numbers, settings.time_unit, zone)
    return _read_moments(table, heading, cells, recordings, zone)


def _read_numbers(
    table: _Table, heading: str, numbers: np.ndarray, unit: str, zone: tzinfo | None
) -> tuple[_Clock, np.ndarray]:
    bad = np.flatnonzero(~np.isfinite(numbers))
    if len(bad):
        raise FormatError(f"{table.row(bad[0])}: the time ({heading!r}) is no number; give every row its time.")
    first = float(numbers.min())
    if unit == AUTO:
        parts = _CLOCK.fullmatch(heading.strip())
        word = (parts["unit"] or parts["alone"] or "") if parts else ""
        unit = _UNIT_WORDS.get(word.lower(), "") or _unit_of(first)
    seconds = first * UNITS[unit]
    if seconds < EPOCH:
        return _Clock(heading, "seconds", unit, first), numbers * UNITS[unit]
    if seconds > LATEST:
        raise FormatError(
            f"{table.row(0)}: the time ({heading!r}) is {first:g}, which in {unit!r} since 1970 lies after the year "
            "9000; name its unit (--media-set time_unit=ns), or put it right."
        )
    moment = datetime.fromtimestamp(0, UTC) + timedelta(seconds=seconds)
    recorded = (moment if zone is None else moment.astimezone(zone)).isoformat()
    return _Clock(heading, "epoch", unit, first, recorded), (numbers - first) * UNITS[unit]


def _unit_of(first: float) -> str:
    """The unit of a time since 1970 by its size: one of these years has 10, 13, 16 or 19 digits before the point."""
    return next((unit for unit, most in (("s", 1e11), ("ms", 1e14), ("us", 1e17)) if abs(first) < most), "ns")


def _read_moments(
    table: _Table, heading: str, cells: Any, recordings: list[np.ndarray], zone: tzinfo | None
) -> tuple[_Clock, np.ndarray]:
    texts = np.datetime_as_string(cells, "us").tolist() if isinstance(cells, np.ndarray) else cells
    moments = []
    for i, text in enumerate(texts):
        try:
            moments.append(datetime.fromisoformat(text.strip()))
        except ValueError:
            raise FormatError(
                f"{table.row(i)}: the time ({heading!r}) is {text!r}; expected seconds, or ISO times such as "
                "2024-05-01T05:30:00."
            ) from None
        if (moments[i].tzinfo is None) != (moments[0].tzinfo is None):
            raise FormatError(
                f"{table.row(i)}: some times have an offset from UTC and others do not ({text!r}); write all of them "
                "in one way."
            )
    is_local = moments[0].tzinfo is None
    if is_local:
        moments = [moment.replace(tzinfo=zone or UTC) for moment in moments]
    seconds = np.array([moment.timestamp() for moment in moments])
    for rows in recordings if is_local else ():
        for before, i in pairwise(rows):
            if seconds[i] <= seconds[before]:  # of an hour that a clock shows twice the second is meant
                seconds[i] = moments[i].replace(fold=1).timestamp()
    first = moments[int(seconds.argmin())]
    if is_local and zone is None:
        first = first.replace(tzinfo=None)
    else:
        first = first.astimezone(zone or first.tzinfo)
        # the offset of the start, so that seconds can be added across a change of the clocks
        first = first.replace(tzinfo=timezone(first.utcoffset() or timedelta()))
    return _Clock(heading, "clock", "s", 0.0, first.isoformat(), _pattern(texts[0])), seconds - seconds.min()


def _pattern(cell: str) -> str:
    """How a time is written, in the letters of strftime; "" where it is written in another way."""
    shape = _SHAPE.fullmatch(cell.strip())
    if shape is None:
        return ""
    time = "%H:%M:%S" if shape["time"].count(":") == 2 else "%H:%M"
    zone = "%Z" if shape["zone"] else ""
    return f"%Y-%m-%d{shape['between']}{time}{'.%f' if shape['fraction'] else ''}{zone}"


def _zone(name: str, path: Path) -> tzinfo:
    from zoneinfo import ZoneInfo

    try:
        return ZoneInfo(name)
    except Exception as error:  # missing data and odd names fail in several ways
        raise InputError(
            f"{path}: there is no time zone {name!r} (--media-set time_zone={name}); use names such as Europe/Berlin."
        ) from error
