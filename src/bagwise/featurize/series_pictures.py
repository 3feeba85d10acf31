"""Pictures of series: every channel in a lane of its own, long recordings in strips below each other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bagwise.featurize.pictures import (
    CLOSE_HEIGHT,
    CLOSE_WIDTH,
    WIDTH,
    CloseUp,
    Picture,
    as_drawing,
    outline_region,
    tick_words,
    time_ticks,
)  # fmt: skip
from bagwise.featurize.series_file import RECORDING, Series, SeriesSettings, read_recordings
from bagwise.io.annotations.intervals import join_windows

Row = Mapping[str, Any]
HEAD, LANE, LEAST_LANE, BETWEEN = 14, 46, 14, 12  # heights: of a line of words, of a channel, between strips
TALLEST = 900  # units of the page that the strips of one recording may take
WINDOWS_OF_A_STRIP = 40
MOST_CHANNELS = 24  # that are drawn
MOST_RECORDINGS = 3  # of one table that a picture shows
SHRUNK = 0.03  # of the recorded time, to which a longer gap is drawn
LETTER = 7.0  # width of a letter of a name


def draw_series(path: Path, name: str, rows: Sequence[Row], settings: SeriesSettings, start: float) -> Picture:
    """The channels below each other, each over its own range, with intervals of windows of one label.

    A long recording is cut into strips. Rows without a label are windows that are not shown. Of a table of several
    recordings those are drawn whose windows come first.
    """
    recordings = read_recordings(path, settings)
    of_bag = {str(row["bag"]): str(row.get(RECORDING) or "") for row in rows}
    bags = list(of_bag)[:MOST_RECORDINGS]
    regions: list[dict[str, Any]] = []
    lines: list[str] = []
    levels: list[tuple[float, str]] = []
    ticks: list[tuple[float, str]] = []
    top, n_gaps, named = 0.0, 0, list[str]()
    for bag in bags or [name]:
        recording = of_bag.get(bag, "")
        series = recordings[recording] if recording in recordings else next(iter(recordings.values()))
        strips = _Strips(series, settings.window, top, len(bags) > 1)
        own = join_windows([row for row in rows if str(row["bag"]) == bag], lambda row: bool(row["label"]))
        regions += [region for interval in own for region in strips.regions(interval)]
        lines += strips.lines()
        levels += strips.levels(recording if len(bags) > 1 else "")
        ticks = strips.ticks() if strips.n == 1 and len(bags) < 2 else []
        top, n_gaps = strips.bottom + BETWEEN, n_gaps + len(series.pieces) - 1
        named += [channel for channel in series.channels if channel not in named]
    gaps = f" ({n_gaps} gap{'s' if n_gaps > 1 else ''}, drawn short where long)" if n_gaps else ""
    return Picture(
        title=f"{name}: {', '.join(named[:MOST_CHANNELS])}{gaps}", kind="series", width=WIDTH,
        height=round(top - BETWEEN), regions=regions, ticks=ticks, levels=levels, lines=lines,
    )  # fmt: skip


class _Strips:
    """Where the moments and channels of a recording are in a picture."""

    def __init__(self, series: Series, window: int, top: float, several: bool):
        self.series, self.top = series, top
        self.n_lanes = min(len(series.channels), MOST_CHANNELS)
        self.lane = max(LEAST_LANE, min(LANE, (TALLEST // 2 - 2 * HEAD) // self.n_lanes))
        wanted = -(-len(series.times) // (WINDOWS_OF_A_STRIP * window))
        self.n = max(1, min(wanted, TALLEST // (2 * HEAD + self.n_lanes * self.lane + BETWEEN)))
        self.head = 2 * HEAD if self.n > 1 or several else HEAD  # of the words above a strip: its time, names of labels
        self.height = self.head + self.n_lanes * self.lane
        self.knots, self.drawn = _shrink_gaps(series)
        self.length = self.drawn[-1] / self.n  # of a strip, in seconds as they are drawn

    @property
    def bottom(self) -> float:
        return self.top + self.n * (self.height + BETWEEN) - BETWEEN

    def _along(self, times: Any) -> Any:
        """Seconds as drawn: without most of the long gaps."""
        return np.interp(times, self.knots, self.drawn)

    def _head(self, strip: int) -> float:
        return self.top + strip * (self.height + BETWEEN)

    def regions(self, interval: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """An interval, in each strip that it reaches into."""
        first, last = (float(self._along(interval[key])) for key in ("start", "end"))
        for strip in range(int(first / self.length - 1e-9), self.n):
            begin = strip * self.length
            if last <= begin + 1e-9 * self.length:
                return
            left, right = (float(np.clip((edge - begin) / self.length, 0, 1)) * WIDTH for edge in (first, last))
            top, bottom = self._head(strip) + self.head, self._head(strip) + self.height
            row = {**interval, "instance": interval["rows"][0]["instance"]}
            region = outline_region(row, [(left, top), (right, top), (right, bottom), (left, bottom)], WIDTH)
            yield region | {"named": right - left >= LETTER * len(str(interval["label"]))}

    def lines(self) -> list[str]:
        """The points of every channel in every strip, with no line across a gap."""
        found = []
        values, along = self.series.values, self._along(self.series.times)
        low, spread = values.min(axis=0), np.maximum(np.ptp(values, axis=0), 1e-12)
        for first, last in self.series.pieces:
            strip_of = np.minimum((along[first:last] / self.length).astype(int), self.n - 1)
            for strip in np.unique(strip_of):
                rows = first + np.flatnonzero(strip_of == strip)
                x = (along[rows] - strip * self.length) / self.length * WIDTH
                for k in range(self.n_lanes):
                    floor = self._head(int(strip)) + self.head + (k + 1) * self.lane - 3
                    y = floor - (values[rows, k] - low[k]) / spread[k] * (self.lane - 6)
                    found.append(" ".join(f"{a:.1f},{b:.1f}" for a, b in _envelope(x, y)))
        return found

    def levels(self, recording: str) -> list[tuple[float, str]]:
        """Time (of several strips) and channels at the left."""
        found = []
        along = self._along(self.series.times)
        for strip in range(self.n):
            first = min(int(np.searchsorted(along, strip * self.length - 1e-9)), len(along) - 1)
            begin = float(self.series.times[first])
            words = [recording] if recording and strip == 0 else []
            if self.n > 1:
                words.append(f"from {tick_words(round(begin, 2), self.series.end)}")
            if words:
                found.append((self._head(strip) + 9, ", ".join(words)))
            if strip == 0:
                found += [
                    (self._head(strip) + self.head + k * self.lane + 8, self.series.channels[k])
                    for k in range(self.n_lanes)
                ]
        return found

    def ticks(self) -> list[tuple[float, str]]:
        series = self.series
        moments = [series.start + t for t in time_ticks(series.end - series.start)]
        inside = [t for t in moments if any(_holds(series, piece, t) for piece in series.pieces)]
        return [(float(self._along(t)) / self.length * WIDTH, tick_words(t, series.end)) for t in inside]


def _holds(series: Series, piece: tuple[int, int], moment: float) -> bool:
    return bool(series.times[piece[0]] <= moment <= series.times[piece[1] - 1])


def _shrink_gaps(series: Series) -> tuple[np.ndarray, np.ndarray]:
    """Moments at which pieces begin and end, and where they are drawn; long gaps are drawn short."""
    step = 1.0 / series.rate
    edges = [(float(series.times[a]), float(series.times[b - 1]) + step) for a, b in series.pieces]
    shortest = SHRUNK * sum(end - begin for begin, end in edges)
    knots, drawn = [edges[0][0]], [0.0]
    for i, (begin, end) in enumerate(edges):
        if i:
            knots.append(begin)
            drawn.append(drawn[-1] + min(max(begin - edges[i - 1][1], 0.0), shortest))
        knots.append(end)
        drawn.append(drawn[-1] + end - begin)
    return np.array(knots), np.array(drawn)


def _envelope(x: np.ndarray, y: np.ndarray) -> Iterator[tuple[float, float]]:
    """The points of a curve; of more than two a unit of width the lowest and the highest of each unit, so that no peak
    is lost."""
    if len(x) <= 2 * WIDTH:
        yield from zip(x.tolist(), y.tolist(), strict=True)
        return
    starts = np.flatnonzero(np.diff(np.floor(x), prepend=-1.0) > 0)
    low, high = np.minimum.reduceat(y, starts), np.maximum.reduceat(y, starts)
    for at, a, b in zip(x[starts].tolist(), low.tolist(), high.tolist(), strict=True):
        yield at, a
        yield at, b


def close_up_stretches(path: Path, rows: Sequence[Row], settings: SeriesSettings) -> Iterator[CloseUp]:
    """The channels within each stretch."""
    recordings = read_recordings(path, settings)
    for row in rows:
        series = recordings[str(row.get(RECORDING) or "")]
        drawn = draw_stretch(series, row, CLOSE_WIDTH, CLOSE_HEIGHT)
        yield CloseUp(as_drawing(drawn), drawn.width, drawn.height)


def draw_stretch(series: Series, place: Row, width: int, height: int | None = None) -> Any:
    """The channels of a stretch below each other, each over its range in the whole series; so many points."""
    from PIL import Image, ImageDraw

    height = width if height is None else height
    inside = (series.times >= place["start"] - 1e-9) & (series.times < place["end"])
    values = series.values[inside][:, :MOST_CHANNELS]
    image = Image.new("L", (width, height), 255)
    draw = ImageDraw.Draw(image)
    lane = height / max(values.shape[1], 1)
    for k, column in enumerate(values.T):
        spread = max(float(np.ptp(series.values[:, k])), 1e-12)
        y = (k + 1) * lane - 2 - (column - series.values[:, k].min()) / spread * max(lane - 4, 1)
        x = np.linspace(2, width - 3, len(y))
        if k:
            draw.line([(0, k * lane), (width, k * lane)], fill=225, width=1)
        draw.line(list(zip(x.tolist(), y.tolist(), strict=True)), fill=0, width=1)
    return image
