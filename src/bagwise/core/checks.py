"""What is checked before anything is computed: parameters, memory for large arrays, libraries that are optional.

Each check has one error that says what came, what was expected and the cure.
"""

from __future__ import annotations

import importlib
import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from numbers import Integral, Real
from typing import Any

import numpy as np

from bagwise.core.exceptions import BagwiseError, InputError, MemoryLimitError

_DEFAULT_LIMIT = 8 * 2**30
MEMORY_VARIABLE = "BAGWISE_MEMORY_LIMIT"
_BYTES = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


def check_choice(name: str, value: Any, allowed: Iterable[Any]) -> None:
    """`value` must be one of the allowed."""
    allowed = tuple(allowed)
    if value not in allowed:
        raise InputError(f"{name}={value!r} is not known; use one of {', '.join(map(repr, allowed))}.")


def check_that(estimator: Any, name: str, test: Callable[[Any], bool], expected: str) -> None:
    """The named parameter must pass the test; a value of a type that the test cannot compare does not."""
    value = getattr(estimator, name)
    try:
        ok = test(value)
    except TypeError:
        ok = False
    if not ok:
        raise InputError(f"The {name!r} parameter of {type(estimator).__name__} must be {expected}. Got {value!r}.")


def check_positive(estimator: Any, *names: str) -> None:
    """The named parameters must be finite numbers above zero."""
    for name in names:
        check_that(estimator, name, is_positive, "a positive number")


def check_not_negative(estimator: Any, *names: str) -> None:
    """The named parameters must be finite numbers, zero or more."""
    for name in names:
        check_that(estimator, name, lambda value: value == 0 or is_positive(value), "zero or more")


def check_count(estimator: Any, *names: str) -> None:
    """The named parameters must be whole numbers of 1 or more."""
    for name in names:
        check_that(estimator, name, is_count, "a whole number, 1 or more")


def check_max_features(estimator: Any) -> None:
    """`max_features` must be what scikit-learn's trees take."""

    def fits(value: Any) -> bool:
        if value is None or isinstance(value, str):
            return value in (None, "sqrt", "log2")
        return is_count(value) or (not isinstance(value, Integral) and is_positive(value) and float(value) <= 1)

    check_that(estimator, "max_features", fits, "'sqrt', 'log2', a whole number, 1 or more, a share in (0, 1] or None")


def is_positive(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool) and 0 < float(value) < np.inf


def is_count(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= 1


@contextmanager
def in_our_words(problem: str, cure: str) -> Iterator[None]:
    """What an estimator that is not ours raises becomes an `InputError`: it knows neither of bags nor of files."""
    try:
        yield
    except BagwiseError:
        raise
    except (ValueError, TypeError, LookupError, ArithmeticError) as error:
        reason = " ".join(str(error).split()).rstrip(".")
        raise InputError(f"{problem}: {reason}. {cure}") from error


def parse_memory(given: int | float | str) -> int:
    """Bytes, from a number or from text such as 2GB, 500M or 1.5 GiB."""
    match = re.fullmatch(r"\s*([0-9.]+(?:E[+-]?[0-9]+)?)\s*([KMGT]?)(I?B)?\s*", str(given).upper())
    try:
        size = int(float(match[1]) * _BYTES[match[2]]) if match else 0
    except (ValueError, OverflowError):
        size = 0
    if size < 1:
        raise InputError(f"{given!r} is no amount of memory; write a number of bytes, or 500MB, 2GB, 1.5GB.")
    return size


def memory_setting() -> int | None:
    """Bytes that the variable ``BAGWISE_MEMORY_LIMIT`` (bytes, or 2GB) allows, None where it is not set."""
    setting = os.environ.get(MEMORY_VARIABLE)
    if not setting:
        return None
    try:
        return parse_memory(setting)
    except InputError as error:
        raise InputError(f"The variable {MEMORY_VARIABLE}: {error}") from error


def available_threads() -> int:
    """Processors at hand, or fewer where OMP_NUM_THREADS says so."""
    available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    limit = os.environ.get("OMP_NUM_THREADS", "")
    return min(available, int(limit)) if limit.isdigit() and int(limit) > 0 else available


def memory_limit() -> int:
    """Bytes that one array or workspace may take.

    The variable ``BAGWISE_MEMORY_LIMIT`` if set, else half of the machine's physical memory where the system tells
    it, else 8 GiB.
    """
    setting = memory_setting()
    if setting is not None:
        return setting
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
    except (AttributeError, OSError, ValueError):
        return _DEFAULT_LIMIT


def check_allocation(n_bytes: int, what: str, cure: str) -> None:
    """Raise `MemoryLimitError` when `n_bytes` for `what` exceed the limit; `cure` says what to do instead."""
    limit = memory_limit()
    if n_bytes > limit:
        raise MemoryLimitError(
            f"{what} needs {n_bytes / 2**30:.1f} GiB but the limit is {limit / 2**30:.1f} GiB "
            f"(half of this machine's memory, or {MEMORY_VARIABLE}); {cure}."
        )


def import_pyarrow(what: str) -> Any:
    """pyarrow with its parquet module; an error says that `what` needs it."""
    try:
        arrow = importlib.import_module("pyarrow")
        importlib.import_module("pyarrow.parquet")
    except ImportError as error:
        raise ImportError(f"{what} needs pyarrow; install it with: pip install 'bagwise[parquet]'") from error
    return arrow
