"""Drawings of every stage that a file goes through: spectrogram, mask, regions; picture, regions."""

from __future__ import annotations

import os
import re
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bagwise.featurize.segmentation import Stages
from bagwise.io.files import atomic_write

# Twelve colours that differ in hue and lightness, for colour-blind readers too as far as twelve can; then twelve more,
# each of them as far from all before as there is one (CIEDE2000 at least 18), neither too light nor too dark to read.
COLOURS = (
    "#e41a1c", "#377eb8", "#4daf4a", "#ff7f00", "#984ea3", "#00a6a6",
    "#f781bf", "#a65628", "#bcbd22", "#1b4f9c", "#66c2a5", "#7f7f7f",
    "#005500", "#880033", "#005555", "#776600", "#aa99ff", "#554455",
    "#5500ff", "#cc9988", "#dd2266", "#bb8800", "#aaaa88", "#554433",
)  # fmt: skip

_NUMBER = re.compile(r"\d+-")


def draw_sound_stages(
    stages: Stages, start: float, title: str, path: str | os.PathLike[str], settings: dict[str, Any] | None = None
) -> None:
    """Spectrogram, loudness over the noise, mask and regions of one piece of a recording, below each other.

    Parameters
    ----------
    stages : what `bagwise.featurize.audio.find_syllables` gave
    start : seconds of the file at which the piece begins
    title : what stands above
    path : where the PNG goes
    settings : what stands below
    """
    picture, n = stages.picture, int(stages.labels.max(initial=0))
    first, last, low, high = picture.edges
    edges = (start + first, start + last, low / 1000, high / 1000)
    figure = _figure(11, 11.5)
    panels = figure.subplots(4, 1, sharex=True)
    view = {"origin": "lower", "aspect": "auto", "extent": edges, "interpolation": "nearest"}
    loudest = float(picture.level.max())
    panels[0].imshow(picture.level, cmap="gray_r", vmin=loudest - 80, vmax=loudest, **view)
    panels[0].set_title("spectrogram, 80 dB from white to black", loc="left", fontsize=9)
    panels[1].imshow(picture.intensity, cmap="gray_r", vmin=0, vmax=1, **view)
    panels[1].set_title("noise of each frequency taken off, 0 to 40 dB", loc="left", fontsize=9)
    panels[2].imshow(stages.mask, cmap="gray_r", vmin=0, vmax=1, **view)
    panels[2].set_title(
        f"mask: louder than {stages.decibels:.1f} dB over the noise, and what joins it", loc="left", fontsize=9
    )
    panels[3].imshow(picture.intensity, cmap="gray_r", vmin=0, vmax=1.4, **view)
    _outline_regions(panels[3], picture, stages.labels, n, start)
    panels[3].set_title(f"{n} regions", loc="left", fontsize=9)
    for panel in panels:
        panel.set_ylabel("kHz")
    below = textwrap.fill("  ".join(f"{name}={value}" for name, value in (settings or {}).items()), 130)
    panels[3].set_xlabel(f"seconds\n{below}", fontsize=8)
    figure.suptitle(title)
    save_png(figure, path)


def _outline_regions(panel: Any, picture: Any, labels: np.ndarray, n: int, start: float) -> None:
    from scipy import ndimage

    for i, box in enumerate(ndimage.find_objects(labels)):
        colour = COLOURS[i % len(COLOURS)]
        rows, columns = (slice(max(s.start - 1, 0), s.stop + 1) for s in box)
        inside = labels[rows, columns] == i + 1
        if min(inside.shape) > 1:
            panel.contour(
                start + picture.times[columns], picture.frequencies[rows] / 1000, inside, [0.5],
                colors=colour, linewidths=1.1,
            )  # fmt: skip
        panel.annotate(
            str(i + 1), (start + picture.times[box[1].start], picture.frequencies[box[0].stop - 1] / 1000),
            xytext=(0, 2), textcoords="offset points", fontsize=7, color=colour,
        )  # fmt: skip


def draw_image_stages(
    image: np.ndarray, labels: np.ndarray, names: Sequence[str], title: str, path: str | os.PathLike[str]
) -> None:
    """A picture, and the same with its regions outlined and numbered or named."""
    figure = _figure(12, 5.4)
    panels = figure.subplots(1, 2)
    for panel in panels:
        panel.imshow(image)
        panel.set_axis_off()
    for i, name in enumerate(names):
        inside = labels == i + 1
        if not inside.any():
            continue
        colour = COLOURS[i % len(COLOURS)]
        panels[1].contour(inside, [0.5], colors=colour, linewidths=1.5)
        row, column = np.median(np.argwhere(inside), axis=0)
        panels[1].text(
            column, row, name, color="white", fontsize=8, ha="center", va="center",
            bbox={"facecolor": colour, "edgecolor": "none", "pad": 1.5},
        )  # fmt: skip
    panels[0].set_title("picture", loc="left", fontsize=9)
    panels[1].set_title(f"{len(names)} regions", loc="left", fontsize=9)
    figure.suptitle(title)
    save_png(figure, path)


def numbered_picture(folder: Path, name: str) -> Path:
    """Where the next picture of a folder goes: numbered, so that drawings with other settings can be laid beside."""
    numbers = [int(path.name.partition("-")[0]) for path in folder.glob("[0-9]*-*.png") if _NUMBER.match(path.name)]
    return folder / f"{max(numbers, default=0) + 1:03d}-{name}.png"


def _figure(width: float, height: float) -> Any:
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError(
            f"Drawing needs matplotlib, which is not there ({error}); pip install 'bagwise[report]'."
        ) from error
    figure = Figure(figsize=(width, height), dpi=110, layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def save_png(figure: Any, path: str | os.PathLike[str]) -> None:
    """Write a figure whole or not at all, with no date in it."""
    with atomic_write(path) as file:
        figure.savefig(file, format="png", metadata={"Software": None})
