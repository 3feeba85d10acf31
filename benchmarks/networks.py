"""Networks under the union likelihood, by the folds of the papers' tables, beside the same networks told every label.

`BAGWISE_DEVICE=cuda python -m benchmarks networks`; on a processor with --quick alone (three folds of the small sets).
"""

from __future__ import annotations

import os
import warnings
from typing import Any

import numpy as np

from bagwise.catalog import make_model, standardized
from bagwise.model_selection import evaluate
from bagwise.nn import ORedNetwork
from benchmarks.common import Record, load_real, show

SETS = ("letter_carroll_rebuilt", "letter_frost_rebuilt", "msrc_v2", "hja_birdsong_filtered")


class ToldNetwork(ORedNetwork):
    """The same networks, trained with the label of every instance: what bag labels cannot beat."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.bag_tags.needs_instance_labels = True
        return tags


def measured(quick: bool, device: str) -> list[Record]:
    records = []
    for name in SETS[:1] if quick else SETS:
        data = load_real(name)
        if data is None:
            continue
        models = {
            "ored-network": make_model("ored-network", device=device),
            "told": standardized(ToldNetwork(device=device, random_state=0)),
        }
        record: Record = {"set": name}
        for kind, model in models.items():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                folds = evaluate(model, data, cv=3 if quick else 10, name=kind)
                record[f"{kind} inductive"] = 100.0 * float(np.mean([fold["accuracy"] for fold in folds]))
                if kind != "told":
                    whole = evaluate(model, data, mode="transductive", name=kind)
                    record[f"{kind} transductive"] = 100.0 * whole[0]["accuracy"]
                    record["s a fit"] = float(np.mean([fold["fit_seconds"] for fold in folds]))
        records.append(record)
        show(f"{name}: accuracy in percent on {device}", records[-1:])
    return records


def main(quick: bool = False) -> list[Record]:
    try:
        import torch  # noqa: F401
    except ImportError:
        print("  torch is not there (make test-torch makes an environment with it): left out")
        return []
    device = os.environ.get("BAGWISE_DEVICE", "cpu")
    records = measured(quick or device == "cpu", device)
    show(f"Accuracy in percent on {device}", records)
    return records
