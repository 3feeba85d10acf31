"""Parquet files that are one source: which are meant, whether they go together, where they are cut into pieces."""

from __future__ import annotations

import glob
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bagwise.core.bags import cut_bags
from bagwise.core.exceptions import FormatError, InputError
from bagwise.io.data.outline import FileOutline
from bagwise.io.data.parquet import ParquetBags
from bagwise.io.files import check_readable

ENDINGS = (".parquet", ".pq")
PIECE_BYTES = 64 * 2**20  # of features and scores; larger pieces save nothing any more
SHARE_OF_MEMORY = (
    12  # pieces of features that a fit may hold in one form or another: read, scaled, scored, the next one
)


def piece_rows(memory: int, row_bytes: int) -> int:
    """Instances in a piece, each of so many bytes of features and scores, so that a fit keeps within the memory."""
    return max(min(memory // SHARE_OF_MEMORY, PIECE_BYTES) // max(row_bytes, 1), 1)


def find_files(paths: Any) -> list[Path]:
    """The parquet files that are meant: of names, folders and patterns, each once, in order."""
    given = [paths] if isinstance(paths, (str, os.PathLike)) else list(paths)
    found: list[Path] = []
    for one in given:
        path = Path(one)
        if path.is_dir():
            inside = sorted(file for file in path.iterdir() if file.suffix.casefold() in ENDINGS)
            if not inside:
                raise FormatError(f"{path}: the folder holds no parquet file; name the files, or convert them first.")
        elif not path.exists() and glob.has_magic(str(one)):
            inside = sorted(Path(file) for file in glob.glob(str(one), recursive=True))
            if not inside:
                raise FormatError(f"{one}: no file has such a name; check the pattern.")
        else:
            inside = [path]
        found += map(check_readable, inside)
    if not found:
        raise InputError("No file was named; give at least one parquet file.")
    return list(dict.fromkeys(found))


def check_same_columns(first: ParquetBags, file: ParquetBags) -> None:
    """All files of a source have the same columns of the same kinds, in whatever order those of features stand."""
    kinds = [{h: str(f.schema.field(h).type) for h in f.headings if not _is_feature(f, h)} for f in (first, file)]
    names = [f.feature_names for f in (first, file)]
    if first.nested == file.nested and kinds[0] == kinds[1] and names[0] == names[1]:
        return
    if first.nested != file.nested:
        what = f"it has {'nested' if file.nested else 'long'} rows, the first file has not"
    else:
        own, others = ({*kind, *(name or ())} for kind, name in zip(kinds, names, strict=True))
        differing = sorted(own ^ others) or sorted(h for h in kinds[0] if kinds[0][h] != kinds[1].get(h)) or ["order"]
        what = f"its columns differ from those of the first file, {first.path}, in {', '.join(differing[:5])}"
    raise FormatError(f"{file.path}: {what}; all files of one source have the same columns.")


def _is_feature(file: ParquetBags, heading: str) -> bool:
    return file.headings.index(heading) in file.roles.features


def join_labels(files: Sequence[ParquetBags], outlines: Sequence[FileOutline]) -> tuple[list[Any], np.ndarray | None]:
    """Classes of all files in one order, and the labels of all bags."""
    named = [file.class_names for file in files]
    for file, names in zip(files, named, strict=True):
        if (names is None) != (named[0] is None) or set(names or ()) != set(named[0] or ()):
            lost = sorted(map(str, set(names or ()) ^ set(named[0] or ())))[:5]
            raise FormatError(
                f"{file.path}: its metadata names other classes than those of {files[0].path} ({', '.join(lost)}); "
                "make the files with the same classes."
            )
    if files[0].roles.one_hot:
        class_names = list(outlines[0].labels)
    elif named[0] is not None:
        class_names = list(named[0])
    else:
        class_names = sorted(
            {label for outline in outlines for label in outline.labels}, key=lambda label: (str(type(label)), label)
        )
    if not files[0].has_labels:
        return class_names, None
    column = {label: c for c, label in enumerate(class_names)}
    Y = np.zeros((sum(len(outline.sizes) for outline in outlines), len(class_names)), dtype=np.uint8)
    first = 0
    for outline in outlines:
        code = np.array([column[label] for label in outline.labels], dtype=np.int64)
        bag = first + np.repeat(np.arange(len(outline.sizes)), outline.n_listed)
        Y[bag, code[outline.listed]] = 1
        first += len(outline.sizes)
    return class_names, Y


def cut_rows(outline: FileOutline, file: ParquetBags, most: int) -> np.ndarray:
    """Numbers of the bags at which pieces begin, and of all: at most so many instances each, or one bag.

    Row groups are joined while they fit; one that is too large is cut between bags.
    """
    groups = np.unique(np.searchsorted(outline.first_rows, file.group_rows))  # bags that begin in each, and the end
    return cut_bags(outline.sizes, most, groups)
