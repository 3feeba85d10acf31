"""Spreadsheets (.xlsx) as rows of text: values, never formulas; a cell that cannot be used is reported with its row."""

from __future__ import annotations

import datetime
import re
import warnings
import zipfile
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import Any

from bagwise.core.checks import check_allocation
from bagwise.core.exceptions import FormatError
from bagwise.io.files import damaged, defuse

Cells = dict[tuple[int, int], Any]
"""Cells that hold anything, by row and column."""
Table = tuple[list[list[str]], list[int], str, dict[tuple[int, int], str]]
"""Rows, their lines, where they are from, and flaws of cells by row and column."""

_KIND = "spreadsheet", "save it again, or as CSV"
_MOST_ROWS = 1_048_576  # of any spreadsheet
_WORKBOOK = "xl/workbook.xml"
OLD_OFFICE = b"\xd0\xcf\x11\xe0"  # .xls, and .xlsx with a password
_SIZE_PER_BYTE = 50  # openpyxl's cells, besides the XML that they are read from
_ZEROS = re.compile(r"0+")  # the format of numbers that are written with leading zeros


def is_spreadsheet(path: Path) -> bool:
    """Whether a zip, or a file of an old office program, is a spreadsheet; one of another office's kind is refused."""
    with path.open("rb") as file:
        if file.read(4) == OLD_OFFICE:
            raise FormatError(
                f"{path}: it is a spreadsheet of the old kind (.xls) or has a password; save it as .xlsx without one, "
                "or as CSV in UTF-8."
            )
    with damaged(path, *_KIND), zipfile.ZipFile(path) as archive:
        names = archive.namelist()
    if "content.xml" in names:
        raise FormatError(f"{path}: it is an OpenDocument spreadsheet (.ods); save it as .xlsx, or as CSV in UTF-8.")
    return _WORKBOOK in names


def read_sheet(path: Path, sheet: str | None = None) -> Table:
    """The cells of a sheet as text, rows and columns that are blank left out, as parts of a `TextTable`.

    A value that is merged over several rows counts for each of them. Numbers keep the zeros that their format puts in
    front. Cells that hold no value that could be a name or a label are named with what is wrong with them.

    Parameters
    ----------
    path : path
    sheet : str or None
        Its name; None takes the one that holds a table, and is an error where several do.
    """
    openpyxl = _import_openpyxl()
    with damaged(path, *_KIND), zipfile.ZipFile(path) as archive:
        size = sum(member.file_size for member in archive.infolist())
    check_allocation(_SIZE_PER_BYTE * size, f"{path} read as a spreadsheet", "save the sheet of labels alone, as CSV")
    with ExitStack() as stack, damaged(path, *_KIND), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of styles and checks of input that are not kept
        # read_only looks at cells as they come; else a merged area is filled with cells, however large it claims to be
        books = [openpyxl.load_workbook(path, read_only=True, data_only=v, keep_links=False) for v in (False, True)]
        for book in books:
            stack.callback(book.close)
        cells = {page.title: _cells(page) for page in books[1].worksheets}
        formulas = {page.title: _cells(page) for page in books[0].worksheets}
        name = _choose(formulas, path, sheet)
        return _as_text(name, formulas[name], cells[name], _merged(books[0][name]), path)


def _import_openpyxl() -> Any:
    try:
        import openpyxl
    except ImportError as error:
        raise ImportError(
            f"Reading spreadsheets needs openpyxl, which is not there ({error}); pip install 'bagwise[xlsx]', or save "
            "the table as CSV."
        ) from error
    return openpyxl


def _cells(page: Any) -> Cells:
    """The cells of a sheet that hold anything, by row and column."""
    page.reset_dimensions()  # what the file claims of its size; else each row is filled up to that
    rows = islice(page.iter_rows(), _MOST_ROWS)  # those between the ones that are there come too, however many
    return {(cell.row, cell.column): cell for row in rows for cell in row if cell.value is not None}


def _merged(page: Any) -> list[tuple[int, int, int, int]]:
    """First column and row, last column and row of the areas that are merged."""
    from defusedxml.ElementTree import iterparse
    from openpyxl.utils.cell import range_boundaries

    with page.parent._archive.open(page._worksheet_path) as file:
        found = (element for _, element in iterparse(file) if element.tag.rpartition("}")[2] == "mergeCell")
        return [range_boundaries(element.get("ref")) for element in found]


def _choose(sheets: dict[str, Cells], path: Any, sheet: str | None) -> str:
    """The name of the sheet to read."""
    if sheet is not None:
        if sheet not in sheets:
            raise FormatError(f"{path}: there is no sheet {sheet!r}; its sheets are {', '.join(map(repr, sheets))}.")
        return sheet
    sizes = {name: min(len({key[axis] for key in cells}) for axis in (0, 1)) for name, cells in sheets.items()}
    tables = [name for name, size in sizes.items() if size >= 2]
    if len(tables) > 1:
        raise FormatError(
            f"{path}: the sheets {', '.join(map(repr, tables))} hold a table each; name the one to use (--sheet "
            f"{tables[0]!r})."
        )
    filled = [name for name, size in sizes.items() if size]
    if not filled:
        raise FormatError(f"{path} is empty: all of its cells are blank.")
    return tables[0] if tables else filled[0]


def _as_text(name: str, written: Cells, worked_out: Cells, merged: list[tuple[int, int, int, int]], path: Any) -> Table:
    """The cells of a sheet, of which `written` are those with formulas and `worked_out` those with values."""
    shown: Cells = {place: worked_out.get(place, cell) for place, cell in written.items()}
    origin = {place: place for place in shown}
    last = max((row for row, _ in shown), default=0)
    for left, top, right, bottom in merged:
        if right > left:
            raise FormatError(
                f"{path}, row {top}: cells of this row are merged over several columns ({left} to {right}), so it is "
                "not clear which of them is meant; unmerge them, or remove a title above the table."
            )
        if (top, left) in shown:
            origin |= {(row, left): (top, left) for row in range(top, min(bottom, last) + 1)}
    texts: dict[int, dict[int, str]] = {}
    flaws: dict[tuple[int, int], str] = {}
    for (row, column), first in origin.items():
        text, flaw = _cell(shown[first], first not in worked_out)
        if flaw:
            flaws[row, column] = f"the cell {shown[first].coordinate} holds {flaw}"
        if text:
            texts.setdefault(row, {})[column] = text
    if not texts:
        raise FormatError(f"{path} is empty: all cells of the sheet {name!r} are blank.")
    lines, columns = sorted(texts), sorted({column for cells in texts.values() for column in cells})
    row_of, column_of = ({key: i for i, key in enumerate(keys)} for keys in (lines, columns))
    return (
        [[texts[line].get(column, "") for column in columns] for line in lines],
        lines,
        f"from the sheet {name!r}",
        {(row_of[line], column_of[column]): flaw for (line, column), flaw in flaws.items()},
    )


def _cell(cell: Any, is_formula: bool) -> tuple[str, str]:
    """The text of a cell, and what is wrong with it."""
    value = cell.value
    if is_formula:
        text = str(getattr(value, "text", value))  # of a formula for several cells
        return text, f"a formula that was never worked out ({text[:60]!r}); open and save it in a spreadsheet program"
    if cell.data_type == "e":
        return str(value), f"the error {value}; write what is meant"
    if isinstance(value, bool):
        return str(int(value)), ""
    if isinstance(value, (datetime.date, datetime.time, datetime.timedelta)):
        return str(value), f"a date or time ({value}); write it as text, with an apostrophe in front"
    if isinstance(value, (int, float)):
        return _number(value, str(cell.number_format)), ""
    return defuse(str(value).strip()), ""


def _number(value: float, number_format: str) -> str:
    if float(value).is_integer():
        width = len(number_format) if _ZEROS.fullmatch(number_format) else 0
        return defuse(str(int(value)).zfill(width))
    return defuse(repr(value))
