"""Classes first met at prediction: is the distance to training instances a calibrated score, and does it find them?"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score

from bagwise import BagDataset
from bagwise.calibration import Novelty
from bagwise.catalog import make_model
from bagwise.core.exceptions import InfeasibleBagWarning
from benchmarks.common import Record, load_real, show

SETS = ("hja_birdsong_filtered", "letter_carroll_rebuilt", "letter_frost_rebuilt", "msrc_v2")
RATES = (0.01, 0.02, 0.05, 0.1)
LEFT_OUT = 0.25  # of the classes that occur five times or more; a quarter of the other bags is held out


def main(quick: bool = False) -> list[Record]:
    rows = []
    for name in SETS[:1] if quick else SETS:
        data = load_real(name)
        if data is not None:
            draws = [one_draw(data, seed) for seed in range(2 if quick else 5)]
            rows.append({"data": name, **{key: float(np.mean([draw[key] for draw in draws])) for key in draws[0]}})
    show("Classes left out of training: area under the ROC %, and share of known classes' instances flagged %", rows)
    return rows


def one_draw(data: BagDataset, seed: int) -> dict[str, Any]:
    """Train without some classes, and judge held-out bags and all bags that hold one of them."""
    assert data.instance_labels is not None
    assert data.Y is not None
    rng, y = np.random.default_rng(seed), data.instance_labels.instances
    present = np.flatnonzero(np.bincount(y[y >= 0], minlength=len(data.class_names)) >= 5)
    unseen = rng.choice(present, max(2, int(LEFT_OUT * len(present))), replace=False)
    has_unseen = data.Y[:, unseen].any(axis=1)
    others = rng.permutation(np.flatnonzero(~has_unseen))
    held_out, train = np.sort(others[: len(others) // 4]), np.sort(others[len(others) // 4 :])
    test = np.concatenate([held_out, np.flatnonzero(has_unseen)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InfeasibleBagWarning)
        model = make_model("ored").fit(data.bags[train], np.delete(data.Y, unseen, axis=1)[train])
    novelty = Novelty.learn(data.bags[train])
    assert novelty is not None
    new = np.isin(data.instance_labels[test].instances, unseen)
    top = model.predict_instances_proba(data.bags[test]).max(axis=1)
    rarity = novelty.rarity(data.bags[test].instances)
    known = novelty.rarity(data.bags[held_out].instances)
    return {
        "by top probability": 100 * roc_auc_score(new, -top),
        "by novelty": 100 * roc_auc_score(new, -rarity),
        **{f"flagged at {rate:.0%}": 100 * float(np.mean(known < rate)) for rate in RATES},
        "found at 5%": 100 * float(np.mean(rarity[new] < 0.05)),
    }
