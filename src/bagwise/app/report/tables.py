"""Tables as aligned plain text, narrow enough for a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

PERCENT = ("accuracy", "hamming_loss", "ranking_loss", "one_error", "average_precision")
MEASURES = {
    "accuracy": "instance accuracy %",
    "hamming_loss": "Hamming loss %",
    "ranking_loss": "ranking loss %",
    "one_error": "one-error %",
    "coverage": "coverage",
    "average_precision": "average precision %",
    "fit_seconds": "fit, seconds",
}


def format_table(headings: Sequence[str], rows: Iterable[Sequence[str]], right: Iterable[int] = ()) -> str:
    """Aligned columns under a rule; the columns whose numbers are in `right` are aligned right."""
    rows, right = [list(row) for row in rows], set(right)
    widths = [max(len(line[i]) for line in [list(headings), *rows]) for i in range(len(headings))]
    lines = [
        "  ".join(
            text.rjust(width) if i in right else text.ljust(width)
            for i, (text, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in [list(headings), *rows]
    ]
    return "\n".join([lines[0], "-" * max(map(len, lines)), *lines[1:]])


def format_summary(rows: Iterable[dict[str, Any]]) -> str:
    """Summaries of `bagwise.model_selection.summarize`: a block for each data set and mode, a column for each model."""
    blocks: dict[tuple[str, str, int], list[dict[str, Any]]] = {}
    for row in rows:
        blocks.setdefault((row["dataset"], row["mode"], row["folds"]), []).append(row)
    parts = []
    for (dataset, mode, folds), members in blocks.items():
        title = f"{dataset}, {mode}" + (f", {folds} folds: mean ± standard deviation" if folds > 1 else "")
        lines = [
            [MEASURES[measure], *(_cell(row, measure) for row in members)]
            for measure in MEASURES
            if any(measure in row for row in members)
        ]
        headings = ["", *(str(row["model"]) for row in members)]
        parts.append(f"{title}\n\n{format_table(headings, lines, right=range(1, len(headings)))}")
    return "\n\n".join(parts)


def _cell(row: dict[str, Any], measure: str) -> str:
    value = row.get(measure)
    if value is None:
        return "-"
    factor, digits = (100.0, 1) if measure in PERCENT else (1.0, 2)
    deviation = row.get(f"{measure}_std")
    text = f"{factor * value:.{digits}f}"
    return text if deviation is None else f"{text} ± {factor * deviation:.{digits}f}"
