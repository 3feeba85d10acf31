"""Series of measurements as they come: CSV or parquet, times of several kinds, blank cells, several recordings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from bagwise.columns import import_pyarrow
from bagwise.exceptions import FormatError, InputError
from bagwise.featurize.series_time import UNITS, Clock, find_clock, read_clock
from bagwise.featurize.settings import Settings
from bagwise.io.documents import decode
from bagwise.io.parquet_file import arrow_errors, open_file
from bagwise.io.text import check_readable, guess_separator, iterate_rows
from bagwise.memory import check_allocation

AUTO, REFUSE = "auto", "none"
RECORDING = "recording"  # column of the places of instances, where one table holds several
FILLINGS = (REFUSE, "linear", "previous")
BLANKS = frozenset({"", "na", "n/a", "nan", "null", "none", "-", "?"})
GAP = 4.0  # steps from which on the time between two rows is a gap
_SIZE_OF_CELL = 100  # of a short text and its place in a list


@dataclass(frozen=True)
class SeriesSettings(Settings):
    """How series become stretches.

    Attributes
    ----------
    window, step : int
        Rows of a stretch, and rows from the start of one to the start of the next.
    rate : float
        Rows a second, where no column tells the time.
    time : str
        Heading of the column of times; "" finds it.
    time_unit : {"auto", "s", "ms", "us", "ns"}
        Of times that are numbers; "auto" goes by the heading, and by the size of times since 1970.
    time_zone : str
        Of clock times that tell no offset, and to which times since 1970 are turned, such as Europe/Berlin; "" leaves
        them as they are.
    max_gap : float or None
        Seconds between two rows from which on there is a gap, which no stretch reaches across; None takes four times
        the usual step.
    fill : {"none", "linear", "previous"}
        How blank cells are filled: not at all (they are an error), between the neighbours, or with the one before.
    recording : str
        Heading of a column that tells recordings of one table apart, each a bag of its own; "" where a file is one.
    """

    window: int = 128
    step: int = 64
    rate: float = 1.0
    time: str = ""
    time_unit: str = AUTO
    time_zone: str = ""
    max_gap: float | None = None
    fill: str = REFUSE
    recording: str = ""

    def __post_init__(self) -> None:
        self.check_ranges({"window": (4, 10_000_000), "step": (1, 10_000_000), "rate": (1e-9, 1e12)})
        if self.max_gap is not None:
            self.check_ranges({"max_gap": (1e-9, 1e12)})
        for name, choice in (("time_unit", (AUTO, *UNITS)), ("fill", FILLINGS)):
            if getattr(self, name) not in choice:
                raise InputError(
                    f"The setting {name!r} is {getattr(self, name)!r}; use one of {', '.join(map(repr, choice))}."
                )


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
        Rows a second, by the usual step.
    clock : Clock
        Where the times are from.
    n_filled : int
        Blank cells that were filled.
    max_gap : float
    """

    values: np.ndarray
    channels: list[str]
    times: np.ndarray
    rate: float
    clock: Clock
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

    def row(self, i: int) -> str:
        return f"{self.path}, row {self.lines[i]}"


def read_recordings(path: str | Path, settings: SeriesSettings) -> dict[str, Series]:
    """The recordings of a table by name; "" where no column tells them apart."""
    table = _read_parquet(Path(path)) if Path(path).suffix.lower() in (".parquet", ".pq") else _read_delimited(path)
    if not len(table.lines):
        raise FormatError(f"{path}: there is a heading but no row below it.")
    if not settings.recording:
        return {"": _read_one(table, settings, np.arange(len(table.lines)))}
    column = _column(table, settings.recording, "recording")
    names = np.array([str(cell).strip() for cell in _plain_names(table.columns[column])], dtype=object)
    if "" in names:
        where = table.row(int(np.flatnonzero(names == "")[0]))
        raise FormatError(f"{where}: the column {settings.recording!r} is blank; name the recording of every row.")
    return _on_one_clock(
        {
            name: _read_one(table, settings, np.flatnonzero(names == name), column)
            for name in dict.fromkeys(names.tolist())
        }
    )


def _on_one_clock(recordings: dict[str, Series]) -> dict[str, Series]:
    """Recordings of a table whose times are moments, all with seconds since the first of them."""
    began = {
        name: datetime.fromisoformat(series.clock.recorded)
        for name, series in recordings.items()
        if series.clock.recorded
    }
    if len(began) < len(recordings):
        return recordings
    first = min(began.values())
    clock = next(series.clock for name, series in recordings.items() if began[name] == first)
    return {
        name: replace(series, times=series.times + (began[name] - first).total_seconds(), clock=clock)
        for name, series in recordings.items()
    }


def read_series(path: str | Path, settings: SeriesSettings, recording: str = "") -> Series:
    """One recording of a table."""
    found = read_recordings(path, settings)
    if recording not in found:
        raise FormatError(f"{path}: there is no recording {recording!r} in it any more.")
    return found[recording]


def _plain_names(cells: Any) -> list[Any]:
    """Numbers of recordings without a needless point."""
    if isinstance(cells, np.ndarray) and cells.dtype.kind == "f":
        return ["" if np.isnan(cell) else f"{cell:g}" for cell in cells.tolist()]
    return list(cells)


def _column(table: _Table, heading: str, setting: str) -> int:
    if heading not in table.headings:
        raise FormatError(
            f"{table.path}: there is no column {heading!r} (--medium-set {setting}={heading}); its columns are "
            f"{', '.join(map(repr, table.headings[:12]))}."
        )
    return table.headings.index(heading)


def _read_one(table: _Table, settings: SeriesSettings, rows: np.ndarray, recording: int | None = None) -> Series:
    given = [_column(table, settings.time, "time")] if settings.time else find_clock(table.headings)
    kept = [j for j in range(len(table.headings)) if j not in given and j != recording]
    if not kept:
        raise FormatError(f"{table.path}: there is no column beside the time.")
    lines = [table.row(int(i)) for i in rows]
    clock, times = read_clock(
        [table.headings[j] for j in given], [_take(table.columns[j], rows) for j in given], lines, settings.time_unit,
        settings.time_zone, str(table.path),
    )  # fmt: skip
    if times is None:
        times = np.arange(len(rows)) / settings.rate
    values = np.stack([_numbers(table, j, rows, lines) for j in kept], axis=1)
    values, n_filled = _filled(values, times, settings.fill, lines, [table.headings[j] for j in kept])
    steps = np.diff(times)
    usual = float(np.median(steps)) if len(steps) else 1.0 / settings.rate
    gap = GAP * usual if settings.max_gap is None else settings.max_gap
    return Series(values, [table.headings[j] for j in kept], times, 1.0 / usual, clock, n_filled, gap)


def _take(column: Any, rows: np.ndarray) -> Any:
    return column[rows] if isinstance(column, np.ndarray) else [column[i] for i in rows]


def _numbers(table: _Table, column: int, rows: np.ndarray, lines: list[str]) -> np.ndarray:
    """Cells as numbers, NaN where they are blank; decimal commas are read where no cell of the column has a point."""
    cells = _take(table.columns[column], rows)
    heading = table.headings[column]
    if isinstance(cells, np.ndarray) and cells.dtype.kind != "O":
        values = cells.astype(np.float64)
    else:
        joined = "\n".join(map(str, cells))
        comma, point = "," in joined, "." in joined
        if comma and point:
            i = next(i for i, cell in enumerate(cells) if "," in cell)
            raise FormatError(
                f"{lines[i]}: {cells[i]!r} in the column {heading!r} has a comma, and others have decimal points; "
                "write all numbers in one way, without marks of thousands."
            )
        values = np.empty(len(cells))
        for i, cell in enumerate(cells):
            try:
                values[i] = float(cell.replace(",", ".") if comma else cell)
            except ValueError:
                if cell.strip().lower() not in BLANKS:
                    raise FormatError(
                        f"{lines[i]}: {cell!r} in the column {heading!r} is no number; expected numbers."
                    ) from None
                values[i] = np.nan
    infinite = np.flatnonzero(np.isinf(values))
    if len(infinite):
        raise FormatError(f"{lines[infinite[0]]}: the column {heading!r} is not a finite number; put it right.")
    return values


def _filled(
    values: np.ndarray, times: np.ndarray, fill: str, lines: list[str], headings: list[str]
) -> tuple[np.ndarray, int]:
    blank = np.isnan(values)
    if not blank.any():
        return values, 0
    i, j = (int(k) for k in np.argwhere(blank)[0])
    if fill == REFUSE:
        raise FormatError(
            f"{lines[i]}: the column {headings[j]!r} is blank, one of {int(blank.sum())} blank cell(s); fill them in, "
            "or have them filled (--medium-set fill=linear, or fill=previous)."
        )
    for k in np.flatnonzero(blank.any(axis=0)):
        known = np.flatnonzero(~blank[:, k])
        if not len(known):
            raise FormatError(f"{lines[0]}: the column {headings[k]!r} is blank from here to the end; remove it.")
        if fill == "linear":
            values[:, k] = np.interp(times, times[known], values[known, k])
        else:
            before = known[np.maximum(np.searchsorted(known, np.arange(len(values)), side="right") - 1, 0)]
            values[:, k] = values[before, k]
    return values, int(blank.sum())


# ---------------------------------------------------------------------------------------------------------------------
# Tables


def _read_delimited(path: str | Path) -> _Table:
    path = check_readable(path)
    check_allocation(8 * path.stat().st_size, f"{path} read as text", "keep large data as parquet")
    text = decode(path.read_bytes(), path).text
    found = list(iterate_rows(text, guess_separator(text), path))
    headings = found[0][1]
    for line, row in found[1:]:
        if len(row) != len(headings):
            raise FormatError(f"{path}, row {line}: there are {len(row)} cells but {len(headings)} columns.")
    columns = [list(column) for column in zip(*(row for _, row in found[1:]), strict=True)]
    return _Table(path, headings, columns, [line for line, _ in found[1:]])


def _read_parquet(path: Path) -> _Table:
    path = check_readable(path)
    arrow = import_pyarrow("Reading parquet")
    with arrow_errors(path):
        file = open_file(arrow, path)
        n_cells = file.metadata.num_rows * max(file.metadata.num_columns, 1)
        check_allocation(_SIZE_OF_CELL * n_cells, f"{path} in memory", "cut the recording into several files")
        table = file.read()
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
    if types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind) or types.is_decimal(kind):
        return column.cast(arrow.float64()).to_numpy()
    if types.is_string(kind) or types.is_large_string(kind) or types.is_dictionary(kind):
        return ["" if cell is None else str(cell) for cell in column.to_pylist()]
    raise FormatError(f"{path}: the column {name!r} holds {kind}; expected numbers, times or text.")
