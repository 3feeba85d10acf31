"""A table like that of BirdNET."""

from __future__ import annotations

from pathlib import Path

from bagwise.app.formats.annotations import Annotations, probability_text
from bagwise.app.formats.marks import (
    FileNames,
    Mark,
    Marks,
    Spelling,
    all_files,
    find_tables,
    read_confidence,
    read_place,
    read_table,
    require_columns,
)
from bagwise.io.inside import open_folder
from bagwise.io.tables import write_csv
from bagwise.io.text import defuse, undefuse

ENDINGS = (".BirdNET.results.csv", ".results.csv")
COLUMNS = {"start": "Start (s)", "end": "End (s)", "label": "Common name", "file": "File"}
COLUMNS_OF_R = {"start": "start", "end": "end", "label": "common_name", "file": "filepath"}
HEADINGS = ("Start (s)", "End (s)", "Scientific name", "Common name", "Confidence", "File")


def write_birdnet(annotations: Annotations, folder: Path) -> list[Path]:
    """``birdnet.csv``: every syllable with the names of its species; a label without any stands in both columns."""
    path = open_folder(folder, "birdnet.csv")
    rows = [
        (row["start"], row["end"], *_names(annotations, row["label"]), probability_text(row), row["file"])
        for row in annotations.shown()
    ]
    write_csv([dict(zip(HEADINGS, row, strict=True)) for row in rows], path, HEADINGS)
    return [path]


def _names(annotations: Annotations, label: str) -> tuple[str, str]:
    """Scientific and common name; the common name of one label that is another label would be read back as that."""
    scientific, common = annotations.names.get(label, (label, label))
    return scientific, label if common in annotations.classes else common


def read_birdnet(path: Path, annotations: Annotations) -> Marks:
    """One table of all recordings, or of one whose name it bears, or a folder of such; the label is the common name.

    Both the headings of BirdNET's CSV and those of its table for R are known.
    """
    names = FileNames(annotations, defuse)
    labels = Spelling(annotations.classes, lambda label: defuse(_names(annotations, label)[1]), undefuse)
    rows: list[Mark] = []
    covered: set[str] = set()
    for name, place in find_tables(path, *ENDINGS).items():
        table = read_table(place)
        headings = table.headings
        columns = COLUMNS_OF_R if "common_name" in headings else COLUMNS
        own = names(name)
        needed = [columns[key] for key in ("start", "end", "label")]
        require_columns(table, needed if own in names else [*needed, columns["file"]])
        is_for_all = columns["file"] in headings
        covered |= all_files(annotations) if is_for_all else {own}
        rows += [
            {
                "source": source,
                "file": names(cells[columns["file"]]) if is_for_all else own,
                **read_place(cells, {"start": columns["start"], "end": columns["end"]}, source),
                "label": labels(cells[columns["label"]]),
                **read_confidence(cells, source),
            }
            for source, cells in table.records()
        ]
    return Marks(rows, frozenset(covered))
