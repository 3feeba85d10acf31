"""What corrections do to what was not corrected: soundscapes and HJA, each as a run."""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from bagwise import Run, read_dataset
from bagwise.app.media.matching import match_events
from bagwise.datasets import make_soundscape
from benchmarks.common import Record, data_folder, show

N_CORRECTIONS = 40


def corrected(name: str, run: Run, truth: np.ndarray, seeds: int) -> list[Record]:
    """Put wrong labels right, fit again, compare the others, take it back; `truth` is "" for noise, None unknown."""
    rows = run.annotations()
    first = (run.path / "annotations.csv").read_bytes()
    labels = np.array([row["label"] for row in rows], dtype=object)
    wrong = np.flatnonzero((labels != truth) & (truth != None))  # noqa: E711  # element by element
    named = np.flatnonzero((truth != None) & (truth != ""))  # noqa: E711
    records = []
    for seed in range(seeds):
        said = np.random.default_rng(seed).choice(wrong, min(N_CORRECTIONS, len(wrong)), replace=False)
        run.correct([(rows[i]["bag"], rows[i]["instance"], truth[i]) for i in said])
        started = time.perf_counter()
        run.refit()
        seconds = time.perf_counter() - started
        after = np.array([row["label"] for row in run.annotations()], dtype=object)
        rest = np.setdiff1d(named, said)
        run.undo()
        records.append({
            "run": name, "instances": len(rows), "corrected": len(said),
            "others right before %": 100 * float(np.mean(labels[rest] == truth[rest])),
            "after %": 100 * float(np.mean(after[rest] == truth[rest])),
            "corrected right": bool(np.all(after[said] == truth[said])),
            "undone to the byte": (run.path / "annotations.csv").read_bytes() == first,
            "refit s": seconds,
        })  # fmt: skip
    return records


def soundscapes(folder: Path, seeds: int) -> list[Record]:
    scene = make_soundscape(60, random_state=0)
    sounds, labels, _ = scene.write(folder / "scene")
    with Run.create(sounds, folder / "sounds", labels=labels, page=False) as run:
        matched = match_events(run.annotations(), scene.events)
        truth = np.array([scene.events[j]["label"] if j >= 0 else "" for j in matched], dtype=object)
        return corrected("60 soundscapes", run, truth, seeds)


def table(folder: Path, name: str, seeds: int, **options: Any) -> list[Record]:
    data = data_folder()
    if data is None or not (data / f"{name}.npz").is_file():
        print(f"  {name}.npz is not there (set BAGWISE_DATA to the folder that holds it): left out")
        return []
    dataset = read_dataset(data / f"{name}.npz")
    assert dataset.instance_labels is not None
    names = np.array([*map(str, dataset.class_names), None], dtype=object)
    with Run.create(data / f"{name}.npz", folder / name, page=False, **options) as run:
        return corrected(name, run, names[dataset.instance_labels.instances], seeds)


def main(quick: bool = False) -> list[Record]:
    """Print the table and return its records."""
    seeds = 1 if quick else 5
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        records = soundscapes(folder, seeds)
        for data in ("hja_birdsong_filtered", "hja_birdsong"):
            records += table(folder, data, seeds)
    show(f"{N_CORRECTIONS} wrong labels put right, then fitted again", records)
    return records


if __name__ == "__main__":
    main("--quick" in sys.argv)
