"""Which bags the rows of a table of labels speak of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from bagwise.app.formats import Annotations, Mark, instances_inside, read_marks, selections_format
from bagwise.app.media.files import FileBags, FileNames, normal_name
from bagwise.app.media.media_type import MediaType
from bagwise.core.dataset import BagDataset, rows_of
from bagwise.core.exceptions import FormatError, InputError
from bagwise.io.labels import LabelTable, fold_labels, remarks_about

TABLES = (".csv", ".tsv", ".xlsx", ".parquet")
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


def match_observers(table: LabelTable, *about: Any) -> tuple[_MatchedLabels, dict[str, dict[str, set[str]]]]:
    """The same where several observers listed labels: what any of them lists, and the labels by bag of each."""
    each = {who: match_labels(own, *about) for who, own in table.observers.items()}
    joined = _MatchedLabels(whole=set().union(*(own.whole for own in each.values())))
    for who, own in each.items():
        joined.problems.extend(own.problems)
        for bag in [*own.sets]:
            whole = bag.rpartition("@")[0]
            if bag not in joined.whole and whole in joined.whole:
                del own.sets[bag]
                text = f"{bag!r} is a piece of {whole!r}, which another observer names as a whole"
                joined.problems.append((bag, f"{table.path}, {who}: {text}; not used: name the whole or its pieces."))
        for bag, labels in own.sets.items():
            joined.sets.setdefault(bag, set()).update(labels)
    return joined, {who: own.sets for who, own in each.items()}


def observer_tables(folder: Path) -> dict[str, Path]:
    """The tables in a folder of two or more and of nothing else, by their names: one per observer.

    Empty where it holds selections, or other files too.
    """
    with suppress(FormatError):
        if selections_format(folder) is not None:
            return {}
    tables = [path for path in sorted(folder.iterdir()) if path.name[0] not in ".~"]
    if len(tables) < 2 or not all(path.is_file() and path.suffix.lower() in TABLES for path in tables):
        return {}
    stems = Counter(path.stem for path in tables)
    return {path.stem if stems[path.stem] == 1 else path.name: path for path in tables}


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


def rows_naming(table: LabelTable, names: Sequence[str]) -> list[int]:
    """Which rows of a table name a file, or a piece of one."""
    files = FileNames(names)
    return [i for i, given in enumerate(table.names) if files.find(given) or files.find(given.rpartition("@")[0])]


def check_names(table: LabelTable, names: Sequence[str], folder: Path, unread: Sequence[str] = ()) -> None:
    """Refuse a table that names no file and one without any label, before any file is read."""
    if not any(table.label_sets):
        raise InputError(f"{table.path}: no row has a label, so there is nothing to learn from; fill in that column.")
    if rows_naming(table, names):
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


# ---------------------------------------------------------------------------------------------------------------------
# Selections of Raven and results of BirdNET as labels: those of a file, and instances that are known by them.

MIN_CONFIDENCE = 0.5
MEDIA_TYPE = "audio"
NOTHING = "nocall"  # what BirdNET calls a recording in which it heard nothing
TOOLS = {"raven": "selections of Raven", "birdnet": "results of BirdNET", "csv": "events in a table"}


@dataclass(frozen=True)
class Selections:
    """Where labels are given by selections, and which of them count.

    Attributes
    ----------
    path : path
        A table, or a folder of tables.
    format : {"raven", "birdnet", "csv"}
    min_confidence : float
        The least confidence of a detection that counts; selections without one always count.
    fold_case : bool
        Whether labels that differ in case or blanks only are one.
    """

    path: Path
    format: str
    min_confidence: float = MIN_CONFIDENCE
    fold_case: bool = False

    @property
    def in_words(self) -> str:
        return TOOLS[self.format]


def find_selections(path: Path, min_confidence: float, fold_case: bool) -> Selections | None:
    """What `path` tells as selections; None where it is a table of labels."""
    if not 0 <= min_confidence <= 1:
        raise InputError(f"The least confidence is {min_confidence}; expected a number from 0 to 1 (--min-confidence).")
    name = selections_format(path)
    return None if name is None else Selections(path, name, min_confidence, fold_case)


def read_selections(
    given: Selections, media_type: MediaType, folder: Path, bags: Mapping[str, FileBags]
) -> tuple[LabelTable, list[Mark]]:
    """The labels of each file, which are those of its selections, and the selections that count.

    A person who made an empty table of a recording heard nothing in it. A machine may have missed what is there, so
    files of which no detection counts are files without labels.
    """
    files = [{"file": name, **file.info} for name, file in bags.items()]
    marks = read_marks(
        given.path,
        Annotations(media_type=media_type, rows=[], files=files, classes=[], folder=folder),
        given.format,
    )
    detected = [mark for mark in marks.rows if "confidence" in mark]
    used = [mark for mark in marks.rows if mark["label"] and _counts(mark, given.min_confidence)]
    if not used:
        raise FormatError(
            f"{given.path}: none of its {len(detected)} detections has a confidence of {given.min_confidence:g} or "
            "more; lower --min-confidence."
            if detected
            else f"{given.path}: no selection in it has a label; write one into the column Annotation of each."
        )
    if given.fold_case:
        spelled = fold_labels([[mark["label"]] for mark in used])
        used = [{**mark, "label": label} for mark, (label,) in zip(used, spelled, strict=True)]
    places: dict[str, str] = {}
    labels: dict[str, dict[str, None]] = {}
    for mark in used:
        places.setdefault(mark["file"], mark["source"])
        labels.setdefault(mark["file"], {})[mark["label"]] = None
    if not detected:
        for name in sorted(marks.covered & bags.keys() - labels.keys()):
            places[name], labels[name] = f"{given.path}: the empty table of {name!r}", {}
    sets = [list(own) for own in labels.values()]
    problems = [("labels", f"{given.path}: {problem}") for problem in remarks_about(sets)]
    unnamed = [mark for mark in marks.rows if not mark["label"]]
    if unnamed:
        text = f"{len(unnamed)} selection(s) have no label and are not used; write one, or remove them."
        problems.append(("labels", f"{unnamed[0]['source']}: {text}"))
    form = f"{given.in_words}: {len(used)}"
    if detected:
        form += f" of {len(marks.rows)} detections, those with a confidence of {given.min_confidence:g} or more"
    table = LabelTable(
        names=list(labels),
        label_sets=sets,
        rows=[],
        form=form,
        problems=problems,
        path=str(given.path),
        class_names=sorted({label for own in sets for label in own}),
        places=list(places.values()),
    )
    return table, used


def _counts(mark: Mark, least: float) -> bool:
    """Whether a selection is one of a person, or a detection that is sure enough."""
    return "confidence" not in mark or (mark["confidence"] >= least and mark["label"] != NOTHING)


def known_by_selections(
    marks: list[Mark], dataset: BagDataset, several: bool = False
) -> tuple[list[tuple[str, int, str]], str]:
    """The instances that lie in selections, with bag, number and label; and what is to be said of that.

    With `several` an instance may be known by several labels, one entry each.

    A selection with frequencies says what the sounds in it are. A detection by a machine, or a selection of time
    alone, says that the label is somewhere in it: only an instance that fills it is known.
    """
    assert dataset.locations is not None
    placed = [mark if "confidence" not in mark else _without_band(mark) for mark in marks]
    inside = instances_inside(rows_of(dataset.locations), placed)
    bag_of, position = dataset.bags.bag_index, dataset.positions
    known = [
        (dataset.bag_names[bag_of[i]], int(position[i]), label)
        for i, labels in sorted(inside.items())
        if several or len(labels) == 1
        for label in sorted(labels)
    ]
    n_known = len({(bag, i) for bag, i, _ in known})
    text = f"{n_known} syllables known by them"
    ambiguous = len(inside) - n_known
    return known, text + (f", {ambiguous} in selections of different labels" if ambiguous else "")


def _without_band(mark: Mark) -> Mark:
    return {key: value for key, value in mark.items() if key not in ("low", "high")}
