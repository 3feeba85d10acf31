"""Names of species by label: what tables of other tools have columns for."""

from __future__ import annotations

import os

from bagwise.core.exceptions import FormatError
from bagwise.io.files import undefuse
from bagwise.io.tables import first_repeated, read_rows

HEADINGS = {
    "scientific": ("scientific name", "scientific", "scientific_name", "latin", "latin name"),
    "common": ("common name", "common", "common_name", "english name"),
    "label": ("label", "code", "species", "name"),
}
_FORMS = (
    "a heading with the columns scientific name and label or common name, or lines as BirdNET's lists of species have "
    "them (Turdus merula_Eurasian Blackbird)"
)


def read_names(path: str | os.PathLike[str], sheet: str | None = None) -> dict[str, tuple[str, str]]:
    """Label to scientific and common name, from a table (CSV, .xlsx or parquet) or a list of species of BirdNET.

    The table has a column of scientific names, and one of labels, of common names, or both; where one of these is
    missing, the other stands for it.
    """
    table = read_rows(path, sheet=sheet)
    if all(len(row) == 1 or "_" in row[0] for row in table.rows) and "_" in table.rows[-1][0]:
        pairs = [",".join(row).partition("_") for row in table.rows]
        found = [(line, common, name, common) for line, (name, _, common) in zip(table.lines, pairs, strict=True)]
    else:
        folded = [cell.casefold() for cell in table.rows[0]]
        column = {key: next((folded.index(h) for h in known if h in folded), None) for key, known in HEADINGS.items()}
        label = column["common"] if column["label"] is None else column["label"]
        common = column["label"] if column["common"] is None else column["common"]
        scientific = column["scientific"]
        if label is None or common is None or scientific is None:
            listed = ", ".join(map(repr, table.rows[0]))
            raise FormatError(f"{path}, row {table.lines[0]}: the columns are {listed}; expected {_FORMS}.")
        table.check_widths()
        found = [
            (line, undefuse(row[label]), undefuse(row[scientific]), undefuse(row[common] or row[label]))
            for line, row in zip(table.lines[1:], table.rows[1:], strict=True)
            if row[label] and row[scientific]
        ]
    for position, what in ((1, "label"), (3, "common name")):
        twice = first_repeated(row[position] for row in found)
        if twice is not None:
            line = [row[0] for row in found if row[position] == twice][1]
            raise FormatError(f"{path}, row {line}: the {what} {twice!r} stands there a second time; remove one row.")
    if not found:
        raise FormatError(f"{path}: it names no species; expected {_FORMS}.")
    return {label: (name, common) for _, label, name, common in found}
