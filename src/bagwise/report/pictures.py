"""Pictures of annotated media for the page: what is there, with its regions coloured and named."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np

from bagwise.featurize import audio, image_file
from bagwise.featurize.audio_file import audio_info, read_blocks
from bagwise.featurize.series import read_series
from bagwise.io.annotations import Annotations
from bagwise.io.text import read_text

N_PICTURES = 12
WIDTH = 1000  # of pictures, in units of the page
SOUND_HEIGHT, SERIES_HEIGHT = 300, 160
NEAR_X, NEAR_Y = 50, 100  # within which one name does for several regions of a label
IMAGE_WIDTH = 640  # in units of the page, whatever the picture's own size: names and edges keep theirs
LARGEST_IMAGE = 640  # points of the longer side


@dataclass(frozen=True)
class Picture:
    """One picture.

    Attributes
    ----------
    title : str
    kind : {"sound", "image", "text", "series"}
    width, height : int
    background : str
        A PNG as a data address, "" where there is none.
    regions : list of dict
        label, probability, number, and points (of a polygon, in units of the picture); for texts pieces of the text.
    ticks : list of (position, text), along the time; high : str, the top of the frequencies
    lines : list of str
        Points of the channels of a series.
    """

    title: str
    kind: str
    width: int
    height: int
    background: str = ""
    regions: list[dict[str, Any]] = field(default_factory=list)
    ticks: list[tuple[float, str]] = field(default_factory=list)
    levels: list[tuple[float, str]] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)


def choose_pieces(annotations: Annotations, n: int = N_PICTURES) -> list[tuple[str, float]]:
    """File and start of the pieces to show: half of them with the least sure instances, half spread over all."""
    length = annotations.about["settings"].get("window", np.inf) if annotations.medium == "audio" else np.inf
    rows = annotations.shown() or annotations.rows

    def piece(row: dict[str, Any]) -> tuple[str, float]:
        return row["file"], float(row["start"] // length * length) if np.isfinite(length) else 0.0

    unsure = sorted(rows, key=lambda row: 1.0 if row["probability"] is None else row["probability"])
    chosen = list(dict.fromkeys(piece(row) for row in unsure))[: n // 2]
    others = [p for p in dict.fromkeys(piece(row) for row in rows) if p not in chosen]
    picks = np.linspace(0, len(others) - 1, min(n - len(chosen), len(others))).round().astype(int)
    return chosen + [others[i] for i in picks]


def make_pictures(annotations: Annotations, pieces: Sequence[tuple[str, float]]) -> list[Picture]:
    """The pictures of some pieces."""
    by_file = annotations.shown_by_file()
    draw = DRAW[annotations.medium]
    return [draw(annotations, name, start, by_file[name]) for name, start in pieces]


def _sound(annotations: Annotations, name: str, start: float, rows: list[dict[str, Any]]) -> Picture:
    settings = audio.AudioSettings(**annotations.about["settings"])
    path = annotations.folder / name
    rate = audio_info(path).rate
    _, samples = next(read_blocks(path, settings.window, start))
    seconds = len(samples) / rate
    picture = audio.find_syllables(samples, rate, settings).picture
    first, last, low, high = picture.edges

    def across(second: float) -> float:
        return (second - first) / (last - first) * WIDTH

    def down(hertz: float) -> float:
        return (1 - (hertz - low) / (high - low)) * SOUND_HEIGHT

    def place(row: dict[str, Any]) -> list[tuple[float, float]]:
        left, right, bottom, top = (
            across(row["start"] - start), across(row["end"] - start), down(row["low"]), down(row["high"])
        )  # fmt: skip
        return [(left, top), (right, top), (right, bottom), (left, bottom)]

    inside = [row for row in rows if start <= row["start"] < start + seconds]
    return Picture(
        title=f"{name}, from {start:g} s" if start else name,
        kind="sound",
        width=WIDTH,
        height=SOUND_HEIGHT,
        background=_png(picture.intensity[::-1], cmap="gray_r", vmin=0, vmax=1),
        regions=_name_once([_region(row, place(row), WIDTH) for row in inside]),
        ticks=[(max(across(t), 0.0), f"{start + t:g} s") for t in _ticks(seconds)],
        levels=[(down(1000 * k), f"{k:g} kHz") for k in _kilohertz(low, high)],
    )


def _image(annotations: Annotations, name: str, start: float, rows: list[dict[str, Any]]) -> Picture:
    image = image_file.read_image(annotations.folder / name)
    height, width = image.shape[:2]
    step = max(1, int(np.ceil(max(height, width) / LARGEST_IMAGE)))
    scale = IMAGE_WIDTH / width
    return Picture(
        title=name,
        kind="image",
        width=IMAGE_WIDTH,
        height=max(1, round(height * scale)),
        background=_png(image[::step, ::step]),
        regions=[_region(row, [(x * scale, y * scale) for x, y in row["polygon"]], IMAGE_WIDTH) for row in rows],
    )


def _text(annotations: Annotations, name: str, start: float, rows: list[dict[str, Any]]) -> Picture:
    """Pieces of the text, each under the most probable of the passages that cover it."""
    text = read_text(annotations.folder / name)
    edges = sorted({0, len(text), *(row[key] for row in rows for key in ("start", "end"))})
    pieces: list[dict[str, Any]] = []
    for left, right in pairwise(edges):
        covering = [row for row in rows if row["start"] <= left and row["end"] >= right]
        best = max(covering, key=lambda row: row["probability"] or 0.0) if covering else None
        label = best["label"] if best else ""
        if pieces and pieces[-1]["label"] == label:
            pieces[-1]["text"] += text[left:right]
        else:
            probability = best["probability"] if best else None
            pieces.append({"label": label, "probability": probability, "text": text[left:right]})
    return Picture(title=name, kind="text", width=WIDTH, height=0, regions=pieces)


def _series(annotations: Annotations, name: str, start: float, rows: list[dict[str, Any]]) -> Picture:
    series = read_series(annotations.folder / name, annotations.about["settings"]["rate"])
    seconds = len(series.values) / series.rate
    step = max(1, len(series.values) // WIDTH)
    values = series.values[::step]
    spread = np.maximum(np.ptp(values, axis=0), 1e-12)
    heights = (1 - (values - values.min(axis=0)) / spread) * (SERIES_HEIGHT - 20) + 10
    across = np.arange(len(values)) * step / len(series.values) * WIDTH

    def place(row: dict[str, Any]) -> list[tuple[float, float]]:
        left, right = ((row[key] - series.start) / seconds * WIDTH for key in ("start", "end"))
        return [(left, 0), (right, 0), (right, SERIES_HEIGHT), (left, SERIES_HEIGHT)]

    return Picture(
        title=f"{name}: {', '.join(series.channels)}",
        kind="series",
        width=WIDTH,
        height=SERIES_HEIGHT,
        regions=[_region(row, place(row), WIDTH) for row in rows],
        ticks=[(t / seconds * WIDTH, f"{series.start + t:g} s") for t in _ticks(seconds)],
        lines=[" ".join(f"{x:.1f},{y:.1f}" for x, y in zip(across, column, strict=True)) for column in heights.T],
    )


DRAW: dict[str, Callable[[Annotations, str, float, list[dict[str, Any]]], Picture]] = {
    "audio": _sound,
    "image": _image,
    "text": _text,
    "series": _series,
}


def _region(row: dict[str, Any], points: list[tuple[float, float]], width: int) -> dict[str, Any]:
    left = min(x for x, _ in points)
    at_the_edge = left > 0.88 * width  # a name that starts here would be cut off
    return {
        "label": row["label"],
        "probability": row["probability"],
        "points": " ".join(f"{x:.1f},{y:.1f}" for x, y in points),
        "left": round(left, 1),
        "name_at": round(max(x for x, _ in points) if at_the_edge else left + 2, 1),
        "anchor": "end" if at_the_edge else "start",
        "top": round(min(y for _, y in points), 1),
        "named": True,
    }


def _name_once(regions: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Leave the name out beside a region of the same label that bears it already: overtones lie close together."""
    named: list[dict[str, Any]] = []
    for region in sorted(regions, key=lambda region: region["top"]):
        region["named"] = not any(
            other["label"] == region["label"]
            and abs(other["left"] - region["left"]) < NEAR_X
            and abs(other["top"] - region["top"]) < NEAR_Y
            for other in named
        )
        if region["named"]:
            named.append(region)
    return regions


def _ticks(seconds: float) -> list[float]:
    """Round positions, at most eleven."""
    if seconds <= 0:
        return []
    step = 10 ** np.floor(np.log10(seconds))
    step = next(s for s in (step / 10, step / 5, step / 2, step, 2 * step) if seconds / s <= 11)
    return [float(round(t, 6)) for t in np.arange(0, seconds - 0.3 * step, step)]


def _kilohertz(low: float, high: float) -> list[float]:
    step = 1 if high - low < 9000 else 2 if high - low < 18_000 else 5 if high - low < 45_000 else 20
    return [k for k in np.arange(step, high / 1000, step) if 1000 * k > low]


def _png(values: np.ndarray, **options: Any) -> str:
    """A picture as a data address."""
    try:
        from matplotlib.image import imsave
    except ImportError as error:
        raise ImportError(
            f"The page needs matplotlib and jinja2, and {error}; pip install 'bagwise[report]', or pass --no-page."
        ) from error
    stream = io.BytesIO()
    imsave(stream, values, format="png", **options)
    return "data:image/png;base64," + base64.b64encode(stream.getvalue()).decode()
