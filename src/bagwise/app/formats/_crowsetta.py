"""The generic sequences of crowsetta: one table of all recordings, a row per segment."""

from __future__ import annotations

from pathlib import Path

from bagwise.app.formats._annotations import Annotations
from bagwise.app.formats._marks import MarkReader, Marks, read_text_table, require_columns
from bagwise.io.files import defuse, open_folder, undefuse
from bagwise.io.tables import write_csv

COLUMNS = {  # what stands below each heading
    "label": "label",
    "onset_s": "start, seconds",
    "offset_s": "end, seconds",
    "onset_sample": "first sample",
    "offset_sample": "sample after the last",
    "notated_path": "file",
    "annot_path": "where it was annotated: this table",
    "sequence": "number of the recording",
    "annotation": "number of the recording",
}


def write_generic_seq(annotations: Annotations, folder: Path) -> list[Path]:
    """``generic-seq.csv``. The segments of a sequence do not overlap in crowsetta's own tools; these may."""
    path = open_folder(folder, "generic-seq.csv")
    facts = {file["file"]: (number, file) for number, file in enumerate(annotations.files)}
    rows = []
    for row in annotations.shown():
        number, file = facts[row["file"]]
        samples = [round(row[key] * file["rate"]) for key in ("start", "end")]
        times = [f"{row[key]:.6f}" for key in ("start", "end")]
        cells = (row["label"], *times, *samples, row["file"], path.name, number, number)
        rows.append(dict(zip(COLUMNS, cells, strict=True)))
    write_csv(rows, path, [*COLUMNS])
    return [path]


def read_generic_seq(path: Path, annotations: Annotations) -> Marks:
    """The same; segments without times in seconds are not known."""
    table = read_text_table(path)
    columns = {"label": "label", "start": "onset_s", "end": "offset_s", "file": "notated_path"}
    require_columns(table, [*columns.values()])
    reader = MarkReader(annotations, defuse, undefuse)
    return Marks([reader.mark(cells, columns, source) for source, cells in table.records()], reader.files)
