"""What a run is made of: the bags of a folder of media or of a table, read once and kept in the folder of the run."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import scipy.sparse as sp

from bagwise.app.labels.selections import (
    MEDIA_TYPE,
    Selections,
    find_selections,
    known_by_selections,
    read_selections,
)
from bagwise.app.labels.tables import match_labels
from bagwise.app.media.embedding import join_vectors, split_names
from bagwise.app.media.files import FileBags, FileNames, Problem, assemble
from bagwise.app.media.media_type import MediaType
from bagwise.app.media.media_types import MEDIA, check_media_type, find_files, guess_media_type, list_files
from bagwise.app.runs._checked import SUPERVISION as TOLD_FORM
from bagwise.app.runs._checked import check, read_checked
from bagwise.app.runs._store import Store, archive_path, entry_facts, entry_key, fingerprint
from bagwise.app.runs.corrections import misfit
from bagwise.app.runs.featurize import Progress, Vectors, featurize_folder, refuse_files
from bagwise.app.runs.folder import FEATURES, STATE
from bagwise.app.runs.options import RunOptions
from bagwise.core.dataset import BagDataset
from bagwise.core.exceptions import BagwiseError, FormatError, InputError
from bagwise.io.data import unique_names
from bagwise.io.data.formats import read_described, select_features
from bagwise.io.files import atomic_write, inside
from bagwise.io.labels import LabelTable, read_labels
from bagwise.preprocessing import filled

TABLE = "table"
SUPERVISION = "supervision.json"
Known = list[tuple[str, int, str]]
"""Bag, number of the instance in it, and its label."""


@dataclass(frozen=True)
class Source:
    """Where bags come from and how they are read.

    Attributes
    ----------
    path : path
        A folder of media, or a file of bags.
    media_type : MediaType
    settings : of the media type
    names : list of str
        The files, relative to the folder; of a table its own name.
    options : dict
        Of the reader of a table.
    feature_names : list of str or None
        Those of the model where it is trained already.
    single : bool
        Whether one file of the folder was asked for by name.
    vectors : Embedding, VectorTable or None
        Where vectors of instances come from, in addition to their features or instead of them.
    embedded : dict or None
        What is to be known of these vectors (`Embedding.about`), also where they are there already.
    """

    path: Path
    media_type: MediaType
    settings: Any
    names: list[str]
    options: dict[str, Any] = field(default_factory=dict)
    feature_names: list[str] | None = None
    single: bool = False
    vectors: Vectors | None = None
    embedded: dict[str, Any] | None = None

    @property
    def folder(self) -> Path:
        """Where the files lie."""
        return self.path.parent if self.media_type.name == TABLE else self.path

    def key(self, name: str) -> str:
        """What the bags of a file are kept under; another key as soon as the file changes."""
        facts = entry_facts(self.settings.to_dict() | self.options, self.embedded)
        related = self.media_type.companions(self.folder / name, name, self.settings)
        return entry_key(self.media_type.name, facts, self.folder, name, related)


@dataclass(frozen=True)
class Material:
    """The bags of a run and what was said of them when it was made.

    Attributes
    ----------
    dataset : BagDataset
        Without labels.
    sets : dict
        Bag to its labels; bags that nobody labelled are missing.
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

    def to_dict(self) -> dict[str, Any]:
        """All but the data set itself, whose bags are kept file by file, as plain data."""
        return {
            "sets": self.sets,
            "known": self.known,
            "whole": self.whole,
            "files": self.files,
            "entries": self.entries,
            "feature_names": self.dataset.feature_names,
            "form": self.form,
            "problems": self.problems,
            "unread": self.unread,
            "prints": self.prints(),
        }

    def prints(self) -> dict[str, str]:
        """For each bag a short text that changes when its instances are others: by their places, else by features."""
        dataset, offsets = self.dataset, self.dataset.bags.offsets
        columns = [values for name, values in (dataset.locations or {}).items() if name != "file"]
        columns = columns or [dataset.bags.instances]
        return {
            name: fingerprint([_plain(column[start:stop]) for column in columns])
            for name, start, stop in zip(dataset.bag_names, offsets[:-1], offsets[1:], strict=True)
        }


def _plain(values: Any) -> Any:
    """Numbers as text of their bytes, which is quick; other values as they are."""
    if sp.issparse(values):
        return [_plain(part) for part in (values.data, values.indices, values.indptr)]
    return values.tolist() if values.dtype == object else np.ascontiguousarray(values).tobytes().hex()


def find_source(
    path: Path,
    options: RunOptions,
    *,
    trained: Mapping[str, Any] | None,
    exclude: Sequence[Path],
    labels: LabelTable | Selections | None = None,
) -> Source:
    """Which files there are and how they are read; what is wrong is found before anything is read.

    Parameters
    ----------
    path : a folder of media, a file of bags, or one file of media that holds several bags
    options : RunOptions
    trained : what a trained model says of how its features are made
    exclude : paths that hold no media
    labels : the table of labels; the media type is that of the files which it names
    """
    media_type, settings, reading_options = options.media_type, options.settings, options.reading
    expected = None if trained is None else list(trained["feature_names"] or []) or None
    single = path.is_file() and _is_of_media(media_type, trained)
    if path.is_file() and not single:
        if settings or media_type not in (None, TABLE):
            raise InputError(
                f"{path} is a file of bags, which has no media type and no settings of one; leave --media-type and "
                "--media-set out."
            )
        if trained is not None and trained["medium"] != TABLE:
            raise InputError(f"The model was trained on {trained['medium']}, and {path} is a file of bags; give media.")
        return Source(path, MEDIA[TABLE], MEDIA[TABLE].make_settings(), [path.name], dict(reading_options), expected)
    if reading_options:
        raise InputError(
            f"{path} holds media, and {next(iter(reading_options))!r} is an option of files of bags; leave it out."
        )
    if trained is None:
        kind = check_media_type(
            media_type or _named_media_type(path, exclude, labels) or guess_media_type(path, exclude)
        )
        reading = kind.make_settings(settings)
    else:
        if settings or media_type not in (None, trained["medium"]):
            raise InputError(
                f"The model was trained on {trained['medium']} with its own settings; leave --media-type and "
                "--media-set out."
            )
        kind = check_media_type(trained["medium"])
        if kind.name == TABLE:
            raise InputError(f"The model was trained on a file of bags, and {path} is no file; give one.")
        reading = kind.make_settings(trained["settings"])
    if single:
        return Source(path.parent, kind, reading, [path.name], {}, expected, single)
    return Source(path, kind, reading, find_files(path, kind, reading, exclude), {}, expected)


def _is_of_media(media_type: str | None, trained: Mapping[str, Any] | None) -> bool:
    """Whether a single file is meant as one of the media, such as a table of several recordings."""
    name = media_type if media_type is not None else (None if trained is None else trained["medium"])
    return name is not None and name != TABLE and check_media_type(name).pieces_have_names


def _named_media_type(folder: Path, exclude: Sequence[Path], labels: LabelTable | Selections | None) -> str | None:
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


def read_material(
    source: Source,
    run: Path,
    labels: LabelTable | Selections | None,
    jobs: int,
    progress: Progress,
    cluster: str | None = None,
) -> Material:
    """Read all files, those that were read before from what was kept, and match the labels that were given."""
    if isinstance(labels, Selections) and source.media_type.name != MEDIA_TYPE:
        raise InputError(
            f"{labels.path} holds {labels.in_words}, and {source.path} no recordings; give a table of labels."
        )
    if source.media_type.name == TABLE:
        assert not isinstance(labels, Selections)
        return _read_table(source, run, labels)
    done = featurize_folder(
        source.folder, source.names, source.media_type, source.settings, run, jobs, progress, source.vectors, cluster
    )
    if source.embedded is None or source.embedded["join"]:
        done = refuse_files(done, source.media_type, split_names(source.feature_names, source.embedded))
    problems = [*(() if source.vectors is None else source.vectors.problems), *done.errors.items()]
    problems += [
        (name, f"{name}: {why}.")
        for name in list_files(source.folder)
        if (why := source.media_type.unreadable.get(PurePosixPath(name).suffix.lower()))
    ]
    problems += [(name, f"{name}: {text}") for name, file in done.bags.items() for text in file.problems]
    if not done.bags:
        raise InputError(f"None of the {len(source.names)} files could be read; the first: {problems[0][1]}")
    sets: dict[str, list[str]] = {}
    whole: list[str] = []
    marks = None
    if isinstance(labels, Selections):
        labels, marks = read_selections(labels, source.media_type, source.folder, done.bags)
    if labels is not None:
        unread = sorted(set(list_files(source.folder)) - set(source.names))
        matched = match_labels(
            labels, source.names, done.bags, list(done.errors), unread, source.media_type.pieces_have_names
        )
        sets = {bag: sorted(names) for bag, names in matched.sets.items()}
        whole = sorted(matched.whole)
        problems += labels.problems + matched.problems
    material = Material(
        dataset=_assemble(source.media_type, source.settings, done.bags, whole, source.feature_names, source.embedded),
        sets=sets,
        known=[],
        whole=whole,
        files=[{"file": name, **bags.info} for name, bags in done.bags.items()],
        entries={name: done.keys[name] for name in done.bags},
        form="" if labels is None else labels.form,
        problems=problems,
        unread=[{"file": name, "seconds": _seconds(source, name)} for name in done.errors],
        n_reused=done.n_reused,
    )
    if marks is not None:
        known, text = known_by_selections(marks, material.dataset)
        material = replace(material, known=known, form=f"{material.form}; {text}")
    names = set(material.dataset.bag_names)
    return replace(material, sets={bag: found for bag, found in sets.items() if bag in names})


def _seconds(source: Source, name: str) -> float | None:
    """How long a file is that could not be used, where its heading tells."""
    if source.media_type.parts is None:
        return None
    try:
        with source.media_type.opened(source.folder / name) as file:
            return round(source.media_type.parts.cut(file, source.settings)[-1][1], 4)
    except (BagwiseError, OSError):
        return None


def _assemble(
    media_type: MediaType,
    settings: Any,
    bags: Mapping[str, FileBags],
    whole: Sequence[str],
    feature_names: list[str] | None,
    embedded: Mapping[str, Any] | None,
) -> BagDataset:
    """All bags that hold instances; sparse features stay sparse, unless vectors stand next to them."""
    merged = set(whole)
    files = {name: file.as_one_bag(name) if name in merged else file for name, file in bags.items()}
    found = list(files.values())
    if embedded is not None and not embedded["join"]:
        features, names = join_vectors(None, [], found, embedded["size"])
        return assemble(files, features, names, media_type.name)
    own = split_names(feature_names, embedded)
    names = list(media_type.feature_names(found, settings) if own is None else own)
    features = media_type.features(found, names)
    if embedded is not None:
        if sp.issparse(features):
            features = filled(features, "--embed next to terms", "count fewer terms (--media-set keep=0.02)")
        features, names = join_vectors(features, names, found, embedded["size"])
    return assemble(files, features, names, media_type.name)


def _read_table(source: Source, run: Path, labels: LabelTable | None) -> Material:
    """The bags of a file, named by text; its own labels, or those of a second table by the names of the bags."""
    name = source.names[0]
    dataset, understood = read_described(source.path, **source.options)
    dataset = select_features(dataset, source.feature_names, source.path)
    names = unique_names(dataset)
    sets = {}
    if dataset.Y is not None:
        supervision = zip(names, dataset.label_sets, strict=True)
        sets = {bag: sorted(map(str, found)) for bag, found in supervision if found is not None}
    known: Known = []
    if dataset.instance_labels is not None:
        codes = dataset.instance_labels.instances
        bag_of, position = dataset.bags.bag_index, dataset.positions
        known = [(names[bag_of[i]], int(position[i]), str(dataset.class_names[codes[i]])) for i in _known_rows(codes)]
    problems: list[Problem] = []
    if labels is not None:
        present = set(names)
        problems = [*labels.problems]
        sets = {}
        for i, (bag, found) in enumerate(zip(labels.names, labels.label_sets, strict=True)):
            if bag in present:
                sets[bag] = sorted(found)
            else:
                problems.append((bag, f"{labels.place(i)}: there is no such bag ({bag!r}); it is not used."))
    key, store = source.key(name), Store(run)
    n_reused = int(archive_path(run, [key]).exists())
    X = dataset.bags.instances
    places = dataset.locations or {}
    file = FileBags(
        bag_names=names,
        sizes=dataset.bags.sizes.tolist(),
        features=X,
        locations=dict(places),
        info={"rows": dataset.bags.n_instances},
        feature_names=dataset.feature_names,
    )
    store.write({key: file})
    store.forget_others([key])
    return Material(
        dataset=_table_dataset(file, name),
        sets=sets,
        known=known,
        whole=[],
        files=[{"file": name, **file.info}],
        entries={name: key},
        form=understood if labels is None else f"{understood}; labels: {labels.form}",
        problems=problems,
        n_reused=n_reused,
    )


def _known_rows(codes: Any) -> list[int]:
    return [i for i, code in enumerate(codes.tolist()) if code >= 0]


def _table_dataset(file: FileBags, name: str) -> BagDataset:
    """The bags of a table; a column ``file`` of its own says where instances were, else it is the table."""
    return assemble({name: file}, file.features, file.feature_names, TABLE)


def reopen_material(
    run: Path, media_type: MediaType, settings: Any, kept: Mapping[str, Any], embedded: Mapping[str, Any] | None = None
) -> Material:
    """The material of a run that was made before, from what was kept in its folder; see `Source.embedded`."""
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
        if media_type.name == TABLE:
            ((name, file),) = bags.items()
            dataset = _table_dataset(file, name)
        else:
            dataset = _assemble(media_type, settings, bags, kept["whole"], kept["feature_names"], embedded)
        known = [(bag, instance, label) for bag, instance, label in kept["known"]]
        sizes = dict(zip(dataset.bag_names, dataset.bags.sizes.tolist(), strict=True))
        problem = next((text for bag, instance, _ in known if (text := misfit(bag, instance, sizes))), None)
        if problem is not None:
            raise FormatError(problem)
    except Exception as error:  # whatever comes up where what is kept does not go together
        raise FormatError(
            f"{run / STATE / SUPERVISION} and {run / FEATURES} do not fit together, so one is damaged ({error}); run "
            "the bagwise annotate that made the run once more."
        ) from error
    return Material(
        dataset=dataset,
        sets=kept["sets"],
        known=known,
        whole=kept["whole"],
        files=kept["files"],
        entries=kept["entries"],
        form=kept["form"],
        problems=[(name, message) for name, message in kept["problems"]],
        unread=kept.get("unread", []),
    )


def read_label_table(options: RunOptions) -> LabelTable | Selections | None:
    """The table of labels; or selections that hold them, which are read when it is known what the files hold."""
    path = options.labels
    if path is None:
        return None
    selections = find_selections(path, options.min_confidence, options.fold_case)
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
    )


def write_supervision(path: Path, material: Material) -> None:
    """Keep what was said when the run was made."""
    with atomic_write(path / STATE / SUPERVISION, "w") as file:
        file.write(json.dumps(material.to_dict(), ensure_ascii=False, allow_nan=False) + "\n")


def read_supervision(path: Path) -> dict[str, Any]:
    """What was said when the run was made, checked (`bagwise.app.runs._checked`)."""
    file = inside(path, f"{STATE}/{SUPERVISION}")
    try:
        document = read_checked(file)
    except (OSError, ValueError) as error:
        raise InputError(
            f"{file} is missing or damaged ({error}); run the bagwise annotate that made the run once more."
        ) from error
    check(document, TOLD_FORM, file)
    if sorted(file["file"] for file in document["files"]) != sorted(document["entries"]):
        raise FormatError(
            f"{file} is damaged: its files are others than those of which something is kept; run the bagwise annotate "
            "that made the run once more."
        )
    return document
