"""Labels, instance labels and corrections of the bags of a run, joined; and what is hard to learn from them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from bagwise.app.media.files import stack_rows
from bagwise.app.report.facts import HardLabels, find_hard_labels
from bagwise.app.runs._evidence import BagMarks, marked_labels
from bagwise.app.runs.corrections import ABSENT, ALSO, PRESENT, Correction
from bagwise.app.runs.layout import EDITS, row_finder
from bagwise.core.bags import Bags, offsets_of
from bagwise.core.dataset import BagDataset
from bagwise.core.exceptions import InputError
from bagwise.core.validation import Given, sort_classes
from bagwise.scale import BagSource


@dataclass(frozen=True)
class Supervision:
    """A data set with all that is known of it.

    Attributes
    ----------
    dataset : BagDataset
        Its label sets are those that count, its instance labels the instances that somebody named.
    noise : (m,) array of bool
        Instances of which somebody said that they are noise.
    settled : set of (bag, label)
        Of which somebody said, the bag before them, that the label is in it or is not.
    also : (k, 2) array
        Row and class index of the labels beyond the first of instances that somebody named; they carry no others, but
        for those that are `open`.
    open : (k,) array
        Rows of instances that somebody named that may carry further labels.
    marks : dict
        Number of a bag to what is said of its labels beyond a list.
    """

    dataset: BagDataset
    noise: np.ndarray
    settled: frozenset[tuple[str, str]] = frozenset()
    also: np.ndarray = field(default_factory=lambda: np.empty((0, 2), dtype=np.int64))
    marks: Mapping[int, BagMarks] = field(default_factory=dict)
    open: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=np.int64))

    @property
    def known(self) -> np.ndarray:
        """(m,) class index of the instances that somebody named, -1 elsewhere."""
        labels = self.dataset.instance_labels
        return np.full(self.dataset.bags.n_instances, -1) if labels is None else labels.instances

    @property
    def has_labels(self) -> np.ndarray:
        """(n,) whether any label may be in the bag by what is said of it."""
        assert self.dataset.Y is not None
        found: np.ndarray = np.any(self.dataset.Y, axis=1).copy()
        found[[bag for bag, own in self.marks.items() if own.is_open]] = True
        return found

    @property
    def checked(self) -> np.ndarray:
        """(m,) whether somebody said what the instance is: which labels it carries, and no others."""
        checked: np.ndarray = self.noise | (self.known >= 0)
        checked[self.open] = False
        return checked

    def training_set(self, *, takes_empty: bool, takes_known: bool, label_sets: bool = False) -> BagDataset:
        """What a learner is given: the labelled bags without their background instances, over the labels that occur.

        An instance known to be background leaves its bag. Where the learner has a background it is a bag of its own
        with no label, which has the same likelihood as a known background instance in the bag. An instance whose label
        is known stays in its bag with that label; where the learner takes no known instances, or nobody labelled the
        bag, it is a bag of its own with that label, and has no name.

        Parameters
        ----------
        takes_empty : whether the learner takes bags without labels
        takes_known : whether it takes known instances
        label_sets : whether an instance may carry several labels; what is known is then that of `known_sets`
        """
        dataset, known, also = self.dataset, self.known, self.also if label_sets else self.also[:0]
        bag_of = dataset.bags.bag_index
        assert dataset.Y is not None
        main, single = self._training_rows(takes_empty, takes_known)
        rows = np.concatenate([main, single])
        index, sizes = np.unique(bag_of[main], return_counts=True)
        offsets = offsets_of([*sizes, *np.ones(len(single), dtype=np.int64)])
        codes, of_single = known[rows], known[single]
        Y = np.zeros((len(offsets) - 1, dataset.n_classes), dtype=dataset.Y.dtype)
        Y[: len(index)] = dataset.Y[index]
        Y[len(index) + np.flatnonzero(of_single >= 0), of_single[of_single >= 0]] = 1
        place = np.full(len(bag_of), -1)
        place[single] = len(index) + np.arange(len(single))
        alone = also[place[also[:, 0]] >= 0]
        Y[place[alone[:, 0]], alone[:, 1]] = 1
        whole = len(rows) == len(bag_of) and not len(single)
        made = BagDataset(
            dataset.bags if whole else Bags(dataset.bags.instances[rows], offsets),
            Y,
            dataset.class_names,
            instance_labels=Bags(codes, offsets) if takes_known and not label_sets and np.any(codes >= 0) else None,
            bag_names=[*(dataset.bag_names[i] for i in index), *[""] * len(single)],
            feature_names=dataset.feature_names,
            name=dataset.name,
        )
        possible = {name for b in index.tolist() if b in self.marks for name in self.marks[b].names}
        occurring = sort_classes({dataset.class_names[c] for c in np.flatnonzero(Y.sum(axis=0))} | possible)
        return made.recode(occurring.tolist(), unknown="drop")

    def training_labels(self, training: BagDataset, takes_empty: bool, takes_known: bool, has_rates: bool) -> Given:
        """Of the bags of the `training_set` what is said of their labels; lists where that is all."""
        assert training.Y is not None
        main, single = self._training_rows(takes_empty, takes_known)
        bags = [*np.unique(self.dataset.bags.bag_index[main]).tolist(), *[-1] * len(single)]
        return marked_labels(training.Y, training.class_names, self.marks, bags, has_rates=has_rates)

    def _training_rows(self, takes_empty: bool, takes_known: bool) -> tuple[np.ndarray, np.ndarray]:
        """Rows that stay in their bags, and those that are bags of their own."""
        dataset = self.dataset
        assert dataset.Y is not None
        used = dataset.labelled & (self.has_labels | takes_empty)
        inside = used[dataset.bags.bag_index]
        named = (self.known >= 0) & ~(inside & takes_known)
        named[self.open] = False  # a bag of its own would say that it carries no others
        return np.flatnonzero(inside & ~self.noise), np.flatnonzero(named | (self.noise & takes_empty))

    def known_sets(self, classes: Iterable[Any], rows: np.ndarray | None = None) -> np.ndarray | None:
        """(k, c) 1 where an instance is known to carry a label, 0 where it is known not to, else NaN.

        None where nothing is known. `rows` are those of the training set of a learner of label sets, or these.
        """
        rows = np.concatenate(self._training_rows(True, True)) if rows is None else rows
        known, place = self.known, np.full(self.dataset.bags.n_instances, -1)
        place[rows] = np.arange(len(rows))
        named = rows[known[rows] >= 0]
        if not len(named):
            return None
        column = {name: c for c, name in enumerate(classes)}
        code = np.array([column.get(name, -1) for name in self.dataset.class_names])
        sets = np.full((len(rows), len(column)), np.nan, dtype=np.float32)
        sets[place[np.setdiff1d(named, self.open)]] = 0.0
        pairs = np.concatenate([np.column_stack([named, known[named]]), self.also[place[self.also[:, 0]] >= 0]])
        pairs = pairs[code[pairs[:, 1]] >= 0]
        sets[place[pairs[:, 0]], code[pairs[:, 1]]] = 1.0
        return sets

    def without_refuted(self) -> tuple[Supervision, list[tuple[str, list[str]]]]:
        """The same without labels of bags all of whose instances are known not to carry them; and these labels."""
        dataset = self.dataset
        assert dataset.Y is not None
        starts = dataset.bags.offsets[:-1]
        whole = np.logical_and.reduceat(self.checked, starts)
        if not whole.any():
            return self, []
        carried = np.zeros(dataset.Y.shape, dtype=bool)
        named = np.flatnonzero(self.known >= 0)
        pairs = np.concatenate([np.column_stack([named, self.known[named]]), self.also])
        carried[dataset.bags.bag_index[pairs[:, 0]], pairs[:, 1]] = True
        refuted = (dataset.Y == 1) & whole[:, None] & ~carried
        if not refuted.any():
            return self, []
        names = dataset.class_names
        found = [
            (str(dataset.bag_names[b]), [str(names[c]) for c in np.flatnonzero(refuted[b])])
            for b in np.flatnonzero(refuted.any(axis=1))
        ]
        return replace(self, dataset=replace(dataset, Y=np.where(refuted, 0, dataset.Y).astype(dataset.Y.dtype))), found

    def of_one_label(self) -> Supervision:
        """The same for learners that give each instance one label: of those that carry several nothing is known."""
        codes, labels = self.known.copy(), self.dataset.instance_labels
        if labels is None or not len(self.also):
            return self
        codes[self.also[:, 0]] = -1
        return replace(self, dataset=replace(self.dataset, instance_labels=Bags(codes, labels.offsets)))

    def part(self, rows: np.ndarray) -> Supervision:
        """Of some instances, in order; bags that hold none of them are left out."""
        place = np.full(self.dataset.bags.n_instances, -1)
        place[rows] = np.arange(len(rows))
        row, label = self.also[place[self.also[:, 0]] >= 0].T
        number = {bag: i for i, bag in enumerate(np.unique(self.dataset.bags.bag_index[rows]).tolist())}
        marks = {number[bag]: own for bag, own in self.marks.items() if bag in number}
        also = np.column_stack([place[row], label])
        opened = place[self.open]
        return Supervision(
            part_of(self.dataset, rows), self.noise[rows], self.settled, also, marks, opened[opened >= 0]
        )

    def joined(self, other: Supervision) -> Supervision:
        """This and another data set, with all that is known of them, as one."""
        if self.dataset.feature_names != other.dataset.feature_names:
            raise InputError("The run that trained the model has other features than this one; train a new model.")
        classes = sort_classes({*self.dataset.class_names, *other.dataset.class_names}).tolist()
        parts = [part.dataset.recode(classes) for part in (self, other)]
        codes = np.concatenate([Supervision(part, part.labelled).known for part in parts])
        column = {name: c for c, name in enumerate(classes)}
        also = [
            np.column_stack([rows + first, [column[part.dataset.class_names[c]] for c in of_rows]])
            for first, part in ((0, self), (self.dataset.bags.n_instances, other))
            for rows, of_rows in [part.also.T]
            if len(rows)
        ]
        offsets = offsets_of(np.concatenate([part.bags.sizes for part in parts]))
        return Supervision(
            BagDataset(
                bags=Bags(stack_rows([part.bags.instances for part in parts]), offsets),
                Y=np.concatenate([part.Y for part in parts]),
                class_names=classes,
                instance_labels=Bags(codes, offsets) if np.any(codes >= 0) else None,
                bag_names=[*parts[0].bag_names, *parts[1].bag_names],
                feature_names=self.dataset.feature_names,
                labelled=np.concatenate([part.labelled for part in parts]),
            ),
            np.concatenate([self.noise, other.noise]),
            self.settled | other.settled,
            np.concatenate([np.empty((0, 2), dtype=np.int64), *also]),
            {**self.marks, **{len(self.dataset) + bag: own for bag, own in other.marks.items()}},
            np.concatenate([self.open, other.open + self.dataset.bags.n_instances]),
        )


def put_together(
    dataset: BagDataset,
    sets: Mapping[Any, Iterable[Any]],
    known: Sequence[tuple[Any, int, Any]] = (),
    corrections: Iterable[Correction] = (),
    marked: Mapping[str, Iterable[str] | BagMarks] | None = None,
) -> Supervision:
    """The data set with the label sets by bag name, known instances, and corrections, later ones last.

    `marked` is what is said of bags beyond lists, entries of a table or what follows from several observers. A label
    that a person took out of a bag is known to be absent.

    A label of an instance is then one of its bag ("also" gives it a further one, and where nothing was said before it
    may carry others too; all else replaces what was said of it before); where nobody labelled the bag, its set stays
    unknown, since others may be in it too. "present" says that a bag holds a label, and so labels a bag that nobody
    labelled.
    """
    number = {name: i for i, name in enumerate(dataset.bag_names)}
    offsets = dataset.bags.offsets
    said = {number[bag]: set(labels) for bag, labels in sets.items() if bag in number}
    marks = {number[bag]: BagMarks.of(entries) for bag, entries in (marked or {}).items() if bag in number}
    names = np.full(dataset.bags.n_instances, None, dtype=object)
    noise = np.zeros(dataset.bags.n_instances, dtype=bool)
    more: dict[int, list[Any]] = {}  # row to the labels beyond the first
    opened: set[int] = set()  # rows that may carry others too

    find = row_finder(dataset)

    def name_instance(bag: int, instance: int, label: Any, also: bool = False) -> None:
        row = find(bag, instance)
        if row is None:  # it was removed since
            return
        if also and names[row] is not None:
            more[row] = [name for name in dict.fromkeys([*more.get(row, ()), label]) if name != names[row]]
        else:
            noise[row], names[row] = label == "", None if label == "" else label
            more.pop(row, None)
            (opened.add if also else opened.discard)(row)
        if label != "" and bag in said:
            said[bag].add(label)
            settle(bag, label)

    def settle(bag: int, label: Any, value: float | None = None) -> None:
        """What is said now of a label of a bag takes the place of what was said before."""
        if value is not None:
            marks.setdefault(bag, BagMarks()).values[label] = value
        elif bag in marks:
            marks[bag].values.pop(label, None)

    several = Counter((bag, instance) for bag, instance, _ in known)
    for bag, instance, label in known:
        if bag in number:
            row = find(number[bag], instance)
            is_further = several[bag, instance] > 1 and row is not None and names[row] is not None
            name_instance(number[bag], instance, label, is_further)
    settled = set()
    for correction in corrections:
        if correction.action in EDITS or correction.bag not in number:  # or all of its instances were removed
            continue
        bag, label = number[correction.bag], correction.label
        if correction.instance is None:
            settled.add((correction.bag, label))
        if correction.action == PRESENT:
            said.setdefault(bag, set()).add(label)
            settle(bag, label)
        elif correction.action == ABSENT:
            first, last = offsets[bag], offsets[bag + 1]
            for row in [row for row in more if first <= row < last]:
                left = [name for name in (names[row], *more.pop(row)) if name != label]
                names[row], more[row] = left[0], left[1:]
            names[first:last][names[first:last] == label] = None
            if bag in said:
                said[bag].discard(label)
                settle(bag, label, -np.inf)
        else:
            assert correction.instance is not None
            name_instance(bag, correction.instance, label, correction.action == ALSO)
    given = {name for name in names if name is not None}.union(*more.values())
    classes = sort_classes(given.union(*said.values(), *(own.names for own in marks.values()))).tolist()
    column = {name: c for c, name in enumerate(classes)}
    Y = np.zeros((len(dataset), len(classes)), dtype=np.uint8)
    listing = [bag for bag, labels in said.items() for _ in labels]
    Y[listing, [column[label] for labels in said.values() for label in labels]] = 1  # at once: a page waits for it
    codes = np.array([-1 if name is None else column[name] for name in names], dtype=np.int64)
    labelled = np.zeros(len(dataset), dtype=bool)
    labelled[list(said)] = True
    return Supervision(
        replace(
            dataset,
            Y=Y,
            class_names=classes,
            labelled=labelled,
            instance_labels=Bags(codes, offsets) if np.any(codes >= 0) else None,
        ),
        noise,
        frozenset(settled),
        np.array([(row, column[name]) for row in sorted(more) for name in more[row]], dtype=np.int64).reshape(-1, 2),
        {bag: own for bag, own in marks.items() if own.values or own.groups},
        np.array(sorted(row for row in opened if names[row] is not None), dtype=np.int64),
    )


def part_of(dataset: BagDataset, rows: np.ndarray) -> BagDataset:
    """Some instances of a labelled data set, in order; bags that hold none of them are left out."""
    if len(rows) == dataset.bags.n_instances:
        return dataset
    assert dataset.Y is not None
    index, sizes = np.unique(dataset.bags.bag_index[rows], return_counts=True)
    offsets, known = offsets_of(sizes), dataset.instance_labels
    return BagDataset(
        Bags(dataset.bags.instances[rows], offsets),
        dataset.Y[index],
        dataset.class_names,
        instance_labels=None if known is None else Bags(known.instances[rows], offsets),
        bag_names=[dataset.bag_names[i] for i in index],
        labelled=dataset.labelled[index],
    )


def hard_labels(data: BagDataset | BagSource, known: Iterable[int] = ()) -> HardLabels:
    """Labels that the labelled bags cannot distinguish; classes of instances that somebody named (`known`) can be."""
    if data.Y is None:
        return HardLabels(0)
    named = {data.class_names[c] for c in {*known} - {-1}}
    return find_hard_labels(data.Y[data.labelled], data.class_names, named)
