"""Histograms of gradients of the regions of a picture."""

from __future__ import annotations

import numpy as np
from scipy import ndimage


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
