"""Regions of pictures as COCO annotations and results."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bagwise.app.formats._annotations import Annotations, write_json
from bagwise.app.formats._marks import MarkReader, Marks, read_json, read_number
from bagwise.app.media.rle import compress_counts, ring_area, ring_counts, rings_of
from bagwise.core.exceptions import FormatError
from bagwise.io.files import open_folder

BOX = ("left", "top", "width", "height")


def write_coco(annotations: Annotations, folder: Path) -> list[Path]:
    """``coco.json``, a data set with annotations, and ``coco-results.json``, the same with scores, for `loadRes`."""
    images = {file["file"]: i for i, file in enumerate(annotations.files, 1)}
    categories = {name: i for i, name in enumerate(annotations.classes, 1)}
    sizes = {file["file"]: (file["height"], file["width"]) for file in annotations.files}
    regions = [
        (row, _region(row, images, categories), _segment(row, *sizes[row["file"]])) for row in annotations.shown()
    ]
    document = {
        "info": {"description": "annotated by bagwise", **annotations.about},
        "images": [
            {"id": images[file["file"]], "file_name": file["file"], "width": file["width"], "height": file["height"]}
            for file in annotations.files
        ],
        "categories": [{"id": i, "name": name} for name, i in categories.items()],
        "annotations": [
            {"id": i, **region, **segment, "iscrowd": 0} for i, (_, region, segment) in enumerate(regions, 1)
        ],
    }
    results = [
        {**region, "segmentation": segment["segmentation"], "score": 1.0 if score is None else score}
        for row, region, segment in regions
        for score in (row["probability"],)
    ]
    paths = [open_folder(folder, "coco.json"), open_folder(folder, "coco-results.json")]
    write_json(document, paths[0])
    write_json(results, paths[1])
    return paths


def _region(row: dict[str, Any], images: dict[str, int], categories: dict[str, int]) -> dict[str, Any]:
    return {
        "image_id": images[row["file"]],
        "category_id": categories[row["label"]],
        "bbox": [row[key] for key in BOX],
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
    reader = MarkReader(annotations)
    if isinstance(document, list):
        images = {i: str(file["file"]) for i, file in enumerate(annotations.files, 1)}
        categories = dict(enumerate(annotations.classes, 1))
        regions: Any = document
    else:
        try:
            images = {image["id"]: reader.file(str(image["file_name"])) for image in document["images"]}
            categories = {category["id"]: reader.label(str(category["name"])) for category in document["categories"]}
            regions = list(document["annotations"])
        except (TypeError, KeyError, AttributeError) as error:
            raise FormatError(
                f"{path}: it is no COCO data set, which holds images, categories and annotations ({error!r})."
            ) from error
    rows = []
    for i, region in enumerate(regions):
        source = f"{path}, annotation {i + 1}"
        try:
            box = dict(zip(BOX, region["bbox"], strict=True))
            name, label = images[region["image_id"]], categories[region["category_id"]]
        except (TypeError, KeyError, ValueError) as error:
            raise FormatError(
                f"{source}: expected a bbox of four numbers and the ids of a picture and a category that are listed "
                f"({error!r})."
            ) from error
        place = {key: read_number(value, "bbox", source) for key, value in box.items()}
        rows.append({"source": source, "file": name, **place, "label": label})
    return Marks(rows, frozenset(images.values()))
