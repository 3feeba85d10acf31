"""What was worked out for every instance of some media: the one form that all writers take."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from bagwise.io.annotations.label_studio_facts import LabelStudio
from bagwise.io.files import atomic_write

FINDINGS = ("label", "probability", "runner_up", "noise", "mode", "bag", "instance")
_BREAKS = re.compile(r"[\t\r\n\v\f\x1c-\x1e\x85\u2028\u2029]+")


class MediumFacts(Protocol):
    """What the writers and readers ask of a medium; `bagwise.featurize.medium.Medium` has it all."""

    @property
    def name(self) -> str: ...
    @property
    def places(self) -> tuple[str, ...]: ...
    @property
    def whole(self) -> bool: ...
    @property
    def formats(self) -> tuple[str, ...]: ...
    @property
    def label_studio(self) -> LabelStudio | None: ...


MediumT_co = TypeVar("MediumT_co", bound=MediumFacts, covariant=True)


@dataclass(frozen=True)
class Annotations(Generic[MediumT_co]):
    """Annotated instances of the files of a folder.

    Attributes
    ----------
    medium : Medium
    rows : list of dict
        For each instance its file, its place (the medium's `places`; pictures also have polygon and area; bags of a
        table whatever the table brought, in every row the same) and the findings: label ("" where there is none),
        probability and noise (None where the model gives none), runner_up, mode ("transductive" where the labels of the
        bag were known, else "inductive"), bag and instance (number in the bag). A row may say ``checked``: True where a
        person confirmed or corrected it.
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
        Further columns of the rows that the long table has: ``unlike`` (whether it is unlike anything in training),
        ``kept`` (whether it is in the set of which a precision is promised), ``site`` and ``time`` of field recordings,
        ``checked`` and ``by`` after a review.
    unread : list of dict
        The files that could not be read: file, and seconds where they are known, else None.
    names : dict
        Label to scientific and common name.
    served_from : path or None
        The folder from which Label Studio serves files.
    """

    medium: MediumT_co
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

    @property
    def columns(self) -> list[str]:
        """The headings of the long table: file and place, or what the table brought, then the findings."""
        own = ("checked", *FINDINGS, *self.extra)
        brought = dict.fromkeys(key for row in self.rows[:1] for key in row if key not in own)
        return [*(("file", *self.medium.places) if self.medium.places else brought), *FINDINGS, *self.extra]

    def is_shown(self, row: Mapping[str, Any]) -> bool:
        """Whether an instance has a label, is not noise and is sure enough, so that it stands in every format."""
        return self.is_named(row) and row.get("kept", True)

    def is_named(self, row: Mapping[str, Any]) -> bool:
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


def open_folder(folder: Path, *parts: str) -> Path:
    """The path of a file in a folder that is made first."""
    path = folder.joinpath(*parts)
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def write_json(value: Any, path: Path) -> None:
    """Write indented JSON in UTF-8, names as they are."""
    with atomic_write(path, "w") as file:
        file.write(json.dumps(value, ensure_ascii=False, indent=1, allow_nan=False) + "\n")


def write_json_list(values: Iterable[Any], path: Path) -> None:
    """A list as JSON in UTF-8, value by value, so that all of them need not be in memory at once; a value is a line,
    since Python takes ten times as long to indent one."""
    with atomic_write(path, "w") as file:
        file.write("[")
        between = "\n "
        for value in values:
            file.write(between + json.dumps(value, ensure_ascii=False, allow_nan=False))
            between = ",\n "
        file.write("]\n" if between == "\n " else "\n]\n")


def write_tabbed(rows: Sequence[Mapping[str, Any]], headings: Sequence[str], path: Path) -> None:
    """Write a tab-separated table as Raven reads it: no quotes, so no cell may hold a tab or a line end."""
    with atomic_write(path, "w") as file:
        file.write("\t".join(headings) + "\n")
        for row in rows:
            file.write("\t".join(plain_cell(str(row[heading])) for heading in headings) + "\n")


def probability_text(row: Mapping[str, Any]) -> str:
    return "" if row["probability"] is None else f"{row['probability']:.4f}"
