"""Which bags the rows of a table of labels speak of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from bagwise.app.media.files import FileBags, FileNames, normal_name
from bagwise.core.exceptions import InputError
from bagwise.io.labels import LabelTable

N_SHOWN = 3  # names that a message gives as examples


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
            what, cure = "several files fit", f"write the folder too, such as {min(fitting)!r}" if fitting else ""
            if not fitting:
                what, cure = _why_no_file(given, files, others, bags)
            text = f"{where}: {what} ({given!r}); its labels are not used"
            matched.problems.append((given, f"{text}{': ' if cure else ''}{cure}."))
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


def _why_no_file(
    given: str, files: FileNames, others: FileNames, bags: Mapping[str, FileBags] | None = None
) -> tuple[str, str]:
    """Why a name is that of no file that is read, and the cure, "" where none is known."""
    passed = sorted(others.find(given))
    if passed:
        ending = PurePosixPath(passed[0]).suffix
        return f"it is there, but files that end in {ending!r} are not read", "save it in another format"
    name, mark, _ = normal_name(given).rpartition("@")
    whole = sorted(files.find(name)) if mark else []
    if whole and bags is not None:
        pieces = [bag.rpartition("@")[2] for bag in bags[whole[0]].bag_names] if whole[0] in bags else []
        if len(pieces) < 2:
            return "the file is one piece", "name the file alone, or cut pieces (--window and their seconds)"
        return "no piece of the file begins there", f"its pieces begin at {_some(pieces)} s (--window)"
    stem = PurePosixPath(normal_name(name if mark else given)).stem
    near = sorted(files.find(stem)) or sorted(
        file for file in files.names if stem.isdigit() and PurePosixPath(file).stem.lstrip("0") == stem
    )
    return "there is no such file", f"{near[0]!r} is there; write that" if near else ""


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:N_SHOWN]) + (", ..." if len(names) > N_SHOWN else "")


def names_in(table: LabelTable, names: Sequence[str]) -> list[int]:
    """Which rows of a table name a file, or a piece of one."""
    files = FileNames(names)
    return [i for i, given in enumerate(table.names) if files.find(given) or files.find(given.rpartition("@")[0])]


def check_names(table: LabelTable, names: Sequence[str], folder: Path, unread: Sequence[str] = ()) -> None:
    """Refuse a table that names no file and one without any label, before any file is read."""
    if not any(table.label_sets):
        raise InputError(f"{table.path}: no row has a label, so there is nothing to learn from; fill in that column.")
    if names_in(table, names):
        return
    files = FileNames(names)
    why, cure = _why_no_file(table.names[0], files, FileNames(unread))
    if any(files.find(label) for label in table.class_names):
        why, cure = "its labels are named as files are", "turn the table round: a row per file, the file first"
    elif not cure:
        cure = "write the names of the files, with or without folder and ending"
    given, there = (_some([*map(repr, some[: N_SHOWN + 1])]) for some in (table.names, names))
    raise InputError(
        f"{table.path}: none of its {len(table)} names ({given}) is that of a file in {folder}, which holds {there}. "
        f"{table.place(0)}: {why}; {cure}."
    )


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
