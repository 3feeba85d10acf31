"""Vectors that other programs worked out, a row per window: tables, and folders of BirdNET-Analyzer and hoplite."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from bagwise.core.checks import import_pyarrow
from bagwise.core.exceptions import FormatError, InputError
from bagwise.io._parquet import KIND, arrow_values, matrix_of, python_values, read_columns
from bagwise.io.data._npz import read_arrays
from bagwise.io.files import damaged, read_text
from bagwise.io.tables import read_rows

NEEDED_BY = "Reading vectors from parquet"
# What the columns are called by those who write them, in lower case.
FILE = ("file", "files", "filename", "file_name", "filepath", "file_path", "path", "recording", "source", "begin path")
START = ("start", "starts", "start_time", "start_s", "start (s)", "begin time (s)", "offset_s", "offset")
END = ("end", "ends", "end_time", "end_s", "end (s)", "end time (s)")
SPAN = START, END
BOX = ("left", "x"), ("top", "y"), ("width", "w"), ("height", "h")
VECTOR = ("vector", "vectors", "embedding", "embeddings", "features")
BIRDNET = ".birdnet.embeddings.txt"
HOPLITE, USEARCH = "hoplite.sqlite", "usearch.index"
HOPLITE_NOW = "SELECT w.id, r.filename, w.offsets FROM windows w JOIN recordings r ON r.id = w.recording_id", "<f8"
HOPLITE_BEFORE = (  # the schema of its first year, which BirdNET-Analyzer 2.0 has
    "SELECT e.id, s.source, e.offsets FROM hoplite_embeddings e JOIN hoplite_sources s ON s.id = e.source_idx",
    "<f2",
)
Known = tuple[tuple[str, ...], ...]
EXAMPLE = (
    "expected columns file, start and end (seconds or characters; of pictures left, top, width, height), and vector"
)


@dataclass(frozen=True)
class _VectorRows:
    """A row per window: names of files, (m, 2 k) places, (m, e) float32 vectors.

    A place is first and last second or character, or for a box left, right, top and bottom.
    """

    files: list[str]
    places: np.ndarray
    vectors: np.ndarray


def read_vector_file(path: Path, *, boxes: bool = False) -> _VectorRows:
    """The windows of a table, or the boxes of regions of pictures, checked: finite numbers, ends after beginnings."""
    places = BOX if boxes else SPAN
    if path.is_dir():
        if boxes:
            raise InputError(f"{path}: folders hold vectors of recordings; give a table for pictures.")
        rows = _from_hoplite(path) if (path / HOPLITE).is_file() else _from_birdnet(path)
    elif not path.is_file():
        raise InputError(f"{path}: there is no such file; give a table of vectors (--embeddings).")
    elif (ending := path.suffix.lower()) in READERS:
        rows = READERS[ending](path, places)
    else:
        raise InputError(
            f"{path}: vectors are read from {', '.join(READERS)} and from folders of hoplite and BirdNET-Analyzer, not "
            f"from {ending!r}; convert it."
        )
    if not len(rows.files) or not rows.vectors.shape[1]:
        raise FormatError(f"{path}: it holds no vectors; {EXAMPLE}.")
    if boxes:  # left, top, width, height
        left, top, width, height = rows.places.T
        rows = replace(rows, places=np.stack([left, left + width, top, top + height], axis=1))
    for what, values in (("place", rows.places), ("vector", rows.vectors)):
        bad = np.flatnonzero(~np.isfinite(values).all(axis=1))
        if len(bad):
            raise FormatError(f"{path}, row {bad[0] + 1}: its {what} is no finite number; correct or remove the row.")
    first, last = rows.places[:, ::2], rows.places[:, 1::2]
    bad = np.flatnonzero(((last <= first) | (first < 0)).any(axis=1))
    if len(bad):
        axis = int(np.argmax((last <= first)[bad[0]] | (first < 0)[bad[0]]))
        raise FormatError(
            f"{path}, row {bad[0] + 1}: it begins at {first[bad[0], axis]:g} and ends at {last[bad[0], axis]:g}; "
            "expected seconds, characters or points from the beginning of the file, the end after the start."
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


def _from_parquet(path: Path, places: Known) -> _VectorRows:
    is_list = False

    def choose(names: list[str]) -> list[str]:
        nonlocal is_list
        placed = [_needed(path, names, known) for known in (FILE, *places)]
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
        names, *columns = table.columns
        numbers = columns[len(places) :]
        files = [str(name) for name in python_values(arrow, names)]
        if is_list:
            vectors = matrix_of(arrow, numbers[0].combine_chunks(), path)
        else:
            vectors = np.stack([np.asarray(arrow_values(column), dtype=np.float32) for column in numbers], axis=1)
        found = [np.asarray(arrow_values(column), dtype=np.float64) for column in columns[: len(places)]]
        return _VectorRows(files, np.stack(found, axis=1), np.asarray(vectors, dtype=np.float32))


def _from_npz(path: Path, places: Known) -> _VectorRows:
    known = (FILE, *places, VECTOR)
    arrays = read_arrays(path, lambda names: [_needed(path, sorted(names), called) for called in known])
    files, *found, vectors = arrays.values()
    shapes = ((files, 1, "US"), *((column, 1, "iuf") for column in found), (vectors, 2, "iuf"))
    for name, (array, axes, kinds) in zip(arrays, shapes, strict=True):
        if array.ndim != axes or array.dtype.kind not in kinds or len(array) != len(files):
            raise FormatError(
                f"{path}: the array {name!r} has shape {array.shape} of {array.dtype}; expected a row for each of "
                f"{len(files)} windows: text, seconds, and vectors of numbers."
            )
    text = [name.decode("utf-8", "replace") if isinstance(name, bytes) else str(name) for name in files.tolist()]
    return _VectorRows(text, np.stack(found, axis=1).astype(np.float64), vectors.astype(np.float32))


def _from_text(path: Path, places: Known) -> _VectorRows:
    """A table with a cell of numbers with commas between for each vector, as BirdNET-Analyzer writes it, or wide."""
    table = read_rows(path)
    names = table.headings
    file, *placed = (names.index(_needed(path, names, known)) for known in (FILE, *places))
    vector = _column(names, VECTOR)
    wide = [i for i, name in enumerate(names) if name.isdecimal()]
    if vector is None and not wide:
        raise FormatError(f"{path}: there is no column 'vector', nor columns 0, 1, 2, ... of numbers; {EXAMPLE}.")
    found = []
    for line, row in zip(table.lines[1:], table.rows[1:], strict=True):
        cells = [row[i] for i in wide] if vector is None else row[names.index(vector)].split(",")
        found.append(_numbers([*(row[i] for i in placed), *cells], f"{path}, row {line}"))
    return _of_numbers([row[file] for row in table.rows[1:]], found, len(places))


def _numbers(cells: Sequence[str], place: str) -> np.ndarray:
    try:
        return np.array(cells, dtype=np.float64)
    except ValueError as error:
        raise FormatError(f"{place}: its place and vector are no numbers ({error}); {EXAMPLE}.") from error


def _of_numbers(files: list[str], rows: Sequence[np.ndarray], n_places: int = len(SPAN)) -> _VectorRows:
    """Windows from place and vector of each in one array."""
    sizes = {len(row) - n_places for row in rows}
    if len(sizes) > 1:
        raise FormatError(
            f"Vectors, such as that of {files[0]!r}, have {min(sizes)} to {max(sizes)} numbers; {EXAMPLE}."
        )
    table = np.array(rows, dtype=np.float64).reshape(len(rows), n_places + max(sizes, default=0))
    return _VectorRows(files, table[:, :n_places], table[:, n_places:].astype(np.float32))


def _from_birdnet(folder: Path) -> _VectorRows:
    """What BirdNET-Analyzer wrote before 2.0: a file for each recording, a line for each window."""
    found = sorted(folder.rglob(f"*{BIRDNET}"))
    if not found:
        raise FormatError(
            f"{folder}: there is no {HOPLITE} in it, as hoplite has, and no file that ends in {BIRDNET}, as "
            "BirdNET-Analyzer wrote; give another folder, or a table."
        )
    files, rows = [], []
    for path in found:
        for number, line in enumerate(read_text(path).text.splitlines(), 1):
            if line.strip():
                rows.append(_numbers(line.replace("\t", ",").split(","), f"{path}, row {number}"))
                files.append(path.relative_to(folder).as_posix().removesuffix(BIRDNET))
    return _of_numbers(files, rows)


def _from_hoplite(folder: Path) -> _VectorRows:
    """A database of hoplite, as Perch and BirdNET-Analyzer from 2.0 on keep it: sqlite, and an index of usearch."""
    try:
        from usearch.index import Index
    except ImportError as error:
        raise ImportError(f"Folders of hoplite need usearch, and {error}; pip install usearch.") from error
    path = folder / HOPLITE
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as base:
            tables = {name for (name,) in base.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
            query, kind = HOPLITE_NOW if "windows" in tables else HOPLITE_BEFORE
            windows = base.execute(query).fetchall()
        index = Index.restore(str(folder / USEARCH), view=True)
        keys = np.array([key for key, _, _ in windows], dtype=np.uint64)
        there = index.contains(keys) if len(keys) else np.empty(0, dtype=bool)
        vectors = [index.get(keys[i : i + 1], dtype=np.float32)[0] for i in np.flatnonzero(there)]
        offsets = [np.frombuffer(blob, dtype=kind)[:2].astype(np.float64) for _, _, blob in windows]
    except (sqlite3.Error, ValueError, RuntimeError, OSError, TypeError) as error:
        raise FormatError(f"{folder}: it is damaged, or no folder of hoplite that is known ({error}).") from error
    if any(len(own) < 2 for own in offsets):
        raise FormatError(f"{folder}: its windows have a start and no end; write them as a table with both.")
    kept = np.flatnonzero(there).tolist()
    rows = [np.append(offsets[i], vector) for i, vector in zip(kept, vectors, strict=True)]
    return _of_numbers([str(windows[i][1]) for i in kept], rows)


READERS = {".parquet": _from_parquet, ".npz": _from_npz, ".csv": _from_text}
