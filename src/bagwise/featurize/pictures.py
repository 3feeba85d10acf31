"""Pictures of annotated media: what is there, with its regions coloured and named."""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

WIDTH = 1000  # of pictures, in units of the page
MOST_COLUMNS, MOST_ROWS = 1200, 300  # points of a drawn background, however much it shows
CLOSE_WIDTH, CLOSE_HEIGHT = 150, 100  # points of the small picture of one instance
GREYS = 16  # levels of a background: half a byte a point
QUALITY = 75  # of photographs
HOURS = 360_000.0  # seconds from which on a time is that of some other clock, and stays a number
NEAR_X, NEAR_Y = 50, 100  # within which one name does for several regions of a label


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
        What `outline_region` gives; for texts label, probability and the piece of the text.
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


def outline_region(row: Mapping[str, Any], points: list[tuple[float, float]], width: int) -> dict[str, Any]:
    """The region of a row of annotations; the points of its polygon are in units of the picture."""
    left = min(x for x, _ in points)
    at_the_edge = left > 0.88 * width  # a name that starts here would be cut off
    return {
        "label": row["label"],
        "probability": row["probability"],
        "key": (row["bag"], row["instance"]),
        "points": " ".join(f"{x:.1f},{y:.1f}" for x, y in points),
        "left": round(left, 1),
        "name_at": round(max(x for x, _ in points) if at_the_edge else left + 2, 1),
        "anchor": "end" if at_the_edge else "start",
        "top": round(min(y for _, y in points), 1),
        "named": True,
    }


def name_once(regions: list[dict[str, Any]]) -> list[dict[str, Any]]:
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
