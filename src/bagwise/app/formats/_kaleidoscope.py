"""Tables of Kaleidoscope: a row per detection, with the name it was given and the one a person typed."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

from bagwise.app.formats._annotations import Annotations, probability_text
from bagwise.app.formats._marks import Mark, MarkReader, Marks, read_text_table, require_columns
from bagwise.io.files import defuse, open_folder, undefuse
from bagwise.io.tables import write_csv

COLUMNS = {  # what stands below each heading
    "INDIR": "folder of the run's media",
    "FOLDER": "folder of the file below it",
    "IN FILE": "file",
    "CHANNEL": "0",
    "OFFSET": "start, seconds",
    "DURATION": "seconds",
    "Fmin": "hertz",
    "Fmax": "hertz",
    "AUTO ID": "label",
    "MATCH RATIO": "probability",
    "MANUAL ID": "label that a person confirmed or gave",
}
NEEDED = ("IN FILE", "OFFSET", "DURATION")
NAMES = ("MANUAL ID", "AUTO ID", "TOP1MATCH*", "TOP1MATCH")  # the first that is filled in counts
NOISE = ("noise", "noid")


def write_kaleidoscope(annotations: Annotations, folder: Path) -> list[Path]:
    """``kaleidoscope.csv``, as Kaleidoscope opens its ``cluster.csv`` and ``id.csv``."""
    path, root = open_folder(folder, "kaleidoscope.csv"), str(annotations.folder)
    rows = []
    for row in annotations.shown():
        place = PurePosixPath(row["file"])
        cells = (
            *(root, "" if str(place.parent) == "." else str(place.parent), place.name, 0),
            *(f"{row['start']:.4f}", f"{row['end'] - row['start']:.4f}", f"{row['low']:.1f}", f"{row['high']:.1f}"),
            *(row["label"], probability_text(row), row["label"] if row.get("checked") else ""),
        )
        rows.append(dict(zip(COLUMNS, cells, strict=True)))
    write_csv(rows, path, [*COLUMNS])
    return [path]


def read_kaleidoscope(path: Path, annotations: Annotations) -> Marks:
    """A table of Kaleidoscope, whichever of its columns it has; what is named noise or nothing is background."""
    table = read_text_table(path)
    require_columns(table, NEEDED)
    reader, rows = MarkReader(annotations, defuse, undefuse), list[Mark]()
    columns = {"start": "OFFSET", "length": "DURATION"}
    for source, cells in table.records():
        folder, name = undefuse(cells.get("FOLDER", "")).strip(), undefuse(cells["IN FILE"]).strip()
        given = next((cells[key] for key in NAMES if cells.get(key, "").strip()), "")
        mark = reader.mark(cells, columns, source, low="Fmin", high="Fmax")
        length = mark.pop("length")
        label = "" if given.strip().casefold() in NOISE else reader.label(given)
        file = reader.file(f"{folder}/{name}" if folder else name)
        rows.append({**mark, "file": file, "end": mark["start"] + length, "label": label})
    return Marks(rows, reader.files)
