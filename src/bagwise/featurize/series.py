"""Series of measurements: a bag is a recording of sensors, an instance is a stretch of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from xml.sax.saxutils import quoteattr

import numpy as np

from bagwise.dataset import BagDataset
from bagwise.featurize.files import FileBags
from bagwise.featurize.medium import Medium, Row
from bagwise.featurize.pictures import span_in_words
from bagwise.featurize.series_file import RECORDING, Series, SeriesSettings, read_recordings
from bagwise.featurize.series_pictures import close_up_stretches, draw_series
from bagwise.featurize.series_time import UNITS
from bagwise.io.annotations.label_studio_facts import LabelStudio

EXTENSIONS = (".csv", ".tsv", ".parquet", ".pq")
PLACES = ("start", "end")
TIME_STATISTICS = ("mean", "deviation", "least", "greatest", "median", "step", "crossings")
FREQUENCY_STATISTICS = ("peak", "centroid", "entropy", "band0", "band1", "band2", "band3")


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
    """The stretches of the recordings of a table; none reaches across a gap."""
    recordings = read_recordings(path, settings)
    found = {key: _stretches(series, settings) for key, series in recordings.items()}
    some = next(iter(recordings.values()))
    names = [f"{channel}_{s}" for channel in some.channels for s in (*TIME_STATISTICS, *FREQUENCY_STATISTICS)]
    sizes = [len(features) for features, *_ in found.values()]
    return FileBags(
        bag_names=[f"{name}@{key}" if key else name for key in recordings],
        sizes=sizes,
        features=np.concatenate([features.reshape(-1, len(names)) for features, *_ in found.values()]),
        locations={
            **{key: np.concatenate([part[i] for part in found.values()]) for i, key in enumerate(PLACES, 1)},
            **({RECORDING: np.repeat(np.array(list(recordings), dtype=object), sizes)} if settings.recording else {}),
        },
        info=_facts(recordings, settings, sum(sizes)),
        problems=[
            _too_short(key, recordings[key], settings) for key, size in zip(recordings, sizes, strict=True) if not size
        ],
        feature_names=names,
    )


def _stretches(series: Series, settings: SeriesSettings) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Features, starts and ends of all windows of a recording."""
    first = np.concatenate(
        [np.arange(a, max(b - settings.window + 1, a), settings.step, dtype=np.int64) for a, b in series.pieces]
    )
    features = [stretch_features(series.values[i : i + settings.window], series.rate) for i in first]
    ends = series.times[first + settings.window - 1] + 1.0 / series.rate if len(first) else np.empty(0)
    return np.array(features), np.round(series.times[first], 6), np.round(ends, 6)


def _too_short(recording: str, series: Series, settings: SeriesSettings) -> str:
    longest = max(b - a for a, b in series.pieces)
    what = f"the recording {recording!r}" if recording else "it"
    where = f" in its longest piece without a gap ({len(series.pieces)} pieces)" if len(series.pieces) > 1 else ""
    cure = f"; lower it (--medium-set window={longest})" if longest >= 4 else ""
    return f"{what} has {longest} rows{where}, and a stretch takes window={settings.window}{cure}."


def _facts(recordings: Mapping[str, Series], settings: SeriesSettings, n_stretches: int) -> dict[str, Any]:
    """What is known of a table: length, channels, how its times are written, gaps, blank cells."""
    all_of = list(recordings.values())
    clock = all_of[0].clock
    lost = sum(b - a for series in all_of for a, b in series.pieces if b - a < settings.window)
    facts: dict[str, Any] = {
        "rows": sum(len(series.times) for series in all_of),
        "seconds": round(sum(series.end - series.start for series in all_of), 6),
        "start": round(min(series.start for series in all_of), 6),
        "seconds_of_gaps": round(sum(_gap_seconds(series) for series in all_of), 6),
        "rate": all_of[0].rate,
        "channels": all_of[0].channels,
        "clock": clock.heading,
        "clock_kind": clock.kind,
        "clock_unit": clock.unit,
        "clock_first": clock.first,
        "clock_pattern": clock.pattern,
        "gaps": sum(len(series.pieces) - 1 for series in all_of),
        "rows_lost": lost if n_stretches else 0,
        "filled": sum(series.n_filled for series in all_of),
    }
    if clock.recorded:
        facts |= {"recorded": clock.recorded, "recorded_from": "time"}
    if list(recordings) != [""]:
        facts["recordings"] = list(recordings)
    return facts


def _gap_seconds(series: Series) -> float:
    steps = np.diff(series.times)
    return float(np.sum(steps[steps > series.max_gap] - 1.0 / series.rate))


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


def notes_on_series(files: Sequence[Row]) -> list[str]:
    """Gaps, blank cells that were filled, and times that are no seconds."""
    notes = []
    gaps = [file for file in files if file.get("gaps")]
    if gaps:
        lost = sum(file["rows_lost"] for file in gaps)
        short = f"; {lost} rows lie in pieces shorter than a stretch" if lost else ""
        n = sum(file["gaps"] for file in gaps)
        notes.append(f"{n} gap(s) in time in {_some(gaps)}: no stretch reaches across one{short}.")
    filled = [file for file in files if file.get("filled")]
    if filled:
        notes.append(f"{sum(file['filled'] for file in filled)} blank cell(s) were filled in {_some(filled)}.")
    for unit, words in (("ms", "milliseconds"), ("us", "microseconds"), ("ns", "nanoseconds")):
        scaled = [file for file in files if file.get("clock_unit") == unit]
        if scaled:
            notes.append(f"Times in {words} in {_some(scaled)}.")
    return notes


def _some(files: Sequence[Row]) -> str:
    names = ", ".join(str(file["file"]) for file in files[:3])
    return f"{len(files)} file(s) ({names}{', ...' if len(files) > 3 else ''})"


def place_in_words(row: Row) -> str:
    return span_in_words(row["start"], row["end"]) if row["end"] >= 60 else f"{row['start']} to {row['end']} s"


# ---------------------------------------------------------------------------------------------------------------------
# Label Studio, which counts time as the column of times does


def _mark_value(row: Row, file: Row, text: str) -> dict[str, Any]:
    start, end = (_as_written(row[key], file) for key in PLACES)
    return {"start": start, "end": end, "instant": False}


def _as_written(seconds: float, file: Row) -> Any:
    kind = file.get("clock_kind", "seconds")
    if kind == "none":  # it counts rows then
        return round(seconds * file["rate"])
    if kind == "clock":
        moment = datetime.fromisoformat(file["recorded"]) + timedelta(seconds=seconds)
        return moment.strftime(file["clock_pattern"]) if file["clock_pattern"] else moment.isoformat()
    scale = UNITS[file.get("clock_unit", "s")]
    return round(seconds / scale + (file["clock_first"] if kind == "epoch" else 0.0), 6)


def _mark_place(value: Row, file: Row) -> dict[str, Any]:
    return {key: _in_seconds(value[key], file) for key in PLACES}


def _in_seconds(written: Any, file: Row) -> Any:
    kind = file.get("clock_kind", "seconds")
    if kind == "none":
        return float(written) / file["rate"]
    if kind == "clock":
        pattern, begin = file["clock_pattern"], datetime.fromisoformat(file["recorded"])
        moment = datetime.strptime(written, pattern) if pattern else datetime.fromisoformat(written)
        return (moment.replace(tzinfo=moment.tzinfo or begin.tzinfo) - begin).total_seconds()
    scale = UNITS[file.get("clock_unit", "s")]
    return (float(written) - (file["clock_first"] if kind == "epoch" else 0.0)) * scale


def _show_channels(key: str, file: Row) -> list[str]:
    """The tag of Label Studio that shows the channels of a file."""
    clock = f" timeColumn={quoteattr(file['clock'])}" if file["clock"] else ""
    if file.get("clock_pattern"):
        clock += f" timeFormat={quoteattr(file['clock_pattern'])}"
    channels = [f"    <Channel column={quoteattr(name)}/>" for name in file["channels"]]
    return [f'  <TimeSeries name="{key}" valueType="url" value="${key}"{clock}>', *channels, "  </TimeSeries>"]


def _one_recording(file: Row) -> bool:
    return len(file.get("recordings", ())) < 2


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
    formats=("csv", "parquet", "intervals", "label-studio"),
    label_studio=LabelStudio(
        "csv", "timeserieslabels", "TimeSeries", "TimeSeriesLabels", value=_mark_value, place=_mark_place,
        show=_show_channels, joined=True, shows=_one_recording,
    ),
    draw=draw_series,
    joined=True,
    pieces_have_names=True,
    close_ups=close_up_stretches,
    timed=True,
    shown_as="series",
    notes=notes_on_series,
)  # fmt: skip


def featurize_series(paths: Sequence[str | Path], settings: SeriesSettings | None = None) -> BagDataset:
    """Stretches of series of measurements, each described by 14 statistics a channel.

    Parameters
    ----------
    paths : list of paths
        CSV or parquet files with a heading, a column for each channel and, where there is one, a column of times.
    settings : SeriesSettings or None

    Returns
    -------
    BagDataset
        Without labels. `locations` hold file, start and end in seconds.
    """
    return SERIES.featurize(paths, settings)
