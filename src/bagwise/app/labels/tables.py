"""Which bags the rows of a table of labels speak of."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from bagwise.app.media.files import FileBags
from bagwise.io.labels import LabelTable

_ABSOLUTE = re.compile(r"/|~|[A-Za-z]:/|file:")


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


class FileNames:
    """Files of a folder, found by what people call them.

    That is the path below the folder, the name of the file, or either without its ending; with slashes of any system,
    in other case, or as a full path of any machine, as long as one file only fits.
    """

    def __init__(self, names: Iterable[str]):
        self.names = set(names)
        self._index: dict[str, set[str]] = {}
        for name in self.names:
            for key in _keys(name):
                self._index.setdefault(key, set()).add(name)
                self._index.setdefault(f"folded:{key.casefold()}", set()).add(name)

    def find(self, given: str) -> set[str]:
        """The files that may be meant."""
        key = _normal(given)
        if key in self.names:
            return {key}
        for candidate in _endings(key) if _ABSOLUTE.match(key) else (key,):
            for spelled in (candidate, f"folded:{candidate.casefold()}"):
                if spelled in self._index:
                    return self._index[spelled]
        return set()


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
        _normal(bag): (name, bag, size)
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
        where, key = table.place(i), _normal(given)
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


def _keys(name: str) -> set[str]:
    path = PurePosixPath(_normal(name))
    return {str(path), path.name, str(path.with_suffix("")), path.stem}


def _endings(path: str) -> Iterator[str]:
    """A full path, and what is left of it without the folders on the way."""
    parts = [part for part in path.split("/") if part]
    return ("/".join(parts[i:]) for i in range(len(parts)))


def _normal(name: str) -> str:
    """One spelling: forward slashes, no leading ./, composed accents (some systems take them apart)."""
    return unicodedata.normalize("NFC", name.replace("\\", "/").removeprefix("./"))
