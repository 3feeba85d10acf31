"""Accuracy and cross-validated rank loss against a parameter (Figure 5 of Briggs et al. 2013)."""

from __future__ import annotations

import os
from typing import Any

from bagwise.io.files import atomic_write

ACCURACY, LOSS = "#1f4e9c", "#b3541e"


def draw_selection_curves(curves: dict[str, list[dict[str, Any]]], path: str | os.PathLike[str], title: str) -> None:
    """One panel for each model, from rows of `bagwise.model_selection.selection_curve`.

    Solid: transductive instance accuracy, left. Dotted: cross-validated rank loss, right. The value of least rank loss,
    which needs no instance label to be found, is marked.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.2 * len(curves), 3.8), dpi=130, layout="constrained")
    FigureCanvasAgg(figure)
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
