"""The patch of the spectrogram around each syllable, for a network that finds its own features."""

from __future__ import annotations

import numpy as np
from scipy import ndimage

from bagwise.featurize.spectrogram import Spectrogram
from bagwise.featurize.syllables import region_places
from bagwise.nn.patch_shape import COLUMNS, LAYERS, N_FEATURES, ROWS

PATCH_NAMES = [f"{layer}_{row}_{column}" for layer in LAYERS for row in range(ROWS) for column in range(COLUMNS)]
SECONDS = 0.48  # that a patch shows, the middle of the syllable in its own
TOP, OCTAVES = 12_000.0, 8.0  # hertz up to which it shows, at least; so many times the lowest one where that is higher
BEND = 700.0  # hertz above which rows grow wider with the frequency


def patch_features(
    picture: Spectrogram, labels: np.ndarray, low: float, high: float | None
) -> tuple[np.ndarray, list[dict[str, float]]]:
    """Patches and boxes of the regions of a spectrogram.

    A patch has two layers: how loud it is, 0 to 1 as in the picture, and where the syllable itself is, 0 or 1; the
    loudest point of a row and column counts. Rows and columns are the same hertz and seconds in recordings of any rate.

    Parameters
    ----------
    picture : Spectrogram
    labels : (n_frequencies, n_frames) array of int, regions numbered from 1
    low, high : float
        Hertz that are looked at; None: up to 12 kHz, or eight times `low` where that is more.

    Returns
    -------
    features : (n, 1536) float32 array
        See `PATCH_NAMES`.
    boxes : list of dict
        As of `bagwise.featurize.syllables.syllable_features`.
    """
    boxes = ndimage.find_objects(labels)
    places = region_places(picture, boxes)
    found = np.zeros((len(boxes), len(LAYERS), ROWS, COLUMNS), dtype=np.float32)
    row = _row_of(picture.frequencies, low, max(TOP, OCTAVES * low) if high is None else high)
    shown = np.flatnonzero(row >= 0)
    loud = _loudest_rows(picture.intensity[shown], row[shown])
    for i, place in enumerate(places):
        first = 0.5 * (place["start"] + place["end"]) - 0.5 * SECONDS
        column = np.floor((picture.times - first) / SECONDS * COLUMNS).astype(np.int64)
        frames = np.flatnonzero((column >= 0) & (column < COLUMNS))
        np.maximum.at(found[i, 0].T, column[frames], loud[:, frames].T)
        own = labels[np.ix_(shown, frames)] == i + 1
        r, c = np.nonzero(own)
        found[i, 1, row[shown][r], column[frames][c]] = 1.0
    return found.reshape(len(boxes), N_FEATURES), places


def _row_of(frequencies: np.ndarray, low: float, high: float) -> np.ndarray:
    """(n,) row of the patch in which each frequency lies, -1 outside of it."""
    bent = np.log1p(frequencies / BEND)
    first, last = np.log1p(low / BEND), np.log1p(high / BEND)
    row = np.floor((bent - first) / (last - first) * ROWS).astype(np.int64)
    return np.where((row >= 0) & (row < ROWS), row, -1)


def _loudest_rows(intensity: np.ndarray, row: np.ndarray) -> np.ndarray:
    """(rows, n_frames) loudest point of every row."""
    found = np.zeros((ROWS, intensity.shape[1]), dtype=np.float32)
    np.maximum.at(found, row, intensity)
    return found
