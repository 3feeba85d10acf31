"""The long table: every instance, noise too, as CSV or parquet."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bagwise.columns import import_pyarrow
from bagwise.exceptions import FormatError
from bagwise.io.annotations.annotations import Annotations, open_folder
from bagwise.io.annotations.marks import (
    FileNames,
    Mark,
    Marks,
    Spelling,
    read_number,
    read_table,
    require_columns,
    table_headings,
)  # fmt: skip
from bagwise.io.files import atomic_write
from bagwise.io.tables import write_csv
from bagwise.io.text import check_readable, defuse, undefuse


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
    path = open_folder(folder, "annotations.parquet")
    kinds = {
        "file": arrow.string(), "label": arrow.string(), "probability": arrow.float64(), "runner_up": arrow.string(),
        "noise": arrow.float64(), "mode": arrow.string(), "bag": arrow.string(), "instance": arrow.int64(),
        **dict.fromkeys(annotations.medium.places, arrow.int64() if annotations.medium.whole else arrow.float64()),
    }  # fmt: skip
    for key in annotations.extra:  # a table may have columns of these names itself
        kinds[key] = arrow.bool_() if key in ("checked", "unlike", "kept") else arrow.string()
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


def read_long_csv(path: Path, annotations: Annotations) -> Marks:
    """The long table as CSV, with commas, semicolons or tabs."""
    return _read(path, read_table(path), table_headings(path), annotations, defuse, undefuse)


def read_long_parquet(path: Path, annotations: Annotations) -> Marks:
    """The long table as parquet."""
    arrow = import_pyarrow("Reading parquet")
    try:
        table = arrow.parquet.read_table(check_readable(path))
    except (arrow.ArrowException, OSError) as error:
        raise FormatError(f"{path}: it is not a parquet file that can be read ({error}).") from error
    rows = [(f"{path}, row {i + 1}", row) for i, row in enumerate(table.to_pylist())]
    return _read(path, rows, table.column_names, annotations, str, str)


def _read(
    path: Path, table: list[tuple[str, dict[str, Any]]], headings: list[str], annotations: Annotations,
    write: Callable[[str], str], read: Callable[[str], str],
) -> Marks:  # fmt: skip
    """Marks of the rows; found by bag and instance where both columns are there, else by file and place.

    An empty label says noise. A row that is missing says nothing, since tables are filtered and cut for many reasons.
    """
    keyed = {"bag", "instance"} <= {*headings}
    keys = () if keyed else annotations.medium.places
    require_columns(path, headings, ["label", *(("bag", "instance") if keyed else ("file", *keys))])
    names, labels = FileNames(annotations, write), Spelling(annotations.classes, write, read)
    rows: list[Mark] = []
    for source, cells in table:
        label = cells["label"]
        mark: Mark = {"source": source, "label": "" if label is None else labels(str(label))}
        if cells.get("file") is not None:
            mark["file"] = names(str(cells["file"]))
        if keyed:
            number = read_number(cells["instance"], "instance", source)
            mark |= {"bag": read(str(cells["bag"])), "instance": number}
        rows.append(mark | {key: read_number(cells[key], key, source) for key in keys})
    return Marks(rows, every_instance=True)
