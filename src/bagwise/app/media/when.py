"""When a file was recorded: by its name, and by what the recorder noted in it."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import PurePosixPath

NAME = "name"
FIRST_YEAR, LAST_YEAR = 1990, 2099  # a recorder whose clock was never set says 1970
SAME = 60.0  # seconds by which name and note may differ and still be the same moment
_ISO = re.compile(
    r"(?<!\d)(?P<year>\d{4})(?P<dash>[-_.]?)(?P<month>\d\d)(?P=dash)(?P<day>\d\d)"
    r"(?P<between>[T_ .-]?)"
    r"(?P<hour>\d\d)(?P<colon>[-_:.]?)(?P<minute>\d\d)(?P=colon)(?P<second>\d\d)"
    r"(?P<zone>Z|[+-](?:0\d|1[0-4]):?(?:00|15|30|45))?(?!\d)"
)
# Unix time as AudioMoths wrote it until 2019: capitals, with a letter, so that plain numbers are none, from 2017 on
_HEXADECIMAL = re.compile(r"(?=.*[A-F])[0-9A-F]{8}")
_FIRST_AUDIOMOTH = 0x58684680


def _time_in_name(name: str) -> datetime | None:
    """Date and time in the name of a file, its folders left out; None where there is none.

    All from year to second is needed: ``20240501_053000``, ``SITE_20240501_053000``, ``2024-05-01T05:30:00+02:00`` and
    the like, or the hexadecimal name of an early AudioMoth (UTC).
    """
    stem = PurePosixPath(name).stem
    for found in _ISO.finditer(PurePosixPath(name).name):
        time = _as_time(found)
        if time is not None:
            return time
    if _HEXADECIMAL.fullmatch(stem) and _FIRST_AUDIOMOTH <= int(stem, 16) < 2**31:
        return datetime.fromtimestamp(int(stem, 16), UTC)
    return None


def name_before_time(name: str) -> str:
    """What stands before date and time in the name of a file: a Song Meter's ``SITE`` of ``SITE_20240501_053000``."""
    base = PurePosixPath(name).name
    found = next((found for found in _ISO.finditer(base) if _as_time(found) is not None), None)
    if found is None:
        return ""
    return re.sub(r"_[0-9]\+[0-9]$", "", base[: found.start()].rstrip("_-. ")).strip()


def _as_time(found: re.Match[str]) -> datetime | None:
    digits = "{year}-{month}-{day}T{hour}:{minute}:{second}".format(**found.groupdict())
    zone = found["zone"] if found["zone"] and found["between"] == "T" else ""
    try:
        time = datetime.fromisoformat(digits + zone)
    except ValueError:
        return None
    return time if FIRST_YEAR <= time.year <= LAST_YEAR else None


def recorded_by_name(name: str) -> dict[str, str]:
    """What the facts of a file say of when it was made, by its name alone: nothing, or time and source."""
    time = _time_in_name(name)
    return {} if time is None else _facts(time, NAME)


def recorded_sound(name: str, noted: tuple[datetime, str] | None) -> dict[str, str]:
    """What the facts of a recording say of when it began: by its name, else by what is noted in it.

    The name comes first, since people put a wrong clock right by giving files other names. Where the note has the
    same moment it counts, since it is more precise and may know the offset from UTC.
    """
    named = _time_in_name(name)
    if noted is not None and not FIRST_YEAR <= noted[0].year <= LAST_YEAR:
        noted = None
    if named is None:
        return {} if noted is None else _facts(*noted)
    if noted is not None and _same(named, noted[0]) and (noted[0].tzinfo is not None or named.tzinfo is None):
        return _facts(*noted)
    return _facts(named, NAME)


def _facts(time: datetime, source: str) -> dict[str, str]:
    """`time` as the recorder wrote it, with an offset from UTC where that is known."""
    return {"recorded": time.isoformat(), "recorded_from": source}


def _same(a: datetime, b: datetime) -> bool:
    if a.tzinfo is None or b.tzinfo is None:
        a, b = a.replace(tzinfo=None), b.replace(tzinfo=None)
    return abs((a - b).total_seconds()) <= SAME
