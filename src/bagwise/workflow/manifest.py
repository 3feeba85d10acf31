"""The folder of a run: its manifest, what it wrote, and who has it open."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from bagwise.exceptions import InputError
from bagwise.io.annotations.annotations import write_json

NAME = "manifest.json"
FORMAT, VERSION = "bagwise-run", 2
STATE = ".run"  # what a run needs to be opened again
FEATURES = ".features"  # the bags of each file
HIDDEN = (STATE, FEATURES)
UNFINISHED, WRITING, FINISHED = "unfinished", "writing", "finished"


class BusyError(InputError):
    """A run that another process has open."""


_locks: dict[Path, list[Any]] = {}  # open runs of this process: descriptor of the lock, number of holders


def start_run(out: Path, identity: dict[str, Any], overwrite: bool) -> dict[str, Any] | None:
    """Begin a run in a folder that is locked, or go on in one that holds the same run and give its manifest.

    Parameters
    ----------
    out : path
    identity : dict
        What makes two runs the same: folder, medium, settings, table of labels, model.
    overwrite : bool
        Replace another run. Only files that its manifest lists are removed.

    Raises
    ------
    InputError
        If the folder holds another run or other files.
    """
    old = read_manifest(out)
    if old is None:
        foreign = sorted(
            path.name for path in out.iterdir() if path.name not in HIDDEN and not path.name.endswith(".tmp")
        )
        if foreign:
            with suppress(OSError):
                (out / STATE).rmdir()
            raise InputError(
                f"{out} is not empty ({', '.join(foreign[:3])}) and holds no run of bagwise; choose an empty folder."
            )
    elif old["identity"] != identity:
        if not overwrite:
            raise InputError(
                f"{out} holds another run: {_difference(old['identity'], identity)}. Choose another folder, or pass "
                "--overwrite to replace it."
            )
        _check_no_corrections(out)
        remove_outputs(out, old.get("outputs", []))
        old = None
    if old is None:
        write_manifest(out, {"identity": identity, "status": UNFINISHED})
    (out / FEATURES).mkdir(exist_ok=True)
    for torn in out.rglob(".*.tmp"):  # left by a process that was killed while it wrote
        torn.unlink(missing_ok=True)
    return old if old is not None and old.get("version") == VERSION else None


def _check_no_corrections(out: Path) -> None:
    from bagwise.workflow.corrections import FILE

    if (out / FILE).exists():
        raise InputError(
            f"{out} holds another run, with corrections that a person made; move {out / FILE} away before it is "
            "overwritten, or choose another folder."
        )


def write_manifest(out: Path, content: dict[str, Any]) -> None:
    """Replace the manifest in one step; the same content gives the same bytes, in whatever order it came."""
    first = {"format": FORMAT, "version": VERSION}
    write_json({**first, **{key: content[key] for key in sorted(content) if key not in first}}, out / NAME)


def finish_run(out: Path, content: dict[str, Any]) -> None:
    """Write the manifest of a run that is done, and remove what the same run wrote before but not now.

    Files of a format that is no longer asked for, or of a recording that is gone, would else pass for results.
    """
    old = read_manifest(out) or {}
    remove_outputs(out, sorted({*old.get("outputs", [])} - {*content["outputs"]}))
    write_manifest(out, {**content, "status": FINISHED})


def remove_outputs(out: Path, names: Iterable[str]) -> None:
    """Remove files of a run that its manifest lists, and the folders in it that are empty then."""
    for name in names:
        if Path(name).is_absolute() or ".." in Path(name).parts:
            continue
        (out / name).unlink(missing_ok=True)
        for folder in list((out / name).parents)[: len(Path(name).parts) - 1]:
            if folder.is_dir() and not any(folder.iterdir()):
                folder.rmdir()


def read_manifest(out: Path) -> dict[str, Any] | None:
    """The manifest of a folder; None where there is none."""
    try:
        document = json.loads((out / NAME).read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as error:
        raise InputError(f"{out / NAME} cannot be read ({error}); choose another folder.") from error
    if not isinstance(document, dict) or document.get("format") != FORMAT or "identity" not in document:
        raise InputError(f"{out / NAME} is not a manifest of bagwise; choose another folder.")
    return document


def open_manifest(out: Path) -> dict[str, Any]:
    """The manifest of a run that was finished once; an error says why there is none and what to do."""
    manifest = read_manifest(out)
    if manifest is None:
        raise InputError(
            f"{out} holds no run of bagwise: there is no {NAME} in it; give the folder that annotate wrote."
        )
    version = manifest.get("version")
    if not isinstance(version, int) or version > VERSION:
        raise InputError(
            f"{out} was written by a later bagwise (version {version} of the run's form, this one knows {VERSION}); "
            "upgrade bagwise."
        )
    if version < VERSION:
        raise InputError(
            f"{out} was written by an earlier bagwise, which kept nothing to open it again; run the bagwise annotate "
            "that made it once more: it goes on in the same folder."
        )
    if manifest.get("status") == UNFINISHED:
        raise InputError(
            f"The run in {out} is not finished: it is being written, or was interrupted; wait, or run the bagwise "
            "annotate that made it once more."
        )
    return manifest


def _difference(old: dict[str, Any], new: dict[str, Any]) -> str:
    """The first thing in which two runs differ, in words."""
    for key in sorted({*old, *new}):
        if old.get(key) != new.get(key):
            if isinstance(old.get(key), dict) and isinstance(new.get(key), dict):
                return f"{key}: {_difference(old[key], new[key])}"
            return f"{key} is {old.get(key)!r} there and {new.get(key)!r} now"
    return "nothing differs"


# ---------------------------------------------------------------------------------------------------------------------
# Who has it open


def lock_run(out: Path) -> Path:
    """Make the folder of a run if needed, and keep other processes from writing to it; `unlock_run` lets go.

    The system lets go of the lock when the process ends, however it ends. Within one process a run may be opened again.
    """
    key = out.resolve()
    if key in _locks:
        _locks[key][1] += 1
        return key
    try:
        (out / STATE).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"The folder {out} for the results cannot be made ({error}); choose another.") from error
    descriptor = _try_lock(out / STATE)
    if descriptor is None:
        raise BusyError(
            f"The run in {out} is open in another process (a review, a refit, another Python); close it there first."
        )
    _locks[key] = [descriptor, 1]
    return key


def unlock_run(key: Path) -> None:
    """Let others have the run."""
    holder = _locks.get(key)
    if holder is None:
        return
    holder[1] -= 1
    if holder[1] == 0:
        del _locks[key]
        os.close(holder[0])


def lock_descriptors(key: Path) -> tuple[int, ...]:
    """The lock of a run as a descriptor, which a process that is started may inherit; then it holds the lock too."""
    return (_locks[key][0],) if key in _locks else ()


def _try_lock(folder: Path) -> int | None:
    """Descriptor of a lock on a folder; None where another process holds it."""
    try:
        import fcntl
    except ImportError:  # Windows, where a folder cannot be locked
        return _try_lock_file(folder / "lock")
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor


def _try_lock_file(path: Path) -> int | None:
    import msvcrt

    descriptor = os.open(path, os.O_RDWR | os.O_CREAT)
    try:
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]
    except OSError:
        os.close(descriptor)
        return None
    return descriptor
