"""Labels that are wrong: what missed and spurious ones cost, and what rates win back, on real sets with faults made."""

from __future__ import annotations

import json
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import brentq
from sklearn.metrics import average_precision_score, roc_auc_score
from sklearn.model_selection import KFold

from bagwise import BagDataset
from bagwise.catalog import make_model
from bagwise.pipeline import final_step
from benchmarks.common import Record, load_real, show

SETS = ("hja_birdsong_filtered", "msrc_v2", "letter_carroll_rebuilt")
FAULTS = {
    "none": (0.0, 0.0), "dropped .2": (0.2, 0.0), "dropped .4": (0.4, 0.0), "added .3": (0.0, 0.3),
    "dropped .2, added .3": (0.2, 0.3),
}  # fmt: skip
MODELS = ("ored", "ored-background", "ored-forest")
QUICK_FOREST = {"n_estimators": 100}
FIRST = (0.1, 0.25, 0.5, 1.0, 2.0)  # suggestions of forgotten labels that are looked at, over the number of these


def spoil(Y: np.ndarray, dropped: float, added: float, rng: np.random.Generator) -> np.ndarray:
    """Drop each label with a probability, then add to a share of the bags one that they do not carry."""
    spoiled = np.where(rng.random(Y.shape) < dropped, 0, Y)
    for b in np.flatnonzero(rng.random(len(Y)) < added):
        spoiled[b, rng.choice(np.flatnonzero(Y[b] == 0))] = 1
    return spoiled.astype(np.uint8)


def true_rates(data: BagDataset, dropped: float, added: float) -> tuple[float, float]:
    """The rates of the model at which that share of labels is missed, and that many false ones are listed.

    A label is missed when all of its instances are, so that the rate of instances is above that of labels.
    """
    n_labels = float(data.Y.sum(axis=1).mean())
    spurious = added / (data.n_classes - n_labels)
    if dropped == 0.0:
        return 0.0, spurious
    rows = data.bags.bag_index * data.n_classes + data.instance_labels.instances
    counts = np.unique(rows[data.instance_labels.instances >= 0], return_counts=True)[1]
    return float(brentq(lambda rate: np.mean(rate**counts) - dropped, 0.0, 1.0)), spurious


def accuracies(
    name: str, settings: dict[str, Any], data: BagDataset, Y: np.ndarray, folds: list[Any]
) -> dict[str, Any]:
    """Inductive over folds; transductive, learned rates and forgotten labels from one fit on all bags."""
    return {"inductive": inductive(name, settings, data, Y, folds), **of_all_bags(name, settings, data, Y)}


def can_be_used(settings: dict[str, Any], Y: np.ndarray) -> np.ndarray:
    """(n,) bags with labels; with a rate of missed ones those without are ordinary."""
    return Y.any(axis=1) | (settings.get("missed", 0.0) != 0.0)


def inductive(name: str, settings: dict[str, Any], data: BagDataset, Y: np.ndarray, folds: list[Any]) -> float:
    """Percent of the instances of held-out bags that are named right."""
    used, right = can_be_used(settings, Y), []
    for train, test in folds:
        train = train[used[train]]
        model = make_model(name, **settings).fit(data.bags[train], Y[train])
        held = data.instance_labels[test].instances
        right.append(model.predict_instances(data.bags[test])[held >= 0] == held[held >= 0])
    return 100 * float(np.mean(np.concatenate(right)))


def of_all_bags(name: str, settings: dict[str, Any], data: BagDataset, Y: np.ndarray) -> dict[str, Any]:
    """Of one fit: accuracy with the labels given, rates, and how well forgotten labels are found."""
    used = can_be_used(settings, Y)
    started = time.perf_counter()
    model = make_model(name, **settings).fit(data.bags[used], Y[used])
    seconds = time.perf_counter() - started
    bags, own = data.bags[used], data.instance_labels[used].instances
    final, known = final_step(model), own >= 0
    given = Y[used].any(axis=1)
    said = np.full(len(own), -1)
    listed = np.repeat(given, bags.sizes)
    said[listed] = model.annotate(bags[given], Y[used][given])
    free = model.annotate_proba(bags[given], Y[used][given]).argmax(axis=1)
    found: dict[str, Any] = {
        "among the listed": 100 * float(np.mean(said[known & listed] == own[known & listed])),
        "most probable": 100 * float(np.mean(free[known[listed]] == own[listed][known[listed]])),
        "missed_": final.missed_, "spurious_": final.spurious_, "fit, s": seconds,
    }  # fmt: skip
    forgotten = (data.Y[used] == 1) & (Y[used] == 0)
    if forgotten.any():
        open_pairs = Y[used] == 0
        proba = model.predict_instances_proba(bags)
        union = -np.expm1(np.add.reduceat(np.log1p(-np.minimum(proba, 1 - 1e-12)), bags.offsets[:-1], axis=0))
        target = forgotten[open_pairs]
        found |= suggestions(target, union[open_pairs], "predict_proba")
        if "missed" in settings:
            found |= suggestions(target, model.label_posterior(bags, Y[used])[open_pairs], "label_posterior")
    return found


def suggestions(forgotten: np.ndarray, scores: np.ndarray, by: str) -> dict[str, float]:
    """How well scores of unlisted pairs of bag and label rank the forgotten ones.

    The area under precision and recall, and points of that curve: the percentage found among the first k, k as a
    multiple of their number. The precision there is what is found over that multiple.
    """
    ranked = forgotten[np.argsort(-scores, kind="stable")]
    n_forgotten = int(forgotten.sum())
    return {
        f"forgotten, by {by}": float(average_precision_score(forgotten, scores)),
        **{
            f"found of {multiple:g}n, by {by}": 100 * float(ranked[: round(multiple * n_forgotten)].sum()) / n_forgotten
            for multiple in FIRST
        },
    }


def variants(name: str, rates: tuple[float, float]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Labels taken for right, with the true rates, with small ones, and with learned ones.

    Small rates were candidates for the default of `bagwise annotate`, which is no forest.
    """
    yield "plain", {"background": False}  # bags all of whose labels are missing are no examples of background
    if any(rates):
        yield "true rates", {"missed": rates[0], "spurious": rates[1]}
    if name != "ored-forest":
        yield "small rates", {"missed": 0.05, "spurious": 0.005}
    yield "learned", {"missed": "learn", "spurious": "learn"}


class Kept:
    """Finished figures in a file that BAGWISE_WRONG_LABELS_ROWS names, so that a run that was stopped goes on."""

    def __init__(self) -> None:
        name = os.environ.get("BAGWISE_WRONG_LABELS_ROWS")
        self.path = Path(name) if name else None
        self.rows: dict[str, dict[str, Any]] = {}
        if self.path is not None and self.path.exists():
            self.rows = dict(json.loads(line) for line in self.path.read_text().splitlines())

    def get(self, *key: Any, compute: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        name = json.dumps(key)
        if name not in self.rows:
            self.rows[name] = compute()
            if self.path is not None:
                with self.path.open("a") as file:
                    file.write(json.dumps([name, self.rows[name]]) + "\n")
        return self.rows[name]


def wrong_labels(quick: bool, names: tuple[str, ...] = MODELS) -> list[Record]:
    """Accuracy with labels dropped and added, by what the learner believes about them."""
    kept = Kept()
    records: list[Record] = []
    n_folds, n_draws = (3, 1) if quick else (10, 3)
    for set_name in SETS:
        data = load_real(set_name)
        if data is None:
            continue
        for fault, (dropped, added) in FAULTS.items():
            rates = true_rates(data, dropped, added)
            for name in names:
                own = QUICK_FOREST if quick and name == "ored-forest" else {}
                for variant, settings in variants(name, rates):
                    draws = []
                    for draw in range(n_draws if any(rates) else 1):
                        Y = spoil(data.Y, dropped, added, np.random.default_rng(draw))
                        folds = list(KFold(n_folds, shuffle=True, random_state=draw).split(np.arange(len(data))))
                        with warnings.catch_warnings():
                            warnings.simplefilter("ignore")  # bags that cannot be explained, by design
                            draws.append(
                                kept.get(
                                    set_name, fault, name, variant, draw, n_folds,
                                    compute=partial(accuracies, name, {**own, **settings}, data, Y, folds),
                                )
                            )  # fmt: skip
                    mean = {key: float(np.mean([row[key] for row in draws])) for key in draws[0]}
                    records.append(
                        {"set": set_name, "fault": fault, "model": name, "labels": variant, **mean,
                         "true missed": rates[0], "true spurious": rates[1]}
                    )  # fmt: skip
                    print({k: round(v, 4) if isinstance(v, float) else v for k, v in records[-1].items()}, flush=True)
    return records


def with_background(quick: bool) -> list[Record]:
    """HJA with its unlabelled segments left in: background and rates together."""
    data = load_real("hja_birdsong")
    if data is None:
        return []
    truth = data.instance_labels.instances
    labelled = truth >= 0
    records = []
    for missed, spurious in ((0.0, 0.0), (0.1, 0.0), (0.0, "learn"), ("learn", "learn")):
        model = make_model("ored-background", background_share=0.5, missed=missed, spurious=spurious)
        model.fit(data.bags, data.Y)
        final = final_step(model)
        records.append(
            {
                "missed": missed, "spurious": spurious,
                "accuracy of the labelled": 100 * float(
                    np.mean(model.annotate(data.bags, data.Y)[labelled] == truth[labelled])
                ),
                "AUC": roc_auc_score(~labelled, model.background_proba(data.bags, data.Y)),
                "missed_": final.missed_, "spurious_": final.spurious_,
            }
        )  # fmt: skip
    return records


def main(quick: bool = False) -> list[Record]:
    """Print the tables and return their records. BAGWISE_WRONG_LABELS may name the models, by default all three."""
    names = tuple(os.environ.get("BAGWISE_WRONG_LABELS", " ".join(MODELS)).split())
    records = wrong_labels(quick, names)
    fields = list(dict.fromkeys(key for record in records for key in record))
    show("Labels dropped and added", [{key: record.get(key) for key in fields} for record in records],
         left=("fault", "model", "labels"))  # fmt: skip
    background = with_background(quick) if "ored" in names else []
    show("HJA with its unlabelled segments left in", background)
    return records + background


if __name__ == "__main__":
    main("--quick" in sys.argv)
