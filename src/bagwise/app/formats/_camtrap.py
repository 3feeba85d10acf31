"""Camtrap DP, the data package of wildlife monitoring, for sound: deployments, media and observations."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path, PurePosixPath
from typing import Any

from bagwise.app.formats._annotations import Annotations, Row, probability_text, write_json
from bagwise.app.formats._marks import MarkReader, Marks, read_text_table, require_columns
from bagwise.core.exceptions import FormatError, InputError
from bagwise.io.files import defuse, open_folder, undefuse
from bagwise.io.tables import write_csv

VERSION = "1.0.1"
SOURCE = f"https://raw.githubusercontent.com/tdwg/camtrap-dp/{VERSION}/"
TIME = "%Y-%m-%dT%H:%M:%S%z"
TABLES: dict[str, dict[str, str]] = {  # columns and their types; those marked with ! are required
    "deployments": {
        "deploymentID": "string!",
        "locationName": "string",
        "latitude": "number!",
        "longitude": "number!",
        "deploymentStart": "datetime!",
        "deploymentEnd": "datetime!",
    },
    "media": {
        "mediaID": "string!",
        "deploymentID": "string!",
        "captureMethod": "string",
        "timestamp": "datetime!",
        "filePath": "string!",
        "filePublic": "boolean!",
        "fileMediatype": "string!",
    },
    "observations": {
        "observationID": "string!",
        "deploymentID": "string!",
        "mediaID": "string",
        "eventStart": "datetime!",
        "eventEnd": "datetime!",
        "observationLevel": "string!",
        "observationType": "string!",
        "scientificName": "string",
        "classificationMethod": "string",
        "classifiedBy": "string",
        "classificationProbability": "number",
        "observationTags": "string",
    },
}
_TAG = re.compile(r"(start|end|low|high):([0-9.]+)")


def write_camtrap(annotations: Annotations, folder: Path) -> list[Path]:
    """``camtrap-dp/``: a data package, each site a deployment and each recording a medium.

    Recordings need a time with its zone, and a place. Times of events are whole seconds there; the tags of an
    observation hold the exact ones, and the frequencies.
    """
    _check_field(annotations)
    deployments: dict[str, list[Row]] = {}
    for file in annotations.files:
        deployments.setdefault(str(file["site"]), []).append(file)
    rows: dict[str, list[tuple[Any, ...]]] = {name: [] for name in TABLES}
    for site, files in deployments.items():
        ends = min(map(_begin, files)), max(_begin(file) + timedelta(seconds=file["seconds"]) for file in files)
        times = (moment.strftime(TIME) for moment in ends)
        rows["deployments"].append((site, site, files[0]["latitude"], files[0]["longitude"], *times))
    for file, found in zip(annotations.files, annotations.shown_by_file().values(), strict=True):
        name, begin = file["file"], _begin(file)
        kind = f"audio/{PurePosixPath(name).suffix.lower().removeprefix('.') or 'wav'}"
        at = begin.strftime(TIME)
        rows["media"].append((name, file["site"], "timeLapse", at, name, "false", kind))
        for row in found:
            times = ((begin + timedelta(seconds=float(row[key]))).strftime(TIME) for key in ("start", "end"))
            scientific, _ = annotations.names.get(row["label"], (row["label"], ""))
            who = ("human", "") if row.get("checked") else ("machine", annotations.about.get("model", "bagwise"))
            tags = " | ".join(f"{key}:{row[key]:.4f}" for key in ("start", "end", "low", "high"))
            key = f"{row['bag']}#{row['instance']}"
            about = ("media", "animal", scientific, *who, probability_text(row), tags)
            rows["observations"].append((key, file["site"], name, *times, *about))
    paths = []
    for name, columns in TABLES.items():
        paths.append(open_folder(folder, f"camtrap-dp/{name}.csv"))
        write_csv((dict(zip(columns, row, strict=True)) for row in rows[name]), paths[-1], [*columns])
    paths.append(open_folder(folder, "camtrap-dp/datapackage.json"))
    write_json(_package(annotations, deployments), paths[-1])
    return paths


def _check_field(annotations: Annotations) -> None:
    for file in annotations.files:
        if not file.get("recorded") or file.get("latitude") is None or _begin(file).tzinfo is None:
            raise InputError(
                f"Camtrap DP needs the time, its zone and the place of every recording, and {file['file']} lacks one; "
                "name files by their time and give places with time zones (--sites), or leave camtrap-dp out."
            )


def _begin(file: Row) -> datetime:
    return datetime.fromisoformat(file["recorded"])


def _package(annotations: Annotations, deployments: dict[str, Sequence[Row]] | Any) -> dict[str, Any]:
    begins = [_begin(file) for file in annotations.files]
    points = [[files[0]["longitude"], files[0]["latitude"]] for files in deployments.values()]
    scientific = [annotations.names.get(label, (label, ""))[0] for label in annotations.classes]
    return {
        "name": "bagwise",
        "profile": f"{SOURCE}camtrap-dp-profile.json",
        "created": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "contributors": [{"title": "made by bagwise; name the people here", "role": "contributor"}],
        "project": {
            "title": "Recordings annotated by bagwise",
            "samplingDesign": "opportunistic",
            "captureMethod": ["timeLapse"],
            "individualAnimals": False,
            "observationLevel": ["media"],
        },
        "spatial": {"type": "MultiPoint", "coordinates": points},
        "temporal": {"start": f"{min(begins):%Y-%m-%d}", "end": f"{max(begins):%Y-%m-%d}"},
        "taxonomic": [{"scientificName": name} for name in scientific],
        "resources": [_resource(name, columns) for name, columns in TABLES.items()],
    }


def _resource(name: str, columns: dict[str, str]) -> dict[str, Any]:
    fields = [
        {
            "name": column,
            "type": kind.removesuffix("!"),
            **({"format": TIME} if kind.startswith("datetime") else {}),
            "constraints": {"required": kind.endswith("!")},
        }
        for column, kind in columns.items()
    ]
    form = {"format": "csv", "mediatype": "text/csv", "encoding": "utf-8"}
    profile, schema = "tabular-data-resource", {"name": name, "fields": fields, "primaryKey": [next(iter(columns))]}
    return {"name": name, "path": f"{name}.csv", "profile": profile, **form, "schema": schema}


def read_camtrap(path: Path, annotations: Annotations) -> Marks:
    """The folder of the package, or its ``observations.csv``; what is no animal, or is blank, is background."""
    table = read_text_table(path / "observations.csv" if path.is_dir() else path)
    require_columns(table, ("mediaID", "observationType", "scientificName", "observationTags"))
    scientific = {pair[0]: label for label, pair in annotations.names.items()}
    reader, rows = MarkReader(annotations, defuse, undefuse), []
    for source, cells in table.records():
        place = {key: float(value[:20]) for key, value in _TAG.findall(cells["observationTags"])}
        if not {"start", "end"} <= place.keys():
            raise FormatError(f"{source}: observationTags do not say start and end; leave them as they were written.")
        name = undefuse(cells["scientificName"]).strip()
        is_animal = cells["observationType"].strip() == "animal"
        label = (scientific.get(name) or reader.label(cells["scientificName"])) if is_animal else ""
        rows.append({"source": source, "file": reader.file(cells["mediaID"]), **place, "label": label})
    return Marks(rows, reader.files)
