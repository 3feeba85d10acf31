"""Sound with the truth about every segment: the demo's soundscapes, and the COSMOS clips where they are there."""

from __future__ import annotations

import csv
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from bagwise.app.media import AudioSettings, featurize_audio
from bagwise.app.media.matching import match_events
from bagwise.core.bags import Bags
from bagwise.core.dataset import BagDataset, rows_of
from bagwise.datasets import make_soundscape
from benchmarks.common import data_folder


def soundscape_dataset(
    n_recordings: int,
    seed: int,
    species: tuple[int, int] = (1, 4),
    thumps: float = 1.0,
    settings: AudioSettings | None = None,
) -> BagDataset:
    """The segments that are found in made recordings, each a bag, with their species; -1 for what is none."""
    scene = make_soundscape(n_recordings, species_per_recording=species, thumps=thumps, random_state=seed)
    with tempfile.TemporaryDirectory() as folder:
        sounds, *_ = scene.write(Path(folder))
        found = featurize_audio(sorted(sounds.glob("*.wav")), settings)
    return with_events(found, scene.events, list(scene.species), f"soundscapes {seed}")


def cosmos_events(folder: Path) -> list[dict[str, Any]]:
    """What people marked in the clips, in time only."""
    with (folder / "annotations.csv").open(encoding="utf-8") as file:
        return [
            {"file": row["file"], "start": float(row["start_s"]), "end": float(row["end_s"]), "label": row["label"]}
            for row in csv.DictReader(file)
        ]


def cosmos_dataset(settings: AudioSettings | None = None) -> BagDataset | None:
    """35 clips of ten seconds with the species of the segments that lie in a marked event; None where they are not."""
    folder = data_folder()
    if folder is None or not (folder / "cosmos_birds_audio").is_dir():
        print("  cosmos_birds_audio is not there (set BAGWISE_DATA to the folder that holds it): left out")
        return None
    folder = folder / "cosmos_birds_audio"
    events = cosmos_events(folder)
    names = sorted({event["label"] for event in events})
    return with_events(featurize_audio(sorted(folder.glob("*.wav")), settings), events, names, "cosmos")


def with_events(found: BagDataset, events: list[dict[str, Any]], names: list[str], title: str) -> BagDataset:
    """The bags with the labels of the events in their file, and each instance with that of the event it lies in."""
    assert found.locations is not None
    sets = {name: {e["label"] for e in events if e["file"] == name} for name in found.bag_names}
    matched = match_events(rows_of(found.locations), events)
    truth = np.array([names.index(events[j]["label"]) if j >= 0 else -1 for j in matched])
    return BagDataset(
        bags=found.bags,
        Y=np.array([[label in sets[name] for label in names] for name in found.bag_names]).astype(np.uint8),
        class_names=names,
        instance_labels=Bags(truth, found.bags.offsets),
        bag_names=found.bag_names,
        locations=found.locations,
        name=title,
    )
