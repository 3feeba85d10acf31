"""What is made of one file, and how the files become one data set."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import unquote

import numpy as np
import scipy.sparse as sp

from bagwise.core.bags import Bags, offsets_of
from bagwise.core.dataset import BagDataset, Places, as_column
from bagwise.core.exceptions import FormatError, InputError

Problem = tuple[str, str]
"""Name of a file, bag or row, and what is wrong with it."""

_ABSOLUTE = re.compile(r"/|~|[A-Za-z][A-Za-z+.-]*:")  # a full path of any machine, or an address
_UPLOADED = re.compile(r"[0-9a-f]{8}-")  # what Label Studio puts in front of the name of an uploaded file


@dataclass(frozen=True)
class FileBags:
    """The bags of one file; a bag may be empty here, since a silent recording is a result too.

    Attributes
    ----------
    bag_names : list of str
    sizes : list of int
        Instances of each bag, zero where nothing was found.
    features : (m, d) array or CSR matrix
    locations : dict of (m,) arrays
        Where in the file each instance was, a column for each fact.
    info : dict
        What is known about the file: seconds and rate; width and height; characters.
    problems : list of str
        What is wrong with the file although it could be read.
    feature_names : list of str or None
        What the columns of `features` are called in this file; None where they are the same in every file.
    vectors : (m, e) array or None
        What a network that was trained elsewhere makes of each instance, where one is used.
    """

    bag_names: list[str]
    sizes: list[int]
    features: Any
    locations: Places
    info: dict[str, Any]
    problems: list[str] = field(default_factory=list)
    feature_names: list[str] | None = None
    vectors: np.ndarray | None = None

    def as_one_bag(self, name: str) -> FileBags:
        """The same with all instances in one bag."""
        return replace(self, bag_names=[name], sizes=[sum(self.sizes)])


class FileNames:
    """Files of a folder, found by what people and tools call them.

    That is the path below the folder, the name of the file, or either without its ending; with slashes of any system,
    in other case, as a full path of any machine, or as the address of a file that was served or uploaded, as long as
    one file only fits.
    """

    def __init__(self, names: Iterable[str]):
        self.names = set(names)
        self._index: dict[str, set[str]] = {}
        for name in self.names:
            path = PurePosixPath(normal_name(name))
            for key in {str(path), path.name, str(path.with_suffix("")), path.stem}:
                self._index.setdefault(key, set()).add(name)
                self._index.setdefault(f"folded:{key.casefold()}", set()).add(name)

    def find(self, given: str) -> set[str]:
        """The files that may be meant."""
        for spelled in dict.fromkeys((given, unquote(given))):
            key = normal_name(spelled)
            if key in self.names:
                return {key}
            for option in _endings(key) if _ABSOLUTE.match(key) else (key,):
                for candidate in (option, f"folded:{option.casefold()}"):
                    if candidate in self._index:
                        return self._index[candidate]
        return set()

    def resolve(self, given: str) -> str:
        """The file that is meant; the name as it came where there is none or more than one."""
        found = self.find(given)
        return next(iter(found)) if len(found) == 1 else given


def normal_name(name: str) -> str:
    """One spelling: forward slashes, no leading ./, composed accents (some systems take them apart)."""
    return unicodedata.normalize("NFC", name.replace("\\", "/").removeprefix("./"))


def _endings(path: str) -> Iterator[str]:
    """A full path or address, what is left of it without the folders on the way, and the name of an uploaded file."""
    parts = [part for part in path.rpartition("?d=")[2].split("/") if part]
    yield from ("/".join(parts[i:]) for i in range(len(parts)))
    if parts:
        yield _UPLOADED.sub("", parts[-1], count=1)


def assemble(files: Mapping[str, FileBags], features: Any, feature_names: list[str] | None, name: str) -> BagDataset:
    """One data set of the bags that hold instances; bags without any are left out.

    Parameters
    ----------
    files : bags of each file by its name, which becomes the column ``file`` of the locations
    features : (m, d) array or CSR matrix of all instances
    feature_names : list of str or None
    name : what the data set is called
    """
    sizes = np.array([size for file in files.values() for size in file.sizes], dtype=np.int64)
    names = [bag for file in files.values() for bag in file.bag_names]
    kept = np.flatnonzero(sizes)
    if not len(kept):
        raise InputError(
            f"Nothing was found in any of the {len(files)} files, so there is no instance to learn from; "
            "lower the threshold or the smallest size of a region."
        )
    found = [file for file in files.values() if sum(file.sizes)]
    for key, file in files.items():
        if sum(file.sizes) and {*file.locations} != {*found[0].locations}:
            raise FormatError(
                f"{key}: its locations have other columns than those of other files; read all of them again."
            )
    # objects, so that one name of a file serves all of its instances
    owner = np.repeat(np.array(list(files), dtype=object), [sum(file.sizes) for file in files.values()])
    columns = {key: np.concatenate([as_column(file.locations[key]) for file in found]) for key in found[0].locations}
    return BagDataset(
        bags=Bags(features, offsets_of(sizes[kept])),
        bag_names=[names[i] for i in kept],
        feature_names=feature_names,
        locations={"file": owner, **columns},
        name=name,
    )


def stack_rows(parts: Sequence[Any]) -> Any:
    """Arrays or CSR matrices below each other."""
    return sp.vstack(parts, format="csr") if any(sp.issparse(part) for part in parts) else np.concatenate(parts)


# ---------------------------------------------------------------------------------------------------------------------
# When a file was recorded: by its name, and by what the recorder noted in it

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
