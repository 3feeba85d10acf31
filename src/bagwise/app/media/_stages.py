"""Drawings of every stage that a file goes through: spectrogram, mask, regions; picture, regions."""

from __future__ import annotations

import os
import re
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bagwise.app.media._segmentation import Stages
from bagwise.app.media.pictures import COLOURS
from bagwise.io.files import atomic_write

_NUMBER = re.compile(r"\d+-")


def draw_sound_stages(
    stages: Stages, start: float, title: str, path: str | os.PathLike[str], settings: dict[str, Any] | None = None
) -> None:
    """Spectrogram, loudness over the noise, mask and regions of one piece of a recording, below each other.

    Parameters
    ----------
    stages : what `bagwise.app.media.audio.find_syllables` gave
    start : seconds of the file at which the piece begins
    title : what stands above
    path : where the PNG goes
    settings : what stands below
    """
    picture, n = stages.picture, int(stages.labels.max(initial=0))
    first, last, low, high = picture.edges
    edges = (start + first, start + last, low / 1000, high / 1000)
    loudest = float(picture.level.max())
    shown = (
        (picture.level, loudest - 80, loudest, "spectrogram, 80 dB from white to black"),
        (picture.intensity, 0, 1, "noise of each frequency subtracted, 0 to 40 dB"),
        (stages.mask, 0, 1, f"mask: louder than {stages.decibels:.1f} dB over the noise, and what joins it"),
        (picture.intensity, 0, 1.4, f"{n} regions"),
    )
    figure = _figure(11, 11.5)
    panels = figure.subplots(4, 1, sharex=True)
    view = {"cmap": "gray_r", "origin": "lower", "aspect": "auto", "extent": edges, "interpolation": "nearest"}
    for panel, (values, white, black, words) in zip(panels, shown, strict=True):
        panel.imshow(values, vmin=white, vmax=black, **view)
        panel.set_title(words, loc="left", fontsize=9)
        panel.set_ylabel("kHz")
    _outline_regions(panels[3], picture, stages.labels, n, start)
    below = textwrap.fill("  ".join(f"{name}={value}" for name, value in (settings or {}).items()), 130)
    panels[3].set_xlabel(f"seconds\n{below}", fontsize=8)
    figure.suptitle(title)
    _save_png(figure, path)


def _outline_regions(panel: Any, picture: Any, labels: np.ndarray, n: int, start: float) -> None:
    from scipy import ndimage

    for i, box in enumerate(ndimage.find_objects(labels)):
        colour = COLOURS[i % len(COLOURS)]
        rows, columns = (slice(max(s.start - 1, 0), s.stop + 1) for s in box)
        inside = labels[rows, columns] == i + 1
        if min(inside.shape) > 1:
            panel.contour(
                start + picture.times[columns],
                picture.frequencies[rows] / 1000,
                inside,
                [0.5],
                colors=colour,
                linewidths=1.1,
            )
        panel.annotate(
            str(i + 1),
            (start + picture.times[box[1].start], picture.frequencies[box[0].stop - 1] / 1000),
            xytext=(0, 2),
            textcoords="offset points",
            fontsize=7,
            color=colour,
        )


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
            column,
            row,
            name,
            color="white",
            fontsize=8,
            ha="center",
            va="center",
            bbox={"facecolor": colour, "edgecolor": "none", "pad": 1.5},
        )
    panels[0].set_title("picture", loc="left", fontsize=9)
    panels[1].set_title(f"{len(names)} regions", loc="left", fontsize=9)
    figure.suptitle(title)
    _save_png(figure, path)


def numbered_picture(folder: Path, name: str) -> Path:
    """Where the next picture of a folder goes: numbered, so that drawings with other settings can be compared."""
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


def _save_png(figure: Any, path: str | os.PathLike[str]) -> None:
    """Write a figure whole or not at all, with no date in it."""
    with atomic_write(path) as file:
        figure.savefig(file, format="png", metadata={"Software": None})
