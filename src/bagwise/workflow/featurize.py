"""All files of a folder to bags: on all cores, going on where an interrupted run was, past files that are bad."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import joblib

from bagwise.exceptions import BagwiseError, in_words
from bagwise.featurize.embedding import Embedding
from bagwise.featurize.files import FileBags
from bagwise.featurize.medium import Medium
from bagwise.featurize.vector_table import VectorTable
from bagwise.io.files import sync_all
from bagwise.workflow.store import entry_facts, entry_path, forget_others, part_path, read_entry, write_entry

Progress = Callable[[str, int, int], None]
Vectors = Embedding | VectorTable
"""Where vectors of instances come from that are not the medium's own features."""
FILES, SOUND = "reading files", "time of sound read"  # what progress is counted in; the second in seconds


@dataclass(frozen=True)
class Featurized:
    """Bags of the files that could be read, errors of those that could not, and how many were done before."""

    bags: dict[str, FileBags]
    errors: dict[str, str]
    n_reused: int


@dataclass(frozen=True)
class _Piece:
    """What is read at once: a file, or a part of a long one; where it is kept, and how much of the work it is."""

    name: str
    entry: Path
    part: tuple[float, float] | None
    weight: float
    vectors: Vectors | None = None


def featurize_folder(
    folder: Path, names: Sequence[str], medium: Medium, settings: Any, run: Path, jobs: int, progress: Progress,
    vectors: Vectors | None = None, cluster: str | None = None,
) -> Featurized:  # fmt: skip
    """Read all files; what is finished, of long files each part, is kept in the folder of the run at once.

    Parameters
    ----------
    folder, names : where the files are, and what they are called
    medium, settings : how they are read
    run : folder of the run
    jobs : number of processes, -1 for all cores
    progress : called with what is done, how much and of how much: files, or seconds of sound
    vectors : where vectors of the instances come from beside their features, None where there are none
    cluster : address of a Dask cluster whose workers read the files, in place of processes here
    """
    errors = {
        _printable(name): f"{_printable(name)}: its name is not UTF-8; rename it."
        for name in names
        if not _is_text(name)
    }
    names = [name for name in names if _is_text(name)]
    facts = entry_facts(settings.to_dict(), None if vectors is None else vectors.about)
    entries = {
        name: entry_path(run, medium.name, facts, folder, name, medium.beside(folder / name, name, settings))
        for name in names
    }
    kept = {name: read_entry(path) for name, path in entries.items()}
    bags = {name: file for name, file in kept.items() if file is not None}
    n_reused = len(bags)
    pieces: dict[str, list[_Piece]] = {}
    for name in names:
        if name not in bags:
            with _noting(errors, folder, name):
                pieces[name] = _cut(folder, name, medium, settings, entries[name], brings_windows(vectors))
    meter = _Meter(medium, bags, pieces, progress)
    todo = _not_kept(pieces, meter, vectors)
    if todo:
        read = partial(_read_and_keep, folder, medium, settings)
        done = _on_cores(read, todo, jobs) if cluster is None else _on_cluster(folder, medium, settings, todo, cluster)
        for piece, error in done:
            if error:
                errors.setdefault(piece.name, error)
            meter.add(piece.weight)
    for name, own in pieces.items():
        if name not in errors:
            with _noting(errors, folder, name):
                bags[name] = _joined(folder, name, own, medium, settings, entries[name])
    sync_all(entries[name] for name in pieces if name not in errors)
    forget_others(run, entries.values())
    return Featurized({name: bags[name] for name in names if name in bags}, errors, n_reused)


class _Meter:
    """How much of the work is done: in seconds of sound where files are read in parts, else in files."""

    def __init__(
        self, medium: Medium, done: Mapping[str, FileBags], todo: Mapping[str, list[_Piece]], progress: Progress
    ):
        self.what = FILES if medium.parts is None else SOUND
        self.done = float(len(done) if medium.parts is None else sum(file.info["seconds"] for file in done.values()))
        self.total = self.done + sum(piece.weight for own in todo.values() for piece in own)
        self.progress = progress

    def add(self, weight: float) -> None:
        self.done += weight
        self.progress(self.what, round(self.done), round(self.total))


def brings_windows(vectors: Vectors | None) -> bool:
    """Whether instances are not looked for, but come with their vectors."""
    return isinstance(vectors, VectorTable) and vectors.are_instances


def _cut(folder: Path, name: str, medium: Medium, settings: Any, entry: Path, at_once: bool) -> list[_Piece]:
    """What of a file is to be read by itself."""
    if medium.parts is None:
        return [_Piece(name, entry, None, 1.0)]
    parts = medium.parts.cut(folder / name, settings)
    if at_once or len(parts) == 1:
        return [_Piece(name, entry, None, parts[-1][1] - parts[0][0])]
    return [_Piece(name, part_path(entry, i, len(parts)), part, part[1] - part[0]) for i, part in enumerate(parts, 1)]


def _not_kept(pieces: Mapping[str, list[_Piece]], meter: _Meter, vectors: Vectors | None) -> list[_Piece]:
    """What is still to be read, each with what describes its instances."""
    meter.add(0.0)
    todo = []
    for piece in (piece for own in pieces.values() for piece in own):
        if piece.part is not None and read_entry(piece.entry) is not None:
            meter.add(piece.weight)
        else:
            todo.append(piece)
    return todo if vectors is None else [replace(piece, vectors=vectors.of_file(piece.name)) for piece in todo]


def _on_cores(
    read: Callable[[_Piece], tuple[_Piece, str | None]], todo: list[_Piece], jobs: int
) -> Iterator[tuple[_Piece, str | None]]:
    """Each piece and its error, if any, as soon as one of several processes has read it."""
    tasks = (joblib.delayed(read)(piece) for piece in todo)
    with joblib.Parallel(n_jobs=min(_count(jobs), len(todo)), return_as="generator_unordered") as parallel:
        with _interrupts_held():
            results = parallel(tasks)  # starts the processes
        yield from results


def _on_cluster(
    folder: Path, medium: Medium, settings: Any, todo: list[_Piece], cluster: str
) -> Iterator[tuple[_Piece, str | None]]:
    """The same on the workers of a cluster, which share the storage of the media; what they read is kept from here."""
    from bagwise.scale.cluster import check_sees, check_workers, each_done, open_cluster

    folder = folder.resolve()
    with open_cluster(cluster) as client:
        check_workers(client)
        check_sees(client, str(folder))
        for piece, (bags, error) in each_done(client, partial(_read, folder, medium, settings), todo):
            if bags is not None:
                write_entry(piece.entry, bags)
            yield piece, error


def _joined(folder: Path, name: str, pieces: list[_Piece], medium: Medium, settings: Any, entry: Path) -> FileBags:
    """The bags of a file all of whose pieces are kept."""
    found = [read_entry(piece.entry) for piece in pieces]
    bags = [file for file in found if file is not None]
    assert len(bags) == len(found), f"a part of {entry} vanished"
    if pieces[0].part is None:
        return bags[0]
    assert medium.parts is not None
    joined = medium.parts.join(folder / name, name, bags, settings)
    write_entry(entry, joined)
    return joined


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


def refuse_files(done: Featurized, medium: Medium, expected: Sequence[str] | None) -> Featurized:
    """Without the files that do not go together with the others, or with the feature names of a trained model."""
    errors = medium.check_files(done.bags, expected)
    bags = {name: file for name, file in done.bags.items() if name not in errors}
    return Featurized(bags, {**done.errors, **errors}, done.n_reused)


def _read_and_keep(folder: Path, medium: Medium, settings: Any, piece: _Piece) -> tuple[_Piece, str | None]:
    """Read a file or a part of one in a process of its own; gives the error, if any.

    The bags go to the disk and not through a pipe, so that finished work outlives whoever waits for it.
    """
    bags, error = _read(folder, medium, settings, piece)
    piece = replace(piece, vectors=None)  # they are large, and are not to go back
    if bags is None:
        return piece, error
    errors = dict[str, str]()
    with _noting(errors, folder, piece.name):
        write_entry(piece.entry, bags)
    return piece, errors.get(piece.name)


def _read(folder: Path, medium: Medium, settings: Any, piece: _Piece) -> tuple[FileBags | None, str | None]:
    """The bags of a file or of a part of one, or what is wrong with it."""
    errors = dict[str, str]()
    with _noting(errors, folder, piece.name):
        return _found(folder / piece.name, piece, medium, settings), None
    return None, errors[piece.name]


def _found(path: Path, piece: _Piece, medium: Medium, settings: Any) -> FileBags:
    """What is found in a file or a part of one, with vectors where there are any."""
    vectors = piece.vectors
    if isinstance(vectors, VectorTable) and vectors.are_instances:
        assert medium.parts is not None
        return medium.parts.join(path, piece.name, [vectors.instances(path, piece.name)], settings)
    if piece.part is None:
        assert medium.read is not None, f"{medium.name} has no files"
        found = medium.read(path, piece.name, settings)
    else:
        assert medium.parts is not None
        found = medium.parts.read(path, piece.part, settings)
    return found if vectors is None else vectors.describe(path, piece.name, found)


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
    return name == _printable(name)


def _printable(name: str) -> str:
    return name.encode("utf-8", "backslashreplace").decode("utf-8")


def _count(jobs: int) -> int:
    return joblib.cpu_count() if jobs < 1 else jobs
