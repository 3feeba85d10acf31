"""An archive of plain data: JSON for what is small, arrays in numpy's form for what is large, in an uncompressed zip.

Null, true, false, finite numbers, strings and lists stand for themselves. Everything else is an object with a
``kind``:

=====================  ===================================================================================
kind                   other members
=====================  ===================================================================================
float                  value: "inf", "-inf" or "nan"
tuple, set, frozenset  items: list of values
dict                   items: list of [key, value]
scalar                 of numpy; dtype, hex: its bytes
numpy-str              value
dtype                  value: such as "<f8"
numpy-type             value: such as "float64"
array                  index: of the array in the archive; each has one place
object-array           shape, items
csr                    form: "matrix" or "array"; shape, data, indices, indptr
bags                   instances, offsets
estimator              what the caller makes of it
=====================  ===================================================================================

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
from collections.abc import Callable, Sequence
from typing import IO, Any

import numpy as np
import scipy.sparse as sp

from bagwise.core.bags import Bags
from bagwise.core.exceptions import FormatError, InputError
from bagwise.core.fitted import MOST_KEYS

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
MAX_DEPTH = 60
MOST_KEYS_IN_ALL = 20 * MOST_KEYS
SCALAR_KINDS = "biufcmM"
NUMPY_TYPES: dict[str, Any] = {
    np.dtype(code).type.__name__: np.dtype(code).type
    for code in ("?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8")
}
_DTYPE = re.compile(rf"[<>|][{ARRAY_KINDS}][0-9]{{1,9}}(\[[0-9]*[a-zA-Z]+\])?")


# ---------------------------------------------------------------------------------------------------------------------
# The zip


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


# ---------------------------------------------------------------------------------------------------------------------
# Values to JSON


class Encoder:
    """Turns values into JSON and gathers their arrays.

    Parameters
    ----------
    encode_estimator : function of (estimator, where, inner)
        Gives the JSON of an estimator; ``inner(value, place)`` encodes what is inside it.

    Attributes
    ----------
    arrays : list of arrays
        In the order of their index.
    """

    def __init__(self, encode_estimator: Callable[[Any, str, Callable[[Any, str], Any]], Any]):
        self.encode_estimator = encode_estimator
        self.arrays: list[np.ndarray] = []

    def encode(self, value: Any, where: str, depth: int = 0) -> Any:
        """The JSON of `value`; `where` is its place, for messages."""
        if depth > MAX_DEPTH:
            raise InputError(f"{where} is nested more than {MAX_DEPTH} deep or holds itself; it cannot be saved.")

        def inner(item: Any, place: str) -> Any:
            return self.encode(item, where + place, depth + 1)

        kind: Any = type(value)
        if value is None or kind in (bool, int, str):
            return value
        if kind is float:
            return value if math.isfinite(value) else {"kind": "float", "value": repr(value)}
        if kind is dict:
            items = [[inner(k, ", a key"), inner(v, f"[{k!r}]")] for k, v in value.items()]
            return {"kind": "dict", "items": items}
        if kind in (list, tuple, set, frozenset):
            items = [inner(item, f"[{i}]") for i, item in enumerate(value)]
            if kind in (set, frozenset):
                items.sort(key=json.dumps)  # sets have no order, files should
            return items if kind is list else {"kind": kind.__name__, "items": items}
        if kind in (np.ndarray, np.memmap):
            return self._encode_array(value, where, inner)
        if isinstance(value, (np.generic, np.dtype, type)):
            return _encode_numpy(value, where)
        if sp.issparse(value) and value.format == "csr":
            form = "array" if isinstance(value, sp.sparray) else "matrix"
            parts = {part: inner(getattr(value, part), f".{part}") for part in ("data", "indices", "indptr")}
            return {"kind": "csr", "form": form, "shape": list(value.shape), **parts}
        if kind is Bags:
            parts = {part: inner(getattr(value, part), f".{part}") for part in ("instances", "offsets")}
            return {"kind": "bags", **parts}
        if hasattr(value, "get_params"):
            return self.encode_estimator(value, where, inner)
        raise InputError(_why_not(value, where))

    def _encode_array(self, value: np.ndarray, where: str, inner: Callable[[Any, str], Any]) -> Any:
        if value.dtype == object:
            items = [inner(item, f"[{i}]") for i, item in enumerate(value.ravel().tolist())]
            return {"kind": "object-array", "shape": list(value.shape), "items": items}
        if not is_storable(value.dtype):
            raise InputError(f"{where} is an array of dtype {value.dtype}, which cannot be saved; use numbers.")
        self.arrays.append(np.asarray(value))
        return {"kind": "array", "index": len(self.arrays) - 1}


def _encode_numpy(value: Any, where: str) -> dict[str, Any]:
    if isinstance(value, np.str_):
        return {"kind": "numpy-str", "value": str(value)}
    if isinstance(value, np.generic) and value.dtype.kind in SCALAR_KINDS:
        return {"kind": "scalar", "dtype": value.dtype.str, "hex": value.tobytes().hex()}
    if isinstance(value, np.dtype) and _DTYPE.fullmatch(value.str):
        return {"kind": "dtype", "value": value.str}
    for name, numpy_type in NUMPY_TYPES.items():
        if value is numpy_type:
            return {"kind": "numpy-type", "value": name}
    raise InputError(_why_not(value, where))


def _why_not(value: Any, where: str) -> str:
    if isinstance(value, (np.random.RandomState, np.random.Generator)):
        return f"{where} is a numpy {type(value).__name__}, which cannot be saved; pass an int as the seed."
    if callable(value):
        return f"{where} is {value!r}, and code cannot be saved; use one of the built-in choices."
    return (
        f"{where} is a {type(value).__module__}.{type(value).__qualname__}, which cannot be saved; values "
        "may be None, bool, int, float, str, list, tuple, dict, set, numpy arrays and scalars, CSR matrices, "
        "Bags and estimators."
    )


# ---------------------------------------------------------------------------------------------------------------------
# JSON to values


Node = dict[str, Any]


class Decoder:
    """Turns JSON back into values; trusts nothing in it.

    What does not fit is a `FormatError`, or an exception of numpy or scipy that the caller turns into one.

    Parameters
    ----------
    arrays : dict of int to array
        Each is handed out once, so that a small file cannot ask for many copies; the rest belongs nowhere.
    decode_estimator : function of (decoder, node, depth)
        Gives the estimator of a node of that kind.
    """

    def __init__(self, arrays: dict[int, np.ndarray], decode_estimator: Callable[[Decoder, Node, int], Any]):
        self.arrays = arrays
        self.decode_estimator = decode_estimator
        self.n_keys = 0

    def keys(self, items: list[Any]) -> list[Any]:
        """The entries of a set or dict, refused where there are so many that colliding hashes would take minutes."""
        self.n_keys += (found := sum(not isinstance(key, str) for key in items))
        if found > MOST_KEYS or self.n_keys > MOST_KEYS_IN_ALL:
            raise FormatError(
                f"it holds a set or dict of more than {MOST_KEYS} entries that are not text; use an array."
            )
        return items

    def decode(self, node: Any, depth: int = 0) -> Any:
        """The value of a piece of JSON."""
        if depth > MAX_DEPTH:
            raise FormatError(f"it is nested more than {MAX_DEPTH} deep.")
        if isinstance(node, list):
            for i, item in enumerate(node):  # in place: the file's list and its copy would be twice the memory
                node[i] = self.decode(item, depth + 1)
            return node
        if not isinstance(node, dict):
            return node
        kind = node.get("kind")
        if not isinstance(kind, str) or kind not in _DECODERS:
            raise FormatError(f"it holds a value of the unknown kind {kind!r}.")
        return _DECODERS[kind](self, node, depth + 1)

    def decode_items(self, node: Node, depth: int) -> list[Any]:
        """The list ``items`` of a node."""
        items: list[Any] = member(node, "items", list)
        for i, item in enumerate(items):
            items[i] = self.decode(item, depth)
        return items

    def decode_named(self, node: Node, key: str, depth: int) -> dict[str, Any]:
        """The values by name in the object `key` of a node."""
        return {name: self.decode(value, depth) for name, value in member(node, key, dict).items()}


def member(node: Node, key: str, kind: type) -> Any:
    """The member `key` of a node, which must be exactly of this Python type."""
    value = node.get(key)
    if type(value) is not kind:
        raise FormatError(f"a value of kind {node['kind']!r} lacks its {key!r}, or it is no {kind.__name__}.")
    return value


def _decode_float(decoder: Decoder, node: Node, depth: int) -> float:
    if node.get("value") not in ("inf", "-inf", "nan"):
        raise FormatError(f"it holds {node.get('value')!r} for a number.")
    return float(node["value"])


def _decode_dict(decoder: Decoder, node: Node, depth: int) -> dict[Any, Any]:
    pairs = member(node, "items", list)
    if not all(isinstance(pair, list) and len(pair) == 2 for pair in pairs):
        raise FormatError("the items of a dict are not pairs.")
    keys = decoder.keys([decoder.decode(key, depth) for key, _ in pairs])
    return {key: decoder.decode(value, depth) for key, (_, value) in zip(keys, pairs, strict=True)}


def _decode_dtype(decoder: Decoder, node: Node, depth: int, key: str = "value") -> np.dtype:
    text = member(node, key, str)
    if not _DTYPE.fullmatch(text):
        raise FormatError(f"it names the dtype {text!r}, which is not read.")
    return np.dtype(text)


def _decode_scalar(decoder: Decoder, node: Node, depth: int) -> Any:
    dtype, raw = _decode_dtype(decoder, node, depth, "dtype"), bytes.fromhex(member(node, "hex", str))
    if dtype.kind not in SCALAR_KINDS or len(raw) != dtype.itemsize or (dtype.kind == "b" and raw[0] > 1):
        raise FormatError(f"it holds {len(raw)} bytes that are no number of dtype {dtype}.")
    return np.frombuffer(raw, dtype)[0]


def _decode_numpy_type(decoder: Decoder, node: Node, depth: int) -> Any:
    name = member(node, "value", str)
    if name not in NUMPY_TYPES:
        raise FormatError(f"it names the numpy type {name!r}, which is not read.")
    return NUMPY_TYPES[name]


def _decode_array(decoder: Decoder, node: Node, depth: int) -> np.ndarray:
    index = member(node, "index", int)
    if index not in decoder.arrays:
        raise FormatError(f"its array {index} is missing, or used twice.")
    return decoder.arrays.pop(index)


def _decode_shape(node: Node) -> tuple[int, ...]:
    shape = member(node, "shape", list)
    if not all(type(length) is int and length >= 0 for length in shape):
        raise FormatError(f"it holds the shape {shape!r}.")
    return tuple(shape)


def _decode_object_array(decoder: Decoder, node: Node, depth: int) -> np.ndarray:
    shape, items = _decode_shape(node), decoder.decode_items(node, depth)
    if math.prod(shape) != len(items):
        raise FormatError(f"an array of shape {shape} comes with {len(items)} items.")
    array = np.empty(len(items), dtype=object)
    for i, item in enumerate(items):
        array[i] = item
    return array.reshape(shape)


def _decode_csr(decoder: Decoder, node: Node, depth: int) -> Any:
    parts = [decoder.decode(member(node, part, dict), depth) for part in ("data", "indices", "indptr")]
    if not all(isinstance(part, np.ndarray) and part.ndim == 1 for part in parts):
        raise FormatError("the parts of a sparse matrix are no lists of numbers.")
    if parts[0].dtype.kind not in "biufc" or any(part.dtype.kind != "i" for part in parts[1:]):
        raise FormatError("the parts of a sparse matrix are not of the right kinds.")
    form = {"matrix": sp.csr_matrix, "array": sp.csr_array}[member(node, "form", str)]
    matrix = form(tuple(parts), shape=_decode_shape(node))
    matrix.check_format(full_check=True)  # scipy's C code trusts the indices
    return matrix


def _decode_bags(decoder: Decoder, node: Node, depth: int) -> Bags:
    instances, offsets = (decoder.decode(member(node, key, dict), depth) for key in ("instances", "offsets"))
    if not isinstance(offsets, np.ndarray) or not (isinstance(instances, np.ndarray) or sp.issparse(instances)):
        raise FormatError("the instances or offsets of bags are no array.")
    return Bags(instances, offsets)


_DECODERS: dict[str, Callable[[Decoder, Node, int], Any]] = {
    "float": _decode_float,
    "tuple": lambda decoder, node, depth: tuple(decoder.decode_items(node, depth)),
    "set": lambda decoder, node, depth: set(decoder.keys(decoder.decode_items(node, depth))),
    "frozenset": lambda decoder, node, depth: frozenset(decoder.keys(decoder.decode_items(node, depth))),
    "dict": _decode_dict,
    "scalar": _decode_scalar,
    "numpy-str": lambda decoder, node, depth: np.str_(member(node, "value", str)),
    "dtype": _decode_dtype,
    "numpy-type": _decode_numpy_type,
    "array": _decode_array,
    "object-array": _decode_object_array,
    "csr": _decode_csr,
    "bags": _decode_bags,
    "estimator": lambda decoder, node, depth: decoder.decode_estimator(decoder, node, depth),
}
