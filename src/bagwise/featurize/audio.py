"""Recordings: a bag is a recording or a piece of one, an instance is a syllable in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bagwise.bags import BagDataset
from bagwise.exceptions import InputError
from bagwise.featurize._result import FileBags, Settings, assemble, featurize_each, stack_features
from bagwise.featurize.audio_file import audio_info, read_blocks
from bagwise.featurize.segmentation import foreground, segment
from bagwise.featurize.spectrogram import Spectrogram, spectrogram
from bagwise.featurize.syllables import FEATURE_NAMES, syllable_features

BAGS = ("window", "file")


@dataclass(frozen=True)
class AudioSettings(Settings):
    """How recordings become syllables.

    Attributes
    ----------
    window : float
        Seconds that are looked at in one piece; a longer recording is cut into pieces of this length.
    bags : {"window", "file"}
        A bag is a piece, or a whole file.
    frame, overlap : float
        Seconds of a frame of the spectrogram, and the share that the next one covers again.
    low, high : float
        Hertz to look at; high=None is half the rate.
    smooth : float
        Deviation in points of the Gaussian that smooths the spectrogram.
    noise_quantile : float
        Share of the time in which a frequency is taken to hold noise alone.
    threshold : float
        Loudness at which sound begins, in deviations of the noise.
    least_decibels : float
        The threshold is never below this.
    grow : float
        Share of the threshold down to which a syllable is followed.
    close : int
        Frames of a gap that is bridged.
    thin : int
        Bridges and specks thinner than this many points are cut.
    min_area, min_frames : int
        Least points and frames of a syllable.
    """

    window: float = 10.0
    bags: str = "window"
    frame: float = 0.032
    overlap: float = 0.75
    low: float = 200.0
    high: float | None = None
    smooth: float = 1.0
    noise_quantile: float = 0.3
    threshold: float = 4.0
    least_decibels: float = 6.0
    grow: float = 0.5
    close: int = 3
    thin: int = 2
    min_area: int = 60
    min_frames: int = 3

    def __post_init__(self) -> None:
        if self.bags not in BAGS:
            raise InputError(f"The setting 'bags' is {self.bags!r}; use one of {', '.join(map(repr, BAGS))}.")
        top = np.inf
        self.check_ranges({
            "window": (0.1, 3600), "frame": (0.001, 1), "overlap": (0, 0.95), "low": (0, top), "smooth": (0, 10),
            "noise_quantile": (0, 0.95), "threshold": (0, top), "least_decibels": (0, top), "grow": (0.05, 1),
            "close": (0, 1000), "thin": (0, 100), "min_area": (1, top), "min_frames": (1, top),
        })  # fmt: skip
        if self.high is not None:
            self.check_ranges({"high": (self.low + 1, top)})


@dataclass(frozen=True)
class Stages:
    """Every stage of one piece: spectrogram, mask of sound, numbered regions, threshold in decibels."""

    picture: Spectrogram
    mask: np.ndarray
    labels: np.ndarray
    decibels: float


def find_syllables(samples: np.ndarray, rate: int, settings: AudioSettings) -> Stages:
    """Spectrogram, mask and regions of one piece of sound."""
    if settings.low >= rate / 2:
        raise InputError(
            f"The recording has a rate of {rate} Hz and so nothing above {rate / 2:g} Hz, but only sounds from "
            f"low={settings.low:g} Hz on are looked at; lower it."
        )
    picture = spectrogram(
        samples, rate, frame=settings.frame, overlap=settings.overlap, low=settings.low, high=settings.high,
        smooth=settings.smooth, noise_quantile=settings.noise_quantile,
    )  # fmt: skip
    mask, decibels = foreground(
        picture.above_noise, threshold=settings.threshold, least=settings.least_decibels, grow=settings.grow
    )
    labels = segment(
        mask, close=settings.close, thin=settings.thin, min_area=settings.min_area, min_frames=settings.min_frames
    )
    return Stages(picture, mask, labels, decibels)


def piece_name(name: str, start: float) -> str:
    """What the piece of a recording that begins at `start` is called: seconds to the millisecond, no needless zeros."""
    return f"{name}@{f'{start:.3f}'.rstrip('0').rstrip('.')}"


def read_audio(path: str | Path, name: str, settings: AudioSettings) -> FileBags:
    """The syllables of one recording; only one piece of it is in memory at a time.

    A recording of one piece is a bag called `name`; the pieces of a longer one are called ``name@start``, the start
    in seconds, unless the whole file is one bag.
    """
    info = audio_info(path)
    features: list[np.ndarray] = []
    locations: list[dict[str, Any]] = []
    starts: list[float] = []
    heard = False
    for start, samples in read_blocks(path, settings.window):
        starts.append(start)
        heard = heard or bool(np.any(samples))
        stages = find_syllables(samples, info.rate, settings)
        found, places = syllable_features(stages.picture, stages.labels)
        features.append(found)
        locations += [
            {
                "file": name,
                "start": round(max(start + place["start"], 0.0), 4),
                "end": round(min(start + place["end"], info.seconds), 4),
                "low": round(max(place["low"], 0.0), 1),
                "high": round(min(place["high"], info.rate / 2), 1),
            }
            for place in places
        ]
    sizes = [len(found) for found in features]
    names = [name] if len(starts) == 1 else [piece_name(name, start) for start in starts]
    if settings.bags == "file":
        names, sizes = [name], [sum(sizes)]
    problems = []
    if not heard:
        problems.append("every sample is zero: the recorder wrote nothing.")
    elif not sum(sizes):
        problems.append("no syllable was found in it; lower the threshold if there are any.")
    return FileBags(
        bag_names=names,
        sizes=sizes,
        features=np.concatenate(features),
        locations=locations,
        info={"seconds": round(info.seconds, 4), "rate": info.rate, "channels": info.channels},
        problems=problems,
    )


def featurize_audio(paths: Sequence[str | Path], settings: AudioSettings | None = None) -> BagDataset:
    """Syllables of recordings, each described by 38 features.

    Parameters
    ----------
    paths : list of paths
        wav, flac, ogg or mp3 files of any rate and any number of channels.
    settings : AudioSettings or None

    Returns
    -------
    BagDataset
        Without labels. `locations` hold file, start and end in seconds, low and high in hertz. Pieces in which
        nothing was found are left out.

    Raises
    ------
    FormatError
        If a file cannot be used; the message names it.
    """
    settings = settings or AudioSettings()
    files = featurize_each(paths, lambda path, name: read_audio(path, name, settings))
    return assemble(files, stack_features(files), FEATURE_NAMES, "audio")
