"""Selections of Raven and results of BirdNET as labels: those of a file's selections, and instances that are known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from bagwise.app.formats import Annotations, Mark, instances_inside, read_marks, selections_format
from bagwise.app.media.files import FileBags
from bagwise.app.media.media_type import MediaType
from bagwise.core.dataset import BagDataset, rows_of
from bagwise.core.exceptions import FormatError, InputError
from bagwise.io.labels import LabelTable, fold_labels, remarks_about

MIN_CONFIDENCE = 0.5
MEDIA_TYPE = "audio"
NOTHING = "nocall"  # what BirdNET calls a recording in which it heard nothing
TOOLS = {"raven": "selections of Raven", "birdnet": "results of BirdNET", "csv": "events in a table"}


@dataclass(frozen=True)
class Selections:
    """Where labels are given by selections, and which of them count.

    Attributes
    ----------
    path : path
        A table, or a folder of tables.
    format : {"raven", "birdnet", "csv"}
    min_confidence : float
        The least confidence of a detection that counts; selections without one always count.
    fold_case : bool
        Whether labels that differ in case or blanks only are one.
    """

    path: Path
    format: str
    min_confidence: float = MIN_CONFIDENCE
    fold_case: bool = False

    @property
    def in_words(self) -> str:
        return TOOLS[self.format]


def find_selections(path: Path, min_confidence: float, fold_case: bool) -> Selections | None:
    """What `path` tells as selections; None where it is a table of labels."""
    if not 0 <= min_confidence <= 1:
        raise InputError(f"The least confidence is {min_confidence}; expected a number from 0 to 1 (--min-confidence).")
    name = selections_format(path)
    return None if name is None else Selections(path, name, min_confidence, fold_case)


def read_selections(
    given: Selections, media_type: MediaType, folder: Path, bags: Mapping[str, FileBags]
) -> tuple[LabelTable, list[Mark]]:
    """The labels of each file, which are those of its selections, and the selections that count.

    A person who made an empty table of a recording heard nothing in it. A machine may have missed what is there, so
    files of which no detection counts are files without labels.
    """
    files = [{"file": name, **file.info} for name, file in bags.items()]
    marks = read_marks(
        given.path,
        Annotations(media_type=media_type, rows=[], files=files, classes=[], folder=folder),
        given.format,
    )
    detected = [mark for mark in marks.rows if "confidence" in mark]
    used = [mark for mark in marks.rows if mark["label"] and _counts(mark, given.min_confidence)]
    if not used:
        raise FormatError(
            f"{given.path}: none of its {len(detected)} detections has a confidence of {given.min_confidence:g} or "
            "more; lower --min-confidence."
            if detected
            else f"{given.path}: no selection in it has a label; write one into the column Annotation of each."
        )
    if given.fold_case:
        spelled = fold_labels([[mark["label"]] for mark in used])
        used = [{**mark, "label": label} for mark, (label,) in zip(used, spelled, strict=True)]
    places: dict[str, str] = {}
    labels: dict[str, dict[str, None]] = {}
    for mark in used:
        places.setdefault(mark["file"], mark["source"])
        labels.setdefault(mark["file"], {})[mark["label"]] = None
    if not detected:
        for name in sorted(marks.covered & bags.keys() - labels.keys()):
            places[name], labels[name] = f"{given.path}: the empty table of {name!r}", {}
    sets = [list(own) for own in labels.values()]
    problems = [("labels", f"{given.path}: {problem}") for problem in remarks_about(sets)]
    unnamed = [mark for mark in marks.rows if not mark["label"]]
    if unnamed:
        text = f"{len(unnamed)} selection(s) have no label and are not used; write one, or remove them."
        problems.append(("labels", f"{unnamed[0]['source']}: {text}"))
    form = f"{given.in_words}: {len(used)}"
    if detected:
        form += f" of {len(marks.rows)} detections, those with a confidence of {given.min_confidence:g} or more"
    table = LabelTable(
        names=list(labels),
        label_sets=sets,
        rows=[],
        form=form,
        problems=problems,
        path=str(given.path),
        class_names=sorted({label for own in sets for label in own}),
        places=list(places.values()),
    )
    return table, used


def _counts(mark: Mark, least: float) -> bool:
    """Whether a selection is one of a person, or a detection that is sure enough."""
    return "confidence" not in mark or (mark["confidence"] >= least and mark["label"] != NOTHING)


def known_by_selections(marks: list[Mark], dataset: BagDataset) -> tuple[list[tuple[str, int, str]], str]:
    """The instances that lie in selections, with bag, number and label; and what is to be said of that.

    A selection with frequencies says what the sounds in it are. A detection by a machine, or a selection of time
    alone, says that the label is somewhere in it: only an instance that fills it is known.
    """
    assert dataset.locations is not None
    placed = [mark if "confidence" not in mark else _without_band(mark) for mark in marks]
    inside = instances_inside(rows_of(dataset.locations), placed)
    bag_of, position = dataset.bags.bag_index, dataset.positions
    known = [
        (dataset.bag_names[bag_of[i]], int(position[i]), next(iter(labels)))
        for i, labels in sorted(inside.items())
        if len(labels) == 1
    ]
    text = f"{len(known)} syllables known by them"
    ambiguous = len(inside) - len(known)
    return known, text + (f", {ambiguous} in selections of different labels" if ambiguous else "")


def _without_band(mark: Mark) -> Mark:
    return {key: value for key, value in mark.items() if key not in ("low", "high")}
