"""Refuse an allocation that cannot fit, before it is made."""

import os
import re

from bagwise.core.exceptions import InputError, MemoryLimitError

DEFAULT_LIMIT = 8 * 2**30
VARIABLE = "BAGWISE_MEMORY_LIMIT"
_SIZES = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


def parse_memory(given: int | float | str) -> int:
    """Bytes, from a number or from text such as 2GB, 500M or 1.5 GiB."""
    match = re.fullmatch(r"\s*([0-9.]+(?:E[+-]?[0-9]+)?)\s*([KMGT]?)(I?B)?\s*", str(given).upper())
    try:
        size = int(float(match[1]) * _SIZES[match[2]]) if match else 0
    except (ValueError, OverflowError):
        size = 0
    if size < 1:
        raise InputError(f"{given!r} is no amount of memory; write a number of bytes, or 500MB, 2GB, 1.5GB.")
    return size


def memory_setting() -> int | None:
    """Bytes that the variable ``BAGWISE_MEMORY_LIMIT`` (bytes, or 2GB) allows, None where it is not set."""
    setting = os.environ.get(VARIABLE)
    if not setting:
        return None
    try:
        return parse_memory(setting)
    except InputError as error:
        raise InputError(f"The variable {VARIABLE}: {error}") from error


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
        return DEFAULT_LIMIT


def check_allocation(n_bytes: int, what: str, cure: str) -> None:
    """Raise `MemoryLimitError` when `n_bytes` for `what` exceed the limit; `cure` says what to do instead."""
    limit = memory_limit()
    if n_bytes > limit:
        raise MemoryLimitError(
            f"{what} needs {n_bytes / 2**30:.1f} GiB but the limit is {limit / 2**30:.1f} GiB "
            f"(half of this machine's memory, or {VARIABLE}); {cure}."
        )
