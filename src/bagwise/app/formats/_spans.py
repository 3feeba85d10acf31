"""Labelled stretches of texts as JSON lines."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bagwise.app.formats.annotations import Annotations
from bagwise.app.formats.marks import FileNames, Marks, Spelling, all_files, read_number, text_lines
from bagwise.app.media.documents import document_text
from bagwise.core.exceptions import FormatError
from bagwise.io.inside import open_folder
from bagwise.io.tables import write_json_lines


def write_spans(annotations: Annotations, folder: Path) -> list[Path]:
    """``spans.jsonl``: file, start and end in characters, label, probability and the passage itself, one per line."""
    path = open_folder(folder, "spans.jsonl")
    write_json_lines(_records(annotations), path)
    return [path]


def _records(annotations: Annotations) -> Iterator[dict[str, Any]]:
    for name, rows in annotations.shown_by_file().items():
        text = document_text(annotations.folder / name)
        for row in rows:
            yield {
                "file": name,
                "start": row["start"],
                "end": row["end"],
                "label": row["label"],
                "probability": row["probability"],
                "text": text[row["start"] : row["end"]],
            }


def read_spans(path: Path, annotations: Annotations) -> Marks:
    """The labelled stretches of all texts."""
    names, labels = FileNames(annotations), Spelling(annotations.classes)
    rows = []
    for number, line in text_lines(path):
        source = f"{path}, row {number}"
        try:
            span = json.loads(line)
            name, label = span["file"], span["label"]
            place = {key: read_number(span[key], key, source) for key in ("start", "end")}
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            if isinstance(error, FormatError):
                raise
            raise FormatError(
                f"{source}: expected a JSON object with file, start, end and label ({error!r})."
            ) from error
        rows.append({"source": source, "file": names(str(name)), **place, "label": labels(str(label or ""))})
    return Marks(rows, all_files(annotations))
