"""The words of a document, whatever it is kept as: plain text in several encodings, HTML, RST, PDF, docx."""

from __future__ import annotations

import os
import re
import time
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from bagwise.core.checks import check_allocation
from bagwise.core.exceptions import FormatError, one_file
from bagwise.io.files import Decoded, check_readable, decode
from bagwise.io.markup import html_text, rst_text

_SIZE_PER_BYTE = 8  # of a text and what is made of it, besides the bytes of the file
_SAVE_AGAIN = "Open it and save it again."
SECONDS_PER_PDF = 60.0  # of the processor, and as many again for each million bytes
_INSTALL = "pip install 'bagwise[text]'"


def read_words(path: str | os.PathLike[str]) -> Decoded:
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


def _scanned(path: Path) -> str:
    return (
        "; if its pages were scanned, have their words recognised (OCR) first" if path.suffix.lower() == ".pdf" else ""
    )


# ---------------------------------------------------------------------------------------------------------------------
# Forms


def _read_plain(path: Path) -> Decoded:
    return decode(path.read_bytes(), path)


def _read_html(path: Path) -> Decoded:
    raw = path.read_bytes()
    charset = re.search(rb"<meta[^>]{0,200}charset\s*=\s*[\"']?\s*([-\w]+)", raw[:4096], re.IGNORECASE)
    name = charset.group(1).decode("ascii", "replace") if charset else ""
    try:
        found = Decoded(raw.decode(name), name.upper()) if name else decode(raw, path)
    except (LookupError, UnicodeDecodeError):  # pages often declare another encoding than they have
        found = decode(raw, path)
    return Decoded(html_text(found.text), f"HTML ({found.read_as})")


def _read_rst(path: Path) -> Decoded:
    found = _read_plain(path)
    return Decoded(rst_text(found.text), f"RST ({found.read_as})")


def _read_pdf(path: Path) -> Decoded:
    try:
        import pypdf
    except ImportError as error:
        raise FormatError(f"{path}: reading PDF needs pypdf; {_INSTALL}.") from error
    on_time = _Deadline(path)
    with one_file(path, "the PDF cannot be read", _SAVE_AGAIN):
        reader = pypdf.PdfReader(path)
        locked = reader.is_encrypted and not reader.decrypt("")
        pages = [] if locked else [page.extract_text(visitor_operand_before=on_time) for page in reader.pages]
    if locked:
        raise FormatError(f"{path}: the PDF is locked by a password; save it without one.")
    return Decoded(_printable("\n\n".join(pages)), "PDF")


class _Deadline:
    """Refuses a PDF that takes out of proportion to its size: all of its pages may draw the same, again and again."""

    def __init__(self, path: Path):
        self._path = path
        self._seconds = SECONDS_PER_PDF * (1 + path.stat().st_size / 1e6)
        self._begin = time.thread_time()

    def __call__(self, *drawn: object) -> None:
        """Before each operation of a page."""
        if time.thread_time() - self._begin > self._seconds:
            raise FormatError(
                f"{self._path}: the PDF is not read after {self._seconds:.0f} s, which no text of its size takes. "
                "Leave it out, or print it to a new PDF."
            )


def _read_docx(path: Path) -> Decoded:
    try:
        import docx
    except ImportError as error:
        raise FormatError(f"{path}: reading docx needs python-docx; {_INSTALL}.") from error
    with one_file(path, "the document cannot be read", _SAVE_AGAIN):
        with zipfile.ZipFile(path) as archive:
            unpacked = sum(part.file_size for part in archive.infolist())
        check_allocation(_SIZE_PER_BYTE * unpacked, f"{path} read as text", "split the document")
        lines = list(_docx_lines(docx.Document(str(path)).element.body))
    return Decoded(_printable("\n".join(lines)), "docx")


_W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_MARKS_OF_RUN = {f"{_W}tab": "\t", f"{_W}ptab": "\t", f"{_W}cr": "\n", f"{_W}noBreakHyphen": "-"}


def _docx_lines(body: Any) -> Iterator[str]:
    """The text of each paragraph, and of each row of a table.

    The elements are walked here, each once: what python-docx takes for a row is as wide as a cell claims to be, and a
    cell that is merged downwards is looked up from the top for every row.
    """
    for part in body.iterchildren(f"{_W}p", f"{_W}tbl"):
        if part.tag == f"{_W}p":
            yield _paragraph_text(part)
        else:
            for row in part.iterchildren(f"{_W}tr"):
                yield "\t".join(
                    "\n".join(map(_paragraph_text, cell.iterchildren(f"{_W}p"))) for cell in row.iterchildren(f"{_W}tc")
                )


def _paragraph_text(paragraph: Any) -> str:
    pieces = []
    for part in paragraph.iterchildren(f"{_W}r", f"{_W}hyperlink"):
        for run in (part,) if part.tag == f"{_W}r" else part.iterchildren(f"{_W}r"):
            for mark in run.iterchildren():
                if mark.tag == f"{_W}t":
                    pieces.append(mark.text or "")
                elif mark.tag == f"{_W}br":
                    pieces.append("\n" if mark.get(f"{_W}type", "textWrapping") == "textWrapping" else "")
                else:
                    pieces.append(_MARKS_OF_RUN.get(mark.tag, ""))
    return "".join(pieces)


def _printable(text: str) -> str:
    """Without characters that no text holds: null, and halves of surrogate pairs, which cannot be written."""
    return re.sub(r"[\x00\ud800-\udfff]", " ", text)


_READERS: dict[str, Callable[[Path], Decoded]] = {
    ".html": _read_html,
    ".htm": _read_html,
    ".xhtml": _read_html,
    ".rst": _read_rst,
    ".pdf": _read_pdf,
    ".docx": _read_docx,
}
EXTENSIONS = (".txt", ".md", *_READERS)
