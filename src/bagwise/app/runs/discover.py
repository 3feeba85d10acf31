"""What nobody listed: groups of instances of a run that belong to no label, each perhaps one of its own."""

from __future__ import annotations

from typing import Any

import numpy as np

from bagwise.app.runs.supervision import Supervision
from bagwise.calibration import NovelClasses
from bagwise.core.bags import KNOWN_BACKGROUND, Bags
from bagwise.core.exceptions import InputError

SEED = 0


def novel_groups(supervision: Supervision, **parameters: Any) -> list[dict[str, Any]]:
    """The groups, the largest first; see `Run.discover`. `parameters` are those of `NovelClasses`.

    Bags without a list of labels are left out: what is in them is not known to be unlisted.
    """
    dataset = supervision.dataset
    if dataset.Y is None or not dataset.Y[dataset.labelled].any():
        raise InputError("No bag lists a label, so every instance is one that nobody listed; cluster them instead.")
    rows = np.flatnonzero(dataset.labelled[dataset.bags.bag_index])
    part = supervision.part(rows)
    bags, known = part.dataset.bags, np.where(part.noise, KNOWN_BACKGROUND, part.known)
    # a label that no bag lists any more is no class
    listed = np.flatnonzero(np.any(part.dataset.Y, axis=0))
    column = np.full(len(part.dataset.class_names) + 2, -1)
    column[listed], column[KNOWN_BACKGROUND] = np.arange(len(listed)), KNOWN_BACKGROUND
    known = Bags(column[known], bags.offsets)
    model = NovelClasses(**{"random_state": SEED, **parameters})
    model.fit(bags, part.dataset.Y[:, listed], instance_labels=known)
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
                (str(bag_of[bags.bag_index[row]]), int(position[row])) for row in np.flatnonzero(model.novel_ == number)
            ],
        }
        for number, group in enumerate(model.groups_)
    ]
