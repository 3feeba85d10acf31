"""Synthetic soundscapes: recordings in which several species call over noise, with the truth about every call."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bagwise.core.exceptions import InputError
from bagwise.core.typing import Seed
from bagwise.datasets._synthetic import check_range

Draw = Callable[[np.random.Generator, int], tuple[np.ndarray, float, float]]
PEAK = 0.7  # of full scale, so that rounding to 16 bits never clips


@dataclass(frozen=True)
class Soundscape:
    """Recordings and what is in them.

    Attributes
    ----------
    rate : int
    recordings : list of float32 arrays
    names : list of str
        File names of the recordings.
    species : list of str
    events : list of dict
        file, start and end in seconds, low and high in hertz, label: every call.

    Examples
    --------
    >>> import os, tempfile
    >>> from bagwise.datasets import make_soundscape
    >>> scene = make_soundscape(2, random_state=0)
    >>> scene.names, [labels <= set(scene.species) for labels in scene.label_sets]
    (['recording-000.wav', 'recording-001.wav'], [True, True])
    >>> [os.path.basename(path) for path in scene.write(tempfile.mkdtemp())]
    ['recordings', 'labels.csv', 'truth.csv']
    """

    rate: int
    recordings: list[np.ndarray]
    names: list[str]
    species: list[str]
    events: list[dict[str, Any]]

    @property
    def label_sets(self) -> list[set[str]]:
        """The species heard in each recording."""
        heard: dict[str, set[str]] = {name: set() for name in self.names}
        for event in self.events:
            heard[event["file"]].add(event["label"])
        return [heard[name] for name in self.names]

    def write(self, folder: str | Path) -> tuple[Path, Path, Path]:
        """Write ``recordings/*.wav``, ``labels.csv`` (species of each recording) and ``truth.csv`` (every call).

        Returns
        -------
        recordings, labels, truth : paths
        """
        from scipy.io import wavfile

        from bagwise.io.files import atomic_write
        from bagwise.io.tables import write_csv

        folder = Path(folder)
        sounds, labels, truth = folder / "recordings", folder / "labels.csv", folder / "truth.csv"
        sounds.mkdir(parents=True, exist_ok=True)
        for name, samples in zip(self.names, self.recordings, strict=True):
            with atomic_write(sounds / name) as file:
                wavfile.write(file, self.rate, np.round(samples * 32767).astype(np.int16))
        rows = [
            {"file": name, "labels": ";".join(sorted(labels))}
            for name, labels in zip(self.names, self.label_sets, strict=True)
        ]
        write_csv(rows, labels)
        write_csv(self.events, truth)
        return sounds, labels, truth


def make_soundscape(
    n_recordings: int = 60,
    *,
    seconds: float = 10.0,
    rate: int = 16_000,
    species_per_recording: tuple[int, int] = (1, 4),
    calls_per_species: tuple[int, int] = (2, 5),
    loudness: tuple[float, float] = (8.0, 26.0),
    thumps: float = 1.0,
    random_state: Seed = None,
) -> Soundscape:
    """Make recordings in which up to eight species call over noise.

    Each species has a shape of its own (a whistle, a rise, a fall, an arch, a trill, a buzz, a hoot, a chatter of
    overtones); pitch, length and loudness differ from call to call. Calls of different species may overlap. Below
    them lie pink noise and, unlisted, thumps of no species.

    Parameters
    ----------
    n_recordings : int
    seconds : float
    rate : int
        At least 16,000, to hold the highest species.
    species_per_recording, calls_per_species : (int, int)
        Least and greatest number; of species it may be 0, for recordings without calls.
    loudness : (float, float)
        Decibels of a call over the noise in its band, least and greatest.
    thumps : float
        Mean number of noises of no species in a recording.
    random_state : int, numpy.random.Generator or None

    Returns
    -------
    Soundscape

    Examples
    --------
    >>> from bagwise.datasets import make_soundscape
    >>> scene = make_soundscape(3, random_state=0)
    >>> len(scene.recordings), scene.recordings[0].shape
    (3, (160000,))
    """
    if n_recordings < 1:
        raise InputError(f"n_recordings={n_recordings!r}; expected a whole number, 1 or more.")
    if not seconds >= 2.0:
        raise InputError(f"seconds={seconds!r}; expected 2 or more, so that calls find a place.")
    if rate < 16_000:
        raise InputError(f"rate={rate!r}; expected 16000 or more: the highest species reaches 7.4 kHz.")
    check_range("species_per_recording", species_per_recording, 0)
    check_range("calls_per_species", calls_per_species)
    rng = np.random.default_rng(random_state)
    names = [f"recording-{i:03d}.wav" for i in range(n_recordings)]
    recordings, events = [], []
    low, high = species_per_recording
    for name in names:
        count = rng.integers(low, min(high, len(SPECIES)), endpoint=True)
        present = rng.choice(list(SPECIES), count, replace=False)
        samples, calls = _recording(rng, [str(s) for s in present], seconds, rate, calls_per_species, loudness, thumps)
        recordings.append(samples)
        events += [{"file": name, **call} for call in calls]
    return Soundscape(rate, recordings, names, list(SPECIES), events)


def _recording(
    rng: np.random.Generator,
    present: list[str],
    seconds: float,
    rate: int,
    calls_per_species: tuple[int, int],
    loudness: tuple[float, float],
    thumps: float,
) -> tuple[np.ndarray, list[dict[str, Any]]]:
    """One recording and its calls in order of time."""
    samples, density = _noise(rng, round(seconds * rate), rate)
    calls: list[dict[str, Any]] = []
    for species in present:
        for _ in range(rng.integers(*calls_per_species, endpoint=True)):
            call, low, high = SPECIES[species](rng, rate)
            place = _find_place(rng, calls, len(call) / rate, seconds, low, high)
            start = round(place * rate)
            # the noise that the call has to stand out of is that of its own band
            noise = np.sqrt(density((low + high) / 2) * max(high - low, 200.0))
            gain = noise * 10 ** (rng.uniform(*loudness) / 20)
            samples[start : start + len(call)] += gain * call / np.sqrt(np.mean(call**2))
            calls.append({"start": place, "end": place + len(call) / rate, "low": low, "high": high, "label": species})
    for _ in range(rng.poisson(thumps)):
        _add_thump(rng, samples, rate, density)
    calls.sort(key=lambda call: call["start"])
    rounded = [{k: v if isinstance(v, str) else round(v, 4) for k, v in call.items()} for call in calls]
    return (samples * (PEAK / np.abs(samples).max())).astype(np.float32), rounded


def _find_place(
    rng: np.random.Generator, calls: list[dict[str, Any]], length: float, seconds: float, low: float, high: float
) -> float:
    """A start at which the call does not fall onto another in time and frequency; after twenty tries it may."""
    place = 0.0
    for _ in range(20):
        place = float(rng.uniform(0.05, seconds - length - 0.05))
        free = all(
            place > c["end"] + 0.05
            or place + length < c["start"] - 0.05
            or low > c["high"] + 150
            or high < c["low"] - 150
            for c in calls
        )
        if free:
            break
    return place


def _noise(rng: np.random.Generator, n: int, rate: int) -> tuple[np.ndarray, Callable[[float], float]]:
    """Noise whose power falls with frequency, and its power density at a frequency."""
    samples = _colored(rng, n, rate, lambda frequency: 1.0 / np.sqrt(np.maximum(frequency, 50.0) / 50.0))
    return samples, lambda hertz: float((50.0 / max(hertz, 50.0)) * 2.0 / rate)


def _colored(rng: np.random.Generator, n: int, rate: int, gain: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """n samples of white noise, each frequency in hertz multiplied by its gain."""
    return np.fft.irfft(np.fft.rfft(rng.standard_normal(n)) * gain(np.fft.rfftfreq(n, 1 / rate)), n)


def _add_thump(rng: np.random.Generator, samples: np.ndarray, rate: int, density: Callable[[float], float]) -> None:
    """A short knock over all frequencies, which is in no label list."""
    n = round(rng.uniform(0.03, 0.08) * rate)
    start = int(rng.integers(0, len(samples) - n))
    knock = np.diff(rng.standard_normal(n + 1)) * np.exp(-np.arange(n) / (0.25 * n))
    gain = np.sqrt(density(3000.0) * rate / 2) * 10 ** (rng.uniform(8, 16) / 20)
    samples[start : start + n] += gain * knock / np.sqrt(np.mean(knock**2))


# ------------------------------------------------------------------------------------------------------------
# Species: each gives samples and the lowest and highest hertz


def _envelope(n: int, rate: int, attack: float = 0.015) -> np.ndarray:
    ramp = max(2, min(n // 3, round(attack * rate)))
    shape = np.ones(n)
    shape[:ramp] = 0.5 - 0.5 * np.cos(np.pi * np.arange(ramp) / ramp)
    shape[-ramp:] = shape[:ramp][::-1]
    return shape


def _sing(pitch: np.ndarray, rate: int, overtones: tuple[float, ...] = (1.0,)) -> tuple[np.ndarray, float, float]:
    """A tone that follows the pitch in hertz, with overtones of the given strengths."""
    phase = 2 * np.pi * np.cumsum(pitch) / rate
    tone = np.sum([strength * np.sin((k + 1) * phase) for k, strength in enumerate(overtones)], axis=0)
    spread = 60.0  # what the frame of a spectrogram adds on both sides
    return tone * _envelope(len(pitch), rate), float(pitch.min() - spread), float(pitch.max() * len(overtones) + spread)


def _length(rng: np.random.Generator, seconds: float, rate: int) -> int:
    return round(seconds * rng.uniform(0.85, 1.2) * rate)


def _tone(
    seconds: float,
    scale: tuple[float, float],
    pitch: Callable[[int], np.ndarray],
    overtones: tuple[float, ...] = (1.0,),
) -> Draw:
    """A call of about so many seconds, with the pitch in hertz at each of n samples times a factor within `scale`."""

    def draw(rng: np.random.Generator, rate: int) -> tuple[np.ndarray, float, float]:
        n = _length(rng, seconds, rate)
        return _sing(pitch(n) * rng.uniform(*scale), rate, overtones)

    return draw


def _trill(rng: np.random.Generator, rate: int) -> tuple[np.ndarray, float, float]:
    n = _length(rng, 0.55, rate)
    turn = 2 * np.pi * 22 * rng.uniform(0.9, 1.1) * np.arange(n) / rate
    return _sing((4800 + 420 * np.sin(turn)) * rng.uniform(0.96, 1.04), rate)


def _buzz(rng: np.random.Generator, rate: int) -> tuple[np.ndarray, float, float]:
    n = _length(rng, 0.38, rate)
    centre, width = 6600 * rng.uniform(0.97, 1.03), 600.0
    hiss = _colored(rng, n, rate, lambda frequency: np.abs(frequency - centre) <= width)
    return hiss * _envelope(n, rate), centre - width, centre + width


_CHATTER = (0.5, 0.9, 1.0, 0.8, 0.6, 0.5)  # strengths of its overtones
SPECIES: dict[str, Draw] = {
    "arch wren": _tone(0.34, (0.94, 1.06), lambda n: 2200 + 1300 * np.sin(np.pi * np.linspace(0, 1, n))),
    "buzz cricket": _buzz,
    "chatter crow": _tone(0.16, (0.95, 1.05), lambda n: np.linspace(420, 330, n), _CHATTER),
    "fall swift": _tone(0.22, (0.95, 1.05), lambda n: np.geomspace(6800, 4200, n)),
    "hoot owl": _tone(0.42, (0.93, 1.07), lambda n: np.full(n, 620.0)),
    "rise thrush": _tone(0.28, (0.93, 1.07), lambda n: np.linspace(1500, 2900, n)),
    "trill lark": _trill,
    "whistle tit": _tone(0.50, (0.95, 1.05), lambda n: np.full(n, 3100.0)),
}
