"""The footer of a parquet file, as far as it says how many values and bytes each column claims to hold.

It is a struct in Thrift's compact protocol. pyarrow's own access to the metadata of a column ends the whole process
where the footer is damaged in certain ways, and reading a nested column allocates what it claims. Every length is held
against the bytes that are left.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

from bagwise.core.exceptions import FormatError

MAGIC = b"PAR1"
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
        length = struct.unpack("<I", tail[:4])[0] if len(tail) == 8 and tail[4:] == MAGIC else size
        if length + 8 > size:
            raise FormatError(f"{path}: it does not end as a parquet file; it is cut off or damaged.")
        file.seek(size - 8 - length)
        return file.read(length)


def column_sizes(path: Path) -> dict[str, tuple[int, int]]:
    """Number of leaf values, and bytes when they are unpacked, of every top-level column, over all row groups."""
    raw = read_footer(path)
    sizes: dict[str, tuple[int, int]] = {}
    try:
        for group in _Compact(raw).struct(0)[_ROW_GROUPS]:
            for column in group[_COLUMNS]:
                about = column[_META_DATA]
                name = about[_PATH][0].decode("utf-8")
                values, unpacked = (int(about[field]) for field in (_NUM_VALUES, _UNPACKED))
                if min(values, unpacked) < 0:
                    raise ValueError(f"{values} values of {unpacked} bytes")
                before = sizes.get(name, (0, 0))
                sizes[name] = before[0] + values, before[1] + unpacked
    except (ValueError, KeyError, IndexError, TypeError, AttributeError, struct.error) as error:
        raise FormatError(f"{path}: its footer is damaged ({error}); write it again.") from error
    return sizes


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
