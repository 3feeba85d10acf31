"""What people marked, read back from the formats: the one form that all readers give, and what they share."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bagwise.app.formats._annotations import Annotations, plain_cell
from bagwise.app.media.files import FileNames
from bagwise.core.exceptions import LONGEST, FormatError
from bagwise.io.files import read_text, undefuse
from bagwise.io.tables import TextTable, read_rows

Mark = dict[str, Any]


@dataclass(frozen=True)
class Marks:
    """Marks that people made or left as they were.

    Attributes
    ----------
    rows : list of dict
        For each mark ``source`` (file and row it was read from), file, those columns of the place that the format has,
        label ("" says noise), bag and instance where the format has them, and confidence where a machine made the mark.
    covered : set of str
        Files of which the format shows all that is named: an instance shown before and not marked now was deleted.
    every_instance : bool
        Whether the format lists instances that are noise too, with the label they would have.
    """

    rows: list[Mark]
    covered: frozenset[str] = frozenset()
    every_instance: bool = False


class MarkReader:
    """Makes marks of what a format holds; files and labels of a run are found by the way in which it writes them.

    Parameters
    ----------
    annotations : Annotations
    write : what the format does to a name
    read : what is made of a cell that is no name of the run
    label : what the format writes for a label, where that is not its name
    """

    def __init__(
        self,
        annotations: Annotations,
        write: Callable[[str], str] = str,
        read: Callable[[str], str] = str,
        label: Callable[[str], str] = str,
    ):
        names = [str(file["file"]) for file in annotations.files]
        self.files = frozenset(names)
        self._known, self._read = FileNames(names), read
        self._files = _by_spelling(names, write)
        self._labels = _by_spelling(annotations.classes, lambda name: write(label(name)))

    def file(self, cell: str) -> str:
        """The file of the run that is meant; as it came where there is none or more than one."""
        name = self._files.get(cell, self._files.get(cell.strip()))
        return self._known.resolve(undefuse(cell).strip()) if name is None else name

    def label(self, cell: str) -> str:
        """The label of the run that is meant, else a new one."""
        name = self._labels.get(cell, self._labels.get(cell.strip()))
        return self._read(cell).strip() if name is None else name

    def mark(self, cells: Mapping[str, Any], columns: Mapping[str, str], source: str, **optional: str) -> Mark:
        """A mark from cells by heading: file, label, name of a recording, numbers.

        Parameters
        ----------
        cells : mapping
        columns : mapping
            What a mark has, and the headings of its columns.
        source : str
            Where it stands, for messages.
        **optional : str
            The same for columns that may be missing, or empty.
        """
        read = {"file": self.file, "label": self.label, "bag": undefuse, "recording": undefuse}
        there = {key: heading for key, heading in optional.items() if cells.get(heading, "").strip()}
        return {"source": source} | {
            key: read[key](cells[heading]) if key in read else read_number(cells[heading], heading, source)
            for key, heading in {**columns, **there}.items()
        }


def _by_spelling(names: Iterable[str], write: Callable[[str], str]) -> dict[str, str]:
    """Names by the way in which a format writes them; those that stand there as they are go first."""
    names = list(names)
    return {write(name).strip(): name for name in names} | {name: name for name in names if write(name) == name}


def text_lines(path: Path) -> Iterator[tuple[str, str]]:
    """Place, for messages, and content of the lines of a file that are not blank; a file without any is one too."""
    text = "" if path.is_file() and not path.read_bytes().strip() else read_text(path).text
    for number, line in enumerate(io.StringIO(text, newline=None), 1):
        if line.strip():
            yield f"{path}, row {number}", line.rstrip("\n")


def read_text_table(path: str | os.PathLike[str], separator: str | None = None) -> TextTable:
    """A table of marks with its cells as they are; tabs, where they are given as separator, are those of no quoting."""
    return read_rows(path, separator, trim=False, quoted=separator is None)


def require_columns(table: TextTable, needed: Sequence[str]) -> None:
    """Refuse a table that lacks one of the columns."""
    headings = table.headings
    missing = [name for name in needed if name not in headings]
    if missing:
        raise FormatError(
            f"{table.path}, row {table.lines[0]}: there is no column {missing[0]!r}; expected {', '.join(needed)}, "
            f"and found {plain_cell(', '.join(headings))[:LONGEST] or 'nothing'}."
        )


def read_number(cell: Any, what: str, source: str) -> float:
    """A finite number."""
    try:
        number = float(cell)
    except (TypeError, ValueError, OverflowError):
        number = float("nan")
    if not abs(number) < float("inf"):
        raise FormatError(f"{source}: {what} is {repr(cell)[:LONGEST]}; expected a number.")
    return number


def read_json(path: str | os.PathLike[str]) -> Any:
    """A JSON file."""
    text = read_text(path).text
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise FormatError(
            f"{path}, row {error.lineno}: it is not JSON ({error.msg}); it may be cut off, so export it again."
        ) from error
    except RecursionError as error:
        raise FormatError(f"{path}: its lists are nested too deeply to be annotations.") from error
    except ValueError as error:  # a number of thousands of digits
        raise FormatError(f"{path}: it holds a number that is too long to be one of annotations.") from error
