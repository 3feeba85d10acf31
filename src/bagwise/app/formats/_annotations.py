"""What was worked out for every instance of some media: the one form that all writers take."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any

from bagwise.app.media.media_type import MediaType
from bagwise.io.files import atomic_write

FINDINGS = ("label", "probability", "runner_up", "noise", "mode", "bag", "instance")
_BREAKS = re.compile(r"[\t\r\n\v\f\x1c-\x1e\x85\u2028\u2029]+")
Row = Mapping[str, Any]


@dataclass(frozen=True)
class Annotations:
    """Annotated instances of the files of a folder.

    Attributes
    ----------
    media_type : MediaType
    rows : list of dict
        For each instance, or where it carries several labels for each of these, one after the other: its file, its
        place (the media type's `places`; pictures also have polygon and area; bags of a table whatever the table
        brought, in every row the same) and the findings: label ("" where there is none), probability and noise (None
        where the model gives none), runner_up, mode ("transductive" where the labels of the bag were known, else
        "inductive"), bag and instance (number in the bag). A row may say ``checked``: True where a person confirmed or
        corrected it.
    files : list of dict
        The files that were read, in order, those without instances too: file, and seconds, or width and height.
    classes : list of str
    about : dict
        Model name, version and settings.
    folder : path
        Where the files are.
    max_noise : float
        Instances more probably noise than this stand in the long table only.
    extra : tuple of str
        Further columns of the rows that the long table has: ``novel`` (whether it is novel, unlike the training data),
        ``kept`` (whether it is in the set whose precision is calibrated), ``site`` and ``time`` of field recordings,
        ``checked`` and ``by`` after a review.
    unread : list of dict
        The files that could not be read: file, and seconds where they are known, else None.
    names : dict
        Label to scientific and common name.
    served_from : path or None
        The folder from which Label Studio serves files.
    label_sets : bool
        Whether an instance may carry several labels.
    """

    media_type: MediaType
    rows: list[dict[str, Any]]
    files: list[dict[str, Any]]
    classes: list[str]
    about: dict[str, Any] = field(default_factory=dict)
    folder: Path = field(default_factory=Path)
    max_noise: float = 1.0
    extra: tuple[str, ...] = ()
    unread: list[dict[str, Any]] = field(default_factory=list)
    names: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    served_from: Path | None = None
    label_sets: bool = False

    @property
    def columns(self) -> list[str]:
        """The headings of the long table: file and place, or what the table brought, then the findings."""
        own = ("checked", *FINDINGS, *self.extra)
        brought = dict.fromkeys(key for row in self.rows[:1] for key in row if key not in own)
        return [*(("file", *self.media_type.places) if self.media_type.places else brought), *FINDINGS, *self.extra]

    @property
    def n_instances(self) -> int:
        """How many instances there are; one with several labels has a row for each."""
        return len(self.by_instance())

    def by_instance(self) -> list[list[dict[str, Any]]]:
        """The rows of each instance."""
        if not self.label_sets:
            return [[row] for row in self.rows]
        groups = groupby(self.rows, key=lambda row: (row["bag"], row["instance"]))
        return [list(own) for _, own in groups]

    def is_shown(self, row: Row) -> bool:
        """Whether an instance has a label, is not noise and is sure enough, so that it stands in every format."""
        return self.is_named(row) and row.get("kept", True)

    def is_named(self, row: Row) -> bool:
        """Whether an instance has a label and is not noise, be it sure enough or not."""
        return bool(row["label"]) and (row["noise"] or 0.0) <= self.max_noise

    def shown(self) -> list[dict[str, Any]]:
        """The rows that have a label, are not noise and are sure enough."""
        return [row for row in self.rows if self.is_shown(row)]

    def shown_by_file(self) -> dict[str, list[dict[str, Any]]]:
        """The same for each file, also for those that have none."""
        found: dict[str, list[dict[str, Any]]] = {file["file"]: [] for file in self.files}
        for row in self.shown():
            found[row["file"]].append(row)
        return found


def plain_cell(text: str) -> str:
    """A name without tabs and line ends, which would break a row of a tab-separated file."""
    return _BREAKS.sub(" ", text)


def write_json(value: Any, path: Path) -> None:
    """Write indented JSON in UTF-8, names as they are."""
    with atomic_write(path, "w") as file:
        file.write(json.dumps(value, ensure_ascii=False, indent=1, allow_nan=False) + "\n")


def probability_text(row: Row) -> str:
    return "" if row["probability"] is None else f"{row['probability']:.4f}"
