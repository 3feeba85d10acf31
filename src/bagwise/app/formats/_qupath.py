"""Patches of slides for QuPath: GeoJSON, a square per patch with its class."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from bagwise.app.formats._annotations import Annotations, Row
from bagwise.app.formats._marks import Mark, MarkReader, Marks, read_json
from bagwise.core.exceptions import FormatError, InputError
from bagwise.io.files import atomic_write, open_folder

PLACES = ("left", "top", "width", "height")  # in points of the full slide


def write_qupath(annotations: Annotations, folder: Path) -> list[Path]:
    """``qupath/``: a file per slide, to be dragged onto it; patches that are named, with their probability."""
    if annotations.rows and not all(key in annotations.rows[0] for key in PLACES):
        raise InputError(
            f"qupath draws patches of slides, and the table has no columns {', '.join(PLACES)} of their places; leave "
            "it out, or make the table of features of slides (.h5)."
        )
    slides: dict[str, list[Row]] = {str(row["bag"]): [] for row in annotations.rows}
    for row in annotations.shown():
        slides[str(row["bag"])].append(row)
    paths = []
    for bag, rows in slides.items():
        paths.append(open_folder(folder, f"qupath/{bag}.geojson"))
        with atomic_write(paths[-1], "w") as file:
            shapes = ",\n".join(json.dumps(_shape(row), ensure_ascii=False, allow_nan=False) for row in rows)
            file.write(f'{{"type": "FeatureCollection", "features": [\n{shapes}\n]}}\n')
    return paths


def _shape(row: Row) -> dict[str, Any]:
    left, top = float(row["left"]), float(row["top"])
    right, bottom = left + float(row["width"]), top + float(row["height"])
    ring = [[left, top], [right, top], [right, bottom], [left, bottom], [left, top]]
    probability = {} if row["probability"] is None else {"measurements": {"probability": row["probability"]}}
    return {
        "type": "Feature",
        "geometry": {"type": "Polygon", "coordinates": [ring]},
        "properties": {
            "objectType": "annotation",
            "name": f"{row['bag']}#{row['instance']}",
            "classification": {"name": row["label"]},
            **probability,
        },
    }


def read_qupath(path: Path, annotations: Annotations) -> Marks:
    """A file of QuPath, or the folder of them, by the names of the patches; other objects are left alone."""
    reader, rows = MarkReader(annotations), list[Mark]()
    for place in sorted(path.glob("*.geojson")) if path.is_dir() else [path]:
        document = read_json(place)
        shapes = document.get("features") if isinstance(document, dict) else document
        if not isinstance(shapes, list):
            raise FormatError(f"{place}: it holds no features of GeoJSON; export the objects again.")
        for i, shape in enumerate(shapes, 1):
            about = shape.get("properties") if isinstance(shape, dict) else None
            bag, mark, number = str((about or {}).get("name", "")).rpartition("#")
            if not (mark and number.isascii() and number.isdigit()):
                continue
            named = (about or {}).get("classification")
            label = reader.label(str(named.get("name", ""))) if isinstance(named, dict) else ""
            source = f"{place}, object {i}"
            rows.append({"source": source, "bag": bag, "instance": int(number[:18]), "label": label})
    return Marks(rows)
