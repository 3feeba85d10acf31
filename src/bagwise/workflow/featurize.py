"""All files of a folder to bags: on all cores, going on where an interrupted run was, past files that are bad."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import joblib

from bagwise.exceptions import BagwiseError, in_words
from bagwise.featurize.files import FileBags
from bagwise.featurize.medium import Medium
from bagwise.workflow.store import entry_path, forget_others, read_entry, write_entry

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Featurized:
    """Bags of the files that could be read, errors of those that could not, and how many were done before."""

    bags: dict[str, FileBags]
    errors: dict[str, str]
    n_reused: int


def featurize_folder(
    folder: Path, names: Sequence[str], medium: Medium, settings: Any, run: Path, jobs: int, progress: Progress
) -> Featurized:
    """Read all files; what is finished is kept in the folder of the run at once.

    Parameters
    ----------
    folder, names : where the files are, and what they are called
    medium, settings : how they are read
    run : folder of the run
    jobs : number of processes, -1 for all cores
    progress : called with what is done, how much and of how much
    """
    bags: dict[str, FileBags] = {}
    errors = {
        _printable(name): f"{_printable(name)}: its name is not UTF-8; rename it."
        for name in names
        if not _is_text(name)
    }
    names = [name for name in names if _is_text(name)]
    entries = {name: entry_path(run, medium.name, settings.to_dict(), folder, name) for name in names}
    for name, path in entries.items():
        kept = read_entry(path)
        if kept is not None:
            bags[name] = kept
    n_reused = len(bags)
    todo = [name for name in names if name not in bags]
    what = "reading files"
    progress(what, n_reused, len(names))
    tasks = (joblib.delayed(_read_and_keep)(folder, name, medium, settings, entries[name]) for name in todo)
    if todo:
        with joblib.Parallel(n_jobs=min(_count(jobs), len(todo)), return_as="generator_unordered") as parallel:
            for done, (name, error) in enumerate(parallel(tasks), 1):
                if error:
                    errors[name] = error
                progress(what, n_reused + done, len(names))
    forget_others(run, entries.values())
    for name in todo:
        if name not in errors:
            kept = read_entry(entries[name])
            assert kept is not None, f"{entries[name]} vanished"
            bags[name] = kept
    return Featurized({name: bags[name] for name in names if name in bags}, errors, n_reused)


def refuse_files(done: Featurized, medium: Medium, expected: Sequence[str] | None) -> Featurized:
    """Without the files that do not go together with the others, or with the feature names of a trained model."""
    errors = medium.check_files(done.bags, expected)
    bags = {name: file for name, file in done.bags.items() if name not in errors}
    return Featurized(bags, {**done.errors, **errors}, done.n_reused)


def _read_and_keep(folder: Path, name: str, medium: Medium, settings: Any, entry: Path) -> tuple[str, str | None]:
    """Read one file in a process of its own; gives its name and the error, if any.

    The bags go to the disk and not through a pipe, so that finished work outlives whoever waits for it.
    """
    assert medium.read is not None, f"{medium.name} has no files"
    try:
        write_entry(entry, medium.read(folder / name, name, settings))
    except (BagwiseError, OSError) as error:
        text = in_words(error).replace(str(folder / name), name)
        return name, text if name in text else f"{name}: {text}"
    return name, None


def _is_text(name: str) -> bool:
    """Whether a file name can be written down: some systems allow any bytes."""
    return name == _printable(name)


def _printable(name: str) -> str:
    return name.encode("utf-8", "backslashreplace").decode("utf-8")


def _count(jobs: int) -> int:
    return joblib.cpu_count() if jobs < 1 else jobs
