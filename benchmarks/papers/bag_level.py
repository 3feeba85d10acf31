"""Label sets of bags: our stack beside every other learner of the catalogue and beside scikit-learn on bag statistics.

Five folds, drawn twice, the same for all. Nothing is chosen by the figures shown: the stack weighs its parts by the
likelihood of training bags, the baselines choose their C by folds of them, and the others run as in the catalogue.
"""

from __future__ import annotations

from itertools import takewhile
from pathlib import Path

import numpy as np

from benchmarks.papers.bag_learners import BAG_LEARNERS, NETWORKS, can_run
from benchmarks.papers.data import path_of
from benchmarks.papers.experiment import Experiment, Report
from benchmarks.papers.page import title_of
from benchmarks.papers.runs import Record, Run, Store
from benchmarks.papers.tables import HIGHER_IS_BETTER, Cell, Table, differs, mean_of

OURS = "bag-stack"
WITH_NETWORK = "bag-stack-network"
STANDS = {  # by stack: the title of its table, and the learners that it is not set beside
    OURS: ("Where the stack stands, and the best of the others that need no torch", NETWORKS),
    WITH_NETWORK: ("Where the stack with networks stands, and the best of the others", (OURS,)),
}
DATA = ("carroll-24", "frost-24", "msrc", "hja-filtered", "scene", "reuters")
MEASURES = ("average_precision", "ranking_loss", "one_error", "hamming_loss")
FOLDS, REPEATS = 5, 2
QUICK_DATA, QUICK_METHODS, QUICK_FOLDS = ("carroll-24",), (OURS, "ored", "lr-means"), 3
LEFT_OUT: dict[tuple[str, str], str] = {}
"""Data set and learner that take too long on one core, and how long."""
TITLES = {name: name.replace("_", " ") for name in MEASURES}


def methods_of(data: str, quick: bool) -> list[str]:
    return [name for name in (QUICK_METHODS if quick else BAG_LEARNERS) if (data, name) not in LEFT_OUT]


def sets_of(quick: bool) -> list[str]:
    return [name for name in (QUICK_DATA if quick else DATA) if path_of(name)]


def runs_of(data: str, method: str, quick: bool) -> list[Run]:
    folds, repeats = (QUICK_FOLDS, 1) if quick else (FOLDS, REPEATS)
    return [
        Run("repeated-folds", data, method, (), (("folds", folds), ("repeat", repeat))) for repeat in range(repeats)
    ]


def runs(quick: bool) -> list[Run]:
    return [
        run
        for data in sets_of(quick)
        for name in methods_of(data, quick)
        if can_run(name)
        for run in runs_of(data, name, quick)
    ]


def report(store: Store, quick: bool, folder: Path) -> Report:
    found = {data: finished(store, data, quick) for data in sets_of(quick)}
    tables = [Table(title, cells) for ours, (title, _) in STANDS.items() if (cells := verdicts(found, ours))]
    tables += [Table(title_of(data), cells_of(records)) for data, records in found.items() if records]
    return Report(tables, notes=[NOTE, *left_out(found), *missing(found, quick)])


def finished(store: Store, data: str, quick: bool) -> dict[str, list[Record]]:
    """Records of the folds of every learner, as far as its draws are there."""
    found = {}
    for name in methods_of(data, quick):
        draws = [store[run] for run in takewhile(store.__contains__, runs_of(data, name, quick))]
        if draws:
            found[name] = [record for draw in draws for record in draw]
    return found


def values_of(records: list[Record], measure: str) -> np.ndarray:
    return 100.0 * np.array([record[measure] for record in records])


def cells_of(records: dict[str, list[Record]]) -> list[Cell]:
    """One data set: learners by measures; bold are those that the test cannot tell from the best."""
    columns = {measure: column_of(records, measure) for measure in MEASURES}
    rows = sorted(records, key=lambda name: -float(columns[MEASURES[0]][name].ours or 0.0))
    return [cell for name in rows for cell in (*(c[name] for c in columns.values()), _calibration(name, records[name]))]


def column_of(records: dict[str, list[Record]], measure: str) -> dict[str, Cell]:
    values = {name: values_of(found, measure) for name, found in records.items()}
    sign = 1.0 if measure in HIGHER_IS_BETTER else -1.0
    top = max(values, key=lambda name: sign * float(values[name].mean()))
    return {
        name: Cell(
            name,
            TITLES[measure],
            best=not differs(*in_both(of_folds, values[top])),
            beside=False,
            **mean_of(of_folds),  # type: ignore[arg-type]
        )
        for name, of_folds in values.items()
    }


def _calibration(name: str, records: list[Record]) -> Cell:
    found = [record["calibration_error"] for record in records if "calibration_error" in record]
    return Cell(name, "calibration error", text=f"{np.mean(found):.3f}" if found else "")


def verdicts(found: dict[str, dict[str, list[Record]]], ours: str) -> list[Cell]:
    """Data sets by measures: first, tied or behind, with our mean and that of the best other."""
    apart = STANDS[ours][1]
    beside = {
        data: {name: of_folds for name, of_folds in records.items() if name == ours or name not in apart}
        for data, records in found.items()
        if ours in records
    }
    return [
        Cell(data, TITLES[measure], text=verdict(records, measure, ours))
        for data, records in beside.items()
        if len(records) > 1
        for measure in MEASURES
    ]


def verdict(records: dict[str, list[Record]], measure: str, ours: str = OURS) -> str:
    """ "first": better than every other by the paired t-test; "behind": some other is better by it; else "tied"."""
    sign = 1.0 if measure in HIGHER_IS_BETTER else -1.0
    values = {name: values_of(of_folds, measure) for name, of_folds in records.items()}
    of_ours = values.pop(ours)
    pairs = {name: in_both(of_ours, others) for name, others in values.items()}
    gains = {name: sign * float(np.mean(mine - theirs)) for name, (mine, theirs) in pairs.items()}
    apart = {name for name, (mine, theirs) in pairs.items() if differs(mine, theirs)}
    rival = min(gains, key=gains.__getitem__)
    if any(gains[name] < 0 for name in apart):
        word = "behind"
    else:
        word = "first" if len(apart) == len(values) else "tied"
    return f"{word}: {of_ours.mean():.1f} / {values[rival].mean():.1f} ({rival})"


def in_both(first: np.ndarray, second: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The folds that both have been run on; they have them in the same order."""
    n_both = min(len(first), len(second))
    return first[:n_both], second[:n_both]


NOTE = (
    "Five folds drawn twice, the same for all learners; mean and deviation of the folds that were run, in percent. "
    "First: better than each of the others that have been run, by a two-tailed paired t-test at 95 %; behind: one of "
    "the others is better by it; tied: neither. The folds of two draws overlap, which makes the test call too many "
    "differences real. `NAME-means` and `NAME-statistics` are scikit-learn's learners on the mean of a bag, and on "
    "mean, maximum, minimum and deviation. `lr-supervised` and `svm-supervised` are not here: they get the label "
    "of every instance. What needs torch was fitted with "
    "`BAGWISE_DEVICE=cuda`. Calibration error: expected, of all pairs of bag and label, ten equal bins; of "
    "`predict_proba`, which not all have."
)


def left_out(found: dict[str, dict[str, list[Record]]]) -> list[str]:
    reasons: dict[str, list[str]] = {}
    for (data, name), reason in LEFT_OUT.items():
        if data in found:
            reasons.setdefault(f"{title_of(data)}, {reason}", []).append(name)
    return [f"Left out, {reason}: {', '.join(names)}." for reason, names in reasons.items()]


def missing(found: dict[str, dict[str, list[Record]]], quick: bool) -> list[str]:
    """What has not been run yet, or on the folds of the first draw alone."""
    n_folds = QUICK_FOLDS if quick else FOLDS * REPEATS
    lines = []
    for data, records in found.items():
        absent = [name for name in methods_of(data, quick) if name not in records]
        counts = {len(of_folds) for of_folds in records.values()}
        some = [f"{name} ({len(of_folds)})" for name, of_folds in records.items() if len(of_folds) < n_folds]
        if absent:
            lines.append(f"Not run yet on {title_of(data)}: {', '.join(absent) if records else 'all'}.")
        if some:
            few = f"all ({counts.pop()})" if len(counts) == 1 else ", ".join(some)
            lines.append(f"Run on fewer than {n_folds} folds of {title_of(data)}: {few}.")
    return lines


EXPERIMENTS: dict[str, Experiment] = {
    "beyond-bags": Experiment("Past the papers: label sets of bags", runs, report, partial=True)
}
