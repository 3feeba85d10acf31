"""Pictures of curves: small multiples, one panel a data set, one line a method."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

Lines = Mapping[str, tuple[np.ndarray, ...]]
"""Label -> x, y and, where it was measured several times, the standard deviation of y."""

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00")
STYLES = ("-", "--", "-.", ":")


def line_of(points: Iterable[tuple[float, np.ndarray]]) -> tuple[np.ndarray, ...]:
    """x, mean and deviation of what was measured at each x."""
    xs, values = zip(*points, strict=True)
    return np.array(xs), np.array([np.mean(v) for v in values]), np.array([np.std(v) for v in values])


def draw_panels(
    panels: Mapping[str, Lines],
    path: Path,
    *,
    x: str,
    y: str,
    log_x: bool = False,
    log_y: Collection[str] = (),
    published: Mapping[str, Mapping[str, tuple[Sequence[float], Sequence[float]]]] | None = None,
) -> Path:
    """Draw one panel for each entry and write a picture; `log_y` names the panels with a logarithmic scale.

    Bars are standard deviations. `published` has points of the paper by panel and label: stars of the line's color.
    """
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    columns = 2 if len(panels) == 4 else min(len(panels), 3)
    rows = -(-len(panels) // columns)
    figure, axes = pyplot.subplots(
        rows, columns, figsize=(3.6 * columns, 2.7 * rows + 0.5), squeeze=False, layout="constrained"
    )
    handles: dict[str, Any] = {}
    for axis, (title, lines) in zip(axes.flat, panels.items(), strict=False):
        for number, (label, (xs, ys, *spread)) in enumerate(lines.items()):
            style = {"color": COLOURS[number % len(COLOURS)], "linestyle": STYLES[number % len(STYLES)]}
            (handles[label],) = axis.plot(xs, ys, marker="o", markersize=3, linewidth=1.4, **style)
            if spread:
                axis.errorbar(xs, ys, spread[0], fmt="none", ecolor=style["color"], alpha=0.5, capsize=2, linewidth=0.9)
            if label in (published or {}).get(title, {}):
                at, points = published[title][label]  # type: ignore[index]
                axis.scatter(at, points, marker="*", s=90, color=style["color"], edgecolor="black", zorder=5)
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
    if published:
        star = {"marker": "*", "markersize": 10, "markerfacecolor": "white", "markeredgecolor": "black"}
        handles["published"] = pyplot.Line2D([], [], linestyle="", **star)
    if len(handles) > 1:
        figure.legend(
            handles.values(), handles.keys(), loc="outside lower center", ncols=min(len(handles), 6), fontsize=9
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110, metadata={"Software": None})
    pyplot.close(figure)
    return path


def draw_scatter(clouds: Mapping[str, tuple[np.ndarray, np.ndarray]], path: Path, *, x: str, y: str) -> Path:
    """One panel of points for each entry, with the line of least squares."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(
        1, len(clouds), figsize=(3.4 * len(clouds), 3.0), squeeze=False, layout="constrained"
    )
    for axis, (title, (xs, ys)) in zip(axes.flat, clouds.items(), strict=True):
        axis.scatter(xs, ys, s=18, color=COLOURS[0])
        slope, intercept = np.polyfit(xs, ys, 1)
        ends = np.array([xs.min(), xs.max()])
        axis.plot(ends, slope * ends + intercept, color=COLOURS[1], linewidth=1.2)
        axis.set_title(f"{title}, r = {np.corrcoef(xs, ys)[0, 1]:+.2f}", fontsize=10)
        axis.set_xlabel(x, fontsize=9)
        axis.set_ylabel(y, fontsize=9)
        axis.tick_params(labelsize=8)
        axis.grid(alpha=0.25)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110, metadata={"Software": None})
    pyplot.close(figure)
    return path
