"""Selection tables of Raven."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bagwise.app.formats.annotations import Annotations, plain_cell, probability_text
from bagwise.app.formats.marks import (
    FileNames,
    Mark,
    Marks,
    Spelling,
    all_files,
    find_tables,
    read_confidence,
    read_number,
    read_place,
    read_table,
    require_columns,
)
from bagwise.io.files import atomic_write
from bagwise.io.inside import open_folder
from bagwise.io.tables import read_headings
from bagwise.io.text import defuse, undefuse

HEADINGS = (
    "Selection", "View", "Channel", "Begin Time (s)", "End Time (s)", "Low Freq (Hz)", "High Freq (Hz)",
    "Begin File", "Begin Path", "File Offset (s)", "Annotation", "Probability",
)  # fmt: skip
LABELS = ("annotation", "common name", "species", "label")
ENDINGS = (".selections.txt", ".BirdNET.selection.table.txt", ".selection.table.txt")
BAND = {"low": "Low Freq (Hz)", "high": "High Freq (Hz)"}
COMBINED = "all"
_NUMBERED = re.compile(r"\.Table\.\d+$")  # what Raven puts behind the name of a recording


def write_raven(annotations: Annotations, folder: Path) -> list[Path]:
    """One table per recording in ``raven/``, and ``raven/all.selections.txt`` for all of them opened as one sound.

    Raven strings the recordings together in the order of their names, so in the combined table the times of each go on
    from the end of the one before; recordings without any selection count with their full length, and so do those that
    could not be read, where it is known.
    """
    paths: list[Path] = []
    combined: list[dict[str, Any]] = []
    begins = _begins(annotations)
    for name, rows in annotations.shown_by_file().items():
        place = annotations.folder.joinpath(*name.split("/"))
        path = open_folder(folder, f"raven/{name}.selections.txt")
        _write_tabbed([_selection(i + 1, row, 0.0, place) for i, row in enumerate(rows)], HEADINGS, path)
        paths.append(path)
        combined += [_selection(len(combined) + i + 1, row, begins[name], place) for i, row in enumerate(rows)]
    path = open_folder(folder, "raven/all.selections.txt")
    _write_tabbed(combined, HEADINGS, path)
    return [path, *paths]


def _begins(annotations: Annotations) -> dict[str, float]:
    """Second at which each recording begins where all of them are opened as one sound."""
    passed, begins = 0.0, {}
    for file in sorted([*annotations.files, *annotations.unread], key=lambda file: str(file["file"])):
        begins[str(file["file"])] = passed
        passed += file["seconds"] or 0.0
    return begins


def _selection(number: int, row: dict[str, Any], passed: float, path: Path) -> dict[str, Any]:
    return {
        "Selection": number,
        "View": "Spectrogram 1",
        "Channel": 1,
        "Begin Time (s)": f"{passed + row['start']:.4f}",
        "End Time (s)": f"{passed + row['end']:.4f}",
        "Low Freq (Hz)": f"{row['low']:.1f}",
        "High Freq (Hz)": f"{row['high']:.1f}",
        "Begin File": defuse(path.name),
        "Begin Path": defuse(str(path)),
        "File Offset (s)": f"{row['start']:.4f}",
        "Annotation": defuse(row["label"]),
        "Probability": probability_text(row),
    }


def read_raven(path: Path, annotations: Annotations) -> Marks:
    """One selection table, a folder of them, or the table of all recordings opened as one sound.

    In a folder, ``all.selections.txt`` is read only where it is the one table there; other texts count as tables only
    where none has such a name and all of them begin like one. Columns may stand in any order,
    and there may be others; the label is in the column Annotation, Common Name (of BirdNET), Species or Label.
    """
    tables = find_tables(path, *table_endings(path))
    if len(tables) > 1:
        tables.pop(COMBINED, None)
    names, begins = FileNames(annotations, _spell), _begins(annotations)
    rows: list[Mark] = []
    covered: set[str] = set()
    for name, table in tables.items():
        found = _read_selections(table, annotations, names)
        in_rows = {mark["file"] for mark in found if mark["file"]}
        own = names(_NUMBERED.sub("", name.removesuffix(".txt")))
        if name == COMBINED or (own not in names and len(in_rows) > 1):
            rows += [_within_its_file(mark, begins, names) for mark in found]
            covered |= all_files(annotations)
        else:
            if own not in names and in_rows:
                own = names(in_rows.pop())
            rows += [{key: mark[key] for key in mark if key != "offset"} | {"file": own} for mark in found]
            covered.add(own)
    return Marks(rows, frozenset(covered))


def table_endings(path: Path) -> tuple[str, ...]:
    """How selection tables of a folder end: as Raven and BirdNET call them, else all that begin like one."""
    if any(next(path.rglob(f"*{ending}"), None) for ending in ENDINGS):
        return ENDINGS
    texts = [file for file in path.rglob("*.txt") if file.is_file()]
    are_tables = texts and all(
        file.stat().st_size and "Begin Time (s)" in read_headings(file, "\t", quoted=False) for file in texts
    )
    return (".txt",) if are_tables else ENDINGS


def _spell(name: str) -> str:
    return plain_cell(defuse(name))


def _read_selections(path: Path, annotations: Annotations, names: FileNames) -> list[Mark]:
    """The selections as they stand there, with `file` as the row names it and `offset`, its second of that file."""
    table = read_table(path, "\t")
    column = next((h for name in LABELS for h in table.headings if h.casefold() == name), None)
    require_columns(table, ["Begin Time (s)", "End Time (s)", column or "Annotation"])
    assert column is not None
    labels = Spelling(annotations.classes, _spell, undefuse)
    selections = list(table.records())
    if any(cells.get("View", "").startswith("Spectrogram") for _, cells in selections):  # the same once more
        selections = [(source, cells) for source, cells in selections if not cells["View"].startswith("Waveform")]
    rows = []
    for source, cells in selections:
        place = read_place(cells, {"start": "Begin Time (s)", "end": "End Time (s)"}, source)
        band = {key: heading for key, heading in BAND.items() if cells.get(heading, "").strip()}
        place |= read_place(cells, band, source) if len(band) == 2 else {}
        offset = cells.get("File Offset (s)", "").strip()
        rows.append(
            {
                "source": source,
                "file": _begin_file(cells, names),
                **place,
                "label": labels(cells[column]),
                "offset": read_number(offset, "File Offset (s)", source) if offset else None,
                **read_confidence(cells, source),
            }
        )
    return rows


def _begin_file(cells: dict[str, str], names: FileNames) -> str:
    """The file that a selection begins in: by its path, which tells folders apart, else by its name."""
    given = [cells.get(heading, "").strip() for heading in ("Begin Path", "Begin File")]
    return next((cell for cell in given if names(cell) in names), given[1] or given[0])


def _within_its_file(mark: Mark, begins: dict[str, float], names: FileNames) -> Mark:
    """A selection of all recordings opened as one sound, with times from the start of its own recording."""
    start, offset = mark["start"], mark.pop("offset")
    given = names(mark["file"]) if mark["file"] else [name for name in begins if begins[name] <= max(start, 0.0)][-1]
    begin = start - begins.get(given, 0.0) if offset is None else offset
    return {**mark, "file": given, "start": begin, "end": begin + mark["end"] - start}


def _write_tabbed(rows: Sequence[Mapping[str, Any]], headings: Sequence[str], path: Path) -> None:
    """Write a tab-separated table as Raven reads it: no quotes, so no cell may hold a tab or a line end."""
    with atomic_write(path, "w") as file:
        file.write("\t".join(headings) + "\n")
        for row in rows:
            file.write("\t".join(plain_cell(str(row[heading])) for heading in headings) + "\n")
