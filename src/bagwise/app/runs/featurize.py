"""All files of a folder to bags: on all cores, going on where an interrupted run was, past files that are bad."""

from __future__ import annotations

import math
import signal
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeGuard

import joblib

from bagwise.app.media.embedding import Embedding, VectorTable, close_network
from bagwise.app.media.files import FileBags
from bagwise.app.media.media_type import MediaType
from bagwise.app.runs._store import Store, entry_facts, entry_key, part_key, write_entries
from bagwise.core.exceptions import BagwiseError, in_words
from bagwise.io.files import printable

Progress = Callable[[str, int, int], None]
Vectors = Embedding | VectorTable
"""Where vectors of instances come from that are not the media type's own features."""
FILES, SOUND = "reading files", "time of sound read"  # what progress is counted in; the second in seconds
MOST_FILES, MOST_BYTES = 64, 2**18  # that are read and kept together
SHARES = 16  # of the work of a process at least: so much less than all is lost when it is interrupted


@dataclass(frozen=True)
class _Featurized:
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
    vectors: Vectors | None = None


_Batch = list[_Piece]


@dataclass(frozen=True)
class _Done:
    """A batch that was read: where it is kept, None where nothing of it could be read, and errors of its files."""

    archive: Path | None
    errors: dict[str, str]
    weight: float


def featurize_folder(
    folder: Path,
    names: Sequence[str],
    media_type: MediaType,
    settings: Any,
    run: Path,
    jobs: int,
    progress: Progress,
    vectors: Vectors | None = None,
    cluster: str | None = None,
) -> _Featurized:
    """Read all files; what is finished, of long files each part, is kept in the folder of the run at once.

    Parameters
    ----------
    folder, names : where the files are, and what they are called
    media_type, settings : how they are read
    run : folder of the run
    jobs : number of processes, -1 for all cores
    progress : called with what is done, how much and of how much: files, or seconds of sound
    vectors : where vectors of the instances come from, in addition to their features, None where there are none
    cluster : address of a Dask cluster whose workers read the files, in place of processes here
    """
    errors = {
        printable(name): f"{printable(name)}: its name is not UTF-8; rename it." for name in names if not _is_text(name)
    }
    names = [name for name in names if _is_text(name)]
    facts = entry_facts(settings.to_dict(), None if vectors is None else vectors.about)
    keys = {
        name: entry_key(media_type.name, facts, folder, name, media_type.companions(folder / name, name, settings))
        for name in names
    }
    store = Store(run)
    kept = store.read_all(set(keys.values()))
    bags = {name: kept[key] for name, key in keys.items() if key in kept}
    n_reused = len(bags)
    pieces: dict[str, list[_Piece]] = {}
    for name in names:
        if name not in bags:
            with _noting(errors, folder, name):
                pieces[name] = _cut(folder, name, media_type, settings, keys[name], _brings_windows(vectors))
    meter = _Meter(media_type, bags, pieces, progress)
    todo = _not_kept(pieces, kept, meter, vectors)
    if todo:
        if cluster is None:
            done = _on_cores(partial(_read_and_keep, folder, media_type, settings, run), todo, jobs)
        else:
            done = _on_cluster(folder, media_type, settings, run, todo, cluster)
        for batch in done:
            for name, error in batch.errors.items():
                errors.setdefault(name, error)
            if batch.archive is not None:
                kept |= store.add(batch.archive)
            meter.add(batch.weight)
    for name, own in pieces.items():
        if name not in errors:
            with _noting(errors, folder, name):
                if own[0].part is not None:
                    kept[keys[name]] = _joined(folder, name, own, media_type, settings, kept)
                    store.write({keys[name]: kept[keys[name]]})
                bags[name] = kept[keys[name]]
    store.forget_others(keys.values())
    return _Featurized({name: bags[name] for name in names if name in bags}, errors, n_reused, keys)


class _Meter:
    """How much of the work is done: in seconds of sound where files are read in parts, else in files."""

    def __init__(
        self, media_type: MediaType, done: Mapping[str, FileBags], todo: Mapping[str, list[_Piece]], progress: Progress
    ):
        self.what = FILES if media_type.parts is None else SOUND
        self.done = float(
            len(done) if media_type.parts is None else sum(file.info["seconds"] for file in done.values())
        )
        self.total = self.done + sum(piece.weight for own in todo.values() for piece in own)
        self.progress = progress

    def add(self, weight: float) -> None:
        self.done += weight
        self.progress(self.what, round(self.done), round(self.total))


def _brings_windows(vectors: Vectors | None) -> TypeGuard[VectorTable]:
    """Whether instances are not looked for, but come with their vectors."""
    return isinstance(vectors, VectorTable) and vectors.are_instances


def _cut(folder: Path, name: str, media_type: MediaType, settings: Any, key: str, at_once: bool) -> list[_Piece]:
    """What of a file is to be read by itself."""
    n_bytes = (folder / name).stat().st_size
    if media_type.parts is None:
        return [_Piece(name, key, None, 1.0, n_bytes)]
    with media_type.opened(folder / name) as file:
        parts = media_type.parts.cut(file, settings)
    if at_once or len(parts) == 1:
        return [_Piece(name, key, None, parts[-1][1] - parts[0][0], n_bytes)]
    return [
        _Piece(name, part_key(key, i, len(parts)), part, part[1] - part[0], n_bytes) for i, part in enumerate(parts, 1)
    ]


def _not_kept(
    pieces: Mapping[str, list[_Piece]], kept: Mapping[str, FileBags], meter: _Meter, vectors: Vectors | None
) -> list[_Piece]:
    """What is still to be read, each with what describes its instances."""
    meter.add(0.0)
    todo = []
    for piece in (piece for own in pieces.values() for piece in own):
        if piece.key in kept:
            meter.add(piece.weight)
        else:
            todo.append(piece)
    return todo if vectors is None else [replace(piece, vectors=vectors.of_file(piece.name)) for piece in todo]


def _batches(todo: list[_Piece], n_processes: int) -> list[_Batch]:
    """Small files together, as many as leave every process its shares; others alone, and all that a network sees."""
    most = min(MOST_FILES, math.ceil(len(todo) / (SHARES * n_processes)))
    batches: list[_Batch] = []
    room = n_files = 0
    for piece in todo:
        if n_files == 0 or piece.n_bytes > room or piece.part is not None or piece.vectors is not None:
            batches.append([])
            room, n_files = MOST_BYTES, most
        batches[-1].append(piece)
        room, n_files = room - piece.n_bytes, n_files - 1
    return batches


def _on_cores(read: Callable[[_Batch], _Done], todo: list[_Piece], jobs: int) -> Iterator[_Done]:
    """Each batch as soon as one of several processes has read it."""
    batches = _batches(todo, _count(jobs))
    tasks = (joblib.delayed(read)(batch) for batch in batches)
    with joblib.Parallel(n_jobs=min(_count(jobs), len(batches)), return_as="generator_unordered") as parallel:
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


def _on_cluster(
    folder: Path, media_type: MediaType, settings: Any, run: Path, todo: list[_Piece], cluster: str
) -> Iterator[_Done]:
    """The same on the workers of a cluster, which share the storage of the media; what they read is kept from here."""
    from bagwise.scale.cluster import check_sees, check_workers, each_done, open_cluster

    folder = folder.resolve()
    with open_cluster(cluster) as client:
        check_workers(client)
        check_sees(client, str(folder))
        batches = _batches(todo, sum(client.nthreads().values()))
        for batch, (found, errors) in each_done(client, partial(_read, folder, media_type, settings), batches):
            yield _Done(write_entries(run, found) if found else None, errors, sum(piece.weight for piece in batch))


def _joined(
    folder: Path, name: str, parts: list[_Piece], media_type: MediaType, settings: Any, kept: Mapping[str, FileBags]
) -> FileBags:
    """The bags of a long file all of whose parts are kept."""
    assert media_type.parts is not None
    with media_type.opened(folder / name) as file:
        return media_type.parts.join(file, name, [kept[part.key] for part in parts], settings)


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


def refuse_files(done: _Featurized, media_type: MediaType, expected: Sequence[str] | None) -> _Featurized:
    """Without the files that do not go together with the others, or with the feature names of a trained model."""
    errors = media_type.check_files(done.bags, expected)
    bags = {name: file for name, file in done.bags.items() if name not in errors}
    return replace(done, bags=bags, errors={**done.errors, **errors})


def _read_and_keep(folder: Path, media_type: MediaType, settings: Any, run: Path, batch: _Batch) -> _Done:
    """Read files or a part of one in a process of its own.

    The bags go to the disk and not through a pipe, so that finished work outlives whoever waits for it.
    """
    found, errors = _read(folder, media_type, settings, batch)
    archive = None
    if found:
        try:
            archive = write_entries(run, found)
        except (BagwiseError, OSError) as error:
            errors = {piece.name: f"{piece.name}: {in_words(error)}" for piece in batch} | errors
    return _Done(archive, errors, sum(piece.weight for piece in batch))


def _read(
    folder: Path, media_type: MediaType, settings: Any, batch: _Batch
) -> tuple[dict[str, FileBags], dict[str, str]]:
    """By key the bags of the files or the part of one that could be read; by name what is wrong with the others."""
    found, errors = dict[str, FileBags](), dict[str, str]()
    for piece in batch:
        with _noting(errors, folder, piece.name):
            found[piece.key] = _found(folder / piece.name, piece, media_type, settings)
    return found, errors


def _found(path: Path, piece: _Piece, media_type: MediaType, settings: Any) -> FileBags:
    """What is found in a file or a part of one, with vectors where there are any."""
    vectors, parts = piece.vectors, media_type.parts
    assert media_type.read is not None, f"{media_type.name} has no files"
    with media_type.opened(path) as file:
        if _brings_windows(vectors):
            assert parts is not None
            return parts.join(file, piece.name, [vectors.instances(file, piece.name)], settings)
        if piece.part is None:
            found = media_type.read(file, piece.name, settings)
        else:
            assert parts is not None
            found = parts.read(file, piece.part, settings)
        return found if vectors is None else vectors.describe(file, piece.name, found)


@contextmanager
def _noting(errors: dict[str, str], folder: Path, name: str) -> Iterator[None]:
    """Keep what is wrong with a file, with its name, in place of raising it."""
    try:
        yield
    except (BagwiseError, OSError) as error:
        text = in_words(error).replace(str(folder / name), name)
        errors.setdefault(name, text if name in text else f"{name}: {text}")


def _is_text(name: str) -> bool:
    """Whether a file name can be written down: some systems allow any bytes."""
    return name == printable(name)


def _count(jobs: int) -> int:
    return joblib.cpu_count() if jobs < 1 else jobs
