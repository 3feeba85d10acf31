"""Bag labels from a table that people keep: rows of file and label, one cell a;b;c, or a column for each label."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from bagwise.core.checks import check_choice
from bagwise.core.evidence import Absent, OneOf, Possible
from bagwise.core.exceptions import FormatError, InputError
from bagwise.io.files import PathLike, undefuse
from bagwise.io.tables import TextTable, first_repeated, read_rows

POSSIBLE, ABSENT, CONFIDENCE = ("possible", "also"), ("absent",), ("confidence",)
OBSERVER = "observer"
_UNSURE = re.compile(r"(?P<name>.*[^\\\s])\s*\?\s*(?P<number>[-+.0-9eE]+\s*%?)?", re.DOTALL)
_ESCAPED = re.compile(r"\\([?!|])")
_BAR = re.compile(r"(?<!\\)\|")


@dataclass(frozen=True)
class Confident:
    """A label that somebody is so sure of."""

    label: str
    confidence: float


Mark = Possible | Absent | OneOf | Confident


def parse_mark(text: str) -> str | Mark:
    """What one entry of a cell says; a plain name where it says no more than a list does.

    Examples
    --------
    >>> from bagwise.io.labels import parse_mark
    >>> [parse_mark(text) for text in ("wren", "robin?", "!crow", "a|b")]
    ['wren', Possible(label='robin'), Absent(label='crow'), OneOf('a', 'b')]
    >>> parse_mark("tit?70%")
    Confident(label='tit', confidence=0.7)
    """
    if _BAR.search(text):
        names = [_plain(part) for part in _BAR.split(text) if part.strip()]
        if len({*names}) < 2:
            raise FormatError(
                f"{text!r} is a group of {len({*names})} label(s); name two or more (a|b), or write the label alone"
            )
        return OneOf(*names)
    if text.startswith("!") and text[1:].strip():
        return Absent(_plain(text[1:]))
    unsure = _UNSURE.fullmatch(text)
    if unsure is None:
        return _plain(text)
    name, number = _plain(unsure["name"]), unsure["number"]
    if number is None:
        return Possible(name)
    sure = _share(number)
    return name if sure == 1.0 else Absent(name) if sure == 0.0 else Confident(name, sure)


def _plain(name: str) -> str:
    return _ESCAPED.sub(r"\1", name.strip())


def _share(text: str) -> float:
    """A confidence, as a share or in percent."""
    is_percent = text.strip().endswith("%")
    try:
        value = float(text.strip().removesuffix("%"))
    except ValueError:
        value = float("nan")
    value = value / 100.0 if is_percent else value
    if not 0.0 <= value <= 1.0:
        raise FormatError(f"the confidence is {text.strip()!r}; expected a number from 0 to 1, such as 0.7 or 70%")
    return value


def split_marks(labels: Iterable[str], where: str) -> tuple[list[str], list[str]]:
    """The labels that are listed, and the entries that say more; what cannot be true together is an error.

    Parameters
    ----------
    labels : list of str
        The entries of one bag.
    where : str
        File and row, for messages.
    """
    listed: list[str] = []
    marked: dict[str, Mark] = {}
    said: dict[str, str] = {}
    for text in dict.fromkeys(labels):
        try:
            mark = parse_mark(text)
        except FormatError as error:
            raise FormatError(f"{where}: {error}.") from None
        if isinstance(mark, OneOf):
            marked[text] = mark
            continue
        name = mark if isinstance(mark, str) else str(mark.label)
        if said.setdefault(name, text) != text:
            raise FormatError(f"{where}: {said[name]!r} and {text!r} say two things of {name!r}; keep one of them.")
        if isinstance(mark, str):
            listed.append(mark)
        else:
            marked[text] = mark
    absent = {str(mark.label) for mark in marked.values() if isinstance(mark, Absent)}
    for text, mark in marked.items():
        if isinstance(mark, OneOf) and absent.issuperset(map(str, mark.labels)):
            raise FormatError(f"{where}: all labels of {text!r} are absent; take one of these back, or the group.")
    return listed, list(marked)


def marks_in_words(marked: Iterable[str]) -> str:
    """How many entries say what, and how to write a name that holds such a mark; "" where there are none."""
    kinds: dict[type, list[str]] = {}
    for text in marked:
        kinds.setdefault(type(parse_mark(text)), []).append(text)
    words = {Possible: "possible", Confident: "with a confidence", Absent: "absent", OneOf: "one of several"}
    found = [f"{len(kinds[kind])} {text} ({kinds[kind][0]})" for kind, text in words.items() if kind in kinds]
    if not found:
        return ""
    return f"; labels that are more than listed: {', '.join(found)}; \\? \\! \\| are parts of a name"


def _fold_columns(table: TextTable, is_label: Mapping[str, object] | frozenset[str] | set[str], mark: str) -> TextTable:
    """The table without its columns ``possible``, ``also``, ``absent`` and ``confidence``, whose cells join the labels.

    Parameters
    ----------
    table : TextTable
    is_label : collection of str
        Headings of the column of labels.
    mark : str
        What is between the labels of a cell.
    """
    heading = [cell.casefold() for cell in table.headings]
    own = {j: cell for j, cell in enumerate(heading) if cell in (*POSSIBLE, *ABSENT, *CONFIDENCE)}
    labels = [j for j, cell in enumerate(heading) if cell in is_label]
    if not own or len(labels) != 1 or len({*own.values()}) != len(own):
        return table
    kept = [j for j in range(len(heading)) if j not in own]
    rows = [[table.rows[0][j] for j in kept]]
    for line, row in zip(table.lines[1:], table.rows[1:], strict=True):
        cells = {cell: row[j].strip() for j, cell in own.items()}
        names = [name.strip() for name in row[labels[0]].split(mark) if name.strip()]
        if sure := cells.get(CONFIDENCE[0], ""):
            try:
                _share(sure)
            except FormatError as error:
                raise FormatError(f"{table.path}, row {line}: {error}.") from None
            names = [name if _is_marked(name) else f"{name}?{sure}" for name in names]
        for key in POSSIBLE:
            names += [f"{_escaped(name)}?" for name in _names(cells.get(key, ""))]
        names += [f"!{_escaped(name)}" for name in _names(cells.get(ABSENT[0], ""))]
        rows.append([mark.join(names) if j == labels[0] else row[j] for j in kept])
    place = {j: k for k, j in enumerate(kept)}
    flaws = {(row, place[column]): flaw for (row, column), flaw in table.flaws.items() if column in place}
    return replace(table, rows=rows, flaws=flaws)


def _is_marked(entry: str) -> bool:
    """Whether an entry says more than a list, or tries to."""
    return bool(_BAR.search(entry)) or entry.startswith("!") or _UNSURE.fullmatch(entry) is not None


def _names(cell: str) -> Sequence[str]:
    return [undefuse(name.strip()) for name in re.split("[;,]", cell) if name.strip()]


def _escaped(name: str) -> str:
    return re.sub(r"([?!|])", r"\\\1", name)


NAME_HEADINGS = {
    "bag",
    "bag_id",
    "bagid",
    "bag_name",
    "file",
    "filename",
    "file_name",
    "path",
    "name",
    "id",
    "recording",
    "clip",
    "image",
    "picture",
    "document",
    "word",
}
LABEL_HEADINGS = {"label", "labels", "label_set", "class", "classes", "species", "tag", "tags", "category", "topic"}
FILE_HEADINGS = {"file", "filename", "file_name", "path"}  # these name it, where another heading could too
OTHER_HEADINGS = {  # of columns that hold numbers, and are no labels all the same
    *("site", "station", "plot", "location", "date", "time", "hour", "day", "month", "year", "observer", "duration"),
    *("latitude", "longitude", "lat", "lon", "elevation", "temperature", "total", "sum", "start", "end", "notes"),
}
YES, NO = ("x", "yes", "y", "true", "present", "ja", "j", "+"), ("", "no", "n", "false", "absent", "nein", "-")
LIST_MARK = ";"
_MARKS = {";": ";", "|": "|", ",": "commas", "/": "/", " ": "blanks", "\n": "line ends"}
_CERTAIN = (";", "|", "\n")  # no label holds one of these
_FEWER = 0.7  # blanks are between labels only if that many words, by cell, or fewer make up all cells
_ALMOST_ALL = 0.8  # labels that occur once
_FEW = 5  # labels of which nothing can be said
_COUNT = re.compile(r"[0-9]{1,6}(\.0+)?")
_FILE_ENDING = re.compile(r"\.[A-Za-z][A-Za-z0-9]{0,4}$")
_COUNTED = re.compile(r"[ _#.-]*[0-9]+$")  # behind the heading of a column of labels of which there are several
_FORMS = (
    "rows of file and label (file,label), one list per file (file,labels with a;b;c) or a column of 0 and 1 per label"
)


@dataclass(frozen=True)
class LabelTable:
    """Bags and the labels that somebody gave them.

    Attributes
    ----------
    names : list of str
        Bag or file names in order of first appearance.
    label_sets : list of list of str
        The labels of each, in the order of the file; empty where the file names the bag without a label.
    rows : list of int
        Line of the first row of each name, from 1.
    form : str
        How the file was understood, one sentence.
    class_names : list of str
        All labels: in the order of the columns where there is a column for each, else sorted.
    problems : list of (str, str)
        Name and message of every row that was joined with an earlier one.
    path : str
        The file that it was read from.
    places : list of str
        Where each name stands, in words, where that is no row of one file.
    observers : dict
        Where several observers listed the labels of the same names: each to a table of what that one listed. The sets
        of this table hold what any of them lists.
    """

    names: list[str]
    label_sets: list[list[str]]
    rows: list[int]
    form: str
    class_names: list[str] = field(default_factory=list)
    problems: list[tuple[str, str]] = field(default_factory=list)
    path: str = ""
    places: list[str] = field(default_factory=list)
    observers: dict[str, LabelTable] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.names)

    def part(self, rows: Sequence[int]) -> LabelTable:
        """The table of some of the names."""
        kept = {self.names[i] for i in rows}
        return replace(
            self,
            observers={
                who: own.part([i for i, name in enumerate(own.names) if name in kept])
                for who, own in self.observers.items()
            },
            names=[self.names[i] for i in rows],
            label_sets=[self.label_sets[i] for i in rows],
            rows=[self.rows[i] for i in rows if self.rows],
            places=[self.places[i] for i in rows if self.places],
        )

    def place(self, i: int) -> str:
        """Where the i-th name stands, for messages."""
        return self.places[i] if self.places else f"{self.path}, row {self.rows[i]}"


def read_labels(
    path: PathLike,
    *,
    name: str | None = None,
    label: str | None = None,
    separator: str | None = None,
    list_mark: str | None = None,
    fold_case: bool = False,
    sheet: str | None = None,
    repeats: str = "error",
    marks: bool = False,
) -> LabelTable:
    """Read the labels of bags from a CSV, .xlsx or parquet file in any of the forms that people use.

    The forms are rows of name and label, a name on as many rows as it has labels; one row per name, with its labels in
    one cell ``a;b;c`` (or with commas, bars, slashes or blanks between them, which is found out) or in columns
    ``species1``, ``species2``; and one row per name with a column for each label: 0 and 1, x and nothing, yes and no,
    or counts. Cells are separated by commas, semicolons or tabs and may be quoted. The first line is a heading; in the
    first two forms it may be missing. In parquet the labels of one row may also be a list. Columns that are clearly
    something else (site, date, notes) are left out, and `LabelTable.form` says so.

    Parameters
    ----------
    path : str or path
        Text in UTF-8, or in UTF-16, Latin-1 or Windows-1252 by detection; a spreadsheet (.xlsx), or parquet.
    name, label : str or None
        Headings of the columns that hold the name and the label. If both are given, other columns are ignored;
        otherwise the columns are known by their usual headings and by what is in them.
    separator : {",", ";", "\\t"} or None
        None finds it out.
    list_mark : str or None
        What is between the labels of one cell; None finds it out.
    fold_case : bool
        Whether labels that differ in case or blanks only are one.
    sheet : str or None
        The sheet of a spreadsheet; None takes the one that holds a table.
    repeats : {"error", "join"}
        What to do where a name has a second row in the second or third form: stop, or give the bag the labels of both
        rows and say so in `LabelTable.problems`.
    marks : bool
        Whether columns ``possible``, ``also``, ``absent`` and ``confidence`` join the labels, as the marks of
        `bagwise.io.labels`, and a column ``observer`` says who listed them where two observers list those of one name.

    Returns
    -------
    LabelTable

    Raises
    ------
    FormatError
        The message names file and row.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from bagwise.io.labels import read_labels
    >>> path = pathlib.Path(tempfile.mkdtemp(), "labels.csv")
    >>> _ = path.write_text("file,labels\\na.wav,wren;robin\\nb.wav,wren\\n")
    >>> table = read_labels(path)
    >>> table.names, table.label_sets
    (['a.wav', 'b.wav'], [['wren', 'robin'], ['wren']])
    """
    check_choice("repeats", repeats, ("error", "join"))
    mark = _check_mark(list_mark)
    table = read_rows(path, separator, sheet=sheet)
    table.check_widths()
    if marks:
        headings = {label.casefold()} if label is not None else LABEL_HEADINGS
        cells = [
            row[j] for j, cell in enumerate(table.headings) if cell.casefold() in headings for row in table.rows[1:]
        ]
        table = _fold_columns(table, headings, mark or _find_mark(cells)[0] or LIST_MARK)
    by_line: dict[int, str] = {}
    if marks and name is None and label is None:
        table, by_line = _take_observers(table)
    reader = _Reader(table, path, mark, repeats == "join", by_line)
    found = reader.automatic() if name is None and label is None else reader.named(name, label)
    if fold_case:
        found = _folded_table(found)
    remarks = [("labels", f"{path}: {remark}") for remark in remarks_about(found.label_sets)]
    return replace(found, problems=[*found.problems, *remarks], path=os.fspath(path))


class _Reader:
    """Makes labels of a table, in whichever form it has.

    Parameters
    ----------
    table : TextTable
    path : path
        As it was given, for messages.
    mark : str or None
        What is between the labels of one cell; None finds it out.
    join : bool
        Whether a second row of a name adds to the first.
    observers : dict
        Row to who wrote it; empty where that does not matter.
    """

    def __init__(self, table: TextTable, path: Any, mark: str | None, join: bool, observers: dict[int, str]):
        self.path, self.mark, self.join, self.observers = path, mark, join, observers
        self._take(table)

    def _take(self, table: TextTable) -> None:
        self.table = table
        self.top = f"{self.path}, row {table.lines[0]}"
        self.heading = [cell.casefold() for cell in table.rows[0]]
        self.below = list(zip(table.lines[1:], table.rows[1:], strict=True))

    def automatic(self) -> LabelTable:
        """By headings and cells."""
        self._choose_columns()
        table, heading = self.table, self.heading
        self._check_cells(range(len(heading)))
        if len(heading) == 1:
            raise FormatError(f"{self.top}: there is one column, {table.rows[0][0]!r}; expected {_FORMS}.")
        if self._is_one_hot():
            return self._from_one_hot()
        if len(heading) > 2:
            raise FormatError(self._unknown_columns())
        if heading[0] in NAME_HEADINGS or heading[1] in LABEL_HEADINGS or table.lines[0] == 0:
            return self._from_pairs(self.below, (0, 1), table.source)
        if not self._is_data():
            raise FormatError(
                f"{self.top}: it is not clear whether {table.rows[0]} is a heading; begin the file with the line "
                "file,label."
            )
        rows = [(table.lines[0], table.rows[0]), *self.below]
        return self._from_pairs(rows, (0, 1), f"{table.source}, without a heading")

    def named(self, name: str | None, label: str | None) -> LabelTable:
        """From the columns with these headings."""
        columns = []
        for heading, what in ((name, "name"), (label, "label")):
            if heading is None:
                raise FormatError(
                    f"{self.path}: the column of the {what} was not given; name both columns (--columns FILE LABEL), "
                    "or neither."
                )
            if self.table.rows[0].count(heading) != 1:
                found = ", ".join(map(repr, self.table.rows[0]))
                raise FormatError(
                    f"{self.top}: expected one column {heading!r}; the columns are {found} (--columns FILE LABEL names "
                    "the two to use)."
                )
            columns.append(self.table.rows[0].index(heading))
        self._check_cells(columns)
        return self._from_pairs(self.below, (columns[0], columns[1]), f"from the columns {name!r} and {label!r}")

    def _choose_columns(self) -> None:
        """Leave out what is clearly no label, put the name first, and several columns of labels below each other.

        Nothing is left out where it is not clear what the name is, or nothing would be left.
        """
        heading = [
            _COUNTED.sub("", cell) if _COUNTED.sub("", cell) in LABEL_HEADINGS else cell for cell in self.heading
        ]
        names = [j for j, cell in enumerate(heading) if cell in NAME_HEADINGS]
        names = [j for j in names if heading[j] in FILE_HEADINGS] or names
        labels = [j for j, cell in enumerate(heading) if cell in LABEL_HEADINGS]
        counted = len(labels) < 2 or all(_COUNTED.search(self.heading[j]) for j in labels)
        if len(names) != 1 or not counted or "instance" in heading:  # annotations of a run are no labels of files
            return
        others = [j for j in range(len(heading)) if j not in (*names, *labels)]
        kept = labels or [j for j in others if self._is_marked(j)]
        used = [*names, *kept]
        if not kept or (used == [*range(len(heading))] and len(labels) < 2):
            return
        self._check_cells(used)
        chosen = [[self.table.rows[0][j] for j in (used[:2] if labels else used)]]
        lines = [self.table.lines[0]]
        for line, row in self.below:
            cells = [row[j] for j in kept]
            several = [[cell] for cell in cells if cell] or [[""]]
            for own in several if labels else [cells]:
                chosen.append([row[names[0]], *own])
                lines.append(line)
        left = [self.table.rows[0][j] or "a column without heading" for j in others if j not in kept]
        more = ", ..." if len(left) > _FEW else ""
        source = self.table.source + (f"; not used: {', '.join(left[:_FEW])}{more}" if left else "")
        before = self.table
        self._take(TextTable(self.table.path, chosen, lines, source))
        if not labels and not self._is_one_hot():
            self._take(before)  # whoever refuses it names all columns

    def _is_marked(self, column: int) -> bool:
        """Whether a column may be of a label: any cell says yes, no or how many, or all are empty."""
        cells = {row[column] for _, row in self.below if row[column]}
        if self.heading[column] in OTHER_HEADINGS and not cells <= {"0", "1", "0.0", "1.0"}:
            return False
        return not cells or any(_says(cell) is not None for cell in cells)

    def _check_cells(self, columns: Sequence[int]) -> None:
        """Refuse cells of the columns that are used which can be neither name nor label."""
        for (row, column), flaw in sorted(self.table.flaws.items()):
            if column in columns:
                cure = " (of other columns than file and label: name the two to use, --columns FILE LABEL)"
                cure = cure if len(columns) == len(self.heading) else ""
                raise FormatError(f"{self.path}, row {self.table.lines[row]}: {flaw}{cure}.")

    def _is_one_hot(self) -> bool:
        """Whether all cells after the first column, below the first row, say yes or no, or how many."""
        heading = self.heading
        if not self.below or (len(heading) == 2 and (heading[1] in LABEL_HEADINGS or heading[0] not in NAME_HEADINGS)):
            return False
        cells = {undefuse(cell).casefold() for _, row in self.below for cell in row[1:]}
        in_words = all(cell in YES or cell in NO for cell in cells)
        return in_words or all(not cell or _COUNT.fullmatch(cell) for cell in cells)

    def _is_data(self) -> bool:
        """Whether the first row of two cells is clearly a name and its label, and no heading."""
        name, label = self.table.rows[0]
        if _FILE_ENDING.search(name) or name in {row[0] for _, row in self.below}:
            return True
        labels = set(split_labels(label, LIST_MARK))
        return any(labels & set(split_labels(row[1], LIST_MARK)) for _, row in self.below)

    def _unknown_columns(self) -> str:
        table, heading = self.table, self.heading
        known = NAME_HEADINGS | LABEL_HEADINGS
        listed = ", ".join(map(repr, table.rows[0][:5]))
        cure = "Name the two to use (--columns FILE LABEL), or remove the others."
        if not known & set(heading):
            return f"{self.top}: the columns {listed} are not known; expected {_FORMS}. {cure}"
        if not LABEL_HEADINGS.isdisjoint(heading):
            return f"{self.top}: besides file and label there are the columns {listed}. {cure}"
        unknown = [cell for cell, folded in zip(table.rows[0], heading, strict=True) if folded not in known]
        line, column, cell = next(
            ((line, j, row[j]) for line, row in self.below for j in range(1, len(row)) if _says(row[j]) is None),
            (table.lines[-1], -1, table.rows[-1][-1]),  # words and numbers in one table
        )
        return (
            f"{self.path}, row {line}: the columns {', '.join(map(repr, unknown[:5]))} are not known, and "
            f"{table.rows[0][column]!r} is no label with 0 and 1, since it holds {cell!r}; expected {_FORMS}. {cure}"
        )

    def _from_pairs(self, rows: list[tuple[int, list[str]]], columns: tuple[int, int], how: str) -> LabelTable:
        """Name and label on every row, or name and list."""
        if not rows:
            raise FormatError(f"{self.path}: there is a heading but no row below it; add a row for each bag.")
        name, label = columns
        mark, remark = (self.mark, "") if self.mark is not None else _find_mark(row[label] for _, row in rows)
        as_lists = next(((line, row[label]) for line, row in rows if mark and mark in row[label]), None)
        form, once = f"rows of bag and label, {how}", None
        if as_lists is not None:
            form = f"one row per bag, {how}, its labels in one cell separated by {_MARKS.get(str(mark), mark)}"
            why = f", but row {as_lists[0]} lists several labels in one cell ({as_lists[1]!r})"
            once = why, "use one row per name, or one label per row"
        cut = [(line, row[name], split_labels(row[label], mark)) for line, row in rows]
        classes = sorted({label for _, _, labels in cut for label in labels})
        problems = [("labels", f"{self.path}: {remark}")] if remark else []
        return self._gathered(cut, form, classes, once, problems)

    def _from_one_hot(self) -> LabelTable:
        """A column for each label."""
        classes = [undefuse(cell) for cell in self.table.rows[0][1:]]
        if self.heading[0] not in NAME_HEADINGS and all(cell and _says(cell) is not None for cell in classes):
            raise FormatError(f"{self.top}: the first row holds 0 and 1; begin the file with the names of the labels.")
        if "" in classes:
            column = classes.index("") + 2
            raise FormatError(f"{self.top}: column {column} has no name; write the name of its label.")
        twice = first_repeated(classes)
        if twice is not None:
            raise FormatError(f"{self.top}: two columns are named {twice!r}; remove one of them.")
        rows = [
            (line, row[0], [label for label, cell in zip(classes, row[1:], strict=True) if _says(cell)])
            for line, row in self.below
        ]
        how = f"one row per bag and a column of 0 and 1 for each label, {self.table.source}"
        return self._gathered(rows, how, classes, ("", "remove one"), [])

    def _gathered(
        self,
        rows: list[tuple[int, str, list[str]]],
        form: str,
        classes: list[str],
        once: tuple[str, str] | None,
        remarks: list[tuple[str, str]],
    ) -> LabelTable:
        """The labels of each name; `once` says why and with which cure a name may stand on one row only, if it may."""
        tables: dict[str, _Gathered] = {}
        problems = []
        for line, cell, labels in rows:
            place = f"{self.path}, row {line}"
            if not cell:
                raise FormatError(f"{place}: the name of the bag is missing; write it in the first column.")
            name = undefuse(cell)
            found, lines = tables.setdefault(self.observers.get(line, ""), ({}, {}))
            if name in found and once is not None and set(labels) != found[name].keys():
                problem = f"{place}: the name {name!r} stands on row {lines[name]} already{once[0]}"
                if not self.join:
                    raise FormatError(f"{problem}; {once[1]}.")
                problems.append((name, f"{problem}; it was given the labels of both rows."))
            lines.setdefault(name, line)
            found.setdefault(name, {}).update(dict.fromkeys(labels))
        of_each = {
            who: LabelTable(list(own), [list(s) for s in own.values()], list(lines.values()), form, path=str(self.path))
            for who, (own, lines) in tables.items()
        }
        if not self.observers:
            ((_, only),) = of_each.items()
            return replace(only, class_names=classes, problems=[*problems, *remarks])
        return replace(join_observers(of_each, form), class_names=classes, problems=[*problems, *remarks])


_Gathered = tuple[dict[str, dict[str, None]], dict[str, int]]
"""The labels of each name, and its first row."""


def _take_observers(table: TextTable) -> tuple[TextTable, dict[int, str]]:
    """The table without its column ``observer``, and who wrote each row; as it is where that says nothing.

    It does where one name at least stands on rows of two observers; elsewhere it is a remark on each file.
    """
    heading = [cell.casefold() for cell in table.headings]
    names = [j for j, cell in enumerate(heading) if cell in NAME_HEADINGS]
    names = [j for j in names if heading[j] in FILE_HEADINGS] or names
    if heading.count(OBSERVER) != 1 or len(names) != 1:
        return table, {}
    column, name = heading.index(OBSERVER), names[0]
    rows = list(zip(table.lines[1:], table.rows[1:], strict=True))
    pairs = {(row[name].strip(), row[column].strip()) for _, row in rows if row[column].strip()}
    if len(pairs) == len({given for given, _ in pairs}):
        return table, {}
    unnamed = next((line for line, row in rows if not row[column].strip()), None)
    if unnamed is not None:
        raise FormatError(
            f"{table.path}, row {unnamed}: the observer is missing; write who listed these labels (any name or code "
            "does), or name the columns to use (--columns FILE LABEL) if it does not matter who did."
        )
    kept = [j for j in range(len(heading)) if j != column]
    flaws = {(i, kept.index(j)): flaw for (i, j), flaw in table.flaws.items() if j != column}
    return (
        replace(table, rows=[[row[j] for j in kept] for row in table.rows], flaws=flaws),
        {line: undefuse(row[column].strip()) for line, row in rows},
    )


def join_observers(tables: Mapping[str, LabelTable], form: str) -> LabelTable:
    """The tables of several observers as one, whose sets hold what any of them lists.

    Examples
    --------
    >>> from bagwise.io.labels import LabelTable, join_observers
    >>> ada = LabelTable(["a.wav", "b.wav"], [["wren"], []], [2, 3], "", path="ada.csv")
    >>> ben = LabelTable(["a.wav"], [["wren", "robin"]], [2], "", path="ben.csv")
    >>> both = join_observers({"ada": ada, "ben": ben}, "two tables")
    >>> both.names, both.label_sets, both.place(0)
    (['a.wav', 'b.wav'], [['wren', 'robin'], []], 'ada.csv, row 2')
    """
    sets: dict[str, dict[str, None]] = {}
    places: dict[str, str] = {}
    for own in tables.values():
        for i, (name, labels) in enumerate(zip(own.names, own.label_sets, strict=True)):
            sets.setdefault(name, {}).update(dict.fromkeys(labels))
            places.setdefault(name, own.place(i))
    return LabelTable(
        list(sets),
        [list(labels) for labels in sets.values()],
        [],
        f"{form}; {len(tables)} observers: {', '.join([*tables][:_FEW])}{', ...' if len(tables) > _FEW else ''}",
        sorted({label for labels in sets.values() for label in labels}),
        [problem for own in tables.values() for problem in own.problems],
        places=list(places.values()),
        observers=dict(tables),
    )


def _says(cell: str) -> bool | None:
    """Whether a cell says that the label is there; None where it says something else."""
    folded = undefuse(cell).casefold()
    if folded in YES or folded in NO:
        return folded in YES
    return float(cell) > 0 if _COUNT.fullmatch(cell) else None


def split_labels(cell: str, mark: str | None) -> list[str]:
    """The labels of one cell, with `mark` between them where it is not None."""
    parts = cell.split(mark) if mark else [cell]
    return [undefuse(part.strip()) for part in parts if part.strip()]


# ---------------------------------------------------------------------------------------------------------------------
# Several labels in one cell


def _find_mark(cells: Iterable[str]) -> tuple[str | None, str]:
    """The mark between the labels of a cell, None where each cell is one label, and a remark where that is uncertain.

    Semicolons and bars are between labels wherever they occur. Commas and slashes are where the parts are labels of
    other cells, too. Blanks are where far fewer words than cells make up all of them, which names of species
    do not do.
    """
    distinct = sorted({cell for cell in cells if cell})
    for mark in _CERTAIN:
        if any(mark in cell for cell in distinct):
            return mark, ""
    for mark in (",", "/"):
        holding = [cell for cell in distinct if mark in cell]
        if holding and _parts_recur(distinct, holding, mark):
            return mark, ""
        if holding:
            return None, (
                f"{len(holding)} label(s) hold {_MARKS[mark]}, such as {holding[0]!r}, and are taken for one label "
                f"each; if these are several, say so (--separator {mark!r})."
            )
    words = {word for cell in distinct for word in cell.split()}
    if len(distinct) >= _FEW and len(words) < _FEWER * len(distinct):
        return " ", ""
    return None, ""


def _parts_recur(distinct: Sequence[str], holding: Sequence[str], mark: str) -> bool:
    """Whether at least half of the parts of the cells that hold a mark are found in other cells."""
    owners: Counter[str] = Counter()
    for cell in distinct:
        owners.update({part.strip() for part in cell.split(mark)})
    parts = {part.strip() for cell in holding for part in cell.split(mark) if part.strip()}
    return sum(owners[part] > 1 for part in parts) >= 0.5 * len(parts)


def _check_mark(mark: str | None) -> str | None:
    """The mark that somebody named, with the words for those that are hard to type."""
    words = {"comma": ",", "semicolon": ";", "bar": "|", "slash": "/", "blank": " ", "space": " ", "tab": "\t"}
    mark = words.get(mark or "", mark)
    if mark is not None and (len(mark) != 1 or mark.isalnum()):
        raise InputError(f"The separator of labels is {mark!r}; expected one character that is no letter and no digit.")
    return mark


def remarks_about(labels: Sequence[Iterable[str]]) -> list[str]:
    """What looks as if the labels of bags were misread: nearly all different, or the same but for case or blanks."""
    bags = Counter(label for of_bag in labels for label in set(of_bag))
    remarks = []
    once = sorted(label for label, count in bags.items() if count == 1)
    if len(bags) > _FEW and len(labels) > _FEW and len(once) >= _ALMOST_ALL * len(bags):
        remarks.append(
            f"of {len(bags)} labels {len(once)} occur once only, such as {once[0]!r}, so that little can be learned of "
            "them; if a cell lists several labels, say what is between them (--separator)."
        )
    alike: dict[str, list[str]] = {}
    for label in sorted(bags):
        alike.setdefault(_folded(label), []).append(label)
    remarks += [
        f"the labels {' and '.join(map(repr, names))} differ in case or blanks only; --fold-case makes them one."
        for names in alike.values()
        if len(names) > 1
    ]
    return remarks


def _folded(label: str) -> str:
    """A label without case and with single blanks."""
    return " ".join(label.casefold().split())


def _folded_table(table: LabelTable) -> LabelTable:
    """The table, and those of its observers, with one spelling for labels that differ in case or blanks only."""
    tables = [table, *table.observers.values()]
    sets = iter(fold_labels([labels for own in tables for labels in own.label_sets]))
    folded = [replace(own, label_sets=[next(sets) for _ in own.label_sets]) for own in tables]
    observers = dict(zip(table.observers, folded[1:], strict=True))
    classes = sorted({label for labels in folded[0].label_sets for label in labels})
    return replace(folded[0], observers=observers, class_names=classes)


def fold_labels(labels: Sequence[Sequence[str]]) -> list[list[str]]:
    """The labels with one spelling for those that differ in case or blanks only: the commonest."""
    spelled: dict[str, Counter[str]] = {}
    for of_bag in labels:
        for label in of_bag:
            spelled.setdefault(_folded(label), Counter())[label] += 1
    best = {key: min(counts, key=lambda name: (-counts[name], name)) for key, counts in spelled.items()}
    return [list(dict.fromkeys(best[_folded(label)] for label in of_bag)) for of_bag in labels]
