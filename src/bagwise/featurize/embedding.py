"""Vectors of instances by a network that was trained elsewhere: an ONNX file with what it says about itself.

What a network needs to be told beyond its file (the rate that it hears at, how colours are scaled) stands in a small
TOML of the same name beside it. What the file itself says, by the sizes of its inputs or in its metadata, cannot be
changed.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from bagwise.exceptions import FormatError, InputError
from bagwise.featurize.files import FileBags
from bagwise.featurize.medium import Medium
from bagwise.featurize.network_input import NetworkInput, run_feed, run_feeds, told_settings
from bagwise.featurize.onnx_model import TRIAL, Network, fingerprint_of, open_network, read_network_file

NETWORK, TABLE = "network", "table"
PREFIX = "bagwise."  # names in the metadata may bear it
OTHER_NAMES = {"sample_rate": "rate"}
LARGEST_TOML = 1_000_000


@dataclass(frozen=True)
class Embedding:
    """A network and how instances are given to it.

    Attributes
    ----------
    path : path
        The ONNX file.
    fingerprint : str
        Of its content, and that of its tokenizer.
    inputs : NetworkInput
        Complete settings.
    size : int
        Numbers of a vector.
    join : bool
        Whether vectors stand beside the features of the medium, or alone.
    """

    path: Path
    fingerprint: str
    inputs: NetworkInput
    size: int
    join: bool

    @property
    def about(self) -> dict[str, Any]:
        """What a run and its model must know of it, as plain data."""
        return {
            "kind": NETWORK, "name": self.path.name, "fingerprint": self.fingerprint,
            "settings": self.inputs.to_dict(), "size": self.size, "join": self.join,
        }  # fmt: skip

    @property
    def problems(self) -> tuple[tuple[str, str], ...]:
        return ()

    def of_file(self, name: str) -> Embedding:
        """What a process that reads the file needs."""
        return self

    def describe(self, path: Path, name: str, found: FileBags) -> FileBags:
        """What was found in a file, or in a part of it, with the vector of each instance."""
        vectors, problems = run_feeds(self.inputs, path, found, _opened(self.path, self.fingerprint, self.inputs))
        vectors = vectors.reshape(-1, self.size)
        return replace(found, vectors=vectors, problems=[*found.problems, *problems])


@lru_cache(maxsize=1)
def _opened(path: Path, fingerprint: str, inputs: NetworkInput) -> Network:
    """The network in this process; its content was checked when the run was begun."""
    content = read_network_file(path)
    if fingerprint_of(content, *inputs.contents(path.parent)) != fingerprint:
        raise InputError(f"{path} changed while files were read; run the same command once more.")
    return open_network(content, path, inputs.batch, trusted=True)


def read_embedding(path: Path, medium: Medium, values: Mapping[str, Any], *, join: bool) -> Embedding:
    """A network for the instances of a medium, checked and tried.

    Parameters
    ----------
    path : the ONNX file
    medium : Medium
    values : settings that differ from what the file and the TOML beside it say
    join : whether vectors stand beside the features of the medium
    """
    if medium.embed is None:
        raise InputError(
            f"Networks are for recordings, pictures and texts, and these files are {medium.name}; leave --embed out."
        )
    content = read_network_file(path)
    network = open_network(content, path, n_rows=medium.embed().batch)
    known = {field.name for field in fields(medium.embed)}
    said = _notes(network, known)
    told = {**_beside(path, known), **told_settings(values)}
    for name, value in said.items():
        if name in told and medium.embed.from_text({name: told[name]}) != medium.embed.from_text({name: value}):
            raise InputError(
                f"{path}: the network says {name} = {value}, and {name} = {told[name]} is asked for; leave that out, "
                "or use another network."
            )
    inputs = medium.embed.from_text({**said, **told}).completed(network)
    return _tried(path, content, network, inputs, join)


def reopen_embedding(path: Path, medium: Medium, about: Mapping[str, Any]) -> Embedding:
    """The network that a model was trained with, from its file; another file is refused."""
    if medium.embed is None:
        raise InputError(
            f"The model was trained with vectors of a network, and {medium.name} has none; train it again."
        )
    content = read_network_file(path)
    inputs = medium.embed.from_text(about["settings"])
    if fingerprint_of(content, *inputs.contents(path.parent)) != about["fingerprint"]:
        raise InputError(
            f"{path} is not the network that the model was trained with ({about['name']}, {about['fingerprint']}), or "
            "its tokenizer is another; give that one (--embed)."
        )
    return _tried(path, content, open_network(content, path, inputs.batch), inputs, about["join"])


def _tried(path: Path, content: bytes, network: Network, inputs: NetworkInput, join: bool) -> Embedding:
    """The embedding after one instance went through it: what cannot work is found before files are read."""
    vectors = run_feed(inputs, inputs.example(network), network, TRIAL)
    fingerprint = fingerprint_of(content, *inputs.contents(path.parent))
    return Embedding(path.resolve(), fingerprint, inputs, vectors.shape[1], join)


def _notes(network: Network, known: set[str]) -> dict[str, str]:
    """What the metadata of an ONNX file says of how it is given its input; other notes are not for us."""
    found = {}
    for key, value in network.notes.items():
        name = key.removeprefix(PREFIX)
        name = OTHER_NAMES.get(name, name)
        if name in known and (key.startswith(PREFIX) or name not in ("output", "batch")):
            found[name] = value.strip("[]() ")
    return found


def _beside(path: Path, known: set[str]) -> dict[str, Any]:
    """What the TOML beside a network says; nothing where there is none."""
    file = path.with_suffix(".toml")
    if not file.is_file():
        return {}
    try:
        if file.stat().st_size > LARGEST_TOML:
            raise ValueError("it is too large")
        told = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise FormatError(f"{file}: it is no TOML that can be read ({error}); mend it.") from error
    for name, value in told.items():
        if name not in known:
            raise InputError(f"{file}: there is no setting {name!r}; the settings are {', '.join(sorted(known))}.")
        if isinstance(value, dict):
            raise InputError(f"{file}: the setting {name!r} is a table; expected a value.")
    return told_settings(told)


def vector_names(size: int) -> list[str]:
    """What the numbers of a vector are called."""
    return [f"embed{i}" for i in range(size)]


def split_names(names: list[str] | None, about: Mapping[str, Any] | None) -> list[str] | None:
    """Of the feature names of a model those that are the medium's own, where it is known what all are."""
    if names is None or about is None:
        return names
    return names[: len(names) - about["size"]]


def join_vectors(own: Any, own_names: list[str], files: list[FileBags], size: int) -> tuple[np.ndarray, list[str]]:
    """Features of all instances with their vectors, and what all columns are called; `own` may be None."""
    parts = [file.vectors for file in files if file.vectors is not None and len(file.vectors)]
    vectors = np.concatenate(parts).astype(np.float64) if parts else np.empty((0, size))
    if own is None:
        return vectors, vector_names(size)
    return np.hstack([own, vectors]), [*own_names, *vector_names(size)]
