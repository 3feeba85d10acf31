"""Bags for work that makes no run: of a folder of media, of a file, or of files that are read by pieces."""

from __future__ import annotations

import glob
import os
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from bagwise.app.media.files import Problem
from bagwise.app.report.page import MediaFiles
from bagwise.app.runs._features import Progress
from bagwise.app.runs._material import find_source, read_label_table, read_material, refuse_media_options
from bagwise.app.runs._scale import scales_of
from bagwise.app.runs.folder import FEATURES
from bagwise.app.runs.options import RunOptions
from bagwise.app.runs.supervision import put_together
from bagwise.core.checks import memory_limit, parse_memory
from bagwise.core.dataset import BagDataset
from bagwise.core.exceptions import InputError
from bagwise.io.data.formats import PARQUET, guess_format, iter_dataset, read_described
from bagwise.io.data.parquet import ParquetBags
from bagwise.io.files import check_readable
from bagwise.scale import BagSource

NEEDED = 3  # times the instances: as they are read, as the learner sees them, and its scores of them


@dataclass(frozen=True)
class _FoundBags:
    """Bags, and where they came from.

    Attributes
    ----------
    dataset : BagDataset
        With labels where any were given.
    understood : str
        How they were read, in words.
    media : MediaFiles or None
        None for a file of bags, of which nothing can be seen or heard.
    problems : list of (name, message)
        Files and labels that could not be used.
    """

    dataset: BagDataset
    understood: str
    media: MediaFiles | None = None
    problems: list[Problem] = field(default_factory=list)


def read_bags(
    path: Path,
    options: RunOptions,
    reading: Mapping[str, Any] | None = None,
    *,
    exclude: Sequence[Path],
    progress: Progress,
) -> _FoundBags:
    """The bags of all files of a folder of media, those that cannot be read named and left out; or those of a file.

    Parameters
    ----------
    path : folder or file
    options : RunOptions
        How labels and media are read.
    reading : arguments of the reader of a file; of a folder the table of labels; None where it must be a folder
    exclude : paths in the folder that hold no media
    progress : called with what is done, how much and of how much
    """
    if path.is_file():
        if reading is None:
            raise InputError(
                f"{path} is a file, and media are read from a folder; bagwise convert goes from file to file."
            )
        refuse_media_options(path, options)
        return _FoundBags(*read_described(path, **reading))
    labels = (reading or {}).get("labels_from")
    if labels is None:
        labels = read_label_table(options)
    else:
        exclude = [*exclude, Path(labels.path)]
    source = find_source(path, options, exclude=exclude, labels=labels)
    if isinstance(options.settings, Mapping):
        found, default = scales_of(source, options.settings)
        source = replace(source, settings=found[default])
    with tempfile.TemporaryDirectory(prefix="bagwise-") as kept:
        (Path(kept) / FEATURES).mkdir()
        material = read_material(source, Path(kept), labels, options, progress)
    dataset = replace(material.dataset, name=path.resolve().name)
    if material.sets:
        dataset = put_together(dataset, material.sets).dataset
    n_files, kind = len(material.files), source.media_type
    understood = (
        f"{kind.name}: {n_files} file{'s' if n_files > 1 else ''}, {len(dataset)} {kind.bags}, "
        f"{dataset.bags.n_instances} {kind.instances}, {dataset.bags.n_features} features"
    )
    if material.form:
        understood = f"{understood}; labels: {material.form}"
    seconds = {file["file"]: file["seconds"] for file in material.files if "seconds" in file}
    return _FoundBags(dataset, understood, MediaFiles(kind, source.settings, path, seconds), material.problems)


def large_source(
    data: str | os.PathLike[str],
    memory: str | None,
    format: str | None = None,
    *,
    cluster: str | None = None,
    labels_from: Any = None,
    **options: Any,
) -> tuple[BagSource | None, str]:
    """The data as a source where it does not fit into the memory, is several files or goes to a cluster, and why.

    Files other than parquet are read whole whatever happens, so a source of them is only made where `memory` is given:
    they are converted in a temporary folder. None where a fit in memory will do.
    """
    path, bound = Path(data), memory_limit() if memory is None else parse_memory(memory)
    if is_several(path):
        why = f"{data}: parquet files, so it is read by pieces"
    else:
        path = check_readable(path)
        name = guess_format(path) if format is None else format
        is_parquet = name in PARQUET
        if cluster is not None and not is_parquet:
            raise InputError(f"{data}: workers read parquet; convert it first (bagwise convert {data} FILE.parquet).")
        size = _size_of(path, options) if is_parquet else NEEDED * path.stat().st_size
        if cluster is None and (size <= bound or (memory is None and not is_parquet)):
            return None, ""
        why = f"{data}: a fit in memory takes about {_text(size)}, more than {_text(bound)}"
        why += ", so it is read by pieces" if is_parquet else ", so it is converted to parquet, and read by pieces"
        if cluster is not None:
            why = f"{data}: read by the workers of {cluster}"
        if not is_parquet:
            return BagSource.from_file(path, format=name, memory=bound, labels_from=labels_from, **options), why
    if labels_from is not None:
        raise InputError(f"{why}; a table of labels (--labels) is matched in memory, so put the labels into the file.")
    return BagSource.from_parquet(data, memory=bound, **options), why


def is_several(path: Path) -> bool:
    """Whether parquet files of a folder or of a pattern are meant."""
    return path.is_dir() or (not path.exists() and glob.has_magic(str(path)))


def open_pieces(path: Path, format: str | None = None, **options: Any) -> tuple[Iterable[BagDataset], str]:
    """The bags of a file, or of parquet files of a folder or a pattern, piece by piece, and how they were read."""
    if not is_several(path):
        return iter_dataset(path, format, **options)
    if options.pop("labels_from", None) is not None:
        raise InputError(f"{path}: --labels goes with one file; parquet files of a folder hold their labels.")
    options.pop("with_labels", None)
    source = BagSource.from_parquet(path, **options)
    return source.pieces(), f"parquet files, {source.n_pieces} piece(s)"


def _size_of(path: Path, options: dict[str, Any]) -> int:
    """What a fit in memory takes, or reading alone where that is more: few features, many rows."""
    file = ParquetBags(path, **options)
    return max(NEEDED * file.n_cells * np.dtype(file.dtype).itemsize, file.n_bytes)


def _text(size: int) -> str:
    unit, name = next((u for u in ((2**30, "GB"), (2**20, "MB"), (2**10, "kB")) if size >= u[0]), (1, "bytes"))
    return f"{size / unit:.1f} {name}"
