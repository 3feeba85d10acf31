"""Evaluation summaries as text."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

PERCENT = ("accuracy", "hamming_loss", "ranking_loss", "one_error", "average_precision")
HEADINGS = {
    "dataset": "data set",
    "accuracy": "instance accuracy",
    "hamming_loss": "Hamming loss",
    "ranking_loss": "ranking loss",
    "one_error": "one-error",
    "average_precision": "average precision",
    "fit_seconds": "fit, s",
}


def table_cells(rows: Iterable[dict[str, Any]]) -> tuple[list[str], list[list[str]]]:
    """Headings and cells of a summary: only columns with content, shares in percent, mean and deviation together."""
    rows = list(rows)
    columns = [
        c for c in dict.fromkeys(key for row in rows for key in row) if not c.endswith("_std") and c != "folds"
    ]
    headings = [HEADINGS.get(column, column) + (" %" if column in PERCENT else "") for column in columns]
    return headings, [[_cell(row, column) for column in columns] for row in rows]


def _cell(row: dict[str, Any], column: str) -> str:
    value = row.get(column)
    if value is None:
        return "-"
    if not isinstance(value, float):
        return str(value)
    factor, digits = (100.0, 1) if column in PERCENT else (1.0, 2)
    deviation = row.get(f"{column}_std")
    text = f"{factor * value:.{digits}f}"
    return text if deviation is None else f"{text} ± {factor * deviation:.{digits}f}"


def format_table(rows: Iterable[dict[str, Any]]) -> str:
    """A summary as aligned plain text."""
    headings, cells = table_cells(rows)
    widths = [max(len(line[i]) for line in [headings, *cells]) for i in range(len(headings))]
    lines = ["  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip() for line in [headings, *cells]]
    return "\n".join([lines[0], "-" * max(map(len, lines)), *lines[1:]])
