"""Records of species for databases: Darwin Core occurrences, and what eBird imports."""

from __future__ import annotations

import re
from collections import Counter
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from bagwise.app.formats._annotations import Annotations, Row, probability_text
from bagwise.app.formats._marks import MarkReader, Marks, read_text_table, require_columns
from bagwise.core.exceptions import FormatError, InputError
from bagwise.io.files import atomic_write, defuse, open_folder, undefuse
from bagwise.io.tables import write_csv

OCCURRENCE = {  # what stands below each term of Darwin Core
    "occurrenceID": "file and times",
    "basisOfRecord": "MachineObservation, HumanObservation where a person confirmed or gave the label",
    "occurrenceStatus": "present",
    "eventDate": "begin and end, as far as the time of the recording is known",
    "locality": "site",
    "decimalLatitude": "degrees",
    "decimalLongitude": "degrees",
    "geodeticDatum": "WGS84",
    "scientificName": "scientific name, else the label",
    "vernacularName": "common name",
    "associatedMedia": "file",
    "identificationRemarks": "model and probability",
    "dynamicProperties": "start, end, low and high as JSON",
}
_PLACE = re.compile(r'"(start|end|low|high)": ([0-9.]+)')


def write_occurrences(annotations: Annotations, folder: Path) -> list[Path]:
    """``occurrence.csv``: one occurrence of Darwin Core per call; site and time where they are known."""
    path, files = open_folder(folder, "occurrence.csv"), {file["file"]: file for file in annotations.files}
    rows = []
    for row in annotations.shown():
        file = files[row["file"]]
        scientific, common = annotations.names.get(row["label"], (row["label"], ""))
        spot = (file.get("site", ""), file.get("latitude"), file.get("longitude"))
        place = ", ".join(f'"{key}": {row[key]:.4f}' for key in ("start", "end", "low", "high"))
        model = f"{annotations.about.get('model', 'bagwise')} {probability_text(row)}".strip()
        cells = (
            *(f"{row['file']}#t={row['start']:.4f},{row['end']:.4f}&f={row['low']:.1f},{row['high']:.1f}",),
            *("HumanObservation" if row.get("checked") else "MachineObservation", "present", _span(file, row)),
            *(*spot, "" if spot[1] is None else "WGS84", scientific, common, row["file"], model, f"{{{place}}}"),
        )
        rows.append(dict(zip(OCCURRENCE, cells, strict=True)))
    write_csv(rows, path, [*OCCURRENCE])
    return [path]


def _span(file: Row, row: Row) -> str:
    """An interval of ISO 8601, "" where the time of the recording is not known."""
    if not file.get("recorded"):
        return ""
    begin = datetime.fromisoformat(file["recorded"])
    moments = (begin + timedelta(seconds=float(row[key])) for key in ("start", "end"))
    return "/".join(moment.isoformat(timespec="milliseconds") for moment in moments)


def read_occurrences(path: Path, annotations: Annotations) -> Marks:
    """Occurrences as they are written here, edited."""
    table = read_text_table(path)
    needed = ("scientificName", "associatedMedia", "dynamicProperties")
    require_columns(table, needed)
    scientific = {pair[0]: label for label, pair in annotations.names.items()}
    reader, rows = MarkReader(annotations, defuse, undefuse), []
    for source, cells in table.records():
        place = {key: float(value[:20]) for key, value in _PLACE.findall(cells["dynamicProperties"])}
        if not {"start", "end"} <= place.keys():
            raise FormatError(f"{source}: dynamicProperties does not say start and end; leave it as it was written.")
        name = undefuse(cells["scientificName"]).strip()
        label = scientific.get(name) or reader.label(cells["scientificName"])
        rows.append({"source": source, "file": reader.file(cells["associatedMedia"]), **place, "label": label})
    return Marks(rows, reader.files)


# ---------------------------------------------------------------------------------------------------------------------
# eBird's record format

EBIRD = (
    *(
        "Common Name",
        "Genus",
        "Species",
        "Number",
        "Species Comments",
        "Location Name",
        "Latitude",
        "Longitude",
        "Date",
    ),
    *("Start Time", "State/Province", "Country Code", "Protocol", "Number of Observers", "Duration"),
    *("All observations reported?", "Effort Distance Miles", "Effort area acres", "Submission Comments"),
)
"""Columns of the record format, which has no row of headings."""
MOST_BYTES = 1_000_000  # of a file that eBird takes
_FORBIDDEN = re.compile(r'[",\r\n\t]+')  # nothing is quoted there


def write_ebird(annotations: Annotations, folder: Path) -> list[Path]:
    """``ebird/records-1.csv`` and so on: a row per recording and species, X for present, each file below a megabyte.

    Recordings need a time and a place (--sites). Nothing is claimed to be complete, and what was heard is named in the
    comments.
    """
    missing = [file["file"] for file in annotations.files if not file.get("recorded") or file.get("latitude") is None]
    if missing:
        raise InputError(
            f"eBird needs the time and the place of every recording, and those of {len(missing)}, such as "
            f"{missing[0]}, are not known; name files by their time and give the places (--sites), or leave ebird out."
        )
    parts, size = [""], 0
    for file, rows in zip(annotations.files, annotations.shown_by_file().values(), strict=True):
        for label, count in Counter(row["label"] for row in rows).items():
            line = ",".join(_plain(cell) for cell in _record(annotations, file, label, count)) + "\n"
            size += len(line.encode())
            if size >= MOST_BYTES:
                parts, size = [*parts, ""], len(line.encode())
            parts[-1] += line
    paths = []
    for number, text in enumerate(parts, 1):
        paths.append(open_folder(folder, f"ebird/records-{number}.csv"))
        with atomic_write(paths[-1], "w") as written:
            written.write(text)
    return paths


def _record(annotations: Annotations, file: Row, label: str, count: int) -> tuple[Any, ...]:
    scientific, common = annotations.names.get(label, ("", label))
    genus, _, species = scientific.partition(" ")
    begin = datetime.fromisoformat(file["recorded"])
    return (
        *(common, genus, species, "X", f"{count} calls found by bagwise", file.get("site", "")),
        *(f"{file['latitude']:.6f}", f"{file['longitude']:.6f}", f"{begin:%m/%d/%Y}", f"{begin:%H:%M}", "", ""),
        *("Stationary", "1", max(1, round(file["seconds"] / 60)), "N", "", "", f"recording {file['file']}"),
    )


def _plain(cell: Any) -> str:
    return _FORBIDDEN.sub(" ", str(cell)).strip()


def read_ebird(path: Path, annotations: Annotations) -> Marks:
    """Records count species of recordings and name no call, so nothing can be read back."""
    raise FormatError(f"{path}: records of eBird name no single call, so they correct none; edit annotations.csv.")
