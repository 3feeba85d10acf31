"""Labelled stretches of texts as JSON lines."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bagwise.app.formats._annotations import Annotations
from bagwise.app.formats._marks import MarkReader, Marks, text_lines
from bagwise.app.media.documents import document_text
from bagwise.core.exceptions import FormatError
from bagwise.io.files import open_folder
from bagwise.io.tables import write_json_lines

COLUMNS = ("file", "start", "end", "label", "probability")
READ = {name: name for name in COLUMNS[:4]}


def write_spans(annotations: Annotations, folder: Path) -> list[Path]:
    """``spans.jsonl``: file, start and end in characters, label, probability and the passage itself, one per line."""
    path = open_folder(folder, "spans.jsonl")
    write_json_lines(_records(annotations), path)
    return [path]


def _records(annotations: Annotations) -> Iterator[dict[str, Any]]:
    for name, rows in annotations.shown_by_file().items():
        text = document_text(annotations.folder / name)
        for row in rows:
            yield {**{key: row[key] for key in COLUMNS}, "text": text[row["start"] : row["end"]]}


def read_spans(path: Path, annotations: Annotations) -> Marks:
    """The labelled stretches of all texts."""
    reader = MarkReader(annotations)
    rows = []
    for source, line in text_lines(path):
        try:
            span = json.loads(line)
            cells = {**span, "file": str(span["file"]), "label": str(span["label"] or "")}
            rows.append(reader.mark(cells, READ, source))
        except FormatError:
            raise
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise FormatError(
                f"{source}: expected a JSON object with file, start, end and label ({error!r})."
            ) from error
    return Marks(rows, reader.files)
