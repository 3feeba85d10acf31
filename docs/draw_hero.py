"""Draw the picture at the top of the README: what bagwise found in a recording, a picture and a text.

    python docs/draw_hero.py            writes docs/_static/hero.png

The files are those of the tutorials and of a made soundscape. Each kind is annotated by `bagwise.Run` from the labels
of whole files, and every box, outline and color is what the run says.
"""

from __future__ import annotations

import runpy
import tempfile
import textwrap
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.patches import Rectangle
from skimage import io

import bagwise
from bagwise.datasets import make_soundscape

DOCS = Path(__file__).parent
OUT = DOCS / "_static" / "hero.png"
COLORS = ["#d1495b", "#00798c", "#edae49", "#5b3a8c"]
make_material = runpy.run_path(str(DOCS / "tutorials" / "make_material.py"))["make_material"]

Rows = list[dict[str, Any]]


def annotate(folder: Path, table: Path, **options: Any) -> Rows:
    """The annotations of the files in a folder, whose labels a table lists."""
    out = folder.parent / f"{folder.name}-run"
    with bagwise.Run.create(folder, out, labels=table, page=False, formats=[], **options) as run:
        return run.annotations()


def choose(given: dict[str, list[str]], rows: Rows) -> tuple[str, Rows, dict[str, str]]:
    """The first file with the most labels, its rows, and a color for each label."""
    shown = max(given, key=lambda name: len(given[name]))
    colors = dict(zip(given[shown], COLORS, strict=False))
    return shown, [row for row in rows if row["file"] == shown and row["label"]], colors


def name_it(axes: plt.Axes, x: float, y: float, label: str, color: str, **how: Any) -> None:
    box = {"boxstyle": "round,pad=0.25", "fc": "white", "ec": color, "alpha": 0.85}
    axes.text(x, y, label, color=color, weight="bold", bbox=box, **how)


def draw_recording(axes: plt.Axes, place: Path) -> None:
    """A spectrogram with a box around each call."""
    scene = make_soundscape(40, seconds=8, species_per_recording=(2, 4), random_state=4)
    recordings, labels, _ = scene.write(place / "sound")
    given = dict(zip(scene.names, map(sorted, scene.label_sets), strict=True))
    shown, rows, color = choose(given, annotate(Path(recordings), Path(labels)))
    sound = scene.recordings[scene.names.index(shown)]
    axes.specgram(sound, NFFT=512, noverlap=384, Fs=scene.rate, cmap="gray_r", vmin=-120, vmax=-50)
    for row in rows:
        size = row["end"] - row["start"], row["high"] - row["low"]
        axes.add_patch(Rectangle((row["start"], row["low"]), *size, fill=False, lw=1.8, ec=color[row["label"]]))
    for i, (label, hue) in enumerate(color.items()):
        name_it(axes, 0.02, 0.97 - 0.085 * i, label, hue, transform=axes.transAxes, va="top")
    axes.set(xlabel="seconds", ylabel="kHz", ylim=(0, scene.rate / 2), xlim=(0, 8))
    axes.yaxis.set_major_formatter(lambda value, _: f"{value / 1000:g}")
    axes.set_title(f"recording: {', '.join(given[shown])}", loc="left")


def draw_picture(axes: plt.Axes, place: Path) -> None:
    """A picture with the outline and name of each region."""
    given = make_material("pictures", place / "pictures")
    shown, rows, color = choose(given, annotate(place / "pictures", place / "pictures.csv"))
    picture = io.imread(place / "pictures" / shown)
    axes.imshow(picture)
    for row in rows:
        ring = np.array([*row["polygon"], row["polygon"][0]])
        axes.plot(*ring.T, color="white", lw=3.5)
        axes.plot(*ring.T, color=color[row["label"]], lw=2)
        if row["area"] > 1500:
            x, y = (ring.min(axis=0) + ring.max(axis=0)) / 2
            name_it(axes, x, y, row["label"], color[row["label"]], ha="center", va="center")
    axes.set(xticks=[], yticks=[], xlim=(0, picture.shape[1]), ylim=(picture.shape[0], 0))
    axes.set_title(f"picture: {', '.join(given[shown])}", loc="left")


def draw_text(axes: plt.Axes, place: Path) -> None:
    """A text with the color of each passage."""
    given = make_material("texts", place / "texts")
    rows = annotate(place / "texts", place / "texts.csv", settings={"window": 16, "step": 16})
    shown, rows, color = choose(given, rows)
    text = (place / "texts" / shown).read_text(encoding="utf-8")
    height = 1.0
    for row in rows:
        lines = textwrap.wrap(text[row["start"] : row["end"]], 42)
        hue = color[row["label"]]
        box = {"boxstyle": "round,pad=0.25", "fc": hue, "alpha": 0.2, "lw": 0}
        axes.text(0.02, height, "\n".join(lines), va="top", fontsize=10.5, family="serif", bbox=box)
        axes.text(1.0, height, row["label"], va="top", ha="right", weight="bold", color=hue)
        height -= 0.052 * len(lines) + 0.028
    axes.set_axis_off()
    axes.set_title(f"text: {', '.join(given[shown])}", loc="left")


def main() -> None:
    plt.rcParams.update({"font.size": 11, "axes.titlesize": 11})
    figure, axes = plt.subplots(1, 3, figsize=(13.5, 4.0), layout="constrained")
    with tempfile.TemporaryDirectory() as folder:
        for draw, panel in zip((draw_recording, draw_picture, draw_text), axes, strict=True):
            draw(panel, Path(folder))
    figure.savefig(OUT, dpi=96)


if __name__ == "__main__":
    main()
