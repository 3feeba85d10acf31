"""What recorders note in WAV files beside the sound: the time at which a recording began."""

from __future__ import annotations

import os
import re
import struct
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import IO

MOST_CHUNKS = 200  # a damaged heading may announce any number
MOST_BYTES = 65_536  # of a note
NOTES = (b"guan", b"LIST", b"bext")
_UNKNOWN = 0xFFFFFFFF  # size of a chunk of more than 4 GB, which the chunk ds64 tells
_BEXT_DATE = 320  # bytes before the ten of the date, which the eight of the time follow
_GUANO = re.compile(r"^Timestamp:\s*(\S+)\s*$", re.MULTILINE)
_COMMENT = re.compile(
    r"Recorded at (\d\d):(\d\d):(\d\d)(\.\d{1,6})? (\d\d)/(\d\d)/(\d{4})(?: \(UTC(?:([+-]\d{1,2})(?::(\d\d))?)?\))?"
)


def read_notes(path: str | Path) -> dict[bytes, bytes]:
    """The chunks of a WAV file that may tell its time, by name; nothing where it is no WAV file, however damaged.

    Only the headings of chunks and a bounded part of those that are asked for are read, never the sound.
    """
    notes: dict[bytes, bytes] = {}
    with suppress(OSError), open(path, "rb") as file:
        for name, content in _chunks(file):
            notes.setdefault(name, content)
    return notes


def _chunks(file: IO[bytes]) -> Iterator[tuple[bytes, bytes]]:
    head = file.read(12)
    if head[:4] not in (b"RIFF", b"RF64") or head[8:] != b"WAVE":
        return
    end, position, data_size = os.fstat(file.fileno()).st_size, 12, _UNKNOWN
    for _ in range(MOST_CHUNKS):
        file.seek(position)
        heading = file.read(8)
        if len(heading) < 8:
            return
        name, size = heading[:4], struct.unpack("<I", heading[4:])[0]
        if name == b"ds64":
            sizes = file.read(16)
            data_size = struct.unpack("<QQ", sizes)[1] if len(sizes) == 16 else _UNKNOWN
        elif name in NOTES:
            yield name, file.read(min(size, MOST_BYTES))
        elif name == b"data" and size == _UNKNOWN:
            size = data_size
        position += 8 + size + size % 2
        if position >= end:
            return


def noted_time(path: str | Path) -> tuple[datetime, str] | None:
    """When a recording began, by what its recorder noted, and where that stands; None where nothing is said.

    GUANO is asked first, then the comment of an AudioMoth, then the chunk ``bext``.
    """
    notes = read_notes(path)
    for name, where, parse in (
        (b"guan", "GUANO", _guano_time), (b"LIST", "comment", _comment_time), (b"bext", "bext", _bext_time),
    ):  # fmt: skip
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
