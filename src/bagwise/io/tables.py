"""Rows of plain data to CSV and JSON lines, whole or not at all."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from bagwise.io.files import atomic_write


def write_csv(rows: Iterable[Mapping[str, Any]], path: str | os.PathLike[str]) -> None:
    """Write rows of equal keys as UTF-8 CSV with a heading."""
    rows = list(rows)
    with atomic_write(path, "w") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]) if rows else [], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def write_json_lines(records: Iterable[Mapping[str, Any]], path: str | os.PathLike[str]) -> None:
    """Write one JSON object a line."""
    with atomic_write(path, "w") as file:
        file.write(json_lines(records))


def json_lines(records: Iterable[Mapping[str, Any]]) -> str:
    """One JSON object a line, each line ended."""
    return "".join(json.dumps(record, ensure_ascii=False, default=_plain) + "\n" for record in records)


def _plain(value: Any) -> Any:
    if isinstance(value, (np.generic, np.ndarray)):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} cannot be written as JSON")
