"""What is worth knowing of the labels before a fit, and is no problem."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from bagwise.dataset import BagDataset
from bagwise.featurize.medium import Medium
from bagwise.featurize.table import TABLE
from bagwise.report.hard_labels import HardLabels, find_hard_labels, remarks_on_labels
from bagwise.workflow.told import Told


def hard_labels(told: Told) -> HardLabels:
    """Labels that cannot be told apart by the labelled bags; those of instances that somebody named can."""
    dataset = told.dataset
    if dataset.Y is None:
        return HardLabels(0)
    named = {dataset.class_names[c] for c in np.unique(told.known) if c >= 0}
    return find_hard_labels(dataset.Y[dataset.labelled], dataset.class_names, named)


def label_remarks(told: Told, medium: Medium) -> list[str]:
    """Sentences for people, with the cure in the words of the medium."""
    return remarks_on_labels(hard_labels(told), medium)


def dataset_remarks(dataset: BagDataset, use_known: bool = False) -> list[str]:
    """The same of a file of bags; what it knows of instances counts where it is learned from."""
    if not use_known:
        dataset = replace(dataset, instance_labels=None)
    return label_remarks(Told(dataset, np.zeros(dataset.bags.n_instances, dtype=bool)), TABLE)
