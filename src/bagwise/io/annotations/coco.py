"""Regions of pictures as COCO annotations and results."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bagwise.io.annotations.annotations import Annotations, open_folder, write_json


def write_coco(annotations: Annotations, folder: Path) -> list[Path]:
    """``coco.json``, a data set with annotations, and ``coco-results.json``, the same with scores, for `loadRes`."""
    images = {file["file"]: i + 1 for i, file in enumerate(annotations.files)}
    categories = {name: i + 1 for i, name in enumerate(annotations.classes)}
    rows = annotations.shown()
    document = {
        "info": {"description": "annotated by bagwise", **annotations.about},
        "images": [
            {"id": images[file["file"]], "file_name": file["file"], "width": file["width"], "height": file["height"]}
            for file in annotations.files
        ],
        "categories": [{"id": i, "name": name} for name, i in categories.items()],
        "annotations": [
            {"id": i + 1, **_region(row, images, categories), "area": row["area"], "iscrowd": 0}
            for i, row in enumerate(rows)
        ],
    }
    results = [
        {**_region(row, images, categories), "score": 1.0 if row["probability"] is None else row["probability"]}
        for row in rows
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
        "segmentation": [[coordinate for point in row["polygon"] for coordinate in point]],
    }
