"""The sixteen numbers by which Frey and Slate (1991) described the image of a letter."""

from __future__ import annotations

from typing import Any

import numpy as np

from bagwise.exceptions import InputError

# Name of each feature, and the two measured values that become 0 and 15. The limits are fixed, so that the
# features of an image do not depend on which other images are measured with it.
FEATURE_RANGES = {
    "x-box": (0.15, 0.85),
    "y-box": (0.15, 0.85),
    "width": (0.05, 0.95),
    "high": (0.2, 0.95),
    "onpix": (0.0, 0.35),
    "x-bar": (-0.2, 0.2),
    "y-bar": (-0.15, 0.15),
    "x2bar": (0.02, 0.13),
    "y2bar": (0.05, 0.13),
    "xybar": (-0.06, 0.06),
    "x2ybr": (-0.016, 0.016),
    "xy2br": (-0.016, 0.016),
    "x-ege": (1.0, 3.25),
    "xegvy": (-0.15, 0.15),
    "y-ege": (1.0, 2.75),
    "yegvx": (-0.15, 0.15),
}
FEATURE_NAMES = list(FEATURE_RANGES)
N_LEVELS = 16
CHUNK = 4096  # images measured at once: some 70 MB of workspace at 45 x 45


def letter_features(images: Any) -> np.ndarray:
    """Measure binary images of letters, as the UCI Letter Recognition data were made.

    Parameters
    ----------
    images : (m, height, width) array of bool or 0/1
        Row 0 is the top. Every image has at least one pixel that is on.

    Returns
    -------
    (m, 16) float64 array
        Whole numbers 0 to 15, in the order of Frey and Slate:

        - x-box, y-box, width, high: centre (from the left, from below) and size of the letter's box;
        - onpix: number of pixels that are on;
        - x-bar, y-bar, x2bar, y2bar, xybar, x2ybr, xy2br: means of x, y, x^2, y^2, xy, x^2 y and x y^2 over
          the pixels that are on; x is the distance from the box centre to the right as a share of the box's
          width, y that upwards as a share of its height;
        - x-ege, xegvy: number of left edges, and sum of their y, per row of the box; a left edge is a pixel
          that is on while its left neighbour is off or beyond the image;
        - y-ege, yegvx: number of lower edges, and sum of their x, per column of the box.

    References
    ----------
    P. W. Frey and D. J. Slate, "Letter recognition using Holland-style adaptive classifiers", Machine
    Learning 6, 1991.

    Examples
    --------
    >>> import numpy as np
    >>> from bagwise.datasets import letter_features
    >>> square = np.zeros((1, 45, 45), dtype=bool)
    >>> square[0, 15:30, 15:30] = True
    >>> letter_features(square)[0, :5].tolist()
    [8.0, 8.0, 5.0, 3.0, 5.0]
    """
    measured = measure_letters(images)
    low, high = np.array(list(FEATURE_RANGES.values())).T
    scaled = (N_LEVELS - 1) * (measured - low) / (high - low)
    return np.clip(np.floor(scaled + 0.5), 0, N_LEVELS - 1)


def measure_letters(images: Any) -> np.ndarray:
    """The sixteen features before they are scaled; positions, sizes and onpix as shares of the image.

    Parameters
    ----------
    images : (m, height, width) array of bool or 0/1

    Returns
    -------
    (m, 16) float64 array
    """
    images = _as_binary(images)
    chunks = [_measure(images[start : start + CHUNK]) for start in range(0, len(images), CHUNK)]
    return np.concatenate(chunks) if chunks else np.empty((0, len(FEATURE_NAMES)))


def _as_binary(images: Any) -> np.ndarray:
    images = np.asarray(images)
    if images.ndim != 3 or 0 in images.shape[1:]:
        raise InputError(f"images have shape {images.shape}; expected (n_images, height, width).")
    if images.dtype != bool:
        if not np.issubdtype(images.dtype, np.number) or not np.all((images == 0) | (images == 1)):
            raise InputError("images hold values other than 0 and 1; threshold them first, as in `images > 0.5`.")
        images = images.astype(bool)
    blank = np.flatnonzero(~images.any(axis=(1, 2)))
    if len(blank):
        raise InputError(
            f"Image {blank[0]} is blank, {len(blank)} such image(s) in all; leave out what shows no letter."
        )
    return images


def _measure(on: np.ndarray) -> np.ndarray:
    _, height, width = on.shape
    left, box_width = _extent(np.asarray(on.any(axis=1)))
    top, box_height = _extent(np.asarray(on.any(axis=2)))
    # Twice the distances from the box centre are whole numbers: all sums below are exact, in whatever order a
    # library adds, and so no letter falls on another side of a rounding limit on another machine.
    x = (2 * np.arange(width) + 1 - (2 * left + box_width)[:, None]).astype(np.float64)
    y = ((2 * top + box_height)[:, None] - 2 * np.arange(height) - 1).astype(np.float64)
    unit_x, unit_y = 2.0 * box_width, 2.0 * box_height

    pixels = on.astype(np.float64)
    in_row, in_column = pixels.sum(axis=2), pixels.sum(axis=1)
    n_on = in_row.sum(axis=1)
    x_in_row = (pixels @ x[:, :, None])[:, :, 0]
    x2_in_row = (pixels @ (x**2)[:, :, None])[:, :, 0]
    left_edges, lower_edges = _edges(on)

    columns = [
        (left + box_width / 2) / width,
        1 - (top + box_height / 2) / height,
        box_width / width,
        box_height / height,
        n_on / (height * width),
        (in_column * x).sum(axis=1) / (n_on * unit_x),
        (in_row * y).sum(axis=1) / (n_on * unit_y),
        (in_column * x**2).sum(axis=1) / (n_on * unit_x**2),
        (in_row * y**2).sum(axis=1) / (n_on * unit_y**2),
        (x_in_row * y).sum(axis=1) / (n_on * unit_x * unit_y),
        (x2_in_row * y).sum(axis=1) / (n_on * unit_x**2 * unit_y),
        (x_in_row * y**2).sum(axis=1) / (n_on * unit_x * unit_y**2),
        left_edges.sum(axis=1) / box_height,
        (left_edges * y).sum(axis=1) / (box_height * unit_y),
        lower_edges.sum(axis=1) / box_width,
        (lower_edges * x).sum(axis=1) / (box_width * unit_x),
    ]
    return np.column_stack(columns)


def _edges(on: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Number of left edges (m, height) in each row and of lower edges (m, width) in each column."""
    left_neighbour = np.zeros_like(on)
    left_neighbour[:, :, 1:] = on[:, :, :-1]
    lower_neighbour = np.zeros_like(on)
    lower_neighbour[:, :-1] = on[:, 1:]
    return (on & ~left_neighbour).sum(axis=2), (on & ~lower_neighbour).sum(axis=1)


def _extent(occupied: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """First occupied position in each row of `occupied`, and how many lie from there to the last."""
    first = occupied.argmax(axis=1)
    last = occupied.shape[1] - 1 - occupied[:, ::-1].argmax(axis=1)
    return first, last - first + 1
