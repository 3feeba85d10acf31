"""Tables of annotations, each declared by its columns: our own ones, and those of Raven, BirdNET and Audacity."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from bagwise.app.formats._annotations import Annotations, Row, plain_cell, probability_text
from bagwise.app.formats._marks import (
    Mark,
    MarkReader,
    Marks,
    read_number,
    read_text_table,
    require_columns,
    text_lines,
)
from bagwise.app.media.windows import Part, join_windows, own_parts
from bagwise.core.checks import import_pyarrow
from bagwise.core.exceptions import FormatError
from bagwise.io.files import atomic_write, defuse, open_folder, undefuse
from bagwise.io.tables import read_headings, write_csv

# ---------------------------------------------------------------------------------------------------------------------
# The long table: every instance, noise too


def write_long_csv(annotations: Annotations, folder: Path) -> list[Path]:
    """``annotations.csv``."""
    path = open_folder(folder, "annotations.csv")
    write_csv(annotations.rows, path, annotations.columns)
    return [path]


def write_long_parquet(annotations: Annotations, folder: Path) -> list[Path]:
    """``annotations.parquet``, with model, version and settings in its metadata."""
    arrow = import_pyarrow("Writing parquet")
    path, media_type = open_folder(folder, "annotations.parquet"), annotations.media_type
    kinds = {
        **dict.fromkeys(("file", "label", "runner_up", "mode", "bag"), arrow.string()),
        **dict.fromkeys(("probability", "noise"), arrow.float64()),
        "instance": arrow.int64(),
        **dict.fromkeys(media_type.places, arrow.int64() if media_type.whole else arrow.float64()),
    }
    for key in annotations.extra:  # a table may have columns of these names itself
        kinds[key] = arrow.bool_() if key in ("checked", "novel", "kept") else arrow.string()
    columns = {}
    for key in annotations.columns:
        values = [row[key] for row in annotations.rows]
        if kinds.get(key) == arrow.string() or (key not in kinds and len({*map(type, values)} - {type(None)}) > 1):
            values = [None if value is None else str(value) for value in values]
        columns[key] = arrow.array(values, kinds.get(key))
    about = json.dumps(annotations.about, ensure_ascii=False, sort_keys=True)
    with atomic_write(path) as file:
        arrow.parquet.write_table(arrow.table(columns).replace_schema_metadata({"bagwise": about}), file)
    return [path]


def read_long(path: Path, annotations: Annotations) -> Marks:
    """The long table, as CSV (with commas, semicolons or tabs) or parquet.

    Rows are found by bag and instance where both columns are there, else by file and place.

    An empty label says noise. A row that is missing says nothing, since tables are filtered and cut for many reasons.
    Of recordings any table of events will do: file, start, end and label by one of their usual headings.
    """
    table = read_text_table(path)
    keyed = {"bag", "instance"} <= {*table.headings}
    events = None if keyed or not annotations.media_type.timed else event_columns(table.headings)
    needed = ["label", *(("bag", "instance") if keyed else ("file", *annotations.media_type.places))]
    columns, optional = events or ({name: name for name in needed}, {"file": "file"})
    require_columns(table, [*columns.values()])
    reader = MarkReader(annotations, defuse, undefuse)
    rows = [reader.mark(cells, columns, source, **optional) for source, cells in table.records()]
    return Marks(rows, every_instance=True)


_EVENT = {  # usual headings, without case
    "file": ("file", "filename", "file_name", "path", "recording"),
    "start": ("start", "start_s", "start (s)", "start_time", "start time", "start time (s)", "begin", "onset"),
    "end": ("end", "end_s", "end (s)", "end_time", "end time", "end time (s)", "stop"),
    "label": ("label", "species", "annotation", "class"),
}
_OF_SOME_EVENTS = {
    "low": ("low", "low_hz", "low (hz)", "low freq (hz)", "low_freq", "min_freq"),
    "high": ("high", "high_hz", "high (hz)", "high freq (hz)", "high_freq", "max_freq"),
    "confidence": ("confidence",),
}


def event_columns(headings: Sequence[str]) -> tuple[dict[str, str], dict[str, str]] | None:
    """The headings of what every event has, and of what some have; None where the table is none of events."""
    by_name = {heading.strip().casefold(): heading for heading in headings}
    found = [
        {what: by_name[name] for what, names in columns.items() for name in names[::-1] if name in by_name}
        for columns in (_EVENT, _OF_SOME_EVENTS)
    ]
    return (found[0], found[1]) if len(found[0]) == len(_EVENT) and "instance" not in by_name else None


def read_events(path: Path, annotations: Annotations) -> list[Mark]:
    """The rows of a table with file, start and end by one of their usual headings; low and high if there."""
    table = read_text_table(path)
    found = event_columns([*table.headings, "label"])
    if found is None:
        raise FormatError(
            f"{path}, row {table.lines[0]}: there are no columns file, start and end; found "
            f"{plain_cell(', '.join(table.headings))[:200] or 'nothing'}."
        )
    columns = {what: heading for what, heading in found[0].items() if what != "label"}
    reader = MarkReader(annotations, defuse, undefuse)
    return [reader.mark(cells, columns, source, **found[1]) for source, cells in table.records()]


# ---------------------------------------------------------------------------------------------------------------------
# The table of the intervals of labels over windows; and marks of intervals back to the windows in them

INTERVALS = ("file", "bag", "start", "end", "label", "probability", "windows")
LEAST_INSIDE = 0.5  # of the part of a window that a mark must hold


def intervals_by_file(annotations: Annotations) -> dict[str, list[dict[str, Any]]]:
    """The intervals of every file, recording after recording; of those that have none, too."""
    found: dict[str, list[dict[str, Any]]] = {file["file"]: [] for file in annotations.files}
    for own in _by_bag(annotations.rows).values():
        found[own[0]["file"]] += join_windows(own, annotations.is_shown)
    return found


def _by_bag(rows: Sequence[Row]) -> dict[str, list[Row]]:
    by_bag: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        by_bag[str(row["bag"])].append(row)
    return by_bag


def write_intervals(annotations: Annotations, folder: Path) -> list[Path]:
    """``intervals.csv``: a row for each interval of one label, with its mean probability and its number of windows."""
    path = open_folder(folder, "intervals.csv")
    write_csv([interval for own in intervals_by_file(annotations).values() for interval in own], path, INTERVALS)
    return [path]


def read_intervals(path: Path, annotations: Annotations) -> Marks:
    """The table of intervals; a window is of the label in whose interval half of its part lies."""
    table, columns = read_text_table(path), {name: name for name in ("file", "start", "end", "label")}
    require_columns(table, [*columns])
    reader = MarkReader(annotations, defuse, undefuse)
    rows = [reader.mark(cells, columns, source, recording="bag") for source, cells in table.records()]
    return spread_marks(Marks(rows, reader.files), annotations)


def spread_marks(marks: Marks, annotations: Annotations) -> Marks:
    """Marks of intervals as marks of the windows whose part lies in them, by half or more."""
    parts: dict[str, list[Part]] = defaultdict(list)
    for own in _by_bag(annotations.rows).values():
        windows = {row["instance"]: row for row in own}  # one with several labels has several rows
        parts[str(own[0]["file"])] += own_parts(windows.values())
    found: list[Mark] = []
    for mark in marks.rows:
        inside = [
            row
            for start, end, row in parts.get(mark["file"], ())
            if min(end, mark["end"]) - max(start, mark["start"]) >= LEAST_INSIDE * (end - start)
            and mark.get("recording", row["bag"]) == row["bag"]
        ]
        plain = {key: mark[key] for key in ("source", "label", "file")}
        found += [{**plain, "bag": str(row["bag"]), "instance": row["instance"]} for row in inside]
        if not inside:
            found.append(mark)  # it is in no file, or on no window: whoever compares says so
    return Marks(found, marks.covered, marks.every_instance)


# ---------------------------------------------------------------------------------------------------------------------
# Selection tables of Raven

RAVEN = {  # what stands below each heading
    "Selection": "{number}",
    "View": "Spectrogram 1",
    "Channel": "1",
    "Begin Time (s)": "{begin:.4f}",
    "End Time (s)": "{finish:.4f}",
    "Low Freq (Hz)": "{low:.1f}",
    "High Freq (Hz)": "{high:.1f}",
    "Begin File": "{name}",
    "Begin Path": "{path}",
    "File Offset (s)": "{start:.4f}",
    "Annotation": "{label}",
    "Probability": "{confidence}",
}
RAVEN_PLACE = {"start": "Begin Time (s)", "end": "End Time (s)"}
RAVEN_OPTIONAL = {"low": "Low Freq (Hz)", "high": "High Freq (Hz)", "offset": "File Offset (s)"}
RAVEN_LABELS = ("annotation", "common name", "species", "label")
RAVEN_ENDINGS = (".selections.txt", ".BirdNET.selection.table.txt", ".selection.table.txt")
_COMBINED = "all"
_NUMBERED = re.compile(r"\.Table\.\d+$")  # what Raven puts behind the name of a recording


def write_raven(annotations: Annotations, folder: Path) -> list[Path]:
    """One table per recording in ``raven/``, and ``raven/all.selections.txt`` for all of them opened as one sound.

    Raven strings the recordings together in the order of their names, so in the combined table the times of each go on
    from the end of the one before; recordings without any selection count with their full length, and so do those that
    could not be read, where it is known.
    """
    begins, combined, paths = _begins(annotations), [], []
    for name, rows in annotations.shown_by_file().items():
        place = annotations.folder.joinpath(*name.split("/"))
        facts = {"name": defuse(place.name), "path": defuse(str(place))}
        facts_of_rows = [
            {**row, **facts, "label": defuse(row["label"]), "confidence": probability_text(row)} for row in rows
        ]
        paths.append(_write_selections(facts_of_rows, open_folder(folder, f"raven/{name}{RAVEN_ENDINGS[0]}")))
        combined += [{**row, "passed": begins[name]} for row in facts_of_rows]
    return [_write_selections(combined, open_folder(folder, f"raven/{_COMBINED}{RAVEN_ENDINGS[0]}")), *paths]


def _begins(annotations: Annotations) -> dict[str, float]:
    """Second at which each recording begins where all of them are opened as one sound."""
    passed, begins = 0.0, {}
    for file in sorted([*annotations.files, *annotations.unread], key=lambda file: str(file["file"])):
        begins[str(file["file"])] = passed
        passed += file["seconds"] or 0.0
    return begins


def _write_selections(rows: Iterable[Row], path: Path) -> Path:
    """Write a tab-separated table as Raven reads it: no quotes, so no cell may hold a tab or a line end."""
    with atomic_write(path, "w") as file:
        file.write("\t".join(RAVEN) + "\n")
        for number, row in enumerate(rows, 1):
            passed = row.get("passed", 0.0)
            facts = {**row, "number": number, "begin": passed + row["start"], "finish": passed + row["end"]}
            file.write("\t".join(plain_cell(cell.format_map(facts)) for cell in RAVEN.values()) + "\n")
    return path


def read_raven(path: Path, annotations: Annotations) -> Marks:
    """One selection table, a folder of them, or the table of all recordings opened as one sound.

    In a folder, ``all.selections.txt`` is read only where it is the one table there; other texts count as tables only
    where none has such a name and all of them begin like one. Columns may stand in any order,
    and there may be others; the label is in the column Annotation, Common Name (of BirdNET), Species or Label.
    """
    tables = _find_tables(path, *table_endings(path))
    if len(tables) > 1:
        tables.pop(_COMBINED, None)
    reader, begins = MarkReader(annotations, _raven_cell, undefuse), _begins(annotations)
    rows: list[Mark] = []
    covered: set[str] = set()
    for name, table in tables.items():
        found = _read_selections(table, reader)
        in_rows = {mark["file"] for mark in found if mark["file"]}
        own = reader.file(_NUMBERED.sub("", name.removesuffix(".txt")))
        if name == _COMBINED or (own not in reader.files and len(in_rows) > 1):
            rows += [_within_its_file(mark, begins, reader) for mark in found]
            covered |= reader.files
        else:
            if own not in reader.files and in_rows:
                own = reader.file(in_rows.pop())
            rows += [{**mark, "file": own} for mark in found]
            covered.add(own)
    return Marks(rows, frozenset(covered))


def table_endings(path: Path) -> tuple[str, ...]:
    """How selection tables of a folder end: as Raven and BirdNET call them, else all that begin like one."""
    if any(next(path.rglob(f"*{ending}"), None) for ending in RAVEN_ENDINGS):
        return RAVEN_ENDINGS
    texts = [file for file in path.rglob("*.txt") if file.is_file()]
    are_tables = texts and all(
        file.stat().st_size and RAVEN_PLACE["start"] in read_headings(file, "\t", quoted=False) for file in texts
    )
    return (".txt",) if are_tables else RAVEN_ENDINGS


def _raven_cell(name: str) -> str:
    return plain_cell(defuse(name))


def _read_selections(path: Path, reader: MarkReader) -> list[Mark]:
    """The selections as they stand there, with `file` as the row names it and `offset`, its second of that file."""
    table = read_text_table(path, "\t")
    label = next((h for name in RAVEN_LABELS for h in table.headings if h.casefold() == name), "Annotation")
    columns = {**RAVEN_PLACE, "label": label}
    require_columns(table, [*columns.values()])
    selections = list(table.records())
    if any(cells.get("View", "").startswith("Spectrogram") for _, cells in selections):  # the same once more
        selections = [(source, cells) for source, cells in selections if not cells["View"].startswith("Waveform")]
    rows = []
    for source, cells in selections:
        mark = reader.mark(cells, columns, source, **RAVEN_OPTIONAL, **_confidence(table.headings))
        if not {"low", "high"} <= mark.keys():
            mark = {key: value for key, value in mark.items() if key not in ("low", "high")}
        # the file that it begins in: by its path, which tells folders apart, else by its name
        given = [cells.get(heading, "").strip() for heading in ("Begin Path", "Begin File")]
        known = next((cell for cell in given if reader.file(cell) in reader.files), given[1] or given[0])
        rows.append({**mark, "file": known})
    return rows


def _within_its_file(mark: Mark, begins: Mapping[str, float], reader: MarkReader) -> Mark:
    """A selection of all recordings opened as one sound, with times from the start of its own recording."""
    start = mark["start"]
    last = [name for name in begins if begins[name] <= max(start, 0.0)][-1]
    name = reader.file(mark["file"]) if mark["file"] else last
    begin = mark.get("offset", start - begins.get(name, 0.0))
    return {**mark, "file": name, "start": begin, "end": begin + mark["end"] - start}


def _find_tables(path: Path, *endings: str) -> dict[str, Path]:
    """The files below a folder by their names without the ending; or the one file."""
    is_folder = path.is_dir()
    found = {file for ending in endings for file in path.rglob(f"*{ending}") if file.is_file()} if is_folder else {path}
    if not found:
        raise FormatError(f"{path}: there is no file in it that ends in {' or '.join(endings)}.")
    names = {file: file.relative_to(path).as_posix() if is_folder else file.name for file in sorted(found)}
    return {
        next((name.removesuffix(ending) for ending in endings if name.endswith(ending)), name): file
        for file, name in names.items()
    }


def _confidence(headings: Iterable[str]) -> dict[str, str]:
    """The column of the confidence of detections, if the table has one."""
    known = [heading for heading in headings if heading.casefold() == "confidence"]
    return {"confidence": known[0]} if known else {}


# ---------------------------------------------------------------------------------------------------------------------
# A table like that of BirdNET

BIRDNET = {
    "start": "Start (s)",
    "end": "End (s)",
    "scientific": "Scientific name",
    "label": "Common name",
    "confidence": "Confidence",
    "file": "File",
}
BIRDNET_OF_R = {"start": "start", "end": "end", "label": "common_name", "file": "filepath"}
BIRDNET_ENDINGS = (".BirdNET.results.csv", ".results.csv")


def write_birdnet(annotations: Annotations, folder: Path) -> list[Path]:
    """``birdnet.csv``: every syllable with the names of its species; a label without any stands in both columns."""
    path = open_folder(folder, "birdnet.csv")
    rows = []
    for row in annotations.shown():
        scientific, common = _names(annotations, row["label"])
        facts = {**row, "scientific": scientific, "label": common, "confidence": probability_text(row)}
        rows.append({heading: facts[key] for key, heading in BIRDNET.items()})
    write_csv(rows, path, [*BIRDNET.values()])
    return [path]


def _names(annotations: Annotations, label: str) -> tuple[str, str]:
    """Scientific and common name; the common name of one label that is another label would be read back as that."""
    scientific, common = annotations.names.get(label, (label, label))
    return scientific, label if common in annotations.classes else common


def read_birdnet(path: Path, annotations: Annotations) -> Marks:
    """One table of all recordings, or of one whose name it bears, or a folder of such; the label is the common name.

    Both the headings of BirdNET's CSV and those of its table for R are known.
    """
    reader = MarkReader(annotations, defuse, undefuse, label=lambda label: _names(annotations, label)[1])
    rows: list[Mark] = []
    covered: set[str] = set()
    for name, place in _find_tables(path, *BIRDNET_ENDINGS).items():
        table = read_text_table(place)
        known, own = BIRDNET_OF_R if "common_name" in table.headings else BIRDNET, reader.file(name)
        columns = {key: known[key] for key in ("start", "end", "label", "file")}
        if columns["file"] not in table.headings and own in reader.files:
            del columns["file"]
        require_columns(table, [*columns.values()])
        covered |= reader.files if "file" in columns else {own}
        optional = _confidence(table.headings)
        rows += [{"file": own, **reader.mark(cells, columns, source, **optional)} for source, cells in table.records()]
    return Marks(rows, frozenset(covered))


# ---------------------------------------------------------------------------------------------------------------------
# Label tracks of Audacity, with frequencies


def write_audacity(annotations: Annotations, folder: Path) -> list[Path]:
    """One label track per recording in ``audacity/``: a line of times and label, then a line of frequencies."""
    paths = []
    for name, rows in annotations.shown_by_file().items():
        path = open_folder(folder, f"audacity/{name}.txt")
        with atomic_write(path, "w") as file:
            for row in rows:
                file.write(f"{row['start']:.6f}\t{row['end']:.6f}\t{plain_cell(row['label'])}\n")
                file.write(f"\\\t{row['low']:.6f}\t{row['high']:.6f}\n")
        paths.append(path)
    return paths


def read_audacity(path: Path, annotations: Annotations) -> Marks:
    """One label track, or a folder of them, each called after its recording; lines of frequencies may be missing."""
    reader = MarkReader(annotations, plain_cell)
    tracks = {reader.file(name): track for name, track in _find_tables(path, ".txt").items()}
    rows: list[Mark] = []
    for name, track in tracks.items():
        for source, line in text_lines(track):
            cells = line.split("\t", 2)
            is_band = cells[0] == "\\"
            if len(cells) < (3 if is_band else 2) or (is_band and (not rows or rows[-1]["file"] != name)):
                raise FormatError(f"{source}: expected start, end and label with tabs between, not {line[:60]!r}.")
            one, other = (read_number(cell, "one of the two numbers", source) for cell in cells[is_band : is_band + 2])
            if not is_band:
                label = reader.label(cells[2]) if len(cells) == 3 else ""
                rows.append({"source": source, "file": name, "start": one, "end": other, "label": label})
            elif min(one, other) >= 0:  # Audacity writes -1 where no frequency was chosen
                rows[-1] |= {"low": one, "high": other}
    return Marks(rows, frozenset(tracks))
