"""What parquet files have in common: schema, our own metadata, values of columns, and errors that name the file.

The footer is also parsed here (a struct in Thrift's compact protocol), as far as it says how many values and bytes each
column claims to hold: pyarrow's own access to the metadata of a column ends the whole process where the footer is
damaged in certain ways, and reading a nested column allocates what it claims. Every length is held against the bytes
that are left.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from bagwise.core.checks import check_allocation, import_pyarrow
from bagwise.core.exceptions import BagwiseError, FormatError
from bagwise.io.text import check_readable, defuse

_MAGIC = b"PAR1"
_MAX_DEPTH = 12
_TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = 1, 2, 3, 7, 8, 9, 10, 11, 12
_INTEGERS = (4, 5, 6)
# Fields of FileMetaData, RowGroup, ColumnChunk and ColumnMetaData.
_ROW_GROUPS, _COLUMNS, _META_DATA, _PATH, _NUM_VALUES, _UNPACKED = 4, 1, 3, 3, 5, 6

METADATA_KEY = b"bagwise"
NEEDED_BY = "Reading and writing parquet"
_THRIFT_LIMIT = 100_000_000
_SIZE_OF_CELL = 100  # of a short text and its place in a list


@contextmanager
def arrow_errors(path: Any) -> Iterator[None]:
    """Whatever pyarrow says about a damaged file, as one `FormatError` that names the file."""
    try:
        yield
    except (BagwiseError, ImportError):
        raise
    except Exception as error:  # of many kinds, and names that are no UTF-8
        text = " ".join(str(error).split())[:200]
        raise FormatError(f"{path}: it is damaged, cut off or no parquet file ({text}); write it again.") from error


def open_file(arrow: Any, path: Path, dictionaries: list[str] | None = None) -> Any:
    """The file with its metadata, which may claim only so much; some columns are read as dictionaries."""
    return arrow.parquet.ParquetFile(
        path,
        read_dictionary=dictionaries,
        pre_buffer=False,  # else a whole row group is held in memory
        thrift_string_size_limit=_THRIFT_LIMIT,
        thrift_container_size_limit=_THRIFT_LIMIT,
    )


def python_values(arrow: Any, column: Any) -> list[Any]:
    """The values of a column as Python objects; a text that occurs often is one object."""
    if isinstance(column, arrow.ChunkedArray):
        return [value for chunk in column.chunks for value in python_values(arrow, chunk)]
    if arrow.types.is_dictionary(column.type):
        distinct = column.dictionary.to_pylist()
        return [None if code is None else distinct[code] for code in column.indices.to_pylist()]
    if arrow.types.is_list(column.type) or arrow.types.is_large_list(column.type):
        flat, at, lists = python_values(arrow, column.flatten()), 0, list[Any]()
        for length in arrow.compute.list_value_length(column).to_pylist():
            lists.append(None if length is None else flat[at : at + length])
            at += length or 0
        return lists
    return column.to_pylist()


def arrow_values(column: Any) -> np.ndarray:
    """An Arrow column as numpy: numbers as they are, everything else as objects."""
    arrow = import_pyarrow(NEEDED_BY)
    types, kind = arrow.types, column.type
    if types.is_dictionary(kind):
        column, kind = column.cast(kind.value_type), kind.value_type
    if types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind):
        return column.to_numpy(zero_copy_only=False) if isinstance(column, arrow.Array) else column.to_numpy()
    return np.fromiter(column.to_pylist(), dtype=object, count=len(column))


def matrix_of(arrow: Any, rows: Any, path: Path) -> np.ndarray:
    """(m, d) array of a list array whose lists all have one length."""
    if rows.null_count:
        raise FormatError(f"{path}: an instance is missing (null); remove it.")
    widths = np.asarray(arrow.compute.list_value_length(rows))
    if len(widths) == 0 or widths.min() != widths.max() or widths[0] == 0:
        raise FormatError(f"{path}: instances differ in their number of features; give all the same.")
    values = rows.flatten()
    if values.null_count:
        raise FormatError(f"{path}: a feature is missing (null); fill in a number.")
    return arrow_values(values).reshape(len(widths), int(widths[0]))


def is_parquet(path: str | os.PathLike[str]) -> bool:
    """Whether a file begins as parquet does."""
    with check_readable(path).open("rb") as file:
        return file.read(4) == _MAGIC


def read_text_rows(path: Path) -> list[list[str]]:
    """A parquet table as rows of text, its headings first; a list becomes ``a;b;c``."""
    arrow = import_pyarrow(NEEDED_BY)
    with arrow_errors(path):
        file = open_file(arrow, path)
        headings = file.schema_arrow.names
        check_allocation(
            _SIZE_OF_CELL * file.metadata.num_rows * len(headings), f"{path} read as text", "use fewer rows"
        )
        table = file.read()
        values = [python_values(arrow, column) for column in table.columns]
    rows = [[defuse(heading) for heading in headings]]
    for i, row in enumerate(zip(*values, strict=True)):
        rows.append([_cell(value, f"{path}, row {i + 1}") for value in row])
    return rows


def _cell(value: Any, place: str) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(int(value))
    if not isinstance(value, list):
        return defuse(str(value))
    parts = ["" if part is None else str(part) for part in value]
    for part in parts:
        if ";" in part:
            raise FormatError(f"{place}: the label {part!r} holds a ';', which separates labels; rename it.")
    return ";".join(defuse(part) for part in parts)


# ---------------------------------------------------------------------------------------------------------------------
# The footer


def read_footer(path: Path) -> bytes:
    """The bytes of the footer, which say where everything in the file is."""
    with path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(size - 8, 0))
        tail = file.read(8)
        length = struct.unpack("<I", tail[:4])[0] if len(tail) == 8 and tail[4:] == _MAGIC else size
        if length + 8 > size:
            raise FormatError(f"{path}: it does not end as a parquet file; it is cut off or damaged.")
        file.seek(size - 8 - length)
        return file.read(length)


def count_values(path: Path) -> dict[str, int]:
    """Number of leaf values of every top-level column, by name, summed over the row groups."""
    return _sums(path, _NUM_VALUES)


def count_bytes(path: Path) -> dict[str, int]:
    """Bytes of the pages of every top-level column when they are unpacked, likewise."""
    return _sums(path, _UNPACKED)


def _sums(path: Path, field: int) -> dict[str, int]:
    raw = read_footer(path)
    try:
        footer = _Compact(raw).struct(0)
        counts: dict[str, int] = {}
        for group in footer[_ROW_GROUPS]:
            for column in group[_COLUMNS]:
                about = column[_META_DATA]
                name, count = about[_PATH][0].decode("utf-8"), about[field]
                if not isinstance(count, int) or count < 0:
                    raise ValueError(f"{count!r} values or bytes")
                counts[name] = counts.get(name, 0) + count
    except (ValueError, KeyError, IndexError, TypeError, AttributeError, struct.error) as error:
        raise FormatError(f"{path}: its footer is damaged ({error}); write it again.") from error
    return counts


class _Compact:
    """A reader of Thrift's compact protocol that gives structs as dicts from field number to value."""

    def __init__(self, raw: bytes):
        self.raw, self.at = raw, 0

    def byte(self) -> int:
        self.at += 1
        return self.raw[self.at - 1]

    def varint(self) -> int:
        value = shift = 0
        while True:
            byte = self.byte()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7
            if shift > 63:
                raise ValueError("a number of more than 64 bits")

    def integer(self) -> int:
        value = self.varint()
        return (value >> 1) ^ -(value & 1)

    def take(self, length: int) -> bytes:
        if length > len(self.raw) - self.at:
            raise ValueError(f"{length} bytes claimed, {len(self.raw) - self.at} left")
        self.at += length
        return self.raw[self.at - length : self.at]

    def struct(self, depth: int) -> dict[int, Any]:
        if depth > _MAX_DEPTH:
            raise ValueError("nested too deeply")
        fields: dict[int, Any] = {}
        number = 0
        while (head := self.byte()) != 0:
            number = number + (head >> 4) if head >> 4 else self.integer()
            kind = head & 0x0F
            fields[number] = kind == _TRUE if kind in (_TRUE, _FALSE) else self.value(kind, depth + 1)
        return fields

    def value(self, kind: int, depth: int) -> Any:
        if kind in _INTEGERS:
            return self.integer()
        if kind in (_TRUE, _FALSE, _BYTE):
            return self.byte()
        if kind == _DOUBLE:
            return self.take(8)
        if kind == _BINARY:
            return self.take(self.varint())
        if kind in (_LIST, _SET):
            head = self.byte()
            count = self.varint() if head >> 4 == 15 else head >> 4
            return [self.value(head & 0x0F, depth) for _ in range(self.counted(count))]
        if kind == _MAP:
            count = self.counted(self.varint())
            kinds = self.byte() if count else 0
            return [(self.value(kinds >> 4, depth), self.value(kinds & 0x0F, depth)) for _ in range(count)]
        if kind == _STRUCT:
            return self.struct(depth)
        raise ValueError(f"the unknown type {kind}")

    def counted(self, count: int) -> int:
        if count > len(self.raw) - self.at:  # every item takes a byte at least
            raise ValueError(f"{count} items claimed, {len(self.raw) - self.at} bytes left")
        return count
