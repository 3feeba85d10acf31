"""A table like that of BirdNET."""

from __future__ import annotations

from pathlib import Path

from bagwise.io.annotations.annotations import Annotations, open_folder, probability_text
from bagwise.io.annotations.marks import (
    FileNames,
    Marks,
    Spelling,
    all_files,
    read_place,
    read_table,
    require_columns,
    table_headings,
)  # fmt: skip
from bagwise.io.tables import write_csv
from bagwise.io.text import defuse, undefuse

HEADINGS = ("Start (s)", "End (s)", "Scientific name", "Common name", "Confidence", "File")


def write_birdnet(annotations: Annotations, folder: Path) -> list[Path]:
    """``birdnet.csv``: every syllable with its species in both columns of names, since a label is one name."""
    path = open_folder(folder, "birdnet.csv")
    rows = [
        (row["start"], row["end"], row["label"], row["label"], probability_text(row), row["file"])
        for row in annotations.shown()
    ]
    write_csv([dict(zip(HEADINGS, row, strict=True)) for row in rows], path, HEADINGS)
    return [path]


def read_birdnet(path: Path, annotations: Annotations) -> Marks:
    """The table of all recordings; the label is the common name."""
    require_columns(path, table_headings(path), ["Start (s)", "End (s)", "Common name", "File"])
    names, labels = FileNames(annotations, defuse), Spelling(annotations.classes, defuse, undefuse)
    rows = [
        {
            "source": source,
            "file": names(cells["File"]),
            **read_place(cells, {"start": "Start (s)", "end": "End (s)"}, source),
            "label": labels(cells["Common name"]),
        }
        for source, cells in read_table(path)
    ]
    return Marks(rows, all_files(annotations))
