"""Which vectors the instances of a run get, by a network or from a table: as asked for, or as a trained model needs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from bagwise.exceptions import InputError
from bagwise.featurize.audio import NO_FEATURES
from bagwise.featurize.embedding import NETWORK, Embedding, read_embedding, reopen_embedding
from bagwise.featurize.vector_table import VectorTable, Windows
from bagwise.io.data.vectors import read_vector_file
from bagwise.workflow.labels import FileNames
from bagwise.workflow.material import TABLE, Source
from bagwise.workflow.store import file_fingerprint

WINDOWS = "windows"


@dataclass(frozen=True)
class Asked:
    """What was asked for.

    Attributes
    ----------
    network, table : path or None
        An ONNX file; a table of vectors.
    values : mapping
        Settings of how the network is given its input.
    join : bool
        Whether vectors stand beside the features of the medium.
    segment : bool
        Whether it was said what the instances are.
    """

    network: Path | None = None
    table: Path | None = None
    values: Mapping[str, Any] = field(default_factory=dict)
    join: bool = False
    segment: bool = False

    def __post_init__(self) -> None:
        if self.network is not None and self.table is not None:
            raise InputError("--embed works vectors out and --embeddings brings them; give one of the two.")
        if self.values and self.network is None:
            raise InputError("--embed-set says how a network is given its input, and there is none; add --embed.")

    @property
    def paths(self) -> list[Path]:
        return [path for path in (self.network, self.table) if path is not None]


def with_vectors(source: Source, asked: Asked, trained: Mapping[str, Any] | None, model: Path | None) -> Source:
    """The source with where its vectors come from, if any; networks are checked and tried here, tables are read.

    Parameters
    ----------
    source : Source
    asked : Asked
    trained : what a trained model says of how its features are made, None where it is to be trained
    model : the file of the trained model
    """
    if trained is not None:
        vectors = _as_trained(source, asked, trained.get("embedded"), model)
    elif not asked.paths:
        _refuse_without(source, asked)
        vectors = None
    elif source.medium.name == TABLE:
        raise InputError(
            f"{source.path} is a file of bags, whose features are there; leave --embed and --embeddings out."
        )
    elif asked.network is not None:
        vectors = read_embedding(asked.network, source.medium, asked.values, join=asked.join)
        source = replace(source, settings=_with_length(source.settings, vectors, asked.network))
    else:
        assert asked.table is not None
        are_instances = not asked.segment or source.settings.segment == WINDOWS
        vectors = read_table(asked.table, source, join=asked.join, are_instances=are_instances)
        if are_instances:
            source = replace(source, settings=replace(source.settings, segment=WINDOWS))
    if vectors is None:
        return source
    if vectors.join and in_windows(source):
        raise InputError("Windows have no features of their own that vectors could stand beside; leave --join out.")
    return replace(source, vectors=vectors, embedded=vectors.about)


def in_windows(source: Source) -> bool:
    """Whether instances are windows of a fixed length, whatever is in them."""
    return getattr(source.settings, "segment", "") == WINDOWS


def _refuse_without(source: Source, asked: Asked) -> None:
    if asked.join:
        raise InputError("--join puts vectors beside the features, and there are none; add --embed or --embeddings.")
    if in_windows(source):
        raise InputError(NO_FEATURES)


def _as_trained(
    source: Source, asked: Asked, told: Mapping[str, Any] | None, model: Path | None
) -> Embedding | VectorTable | None:
    """The vectors that a trained model needs."""
    if told is None:
        if asked.paths or asked.join:
            raise InputError("The model was trained without vectors of a network; leave --embed and --embeddings out.")
        return None
    if asked.values or asked.join:
        raise InputError("The model knows how its vectors are made and used; leave --embed-set and --join out.")
    if told["kind"] == NETWORK:
        assert model is not None
        path = asked.network or model.parent / told["name"]
        if asked.table is not None or not path.is_file():
            raise InputError(
                f"The model was trained with vectors of the network {told['name']}; give that file (--embed), or put "
                f"it beside {model}."
            )
        return reopen_embedding(path, source.medium, told)
    if asked.table is None:
        raise InputError(
            f"The model was trained with vectors of {told['size']} numbers from a table ({told['name']}); give such a "
            "table for the new files (--embeddings)."
        )
    vectors = read_table(asked.table, source, join=told["join"], are_instances=told["settings"]["windows"])
    if vectors.size != told["size"]:
        raise InputError(
            f"{asked.table}: its vectors have {vectors.size} numbers, and the model was trained with {told['size']}; "
            "give vectors of the same network."
        )
    return vectors


def _with_length(settings: Any, embedding: Embedding, path: Path) -> Any:
    """The settings with windows as long as the network hears, every second half of them in the next."""
    if getattr(settings, "segment", "") != WINDOWS:
        return settings
    window = embedding.inputs.to_dict()["window"]
    length = window if settings.length is None else settings.length
    if length > window + 1e-9:
        raise InputError(
            f"{path}: the network hears {window:g} s, and windows of {length:g} s are asked for; lower length "
            "(--medium-set length=...), or leave it out."
        )
    step = length / 2 if settings.step is None else settings.step
    if step > length:
        raise InputError(
            f"step={step:g} is larger than length={length:g}, so sound between windows would be lost; lower it."
        )
    return replace(settings, length=length, step=step)


def read_table(path: Path, source: Source, *, join: bool, are_instances: bool) -> VectorTable:
    """The vectors of a table by the files of a folder; rows that name no file of it are named among the problems."""
    if source.medium.parts is None:
        raise InputError(
            f"Tables of vectors are for windows of recordings, and these files are {source.medium.name}; leave "
            "--embeddings out."
        )
    rows = read_vector_file(path)
    names = FileNames(source.names)
    fitting = {given: names.find(given) for given in dict.fromkeys(rows.files)}
    counts = Counter(rows.files)
    problems = [
        (given, f"{path}: {'several files fit' if found else 'there is no such file'} ({given!r}); "
         f"its {counts[given]} row(s) are not used.")
        for given, found in fitting.items()
        if len(found) != 1
    ]  # fmt: skip
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
        own = own[np.lexsort((rows.end[own], rows.start[own]))]
        windows[source.names[i]] = Windows(rows.start[own], rows.end[own], rows.vectors[own])
    return VectorTable(
        path.name, file_fingerprint(path), windows, rows.vectors.shape[1], join, are_instances, tuple(problems)
    )
