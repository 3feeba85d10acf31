"""Regions that were found elsewhere: polygons and run lengths of COCO files, and of those that SAM writes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from bagwise.exceptions import FormatError
from bagwise.featurize.files import unreadable
from bagwise.io.annotations.rle import expand_counts, ring_counts, sample_counts


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
    beside = [source / Path(name).with_suffix(".json"), source / f"{Path(name).stem}.json"]
    return next((candidate for candidate in beside if candidate.is_file()), beside[0])


def find_shapes(path: str | Path, name: str, file: str) -> Sequence[Shape]:
    """The regions of a picture in a COCO file, or in a folder that has a file of the picture's name with .json."""
    found = shape_file(name, file)
    if found != Path(file):
        if not found.is_file():
            raise FormatError(f"{path}: there is no {found} with its regions; put it there, or leave it out.")
        return _read_one(found)
    shapes = _read_all(file, found.stat().st_mtime_ns if found.exists() else 0)
    regions = shapes.get(name, shapes.get(Path(name).name))
    if regions is None:
        raise FormatError(f"{path}: the COCO file {file} does not name it; add it there, or leave it out.")
    return regions


@lru_cache(maxsize=4)
def _read_all(path: str, changed: int) -> dict[str, list[Shape]]:
    """For each file name its regions; `changed` tells versions of the file apart."""
    document = _read_json(path)
    try:
        names = {image["id"]: str(image["file_name"]) for image in document["images"]}
        regions: dict[str, list[Shape]] = {name: [] for name in names.values()}
        for annotation in document["annotations"]:
            regions[names[annotation["image_id"]]].append(Shape.read(annotation["segmentation"]))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise unreadable(path, "it is not a COCO file with polygons or run lengths", repr(error)) from error
    return regions


def _read_one(path: Path) -> list[Shape]:
    """The regions of one picture: a list of segmentations, or the same below ``annotations``."""
    document = _read_json(path)
    try:
        found = document["annotations"] if isinstance(document, dict) else document
        return [Shape.read(region["segmentation"]) for region in found]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise unreadable(path, "it does not list regions with a segmentation each", repr(error)) from error


def _read_json(path: str | Path) -> Any:
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise FormatError(f"{path}: there is no such file; set coco to the path of the COCO file.") from None
    except (OSError, ValueError) as error:
        raise unreadable(path, "it is not a COCO file", repr(error)) from error
