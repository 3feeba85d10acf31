"""Kill (SIGKILL) processes at random moments while they write files and while they fit with checkpoints.

Asked for, over 50 kills of each: never a torn file, and the resumed fit ends where the uninterrupted one does, weights
within 1e-10.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

import bagwise
from bagwise.annotation import ORedLogisticRegression, SupportInstanceMachine
from bagwise.app.runs.learner import fit_dataset
from bagwise.core.dataset import BagDataset
from bagwise.datasets import make_gaussian_bags
from bagwise.io.data.formats import FORMATS, read_dataset, write_dataset
from benchmarks.common import Record, show

KILLS = 50
# where processes can be forked, each starts warm; so the kills hit the work and not the imports
CONTEXT = multiprocessing.get_context("fork" if "fork" in multiprocessing.get_all_start_methods() else "spawn")
LEARNERS: dict[str, Callable[[], Any]] = {
    "ored, L-BFGS": lambda: ORedLogisticRegression(l2=1e-3, tol=1e-7, max_iter=300),
    "ored, EM": lambda: ORedLogisticRegression(solver="em", max_iter=150, tol=0.0),
    "sim, heuristic": lambda: SupportInstanceMachine(alpha=1e-5, n_phases=40, n_steps=200),
    "sim, CCCP": lambda: SupportInstanceMachine(alpha=1e-4, n_phases=40, aggregation="max", solver="cccp"),
}


def kill_after(work: Callable[..., None], arguments: tuple[Any, ...], seconds: float) -> bool:
    """Run `work` in a process and kill it some seconds after it began; whether it was still running."""
    ready = CONTEXT.Event()
    process = CONTEXT.Process(target=_begin, args=(ready, work, arguments))
    process.start()
    ready.wait(60.0)
    process.join(seconds)
    was_running = process.is_alive()
    if was_running:
        os.kill(process.pid or 0, signal.SIGKILL)
    process.join()
    return was_running


def _begin(ready: Any, work: Callable[..., None], arguments: tuple[Any, ...]) -> None:
    ready.set()
    work(*arguments)


def write_again_and_again(datasets: list[BagDataset], path: Path, name: str) -> None:
    """Write one data set after the other to the same place, until killed."""
    warnings.simplefilter("ignore")
    while True:
        for dataset in datasets:
            write_dataset(dataset, path, name)


def killed_writers(folder: Path, rng: random.Random, n_kills: int) -> list[Record]:
    """For every format: is the file, whenever the writer is killed, one of the two that were being written?"""
    datasets = [make_gaussian_bags(n_bags=300, n_features=8, n_classes=1, random_state=seed) for seed in (0, 1)]
    records = []
    for name, chosen in FORMATS.items():
        path, torn, found = folder / f"{name}{chosen.extension}", 0, {0: 0, 1: 0}
        started = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            write_dataset(datasets[0], path, name)
        seconds = time.perf_counter() - started
        for _ in range(n_kills):
            kill_after(write_again_and_again, (datasets[::-1], path, name), rng.uniform(0.0, 4.0 * seconds))
            bags = read_dataset(path, name).bags
            which = [i for i, dataset in enumerate(datasets) if bags == dataset.bags]
            torn += not which
            for i in which:
                found[i] += 1
        records.append({"writing": name, "kills": n_kills, "old": found[0], "new": found[1], "torn": torn})
    return records


def fit_and_save(name: str, dataset: BagDataset, folder: Path) -> None:
    """One fit that keeps checkpoints whenever it can."""
    warnings.simplefilter("ignore", ConvergenceWarning)
    model = LEARNERS[name]()
    fit_dataset(model, dataset, checkpoint=folder / "keep", interval=0.0)
    bagwise.save(model, folder / "m.bagwise")


def killed_fits(folder: Path, rng: random.Random, n_kills: int) -> list[Record]:
    """For every learner: fits that are killed again and again, until so many kills are done."""
    dataset = make_gaussian_bags(n_bags=400, n_features=10, n_classes=5, separation=1.5, random_state=0)
    records = []
    for name, make in LEARNERS.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            make().fit(dataset.bags, dataset.label_sets)  # compiles
            started = time.perf_counter()
            whole = make().fit(dataset.bags, dataset.label_sets)
            seconds = time.perf_counter() - started
        kills, n_fits, worst = 0, 0, 0.0
        while kills < n_kills:
            place = folder / f"{name}-{n_fits}"
            place.mkdir()
            while not (place / "m.bagwise").exists():
                limit = rng.uniform(0.0, 1.2 * seconds) if kills < n_kills else 600.0
                kills += kill_after(fit_and_save, (name, dataset, place), limit)
            worst = max(worst, float(np.abs(bagwise.load(place / "m.bagwise").coef_ - whole.coef_).max()))
            n_fits += 1
        records.append({"fitting": name, "kills": kills, "fits_finished": n_fits, "largest_difference": worst})
    return records


def main(quick: bool = False) -> list[Record]:
    """Measure, print and return records."""
    n_kills = 5 if quick else KILLS
    rng = random.Random(0)
    with tempfile.TemporaryDirectory() as temporary:
        written = killed_writers(Path(temporary), rng, n_kills)
        show("Killed while writing; asked for: no torn file", written)
        fitted = killed_fits(Path(temporary), rng, n_kills)
        show("Killed while fitting; asked for: weights within 1e-10 of the uninterrupted fit", fitted)
    return [*written, *fitted]


if __name__ == "__main__":
    main()
