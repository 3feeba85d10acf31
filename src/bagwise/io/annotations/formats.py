"""The formats by name, and the media each is for."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib.util import find_spec
from pathlib import Path

from bagwise.exceptions import InputError
from bagwise.io.annotations.annotations import PLACES, Annotations
from bagwise.io.annotations.audacity import write_audacity
from bagwise.io.annotations.birdnet import write_birdnet
from bagwise.io.annotations.coco import write_coco
from bagwise.io.annotations.label_studio import write_label_studio
from bagwise.io.annotations.long_table import write_long_csv, write_long_parquet
from bagwise.io.annotations.raven import write_raven
from bagwise.io.annotations.spans import write_spans

ALL = tuple(PLACES)
FORMATS: dict[str, tuple[tuple[str, ...], Callable[[Annotations, Path], list[Path]]]] = {
    "csv": (ALL, write_long_csv),
    "parquet": (ALL, write_long_parquet),
    "raven": (("audio",), write_raven),
    "audacity": (("audio",), write_audacity),
    "birdnet": (("audio",), write_birdnet),
    "coco": (("image",), write_coco),
    "spans": (("text",), write_spans),
    "label-studio": (ALL, write_label_studio),
}


def formats_of(medium: str) -> list[str]:
    """The formats that are written where none is asked for: all of the medium, parquet where pyarrow is installed."""
    names = [name for name, (media, _) in FORMATS.items() if medium in media]
    return [name for name in names if name != "parquet" or find_spec("pyarrow") is not None]


def check_formats(names: Iterable[str], medium: str) -> list[str]:
    """The names, if all of them are formats of the medium."""
    names = list(names)
    for name in names:
        if name not in FORMATS or medium not in FORMATS[name][0]:
            fitting = ", ".join(key for key, (media, _) in FORMATS.items() if medium in media)
            raise InputError(f"There is no format {name!r} for {medium}; use {fitting}.")
    return names


def write_formats(annotations: Annotations, folder: Path, names: Iterable[str]) -> list[Path]:
    """Write each of the formats; gives the files."""
    return [path for name in names for path in FORMATS[name][1](annotations, folder)]
