"""Labelled stretches of texts as JSON lines."""

from __future__ import annotations

from pathlib import Path

from bagwise.io.annotations.annotations import Annotations, open_folder
from bagwise.io.tables import write_json_lines
from bagwise.io.text import read_text


def write_spans(annotations: Annotations, folder: Path) -> list[Path]:
    """``spans.jsonl``: file, start and end in characters, label, probability and the passage itself, one a line."""
    path = open_folder(folder, "spans.jsonl")
    records = []
    for name, rows in annotations.shown_by_file().items():
        text = read_text(annotations.folder / name)
        records += [
            {
                "file": name, "start": row["start"], "end": row["end"], "label": row["label"],
                "probability": row["probability"], "text": text[row["start"] : row["end"]],
            }
            for row in rows
        ]  # fmt: skip
    write_json_lines(records, path)
    return [path]
