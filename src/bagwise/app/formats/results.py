"""Results of a model as CSV, JSON lines or parquet, written piece by piece, and always with what made them.

Parquet keeps that in its metadata, under the key ``bagwise-result``. CSV and JSON lines have no place for it, so it
goes into a file next to them whose name ends in ``.json``.
"""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from bagwise.core.checks import import_pyarrow
from bagwise.core.exceptions import InputError
from bagwise.io.files import atomic_write, defuse, printable
from bagwise.io.labels import LIST_MARK
from bagwise.io.tables import defuse_value, json_lines, plain_value

RESULT_KEY = b"bagwise-result"
Piece = Mapping[str, Sequence[Any]]
"""Columns by heading, all of one length."""


def write_results(pieces: Iterable[Piece], path: str | os.PathLike[str], about: Mapping[str, Any]) -> int:
    """Write pieces of one table; the ending of `path` (.csv, .jsonl or .parquet) says how. Gives the number of rows."""
    path = Path(path)
    if path.suffix == ".parquet":
        return _write_parquet(pieces, path, about)
    if path.suffix not in TEXT_WRITERS:
        known = ", ".join([*TEXT_WRITERS, ".parquet"])
        raise InputError(f"Results are written as {known}, not as {path.suffix!r} ({path}).")
    with atomic_write(path, "w") as file:
        n_rows = TEXT_WRITERS[path.suffix](pieces, file)
    write_about(path, about)
    return n_rows


def write_about(path: str | os.PathLike[str], about: Mapping[str, Any]) -> None:
    """Write what made a file next to it."""
    with atomic_write(f"{os.fspath(path)}.json", "w") as file:
        file.write(_about_text(about, indent=1) + "\n")


def _about_text(about: Mapping[str, Any], indent: int | None = None) -> str:
    """JSON; bytes of a file's name that are no UTF-8 as ``\\udcff``, from which JSON makes the same name again."""
    return printable(json.dumps(about, ensure_ascii=False, indent=indent, default=plain_value))


def write_csv_pieces(pieces: Iterable[Piece], file: Any) -> int:
    """Write CSV with one heading to an open text file; lists become a;b;c."""
    writer, n_rows = csv.writer(file, lineterminator="\n"), 0
    for piece in pieces:
        columns = [_csv_cells(column) for column in piece.values()]
        if n_rows == 0:
            writer.writerow([defuse_value(heading) for heading in piece])
        writer.writerows(zip(*columns, strict=True))
        n_rows += len(columns[0])
    return n_rows


def _csv_cells(column: Sequence[Any]) -> list[Any]:
    """Cells of one column; a list that occurs again is written out once."""
    lists = {id(value): value for value in column if isinstance(value, list)}
    texts = {key: _joined([str(item) for item in value]) for key, value in lists.items()}
    return [texts.get(id(value), "" if value is None else defuse_value(value)) for value in column]


def _joined(labels: list[str]) -> str:
    for label in labels:
        if LIST_MARK in label:
            raise InputError(
                f"The label {label!r} holds a {LIST_MARK!r}, which separates the labels of a bag in CSV; write .jsonl "
                "or .parquet, print --json, or rename it."
            )
    return defuse(LIST_MARK.join(labels))


def write_json_pieces(pieces: Iterable[Piece], file: Any) -> int:
    """Write one JSON object per row to an open text file."""
    n_rows = 0
    for piece in pieces:
        rows = [dict(zip(piece, values, strict=True)) for values in zip(*piece.values(), strict=True)]
        file.write(json_lines(rows))
        n_rows += len(rows)
    return n_rows


TEXT_WRITERS = {".csv": write_csv_pieces, ".jsonl": write_json_pieces}


def _write_parquet(pieces: Iterable[Piece], path: Path, about: Mapping[str, Any]) -> int:
    arrow = import_pyarrow("Writing parquet")
    text = _about_text(about)
    writer, n_rows = None, 0
    with atomic_write(path) as file:
        try:
            for piece in pieces:
                table = arrow.table({heading: list(column) for heading, column in piece.items()})
                if writer is None:
                    schema = table.schema.with_metadata({RESULT_KEY: text.encode()})
                    schema = arrow.schema([_usable(arrow, field) for field in schema], schema.metadata)
                    writer = arrow.parquet.ParquetWriter(file, schema)
                writer.write_table(table.cast(writer.schema))
                n_rows += table.num_rows
        finally:
            if writer is not None:
                writer.close()
    return n_rows


def _usable(arrow: Any, field: Any) -> Any:
    """A column whose first piece is all empty is taken for text, so that later pieces fit."""
    if arrow.types.is_null(field.type):
        return arrow.field(field.name, arrow.string())
    if arrow.types.is_list(field.type) and arrow.types.is_null(field.type.value_type):
        return arrow.field(field.name, arrow.list_(arrow.string()))
    return field
