"""The media types by name, and their files in a folder."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable
from pathlib import Path, PurePosixPath
from typing import Any

from bagwise.app.media.audio import AUDIO
from bagwise.app.media.image import IMAGE
from bagwise.app.media.media_type import MediaType
from bagwise.app.media.series import SERIES
from bagwise.app.media.settings import Settings
from bagwise.app.media.text import TEXT
from bagwise.core.exceptions import InputError
from bagwise.core.plugins import MEDIA_TYPES, add_installed

# Bags of a table: there are no files behind them to read, draw or play.
TABLE = MediaType(name="table", title="Bags of a table, annotated", instances="instances", settings=Settings)
MEDIA: dict[str, MediaType] = {"audio": AUDIO, "image": IMAGE, "text": TEXT, "series": SERIES, "table": TABLE}
add_installed(MEDIA, MEDIA_TYPES, MediaType)


def check_media_type(name: str) -> MediaType:
    """The media type of that name."""
    if name not in MEDIA:
        raise InputError(f"There is no media type {name!r}; use one of {', '.join(MEDIA)}.")
    return MEDIA[name]


def guess_media_type(folder: Path, exclude: Iterable[Path] = ()) -> str:
    """The media type of most files of a folder."""
    endings = Counter(_ending(name) for name in list_files(folder, exclude))
    counts = {name: sum(endings[ending] for ending in media_type.extensions) for name, media_type in MEDIA.items()}
    best = max(counts, key=lambda name: counts[name])
    if not counts[best]:
        known = ", ".join(ending for media_type in MEDIA.values() for ending in media_type.extensions)
        raise InputError(f"There is no file in {folder} that can be annotated; expected files ending in {known}.")
    return best


def guess_file_type(path: Path) -> str | None:
    """The media type of one recording or picture; None for what may be a file of bags."""
    return next((kind.name for kind in (AUDIO, IMAGE) if _ending(path.name) in kind.extensions), None)


def find_files(folder: Path, media_type: MediaType, settings: Any, exclude: Iterable[Path] = ()) -> list[str]:
    """Names, relative to the folder and sorted, of the media in it and in the folders below."""
    names = [
        name
        for name in list_files(folder, exclude)
        if _ending(name) in media_type.extensions and media_type.belongs(folder / name, settings)
    ]
    if not names:
        raise InputError(f"There is no file in {folder} that ends in {', '.join(media_type.extensions)}.")
    return names


def _ending(name: str) -> str:
    return PurePosixPath(name).suffix.lower()


def list_files(folder: Path, exclude: Iterable[Path] = ()) -> list[str]:
    """Names of all files of a folder, relative to it and sorted, but hidden ones and those in (or at) `exclude`."""
    if not folder.is_dir():
        raise InputError(f"{folder} is not a folder; give the folder that holds the media.")
    if not os.access(folder, os.R_OK | os.X_OK):
        raise InputError(f"The folder {folder} may not be read; change its permissions.")
    left_out = [path.resolve() for path in exclude]
    found = []
    for place, below, names in os.walk(folder):
        below[:] = [name for name in below if not name.startswith(".")]
        here, real = Path(place), Path(os.path.realpath(place))
        for name in names:
            path = here / name
            if name.startswith(".") or not path.is_file():
                continue
            # each path is looked up only where it is a link, which takes long for thousands
            true = path.resolve() if left_out and path.is_symlink() else real / name
            if not any(true.is_relative_to(other) for other in left_out):
                found.append(path.relative_to(folder).as_posix())
    return sorted(found)
