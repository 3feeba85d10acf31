"""Labels, instance labels and corrections of the bags of a run, joined; and what is hard to learn from them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bagwise.app.media.files import stack_rows
from bagwise.app.report.facts import HardLabels, find_hard_labels
from bagwise.app.runs.corrections import ABSENT, PRESENT, Correction
from bagwise.app.runs.layout import EDITS, row_finder
from bagwise.core.bags import Bags, offsets_of
from bagwise.core.dataset import BagDataset
from bagwise.core.exceptions import InputError
from bagwise.core.validation import sort_classes
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
    """

    dataset: BagDataset
    noise: np.ndarray
    settled: frozenset[tuple[str, str]] = frozenset()

    @property
    def known(self) -> np.ndarray:
        """(m,) class index of the instances that somebody named, -1 elsewhere."""
        labels = self.dataset.instance_labels
        return np.full(self.dataset.bags.n_instances, -1) if labels is None else labels.instances

    @property
    def checked(self) -> np.ndarray:
        """(m,) whether somebody said what the instance is."""
        return self.noise | (self.known >= 0)

    def training_set(self, *, takes_empty: bool, takes_known: bool) -> BagDataset:
        """What a learner is given: the labelled bags without their background instances, over the labels that occur.

        An instance known to be background leaves its bag. Where the learner has a background it is a bag of its own
        with no label, which has the same likelihood as a known background instance in the bag. An instance whose label
        is known stays in its bag with that label; where the learner takes no known instances, or nobody labelled the
        bag, it is a bag of its own with that label, and has no name.

        Parameters
        ----------
        takes_empty : whether the learner takes bags without labels
        takes_known : whether it takes known instances
        """
        dataset, known, noise = self.dataset, self.known, self.noise
        bag_of = dataset.bags.bag_index
        assert dataset.Y is not None
        used = dataset.labelled & (dataset.Y.any(axis=1) | takes_empty)
        inside = used[bag_of]
        main = np.flatnonzero(inside & ~noise)
        named = (known >= 0) & ~(inside & takes_known)
        single = np.flatnonzero(named | (noise & takes_empty))
        rows = np.concatenate([main, single])
        index, sizes = np.unique(bag_of[main], return_counts=True)
        offsets = offsets_of([*sizes, *np.ones(len(single), dtype=np.int64)])
        codes, of_single = known[rows], known[single]
        Y = np.zeros((len(offsets) - 1, dataset.n_classes), dtype=dataset.Y.dtype)
        Y[: len(index)] = dataset.Y[index]
        Y[len(index) + np.flatnonzero(of_single >= 0), of_single[of_single >= 0]] = 1
        whole = len(rows) == len(bag_of) and not len(single)
        made = BagDataset(
            dataset.bags if whole else Bags(dataset.bags.instances[rows], offsets),
            Y,
            dataset.class_names,
            instance_labels=Bags(codes, offsets) if takes_known and np.any(codes >= 0) else None,
            bag_names=[*(dataset.bag_names[i] for i in index), *[""] * len(single)],
            name=dataset.name,
        )
        occurring = sort_classes({dataset.class_names[c] for c in np.flatnonzero(Y.sum(axis=0))})
        return made.recode(occurring.tolist(), unknown="drop")

    def joined(self, other: Supervision) -> Supervision:
        """This and another data set, with all that is known of them, as one."""
        if self.dataset.feature_names != other.dataset.feature_names:
            raise InputError("The run that trained the model has other features than this one; train a new model.")
        classes = sort_classes({*self.dataset.class_names, *other.dataset.class_names}).tolist()
        parts = [part.dataset.recode(classes) for part in (self, other)]
        codes = np.concatenate([Supervision(part, part.labelled).known for part in parts])
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
        )


def put_together(
    dataset: BagDataset,
    sets: Mapping[Any, Iterable[Any]],
    known: Iterable[tuple[Any, int, Any]] = (),
    corrections: Iterable[Correction] = (),
) -> Supervision:
    """The data set with the label sets by bag name, known instances, and corrections, later ones last.

    A label of an instance is then one of its bag; where nobody labelled the bag, its set stays unknown, since others
    may be in it too. "present" says that a bag holds a label, and so labels a bag that nobody labelled.
    """
    number = {name: i for i, name in enumerate(dataset.bag_names)}
    offsets = dataset.bags.offsets
    said = {number[bag]: set(labels) for bag, labels in sets.items() if bag in number}
    names = np.full(dataset.bags.n_instances, None, dtype=object)
    noise = np.zeros(dataset.bags.n_instances, dtype=bool)

    find = row_finder(dataset)

    def name_instance(bag: int, instance: int, label: Any) -> None:
        row = find(bag, instance)
        if row is None:  # it was removed since
            return
        noise[row], names[row] = label == "", None if label == "" else label
        if label != "" and bag in said:
            said[bag].add(label)

    for bag, instance, label in known:
        if bag in number:
            name_instance(number[bag], instance, label)
    settled = set()
    for correction in corrections:
        if correction.action in EDITS or correction.bag not in number:  # or all of its instances were removed
            continue
        bag, label = number[correction.bag], correction.label
        if correction.instance is None:
            settled.add((correction.bag, label))
        if correction.action == PRESENT:
            said.setdefault(bag, set()).add(label)
        elif correction.action == ABSENT:
            rows = slice(offsets[bag], offsets[bag + 1])
            names[rows][names[rows] == label] = None
            if bag in said:
                said[bag].discard(label)
        else:
            assert correction.instance is not None
            name_instance(bag, correction.instance, label)
    classes = sort_classes({*set().union(*said.values()), *(name for name in names if name is not None)}).tolist()
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
