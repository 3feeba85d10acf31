"""A few rows as a table of HTML, for notebooks."""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import Any

import numpy as np

COLUMNS = 8
DOTS = "&hellip;"


def table_as_html(caption: str, names: Sequence[str], keys: np.ndarray, values: np.ndarray, more: bool) -> str:
    """A line of text and a table: a row a key, which comes first, and its values; dots where there are more of them."""
    wide = values.shape[1] > COLUMNS
    heading = "".join(f"<th>{html.escape(name)}</th>" for name in names[: COLUMNS + 1]) + wide * f"<th>{DOTS}</th>"
    lines = []
    for key, row in zip(keys.tolist(), values[:, :COLUMNS], strict=True):
        cells = "".join(f"<td>{_shown(value)}</td>" for value in row)
        lines.append(f"<tr><th>{key}</th>{cells}{wide * f'<td>{DOTS}</td>'}</tr>")
    if more:
        lines.append(f"<tr><th>{DOTS}</th></tr>")
    return (
        f"<div><p>{html.escape(caption)}</p><table><thead><tr>{heading}</tr></thead>"
        f"<tbody>{''.join(lines)}</tbody></table></div>"
    )


def _shown(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, (float, np.floating)) else html.escape(str(value))
