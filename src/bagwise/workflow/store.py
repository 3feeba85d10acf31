"""What was computed for each file, kept so that an interrupted run goes on where it was.

An entry appears whole or not at all, under a name made from everything that its content depends on: the settings, the
version, the name of the file, its size and its time of change. So nothing stale is ever taken, and no list of what is
done has to be kept up to date.
"""

from __future__ import annotations

import hashlib
import json
import sys
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import scipy.sparse as sp

from bagwise._version import __version__
from bagwise.dataset import as_column
from bagwise.exceptions import FormatError
from bagwise.featurize.files import FileBags
from bagwise.io.files import atomic_write, is_storable, read_archive, write_archive
from bagwise.workflow.manifest import FEATURES

LAYOUT = 4  # of an entry; entries of another layout are not taken


def fingerprint(value: Any) -> str:
    """A name for plain data that differs whenever the data does."""
    text = json.dumps(value, sort_keys=True, ensure_ascii=False, default=str)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def file_fingerprint(path: str | Path) -> str:
    """A name for the content of a file."""
    return hashlib.blake2b(Path(path).read_bytes(), digest_size=16).hexdigest()


def entry_path(
    run: Path, medium: str, settings: dict[str, Any], folder: Path, name: str, beside: Iterable[Path] = ()
) -> Path:
    """Where the bags of a file are kept; `beside` are further files that they depend on."""
    files = [folder / name, *(path for path in beside if path.exists())]
    changed = [number for path in files for number in (path.stat().st_size, path.stat().st_mtime_ns)]
    return run / FEATURES / f"{fingerprint([__version__, LAYOUT, medium, settings, name, *changed])}.zip"


def entry_facts(settings: Mapping[str, Any], embedded: Mapping[str, Any] | None) -> dict[str, Any]:
    """What the bags of a file depend on: settings of the medium, and where vectors come from; not how they are used."""
    if embedded is None:
        return dict(settings)
    return {**settings, "vectors": {name: value for name, value in embedded.items() if name != "join"}}


def part_path(entry: Path, number: int, n_parts: int) -> Path:
    """Where a part of a long file is kept until all of them are there."""
    return entry.with_name(f"{entry.stem}-{number}-of-{n_parts}.zip")


def write_entry(path: Path, bags: FileBags) -> None:
    """Keep the bags of a file; whoever names it in what must last has it on the disk first (`sync_all`)."""
    features = bags.features
    arrays = [features.data, features.indices, features.indptr] if sp.issparse(features) else [features]
    columns = {name: as_column(column) for name, column in bags.locations.items()}
    plain = [name for name, column in columns.items() if is_storable(column.dtype)]
    document = {
        "shape": list(features.shape),
        "bag_names": bags.bag_names,
        "sizes": bags.sizes,
        "is_sparse": sp.issparse(features),
        "columns": list(columns),
        "plain": plain,  # columns that are arrays; the others are lists
        "lists": {name: column.tolist() for name, column in columns.items() if name not in plain},
        "info": bags.info,
        "problems": bags.problems,
        "feature_names": bags.feature_names,
    }
    arrays = [*arrays, *(columns[name] for name in plain), *([] if bags.vectors is None else [bags.vectors])]
    with atomic_write(path, durable=False) as file:
        write_archive(file, document, arrays)


def forget_others(run: Path, kept: Iterable[Path]) -> None:
    """Remove the entries of files that are gone or were changed."""
    names = {path.name for path in kept}
    for path in (run / FEATURES).glob("*.zip"):
        if path.name not in names:
            path.unlink(missing_ok=True)


def read_entry(path: Path) -> FileBags | None:
    """The bags that were kept, or None where there are none or the entry is damaged."""
    try:
        with path.open("rb") as file:
            document, arrays = read_archive(file)
        parts = [arrays[i] for i in range(len(arrays))]
        shape, n = tuple(document.pop("shape")), 3 if document.pop("is_sparse") else 1
        features = sp.csr_matrix(tuple(parts[:n]), shape=shape) if n == 3 else parts[0]
        plain = document.pop("plain")
        columns = dict(zip(plain, parts[n : n + len(plain)], strict=True))
        vectors = parts[n + len(plain)] if len(parts) > n + len(plain) else None
        columns |= {name: as_column(column) for name, column in document.pop("lists").items()}
        locations = {name: columns[name] for name in document.pop("columns")}
        if document["feature_names"] is not None:  # thousands of texts share their terms
            document["feature_names"] = [sys.intern(name) for name in document["feature_names"]]
        return FileBags(features=features, locations=locations, vectors=vectors, **document)
    except (OSError, FormatError, zipfile.BadZipFile, KeyError, ValueError, TypeError, IndexError):
        return None
