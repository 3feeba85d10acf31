"""One input: within ten seconds of the processor, two gigabytes and a folder, and refused by nothing but our errors."""

from __future__ import annotations

import os
import resource
import signal
import sys
import tempfile
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.fuzz.kinds import Kind, Ready

SECONDS = 10
MEMORY = 2 << 30
MEMORY_LIMIT = 200_000_000  # what one array of a reader may take, so that the whole stays below MEMORY
COMPILED = (".pyc", ".nbi", ".nbc")  # what Python and numba keep
_REMOVING = ("os.remove", "os.rmdir", "os.mkdir", "os.truncate", "os.chmod", "os.chown", "os.utime", "shutil.rmtree")
_LINKING = ("os.rename", "os.link", "os.symlink")


class _TimeOut(BaseException):
    """Not an Exception, so that no reader takes it for one of its own."""


class _OutsideError(BaseException):
    """A reader is about to change what lies outside of the folder of the input."""


def try_input(kind: Kind, ready: Ready, path: Path, folder: Path) -> tuple[bool, str | None]:
    """Whether the input was read, and what was wrong with the way it was refused, if anything.

    Nothing outside of `folder` may be changed meanwhile.
    """
    try:
        with _in_time(), _fenced(folder):
            return _try(kind, ready, path)
    except _TimeOut:
        where = traceback.format_exc(limit=-8)
        return False, f"no answer within {SECONDS} seconds of the processor\n{where}"
    except _OutsideError:
        return False, traceback.format_exc(limit=-8)


def _try(kind: Kind, ready: Ready, path: Path) -> tuple[bool, str | None]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ready.read(path)
    except kind.errors as error:
        text = str(error)
        if "\n" in text.replace(str(path), ""):
            return False, f"the message has several lines: {text[:200]!r}"
        if kind.names_file and path.name not in text:
            return False, f"the message does not name the file: {text[:200]!r}"
        return False, None
    except Exception:
        return False, traceback.format_exc(limit=-8)
    return True, None


def place_of(problem: str) -> str:
    """What finds of one cause have in common: the innermost line of our own, and the kind of the error."""
    lines = [line.strip() for line in problem.splitlines()]
    own = [line for line in lines if line.startswith("File ") and "/bagwise/" in line]
    what = lines[0] if not lines[0].startswith("Traceback") else lines[-1].partition(":")[0]
    if not own:
        return what[:60]
    file, line, function = own[-1].split(", ")[:3]
    return f"{what[:60]} at {file.rpartition('/bagwise/')[2].strip(chr(34))}, {line}, {function}"


# ---------------------------------------------------------------------------------------------------------------------
# Limits


@contextmanager
def _in_time() -> Iterator[None]:
    """Cut off after some seconds of the processor: a machine may have other work."""
    old = signal.signal(signal.SIGPROF, _on_alarm)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, old)


def _on_alarm(*_: Any) -> None:
    raise _TimeOut


def limit_memory() -> None:
    """From here on no more than `MEMORY` beyond what the process has: more is a MemoryError, and so a find."""
    with open("/proc/self/statm") as file:
        now = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (now + MEMORY, resource.RLIM_INFINITY))


_inside: str | None = None  # the folder in which files may be written; None as long as no input is read
_is_listening = False


@contextmanager
def _fenced(folder: Path) -> Iterator[None]:
    """Refuse to write, move or remove a file outside of a folder, as a damaged run may ask for."""
    global _inside, _is_listening
    if not _is_listening:
        sys.addaudithook(_on_event)
        _is_listening = True
    _inside = os.path.realpath(folder)
    try:
        yield
    finally:
        _inside = None


def _on_event(event: str, arguments: tuple[Any, ...]) -> None:
    if _inside is None:
        return
    if event == "open":
        path, _, flags = arguments
        writes = flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC)
        paths = [path] if writes else []
    elif event in _REMOVING:
        paths = [arguments[0]]
    elif event in _LINKING:
        paths = [arguments[0], arguments[1]] if event == "os.rename" else [arguments[1]]
    else:
        return
    for path in paths:
        if isinstance(path, (str, bytes, os.PathLike)) and not _may_be_changed(os.fsdecode(path)):
            raise _OutsideError(f"{event} of {path!r}, which does not lie in {_inside}")


def _may_be_changed(path: str) -> bool:
    """Paths that are relative to an open folder look relative to the working folder: `fuzz` works in the folder."""
    if path == os.devnull or path.endswith(COMPILED) or "\0" in path:
        return True
    real = os.path.realpath(path)
    allowed = (_inside, os.path.realpath(tempfile.gettempdir())) if _is_pytest() else (_inside,)
    return any(real == place or real.startswith(f"{place}{os.sep}") for place in allowed)


def _is_pytest() -> bool:
    return "PYTEST_CURRENT_TEST" in os.environ
