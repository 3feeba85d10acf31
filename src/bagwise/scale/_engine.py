"""Who goes through the pieces of a source and adds up what is asked of each: here, this process."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np

from bagwise.core.bags import Bags, offsets_of
from bagwise.core.exceptions import InputError
from bagwise.core.validation import check_finite
from bagwise.scale._pieces import Piece, read_ahead, read_pieces
from bagwise.scale._source import BagSource
from bagwise.union import LabelledBags

T = TypeVar("T")
Sums = tuple[Any, ...]
"""Numbers and arrays."""
Make = Callable[[Bags, Any], Any]


def added(one: Sums, other: Sums) -> Sums:
    return tuple(a + b for a, b in zip(one, other, strict=True))


@dataclass(frozen=True, repr=False)
class Task:
    """What is asked of every piece: a function of one, with its arguments, and how what neighbours give is joined."""

    function: Callable[..., Sums]
    arguments: tuple[Any, ...]
    join: Callable[[Sums, Sums], Sums]

    def __call__(self, item: Any) -> Sums:
        return self.function(item, *self.arguments)

    def __repr__(self) -> str:
        """Short: a cluster asks for it at every evaluation, and arrays in words take longer than the evaluation."""
        return self.function.__name__


class Items:
    """Something made of every piece, here or elsewhere."""

    def total(self, function: Callable[..., Sums], *arguments: Any, join: Callable[[Sums, Sums], Sums] = added) -> Sums:
        """What a function of an item and the arguments gives for all items, joined in a fixed order."""
        return self.sum_of(Task(function, arguments, join))

    def sum_of(self, task: Task) -> Sums:
        raise NotImplementedError


class Engine:
    """Goes through the training bags of a source, behind the steps that were fitted so far."""

    training: Training

    def then(self, step: Any) -> Engine:
        """The same behind one more fitted step."""
        raise NotImplementedError

    def items(self, make: Make, details: Sequence[Any]) -> Items:
        """`make` of the bags of every piece and of its own detail; pieces whose detail is None are left out."""
        raise NotImplementedError

    def of_labelled(self, make: Make, labelled: LabelledBags) -> Items:
        """`make` of those bags of every piece and of what is said of them, whose numbers count from 0."""
        parts: list[LabelledBags | None] = []
        for positions, first in zip(self.training.split(labelled.index), self.training.starts, strict=False):
            part = labelled[positions] if len(labelled.index[positions]) else None
            parts.append(None if part is None else replace(part, index=part.index - first))
        return self.items(_OfLabelled(make), parts)


@dataclass(frozen=True)
class _OfLabelled:
    make: Make

    def __call__(self, bags: Bags, labelled: LabelledBags) -> Any:
        every = np.array_equal(labelled.index, np.arange(len(bags)))
        return self.make(bags if every else bags[labelled.index], labelled)


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
        return cls(source, source.labelled, offsets_of(source.labelled)[source.bag_starts])

    @property
    def offsets(self) -> np.ndarray:
        """(n + 1,) of the used bags."""
        return offsets_of(np.diff(self.source.offsets)[self.used])

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


class Here(Engine):
    """This process: pieces are read, and put through the steps, by a thread while the one before is worked on."""

    def __init__(self, training: Training, steps: Sequence[Any] = ()):
        self.training = training
        self.steps = tuple(steps)

    def then(self, step: Any) -> Here:
        return Here(self.training, (*self.steps, step))

    def items(self, make: Make, details: Sequence[Any]) -> HereItems:
        return HereItems(self, make, list(details))


class HereItems(Items):
    """Made again at every pass, so that no more than two are in memory."""

    def __init__(self, engine: Here, make: Make, details: list[Any]):
        self.engine, self.make, self.details = engine, make, details

    def sum_of(self, task: Task) -> Sums:
        found = tree_sum((task(self.make(bags, detail)) for bags, detail in read_ahead(self._read())), task.join)
        assert found is not None  # a training without bags is refused before
        return found

    def _read(self) -> Iterator[tuple[Bags, Any]]:
        training = self.engine.training
        numbers = [i for i, detail in enumerate(self.details) if detail is not None and training.n_used(i)]
        pieces = [training.source.describe(i) for i in numbers]
        for number, piece, bags in zip(numbers, pieces, read_pieces(pieces), strict=True):
            yield ready_bags(piece, bags, training.used_of(number), self.engine.steps), self.details[number]


def tree_sum(items: Iterable[T], add: Callable[[T, T], T]) -> T | None:
    """The sum of all items, always added in the same order, a balanced tree; a few partial sums are in memory.

    Neighbours are added, then neighbouring sums, and so on, as if all items were at hand; None of no item.
    """
    partial: list[tuple[int, T]] = []  # height of a whole subtree, and its sum
    for item in items:
        height = 0
        while partial and partial[-1][0] == height:
            item = add(partial.pop()[1], item)
            height += 1
        partial.append((height, item))
    total = None
    while partial:
        last = partial.pop()[1]
        total = last if total is None else add(last, total)
    return total
