"""Recordings to features: times faster than real time, and memory from ten minutes to two hours."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import joblib
import numpy as np

from bagwise.app.media import AudioSettings
from bagwise.app.media.audio import AUDIO
from bagwise.datasets import Soundscape, make_soundscape
from benchmarks.common import MEMORY, Record, show, with_ratio

ASKED_SPEED = 100.0  # times real time, on two cores
ASKED_GROWTH = 1.10  # memory of two hours over that of ten minutes

_CHILD = """
import resource, sys
from bagwise.app.media import AudioSettings
from bagwise.app.media.audio import AUDIO
result = AUDIO.read_file(sys.argv[1], "x.wav", AudioSettings())
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, sum(result.sizes))
"""


def main(quick: bool = False) -> list[Record]:
    with tempfile.TemporaryDirectory() as folder:
        scene = make_soundscape(6, random_state=0)
        minutes = (2, 10) if quick else (10, 120)
        files = [_write(Path(folder) / f"{m}.wav", scene.recordings, scene.rate, m) for m in minutes]
        return [*_speed(Path(folder), scene, 2 if quick else 5), *_memory(files, minutes)]


def _write(path: Path, recordings: list[np.ndarray], rate: int, minutes: int) -> Path:
    """A file of many minutes, written piece by piece."""
    import soundfile

    with soundfile.SoundFile(path, "w", rate, 1, subtype="PCM_16") as sound:
        for i in range(minutes * 6):
            sound.write(recordings[i % len(recordings)])
    return path


def _speed(folder: Path, scene: Soundscape, repeats: int) -> list[Record]:
    """One process, and two processes on files of one minute each."""
    files = [_write(folder / f"minute-{i}.wav", scene.recordings, scene.rate, 1) for i in range(8)]
    rows = []
    for jobs in (1, 2):
        with joblib.Parallel(n_jobs=jobs) as parallel:
            tasks = [joblib.delayed(AUDIO.read_file)(path, path.name, AudioSettings()) for path in files]
            parallel(tasks)  # starts the processes and their imports
            best = min(_timed(lambda: parallel(tasks)) for _ in range(repeats))  # noqa: B023
        rows.append({
            "processes": jobs, "seconds of sound": 60 * len(files), "seconds taken": best,
            "times real time": 60 * len(files) / best, "asked": ASKED_SPEED if jobs == 2 else None,
        })  # fmt: skip
    show("From file to features (read, spectrogram, segments, 38 features); 16 kHz", rows)
    return [
        with_ratio(
            {"part": "speed", **row},
            f"from file to features, {row['processes']} process(es)",
            "real time",
            row["times real time"],
            asked=f">= {ASKED_SPEED:g}" if row["asked"] else "",
        )
        for row in rows
    ]


def _timed(function: Callable[[], Any]) -> float:
    started = time.perf_counter()
    function()
    return time.perf_counter() - started


def _memory(files: list[Path], minutes: tuple[int, ...]) -> list[Record]:
    """Largest memory of a process of its own for each file."""
    rows: list[Record] = []
    for path, length in zip(files, minutes, strict=True):
        done = subprocess.run([sys.executable, "-c", _CHILD, str(path)], capture_output=True, text=True, check=True)
        kilobytes, syllables = map(int, done.stdout.split())
        rows.append({"minutes": length, "syllables": syllables, "peak MiB": kilobytes / 1024})
    for row in rows:
        row["over the first"] = row["peak MiB"] / rows[0]["peak MiB"]
        row["asked at most"] = ASKED_GROWTH
    show("Memory of one process that reads one file", rows)
    lines: list[Record] = [{"part": "memory", **row} for row in rows]
    lines[1] = with_ratio(
        lines[1],
        f"reading {minutes[1]} minutes of sound: memory",
        f"{minutes[0]} minutes",
        lines[1]["over the first"],
        unit=MEMORY,
        asked=f"<= {ASKED_GROWTH:g}",
    )
    return lines
