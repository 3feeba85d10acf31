"""A table like that of BirdNET."""

from __future__ import annotations

from pathlib import Path

from bagwise.io.annotations.annotations import Annotations, open_folder, probability_text
from bagwise.io.tables import write_csv

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
