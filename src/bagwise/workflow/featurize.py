"""All files of a folder to bags: on all cores, going on where an interrupted run was, past files that are bad."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import joblib

from bagwise.exceptions import BagwiseError, in_words
from bagwise.featurize.files import FileBags
from bagwise.featurize.medium import Medium
from bagwise.io.files import sync_all
from bagwise.workflow.store import entry_path, forget_others, part_path, read_entry, write_entry

Progress = Callable[[str, int, int], None]
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


def featurize_folder(
    folder: Path, names: Sequence[str], medium: Medium, settings: Any, run: Path, jobs: int, progress: Progress
) -> Featurized:
    """Read all files; what is finished, of long files each part, is kept in the folder of the run at once.

    Parameters
    ----------
    folder, names : where the files are, and what they are called
    medium, settings : how they are read
    run : folder of the run
    jobs : number of processes, -1 for all cores
    progress : called with what is done, how much and of how much: files, or seconds of sound
    """
    errors = {
        _printable(name): f"{_printable(name)}: its name is not UTF-8; rename it."
        for name in names
        if not _is_text(name)
    }
    names = [name for name in names if _is_text(name)]
    entries = {name: entry_path(run, medium.name, settings.to_dict(), folder, name) for name in names}
    kept = {name: read_entry(path) for name, path in entries.items()}
    bags = {name: file for name, file in kept.items() if file is not None}
    n_reused = len(bags)
    pieces: dict[str, list[_Piece]] = {}
    for name in names:
        if name not in bags:
            with _noting(errors, folder, name):
                pieces[name] = _cut(folder, name, medium, settings, entries[name])
    _read_pieces(folder, pieces, medium, settings, jobs, errors, _Meter(medium, bags, pieces, progress))
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


def _cut(folder: Path, name: str, medium: Medium, settings: Any, entry: Path) -> list[_Piece]:
    """What of a file is to be read by itself."""
    if medium.parts is None:
        return [_Piece(name, entry, None, 1.0)]
    parts = medium.parts.cut(folder / name, settings)
    if len(parts) == 1:
        return [_Piece(name, entry, None, parts[0][1] - parts[0][0])]
    return [_Piece(name, part_path(entry, i, len(parts)), part, part[1] - part[0]) for i, part in enumerate(parts, 1)]


def _read_pieces(
    folder: Path, pieces: Mapping[str, list[_Piece]], medium: Medium, settings: Any, jobs: int,
    errors: dict[str, str], meter: _Meter,
) -> None:  # fmt: skip
    """Read what is not kept yet, on several cores."""
    meter.add(0.0)
    todo = []
    for piece in (piece for own in pieces.values() for piece in own):
        if piece.part is not None and read_entry(piece.entry) is not None:
            meter.add(piece.weight)
        else:
            todo.append(piece)
    if not todo:
        return
    tasks = (joblib.delayed(_read_and_keep)(folder, piece, medium, settings) for piece in todo)
    with joblib.Parallel(n_jobs=min(_count(jobs), len(todo)), return_as="generator_unordered") as parallel:
        with _interrupts_held():
            results = parallel(tasks)  # starts the processes
        for piece, error in results:
            if error:
                errors.setdefault(piece.name, error)
            meter.add(piece.weight)


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


def _read_and_keep(folder: Path, piece: _Piece, medium: Medium, settings: Any) -> tuple[_Piece, str | None]:
    """Read a file or a part of one in a process of its own; gives the error, if any.

    The bags go to the disk and not through a pipe, so that finished work outlives whoever waits for it.
    """
    path, errors = folder / piece.name, dict[str, str]()
    with _noting(errors, folder, piece.name):
        if piece.part is None:
            assert medium.read is not None, f"{medium.name} has no files"
            write_entry(piece.entry, medium.read(path, piece.name, settings))
        else:
            assert medium.parts is not None
            write_entry(piece.entry, medium.parts.read(path, piece.part, settings))
    return piece, errors.get(piece.name)


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
