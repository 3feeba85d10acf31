"""What is found of recordings by the window that cuts them into bags: it should not matter."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from bagwise.app.demo.soundscape import N_RECORDINGS
from bagwise.app.media import AudioSettings, featurize_audio
from bagwise.core.dataset import rows_of
from bagwise.datasets import make_soundscape
from benchmarks.common import Record, data_folder, show
from benchmarks.media_accuracy import BIRDS, covered
from benchmarks.soundscapes import cosmos_events

WINDOWS = (1, 3, 10, 60)
RECALL, PRECISION = "recall over time %", "precision over time %"


def main(quick: bool = False) -> list[Record]:
    scene = make_soundscape(N_RECORDINGS // 6 if quick else N_RECORDINGS, random_state=0)
    records: list[Record] = []
    with tempfile.TemporaryDirectory() as folder:
        sounds, *_ = scene.write(Path(folder))
        records += by_window("the demo's soundscapes", sorted(sounds.glob("*.wav")), scene.events)
        records += by_window("the same as one recording", *_joined(scene, Path(folder)))
    data = data_folder()
    if data is None or not (data / BIRDS).is_dir():
        print(f"  {BIRDS} is not there (set BAGWISE_DATA to the folder that holds it): left out")
        return records
    return records + by_window(BIRDS, sorted((data / BIRDS).glob("*.wav")), cosmos_events(data / BIRDS))


def by_window(name: str, files: list[Path], events: list[dict[str, Any]]) -> list[Record]:
    """Recall and precision over time with each window, and the largest difference."""
    rows = []
    for window in WINDOWS:
        locations = featurize_audio(files, AudioSettings(window=window)).locations
        assert locations is not None
        found = covered(rows_of(locations), events)
        rows.append({"data": name, "window s": window, **{key: found[key] for key in ("segments", RECALL, PRECISION)}})
    show(f"Found by the window of a bag: {name}", rows, left=("data",))
    for key in (RECALL, PRECISION):
        values = [row[key] for row in rows]
        print(f"  {key}: at most {max(values) - min(values):.2f} points between windows")
    return rows


def _joined(scene: Any, folder: Path) -> tuple[list[Path], list[dict[str, Any]]]:
    """All recordings of a soundscape after each other, as one file, and the events in it."""
    from scipy.io import wavfile

    begins = dict(zip(scene.names, np.cumsum([0, *map(len, scene.recordings)])[:-1] / scene.rate, strict=True))
    path = folder / "all.wav"
    wavfile.write(path, scene.rate, np.concatenate(scene.recordings))
    moved = [
        {**event, "file": path.name, "start": event["start"] + begins[event["file"]],
         "end": event["end"] + begins[event["file"]]}
        for event in scene.events
    ]  # fmt: skip
    return [path], moved
