"""Predictions for Label Studio, and the labelling interface that shows them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.sax.saxutils import quoteattr

from bagwise.io.annotations.annotations import Annotations, open_folder, write_json
from bagwise.io.files import atomic_write
from bagwise.io.text import read_text

# For each medium: key of the data, kind of the result, tag and attributes of the object, tag of the labels.
INTERFACES = {
    "audio": ("audio", "labels", "Audio", "Labels"),
    "image": ("image", "polygonlabels", "Image", "PolygonLabels"),
    "text": ("text", "labels", "Text", "Labels"),
    "series": ("csv", "timeserieslabels", "TimeSeries", "TimeSeriesLabels"),
}


def write_label_studio(annotations: Annotations, folder: Path) -> list[Path]:
    """``label-studio.json``, tasks with predictions to import, and ``label-studio.xml``, the interface of the project.

    Files are named relative to the folder that was annotated; texts are in the tasks themselves.
    """
    paths = [open_folder(folder, "label-studio.json"), open_folder(folder, "label-studio.xml")]
    rows = annotations.shown_by_file()
    tasks = [_task(annotations, file, rows[file["file"]], i + 1) for i, file in enumerate(annotations.files)]
    write_json(tasks, paths[0])
    with atomic_write(paths[1], "w") as file:
        file.write(_interface(annotations))
    return paths


def _task(annotations: Annotations, file: dict[str, Any], rows: list[dict[str, Any]], number: int) -> dict[str, Any]:
    key, kind, *_ = INTERFACES[annotations.medium]
    text = read_text(annotations.folder / file["file"]) if annotations.medium == "text" else ""
    value = VALUES[annotations.medium]
    results = []
    for i, row in enumerate(rows):
        result: dict[str, Any] = {
            "id": f"{number}-{i + 1}",
            "from_name": "label",
            "to_name": key,
            "type": kind,
            "value": {**value(row, file, text), kind: [row["label"]]},
        }
        if row["probability"] is not None:
            result["score"] = row["probability"]
        if annotations.medium == "image":
            result |= {"original_width": file["width"], "original_height": file["height"], "image_rotation": 0}
        if annotations.medium == "audio":
            result |= {"original_length": file["seconds"], "meta": {"text": [f"{row['low']:g} to {row['high']:g} Hz"]}}
        results.append(result)
    known = [row["probability"] for row in rows if row["probability"] is not None]
    prediction = {
        "model_version": f"{annotations.about.get('model', '')} bagwise {annotations.about.get('version', '')}".strip(),
        "score": min(known) if known else 0.0,  # tasks sorted by score then begin with the least sure
        "result": results,
    }
    return {"data": {key: text if annotations.medium == "text" else file["file"]}, "predictions": [prediction]}


def _sound_value(row: dict[str, Any], file: dict[str, Any], text: str) -> dict[str, Any]:
    return {"start": row["start"], "end": row["end"], "channel": 0}


def _image_value(row: dict[str, Any], file: dict[str, Any], text: str) -> dict[str, Any]:
    """Label Studio counts points in percent of the picture."""
    points = [[round(100 * x / file["width"], 4), round(100 * y / file["height"], 4)] for x, y in row["polygon"]]
    return {"points": points, "closed": True}


def _text_value(row: dict[str, Any], file: dict[str, Any], text: str) -> dict[str, Any]:
    return {"start": row["start"], "end": row["end"], "text": text[row["start"] : row["end"]]}


def _series_value(row: dict[str, Any], file: dict[str, Any], text: str) -> dict[str, Any]:
    return {"start": row["start"], "end": row["end"], "instant": False}


VALUES: dict[str, Callable[[dict[str, Any], dict[str, Any], str], dict[str, Any]]] = {
    "audio": _sound_value,
    "image": _image_value,
    "text": _text_value,
    "series": _series_value,
}


def _interface(annotations: Annotations) -> str:
    key, _, tag, labels = INTERFACES[annotations.medium]
    lines = ["<View>", f'  <{labels} name="label" toName="{key}">']
    lines += [f"    <Label value={quoteattr(name)}/>" for name in annotations.classes]
    lines.append(f"  </{labels}>")
    if annotations.medium == "series":
        lines += _series_interface(key, annotations.files[0])
    else:
        lines.append(f'  <{tag} name="{key}" value="${key}"/>')
    return "\n".join([*lines, "</View>"]) + "\n"


def _series_interface(key: str, file: dict[str, Any]) -> list[str]:
    clock = f" timeColumn={quoteattr(file['clock'])}" if file["clock"] else ""
    channels = [f"    <Channel column={quoteattr(name)}/>" for name in file["channels"]]
    return [f'  <TimeSeries name="{key}" valueType="url" value="${key}"{clock}>', *channels, "  </TimeSeries>"]
