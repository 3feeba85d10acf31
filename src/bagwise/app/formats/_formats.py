"""The formats of annotations by name: how each is written and read."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from bagwise.app.formats._annotations import Annotations
from bagwise.app.formats._aoef import read_aoef, write_aoef
from bagwise.app.formats._camtrap import read_camtrap, write_camtrap
from bagwise.app.formats._coco import read_coco, write_coco
from bagwise.app.formats._crowsetta import read_generic_seq, write_generic_seq
from bagwise.app.formats._kaleidoscope import read_kaleidoscope, write_kaleidoscope
from bagwise.app.formats._label_studio import read_label_studio, write_label_studio
from bagwise.app.formats._marks import Mark, Marks, read_json
from bagwise.app.formats._occurrences import read_ebird, read_occurrences, write_ebird, write_occurrences
from bagwise.app.formats._qupath import read_qupath, write_qupath
from bagwise.app.formats._spans import read_spans, write_spans
from bagwise.app.formats._tables import (
    BIRDNET,
    BIRDNET_ENDINGS,
    BIRDNET_OF_R,
    INTERVALS,
    RAVEN_ENDINGS,
    RAVEN_PLACE,
    event_columns,
    read_audacity,
    read_birdnet,
    read_events,
    read_intervals,
    read_long,
    read_raven,
    table_endings,
    write_audacity,
    write_birdnet,
    write_intervals,
    write_long_csv,
    write_long_parquet,
    write_raven,
)
from bagwise.app.formats._yolo import read_relative, read_yolo, write_yolo
from bagwise.app.media.media_type import MediaType
from bagwise.core.exceptions import FormatError, InputError, one_file
from bagwise.io.tables import read_headings


@dataclass(frozen=True)
class AnnotationFormat:
    """One format.

    Attributes
    ----------
    write : function of annotations and a folder that gives the files it wrote
    read : function of a path and the annotations that were written, gives the marks that are there now
    media_types : tuple of str
        For which it is written where it is asked for by name (--format), besides those that write it always
        (`MediaType.formats`).
    """

    write: Callable[[Annotations, Path], list[Path]]
    read: Callable[[Path, Annotations], Marks]
    media_types: tuple[str, ...] = ()


SOUND = ("audio",)
FORMATS = {
    "csv": AnnotationFormat(write_long_csv, read_long),
    "parquet": AnnotationFormat(write_long_parquet, read_long),
    "raven": AnnotationFormat(write_raven, read_raven),
    "audacity": AnnotationFormat(write_audacity, read_audacity),
    "birdnet": AnnotationFormat(write_birdnet, read_birdnet),
    "coco": AnnotationFormat(write_coco, read_coco),
    "spans": AnnotationFormat(write_spans, read_spans),
    "intervals": AnnotationFormat(write_intervals, read_intervals),
    "label-studio": AnnotationFormat(write_label_studio, read_label_studio),
    "kaleidoscope": AnnotationFormat(write_kaleidoscope, read_kaleidoscope, SOUND),
    "aoef": AnnotationFormat(write_aoef, read_aoef, SOUND),
    "generic-seq": AnnotationFormat(write_generic_seq, read_generic_seq, SOUND),
    "camtrap-dp": AnnotationFormat(write_camtrap, read_camtrap, SOUND),
    "darwin-core": AnnotationFormat(write_occurrences, read_occurrences, SOUND),
    "ebird": AnnotationFormat(write_ebird, read_ebird, SOUND),
    "qupath": AnnotationFormat(write_qupath, read_qupath, ("table",)),
    "yolo": AnnotationFormat(write_yolo, read_yolo, ("image",)),
}

SELECTIONS = ("raven", "birdnet")  # by which labels of recordings may be given
EVENTS = "csv"  # and by tables of events
HEADINGS = (  # by which tables are known
    ("raven", [RAVEN_PLACE["start"]]),
    ("birdnet", [BIRDNET["start"], BIRDNET["label"]]),
    ("birdnet", [BIRDNET_OF_R[key] for key in ("start", "end", "label")]),
    ("intervals", INTERVALS[2:5] + INTERVALS[6:]),
    ("kaleidoscope", ["IN FILE", "OFFSET", "DURATION"]),
    ("generic-seq", ["onset_s", "offset_s", "notated_path"]),
    ("darwin-core", ["associatedMedia", "dynamicProperties"]),
    ("camtrap-dp", ["mediaID", "observationTags"]),
)


def formats_of(media_type: MediaType) -> list[str]:
    """The formats that are written where none is asked for: all, parquet where pyarrow is installed."""
    return [name for name in media_type.formats if name != "parquet" or find_spec("pyarrow") is not None]


def check_formats(names: Iterable[str], media_type: MediaType) -> list[str]:
    """The names, if all of them are formats of the media type."""
    names = list(names)
    asked = [name for name, one in FORMATS.items() if media_type.name in one.media_types]
    known = [*media_type.formats, *asked]
    for name in names:
        if name not in known:
            raise InputError(f"There is no format {name!r} for {media_type.name}; use {', '.join(known)}.")
    return names


def write_formats(annotations: Annotations, folder: Path, names: Iterable[str]) -> list[Path]:
    """Write each of the formats; gives the files."""
    return [path for name in names for path in FORMATS[name].write(annotations, folder)]


def read_marks(path: str | Path, annotations: Annotations, name: str | None = None) -> Marks:
    """What people made of annotations that were written; None finds out the format."""
    path = Path(path)
    name = name or guess_annotation_format(path)
    check_formats([name], annotations.media_type)
    with one_file(path, f"it cannot be read as {name}", "Export it again, or name its format (--format)."):
        return FORMATS[name].read(path, annotations)


def guess_annotation_format(path: str | Path) -> str:
    """The name of the format of a file or folder of annotations, from its ending and its first lines."""
    path = Path(path)
    if path.is_dir():
        for name, file in (("camtrap-dp", "datapackage.json"), ("yolo", "classes.txt")):
            if (path / file).is_file():
                return name
        for name, endings in (("raven", table_endings(path)), ("birdnet", BIRDNET_ENDINGS)):
            if any(next(path.rglob(f"*{ending}"), None) for ending in endings):
                return name
        if next(path.rglob("*.txt"), None):
            return "audacity"
        raise FormatError(
            f"{path}: there is no selection table and no label track in this folder; give one file, or a table of "
            "labels (the media go before --labels)."
        )
    ending = path.suffix.lower()
    if ending in (".parquet", ".jsonl"):
        return "parquet" if ending == ".parquet" else "spans"
    if ending == ".json":
        document = read_json(path)
        first = document[0] if isinstance(document, list) and document else document
        if isinstance(first, dict) and isinstance(first.get("data"), dict) and "collection_type" in first["data"]:
            return "aoef"
        return "coco" if isinstance(first, dict) and {"images", "image_id"} & first.keys() else "label-studio"
    if ending in (".csv", ".tsv"):
        return _known_by_headings(path) or "csv"
    if ending == ".txt":
        is_blank = path.is_file() and not path.stat().st_size
        return "audacity" if is_blank else _known_by_headings(path) or "audacity"
    raise FormatError(
        f"{path}: annotations are read from .csv, .parquet, .json, .jsonl and .txt files and from folders of selection "
        "tables or label tracks; give one of these, or name the format."
    )


def read_boxes(path: Path, annotations: Annotations) -> list[Mark]:
    """Boxes of a detector: tables with file, start and end, of Raven, BirdNET, Audacity or YOLO; labels do not matter.

    Those of YOLO need seconds and rate of the files.
    """
    with one_file(path, "it cannot be read as boxes", "Export it again."):
        relative = read_relative(path, annotations)
    if relative is not None:
        return relative
    name = guess_annotation_format(path)
    with one_file(path, f"it cannot be read as {name}", "Export it again."):
        return read_events(path, annotations) if name == "csv" else FORMATS[name].read(path, annotations).rows


def _known_by_headings(path: Path) -> str | None:
    """The format whose headings a table has; those of Raven (.txt) have tabs and no quotes."""
    is_raven = path.suffix.lower() == ".txt"
    headings = {*read_headings(path, "\t" if is_raven else None, quoted=not is_raven)}
    return next((name for name, columns in HEADINGS if headings.issuperset(columns)), None)


def selections_format(path: Path) -> str | None:
    """The format if labels are given by selections of Raven, results of BirdNET or a table of events; else None."""
    name = None
    if path.is_dir():
        name = guess_annotation_format(path)
        if name not in SELECTIONS:
            raise FormatError(
                f"{path}: the folder holds no selection tables of Raven (*{RAVEN_ENDINGS[0]}) and no results of "
                f"BirdNET (*{BIRDNET_ENDINGS[0]}); give these, a table of labels, or a folder with a table of each "
                "observer (the folder of the media goes before --labels)."
            )
    elif path.suffix.lower() in (".txt", ".csv", ".tsv"):
        with suppress(FormatError):  # whoever reads it as a table of labels says why
            name = _known_by_headings(path)
            if name is None and event_columns(read_headings(path)) is not None:
                return EVENTS
    return name if name in SELECTIONS else None
