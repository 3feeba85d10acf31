"""What to show around an instance: a stretch of sound, a picture with its regions, a text, curves, or why nothing."""

from __future__ import annotations

from itertools import pairwise
from typing import Any
from urllib.parse import urlencode

import numpy as np
import scipy.sparse as sp

from bagwise.app.media.rle import rings_of
from bagwise.app.media.series_file import RECORDING
from bagwise.app.review._errors import RequestError
from bagwise.app.review._media import LONGEST_CLIP, LONGEST_PICTURE, MediaStore
from bagwise.app.review._snapshot import MARK, Snapshot, plain
from bagwise.core.exceptions import InputError

AROUND = 1.5  # seconds of sound before and after an instance
LEAST = 0.05  # seconds of a stretch
WIDTH, HEIGHT = 1200, 360
MOST_POINTS = 1200  # of a curve
MOST_CHARACTERS = 60_000  # of a text at once
MOST_FEATURES = 200


def show_instance(
    now: Snapshot, media: MediaStore, row: int, start: float | None = None, end: float | None = None
) -> dict[str, Any]:
    """What the page draws; where nothing can be drawn, why, and the features."""
    if (start is None) != (end is None) or (start is not None and end is not None and not start < end):
        raise RequestError("from and to are given both or not at all, and to is the later one.")
    show = {"sound": _sound, "image": _image, "text": _text, "series": _series}.get(media.media_type.shown_as)
    if show is None:
        return _nothing(now, row, "Bags of a table have nothing to see or hear; these are their features.")
    span = None if start is None or end is None else (start, end)
    try:
        return {**show(_View(now, media, row), span), **_candidates(now, row)}
    except (InputError, ImportError, OSError) as error:
        if isinstance(error, RequestError) and error.status == RequestError.status:
            raise
        return _nothing(now, row, str(error))


def _candidates(now: Snapshot, row: int) -> dict[str, Any]:
    """The labels that are likely, first the predicted one, then those that the bag lists."""
    found = now.found
    names = [now.names[row], str(found.classes[found.runner_up[row]]) if found.runner_up[row] >= 0 else ""]
    names[1:1] = found.labels_of(row)[1:]
    names += now.listed(int(now.places.bag_of[row])) or []
    probability = None if found.probability is None else plain(found.probability[row])
    return {
        "candidates": [
            {"label": name, "probability": probability if i == 0 else None}
            for i, name in enumerate(dict.fromkeys(name for name in names if name))
        ]
    }


class _View:
    """An instance with its file, its place, and the rows of all instances of the file."""

    def __init__(self, now: Snapshot, media: MediaStore, row: int):
        places = now.places
        self.now, self.media, self.row = now, media, row
        self.file, self.place = places.files[places.file_of[row]], places.place(row)
        self.columns, self.rows = places.columns, places.in_file(int(places.file_of[row]))

    def within(self, start: float, end: float) -> np.ndarray:
        """Rows that reach into a stretch of the file."""
        starts, ends = self.columns["start"][self.rows], self.columns["end"][self.rows]
        return self.rows[(ends > start) & (starts < end)]


Span = tuple[float, float] | None


def _sound(view: _View, span: Span) -> dict[str, Any]:
    seconds, (low, high) = view.media.sound(view.file).seconds, view.media.band(view.file)
    start, end = span or (view.place["start"] - AROUND, view.place["end"] + AROUND)
    start = float(np.clip(start, 0.0, max(seconds - LEAST, 0.0)))
    end = float(np.clip(end, start + LEAST, min(max(seconds, start + LEAST), start + LONGEST_PICTURE)))
    start, end = round(start, 4), round(end, 4)
    common = {"file": view.file, "from": start, "to": end}
    size = {"width": WIDTH, "height": HEIGHT, "low": low, "high": high}
    played = common | {"to": min(end, start + LONGEST_CLIP)}
    return {
        "kind": "sound",
        **common,
        "seconds": round(seconds, 4),
        "low": low,
        "high": high,
        "picture": f"/media/spectrogram?{urlencode(common | size)}",
        "clip": f"/media/clip?{urlencode(played)}",
        "boxes": view.now.rows(view.within(start, end), *MARK, "start", "end", "low", "high"),
    }


def _image(view: _View, span: Span) -> dict[str, Any]:
    view.media.path(view.file)
    info = view.media.info(view.file)
    return {
        "kind": "image",
        "file": view.file,
        "picture": f"/media/picture?{urlencode({'file': view.file})}",
        "width": info["width"],
        "height": info["height"],
        "regions": [
            mark | {"rings": rings_of(view.now.places.place(i))}
            for i, mark in zip(view.rows.tolist(), view.now.rows(view.rows, *MARK), strict=True)
        ],
    }


def _text(view: _View, span: Span) -> dict[str, Any]:
    whole = view.media.text(view.file)
    if span is None:
        middle = (view.place["start"] + view.place["end"]) // 2
        start = 0 if len(whole) <= MOST_CHARACTERS else max(0, middle - MOST_CHARACTERS // 2)
        span = start, start + MOST_CHARACTERS
    first, last = max(0, int(span[0])), min(len(whole), int(span[1]), int(span[0]) + MOST_CHARACTERS)
    rows = view.within(first, last)
    return {
        "kind": "text",
        "file": view.file,
        "from": first,
        "to": last,
        "text": whole[first:last],
        "passages": _passages(view.now, whole, rows, view.row, first, last),
        "spans": view.now.rows(rows, *MARK, "start", "end"),
    }


def _passages(now: Snapshot, text: str, rows: np.ndarray, row: int, first: int, last: int) -> list[dict[str, Any]]:
    """Pieces of a text, each under the surest of the passages that cover it; the one that is asked for wins."""
    starts, ends = now.places.columns["start"], now.places.columns["end"]
    edges = sorted({first, last, *(int(np.clip(edge, first, last)) for i in rows for edge in (starts[i], ends[i]))})
    rank = {int(i): (int(i) == row, bool(now.found.checked[i]), float(now.certainty[i])) for i in rows}
    marks: dict[int | None, dict[str, Any]] = dict(zip(rows.tolist(), now.rows(rows, *MARK), strict=True))
    marks[None] = {"bag": None, "instance": None, "label": "", "probability": None, "checked": False}
    pieces: list[dict[str, Any]] = []
    owners: list[int | None] = []
    for left, right in pairwise(edges):
        covering = [i for i in rank if starts[i] <= left and ends[i] >= right]
        owner = max(covering, key=lambda i: rank[i]) if covering else None
        if pieces and owners[-1] == owner:
            pieces[-1]["text"] += text[left:right]
            continue
        owners.append(owner)
        pieces.append({"text": text[left:right], **marks[owner]})
    return pieces


def _series(view: _View, span: Span) -> dict[str, Any]:
    place, bag_of = view.place, view.now.places.bag_of
    series = view.media.series(view.file, place.get(RECORDING) or "")
    around = 2 * (place["end"] - place["start"])
    start, end = span or (place["start"] - around, place["end"] + around)
    n = len(series.values)
    first = int(np.clip(np.searchsorted(series.times, start, side="right") - 1, 0, n - 1))
    last = int(np.clip(np.searchsorted(series.times, end, side="left") + 1, first + 1, n))
    step = max(1, (last - first) // MOST_POINTS)
    index = np.arange(first, last, step)
    begin, until = float(series.times[first]), float(series.times[last - 1]) + 1.0 / series.rate
    rows = view.within(begin, until)
    return {
        "kind": "series",
        "file": view.file,
        "channels": series.channels,
        "from": begin,
        "to": until,
        "seconds": series.end - series.start,
        "start": series.start,
        "times": np.round(series.times[index], 6).tolist(),
        "gap": max(series.max_gap, 1.5 * step / series.rate),
        "lines": series.values[index].T.tolist(),
        "ranges": np.stack([series.values.min(axis=0), series.values.max(axis=0)], axis=1).tolist(),
        "spans": view.now.rows(rows[bag_of[rows] == bag_of[view.row]], *MARK, "start", "end"),
    }


def _nothing(now: Snapshot, row: int, why: str) -> dict[str, Any]:
    dataset = now.places.dataset
    names = dataset.feature_names or [f"feature {i}" for i in range(dataset.bags.n_features)]
    values = dataset.bags.instances[row]
    if sp.issparse(values):  # those that are there, the largest first
        values = sp.csr_matrix(values)
        order = np.argsort(-values.data, kind="stable")
        names, values = [names[j] for j in values.indices[order]], values.data[order]
    features = {str(name): plain(value) for name, value in zip(names, values[:MOST_FEATURES].tolist(), strict=False)}
    return {"kind": "none", "why": why, "features": features, **_candidates(now, row)}
