"""How instances are given to networks trained elsewhere, and which output is their vector."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np

from bagwise.app.media.files import FileBags
from bagwise.app.media.settings import Settings, choice, number
from bagwise.app.networks import Network, named
from bagwise.core.exceptions import InputError

Feed = dict[str, np.ndarray]
"""Some instances as a network takes them: an array for each of its inputs."""
OUTPUTS = ("embedding", "embeddings", "sentence_embedding", "image_embeds")  # what vectors are usually called
MASK = "attention_mask"
REGIONS = "of regions"  # (m, height, width) how much each region has of each patch of the one instance of a feed
MOST_ODDS = 15.0  # log-odds beyond which scores of classes say no more


@dataclass(frozen=True)
class NetworkInput(Settings):
    """How instances are given to a network, and which of its outputs is their vector.

    Attributes
    ----------
    output : str
        Name of the output, or of what is computed inside of the network; "" for the only output, or the one that is
        called an embedding.
    pool : {"mean", "first"}
        Of an output with a vector for each frame, patch or token: their mean, or the first of them.
    unit : bool
        Whether vectors are scaled to length 1.
    batch : int
        Instances that are run at a time.
    classes : str
        The list of its classes, a line each, by its path from the folder of the network; "" for what is found there.
        Of the labels of a run that it names, scores stand next to the vector. "none": they are not used.
    scores : str
        Name of the output that scores them; "" for the one that is as long as the list.
    scores_are : {"", "logits", "probabilities"}
        What scores are; "": found out from those of a blank instance.
    """

    output: str = ""
    pool: str = choice("mean", "first")
    unit: bool = False
    batch: int = number(16, 1, 4096)
    classes: str = ""
    scores: str = ""
    scores_are: str = choice("", "logits", "probabilities")

    def completed(self, network: Network) -> Self:
        """These settings with what the network says about itself; an error where the two contradict each other."""
        raise NotImplementedError

    def order(self, found: FileBags) -> np.ndarray:
        """The order in which the instances of a file are read."""
        return np.arange(sum(found.sizes))

    def rows_at_a_time(self, network: Network) -> int:
        """How many instances the network is given at once: as many as it has room for, where that is fixed."""
        shape = network.inputs[0].shape
        return (shape[0] or self.batch) if len(shape) > 1 else self.batch

    def source(self, file: Any) -> Any:
        """What `cut` is given of an open file."""
        return file

    def cut(self, source: Any, place: Mapping[str, Any]) -> Any:
        """One instance of a file, of the size that the network takes."""
        raise NotImplementedError

    def nothing(self) -> Any:
        """An instance that is blank, to try the network with."""
        raise NotImplementedError

    def feed(self, cuts: list[Any], network: Network) -> Feed:
        """Some instances as the network takes them."""
        raise NotImplementedError

    def pooled(self, found: np.ndarray, feed: Feed, network: Network) -> np.ndarray:
        """(n, e) vectors of what the network gave of a feed."""
        return pool_vectors(found, self.pool, feed.get(MASK), network)

    def feeds(self, file: Any, found: FileBags, network: Network, problems: list[str]) -> Iterator[Feed]:
        """The instances of a file, some at a time and in that order; what is wrong with some goes to the problems."""
        order, n = self.order(found).tolist(), self.rows_at_a_time(network)
        source = self.source(file) if order else None
        for i in range(0, len(order), n):
            rows = [{key: column[row] for key, column in found.locations.items()} for row in order[i : i + n]]
            yield self.feed([self.cut(source, row) for row in rows], network)

    def contents(self, folder: Path) -> list[bytes]:
        """What else than the network itself vectors depend on: contents of files below its folder."""
        return []


def chosen_output(given: str, network: Network) -> str:
    """Name of the output that holds the vectors."""
    names = [port.name for port in network.outputs]
    if given:
        if given not in [*names, *network.inner]:
            inner = f", and inside of it, the last ones, {', '.join(network.inner[-4:])}" if network.inner else ""
            raise InputError(
                f"{network.path}: the network has no output {given!r}; it has {named(network.outputs)}{inner}; change "
                "'output'."
            )
        return given
    usual = names if len(names) == 1 else [name for name in names if name in OUTPUTS]
    if len(usual) != 1:
        raise InputError(
            f"{network.path}: the network has {len(names)} outputs, {named(network.outputs)}; say which is the vector "
            f"({how_to_say('output', names[-1], network.path)})."
        )
    return usual[0]


def how_to_say(name: str, value: Any, path: Path) -> str:
    """How to give a setting of a network."""
    shown = f'"{value}"' if isinstance(value, str) else value
    return f"write {name} = {shown} into {path.with_suffix('.toml').name}, or --embed-set {name}={value}"


def agree(name: str, given: Any, said: Any, path: Path) -> Any:
    """The value that the network itself has for a setting; an error where another one is asked for."""
    if said is None or said == given:
        return given
    if given in (0, 0.0, "", None):
        return said
    raise InputError(
        f"{path}: the network takes {name} = {said}, and {name} = {given} is asked for; leave that out, or use another "
        "network."
    )


def run_feeds(
    inputs: NetworkInput, file: Any, name: str, found: FileBags, network: Network, classes: Sequence[int] = ()
) -> tuple[np.ndarray, list[str]]:
    """(m, e) float32 vectors of the instances of an open file, scores of these classes last; and what is wrong."""
    problems: list[str] = []
    feeds = inputs.feeds(file, found, network, problems)
    parts = [run_feed(inputs, feed, network, classes=classes) for feed in feeds]
    vectors = np.concatenate(parts) if parts else np.empty((0, 0), dtype=np.float32)
    vectors = vectors[np.argsort(inputs.order(found))]
    bad = np.flatnonzero(~np.isfinite(vectors).all(axis=1))
    if len(bad) == len(vectors) > 0:
        raise InputError(
            f"{name}: the network gives no finite vector for instance {bad[0]} ({len(bad)} such); check how it "
            "is to be given (rate, scale, mean, std), or leave the file out."
        )
    if len(bad):
        vectors[bad] = np.delete(vectors, bad, axis=0).mean(axis=0)
        problems.append(
            f"the network gives no finite vector for {len(bad)} of its {len(vectors)} instances, the first is number "
            f"{bad[0]}; they have the mean of the others. Look at what is there."
        )
    return vectors, problems


def run_feed(
    inputs: NetworkInput, feed: Feed, network: Network, seconds: float | None = None, classes: Sequence[int] = ()
) -> np.ndarray:
    """(n, e) float32 vectors of some instances, the scores of these classes behind each."""
    n, first = len(next(iter(feed.values()))), network.inputs[0]
    outputs = [inputs.output, inputs.scores] if len(classes) else [inputs.output]
    if len(first.shape) == 1:
        rows = [network.run_all({first.name: feed[first.name][i]}, outputs, seconds) for i in range(n)]
        found = [np.stack(parts) for parts in zip(*rows, strict=True)]
    else:
        given = {port.name: _padded(feed[port.name], first.shape[0]) for port in network.inputs}
        found = [array[:n] for array in network.run_all(given, outputs, seconds)]
    vectors = inputs.pooled(found[0], feed, network)
    if REGIONS in feed:
        n = len(feed[REGIONS])
    if len(vectors) != n:
        raise InputError(f"{network.path}: the network gives {len(vectors)} vectors for {n} instances; use another.")
    if inputs.unit:
        vectors = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    if len(classes):
        scores = found[1].reshape(n, -1)[:, classes]
        vectors = np.hstack([vectors, log_odds(scores, inputs.scores_are) if inputs.scores_are else scores])
    return vectors.astype(np.float32)


def log_odds(scores: np.ndarray, kind: str) -> np.ndarray:
    """Scores of classes as log-odds, within bounds; those that are none say nothing."""
    values = np.nan_to_num(scores.astype(np.float64), nan=-np.inf)
    if kind == "probabilities":
        with np.errstate(divide="ignore", invalid="ignore"):
            values = np.log(values) - np.log1p(-values)
        values = np.nan_to_num(values, nan=-np.inf)
    return np.clip(values, -MOST_ODDS, MOST_ODDS)


def _padded(values: np.ndarray, n: int | None) -> np.ndarray:
    """As many rows as a network of a fixed number takes."""
    if n is None or len(values) == n:
        return values
    return np.concatenate([values, np.repeat(values[-1:], n - len(values), axis=0)])


def pool_vectors(found: np.ndarray, pool: str, mask: np.ndarray | None, network: Network) -> np.ndarray:
    """(n, e) vectors of an output of one vector per instance, or of one for each of its frames or tokens."""
    if not np.issubdtype(found.dtype, np.floating) or found.ndim not in (2, 3) or 0 in found.shape:
        raise InputError(
            f"{network.path}: the output is {' x '.join(map(str, found.shape))} of {found.dtype}; expected a vector "
            f"for each instance, or one for each of its frames. The outputs are {named(network.outputs)}; choose "
            "another ('output')."
        )
    found = found.astype(np.float64)
    if found.ndim == 2:
        return found
    if pool == "first":
        return found[:, 0]
    if mask is None or mask.shape != found.shape[:2]:
        return found.mean(axis=1)
    weight = mask.astype(np.float64)[:, :, None]
    return (found * weight).sum(axis=1) / np.maximum(weight.sum(axis=1), 1.0)


def given_settings(values: Mapping[str, Any]) -> dict[str, Any]:
    """Values of a TOML as settings take them: a list of numbers is text."""
    return {name: " ".join(map(str, value)) if isinstance(value, list) else value for name, value in values.items()}
