"""Tables of vectors that other programs worked out: parquet or npz, a row per window of a recording."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bagwise.core.checks import import_pyarrow
from bagwise.core.exceptions import FormatError, InputError
from bagwise.io._parquet import KIND, arrow_values, matrix_of, python_values, read_columns
from bagwise.io.data._npz import read_arrays
from bagwise.io.files import damaged

NEEDED_BY = "Reading vectors from parquet"
# What the columns are called by those who write them, in lower case.
FILE = ("file", "files", "filename", "file_name", "filepath", "file_path", "path", "recording", "source", "begin path")
START = ("start", "starts", "start_time", "start_s", "start (s)", "begin time (s)", "offset_s", "offset")
END = ("end", "ends", "end_time", "end_s", "end (s)", "end time (s)")
VECTOR = ("vector", "vectors", "embedding", "embeddings", "features")
EXAMPLE = "expected columns file, start, end (in seconds) and vector"


@dataclass(frozen=True)
class _VectorRows:
    """A row per window: names of files, (m,) starts and ends in seconds, (m, e) float32 vectors."""

    files: list[str]
    start: np.ndarray
    end: np.ndarray
    vectors: np.ndarray


def read_vector_file(path: Path) -> _VectorRows:
    """The windows of a table, checked: finite numbers, windows that end after they begin."""
    if not path.is_file():
        raise InputError(f"{path}: there is no such file; give a table of vectors (--embeddings).")
    ending = path.suffix.lower()
    if ending not in (".parquet", ".npz"):
        raise InputError(f"{path}: vectors are read from .parquet and .npz, not from {ending!r}; convert it.")
    rows = _from_parquet(path) if ending == ".parquet" else _from_npz(path)
    if not len(rows.files) or not rows.vectors.shape[1]:
        raise FormatError(f"{path}: it holds no vectors; {EXAMPLE}.")
    for what, values in (("start", rows.start), ("end", rows.end), ("vector", rows.vectors)):
        bad = np.flatnonzero(~np.isfinite(values.reshape(len(values), -1)).all(axis=1))
        if len(bad):
            raise FormatError(f"{path}, row {bad[0] + 1}: its {what} is no finite number; correct or remove the row.")
    bad = np.flatnonzero((rows.end <= rows.start) | (rows.start < 0))
    if len(bad):
        i = bad[0]
        raise FormatError(
            f"{path}, row {i + 1}: it begins at {rows.start[i]:g} s and ends at {rows.end[i]:g} s; expected seconds "
            "from the beginning of the file, the end after the start."
        )
    return rows


def _column(names: Iterable[str], known: tuple[str, ...]) -> str | None:
    """The first of the known names that is there, in whatever case."""
    folded = {name.strip().casefold(): name for name in names}
    return next((folded[name] for name in known if name in folded), None)


def _needed(path: Path, names: list[str], known: tuple[str, ...]) -> str:
    found = _column(names, known)
    if found is None:
        raise FormatError(
            f"{path}: there is no column {known[0]!r} ({', '.join(names[:8])}{', ...' if len(names) > 8 else ''}); "
            f"{EXAMPLE}."
        )
    return found


def _from_parquet(path: Path) -> _VectorRows:
    is_list = False

    def choose(names: list[str]) -> list[str]:
        nonlocal is_list
        placed = [_needed(path, names, known) for known in (FILE, START, END)]
        vector = _column(names, VECTOR)
        is_list = vector is not None
        columns = [name for name in names if name not in placed and name.isdecimal()] if vector is None else [vector]
        if not columns:
            raise FormatError(
                f"{path}: there is no column 'vector' that holds lists, nor columns 0, 1, 2, ... of numbers; {EXAMPLE}."
            )
        return [*placed, *columns]

    table = read_columns(path, np.dtype(np.float64).itemsize, "split it", choose)
    with damaged(path, KIND):
        arrow = import_pyarrow(NEEDED_BY)
        names, start, end, *numbers = table.columns
        files = [str(name) for name in python_values(arrow, names)]
        if is_list:
            vectors = matrix_of(arrow, numbers[0].combine_chunks(), path)
        else:
            vectors = np.stack([np.asarray(arrow_values(column), dtype=np.float32) for column in numbers], axis=1)
        begins, ends = (np.asarray(arrow_values(column), dtype=np.float64) for column in (start, end))
        return _VectorRows(files, begins, ends, np.asarray(vectors, dtype=np.float32))


def _from_npz(path: Path) -> _VectorRows:
    known = (FILE, START, END, VECTOR)
    arrays = read_arrays(path, lambda names: [_needed(path, sorted(names), called) for called in known])
    files, start, end, vectors = arrays.values()
    shapes = ((files, 1, "US"), (start, 1, "iuf"), (end, 1, "iuf"), (vectors, 2, "iuf"))
    for name, (array, axes, kinds) in zip(arrays, shapes, strict=True):
        if array.ndim != axes or array.dtype.kind not in kinds or len(array) != len(files):
            raise FormatError(
                f"{path}: the array {name!r} has shape {array.shape} of {array.dtype}; expected a row for each of "
                f"{len(files)} windows: text, seconds, and vectors of numbers."
            )
    text = [name.decode("utf-8", "replace") if isinstance(name, bytes) else str(name) for name in files.tolist()]
    return _VectorRows(text, start.astype(np.float64), end.astype(np.float64), vectors.astype(np.float32))
