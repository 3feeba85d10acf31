"""Who goes through the pieces of a source and adds up what is asked of each: here, this process."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol

import numpy as np

from bagwise.core.bags import Bags
from bagwise.core.exceptions import InputError
from bagwise.core.validation import check_finite
from bagwise.scale.ahead import read_ahead, tree_sum
from bagwise.scale.pieces import Piece, read_pieces
from bagwise.scale.source import BagSource

Sums = tuple[Any, ...]


class Task:
    """What is asked of every piece: a subclass is called with one and gives a tuple of numbers and arrays."""

    def __call__(self, item: Any) -> Sums:
        raise NotImplementedError

    def __repr__(self) -> str:
        """Short: a cluster asks for it at every evaluation, and arrays in words take longer than the evaluation."""
        return type(self).__name__

    def add(self, one: Sums, other: Sums) -> Sums:
        """What two pieces, or sums of neighbouring ones, come to."""
        return tuple(a + b for a, b in zip(one, other, strict=True))


class Items(Protocol):
    """Something made of every piece, here or elsewhere."""

    def total(self, task: Task) -> Sums:
        """What the task gives for all items, added in a fixed order."""


class Engine(Protocol):
    """Goes through the training bags of a source, behind the steps that were fitted so far."""

    def then(self, step: Any) -> Engine:
        """The same behind one more fitted step."""

    def items(self, make: Callable[[Bags, Any], Any], details: Sequence[Any]) -> Items:
        """`make` of the bags of every piece and of its own detail; pieces whose detail is None are left out."""


@dataclass(frozen=True)
class Training:
    """The bags of a source that are learned from, and what is said of them.

    Attributes
    ----------
    source : BagSource
    used : (n,) bool
        Which bags of the source are learned from: the labelled ones.
    starts : (n_pieces + 1,) int
        Number of the first used bag of each piece.
    """

    source: BagSource
    used: np.ndarray
    starts: np.ndarray

    @classmethod
    def of(cls, source: BagSource) -> Training:
        before = np.concatenate([[0], np.cumsum(source.labelled)])
        return cls(source, source.labelled, before[source.bag_starts])

    @property
    def offsets(self) -> np.ndarray:
        """(n + 1,) of the used bags."""
        sizes = np.diff(self.source.offsets)[self.used]
        return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)

    def used_of(self, number: int) -> np.ndarray | None:
        """Which bags of a piece are used; None where all are."""
        mask = self.used[self.source.bag_starts[number] : self.source.bag_starts[number + 1]]
        return None if mask.all() else mask

    def n_used(self, number: int) -> int:
        return int(self.starts[number + 1] - self.starts[number])

    def split(self, index: np.ndarray) -> list[Any]:
        """Positions within `index`, numbers of used bags, of those of every piece, in the pieces' order.

        Slices where the index rises, which it does unless bags were drawn: what they select takes no room.
        """
        if np.all(index[1:] > index[:-1]):
            return [slice(a, b) for a, b in pairwise(np.searchsorted(index, self.starts).tolist())]
        order = np.argsort(index, kind="stable")
        cuts = np.searchsorted(index[order], self.starts)
        return [order[a:b] for a, b in pairwise(cuts)]


def ready_bags(piece: Piece, bags: Bags, used: np.ndarray | None, steps: Sequence[Any]) -> Bags:
    """The used bags of a piece as the learner sees them."""
    try:
        bags = bags if used is None else bags[used]
        check_finite(bags)
        for step in steps:
            bags = step.transform(bags)
    except InputError as error:
        raise InputError(f"{piece}: {error}") from error
    return bags


class Here:
    """This process: pieces are read, and put through the steps, by a thread while the one before is worked on."""

    def __init__(self, training: Training, steps: Sequence[Any] = ()):
        self.training = training
        self.steps = tuple(steps)

    def then(self, step: Any) -> Here:
        return Here(self.training, (*self.steps, step))

    def items(self, make: Callable[[Bags, Any], Any], details: Sequence[Any]) -> HereItems:
        return HereItems(self, make, list(details))


class HereItems:
    """Made anew at every pass, so that no more than two are in memory."""

    def __init__(self, engine: Here, make: Callable[[Bags, Any], Any], details: list[Any]):
        self.engine, self.make, self.details = engine, make, details

    def total(self, task: Task) -> Sums:
        found = tree_sum((task(self.make(bags, detail)) for bags, detail in self._ready()), task.add)
        assert found is not None  # a training without bags is refused before
        return found

    def _ready(self) -> Iterator[tuple[Bags, Any]]:
        training = self.engine.training
        numbers = [i for i, detail in enumerate(self.details) if detail is not None and training.n_used(i)]
        pieces = [training.source.describe(i) for i in numbers]

        def read() -> Iterator[tuple[Bags, Any]]:
            for number, piece, bags in zip(numbers, pieces, read_pieces(pieces), strict=True):
                yield ready_bags(piece, bags, training.used_of(number), self.engine.steps), self.details[number]

        return read_ahead(read())
