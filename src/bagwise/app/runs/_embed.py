"""Which vectors the instances of a run get, by a network or from a table: as asked for, or as a trained model needs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from bagwise.app.media.audio import NO_FEATURES
from bagwise.app.media.embedding import NETWORK, Embedding, VectorTable, Windows, read_embedding, reopen_embedding
from bagwise.app.media.files import FileNames
from bagwise.app.runs.material import TABLE, Source
from bagwise.app.runs.options import RunOptions
from bagwise.core.exceptions import InputError
from bagwise.io.data.vectors import read_vector_file
from bagwise.io.files import file_fingerprint

WINDOWS = "windows"


def refuse_vector_options(options: RunOptions) -> None:
    """Refuse options of vectors that do not go together."""
    if options.embed is not None and options.embeddings is not None:
        raise InputError("--embed works vectors out and --embeddings brings them; give one of the two.")
    if options.embed_settings and options.embed is None:
        raise InputError("--embed-set says how a network is given its input, and there is none; add --embed.")


def with_vectors(source: Source, asked: RunOptions, trained: Mapping[str, Any] | None, model: Path | None) -> Source:
    """The source with where its vectors come from, if any; networks are checked and tried here, tables are read.

    Parameters
    ----------
    source : Source
    asked : RunOptions
    trained : what a trained model says of how its features are made, None where it is to be trained
    model : the file of the trained model
    """
    if trained is not None:
        vectors = _as_trained(source, asked, trained.get("embedded"), model)
    elif asked.embed is None and asked.embeddings is None:
        _refuse_without(source, asked)
        vectors = None
    elif source.media_type.name == TABLE:
        raise InputError(
            f"{source.path} is a file of bags, whose features are there; leave --embed and --embeddings out."
        )
    elif asked.embed is not None:
        vectors = read_embedding(asked.embed, source.media_type, asked.embed_settings, join=asked.join)
        source = replace(source, settings=_with_length(source.settings, vectors, asked.embed))
    else:
        assert asked.embeddings is not None
        are_instances = not asked.has_segment or source.settings.segment == WINDOWS
        vectors = read_table(asked.embeddings, source, join=asked.join, are_instances=are_instances)
        if are_instances:
            source = replace(source, settings=replace(source.settings, segment=WINDOWS))
    if vectors is None:
        return source
    if vectors.join and in_windows(source):
        raise InputError("Windows have no features of their own that vectors could join; leave --join out.")
    return replace(source, vectors=vectors, embedded=vectors.about)


def in_windows(source: Source) -> bool:
    """Whether instances are windows of a fixed length, whatever is in them."""
    return getattr(source.settings, "segment", "") == WINDOWS


def _refuse_without(source: Source, asked: RunOptions) -> None:
    if asked.join:
        raise InputError("--join puts vectors next to the features, and there are none; add --embed or --embeddings.")
    if in_windows(source):
        raise InputError(NO_FEATURES)


def _as_trained(
    source: Source, asked: RunOptions, given: Mapping[str, Any] | None, model: Path | None
) -> Embedding | VectorTable | None:
    """The vectors that a trained model needs."""
    if given is None:
        if asked.embed is not None or asked.embeddings is not None or asked.join:
            raise InputError("The model was trained without vectors of a network; leave --embed and --embeddings out.")
        return None
    if asked.embed_settings or asked.join:
        raise InputError("The model knows how its vectors are made and used; leave --embed-set and --join out.")
    if given["kind"] == NETWORK:
        assert model is not None
        path = asked.embed or model.parent / given["name"]
        if asked.embeddings is not None or not path.is_file():
            raise InputError(
                f"The model was trained with vectors of the network {given['name']}; give that file (--embed), or put "
                f"it next to {model}."
            )
        return reopen_embedding(path, source.media_type, given)
    if asked.embeddings is None:
        raise InputError(
            f"It was trained with vectors of {given['size']} numbers from a table ({given['name']}); give such a "
            "table for the new files (--embeddings)."
        )
    vectors = read_table(asked.embeddings, source, join=given["join"], are_instances=given["settings"]["windows"])
    if vectors.size != given["size"]:
        raise InputError(
            f"{asked.embeddings}: its vectors have {vectors.size} numbers, and the model was trained with "
            f"{given['size']}; give vectors of the same network."
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
            "(--media-set length=...), or leave it out."
        )
    step = length / 2 if settings.step is None else settings.step
    if step > length:
        raise InputError(
            f"step={step:g} is larger than length={length:g}, so sound between windows would be lost; lower it."
        )
    return replace(settings, length=length, step=step)


def read_table(path: Path, source: Source, *, join: bool, are_instances: bool) -> VectorTable:
    """The vectors of a table by the files of a folder; rows that name no file of it are named among the problems."""
    if source.media_type.parts is None:
        raise InputError(
            f"Tables of vectors are for windows of recordings, and these files are {source.media_type.name}; leave "
            "--embeddings out."
        )
    rows = read_vector_file(path)
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
        own = own[np.lexsort((rows.end[own], rows.start[own]))]
        windows[source.names[i]] = Windows(rows.start[own], rows.end[own], rows.vectors[own])
    return VectorTable(
        path.name, file_fingerprint(path), windows, rows.vectors.shape[1], join, are_instances, tuple(problems)
    )
