"""The text of a file, whatever its encoding."""

from __future__ import annotations

import codecs
import re
from typing import NamedTuple

from bagwise.core.checks import check_allocation
from bagwise.core.exceptions import FormatError
from bagwise.io.files import PathLike, check_readable

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
    b"PK\x03\x04": "a zip file",
    b"PAR1": "a parquet file",
    b"\x1f\x8b": "a gzip file",
    b"%PDF-": "a PDF",
    b"\xd0\xcf\x11\xe0": "a file of an old office program",
    b"\x89PNG": "a picture",
    b"\xff\xd8\xff": "a picture",
    b"RIFF": "a recording",
    b"SQLite format 3": "a database",
}


class Decoded(NamedTuple):
    """A text, and what it was read as: an encoding, "HTML (UTF-8)", "PDF"."""

    text: str
    read_as: str


def decode(raw: bytes, source: PathLike, *, controls: bool = False) -> Decoded:
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


def _decode(raw: bytes, source: PathLike, controls: bool) -> Decoded:
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


def _strict(raw: bytes, name: str, source: PathLike) -> Decoded:
    shown = name.removesuffix("-LE").removesuffix("-BE")
    try:
        return Decoded(raw.decode(name), shown)
    except UnicodeDecodeError as error:
        raise _undecodable(raw, error, shown, source) from error


def _undecodable(raw: bytes, error: UnicodeDecodeError, name: str, source: PathLike) -> FormatError:
    row = raw[: error.start].count(b"\n") + 1
    return FormatError(
        f"{source}, row {row}: the byte 0x{raw[error.start]:02x} is not {name} text; save the file as UTF-8."
    )


def _check_controls(raw: bytes, source: PathLike) -> None:
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


def read_text(path: PathLike) -> Decoded:
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
