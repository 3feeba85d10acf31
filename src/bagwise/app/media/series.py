"""Series of measurements: a bag is a recording of sensors, an instance is a stretch of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from xml.sax.saxutils import quoteattr

import numpy as np

from bagwise.app.media.files import FileBags
from bagwise.app.media.media_type import LabelStudio, MediaType, Row
from bagwise.app.media.pictures import (
    CLOSE_HEIGHT,
    CLOSE_WIDTH,
    WIDTH,
    CloseUp,
    Picture,
    as_drawing,
    outline_region,
    span_in_words,
    tick_words,
    time_ticks,
)
from bagwise.app.media.series_file import RECORDING, UNITS, Series, SeriesSettings, read_recordings
from bagwise.app.media.windows import join_windows
from bagwise.core.dataset import BagDataset
from bagwise.core.exceptions import InputError

HEAD, LANE, LEAST_LANE, BETWEEN = 14, 46, 14, 12  # heights: of a line of words, of a channel, between strips
TALLEST = 900  # units of the page that the strips of one recording may take
WINDOWS_OF_A_STRIP = 40
MOST_CHANNELS = 24  # that are drawn
MOST_RECORDINGS = 3  # of one table that a picture shows
SHRUNK = 0.03  # of the recorded time, to which a longer gap is drawn
LETTER = 7.0  # width of a letter of a name
EXTENSIONS = (".csv", ".tsv", ".parquet", ".pq")
PLACES = ("start", "end")
LEAST_ROWS = 4  # of a stretch that a person draws
TIME_STATISTICS = ("mean", "deviation", "least", "greatest", "median", "step", "crossings")
FREQUENCY_STATISTICS = ("peak", "centroid", "entropy", "band0", "band1", "band2", "band3")


def _stretch_features(values: np.ndarray, rate: float) -> np.ndarray:
    """(14 k,) statistics of the k channels of a stretch, channel after channel.

    In time: mean, standard deviation, least, greatest, median, mean size of the step from row to row, share of steps
    that cross the mean. In frequency, of the power about the mean: hertz of the greatest, centre in hertz, entropy
    (1 is flat), and the shares of four equal bands.
    """
    centred = values - values.mean(axis=0)
    steps = np.diff(values, axis=0)
    crossings = np.diff(np.signbit(centred), axis=0).mean(axis=0)
    in_time = [statistic(values, axis=0) for statistic in (np.mean, np.std, np.min, np.max, np.median)]
    power = np.abs(np.fft.rfft(centred, axis=0))[1:] ** 2
    frequency = np.fft.rfftfreq(len(values), 1.0 / rate)[1:]
    total = power.sum(axis=0)
    # a channel that stands still has no spectrum: let it be flat
    share = np.where(total > 1e-24, power / np.where(total > 1e-24, total, 1.0), 1.0 / len(power))
    entropy = -(share * np.log(np.maximum(share, 1e-300))).sum(axis=0) / np.log(max(len(share), 2))
    bands = [part.sum(axis=0) for part in np.array_split(share, 4)]
    in_frequency = [frequency[share.argmax(axis=0)], frequency @ share, entropy, *bands]
    return np.array([*in_time, np.abs(steps).mean(axis=0), crossings, *in_frequency]).T.ravel()


def _read_stretches(path: str | Path, name: str, settings: SeriesSettings) -> FileBags:
    """The stretches of the recordings of a table; none reaches across a gap."""
    recordings = read_recordings(path, settings)
    found = {key: _stretches(series, settings) for key, series in recordings.items()}
    some = next(iter(recordings.values()))
    names = _names_of(some.channels)
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
    features = [_stretch_features(series.values[i : i + settings.window], series.rate) for i in first]
    ends = series.times[first + settings.window - 1] + 1.0 / series.rate if len(first) else np.empty(0)
    return np.array(features), np.round(series.times[first], 6), np.round(ends, 6)


def _describe_spans(path: Path, name: str, places: Sequence[Row], settings: SeriesSettings) -> FileBags:
    """Stretches of any length that a person drew, each within one piece without a gap."""
    recordings = read_recordings(path, settings)
    features, spans, keys = [], [], [str(place.get(RECORDING) or "") for place in places]
    for place, key in zip(places, keys, strict=True):
        if key not in recordings:
            raise InputError(f"{name} has no recording {key!r}; it has {', '.join(map(repr, recordings))}.")
        series, start, end = recordings[key], float(place["start"]), float(place["end"])
        first, last = np.searchsorted(series.times, [start - 1e-9, end - 1e-9])
        inside = any(a <= first and last <= b for a, b in series.pieces)
        if not start < end or last - first < LEAST_ROWS or not inside:
            raise InputError(
                f"A stretch from {start:g} to {end:g} s of {name} holds {max(last - first, 0)} rows"
                f"{'' if inside else ' and a gap'}; draw one of {LEAST_ROWS} rows or more inside of "
                f"{series.start:g} to {series.end:g} s, without a gap."
            )
        features.append(_stretch_features(series.values[first:last], series.rate))
        spans.append((series.times[first], series.times[last - 1] + 1.0 / series.rate))
    columns = {key: np.round(column, 6) for key, column in zip(PLACES, np.array(spans).T, strict=True)}
    if settings.recording:
        columns[RECORDING] = np.array(keys, dtype=object)
    channels = next(iter(recordings.values())).channels
    return FileBags(
        bag_names=[f"{name}@{key}" if key else name for key in keys],
        sizes=[1] * len(keys),
        features=np.array(features),
        locations=columns,
        info={},
        feature_names=_names_of(channels),
    )


def _names_of(channels: Sequence[str]) -> list[str]:
    """What the features of these channels are called."""
    return [f"{channel}_{s}" for channel in channels for s in (*TIME_STATISTICS, *FREQUENCY_STATISTICS)]


def _too_short(recording: str, series: Series, settings: SeriesSettings) -> str:
    longest = max(b - a for a, b in series.pieces)
    what = f"the recording {recording!r}" if recording else "it"
    where = f" in its longest piece without a gap ({len(series.pieces)} pieces)" if len(series.pieces) > 1 else ""
    cure = f"; lower it (--media-set window={longest})" if longest >= 4 else ""
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
        **{f"clock_{name}": value for name, value in asdict(clock).items()},
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


def _refuse_other_channels(files: Mapping[str, FileBags], expected: Sequence[str] | None) -> dict[str, str]:
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


def _notes(files: Sequence[Row]) -> list[str]:
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


# ---------------------------------------------------------------------------------------------------------------------
# Drawings: every channel in a lane of its own, long recordings in strips below each other


def _draw_series(path: Path, name: str, rows: Sequence[Row], settings: SeriesSettings, start: float) -> Picture:
    """The channels below each other, each over its own range, with intervals of windows of one label.

    A long recording is cut into strips. Rows without a label are windows that are not shown. Of a table of several
    recordings those are drawn whose windows come first.
    """
    recordings = read_recordings(path, settings)
    of_bag = {str(row["bag"]): str(row.get(RECORDING) or "") for row in rows}
    bags = list(of_bag)[:MOST_RECORDINGS] or [name]
    found: dict[str, Any] = {"regions": [], "lines": [], "levels": [], "ticks": []}
    top, n_gaps, named = 0.0, 0, dict[str, None]()
    for bag in bags:
        recording = of_bag.get(bag, "")
        series = recordings.get(recording) or next(iter(recordings.values()))
        own = join_windows([row for row in rows if str(row["bag"]) == bag], lambda row: bool(row["label"]))
        top = BETWEEN + _draw_strips(found, series, own, settings.window, top, recording if len(bags) > 1 else None)
        n_gaps += len(series.pieces) - 1
        named |= dict.fromkeys(series.channels)
    gaps = f" ({n_gaps} gap{'s' if n_gaps > 1 else ''}, drawn short where long)" if n_gaps else ""
    return Picture(
        title=f"{name}: {', '.join(list(named)[:MOST_CHANNELS])}{gaps}",
        kind="series",
        width=WIDTH,
        height=round(top - BETWEEN),
        **found,
    )


def _draw_strips(
    found: dict[str, Any],
    series: Series,
    intervals: Sequence[Mapping[str, Any]],
    window: int,
    top: float,
    name: str | None,
) -> float:
    """Add what is drawn of a recording from `top` on; gives where it ends. A name stands above it where there are
    several."""
    n_lanes = min(len(series.channels), MOST_CHANNELS)
    lane = max(LEAST_LANE, min(LANE, (TALLEST // 2 - 2 * HEAD) // n_lanes))
    wanted = -(-len(series.times) // (WINDOWS_OF_A_STRIP * window))
    n_strips = max(1, min(wanted, TALLEST // (2 * HEAD + n_lanes * lane + BETWEEN)))
    head = HEAD if n_strips == 1 and name is None else 2 * HEAD  # of the words above a strip: its time, names of labels
    knots, drawn = _shrink_gaps(series)
    length = drawn[-1] / n_strips  # of a strip, in seconds without most of the long gaps

    def along(times: Any) -> Any:
        """How many strips are before a moment."""
        return np.interp(times, knots, drawn) / length

    places = along(series.times)
    strip_of = np.minimum(places.astype(int), n_strips - 1)
    low, spread = series.values.min(axis=0), np.maximum(np.ptp(series.values, axis=0), 1e-12)
    for strip in range(n_strips):
        floor = top + head
        words = [name] if name and strip == 0 else []
        if n_strips > 1:
            begin = float(series.times[min(int(np.searchsorted(places, strip - 1e-9)), len(places) - 1)])
            words.append(f"from {tick_words(round(begin, 2), series.end)}")
        if words:
            found["levels"].append((top + 9, ", ".join(words)))
        if strip == 0:
            channels = series.channels[:n_lanes]
            found["levels"] += [(floor + k * lane + 8, channel) for k, channel in enumerate(channels)]
        for first, last in series.pieces:  # with no line across a gap
            rows = first + np.flatnonzero(strip_of[first:last] == strip)
            x = (places[rows] - strip) * WIDTH
            for k in range(n_lanes if len(rows) else 0):
                y = floor + (k + 1) * lane - 3 - (series.values[rows, k] - low[k]) / spread[k] * (lane - 6)
                found["lines"].append(" ".join(f"{a:.1f},{b:.1f}" for a, b in _envelope(x, y)))
        bottom = floor + n_lanes * lane
        for interval in intervals:
            left, right = (float(np.clip(along(interval[key]) - strip, 0, 1)) * WIDTH for key in PLACES)
            if right - left > 1e-6:
                row = {**interval, "instance": interval["rows"][0]["instance"]}
                region = outline_region(row, left, floor, right, bottom, WIDTH)
                found["regions"].append(region | {"named": right - left >= LETTER * len(str(interval["label"]))})
        top = bottom + BETWEEN
    if n_strips == 1 and name is None:
        ticks = [series.start + t for t in time_ticks(series.end - series.start)]
        inside = [t for t in ticks if any(series.times[a] <= t <= series.times[b - 1] for a, b in series.pieces)]
        found["ticks"] += [(float(along(t)) * WIDTH, tick_words(t, series.end)) for t in inside]
    return top - BETWEEN


def _shrink_gaps(series: Series) -> tuple[np.ndarray, np.ndarray]:
    """Moments at which pieces begin and end, and where they are drawn; long gaps are drawn short."""
    first, last = np.array(series.pieces).T
    begin, end = series.times[first], series.times[last - 1] + 1.0 / series.rate
    length = end - begin
    gaps = np.clip(begin[1:] - end[:-1], 0.0, SHRUNK * length.sum())
    drawn = np.cumsum(np.stack([np.append(0.0, gaps), length], axis=1).ravel())
    return np.stack([begin, end], axis=1).ravel(), drawn


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


def _close_ups(path: Path, rows: Sequence[Row], settings: SeriesSettings) -> Iterator[CloseUp]:
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


# ---------------------------------------------------------------------------------------------------------------------
# The media type, and Label Studio, which counts time as the column of times does


def _place_in_words(row: Row) -> str:
    return span_in_words(row["start"], row["end"]) if row["end"] >= 60 else f"{row['start']} to {row['end']} s"


def _mark_value(row: Row, file: Row, text: str) -> dict[str, Any]:
    start, end = (_as_written(row[key], file) for key in PLACES)
    return {"start": start, "end": end, "instant": False}


def _mark_place(value: Row, file: Row) -> dict[str, Any]:
    return {key: _in_seconds(value[key], file) for key in PLACES}


def _scale(file: Row) -> tuple[float, float]:
    """What a second and the first moment are in the numbers of a column of times; rows count where there is none."""
    if file["clock_kind"] == "none":
        return file["rate"], 0.0
    return 1.0 / UNITS[file["clock_unit"]], file["clock_first"] if file["clock_kind"] == "epoch" else 0.0


def _as_written(seconds: float, file: Row) -> Any:
    if file["clock_kind"] == "clock":
        moment = datetime.fromisoformat(file["recorded"]) + timedelta(seconds=seconds)
        return moment.strftime(file["clock_pattern"]) if file["clock_pattern"] else moment.isoformat()
    scale, first = _scale(file)
    return round(seconds * scale) if file["clock_kind"] == "none" else round(seconds * scale + first, 6)


def _in_seconds(written: Any, file: Row) -> Any:
    if file["clock_kind"] == "clock":
        pattern, begin = file["clock_pattern"], datetime.fromisoformat(file["recorded"])
        moment = datetime.strptime(written, pattern) if pattern else datetime.fromisoformat(written)
        return (moment.replace(tzinfo=moment.tzinfo or begin.tzinfo) - begin).total_seconds()
    scale, first = _scale(file)
    return (float(written) - first) / scale


def _show_channels(key: str, file: Row) -> list[str]:
    """The tag of Label Studio that shows the channels of a file."""
    clock = f" timeColumn={quoteattr(file['clock_heading'])}" if file["clock_heading"] else ""
    if file["clock_pattern"]:
        clock += f" timeFormat={quoteattr(file['clock_pattern'])}"
    channels = [f"    <Channel column={quoteattr(name)}/>" for name in file["channels"]]
    return [f'  <TimeSeries name="{key}" valueType="url" value="${key}"{clock}>', *channels, "  </TimeSeries>"]


def _one_recording(file: Row) -> bool:
    return len(file.get("recordings", ())) < 2


SERIES = MediaType(
    name="series",
    title="Series, annotated",
    instances="stretches",
    settings=SeriesSettings,
    bags="series",
    finer="label shorter series, cut into files of their own",
    extensions=EXTENSIONS,
    read=_read_stretches,
    describe=_describe_spans,
    check_files=_refuse_other_channels,
    places=PLACES,
    place_in_words=_place_in_words,
    formats=("csv", "parquet", "intervals", "label-studio"),
    label_studio=LabelStudio(
        "csv",
        "timeserieslabels",
        "TimeSeries",
        "TimeSeriesLabels",
        value=_mark_value,
        place=_mark_place,
        show=_show_channels,
        shows=_one_recording,
    ),
    draw=_draw_series,
    joined=True,
    pieces_have_names=True,
    close_ups=_close_ups,
    shown_as="series",
    notes=_notes,
)


def featurize_series(paths: Sequence[str | Path], settings: SeriesSettings | None = None) -> BagDataset:
    """Stretches of series of measurements, each described by 14 statistics per channel.

    Parameters
    ----------
    paths : list of paths
        CSV or parquet files with a heading, a column for each channel and, where there is one, a column of times.
    settings : SeriesSettings or None

    Returns
    -------
    BagDataset
        Without labels. `locations` hold file, start and end in seconds.

    Examples
    --------
    >>> import os, tempfile
    >>> import numpy as np
    >>> from bagwise.app.media import SeriesSettings, featurize_series
    >>> path = os.path.join(tempfile.mkdtemp(), "a.csv")
    >>> np.savetxt(path, np.random.default_rng(0).normal(size=(96, 2)), delimiter=",", header="x,y", comments="")
    >>> stretches = featurize_series([path], SeriesSettings(window=32, step=32))
    >>> stretches.bags.sizes.tolist(), stretches.bags.n_features
    ([3], 28)
    """
    return SERIES.featurize(paths, settings)
