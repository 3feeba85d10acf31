"""The annotations after a review, in all formats, with the reviewer of each instance."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from bagwise.app.formats import Annotations, write_formats
from bagwise.app.media.files import Problem
from bagwise.app.runs.corrections import CONFIRMED, LABEL, NOISE
from bagwise.core.exceptions import InputError
from bagwise.io.files import inside, open_folder
from bagwise.io.tables import write_csv

FOLDER = "export"
CONFIRMED_TABLE = "confirmed.csv"


def with_reviewers(annotations: Annotations, corrections: Iterable[Mapping[str, Any]]) -> Annotations:
    """The annotations with columns ``checked`` and ``by`` in the long tables."""
    by: dict[tuple[str, int], str] = {}
    for correction in corrections:
        if correction["action"] in (CONFIRMED, LABEL, NOISE):
            by[correction["bag"], correction["instance"]] = correction["by"]
    rows = [row | {"by": by.get((row["bag"], row["instance"]), "")} for row in annotations.rows]
    return replace(annotations, rows=rows, extra=(*annotations.extra, "checked", "by"))


def write_export(
    annotations: Annotations, run: Path, formats: Iterable[str], confirmed_only: bool
) -> tuple[list[Path], list[Problem]]:
    """Write the formats and the table of what a person confirmed or corrected to the folder ``export`` of the run.

    Gives the files, and what went wrong.
    """
    confirmed = replace(annotations, rows=[row for row in annotations.rows if row["checked"]])
    folder = inside(run, FOLDER)
    folder.mkdir(exist_ok=True)
    outputs: list[Path] = []
    problems: list[Problem] = []
    for name in formats:
        try:
            outputs += write_formats(confirmed if confirmed_only else annotations, folder, [name])
        except (OSError, InputError, ImportError) as error:
            problems.append((name, f"{name} was not written: {error}"))
    outputs.append(open_folder(folder, CONFIRMED_TABLE))
    write_csv(confirmed.rows, outputs[-1], confirmed.columns)
    return outputs, problems
