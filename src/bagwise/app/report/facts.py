"""What is in a dataset, as plain data: sizes, labels, and which labels the bags cannot teach."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp

from bagwise.app.media.media_type import MediaType
from bagwise.core.dataset import BagDataset

RARE = 3  # labels of fewer bags
N_SHOWN = 10  # labels that are listed
N_BAGS_SHOWN = 5


@dataclass(frozen=True)
class HardLabels:
    """Labels of which the label sets of bags do not say which instances carry them.

    Attributes
    ----------
    n_bags : int
        Labelled bags, those without a label too.
    together : list of (labels, number of bags)
        Groups of labels that the same bags list, those of `everywhere` left out.
    everywhere : list
        Labels that every bag lists.
    rare : list of (label, number of bags)
        Labels of fewer than three bags.
    """

    n_bags: int
    together: list[tuple[list[Any], int]] = field(default_factory=list)
    everywhere: list[Any] = field(default_factory=list)
    rare: list[tuple[Any, int]] = field(default_factory=list)

    @property
    def indistinct(self) -> set[Any]:
        """Labels that nothing tells apart from others."""
        return {*self.everywhere, *(label for labels, _ in self.together for label in labels)}


def find_hard_labels(Y: np.ndarray, class_names: Sequence[Any], named: Collection[Any] = ()) -> HardLabels:
    """Look for them.

    Parameters
    ----------
    Y : (n, c) array of 0 and 1
        Of the labelled bags.
    class_names : (c,) sequence
    named : collection
        Labels of which some instance is known: these can be told apart by it.
    """
    Y = np.asarray(Y) != 0
    counts = Y.sum(axis=0)
    found = HardLabels(len(Y))
    groups: dict[bytes, list[int]] = {}
    for c in (c for c, name in enumerate(class_names) if counts[c] and name not in named):
        if counts[c] < RARE:
            found.rare.append((class_names[c], int(counts[c])))
        if counts[c] == len(Y) and len(Y) >= RARE:
            found.everywhere.append(class_names[c])
        else:
            groups.setdefault(np.packbits(Y[:, c]).tobytes(), []).append(c)
    found.together.extend(
        ([class_names[c] for c in members], int(counts[members[0]])) for members in groups.values() if len(members) > 1
    )
    return found


def remarks_on_labels(hard: HardLabels, media_type: MediaType) -> list[str]:
    """Sentences on hard labels before the fit, each with the cure; of many labels the first ten and a count."""
    bags, instances = media_type.bags, media_type.instances
    say = f"label some {instances} directly (bagwise review, --known)."
    cure = f"{media_type.finer}; or {say}"
    remarks = []
    if hard.together:
        groups = _some([f"{' + '.join(map(repr, labels))} ({count})" for labels, count in hard.together])
        remarks.append(
            f"Always listed together, in the same {bags}, so that their {instances} cannot be told apart: {groups}. "
            f"The cure: {cure}"
        )
    if hard.everywhere:
        names = _some([repr(label) for label in hard.everywhere])
        remarks.append(
            f"Listed by every one of the {hard.n_bags} labelled {bags}, so that any of the {instances} may be it: "
            f"{names}. The cure: add {bags} without it, leave it out of the table if it says nothing, or {cure}"
        )
    if hard.rare:
        names = _some([f"{label!r} ({count})" for label, count in hard.rare])
        remarks.append(
            f"Listed by fewer than {RARE} {bags}, which is little to learn from: {names}. The cure: add {bags} with "
            f"them, or {say}"
        )
    return remarks


def _some(texts: Sequence[str]) -> str:
    more = len(texts) - N_SHOWN
    return ", ".join(texts[:N_SHOWN]) + (f", ... and {more} more" if more > 0 else "")


def hash_rows(X: np.ndarray) -> np.ndarray:
    """(m,) 64-bit hashes; equal rows have equal ones, and among millions of others hardly any do."""
    values = np.ascontiguousarray(X + 0.0)  # so that -0.0 and 0.0 are one value
    bits = values.view(np.uint32 if values.dtype == np.float32 else np.uint64).astype(np.uint64)
    # the finaliser of splitmix64: low bits, of which short numbers have none, then depend on high ones
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    bits ^= bits >> np.uint64(31)
    weights = np.random.default_rng(0).integers(0, 2**63, X.shape[1], dtype=np.uint64) * np.uint64(2) + np.uint64(1)
    return (bits * weights).sum(axis=1, dtype=np.uint64)


class DatasetFacts:
    """Gathers facts from a data set that comes in pieces of whole bags."""

    def __init__(self) -> None:
        self.n_bags = self.n_instances = self.n_features = 0
        self.largest, self.smallest = 0, 0
        self.class_names: list[Any] = []
        self.label_counts = np.zeros(0, dtype=np.int64)
        self.has_labels = self.has_instance_labels = False
        self.n_known = self.n_labelled = self.n_empty = self.n_unlabelled = 0
        self.infeasible: list[str] = []
        self._labels: list[np.ndarray] = []
        self._named: set[int] = set()
        self.dtype = ""
        self._rows: list[np.ndarray] = []
        self._low = self._high = np.zeros(0)
        self._names: set[Any] = set()
        self.same_names = 0
        self.feature_names: list[str] | None = None

    def add(self, dataset: BagDataset) -> None:
        """Take in one piece."""
        bags, first = dataset.bags, self.n_bags == 0
        X = bags.instances.toarray() if sp.issparse(bags.instances) else bags.instances
        low, high = X.min(axis=0), X.max(axis=0)
        if first:
            self.n_features, self.dtype = bags.n_features, str(X.dtype)
            self.smallest, self._low, self._high = int(bags.sizes.min()), low, high
            self.class_names, self.feature_names = list(dataset.class_names), dataset.feature_names
            self.label_counts = np.zeros(len(self.class_names), dtype=np.int64)
        self._low, self._high = np.minimum(self._low, low), np.maximum(self._high, high)
        self.largest = max(self.largest, int(bags.sizes.max()))
        self.smallest = min(self.smallest, int(bags.sizes.min()))
        self._rows.append(hash_rows(X))
        for name in dataset.bag_names:
            self.same_names += name in self._names
            self._names.add(name)
        if dataset.Y is not None:
            self.has_labels = True
            n_labels = dataset.Y.sum(axis=1)
            self.label_counts += dataset.Y.sum(axis=0, dtype=np.int64)
            self._labels.append(dataset.Y[dataset.labelled])
            self.n_labelled += int(dataset.labelled.sum())
            self.n_unlabelled += int((~dataset.labelled).sum())
            self.n_empty += int((dataset.labelled & (n_labels == 0)).sum())
            self.infeasible += [str(dataset.bag_names[i]) for i in np.flatnonzero(n_labels > bags.sizes)]
        if dataset.instance_labels is not None:
            self.has_instance_labels = True
            self.n_known += int((dataset.instance_labels.instances >= 0).sum())
            self._named.update(np.unique(dataset.instance_labels.instances).tolist())
        self.n_bags += len(bags)
        self.n_instances += bags.n_instances

    def summary(self) -> dict[str, Any]:
        """Plain data for people and programs."""
        constant = np.flatnonzero(self._low == self._high)
        names = self.feature_names or [str(i) for i in range(self.n_features)]
        out: dict[str, Any] = {
            "bags": self.n_bags,
            "instances": self.n_instances,
            "features": self.n_features,
            "numbers": self.dtype,
            "instances_per_bag": {
                "least": self.smallest,
                "mean": self.n_instances / max(self.n_bags, 1),
                "most": self.largest,
            },
        }
        if self.has_labels:
            out["classes"] = len(self.class_names)
            out["labels_per_bag"] = float(self.label_counts.sum() / max(self.n_labelled, 1))
            out["bags_per_class"] = {
                str(name): int(count) for name, count in zip(self.class_names, self.label_counts, strict=True)
            }
            out["bags_without_labels"] = self.n_empty
            if self.n_unlabelled:
                out["unlabelled_bags"] = self.n_unlabelled
            out["infeasible_bags"] = len(self.infeasible)
            if self.infeasible:
                shown = ", ".join(self.infeasible[:N_BAGS_SHOWN]) + (
                    ", ..." if len(self.infeasible) > N_BAGS_SHOWN else ""
                )
                out["infeasible"] = f"{shown}: more labels than instances"
            out |= self._hard_labels()
        if self.has_instance_labels:
            out["labelled_instances"] = self.n_known
        out["duplicate_rows"] = self.n_instances - len(np.unique(np.concatenate(self._rows)))
        out["bags_with_a_repeated_name"] = self.same_names
        out["constant_features"] = [names[i] for i in constant]
        return out

    def _hard_labels(self) -> dict[str, Any]:
        """Labels that the bags cannot teach, those alone that there are."""
        named = {self.class_names[c] for c in self._named if c >= 0}
        hard = find_hard_labels(np.concatenate(self._labels), self.class_names, named)
        found = {
            "labels_always_together": [" + ".join(map(str, labels)) for labels, _ in hard.together],
            "labels_in_every_bag": [str(label) for label in hard.everywhere],
            f"labels_in_fewer_than_{RARE}_bags": [str(label) for label, _ in hard.rare],
        }
        return {key: names for key, names in found.items() if names}
