"""What a parquet file says about itself: its schema, our own metadata, and errors that name the file."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from bagwise.columns import import_pyarrow
from bagwise.exceptions import BagwiseError, FormatError
from bagwise.io.text import TextTable, defuse
from bagwise.memory import check_allocation

METADATA_KEY = b"bagwise"
NEEDED_BY = "Reading and writing parquet"
THRIFT_LIMIT = 100_000_000
_SIZE_OF_CELL = 100  # of a short text and its place in a list


@contextmanager
def arrow_errors(path: Any) -> Iterator[None]:
    """Whatever pyarrow says about a damaged file, as one `FormatError` that names the file."""
    try:
        yield
    except (BagwiseError, ImportError):
        raise
    except (
        OSError,
        ValueError,
        KeyError,
        IndexError,
        TypeError,
        NotImplementedError,
        OverflowError,
        MemoryError,
    ) as error:
        text = " ".join(str(error).split())[:200]
        raise FormatError(f"{path}: it is damaged, cut off or no parquet file ({text}); make it anew.") from error


def open_file(arrow: Any, path: Path, dictionaries: list[str] | None = None) -> Any:
    """The file with its metadata, which may claim only so much; some columns are read as dictionaries."""
    return arrow.parquet.ParquetFile(
        path,
        read_dictionary=dictionaries,
        pre_buffer=False,  # else a whole row group is held in memory
        thrift_string_size_limit=THRIFT_LIMIT,
        thrift_container_size_limit=THRIFT_LIMIT,
    )


def nested_columns(arrow: Any, schema: Any) -> list[str]:
    """Names of the columns that hold lists of lists of numbers."""
    types = arrow.types

    def is_list(kind: Any) -> bool:
        return types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)

    def is_nested(kind: Any) -> bool:
        if not is_list(kind) or not is_list(kind.value_type):
            return False
        inner = kind.value_type.value_type
        return types.is_floating(inner) or types.is_integer(inner)

    return [name for i, name in enumerate(schema.names) if is_nested(schema.field(i).type)]


def text_columns(file: Any) -> list[str]:
    """Columns that hold text; read as dictionaries, a long text takes its room once, not on every row.

    Not those that hold lists of text, whose dictionaries pyarrow cannot join.
    """
    return [column.path for column in file.schema if column.physical_type == "BYTE_ARRAY" and "." not in column.path]


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


def plain_labels(labels: list[Any]) -> list[Any]:
    """Labels of text or whole numbers; those that are empty text are unknown."""
    for label in labels:
        if label is not None and type(label) not in (str, int):
            raise ValueError(f"an instance label is {str(label)[:40]}; expected text or whole numbers")
    return [None if label == "" else label for label in labels]


def is_nested_file(path: Path) -> bool:
    """Whether a parquet file has a row a bag; nothing but its schema is looked at."""
    arrow = import_pyarrow(NEEDED_BY)
    with arrow_errors(path):
        return bool(nested_columns(arrow, open_file(arrow, path).schema_arrow))


def read_about(schema: Any, path: Path) -> dict[str, Any]:
    """Our own metadata, checked; empty where the file was written by others."""
    raw = (schema.metadata or {}).get(METADATA_KEY)
    if raw is None:
        return {}
    try:
        about = json.loads(raw.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{path}: its metadata {METADATA_KEY.decode()!r} is no JSON; make it anew.") from error
    names = {"class_names": (str, int), "feature_names": (str,)}
    for key, kinds in names.items():
        value = about.get(key) if isinstance(about, dict) else 0
        if value is None:
            continue
        if not isinstance(value, list) or not all(type(item) in kinds for item in value):
            raise FormatError(f"{path}: its metadata names no {key} that can be used; make it anew.")
        if len(set(value)) < len(value):
            raise FormatError(f"{path}: its metadata names one of the {key} twice; make it anew.")
    return about


def read_text_rows(path: Path) -> TextTable:
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
    return TextTable(rows, list(range(len(rows))), separator="", source="from a parquet table")


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
