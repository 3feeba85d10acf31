"""Regions of a picture: by merging, by SLIC, from a mask, from shapes; and their outlines."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from scipy import ndimage

from bagwise.app.media.rle import Rings, expand_counts, ring_counts, sample_counts
from bagwise.core.exceptions import FormatError, one_file

GRAIN = 1.0  # points, the deviation of the smoothing before SLIC
SMOOTHING = 0.8  # the same before merging
MERGED_SIDE = 512  # points of the longer side of what is merged: more take seconds and give the same regions
TOLERANCE = 1.0  # points by which an outline may be off, so that it has fewer corners
LEAST_RING = 4  # points inside of a hole or a part: smaller ones are left out


def skimage_module(module: str) -> Any:
    """A part of scikit-image, or the error that says how to get it."""
    import importlib

    try:
        return importlib.import_module(f"skimage.{module}")
    except ImportError as error:
        raise ImportError(
            f"Regions of pictures need scikit-image, which is not there ({error}); pip install 'bagwise[image]'."
        ) from error


def merged_regions(image: np.ndarray, scale: float, min_share: float) -> np.ndarray:
    """Number regions that neighbours of like colour were merged into, as long as they differ no more than within them.

    The graph-based merging of Felzenszwalb and Huttenlocher, of a copy of at most `MERGED_SIDE` points per side.

    Parameters
    ----------
    image : (height, width, 3) uint8 array
    scale : float
        How much difference a small region tolerates; larger for larger regions.
    min_share : float
        Least share of the picture; smaller regions join the neighbour that is most like them.
    """
    small = shrink(image, MERGED_SIDE)
    # a grain of one level: in drawings the rows of a gradient are each of one colour, and would never join
    grain = np.random.default_rng(0).integers(-1, 2, small.shape)
    grainy = (small + grain).clip(0, 255).astype(np.uint8)
    least = max(1, round(min_share * small.shape[0] * small.shape[1]))
    labels = skimage_module("segmentation").felzenszwalb(grainy, scale=scale, sigma=SMOOTHING, min_size=least)
    return sample_points(labels.astype(np.int32) + 1, image.shape[:2])


def shrink(image: np.ndarray, largest: int) -> np.ndarray:
    """A copy whose longer side has at most so many points, each the mean of those that it stands for."""
    from PIL import Image

    longer = max(image.shape[:2])
    if longer <= largest:
        return image
    height, width = (max(1, round(n * largest / longer)) for n in image.shape[:2])
    return np.asarray(Image.fromarray(image).resize((width, height), Image.Resampling.BOX))


def sample_points(values: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """(height, width) values of the points of another size at the same places."""
    if values.shape == tuple(shape):
        return values
    rows, columns = (
        ((np.arange(n) + 0.5) * have / n).astype(np.int64) for n, have in zip(shape, values.shape, strict=True)
    )
    return values[rows[:, None], columns[None, :]]


def slic_regions(image: np.ndarray, n_segments: int, compactness: float, seen: np.ndarray | None = None) -> np.ndarray:
    """Number patches of like colour and about equal size."""
    # smoothed first: of a grainy picture each point would go to another region, and the scraps join into one
    return skimage_module("segmentation").slic(
        image, n_segments=n_segments, compactness=compactness, sigma=GRAIN, start_label=1, channel_axis=-1, mask=seen
    )


def mask_regions(values: np.ndarray) -> np.ndarray:
    """Number the contiguous regions of equal value of a mask from 1, in order of value and then of place."""
    labels = np.zeros(values.shape, dtype=np.int32)
    n = 0
    for value in np.unique(values[values != 0]):
        found, count = ndimage.label(values == value, structure=np.ones((3, 3), dtype=bool))
        inside = found > 0
        labels[inside] = found[inside] + n
        n += count
    return labels


def shape_regions(shape: tuple[int, int], masks: Sequence[np.ndarray]) -> np.ndarray:
    """Number the regions of some (height, width) masks in their order; where they overlap, the smaller is on top."""
    labels = np.zeros(shape, dtype=np.int32)
    for i in sorted(range(len(masks)), key=lambda i: -int(masks[i].sum())):
        labels[masks[i]] = i + 1
    return labels


def grid_regions(shape: tuple[int, int], rows: int, columns: int) -> np.ndarray:
    """Number the cells of a grid, row after row."""
    row = np.minimum(np.arange(shape[0]) * rows // shape[0], rows - 1)
    column = np.minimum(np.arange(shape[1]) * columns // shape[1], columns - 1)
    return (row[:, None] * columns + column[None, :] + 1).astype(np.int32)


def large_enough(labels: np.ndarray, min_area: int) -> np.ndarray:
    """The regions of so many points, numbered again without gaps."""
    area = np.bincount(labels.ravel())
    kept = [i for i in range(1, len(area)) if area[i] >= min_area]
    numbers = np.zeros(len(area), dtype=np.int32)
    numbers[kept] = np.arange(1, len(kept) + 1)
    return numbers[labels]


def outlines(region: np.ndarray, tolerance: float = TOLERANCE, least: float = LEAST_RING) -> Rings:
    """The rings of a region, the largest first: its outer edge, those of its holes and further parts; simplified.

    The edges run between points, so that those of a rectangle are exact.
    """
    measure = skimage_module("measure")
    rings = []
    for contour in measure.find_contours(np.pad(region.astype(float), 1), 0.5):
        ring = measure.approximate_polygon(_corners(contour - 0.5), tolerance)[:-1]
        if len(ring) >= 3 and _ring_area(ring) >= least:
            rings.append(ring)
    if not rings:  # a thin region whose outline was simplified away: its box
        rows, columns = np.nonzero(region)
        top, left, bottom, right = rows.min(), columns.min(), rows.max() + 1, columns.max() + 1
        rings = [np.array([(top, left), (top, right), (bottom, right), (bottom, left)])]
    rings.sort(key=_ring_area, reverse=True)
    return [[[float(x), float(y)] for y, x in ring] for ring in rings]


def _corners(contour: np.ndarray) -> np.ndarray:
    """The corners of an edge that is given by the middles of the sides that it runs along; the first is also the last.

    Where it turns, one middle lies on a side from left to right and the next on one from top to bottom: the first
    knows the row of the corner, the other its column.
    """
    here, there = contour[:-1], contour[1:]
    turns = (here != there).all(axis=1)
    here, there = here[turns], there[turns]
    is_row = here[:, 0] == np.round(here[:, 0])
    corners = np.stack([np.where(is_row, here[:, 0], there[:, 0]), np.where(is_row, there[:, 1], here[:, 1])], axis=1)
    return np.concatenate([corners, corners[:1]])


def _ring_area(ring: np.ndarray) -> float:
    y, x = ring.T
    return 0.5 * abs(float(np.dot(x, np.roll(y, 1)) - np.dot(y, np.roll(x, 1))))


@dataclass(frozen=True)
class Shape:
    """A region of a picture in full size: polygons of x and y, or run lengths and the height and width they are of."""

    polygons: tuple[np.ndarray, ...] = ()
    counts: tuple[int, ...] = ()
    size: tuple[int, int] = (0, 0)

    @classmethod
    def read(cls, segmentation: Any) -> Shape:
        """A segmentation of COCO: lists of x, y, x, y, ..., or counts and size; the counts may be compressed."""
        if not isinstance(segmentation, dict):
            return cls(tuple(np.asarray(flat, dtype=float).reshape(-1, 2) for flat in segmentation))
        counts, (height, width) = segmentation["counts"], segmentation["size"]
        counts = expand_counts(counts) if isinstance(counts, str) else [int(count) for count in counts]
        return cls(counts=tuple(counts), size=(int(height), int(width)))

    def mask(self, shape: tuple[int, int], height: int, width: int) -> np.ndarray:
        """Whether the points of a copy of that shape are in the region, the picture being that high and wide."""
        if self.counts:
            if self.size != (height, width):
                raise ValueError(
                    f"its run lengths are those of {self.size[1]} x {self.size[0]} points, but the picture, upright, "
                    f"is {width} x {height}"
                )
            return sample_counts(self.counts, self.size, shape)
        inside = np.zeros(shape, dtype=bool)
        for polygon in self.polygons:
            counts = ring_counts([(polygon * (shape[1] / width, shape[0] / height)).tolist()], *shape)
            inside |= sample_counts(counts, shape, shape)
        return inside


def shape_file(name: str, file: str) -> Path:
    """Where the regions of a picture are: in the COCO file, or in the file of the picture if that is a folder."""
    source = Path(file)
    if not source.is_dir():
        return source
    candidates = [source / Path(name).with_suffix(".json"), source / f"{Path(name).stem}.json"]
    return next((candidate for candidate in candidates if candidate.is_file()), candidates[0])


def find_shapes(path: str | Path, name: str, file: str) -> Sequence[Shape]:
    """The regions of a picture in a COCO file, or in a folder that has a file of the picture's name with .json."""
    found = shape_file(name, file)
    own = found != Path(file)
    if not found.is_file():
        why = f"{path}: there is no {found} with its regions; put it there, or leave it out."
        raise FormatError(why if own else f"{file}: there is no such file; set coco to the path of the COCO file.")
    shapes = _read_shapes(found, found.stat().st_mtime_ns, own)
    regions = shapes[""] if own else shapes.get(name, shapes.get(Path(name).name))
    if regions is None:
        raise FormatError(f"{path}: the COCO file {file} does not name it; add it there, or leave it out.")
    return regions


@lru_cache(maxsize=4)
def _read_shapes(path: Path, changed: int, single: bool) -> dict[str, list[Shape]]:
    """The regions in a COCO file for each file name; `changed` tells versions of the file apart.

    The file of a single picture, called "" here, is a list of segmentations, or has it below ``annotations``.
    """
    what = (
        "it does not list regions with a segmentation each"
        if single
        else "it is not a COCO file with polygons or run lengths"
    )
    with one_file(path, what, "Leave it out, or save it again."):
        document = json.loads(path.read_text(encoding="utf-8"))
        if single:
            found = document["annotations"] if isinstance(document, dict) else document
            return {"": [Shape.read(region["segmentation"]) for region in found]}
        names = {image["id"]: str(image["file_name"]) for image in document["images"]}
        regions: dict[str, list[Shape]] = {name: [] for name in names.values()}
        for annotation in document["annotations"]:
            regions[names[annotation["image_id"]]].append(Shape.read(annotation["segmentation"]))
        return regions
