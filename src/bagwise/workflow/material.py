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

from bagwise.dataset import BagDataset
from bagwise.exceptions import BagwiseError, FormatError, InputError
from bagwise.featurize.embedding import join_vectors, split_names
from bagwise.featurize.files import FileBags, assemble
from bagwise.featurize.media import MEDIA, check_medium, find_files, guess_medium, list_files
from bagwise.featurize.medium import Medium
from bagwise.io.data.formats import read_described
from bagwise.io.data.long import unique_names
from bagwise.io.data.pieces import select_features
from bagwise.io.files import atomic_write
from bagwise.io.labels import LabelTable, read_labels
from bagwise.preprocessing import filled
from bagwise.report.result import Problem
from bagwise.workflow.featurize import Progress, Vectors, featurize_folder, refuse_files
from bagwise.workflow.labels import FileNames, match_labels
from bagwise.workflow.manifest import FEATURES, STATE
from bagwise.workflow.selections import (
    MEDIUM,
    MIN_CONFIDENCE,
    Selections,
    find_selections,
    known_by_selections,
    read_selections,
)
from bagwise.workflow.store import Store, archive_path, entry_facts, entry_key, fingerprint

TABLE = "table"
TOLD = "told.json"
Known = list[tuple[str, int, str]]
"""Bag, number of the instance in it, and its label."""


@dataclass(frozen=True)
class Source:
    """Where bags come from and how they are read.

    Attributes
    ----------
    path : path
        A folder of media, or a file of bags.
    medium : Medium
    settings : settings of the medium
    names : list of str
        The files, relative to the folder; of a table its own name.
    options : dict
        Of the reader of a table.
    feature_names : list of str or None
        Those of the model where it is trained already.
    single : bool
        Whether one file of the folder was asked for by name.
    vectors : Embedding, VectorTable or None
        Where vectors of instances come from, beside their features or instead of them.
    embedded : dict or None
        What is to be known of these vectors (`Embedding.about`), also where they are there already.
    """

    path: Path
    medium: Medium
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
        return self.path.parent if self.medium.name == TABLE else self.path

    def key(self, name: str) -> str:
        """What the bags of a file are kept under; another key as soon as the file changes."""
        facts = entry_facts(self.settings.to_dict() | self.options, self.embedded)
        beside = self.medium.beside(self.folder / name, name, self.settings)
        return entry_key(self.medium.name, facts, self.folder, name, beside)


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
            "sets": self.sets, "known": self.known, "whole": self.whole, "files": self.files, "entries": self.entries,
            "feature_names": self.dataset.feature_names, "form": self.form, "problems": self.problems,
            "unread": self.unread, "prints": self.prints(),
        }  # fmt: skip

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
    *,
    medium: str | None,
    settings: Any,
    trained: Mapping[str, Any] | None,
    exclude: Sequence[Path],
    options: Mapping[str, Any],
    labels: LabelTable | Selections | None = None,
) -> Source:
    """Which files there are and how they are read; what is wrong is found before anything is read.

    Parameters
    ----------
    path : a folder of media, a file of bags, or one file of media that holds several bags
    medium : name of the medium, None to find it out
    settings : of the medium: a dict of those that differ from the default, or a settings object
    trained : what a trained model says of how its features are made
    exclude : paths that hold no media
    options : of the reader of a table
    labels : the table of labels; the medium is that of the files which it names
    """
    expected = None if trained is None else list(trained["feature_names"] or []) or None
    single = path.is_file() and _is_of_media(medium, trained)
    if path.is_file() and not single:
        if settings or medium not in (None, TABLE):
            raise InputError(
                f"{path} is a file of bags, which has no medium and no settings of one; leave --medium and "
                "--medium-set out."
            )
        if trained is not None and trained["medium"] != TABLE:
            raise InputError(f"The model was trained on {trained['medium']}, and {path} is a file of bags; give media.")
        return Source(path, MEDIA[TABLE], MEDIA[TABLE].make_settings(), [path.name], dict(options), expected)
    if options:
        raise InputError(
            f"{path} holds media, and {next(iter(options))!r} is an option of files of bags; leave it out."
        )
    if trained is None:
        kind = check_medium(medium or _named_medium(path, exclude, labels) or guess_medium(path, exclude))
        reading = kind.make_settings(settings)
    else:
        if settings or medium not in (None, trained["medium"]):
            raise InputError(
                f"The model was trained on {trained['medium']} with its own settings; leave --medium and "
                "--medium-set out."
            )
        kind = check_medium(trained["medium"])
        if kind.name == TABLE:
            raise InputError(f"The model was trained on a file of bags, and {path} is no file; give one.")
        reading = kind.kept_settings(trained["settings"])
    if single:
        return Source(path.parent, kind, reading, [path.name], {}, expected, single)
    return Source(path, kind, reading, find_files(path, kind, reading, exclude), {}, expected)


def _is_of_media(medium: str | None, trained: Mapping[str, Any] | None) -> bool:
    """Whether a single file is meant as one of the media, such as a table of several recordings."""
    name = medium if medium is not None else (None if trained is None else trained["medium"])
    return name is not None and name != TABLE and check_medium(name).pieces_have_names


def _named_medium(folder: Path, exclude: Sequence[Path], labels: LabelTable | Selections | None) -> str | None:
    """The medium of most files that the table of labels names, if it names any: pictures may lie beside recordings."""
    if labels is None:
        return None
    if isinstance(labels, Selections):
        return MEDIUM
    counts: Counter[str] = Counter()
    files = list_files(folder, exclude)
    for name, medium in MEDIA.items():
        own = FileNames(file for file in files if PurePosixPath(file).suffix.lower() in medium.extensions)
        counts[name] = sum(len(own.find(given)) == 1 for given in labels.names)
    best, count = counts.most_common(1)[0]
    return best if count else None


def read_material(
    source: Source, run: Path, labels: LabelTable | Selections | None, jobs: int, progress: Progress,
    cluster: str | None = None,
) -> Material:  # fmt: skip
    """Read all files, those that were read before from what was kept, and match the labels that were told."""
    if isinstance(labels, Selections) and source.medium.name != MEDIUM:
        raise InputError(
            f"{labels.path} holds {labels.in_words}, and {source.path} no recordings; give a table of labels."
        )
    if source.medium.name == TABLE:
        assert not isinstance(labels, Selections)
        return _read_table(source, run, labels)
    done = featurize_folder(
        source.folder, source.names, source.medium, source.settings, run, jobs, progress, source.vectors, cluster
    )
    if source.embedded is None or source.embedded["join"]:
        done = refuse_files(done, source.medium, split_names(source.feature_names, source.embedded))
    problems = [*(() if source.vectors is None else source.vectors.problems), *done.errors.items()]
    problems += [
        (name, f"{name}: {why}.")
        for name in list_files(source.folder)
        if (why := source.medium.unreadable.get(PurePosixPath(name).suffix.lower()))
    ]
    problems += [(name, f"{name}: {text}") for name, file in done.bags.items() for text in file.problems]
    if not done.bags:
        raise InputError(f"None of the {len(source.names)} files could be read; the first: {problems[0][1]}")
    sets: dict[str, list[str]] = {}
    whole: list[str] = []
    marks = None
    if isinstance(labels, Selections):
        labels, marks = read_selections(labels, source.medium, source.folder, done.bags)
    if labels is not None:
        unread = sorted(set(list_files(source.folder)) - set(source.names))
        matched = match_labels(
            labels, source.names, done.bags, list(done.errors), unread, source.medium.pieces_have_names
        )
        sets = {bag: sorted(names) for bag, names in matched.sets.items()}
        whole = sorted(matched.whole)
        problems += labels.problems + matched.problems
    material = Material(
        dataset=_assemble(source.medium, source.settings, done.bags, whole, source.feature_names, source.embedded),
        sets=sets,
        known=[],
        whole=whole,
        files=[{"file": name, **bags.info, **_recorded(source, name)} for name, bags in done.bags.items()],
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
    if source.medium.parts is None:
        return None
    try:
        return round(source.medium.parts.cut(source.folder / name, source.settings)[-1][1], 4)
    except (BagwiseError, OSError):
        return None


def _recorded(source: Source, name: str) -> dict[str, str]:
    """When a file was recorded and how that is known, as far as anything tells it."""
    found = None if source.medium.recorded is None else source.medium.recorded(source.folder / name, name)
    return {} if found is None else {"recorded": found.time.isoformat(), "recorded_from": found.source}


def _assemble(
    medium: Medium, settings: Any, bags: Mapping[str, FileBags], whole: Sequence[str], feature_names: list[str] | None,
    embedded: Mapping[str, Any] | None,
) -> BagDataset:  # fmt: skip
    """All bags that hold instances; sparse features stay sparse, unless vectors stand beside them."""
    merged = set(whole)
    files = {name: file.as_one_bag(name) if name in merged else file for name, file in bags.items()}
    found = list(files.values())
    if embedded is not None and not embedded["join"]:
        features, names = join_vectors(None, [], found, embedded["size"])
        return assemble(files, features, names, medium.name)
    own = split_names(feature_names, embedded)
    names = list(medium.feature_names(found, settings) if own is None else own)
    features = medium.features(found, names)
    if embedded is not None:
        if sp.issparse(features):
            features = filled(features, "--embed beside terms", "count fewer terms (--medium-set keep=0.02)")
        features, names = join_vectors(features, names, found, embedded["size"])
    return assemble(files, features, names, medium.name)


def _read_table(source: Source, run: Path, labels: LabelTable | None) -> Material:
    """The bags of a file, named by text; its own labels, or those of a second table by the names of the bags."""
    name = source.names[0]
    dataset, understood = read_described(source.path, **source.options)
    dataset = select_features(dataset, source.feature_names, source.path)
    names = unique_names(dataset)
    sets = {}
    if dataset.Y is not None:
        told = zip(names, dataset.label_sets, strict=True)
        sets = {bag: sorted(map(str, found)) for bag, found in told if found is not None}
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
        bag_names=names, sizes=dataset.bags.sizes.tolist(), features=X, locations=dict(places),
        info={"rows": dataset.bags.n_instances}, feature_names=dataset.feature_names,
    )  # fmt: skip
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
    run: Path, medium: Medium, settings: Any, kept: Mapping[str, Any], embedded: Mapping[str, Any] | None = None
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
    if medium.name == TABLE:
        ((name, file),) = bags.items()
        dataset = _table_dataset(file, name)
    else:
        dataset = _assemble(medium, settings, bags, kept["whole"], kept["feature_names"], embedded)
    return Material(
        dataset=dataset,
        sets=kept["sets"],
        known=[(bag, instance, label) for bag, instance, label in kept["known"]],
        whole=kept["whole"],
        files=kept["files"],
        entries=kept["entries"],
        form=kept["form"],
        problems=[(name, message) for name, message in kept["problems"]],
        unread=kept.get("unread", []),
    )


def read_label_table(
    path: Path | None,
    columns: tuple[str, str] | None,
    *,
    separator: str | None = None,
    fold_case: bool = False,
    sheet: str | None = None,
    min_confidence: float = MIN_CONFIDENCE,
) -> LabelTable | Selections | None:
    """The table of labels; or where selections tell them, which are read when it is known what the files hold."""
    if path is None:
        return None
    told = find_selections(path, min_confidence, fold_case)
    given = {"--columns": columns, "--separator": separator, "--sheet": sheet}
    if told is not None and any(given.values()):
        option = next(option for option, value in given.items() if value)
        raise InputError(f"{path} holds {told.in_words}, whose columns are known; leave {option} out.")
    name, label = columns or (None, None)
    return told or read_labels(
        path, name=name, label=label, list_mark=separator, fold_case=fold_case, sheet=sheet, repeats="join"
    )


def write_told(path: Path, material: Material) -> None:
    """Keep what was said when the run was made."""
    with atomic_write(path / STATE / TOLD, "w") as file:
        file.write(json.dumps(material.to_dict(), ensure_ascii=False, allow_nan=False) + "\n")


def read_told(path: Path) -> dict[str, Any]:
    try:
        return json.loads((path / STATE / TOLD).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(
            f"{path / STATE / TOLD} is missing or damaged ({error}); run the bagwise annotate that made the run once "
            "more."
        ) from error
