"""Tables of text in and out: delimited files, spreadsheets and parquet are read into one form; CSV and JSON lines."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from bagwise.core.exceptions import FormatError, InputError
from bagwise.io._footer import MAGIC
from bagwise.io._parquet import SIZE_OF_CELL, read_columns, read_text_rows
from bagwise.io._xlsx import OLD_OFFICE, is_spreadsheet, read_sheet
from bagwise.io.files import UTF8, PathLike, atomic_write, check_readable, defuse, read_text

SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs"}
MOST_CELLS = 1_000_000
"""Of one row: Python needs a hundred bytes for each while it is cut."""
_ROWS_TO_GUESS_FROM = 50
_TEXT_TO_GUESS_FROM = 1 << 20
_SAID = re.compile(r"sep=([,;\t])[ ,;]*\r?\n", re.IGNORECASE)
_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")


# ---------------------------------------------------------------------------------------------------------------------
# Reading


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
    path: PathLike,
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
        Of delimited text, as of `bagwise.io.files.open_rows`.
    sheet : str or None
        The sheet of a spreadsheet; None takes the one that holds a table.
    """
    path = check_readable(path)
    with path.open("rb") as file:
        start = file.read(4)
    if start in (b"PK\x03\x04", OLD_OFFICE) and is_spreadsheet(path):
        return TextTable(path, *read_sheet(path, sheet))
    if sheet is not None:
        raise FormatError(f"{path}: it is no spreadsheet and so has no sheet {sheet!r}; leave --sheet out.")
    if start == MAGIC:
        rows = read_text_rows(path)
        return TextTable(path, rows, list(range(len(rows))), "from a parquet table")
    found, _, source = open_rows(path, separator, trim=trim, quoted=quoted)
    lines, rows = map(list, zip(*found, strict=True))
    return TextTable(path, rows, lines, source)


def read_arrow(path: Path, cure: str) -> Any:
    """A parquet file as an Arrow table, held against the memory first; `cure` is for one that is too large."""
    return read_columns(path, SIZE_OF_CELL, cure)


def read_headings(path: PathLike, separator: str | None = None, *, quoted: bool = True) -> list[str]:
    """The first row of a delimited file."""
    rows, _, _ = open_rows(path, separator, quoted=quoted)
    return next(rows)[1]


def open_rows(
    path: PathLike, separator: str | None = None, *, trim: bool = True, quoted: bool = True
) -> tuple[Iterator[tuple[int, list[str]]], str, str]:
    """The rows of a delimited file that are not blank, one at a time with their first lines.

    Parameters
    ----------
    path : str or path
    separator : {",", ";", "\\t"} or None
        None finds it out from the first rows.
    trim : bool
        Whether blanks around cells go.
    quoted : bool
        Whether quotes around a cell are none of its text.

    Returns
    -------
    rows : iterator of (line, list of str)
    separator : str
    source : str
        How the file was understood, in words.
    """
    text, read_as = read_text(path)
    said = _SAID.match(text)  # what Excel may put above the heading
    if said is not None:
        separator, text = separator or said[1], "\n" + text[said.end() :]
    if separator is None:
        separator = guess_separator(text)
    elif separator not in SEPARATORS:
        raise InputError(f"separator={separator!r} is not known; use one of {', '.join(map(repr, SEPARATORS))}.")
    source = f"separated by {SEPARATORS[separator]}" + ("" if read_as == UTF8 else f", read as {read_as}")
    return iterate_rows(text, separator, path, trim=trim, quoted=quoted), separator, source


def check_width(row: Sequence[str], width: int, path: object, line: int, first_line: int, source: str) -> None:
    """Refuse a row with other than so many cells."""
    if len(row) != width:
        raise FormatError(
            f"{path}, row {line}: there are {len(row)} cells but row {first_line} has {width} ({source}); repair "
            "the row, or put cells that contain the separator in quotes."
        )


def iterate_rows(
    text: str, separator: str, path: PathLike, *, trim: bool = True, quoted: bool = True
) -> Iterator[tuple[int, list[str]]]:
    """Number of the first line and cells of every row that is not blank; an error where there is none."""
    lines = _lines(text, separator, path)
    if quoted:
        reader = csv.reader(lines, delimiter=separator, strict=True)
    else:
        reader = csv.reader(lines, delimiter=separator, quoting=csv.QUOTE_NONE)
    line, found = 1, False
    try:
        for row in reader:
            if any(map(str.strip, row)):
                found = True
                yield line, [cell.strip() for cell in row] if trim else row
            line = reader.line_num + 1
    except csv.Error as error:
        raise FormatError(f"{path}, row {line}: {error}; check the quotes of this row.") from error
    if not found:
        raise FormatError(f"{path} is empty: all of its cells are blank.")


def _lines(text: str, separator: str, path: PathLike) -> Iterator[str]:
    """The lines with their ends, one at a time: a copy of the text would be four times its size."""
    for number, match in enumerate(_LINE.finditer(text), start=1):
        line = match.group()
        if line.count(separator) >= MOST_CELLS:
            raise FormatError(
                f"{path}, row {number}: there are more than {MOST_CELLS} cells in one row; check the line ends, or "
                "keep so many features as parquet or npz."
            )
        yield line


def guess_separator(text: str) -> str:
    """The separator that cuts the first rows into the same number of cells, two or more; a comma where none does."""
    sample = "".join(
        match.group() for match in islice(_LINE.finditer(text, 0, _TEXT_TO_GUESS_FROM), _ROWS_TO_GUESS_FROM)
    )
    best, best_cut = ",", (0.0, 0)
    for separator in ("\t", ",", ";"):  # in this order where two cut equally well, into equally many cells
        widths = _widths(sample, separator)
        if widths and widths[0] >= 2:
            cut = sum(width == widths[0] for width in widths) / len(widths), widths[0]
            if cut > best_cut:
                best, best_cut = separator, cut
    return best


def _widths(sample: str, separator: str) -> list[int]:
    """Number of cells of every row that is not blank, up to one that cannot be parsed."""
    rows = csv.reader((line.group() for line in _LINE.finditer(sample)), delimiter=separator)
    widths: list[int] = []
    with suppress(csv.Error):
        widths.extend(len(row) for row in rows if any(cell.strip() for cell in row))
    return widths


def first_repeated(values: Iterable[Any]) -> Any:
    """The first value that stands there a second time, or None."""
    seen = set()
    for value in values:
        if value in seen:
            return value
        seen.add(value)
    return None


# ---------------------------------------------------------------------------------------------------------------------
# Writing


@contextmanager
def csv_writer(path: PathLike, headings: Sequence[str], separator: str = ",") -> Iterator[Any]:
    """A writer of rows of cells below a heading."""
    with atomic_write(path, "w") as file:
        writer = csv.writer(file, delimiter=separator, lineterminator="\n")
        writer.writerow(headings)
        yield writer


def write_csv(rows: Iterable[Mapping[str, Any]], path: PathLike, headings: Sequence[str] | None = None) -> None:
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


def write_json_lines(records: Iterable[Mapping[str, Any]], path: PathLike) -> None:
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
