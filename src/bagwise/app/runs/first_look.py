"""What can be seen of a mistake in folder and table before what reads and learns is imported, which takes seconds."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from bagwise.core.exceptions import FormatError, InputError
from bagwise.io.labels import LabelTable, read_labels
from bagwise.io.tables import read_headings

N_LOOKED_AT = 100_000  # files of a folder; looking at more takes longer than what it saves
PLAIN = (".wav", ".flac", ".mp3", ".ogg", ".jpg", ".jpeg", ".png", ".tif", ".tiff")  # files whose pieces have no names
TEXTS = (".csv", ".tsv")  # other tables may be those of other tools


def look_first(
    source: Path, labels: Path | None, columns: tuple[str, str] | None, separator: str | None, *, has_model: bool
) -> None:
    """Raise the error that reading the table of labels, or matching it with the files, is going to raise.

    Only what is certain: tables in which events could be marked, and files of bags, are left to those who read them.
    """
    if labels is None and source.is_dir() and not has_model:
        raise InputError("There is nothing to learn from: give labels (--labels), or a trained model (--model).")
    names = _names(source) if source.is_dir() else None
    if names == []:
        raise InputError(f"There is no file in {source}; give the folder that holds the media.")
    table = None if labels is None or labels.is_dir() else _table(labels, columns, separator)
    if table is None or names is None or any("@" in name for name in table.names):
        return
    if any(Path(name).suffix.lower() not in PLAIN and source / name != labels for name in names):
        return
    from bagwise.app.labels.tables import check_names

    check_names(table, names, source)


def _table(path: Path, columns: tuple[str, str] | None, separator: str | None) -> LabelTable | None:
    """The table of labels; None where others have to find out what it is."""
    if path.suffix.lower() not in TEXTS:
        return None
    with suppress(FormatError):  # said in full by whoever reads it
        headings = [heading.strip().casefold() for heading in read_headings(path)]
        if (
            columns is None
            and len(headings) != 2
            and any("start" in heading or "begin" in heading for heading in headings)
        ):
            return None
    name, label = columns or (None, None)
    return read_labels(path, name=name, label=label, list_mark=separator, repeats="join")


def _names(folder: Path) -> Sequence[str] | None:
    """Names of the files of a folder, relative to it; None where there are too many."""
    found: list[str] = []
    for place, below, names in os.walk(folder):
        below[:] = [name for name in below if not name.startswith(".")]
        here = Path(place).relative_to(folder)
        found += [(here / name).as_posix() for name in names if not name.startswith(".")]
        if len(found) > N_LOOKED_AT:
            return None
    return sorted(found)
