"""Labels that bags cannot teach: always listed together, listed everywhere, or hardly ever."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from bagwise.featurize.medium import Medium

RARE = 3  # labels of fewer bags
N_SHOWN = 10


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
    def untold(self) -> set[Any]:
        """Labels that nothing tells from another one."""
        return {*self.everywhere, *(label for labels, _ in self.together for label in labels)}


def find_hard_labels(Y: np.ndarray, class_names: Sequence[Any], named: Collection[Any] = ()) -> HardLabels:
    """Look for them.

    Parameters
    ----------
    Y : (n, c) array of 0 and 1
        Of the labelled bags.
    class_names : (c,) sequence
    named : collection
        Labels of which some instance is known: these are told apart by it.
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


def remarks_on_labels(hard: HardLabels, medium: Medium) -> list[str]:
    """What to say of them before the fit, a sentence a kind, with the cure; of many the first ten and a count."""
    bags, instances = medium.bags, medium.instances
    say = f"say of some {instances} what they are (bagwise review, --known)."
    cure = f"{medium.finer}; or {say}"
    remarks = []
    if hard.together:
        groups = _some([f"{' + '.join(map(repr, labels))} ({count})" for labels, count in hard.together])
        remarks.append(
            f"Always listed together, in the same {bags}, so that nothing says which {instances} are which: {groups}. "
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
