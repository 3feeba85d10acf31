"""Which bags the rows of a table of labels speak of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from bagwise.app.media.files import FileBags, FileNames, normal_name
from bagwise.io.labels import LabelTable


@dataclass(frozen=True)
class _MatchedLabels:
    """Labels by bag, and what was wrong with the table.

    Attributes
    ----------
    sets : dict
        Bag name to the set of its labels; bags that nobody labelled are missing.
    whole : set of str
        Files whose labels speak of the whole file.
    problems : list of (name, message)
    """

    sets: dict[str, set[str]] = field(default_factory=dict)
    whole: set[str] = field(default_factory=set)
    problems: list[tuple[str, str]] = field(default_factory=list)


def match_labels(
    table: LabelTable,
    names: Sequence[str],
    bags: dict[str, FileBags],
    failed: Sequence[str],
    unread: Sequence[str] = (),
    pieces_have_names: bool = False,
) -> _MatchedLabels:
    """Find the file, or the piece of one (``name@start``), that each row names; see `FileNames` for how.

    `unread` are files of the folder that are not read. With `pieces_have_names` a piece is also found by what stands
    behind the @ of its name, where one piece only is called so.
    """
    files, others = FileNames(names), FileNames(unread)
    pieces = {
        normal_name(bag): (name, bag, size)
        for name in names
        if name in bags
        for bag, size in zip(bags[name].bag_names, bags[name].sizes, strict=True)
    }
    if pieces_have_names:
        alone = Counter(key.partition("@")[2] for key in pieces)
        own = {key.partition("@")[2]: found for key, found in pieces.items()}
        pieces |= {key: own[key] for key, n in alone.items() if key and n == 1 and key not in pieces}
    by_piece: list[tuple[str, str, str]] = []
    matched = _MatchedLabels()
    for i, (given, labels) in enumerate(zip(table.names, table.label_sets, strict=True)):
        where, key = table.place(i), normal_name(given)
        fitting = files.find(given)
        if not fitting and key in pieces:
            name, bag, size = pieces[key]
            by_piece.append((name, bag, where))
            matched.sets[bag] = set(labels)
            if labels and not size:
                matched.problems.append((bag, _nothing_found(where, bag, labels)))
        elif len(fitting) != 1:
            what = "several files fit" if fitting else "there is no such file"
            passed = sorted(others.find(given)) if not fitting else []
            if passed:
                ending = PurePosixPath(passed[0]).suffix
                what = f"it is there, but files that end in {ending!r} are not read"
            matched.problems.append((given, f"{where}: {what} ({given!r}); its labels are not used."))
        else:
            (name,) = fitting
            _add(matched, name, labels, where, failed, bags)
    for name, bag, where in by_piece:
        if name in matched.whole:
            del matched.sets[bag]
            cure = "name the whole or its pieces"
            message = f"{where}: {bag!r} is a piece of {name!r}, which another row names as a whole; not used: {cure}."
            matched.problems.append((bag, message))
    return matched


def _add(
    matched: _MatchedLabels, name: str, labels: list[str], where: str, failed: Sequence[str], bags: dict[str, FileBags]
) -> None:
    if name in matched.whole:
        matched.problems.append((name, f"{where}: {name!r} was named by an earlier row in another way; not used."))
        return
    matched.whole.add(name)
    matched.sets[name] = set(labels)
    if name in failed:
        matched.problems.append((name, f"{where}: the file {name!r} could not be read, so its labels are not used."))
    elif labels and not sum(bags[name].sizes):
        matched.problems.append((name, _nothing_found(where, name, labels)))


def _nothing_found(where: str, name: str, labels: list[str]) -> str:
    return f"{where}: nothing was found in {name!r} that could carry its labels ({', '.join(labels)})."
