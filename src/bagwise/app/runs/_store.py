"""What was computed for each file, kept so that an interrupted run goes on where it was.

What is kept of a file, its entry, has a key made of everything that it depends on: the settings, the version, the name
of the file, its size and its time of change. So nothing stale is ever taken, and no list of what is done has to be kept
up to date. An archive holds the entries of one file, or of many small ones that were read together, and appears whole
or not at all.
"""

from __future__ import annotations

import hashlib
import json
import math
import sys
import zipfile
from collections.abc import Collection, Iterable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from bagwise._version import __version__
from bagwise.app.media.files import FileBags
from bagwise.app.runs.folder import FEATURES
from bagwise.core.dataset import as_column
from bagwise.core.exceptions import FormatError
from bagwise.io.archive import is_storable, read_archive, write_archive
from bagwise.io.files import atomic_write, sync_all

LAYOUT = 6  # of an archive; entries of another layout are not taken
LARGE = 2**20  # bytes from which an array stands by itself, so that no second copy of it is made
PART = "-"  # between the key of a file and the number of a part of it


def fingerprint(value: Any) -> str:
    """A name for plain data that differs whenever the data does."""
    text = json.dumps(value, sort_keys=True, ensure_ascii=False, default=str)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


# -- keys -------------------------------------------------------------------------------------------------------------


def entry_key(
    media_type: str, settings: Mapping[str, Any], folder: Path, name: str, related: Iterable[Path] = ()
) -> str:
    """What the bags of a file are kept under; `related` are further files that they depend on."""
    found = [(folder / name).stat(), *(path.stat() for path in related if path.exists())]
    changed = [number for facts in found for number in (facts.st_size, facts.st_mtime_ns)]
    return fingerprint([__version__, LAYOUT, media_type, settings, name, *changed])


def entry_facts(settings: Mapping[str, Any], embedded: Mapping[str, Any] | None) -> dict[str, Any]:
    """What the bags of a file depend on: settings of the media type, and the origin of vectors; not their use."""
    if embedded is None:
        return dict(settings)
    return {**settings, "vectors": {name: value for name, value in embedded.items() if name != "join"}}


def part_key(key: str, number: int, n_parts: int) -> str:
    """What a part of a long file is kept under until all of them are there."""
    return f"{key}{PART}{number}-of-{n_parts}"


# -- archives ---------------------------------------------------------------------------------------------------------


def archive_path(run: Path, keys: Collection[str]) -> Path:
    """Where entries that are written together are kept."""
    name = next(iter(keys)) if len(keys) == 1 else fingerprint(list(keys))
    return run / FEATURES / f"{name}.zip"


def write_entries(run: Path, entries: Mapping[str, FileBags]) -> Path:
    """Keep the bags of files by key; whoever names one in what must last has it on the disk first (`sync_all`)."""
    arrays, names = _Arrays(), dict[str, int]()
    documents = [_describe(bags, arrays, names) for bags in entries.values()]
    text = "".join(names).encode()
    ends = np.cumsum([len(name) for name in names], dtype=np.int64)
    document = {
        "keys": list(entries),
        "entries": documents,
        "names": [arrays.add(np.frombuffer(text, dtype=np.uint8)), arrays.add(ends)],  # of features, without gaps
    }
    path = archive_path(run, entries)
    with atomic_write(path, durable=False) as file:
        write_archive(file, document, arrays.joined())
    return path


def read_entries(path: Path) -> dict[str, FileBags]:
    """The entries of an archive by key, none where there is no archive or it is damaged."""
    try:
        with path.open("rb") as file:
            document, arrays = read_archive(file)
        text, ends = (_part_of(arrays, place) for place in document["names"])
        names = _cut_names(text.tobytes().decode(), ends.tolist())
        if not _all_are(str, document["keys"]):
            raise ValueError("keys are text")
        return {
            key: _restore(described, arrays, names)
            for key, described in zip(document["keys"], document["entries"], strict=True)
        }
    except (OSError, FormatError, zipfile.BadZipFile, KeyError, ValueError, TypeError, IndexError, AttributeError):
        return {}


def _cut_names(text: str, ends: list[int]) -> list[str]:
    return [sys.intern(text[start:end]) for start, end in pairwise([0, *ends])]  # thousands of texts share their terms


class _Arrays:
    """Arrays to be kept, small ones of a type one behind the other: thousands of them would each cost a header."""

    def __init__(self) -> None:
        self._parts: list[list[np.ndarray]] = []
        self._open: dict[str, tuple[int, int]] = {}  # by type: where small arrays go, and how much is there

    def add(self, array: np.ndarray) -> list[int]:
        """Keep an array; gives its place: the number of what it is kept in, where it begins there, and its shape."""
        kind, new = array.dtype.str, (len(self._parts), 0)
        number, start = self._open.get(kind, new) if array.nbytes < LARGE else new
        if number == len(self._parts):
            self._parts.append([])
        if array.nbytes < LARGE:
            self._open[kind] = number, start + array.size
        self._parts[number].append(array.ravel())
        return [number, start, *array.shape]

    def joined(self) -> list[np.ndarray]:
        return [np.concatenate(parts) if len(parts) > 1 else parts[0] for parts in self._parts]


def _part_of(arrays: Mapping[int, np.ndarray], place: list[int]) -> np.ndarray:
    """The way back: the array that is kept at such a place."""
    number, start, *shape = place
    return arrays[number][start : start + math.prod(shape)].reshape(shape)


def _describe(bags: FileBags, arrays: _Arrays, names: dict[str, int]) -> dict[str, Any]:
    """All of the bags of a file as plain data, but for the arrays and the names of features that are added."""
    features = bags.features
    parts = [features.data, features.indices, features.indptr] if sp.issparse(features) else [features]
    columns = {name: as_column(column) for name, column in bags.locations.items()}
    plain = {name: column for name, column in columns.items() if is_storable(column.dtype)}
    own = bags.feature_names
    return {
        "bag_names": bags.bag_names,
        "sizes": bags.sizes,
        "shape": list(features.shape),
        "features": [arrays.add(part) for part in parts],
        "columns": list(columns),
        "plain": {name: arrays.add(column) for name, column in plain.items()},
        "lists": {name: column.tolist() for name, column in columns.items() if name not in plain},
        "info": bags.info,
        "problems": bags.problems,
        "feature_names": None
        if own is None
        else arrays.add(np.array([names.setdefault(name, len(names)) for name in own], dtype=np.int32)),
        "vectors": None if bags.vectors is None else arrays.add(bags.vectors),
    }


def _restore(described: dict[str, Any], arrays: Mapping[int, np.ndarray], names: list[str]) -> FileBags:
    """The bags of a file; a `ValueError` or another error where what was kept does not fit together."""
    parts = [_part_of(arrays, place) for place in described["features"]]
    features = parts[0] if len(parts) == 1 else sp.csr_matrix(tuple(parts), shape=tuple(described["shape"]))
    columns = {name: _part_of(arrays, place) for name, place in described["plain"].items()}
    columns |= {name: as_column(column) for name, column in described["lists"].items()}
    own, vectors = described["feature_names"], described["vectors"]
    bags = FileBags(
        bag_names=described["bag_names"],
        sizes=described["sizes"],
        features=features,
        locations={name: columns[name] for name in described["columns"]},
        info=described["info"],
        problems=described["problems"],
        feature_names=None if own is None else [names[i] for i in _part_of(arrays, own).tolist()],
        vectors=None if vectors is None else _part_of(arrays, vectors),
    )
    _check(bags)
    return bags


def _check(bags: FileBags) -> None:
    """Refuse bags that do not fit together: the archive may be somebody else's."""
    if not (_all_are(str, bags.bag_names) and _all_are(str, bags.problems) and _all_are(int, bags.sizes)):
        raise ValueError("names and problems are text, sizes are whole numbers")
    n, sizes = sum(bags.sizes), bags.sizes
    if len(sizes) != len(bags.bag_names) or min(sizes, default=0) < 0 or not isinstance(bags.info, dict):
        raise ValueError("names, sizes and facts do not fit together")
    features = bags.features
    if features.ndim != 2 or features.dtype.kind not in "fiu" or not np.isfinite(_numbers(features)).all():
        raise ValueError("features are finite numbers, a row for each instance")
    if sp.issparse(features):
        features.check_format(full_check=True)
    rows = [features.shape[0], *(len(column) if column.ndim == 1 else -1 for column in bags.locations.values())]
    if bags.vectors is not None:
        rows.append(bags.vectors.shape[0] if bags.vectors.ndim == 2 and bags.vectors.dtype.kind in "fiu" else -1)
    named = features.shape[1] if bags.feature_names is None else len(bags.feature_names)
    if {*rows} != {n} or (n and named != features.shape[1]):
        raise ValueError("features, places, vectors and sizes are of different numbers of instances")


def _numbers(features: Any) -> np.ndarray:
    return features.data if sp.issparse(features) else features


def _all_are(kind: type, values: Any) -> bool:
    return isinstance(values, list) and all(type(value) is kind for value in values)


# -- all that is kept in a run ----------------------------------------------------------------------------------------


class Store:
    """The archives of a run, and which entries each of them holds as far as it was read."""

    def __init__(self, run: Path):
        self.run = run
        self._keys: dict[Path, list[str]] = {path: [] for path in sorted((run / FEATURES).glob("*.zip"))}
        self._new: list[Path] = []

    def read_all(self, wanted: Collection[str]) -> dict[str, FileBags]:
        """Of all that is kept the entries of these keys, and those of parts of these files."""
        found: dict[str, FileBags] = {}
        for path in self._keys:
            entries = read_entries(path)
            self._keys[path] = list(entries)
            found |= {key: bags for key, bags in entries.items() if key.partition(PART)[0] in wanted}
        return found

    def add(self, archive: Path) -> dict[str, FileBags]:
        """The entries of an archive that another process has written."""
        found = read_entries(archive)
        self._note(archive, found)
        return found

    def write(self, entries: Mapping[str, FileBags]) -> None:
        """Keep entries in an archive of their own."""
        self._note(write_entries(self.run, entries), entries)

    def _note(self, archive: Path, keys: Iterable[str]) -> None:
        self._keys[archive] = list(keys)
        self._new.append(archive)

    def forget_others(self, wanted: Iterable[str]) -> None:
        """Remove the entries of files that are gone or were changed, once the others are on the disk."""
        left, before = set(wanted), self._keys.copy()
        for path, keys in before.items():
            kept = [key for key in keys if key in left]
            left.difference_update(kept)
            if kept == keys and keys:
                continue
            del self._keys[path]
            if kept:
                found = read_entries(path)
                self.write({key: found[key] for key in kept})
        sync_all(self._new)
        for path in before.keys() - self._keys.keys():
            path.unlink(missing_ok=True)
