"""How many values and bytes each column of a parquet file claims to hold, read from the footer itself.

pyarrow's own access to the metadata of a column ends the whole process where the footer is damaged in certain ways, and
reading a nested column allocates what it claims. So the footer (a struct in Thrift's compact protocol) is parsed here,
as far as the counts, with every length held against the bytes that are left.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

from bagwise.exceptions import FormatError

_MAGIC = b"PAR1"
_MAX_DEPTH = 12
_TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = 1, 2, 3, 7, 8, 9, 10, 11, 12
_INTEGERS = (4, 5, 6)
# Fields of FileMetaData, RowGroup, ColumnChunk and ColumnMetaData.
_ROW_GROUPS, _COLUMNS, _META_DATA, _PATH, _NUM_VALUES, _UNPACKED = 4, 1, 3, 3, 5, 6


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
        raise FormatError(f"{path}: its footer is damaged ({error}); make it anew.") from error
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
