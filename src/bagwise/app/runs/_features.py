"""All files of a folder to bags: on all cores, going on where an interrupted run was, past files that are bad.

What is kept of a file, its entry, has a key made of everything that it depends on: the settings, the version, the name
of the file, its size and its time of change. So nothing stale is ever taken, and no list of what is done has to be kept
up to date. An archive holds the entries of one file, or of many small ones that were read together, and appears whole
or not at all.
"""

from __future__ import annotations

import hashlib
import json
import math
import signal
import sys
import warnings
import zipfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeGuard

import joblib
import numpy as np
import scipy.sparse as sp

from bagwise._version import __version__
from bagwise.app.media.embedding import Embedding, VectorTable, close_network
from bagwise.app.media.files import FileBags
from bagwise.app.media.media_type import MediaType
from bagwise.app.media.media_types import TABLE
from bagwise.app.runs.folder import FEATURES
from bagwise.app.runs.options import SOUND
from bagwise.core.dataset import as_column
from bagwise.core.exceptions import BagwiseError, FormatError, in_words
from bagwise.io.archive import is_storable, read_archive, write_archive
from bagwise.io.files import atomic_write, printable, sync_all

LAYOUT = 6  # of an archive; entries of another layout are not taken
LARGE = 2**20  # bytes from which an array stands by itself, so that no second copy of it is made
PART = "-"  # between the key of a file and the number of a part of it
FILES = "reading files"  # what progress is counted in, as is SOUND
MOST_FILES, MOST_BYTES = 64, 2**18  # that are read and kept together
SHARES = 16  # of the work of a process at least: so much less than all is lost when it is interrupted

Progress = Callable[[str, int, int], None]


def value_fingerprint(value: Any) -> str:
    """A name for plain data that differs whenever the data does."""
    text = json.dumps(value, sort_keys=True, ensure_ascii=False, default=str)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


@dataclass(frozen=True)
class Source:
    """Where bags come from and how they are read.

    Attributes
    ----------
    path : path
        A folder of media, or a file of bags.
    media_type : MediaType
    settings : of the media type
    names : list of str
        The files, relative to the folder; of a table its own name.
    options : dict
        Of the reader of a table.
    feature_names : list of str or None
        Those of the model where it is trained already.
    single : bool
        Whether one file of the folder was asked for by name.
    boxes : mapping or None
        Places of instances by file, where these are not looked for.
    vectors : Embedding, VectorTable or None
        Where vectors of instances come from, in addition to their features or instead of them.
    embedded : dict or None
        What is to be known of these vectors (`Embedding.about`), also where they are there already.
    held : mapping
        What lies in memory of files that are read several times (`Scales.hold`).
    """

    path: Path
    media_type: MediaType
    settings: Any
    names: list[str]
    options: dict[str, Any] = field(default_factory=dict)
    feature_names: list[str] | None = None
    single: bool = False
    boxes: Mapping[str, Sequence[Mapping[str, Any]]] | None = None
    vectors: Embedding | VectorTable | None = None
    embedded: dict[str, Any] | None = None
    held: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_table(self) -> bool:
        """Whether it is a file of bags."""
        return self.media_type is TABLE

    @property
    def folder(self) -> Path:
        """Where the files lie."""
        return self.path.parent if self.is_table else self.path

    @property
    def too_few(self) -> str:
        """What is said of a bag with fewer instances than labels; nothing where instances are not looked for."""
        return self.media_type.too_few if getattr(self.settings, "segment", "") == "syllables" else ""

    @property
    def has_features(self) -> bool:
        """Whether instances have the features of the media type, and not vectors in their place."""
        return self.embedded is None or self.embedded["join"]

    @property
    def own_names(self) -> list[str] | None:
        """The names of the features that a trained model takes, without those of vectors."""
        names, about = self.feature_names, self.embedded
        return names if names is None or about is None else names[: len(names) - about["size"]]

    def opened(self, name: str) -> AbstractContextManager[Any]:
        """An open file of the folder, or what is held of it."""
        return self.media_type.opened(self.path / name, self.held.get(name))

    def key(self, name: str) -> str:
        """What the bags of a file are kept under; another key as soon as the file changes."""
        facts = self.settings.to_dict() | self.options
        if self.embedded is not None:  # their origin; not their use
            facts["vectors"] = {fact: value for fact, value in self.embedded.items() if fact != "join"}
        related = self.media_type.companions(self.folder / name, name, self.settings)
        paths = [self.folder / name, *(path for path in related if path.exists())]
        changed = [number for path in paths for number in (path.stat().st_size, path.stat().st_mtime_ns)]
        return value_fingerprint([__version__, LAYOUT, self.media_type.name, facts, name, *changed])


# -- archives ---------------------------------------------------------------------------------------------------------


def part_key(key: str, number: int, n_parts: int) -> str:
    """What a part of a long file is kept under until all of them are there."""
    return f"{key}{PART}{number}-of-{n_parts}"


def archive_path(run: Path, keys: Collection[str]) -> Path:
    """Where entries that are written together are kept."""
    name = next(iter(keys)) if len(keys) == 1 else value_fingerprint(list(keys))
    return run / FEATURES / f"{name}.zip"


def write_entries(run: Path, entries: Mapping[str, FileBags], path: Path | None = None) -> Path:
    """Keep the bags of files by key; whoever names one in what must last has it on the disk first (`sync_all`)."""
    arrays, names = _Arrays(), dict[str, int]()
    documents = [_describe(bags, arrays, names) for bags in entries.values()]
    ends = np.cumsum([len(name) for name in names], dtype=np.int64)
    document = {
        "keys": list(entries),
        "entries": documents,
        "names": [arrays.add(np.frombuffer("".join(names).encode(), dtype=np.uint8)), arrays.add(ends)],
    }
    path = path or archive_path(run, entries)
    with atomic_write(path, durable=False) as file:
        write_archive(file, document, arrays.joined())
    return path


def read_entries(path: Path) -> dict[str, FileBags]:
    """The entries of an archive by key, none where there is no archive or it is damaged."""
    try:
        with path.open("rb") as file:
            document, arrays = read_archive(file)
        text, ends = (_part_of(arrays, place) for place in document["names"])
        text = text.tobytes().decode()
        names = [
            sys.intern(text[a:b]) for a, b in pairwise([0, *ends.tolist()])
        ]  # thousands of texts share their terms
        if not _all_are(str, document["keys"]):
            raise ValueError("keys are text")
        return {
            key: _restore(described, arrays, names)
            for key, described in zip(document["keys"], document["entries"], strict=True)
        }
    except (OSError, FormatError, zipfile.BadZipFile, KeyError, ValueError, TypeError, IndexError, AttributeError):
        return {}


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


def _part_of(arrays: Mapping[int, np.ndarray], place: list[int]) -> Any:
    """The way back: the array that is kept at such a place."""
    number, start, *shape = place
    return arrays[number][start : start + math.prod(shape)].reshape(shape)


def _describe(bags: FileBags, arrays: _Arrays, names: dict[str, int]) -> dict[str, Any]:
    """All of the bags of a file as plain data, but for the arrays and the names of features that are added."""
    features, own = bags.features, bags.feature_names
    parts = [features.data, features.indices, features.indptr] if sp.issparse(features) else [features]
    columns = {name: as_column(column) for name, column in bags.locations.items()}
    plain = {name: column for name, column in columns.items() if is_storable(column.dtype)}
    numbers = [names.setdefault(name, len(names)) for name in own or ()]
    return {
        "bag_names": bags.bag_names,
        "sizes": bags.sizes,
        "info": bags.info,
        "problems": bags.problems,
        "shape": list(features.shape),
        "features": [arrays.add(part) for part in parts],
        "columns": list(columns),
        "plain": {name: arrays.add(column) for name, column in plain.items()},
        "lists": {name: column.tolist() for name, column in columns.items() if name not in plain},
        "feature_names": None if own is None else arrays.add(np.array(numbers, dtype=np.int32)),
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
        **{name: described[name] for name in ("bag_names", "sizes", "info", "problems")},
        features=features,
        locations={name: columns[name] for name in described["columns"]},
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
    numbers = features.data if sp.issparse(features) else features
    if features.ndim != 2 or features.dtype.kind not in "fiu" or not np.isfinite(numbers).all():
        raise ValueError("features are finite numbers, a row for each instance")
    if sp.issparse(features):
        features.check_format(full_check=True)
    rows = [features.shape[0], *(len(column) if column.ndim == 1 else -1 for column in bags.locations.values())]
    if bags.vectors is not None:
        rows.append(bags.vectors.shape[0] if bags.vectors.ndim == 2 and bags.vectors.dtype.kind in "fiu" else -1)
    named = features.shape[1] if bags.feature_names is None else len(bags.feature_names)
    if {*rows} != {n} or (n and named != features.shape[1]):
        raise ValueError("features, places, vectors and sizes are of different numbers of instances")


def _all_are(kind: type, values: Any) -> bool:
    return isinstance(values, list) and all(type(value) is kind for value in values)


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
        self._keys[archive] = list(found)
        self._new.append(archive)
        return found

    def write(self, entries: Mapping[str, FileBags]) -> None:
        """Keep entries in an archive of their own."""
        archive = write_entries(self.run, entries)
        self._keys[archive] = list(entries)
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


# -- reading ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ReadFiles:
    """Bags of the files that could be read, errors of those that could not, and how many were done before.

    `keys` say under what the bags of each file are kept.
    """

    bags: dict[str, FileBags]
    errors: dict[str, str]
    n_reused: int
    keys: dict[str, str]


@dataclass(frozen=True)
class _Piece:
    """What is read at once: a file, or a part of a long one; what it is kept under, and how much of the work it is."""

    name: str
    key: str
    part: tuple[float, float] | None
    weight: float
    n_bytes: int
    vectors: Embedding | VectorTable | None = None
    boxes: Sequence[Mapping[str, Any]] | None = None
    held: Any = None


_Done = tuple[Path | None, dict[str, str], float]
"""Of some pieces: where they are kept, if any could be read, errors of their files, and how much of the work it was."""


def read_files(
    source: Source,
    run: Path,
    jobs: int,
    progress: Progress,
    cluster: str | None = None,
    keep: Collection[str] | None = (),
) -> ReadFiles:
    """Read all files of a source; what is finished, of long files each part, is kept in the folder of the run at once.

    Parameters
    ----------
    source : Source
        Not a table.
    run : folder of the run
    jobs : number of processes, -1 for all cores
    progress : called with what is done, how much and of how much: files, or seconds of sound
    cluster : address of a Dask cluster whose workers read the files, in place of processes here
    keep : keys of other files, of which what is kept stays; None: of all, whatever the settings
    """
    media_type, shown = source.media_type, {name: printable(name) for name in source.names}
    errors = {text: f"{text}: its name is not UTF-8; rename it." for name, text in shown.items() if name != text}
    names = [name for name, text in shown.items() if name == text]
    keys = {name: source.key(name) for name in names}
    store = Store(run)
    kept = store.read_all(set(keys.values()))
    bags = {name: kept[key] for name, key in keys.items() if key in kept}
    n_reused = len(bags)
    pieces: dict[str, list[_Piece]] = {}
    for name in names:
        if name not in bags:
            with _noting(errors, source, name):
                pieces[name] = _cut(source, name, keys[name])
    todo = [piece for own in pieces.values() for piece in own if piece.key not in kept]
    what, done = FILES, float(n_reused)
    if media_type.parts is not None:
        what, done = SOUND, float(sum(file.info["seconds"] for file in bags.values()))
    total = done + sum(piece.weight for own in pieces.values() for piece in own)
    progress(what, round(done), round(total))
    for piece in (piece for own in pieces.values() for piece in own if piece.key in kept):
        done += piece.weight
        progress(what, round(done), round(total))
    for archive, own_errors, weight in _read_all(source, run, todo, jobs, cluster) if todo else ():
        for name, error in own_errors.items():
            errors.setdefault(name, error)
        if archive is not None:
            kept |= store.add(archive)
        done += weight
        progress(what, round(done), round(total))
    for name, own in pieces.items():
        if name not in errors:
            with _noting(errors, source, name):
                if own[0].part is not None:
                    assert media_type.parts is not None
                    found = [kept[piece.key] for piece in own]
                    with source.opened(name) as file:
                        kept[keys[name]] = media_type.parts.join(file, name, found, source.settings)
                    store.write({keys[name]: kept[keys[name]]})
                bags[name] = kept[keys[name]]
    if keep is not None:
        store.forget_others([*keys.values(), *keep])
    bags = {name: bags[name] for name in names if name in bags}
    if source.has_features:  # those that do not go together with the others, or with what a trained model takes
        errors |= media_type.check_files(bags, source.own_names)
    return ReadFiles({name: file for name, file in bags.items() if name not in errors}, errors, n_reused, keys)


def _cut(source: Source, name: str, key: str) -> list[_Piece]:
    """What of a file is to be read by itself, each with what describes its instances."""
    n_bytes, parts = (source.path / name).stat().st_size, source.media_type.parts
    vectors = source.vectors and source.vectors.of_file(name)
    whole = _Piece(name, key, None, 1.0, n_bytes, vectors, held=source.held.get(name))
    if parts is None:
        return [whole]
    with source.opened(name) as file:
        spans = parts.cut(file, source.settings)
    whole = replace(whole, weight=spans[-1][1] - spans[0][0])
    if source.boxes is not None:
        return [replace(whole, boxes=source.boxes.get(name, ()))]
    if _are_instances(vectors) or len(spans) == 1:
        return [whole]
    return [
        replace(whole, key=part_key(key, i, len(spans)), part=span, weight=span[1] - span[0])
        for i, span in enumerate(spans, 1)
    ]


def _are_instances(vectors: Embedding | VectorTable | None) -> TypeGuard[VectorTable]:
    """Whether instances are not looked for, but come with their vectors."""
    return isinstance(vectors, VectorTable) and vectors.are_instances


def _read_all(source: Source, run: Path, todo: list[_Piece], jobs: int, cluster: str | None) -> Iterator[_Done]:
    """Each batch as soon as it was read: by several processes here, or by the workers of a cluster.

    These share the storage of the media; what they read is kept from here.
    """
    # pieces have what they need of these
    plain = replace(source, path=source.path.resolve(), names=[], vectors=None, boxes=None, held={})
    if cluster is None:
        yield from _on_cores(partial(_read_and_keep, plain, run), todo, jobs)
        return
    from bagwise.scale.cluster import check_sees, check_workers, each_done, open_cluster

    with open_cluster(cluster) as client:
        check_workers(client)
        check_sees(client, str(plain.path))
        batches = _batches(todo, sum(client.nthreads().values()))
        for batch, (found, errors) in each_done(client, partial(_read, plain), batches):
            yield write_entries(run, found) if found else None, errors, sum(piece.weight for piece in batch)


def _on_cores(read: Callable[[list[_Piece]], Any], todo: list[_Piece], jobs: int) -> Iterator[Any]:
    """What is read of each batch as soon as one of several processes has done so."""
    n_processes = joblib.cpu_count() if jobs < 1 else jobs
    batches = _batches(todo, n_processes)
    tasks = (joblib.delayed(read)(batch) for batch in batches)
    with joblib.Parallel(n_jobs=min(n_processes, len(batches)), return_as="generator_unordered") as parallel:
        with _interrupts_held():
            results = parallel(tasks)  # starts the processes
        try:
            for done in results:  # noqa: UP028 - "yield from" would end them before what follows
                yield done
        finally:
            if any(piece.vectors is not None for piece in todo):
                close_network()  # where one process is enough, that is this one
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # whoever interrupts it knows that batches are left
                results.close()


def _batches(todo: list[_Piece], n_processes: int) -> list[list[_Piece]]:
    """Small files together, as many as leave every process its shares; others alone, and all that a network sees."""
    most = min(MOST_FILES, math.ceil(len(todo) / (SHARES * n_processes)))
    batches: list[list[_Piece]] = []
    room = n_files = 0
    for piece in todo:
        if n_files == 0 or piece.n_bytes > room or piece.part is not None or piece.vectors is not None:
            batches.append([])
            room, n_files = MOST_BYTES, most
        batches[-1].append(piece)
        room, n_files = room - piece.n_bytes, n_files - 1
    return batches


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """Start processes that Ctrl-C does not reach: it is for this one, which ends them, and each would print where it
    was."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _read_and_keep(source: Source, run: Path, batch: list[_Piece]) -> _Done:
    """Read files or a part of one in a process of its own.

    The bags go to the disk and not through a pipe, so that finished work outlives whoever waits for it.
    """
    found, errors = _read(source, batch)
    archive = None
    if found:
        try:
            archive = write_entries(run, found)
        except (BagwiseError, OSError) as error:
            errors = {piece.name: f"{piece.name}: {in_words(error)}" for piece in batch} | errors
    return archive, errors, sum(piece.weight for piece in batch)


def _read(source: Source, batch: list[_Piece]) -> tuple[dict[str, FileBags], dict[str, str]]:
    """By key the bags of the files or the part of one that could be read; by name what is wrong with the others."""
    found, errors = dict[str, FileBags](), dict[str, str]()
    for piece in batch:
        with _noting(errors, source, piece.name):
            found[piece.key] = _found(source, piece)
    return found, errors


def _found(source: Source, piece: _Piece) -> FileBags:
    """What is found in a file or a part of one, with vectors where there are any."""
    media_type, settings, vectors = source.media_type, source.settings, piece.vectors
    parts, name = media_type.parts, piece.name
    assert media_type.read is not None, f"{media_type.name} has no files"
    with media_type.opened(source.path / name, piece.held) as file:
        if _are_instances(vectors):
            assert parts is not None
            return parts.join(file, name, [vectors.instances(file, name)], settings)
        if piece.boxes is not None:
            assert media_type.read_boxes is not None
            found = media_type.read_boxes(file, name, piece.boxes, settings)
        elif piece.part is None:
            found = media_type.read(file, name, settings)
        else:
            assert parts is not None
            found = parts.read(file, piece.part, settings)
        return found if vectors is None else vectors.describe(file, name, found)


@contextmanager
def _noting(errors: dict[str, str], source: Source, name: str) -> Iterator[None]:
    """Keep what is wrong with a file, with its name, in place of raising it."""
    try:
        yield
    except (BagwiseError, OSError) as error:
        text = in_words(error).replace(str(source.path / name), name)
        errors.setdefault(name, text if name in text else f"{name}: {text}")
