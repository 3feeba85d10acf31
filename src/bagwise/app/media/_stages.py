"""Drawings of every stage that a file goes through: spectrogram, mask, regions; picture, regions."""

from __future__ import annotations

import os
import re
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
from scipy import ndimage

from bagwise.app.media._image_regions import skimage_module
from bagwise.app.media.pictures import COLOURS
from bagwise.app.media.spectrogram import Stages
from bagwise.io.files import atomic_write

_NUMBER = re.compile(r"\d+-")


def draw_sound_stages(
    stages: Stages, start: float, title: str, path: str | os.PathLike[str], settings: dict[str, Any]
) -> None:
    """Spectrogram, loudness over the noise, mask and regions of one piece of a recording, below each other.

    Parameters
    ----------
    stages : what `bagwise.app.media.spectrogram.find_syllables` gave
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
    # regions never touch, so that the edges of all of them are drawn at once
    times, kilohertz = start + picture.times, picture.frequencies / 1000
    if min(stages.labels.shape) > 1 and n:
        panels[3].contour(times, kilohertz, stages.labels > 0, [0.5], colors=COLOURS[0], linewidths=1.1)
    for i, (rows, columns) in enumerate(ndimage.find_objects(stages.labels)):
        at = (times[columns.start], kilohertz[rows.stop - 1])
        panels[3].annotate(str(i + 1), at, xytext=(0, 2), textcoords="offset points", fontsize=7, color=COLOURS[0])
    below = textwrap.fill("  ".join(f"{name}={value}" for name, value in settings.items()), 130)
    panels[3].set_xlabel(f"seconds\n{below}", fontsize=8)
    figure.suptitle(title)
    _save_png(figure, path)


def draw_image_stages(image: np.ndarray, labels: np.ndarray, title: str, path: str | os.PathLike[str]) -> None:
    """A picture, and the same with its regions outlined and numbered."""
    figure = _figure(12, 5.4)
    panels = figure.subplots(1, 2)
    n = int(labels.max(initial=0))
    shown = (image, "picture"), (skimage_module("segmentation").mark_boundaries(image, labels), f"{n} regions")
    for panel, (points, words) in zip(panels, shown, strict=True):
        panel.imshow(points)
        panel.set_axis_off()
        panel.set_title(words, loc="left", fontsize=9)
    for i in range(n):
        row, column = np.median(np.argwhere(labels == i + 1), axis=0)
        box = {"facecolor": COLOURS[i % len(COLOURS)], "edgecolor": "none", "pad": 1.5}
        panels[1].text(column, row, str(i + 1), color="white", fontsize=8, ha="center", va="center", bbox=box)
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
