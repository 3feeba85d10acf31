"""What people marked, read back from the formats: the one form that all readers give, and what they share."""

from __future__ import annotations

import io
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from bagwise.app.formats.annotations import Annotations, plain_cell
from bagwise.core.exceptions import LONGEST, FormatError
from bagwise.io.tables import TextTable, read_rows
from bagwise.io.text import read_text, undefuse

Mark = dict[str, Any]
_UPLOADED = re.compile(r"[0-9a-f]{8}-")  # what Label Studio puts in front of the name of an uploaded file


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


class Spelling:
    """Names and labels of a run, found by the way in which a format writes them.

    Parameters
    ----------
    names : the names of the run
    write : what the format does to a name
    read : what is made of a cell that is none of them
    """

    def __init__(
        self,
        names: Iterable[str],
        write: Callable[[str], str] = str,
        read: Callable[[str], str] = str,
    ):
        names = list(names)
        self._names = {write(name).strip(): name for name in names} | {
            name: name for name in names if write(name) == name
        }
        self._read = read

    def __call__(self, cell: str) -> str:
        found = self._names.get(cell, self._names.get(cell.strip()))
        return self._read(cell).strip() if found is None else found


class FileNames:
    """The files of a run, found by the names that tools give them: full, without folder, without ending, uploaded."""

    def __init__(self, annotations: Annotations, write: Callable[[str], str] = str):
        names = [str(file["file"]) for file in annotations.files]
        self._exact = Spelling(names, write, undefuse)
        self._known = set(names)
        self._loose: dict[str, set[str]] = {}
        for name in names:
            base = name.rpartition("/")[2]
            for other in (base, base.rpartition(".")[0], name.rpartition(".")[0]):
                self._loose.setdefault(other, set()).add(name)

    def __contains__(self, name: str) -> bool:
        return name in self._known

    def __call__(self, name: str) -> str:
        """The name of the run; as it came where there is no such file or more than one."""
        found = self._exact(name)
        if found in self._known:
            return found
        path = unquote(name.strip()).replace("\\", "/")
        options = [path]
        if path.startswith("/") or ":" in path:  # an address: what its end says
            parts = path.rpartition("?d=")[2].split("/")
            options += ["/".join(parts[i:]) for i in range(len(parts))]
            options.append(_UPLOADED.sub("", parts[-1], count=1))
        for option in options:
            if option in self._known:
                return option
            if len(self._loose.get(option, ())) == 1:
                return next(iter(self._loose[option]))
        return found


def all_files(annotations: Annotations) -> frozenset[str]:
    return frozenset(str(file["file"]) for file in annotations.files)


def _read_text_or_nothing(path: Path) -> str:
    """The text of a file that may be empty: a track without any label is one too."""
    return "" if path.is_file() and not path.read_bytes().strip() else read_text(path).text


def text_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Number and content of the lines of a file that are not blank."""
    for number, line in enumerate(io.StringIO(_read_text_or_nothing(path), newline=None), 1):
        if line.strip():
            yield number, line.rstrip("\n")


def read_table(path: str | os.PathLike[str], separator: str | None = None) -> TextTable:
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


def read_place(values: Mapping[str, Any], keys: Mapping[str, str], source: str) -> dict[str, float]:
    """Columns of a place from what the format calls them."""
    return {key: read_number(values[name], name, source) for key, name in keys.items()}


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


def find_tables(path: Path, *endings: str) -> dict[str, Path]:
    """The files below a folder by their names without the ending; or the one file."""
    if not path.is_dir():
        return {_without(path.name, endings): path}
    found = sorted({file for ending in endings for file in path.rglob(f"*{ending}") if file.is_file()})
    if not found:
        raise FormatError(f"{path}: there is no file in it that ends in {' or '.join(endings)}.")
    return {_without(file.relative_to(path).as_posix(), endings): file for file in found}


def _without(name: str, endings: Sequence[str]) -> str:
    return next((name.removesuffix(ending) for ending in endings if name.endswith(ending)), name)


def read_confidence(cells: Mapping[str, str], source: str) -> Mark:
    """The confidence of a detection as a column, if the table tells one."""
    heading = next((heading for heading in cells if heading.casefold() == "confidence"), None)
    return (
        {}
        if heading is None or not cells[heading].strip()
        else {"confidence": read_number(cells[heading], heading, source)}
    )
