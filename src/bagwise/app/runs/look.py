"""What lies in a folder, and what can be done with it: for those who have not read anything yet."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from bagwise.app.labels.tables import check_names
from bagwise.app.media.files import FileNames
from bagwise.app.media.matching import count_inside, seconds_covered
from bagwise.app.media.media_types import MEDIA, list_files
from bagwise.app.runs._features import Progress
from bagwise.app.runs._material import find_source, read_material
from bagwise.app.runs._scale import scales_of
from bagwise.app.runs.folder import FEATURES
from bagwise.app.runs.folder import NAME as MANIFEST
from bagwise.app.runs.options import RunOptions
from bagwise.core.exceptions import BagwiseError, InputError
from bagwise.io.labels import read_labels

TABLES = (".csv", ".tsv", ".txt", ".xlsx", ".parquet")
MODELS = ".bagwise"
MOST_TABLES = 20  # that are opened to see whether they are tables of labels


@dataclass(frozen=True)
class _TableFit:
    """How a table of labels and the files of a folder fit together.

    Attributes
    ----------
    path : str
    form : str
        How the table was understood.
    n_rows : int
        Files that it names.
    n_found : int
        Those of them that are there, one file each.
    labels : dict
        Label to the number of files that carry it, the commonest first.
    missing : list of str
        The first names of which there is no file, or more than one.
    """

    path: str
    form: str
    n_rows: int
    n_found: int
    labels: dict[str, int]
    missing: list[str]


@dataclass(frozen=True)
class Look:
    """What a folder holds.

    Attributes
    ----------
    path : str
    media_type : str or None
        That of most of its files.
    n_files : int
        Files of that media type.
    others : dict
        Other media types and how many of their files there are.
    tables : list of _TableFit
        Tables in the folder, or next to it, that name its files; the best first.
    models : list of str
    is_run : bool
        Whether it is the folder of a run.
    """

    path: str
    media_type: str | None = None
    n_files: int = 0
    others: dict[str, int] = field(default_factory=dict)
    tables: list[_TableFit] = field(default_factory=list)
    models: list[str] = field(default_factory=list)
    is_run: bool = False

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def look_at(folder: str | Path, table: Path | None = None) -> Look:
    """Look at a folder without reading any medium: its files by their endings, and which tables name them.

    A table that is given comes first among them; it is an error where it names none of the files.
    """
    path = Path(folder)
    if not path.is_dir():
        raise InputError(f"{path} is not a folder; give the folder that holds your files.")
    if (path / MANIFEST).is_file():
        return Look(str(path), is_run=True)
    names = list_files(path)
    beside = [other for other in path.resolve().parent.iterdir() if other.is_file()]
    candidates = [other for other in [*(path / name for name in names), *beside] if _is_table(other.name)]
    candidates.sort(key=lambda other: ("label" not in other.stem.lower(), other))
    fits = [fit for other in candidates[:MOST_TABLES] if (fit := _fit_table(other, names)) is not None]
    fits.sort(key=lambda fit: -fit.n_found)
    if table is not None:
        check_names(read_labels(table, repeats="join"), names, path)
        given = _fit_table(table, names)
        fits = [*([] if given is None else [given]), *(fit for fit in fits if fit != given)]
    # a table of labels is no series of measurements, and no text
    tables = {Path(fit.path) for fit in fits}
    endings = Counter(PurePosixPath(name).suffix.lower() for name in names if path / name not in tables)
    counts = {name: sum(endings[one] for one in media_type.extensions) for name, media_type in MEDIA.items()}
    media = sorted((name for name in counts if counts[name]), key=lambda name: -counts[name])
    return Look(
        str(path),
        media_type=media[0] if media else None,
        n_files=counts[media[0]] if media else 0,
        others={name: counts[name] for name in media[1:]},
        tables=fits,
        models=[str(path / name) for name in names if name.endswith(MODELS)],
    )


def look_at_segments(folder: Path, options: RunOptions, progress: Progress) -> list[dict[str, Any]]:
    """What is found in all files of a folder at its resolution, at two finer ones and at a coarser one.

    Returns
    -------
    list of dict
        From fine to coarse: ``scale`` (in words), ``given`` (whether it is that of the options), ``instances``,
        ``per_file``, ``share`` of the time in which anything is found, ``median`` and ``longest`` seconds, ``merged``
        (share that holds several instances of the finest of them; None for that).
    """
    source = find_source(folder, options, exclude=[])
    scales = source.media_type.scales
    if scales is None:
        raise InputError(f"{folder} holds files of type {source.media_type.name}; folders of recordings are looked at.")
    candidates, default = scales_of(source, ())
    rows: list[dict[str, Any]] = []
    finest = None
    with tempfile.TemporaryDirectory(prefix="bagwise-") as kept:
        (Path(kept) / FEATURES).mkdir()
        for i in range(max(0, default - 2), min(default + 2, len(candidates))):
            plain = replace(source, settings=candidates[i])
            material = read_material(plain, Path(kept), None, options, progress)
            places = material.dataset.locations
            assert places is not None
            seconds = places["end"] - places["start"]
            total = sum(file["seconds"] for file in material.files)
            merged = None if finest is None else float(np.mean(count_inside(places, finest) > 1))
            finest = places if finest is None else finest
            rows.append(
                {
                    "scale": scales.in_words(candidates[i]),
                    "given": i == default,
                    "instances": len(seconds),
                    "per_file": len(seconds) / len(material.files),
                    "share": seconds_covered(places) / total,
                    "median": float(np.median(seconds)),
                    "longest": float(seconds.max()),
                    "merged": merged,
                }
            )
    return rows


def _fit_table(table: str | Path, names: Sequence[str]) -> _TableFit | None:
    """How a table names these files; None where it is no table of labels, or names none of them."""
    path = Path(table)
    try:
        read = read_labels(path, repeats="join")
    except (BagwiseError, ImportError, OSError):
        return None
    files = FileNames(names)
    found = [len(files.find(name)) == 1 for name in read.names]
    if not any(found):
        return None
    counts = Counter(label for labels in read.label_sets for label in set(labels))
    missing = [name for name, there in zip(read.names, found, strict=True) if not there]
    return _TableFit(str(path), read.form, len(read), sum(found), dict(counts.most_common()), missing[:5])


def _is_table(name: str) -> bool:
    return PurePosixPath(name).suffix.lower() in TABLES and not name.startswith(".")
