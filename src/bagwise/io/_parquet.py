"""What parquet files have in common: opening and reading them within bounds, and columns as Python and numpy values."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from bagwise.core.checks import check_allocation, import_pyarrow
from bagwise.core.exceptions import FormatError
from bagwise.io._footer import column_sizes
from bagwise.io.files import damaged, defuse

KIND = "parquet file"  # of errors
METADATA_KEY = b"bagwise"
NEEDED_BY = "Reading and writing parquet"
SIZE_OF_CELL = 100  # of a short text and its place in a list
_THRIFT_LIMIT = 100_000_000


def read_columns(path: Path, cell_bytes: int, cure: str, choose: Callable[[list[str]], list[str]] | None = None) -> Any:
    """The Arrow table of a file, or of the columns that are chosen by their names.

    It is held against the memory first: of so many bytes for each value. `cure` is for one that is too large.
    """
    arrow = import_pyarrow(NEEDED_BY)
    with damaged(path, KIND):
        file = open_file(arrow, path)
        names = list(file.schema_arrow.names)
        chosen = names if choose is None else choose(names)
        sizes = column_sizes(path)
        n_values = sum(sizes.get(name, (0, 0))[0] for name in chosen)
        check_allocation(cell_bytes * n_values, f"{path} in memory", cure)
        return file.read(columns=chosen)


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
    types = import_pyarrow(NEEDED_BY).types
    if types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    kind = column.type
    if types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind):
        return np.asarray(column)
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


def read_text_rows(path: Path) -> list[list[str]]:
    """A parquet table as rows of text, its headings first; a list becomes ``a;b;c``."""
    table = read_columns(path, SIZE_OF_CELL, "use fewer rows")
    with damaged(path, KIND):
        values = [python_values(import_pyarrow(NEEDED_BY), column) for column in table.columns]
    rows = [[defuse(heading) for heading in table.column_names]]
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
