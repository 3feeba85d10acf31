"""What a run is made of: the bags of a folder of media or of a table, read once and kept in the folder of the run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import scipy.sparse as sp

from bagwise.app.formats import EVENTS, Annotations, compare_marks, read_boxes, read_marks
from bagwise.app.labels.tables import (
    MEDIA_TYPE,
    Selections,
    check_names,
    find_selections,
    known_by_selections,
    match_labels,
    match_observers,
    observer_tables,
    read_selections,
    rows_naming,
)
from bagwise.app.media.audio import NO_FEATURES
from bagwise.app.media.embedding import (
    NETWORK,
    Embedding,
    VectorTable,
    Windows,
    network_of,
    read_embedding,
    reopen_embedding,
)
from bagwise.app.media.files import FileBags, FileNames, Problem, assemble
from bagwise.app.media.media_types import (
    MEDIA,
    TABLE,
    check_media_type,
    find_files,
    guess_file_type,
    guess_media_type,
    list_files,
)
from bagwise.app.networks import content_fingerprint
from bagwise.app.runs._evidence import BagMarks
from bagwise.app.runs._features import Progress, Source, Store, archive_path, read_files, value_fingerprint
from bagwise.app.runs._observed import Observed, ObserverRates
from bagwise.app.runs.choose import score_name
from bagwise.app.runs.corrections import Correction
from bagwise.app.runs.folder import FEATURES, STATE, SUPERVISION
from bagwise.app.runs.layout import RunLayout
from bagwise.app.runs.options import RunOptions
from bagwise.app.runs.supervision import Supervision, put_together
from bagwise.core.dataset import BagDataset, rows_of
from bagwise.core.exceptions import BagwiseError, FormatError, InputError
from bagwise.io.data import unique_names
from bagwise.io.data.formats import read_described, select_features
from bagwise.io.data.vectors import read_vector_file
from bagwise.io.files import file_fingerprint
from bagwise.io.labels import LabelTable, join_observers, marks_in_words, read_labels, split_marks
from bagwise.preprocessing import filled

WINDOWS, BOXES = "windows", "boxes"
Labels = LabelTable | Selections
Known = list[tuple[str, int, str]]
"""Bag, number of the instance in it, and its label."""


@dataclass(frozen=True)
class Material:
    """The bags of a run and the labels that were given when it was made.

    Attributes
    ----------
    dataset : BagDataset
        Without labels.
    sets : dict
        Bag to its labels; bags that nobody labelled are missing.
    marked : dict
        Bag to what was said of it beyond a list, as entries of a table (`bagwise.io.labels`).
    observed : Observed
        What several observers listed of the same bags. `sets` are then what is there by all of them, before anything
        was learned of them, and `marked` is empty.
    known : list of (bag, instance, label)
    whole : list of str
        Files whose labels speak of the whole file, which is then one bag.
    files : list of dict
        Name and facts of every file that could be read.
    entries : dict
        File to the key under which its bags are kept.
    form : str
        How the table of labels was understood.
    problems : list of (name, message)
    unread : list of dict
        Name of every file that could not be read, and its seconds where they are known.
    n_reused : int
        Files that were read before.
    owners : dict
        Every bag of a file, those in which nothing was found too, to the file.
    """

    dataset: BagDataset
    sets: dict[str, list[str]]
    known: Known
    whole: list[str]
    files: list[dict[str, Any]]
    entries: dict[str, str]
    form: str = ""
    problems: list[Problem] = field(default_factory=list)
    unread: list[dict[str, Any]] = field(default_factory=list)
    n_reused: int = 0
    marked: dict[str, list[str]] = field(default_factory=dict)
    owners: dict[str, str] = field(default_factory=dict)
    observed: Observed = field(default_factory=Observed)

    def supervision(self, corrections: Iterable[Correction] = (), rates: ObserverRates | None = None) -> Supervision:
        """The bags with all that was said of them; `rates` are what was learned of observers."""
        weighed = self.observed.weighed(rates)
        sets: dict[str, list[str]] = {**self.sets, **weighed.listed}
        marks: dict[str, Iterable[str] | BagMarks] = {**self.marked, **weighed.marks}
        return put_together(self.dataset, sets, self.known, corrections, marks)

    def to_dict(self) -> dict[str, Any]:
        """All but the data set itself, whose bags are kept file by file, as plain data."""
        plain = {name: value for name, value in vars(self).items() if name not in ("dataset", "n_reused", "owners")}
        plain["observed"] = self.observed.lists
        for name in ("marked", "observed"):  # as runs were that knew lists alone
            if not plain[name]:
                del plain[name]
        return {**plain, "feature_names": self.dataset.feature_names, "prints": self.prints()}

    def prints(self) -> dict[str, str]:
        """For each bag a short text that changes when its instances are others: by their places, else by features."""
        dataset, offsets = self.dataset, self.dataset.bags.offsets
        columns = [values for name, values in (dataset.locations or {}).items() if name != "file"]
        columns = columns or [dataset.bags.instances]
        return {
            name: value_fingerprint([_plain(column[start:stop]) for column in columns])
            for name, start, stop in zip(dataset.bag_names, offsets[:-1], offsets[1:], strict=True)
        }


def _plain(values: Any) -> Any:
    """Numbers as text of their bytes, which is quick; other values as they are."""
    if sp.issparse(values):
        return [_plain(part) for part in (values.data, values.indices, values.indptr)]
    return values.tolist() if values.dtype == object else np.ascontiguousarray(values).tobytes().hex()


# -- which files, and how they are read -------------------------------------------------------------------------------


def find_source(
    path: Path,
    options: RunOptions,
    *,
    exclude: Sequence[Path],
    labels: Labels | None = None,
    trained: Mapping[str, Any] | None = None,
) -> Source:
    """Which files there are and how they are read; what is wrong is found before anything is read.

    Parameters
    ----------
    path : a folder of media, a file of bags, or one file of media that holds several bags
    options : RunOptions
    exclude : paths that hold no media; tables of labels and the like need not be among them
    labels : the table of labels; the media type is that of the files which it names
    trained : what a trained model, that of the options, says of how its features are made
    """
    if options.embed is not None and options.embeddings is not None:
        raise InputError("--embed works vectors out and --embeddings brings them; give one of the two.")
    if options.embed_settings and options.embed is None:
        raise InputError("--embed-set says how a network is given its input, and there is none; add --embed.")
    if not path.exists():
        raise InputError(f"{path} is not a folder and no file; check the path.")
    others = (options.boxes, options.labels, options.known, options.sites, options.embed, options.embeddings)
    exclude = [*exclude, *(other for other in others if other is not None and not holds(other, path))]
    source = _with_boxes(_find_files(path, options, trained, exclude, labels), options)
    if isinstance(labels, LabelTable) and not source.is_table and not source.media_type.pieces_have_names:
        unread = [] if source.single else sorted({*list_files(source.path, exclude)} - {*source.names})
        check_names(labels, source.names, path, unread)
    vectors = None
    if trained is not None:
        vectors = _as_trained(source, options, trained.get("embedded"))
    elif options.embed is None and options.embeddings is None:
        if options.join is not None:
            raise InputError(
                "--join puts vectors next to the features, and there are none; add --embed or --embeddings."
            )
        if in_windows(source):
            raise InputError(NO_FEATURES)
    elif source.is_table:
        raise InputError(f"{path} is a file of bags, whose features are there; leave --embed and --embeddings out.")
    elif options.embed is not None:
        vectors = read_embedding(
            options.embed,
            source.media_type,
            options.embed_settings,
            join=_joins(options, source, in_windows(source)),
            labels=_label_names(labels, source),
        )
        if in_windows(source):
            source = replace(source, settings=_with_length(source.settings, vectors, options.embed))
    else:
        are_instances = source.media_type.timed and (not options.has_segment or in_windows(source))
        join = _joins(options, source, are_instances)
        vectors = _vector_table(options, source, join=join, are_instances=are_instances)
        if are_instances:
            source = replace(source, settings=replace(source.settings, segment=WINDOWS))
    if vectors is None:
        return source
    if vectors.join and in_windows(source):
        raise InputError("Windows have no features of their own that vectors could join; leave --join out.")
    return replace(source, vectors=vectors, embedded=vectors.about)


def _with_boxes(source: Source, options: RunOptions) -> Source:
    """The source with the boxes of a table as instances, where these were asked for, or the model knows such."""
    path, media_type = options.boxes, source.media_type
    if path is None:
        if getattr(source.settings, "segment", "") == BOXES:
            raise InputError("The instances are boxes of a table, and none is given; name it (--segment boxes.csv).")
        return source
    if media_type.read_boxes is None:
        raise InputError(
            f"--segment {path}: boxes are for recordings, and these files are {media_type.name}; leave it out."
        )
    if not path.exists():
        raise InputError(f"--segment {path}: there is no such table; use syllables, windows, or a table of boxes.")
    if source.settings.segment == WINDOWS:
        raise InputError(f"--segment {path}: the model was trained on windows; leave it out.")
    boxes = read_boxes(path, Annotations(media_type, [], _with_seconds(source), [], folder=source.folder))
    known = set(source.names)
    by_file: dict[str, list[dict[str, Any]]] = {}
    for box in boxes:
        if box["file"] in known:
            by_file.setdefault(box["file"], []).append(box)
    if not by_file:
        example = f", such as {boxes[0]['file']!r}," if boxes else ""
        raise InputError(f"{path}: none of its {len(boxes)} boxes{example} is of a file in {source.path}; check names.")
    print_ = value_fingerprint(
        [[box["file"], box["start"], box["end"], box.get("low"), box.get("high")] for box in boxes]
    )
    settings = replace(source.settings, segment=BOXES, boxes=f"{path.name} {print_}")
    return replace(source, settings=settings, boxes=by_file)


def _with_seconds(source: Source) -> list[dict[str, Any]]:
    """The files with their lengths and rates, which tables of several recordings, or of shares of them, need."""
    found, scales = [], source.media_type.scales
    assert scales is not None
    for name in source.names:
        seconds = rate = None
        with suppress(BagwiseError, OSError), source.media_type.opened(source.path / name) as file:
            seconds, rate = scales.measure(file)
        found.append({"file": name, "seconds": seconds and round(seconds, 4), "rate": rate})
    return found


def _label_names(labels: Labels | None, source: Source) -> list[str]:
    """The labels of a run before its files are read."""
    if isinstance(labels, Selections):
        seconds = {file.pop("file"): file for file in _with_seconds(source)}
        nothing = FileBags([], [], np.empty((0, 0)), {}, {})
        labels, _ = read_selections(
            labels, source.media_type, source.path, {name: replace(nothing, info=own) for name, own in seconds.items()}
        )
    if labels is None:
        return []
    rows = enumerate(labels.label_sets)
    return sorted({name for i, entries in rows for name in split_marks(entries, labels.place(i))[0]})


def _joins(options: RunOptions, source: Source, are_windows: bool) -> bool:
    """Whether vectors join the features of the media type: as asked, else where these say what vectors do not."""
    return source.media_type.joins and not are_windows if options.join is None else options.join


def holds(folder: Path, other: Path) -> bool:
    """Whether a path lies in a folder, or is it: tables may lie among the recordings."""
    return other.resolve().is_relative_to(folder.resolve())


def in_windows(source: Source) -> bool:
    """Whether recordings are cut into windows of a fixed length, whatever is in them."""
    return getattr(source.settings, "segment", "") == WINDOWS


def holds_windows(source: Source) -> bool:
    """Whether instances are windows, of recordings or series: each may carry any number of labels."""
    return in_windows(source) or source.media_type.name == "series"


def reopen_source(manifest: Mapping[str, Any]) -> Source:
    """That of a run that is there already."""
    identity = manifest["identity"]
    media_type = check_media_type(identity["medium"])
    settings = media_type.make_settings(identity["settings"])
    path, embedded = Path(manifest.get("media") or identity["folder"]), identity.get("embedded")
    return Source(path, media_type, settings, [], identity.get("options", {}), embedded=embedded)


def _find_files(
    path: Path,
    options: RunOptions,
    trained: Mapping[str, Any] | None,
    exclude: Sequence[Path],
    labels: Labels | None,
) -> Source:
    media_type, settings = options.media_type, options.settings
    expected = None if trained is None else list(trained["feature_names"] or []) or None
    wanted = media_type if media_type is not None or trained is None else trained["medium"]
    if wanted is None and path.is_file():
        wanted = guess_file_type(path)
    single = path.is_file() and wanted not in (None, TABLE.name) and check_media_type(wanted).is_alone(path)
    if path.is_file() and not single:
        refuse_media_options(path, options)
        if trained is not None and trained["medium"] != TABLE.name:
            raise InputError(f"The model was trained on {trained['medium']}, and {path} is a file of bags; give media.")
        return Source(path, TABLE, TABLE.make_settings(), [path.name], dict(options.reading), expected)
    if options.reading:
        raise InputError(
            f"{path} holds media, and {next(iter(options.reading))!r} is an option of files of bags; leave it out."
        )
    if trained is None:
        kind = check_media_type(wanted or _named_media_type(path, exclude, labels) or guess_media_type(path, exclude))
    else:
        if settings or media_type not in (None, trained["medium"]):
            raise InputError(
                f"The model was trained on {trained['medium']} with its own settings; leave --media-type and "
                "--media-set out."
            )
        kind, settings = check_media_type(trained["medium"]), trained["settings"]
        if kind is TABLE:
            raise InputError(f"The model was trained on a file of bags, and {path} is no file; give one.")
    made = kind.make_settings(settings)
    if single:
        return Source(path.parent, kind, made, [path.name], {}, expected, single)
    return Source(path, kind, made, find_files(path, kind, made, exclude), {}, expected)


def refuse_media_options(path: Path, options: RunOptions) -> None:
    """Those make no sense for a file of bags."""
    if options.settings or options.media_type not in (None, TABLE.name):
        raise InputError(
            f"{path} is a file of bags, which has no media type and no settings of one; leave --media-type, --window "
            "and --media-set out."
        )


def _named_media_type(folder: Path, exclude: Sequence[Path], labels: Labels | None) -> str | None:
    """The media type of most files that the table of labels names, if any: pictures may lie among recordings."""
    if labels is None:
        return None
    if isinstance(labels, Selections):
        return MEDIA_TYPE
    counts: Counter[str] = Counter()
    files = list_files(folder, exclude)
    for name, media_type in MEDIA.items():
        own = FileNames(file for file in files if PurePosixPath(file).suffix.lower() in media_type.extensions)
        counts[name] = sum(len(own.find(given)) == 1 for given in labels.names)
    best, count = counts.most_common(1)[0]
    return best if count else None


# -- vectors of a network ---------------------------------------------------------------------------------------------


def _as_trained(source: Source, options: RunOptions, given: Mapping[str, Any] | None) -> Embedding | VectorTable | None:
    """The vectors that a trained model needs; networks are checked and tried here, tables are read."""
    if given is None:
        if options.embed is not None or options.embeddings is not None or options.join is not None:
            raise InputError("The model was trained without vectors of a network; leave --embed and --embeddings out.")
        return None
    if options.embed_settings or options.join is not None:
        raise InputError("The model knows how its vectors are made and used; leave --embed-set and --join out.")
    if given["kind"] == NETWORK:
        path = network_of(given, options.embed, Path(str(options.model)))
        if options.embeddings is not None or path is None or not path.is_file():
            raise InputError(
                f"The model was trained with vectors of the network {given['name']}; give that file (--embed), or put "
                f"it next to {options.model}."
            )
        return reopen_embedding(path, source.media_type, given)
    if options.embeddings is None:
        raise InputError(
            f"It was trained with vectors of {given['size']} numbers from a table ({given['name']}); give such a "
            "table for the new files (--embeddings)."
        )
    vectors = _vector_table(options, source, join=given["join"], are_instances=given["settings"]["windows"])
    if vectors.size != given["size"]:
        raise InputError(
            f"{options.embeddings}: its vectors have {vectors.size} numbers, and the model was trained with "
            f"{given['size']}; give vectors of the same network."
        )
    return vectors


def _with_length(settings: Any, embedding: Embedding, path: Path) -> Any:
    """The settings with windows as long as the network hears, every second half of them in the next."""
    window = embedding.inputs.to_dict()["window"]
    length = window if settings.length is None else settings.length
    if length > window + 1e-9:
        raise InputError(
            f"{path}: the network hears {window:g} s, and windows of {length:g} s are asked for; lower length "
            "(--media-set length=...), or leave it out."
        )
    step = length / 2 if settings.step is None else settings.step
    if step > length:
        raise InputError(
            f"step={step:g} is larger than length={length:g}, so sound between windows would be lost; lower it."
        )
    return replace(settings, length=length, step=step)


def _vector_table(options: RunOptions, source: Source, *, join: bool, are_instances: bool) -> VectorTable:
    """The vectors of a table by the files of a folder; rows that name no file of it are named among the problems."""
    path = options.embeddings
    assert path is not None
    if source.media_type.embed is None:
        raise InputError(
            f"Tables of vectors are for recordings, pictures and texts, and these files are {source.media_type.name}; "
            "leave --embeddings out."
        )
    rows = read_vector_file(path, boxes="left" in source.media_type.places)
    names = FileNames(source.names)
    fitting = {given: names.find(given) for given in dict.fromkeys(rows.files)}
    counts = Counter(rows.files)
    problems = [
        (
            given,
            f"{path}: {'several files fit' if found else 'there is no such file'} ({given!r}); "
            f"its {counts[given]} row(s) are not used.",
        )
        for given, found in fitting.items()
        if len(found) != 1
    ]
    number = {name: i for i, name in enumerate(source.names)}
    owner = np.array([number[next(iter(fitting[given]))] if len(fitting[given]) == 1 else -1 for given in rows.files])
    if not np.any(owner >= 0):
        raise InputError(
            f"{path}: none of its {len(fitting)} files, such as {rows.files[0]!r}, is in {source.path}; check "
            "the names."
        )
    windows = {}
    for i in np.unique(owner[owner >= 0]).tolist():
        own = np.flatnonzero(owner == i)
        own = own[np.lexsort((rows.places[own, 1], rows.places[own, 0]))]
        windows[source.names[i]] = Windows(rows.places[own], rows.vectors[own])
    is_one = path.is_file()
    contents = [rows.places.tobytes(), rows.vectors.tobytes(), "\n".join(rows.files).encode()]
    return VectorTable(
        path.name,
        file_fingerprint(path) if is_one else content_fingerprint(*contents),
        windows,
        rows.vectors.shape[1],
        join,
        are_instances,
        tuple(problems),
    )


# -- reading ----------------------------------------------------------------------------------------------------------


def read_label_table(options: RunOptions) -> Labels | None:
    """The table of labels; or selections that hold them, which are read when it is known what the files hold."""
    path = options.labels
    if path is None:
        return None
    if path.is_dir() and (tables := observer_tables(path)):
        own = {who: read_label_table(replace(options, labels=table)) for who, table in tables.items()}
        for who, table in own.items():
            if isinstance(table, Selections):
                raise InputError(
                    f"{tables[who]} holds {table.in_words}, in a folder with a table of labels of each observer; "
                    "move it elsewhere, or give it alone."
                )
        return join_observers(
            {who: table for who, table in own.items() if isinstance(table, LabelTable)}, "one table each"
        )
    selections = find_selections(path, options.min_confidence, options.fold_case)
    if selections is not None and selections.format == EVENTS and options.columns is not None:
        selections = None  # events of which only file and label are to be used
    given = {"--columns": options.columns, "--separator": options.separator, "--sheet": options.sheet}
    if selections is not None and any(given.values()):
        option = next(option for option, value in given.items() if value)
        raise InputError(f"{path} holds {selections.in_words}, whose columns are known; leave {option} out.")
    name, label = options.columns or (None, None)
    return selections or read_labels(
        path,
        name=name,
        label=label,
        list_mark=options.separator,
        fold_case=options.fold_case,
        sheet=options.sheet,
        repeats="join",
        marks=True,
    )


def read_material(
    source: Source,
    run: Path,
    labels: Labels | None,
    options: RunOptions,
    progress: Progress,
    keep: Collection[str] | None = (),
    several: bool = False,
) -> Material:
    """Read all files, those that were read before from what was kept, and match the labels that were given.

    With `several` an instance may be known by several labels. `keep` are keys of other files of the run; None: what is
    kept of all stays, whatever the settings.
    """
    media_type = source.media_type
    if isinstance(labels, Selections) and media_type.name != MEDIA_TYPE:
        raise InputError(
            f"{labels.path} holds {labels.in_words}, and {source.path} no recordings; give a table of labels."
        )
    if source.is_table:
        assert not isinstance(labels, Selections)
        material = _read_table(source, run, labels)
        material = material if options.use_known else replace(material, known=[])
        return _with_known_marks(material, source, options.known, several)
    done = read_files(source, run, options.jobs, progress, options.cluster, keep)
    problems = [*(() if source.vectors is None else source.vectors.problems), *done.errors.items()]
    problems += [
        (name, f"{name}: {why}.")
        for name in (() if source.single else list_files(source.path))
        if (why := media_type.unreadable.get(PurePosixPath(name).suffix.lower()))
    ]
    problems += [(name, f"{name}: {text}") for name, file in done.bags.items() for text in file.problems]
    if not done.bags:
        raise InputError(f"None of the {len(source.names)} files could be read; the first: {problems[0][1]}")
    sets: dict[str, list[str]] = {}
    marked: dict[str, list[str]] = {}
    observed: dict[str, dict[str, list[str]]] = {}
    whole: list[str] = []
    marks = None
    if isinstance(labels, Selections):
        labels, marks = read_selections(labels, media_type, source.path, done.bags)
    # of a folder, of which one file is annotated; the recordings of one table go by names of their own
    if isinstance(labels, LabelTable) and source.single and not source.media_type.pieces_have_names:
        labels = labels.part(rows_naming(labels, source.names))
    if labels is not None:
        unread = [] if source.single else sorted(set(list_files(source.path)) - set(source.names))
        about = source.names, done.bags, list(done.errors), unread, media_type.pieces_have_names
        matched, by_observer = (
            match_observers(labels, *about) if labels.observers else (match_labels(labels, *about), {})
        )
        whole = sorted(matched.whole)
        sets = {bag: sorted(names) for bag, names in matched.sets.items()}
        problems += labels.problems + matched.problems
        if marks is None:
            sets, marked, observed, words = _without_marks(labels, sets, by_observer)
            labels = replace(labels, form=labels.form + words)
    dataset = _assemble(source, done.bags, whole, source.feature_names)
    owners = _owners(done.bags, whole)
    known, form = Known(), "" if labels is None else labels.form
    if marks is not None:
        known, text = known_by_selections(marks, dataset, several)
        form = f"{form}; {text}"
    material = Material(
        dataset=dataset,
        sets={bag: found for bag, found in sets.items() if bag in owners},
        known=known,
        whole=whole,
        files=[{"file": name, **bags.info} for name, bags in done.bags.items()],
        entries={name: done.keys[name] for name in done.bags},
        form=form,
        problems=problems,
        unread=[{"file": name, "seconds": _seconds(source, name)} for name in done.errors],
        n_reused=done.n_reused,
        marked={bag: found for bag, found in marked.items() if bag in owners},
        observed=Observed({who: {bag: own[bag] for bag in own if bag in owners} for who, own in observed.items()}),
        owners=owners,
    )
    return _with_known_marks(material, source, options.known, several)


def _without_marks(
    labels: LabelTable, sets: Mapping[str, Iterable[str]], by_observer: Mapping[str, Mapping[str, Iterable[str]]]
) -> tuple[dict[str, list[str]], dict[str, list[str]], dict[str, dict[str, list[str]]], str]:
    """What is listed, what is said beyond lists, what each observer said, and all that in words.

    An error names the row of the table.
    """
    for table in labels.observers.values() or [labels]:
        for i, entries in enumerate(table.label_sets):
            split_marks(entries, table.place(i))
    looks = Counter(bag for own in by_observer.values() for bag in own)
    if any(n > 1 for n in looks.values()):
        observed = {who: {bag: sorted(entries) for bag, entries in own.items()} for who, own in by_observer.items()}
        listed = {bag: sorted(own) for bag, own in Observed(observed).weighed(None).listed.items()}
        entries = [entry for own in observed.values() for given in own.values() for entry in split_marks(given, "")[1]]
        return listed, {}, observed, marks_in_words(entries)
    alone = "; no two of them looked at the same, so their lists are taken as they are" if looks else ""
    split = {bag: split_marks(sorted(entries), labels.path) for bag, entries in sets.items()}
    listed = {bag: names for bag, (names, _) in split.items()}
    marked = {bag: found for bag, (_, found) in split.items() if found}
    return listed, marked, {}, alone + marks_in_words(text for found in marked.values() for text in found)


def _check_absent(material: Material) -> Material:
    """The material, if no instance is known to carry a label that its bag is said not to hold."""
    for bag, instance, label in material.known:
        marks = BagMarks.of(material.marked.get(bag, ())).values if bag in material.marked else {}
        if marks.get(label) == -np.inf:
            raise InputError(
                f"Instance {instance} of {bag!r} is known to be {label!r}, and the table of labels says that it is not "
                f"in {bag!r} ('!{label}'); correct one of the two."
            )
    return material


def _with_known_marks(material: Material, source: Source, path: Path | None, several: bool) -> Material:
    """The material with the instances that somebody marked before, in the format of some tool."""
    if path is None:
        return _check_absent(material)
    dataset = material.dataset
    assert dataset.locations is not None
    names = [dataset.bag_names[i] for i in dataset.bags.bag_index]
    empty = {"label": "", "probability": None, "runner_up": "", "noise": None, "mode": ""}
    rows = [
        {**place, **empty, "bag": bag, "instance": instance}
        for place, bag, instance in zip(rows_of(dataset.locations), names, dataset.positions.tolist(), strict=True)
    ]
    annotations = Annotations(source.media_type, rows, material.files, [], folder=source.folder, label_sets=several)
    found, problems = compare_marks(annotations, read_marks(path, annotations))
    known = [
        (bag, instance, label)
        for bag, instance, labels in found
        for label in (labels if isinstance(labels, (list, tuple)) else [labels])
    ]
    problems = [*material.problems, *problems]
    return _check_absent(replace(material, known=[*material.known, *known], problems=problems))


def _seconds(source: Source, name: str) -> float | None:
    """How long a file is that could not be used, where its heading tells."""
    if source.media_type.parts is None:
        return None
    try:
        with source.opened(name) as file:
            return round(source.media_type.parts.cut(file, source.settings)[-1][1], 4)
    except (BagwiseError, OSError):
        return None


def _assemble(
    source: Source, bags: Mapping[str, FileBags], whole: Sequence[str], feature_names: list[str] | None
) -> BagDataset:
    """All bags that hold instances."""
    media_type, merged = source.media_type, set(whole)
    if source.is_table:  # a column ``file`` of its own says where instances were, else it is the table
        (file,) = bags.values()
        return assemble(bags, file.features, file.feature_names, media_type.name)
    files = {name: file.as_one_bag(name) if name in merged else file for name, file in bags.items()}
    return assemble(files, *features_of(source, list(files.values()), feature_names), media_type.name)


def _owners(files: Mapping[str, FileBags], whole: Collection[str]) -> dict[str, str]:
    """Every bag to its file."""
    return {bag: name for name, file in files.items() for bag in ([name] if name in whole else file.bag_names)}


def features_of(source: Source, found: list[FileBags], feature_names: list[str] | None) -> tuple[Any, list[str]]:
    """Features of all instances of some files, and what their columns are called; sparse ones stay sparse, unless
    vectors stand next to them."""
    media_type, embedded = source.media_type, source.embedded
    if not source.has_features:
        assert embedded is not None
        return _join_vectors(None, [], found, embedded)
    own = replace(source, feature_names=feature_names).own_names
    names = list(media_type.feature_names(found, source.settings) if own is None else own)
    features = media_type.features(found, names)
    if embedded is not None:
        if sp.issparse(features):
            features = filled(features, "--embed next to terms", "count fewer terms (--media-set keep=0.02)")
        features, names = _join_vectors(features, names, found, embedded)
    return features, names


def _join_vectors(
    own: Any, own_names: list[str], files: list[FileBags], embedded: Mapping[str, Any]
) -> tuple[np.ndarray, list[str]]:
    """Features of all instances with their vectors, and what all columns are called; `own` may be None."""
    size, scores = embedded["size"], [score_name(label) for label in embedded.get("scores", ())]
    parts = [file.vectors for file in files if file.vectors is not None and len(file.vectors)]
    vectors = np.concatenate(parts).astype(np.float64) if parts else np.empty((0, size))
    names = [*own_names, *(f"embed{i}" for i in range(size - len(scores))), *scores]
    return (vectors if own is None else np.hstack([own, vectors])), names


def _read_table(source: Source, run: Path, labels: LabelTable | None) -> Material:
    """The bags of a file, named by text; its own labels, or those of a second table by the names of the bags."""
    name = source.names[0]
    dataset, understood = read_described(source.path, **source.options)
    dataset = select_features(dataset, source.feature_names, source.path)
    names = unique_names(dataset)
    sets, known, problems = dict[str, list[str]](), Known(), list[Problem]()
    marked: dict[str, list[str]] = {}
    observed: dict[str, dict[str, list[str]]] = {}
    if dataset.instance_labels is not None:
        codes = dataset.instance_labels.instances
        bag_of, position = dataset.bags.bag_index, dataset.positions
        rows = np.flatnonzero(codes >= 0).tolist()
        known = [(names[bag_of[i]], int(position[i]), str(dataset.class_names[codes[i]])) for i in rows]
    if labels is not None:
        present, understood = set(names), f"{understood}; labels: {labels.form}"
        problems = [*labels.problems]
        by_observer: dict[str, dict[str, list[str]]] = {who: {} for who in labels.observers}
        for who, table in labels.observers.items() or [("", labels)]:
            of_table = by_observer.get(who, sets)
            for i, (bag, found) in enumerate(zip(table.names, table.label_sets, strict=True)):
                if bag in present:
                    of_table[bag] = found
                    sets[bag] = [*dict.fromkeys([*sets.get(bag, ()), *found])]
                else:
                    problems.append((bag, f"{table.place(i)}: there is no such bag ({bag!r}); it is not used."))
        sets, marked, observed, words = _without_marks(labels, sets, by_observer)
        understood += words
    elif dataset.Y is not None:
        pairs = zip(names, dataset.label_sets, strict=True)
        sets = {bag: sorted(map(str, given)) for bag, given in pairs if given is not None}
    key, store = source.key(name), Store(run)
    n_reused = int(archive_path(run, [key]).exists())
    file = FileBags(
        bag_names=names,
        sizes=dataset.bags.sizes.tolist(),
        features=dataset.bags.instances,
        locations=dict(dataset.locations or {}),
        info={"rows": dataset.bags.n_instances},
        feature_names=dataset.feature_names,
    )
    store.write({key: file})
    store.forget_others([key])
    return Material(
        dataset=_assemble(source, {name: file}, [], None),
        sets=sets,
        known=known,
        whole=[],
        files=[{"file": name, **file.info}],
        entries={name: key},
        form=understood,
        problems=problems,
        n_reused=n_reused,
        marked=marked,
        observed=Observed(observed),
    )


def reopen_material(run: Path, source: Source, kept: Mapping[str, Any]) -> Material:
    """The material of a run that was made before, from what was kept in its folder."""
    keys = kept["entries"]
    found = Store(run).read_all(set(keys.values()))
    bags = {name: found[key] for name, key in keys.items() if key in found}
    missing = next((name for name in keys if name not in bags), None)
    if missing is not None:
        raise FormatError(
            f"{run / FEATURES}: what was found in {missing} is missing or damaged; run the bagwise annotate that made "
            "the run once more."
        )
    try:
        dataset = _assemble(source, bags, kept["whole"], kept["feature_names"])
        known = [(bag, instance, label) for bag, instance, label in kept["known"]]
        layout = RunLayout(dict(zip(dataset.bag_names, dataset.bags.sizes.tolist(), strict=True)))
        problem = next((text for bag, instance, _ in known if (text := layout.misfit(bag, instance))), None)
        if problem is not None:
            raise FormatError(problem)
    except Exception as error:  # whatever comes up where what is kept does not go together
        raise FormatError(
            f"{run / STATE / SUPERVISION} and {run / FEATURES} do not fit together, so one is damaged ({error}); run "
            "the bagwise annotate that made the run once more."
        ) from error
    same = {name: kept[name] for name in ("sets", "whole", "files", "entries", "form")}
    problems = [(name, message) for name, message in kept["problems"]]
    owners = {} if source.is_table else _owners(bags, kept["whole"])
    return Material(
        dataset=dataset,
        known=known,
        problems=problems,
        unread=kept.get("unread", []),
        marked=kept.get("marked", {}),
        observed=Observed(kept.get("observed", {})),
        owners=owners,
        **same,
    )
