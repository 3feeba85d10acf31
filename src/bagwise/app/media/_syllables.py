"""The 38 features of a syllable, as the HJA Birdsong set describes its segments."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy import ndimage

from bagwise.app.media._gradients import gradient_histograms
from bagwise.app.media.spectrogram import Spectrogram
from bagwise.nn.patch_shape import COLUMNS, LAYERS, N_FEATURES, ROWS

PROFILES = ("gini", "mean", "variance", "skewness", "kurtosis")
FEATURE_NAMES = [
    *(f"{axis}_{name}" for name in PROFILES for axis in ("freq", "time")),
    "freq_max", "time_max", "mask_mean", "mask_stddev",
    "min_freq", "max_freq", "bandwidth", "duration", "area", "perimeter", "non_compactness", "rectangularity",
    *(f"hog{i}" for i in range(16)),
]  # fmt: skip


def syllable_features(picture: Spectrogram, labels: np.ndarray) -> tuple[np.ndarray, list[dict[str, float]]]:
    """Features and boxes of the regions of a spectrogram.

    The order and the meaning are those of the HJA Birdsong set; frequencies are in kilohertz instead of rows, and
    durations in seconds, so that recordings of any rate can be compared. Area and perimeter count points of the
    spectrogram. Profiles are sums of the intensity inside the region along the other axis, scaled to sum 1; Gini is
    1 - sum p^2; the mean and the central moments are those of frequency in kilohertz, and of time as a share of the
    duration.

    Parameters
    ----------
    picture : Spectrogram
    labels : (n_frequencies, n_frames) array of int, regions numbered from 1

    Returns
    -------
    features : (n, 38) float64 array
    boxes : list of dict
        start and end in seconds, low and high in hertz: outer edges of the points.
    """
    boxes = ndimage.find_objects(labels)
    features = np.empty((len(boxes), len(FEATURE_NAMES)))
    places = region_places(picture, boxes)
    for i, (box, place) in enumerate(zip(boxes, places, strict=True)):
        mask = labels[box] == i + 1
        frequencies = picture.frequencies[box[0]]
        intensity = np.where(mask, picture.intensity[box], 0.0).astype(np.float64)
        features[i, :14] = _profile_features(intensity, mask, frequencies / 1000.0)
        features[i, 14:22] = _mask_features(mask, place)
    features[:, 22:] = gradient_histograms(picture.intensity, labels, len(boxes))
    return features, places


def region_places(picture: Spectrogram, boxes: Sequence[tuple[slice, slice]]) -> list[dict[str, float]]:
    """Start and end in seconds, low and high in hertz of each region: the outer edges of its points."""
    half, step = picture.time_step / 2, picture.frequency_step / 2
    return [
        {
            "start": float(picture.times[columns.start] - half),
            "end": float(picture.times[columns.stop - 1] + half),
            "low": float(picture.frequencies[rows.start] - step),
            "high": float(picture.frequencies[rows.stop - 1] + step),
        }
        for rows, columns in boxes
    ]


def _profile_features(intensity: np.ndarray, mask: np.ndarray, kilohertz: np.ndarray) -> np.ndarray:
    """The fourteen features of the profiles."""
    over_frequency, over_time = _as_profile(intensity.sum(axis=1)), _as_profile(intensity.sum(axis=0))
    share = (np.arange(len(over_time)) + 0.5) / len(over_time)
    by_axis = [_profile_moments(over_frequency, kilohertz), _profile_moments(over_time, share)]
    inside = intensity[mask]
    return np.array(
        [
            *np.array(by_axis).T.ravel(),
            kilohertz[over_frequency.argmax()],
            share[over_time.argmax()],
            inside.mean(),
            inside.std(),
        ]
    )


def _as_profile(sums: np.ndarray) -> np.ndarray:
    total = sums.sum()
    return sums / total if total > 0 else np.full(len(sums), 1.0 / len(sums))


def _profile_moments(profile: np.ndarray, position: np.ndarray) -> list[float]:
    mean = profile @ position
    centred = position - mean
    moments = [float(profile @ centred**k) for k in (2, 3, 4)]
    return [1.0 - float(profile @ profile), float(mean), *moments]


def _mask_features(mask: np.ndarray, place: dict[str, float]) -> list[float]:
    """The eight features of the shape."""
    area = int(mask.sum())
    perimeter = boundary_length(mask)
    return [
        place["low"] / 1000.0,
        place["high"] / 1000.0,
        (place["high"] - place["low"]) / 1000.0,
        place["end"] - place["start"],
        area,
        perimeter,
        perimeter**2 / area,
        area / mask.size,
    ]


def boundary_length(mask: np.ndarray) -> int:
    """Number of sides between a point of the region and one outside of it."""
    padded = np.pad(mask, 1)
    return int((padded[1:] != padded[:-1]).sum() + (padded[:, 1:] != padded[:, :-1]).sum())


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
        As of `bagwise.app.media._syllables.syllable_features`.
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
    # even steps of log(1 + f / BEND), as on the mel scale: linear below BEND hertz, octaves of equal height above
    bent = np.log1p(frequencies / BEND)
    first, last = np.log1p(low / BEND), np.log1p(high / BEND)
    row = np.floor((bent - first) / (last - first) * ROWS).astype(np.int64)
    return np.where((row >= 0) & (row < ROWS), row, -1)


def _loudest_rows(intensity: np.ndarray, row: np.ndarray) -> np.ndarray:
    """(rows, n_frames) loudest point of every row."""
    found = np.zeros((ROWS, intensity.shape[1]), dtype=np.float32)
    np.maximum.at(found, row, intensity)
    return found
