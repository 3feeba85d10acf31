"""What passes between the process of a network and the one that asks it: a head of JSON, then arrays as bytes.

Nothing is unpickled, and the reader checks every size before it allocates memory for what follows.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import IO, Any

import numpy as np

KINDS = {
    np.dtype(kind).name: np.dtype(kind)
    for kind in (np.float16, np.float32, np.float64, np.uint8, np.int8, np.int32, np.int64)
}
"""Numbers that networks are given and give."""
LOAD, RUN = "load", "run"  # what a process is asked for
OUT_OF_MEMORY = 3  # exit code of a process that ends itself for want of memory
SHARE_OF_OUTPUT = 4  # an output takes a fourth of the memory at most
LARGEST_HEAD = 2**22  # bytes
MOST_AXES, MOST_NUMBERS = 8, 2**48


class MessageError(Exception):
    """What was read is no message."""


class EndedError(MessageError):
    """The stream ended before the message was whole."""


def one_line(error: BaseException) -> str:
    """What went wrong in one line."""
    return " ".join(str(error).split())[:200] or type(error).__name__


def write_message(stream: IO[bytes], head: Mapping[str, Any], arrays: Sequence[np.ndarray] = ()) -> None:
    """Write a message; the kinds of all arrays are in `KINDS`."""
    shapes = [[array.dtype.name, list(array.shape)] for array in arrays]
    text = json.dumps({**head, "arrays": shapes}).encode()
    if len(text) > LARGEST_HEAD:
        raise MessageError(f"its description takes {len(text)} bytes, and the limit is {LARGEST_HEAD}")
    stream.write(len(text).to_bytes(8, "little") + text)
    for array in arrays:
        stream.write(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    stream.flush()


def read_message(stream: IO[bytes], most: float) -> tuple[dict[str, Any], list[np.ndarray]]:
    """The next message, whose arrays have `most` bytes together.

    Raises
    ------
    MessageError
        The stream ended, or holds no such message.
    """
    size = int.from_bytes(_read(stream, 8).tobytes(), "little")
    if size > LARGEST_HEAD:
        raise MessageError(f"a head of {size} bytes")
    try:
        head = json.loads(_read(stream, size).tobytes())
        shapes = [(KINDS[kind], _checked(shape)) for kind, shape in head.pop("arrays")]
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError) as error:
        raise MessageError(f"a head that cannot be read ({type(error).__name__})") from error
    n_bytes = sum(math.prod(shape) * kind.itemsize for kind, shape in shapes)
    if n_bytes > most:
        raise MessageError(f"arrays of {n_bytes} bytes")
    return head, [_read(stream, math.prod(shape) * kind.itemsize).view(kind).reshape(shape) for kind, shape in shapes]


def _checked(shape: Any) -> list[int]:
    """The sizes along the axes of an array, where they are some."""
    if any(type(n) is not int or n < 0 for n in shape) or len(shape) > MOST_AXES:
        raise ValueError(shape)
    if math.prod(max(n, 1) for n in shape) > MOST_NUMBERS:
        raise ValueError(shape)
    return list(shape)


def _read(stream: IO[bytes], n: int) -> Any:
    """(n,) uint8 the next bytes."""
    found = np.empty(n, dtype=np.uint8)
    done = 0
    while done < n:
        got = stream.readinto(found.data[done:])  # type: ignore[attr-defined]
        if not got:
            raise EndedError("it ended")
        done += got
    return found
