"""What to show around an instance: a stretch of sound, a picture with its regions, a text, curves, or why nothing."""

from __future__ import annotations

from itertools import pairwise
from typing import Any
from urllib.parse import urlencode

import numpy as np
import scipy.sparse as sp

from bagwise.exceptions import InputError
from bagwise.featurize.series_file import RECORDING
from bagwise.io.annotations.rle import rings_of
from bagwise.review.errors import RequestError
from bagwise.review.media import LONGEST_CLIP, LONGEST_PICTURE, MediaStore
from bagwise.review.snapshot import Snapshot, plain

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
    file = now.places.files[now.places.file_of[row]]
    show = {"sound": _sound, "image": _image, "text": _text, "series": _series}.get(media.medium.shown_as)
    if show is None:
        return _nothing(now, row, "Bags of a table have nothing to see or hear; these are their features.")
    try:
        return {**show(now, media, row, file, start, end), **_candidates(now, row)}
    except (InputError, ImportError, OSError) as error:
        if isinstance(error, RequestError) and error.status == RequestError.status:
            raise
        return _nothing(now, row, str(error))


def _candidates(now: Snapshot, row: int) -> dict[str, Any]:
    """The labels that are likely, first the one that was found, then those that the bag lists."""
    found = now.found
    names = [now.names[row], str(found.classes[found.runner_up[row]]) if found.runner_up[row] >= 0 else ""]
    names += now.listed(int(now.places.bag_of[row])) or []
    probability = None if found.probability is None else plain(found.probability[row])
    return {
        "candidates": [
            {"label": name, "probability": probability if i == 0 else None}
            for i, name in enumerate(dict.fromkeys(name for name in names if name))
        ]
    }


def _sound(
    now: Snapshot, media: MediaStore, row: int, file: str, start: float | None, end: float | None
) -> dict[str, Any]:
    seconds, (low, high), places = media.sound(file).seconds, media.band(file), now.places
    place = places.place(row)
    if start is None or end is None:
        start, end = place["start"] - AROUND, place["end"] + AROUND
    start = float(np.clip(start, 0.0, max(seconds - LEAST, 0.0)))
    end = float(np.clip(end, start + LEAST, min(max(seconds, start + LEAST), start + LONGEST_PICTURE)))
    start, end = round(start, 4), round(end, 4)
    rows = places.in_file(int(places.file_of[row]))
    inside = rows[(places.columns["end"][rows] > start) & (places.columns["start"][rows] < end)]
    common = {"file": file, "from": start, "to": end}
    size = {"width": WIDTH, "height": HEIGHT, "low": low, "high": high}
    played = common | {"to": min(end, start + LONGEST_CLIP)}
    return {
        "kind": "sound", **common, "seconds": round(seconds, 4), "low": low, "high": high,
        "picture": f"/media/spectrogram?{urlencode(common | size)}",
        "clip": f"/media/clip?{urlencode(played)}",
        "boxes": [
            now.mark(i) | {key: plain(places.columns[key][i]) for key in ("start", "end", "low", "high")}
            for i in inside.tolist()
        ],
    }  # fmt: skip


def _image(
    now: Snapshot, media: MediaStore, row: int, file: str, start: float | None, end: float | None
) -> dict[str, Any]:
    media.path(file)
    info, places = media.info(file), now.places
    return {
        "kind": "image", "file": file, "picture": f"/media/picture?{urlencode({'file': file})}",
        "width": info["width"], "height": info["height"],
        "regions": [
            now.mark(i) | {"rings": rings_of(places.place(i))}
            for i in places.in_file(int(places.file_of[row])).tolist()
        ],
    }  # fmt: skip


def _text(
    now: Snapshot, media: MediaStore, row: int, file: str, start: float | None, end: float | None
) -> dict[str, Any]:
    whole, places = media.text(file), now.places
    place = places.place(row)
    if start is None or end is None:
        middle = (place["start"] + place["end"]) // 2
        start = 0 if len(whole) <= MOST_CHARACTERS else max(0, middle - MOST_CHARACTERS // 2)
        end = start + MOST_CHARACTERS
    first, last = max(0, int(start)), min(len(whole), int(end), int(start) + MOST_CHARACTERS)
    starts, ends = places.columns["start"], places.columns["end"]
    rows = places.in_file(int(places.file_of[row]))
    rows = rows[(ends[rows] > first) & (starts[rows] < last)]
    return {
        "kind": "text", "file": file, "from": first, "to": last, "text": whole[first:last],
        "passages": _passages(now, whole, rows, row, first, last),
        "spans": [now.mark(i) | {"start": int(starts[i]), "end": int(ends[i])} for i in rows.tolist()],
    }  # fmt: skip


def _passages(now: Snapshot, text: str, rows: np.ndarray, row: int, first: int, last: int) -> list[dict[str, Any]]:
    """Pieces of a text, each under the surest of the passages that cover it; the one that is asked for wins."""
    starts, ends = now.places.columns["start"], now.places.columns["end"]
    edges = sorted({first, last, *(int(np.clip(edge, first, last)) for i in rows for edge in (starts[i], ends[i]))})
    rank = {int(i): (int(i) == row, bool(now.found.checked[i]), float(now.sureness[i])) for i in rows}
    pieces: list[dict[str, Any]] = []
    owners: list[int | None] = []
    for left, right in pairwise(edges):
        covering = [i for i in rank if starts[i] <= left and ends[i] >= right]
        owner = max(covering, key=lambda i: rank[i]) if covering else None
        if pieces and owners[-1] == owner:
            pieces[-1]["text"] += text[left:right]
            continue
        owners.append(owner)
        empty = {"bag": None, "instance": None, "label": "", "probability": None, "checked": False}
        pieces.append({"text": text[left:right], **(empty if owner is None else now.mark(owner))})
    return pieces


def _series(
    now: Snapshot, media: MediaStore, row: int, file: str, start: float | None, end: float | None
) -> dict[str, Any]:
    places = now.places
    place = places.place(row)
    series = media.series(file, place.get(RECORDING) or "")
    n = len(series.values)
    if start is None or end is None:
        around = 2 * (place["end"] - place["start"])
        start, end = place["start"] - around, place["end"] + around
    first = int(np.clip(np.searchsorted(series.times, start, side="right") - 1, 0, n - 1))
    last = int(np.clip(np.searchsorted(series.times, end, side="left") + 1, first + 1, n))
    step = max(1, (last - first) // MOST_POINTS)
    index = np.arange(first, last, step)
    begin, until = float(series.times[first]), float(series.times[last - 1]) + 1.0 / series.rate
    rows = places.in_file(int(places.file_of[row]))
    rows = rows[places.bag_of[rows] == places.bag_of[row]]
    rows = rows[(places.columns["end"][rows] > begin) & (places.columns["start"][rows] < until)]
    return {
        "kind": "series", "file": file, "channels": series.channels, "from": begin, "to": until,
        "seconds": series.end - series.start, "start": series.start,
        "times": np.round(series.times[index], 6).tolist(), "gap": max(series.max_gap, 1.5 * step / series.rate),
        "lines": [series.values[index, k].tolist() for k in range(len(series.channels))],
        "ranges": np.stack([series.values.min(axis=0), series.values.max(axis=0)], axis=1).tolist(),
        "spans": [
            now.mark(i) | {key: plain(places.columns[key][i]) for key in ("start", "end")} for i in rows.tolist()
        ],
    }  # fmt: skip


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
