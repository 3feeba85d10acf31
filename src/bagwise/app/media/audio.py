"""Recordings: a bag is a recording or a piece of one, an instance is a syllable in it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from bagwise.app.media._features import (
    SPECTROGRAM_PATCH_NAMES,
    SYLLABLE_NAMES,
    region_boxes,
    spectrogram_patches,
    syllable_features,
)
from bagwise.app.media._sound_input import SoundInput
from bagwise.app.media._stages import draw_sound_stages, numbered_picture
from bagwise.app.media.audio_file import EXTENSIONS, UNREADABLE, AudioInfo, Sound, make_clip, open_sound
from bagwise.app.media.files import FileBags, noted_time, recorded
from bagwise.app.media.media_type import LabelStudio, MediaType, Parts, Row, Scales
from bagwise.app.media.pictures import (
    CLOSE_HEIGHT,
    CLOSE_WIDTH,
    WIDTH,
    CloseUp,
    Picture,
    as_grey_png,
    name_once,
    outline_region,
    span_in_words,
    tick_words,
    time_in_words,
    time_ticks,
)
from bagwise.app.media.spectrogram import AudioSettings, Spectrogram, Stages, find_syllables, spectrogram
from bagwise.core.dataset import BagDataset
from bagwise.core.exceptions import FormatError, InputError

NO_FEATURES = (
    "Windows are described by vectors of a network alone; add --embed or --embeddings, or leave segment=windows out."
)
FEATURES = {"shape": SYLLABLE_NAMES, "patch": SPECTROGRAM_PATCH_NAMES}
PLACES = ("start", "end", "low", "high")
PART = 120.0  # seconds of a long recording that are kept together
DECODED = 10  # times as much where all of the file before it must be decoded
STRETCH = 60.0  # seconds at least, if the recording is as long
MARGIN = 3.0  # seconds that are read beyond the edges of a stretch
HEIGHT = 300  # of pictures, in units of the page
LONGEST_PICTURE = 30.0  # seconds: in more of them syllables could not be distinguished
LONGEST_CLOSE_UP, AROUND, CONTEXT = 3.0, 0.25, 4.0  # seconds; the noise is that of the context
PAGE_RATE = 24_000  # of the sounds of a report
ULTRASOUND, SLOW = 10_000.0, 10  # where only what lies above this is looked at, it is played so many times slower
FRAMES = (0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128)  # seconds, from which a set may choose
SHORTEST = 32  # samples of a frame: with fewer, frequencies cannot be distinguished
BAT_RATE, BAT_FRAME = 120_000, 0.002  # hertz from which a recorder is one for ultrasound, and the frame for it
LONG, LONGEST_SYLLABLE = 64, 2.0  # frames, and seconds: what is longer may be several
BY_FRAME = {"frame", "overlap", "smooth", "close", "thin", "min_area", "min_frames"}  # counted in frames


# What is sound and what is background noise does not depend on how a recording is cut into bags. The noise of a
# frequency is what is there most of the time, so the time must be long enough for sound to be the exception: dense song
# fills a second. A stretch is therefore a whole recording, or a minute to two of a longer one, whatever the bags are.
# Stretches are read a little beyond their edges, and a syllable belongs to the one that holds its middle, so none is
# cut.


def _stretches(seconds: float) -> list[tuple[float, float]]:
    """First and last second of each stretch: equal parts of a minute to two, or the whole recording."""
    edges = np.linspace(0.0, seconds, max(1, int(seconds // STRETCH)) + 1)
    return list(zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True))


def _hear(sound: Sound, span: tuple[float, float], settings: AudioSettings) -> tuple[float, bool, Stages]:
    """What is found in a stretch: the second at which its sound begins, whether any sample is not zero, the stages."""
    info = sound.info
    begin = round(max(0.0, span[0] - MARGIN) * info.rate)
    size = round(min(span[1] + MARGIN, info.seconds) * info.rate - begin)
    samples = sound.read(begin, max(1, min(size, info.n_samples - begin)))
    return begin / info.rate, bool(np.any(samples)), find_syllables(samples, info.rate, settings)


def _hear_piece(sound: Sound, start: float, seconds: float, settings: AudioSettings) -> Stages:
    """What annotation finds in a piece of a recording, times from its start on."""
    info = sound.info
    span = next(span for span in _stretches(info.seconds) if start < span[1])
    span = span[0], max(span[1], min(start + seconds, info.seconds))  # a piece may lie in two _stretches
    begin, _, stages = _hear(sound, span, settings)
    picture, times = stages.picture, begin + stages.picture.times
    columns = _columns_between(times, start, start + seconds)
    labels = stages.labels[:, columns]
    cut = _cut_picture(picture, columns, start - begin)
    numbers = np.searchsorted(np.unique(np.append(labels, 0)), labels)  # those that are left, from 1
    return Stages(cut, stages.mask[:, columns], numbers, stages.decibels)


def _columns_between(times: np.ndarray, start: float, end: float) -> slice:
    """The columns of rising times from start to end, at least the one nearest to the start."""
    first, last = np.searchsorted(times, [start, end])
    nearest = int(np.argmin(np.abs(times - start)))
    return slice(first, last) if last > first else slice(nearest, nearest + 1)


def _piece_name(name: str, start: float) -> str:
    """What the piece of a recording that begins at `start` is called: seconds to the millisecond, no needless zeros."""
    return f"{name}@{f'{start:.3f}'.rstrip('0').rstrip('.')}"


def _cut(sound: Sound, settings: AudioSettings) -> list[tuple[float, float]]:
    """First and last second of the parts of a recording: two minutes or more of a long one, else all of it."""
    seconds = sound.info.seconds
    n = max(1, int(seconds // (DECODED * PART if sound.is_decoded_from_start else PART)))
    return [(group[0][0], group[-1][1]) for group in np.array_split(np.array(_stretches(seconds)), n)]


def _read_part(sound: Sound, part: tuple[float, float], settings: AudioSettings) -> FileBags:
    """The syllables of a part of a recording as one bag; only a stretch of it is in memory at a time."""
    if settings.segment == "windows":
        return _windows_of(sound.info, part, settings)
    features: list[np.ndarray] = []
    boxes: list[np.ndarray] = []
    any_sound = False
    seconds = sound.info.seconds
    for first, last in _stretches(seconds):
        if not part[0] <= first < part[1]:
            continue
        begin, has_sound, stages = _hear(sound, (first, last), settings)
        any_sound = any_sound or has_sound
        box = region_boxes(stages.picture, stages.labels)
        box[:, :2] += begin
        middle = box[:, :2].mean(axis=1)
        # neighbouring stretches overlap by their margins: the middle decides, so that each syllable is found once
        own = (middle < last) & ((middle >= first) | (first == 0.0))
        own |= (last == seconds) & (middle >= last)
        features.append(_described(stages, settings)[own])
        boxes.append(box[own])
    box = np.concatenate(boxes)
    locations = {key: box[:, i] for i, key in enumerate(PLACES)}
    facts, problems = {"has_sound": any_sound}, [sound.problem] if sound.problem else []
    return FileBags(["part"], [len(box)], np.concatenate(features), locations, facts, problems)


def _described(stages: Stages, settings: AudioSettings) -> np.ndarray:
    """Features of the regions."""
    if settings.features == "patch":
        return spectrogram_patches(stages.picture, stages.labels, settings.low, settings.high)
    return syllable_features(stages.picture, stages.labels)


def _windows_of(info: AudioInfo, part: tuple[float, float], settings: AudioSettings) -> FileBags:
    """The windows that begin in a part of a recording; the last of it ends where the recording does."""
    if settings.length is None:
        raise InputError(NO_FEATURES)
    room = max(0.0, info.seconds - settings.length)
    step = settings.length / 2 if settings.step is None else settings.step
    start = np.minimum(np.arange(int(np.ceil(room / step - 1e-9)) + 1) * step, room)
    start = start[(start >= part[0]) & ((start < part[1]) | (part[1] >= info.seconds))]
    return whole_band(start, start + settings.length, info.rate / 2)


def whole_band(start: np.ndarray, end: np.ndarray, high: float) -> FileBags:
    """Windows of a recording as one bag, with no features: of networks they get vectors."""
    n = len(start)
    places = {"start": start, "end": end, "low": np.zeros(n), "high": np.full(n, high)}
    return FileBags(["part"], [n], np.empty((n, 0)), places, {"has_sound": True})


def _join(sound: Sound, name: str, parts: Sequence[FileBags], settings: AudioSettings) -> FileBags:
    """The bags of a recording from the syllables of its parts.

    A recording of one piece is a bag called `name`; the pieces of a longer one are called ``name@start``, the start
    in seconds, unless the whole file is one bag. A syllable belongs to the piece that holds its middle.
    """
    info = sound.info
    box = np.stack([np.concatenate([part.locations[key] for part in parts]) for key in PLACES], axis=1)
    box = np.clip(box, 0.0, [np.inf, info.seconds, np.inf, info.rate / 2])
    names, sizes, order = _pieces(name, box[:, :2].mean(axis=1), info, settings)
    box = box[order]
    vectors = [part.vectors for part in parts if part.vectors is not None]
    of_parts = dict.fromkeys(text for part in parts for text in part.problems)
    problems = [*([info.problem] if info.problem else []), *of_parts]
    if not any(part.info["has_sound"] for part in parts):
        problems.append("every sample is zero: the recorder wrote nothing.")
    elif not sum(sizes):
        if settings.segment == "boxes":
            problems.append("there is no box of it in the table.")
        else:
            problems.append("no syllable was found in it; lower the threshold if there are any.")
    facts = {"seconds": round(info.seconds, 4), "rate": info.rate, "channels": info.channels}
    return FileBags(
        bag_names=names,
        sizes=sizes,
        features=np.concatenate([part.features for part in parts])[order],
        locations={key: np.round(box[:, i], 4 if i < 2 else 1) for i, key in enumerate(PLACES)},
        info=facts | recorded(name, noted_time(sound.notes)),
        problems=problems,
        vectors=np.concatenate(vectors)[order] if vectors else None,
    )


def _read_sound(sound: Sound, name: str, settings: AudioSettings) -> FileBags:
    """The syllables of one recording, all parts of it after each other."""
    return _join(sound, name, [_read_part(sound, part, settings) for part in _cut(sound, settings)], settings)


def _pieces(
    name: str, middle: np.ndarray, info: AudioInfo, settings: AudioSettings
) -> tuple[list[str], list[int], np.ndarray]:
    """Names and sizes of the bags, and the order of the syllables, bag after bag."""
    if settings.bags == "file":
        return [name], [len(middle)], np.arange(len(middle))
    size = max(1, round(settings.window * info.rate))
    length, n_pieces = size / info.rate, max(1, -(-info.n_samples // size))
    piece = np.clip((middle // length).astype(np.int64), 0, n_pieces - 1)
    names = [name] if n_pieces == 1 else [_piece_name(name, i * length) for i in range(n_pieces)]
    return names, np.bincount(piece, minlength=n_pieces).tolist(), np.argsort(piece, kind="stable")


def _describe_boxes(sound: Sound, name: str, places: Sequence[Row], settings: AudioSettings) -> FileBags:
    """Boxes that a person drew: what was found inside of each, or all of the box where nothing was."""
    if settings.segment == "windows":
        raise InputError(
            "The instances of this run are windows of a fixed length, so no boxes can be drawn or changed; annotate "
            "without segment=windows for boxes of any size."
        )
    info, heard = sound.info, dict[tuple[float, float], tuple[float, Stages]]()
    features, boxes = [], []
    for place in places:
        box = _checked_box(place, info, settings)
        first, last = next(span for span in reversed(_stretches(info.seconds)) if box[:2].mean() >= span[0])
        span = min(first, box[0]), max(last, box[1])
        if span not in heard:
            begin, _, stages = _hear(sound, span, settings)
            heard[span] = begin, stages
        begin, stages = heard[span]
        features.append(_described(_only_inside(stages, box - [begin, begin, 0.0, 0.0]), settings))
        boxes.append(box)
    box = np.array(boxes)
    middle = box[:, :2].mean(axis=1)
    owners = []
    for one in middle:
        names, sizes, _ = _pieces(name, np.array([one]), info, settings)
        owners.append(names[int(np.argmax(sizes))])
    locations = {key: box[:, i] for i, key in enumerate(PLACES)}
    return FileBags(owners, [1] * len(owners), np.concatenate(features), locations, {})


def _checked_box(place: Row, info: AudioInfo, settings: AudioSettings) -> np.ndarray:
    """(4,) start, end, low and high of a box, rounded as they are written; all frequencies where none are given."""
    top = info.rate / 2
    band = settings.low, min(top, settings.high or top)
    low, high = (band[i] if place.get(key) is None else place[key] for i, key in enumerate(("low", "high")))
    given = place["start"], place["end"], low, high
    box = np.array([round(float(value), digits) for value, digits in zip(given, (4, 4, 1, 1), strict=True)])
    edges = np.array([0.0, round(info.seconds, 4), 0.0, top])
    slack = np.array([1e-3, 1e-3, 0.1, 0.1])
    if not np.all(box[[0, 2]] < box[[1, 3]]):
        raise InputError(
            f"A box reaches from {box[0]:g} to {box[1]:g} s and from {box[2]:g} to {box[3]:g} Hz; its end must come "
            "after its start, and high be above low."
        )
    if np.any(box < edges[[0, 0, 2, 2]] - slack) or np.any(box > edges[[1, 1, 3, 3]] + slack):
        raise InputError(
            f"A box from {box[0]:g} to {box[1]:g} s and from {box[2]:g} to {box[3]:g} Hz lies outside of the "
            f"recording, which has {edges[1]:g} s and frequencies up to {top:g} Hz; draw it inside."
        )
    if box[2] >= band[1] or box[3] <= band[0]:
        raise InputError(
            f"Only sounds from {band[0]:g} to {band[1]:g} Hz are looked at, and the box reaches from {box[2]:g} to "
            f"{box[3]:g} Hz; draw it there, or annotate with other limits (--media-set low=... high=...)."
        )
    return np.clip(box, edges[[0, 0, 2, 2]], edges[[1, 1, 3, 3]])


def _only_inside(stages: Stages, box: np.ndarray) -> Stages:
    """The stages with one region: what was found in a box, else all sound in it, else the whole box."""
    picture = stages.picture
    columns = _columns_between(picture.times, box[0], box[1])
    rows = _columns_between(picture.frequencies, box[2], box[3])
    inside = stages.labels[rows, columns] > 0
    if not inside.any():
        inside = stages.mask[rows, columns] if stages.mask[rows, columns].any() else np.ones_like(inside)
    labels = np.zeros_like(stages.labels)
    labels[rows, columns] = inside
    context = _columns_between(picture.times, box[0] - AROUND, box[1] + AROUND)  # what features look at
    return replace(stages, picture=_cut_picture(picture, context), labels=labels[:, context])


def _cut_picture(picture: Spectrogram, columns: slice, begin: float = 0.0) -> Spectrogram:
    """Some columns of a spectrogram, times from `begin` on."""
    return replace(
        picture,
        level=picture.level[:, columns],
        above_noise=picture.above_noise[:, columns],
        intensity=picture.intensity[:, columns],
        times=picture.times[columns] - begin,
    )


def _read_boxes(sound: Sound, name: str, places: Sequence[Row], settings: AudioSettings) -> FileBags:
    """The bags of a recording whose instances are the boxes of a detector; only a stretch of it is in memory at a time.

    What reaches beyond the recording is cut; boxes outside of it, or of the frequencies that are looked at, are named.
    """
    info, top = sound.info, min(sound.info.rate / 2, settings.high or np.inf)
    kept: list[dict[str, float]] = []
    for place in places:
        low, high = place.get("low"), place.get("high")
        low, high = (
            settings.low if low is None else max(low, 0.0),
            top if high is None else min(high, sound.info.rate / 2),
        )
        start, end = max(place["start"], 0.0), min(place["end"], info.seconds)
        if end - start >= 1e-3 and low < top and high > settings.low and high - low >= 1.0:
            kept.append({"start": start, "end": end, "low": low, "high": high})
    kept.sort(key=lambda box: box["start"] + box["end"])
    groups = groupby(kept, key=lambda box: int((box["start"] + box["end"]) / 2 // STRETCH))
    parts = [replace(_describe_boxes(sound, name, list(own), settings), info={"has_sound": True}) for _, own in groups]
    if len(kept) < len(places):
        text = (
            f"{len(places) - len(kept)} of {len(places)} boxes lie outside of its {info.seconds:.1f} s, or of the "
            f"{settings.low:g} to {top:g} Hz that are looked at; they are not used."
        )
        parts.append(_no_boxes(settings, text))
    return _join(sound, name, parts or [_no_boxes(settings)], settings)


def _no_boxes(settings: AudioSettings, *problems: str) -> FileBags:
    places = {key: np.zeros(0) for key in PLACES}
    return FileBags(
        ["part"], [0], np.empty((0, len(FEATURES[settings.features]))), places, {"has_sound": True}, [*problems]
    )


def _draw_sound(sound: Sound, name: str, rows: Sequence[Row], settings: AudioSettings, start: float) -> Picture:
    """The spectrogram of the piece that begins at `start`, with the syllables in it."""
    seconds = min(_picture_length(settings), sound.info.seconds - start)
    picture = _hear_piece(sound, start, seconds, settings).picture
    first, last, low, high = picture.edges

    def across(second: float) -> float:
        return (second - first) / (last - first) * WIDTH

    def down(hertz: float) -> float:
        return (1 - (hertz - low) / (high - low)) * HEIGHT

    def region(row: Row) -> dict[str, Any]:
        left, right = (across(row[key] - start) for key in ("start", "end"))
        return outline_region(row, left, down(row["high"]), right, down(row["low"]), WIDTH)

    inside = [row for row in rows if start <= row["start"] < start + seconds]
    return Picture(
        title=f"{name}, from {time_in_words(start)}" if start else name,
        kind="sound",
        width=WIDTH,
        height=HEIGHT,
        background=as_grey_png(picture.intensity[::-1]),
        regions=name_once([region(row) for row in inside]),
        ticks=[(max(across(t), 0.0), tick_words(start + t, start + seconds)) for t in time_ticks(seconds)],
        levels=[(down(1000 * k), f"{k:g} kHz") for k in _kilohertz(low, high)],
    )


def _close_ups(sound: Sound, rows: Sequence[Row], settings: AudioSettings) -> Iterator[CloseUp]:
    """The spectrogram of each syllable and a little around it."""
    info = sound.info
    for row in rows:
        start, end = _close_up_span(row, info.seconds)
        begin, samples = _read_stretch(sound, start, end, CONTEXT)
        picture = spectrogram(samples, info.rate, settings, min(settings.low, info.rate / 4))
        shown = _columns_between(begin + picture.times, start, end)
        _, _, low, high = picture.edges
        left, right = (100 * (float(row[key]) - start) / (end - start) for key in ("start", "end"))
        top, bottom = (100 * (high - min(max(float(row[key]), low), high)) / (high - low) for key in ("high", "low"))
        yield CloseUp(
            picture=as_grey_png(picture.intensity[::-1, shown], CLOSE_WIDTH, CLOSE_HEIGHT),
            width=CLOSE_WIDTH,
            height=CLOSE_HEIGHT,
            box=tuple(round(value, 1) for value in (left, top, min(right, 100.0) - left, bottom - top)),
        )


def _close_up_span(row: Row, seconds: float) -> tuple[float, float]:
    """First and last second of a recording that are shown and played of one syllable."""
    start = max(0.0, float(row["start"]) - AROUND)
    return start, max(start + 0.01, min(float(row["end"]) + AROUND, start + LONGEST_CLOSE_UP, seconds))


def _read_stretch(sound: Sound, start: float, end: float, around: float = 0.0) -> tuple[float, np.ndarray]:
    """First second and samples of a stretch and what is around it, as far as the recording goes."""
    if start >= sound.info.seconds:
        raise FormatError(f"{sound.path}: it is {sound.info.seconds:.2f} s long, so nothing is there at {start:.2f} s.")
    begin = max(0.0, start - around)
    return next(sound.blocks(min(end + around, sound.info.seconds) - begin, begin))


def _cut_sound(sound: Sound, start: float, end: float, settings: AudioSettings) -> bytes:
    """A stretch of a recording for the page, small: one channel, at most 24 kHz, ten bits; FLAC."""
    _, samples = _read_stretch(sound, start, end)
    slow = SLOW if settings.low >= ULTRASOUND else 1
    return make_clip(samples, sound.info.rate, form="FLAC", slow=slow, most_rate=PAGE_RATE)


def _kilohertz(low: float, high: float) -> list[float]:
    step = 1 if high - low < 9000 else 2 if high - low < 18_000 else 5 if high - low < 45_000 else 20
    return [k for k in np.arange(step, high / 1000, step) if 1000 * k > low]


def _draw_stages(sound: Sound, folder: Path, settings: AudioSettings, start: float, pieces: int) -> Iterator[str]:
    """Draw every stage of some pieces of a recording, from `start` on; gives what was found, line by line."""
    info, path = sound.info, sound.path
    yield f"{path.name}: {info.seconds:.2f} s, {info.rate} Hz, {info.channels} channel(s)"
    if info.problem:
        yield f"{path.name}: {info.problem}"
    if start >= info.seconds:
        raise InputError(f"{path} is {info.seconds:.2f} s long; it cannot be drawn from {start:g} s on.")
    for begin in np.arange(start, info.seconds, settings.window)[:pieces].tolist():
        stages = _hear_piece(sound, begin, settings.window, settings)
        target = numbered_picture(folder, _piece_name(path.stem, begin))
        draw_sound_stages(stages, begin, f"{path.name}, from {begin:g} s", target, settings.to_dict())
        yield f"from {begin:g} s: {stages.labels.max(initial=0)} regions, threshold {stages.decibels:.1f} dB"
        yield f"wrote {target}"


def _place_in_words(row: Row) -> str:
    return f"{span_in_words(row['start'], row['end'])}, {row['low'] / 1000:.1f} to {row['high'] / 1000:.1f} kHz"


def _feature_names(files: Sequence[FileBags], settings: AudioSettings) -> list[str]:
    if settings.segment == "windows":
        raise InputError(NO_FEATURES)
    return FEATURES[settings.features]


def _picture_length(settings: AudioSettings) -> float:
    return min(settings.window, LONGEST_PICTURE)


def _scales_of(
    settings: AudioSettings, given: Collection[str], rates: Sequence[float]
) -> tuple[list[AudioSettings], list[int]]:
    """Frames from short to long; all else that is counted in frames follows. Of recorders for ultrasound the default is
    short and leaves out what people hear, but all else is tried too."""
    if BY_FRAME.intersection(given) or settings.segment == "windows":
        return [settings], [0]
    rate = min(rates, default=0.0)
    found = [replace(settings, frame=frame) for frame in sorted({*FRAMES, settings.frame})]
    found = [one for one in found if one.frame * rate >= SHORTEST or one.frame == settings.frame]
    usual = next(i for i, one in enumerate(found) if one.frame == settings.frame)
    if rate < BAT_RATE:
        return found, [usual]
    low = settings.low if "low" in given else ULTRASOUND
    bats = [replace(one, low=low) for one in found if one.frame < settings.frame / 2]
    first = next(i for i, one in enumerate(bats) if one.frame == BAT_FRAME)
    audible = found[usual - 1 :]
    return [*bats, *audible], [first, len(bats) + 1]


def _scale_in_words(settings: AudioSettings) -> str:
    low = "" if settings.low < ULTRASOUND else f", from {settings.low / 1000:g} kHz"
    return f"{1000 * settings.frame:g} ms{low}"


def _long(settings: AudioSettings) -> float:
    return min(LONG * settings.frame, LONGEST_SYLLABLE)


def _measure_sound(sound: Sound) -> tuple[float, float]:
    return sound.info.seconds, sound.info.rate


def _mark_value(row: Row, file: Row, text: str) -> dict[str, Any]:
    return {"start": row["start"], "end": row["end"], "channel": 0}


def _mark_details(row: Row, file: Row) -> dict[str, Any]:
    return {"original_length": file["seconds"], "meta": {"text": [f"{row['low']:g} to {row['high']:g} Hz"]}}


AUDIO = MediaType(
    name="audio",
    title="Recordings, annotated",
    instances="syllables",
    settings=AudioSettings,
    bags="recordings",
    finer="label shorter pieces: with --window 1, a row 'song.wav@3' names the second that begins at 3 s",
    better="give more labelled recordings or a network (--embed birdnet): docs/embeddings.md",
    too_few=(
        "calls may run together: bagwise inspect FOLDER shows whether they do, and a shorter frame (--media-set "
        "frame=0.008) or grow=0.8 takes them apart"
    ),
    extensions=EXTENSIONS,
    unreadable=UNREADABLE,
    open=open_sound,
    read=_read_sound,
    parts=Parts(_cut, _read_part, _join),
    describe=_describe_boxes,
    read_boxes=_read_boxes,
    scales=Scales(_measure_sound, _scales_of, _scale_in_words, _long, Sound.hold),
    feature_names=_feature_names,
    places=PLACES,
    place_in_words=_place_in_words,
    formats=("csv", "parquet", "raven", "audacity", "birdnet", "label-studio"),
    label_studio=LabelStudio("audio", "labels", "Audio", "Labels", value=_mark_value, details=_mark_details),
    draw=_draw_sound,
    picture_length=_picture_length,
    close_ups=_close_ups,
    cut_sound=_cut_sound,
    close_up_span=_close_up_span,
    stages=_draw_stages,
    dated=True,
    shown_as="sound",
    embed=SoundInput,
    joins=True,
)


def featurize_audio(paths: Sequence[str | Path], settings: AudioSettings | None = None) -> BagDataset:
    """Syllables of recordings, each described by 38 features, or by a patch (`AudioSettings.features`).

    Parameters
    ----------
    paths : list of paths
        Sound files (wav, flac, ogg, mp3, aiff, ...) of any rate and any number of channels.
    settings : AudioSettings or None

    Returns
    -------
    BagDataset
        Without labels. `locations` hold file, start and end in seconds, low and high in hertz. Pieces in which
        nothing was found are left out.

    Raises
    ------
    FormatError
        If a file cannot be used; the message names it.

    Examples
    --------
    >>> import tempfile
    >>> from bagwise.app.media import featurize_audio
    >>> from bagwise.datasets import make_soundscape
    >>> recordings, _, _ = make_soundscape(2, seconds=3.0, random_state=0).write(tempfile.mkdtemp())
    >>> syllables = featurize_audio(sorted(recordings.glob("*.wav")))
    >>> len(syllables), syllables.bags.n_features
    (2, 38)
    """
    return AUDIO.featurize(paths, settings)
