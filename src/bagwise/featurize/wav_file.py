"""The heading of a wav file beside what is there: what recorders leave that lost their power while they wrote."""

from __future__ import annotations

import io
import os
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

UNKNOWN_SIZES = (0, 0x7FFFFFFF, 0xFFFFFFFF)  # what recorders write that do not know the length beforehand
SUBTYPES = {
    (1, 8): "PCM_U8", (1, 16): "PCM_16", (1, 24): "PCM_24", (1, 32): "PCM_32", (3, 32): "FLOAT", (3, 64): "DOUBLE",
    (6, 8): "ALAW", (7, 8): "ULAW",
}  # fmt: skip
EXTENSIBLE = 0xFFFE
MOST_CHUNKS = 1000


@dataclass(frozen=True)
class WavHeading:
    """Where the samples of a wav file are, and what is wrong with its heading.

    Attributes
    ----------
    problem : str
        What is wrong; "" where nothing is.
    offset : int
        Byte at which the samples begin, where they must be read without the heading; else 0.
    options : dict
        How they are to be read then, for soundfile.
    """

    problem: str = ""
    offset: int = 0
    options: dict[str, Any] | None = None


def read_heading(path: str | Path) -> WavHeading:
    """What the heading of a file says, if it is a wav file.

    A file that is shorter than announced is read by libsndfile to its end, in silence. One whose samples are announced
    as none, or as fewer than there are, is read by what its heading says of rate, channels and kind of samples.
    """
    size = os.path.getsize(path)
    with open(path, "rb") as file:
        head = file.read(12)
        if len(head) < 12 or head[:4] != b"RIFF" or head[8:] != b"WAVE":
            return WavHeading()
        chunks = _chunks(file, size)
    start, announced = chunks.get(b"data", (0, 0))[:2]
    if not start:
        return WavHeading()
    there = size - start
    if announced not in UNKNOWN_SIZES and announced > there:
        return WavHeading(f"it is cut off: its heading announces {announced} bytes of sound and {there} are there")
    end = start + announced + announced % 2
    if announced in UNKNOWN_SIZES[1:] or not (_is_lost(path, end, size) or (announced == 0 and there)):
        return WavHeading()
    options = _options(chunks.get(b"fmt ", (0, 0, b""))[2])
    if options is None:
        return WavHeading()
    problem = f"its heading announces {announced} bytes of sound and {there} are there: the recorder did not finish it"
    return WavHeading(problem, start, options)


def _chunks(file: Any, size: int) -> dict[bytes, tuple[int, int, bytes]]:
    """Begin, announced size and first bytes of the chunks up to that of the samples."""
    found: dict[bytes, tuple[int, int, bytes]] = {}
    while len(found) < MOST_CHUNKS and file.tell() < size:
        head = file.read(8)
        if len(head) < 8:
            break
        name, length = head[:4], struct.unpack("<I", head[4:])[0]
        start = file.tell()
        found[name] = (start, length, file.read(min(length, 40)) if name == b"fmt " else b"")
        if name == b"data":
            break
        file.seek(start + length + length % 2)
    return found


def _is_lost(path: str | Path, end: int, size: int) -> bool:
    """Whether what lies behind the announced samples is no chunk of a wav file, and so must be more of them."""
    if size - end < 8:
        return False
    with open(path, "rb") as file:
        file.seek(end)
        head = file.read(8)
    is_name = all(32 <= byte < 127 for byte in head[:4])
    return not (is_name and struct.unpack("<I", head[4:])[0] <= size - end)


def _options(fmt: bytes) -> dict[str, Any] | None:
    """How soundfile is to read samples without their heading; None where it could not."""
    if len(fmt) < 16:
        return None
    kind, channels, rate, _, _, bits = struct.unpack("<HHIIHH", fmt[:16])
    if kind == EXTENSIBLE and len(fmt) >= 26:
        kind = struct.unpack("<H", fmt[24:26])[0]
    subtype = SUBTYPES.get((kind, bits))
    if subtype is None or not channels or not rate:
        return None
    return {"format": "RAW", "subtype": subtype, "samplerate": rate, "channels": channels, "endian": "LITTLE"}


class WithoutHeading(io.RawIOBase):
    """The bytes of a file from some place on, as a file."""

    def __init__(self, path: str | Path, offset: int):
        self._file = open(path, "rb")  # noqa: SIM115  # closed with this object
        self._offset = offset
        self._file.seek(offset)

    def readinto(self, buffer: Any) -> int:
        return self._file.readinto(buffer)

    def seek(self, position: int, whence: int = io.SEEK_SET) -> int:
        return self._file.seek(position + (self._offset if whence == io.SEEK_SET else 0), whence) - self._offset

    def tell(self) -> int:
        return self._file.tell() - self._offset

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def close(self) -> None:
        self._file.close()
        super().close()
