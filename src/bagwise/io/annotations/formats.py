"""The formats of annotations by name: how each is written and read."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from bagwise.exceptions import FormatError, InputError
from bagwise.io.annotations import birdnet, raven
from bagwise.io.annotations.annotations import Annotations, MediumFacts
from bagwise.io.annotations.audacity import read_audacity, write_audacity
from bagwise.io.annotations.birdnet import read_birdnet, write_birdnet
from bagwise.io.annotations.coco import read_coco, write_coco
from bagwise.io.annotations.intervals import read_intervals, write_intervals
from bagwise.io.annotations.label_studio import read_label_studio, write_label_studio
from bagwise.io.annotations.long_table import read_long_csv, read_long_parquet, write_long_csv, write_long_parquet
from bagwise.io.annotations.marks import Marks, read_json, table_headings
from bagwise.io.annotations.raven import read_raven, write_raven
from bagwise.io.annotations.spans import read_spans, write_spans


@dataclass(frozen=True)
class Format:
    """One format.

    Attributes
    ----------
    write : function of annotations and a folder that gives the files it wrote
    read : function of a path and the annotations that were written, gives the marks that are there now
    """

    write: Callable[[Annotations, Path], list[Path]]
    read: Callable[[Path, Annotations], Marks]


FORMATS = {
    "csv": Format(write_long_csv, read_long_csv),
    "parquet": Format(write_long_parquet, read_long_parquet),
    "raven": Format(write_raven, read_raven),
    "audacity": Format(write_audacity, read_audacity),
    "birdnet": Format(write_birdnet, read_birdnet),
    "coco": Format(write_coco, read_coco),
    "spans": Format(write_spans, read_spans),
    "intervals": Format(write_intervals, read_intervals),
    "label-studio": Format(write_label_studio, read_label_studio),
}


def formats_of(medium: MediumFacts) -> list[str]:
    """The formats that are written where none is asked for: all of the medium, parquet where pyarrow is installed."""
    return [name for name in medium.formats if name != "parquet" or find_spec("pyarrow") is not None]


def check_formats(names: Iterable[str], medium: MediumFacts) -> list[str]:
    """The names, if all of them are formats of the medium."""
    names = list(names)
    for name in names:
        if name not in medium.formats:
            raise InputError(f"There is no format {name!r} for {medium.name}; use {', '.join(medium.formats)}.")
    return names


def write_formats(annotations: Annotations, folder: Path, names: Iterable[str]) -> list[Path]:
    """Write each of the formats; gives the files."""
    return [path for name in names for path in FORMATS[name].write(annotations, folder)]


def read_marks(path: str | Path, annotations: Annotations, name: str | None = None) -> Marks:
    """What people made of annotations that were written; None finds out the format."""
    path = Path(path)
    name = name or guess_annotation_format(path)
    check_formats([name], annotations.medium)
    return FORMATS[name].read(path, annotations)


def guess_annotation_format(path: str | Path) -> str:
    """The name of the format of a file or folder of annotations, from its ending and its first lines."""
    path = Path(path)
    if path.is_dir():
        for name, endings in (("raven", raven.table_endings(path)), ("birdnet", birdnet.ENDINGS)):
            if any(next(path.rglob(f"*{ending}"), None) for ending in endings):
                return name
        if next(path.rglob("*.txt"), None):
            return "audacity"
        raise FormatError(f"{path}: there is no selection table and no label track in this folder; give one file.")
    ending = path.suffix.lower()
    if ending in (".parquet", ".jsonl"):
        return "parquet" if ending == ".parquet" else "spans"
    if ending == ".json":
        document = read_json(path)
        first = document[0] if isinstance(document, list) and document else document
        return "coco" if isinstance(first, dict) and {"images", "image_id"} & first.keys() else "label-studio"
    if ending in (".csv", ".tsv"):
        headings = table_headings(path)
        if {"start", "end", "label", "windows"} <= set(headings):
            return "intervals"
        return "birdnet" if {"Common name", "common_name"} & set(headings) else "csv"
    if ending == ".txt":
        is_track = path.is_file() and (not path.stat().st_size or "Begin Time (s)" not in table_headings(path, "\t"))
        return "audacity" if is_track else "raven"
    raise FormatError(
        f"{path}: annotations are read from .csv, .parquet, .json, .jsonl and .txt files and from folders of selection "
        "tables or label tracks; give one of these, or name the format."
    )


def selections_format(path: Path) -> str | None:
    """Whether labels are told by selection tables of Raven or results of BirdNET; None where a table of labels does."""
    if path.is_dir():
        name = guess_annotation_format(path)
    elif path.suffix.lower() in (".txt", ".csv", ".tsv"):
        try:
            headings = set(table_headings(path, "\t" if path.suffix.lower() == ".txt" else None))
        except FormatError:  # whoever reads it as a table of labels says why
            return None
        found = {"raven": {"Begin Time (s)"}, "birdnet": {"Start (s)", "Common name"}}
        found |= {"birdnet of R": {"common_name", "start", "end"}}
        name = next((name.split()[0] for name, columns in found.items() if columns <= headings), "csv")
    else:
        return None
    if path.is_dir() and name not in ("raven", "birdnet"):
        raise FormatError(
            f"{path}: the folder holds no selection tables of Raven (*{raven.ENDINGS[0]}) and no results of BirdNET "
            f"(*{birdnet.ENDINGS[0]}); give these, or one table of labels."
        )
    return name if name in ("raven", "birdnet") else None
