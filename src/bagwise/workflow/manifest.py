"""The manifest of a run: what it is of, how it was made, what came out."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from bagwise.exceptions import InputError
from bagwise.io.annotations.annotations import write_json
from bagwise.workflow.store import FOLDER

NAME = "manifest.json"
FORMAT = "bagwise-run"


def open_run(out: Path, identity: dict[str, Any], overwrite: bool) -> None:
    """Make the folder of a run, or go on in one that holds the same run.

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
        If the folder holds another run or other files, or cannot be made.
    """
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"The folder {out} for the results cannot be made ({error}); choose another.") from error
    old = _read(out)
    if old is None:
        foreign = sorted(path.name for path in out.iterdir() if path.name != FOLDER and not path.name.endswith(".tmp"))
        if foreign:
            raise InputError(
                f"{out} is not empty ({', '.join(foreign[:3])}) and holds no run of bagwise; choose an empty folder."
            )
    elif old["identity"] != identity:
        if not overwrite:
            raise InputError(
                f"{out} holds another run: {_difference(old['identity'], identity)}. Choose another folder, or pass "
                "--overwrite to replace it."
            )
        _remove(out, old.get("outputs", []))
    if old is None or old["identity"] != identity:
        write_manifest(out, {"identity": identity, "status": "unfinished"})
    (out / FOLDER).mkdir(exist_ok=True)
    for torn in out.rglob(".*.tmp"):  # left by a process that was killed while it wrote
        torn.unlink(missing_ok=True)


def write_manifest(out: Path, content: dict[str, Any]) -> None:
    write_json({"format": FORMAT, "version": 1, **content}, out / NAME)


def finish_run(out: Path, content: dict[str, Any]) -> None:
    """Write the manifest of a run that is done, and remove what the same run wrote before but not now.

    Files of a format that is no longer asked for, or of a recording that is gone, would else pass for results.
    """
    old = _read(out) or {}
    _remove(out, sorted({*old.get("outputs", [])} - {*content["outputs"]}))
    write_manifest(out, {**content, "status": "finished"})


def _remove(out: Path, names: Iterable[str]) -> None:
    """Remove files of a run that its manifest lists, and the folders in it that are empty then."""
    for name in names:
        if Path(name).is_absolute() or ".." in Path(name).parts:
            continue
        (out / name).unlink(missing_ok=True)
        for folder in list((out / name).parents)[: len(Path(name).parts) - 1]:
            if folder.is_dir() and not any(folder.iterdir()):
                folder.rmdir()


def _read(out: Path) -> dict[str, Any] | None:
    try:
        document = json.loads((out / NAME).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise InputError(f"{out / NAME} cannot be read ({error}); choose another folder.") from error
    if not isinstance(document, dict) or document.get("format") != FORMAT or "identity" not in document:
        raise InputError(f"{out / NAME} is not a manifest of bagwise; choose another folder.")
    return document


def _difference(old: dict[str, Any], new: dict[str, Any]) -> str:
    """The first thing in which two runs differ, in words."""
    for key in sorted({*old, *new}):
        if old.get(key) != new.get(key):
            if isinstance(old.get(key), dict) and isinstance(new.get(key), dict):
                return f"{key}: {_difference(old[key], new[key])}"
            return f"{key} is {old.get(key)!r} there and {new.get(key)!r} now"
    return "nothing differs"
