"""Text files as rows of cells: decoding, separators, quoting and defused formulas, with the line of every row."""

from __future__ import annotations

import codecs
import csv
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from stat import S_ISDIR, S_ISREG
from typing import Any, NamedTuple

from bagwise.core.checks import check_allocation
from bagwise.core.exceptions import FormatError, InputError

SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs"}
MOST_CELLS = 1_000_000
"""Of one row: Python needs a hundred bytes for each while it is cut."""
_ROWS_TO_GUESS_FROM = 50
_TEXT_TO_GUESS_FROM = 1 << 20
_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")
_SIZE_PER_BYTE = 8  # Python's strings and lists of short cells, besides the bytes of the file
UTF8 = "UTF-8"
_MARKS = {  # the longer ones first: that of UTF-16 begins that of UTF-32
    codecs.BOM_UTF32_LE: "UTF-32-LE",
    codecs.BOM_UTF32_BE: "UTF-32-BE",
    codecs.BOM_UTF8: UTF8,
    codecs.BOM_UTF16_LE: "UTF-16-LE",
    codecs.BOM_UTF16_BE: "UTF-16-BE",
}
_CONTROL = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f]")
_SEQUENCE = re.compile(rb"[\xc2-\xf4][\x80-\xbf]+")  # what a letter outside of ASCII looks like in UTF-8
_NO_TEXT = {
    b"PK\x03\x04": "a zip file", b"PAR1": "a parquet file", b"\x1f\x8b": "a gzip file", b"%PDF-": "a PDF",
    b"\xd0\xcf\x11\xe0": "a file of an old office program", b"\x89PNG": "a picture", b"\xff\xd8\xff": "a picture",
    b"RIFF": "a recording", b"SQLite format 3": "a database",
}  # fmt: skip
# What a spreadsheet would run: such a cell is written with an apostrophe in front, which reading takes off again.
_FORMULA = re.compile(r"'*[=+\-@\t\r]")
_DEFUSED = re.compile(r"'+[=+\-@\t\r]")


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


class Decoded(NamedTuple):
    """A text, and what it was read as: an encoding, "HTML (UTF-8)", "PDF"."""

    text: str
    read_as: str


def decode(raw: bytes, source: str | os.PathLike[str], *, controls: bool = False) -> Decoded:
    """The text of some bytes by their mark, else as UTF-8 where they are, else as UTF-16 or Windows-1252 by detection.

    Bytes that are UTF-8 but for a few places are an error that names the first of these: read as anything else, every
    letter outside of ASCII would be two wrong ones.

    Parameters
    ----------
    raw : bytes
    source : str or path
        Where they are from, for errors.
    controls : bool
        Whether text in UTF-8 may hold characters that print nothing; null it may not.
    """
    found = _decode(raw, source, controls)
    if "\0" in found.text:
        row = found.text[: found.text.index("\0")].count("\n") + 1
        raise FormatError(f"{source}, row {row}: there is a null character, so this is no text file; check the file.")
    return found


def _decode(raw: bytes, source: str | os.PathLike[str], controls: bool) -> Decoded:
    for mark, name in _MARKS.items():
        if raw.startswith(mark):
            return _strict(raw[len(mark) :], name, source)
    wide = _wide(raw)
    if wide is not None:
        return _strict(raw, wide, source)
    if not controls:
        _check_controls(raw, source)
    try:
        return Decoded(raw.decode("utf-8"), UTF8)
    except UnicodeDecodeError as error:
        n_letters = sum(1 for _ in _SEQUENCE.finditer(raw))
        if 2 * n_letters > raw.decode("utf-8", "replace").count("\ufffd"):
            raise _undecodable(raw, error, UTF8, source) from error
    _check_controls(raw, source)
    return _strict(raw, "Windows-1252" if re.search(rb"[\x80-\x9f]", raw) else "Latin-1", source)


def _strict(raw: bytes, name: str, source: str | os.PathLike[str]) -> Decoded:
    shown = name.removesuffix("-LE").removesuffix("-BE")
    try:
        return Decoded(raw.decode(name), shown)
    except UnicodeDecodeError as error:
        raise _undecodable(raw, error, shown, source) from error


def _undecodable(raw: bytes, error: UnicodeDecodeError, name: str, source: str | os.PathLike[str]) -> FormatError:
    row = raw[: error.start].count(b"\n") + 1
    return FormatError(
        f"{source}, row {row}: the byte 0x{raw[error.start]:02x} is not {name} text; save the file as UTF-8."
    )


def _check_controls(raw: bytes, source: str | os.PathLike[str]) -> None:
    found = _CONTROL.search(raw)
    if found is not None and raw[found.start()]:
        row = raw[: found.start()].count(b"\n") + 1
        raise FormatError(
            f"{source}, row {row}: there is the byte 0x{raw[found.start()]:02x}, so this is no text file; check the "
            "file."
        )


def _wide(raw: bytes) -> str | None:
    """Which UTF-16 bytes without a mark are: those whose every second byte is mostly null."""
    sample = raw[:4096]
    first, second = (sample[i::2].count(0) / max(len(sample[i::2]), 1) for i in (0, 1))
    if len(raw) % 2 or abs(first - second) < 0.4 or min(first, second) > 0.1:
        return None
    return "UTF-16-LE" if second > first else "UTF-16-BE"


def read_text(path: str | os.PathLike[str]) -> Decoded:
    """The whole of a text file, and the encoding in which it was read."""
    path = check_readable(path)
    check_allocation(_SIZE_PER_BYTE * path.stat().st_size, f"{path} read as text", "keep large data as parquet")
    raw = path.read_bytes()
    for begin, what in _NO_TEXT.items():
        if raw.startswith(begin) and (begin != b"RIFF" or b"\0" in raw):
            raise FormatError(
                f"{path}: it is {what} and no text, whatever its ending; expected text in UTF-8, such as CSV or JSON. "
                "Save it as that, or give the file that was meant."
            )
    found = decode(raw, path, controls=True)
    if not found.text.strip():
        raise FormatError(f"{path} is empty: it holds nothing but blanks.")
    return found


def open_rows(
    path: str | os.PathLike[str], separator: str | None = None, *, trim: bool = True, quoted: bool = True
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
    text: str, separator: str, path: str | os.PathLike[str], *, trim: bool = True, quoted: bool = True
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
