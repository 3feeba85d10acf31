"""A recording stretch by stretch: what is sound and what is noise does not depend on how it is cut into bags.

The noise of a frequency is what is there most of the time, so the time must be long enough for sound to be the
exception: dense song fills a second. A stretch is therefore a whole recording, or a minute to two of a longer one,
whatever the bags are. Stretches are heard a little beyond their edges, and a syllable belongs to the one that holds its
middle, so none is cut.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from bagwise.featurize.audio_file import Sound
from bagwise.featurize.segmentation import Stages

STRETCH = 60.0  # seconds at least, if the recording is as long
MARGIN = 3.0  # seconds that are heard beyond the edges of a stretch

Find = Callable[[np.ndarray, int], Stages]
"""Samples and rate to spectrogram, mask and regions."""


@dataclass(frozen=True)
class Heard:
    """One stretch of a recording.

    Attributes
    ----------
    first, last : float
        Seconds of the recording that it stands for.
    begin : float
        Second of the recording at which its sound, margin included, begins.
    stages : Stages
    is_silent : bool
        Whether every sample is zero.
    """

    first: float
    last: float
    begin: float
    stages: Stages
    is_silent: bool


def stretches(seconds: float) -> list[tuple[float, float]]:
    """First and last second of each stretch: equal parts of a minute to two, or the whole recording."""
    edges = np.linspace(0.0, seconds, max(1, int(seconds // STRETCH)) + 1)
    return list(zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True))


def hear(sound: Sound, span: tuple[float, float], find: Find) -> Heard:
    """What is found in one stretch."""
    (first, last), info = span, sound.info
    begin = round(max(0.0, first - MARGIN) * info.rate)
    size = round(min(last + MARGIN, info.seconds) * info.rate - begin)
    samples = sound.read(begin, max(1, min(size, info.n_samples - begin)))
    return Heard(first, last, begin / info.rate, find(samples, info.rate), not np.any(samples))


def hear_piece(sound: Sound, start: float, seconds: float, find: Find) -> tuple[float, Stages]:
    """What annotation hears in a piece of a recording: second at which it begins, and its part of the stretch."""
    info = sound.info
    span = next(span for span in stretches(info.seconds) if start < span[1])
    span = span[0], max(span[1], min(start + seconds, info.seconds))  # a piece may lie in two stretches
    heard = hear(sound, span, find)
    picture = heard.stages.picture
    inside = (heard.begin + picture.times >= start) & (heard.begin + picture.times < start + seconds)
    if not inside.any():
        inside[np.argmin(np.abs(heard.begin + picture.times - start))] = True
    columns = slice(int(np.argmax(inside)), len(inside) - int(np.argmax(inside[::-1])))
    cut = replace(
        picture, level=picture.level[:, columns], above_noise=picture.above_noise[:, columns],
        intensity=picture.intensity[:, columns], times=picture.times[columns] + heard.begin - start,
    )  # fmt: skip
    labels = heard.stages.labels[:, columns]
    numbers = np.searchsorted(np.unique(np.append(labels, 0)), labels)  # those that are left, from 1
    return start, Stages(cut, heard.stages.mask[:, columns], numbers, heard.stages.decibels)
