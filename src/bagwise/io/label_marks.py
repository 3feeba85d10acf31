r"""What a cell of a table of labels may say beyond a list: ``wren; robin?; tit?0.7; !crow; a|b``.

``robin?`` may be there, ``tit?0.7`` (or ``tit?70%``) is there with that confidence, ``!crow`` is not there, and one of
``a|b`` is. A backslash before ``?``, ``!`` or ``|`` makes it a part of the name: ``what\?``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from bagwise.core.exceptions import FormatError
from bagwise.core.validation import Absent, OneOf, Possible
from bagwise.io.files import undefuse
from bagwise.io.tables import TextTable

POSSIBLE, ABSENT, CONFIDENCE = ("possible", "also"), ("absent",), ("confidence",)
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
    >>> from bagwise.io.label_marks import parse_mark
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


def fold_columns(table: TextTable, is_label: Mapping[str, object] | frozenset[str] | set[str], mark: str) -> TextTable:
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
            names = [name if is_marked(name) else f"{name}?{sure}" for name in names]
        for key in POSSIBLE:
            names += [f"{_escaped(name)}?" for name in _names(cells.get(key, ""))]
        names += [f"!{_escaped(name)}" for name in _names(cells.get(ABSENT[0], ""))]
        rows.append([mark.join(names) if j == labels[0] else row[j] for j in kept])
    place = {j: k for k, j in enumerate(kept)}
    flaws = {(row, place[column]): flaw for (row, column), flaw in table.flaws.items() if column in place}
    return replace(table, rows=rows, flaws=flaws)


def is_marked(entry: str) -> bool:
    """Whether an entry says more than a list, or tries to."""
    return bool(_BAR.search(entry)) or entry.startswith("!") or _UNSURE.fullmatch(entry) is not None


def _names(cell: str) -> Sequence[str]:
    return [undefuse(name.strip()) for name in re.split("[;,]", cell) if name.strip()]


def _escaped(name: str) -> str:
    return re.sub(r"([?!|])", r"\\\1", name)
