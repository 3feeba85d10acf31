"""Pictures of annotated media: what is there, with its regions coloured and named."""

from __future__ import annotations

import base64
import io
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

WIDTH = 1000  # of pictures, in units of the page
MOST_COLUMNS, MOST_ROWS = 1200, 300  # points of a drawn background, however much it shows
CLOSE_WIDTH, CLOSE_HEIGHT = 150, 100  # points of the small picture of one instance
GREYS = 16  # levels of a background: half a byte per point
QUALITY = 75  # of photographs
HOURS = 360_000.0  # seconds from which on a time is that of some other clock, and stays a number
NEAR_X, NEAR_Y = 50, 100  # within which one name does for several regions of a label
NAME_SIZE, LEAST_NAME_SIZE = 14.0, 8.0  # of letters inside of a region, in units of the page
LETTER = 0.62  # mean width of a letter, and of some air, in sizes
N_LINES = 12  # across a region, on which a place for its name is looked for
# Twelve colours that differ in hue and lightness, for colour-blind readers too as far as twelve can; then twelve more,
# each of them as far from all before as there is one (CIEDE2000 at least 18), neither too light nor too dark to read.
COLOURS = (
    "#e41a1c", "#377eb8", "#4daf4a", "#ff7f00", "#984ea3", "#00a6a6",
    "#f781bf", "#a65628", "#bcbd22", "#1b4f9c", "#66c2a5", "#7f7f7f",
    "#005500", "#880033", "#005555", "#776600", "#aa99ff", "#554455",
    "#5500ff", "#cc9988", "#dd2266", "#bb8800", "#aaaa88", "#554433",
)  # fmt: skip


@dataclass(frozen=True)
class Picture:
    """One picture.

    Attributes
    ----------
    title : str
    kind : str
        "text" for marked text; others are drawn, "image" at the most as wide as a picture of the page.
    width, height : int
    background : str
        A picture as a data address, "" where there is none.
    regions : list of dict
        What `outline_region` or `filled_region` gives; for texts label, probability and the piece of the text.
    ticks, levels : list of (position, text)
        Marks along the time, and up the frequencies.
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


@dataclass(frozen=True)
class CloseUp:
    """One instance by itself: a small picture, or the words of a passage.

    Attributes
    ----------
    picture : str
        A data address, "" for texts.
    width, height : int
        Of the picture, in points.
    box : tuple of float
        Where in the picture the instance is: left, top, width, height in percent; empty where it is all of it.
    text : str
    """

    picture: str = ""
    width: int = 0
    height: int = 0
    box: tuple[float, ...] = ()
    text: str = ""


Ring = Sequence[tuple[float, float]]


def outline_region(
    row: Mapping[str, Any], left: float, top: float, right: float, bottom: float, width: int
) -> dict[str, Any]:
    """The box of a row of annotations, its name above it; the edges are in units of the picture, which is so wide."""
    at_the_edge = left > 0.88 * width  # a name that starts here would be cut off
    return {
        **_drawn(row, [[(left, top), (right, top), (right, bottom), (left, bottom)]]),
        "left": round(left, 1),
        "top": round(top, 1),
        "name_at": round(right if at_the_edge else left + 2, 1),
        "name_down": round(max(top - 3, 11), 1),
        "anchor": "end" if at_the_edge else "start",
        "size": None,
        "named": True,
    }


def filled_region(row: Mapping[str, Any], rings: Sequence[Ring]) -> dict[str, Any]:
    """The region of a row of annotations that has holes or parts, its name inside, where there is room for it."""
    x, y, room = _room_inside(rings)
    size = min(NAME_SIZE, room / (LETTER * max(len(row["label"]), 1)))
    return {
        **_drawn(row, rings),
        "name_at": round(x, 1),
        "name_down": round(y + size / 3, 1),
        "anchor": "middle",
        "size": round(size, 1),
        "named": size >= LEAST_NAME_SIZE,
    }


def _drawn(row: Mapping[str, Any], rings: Sequence[Ring]) -> dict[str, Any]:
    return {
        "label": row["label"],
        "probability": row["probability"],
        "key": (row["bag"], row["instance"]),
        "path": "".join("M" + "L".join(f"{x:.1f},{y:.1f}" for x, y in ring) + "Z" for ring in rings),
    }


def _room_inside(rings: Sequence[Ring]) -> tuple[float, float, float]:
    """Middle (x, y) and width of the widest stretch inside of rings, on one of some lines across them."""
    ys = [y for ring in rings for _, y in ring]
    top, bottom = min(ys), max(ys)
    best, most = (*rings[0][0], 0.0), 0.0
    for k in range(1, N_LINES):
        y = top + (bottom - top) * (k + 0.013) / N_LINES  # hardly ever on a corner
        crossings = sorted(
            x1 + (y - y1) / (y2 - y1) * (x2 - x1)
            for ring in rings
            for (x1, y1), (x2, y2) in zip(ring, [*ring[1:], ring[0]], strict=True)
            if (y1 > y) != (y2 > y)
        )
        central = 1 - 0.4 * abs(2 * k / N_LINES - 1)
        for left, right in zip(crossings[::2], crossings[1::2], strict=True):
            if (right - left) * central > most:
                best, most = ((left + right) / 2, y, right - left), (right - left) * central
    return best


def name_once(regions: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Leave out names that would lie over others, and those near a region of the same label that has one: overtones.

    The first region of each label is asked before any second one, so that every label is read somewhere.
    """
    counts: Counter[str] = Counter()
    turns: list[tuple[bool, int, dict[str, Any]]] = []
    for region in sorted(regions, key=lambda region: region["top"]):
        turns.append((counts[region["label"]] > 0, len(turns), region))
        counts[region["label"]] += 1
    named: list[dict[str, Any]] = []
    for _, _, region in sorted(turns, key=lambda turn: turn[:2]):
        region["named"] = not any(_names_collide(region, other) for other in named)
        if region["named"]:
            named.append(region)
    return regions


def _names_collide(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether the names of two outlined regions lie over each other, or are the same and close."""
    (left, right), (begin, end) = _reach(one), _reach(other)
    if left < end and begin < right and abs(one["name_down"] - other["name_down"]) < NAME_SIZE:
        return True
    near = abs(other["left"] - one["left"]) < NEAR_X and abs(other["top"] - one["top"]) < NEAR_Y
    return near and one["label"] == other["label"]


def _reach(region: Mapping[str, Any]) -> tuple[float, float]:
    """From where to where a name goes."""
    width = NAME_SIZE * LETTER * len(region["label"])
    left = region["name_at"] - (width if region["anchor"] == "end" else 0.0)
    return left, left + width


def time_ticks(seconds: float) -> list[float]:
    """Round positions, at most eleven."""
    if seconds <= 0:
        return []
    step = 10 ** np.floor(np.log10(seconds))
    step = next(s for s in (step / 10, step / 5, step / 2, step, 2 * step) if seconds / s <= 11)
    return [float(round(t, 6)) for t in np.arange(0, seconds - 0.3 * step, step)]


def time_in_words(seconds: float, digits: int = 0) -> str:
    """Seconds as people read them: ``12.35 s`` below a minute, then ``1:02.35`` and ``1:32:42.10``, up to 100 hours."""
    if round(seconds, digits) < 60 or seconds >= HOURS:
        return f"{seconds:.{digits}f} s"
    minutes, rest = divmod(round(seconds, digits), 60)
    hours, minutes = divmod(int(minutes), 60)
    width = 3 + digits if digits else 2
    text = f"{rest:0{width}.{digits}f}"
    return f"{hours}:{minutes:02d}:{text}" if hours else f"{minutes}:{text}"


def span_in_words(start: float, end: float, digits: int = 2) -> str:
    """From where to where, without naming the unit twice."""
    first, last = time_in_words(start, digits), time_in_words(end, digits)
    return f"{first.removesuffix(' s') if last.endswith(' s') else first} to {last}"


def tick_words(seconds: float, until: float) -> str:
    """What stands at a mark along the time of a picture that ends at `until`."""
    if until < 60 or until >= HOURS:
        return f"{seconds:g} s"
    whole = f"{seconds:.3f}".rstrip("0").partition(".")[2]
    text = time_in_words(seconds, len(whole))
    return text if ":" in text else f"0:{seconds:0{3 + len(whole) if whole else 2}.{len(whole)}f}"


def as_grey_png(values: np.ndarray, columns: int = MOST_COLUMNS, rows: int = MOST_ROWS) -> str:
    """Values from 0 (white) to 1 (black) as a data address, of so many points at the most."""
    from PIL import Image

    height, width = values.shape
    picture = Image.fromarray((255 * np.clip(values, 0, 1)).astype(np.uint8))
    if width > columns or height > rows:
        picture = picture.resize((min(width, columns), min(height, rows)), Image.Resampling.BOX)
    levels = np.round(np.asarray(picture) / 255 * (GREYS - 1)).astype(np.uint8)
    drawn = Image.fromarray(levels, mode="P")
    drawn.putpalette([grey for i in range(GREYS) for grey in [255 - round(255 * i / (GREYS - 1))] * 3])
    return _address(drawn, "PNG", bits=4, compress_level=6)


def as_photograph(image: Any) -> str:
    """A picture of Pillow as a data address."""
    return _address(image.convert("RGB"), "JPEG", quality=QUALITY)


def as_drawing(image: Any) -> str:
    """A picture of few greys as a data address."""
    return _address(image, "PNG", compress_level=6)


def _address(image: Any, kind: str, **options: Any) -> str:
    stream = io.BytesIO()
    image.save(stream, kind, **options)
    return f"data:image/{kind.lower()};base64," + base64.b64encode(stream.getvalue()).decode()
