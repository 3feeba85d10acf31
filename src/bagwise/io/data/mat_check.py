"""Walk through a MATLAB file before scipy reads it: sizes must fit the bytes, and nesting must end.

scipy allocates what the file claims. Here every claim is held against the bytes that are there, compressed parts are
unpacked only as far as the memory limit allows, and only numbers, sparse numbers, text and cells are let through.
"""

from __future__ import annotations

import math
import struct
import zlib
from itertools import pairwise
from pathlib import Path

from bagwise.exceptions import FormatError
from bagwise.memory import memory_limit

_COMPRESSED, _MATRIX = 15, 14
_ITEM_SIZE = {1: 1, 2: 1, 3: 2, 4: 2, 5: 4, 6: 4, 7: 4, 9: 8, 12: 8, 13: 8, 16: 1, 17: 2, 18: 4}
_CELL, _CHAR, _SPARSE = 1, 4, 5
_NUMBERS = range(6, 16)
_COMPLEX = 0x08
_MAX_DEPTH = 3
_HEADER = 128
_TAG = 8


class _Broken(Exception):
    """What is wrong with the bytes."""


def check_mat(path: Path) -> list[str]:
    """Names of the variables of a MATLAB 5 file whose structure is sound; `FormatError` where it is not."""
    raw = path.read_bytes()
    if raw[:8] == b"\x89HDF\r\n\x1a\n" or raw[:19] == b"MATLAB 7.3 MAT-file":
        raise FormatError(f"{path}: it is a MATLAB 7.3 file (HDF5), which is not read; save it with -v7 in MATLAB.")
    # a null byte among the first four makes scipy read it as version 4, past all that is checked here
    if len(raw) < _HEADER or raw[126:128] not in (b"IM", b"MI") or 0 in raw[:4]:
        raise FormatError(f"{path}: it is no MATLAB 5 file, or it is cut off; save it with -v7 in MATLAB.")
    order = "<" if raw[126:128] == b"IM" else ">"
    if struct.unpack_from(f"{order}H", raw, 124)[0] != 0x0100:
        raise FormatError(f"{path}: it is a MATLAB file of another version; save it with -v7 in MATLAB.")
    names: list[str] = []
    limit = memory_limit()
    try:
        position = _HEADER
        while position < len(raw):
            kind, start, stop, after = _tag(raw, position, order, padded=False)
            body = raw[start:stop]
            if kind == _COMPRESSED:
                body, limit = _unpack(body, limit)
                kind, start, stop, _ = _tag(body, 0, order, padded=False)
                body = body[start:stop]
            if kind != _MATRIX:
                raise _Broken(f"an element of type {kind} stands where a variable should")
            names.append(_check_matrix(body, order, 0))
            position = after
    except (_Broken, struct.error, zlib.error) as error:
        raise FormatError(f"{path}: it is damaged or cut off ({error}); make it anew.") from error
    return names


def _unpack(body: bytes, limit: int) -> tuple[bytes, int]:
    stream = zlib.decompressobj()
    out = stream.decompress(body, limit)
    if stream.unconsumed_tail or not stream.eof:
        raise _Broken("a compressed part is cut off, or larger than the memory limit")
    return out, limit - len(out)


def _tag(raw: bytes, position: int, order: str, padded: bool = True) -> tuple[int, int, int, int]:
    """Type, start and stop of the data, and where the next element begins."""
    if position + _TAG > len(raw):
        raise _Broken("it ends within an element")
    first, size = struct.unpack_from(f"{order}II", raw, position)
    if first >> 16:  # up to four bytes of data within the tag itself
        kind, size = first & 0xFFFF, first >> 16
        if size > 4:
            raise _Broken("a short element claims more than four bytes")
        return kind, position + 4, position + 4 + size, position + _TAG
    start = position + _TAG
    stop = start + size
    after = stop + (-size % 8 if padded else 0)
    if stop > len(raw):
        raise _Broken(f"an element claims {size} bytes but {len(raw) - start} are left")
    return first, start, stop, after


def _check_matrix(raw: bytes, order: str, depth: int) -> str:
    """Check one array; its name."""
    if not raw:
        return ""  # an empty cell
    if depth > _MAX_DEPTH:
        raise _Broken("cells are nested too deeply")
    kind, start, stop, position = _tag(raw, 0, order)
    if kind != 6 or stop - start != 8:
        raise _Broken("an array has no flags")
    flags = struct.unpack_from(f"{order}I", raw, start)[0]
    array_class, is_complex = flags & 0xFF, bool((flags >> 8) & _COMPLEX)
    kind, start, stop, position = _tag(raw, position, order)
    if kind != 5 or (stop - start) % 4 or not 8 <= stop - start <= 16:
        raise _Broken("the dimensions of an array cannot be read")
    shape = struct.unpack_from(f"{order}{(stop - start) // 4}i", raw, start)
    if min(shape) < 0:
        raise _Broken(f"an array has the shape {shape}")
    kind, start, stop, position = _tag(raw, position, order)
    if kind not in (1, 2, 16):
        raise _Broken("an array has no name")
    name = raw[start:stop].decode("latin-1")
    count = math.prod(shape)
    if array_class == _CELL:
        _check_cells(raw, order, position, count, depth)
    elif array_class == _SPARSE:
        _check_sparse(raw, order, position, shape)
    elif array_class in _NUMBERS or array_class == _CHAR:
        if is_complex:
            raise _Broken(f"the array {name!r} is complex")
        kind, start, stop, _ = _tag(raw, position, order)
        if kind not in _ITEM_SIZE:
            raise _Broken(f"the array {name!r} holds numbers of the unknown type {kind}")
        # text in UTF-8 may take several bytes a character
        if array_class in _NUMBERS and (stop - start) != count * _ITEM_SIZE[kind]:
            raise _Broken(f"the array {name!r} claims the shape {shape} but holds {stop - start} bytes")
        if array_class == _CHAR and count > stop - start:
            raise _Broken(f"the text {name!r} claims {count} characters but holds {stop - start} bytes")
    else:
        raise _Broken(f"the variable {name!r} is a structure or an object, which is not read")
    return name


def _check_cells(raw: bytes, order: str, position: int, count: int, depth: int) -> None:
    if count * _TAG > len(raw):
        raise _Broken(f"a cell array claims {count} cells but holds {len(raw)} bytes")
    for _ in range(count):
        kind, start, stop, position = _tag(raw, position, order)
        if kind != _MATRIX:
            raise _Broken("a cell holds no array")
        _check_matrix(raw[start:stop], order, depth + 1)


def _check_sparse(raw: bytes, order: str, position: int, shape: tuple[int, ...]) -> None:
    """Row indices, column pointers and values, each checked, because what reads them trusts them."""
    if len(shape) != 2:
        raise _Broken("a sparse array is not two-dimensional")
    n_rows, n_columns = shape
    kind, start, stop, position = _tag(raw, position, order)
    rows = _integers(raw, kind, start, stop, order)
    kind, start, stop, position = _tag(raw, position, order)
    pointers = _integers(raw, kind, start, stop, order)
    kind, start, stop, position = _tag(raw, position, order)
    if kind not in _ITEM_SIZE:
        raise _Broken("a sparse array holds numbers of an unknown type")
    n_values = (stop - start) // _ITEM_SIZE[kind]
    if len(pointers) != n_columns + 1 or pointers[0] != 0 or any(b < a for a, b in pairwise(pointers)):
        raise _Broken("the columns of a sparse array do not fit")
    if pointers[-1] > min(len(rows), n_values) or any(not 0 <= row < n_rows for row in rows[: pointers[-1]]):
        raise _Broken("the rows of a sparse array do not fit")


def _integers(raw: bytes, kind: int, start: int, stop: int, order: str) -> tuple[int, ...]:
    if kind not in (5, 6) or (stop - start) % 4:
        raise _Broken("the indices of a sparse array cannot be read")
    return struct.unpack_from(f"{order}{(stop - start) // 4}i", raw, start)
