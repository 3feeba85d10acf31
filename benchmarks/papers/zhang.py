"""Zhang and Zhou (2008): M3MIML against MIMLBoost and MIMLSVM."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from bagwise.model_selection import BAG_MEASURES
from benchmarks.papers.data import SOURCES, load, path_of
from benchmarks.papers.experiment import Experiment, Report
from benchmarks.papers.figures import draw_panels, line_of
from benchmarks.papers.kinds import counts_of_share
from benchmarks.papers.runs import Run, Store
from benchmarks.papers.tables import HIGHER_IS_BETTER, Cell, Table, published, win_tie_loss

METHODS = ("m3miml-rbf", "mimlboost", "mimlboost-feature", "mimlsvm")
TITLES = {
    "m3miml-rbf": "M3MIML",
    "mimlboost": "MIMLBoost",
    "mimlboost-feature": "MIMLBoost, label as feature",
    "mimlsvm": "MIMLSVM",
}
SIZES = tuple(range(200, 801, 100))
PERCENTS = tuple(range(10, 71, 10))
PANELS = {
    "hamming_loss": "Hamming loss",
    "ranking_loss": "ranking loss",
    "one_error": "one-error",
    "coverage": "coverage",
    "average_precision": "1 - average precision",
    "fit_seconds": "seconds of a fit",
}
ABOUT = {
    "training-size": "Features: each to the unit range. Labels: those of the bags. One test set of 1,000 bags, N "
    "bags drawn ten times from the others (section 4.2); parameters as in section 4.1, none chosen: M3MIML C = 1 and "
    "gamma = 1, MIMLBoost 25 rounds, MIMLSVM gamma = .2. A win or loss is a paired t-test at 95 % over the ten.",
    "multi-label-share": "Features: each to the unit range. Labels: those of the bags. Bags are left out until "
    "the share of those with several labels is right; ten halvings into training and test (section 4.3); parameters "
    "as in section 4.1, none chosen. A win or loss is a paired t-test at 95 % over the ten.",
}
NOTE = (
    "MIMLBoost is the library's default, a machine a label. With the label as a feature of one machine, as its "
    "authors wrote it, it is slower and less accurate, and M3MIML is ahead of it, as published; what was measured of "
    "that is in docs/development/experiments/bag-level.md."
)


def runs_of(kind: str, data: str, quick: bool) -> list[Run]:
    if path_of(data) is None:
        return []
    name, values = ("bags", SIZES) if kind == "training-size" else ("share", PERCENTS)
    if quick:
        values = (200, 400) if kind == "training-size" else (50, 70)
    repeats = 3 if quick else 10
    found = []
    for value in values:
        n_bags = value if kind == "training-size" else training_bags(data, value)
        for method in METHODS:
            largest = {"mimlboost": 200, "mimlboost-feature": 0}.get(method, 1000) if quick else 1000
            if n_bags <= largest:
                found += [Run(kind, data, method, (), ((name, value), ("repeat", r))) for r in range(repeats)]
    return found


def training_bags(data: str, share: int) -> int:
    """In section 4.3: half of the bags that are left when `share` percent have several labels."""
    Y = load(data).Y
    assert Y is not None
    n_many = int(np.sum(Y.sum(axis=1) > 1))
    return sum(counts_of_share(n_many, len(Y) - n_many, share)) // 2


def report_of(kind: str, data: str, picture: str):
    def report(store: Store, quick: bool, folder: Path) -> Report:
        repeats: dict[tuple[str, int], list[Run]] = {}
        for run in runs_of(kind, data, quick):
            repeats.setdefault((run.method, run.options[0][1]), []).append(run)
        whole = [run for runs in repeats.values() if all(run in store for run in runs) for run in runs]
        if not whole:
            return Report()
        values: dict[tuple[str, int, str], list[float]] = {}
        for run in whole:
            (_, setting), _ = run.options
            for measure, value in store[run][0].items():
                values.setdefault((run.method, setting, measure), []).append(value)
        settings = sorted({setting for _, setting, _ in values})
        cells = [
            Cell(measure, f"against {TITLES[rival]}", text=text)
            for rival in METHODS[1:]
            for measure in BAG_MEASURES
            if (text := counts(values, settings, rival, measure, published_counts(kind, data, rival, measure)))
        ]
        panels = {}
        for measure in (*BAG_MEASURES, "fit_seconds"):
            lines = {}
            for method in METHODS:
                points = [(s, np.array(values[method, s, measure])) for s in settings if (method, s, measure) in values]
                if points:
                    of_one = measure == "average_precision"
                    lines[TITLES[method]] = line_of([(s, 1.0 - v if of_one else v) for s, v in points])
            panels[PANELS[measure]] = lines
        x = "training bags" if kind == "training-size" else "multi-label bags, %"
        path = draw_panels(panels, folder / f"{picture}.png", x=x, y="", log_y=("seconds of a fit",))
        what = f"{SOURCES[data].title}: five measures and the seconds of a fit, mean and deviation; lower is better"
        table = Table(f"{SOURCES[data].title}: M3MIML's wins/ties/losses (published)", cells)
        absent: dict[str, list[str]] = {}
        for method, setting in repeats:
            if (method, setting, "fit_seconds") not in values:
                absent.setdefault(TITLES[method], []).append(str(setting))
        notes = [f"Not computed yet: {title} at {', '.join(missing)}." for title, missing in absent.items()]
        return Report([table], [(what, path)], [NOTE, times(values, settings), *notes], about=[ABOUT[kind]])

    return report


def times(values: dict, settings: list[int]) -> str:
    """How many times longer the rivals' fits take than M3MIML's."""
    parts = []
    for rival in METHODS[1:]:
        ratios = [
            np.mean(values[rival, s, "fit_seconds"]) / np.mean(values["m3miml-rbf", s, "fit_seconds"])
            for s in settings
            if (rival, s, "fit_seconds") in values
        ]
        if ratios:
            parts.append(f"{TITLES[rival]} {min(ratios):.2g} to {max(ratios):.2g}")
    return f"A fit takes so many times as long as one of M3MIML: {', '.join(parts)} (the paper: MIMLBoost 2 to 4)."


def counts(values: dict, settings: list[int], rival: str, measure: str, published: str) -> str:
    pairs = [
        (np.array(values["m3miml-rbf", s, measure]), np.array(values[rival, s, measure]))
        for s in settings
        if (rival, s, measure) in values
    ]
    return f"{win_tie_loss(pairs, measure in HIGHER_IS_BETTER)} ({published})" if pairs else ""


def published_counts(kind: str, data: str, rival: str, measure: str) -> str:
    entry = published("zhang2008")["table-2" if kind == "training-size" else "table-3"]
    return entry["rows"][measure][entry["columns"].index(f"{rival.removesuffix('-feature')} {data}")]


EXPERIMENTS: dict[str, Experiment] = {
    f"zhang2008-{table}-{data}": Experiment(
        f"Zhang and Zhou (2008), {title} and Figure {number}",
        lambda quick, kind=kind, data=data: runs_of(kind, data, quick),
        report_of(kind, data, f"zhang2008-figure-{number}"),
        partial=True,
    )
    for number, (table, title, kind, data) in enumerate(
        (
            ("table-2", "Table 2", "training-size", "scene"),
            ("table-2", "Table 2", "training-size", "reuters"),
            ("table-3", "Table 3", "multi-label-share", "scene"),
            ("table-3", "Table 3", "multi-label-share", "reuters"),
        ),
        start=1,
    )
}
