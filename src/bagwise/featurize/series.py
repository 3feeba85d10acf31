"""Series of measurements: a bag is a recording of sensors, an instance is a stretch of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bagwise.bags import BagDataset
from bagwise.exceptions import FormatError
from bagwise.featurize._result import FileBags, Settings, assemble, featurize_each, stack_features
from bagwise.io.text import read_rows

EXTENSIONS = (".csv", ".tsv")
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
    starts = range(0, n - settings.window + 1, settings.step)
    names = [f"{channel}_{s}" for channel in series.channels for s in (*TIME_STATISTICS, *FREQUENCY_STATISTICS)]
    features = [stretch_features(series.values[i : i + settings.window], series.rate) for i in starts]
    locations = [
        {
            "file": name,
            "start": round(series.start + i / series.rate, 6),
            "end": round(series.start + (i + settings.window) / series.rate, 6),
        }
        for i in starts
    ]
    short = f"it has {n} rows, and a stretch takes {settings.window}; lower the window."
    return FileBags(
        bag_names=[name],
        sizes=[len(features)],
        features=np.array(features) if features else np.empty((0, len(names))),
        locations=locations,
        info={
            "rows": n,
            "seconds": round(n / series.rate, 6),
            "channels": series.channels,
            "clock": series.clock,
        },
        problems=[] if features else [short],
        terms=names,
    )


def common_channels(files: Sequence[FileBags]) -> list[str]:
    """The names of the features, which must be those of every file."""
    for file in files:
        if file.terms != files[0].terms:
            raise FormatError(
                f"{file.bag_names[0]}: its channels differ from those of {files[0].bag_names[0]}; "
                "give every file the same columns in the same order."
            )
    return list(files[0].terms or [])


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
    settings = settings or SeriesSettings()
    files = featurize_each(paths, lambda path, name: read_stretches(path, name, settings))
    return assemble(files, stack_features(files), common_channels(files), "series")
