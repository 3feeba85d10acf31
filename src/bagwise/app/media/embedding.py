"""Vectors of instances by a network that was trained elsewhere: a file with what it says about itself.

What a network needs beyond its file (its sample rate, how colours are scaled) stands in a small TOML of the same name
in the same folder. What the file itself says, by the sizes of its inputs or in its metadata, cannot be
changed.
"""

from __future__ import annotations

import threading
import tomllib
from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from scipy.spatial import cKDTree

from bagwise.app.media._known_networks import (
    INSTALLED,
    installed_file,
    network_path,
    recognized,
    sentence_settings,
)
from bagwise.app.media._network_input import NetworkInput, given_settings, run_feed, run_feeds
from bagwise.app.media._network_scores import find_classes, match_labels
from bagwise.app.media.audio import whole_band
from bagwise.app.media.audio_file import Sound
from bagwise.app.media.files import FileBags
from bagwise.app.media.media_type import MediaType
from bagwise.app.networks import Network, content_fingerprint, read_network_file
from bagwise.core.exceptions import FormatError, InputError

NETWORK, TABLE = "network", "table"
PREFIX = "bagwise."  # names in the metadata may bear it
OTHER_NAMES = {"sample_rate": "rate"}
LARGEST_TOML = 1_000_000
TRIAL = 120.0  # seconds after which the first run of one instance is ended
LARGEST_VECTOR = 1_000_000  # numbers


@dataclass(frozen=True)
class Embedding:
    """A network and how instances are given to it.

    Attributes
    ----------
    path : path
        The ONNX or .tflite file.
    fingerprint : str
        Of its content, and that of its tokenizer.
    inputs : NetworkInput
        Complete settings.
    size : int
        Numbers of a vector.
    join : bool
        Whether vectors are added to the features of the media type, or replace them.
    licence : str
        Which network it is and under which licence it comes, where that is known.
    scores : dict
        Labels of the run that the network itself knows, each to its class there; their scores end the vectors.
    """

    path: Path
    fingerprint: str
    inputs: NetworkInput
    size: int
    join: bool
    licence: str = ""
    scores: Mapping[str, int] = field(default_factory=dict)

    problems: ClassVar[tuple[tuple[str, str], ...]] = ()

    @property
    def about(self) -> dict[str, Any]:
        """What a run and its model must know of it, as plain data."""
        return {
            "kind": NETWORK,
            "name": self.path.name,
            "fingerprint": self.fingerprint,
            "settings": self.inputs.to_dict(),
            "size": self.size,
            "join": self.join,
            **({"licence": self.licence} if self.licence else {}),
            **({"scores": dict(self.scores)} if self.scores else {}),
        }

    def as_before(self, about: Mapping[str, Any] | None) -> Embedding:
        """The same with the scores that an earlier run has: its features stay, whatever labels its table has now."""
        settings = (about or {}).get("settings", {})
        own = {name: settings.get(name, "") for name in ("scores", "scores_are")}
        scores, more = (about or {}).get("scores", {}), self.size - len(self.scores)
        found = replace(self, inputs=replace(self.inputs, **own), size=more + len(scores), scores=scores)
        return found if found.about == about else self

    def of_file(self, name: str) -> Embedding:
        """What a process that reads the file needs."""
        return self

    def describe(self, file: Any, name: str, found: FileBags) -> FileBags:
        """What was found in an open file, or in a part of it, with the vector of each instance."""
        classes = list(self.scores.values())
        vectors, problems = run_feeds(self.inputs, file, name, found, _opened(self), classes)
        if len(vectors) and vectors.shape[1] != self.size:
            raise InputError(
                f"{name}: the network gives vectors of {vectors.shape[1]} numbers here, and of {self.size} elsewhere; "
                "use another network."
            )
        return replace(found, vectors=vectors.reshape(-1, self.size), problems=[*found.problems, *problems])


_HERE = threading.local()
"""The network of a thread, and what it was opened for: processes of networks are asked by one thread each."""


def _opened(embedding: Embedding) -> Network:
    """The network, kept for the next file; its content was checked when the run was begun."""
    if getattr(_HERE, "key", None) == embedding and _HERE.network.alive:
        return _HERE.network
    close_network()
    path, inputs = embedding.path, embedding.inputs
    content = read_network_file(path)
    if content_fingerprint(content, *inputs.contents(path.parent)) != embedding.fingerprint:
        raise InputError(f"{path} changed while files were read; run the same command once more.")
    _HERE.network = Network(content, path, inputs.batch, trusted=True)
    _HERE.key = embedding
    return _HERE.network


def close_network() -> None:
    """End the process of the network that this thread has kept, if any."""
    if getattr(_HERE, "key", None) is not None:
        _HERE.network.close()
    _HERE.key = _HERE.network = None


def read_embedding(
    path: Path, media_type: MediaType, values: Mapping[str, Any], *, join: bool, labels: Iterable[str] = ()
) -> Embedding:
    """A network for the instances of a media type, checked and tried.

    Parameters
    ----------
    path : the ONNX or .tflite file, or the name of a network that is looked for among installed packages
    media_type : MediaType
    values : settings that differ from what the file and its TOML say
    join : whether vectors are added to the features of the media type
    labels : those of the run, which the network may know
    """
    if media_type.embed is None:
        raise InputError(
            "Networks are for recordings, pictures and texts, and these files are "
            f"{media_type.name}; leave --embed out."
        )
    path = network_path(path)
    content = read_network_file(path)
    with closing(Network(content, path, n_rows=media_type.embed().batch)) as network:
        known = {setting.name for setting in fields(media_type.embed)}
        kind = recognized(network)
        metadata = _notes(network, known)
        given = {**_read_toml(path, known), **given_settings(values)}
        for name, value in metadata.items():
            if name in given and media_type.embed.from_text({name: given[name]}) != media_type.embed.from_text(
                {name: value}
            ):
                raise InputError(
                    f"{path}: the network says {name} = {value}, and {name} = {given[name]} is asked for; leave that "
                    "out, or use another network."
                )
        usual = sentence_settings(path) | ({} if kind is None else kind.all_settings(network))
        inputs = media_type.embed.from_text(
            {**{name: value for name, value in usual.items() if name in known}, **metadata, **given}
        ).completed(network)
        licence = f"{kind.name}, {kind.licence}" if kind is not None and kind.licence else ""
        output, classes = find_classes(inputs, network)
        scores = match_labels(labels, classes)
        inputs = replace(inputs, scores=output if scores else "")
        if scores and not inputs.scores_are:
            (blank,) = run_feed(inputs, inputs.feed([inputs.nothing()], network), network, TRIAL, range(len(classes)))
            in_bounds = np.all((blank >= 0.0) & (blank <= 1.0), where=~np.isnan(blank))
            inputs = replace(inputs, scores_are="probabilities" if in_bounds else "logits")
        return _tried(path, content, network, inputs, join, licence, scores)


def reopen_embedding(path: Path, media_type: MediaType, about: Mapping[str, Any]) -> Embedding:
    """The network that a model was trained with, from its file; another file is refused."""
    if media_type.embed is None:
        raise InputError(
            f"The model was trained with vectors of a network, and {media_type.name} has none; train it again."
        )
    content = read_network_file(path)
    inputs = media_type.embed.from_text(about["settings"])
    if content_fingerprint(content, *inputs.contents(path.parent)) != about["fingerprint"]:
        raise InputError(
            f"{path} is not the network that the model was trained with ({about['name']}, {about['fingerprint']}), or "
            "its tokenizer is another; give that one (--embed)."
        )
    with closing(Network(content, path, inputs.batch)) as network:
        rest = about.get("licence", ""), about.get("scores", {})
        return _tried(path, content, network, inputs, about["join"], *rest)


def network_of(about: Mapping[str, Any], given: Path | None, model: Path) -> Path | None:
    """The file of the network that a model was trained with: as given, next to the model, or in a package."""
    if given is not None:
        return network_path(given)
    beside = model.parent / about["name"]
    names = [name for name, (file, _) in INSTALLED.items() if file == about["name"]]
    return beside if beside.is_file() or not names else installed_file(names[0])


def _tried(
    path: Path,
    content: bytes,
    network: Network,
    inputs: NetworkInput,
    join: bool,
    licence: str,
    scores: Mapping[str, int],
) -> Embedding:
    """The embedding after one instance went through it: what cannot work is found before files are read."""
    vectors = run_feed(inputs, inputs.feed([inputs.nothing()], network), network, TRIAL, list(scores.values()))
    if vectors.shape[1] > LARGEST_VECTOR:
        raise InputError(
            f"{path}: the network gives vectors of {vectors.shape[1]} numbers, and the most is {LARGEST_VECTOR}; "
            "choose another 'output'."
        )
    fingerprint = content_fingerprint(content, *inputs.contents(path.parent))
    return Embedding(path.resolve(), fingerprint, inputs, vectors.shape[1], join, licence, scores)


def _notes(network: Network, known: set[str]) -> dict[str, str]:
    """What the metadata of an ONNX file says of how it is given its input; other notes are not for us."""
    found = {}
    for key, value in network.notes.items():
        name = key.removeprefix(PREFIX)
        name = OTHER_NAMES.get(name, name)
        if name in known and (key.startswith(PREFIX) or name not in ("output", "batch")):
            found[name] = value.strip("[]() ")
    return found


def _read_toml(path: Path, known: set[str]) -> dict[str, Any]:
    """The settings in the TOML of a network; nothing where there is none."""
    file = path.with_suffix(".toml")
    if not file.is_file():
        return {}
    try:
        if file.stat().st_size > LARGEST_TOML:
            raise ValueError("it is too large")
        given = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise FormatError(f"{file}: it is no TOML that can be read ({error}); correct it.") from error
    for name, value in given.items():
        if name not in known:
            raise InputError(f"{file}: there is no setting {name!r}; the settings are {', '.join(sorted(known))}.")
        if isinstance(value, dict):
            raise InputError(f"{file}: the setting {name!r} is a table; expected a value.")
    return given_settings(given)


SLACK = 0.05  # seconds between two windows that are no gap


@dataclass(frozen=True)
class Windows:
    """The windows of one file, in order of time: (m, 2 k) first and last of each along k axes, and (m, e) vectors."""

    places: np.ndarray
    vectors: np.ndarray

    @property
    def start(self) -> np.ndarray:
        return self.places[:, 0]

    @property
    def end(self) -> np.ndarray:
        return self.places[:, 1]

    def gaps(self, seconds: float) -> list[tuple[float, float]]:
        """First and last second of what no window covers; a rest at the end that holds no whole window is none."""
        reach = np.maximum.accumulate(self.end)
        edges = zip(np.concatenate([[0.0], reach]), np.append(self.start, seconds), strict=True)
        found = [(float(a), float(b)) for a, b in edges if b - a > SLACK]
        length = float(np.max(self.end - self.start))
        if found and found[-1][1] == seconds and found[-1][1] - found[-1][0] < length:
            found.pop()
        return found

    def nearest(self, middle: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """For each of (n, k) points the window whose middle is nearest to it, and whether that window holds it."""
        first, last = self.places[:, ::2], self.places[:, 1::2]
        _, best = cKDTree((first + last) / 2).query(middle)
        return best, ((first[best] <= middle) & (middle <= last[best])).all(axis=1)


@dataclass(frozen=True)
class VectorTable:
    """Vectors of the windows of recordings, of passages of texts or of boxes of pictures.

    Attributes
    ----------
    name, fingerprint : str
        Of the file that they come from.
    windows : dict
        File to its windows.
    size : int
        Numbers of a vector.
    join : bool
        Whether vectors are added to the features of the media type, or replace them.
    are_instances : bool
        Whether the windows are the instances, of recordings alone; otherwise each instance gets the vector of the
        window nearest to it.
    problems : tuple of (name, message)
        What could not be used of the file.
    """

    name: str
    fingerprint: str
    windows: Mapping[str, Windows]
    size: int
    join: bool
    are_instances: bool
    problems: tuple[tuple[str, str], ...] = ()

    @property
    def about(self) -> dict[str, Any]:
        return {
            "kind": TABLE,
            "name": self.name,
            "fingerprint": self.fingerprint,
            "settings": {"windows": self.are_instances},
            "size": self.size,
            "join": self.join,
        }

    def of_file(self, name: str) -> VectorTable:
        """What a process that reads the file needs: the windows of that file."""
        return replace(self, windows={name: self.windows[name]} if name in self.windows else {})

    def instances(self, sound: Sound, name: str) -> FileBags:
        """The windows of a recording as instances, all in one part, with what is wrong with them."""
        own, seconds, problems = self._of(name), sound.info.seconds, []
        inside = own.start < seconds
        gaps = own.gaps(seconds)
        if gaps:
            more = f" ({len(gaps)} gaps in all)" if len(gaps) > 1 else ""
            problems.append(
                f"no window of {self.name} covers {gaps[0][0]:.2f} to {gaps[0][1]:.2f} s of it{more}; nothing is found "
                "there."
            )
        if not inside.all():
            problems.append(
                f"{np.sum(~inside)} window(s) of {self.name} begin after its end at {seconds:.2f} s and are not "
                "used; check the table."
            )
        found = whole_band(own.start[inside], own.end[inside], np.inf)  # up to where the recording ends
        return replace(found, problems=problems, vectors=own.vectors[inside])

    def describe(self, file: Any, name: str, found: FileBags) -> FileBags:
        """What was found in a file, or in a part of it, each instance with the vector of the window nearest to it."""
        own, at = self._of(name), {key: np.asarray(column) for key, column in found.locations.items()}
        if "start" in at:
            middle = ((at["start"] + at["end"]) / 2)[:, None]
        else:
            middle = np.stack([at["left"] + at["width"] / 2, at["top"] + at["height"] / 2], axis=1)
        best, inside = own.nearest(middle)
        problems = []
        if not inside.all():
            point = " x ".join(f"{value:.2f}" for value in middle[np.argmin(inside)])
            problems.append(
                f"{int(np.sum(~inside))} of its instances, such as that at {point}, lie in no window of {self.name}; "
                "they have the vector of the nearest one."
            )
        return replace(found, vectors=own.vectors[best], problems=[*found.problems, *problems])

    def _of(self, name: str) -> Windows:
        if name not in self.windows:
            raise FormatError(
                f"{name}: no row of {self.name} names it, so that it has no vectors; add them (--embeddings)."
            )
        return self.windows[name]
