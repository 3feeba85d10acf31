"""Refuse an allocation that cannot fit, before it is made."""

import os

from bagwise.exceptions import MemoryLimitError

DEFAULT_LIMIT = 8 * 2**30


def memory_limit() -> int:
    """Bytes that one array or workspace may take.

    The variable ``BAGWISE_MEMORY_LIMIT`` (bytes) if set, else half of the machine's physical memory where the
    system tells it, else 8 GiB.
    """
    setting = os.environ.get("BAGWISE_MEMORY_LIMIT")
    if setting:
        return int(float(setting))
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
            f"(half of this machine's memory, or BAGWISE_MEMORY_LIMIT in bytes); {cure}."
        )
