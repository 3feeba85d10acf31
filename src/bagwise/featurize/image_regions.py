"""Regions of a picture: from a mask, from polygons, by SLIC; and their outlines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import ndimage

GRAIN = 1.0  # points, the deviation of the smoothing before SLIC


def _skimage(module: str) -> Any:
    import importlib

    try:
        return importlib.import_module(f"skimage.{module}")
    except ImportError as error:
        raise ImportError(
            f"Regions of pictures need scikit-image, which is not there ({error}); pip install 'bagwise[image]'."
        ) from error


def mask_regions(values: np.ndarray, min_area: int) -> np.ndarray:
    """Number the contiguous regions of equal value of a mask from 1, in order of value and then of place."""
    labels = np.zeros(values.shape, dtype=np.int32)
    n = 0
    for value in np.unique(values):
        if value == 0:
            continue
        found, count = ndimage.label(values == value, structure=np.ones((3, 3), dtype=bool))
        area = np.bincount(found.ravel(), minlength=count + 1)
        for i in range(1, count + 1):
            if area[i] >= min_area:
                n += 1
                labels[found == i] = n
    return labels


def polygon_regions(shape: tuple[int, int], regions: Sequence[Sequence[np.ndarray]], min_area: int) -> np.ndarray:
    """Number the regions given by polygons of x and y; where two overlap, the later one is on top."""
    draw = _skimage("draw")
    labels = np.zeros(shape, dtype=np.int32)
    for i, polygons in enumerate(regions):
        for polygon in polygons:
            rows, columns = draw.polygon(polygon[:, 1], polygon[:, 0], shape)
            labels[rows, columns] = i + 1
    return _renumber(labels, min_area)


def slic_regions(image: np.ndarray, n_segments: int, compactness: float, min_area: int) -> np.ndarray:
    """Number regions of like colour."""
    # smoothed first: of a grainy picture each point would go to another region, and the scraps join into one
    labels = _skimage("segmentation").slic(
        image, n_segments=n_segments, compactness=compactness, sigma=GRAIN, start_label=1, channel_axis=-1
    )
    return _renumber(labels, min_area)


def grid_regions(shape: tuple[int, int], rows: int, columns: int) -> np.ndarray:
    """Number the cells of a grid, row after row."""
    row = np.minimum(np.arange(shape[0]) * rows // shape[0], rows - 1)
    column = np.minimum(np.arange(shape[1]) * columns // shape[1], columns - 1)
    return (row[:, None] * columns + column[None, :] + 1).astype(np.int32)


def _renumber(labels: np.ndarray, min_area: int) -> np.ndarray:
    area = np.bincount(labels.ravel())
    kept = [i for i in range(1, len(area)) if area[i] >= min_area]
    numbers = np.zeros(len(area), dtype=np.int32)
    numbers[kept] = np.arange(1, len(kept) + 1)
    return numbers[labels]


def outline(region: np.ndarray, tolerance: float = 1.0) -> list[list[float]]:
    """Points x, y of the outer edge of a region (the longest one where there are several), simplified."""
    measure = _skimage("measure")
    contours = measure.find_contours(np.pad(region.astype(float), 1), 0.5)
    contour = measure.approximate_polygon(max(contours, key=len), tolerance)[:-1] - 0.5
    if len(contour) < 3:  # a thin region whose outline was simplified away: its box
        rows, columns = np.nonzero(region)
        top, left, bottom, right = rows.min(), columns.min(), rows.max() + 1, columns.max() + 1
        return [[float(x), float(y)] for x, y in ((left, top), (right, top), (right, bottom), (left, bottom))]
    height, width = region.shape
    return [[round(float(np.clip(x, 0, width)), 2), round(float(np.clip(y, 0, height)), 2)] for y, x in contour]
