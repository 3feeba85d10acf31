"""When a file was recorded: by its name, and by what the recorder noted in it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import PurePosixPath

NAME = "name"
FIRST_YEAR, LAST_YEAR = 1990, 2099  # a recorder whose clock was never set says 1970
SAME = 60.0  # seconds by which name and note may differ and still be the same moment
_IN_NAME = re.compile(
    r"(?<!\d)(?P<year>\d{4})(?P<dash>[-_.]?)(?P<month>\d\d)(?P=dash)(?P<day>\d\d)"
    r"(?P<between>[T_ .-]?)"
    r"(?P<hour>\d\d)(?P<colon>[-_:.]?)(?P<minute>\d\d)(?P=colon)(?P<second>\d\d)"
    r"(?P<zone>Z|[+-](?:0\d|1[0-4]):?(?:00|15|30|45))?(?!\d)"
)
# Unix time as AudioMoths wrote it until 2019: capitals, with a letter, so that plain numbers are none, from 2017 on
_HEXADECIMAL = re.compile(r"(?=.*[A-F])[0-9A-F]{8}")
_FIRST_AUDIOMOTH = 0x58684680
# Chunks of WAV files in the order in which they are asked, and how time stands in them: GUANO; the comment of an
# AudioMoth, "Recorded at 05:30:00 01/05/2024 (UTC+2) by AudioMoth ..."; the date and time of broadcast WAV.
NOTES = {
    b"guan": ("GUANO", re.compile(r"(?:\A|[\r\n])Timestamp:\s*(?P<iso>\S+)[ \t]*(?:[\r\n]|\Z)")),
    b"LIST": (
        "comment",
        re.compile(
            r"Recorded at (?P<hour>\d\d):(?P<minute>\d\d):(?P<second>\d\d(?:\.\d{1,6})?) "
            r"(?P<day>\d\d)/(?P<month>\d\d)/(?P<year>\d{4})"
            r"(?: \((?P<utc>UTC)(?:(?P<sign>[+-])(?P<hours>\d{1,2})(?::(?P<minutes>\d\d))?)?\))?"
        ),
    ),
    b"bext": (
        "bext",
        re.compile(
            r"\A(?s:.{320})(?P<year>\d{4})[-_:. /](?P<month>\d\d)[-_:. /](?P<day>\d\d)"
            r"(?P<hour>\d\d)[-_:. /](?P<minute>\d\d)[-_:. /](?P<second>\d\d)"
        ),
    ),
}


def _time_in_name(name: str) -> datetime | None:
    """Date and time in the name of a file, its folders left out; None where there is none.

    All from year to second is needed: ``20240501_053000``, ``SITE_20240501_053000``, ``2024-05-01T05:30:00+02:00`` and
    the like, or the hexadecimal name of an early AudioMoth (UTC).
    """
    stem = PurePosixPath(name).stem
    for found in _IN_NAME.finditer(PurePosixPath(name).name):
        time = _as_time(found)
        if time is not None:
            return time
    if _HEXADECIMAL.fullmatch(stem) and _FIRST_AUDIOMOTH <= int(stem, 16) < 2**31:
        return datetime.fromtimestamp(int(stem, 16), UTC)
    return None


def name_before_time(name: str) -> str:
    """What stands before date and time in the name of a file: a Song Meter's ``SITE`` of ``SITE_20240501_053000``."""
    base = PurePosixPath(name).name
    found = next((found for found in _IN_NAME.finditer(base) if _as_time(found) is not None), None)
    if found is None:
        return ""
    return re.sub(r"_[0-9]\+[0-9]$", "", base[: found.start()].rstrip("_-. ")).strip()


def _as_time(found: re.Match[str]) -> datetime | None:
    """The moment that a text names, with its offset from UTC where that is known; None where there is no such day."""
    parts = found.groupdict()
    text = parts.get("iso") or "{year}-{month}-{day}T{hour}:{minute}:{second}".format(**parts)
    if parts.get("between") == "T":
        text += parts["zone"] or ""
    if parts.get("utc"):
        text += f"{parts['sign'] or '+'}{parts['hours'] or '0':0>2}:{parts['minutes'] or '00'}"
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return None
    return time if FIRST_YEAR <= time.year <= LAST_YEAR else None


def noted_time(notes: Mapping[bytes, bytes]) -> tuple[datetime, str] | None:
    """When a recording began, by what stands in chunks of its file, and where; None where nothing is said."""
    for name, (where, pattern) in NOTES.items():
        found = pattern.search(notes.get(name, b"").decode("latin-1"))
        time = None if found is None else _as_time(found)
        if time is not None:
            return time, where
    return None


def recorded(name: str, noted: tuple[datetime, str] | None = None) -> dict[str, str]:
    """What the facts of a file say of when it was made: nothing, or the time as the recorder wrote it, and its source.

    The name comes before what is noted in the file, since people put a wrong clock right by giving files other names.
    Where the note has the same moment it counts, since it is more precise and may know the offset from UTC.
    """
    named = _time_in_name(name)
    if noted is not None and (
        named is None or (_same(named, noted[0]) and (noted[0].tzinfo is not None or named.tzinfo is None))
    ):
        time, source = noted
    elif named is not None:
        time, source = named, NAME
    else:
        return {}
    return {"recorded": time.isoformat(), "recorded_from": source}


def _same(a: datetime, b: datetime) -> bool:
    if a.tzinfo is None or b.tzinfo is None:
        a, b = a.replace(tzinfo=None), b.replace(tzinfo=None)
    return abs((a - b).total_seconds()) <= SAME
