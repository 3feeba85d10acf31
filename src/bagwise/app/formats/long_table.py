"""The long table: every instance, noise too, as CSV or parquet."""

from __future__ import annotations

import json
from pathlib import Path

from bagwise.app.formats.annotations import Annotations
from bagwise.app.formats.marks import FileNames, Mark, Marks, Spelling, read_number, read_table, require_columns
from bagwise.core.checks import import_pyarrow
from bagwise.io.files import atomic_write
from bagwise.io.inside import open_folder
from bagwise.io.tables import write_csv
from bagwise.io.text import defuse, undefuse


def write_long_csv(annotations: Annotations, folder: Path, name: str = "annotations.csv") -> list[Path]:
    """``annotations.csv``, or a file of that name."""
    path = open_folder(folder, name)
    headings = annotations.columns
    rows = ({key: "" if row[key] is None else row[key] for key in headings} for row in annotations.rows)
    write_csv(rows, path, headings)
    return [path]


def write_long_parquet(annotations: Annotations, folder: Path) -> list[Path]:
    """``annotations.parquet``, with model, version and settings in its metadata."""
    arrow = import_pyarrow("Writing parquet")
    path, media_type = open_folder(folder, "annotations.parquet"), annotations.media_type
    kinds = {
        "file": arrow.string(),
        "label": arrow.string(),
        "probability": arrow.float64(),
        "runner_up": arrow.string(),
        "noise": arrow.float64(),
        "mode": arrow.string(),
        "bag": arrow.string(),
        "instance": arrow.int64(),
        **dict.fromkeys(media_type.places, arrow.int64() if media_type.whole else arrow.float64()),
    }
    for key in annotations.extra:  # a table may have columns of these names itself
        kinds[key] = arrow.bool_() if key in ("checked", "novel", "kept") else arrow.string()
    columns = {}
    for key in annotations.columns:
        values = [row[key] for row in annotations.rows]
        if kinds.get(key) == arrow.string() or (key not in kinds and len({*map(type, values)} - {type(None)}) > 1):
            values = [None if value is None else str(value) for value in values]
        columns[key] = arrow.array(values, kinds.get(key))
    about = json.dumps(annotations.about, ensure_ascii=False, sort_keys=True)
    table = arrow.table(columns).replace_schema_metadata({"bagwise": about})
    with atomic_write(path) as file:
        arrow.parquet.write_table(table, file)
    return [path]


def read_long(path: Path, annotations: Annotations) -> Marks:
    """The long table, as CSV (with commas, semicolons or tabs) or parquet.

    Rows are found by bag and instance where both columns are there, else by file and place.

    An empty label says noise. A row that is missing says nothing, since tables are filtered and cut for many reasons.
    """
    table = read_table(path)
    headings = table.headings
    keyed = {"bag", "instance"} <= {*headings}
    keys = () if keyed else annotations.media_type.places
    require_columns(table, ["label", *(("bag", "instance") if keyed else ("file", *keys))])
    names, labels = FileNames(annotations, defuse), Spelling(annotations.classes, defuse, undefuse)
    rows: list[Mark] = []
    for source, cells in table.records():
        mark: Mark = {"source": source, "label": labels(cells["label"])}
        if "file" in cells:
            mark["file"] = names(cells["file"])
        if keyed:
            number = read_number(cells["instance"], "instance", source)
            mark |= {"bag": undefuse(cells["bag"]), "instance": number}
        rows.append(mark | {key: read_number(cells[key], key, source) for key in keys})
    return Marks(rows, every_instance=True)
