"""Rows of plain data to CSV and JSON lines, whole or not at all."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from bagwise.io.files import atomic_write
from bagwise.io.text import defuse


def write_csv(
    rows: Iterable[Mapping[str, Any]], path: str | os.PathLike[str], headings: Sequence[str] | None = None
) -> None:
    """Write rows of equal keys as UTF-8 CSV with a heading; `headings` are written where there is no row too."""
    if headings is None:
        rows = list(rows)
        headings = list(rows[0]) if rows else []
    with atomic_write(path, "w") as file:
        writer = csv.DictWriter(file, fieldnames=headings, lineterminator="\n")
        writer.writeheader()
        # cells that a spreadsheet would run as a formula are defused
        writer.writerows({key: defuse_value(value) for key, value in row.items()} for row in rows)


def defuse_value(value: Any) -> Any:
    """Text defused, numbers as they are."""
    return defuse(value) if isinstance(value, str) else value


def write_json_lines(records: Iterable[Mapping[str, Any]], path: str | os.PathLike[str]) -> None:
    """Write one JSON object a line."""
    with atomic_write(path, "w") as file:
        for record in records:
            file.write(_json_line(record))


def json_lines(records: Iterable[Mapping[str, Any]]) -> str:
    """One JSON object a line, each line ended."""
    return "".join(map(_json_line, records))


def _json_line(record: Mapping[str, Any]) -> str:
    return json.dumps(record, ensure_ascii=False, default=plain_value) + "\n"


def plain_value(value: Any) -> Any:
    """numpy's scalars and arrays as what JSON knows; a ``default`` for `json.dumps`."""
    if isinstance(value, (np.generic, np.ndarray)):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} cannot be written as JSON")
