"""What is in a dataset, as plain data: sizes, labels, and which labels the bags cannot teach."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp

from bagwise.app.media.media_type import MediaType
from bagwise.core.dataset import BagDataset

RARE = 3  # labels of fewer bags
LONG_SHARE = 0.2  # of the time in long instances, from which on it is said
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


def remarks_on_lengths(dataset: BagDataset, media_type: MediaType, long: float) -> list[str]:
    """A sentence where much of the time that was found is in instances of more than `long` seconds."""
    assert dataset.locations is not None
    seconds = dataset.locations["end"] - dataset.locations["start"]
    longer = seconds > long
    share = float(seconds[longer].sum() / seconds.sum())
    if share <= LONG_SHARE:
        return []
    return [
        f"{int(longer.sum())} of {len(seconds)} {media_type.instances} are longer than {long:.2g} s (up to "
        f"{seconds.max():.1f} s) and hold {100 * share:.0f} % of the time in which anything was found: "
        f"{media_type.too_few}."
    ]


def _some(texts: Sequence[str]) -> str:
    more = len(texts) - N_SHOWN
    return ", ".join(texts[:N_SHOWN]) + (f", ... and {more} more" if more > 0 else "")


def _hash_rows(X: np.ndarray) -> np.ndarray:
    """(m,) 64-bit hashes; equal rows have equal ones, and among millions of others hardly any do."""
    return np.array([hash(row.tobytes()) for row in X + 0.0])  # so that -0.0 and 0.0 are one value


class DatasetFacts:
    """Gathers facts from a data set that comes in pieces of whole bags."""

    def __init__(self) -> None:
        self._names: list[Any] = []
        self._columns: dict[str, list[np.ndarray]] = defaultdict(list)  # of pieces: sizes, hashes, Y, labelled
        self._n_known: int | None = None
        self._known: set[int] = set()
        self._low = self._high = np.zeros(0)

    def add(self, dataset: BagDataset) -> None:
        """Take in one piece."""
        bags = dataset.bags
        X = bags.instances.toarray() if sp.issparse(bags.instances) else bags.instances
        low, high = X.min(axis=0), X.max(axis=0)
        if self._names:
            low, high = np.minimum(self._low, low), np.maximum(self._high, high)
        else:
            self._dtype, self._class_names = str(X.dtype), list(dataset.class_names)
            self._feature_names = dataset.feature_names or [str(i) for i in range(bags.n_features)]
        self._low, self._high = low, high
        self._names += dataset.bag_names
        found = {"sizes": bags.sizes, "hashes": _hash_rows(X)}
        if dataset.Y is not None:
            found |= {"Y": dataset.Y, "labelled": dataset.labelled}
        for name, values in found.items():
            self._columns[name].append(values)
        if dataset.instance_labels is not None:
            known = dataset.instance_labels.instances
            self._n_known = (self._n_known or 0) + int((known >= 0).sum())
            self._known.update(np.unique(known[known >= 0]).tolist())

    def summary(self) -> dict[str, Any]:
        """Plain data for people and programs."""
        columns = {name: np.concatenate(values) for name, values in self._columns.items()}
        sizes = columns["sizes"]
        out: dict[str, Any] = {
            "bags": len(sizes),
            "instances": int(sizes.sum()),
            "features": len(self._low),
            "numbers": self._dtype,
            "instances_per_bag": {"least": int(sizes.min()), "mean": float(sizes.mean()), "most": int(sizes.max())},
        }
        if "Y" in columns:
            out |= self._about_labels(columns["Y"], columns["labelled"], sizes)
        if self._n_known is not None:
            out["labelled_instances"] = self._n_known
        out["duplicate_rows"] = int(sizes.sum()) - len(np.unique(columns["hashes"]))
        out["bags_with_a_repeated_name"] = len(self._names) - len({*self._names})
        out["constant_features"] = [self._feature_names[i] for i in np.flatnonzero(self._low == self._high)]
        return out

    def _about_labels(self, Y: np.ndarray, labelled: np.ndarray, sizes: np.ndarray) -> dict[str, Any]:
        """Counts of labels; infeasible bags and labels that the bags cannot teach, those alone that there are."""
        counts, n_labels, n_labelled = Y.sum(axis=0, dtype=np.int64), Y.sum(axis=1), int(labelled.sum())
        infeasible = [str(self._names[i]) for i in np.flatnonzero(n_labels > sizes)]
        out: dict[str, Any] = {
            "classes": len(self._class_names),
            "labels_per_bag": float(counts.sum() / max(n_labelled, 1)),
            "bags_per_class": dict(zip(map(str, self._class_names), counts.tolist(), strict=True)),
            "bags_without_labels": int((labelled & (n_labels == 0)).sum()),
        }
        if n_labelled < len(labelled):
            out["unlabelled_bags"] = len(labelled) - n_labelled
        out["infeasible_bags"] = len(infeasible)
        if infeasible:
            more = ", ..." if len(infeasible) > N_BAGS_SHOWN else ""
            out["infeasible"] = f"{', '.join(infeasible[:N_BAGS_SHOWN])}{more}: more labels than instances"
        hard = find_hard_labels(Y[labelled], self._class_names, {self._class_names[c] for c in self._known})
        found = {
            "labels_always_together": [" + ".join(map(str, labels)) for labels, _ in hard.together],
            "labels_in_every_bag": [str(label) for label in hard.everywhere],
            f"labels_in_fewer_than_{RARE}_bags": [str(label) for label, _ in hard.rare],
        }
        return out | {key: names for key, names in found.items() if names}
