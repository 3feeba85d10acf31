"""A disk that fails at the n-th thing asked of it beneath a folder: as SQLite tests itself, in one process, as anybody.

Python's own calls are replaced for as long as a ``with`` block lasts. What is only read never fails. Nothing is really
synchronized, which takes long and changes nothing while the power is on.
"""

import builtins
import errno
import io
import os
from pathlib import Path

import pytest

FULL, BROKEN = "full", "broken"
NEEDS_ROOM = ("open", "write", "fsync", "mkdir")
needs_descriptors = pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="nothing tells what a descriptor is")


class FailingDisk:
    """Counts what is asked of a folder and fails at the n-th.

    Parameters
    ----------
    folder : path
    nth : int
        From 1; 0 never fails.
    kind : {FULL, BROKEN}
        The disk is full from the n-th call on (what needs no room goes on, half of a row was written); or that one call
        fails, after half of what was to be written.

    Attributes
    ----------
    count : int
    failed : list of str
        The calls that failed.
    """

    def __init__(self, folder, nth=0, kind=FULL):
        self.folder = os.path.realpath(folder)
        self.nth, self.kind = nth, kind
        self.count, self.failed = 0, []
        self._real = {}

    def __enter__(self):
        for name in ("open", "write", "fsync", "ftruncate"):
            self._replace(os, name, getattr(self, f"_os_{name}"))
        for name in ("mkdir", "unlink", "remove", "rmdir", "chmod", "replace", "rename"):
            self._replace(os, name, self._by_path(name, getattr(os, name)))
        self._replace(io, "open", self._open)
        self._replace(builtins, "open", self._open)
        return self

    def __exit__(self, *_):
        for (module, name), real in self._real.items():
            setattr(module, name, real)
        self._real.clear()

    def _replace(self, module, name, ours):
        self._real[module, name] = getattr(module, name)
        setattr(module, name, ours)

    def fails(self, what):
        """Count one call; whether it must fail."""
        self.count += 1
        if self.kind == BROKEN:
            is_hit = self.count == self.nth
        else:
            is_hit = 0 < self.nth <= self.count and what in NEEDS_ROOM
        if is_hit:
            self.failed.append(what)
        return is_hit

    def error(self, path=None):
        number = errno.ENOSPC if self.kind == FULL else errno.EIO
        return OSError(number, os.strerror(number), *(() if path is None else (os.fspath(path),)))

    def write_some(self, write, data):
        """Write, or fail when half is written; a full disk takes half and fails when asked again."""
        if not self.fails("write"):
            return write(data)
        n = write(memoryview(data)[: len(data) // 2]) if len(data) > 1 and len(self.failed) == 1 else 0
        if self.kind == FULL and n:
            return n
        raise self.error()

    def _is_ours(self, path, dir_fd=None):
        if isinstance(path, int):
            path = os.readlink(f"/proc/self/fd/{path}").removesuffix(" (deleted)")
        elif dir_fd is not None:
            path = os.path.join(os.readlink(f"/proc/self/fd/{dir_fd}"), os.fspath(path))
        path = os.path.abspath(os.fsdecode(os.fspath(path)))
        return (
            os.path.join(os.path.realpath(os.path.dirname(path)), "").startswith(os.path.join(self.folder, ""))
            or path == self.folder
        )

    # -- replacements -------------------------------------------------------------------------------------------------

    def _by_path(self, name, real):
        def call(path, *args, **options):
            if name == "mkdir" and os.path.isdir(path):
                return real(path, *args, **options)  # is refused anyway, and needs no room
            if self._is_ours(path, options.get("dir_fd", options.get("src_dir_fd"))) and self.fails(name):
                raise self.error(path)
            return real(path, *args, **options)

        return call

    def _os_open(self, path, flags, mode=0o777, *, dir_fd=None):
        is_new = flags & os.O_CREAT and not os.path.exists(path)
        for_writing = flags & (os.O_WRONLY | os.O_RDWR)
        if for_writing and self._is_ours(path, dir_fd) and self.fails("open" if is_new else "reopen"):
            raise self.error(path)
        return self._real[os, "open"](path, flags, mode, dir_fd=dir_fd)

    def _os_write(self, descriptor, data):
        real = self._real[os, "write"]
        if not self._is_ours(descriptor):
            return real(descriptor, data)
        return self.write_some(lambda part: real(descriptor, part), data)

    def _os_fsync(self, descriptor):
        if not self._is_ours(descriptor):
            self._real[os, "fsync"](descriptor)
        elif self.fails("fsync"):
            raise self.error()

    def _os_ftruncate(self, descriptor, length):
        if self._is_ours(descriptor) and self.fails("truncate"):
            raise self.error()
        self._real[os, "ftruncate"](descriptor, length)

    def _open(
        self, file, mode="r", buffering=-1, encoding=None, errors=None, newline=None, closefd=True, opener=None
    ):  # fmt: skip
        if not set(mode) & set("wax+") or not self._is_ours(file):
            return self._real[io, "open"](file, mode, buffering, encoding, errors, newline, closefd, opener)
        if not isinstance(file, int) and self.fails("open"):
            raise self.error(file)
        kind = mode.replace("b", "").replace("t", "")
        raw = _File(self, file, kind if "+" in kind else f"{kind}+", closefd, opener)
        # numpy writes to the descriptor of what is a BufferedWriter, and we would not see it
        buffered = io.BufferedRandom(raw)
        return buffered if "b" in mode else io.TextIOWrapper(buffered, encoding, errors, newline)


class _File(io.FileIO):
    def __init__(self, disk, *args):
        self._disk = disk
        super().__init__(*args)

    def write(self, data):
        return self._disk.write_some(super().write, memoryview(data).cast("B"))

    def truncate(self, size=None):
        if self._disk.fails("truncate"):
            raise self._disk.error()
        return super().truncate(size)
