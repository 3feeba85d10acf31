"""Which frames `annotate` takes for a set, beside a grid of frames: names right from the labels of recordings alone.

The songs, calls and soundscapes are made here, with syllables of a few milliseconds to almost a second; the seeds and
shapes with which the choice was developed were others. Names are right where a segment bears the label of the event
that it overlaps most.
"""

from __future__ import annotations

import os
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from bagwise.app.media import AudioSettings
from bagwise.app.media.audio import BAT_FRAME
from bagwise.app.media.matching import match_events
from bagwise.app.runs import Run
from bagwise.core.exceptions import BagwiseError
from bagwise.datasets import Soundscape, make_soundscape
from benchmarks.common import SECONDS, Record, data_folder, show, with_ratio
from benchmarks.soundscapes import cosmos_events

FRAMES = (0.002, 0.004, 0.008, 0.016, 0.032, 0.064)
BAT_FRAMES = (0.001, 0.002, 0.004, 0.008)
SOUNDSCAPES, COSMOS = "soundscapes", "COSMOS"


@dataclass(frozen=True)
class Songs:
    """What made songs are like; seconds, hertz and decibels, each from least to greatest.

    Attributes
    ----------
    kinds : list of ((least, greatest length), (lowest, highest pitch), number of labels)
    pause : from one syllable to the next
    """

    kinds: Sequence[tuple[tuple[float, float], tuple[float, float], int]]
    pause: tuple[float, float]
    rate: int = 22_050
    seconds: float = 8.0
    n_files: int = 48
    bouts: tuple[int, int] = (2, 4)
    per_bout: tuple[int, int] = (5, 12)
    per_file: tuple[int, int] = (2, 4)
    loudness: tuple[float, float] = (8.0, 22.0)


BIRDS = (1800.0, 6500.0)
SONGS = {
    "songs, 20 to 40 ms": Songs([((0.02, 0.04), BIRDS, 7)], (0.008, 0.02)),
    "songs, 50 to 100 ms": Songs([((0.05, 0.1), BIRDS, 7)], (0.01, 0.03)),
    "songs, 100 to 200 ms": Songs([((0.1, 0.2), BIRDS, 7)], (0.02, 0.06)),
    "songs, 200 to 300 ms": Songs([((0.2, 0.3), BIRDS, 7)], (0.04, 0.1)),
    "fast and slow species": Songs(
        [((0.02, 0.05), (3000.0, 7500.0), 4), ((0.35, 0.8), (700.0, 3500.0), 4)], (0.015, 0.08)
    ),
    "frogs": Songs([((0.015, 0.04), (600.0, 2500.0), 3), ((0.15, 0.5), (400.0, 3200.0), 4)], (0.02, 0.1)),
    "bats": Songs(
        [((0.003, 0.005), (25_000.0, 95_000.0), 6)],
        pause=(0.05, 0.1),
        rate=250_000,
        seconds=2.0,
        n_files=36,
        bouts=(1, 2),
        per_file=(1, 3),
        loudness=(12.0, 26.0),
    ),
}


def make_songs(about: Songs, seed: int) -> Soundscape:
    """Recordings of bouts of syllables; those of a file are of a few labels, which are its label list."""
    rng, rate = np.random.default_rng(seed), about.rate
    kinds = [_draw_label(rng, *kind[:2]) for kind in about.kinds for _ in range(kind[2])]
    names = [f"{i:03d}.wav" for i in range(about.n_files)]
    recordings, events = [], []
    for name in names:
        samples = _noise(rng, round(about.seconds * rate), rate)
        present = rng.choice(len(kinds), rng.integers(*about.per_file, endpoint=True), replace=False)
        edges = np.linspace(0.0, about.seconds, rng.integers(*about.bouts, endpoint=True) + 1)
        for begin, end in pairwise(edges):
            at = begin + rng.uniform(0.02, 0.2)
            for _ in range(rng.integers(*about.per_bout, endpoint=True)):
                label = rng.choice(present)
                syllable, low, high = kinds[label](rng, rate)
                length = len(syllable) / rate
                if at + length > end - 0.02:
                    break
                density = 2.0 / rate * 50.0 / max((low + high) / 2, 50.0)
                gain = np.sqrt(density * max(high - low, 300.0)) * 10 ** (rng.uniform(*about.loudness) / 20)
                first = round(at * rate)
                samples[first : first + len(syllable)] += gain * syllable / np.sqrt(np.mean(syllable**2))
                events.append(
                    {"file": name, "start": at, "end": at + length, "low": low, "high": high, "label": f"label {label}"}
                )
                at += length + rng.uniform(*about.pause)
        recordings.append((samples * (0.7 / np.abs(samples).max())).astype(np.float32))
    return Soundscape(rate, recordings, names, sorted({event["label"] for event in events}), events)


def _draw_label(
    rng: np.random.Generator, lengths: tuple[float, float], band: tuple[float, float]
) -> Callable[[np.random.Generator, int], tuple[np.ndarray, float, float]]:
    """A kind of syllable: a sweep with a bend or a wobble, of its own length, pitch and overtone."""
    length, begin = rng.uniform(*lengths), np.exp(rng.uniform(*np.log(band)))
    end = float(np.clip(begin * np.exp(rng.uniform(-0.8, 0.8)), *band))
    bend, wobble, turns = rng.uniform(-0.2, 0.2), rng.choice([0.0, 0.0, 0.06]), rng.uniform(2, 5)
    overtone = rng.choice([0.0, 0.4])

    def draw(rng: np.random.Generator, rate: int) -> tuple[np.ndarray, float, float]:
        n = round(length * rng.uniform(0.9, 1.1) * rate)
        t = np.linspace(0, 1, n)
        pitch = begin * (end / begin) ** t * (1 + bend * np.sin(np.pi * t) + wobble * np.sin(2 * np.pi * turns * t))
        pitch *= rng.uniform(0.96, 1.04)
        phase = 2 * np.pi * np.cumsum(pitch) / rate
        top = float(pitch.max())
        tone = np.sin(phase)
        if overtone and 2 * top < 0.45 * rate:
            tone, top = tone + overtone * np.sin(2 * phase), 2 * top
        return tone * np.hanning(n) ** 0.5, float(pitch.min()), top

    return draw


def _noise(rng: np.random.Generator, n: int, rate: int) -> np.ndarray:
    """Noise that falls with frequency."""
    spectrum = np.fft.rfft(rng.standard_normal(n)) / np.sqrt(np.maximum(np.fft.rfftfreq(n, 1 / rate), 50.0) / 50.0)
    return np.fft.irfft(spectrum, n)


def main(quick: bool = False) -> list[Record]:
    """Print the table and return its records. BAGWISE_SEGMENTATION may name the data, separated by semicolons."""
    default = ("songs, 50 to 100 ms", "bats") if quick else (*SONGS, SOUNDSCAPES, COSMOS)
    records = []
    for name in os.environ.get("BAGWISE_SEGMENTATION", ";".join(default)).split(";"):
        if name == COSMOS:
            records += _cosmos()
            continue
        made = make_soundscape(60, random_state=4) if name == SOUNDSCAPES else None
        with tempfile.TemporaryDirectory() as folder:
            scene = made or make_songs(SONGS[name], 7000 + list(SONGS).index(name))
            sounds, labels, _ = scene.write(Path(folder))
            records.append(judge(name, sounds, labels, scene.events, BAT_FRAMES if name == "bats" else FRAMES))
    show("Names right, percent, with the frames that were chosen and by a grid of frames", records, ("data", "chosen"))
    return records


def _cosmos() -> list[Record]:
    """Real clips, where they are there."""
    data = data_folder()
    if data is None or not (data / "cosmos_birds_audio").is_dir():
        print("  cosmos_birds_audio is not there (set BAGWISE_DATA to the folder that holds it): left out")
        return []
    folder = data / "cosmos_birds_audio"
    events = cosmos_events(folder)
    sets = {path.name: sorted({e["label"] for e in events if e["file"] == path.name}) for path in folder.glob("*.wav")}
    with tempfile.TemporaryDirectory() as made:
        labels = Path(made) / "labels.csv"
        labels.write_text(
            "".join(f"{a},{b}\n" for a, b in [("file", "labels"), *((n, ";".join(s)) for n, s in sets.items())])
        )
        return [judge(COSMOS, folder, labels, events, FRAMES)]


def judge(name: str, sounds: Path, labels: Path, events: list[dict[str, Any]], frames: Sequence[float]) -> Record:
    """Names right with what was chosen, and with each frame of the grid; the processor's seconds of both."""
    chosen, seconds, text = _names_right(sounds, labels, events, {}, page=True)
    bats = {"low": 10_000} if frames is BAT_FRAMES else {}
    usual = BAT_FRAME if bats else AudioSettings().frame
    grid = {
        frame: _names_right(sounds, labels, events, {"frame": frame, **bats}, page=frame == usual) for frame in frames
    }
    best = max(right for right, *_ in grid.values())
    default = grid[usual]
    record = {
        "data": name,
        "chosen": text,
        "names right": chosen,
        "default": default[0],
        "best of the grid": best,
        "behind": best - chosen,
        **{f"{1000 * frame:g} ms": right for frame, (right, *_) in grid.items()},
    }
    print(f"  {name}: {text}, {chosen:.1f} right; default {default[0]:.1f}, best {best:.1f}", flush=True)
    return with_ratio(record, f"annotate, {name}", "default frames", seconds / default[1], unit=SECONDS, asked="2")


def _names_right(
    sounds: Path, labels: Path, events: list[dict[str, Any]], settings: dict[str, Any], page: bool
) -> tuple[float, float, str]:
    """Percent of the segments in an event that bear its label, seconds of the processor, and the frames."""
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        started = time.process_time()
        try:
            run = Run.create(sounds, Path(folder) / "run", labels=labels, settings=settings, jobs=1, page=page)
        except BagwiseError:  # nothing is found
            return 0.0, time.process_time() - started, "-"
        seconds = time.process_time() - started
        rows = run.annotations()
        matched = match_events(rows, events)
        inside = np.flatnonzero(matched >= 0)
        right = [rows[i]["label"] == events[matched[i]]["label"] for i in inside]
        return 100 * float(np.mean(right)), seconds, run.result().resolution.get("chosen", "-")


if __name__ == "__main__":
    main()
