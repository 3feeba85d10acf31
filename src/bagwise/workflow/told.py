"""What people said of the bags of a run, put together: label sets, known instances, noise."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bagwise.bags import Bags, offsets_of
from bagwise.base import sort_classes
from bagwise.dataset import BagDataset
from bagwise.exceptions import InputError
from bagwise.featurize.files import stack_rows
from bagwise.workflow.corrections import ABSENT, PRESENT, Correction


@dataclass(frozen=True)
class Told:
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


@dataclass(frozen=True)
class TrainingSet:
    """What a learner is given.

    Attributes
    ----------
    bags : Bags
    label_sets : list of sets
    instance_labels : Bags of int or None
        Indices into the sorted labels that occur, which are the classes that the learner will have.
    index : (n,) array
        Number of each bag in the data set; -1 for an instance that stands alone because somebody named it.
    """

    bags: Bags
    label_sets: list[set[Any]]
    instance_labels: Bags | None
    index: np.ndarray


def put_together(
    dataset: BagDataset,
    sets: Mapping[Any, Iterable[Any]],
    known: Iterable[tuple[Any, int, Any]] = (),
    corrections: Iterable[Correction] = (),
) -> Told:
    """The data set with the label sets by bag name, known instances, and corrections, later ones last.

    A label of an instance is then one of its bag; where nobody labelled the bag, its set stays unknown, since others
    may be in it too. "present" says that a bag holds a label, and so labels a bag that nobody labelled.
    """
    number = {name: i for i, name in enumerate(dataset.bag_names)}
    offsets = dataset.bags.offsets
    said = {number[bag]: set(labels) for bag, labels in sets.items() if bag in number}
    names = np.full(dataset.bags.n_instances, None, dtype=object)
    noise = np.zeros(dataset.bags.n_instances, dtype=bool)

    def name_instance(bag: int, instance: int, label: Any) -> None:
        row = offsets[bag] + instance
        noise[row], names[row] = label == "", None if label == "" else label
        if label != "" and bag in said:
            said[bag].add(label)

    for bag, instance, label in known:
        name_instance(number[bag], instance, label)
    settled = set()
    for correction in corrections:
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
    return Told(
        replace(
            dataset, Y=Y, class_names=classes, labelled=labelled,
            instance_labels=Bags(codes, offsets) if np.any(codes >= 0) else None,
        ),
        noise,
        frozenset(settled),
    )  # fmt: skip


def training_set(told: Told, *, takes_empty: bool, takes_known: bool) -> TrainingSet:
    """The labelled bags without what is noise, and as bags of one instance what somebody named beside them.

    A noise leaves its bag. Where the learner has a background it is a bag of its own with no label, which has the same
    likelihood as a known background instance in the bag. An instance that was named is known within its bag; where the
    learner takes no known instances, or nobody labelled the bag, it is a bag of its own with that label.

    Parameters
    ----------
    told : Told
    takes_empty : whether the learner takes bags without labels
    takes_known : whether it takes known instances
    """
    dataset, known, noise = told.dataset, told.known, told.noise
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
    sets = dataset.label_sets
    label_sets = [sets[i] or set() for i in index]
    label_sets += [{dataset.class_names[known[i]]} if known[i] >= 0 else set() for i in single]
    instance_labels = None
    if takes_known and np.any(known[rows] >= 0):
        classes = sort_classes(set().union(*label_sets)).tolist()
        column = {name: c for c, name in enumerate(classes)}
        code = np.array([column.get(name, -1) for name in dataset.class_names] + [-1])
        instance_labels = Bags(code[known[rows]], offsets)
    bags = dataset.bags if len(rows) == len(bag_of) and not len(single) else Bags(dataset.bags.instances[rows], offsets)
    return TrainingSet(bags, label_sets, instance_labels, np.concatenate([index, np.full(len(single), -1)]))


def join_told(one: Told, other: Told) -> Told:
    """Two data sets with all that is known of them as one."""
    if one.dataset.feature_names != other.dataset.feature_names:
        raise InputError("The run that trained the model has other features than this one; train a model anew.")
    classes = sort_classes({*one.dataset.class_names, *other.dataset.class_names}).tolist()
    parts = [part.dataset.recode(classes) for part in (one, other)]
    codes = np.concatenate([Told(part, part.labelled).known for part in parts])
    offsets = offsets_of(np.concatenate([part.bags.sizes for part in parts]))
    return Told(
        BagDataset(
            bags=Bags(stack_rows([part.bags.instances for part in parts]), offsets),
            Y=np.concatenate([part.Y for part in parts]),
            class_names=classes,
            instance_labels=Bags(codes, offsets) if np.any(codes >= 0) else None,
            bag_names=[*parts[0].bag_names, *parts[1].bag_names],
            feature_names=one.dataset.feature_names,
            labelled=np.concatenate([part.labelled for part in parts]),
        ),
        np.concatenate([one.noise, other.noise]),
        one.settled | other.settled,
    )
