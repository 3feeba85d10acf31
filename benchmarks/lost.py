"""Partial labels on Lost: faces with several candidate names, of which one is right; ten folds, names of new faces."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.model_selection import KFold

from bagwise import Bags, OneOf
from bagwise.catalog import make_model
from benchmarks.common import Record, load_real, show

PUBLISHED = "77 to 82"


MODELS: dict[str, tuple[str, Callable[[], Any]]] = {
    "ored, lists (bags of several candidates are left out)": ("lists", lambda: make_model("ored")),
    "ored, lists, relaxed": ("lists", lambda: make_model("ored", on_infeasible="relax")),
    "ored, OneOf": ("groups", lambda: make_model("ored")),
    "ored, OneOf, l2=10": ("groups", lambda: make_model("ored", l2=10.0)),
    "ored-rbf, OneOf": ("groups", lambda: make_model("ored-rbf", random_state=0)),
    "ored-forest, OneOf": ("groups", lambda: make_model("ored-forest")),
    "clpl, lists": ("lists", lambda: make_model("clpl")),
    "lr-supervised, the right names": ("truth", lambda: make_model("lr-supervised")),
}


def candidates(row: np.ndarray) -> set[Any]:
    """One name where there is one, else one of them."""
    names = np.flatnonzero(row).tolist()
    return {OneOf(*names)} if len(names) > 1 else set(names)


def main(quick: bool = False) -> list[Record]:
    data = load_real("lost_pll")
    if data is None:
        return []
    truth = data.instance_labels.instances
    given: dict[str, Any] = {
        "lists": data.Y,
        "groups": np.array([candidates(row) for row in data.Y], dtype=object),
        "truth": np.eye(data.n_classes, dtype=np.uint8)[truth],
    }
    folds = list(KFold(3 if quick else 10, shuffle=True, random_state=0).split(data.Y))
    records = []
    for name, (form, make) in MODELS.items():
        shares = []
        for train, test in folds:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                known = {"instance_labels": Bags(truth[train], np.arange(len(train) + 1))} if form == "truth" else {}
                model = make().fit(data.bags[train], given[form][train], **known)
                shares.append(float(np.mean(model.predict_instances(data.bags[test]) == truth[test])))
        print(f"  {name}: {100 * np.mean(shares):.1f}", flush=True)
        records.append({"learner": name, "accuracy, %": 100 * float(np.mean(shares)), "published": PUBLISHED})
    show("Names of new faces, Lost", records)
    return records
