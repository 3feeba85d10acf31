"""Regions of pictures as COCO annotations and results."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bagwise.app.formats.annotations import Annotations, write_json
from bagwise.app.formats.marks import FileNames, Marks, Spelling, read_json, read_number
from bagwise.app.media.rle import compress_counts, ring_area, ring_counts, rings_of
from bagwise.core.exceptions import FormatError
from bagwise.io.inside import open_folder


def write_coco(annotations: Annotations, folder: Path) -> list[Path]:
    """``coco.json``, a data set with annotations, and ``coco-results.json``, the same with scores, for `loadRes`."""
    images = {file["file"]: i + 1 for i, file in enumerate(annotations.files)}
    categories = {name: i + 1 for i, name in enumerate(annotations.classes)}
    sizes = {file["file"]: (file["height"], file["width"]) for file in annotations.files}
    rows = annotations.shown()
    segments = [_segment(row, *sizes[row["file"]]) for row in rows]
    document = {
        "info": {"description": "annotated by bagwise", **annotations.about},
        "images": [
            {"id": images[file["file"]], "file_name": file["file"], "width": file["width"], "height": file["height"]}
            for file in annotations.files
        ],
        "categories": [{"id": i, "name": name} for name, i in categories.items()],
        "annotations": [
            {"id": i + 1, **_region(row, images, categories), **segment, "iscrowd": 0}
            for i, (row, segment) in enumerate(zip(rows, segments, strict=True))
        ],
    }
    results: list[dict[str, Any]] = [
        {
            **_region(row, images, categories),
            "segmentation": segment["segmentation"],
            "score": 1.0 if row["probability"] is None else row["probability"],
        }
        for row, segment in zip(rows, segments, strict=True)
    ]
    paths = [open_folder(folder, "coco.json"), open_folder(folder, "coco-results.json")]
    write_json(document, paths[0])
    write_json(results, paths[1])
    return paths


def _region(row: dict[str, Any], images: dict[str, int], categories: dict[str, int]) -> dict[str, Any]:
    return {
        "image_id": images[row["file"]],
        "category_id": categories[row["label"]],
        "bbox": [row["left"], row["top"], row["width"], row["height"]],
    }


def _segment(row: dict[str, Any], height: int, width: int) -> dict[str, Any]:
    """Segmentation and area: a polygon where one is all, else run lengths, since polygons of COCO have no holes."""
    rings = rings_of(row)
    area = ring_area(rings, height, width)
    if len(rings) == 1:
        return {"segmentation": [[coordinate for point in rings[0] for coordinate in point]], "area": area}
    counts = compress_counts(ring_counts(rings, height, width))
    return {"segmentation": {"size": [height, width], "counts": counts}, "area": area}


def read_coco(path: Path, annotations: Annotations) -> Marks:
    """A data set with annotations; or results, whose numbers of pictures and categories are those of ``coco.json``."""
    document = read_json(path)
    names, labels = FileNames(annotations), Spelling(annotations.classes)
    if isinstance(document, list):
        images = {i + 1: str(file["file"]) for i, file in enumerate(annotations.files)}
        categories = {i + 1: name for i, name in enumerate(annotations.classes)}
        regions: Any = document
    else:
        try:
            images = {image["id"]: names(str(image["file_name"])) for image in document["images"]}
            categories = {category["id"]: labels(str(category["name"])) for category in document["categories"]}
            regions = list(document["annotations"])
        except (TypeError, KeyError, AttributeError) as error:
            raise FormatError(
                f"{path}: it is no COCO data set, which holds images, categories and annotations ({error!r})."
            ) from error
    rows = []
    for i, region in enumerate(regions):
        source = f"{path}, annotation {i + 1}"
        try:
            left, top, width, height = region["bbox"]
            name, label = images[region["image_id"]], categories[region["category_id"]]
        except (TypeError, KeyError, ValueError) as error:
            raise FormatError(
                f"{source}: expected a bbox of four numbers and the ids of a picture and a category that are listed "
                f"({error!r})."
            ) from error
        box = dict(zip(("left", "top", "width", "height"), (left, top, width, height), strict=True))
        place = {key: read_number(value, "bbox", source) for key, value in box.items()}
        rows.append({"source": source, "file": name, **place, "label": label})
    return Marks(rows, frozenset(images.values()))
