"""Several labels in one cell: which mark is between them, and what looks as if one was overlooked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from bagwise.exceptions import InputError

MARKS = {";": ";", "|": "|", ",": "commas", "/": "/", " ": "blanks", "\n": "line ends"}
CERTAIN = (";", "|", "\n")  # no label holds one of these
FEWER = 0.7  # blanks are between labels only if that many words, by cell, or fewer make up all cells
ALMOST_ALL = 0.8  # labels that occur once
FEW = 5  # labels of which nothing can be said


def find_mark(cells: Iterable[str]) -> tuple[str | None, str]:
    """The mark between the labels of a cell, None where each cell is one label, and a remark where that is in doubt.

    Semicolons and bars are between labels wherever they occur. Commas and slashes are where the parts are labels of
    other cells, too. Blanks are where far fewer words than cells make up all of them, which names of species
    do not do.
    """
    distinct = sorted({cell for cell in cells if cell})
    for mark in CERTAIN:
        if any(mark in cell for cell in distinct):
            return mark, ""
    for mark in (",", "/"):
        holding = [cell for cell in distinct if mark in cell]
        if holding and _parts_recur(distinct, holding, mark):
            return mark, ""
        if holding:
            return None, (
                f"{len(holding)} label(s) hold {MARKS[mark]}, such as {holding[0]!r}, and are taken for one label "
                f"each; if these are several, say so (--separator {mark!r})."
            )
    words = {word for cell in distinct for word in cell.split()}
    if len(distinct) >= FEW and len(words) < FEWER * len(distinct):
        return " ", ""
    return None, ""


def _parts_recur(distinct: Sequence[str], holding: Sequence[str], mark: str) -> bool:
    """Whether at least half of the parts of the cells that hold a mark are found in other cells."""
    owners: Counter[str] = Counter()
    for cell in distinct:
        owners.update({part.strip() for part in cell.split(mark)})
    parts = {part.strip() for cell in holding for part in cell.split(mark) if part.strip()}
    return sum(owners[part] > 1 for part in parts) >= 0.5 * len(parts)


def check_mark(mark: str | None) -> str | None:
    """The mark that somebody named, with the words for those that are hard to type."""
    words = {"comma": ",", "semicolon": ";", "bar": "|", "slash": "/", "blank": " ", "space": " ", "tab": "\t"}
    mark = words.get(mark or "", mark)
    if mark is not None and (len(mark) != 1 or mark.isalnum()):
        raise InputError(f"The separator of labels is {mark!r}; expected one character that is no letter and no digit.")
    return mark


def doubts_about(labels: Sequence[Iterable[str]]) -> list[str]:
    """What looks as if the labels of bags were misread: nearly all different, or the same but for case or blanks."""
    bags = Counter(label for of_bag in labels for label in set(of_bag))
    doubts = []
    once = sorted(label for label, count in bags.items() if count == 1)
    if len(bags) > FEW and len(labels) > FEW and len(once) >= ALMOST_ALL * len(bags):
        doubts.append(
            f"of {len(bags)} labels {len(once)} occur once only, such as {once[0]!r}, so that little can be learned of "
            "them; if a cell lists several labels, say what is between them (--separator)."
        )
    alike: dict[str, list[str]] = {}
    for label in sorted(bags):
        alike.setdefault(folded(label), []).append(label)
    doubts += [
        f"the labels {' and '.join(map(repr, names))} differ in case or blanks only; --fold-case makes them one."
        for names in alike.values()
        if len(names) > 1
    ]
    return doubts


def folded(label: str) -> str:
    """A label without case and with single blanks."""
    return " ".join(label.casefold().split())


def fold_labels(labels: Sequence[Sequence[str]]) -> list[list[str]]:
    """The labels with one spelling for those that differ in case or blanks only: the commonest."""
    spelled: dict[str, Counter[str]] = {}
    for of_bag in labels:
        for label in of_bag:
            spelled.setdefault(folded(label), Counter())[label] += 1
    best = {key: min(counts, key=lambda name: (-counts[name], name)) for key, counts in spelled.items()}
    return [list(dict.fromkeys(best[folded(label)] for label in of_bag)) for of_bag in labels]
