"""Figures of `bagwise evaluate` and of the demo, drawn with matplotlib."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from bagwise.core.dataset import BagDataset
from bagwise.io.files import atomic_write

ACCURACY, LOSS = "#1f4e9c", "#b3541e"


def draw_selection_curves(curves: dict[str, list[dict[str, Any]]], path: str | os.PathLike[str], title: str) -> None:
    """One panel for each model, from rows of `bagwise.model_selection.selection_curve`.

    Solid: transductive instance accuracy, left. Dotted: cross-validated rank loss, right. The value of least rank loss,
    which needs no instance label to be found, is marked.

    Examples
    --------
    >>> import os, tempfile
    >>> from bagwise.app.report.figures import draw_selection_curves
    >>> curve = [{"parameter": "l2", "value": 1.0, "rank_loss": 0.2, "accuracy": 0.8, "selected": True}]
    >>> curve.append({"parameter": "l2", "value": 10.0, "rank_loss": 0.3, "accuracy": 0.7, "selected": False})
    >>> path = os.path.join(tempfile.mkdtemp(), "curves.png")
    >>> draw_selection_curves({"ored": curve}, path, "Birds")
    >>> os.path.exists(path)
    True
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.2 * len(curves), 3.8), dpi=130, layout="constrained")
    for panel, (name, rows) in zip(figure.subplots(1, len(curves), squeeze=False)[0], curves.items(), strict=True):
        _draw_panel(panel, name, rows)
    figure.suptitle(title)
    with atomic_write(path) as file:
        figure.savefig(file, format="png")


def _draw_panel(panel: Any, name: str, rows: list[dict[str, Any]]) -> None:
    values = [row["value"] for row in rows]
    losses = panel.twinx()
    lines = losses.plot(
        values, [row["rank_loss"] for row in rows], ":", marker="s", ms=4, color=LOSS, label="rank loss"
    )
    losses.set_ylabel("cross-validated rank loss", color=LOSS)
    if all("accuracy" in row for row in rows):
        lines += panel.plot(
            values, [100 * row["accuracy"] for row in rows], "-o", ms=4, color=ACCURACY, label="accuracy"
        )
        panel.set_ylabel("transductive accuracy, %", color=ACCURACY)
    else:
        panel.set_yticks([])
    if min(values) > 0:
        panel.set_xscale("log")
    chosen = next(row["value"] for row in rows if row["selected"])
    lines.append(panel.axvline(chosen, color="0.6", lw=1, ls="--", label=f"selected: {chosen:g}"))
    panel.set_xlabel(rows[0]["parameter"])
    panel.set_title(name, fontsize=11)
    panel.legend(handles=lines, fontsize=8, ncols=3, loc="upper center", bbox_to_anchor=(0.5, -0.16), frameon=False)


RIGHT, WRONG = "#1a7f37", "#c62828"


def draw_words(
    dataset: BagDataset,
    images: np.ndarray,
    labels: np.ndarray,
    bags: list[int],
    path: str | os.PathLike[str],
    title: str,
) -> None:
    """Draw the letters of some bags, the label given below each, green where it is right and red where not.

    Parameters
    ----------
    dataset : BagDataset of words
    images : (m, height, width) array
    labels : (m,) class index given to every letter
    bags : indices of the words to show
    path : where the PNG goes
    title : what stands above
    """
    from matplotlib.figure import Figure

    assert dataset.instance_labels is not None
    truth, offsets = dataset.instance_labels.instances, dataset.bags.offsets
    columns = max(int(dataset.bags.sizes[b]) for b in bags)
    figure = Figure(figsize=(0.72 * columns + 2.2, 1.02 * len(bags) + 0.9), dpi=130)
    grid = figure.subplots(len(bags), columns + 1, squeeze=False, width_ratios=[2.4, *[1] * columns])
    for row, b in zip(grid, bags, strict=True):
        for axes in row:
            axes.set_axis_off()
        names = sorted(dataset.label_sets[b] or ())
        row[0].text(0.0, 0.5, "{" + ", ".join(names) + "}", ha="left", va="center", fontsize=9)
        for axes, i in zip(row[1:], range(offsets[b], offsets[b + 1]), strict=False):
            _draw_letter(axes, images[i], str(dataset.class_names[labels[i]]), labels[i] == truth[i])
    figure.suptitle(title, fontsize=11)
    figure.subplots_adjust(left=0.02, right=0.98, top=1 - 0.62 / figure.get_figheight(), bottom=0.03, hspace=0.55)
    with atomic_write(path) as file:
        figure.savefig(file, format="png")


def _draw_letter(axes: Any, image: np.ndarray, label: str, right: bool) -> None:
    axes.imshow(1 - np.asarray(image, dtype=float), cmap="gray", vmin=0, vmax=1, interpolation="nearest")
    axes.text(
        0.5,
        -0.04,
        label,
        transform=axes.transAxes,
        ha="center",
        va="top",
        fontsize=12,
        fontweight="bold",
        color=RIGHT if right else WRONG,
    )
