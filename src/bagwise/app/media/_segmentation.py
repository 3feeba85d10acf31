"""Connected regions of a spectrogram that stand out of the noise."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import ndimage

from bagwise.app.media.spectrogram import Spectrogram

_FAR_BELOW = 25.0  # decibels under the noise that no noise reaches
_CONNECTED = np.ones((3, 3), dtype=bool)


@dataclass(frozen=True)
class Stages:
    """Every stage of one piece: spectrogram, mask of sound, numbered regions, threshold in decibels."""

    picture: Spectrogram
    mask: np.ndarray
    labels: np.ndarray
    decibels: float


def threshold_of(above_noise: np.ndarray, strength: float, least: float) -> float:
    """Decibels over the noise at which sound begins in this piece.

    The spread of the noise is read from the quieter half of the points, which hold no sound: a Gaussian has 34.1 % of
    its mass between the median and one deviation below it.
    """
    flat = above_noise.ravel()
    sample = flat[:: max(1, flat.size // 65536)]  # a quantile of 65,536 points is sharp enough
    sample = sample[sample > -_FAR_BELOW]  # digital silence says nothing about the noise
    if sample.size == 0:
        return least
    below, median = np.quantile(sample, [0.159, 0.5])
    return max(float(median + strength * (median - below)), least)


def foreground(
    above_noise: np.ndarray, *, threshold: float = 4.0, least: float = 6.0, grow: float = 0.5
) -> tuple[np.ndarray, float]:
    """Points that belong to sound: those above the threshold and, joined to them, those above `grow` times of it.

    Parameters
    ----------
    above_noise : (n_frequencies, n_frames) array
        Decibels over the noise.
    threshold : float
        In deviations of the noise.
    least : float
        The threshold is never below this many decibels.
    grow : float
        Share of the threshold down to which a region is followed; 1 follows none.

    Returns
    -------
    mask : array of bool
    decibels : float
        The threshold found.
    """
    decibels = threshold_of(above_noise, threshold, least)
    weak = above_noise > grow * decibels
    labels, n = ndimage.label(weak, structure=_CONNECTED)
    strong = np.zeros(n + 1, dtype=bool)
    strong[labels[above_noise > decibels]] = True
    strong[0] = False
    return strong[labels], decibels


def segment(mask: np.ndarray, *, close: int = 3, thin: int = 2, min_area: int = 60, min_frames: int = 3) -> np.ndarray:
    """Number the regions of a mask, from left to right.

    Gaps of up to `close` frames are bridged, bridges and specks thinner than `thin` points are cut, and regions of
    fewer points or frames than the least are dropped.

    Returns
    -------
    labels : (n_frequencies, n_frames) int32 array, 0 outside of regions
    """
    if close > 0:
        line = np.ones((1, close + 1), dtype=bool)
        padded = np.pad(mask, ((0, 0), (close + 1, close + 1)))
        mask = ndimage.binary_closing(padded, line)[:, close + 1 : -close - 1]
    if thin > 1:
        mask = ndimage.binary_opening(mask, np.ones((thin, thin), dtype=bool))
    labels, n = ndimage.label(mask, structure=_CONNECTED)
    if n == 0:
        return labels.astype(np.int32)
    area = np.bincount(labels.ravel(), minlength=n + 1)
    boxes = ndimage.find_objects(labels)
    first = np.array([box[1].start for box in boxes])
    frames = np.array([box[1].stop - box[1].start for box in boxes])
    kept = np.flatnonzero((area[1:] >= min_area) & (frames >= min_frames))
    kept = kept[np.argsort(first[kept], kind="stable")]
    numbers = np.zeros(n + 1, dtype=np.int32)
    numbers[kept + 1] = np.arange(1, len(kept) + 1)
    return numbers[labels]
