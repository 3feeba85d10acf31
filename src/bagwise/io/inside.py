"""Names in a folder that may come from somebody else: they lead to files in it, and to nothing outside of it.

The folder was prepared before it is opened, and nobody changes it meanwhile: so what is looked at here is what is
opened next. The folder itself may be reached through a link, since whoever gave its path meant that.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path, PurePath

from bagwise.core.exceptions import InputError


def parts_of(name: str) -> tuple[str, ...]:
    """The parts of a name that is relative and leads to no place above; an error where it is another."""
    path = PurePath(name)
    is_named = all(part.strip(" .") for part in path.parts)  # Windows takes ".. " for ".."
    if path.anchor or not path.parts or not is_named or "\0" in name:
        raise InputError(
            f"The name {name!r} leads out of its folder or is none; expected one that is relative, without '..'."
        )
    return path.parts


def inside(folder: Path, name: str) -> Path:
    """The path of a name in a folder, whether it is to be read, written or removed, and is there already or not.

    Raises
    ------
    InputError
        If the name leads out of the folder, or any part of the way is a link, or at its end is neither file nor folder.
    """
    path = folder
    for part in parts_of(name):
        path = path / part
        try:
            _check(path)
        except (FileNotFoundError, NotADirectoryError):  # what is not there yet holds no link either
            break
    return folder / PurePath(name)


def open_folder(folder: Path, name: str) -> Path:
    """The path of a file in a folder, as `inside` checks it; the folders on the way are made first."""
    path = inside(folder, name)
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def open_ended(folder: Path, name: str) -> Path:
    """The path of a file in a folder to which rows are added, so that no other name may stand for the same file."""
    path = inside(folder, name)
    if path.exists() and os.lstat(path).st_nlink > 1:
        raise InputError(
            f"{path} has another name elsewhere (a hard link), and what is added to it stands there too; put a copy "
            "of it in its place."
        )
    return path


def walk(folder: Path) -> Iterator[Path]:
    """Everything below a folder, links among it but nothing behind them; nothing where there is no such folder."""
    waiting = [folder]
    while waiting:
        try:
            entries = sorted(os.scandir(waiting.pop()), key=lambda entry: entry.name)
        except (FileNotFoundError, NotADirectoryError):
            continue
        for entry in entries:
            path = Path(entry.path)
            yield path
            if entry.is_dir(follow_symlinks=False) and not _is_link(os.lstat(path)):
                waiting.append(path)


def check_tree(folder: Path) -> None:
    """Refuse a folder below which anything is a link, or neither file nor folder."""
    for path in walk(folder):
        _check(path)


def _check(path: Path) -> None:
    info = os.lstat(path)
    if _is_link(info):
        raise InputError(
            f"{path} is a link to {os.readlink(path)}, and a file or folder of its own was expected: what is written "
            "through a link lands elsewhere; remove the link, or put what it leads to in its place."
        )
    if not (stat.S_ISREG(info.st_mode) or stat.S_ISDIR(info.st_mode)):
        raise InputError(f"{path} is neither a file nor a folder, but a pipe or a device; remove it.")


def _is_link(info: os.stat_result) -> bool:
    """Whether it leads elsewhere; on Windows folders are also joined by mount points."""
    mount_point = getattr(stat, "IO_REPARSE_TAG_MOUNT_POINT", None)
    return stat.S_ISLNK(info.st_mode) or (
        mount_point is not None and getattr(info, "st_reparse_tag", None) == mount_point
    )
