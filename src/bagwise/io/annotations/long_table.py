"""The long table: every instance, noise too, as CSV or parquet."""

from __future__ import annotations

import json
from pathlib import Path

from bagwise.columns import import_pyarrow
from bagwise.io.annotations.annotations import FINDINGS, PLACES, Annotations, open_folder
from bagwise.io.files import atomic_write
from bagwise.io.tables import write_csv


def headings_of(annotations: Annotations) -> list[str]:
    return ["file", *PLACES[annotations.medium], *FINDINGS]


def write_long_csv(annotations: Annotations, folder: Path) -> list[Path]:
    """``annotations.csv``."""
    path = open_folder(folder, "annotations.csv")
    headings = headings_of(annotations)
    rows = [{key: "" if row[key] is None else row[key] for key in headings} for row in annotations.rows]
    write_csv(rows, path, headings)
    return [path]


def write_long_parquet(annotations: Annotations, folder: Path) -> list[Path]:
    """``annotations.parquet``, with model, version and settings in its metadata."""
    arrow = import_pyarrow("Writing parquet")
    path = open_folder(folder, "annotations.parquet")
    whole = arrow.int64()
    number = whole if annotations.medium in ("text", "image") else arrow.float64()
    types = {
        "file": arrow.string(), **dict.fromkeys(PLACES[annotations.medium], number), "label": arrow.string(),
        "probability": arrow.float64(), "runner_up": arrow.string(), "noise": arrow.float64(),
        "mode": arrow.string(), "bag": arrow.string(), "instance": whole,
    }  # fmt: skip
    columns = {key: arrow.array([row[key] for row in annotations.rows], kind) for key, kind in types.items()}
    about = json.dumps(annotations.about, ensure_ascii=False, sort_keys=True)
    table = arrow.table(columns).replace_schema_metadata({"bagwise": about})
    with atomic_write(path) as file:
        arrow.parquet.write_table(table, file)
    return [path]
