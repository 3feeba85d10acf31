"""When kernels are compiled, and where they are kept.

Importing numba takes a quarter of the time that importing scikit-learn's logistic regression does, so that it waits
until a kernel is first called. Compiled code is kept in a place that can be written, also when the package's own
folder cannot.
"""

from __future__ import annotations

import os
import stat
import sys
import tempfile
import warnings
from collections.abc import Callable
from functools import cache, cached_property, update_wrapper
from pathlib import Path
from types import ModuleType
from typing import Any

__all__ = ["cache_folder", "get_num_threads", "intrinsic", "is_compiled", "njit", "use_writable_cache"]

PACKAGE = Path(__file__).parent


class _Kernel:
    """A function that numba is asked to compile when it, or one that calls it, is first called."""

    __wrapped__: Any

    def __init__(self, function: Callable[..., Any], decorator: Callable[[Any], Any]):
        update_wrapper(self, function)
        self._decorator = decorator

    @cached_property
    def dispatcher(self) -> Any:
        """What numba makes of the function. What this calls numba looks up among the globals of its module."""
        names = self.__wrapped__.__globals__
        for name in self.__wrapped__.__code__.co_names:
            if isinstance(called := names.get(name), _Kernel):
                names[name] = called.dispatcher
        return self._decorator(_numba())(self.__wrapped__)

    def __call__(self, *args: Any) -> Any:
        return self.dispatcher(*args)


def njit(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """numba's decorator of the same name, which imports numba when the function is first called.

    Examples
    --------
    >>> from bagwise.kernels import njit
    >>> @njit(nogil=True)
    ... def add(a, b):
    ...     return a + b
    >>> add(1.0, 2.0)
    3.0
    """
    return lambda function: _Kernel(function, lambda numba: numba.njit(**options))


def intrinsic(function: Callable[..., Any]) -> Any:
    """numba's decorator of the same name, used when a kernel that calls the function is first called.

    Examples
    --------
    >>> from bagwise.kernels import intrinsic, njit
    >>> @intrinsic
    ... def _one(context):
    ...     from numba import types
    ...     return types.int64(), lambda context, builder, signature, args: context.get_constant(types.int64, 1)
    >>> @njit()
    ... def one():
    ...     return _one()
    >>> one()
    1
    """
    return _Kernel(function, lambda numba: numba.extending.intrinsic)


def get_num_threads() -> int:
    """Threads that compiled code may use.

    Examples
    --------
    >>> from bagwise.kernels import get_num_threads
    >>> get_num_threads() >= 1
    True
    """
    return int(_numba().get_num_threads())


@cache
def _numba() -> ModuleType:
    """numba, the place of its cache settled before the first kernel is declared."""
    import numba.extending

    use_writable_cache()
    return numba


def use_writable_cache() -> None:
    """Give numba a folder of ours where it has none: neither beside the code nor in the user's own folder of caches.

    numba looks there by itself, in that order, and without a place refuses to import what is to be cached. The folder
    that NUMBA_CACHE_DIR names comes before all, unless others could put code into it.
    """
    from numba import config

    if config.CACHE_DIR and not _is_private(Path(config.CACHE_DIR)):
        warnings.warn(
            f"NUMBA_CACHE_DIR={config.CACHE_DIR!r} is not used: compiled code that lies there is run, and others than "
            "you can write there. Name a folder of your own (chmod go-w), beneath none that others can write.",
            stacklevel=2,
        )
        os.environ.pop("NUMBA_CACHE_DIR", None)  # numba reads it again; processes that this one starts do, too
        config.CACHE_DIR = ""
    if not config.CACHE_DIR and not any(_can_write(folder) for folder in (PACKAGE / "__pycache__", _users_folder())):
        config.CACHE_DIR = str(_own_folder())


def _users_folder() -> Path:
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home())
    return Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"))


def _can_write(folder: Path) -> bool:
    """Whether a file can be made in the folder, or in the folder that it would be made in."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    try:
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


def _is_private(folder: Path) -> bool:
    """Whether only its owner, who is this user or root, can change what is in the folder, or put another in its place.

    A folder that is not there yet is made. Folders like /tmp, of which everybody may remove only what is theirs, may
    lie above it.
    """
    if not hasattr(os, "getuid"):  # Windows: rights are others, and folders of users are their own
        return True
    folder = folder.resolve()
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = [place.stat() for place in (folder, *folder.parents)]
    except OSError:
        return False
    owned = all(status.st_uid in (0, os.getuid()) for status in found)
    closed = [not status.st_mode & 0o022 for status in found]
    sticky = [bool(status.st_mode & stat.S_ISVTX) for status in found]
    return owned and closed[0] and all(a or b for a, b in zip(closed, sticky, strict=True))


def _own_folder() -> Path:
    """A folder of temporary files that is nobody else's: what lies in it is run."""
    owner = os.getuid() if hasattr(os, "getuid") else "user"
    folder = Path(tempfile.gettempdir()) / f"bagwise-kernels-{owner}"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
        private = stat.S_ISDIR(found.st_mode) and not found.st_mode & 0o077 and found.st_uid == owner
    except OSError:
        private = False
    return folder if private else Path(tempfile.mkdtemp(prefix="bagwise-kernels-"))


def cache_folder(kernel: Any) -> Path:
    """The folder that a compiled function is kept in.

    Examples
    --------
    >>> from bagwise.kernels import cache_folder
    >>> from bagwise.union import softmax_in_place
    >>> cache_folder(softmax_in_place).is_absolute()
    True
    """
    return Path(kernel.dispatcher.stats.cache_path)


def is_compiled(kernel: Any) -> bool:
    """Whether this Python has compiled the function before, as far as its folder shows.

    Examples
    --------
    >>> from bagwise.kernels import is_compiled
    >>> from bagwise.union import softmax_in_place
    >>> is_compiled(softmax_in_place) in (True, False)
    True
    """
    function, version = kernel.__wrapped__, f"py{sys.version_info[0]}{sys.version_info[1]}"
    name = f"{Path(function.__code__.co_filename).stem}.{function.__qualname__}-*.{version}*.nbi"
    return any(cache_folder(kernel).glob(name))
