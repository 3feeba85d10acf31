"""Figures 2, 3, 5 and 6 of Zhang, Wang, Si and Li (2011), as pictures in bench-output/.

    python -m benchmarks clustering-figures [--quick]

- Accuracy and processor seconds of a run against the number of bags, as many of each class drawn at random: Reuters6
  (Figure 2) and Natural Scene4 (Figure 3).
- Accuracy of M3IC against C and against the balance l, the other fixed: Reuters6 (Figure 5) and Natural Scene4
  (Figure 6).

Figures 1 and 4 are of SIVAL, which is not among the data at hand. The fixed values are those that
`bagwise.clustering.choose_setting` takes on the whole data set without labels.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from bagwise.clustering import BAMIC, CPM3C, M3IC, MajorityKMeans, choose_setting, sweep
from bagwise.clustering.scaling import scale_bags
from bagwise.core.bags import Bags
from bagwise.io.files import atomic_write
from bagwise.metrics import clustering_accuracy
from benchmarks.clustering_tables import BALANCE_GRID, C_GRID, build, scaling_of
from benchmarks.common import Record, show

OUT = Path("bench-output")
COLOURS = {"M3IC": "#b3541e", "BAMIC": "#1f4e9c", "K-means": "#4c8c4a", "CPM3C": "#7a5195"}
SHARES = (0.1, 0.2, 0.4, 0.6, 0.8, 1.0)  # of the bags of the smallest class


def main(quick: bool = False) -> list[Record]:
    """Measure, draw and return the points."""
    OUT.mkdir(parents=True, exist_ok=True)
    records: list[Record] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        for name in ("Reuters6", "Natural Scene4"):
            built = build(name)
            if built is None:
                continue
            bags, truth = scale_bags(built[0], scaling_of(name)), built[1]
            setting = chosen_setting(bags, truth, quick)
            by_size = against_size(name, bags, truth, setting, quick, 2 if quick else 100)
            sensitivity = against_parameters(name, bags, truth, setting, quick)
            slug = name.lower().replace(" ", "-")
            draw_sizes(name, by_size, OUT / f"clustering-size-{slug}.png")
            draw_sensitivity(name, sensitivity, setting, OUT / f"clustering-sensitivity-{slug}.png")
            show(f"{name}: against the number of bags", by_size)
            show(f"{name}: against C and l, fixed at C {setting['C']:g} and l {setting['balance']:g}", sensitivity)
            print(f"wrote clustering-size-{slug}.png and clustering-sensitivity-{slug}.png to {OUT}/")
            records += by_size + sensitivity
    return records


def chosen_setting(bags: Bags, truth: np.ndarray, quick: bool) -> Record:
    k = len(np.unique(truth))
    records = sweep(bags, k, n_seeds=2, C=(1.0, 4.0), balance=(0.1, 1.0)) if quick else sweep(bags, k)
    return dict(choose_setting(records))


# ---------------------------------------------------------------------------------------------------------------------
# Points


def against_size(name: str, bags: Bags, truth: np.ndarray, setting: Record, quick: bool, repeats: int) -> list[Record]:
    """Mean and deviation of accuracy, and mean seconds of one run, over random draws of as many bags of each class."""
    k = len(np.unique(truth))
    margin = {"C": setting["C"], "balance": setting["balance"]}
    models = {
        "M3IC": M3IC(k, **margin, n_init=5),
        "BAMIC": BAMIC(k, n_init=1),
        "K-means": MajorityKMeans(k, n_init=1),
        "CPM3C": CPM3C(k, **margin, n_init=1),
    }
    smallest = min(np.bincount(np.unique(truth, return_inverse=True)[1]))
    rng, records = np.random.default_rng(0), []
    for share in SHARES[::3] if quick else SHARES:
        each = max(2, int(share * smallest))
        points: dict[str, list[tuple[float, float]]] = {method: [] for method in models}
        for repeat in range(repeats):
            drawn = [rng.choice(np.flatnonzero(truth == c), each, replace=False) for c in np.unique(truth)]
            chosen = np.sort(np.concatenate(drawn))
            for method, model in models.items():
                points[method].append(run(clone(model).set_params(random_state=repeat), bags[chosen], truth[chosen]))
        for method, found in points.items():
            accuracy, seconds = map(float, np.mean(found, axis=0))
            spread = float(np.std(found, axis=0)[0])
            record = {"accuracy": accuracy, "deviation": spread, "seconds": seconds}
            records.append({"data": name, "method": method, "bags": each * k, **record})
    return records


def run(model: Any, bags: Bags, truth: np.ndarray) -> tuple[float, float]:
    started = time.process_time()
    model.fit(bags)
    seconds = (time.process_time() - started) / model.n_init
    return float(100 * clustering_accuracy(truth, model.labels_)), seconds


def against_parameters(name: str, bags: Bags, truth: np.ndarray, setting: Record, quick: bool) -> list[Record]:
    """Mean and deviation of the accuracy over seeds, five starts each, C or l varied."""
    k = len(np.unique(truth))
    records = []
    for parameter, values in (("C", C_GRID), ("balance", BALANCE_GRID)):
        for value in values[::4] if quick else values:
            settings = {**{key: setting[key] for key in ("C", "balance")}, parameter: value}
            found = [
                clustering_accuracy(truth, M3IC(k, **settings, random_state=seed).fit(bags).labels_)
                for seed in range(2 if quick else 10)
            ]
            records.append(
                {
                    "data": name,
                    "parameter": parameter,
                    "value": value,
                    "accuracy": 100 * float(np.mean(found)),
                    "deviation": 100 * float(np.std(found)),
                }
            )
    return records


# ---------------------------------------------------------------------------------------------------------------------
# Pictures


def draw_sizes(name: str, records: list[Record], path: Path, published: Mapping[str, float] | None = None) -> None:
    """Accuracy left, seconds of a run right; `published` has what the paper prints for all bags, by method."""
    figure, panels = new_figure(2)
    for number, (method, colour) in enumerate(COLOURS.items(), 1):
        rows = [record for record in records if record["method"] == method]
        sizes, accuracy, spread = (np.array([r[key] for r in rows]) for key in ("bags", "accuracy", "deviation"))
        panels[0].plot(sizes, accuracy, "-o", ms=4, color=colour, label=method)
        panels[0].fill_between(sizes, accuracy - spread, accuracy + spread, color=colour, alpha=0.15, linewidth=0)
        panels[1].plot(sizes, [r["seconds"] for r in rows], "-o", ms=4, color=colour)
        if published:
            panels[0].plot((1 + 0.03 * number) * sizes.max(), published[method], "*", ms=11, color=colour, mec="black")
    panels[0].set(xlabel="bags", ylabel="accuracy, %", ylim=(0, 100))
    panels[1].set(xlabel="bags", ylabel="seconds of a run", yscale="log")
    panels[0].legend(frameon=False, fontsize=8, loc="lower right", ncols=2)
    stars = "; stars: published, all bags" if published else ""
    figure.suptitle(f"{name}: as many bags of each class{stars}", fontsize=11)
    save(figure, path)


def draw_sensitivity(name: str, records: list[Record], setting: Record, path: Path) -> None:
    """Accuracy against C left and against l right; bars are standard deviations over seeds."""
    figure, panels = new_figure(2)
    for panel, parameter, label in zip(panels, ("C", "balance"), ("C", "l"), strict=True):
        rows = [record for record in records if record["parameter"] == parameter]
        panel.errorbar(
            [r["value"] for r in rows], [r["accuracy"] for r in rows], [r["deviation"] for r in rows],
            fmt="-o", ms=4, capsize=3, color=COLOURS["M3IC"],
        )  # fmt: skip
        panel.set(xlabel=label, ylabel="accuracy, %", ylim=(0, 100))
        panel.axvline(setting[parameter], color="0.6", lw=1, ls="--", label="fixed in the other panel")
    panels[0].set_xscale("log", base=2)
    panels[1].set_xscale("symlog", linthresh=0.001)
    panels[1].set_xlim(-0.0005, 15)
    panels[0].legend(frameon=False, fontsize=8, loc="lower right")
    figure.suptitle(f"{name}: M3IC, mean and deviation over seeds", fontsize=11)
    save(figure, path)


def new_figure(n_panels: int) -> tuple[Any, Any]:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4.6 * n_panels, 3.6), dpi=130, layout="constrained")
    FigureCanvasAgg(figure)
    return figure, figure.subplots(1, n_panels)


def save(figure: Any, path: Path) -> None:
    with atomic_write(path) as file:
        figure.savefig(file, format="png")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    main(parser.parse_args().quick)
