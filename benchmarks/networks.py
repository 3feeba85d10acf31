"""Networks under the union likelihood, alone and with trees, beside the same ones told every label.

By the folds of the papers' tables. `BAGWISE_DEVICE=cuda python -m benchmarks networks`; on a processor three folds of
Letter-Carroll alone. `BAGWISE_SETS=msrc_v2,hja_birdsong_filtered` measures some of the sets. `network-fit` is
the time of one fit.
"""

from __future__ import annotations

import os
import time
import warnings
from typing import Any

import numpy as np
from sklearn.model_selection import KFold

from bagwise import metrics
from bagwise.catalog import make_model
from bagwise.core.dataset import BagDataset
from bagwise.pipeline import final_step, fit_parameters, transform_for_final
from benchmarks.common import Record, load_real, show

SETS = ("letter_carroll_rebuilt", "letter_frost_rebuilt", "msrc_v2", "hja_birdsong_filtered")
KINDS = ("network", "mix")


def fitted(data: BagDataset, device: str, *, told: bool, model: str = "ored-mix", **settings: Any) -> tuple[Any, float]:
    """The mix, in which are the networks of `ored-network`, and seconds of its fit; `told`: of every instance."""
    learner = make_model(model, device=device, n_jobs=-1, **settings)
    labels = fit_parameters(learner, instance_labels=data.instance_labels) if told else {}
    started = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # labels that a fold lacks
        learner.fit(data.bags, data.Y, **labels)
    return learner, time.perf_counter() - started


def accuracies(model: Any, data: BagDataset, *, annotate: bool = False) -> dict[str, float]:
    """Percent right of the mix and of the networks in it."""
    final, X = final_step(model), transform_for_final(model, data.bags)
    assert data.instance_labels is not None
    found = {}
    for kind in reversed(KINDS):
        if kind == "network":
            del final.forest_
        labels = final.annotate(X, data.Y) if annotate else final.predict_instances(X)
        found[kind] = 100.0 * float(metrics.instance_accuracy(data.instance_labels.instances, labels))
    return found


def measured(quick: bool, device: str) -> list[Record]:
    records = []
    asked = os.environ.get("BAGWISE_SETS", ",".join(SETS[:1] if quick else SETS)).split(",")
    for name in asked:
        data = load_real(name)
        if data is None:
            continue
        by_fold: dict[str, list[float]] = {}
        seconds = []
        for train, test in KFold(3 if quick else 10, shuffle=True, random_state=0).split(np.zeros(len(data))):
            for told in (False, True):
                model, took = fitted(data[train], device, told=told)
                for kind, value in accuracies(model, data[test]).items():
                    by_fold.setdefault(f"{kind} told" if told else kind, []).append(value)
                seconds += [] if told else [took]
        record: Record = {"set": name}
        for kind in KINDS:
            record[kind] = float(np.mean(by_fold[kind]))
            record[f"{kind} told"] = float(np.mean(by_fold[f"{kind} told"]))
        whole = accuracies(fitted(data, device, told=False)[0], data, annotate=True)
        record |= {f"{kind} transductive": whole[kind] for kind in KINDS}
        records.append({**record, "s a fit": float(np.mean(seconds))})
        show(f"{name}: accuracy in percent on {device}", records[-1:])
    return records


def one_fit(quick: bool = False) -> list[Record]:
    """Seconds of a fit on all of HJA (Letter-Carroll with --quick), after one of two epochs."""
    device = _device()
    data = load_real("letter_carroll_rebuilt" if quick else "hja_birdsong_filtered")
    if device is None or data is None:
        return []
    records: list[Record] = []
    for model in ("ored-network", "ored-mix"):
        fitted(data, device, told=False, model=model, epochs=2)
        seconds = fitted(data, device, told=False, model=model)[1]
        records.append({"model": model, "instances": data.bags.n_instances, "device": device, "s a fit": seconds})
    show("One fit", records, left=("model", "device"))
    return records


def main(quick: bool = False) -> list[Record]:
    device = _device()
    if device is None:
        return []
    records = measured(quick or device == "cpu", device)
    show(f"Accuracy in percent on {device}, inductive unless transductive is said", records)
    return records


def _device() -> str | None:
    """Where networks are trained, None where they cannot be."""
    try:
        import torch  # noqa: F401
    except ImportError:
        print("  torch is not there (make test-torch makes an environment with it): left out")
        return None
    return os.environ.get("BAGWISE_DEVICE", "cpu")
