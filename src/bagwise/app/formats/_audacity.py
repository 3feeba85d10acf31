"""Label tracks of Audacity, with frequencies."""

from __future__ import annotations

from pathlib import Path

from bagwise.app.formats.annotations import Annotations, plain_cell
from bagwise.app.formats.marks import FileNames, Mark, Marks, Spelling, find_tables, read_number, text_lines
from bagwise.core.exceptions import FormatError
from bagwise.io.files import atomic_write
from bagwise.io.inside import open_folder


def write_audacity(annotations: Annotations, folder: Path) -> list[Path]:
    """One label track per recording in ``audacity/``: a line of times and label, then a line of frequencies."""
    paths = []
    for name, rows in annotations.shown_by_file().items():
        path = open_folder(folder, f"audacity/{name}.txt")
        with atomic_write(path, "w") as file:
            for row in rows:
                file.write(f"{row['start']:.6f}\t{row['end']:.6f}\t{plain_cell(row['label'])}\n")
                file.write(f"\\\t{row['low']:.6f}\t{row['high']:.6f}\n")
        paths.append(path)
    return paths


def read_audacity(path: Path, annotations: Annotations) -> Marks:
    """One label track, or a folder of them, each called after its recording; lines of frequencies may be missing."""
    names, labels = FileNames(annotations), Spelling(annotations.classes, plain_cell)
    tracks = {names(name): track for name, track in find_tables(path, ".txt").items()}
    rows: list[Mark] = []
    for name, track in tracks.items():
        for number, line in text_lines(track):
            source = f"{track}, row {number}"
            cells = line.split("\t", 2)
            is_band = cells[0] == "\\"
            if len(cells) < (3 if is_band else 2) or (is_band and (not rows or rows[-1]["file"] != name)):
                raise FormatError(f"{source}: expected start, end and label with tabs between, not {line[:60]!r}.")
            one, other = (read_number(cell, "one of the two numbers", source) for cell in cells[is_band : is_band + 2])
            if not is_band:
                label = labels(cells[2]) if len(cells) == 3 else ""
                rows.append({"source": source, "file": name, "start": one, "end": other, "label": label})
            elif min(one, other) >= 0:  # Audacity writes -1 where no frequency was chosen
                rows[-1] |= {"low": one, "high": other}
    return Marks(rows, frozenset(tracks))
