"""The archive that the model file is: a document of JSON and arrays in numpy's form, in an uncompressed zip.

Nothing that is read is trusted, and nothing of it is run.
"""

from __future__ import annotations

import io
import json
import math
import os
import re
import warnings
import zipfile
from collections.abc import Sequence
from typing import IO, Any

import numpy as np

from bagwise.core.exceptions import FormatError

DOCUMENT = "model.json"
ARRAY_NAME = re.compile(r"arrays/(0|[1-9][0-9]{0,8})\.npy")
ARRAY_KINDS = "biufcmMSU"  # numbers, truth values, times and text; never objects or records
MANY_VALUES, FEWEST_BYTES = 50_000, 8
"""Above so many values a document has this many bytes for each: a list in it takes 64 in memory, however short."""
_EPOCH = (1980, 1, 1, 0, 0, 0)  # zip's first date, so that the same model gives the same bytes
_HEADERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}


def is_storable(dtype: np.dtype) -> bool:
    """Whether arrays of this type can be kept as plain bytes."""
    return dtype.kind in ARRAY_KINDS and dtype.itemsize > 0


def as_read(document: Any) -> Any:
    """A document as `read_archive` will give it; a `FormatError` where it cannot be written, or would be refused."""
    try:
        return _parse_document(_document_text(document).encode())
    except FormatError:
        raise
    except (TypeError, ValueError, RecursionError) as error:  # of json: other kinds, numbers that are not finite, depth
        raise FormatError(f"it holds what is no plain data ({error}).") from error


def write_archive(handle: IO[bytes], document: Any, arrays: Sequence[np.ndarray]) -> None:
    """Write an uncompressed zip of `document` as JSON and of `arrays` as ``arrays/0.npy`` and so on."""
    with zipfile.ZipFile(handle, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr(zipfile.ZipInfo(DOCUMENT, _EPOCH), _document_text(document))
        for i, array in enumerate(arrays):
            member = zipfile.ZipInfo(f"arrays/{i}.npy", _EPOCH)
            with archive.open(member, "w", force_zip64=array.nbytes > 2**30) as stream:
                np.lib.format.write_array(stream, array, allow_pickle=False)


def read_archive(handle: IO[bytes]) -> tuple[Any, dict[int, np.ndarray]]:
    """Document and arrays of a zip that `write_archive` made, or that somebody made to look so.

    Nothing is extracted, decompressed or unpickled, and no array is larger than the file. Damage shows as
    `FormatError` or as one of the exceptions of the zip, JSON and npy readers; the caller makes them one.
    """
    with _open_archive(handle) as archive:
        document = _parse_document(archive.read(DOCUMENT))
        arrays = {}
        for member in archive.infolist():
            match = ARRAY_NAME.fullmatch(member.filename)
            if match:
                arrays[int(match[1])] = parse_array(archive.read(member), member.filename)
    return document, arrays


def read_document(handle: IO[bytes]) -> Any:
    """The document of such a zip alone; of its arrays not a byte is read."""
    with _open_archive(handle) as archive:
        return _parse_document(archive.read(DOCUMENT))


def _open_archive(handle: IO[bytes]) -> zipfile.ZipFile:
    size = handle.seek(0, os.SEEK_END)
    if not zipfile.is_zipfile(handle):
        raise FormatError("it is not a zip file, or it is cut off; give a file that bagwise wrote, or write it again.")
    archive = zipfile.ZipFile(handle)
    _check_members(archive.infolist(), size)
    return archive


def _document_text(document: Any) -> str:
    return json.dumps(document, allow_nan=False, indent=1)


def _parse_document(raw: bytes) -> Any:
    n_values = sum(raw.count(mark) for mark in (b",", b"[", b"{"))
    if n_values > max(MANY_VALUES, len(raw) // FEWEST_BYTES):
        raise FormatError(f"its {DOCUMENT} is of {n_values} values in {len(raw)} bytes, which bagwise never writes.")
    document = json.loads(raw.decode("utf-8"), parse_constant=_refuse_constant)
    try:
        json.dumps(document, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise FormatError(f"its {DOCUMENT} holds text with half a character.") from None
    return document


def _refuse_constant(text: str) -> None:
    raise FormatError(f"its {DOCUMENT} holds {text}, which is not JSON.")


def _check_members(members: list[zipfile.ZipInfo], size: int) -> None:
    names = [member.filename for member in members]
    if DOCUMENT not in names:
        raise FormatError(f"it holds no {DOCUMENT}, so it is not a bagwise model.")
    if len(set(names)) < len(names):
        raise FormatError("two of its members have the same name.")
    for member in members:
        name = member.orig_filename
        if name != DOCUMENT and not ARRAY_NAME.fullmatch(name):
            raise FormatError(f"it holds {name!r}, which is no part of a bagwise model.")
        if member.compress_type != zipfile.ZIP_STORED or member.flag_bits & 1:
            raise FormatError(f"its member {name!r} is compressed or encrypted; model files are neither.")
        if member.file_size != member.compress_size:
            raise FormatError(f"the two sizes of its member {name!r} differ.")
    if sum(member.file_size for member in members) > size:
        raise FormatError("its members claim to be larger than the file.")


def npy_header(stream: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype]:
    """Shape, order and type of the array of a ``.npy`` file, as its header claims them."""
    version = np.lib.format.read_magic(stream)
    if version not in _HEADERS:
        raise ValueError(f"format version {version} is for tables with named columns")
    return _HEADERS[version](stream)


def parse_array(raw: bytes, name: str) -> np.ndarray:
    """The array of one ``.npy`` file; what its header claims must be exactly what follows the header."""
    stream = io.BytesIO(raw)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # numpy repairs old headers with a warning; ours need none
            shape, is_fortran, dtype = npy_header(stream)
    except Exception as error:  # numpy parses the header as Python literals, which fail in many ways
        raise FormatError(f"the header of its array {name!r} cannot be read ({error!r}).") from error
    if not is_storable(dtype):
        raise FormatError(f"its array {name!r} has dtype {dtype}, which is not read.")
    offset = stream.tell()
    if min(shape, default=0) < 0 or math.prod(shape) * dtype.itemsize != len(raw) - offset:
        raise FormatError(f"its array {name!r} claims the shape {shape}, but {len(raw) - offset} bytes follow.")
    if dtype.kind == "b" and np.frombuffer(raw, np.uint8, offset=offset).max(initial=0) > 1:
        raise FormatError(f"its array {name!r} holds truth values that are neither 0 nor 1.")
    if dtype.kind == "U":
        code_points = np.frombuffer(raw, np.dtype(np.uint32).newbyteorder(dtype.byteorder), offset=offset)
        if code_points.max(initial=0) > 0x10FFFF or np.any((code_points >= 0xD800) & (code_points < 0xE000)):
            raise FormatError(f"its array {name!r} holds characters that do not exist.")
    return np.ndarray(shape, dtype, raw, offset, order="F" if is_fortran else "C").copy(order="K")
