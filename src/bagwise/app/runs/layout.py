"""Which instances a run has: those that were found, and the boxes that people drew, moved and removed since.

An instance is named by its bag and its number in it. Numbers of instances that were found count from 0; a box gets the
next number that was never used, and a number that is gone is never given again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from bagwise.core.dataset import BagDataset

BOX, MOVED, REMOVED = "box", "moved", "removed"  # actions of corrections
EDITS = (BOX, MOVED, REMOVED)
MOST_NUMBERS = 2**31
SLACK = (1e-3, 0.1)  # of seconds and hertz, by which a place that was rounded may lie outside
Key = tuple[str, int]
"""Bag, and number of the instance in it."""
Place = tuple[float, ...]
"""Start and end of a box; then low and high, where the media type has frequencies."""
Span = tuple[float, float]


@dataclass(frozen=True, eq=False)
class NumberedDataset(BagDataset):
    """Bags whose instances bear numbers of their own: some are gone, others came."""

    numbers: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=np.int64))

    @property
    def positions(self) -> np.ndarray:
        """(m,) number of each instance within its bag, rising."""
        return self.numbers


def row_finder(dataset: BagDataset) -> Callable[[int, int], int | None]:
    """A function of the index of a bag and the number of an instance that gives its row; None where there is none."""
    offsets = dataset.bags.offsets
    numbers = dataset.numbers if isinstance(dataset, NumberedDataset) else None

    def find(bag: int, number: int) -> int | None:
        first, last = int(offsets[bag]), int(offsets[bag + 1])
        if numbers is None:
            return first + number if 0 <= number < last - first else None
        row = first + int(np.searchsorted(numbers[first:last], number))
        return row if row < last and numbers[row] == number else None

    return find


@dataclass(frozen=True)
class _InstanceRows:
    """The instances of a run, bag after bag.

    Attributes
    ----------
    bag, number : (m,) arrays
        Index of the bag among all, empty ones too, and number of the instance in it.
    origin : (m,) array
        Row among the instances that were found; of boxes their number, and further on the place in `drawn`.
    drawn : list of Key
        Of which the place is that of a box.
    """

    bag: np.ndarray
    number: np.ndarray
    origin: np.ndarray
    drawn: list[Key]

    @property
    def codes(self) -> np.ndarray:
        """(m,) rising, one for each key."""
        return self.bag * MOST_NUMBERS + self.number


class RunLayout:
    """The instances of a run after some edits.

    Parameters
    ----------
    sizes : mapping
        Bag to the number of instances that were found in it.
    rooms : mapping
        Bag, those in which nothing was found too, to first and last point of each axis along which a box may lie.

    Attributes
    ----------
    changed : dict
        Key to the place of a box that was drawn or moved.
    gone : set of Key
    """

    def __init__(self, sizes: Mapping[str, int], rooms: Mapping[str, Sequence[Span]] | None = None):
        self.sizes, self.rooms = sizes, rooms or {}
        self.changed: dict[Key, Place] = {}
        self.gone: set[Key] = set()

    def same_as(self, other: RunLayout) -> bool:
        """Whether both have the same instances in the same places."""
        return self.changed == other.changed and self.gone == other.gone

    def has(self, key: Key) -> bool:
        """Whether there is such an instance."""
        return key not in self.gone and (key in self.changed or 0 <= key[1] < self.sizes.get(key[0], 0))

    def misfit(self, bag: str, instance: int | None) -> str | None:
        """Why nothing can be said of a bag or an instance, if it cannot."""
        edited = self.gone or self.changed
        own = [key[1] for key in self.changed if key[0] == bag] if edited else []
        if bag not in self.sizes and not own:
            return f"The run has no bag {bag!r}; its bags are {some_of(self.sizes)}."
        size = self.sizes.get(bag, 0)
        lost = {key[1] for key in self.gone if key[0] == bag} if edited else set()
        if len({*range(size), *own} - lost if edited else range(size)) == 0:
            return f"Every instance of the bag {bag!r} was removed; draw one, or undo that."
        if instance is None or self.has((bag, instance)):
            return None
        if instance in lost:
            return f"The instance {instance} of the bag {bag!r} was removed; undo that, or name another one."
        return f"The bag {bag!r} has no instance {instance}; it has {size}, from 0 to {size - 1}."

    def take(self, action: str, key: tuple[str, int | None], place: Place | None) -> str | None:
        """Take over what was said, or say why it is none of this run."""
        bag, number = key
        if action not in EDITS:
            return self.misfit(bag, number)
        assert number is not None
        if action == BOX:
            if bag not in self.rooms:
                return f"The run has no bag {bag!r} in which boxes can be drawn."
            if not self.sizes.get(bag, 0) <= number < MOST_NUMBERS or self.has((bag, number)):
                return f"The number {number} of a box in the bag {bag!r} is taken, or is too large."
        elif (problem := self.misfit(bag, number)) is not None:
            return problem
        if action == REMOVED:
            self.changed.pop((bag, number), None)
            self.gone.add((bag, number))
            return None
        assert place is not None
        if (problem := _misplaced(place, self.rooms.get(bag, ()))) is not None:
            return f"The box {number} of the bag {bag!r} {problem}"
        self.changed[bag, number] = place
        return None

    def rows(self) -> _InstanceRows:
        """All instances, in order."""
        order = {bag: i for i, bag in enumerate(self.rooms or self.sizes)}
        sizes = np.array([self.sizes.get(bag, 0) for bag in order], dtype=np.int64)
        bag = np.repeat(np.arange(len(order)), sizes)
        number = np.arange(len(bag)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        begin = np.cumsum(sizes) - sizes
        drawn = sorted(self.changed, key=lambda key: (order[key[0]], key[1]))
        left = np.ones(len(bag), dtype=bool)
        for name, i in [*self.gone, *drawn]:  # a box that was moved comes again below
            if i < self.sizes.get(name, 0):
                left[begin[order[name]] + i] = False
        bag = np.concatenate([bag[left], np.array([order[name] for name, _ in drawn], dtype=np.int64)])
        number = np.concatenate([number[left], np.array([i for _, i in drawn], dtype=np.int64)])
        origin = np.concatenate([np.flatnonzero(left), len(left) + np.arange(len(drawn))])
        index = np.lexsort((number, bag))
        return _InstanceRows(bag[index], number[index], origin[index], drawn)

    def rows_in(self, before: RunLayout) -> np.ndarray:
        """(m,) of each instance its row in an earlier layout, -1 where it was not there or elsewhere."""
        now, then = self.rows(), before.rows()
        place = np.searchsorted(then.codes, now.codes)
        place[place == len(then.codes)] = 0
        found = np.where(then.codes[place] == now.codes, place, -1) if len(then.codes) else np.full(len(now.codes), -1)
        keys = {key for key in {*self.changed, *before.changed} if self.changed.get(key) != before.changed.get(key)}
        order = {bag: i for i, bag in enumerate(self.rooms or self.sizes)}
        moved = np.array([order[bag] * MOST_NUMBERS + number for bag, number in keys], dtype=np.int64)
        found[np.isin(now.codes, moved)] = -1
        return found


def _misplaced(place: Place, room: Sequence[Span]) -> str | None:
    """What is wrong with a place, if anything is."""
    if len(place) != 2 * len(room):
        return f"has {len(place)} numbers for its place, and {2 * len(room)} are expected."
    for axis, (first, last) in enumerate(room):
        low, high = place[2 * axis : 2 * axis + 2]
        if not (math.isfinite(low) and math.isfinite(high) and low < high):
            return f"reaches from {low:g} to {high:g}; the second number must be the larger one."
        if low < first - SLACK[axis] or high > last + SLACK[axis]:
            return f"reaches from {low:g} to {high:g}, and its file from {first:g} to {last:g}."
    return None


def some_of(names: Iterable[str]) -> str:
    """The first few names, for a message."""
    names = list(names)
    return ", ".join(map(repr, names[:5])) + (", ..." if len(names) > 5 else "")
