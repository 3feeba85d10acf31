"""The 38 features of a syllable, as the HJA Birdsong set describes its segments."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy import ndimage

from bagwise.featurize.gradients import gradient_histograms
from bagwise.featurize.spectrogram import Spectrogram

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
    return np.array([
        *np.array(by_axis).T.ravel(),
        kilohertz[over_frequency.argmax()], share[over_time.argmax()], inside.mean(), inside.std(),
    ])  # fmt: skip


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
