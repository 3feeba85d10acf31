"""Which instances are shown one by one: of each label the most typical and the most doubtful, and the least sure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bagwise.exceptions import InputError
from bagwise.featurize.medium import Medium
from bagwise.featurize.pictures import CloseUp
from bagwise.io.annotations import Annotations
from bagwise.report.typical import CANDIDATES, Features, choose_typical, draw_features

MOST = 320  # instances in all galleries together
MOST_OF_A_KIND = 6  # the most typical of a label, and the most doubtful
MOST_SOUND = 8_000_000  # bytes of all sounds of a page together

Row = dict[str, Any]
Key = tuple[Any, int]


def key_of(row: Row) -> Key:
    """Bag and instance, which name a row of annotations."""
    return row["bag"], row["instance"]


def choose_gallery(
    rows: Sequence[Row], classes: Sequence[str], features: Features | None = None
) -> list[dict[str, Any]]:
    """For each label that any row carries its name, number, most typical rows and most doubtful rows.

    Typical is what `choose_typical` says; the surest, where the features are not known. Of equally sure ones those of
    different files come first. Where the labels are too many, each shows fewer, and the last ones none. Without
    probabilities none is doubtful.
    """
    by_label: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        by_label[row["label"]].append(row)
    names = [name for name in classes if by_label[name]]
    n = min(MOST_OF_A_KIND, max(1, MOST // (2 * max(len(names), 1))))
    left, found = MOST, []
    for name in names:
        ranked = _ranked(by_label[name])
        sure = [row for row in ranked if row["probability"] is not None]
        most = min(n, left)
        typical = ranked[:most] if features is None or not most else choose_typical(ranked, features, most)
        shown = {key_of(row) for row in typical}
        doubtful = [row for row in reversed(sure) if key_of(row) not in shown][: min(n, left - len(typical))]
        left -= len(typical) + len(doubtful)
        found.append({"label": name, "instances": len(ranked), "typical": typical, "doubtful": doubtful})
    return found


def _ranked(rows: Iterable[Row]) -> list[Row]:
    """The surest first; of those that are as sure to the hundredth, the first of each file."""
    ordered = sorted(rows, key=lambda row: (-(row["probability"] or 0.0), str(row.get("file")), str(row["bag"])))
    seen: Counter[str] = Counter()
    keyed = []
    for i, row in enumerate(ordered):
        name = str(row.get("file"))
        keyed.append(((-round(row["probability"] or 0.0, 2), seen[name], i), row))
        seen[name] += 1
    return [row for _, row in sorted(keyed, key=lambda pair: pair[0])]


@dataclass
class Sounds:
    """The sounds of a page, which lie in a folder beside it and are loaded when they are played.

    Attributes
    ----------
    folder : str
        Name of the folder.
    files : dict
        Name in the folder to content.
    left : int
        Bytes that may still be added.
    """

    folder: str
    files: dict[str, bytes] = field(default_factory=dict)
    left: int = MOST_SOUND

    def add(self, content: bytes) -> str:
        """Take a sound if there is room; gives its address, "" if there is none."""
        if len(content) > self.left:
            return ""
        name = f"{len(self.files) + 1:03d}.flac"
        self.files[name] = content
        self.left -= len(content)
        return f"{self.folder}/{name}"


@dataclass(frozen=True)
class Shown:
    """One instance by itself: what is seen of it, and the address of what is heard, "" where there is none."""

    close_up: CloseUp
    sound: str = ""


def close_ups(
    annotations: Annotations[Medium], rows: Sequence[Row], sounds: Sounds, step: Callable[[int, int], None],
    features: Features | None = None,
) -> dict[Key, Shown]:  # fmt: skip
    """What is seen and heard of each row of annotations (`show_rows`); where there is nothing to see, the features."""
    medium = annotations.medium
    if medium.close_ups is None:
        return {} if features is None else _profiles(annotations, rows, features)
    seconds = {file["file"]: file.get("seconds", 0.0) for file in annotations.files}
    settings = medium.make_settings(annotations.about["settings"])
    return show_rows(MediaFiles(medium, settings, annotations.folder, seconds), rows, sounds, step)


@dataclass(frozen=True)
class MediaFiles:
    """Files of a medium in a folder, how they were read, and how long each is where files have a length in time."""

    medium: Medium
    settings: Any
    folder: Path
    seconds: Mapping[str, float]


def show_rows(
    files: MediaFiles,
    rows: Sequence[Row],
    sounds: Sounds,
    step: Callable[[int, int], None] = lambda done, total: None,
) -> dict[Key, Shown]:
    """What is seen and heard of each row; rows of files that are gone or cannot be read any more are left out.

    Parameters
    ----------
    files : MediaFiles
    rows : bag, instance, file and the places of the medium
    sounds : takes what is heard
    step : called with the files done and their number
    """
    medium = files.medium
    if medium.close_ups is None:
        return {}
    groups: dict[str, dict[Key, Row]] = defaultdict(dict)
    for row in rows:
        groups[row["file"]][key_of(row)] = row
    pictures: dict[Key, CloseUp] = {}
    clips: dict[Key, bytes] = {}
    for i, (name, members) in enumerate(groups.items()):
        step(i, len(groups))
        path = files.folder / name
        try:
            pictures |= zip(members, medium.close_ups(path, list(members.values()), files.settings), strict=True)
            if medium.cut_sound is not None and medium.close_up_span is not None:
                for key, row in members.items():
                    clips[key] = medium.cut_sound(path, *medium.close_up_span(row, files.seconds[name]), files.settings)
        except (OSError, InputError, StopIteration):  # gone, changed or cut off since it was annotated
            continue
    step(len(groups), len(groups))
    ordered = dict.fromkeys(key_of(row) for row in rows)
    return {
        key: Shown(pictures[key], sounds.add(clips[key]) if key in clips else "") for key in ordered if key in pictures
    }


def _profiles(annotations: Annotations[Medium], rows: Sequence[Row], features: Features) -> dict[Key, Shown]:
    """The features of each row beside those of its label."""
    by_label: dict[str, list[Row]] = defaultdict(list)
    for row in annotations.shown():
        by_label[row["label"]].append(row)
    wanted = {row["label"] for row in rows}
    mean = {label: features.of(by_label[label][:CANDIDATES]).mean(axis=0) for label in wanted}
    return {key_of(row): Shown(draw_features(features.of([row])[0], mean[row["label"]])) for row in rows}


def write_sounds(sounds: Sounds, page: Path) -> list[Path]:
    """Write the sounds beside the page; gives their paths."""
    from bagwise.io.annotations.annotations import open_folder
    from bagwise.io.files import atomic_write

    paths = []
    for name, content in sounds.files.items():
        path = open_folder(page.parent, sounds.folder, name)
        with atomic_write(path) as file:
            file.write(content)
        paths.append(path)
    return paths
