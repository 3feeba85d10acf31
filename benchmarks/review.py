"""A simulated reviewer: how fast mistakes go, by the order in which instances are shown, and how long a refit takes."""

from __future__ import annotations

import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from bagwise import BagDataset, Run
from bagwise.app.media.matching import match_events
from bagwise.app.runs.learner import fit_supervised, learner_inside, make_learner
from bagwise.app.runs.options import DEFAULT_MODEL
from bagwise.app.runs.predictions import Predictions, acquisition_order, predict_labels
from bagwise.app.runs.supervision import Supervision, put_together
from bagwise.core.exceptions import InfeasibleBagWarning
from bagwise.datasets import Soundscape, make_soundscape
from bagwise.io.tables import write_csv
from benchmarks.common import Record, data_folder, load_real, show
from benchmarks.segmentation import SONGS, make_songs
from benchmarks.soundscapes import cosmos_events

BATCH = 10  # answers between two refits
BUDGET = 0.05  # of the instances
SHARE_OF_BAGS = 0.8  # drawn for each seed
SEEDS = 10
WORTH, FEW_FILES = 40, 12  # answers of which it is measured what they are worth, and recordings that leave any to ask
NOISE = 0.1  # what a run expects unless it is told
USEFUL, LEAST_SURE, RANDOM = "useful", "least sure", "random"


@dataclass(frozen=True)
class Material:
    """Bags with the true label of each instance; -1: it has none, and a reviewer calls it noise."""

    name: str
    dataset: BagDataset
    truth: np.ndarray
    noise_share: float = NOISE


class Reviewer:
    """A run in memory and a person who knows the truth."""

    def __init__(self, material: Material, seed: int):
        rng = np.random.default_rng(seed)
        n = len(material.dataset)
        index = np.sort(rng.choice(n, round(SHARE_OF_BAGS * n), replace=False))
        rows, _ = material.dataset.bags.select(index)
        names = [str(i) for i in index]  # words of a poem come twice, and answers go by the name of the bag
        self.dataset = replace(material.dataset[index], bag_names=names)
        self.truth, self.rng = material.truth[rows], rng
        self.names = np.array([*map(str, material.dataset.class_names), ""], dtype=object)
        listed = self.dataset.label_sets
        self.sets = {name: set(map(str, listed[i])) for i, name in enumerate(self.dataset.bag_names)}
        self.asked: list[int] = []
        self.model = make_learner(DEFAULT_MODEL, {}, material.noise_share)
        self.refit()
        learner_inside(self.model).set_params(warm_start=True)

    def supervision(self) -> Supervision:
        bag, position = self.dataset.bags.bag_index, self.dataset.positions
        answers = [(self.dataset.bag_names[bag[i]], int(position[i]), self.names[self.truth[i]]) for i in self.asked]
        return put_together(self.dataset, self.sets, answers)

    def refit(self) -> None:
        supervision = self.supervision()
        fit_supervised(self.model, supervision)
        self.found: Predictions = predict_labels(self.model, supervision)

    def answer(self, order: str, n: int) -> None:
        """Say what the first `n` by this order are."""
        if order == USEFUL:
            rows = acquisition_order(self.model, self.supervision(), n)
        else:
            assert self.found.probability is not None
            rank = self.found.probability if order == LEAST_SURE else self.rng.random(len(self.truth))
            rows = np.setdiff1d(np.arange(len(self.truth)), self.asked)
            rows = rows[np.argsort(rank[rows], kind="stable")][:n]
        self.asked += rows.tolist()

    def state(self) -> tuple[int, int, float]:
        """Answers, mistakes among the instances that have a label, and the accuracy of those that were not answered."""
        given = np.array([*map(str, self.found.classes), ""], dtype=object)[self.found.label]
        right, labelled = given == self.names[self.truth], self.truth >= 0
        rest = labelled.copy()
        rest[self.asked] = False
        return len(self.asked), int(np.sum(labelled & ~right)), float(np.mean(right[rest]))


def review(material: Material, seed: int, order: str, budget: int | None = None) -> np.ndarray:
    """(points, 3): answers, mistakes left, accuracy of the uncorrected; before and after each refit."""
    reviewer = Reviewer(material, seed)
    states = [reviewer.state()]
    budget = round(BUDGET * len(reviewer.truth)) if budget is None else budget
    while len(reviewer.asked) < budget:
        reviewer.answer(order, min(BATCH, budget - len(reviewer.asked)))
        reviewer.refit()
        states.append(reviewer.state())
    return np.array(states, dtype=float)


# ---------------------------------------------------------------------------------------------------------------------
# Data


def real(name: str, title: str, noise_share: float = NOISE) -> Material | None:
    data = load_real(name)
    if data is None:
        return None
    assert data.instance_labels is not None
    return Material(title, data, data.instance_labels.instances, noise_share)


def soundscapes() -> Material:
    """The recordings of the demo; a syllable that lies in no call has no label."""
    scene = make_soundscape(60, random_state=0)
    with tempfile.TemporaryDirectory() as name:
        sounds, labels, _ = scene.write(Path(name) / "soundscape")
        with Run.create(sounds, Path(name) / "run", labels=labels, page=False, formats=["csv"]) as run:
            data, rows = run.supervision().dataset, run.annotations()
    matched = match_events(rows, scene.events)
    column = {label: c for c, label in enumerate(data.class_names)}
    truth = np.array([column.get(scene.events[j]["label"], -1) if j >= 0 else -1 for j in matched])
    return Material("soundscapes", data, truth)


MATERIALS: dict[str, Callable[[], Material | None]] = {
    "HJA filtered": lambda: real("hja_birdsong_filtered", "HJA filtered"),
    "HJA": lambda: real("hja_birdsong", "HJA"),
    "HJA, noise share 0.5": lambda: real("hja_birdsong", "HJA, noise share 0.5", 0.5),
    "MSRC v2": lambda: real("msrc_v2", "MSRC v2"),
    "soundscapes": soundscapes,
    "Letter-Carroll": lambda: real("letter_carroll_rebuilt", "Letter-Carroll"),
    "Letter-Frost": lambda: real("letter_frost_rebuilt", "Letter-Frost"),
}


# ---------------------------------------------------------------------------------------------------------------------
# Tables


def curves(material: Material, seeds: int) -> dict[str, np.ndarray]:
    """Order -> (seeds, points, 3); as many points as the shortest has."""
    found = {}
    for order in (USEFUL, LEAST_SURE, RANDOM):
        runs = [review(material, seed, order) for seed in range(seeds)]
        shortest = min(map(len, runs))
        found[order] = np.array([run[:shortest] for run in runs])
    return found


def rows_of(material: Material, found: dict[str, np.ndarray]) -> list[Record]:
    """A row an order: mistakes left, of a hundred at first, after so many answers."""
    least = found[LEAST_SURE][:, :, 1].mean(axis=0)
    m = SHARE_OF_BAGS * material.dataset.bags.n_instances
    records = []
    for order, runs in found.items():
        left = 100 * (runs[:, :, 1] / runs[:, :1, 1]).mean(axis=0)
        answers = runs[0, :, 0]
        half = np.flatnonzero(left <= 50)
        record: Record = {"data": material.name, "order": order, "mistakes": float(runs[:, 0, 1].mean())}
        for percent in (0.5, 1, 2, 3, 4, 5):
            point = int(np.argmin(np.abs(answers - 0.01 * percent * m)))
            record[f"left at {percent} %"] = round(float(left[point]), 1)
        accuracy = 100 * runs[:, :, 2].mean(axis=0)
        record["accuracy of the others, first"], record["last"] = round(accuracy[0], 1), round(accuracy[-1], 1)
        record["half gone at %"] = round(100 * float(answers[half[0]] / m), 1) if len(half) else None
        ahead = int(np.sum(runs[:, 1:, 1].mean(axis=0) < least[1:]))
        record["points ahead of least sure"] = "" if order == LEAST_SURE else f"{ahead} of {len(left) - 1}"
        records.append(record)
    return records


# ---------------------------------------------------------------------------------------------------------------------
# What an answer is worth where the segments are right


def with_right_segments() -> Iterator[Material | None]:
    """Recordings whose instances are the events themselves: made songs in few files, real clips, syllables of HJA."""
    for name in ("songs, 20 to 40 ms", "fast and slow species"):
        scene = make_songs(replace(SONGS[name], n_files=FEW_FILES), 8000)
        yield _of_events(f"{name}, {FEW_FILES} files", scene)
    yield _of_events("soundscapes", make_soundscape(FEW_FILES, random_state=4))
    data = data_folder()
    if data is not None and (data / "cosmos_birds_audio").is_dir():
        folder = data / "cosmos_birds_audio"
        with tempfile.TemporaryDirectory() as name:
            yield _by_boxes("COSMOS", folder, cosmos_events(folder), Path(name))
    yield real("hja_birdsong_filtered", "HJA filtered")
    yield real("msrc_v2", "MSRC v2")


def _of_events(title: str, scene: Soundscape) -> Material:
    with tempfile.TemporaryDirectory() as name:
        sounds, *_ = scene.write(Path(name))
        return _by_boxes(title, sounds, scene.events, Path(name))


def _by_boxes(title: str, sounds: Path, events: list[dict[str, Any]], folder: Path) -> Material:
    """The bags of a run whose instances are the boxes of the events; a file is labelled with all of its events."""
    boxes, labels = folder / "boxes.csv", folder / "labels-of-files.csv"
    keys = [key for key in ("file", "start", "end", "low", "high") if key in events[0]]
    write_csv([{key: event[key] for key in keys} for event in events], boxes)
    sets: dict[str, set[str]] = {path.name: set() for path in sounds.glob("*.wav")}
    for event in events:
        sets[event["file"]].add(event["label"])
    write_csv([{"file": name, "labels": ";".join(sorted(listed))} for name, listed in sets.items()], labels)
    with Run.create(sounds, folder / "run", labels=labels, segment=str(boxes), page=False, formats=["csv"]) as run:
        data, rows = run.supervision().dataset, run.annotations()
    matched = match_events(rows, events)
    column = {label: c for c, label in enumerate(map(str, data.class_names))}
    return Material(title, data, np.array([column[events[j]["label"]] if j >= 0 else -1 for j in matched]))


def worth(quick: bool = False) -> list[Record]:
    """Points of accuracy that an answer brings the others, by the order of the page and by chance."""
    records: list[Record] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for material in filter(None, with_right_segments()):
            for order in (USEFUL, RANDOM):
                runs = np.array([review(material, seed, order, WORTH) for seed in range(2 if quick else 5)])
                first, *later = 100 * runs[:, :, 2].mean(axis=0)
                gains = {f"after {BATCH * (i + 1)}": (now - first) / (BATCH * (i + 1)) for i, now in enumerate(later)}
                record = {"data": material.name, "order": order, "instances": len(material.truth), "first": first}
                records.append({**record, "last": later[-1], **gains})
                show(f"{material.name}: points that an answer brings the others", records[-1:], left=("data", "order"))
    show("Points of accuracy that an answer brings the others", records, left=("data", "order"))
    return records


@contextmanager
def timed(seconds: dict[str, float], **names: str) -> Iterator[None]:
    """Add up the seconds that functions of `bagwise.app.runs.run` take, by what they do."""
    import bagwise.app.runs.run as place

    def watched(function: Callable[..., Any], what: str) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            started = time.perf_counter()
            try:
                return function(*args, **kwargs)
            finally:
                seconds[what] = seconds.get(what, 0.0) + time.perf_counter() - started

        return call

    patches = [mock.patch.object(place, name, watched(getattr(place, name), what)) for name, what in names.items()]
    for patch in patches:
        patch.start()
    try:
        yield
    finally:
        for patch in patches:
            patch.stop()


def refit_seconds() -> list[Record]:
    """Forty answers in a run of HJA filtered, and what a refit with formats and page takes; then ten more."""
    folder = data_folder()
    if folder is None or not (folder / "hja_birdsong_filtered.npz").is_file():
        return []
    material = real("hja_birdsong_filtered", "HJA filtered")
    assert material is not None
    names = np.array(list(map(str, material.dataset.class_names)), dtype=object)
    records = []
    with (
        tempfile.TemporaryDirectory() as name,
        Run.create(folder / "hja_birdsong_filtered.npz", Path(name) / "run") as run,
    ):
        rng = np.random.default_rng(0)
        for n in (40, 10, 10):
            rows = run.annotations()
            asked = rng.choice(len(rows), n, replace=False)
            run.correct([(rows[i]["bag"], rows[i]["instance"], names[material.truth[i]]) for i in asked])
            seconds: dict[str, float] = {}
            started = time.perf_counter()
            with timed(
                seconds,
                fit_supervised="fit",
                predict_labels="find",
                save="save",
                write_formats="formats",
                write_page="page",
            ):
                run.refit()
            total = time.perf_counter() - started
            records.append({"answers": n, "refit s": total, **seconds, "other": total - sum(seconds.values())})
    return records


def main(quick: bool = False) -> list[Record]:
    """Print the tables and return their records."""
    records: list[Record] = []
    wanted = ("MSRC v2", "Letter-Carroll", "soundscapes") if quick else tuple(MATERIALS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InfeasibleBagWarning)
        for name in wanted:
            material = MATERIALS[name]()
            if material is None:
                continue
            found = curves(material, 2 if quick else SEEDS)
            rows = rows_of(material, found)
            show(f"{name}: mistakes left, of a hundred, by answers in % of the instances", rows, left=("order",))
            records += rows
            records += [
                {"data": name, "curve of": order, "answers, mistakes left, accuracy of the others": runs.mean(axis=0)}
                for order, runs in found.items()
            ]
    times = refit_seconds()
    show("A refit of HJA filtered, 4,998 instances, with warm start, all formats and the page (s)", times)
    return records + times


if __name__ == "__main__":
    main("--quick" in sys.argv)
