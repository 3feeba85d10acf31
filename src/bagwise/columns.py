"""Columns of a table of any library (pandas, polars, pyarrow, ...) as numpy arrays, without importing that library.

Tables that speak Arrow (``__arrow_c_stream__``) are read by pyarrow where it is installed; otherwise the dataframe
interchange protocol (``__dataframe__``) is read buffer by buffer.
"""

from __future__ import annotations

import ctypes
import importlib
import warnings
from typing import Any

import numpy as np

from bagwise.exceptions import InputError

# Kinds of columns in the interchange protocol.
_INT, _UINT, _FLOAT, _BOOL, _STRING, _CATEGORICAL = 0, 1, 2, 20, 21, 23
_NUMPY_KINDS = {_INT: "int", _UINT: "uint", _FLOAT: "float"}
_VALID, _NAN, _SENTINEL, _BIT_MASK, _BYTE_MASK = 0, 1, 2, 3, 4


def import_pyarrow(what: str) -> Any:
    """pyarrow with its parquet module; an error says that `what` needs it."""
    try:
        arrow = importlib.import_module("pyarrow")
        importlib.import_module("pyarrow.parquet")
    except ImportError as error:
        raise ImportError(f"{what} needs pyarrow; install it with: pip install 'bagwise[parquet]'") from error
    return arrow


class Columns:
    """The columns of a table by name, each turned into numpy only when it is asked for.

    Parameters
    ----------
    table : object with ``__arrow_c_stream__`` or ``__dataframe__``
    """

    def __init__(self, table: Any):
        self._arrow = _as_arrow(table)
        if self._arrow is not None:
            self.names = list(self._arrow.column_names)
            self.n_rows = self._arrow.num_rows
            return
        if not hasattr(table, "__dataframe__"):
            raise InputError(
                f"A {type(table).__name__} is no table: it offers neither Arrow's __arrow_c_stream__ nor __dataframe__ "
                "(as pandas, polars and pyarrow tables do); pass one of these, or use Bags.from_groups."
            )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # pandas would rather be read by Arrow, which is not there to do it
            self._frame = table.__dataframe__()
        self.names = list(self._frame.column_names())
        self.n_rows = self._frame.num_rows()

    def values(self, name: str) -> np.ndarray:
        """Numbers as they are (missing ones NaN); text and lists as an array of objects, None where missing."""
        if self._arrow is not None:
            return arrow_values(self._arrow.column(name))
        pieces = [_interchange_values(chunk, name) for chunk in self._frame.get_column_by_name(name).get_chunks()]
        if not pieces:
            return np.empty(0)
        return np.concatenate(pieces)


def _as_arrow(table: Any) -> Any:
    if not hasattr(table, "__arrow_c_stream__"):
        return None
    try:
        arrow = import_pyarrow("Reading Arrow tables")
    except ImportError:
        if hasattr(table, "__dataframe__"):
            return None
        raise
    try:
        return arrow.table(table)
    except (ValueError, TypeError) as error:  # pyarrow's own are both
        text = " ".join(str(part) for part in error.args)
        raise InputError(f"The table cannot be read: {text}; give every column values of one kind.") from error


def arrow_values(column: Any) -> np.ndarray:
    """An Arrow column as numpy: numbers as they are, everything else as objects."""
    arrow = import_pyarrow("Reading Arrow columns")
    kinds = arrow.types
    kind = column.type
    if kinds.is_dictionary(kind):
        column = column.cast(kind.value_type)
        kind = kind.value_type
    if kinds.is_integer(kind) or kinds.is_floating(kind) or kinds.is_boolean(kind):
        return column.to_numpy(zero_copy_only=False) if isinstance(column, arrow.Array) else column.to_numpy()
    out = np.empty(len(column), dtype=object)
    out[:] = column.to_pylist()
    return out


# ---------------------------------------------------------------------------------------------------------------------
# The interchange protocol


def _interchange_values(column: Any, name: str) -> np.ndarray:
    kind, bits, _, _ = column.dtype
    kind = int(kind)
    if kind == _CATEGORICAL:
        return _categorical_values(column, name)
    buffers = column.get_buffers()
    size, offset = column.size(), column.offset
    data = buffers["data"][0]
    if kind == _STRING:
        return _string_values(column, buffers, size, offset)
    if kind == _BOOL:
        values = _bits(data, size, offset) if bits == 1 else _array(data, np.uint8, size, offset).astype(bool)
    elif kind in _NUMPY_KINDS:
        values = _array(data, np.dtype(f"{_NUMPY_KINDS[kind]}{bits}"), size, offset)
    else:
        raise InputError(f"The column {name!r} holds neither numbers nor text; leave it out or convert it.")
    missing = _missing(column, buffers, values, size, offset)
    if missing is not None and missing.any():
        values = values.astype(np.float64)
        values[missing] = np.nan
    return values


def _array(buffer: Any, dtype: Any, size: int, offset: int) -> np.ndarray:
    """A copy of `size` items of a buffer in this process's memory, from item `offset`."""
    dtype = np.dtype(dtype)
    n_bytes = (size + offset) * dtype.itemsize
    if n_bytes > buffer.bufsize:
        raise InputError(f"A column claims {n_bytes} bytes but its buffer holds {buffer.bufsize}; the table is broken.")
    if size == 0:
        return np.empty(0, dtype)
    raw = (ctypes.c_uint8 * n_bytes).from_address(buffer.ptr)
    return np.frombuffer(raw, dtype)[offset:].copy()


def _bits(buffer: Any, size: int, offset: int) -> np.ndarray:
    n_bytes = (size + offset + 7) // 8
    return np.unpackbits(_array(buffer, np.uint8, n_bytes, 0), bitorder="little")[offset : offset + size].astype(bool)


def _missing(column: Any, buffers: Any, values: Any, size: int, offset: int) -> np.ndarray | None:
    """Which rows have no value."""
    rule, sentinel = column.describe_null
    rule = int(rule)
    if rule == _NAN and values is not None and values.dtype.kind == "f":
        return np.isnan(values)
    if rule == _SENTINEL and values is not None:
        return values == sentinel
    if rule in (_BIT_MASK, _BYTE_MASK) and buffers["validity"] is not None:
        mask, (_, bits, _, _) = buffers["validity"]
        flags = _bits(mask, size, offset) if bits == 1 else _array(mask, np.uint8, size, offset).astype(bool)
        return flags == bool(sentinel)
    return None


def _string_values(column: Any, buffers: Any, size: int, offset: int) -> np.ndarray:
    starts_buffer, (_, bits, _, _) = buffers["offsets"]
    starts = _array(starts_buffer, np.dtype(f"int{bits}"), size + 1, offset).astype(np.int64)
    data = buffers["data"][0]
    text = _array(data, np.uint8, int(starts[-1]) if size else 0, 0).tobytes()
    missing = _missing(column, buffers, None, size, offset)
    out = np.empty(size, dtype=object)
    for i in range(size):
        if missing is None or not missing[i]:
            out[i] = text[starts[i] : starts[i + 1]].decode("utf-8")
    return out


def _categorical_values(column: Any, name: str) -> np.ndarray:
    categories = column.describe_categorical["categories"]
    names = [_interchange_values(chunk, name) for chunk in categories.get_chunks()] if categories is not None else []
    buffers = column.get_buffers()
    data, (kind, bits, _, _) = buffers["data"]
    codes = _array(data, np.dtype(f"{_NUMPY_KINDS[int(kind)]}{bits}"), column.size(), column.offset).astype(np.int64)
    missing = _missing(column, buffers, codes, column.size(), column.offset)
    out = np.empty(len(codes), dtype=object)
    known = np.ones(len(codes), dtype=bool) if missing is None else ~missing
    if names:
        out[known] = np.concatenate(names)[codes[known]]
    return out
