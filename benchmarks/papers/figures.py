"""Pictures of curves: small multiples, one panel a data set, one line a method."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path

import numpy as np

Lines = Mapping[str, tuple[np.ndarray, np.ndarray]]
"""Label -> x and y."""

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00")
STYLES = ("-", "--", "-.", ":")


def draw_panels(
    panels: Mapping[str, Lines], path: Path, *, x: str, y: str, log_x: bool = False, log_y: Collection[str] = ()
) -> Path:
    """Draw one panel for each entry and write a picture; `log_y` names the panels with a logarithmic scale."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    columns = min(len(panels), 3)
    rows = -(-len(panels) // columns)
    figure, axes = pyplot.subplots(
        rows, columns, figsize=(3.6 * columns, 2.7 * rows + 0.5), squeeze=False, layout="constrained"
    )
    handles = {}
    for axis, (title, lines) in zip(axes.flat, panels.items(), strict=False):
        for number, (label, (xs, ys)) in enumerate(lines.items()):
            style = {"color": COLOURS[number % len(COLOURS)], "linestyle": STYLES[number % len(STYLES)]}
            (handles[label],) = axis.plot(xs, ys, marker="o", markersize=3, linewidth=1.4, **style)
        axis.set_title(title, fontsize=10)
        axis.set_xlabel(x, fontsize=9)
        axis.set_ylabel(y, fontsize=9)
        axis.tick_params(labelsize=8)
        axis.grid(alpha=0.25)
        if log_x:
            axis.set_xscale("log")
        if title in log_y:
            axis.set_yscale("log")
    for axis in axes.flat[len(panels) :]:
        axis.set_visible(False)
    if len(handles) > 1:
        figure.legend(
            handles.values(), handles.keys(), loc="outside lower center", ncols=min(len(handles), 5), fontsize=9
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110, metadata={"Software": None})
    pyplot.close(figure)
    return path
