"""Fits on data that does not fit into the memory: when, and how they are kept."""

from __future__ import annotations

import glob
import os
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np

from bagwise.app.runs.learner import settings_of
from bagwise.core.checks import memory_limit, parse_memory
from bagwise.core.exceptions import InputError
from bagwise.io.checkpoint import Checkpoint
from bagwise.io.data.formats import PARQUET, guess_format
from bagwise.io.data.parquet import ParquetBags
from bagwise.io.files import check_readable
from bagwise.scale import BagSource, fit_source
from bagwise.scale.cluster import open_cluster
from bagwise.scale.fit import check_learner, source_identity
from bagwise.solvers.result import Callback

NEEDED = 3  # times the instances: as they are read, as the learner sees them, and its scores of them


def find_source(
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


def iter_several(path: Path, *, labels_from: Any = None, with_labels: bool = True, **options: Any) -> tuple[Any, str]:
    """As `bagwise.io.data.pieces.iter_dataset`, for parquet files of a folder or of a pattern, one data set."""
    if labels_from is not None:
        raise InputError(f"{path}: --labels goes with one file; parquet files of a folder hold their labels.")
    source = BagSource.from_parquet(path, **options)
    return source.pieces(), f"parquet files, {source.n_pieces} piece(s)"


def _size_of(path: Path, options: dict[str, Any]) -> int:
    """What a fit in memory takes, or reading alone where that is more: few features, many rows."""
    file = ParquetBags(path, **options)
    return max(NEEDED * file.n_cells * np.dtype(file.dtype).itemsize, file.n_bytes)


def _text(size: int) -> str:
    unit, name = next((u for u in ((2**30, "GB"), (2**20, "MB"), (2**10, "kB")) if size >= u[0]), (1, "bytes"))
    return f"{size / unit:.1f} {name}"


def fit_large(
    model: Any,
    source: BagSource,
    *,
    use_known: bool = False,
    checkpoint: str | os.PathLike[str] | None = None,
    callback: Callback | None = None,
    interval: float = 10.0,
    cluster: str | None = None,
) -> Checkpoint | None:
    """As `bagwise.app.runs.fit.fit_dataset`, on a source; on the workers of a cluster where its address is given."""
    check_learner(model, checkpoint is not None)
    state = None
    if checkpoint is not None:
        identity = {"settings": settings_of(model), **source_identity(model, source, use_known)}
        state = Checkpoint(checkpoint, identity, interval)
    with nullcontext() if cluster is None else open_cluster(cluster) as client:
        fit_source(model, source, client, use_known=use_known, checkpoint=state, callback=callback)
    return state
