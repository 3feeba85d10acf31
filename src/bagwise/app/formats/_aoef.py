"""The JSON of whombat and soundevent (AOEF): recordings, their clips, boxes of sound events, and tags."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

from bagwise.app.formats._annotations import Annotations, write_json
from bagwise.app.formats._marks import Mark, MarkReader, Marks, read_json, read_number
from bagwise.core.exceptions import FormatError
from bagwise.io.files import open_folder

VERSION = "1.1.0"
KEY = "label"  # of the tags
INTERVAL, BOX = "TimeInterval", "BoundingBox"
_OURS = uuid.UUID("6f1f3b06-8e4f-4c2e-9d5a-3a4c7d1e2b90")  # from which the identifiers of one run follow


def write_aoef(annotations: Annotations, folder: Path) -> list[Path]:
    """``aoef.json``: an annotation set that whombat imports; what a person has not confirmed counts as well."""
    path, tags = open_folder(folder, "aoef.json"), {name: i for i, name in enumerate(annotations.classes)}

    def name(*parts: Any) -> str:
        return str(uuid.uuid5(_OURS, "\n".join(map(str, parts))))

    recordings, clips, events, marks, sets = [], [], [], [], []
    for file, rows in zip(annotations.files, annotations.shown_by_file().values(), strict=True):
        recording, clip = name("recording", file["file"]), name("clip", file["file"])
        about = {"path": file["file"], "duration": file["seconds"], "channels": file.get("channels", 1)}
        recordings.append({"uuid": recording, **about, "samplerate": file["rate"]})
        clips.append({"uuid": clip, "recording": recording, "start_time": 0.0, "end_time": file["seconds"]})
        own = []
        for row in rows:
            key = row["bag"], row["instance"]
            place = {"type": BOX, "coordinates": [row["start"], row["low"], row["end"], row["high"]]}
            events.append({"uuid": name("event", *key), "recording": recording, "geometry": place})
            own.append(name("mark", *key))
            marks.append({"uuid": own[-1], "sound_event": events[-1]["uuid"], "tags": [tags[row["label"]]]})
        sets.append({"uuid": name("set", file["file"]), "clip": clip, "sound_events": own})
    data = {
        "uuid": name("all", *(file["file"] for file in annotations.files)),
        "collection_type": "annotation_set",
        "name": "bagwise",
        "description": f"{annotations.about.get('model', '')}, bagwise {annotations.about.get('version', '')}",
        "tags": [{"id": i, "key": KEY, "value": label} for label, i in tags.items()],
        "recordings": recordings,
        "clips": clips,
        "sound_events": events,
        "sound_event_annotations": marks,
        "clip_annotations": sets,
    }
    write_json({"version": VERSION, "data": data}, path)
    return [path]


def read_aoef(path: Path, annotations: Annotations) -> Marks:
    """An annotation set or project; of several tags the first with a label of the run counts, else the first."""
    document, reader = read_json(path), MarkReader(annotations)
    try:
        data = document["data"]
        files = {one["uuid"]: reader.file(one["path"]) for one in data["recordings"]}
        events = {one["uuid"]: one for one in data.get("sound_events") or ()}
        tags = {one["id"]: str(one["value"]) for one in data.get("tags") or ()}
        clips = {one["uuid"]: files[one["recording"]] for one in data.get("clips") or ()}
        rows: list[Mark] = []
        for i, mark in enumerate(data.get("sound_event_annotations") or (), 1):
            event, source = events[mark["sound_event"]], f"{path}, annotation {i}"
            given = [reader.label(tags[tag]) for tag in mark.get("tags") or ()]
            label = next((name for name in given if name in annotations.classes), given[0] if given else "")
            place = _place(event["geometry"], source)
            rows.append({"source": source, "file": files[event["recording"]], **place, "label": label})
        covered = {clips[one["clip"]] for one in data.get("clip_annotations") or ()}
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise FormatError(
            f"{path}: expected an annotation set of AOEF, with recordings, sound_events and sound_event_annotations "
            f"({error!r}); export it from whombat again."
        ) from error
    return Marks(rows, frozenset(covered))


def _place(geometry: Any, source: str) -> dict[str, float]:
    keys = {INTERVAL: ("start", "end"), BOX: ("start", "low", "end", "high")}.get(geometry["type"])
    if keys is None:
        raise FormatError(f"{source}: a {geometry['type']!s:.40} has no box; draw it as a {INTERVAL} or {BOX}.")
    return {key: read_number(value, key, source) for key, value in zip(keys, geometry["coordinates"], strict=True)}
