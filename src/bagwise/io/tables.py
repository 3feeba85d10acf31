"""Tables of text in and out: delimited files, spreadsheets and parquet are read into one form; CSV and JSON lines."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from bagwise.core.exceptions import FormatError
from bagwise.io._xlsx import is_spreadsheet, read_sheet
from bagwise.io.files import atomic_write
from bagwise.io.parquet import is_parquet, read_text_rows
from bagwise.io.text import check_readable, check_width, defuse, open_rows


@dataclass(frozen=True)
class TextTable:
    """Rows of text.

    Attributes
    ----------
    path : path
    rows : list of list of str
    lines : list of int
        The line on which each row begins; the heading of a parquet file is row 0.
    source : str
        How the file was understood, in words.
    flaws : dict
        Row and column, from 0, of each cell that can be neither name nor label, and why not.
    """

    path: Path
    rows: list[list[str]]
    lines: list[int]
    source: str
    flaws: dict[tuple[int, int], str] = field(default_factory=dict)

    @property
    def headings(self) -> list[str]:
        """The first row, without blanks around its cells."""
        return [cell.strip() for cell in self.rows[0]]

    def check_widths(self) -> None:
        """Refuse rows with other than as many cells as the first."""
        for line, row in zip(self.lines, self.rows, strict=True):
            check_width(row, len(self.rows[0]), self.path, line, self.lines[0], self.source)

    def records(self) -> Iterator[tuple[str, dict[str, str]]]:
        """Place, for messages, and cells by heading of each row below the first."""
        self.check_widths()
        headings = self.headings
        for line, row in zip(self.lines[1:], self.rows[1:], strict=True):
            yield f"{self.path}, row {line}", dict(zip(headings, row, strict=True))


def read_rows(
    path: str | os.PathLike[str],
    separator: str | None = None,
    *,
    sheet: str | None = None,
    trim: bool = True,
    quoted: bool = True,
) -> TextTable:
    """The rows of a table that are not blank, from delimited text, a spreadsheet (.xlsx) or parquet.

    Parameters
    ----------
    path : str or path
    separator, trim, quoted
        Of delimited text, as of `bagwise.io.text.open_rows`.
    sheet : str or None
        The sheet of a spreadsheet; None takes the one that holds a table.
    """
    path = check_readable(path)
    if is_spreadsheet(path):
        return TextTable(path, *read_sheet(path, sheet))
    if sheet is not None:
        raise FormatError(f"{path}: it is no spreadsheet and so has no sheet {sheet!r}; leave --sheet out.")
    if is_parquet(path):
        rows = read_text_rows(path)
        return TextTable(path, rows, list(range(len(rows))), "from a parquet table")
    found, _, source = open_rows(path, separator, trim=trim, quoted=quoted)
    lines, rows = map(list, zip(*found, strict=True))
    return TextTable(path, rows, lines, source)


def read_headings(path: str | os.PathLike[str], separator: str | None = None, *, quoted: bool = True) -> list[str]:
    """The first row of a delimited file."""
    rows, _, _ = open_rows(path, separator, quoted=quoted)
    return next(rows)[1]


@contextmanager
def csv_writer(path: str | os.PathLike[str], headings: Sequence[str], separator: str = ",") -> Iterator[Any]:
    """A writer of rows of cells below a heading."""
    with atomic_write(path, "w") as file:
        writer = csv.writer(file, delimiter=separator, lineterminator="\n")
        writer.writerow(headings)
        yield writer


def write_csv(
    rows: Iterable[Mapping[str, Any]], path: str | os.PathLike[str], headings: Sequence[str] | None = None
) -> None:
    """Write rows of equal keys as UTF-8 CSV with a heading; `headings` are written where there is no row too."""
    if headings is None:
        rows = list(rows)
        headings = list(rows[0]) if rows else []
    with csv_writer(path, headings) as writer:
        # cells that a spreadsheet would run as a formula are defused
        writer.writerows([defuse_value(row.get(heading)) for heading in headings] for row in rows)


def defuse_value(value: Any) -> Any:
    """Text defused, numbers as they are."""
    return defuse(value) if isinstance(value, str) else value


def write_json_lines(records: Iterable[Mapping[str, Any]], path: str | os.PathLike[str]) -> None:
    """Write one JSON object per line."""
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
