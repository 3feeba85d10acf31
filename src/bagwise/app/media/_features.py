"""Regions of spectrograms and of pictures as numbers: what they look like, or as published data sets have them."""

from __future__ import annotations

import numpy as np
from scipy import ndimage

from bagwise.app.media._image_regions import skimage_module
from bagwise.app.media.spectrogram import Spectrogram
from bagwise.core.exceptions import InputError
from bagwise.nn.patch_shape import COLUMNS, LAYERS, N_FEATURES, ROWS


def gradient_histograms(
    image: np.ndarray, labels: np.ndarray, n_regions: int, n_bins: int = 16, least: float = 0.0
) -> np.ndarray:
    """(n_regions, n_bins) share of the gradient in each direction, by region; rows sum to 1, or to 0 without gradient.

    Gradients are Sobel's; each point counts with the size of its gradient for the direction, over the full circle,
    the first bin centred on "brighter to the right", the fifth of sixteen on "brighter in later rows". A library's
    histogram of gradients takes rectangles and half the circle only.

    Parameters
    ----------
    image : (height, width) array
    labels : (height, width) array of int
        Region of each point, from 1; 0 is outside.
    n_regions : int
    n_bins : int
    least : float
        Gradients smaller than this count nothing: they are the grain of the picture.
    """
    image = np.asarray(image, dtype=np.float32)
    right, down = ndimage.sobel(image, axis=1), ndimage.sobel(image, axis=0)
    inside = np.flatnonzero(labels)
    x, y = right.ravel()[inside], down.ravel()[inside]
    # half a bin is added so that the first bin has its middle, not its edge, at "brighter to the right"
    turn = np.arctan2(y, x) / (2 * np.pi) * n_bins
    bins = np.floor(turn + 0.5).astype(np.int64) % n_bins
    size = np.hypot(x, y)
    cell = (labels.ravel()[inside].astype(np.int64) - 1) * n_bins + bins
    histogram = np.bincount(cell, weights=np.where(size >= least, size, 0.0), minlength=n_regions * n_bins)
    histogram = histogram.reshape(n_regions, n_bins)
    total = histogram.sum(axis=1, keepdims=True)
    return histogram / np.where(total > 0, total, 1.0)


# ---------------------------------------------------------------------------------------------------------------------
# Syllables

_STATISTICS = ("gini", "mean", "variance", "skewness", "kurtosis", "max")
SYLLABLE_NAMES = [
    *(f"{axis}_{name}" for name in _STATISTICS for axis in ("freq", "time")),
    *("mask_mean", "mask_stddev", "min_freq", "max_freq", "bandwidth", "duration"),
    *("area", "perimeter", "non_compactness", "rectangularity"),
    *(f"hog{i}" for i in range(16)),
]


def region_boxes(picture: Spectrogram, labels: np.ndarray) -> np.ndarray:
    """(n, 4) start and end in seconds, low and high in hertz of each region: the outer edges of its points."""
    half, step = picture.time_step / 2, picture.frequency_step / 2
    spans = [(columns.start, columns.stop, rows.start, rows.stop) for rows, columns in ndimage.find_objects(labels)]
    start, end, low, high = np.array(spans, dtype=np.int64).reshape(-1, 4).T
    seconds, hertz = picture.times, picture.frequencies
    return np.stack([seconds[start] - half, seconds[end - 1] + half, hertz[low] - step, hertz[high - 1] + step], axis=1)


def syllable_features(picture: Spectrogram, labels: np.ndarray) -> np.ndarray:
    """(n, 38) features of the regions of a spectrogram, as the HJA Birdsong set describes its segments.

    The order and the meaning are those of that set; frequencies are in kilohertz instead of rows, and
    durations in seconds, so that recordings of any rate can be compared. Area and perimeter count points of the
    spectrogram. Profiles are sums of the intensity inside the region along the other axis, scaled to sum 1; Gini is
    1 - sum p^2; the mean and the central moments are those of frequency in kilohertz, and of time as a share of the
    duration.

    Parameters
    ----------
    picture : Spectrogram
    labels : (n_frequencies, n_frames) array of int, regions numbered from 1
    """
    boxes = region_boxes(picture, labels)
    features = np.empty((len(boxes), len(SYLLABLE_NAMES)))
    for i, (box, inside) in enumerate(zip(boxes, ndimage.find_objects(labels), strict=True)):
        start, end, low, high = box
        mask = labels[inside] == i + 1
        intensity = np.where(mask, picture.intensity[inside], 0.0).astype(np.float64)
        kilohertz, share = picture.frequencies[inside[0]] / 1000, (np.arange(mask.shape[1]) + 0.5) / mask.shape[1]
        by_axis = [_profile(intensity.sum(axis=1), kilohertz), _profile(intensity.sum(axis=0), share)]
        area, perimeter = int(mask.sum()), boundary_length(mask)
        features[i, :22] = [
            *np.array(by_axis).T.ravel(),
            *(intensity[mask].mean(), intensity[mask].std()),
            *(low / 1000, high / 1000, (high - low) / 1000, end - start),
            *(area, perimeter, perimeter**2 / area, area / mask.size),
        ]
    features[:, 22:] = gradient_histograms(picture.intensity, labels, len(boxes))
    return features


def _profile(sums: np.ndarray, position: np.ndarray) -> list[float]:
    """Gini, mean, three central moments and place of the maximum of a profile; one that is zero counts as flat."""
    total = sums.sum()
    profile = sums / total if total > 0 else np.full(len(sums), 1.0 / len(sums))
    mean = profile @ position
    moments = [profile @ (position - mean) ** k for k in (2, 3, 4)]
    return [1.0 - profile @ profile, mean, *moments, position[profile.argmax()]]


def boundary_length(mask: np.ndarray) -> int:
    """Number of sides between a point of the region and one outside of it."""
    padded = np.pad(mask, 1)
    return int((padded[1:] != padded[:-1]).sum() + (padded[:, 1:] != padded[:, :-1]).sum())


SPECTROGRAM_PATCH_NAMES = [
    f"{layer}_{row}_{column}" for layer in LAYERS for row in range(ROWS) for column in range(COLUMNS)
]
SECONDS = 0.48  # that a patch shows, the middle of the syllable in its own
TOP, OCTAVES = 12_000.0, 8.0  # hertz up to which it shows, at least; so many times the lowest one where that is higher
BEND = 700.0  # hertz above which rows grow wider with the frequency


def spectrogram_patches(picture: Spectrogram, labels: np.ndarray, low: float, high: float | None) -> np.ndarray:
    """(n, 1536) float32 patches of the regions of a spectrogram, see `SPECTROGRAM_PATCH_NAMES`.

    A patch has two layers: how loud it is, 0 to 1 as in the picture, and where the syllable itself is, 0 or 1; the
    loudest point of a row and column counts. Rows and columns are the same hertz and seconds in recordings of any rate.

    Parameters
    ----------
    picture : Spectrogram
    labels : (n_frequencies, n_frames) array of int, regions numbered from 1
    low, high : float
        Hertz that are looked at; None: up to 12 kHz, or eight times `low` where that is more.
    """
    boxes = region_boxes(picture, labels)
    found = np.zeros((len(boxes), len(LAYERS), ROWS, COLUMNS), dtype=np.float32)
    row = _row_of(picture.frequencies, low, max(TOP, OCTAVES * low) if high is None else high)
    shown = np.flatnonzero(row >= 0)
    loud = _loudest_rows(picture.intensity[shown], row[shown])
    for i, (start, end, _, _) in enumerate(boxes):
        first = 0.5 * (start + end) - 0.5 * SECONDS
        column = np.floor((picture.times - first) / SECONDS * COLUMNS).astype(np.int64)
        frames = np.flatnonzero((column >= 0) & (column < COLUMNS))
        np.maximum.at(found[i, 0].T, column[frames], loud[:, frames].T)
        own = labels[np.ix_(shown, frames)] == i + 1
        r, c = np.nonzero(own)
        found[i, 1, row[shown][r], column[frames][c]] = 1.0
    return found.reshape(len(boxes), N_FEATURES)


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


# ---------------------------------------------------------------------------------------------------------------------
# Regions of pictures

# The 32 colours by which regions of pictures are described. The colour histograms of MSRC v2 count, for each of 32
# colours, the points that are nearest to it. The list was not published; this one was recovered by least squares from
# the published histograms and the pictures of 40 of its bags. Fitted on half of these pictures, distances of histograms
# in the other half correlate with the published ones by 0.96; uniform bins reach 0.78. Some of the colours lie outside
# of what can be shown: only the borders between them matter.
N_COLOURS = 32
PALETTE = [
    (282, -119, -40),
    (-165, 167, 105),
    (229, 205, -213),
    (-5, -38, 375),
    (-20, -174, 172),
    (-101, 117, 391),
    (-119, 12, -47),
    (340, -101, 175),
    (-79, 78, 382),
    (79, -37, 385),
    (-103, 188, 357),
    (82, 502, 25),
    (473, 248, 311),
    (376, -40, -35),
    (44, 403, 294),
    (245, 366, -176),
    (305, -109, 51),
    (-156, 18, 62),
    (267, -136, 76),
    (299, -111, 333),
    (15, -11, 379),
    (4, 389, -87),
    (396, -84, -16),
    (-104, 115, -89),
    (-83, 266, -78),
    (-160, 291, 269),
    (174, 429, 330),
    (-119, -7, -45),
    (119, 401, 359),
    (251, 421, 351),
    (-116, 44, -50),
    (322, -105, 102),
]
_CHUNK = 65_536
N_PATTERNS = 10  # uniform local binary patterns of eight neighbours, and all others
_NEIGHBOURS = N_PATTERNS - 2
APPEARANCE_NAMES = [
    *("x", "y", "spread_x", "spread_y", "size"),
    *(f"{channel}{what}" for what in ("", "_deviation") for channel in ("lightness", "green_red", "blue_yellow")),
    *(f"pattern{i}" for i in range(N_PATTERNS)),
]
HISTOGRAM_NAMES = [*(f"hog{i}" for i in range(16)), *(f"color{i}" for i in range(N_COLOURS))]
PATCH_NAMES = [f"{part}_{c}" for part in ("blob", "left", "up", "right", "down") for c in ("red", "green", "blue")]
LEAST_GRADIENT = 70.0  # of Sobel's, grey from 0 to 255; regions of MSRC v2 that have none above it are all zero there
GREY = np.array([0.299, 0.587, 0.114])
_GRID = 8  # side of the shrunken picture of the SBN form
_CORNERS = (2, 3, 4)  # corners of its 2 x 2 blobs that have room for neighbours on all sides


def appearance_features(image: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """(n, 21) place, size, colour and texture of each region.

    Mean and deviation of the place, in shares of width and height, and the root of the share of the picture; mean and
    deviation of the colours in Lab; roots of the shares of local binary patterns (uniform, the eight neighbours).
    """
    n, (height, width) = int(labels.max(initial=0)), labels.shape
    rows, columns = np.nonzero(labels)
    region = labels[rows, columns].astype(np.int64) - 1
    area = np.maximum(np.bincount(region, minlength=n), 1)
    place = _moments(np.stack([(columns + 0.5) / width, (rows + 0.5) / height], axis=1), region, area)
    size = np.sqrt(area / labels.size)[:, None]
    lab = skimage_module("color").rgb2lab(image)[rows, columns]
    grey = np.round(image @ GREY).astype(np.uint8)
    pattern = skimage_module("feature").local_binary_pattern(grey, _NEIGHBOURS, 1, "uniform")[rows, columns]
    shares = np.bincount(region * N_PATTERNS + pattern.astype(np.int64), minlength=n * N_PATTERNS)
    shares = shares.reshape(n, N_PATTERNS)
    # roots, since rare patterns tell as much as frequent ones
    return np.hstack([*place, size, *_moments(lab, region, area), np.sqrt(shares / area[:, None])])


def _moments(values: np.ndarray, region: np.ndarray, area: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and deviation of (m, k) values in each region."""

    def mean(of: np.ndarray) -> np.ndarray:
        return np.stack([np.bincount(region, column, len(area)) for column in of.T], axis=1) / area[:, None]

    middle = mean(values)
    return middle, np.sqrt(mean(np.square(values - middle[region])))


def region_histograms(image: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """(n, 48) histogram of gradients and of colours of each region, as MSRC v2 and VOC have them.

    16 directions of the gradient of the grey picture, counter-clockwise from "brighter to the right", and 32 colours;
    each block sums to 1, that of the gradients to 0 where the region is smooth.
    """
    n = int(labels.max(initial=0))
    gradients = gradient_histograms((image @ GREY)[::-1], labels[::-1], n, least=LEAST_GRADIENT)
    inside = labels > 0
    cell = (labels[inside].astype(np.int64) - 1) * N_COLOURS + nearest_colour(image[inside])
    colours = np.bincount(cell, minlength=n * N_COLOURS).reshape(n, N_COLOURS)
    return np.hstack([gradients, colours / np.maximum(colours.sum(axis=1, keepdims=True), 1)])


def patch_features(image: np.ndarray) -> np.ndarray:
    """(9, 15) single blobs with neighbours (SBN), as the Scene set has them.

    The picture is averaged down to 8 x 8; a blob is 2 x 2 of these. Each of the nine blobs that have neighbours on all
    sides gives its mean colour and the differences to it of the blobs left of, above, right of and below it.
    """
    rows = np.linspace(0, image.shape[0], _GRID + 1).astype(int)
    columns = np.linspace(0, image.shape[1], _GRID + 1).astype(int)
    if min(image.shape[:2]) < _GRID:
        raise InputError(f"The picture is {image.shape[1]} x {image.shape[0]} points; patches need 8 x 8 or more.")
    sums = np.add.reduceat(np.add.reduceat(image.astype(float), rows[:-1], axis=0), columns[:-1], axis=1)
    small = sums / (np.diff(rows)[:, None] * np.diff(columns)[None, :])[..., None]

    def blob(row: int, column: int) -> np.ndarray:
        return small[row : row + 2, column : column + 2].mean(axis=(0, 1))

    return np.array(
        [
            np.concatenate(
                [blob(r, c), *(blob(r + i, c + j) - blob(r, c) for i, j in ((0, -2), (-2, 0), (0, 2), (2, 0)))]
            )
            for r in _CORNERS
            for c in _CORNERS
        ]
    )


def nearest_colour(colours: np.ndarray) -> np.ndarray:
    """(n,) number of the colour of the palette for (n, 3) colours of 0 to 255."""
    palette = np.array(PALETTE, dtype=np.float64)
    lengths = np.square(palette).sum(axis=1)
    parts = [
        (lengths - 2.0 * (colours[i : i + _CHUNK].astype(np.float64) @ palette.T)).argmin(axis=1)
        for i in range(0, len(colours), _CHUNK)
    ]
    return np.concatenate(parts) if parts else np.empty(0, dtype=np.int64)
