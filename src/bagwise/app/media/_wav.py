"""WAV files: their chunks; headings that do not fit the sound, as recorders leave them that lost their power; the
recording time that recorders note."""

from __future__ import annotations

import io
import re
import struct
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import IO, Any

MOST_CHUNKS = 1000  # a damaged heading may announce any number
UNKNOWN = 0xFFFFFFFF  # size of a chunk of more than 4 GB, which the chunk ds64 tells; or of one that was never finished
UNKNOWN_SIZES = (0, 0x7FFFFFFF, 0xFFFFFFFF)  # what recorders write that do not know the length beforehand
SUBTYPES = {
    (1, 8): "PCM_U8",
    (1, 16): "PCM_16",
    (1, 24): "PCM_24",
    (1, 32): "PCM_32",
    (3, 32): "FLOAT",
    (3, 64): "DOUBLE",
    (6, 8): "ALAW",
    (7, 8): "ULAW",
}
EXTENSIBLE = 0xFFFE
MOST_RATE = 10_000_000  # samples per second; recorders of ultrasound and under water stay below 2 million
MOST_BYTES = 65_536  # of a note
NOTES = (b"guan", b"LIST", b"bext")
_BEXT_DATE = 320  # bytes before the ten of the date, which the eight of the time follow
_GUANO = re.compile(r"^Timestamp:\s*(\S+)\s*$", re.MULTILINE)
_COMMENT = re.compile(
    r"Recorded at (\d\d):(\d\d):(\d\d)(\.\d{1,6})? (\d\d)/(\d\d)/(\d{4})(?: \(UTC(?:([+-]\d{1,2})(?::(\d\d))?)?\))?"
)


@dataclass(frozen=True)
class Chunk:
    """Name of a chunk, the byte at which its content begins, and the size that is announced."""

    name: bytes
    start: int
    size: int

    def read(self, file: IO[bytes], most: int) -> bytes:
        """Its content, or the first bytes of it."""
        file.seek(self.start)
        return file.read(min(self.size, most))


def riff_chunks(file: IO[bytes], size: int) -> Iterator[Chunk]:
    """The chunks of an open file of `size` bytes, however damaged; none where it is no WAV file."""
    file.seek(0)
    head = file.read(12)
    if head[:4] not in (b"RIFF", b"RF64") or head[8:] != b"WAVE":
        return
    position, data_size = 12, UNKNOWN
    for _ in range(MOST_CHUNKS):
        if position >= size:
            return
        file.seek(position)
        heading = file.read(8)
        if len(heading) < 8:
            return
        chunk = Chunk(heading[:4], position + 8, struct.unpack("<I", heading[4:])[0])
        yield chunk
        length = chunk.size
        if chunk.name == b"ds64":
            sizes = chunk.read(file, 16)
            data_size = struct.unpack("<QQ", sizes)[1] if len(sizes) == 16 else UNKNOWN
        elif chunk.name == b"data" and length == UNKNOWN:
            length = data_size
        position = chunk.start + length + length % 2


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


def read_heading(file: IO[bytes], size: int) -> WavHeading:
    """What the heading of an open file of `size` bytes says, if it is a wav file.

    A file that is shorter than announced is read by libsndfile to its end, in silence. One whose samples are announced
    as none, or as fewer than there are, is read by what its heading says of rate, channels and kind of samples.
    """
    file.seek(0)
    if file.read(4) != b"RIFF":  # libsndfile knows what RF64 announces
        return WavHeading()
    chunks: dict[bytes, Chunk] = {}
    for chunk in riff_chunks(file, size):
        chunks[chunk.name] = chunk
        if chunk.name == b"data":
            break
    data = chunks.get(b"data")
    if data is None:
        return WavHeading()
    there = size - data.start
    if data.size not in UNKNOWN_SIZES and data.size > there:
        return WavHeading(f"it is cut off: its heading announces {data.size} bytes of sound and {there} are there")
    end = data.start + data.size + data.size % 2
    if data.size in UNKNOWN_SIZES[1:] or not (_is_lost(file, end, size) or (data.size == 0 and there)):
        return WavHeading()
    options = _options(chunks[b"fmt "].read(file, 40) if b"fmt " in chunks else b"")
    if options is None:
        return WavHeading()
    problem = f"its heading announces {data.size} bytes of sound and {there} are there: the recorder did not finish it"
    return WavHeading(problem, data.start, options)


def _is_lost(file: IO[bytes], end: int, size: int) -> bool:
    """Whether what lies behind the announced samples is no chunk of a wav file, and so must be more of them."""
    if size - end < 8:
        return False
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
    if subtype is None or not channels or not 0 < rate <= MOST_RATE:
        return None
    return {"format": "RAW", "subtype": subtype, "samplerate": rate, "channels": channels, "endian": "LITTLE"}


class SoundBytes(io.RawIOBase):
    """The bytes of an open file from some place on, as libsndfile reads them; the file stays open when this is closed.

    A damaged heading may lead to a place before the first byte or far behind the last: these are the first and the last
    here, since an exception cannot pass through a library in C.
    """

    def __init__(self, file: IO[bytes], offset: int = 0):
        self._file = file
        self._offset = offset
        self._file.seek(offset)

    def readinto(self, buffer: Any) -> int:
        return self._file.readinto(buffer)  # type: ignore[attr-defined]

    def seek(self, position: int, whence: int = io.SEEK_SET) -> int:
        here, end = self.tell(), self._file.seek(0, io.SEEK_END) - self._offset
        position += {io.SEEK_SET: 0, io.SEEK_CUR: here, io.SEEK_END: end}[whence]
        return self._file.seek(self._offset + min(max(position, 0), end)) - self._offset

    def tell(self) -> int:
        return self._file.tell() - self._offset

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True


def read_notes(file: IO[bytes], size: int) -> dict[bytes, bytes]:
    """The chunks of an open WAV file that may tell its time, by name; nothing where it is no WAV file, however damaged.

    Only the headings of chunks and a bounded part of those that are asked for are read, never the sound.
    """
    notes: dict[bytes, bytes] = {}
    with suppress(OSError):
        for chunk in riff_chunks(file, size):
            if chunk.name in NOTES:
                notes.setdefault(chunk.name, chunk.read(file, MOST_BYTES))
    return notes


def noted_time(file: IO[bytes], size: int) -> tuple[datetime, str] | None:
    """When a recording began, by what its recorder noted, and where that stands; None where nothing is said.

    GUANO is asked first, then the comment of an AudioMoth, then the chunk ``bext``.
    """
    notes = read_notes(file, size)
    for name, where, parse in (
        (b"guan", "GUANO", _guano_time),
        (b"LIST", "comment", _comment_time),
        (b"bext", "bext", _bext_time),
    ):
        time = parse(notes[name]) if name in notes else None
        if time is not None:
            return time, where
    return None


def _guano_time(content: bytes) -> datetime | None:
    found = _GUANO.search(content.decode("utf-8", "replace").replace("\r", "\n"))
    if found is None:
        return None
    try:
        return datetime.fromisoformat(found[1])
    except ValueError:
        return None


def _comment_time(content: bytes) -> datetime | None:
    """What an AudioMoth writes: ``Recorded at 05:30:00 01/05/2024 (UTC+2) by AudioMoth ...``."""
    found = _COMMENT.search(content.decode("latin-1"))
    if found is None:
        return None
    hour, minute, second, fraction, day, month, year, hours, minutes = found.groups()
    with suppress(ValueError):
        zone = None
        if "(UTC" in found[0]:
            sign = -1 if (hours or "").startswith("-") else 1
            zone = timezone(timedelta(hours=int(hours or 0), minutes=sign * int(minutes or 0)))
        micro = round(1e6 * float(fraction or 0))
        return datetime(int(year), int(month), int(day), int(hour), int(minute), int(second), micro, tzinfo=zone)
    return None


def _bext_time(content: bytes) -> datetime | None:
    date, time = content[_BEXT_DATE : _BEXT_DATE + 10], content[_BEXT_DATE + 10 : _BEXT_DATE + 18]
    parts = [re.split(rb"[-_:. /]", text) for text in (date, time)]
    with suppress(ValueError):  # parts that are too few, no numbers, or no date
        year, month, day, hour, minute, second = (int(part) for text in parts for part in text)
        return datetime(year, month, day, hour, minute, second)
    return None
