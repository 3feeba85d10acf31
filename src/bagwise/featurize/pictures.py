"""Pictures of annotated media: what is there, with its regions coloured and named."""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

WIDTH = 1000  # of pictures, in units of the page
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
        A PNG as a data address, "" where there is none.
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


def outline_region(row: Mapping[str, Any], points: list[tuple[float, float]], width: int) -> dict[str, Any]:
    """The region of a row of annotations; the points of its polygon are in units of the picture."""
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


def as_png(values: np.ndarray, **options: Any) -> str:
    """A picture as a data address."""
    from matplotlib.image import imsave

    stream = io.BytesIO()
    imsave(stream, values, format="png", **options)
    return "data:image/png;base64," + base64.b64encode(stream.getvalue()).decode()
