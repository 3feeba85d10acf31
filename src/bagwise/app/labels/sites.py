"""Where and when the files of a run were recorded: the table of sites, and clock times of instances."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone
from pathlib import Path, PurePosixPath
from typing import Any

from bagwise.app.formats import Annotations, read_number, read_text_table, require_columns
from bagwise.app.media.files import Problem, name_before_time
from bagwise.core.exceptions import FormatError, InputError

COLUMNS = ("site", "latitude", "longitude")
ZONE = "time_zone"
N_SHOWN = 5


@dataclass(frozen=True)
class Site:
    """A place of recording: its name, degrees north and east (None where no table tells), time zone of its clock."""

    site: str
    latitude: float | None = None
    longitude: float | None = None
    time_zone: str = ""

    @property
    def is_known(self) -> bool:
        """Whether it stands in a table of sites."""
        return self.latitude is not None


def read_sites(path: Path) -> list[Site]:
    """The table of sites: columns site, latitude, longitude and, if wanted, time_zone (``Europe/Berlin``)."""
    table = read_text_table(path)
    require_columns(table, COLUMNS)
    sites: dict[str, Site] = {}
    for source, cells in table.records():
        name = cells["site"].strip()
        if not name:
            raise FormatError(f"{source}: the site has no name; give it one, or remove the row.")
        if _key(name) in sites:
            raise FormatError(f"{source}: the site {name!r} stands there twice; leave one of them.")
        degrees = [_degrees(cells[key], key, most, source) for key, most in (("latitude", 90), ("longitude", 180))]
        zone = cells.get(ZONE, "").strip()
        if zone:
            _zone(zone, source)
        sites[_key(name)] = Site(name, degrees[0], degrees[1], zone)
    if not sites:
        raise FormatError(f"{path}: there is no site in it; fill in the site of one row at least.")
    return list(sites.values())


def _degrees(cell: str, what: str, most: int, source: str) -> float:
    value = read_number(cell, what, source)
    if abs(value) > most:
        swapped = " (latitude and longitude may be swapped)" if most == 90 and abs(value) <= 180 else ""
        raise FormatError(f"{source}: {what} is {value:g}; expected degrees from {-most} to {most}{swapped}.")
    return value


def _zone(name: str, source: str = "") -> Any:
    from zoneinfo import ZoneInfo

    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError) as error:
        raise FormatError(
            f"{source}: there is no time zone {name!r}; expected a name such as Europe/Berlin or UTC, or nothing."
        ) from error


def _key(name: str) -> str:
    return name.strip().casefold()


def check_sites(sites: Sequence[Site], names: Sequence[str], path: Path) -> None:
    """Refuse a table of which no site is that of any file."""
    if not any(find_site(name, sites).is_known for name in names):
        given = ", ".join(repr(site.site) for site in sites[:N_SHOWN])
        raise InputError(
            f"{path}: none of its sites ({given}) is the folder of a file or stands before the time in its name, as in "
            f"{names[0]!r}; write them as folders and names have them."
        )


def site_problems(sites: Sequence[Site], names: Sequence[str], path: str) -> list[Problem]:
    """What does not fit between the table of sites and the files."""
    found = [find_site(name, sites) for name in names]
    strange = Counter(site.site for site in found if not site.is_known)
    problems = [
        (
            site or "files",
            f"{path}: it has no site {site!r}, to which {n} file(s) belong; add a row."
            if site
            else f"{path}: {n} file(s) belong to no site: they lie in no folder, and no name begins with one.",
        )
        for site, n in sorted(strange.items())
    ]
    used = {site.site for site in found if site.is_known}
    problems += [
        (site.site, f"{path}: no file belongs to the site {site.site!r}; check how it is written.")
        for site in sites
        if site.site not in used
    ]
    return problems


def find_site(name: str, sites: Sequence[Site]) -> Site:
    """The site of a file; by its name alone where the table does not know it.

    Looked for is what stands before the time in the name, then its folders, the innermost first. Without a table the
    site is the first of these, or of the folders the outermost.
    """
    prefix, folders = name_before_time(name), PurePosixPath(name).parts[:-1]
    known = {_key(site.site): site for site in sites}
    for option in (prefix, *reversed(folders), "/".join(folders)):
        if option and _key(option) in known:
            return known[_key(option)]
    return Site(prefix or (folders[0] if folders else ""))


def in_field(annotations: Annotations, sites: Sequence[Mapping[str, Any]]) -> Annotations:
    """The annotations with site and clock time of files and instances, as far as they are known.

    Files get ``site``, ``latitude`` and ``longitude``, their time that of the site's zone; rows get ``site`` and
    ``time``, which are columns of the long table then. Where no file tells a time and there is no table of sites,
    nothing changes.
    """
    known = [Site(**site) for site in sites]
    if not known and not any("recorded" in file for file in annotations.files):
        return annotations
    files: list[dict[str, Any]] = []
    starts: dict[str, datetime | None] = {}
    names: dict[str, str] = {}
    for file in annotations.files:
        site = find_site(file["file"], known)
        start = site_time(file["recorded"], site.time_zone) if "recorded" in file else None
        starts[file["file"]], names[file["file"]] = start, site.site
        time = {} if start is None else {"recorded": start.isoformat()}
        place = {key: getattr(site, key) for key in (COLUMNS if site.is_known else COLUMNS[:1])}
        files.append({**file, **time, **place})
    rows = [
        {**row, "site": names[row["file"]], "time": _clock(starts[row["file"]], row.get("start", 0.0))}
        for row in annotations.rows
    ]
    extra = ("site", *(["time"] if any(start is not None for start in starts.values()) else []))
    return replace(annotations, rows=rows, files=files, extra=(*annotations.extra, *extra))


def site_time(text: str, zone: str) -> datetime:
    """A moment in the zone of its site: one with an offset is converted, one without is what the clock there said.

    The offset stays that of the start, so that seconds can be added to it across a change of the clocks.
    """
    time = datetime.fromisoformat(text)
    if not zone:
        return time
    there = _zone(zone)
    time = time.replace(tzinfo=there) if time.tzinfo is None else time.astimezone(there)
    return time.replace(tzinfo=timezone(time.utcoffset() or timedelta()))


def _clock(start: datetime | None, seconds: float) -> str:
    """ISO time to the millisecond, "" where it is not known."""
    return "" if start is None else (start + timedelta(seconds=float(seconds))).isoformat(timespec="milliseconds")
