"""Series of measurements: a bag is a recording of sensors, an instance is a stretch of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.sax.saxutils import quoteattr

import numpy as np

from bagwise.dataset import BagDataset
from bagwise.exceptions import FormatError
from bagwise.featurize.files import FileBags
from bagwise.featurize.medium import Medium, Row
from bagwise.featurize.pictures import (
    CLOSE_WIDTH,
    WIDTH,
    CloseUp,
    Picture,
    as_drawing,
    outline_region,
    span_in_words,
    tick_words,
    time_ticks,
)  # fmt: skip
from bagwise.featurize.settings import Settings
from bagwise.io.annotations.label_studio_facts import LabelStudio
from bagwise.io.text import read_rows

EXTENSIONS = (".csv", ".tsv")
PLACES = ("start", "end")
HEIGHT = 160  # of pictures, in units of the page
MOST_CHANNELS = 24  # that are drawn
TIME_HEADINGS = ("time", "t", "seconds", "timestamp")
TIME_STATISTICS = ("mean", "deviation", "least", "greatest", "median", "step", "crossings")
FREQUENCY_STATISTICS = ("peak", "centroid", "entropy", "band0", "band1", "band2", "band3")


@dataclass(frozen=True)
class SeriesSettings(Settings):
    """How series become stretches.

    Attributes
    ----------
    window, step : int
        Rows of a stretch, and rows from the start of one to the start of the next.
    rate : float
        Rows a second, where no column tells the time.
    """

    window: int = 128
    step: int = 64
    rate: float = 1.0

    def __post_init__(self) -> None:
        self.check_ranges({"window": (4, 10_000_000), "step": (1, 10_000_000), "rate": (1e-9, 1e12)})


@dataclass(frozen=True)
class Series:
    """(n, k) values, names of the k channels, rows a second, second of the first row, heading of the time or ""."""

    values: np.ndarray
    channels: list[str]
    rate: float
    start: float
    clock: str


def read_series(path: str | Path, rate: float) -> Series:
    """A table with a heading and a column for each channel; a column called time (in seconds) gives the rate."""
    table = read_rows(path)
    heading, rows = table.rows[0], table.rows[1:]
    if not rows:
        raise FormatError(f"{path}: there is a heading but no row below it.")
    values = np.empty((len(rows), len(heading)))
    for i, (line, row) in enumerate(zip(table.lines[1:], rows, strict=True)):
        if len(row) != len(heading):
            raise FormatError(f"{path}, row {line}: there are {len(row)} cells but {len(heading)} columns.")
        try:
            values[i] = [float(cell) for cell in row]
        except ValueError as error:
            raise FormatError(f"{path}, row {line}: {error}; expected numbers.") from error
        if not np.isfinite(values[i]).all():
            raise FormatError(f"{path}, row {line}: a value is not a finite number; fill it or remove the row.")
    clock = [j for j, name in enumerate(heading) if name.lower() in TIME_HEADINGS]
    start = 0.0
    if clock:
        times = values[:, clock[0]]
        if len(times) > 1 and np.any(np.diff(times) <= 0):
            line = table.lines[2 + int(np.argmax(np.diff(times) <= 0))]
            raise FormatError(f"{path}, row {line}: the time does not rise; sort the rows by {heading[clock[0]]!r}.")
        start = float(times[0])
        rate = 1.0 / float(np.median(np.diff(times))) if len(times) > 1 else rate
        values = np.delete(values, clock[0], axis=1)
    channels = [name for j, name in enumerate(heading) if j not in clock[:1]]
    if not channels:
        raise FormatError(f"{path}: there is no column beside the time.")
    return Series(values, channels, rate, start, heading[clock[0]] if clock else "")


def stretch_features(values: np.ndarray, rate: float) -> np.ndarray:
    """(14 k,) statistics of the k channels of a stretch, channel after channel.

    In time: mean, standard deviation, least, greatest, median, mean size of the step from row to row, share of steps
    that cross the mean. In frequency, of the power about the mean: hertz of the greatest, centre in hertz, entropy
    (1 is flat), and the shares of four equal bands.
    """
    centred = values - values.mean(axis=0)
    steps = np.diff(values, axis=0)
    crossings = np.diff(np.signbit(centred), axis=0).mean(axis=0)
    in_time = [
        values.mean(axis=0), values.std(axis=0), values.min(axis=0), values.max(axis=0), np.median(values, axis=0),
        np.abs(steps).mean(axis=0), crossings,
    ]  # fmt: skip
    power = np.abs(np.fft.rfft(centred, axis=0))[1:] ** 2
    frequency = np.fft.rfftfreq(len(values), 1.0 / rate)[1:]
    total = power.sum(axis=0)
    # a channel that stands still has no spectrum: let it be flat
    share = np.where(total > 1e-24, power / np.where(total > 1e-24, total, 1.0), 1.0 / len(power))
    entropy = -(share * np.log(np.maximum(share, 1e-300))).sum(axis=0) / np.log(max(len(share), 2))
    bands = [part.sum(axis=0) for part in np.array_split(share, 4)]
    in_frequency = [frequency[share.argmax(axis=0)], frequency @ share, entropy, *bands]
    return np.array([*in_time, *in_frequency]).T.ravel()


def read_stretches(path: str | Path, name: str, settings: SeriesSettings) -> FileBags:
    """The stretches of one series."""
    series = read_series(path, settings.rate)
    n = len(series.values)
    first = np.arange(0, max(n - settings.window + 1, 0), settings.step)
    names = [f"{channel}_{s}" for channel in series.channels for s in (*TIME_STATISTICS, *FREQUENCY_STATISTICS)]
    features = [stretch_features(series.values[i : i + settings.window], series.rate) for i in first]
    edges = (series.start + (first + shift) / series.rate for shift in (0, settings.window))
    short = f"it has {n} rows, and a stretch takes {settings.window}; lower the window."
    return FileBags(
        bag_names=[name],
        sizes=[len(features)],
        features=np.array(features) if features else np.empty((0, len(names))),
        locations={key: np.round(column, 6) for key, column in zip(PLACES, edges, strict=True)},
        info={
            "rows": n,
            "seconds": round(n / series.rate, 6),
            "channels": series.channels,
            "clock": series.clock,
        },
        problems=[] if features else [short],
        feature_names=names,
    )


def refuse_other_channels(files: Mapping[str, FileBags], expected: Sequence[str] | None) -> dict[str, str]:
    """The error of each series whose features are not those of the model (`expected`), or else of most files."""
    kinds = Counter(tuple(file.feature_names or ()) for file in files.values())
    if not kinds:
        return {}
    right = kinds.most_common(1)[0][0] if expected is None else tuple(expected)
    whose = "most files" if expected is None else "the files that the model was trained on"
    return {
        name: f"{name}: its columns ({', '.join(file.info['channels'])}) are not those of {whose}; give every file the "
        "same columns in the same order."
        for name, file in files.items()
        if tuple(file.feature_names or ()) != right
    }


def draw_series(path: Path, name: str, rows: Sequence[Row], settings: SeriesSettings, start: float) -> Picture:
    """The channels, each over its own range, with the stretches."""
    series = read_series(path, settings.rate)
    seconds = len(series.values) / series.rate
    step = max(1, len(series.values) // WIDTH)
    values = series.values[::step]
    spread = np.maximum(np.ptp(values, axis=0), 1e-12)
    heights = (1 - (values - values.min(axis=0)) / spread) * (HEIGHT - 20) + 10
    across = np.arange(len(values)) * step / len(series.values) * WIDTH

    def place(row: Row) -> list[tuple[float, float]]:
        left, right = ((row[key] - series.start) / seconds * WIDTH for key in ("start", "end"))
        return [(left, 0), (right, 0), (right, HEIGHT), (left, HEIGHT)]

    return Picture(
        title=f"{name}: {', '.join(series.channels)}",
        kind="series",
        width=WIDTH,
        height=HEIGHT,
        regions=[outline_region(row, place(row), WIDTH) for row in rows],
        ticks=[
            (t / seconds * WIDTH, tick_words(series.start + t, series.start + seconds)) for t in time_ticks(seconds)
        ],
        lines=[
            " ".join(f"{x:.1f},{y:.1f}" for x, y in zip(across, column, strict=True))
            for column in heights.T[:MOST_CHANNELS]
        ],
    )


def close_up_stretches(path: Path, rows: Sequence[Row], settings: SeriesSettings) -> Iterator[CloseUp]:
    """The channels within each stretch."""
    series = read_series(path, settings.rate)
    for row in rows:
        drawn = draw_stretch(series, row, CLOSE_WIDTH)
        yield CloseUp(as_drawing(drawn), drawn.width, drawn.height)


def draw_stretch(series: Series, place: Row, size: int) -> Any:
    """The channels of a stretch, each over its range in the whole series; a square of `size` points."""
    from PIL import Image, ImageDraw

    times = series.start + np.arange(len(series.values)) / series.rate
    values = series.values[(times >= place["start"]) & (times <= place["end"])]
    image = Image.new("L", (size, size), 255)
    draw = ImageDraw.Draw(image)
    for k, column in enumerate(values.T):
        spread = max(float(np.ptp(series.values[:, k])), 1e-12)
        y = (size - 5) * (1 - (column - series.values[:, k].min()) / spread) + 2
        x = np.linspace(2, size - 3, len(y))
        draw.line(list(zip(x.tolist(), y.tolist(), strict=True)), fill=110 * (k % 3) // 2, width=1)
    return image


def place_in_words(row: Row) -> str:
    return span_in_words(row["start"], row["end"]) if row["end"] >= 60 else f"{row['start']} to {row['end']} s"


def _mark_value(row: Row, file: Row, text: str) -> dict[str, Any]:
    return {"start": row["start"], "end": row["end"], "instant": False}


def _show_channels(key: str, file: Row) -> list[str]:
    """The tag of Label Studio that shows the channels of a file."""
    clock = f" timeColumn={quoteattr(file['clock'])}" if file["clock"] else ""
    channels = [f"    <Channel column={quoteattr(name)}/>" for name in file["channels"]]
    return [f'  <TimeSeries name="{key}" valueType="url" value="${key}"{clock}>', *channels, "  </TimeSeries>"]


SERIES = Medium(
    name="series",
    title="Series, annotated",
    instances="stretches",
    settings=SeriesSettings,
    bags="series",
    finer="label shorter series, cut into files of their own",
    extensions=EXTENSIONS,
    read=read_stretches,
    check_files=refuse_other_channels,
    places=PLACES,
    place_in_words=place_in_words,
    formats=("csv", "parquet", "label-studio"),
    label_studio=LabelStudio(
        "csv", "timeserieslabels", "TimeSeries", "TimeSeriesLabels", value=_mark_value, show=_show_channels
    ),
    draw=draw_series,
    close_ups=close_up_stretches,
    timed=True,
    shown_as="series",
)


def featurize_series(paths: Sequence[str | Path], settings: SeriesSettings | None = None) -> BagDataset:
    """Stretches of series of measurements, each described by 14 statistics a channel.

    Parameters
    ----------
    paths : list of paths
        CSV files with a heading, a column for each channel and, where there is one, a column ``time`` in seconds.
    settings : SeriesSettings or None

    Returns
    -------
    BagDataset
        Without labels. `locations` hold file, start and end in seconds.
    """
    return SERIES.featurize(paths, settings)
