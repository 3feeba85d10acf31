"""Safe files: whole or absent when they are written, read as text whatever the encoding, named inside of their folder.

Names in a folder that may come from somebody else lead to files in it, and to nothing outside of it. The folder was
prepared before it is opened, and nobody changes it meanwhile: so what is looked at here is what is opened next. The
folder itself may be reached through a link, since whoever gave its path meant that.
"""

from __future__ import annotations

import codecs
import errno
import hashlib
import os
import re
import secrets
import shutil
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePath
from typing import IO, Any, NamedTuple, TypeAlias

from bagwise.core.checks import check_allocation
from bagwise.core.exceptions import BagwiseError, FormatError, InputError

PathLike: TypeAlias = str | os.PathLike[str]
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # a full disk, and what an administrator allows
TORN = re.compile(r"\.[0-9a-f]{16}\.tmp")  # names of files that were not finished
# What a spreadsheet would run: such a cell is written with an apostrophe in front, which reading takes off again.
_FORMULA = re.compile(r"'*[=+\-@\t\r]")
_DEFUSED = re.compile(r"'+[=+\-@\t\r]")


# ---------------------------------------------------------------------------------------------------------------------
# Writing


@contextmanager
def atomic_write(path: PathLike, mode: str = "wb", *, durable: bool = True) -> Iterator[IO[Any]]:
    """Open a file that appears at `path` only when it is complete.

    The data goes to a temporary file in the folder of `path`, reaches the disk, and takes the place of `path` in one
    step. If anything goes wrong before, an interrupt or a full disk too, the temporary file is removed and
    what was at `path` stays as it was. A link is followed; the permissions of an existing file are kept.

    Parameters
    ----------
    path : str or path
    mode : {"wb", "w"}
        Binary, or text in UTF-8 whose line ends are written as they are.
    durable : bool
        Whether it is on the disk, and not only with the system, when this returns. Of thousands of small files that
        can be made again it is cheaper to have all of them so at once (`sync_all`).

    Yields
    ------
    The open file.

    Raises
    ------
    InputError
        If the folder is missing or not writable, or `path` is a folder or a device.
    OSError
        If the disk is full or fails.
    """
    if mode not in ("wb", "w"):
        raise InputError(f"mode={mode!r} is not known; use 'wb' or 'w'.")
    target = Path(os.path.realpath(path))
    handle, temporary = _open_beside(target, mode)
    try:
        yield handle
        handle.flush()
        if durable:
            os.fsync(handle.fileno())
        handle.close()
        if target.exists():
            shutil.copymode(target, temporary)
        os.replace(temporary, target)
    except BaseException as error:
        with suppress(OSError):  # closing flushes, and the disk may still be full
            handle.close()
        with suppress(OSError):
            temporary.unlink()
        if isinstance(error, OSError) and error.errno in NO_ROOM:
            text = f"The disk is full: {target} was not written, and what was there before is untouched"
            raise OSError(error.errno, text) from error
        raise
    if durable:
        _sync_folder(target.parent)


def sync_all(paths: Iterable[Path]) -> None:
    """Have files on the disk that were written without being durable, and their names too."""
    paths = list(paths)
    if paths and hasattr(os, "sync"):
        os.sync()
        return
    for path in paths:
        with suppress(OSError), path.open("rb+") as file:
            os.fsync(file.fileno())


def check_target(path: PathLike) -> None:
    """Refuse a place where no file can be written, before long work for it begins."""
    target = Path(os.path.realpath(path))
    if not target.parent.is_dir():
        raise InputError(f"Cannot write {target}: there is no folder {target.parent}; create it first.")
    if target.is_dir():
        raise InputError(f"Cannot write {target}: it is a folder; give the name of a file.")
    if target.exists() and not target.is_file():
        raise InputError(f"Cannot write {target}: it is a device or a pipe; give the name of a file.")
    if not os.access(target.parent, os.W_OK):
        raise InputError(
            f"Cannot write {target}: the folder {target.parent} is not writable; choose another or change its "
            "permissions."
        )


def _open_beside(target: Path, mode: str) -> tuple[IO[Any], Path]:
    check_target(target)
    temporary = target.with_name(f".{secrets.token_hex(8)}.tmp")
    try:
        if mode == "wb":
            return open(temporary, "xb"), temporary
        return open(temporary, "x", encoding="utf-8", newline=""), temporary
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            raise InputError(
                f"Cannot write {target}: the folder {target.parent} is not writable ({error.strerror}); "
                "choose another or change its permissions."
            ) from error
        raise


def _sync_folder(folder: Path) -> None:
    """Make the renaming itself durable, where the system can."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


# ---------------------------------------------------------------------------------------------------------------------
# Reading


def check_readable(path: PathLike) -> Path:
    """The path of a file that is there, is a file, may be read and is not empty; else a `FormatError` says why."""
    path = Path(path)
    try:
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            raise FormatError(f"{path} is a folder; give the path of one file.")
        if not stat.S_ISREG(mode):  # it tells no size and may never end, or nobody may write to it
            raise FormatError(f"{path} is a device, a pipe or a socket; save what it gives as a file, and give that.")
        with path.open("rb") as file:
            if not file.read(1):
                raise FormatError(f"{path} is empty; there is nothing to read in it.")
    except FormatError:  # a ValueError too, but ours
        raise
    except FileNotFoundError as error:
        raise FormatError(f"{path} does not exist; check the path.") from error
    except PermissionError as error:
        raise FormatError(f"{path} may not be read; change its permissions.") from error
    except (OSError, ValueError) as error:  # a name with a null character, a name that is too long, a failing disk
        raise FormatError(f"{str(path)!r} cannot be opened ({error}); check the path.") from error
    return path


@contextmanager
def damaged(path: Any, what: str, cure: str = "write it again") -> Iterator[None]:
    """Whatever libraries say about damaged bytes, as one `FormatError` that names the file and what it should be."""
    try:
        yield
    except (BagwiseError, ImportError):
        raise
    except Exception as error:  # of many kinds: of zip, JSON, XML, numpy, pyarrow, and names that are no UTF-8
        text = " ".join(f"{type(error).__name__}: {error}".split())[:200]
        raise FormatError(f"{path}: it is damaged, cut off or no {what} ({text}); {cure}.") from error


def file_fingerprint(path: PathLike) -> str:
    """A name for the content of a file."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()


# ---------------------------------------------------------------------------------------------------------------------
# Names in a folder


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


# ---------------------------------------------------------------------------------------------------------------------
# Names and cells as text


def printable(name: str) -> str:
    """The name of a file as text that can be written: bytes that are not UTF-8, which some systems allow, escaped."""
    return name.encode("utf-8", "backslashreplace").decode("utf-8")


def defuse(cell: str) -> str:
    """A cell that a spreadsheet would run as a formula, with an apostrophe in front; others as they are."""
    return f"'{cell}" if _FORMULA.match(cell) else cell


def undefuse(cell: str) -> str:
    """What `defuse` was given."""
    return cell[1:] if _DEFUSED.match(cell) else cell


# ---------------------------------------------------------------------------------------------------------------------
# The text of a file, whatever its encoding

_SIZE_PER_BYTE = 8  # Python's strings and lists of short cells, besides the bytes of the file
UTF8 = "UTF-8"
_MARKS = {  # the longer ones first: that of UTF-16 begins that of UTF-32
    codecs.BOM_UTF32_LE: "UTF-32-LE",
    codecs.BOM_UTF32_BE: "UTF-32-BE",
    codecs.BOM_UTF8: UTF8,
    codecs.BOM_UTF16_LE: "UTF-16-LE",
    codecs.BOM_UTF16_BE: "UTF-16-BE",
}
_CONTROL = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f]")
_SEQUENCE = re.compile(rb"[\xc2-\xf4][\x80-\xbf]+")  # what a letter outside of ASCII looks like in UTF-8
_NO_TEXT = {
    b"PK\x03\x04": "a zip file",
    b"PAR1": "a parquet file",
    b"\x1f\x8b": "a gzip file",
    b"%PDF-": "a PDF",
    b"\xd0\xcf\x11\xe0": "a file of an old office program",
    b"\x89PNG": "a picture",
    b"\xff\xd8\xff": "a picture",
    b"RIFF": "a recording",
    b"SQLite format 3": "a database",
}


class Decoded(NamedTuple):
    """A text, and what it was read as: an encoding, "HTML (UTF-8)", "PDF"."""

    text: str
    read_as: str


def decode(raw: bytes, source: PathLike, *, controls: bool = False) -> Decoded:
    """The text of some bytes by their mark, else as UTF-8 where they are, else as UTF-16 or Windows-1252 by detection.

    Bytes that are UTF-8 but for a few places are an error that names the first of these: read as anything else, every
    letter outside of ASCII would be two wrong ones.

    Parameters
    ----------
    raw : bytes
    source : str or path
        Where they are from, for errors.
    controls : bool
        Whether text in UTF-8 may hold characters that print nothing; null it may not.
    """
    found = _decode(raw, source, controls)
    if "\0" in found.text:
        row = found.text[: found.text.index("\0")].count("\n") + 1
        raise FormatError(f"{source}, row {row}: there is a null character, so this is no text file; check the file.")
    return found


def _decode(raw: bytes, source: PathLike, controls: bool) -> Decoded:
    for mark, name in _MARKS.items():
        if raw.startswith(mark):
            return _strict(raw[len(mark) :], name, source)
    wide = _wide(raw)
    if wide is not None:
        return _strict(raw, wide, source)
    if not controls:
        _check_controls(raw, source)
    try:
        return Decoded(raw.decode("utf-8"), UTF8)
    except UnicodeDecodeError as error:
        n_letters = sum(1 for _ in _SEQUENCE.finditer(raw))
        if 2 * n_letters > raw.decode("utf-8", "replace").count("\ufffd"):
            raise _undecodable(raw, error, UTF8, source) from error
    _check_controls(raw, source)
    return _strict(raw, "Windows-1252" if re.search(rb"[\x80-\x9f]", raw) else "Latin-1", source)


def _strict(raw: bytes, name: str, source: PathLike) -> Decoded:
    shown = name.removesuffix("-LE").removesuffix("-BE")
    try:
        return Decoded(raw.decode(name), shown)
    except UnicodeDecodeError as error:
        raise _undecodable(raw, error, shown, source) from error


def _undecodable(raw: bytes, error: UnicodeDecodeError, name: str, source: PathLike) -> FormatError:
    row = raw[: error.start].count(b"\n") + 1
    return FormatError(
        f"{source}, row {row}: the byte 0x{raw[error.start]:02x} is not {name} text; save the file as UTF-8."
    )


def _check_controls(raw: bytes, source: PathLike) -> None:
    found = _CONTROL.search(raw)
    if found is not None and raw[found.start()]:
        row = raw[: found.start()].count(b"\n") + 1
        raise FormatError(
            f"{source}, row {row}: there is the byte 0x{raw[found.start()]:02x}, so this is no text file; check the "
            "file."
        )


def _wide(raw: bytes) -> str | None:
    """Which UTF-16 bytes without a mark are: those whose every second byte is mostly null."""
    sample = raw[:4096]
    first, second = (sample[i::2].count(0) / max(len(sample[i::2]), 1) for i in (0, 1))
    if len(raw) % 2 or abs(first - second) < 0.4 or min(first, second) > 0.1:
        return None
    return "UTF-16-LE" if second > first else "UTF-16-BE"


def read_text(path: PathLike) -> Decoded:
    """The whole of a text file, and the encoding in which it was read."""
    path = check_readable(path)
    check_allocation(_SIZE_PER_BYTE * path.stat().st_size, f"{path} read as text", "keep large data as parquet")
    raw = path.read_bytes()
    for begin, what in _NO_TEXT.items():
        if raw.startswith(begin) and (begin != b"RIFF" or b"\0" in raw):
            raise FormatError(
                f"{path}: it is {what} and no text, whatever its ending; expected text in UTF-8, such as CSV or JSON. "
                "Save it as that, or give the file that was meant."
            )
    found = decode(raw, path, controls=True)
    if not found.text.strip():
        raise FormatError(f"{path} is empty: it holds nothing but blanks.")
    return found
