"""Text files as rows of cells: decoding, separators, quoting and defused formulas, with the line of every row."""

from __future__ import annotations

import codecs
import csv
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from stat import S_ISDIR, S_ISREG
from typing import Any

from bagwise.exceptions import FormatError, InputError
from bagwise.memory import check_allocation

SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs"}
MOST_CELLS = 1_000_000
"""Of one row: Python needs a hundred bytes for each while it is cut."""
_ROWS_TO_GUESS_FROM = 50
_TEXT_TO_GUESS_FROM = 1 << 20
_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")
_SIZE_PER_BYTE = 8  # Python's strings and lists of short cells, beside the bytes of the file
_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_ZIP = b"PK\x03\x04"
# What a spreadsheet would run: such a cell is written with an apostrophe in front, which reading takes off again.
_FORMULA = re.compile(r"'*[=+\-@\t\r]")
_DEFUSED = re.compile(r"'+[=+\-@\t\r]")


@dataclass(frozen=True)
class TextTable:
    """Rows of text.

    Attributes
    ----------
    rows : list of list of str
    lines : list of int
        The line on which each row begins; the heading of a parquet file is row 0.
    separator : str
        The character between the cells of a delimited file, "" where it is none.
    source : str
        Where the rows are from, in words, if not from a delimited file.
    flaws : dict
        Row and column, from 0, of each cell that can be neither name nor label, and why not.
    """

    rows: list[list[str]]
    lines: list[int]
    separator: str
    source: str = ""
    flaws: dict[tuple[int, int], str] = field(default_factory=dict)


def check_readable(path: str | os.PathLike[str]) -> Path:
    """The path of a file that is there, is a file, may be read and is not empty; else a `FormatError` says why."""
    path = Path(path)
    try:
        mode = path.stat().st_mode
        if S_ISDIR(mode):
            raise FormatError(f"{path} is a folder; give the path of one file.")
        if not S_ISREG(mode):  # it tells no size and may never end, or nobody may write to it
            raise FormatError(f"{path} is a device, a pipe or a socket; save what it gives as a file, and give that.")
        with path.open("rb") as file:
            if not file.read(1):
                raise FormatError(f"{path} is empty; there is nothing to read in it.")
    except FormatError:  # a ValueError too, but ours
        raise
    except FileNotFoundError as error:
        raise FormatError(f"{path} does not exist; check the path.") from error
    except PermissionError as error:
        raise FormatError(f"{path} may not be read; change its permissions.") from error
    except (OSError, ValueError) as error:  # a name with a null character, a name that is too long, a failing disk
        raise FormatError(f"{str(path)!r} cannot be opened ({error}); check the path.") from error
    return path


def read_text(path: str | os.PathLike[str]) -> str:
    """The whole of a UTF-8 file, without its byte-order mark."""
    path = check_readable(path)
    check_allocation(_SIZE_PER_BYTE * path.stat().st_size, f"{path} read as text", "keep large data as parquet")
    raw = path.read_bytes()
    if raw.startswith(_UTF16):
        raise FormatError(f"{path}, row 1: the text is UTF-16; save it as UTF-8.")
    if raw.startswith(_ZIP):
        raise FormatError(f"{path}: it is a zip file and no text; save it as CSV in UTF-8.")
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        row = raw[: error.start].count(b"\n") + 1
        raise FormatError(
            f"{path}, row {row}: the byte 0x{raw[error.start]:02x} is not UTF-8 text; save the file as UTF-8."
        ) from error
    if "\0" in text:
        row = text[: text.index("\0")].count("\n") + 1
        raise FormatError(f"{path}, row {row}: there is a null character, so this is no text file; check the file.")
    if not text.strip():
        raise FormatError(f"{path} is empty: it holds nothing but blanks.")
    return text


def read_rows(path: str | os.PathLike[str], separator: str | None = None, trim: bool = True) -> TextTable:
    """All rows of a comma, semicolon or tab separated file that are not blank.

    Parameters
    ----------
    path : str or path
    separator : {",", ";", "\\t"} or None
        None finds it out from the first rows.
    trim : bool
        Whether blanks around cells go.
    """
    found, separator = open_rows(path, separator, trim)
    rows, lines = [], []
    for line, row in found:
        rows.append(row)
        lines.append(line)
    return TextTable(rows, lines, separator)


def open_rows(
    path: str | os.PathLike[str], separator: str | None = None, trim: bool = True
) -> tuple[Iterator[tuple[int, list[str]]], str]:
    """The same rows one at a time with their first lines, and the separator."""
    text = read_text(path)
    if separator is None:
        separator = guess_separator(text)
    elif separator not in SEPARATORS:
        raise InputError(f"separator={separator!r} is not known; use one of {', '.join(map(repr, SEPARATORS))}.")
    return iterate_rows(text, separator, path, trim), separator


def iterate_rows(
    text: str, separator: str, path: str | os.PathLike[str], trim: bool = True
) -> Iterator[tuple[int, list[str]]]:
    """Number of the first line and cells of every row that is not blank; an error where there is none."""
    reader = csv.reader(_lines(text, separator, path), delimiter=separator, strict=True)
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


def _lines(text: str, separator: str, path: str | os.PathLike[str]) -> Iterator[str]:
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
    best, best_share = ",", 0.0
    for separator in ("\t", ",", ";"):  # in this order where two cut equally well
        widths = _widths(sample, separator)
        if widths and widths[0] >= 2:
            share = sum(width == widths[0] for width in widths) / len(widths)
            if share > best_share:
                best, best_share = separator, share
    return best


def _widths(sample: str, separator: str) -> list[int]:
    """Number of cells of every row that is not blank, up to one that cannot be parsed."""
    rows = csv.reader((line.group() for line in _LINE.finditer(sample)), delimiter=separator)
    widths: list[int] = []
    with suppress(csv.Error):
        widths.extend(len(row) for row in rows if any(cell.strip() for cell in row))
    return widths


def printable(name: str) -> str:
    """The name of a file as text that can be written: bytes that are not UTF-8, which some systems allow, escaped."""
    return name.encode("utf-8", "backslashreplace").decode("utf-8")


def first_repeated(values: Iterable[Any]) -> Any:
    """The first value that stands there a second time, or None."""
    seen = set()
    for value in values:
        if value in seen:
            return value
        seen.add(value)
    return None


def defuse(cell: str) -> str:
    """A cell that a spreadsheet would run as a formula, with an apostrophe in front; others as they are."""
    return f"'{cell}" if _FORMULA.match(cell) else cell


def undefuse(cell: str) -> str:
    """What `defuse` was given."""
    return cell[1:] if _DEFUSED.match(cell) else cell
