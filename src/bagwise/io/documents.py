"""The words of a document, whatever it is kept as: plain text in several encodings, HTML, RST, PDF, docx."""

from __future__ import annotations

import codecs
import os
import re
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path

from bagwise.exceptions import FormatError
from bagwise.io.text import check_readable
from bagwise.memory import check_allocation

UTF8 = "UTF-8"
_SIZE_PER_BYTE = 8  # of a text and what is made of it, beside the bytes of the file
_MARKS = {  # the longer ones first: that of UTF-16 begins that of UTF-32
    codecs.BOM_UTF32_LE: "UTF-32", codecs.BOM_UTF32_BE: "UTF-32", codecs.BOM_UTF8: "UTF-8-sig",
    codecs.BOM_UTF16_LE: "UTF-16", codecs.BOM_UTF16_BE: "UTF-16",
}  # fmt: skip
_CONTROL = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f]")
_SEQUENCE = re.compile(rb"[\xc2-\xf4][\x80-\xbf]+")  # what a letter outside of ASCII looks like in UTF-8
_INSTALL = "pip install 'bagwise[text]'"


@dataclass(frozen=True)
class Document:
    """A text, and what it was read as: an encoding, "HTML (UTF-8)", "PDF"."""

    text: str
    read_as: str


def read_words(path: str | os.PathLike[str]) -> Document:
    """The text of a document; places in it are counted in characters of this text."""
    path = check_readable(path)
    check_allocation(_SIZE_PER_BYTE * path.stat().st_size, f"{path} read as text", "split the document")
    read = _READERS.get(path.suffix.lower(), _read_plain)
    found = read(path)
    if not found.text.strip():
        raise FormatError(f"{path} is empty: it holds nothing but blanks{_scanned(path)}.")
    return found


def document_text(path: str | os.PathLike[str]) -> str:
    """The text alone."""
    return read_words(path).text


def decode(raw: bytes, source: str | os.PathLike[str]) -> Document:
    """The text of some bytes by their mark, else as UTF-8 where they are, else as UTF-16 or Windows-1252 by detection.

    Bytes that are UTF-8 but for a few places are an error that names the first of these: read as anything else, every
    letter outside of ASCII would be two wrong ones.
    """
    for mark, name in _MARKS.items():
        if raw.startswith(mark):
            return Document(_strict(raw, name, source), name.removesuffix("-sig"))
    wide = _wide(raw)
    if wide is not None:
        return Document(_strict(raw, wide, source), "UTF-16")
    control = _CONTROL.search(raw)
    if control is not None:
        row = raw[: control.start()].count(b"\n") + 1
        what = "a null character" if raw[control.start()] == 0 else f"the byte 0x{raw[control.start()]:02x}"
        raise FormatError(f"{source}, row {row}: there is {what}, so this is no text file; check the file.")
    try:
        return Document(raw.decode("utf-8"), UTF8)
    except UnicodeDecodeError as error:
        n_letters = sum(1 for _ in _SEQUENCE.finditer(raw))
        if 2 * n_letters > raw.decode("utf-8", "replace").count("\ufffd"):
            raise _not(raw, error, "UTF-8", source) from error
    western = "Windows-1252" if re.search(rb"[\x80-\x9f]", raw) else "Latin-1"
    return Document(_strict(raw, western, source), western)


def _strict(raw: bytes, name: str, source: str | os.PathLike[str]) -> str:
    try:
        return raw.decode(name)
    except UnicodeDecodeError as error:
        raise _not(raw, error, name, source) from error


def _not(raw: bytes, error: UnicodeDecodeError, name: str, source: str | os.PathLike[str]) -> FormatError:
    row = raw[: error.start].count(b"\n") + 1
    return FormatError(
        f"{source}, row {row}: the byte 0x{raw[error.start]:02x} is not {name} text; save the file as UTF-8."
    )


def _wide(raw: bytes) -> str | None:
    """Which UTF-16 bytes without a mark are: those whose every second byte is mostly null."""
    sample = raw[:4096]
    first, second = (sample[i::2].count(0) / max(len(sample[i::2]), 1) for i in (0, 1))
    if len(raw) % 2 or abs(first - second) < 0.4 or min(first, second) > 0.1:
        return None
    return "UTF-16-LE" if second > first else "UTF-16-BE"


def _scanned(path: Path) -> str:
    return (
        "; if its pages were scanned, have their words recognised (OCR) first" if path.suffix.lower() == ".pdf" else ""
    )


# ---------------------------------------------------------------------------------------------------------------------
# Forms


def _read_plain(path: Path) -> Document:
    return decode(path.read_bytes(), path)


def _read_html(path: Path) -> Document:
    raw = path.read_bytes()
    told = re.search(rb"<meta[^>]{0,200}charset\s*=\s*[\"']?\s*([-\w]+)", raw[:4096], re.IGNORECASE)
    name = told.group(1).decode("ascii", "replace") if told else ""
    try:
        found = Document(raw.decode(name), name.upper()) if name else decode(raw, path)
    except (LookupError, UnicodeDecodeError):  # pages often tell another encoding than they are in
        found = decode(raw, path)
    return Document(html_text(found.text), f"HTML ({found.read_as})")


def _read_rst(path: Path) -> Document:
    found = _read_plain(path)
    return Document(rst_text(found.text), f"RST ({found.read_as})")


def _read_pdf(path: Path) -> Document:
    try:
        import pypdf
    except ImportError as error:
        raise FormatError(f"{path}: reading PDF needs pypdf; {_INSTALL}.") from error
    try:
        reader = pypdf.PdfReader(path)
        locked = reader.is_encrypted and not reader.decrypt("")
        pages = [] if locked else [page.extract_text() for page in reader.pages]
    except Exception as error:  # whatever damage brings up
        raise FormatError(f"{path}: the PDF cannot be read ({error}); open it and save it again.") from error
    if locked:
        raise FormatError(f"{path}: the PDF is locked by a password; save it without one.")
    return Document(_printable("\n\n".join(pages)), "PDF")


def _read_docx(path: Path) -> Document:
    try:
        import docx
    except ImportError as error:
        raise FormatError(f"{path}: reading docx needs python-docx; {_INSTALL}.") from error
    try:
        with zipfile.ZipFile(path) as archive:
            unpacked = sum(part.file_size for part in archive.infolist())
        check_allocation(_SIZE_PER_BYTE * unpacked, f"{path} read as text", "split the document")
        content = list(docx.Document(str(path)).iter_inner_content())
        lines = [line for part in content for line in _docx_lines(part)]
    except FormatError:
        raise
    except MemoryError:
        raise
    except Exception as error:  # whatever damage brings up in zip and XML
        raise FormatError(f"{path}: the document cannot be read ({error}); open it and save it again.") from error
    return Document(_printable("\n".join(lines)), "docx")


def _docx_lines(part: object) -> list[str]:
    """The text of a paragraph, or of the rows of a table."""
    rows = getattr(part, "rows", None)
    if rows is None:
        return [str(part.text)]  # type: ignore[attr-defined]
    return ["\t".join(cell.text for cell in row.cells) for row in rows]


def _printable(text: str) -> str:
    """Without characters that no text holds: null, and halves of surrogate pairs, which cannot be written."""
    return re.sub(r"[\x00\ud800-\udfff]", " ", text)


_READERS: dict[str, Callable[[Path], Document]] = {
    ".html": _read_html, ".htm": _read_html, ".xhtml": _read_html, ".rst": _read_rst, ".pdf": _read_pdf,
    ".docx": _read_docx,
}  # fmt: skip
EXTENSIONS = (".txt", ".md", *_READERS)


# ---------------------------------------------------------------------------------------------------------------------
# Markup


class _Words(HTMLParser):
    """Gathers what a page shows."""

    hidden = frozenset({"script", "style", "template", "noscript", "head", "svg"})
    inline = frozenset({
        "a", "abbr", "b", "bdi", "bdo", "cite", "code", "data", "dfn", "em", "font", "i", "kbd", "mark", "q", "s",
        "samp", "small", "span", "strong", "sub", "sup", "time", "u", "var", "wbr",
    })  # fmt: skip

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.pieces: list[str] = []
        self._inside: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag in self.hidden:
            self._inside.append(tag)
        elif tag == "title":
            self._inside.clear()  # the title is in the head, and the first words of the page
        self._end_block(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag == "title":
            self._inside = ["head"]
        elif tag in self._inside:
            del self._inside[self._inside.index(tag) :]
        self._end_block(tag)

    def handle_startendtag(self, tag: str, attrs: object) -> None:
        self._end_block(tag)

    def handle_data(self, data: str) -> None:
        if not self._inside:
            self.pieces.append(data)

    def _end_block(self, tag: str) -> None:
        if tag not in self.inline and not self._inside:
            self.pieces.append("\n")


def html_text(page: str) -> str:
    """The words that a page shows, a line a block."""
    parser = _Words()
    parser.feed(page)
    parser.close()
    lines = (re.sub(r"[^\S\n]+", " ", line).strip() for line in "".join(parser.pieces).split("\n"))
    return "\n".join(line for line in lines if line)


_RST = (
    (re.compile(r"^[ \t]*([=\-~^\"'`#*+.:_<>])\1{2,}[ \t=]*$", re.MULTILINE), ""),  # lines under and over titles
    (re.compile(r"^[ \t]*\.\. _[^:\n]*:.*$", re.MULTILINE), ""),  # targets
    (re.compile(r"^[ \t]*\.\. (?:\|[^|\n]+\| )?[\w:-]+::.*$", re.MULTILINE), ""),  # directives
    (re.compile(r"^[ \t]+:[\w -]+:(?: .*)?$", re.MULTILINE), ""),  # their options
    (re.compile(r":[\w:+-]+:`(?:~|!)?([^`<]*?)(?:\s*<[^`>]*>)?`"), r"\1"),  # roles
    (re.compile(r"`([^`<]*?)(?:\s*<[^`>]*>)?`__?"), r"\1"),  # links
    (re.compile(r"``([^`]+)``"), r"\1"),
)


def rst_text(source: str) -> str:
    """A text in reStructuredText without directives, roles and lines that only mark."""
    for pattern, kept in _RST:
        source = pattern.sub(kept, source)
    return re.sub(r"\n{3,}", "\n\n", source)
