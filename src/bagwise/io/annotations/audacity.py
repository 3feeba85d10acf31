"""Label tracks of Audacity, with frequencies."""

from __future__ import annotations

from pathlib import Path

from bagwise.io.annotations.annotations import Annotations, open_folder, plain_cell
from bagwise.io.files import atomic_write


def write_audacity(annotations: Annotations, folder: Path) -> list[Path]:
    """One label track a recording in ``audacity/``: a line of times and label, then a line of frequencies."""
    paths = []
    for name, rows in annotations.shown_by_file().items():
        path = open_folder(folder, "audacity", *f"{name}.txt".split("/"))
        with atomic_write(path, "w") as file:
            for row in rows:
                file.write(f"{row['start']:.6f}\t{row['end']:.6f}\t{plain_cell(row['label'])}\n")
                file.write(f"\\\t{row['low']:.6f}\t{row['high']:.6f}\n")
        paths.append(path)
    return paths
