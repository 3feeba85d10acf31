"""What nobody listed: groups of instances of a run that belong to no label, each perhaps one of its own."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from bagwise.app.runs.supervision import Supervision
from bagwise.calibration import NovelClasses
from bagwise.core.bags import KNOWN_BACKGROUND, Bags
from bagwise.core.exceptions import InfeasibleBagWarning, InputError
from bagwise.pipeline import bag_tags

SEED = 0


def novel_groups(model: Any, supervision: Supervision) -> list[dict[str, Any]]:
    """The groups, the largest first; see `Run.discover`.

    Bags without a list of labels are left out: what is in them is not known to be unlisted.
    """
    if bag_tags(model).label_sets:
        raise InputError(
            "The instances of this run may carry any number of labels, so one that holds what nobody listed may hold "
            "what is listed too; groups of them are found only where each carries one label (segments, not windows)."
        )
    dataset = supervision.dataset
    if dataset.Y is None or not dataset.Y[dataset.labelled].any():
        raise InputError("No bag lists a label, so every instance is one that nobody listed; cluster them instead.")
    rows = np.flatnonzero(dataset.labelled[dataset.bags.bag_index])
    part = supervision.part(rows)
    bags, indicator = part.dataset.bags, part.dataset.Y
    assert indicator is not None
    # a label that no bag lists any more is no class
    listed = np.flatnonzero(np.any(indicator, axis=0))
    column = np.full(len(part.dataset.class_names) + 2, -1)
    column[listed], column[KNOWN_BACKGROUND] = np.arange(len(listed)), KNOWN_BACKGROUND
    known = Bags(column[np.where(part.noise, KNOWN_BACKGROUND, part.known)], bags.offsets)
    novel = NovelClasses(random_state=SEED)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InfeasibleBagWarning)  # named among the problems of the run
        novel.fit(bags, indicator[:, listed], instance_labels=known)
    names = [str(part.dataset.class_names[c]) for c in listed]
    bag_of, position = part.dataset.bag_names, dataset.positions[rows]
    return [
        {
            "group": number + 1,
            "instances": group.size,
            "bags": group.n_bags,
            "stability": round(group.stability, 2),
            "label": "" if group.label is None else names[int(group.label)],
            "share": round(group.share, 2),
            "members": [
                (str(bag_of[bags.bag_index[row]]), int(position[row])) for row in np.flatnonzero(novel.novel_ == number)
            ],
        }
        for number, group in enumerate(novel.groups_)
    ]
