"""What a background class does on data with unlabelled noise, and what empty recordings do to it."""

from __future__ import annotations

import sys
from dataclasses import replace

import numpy as np
from sklearn.metrics import roc_auc_score
from sklearn.preprocessing import StandardScaler

from bagwise import BagDataset, Bags, ORedLogisticRegression
from bagwise.catalog import make_model
from bagwise.core.bags import offsets_of
from benchmarks.common import Record, load_real, show
from benchmarks.soundscapes import cosmos_dataset, soundscape_dataset

SHARES = (None, 0.3, 0.4, 0.5, 0.6, 0.7)
LINE, FOREST = "ored-background", "ored-forest-background"


def background(quick: bool) -> list[Record]:
    """HJA with its unlabelled segments left in: what a background class does, by its expected share."""
    data = load_real("hja_birdsong")
    if data is None:
        return []
    bags = Bags(StandardScaler().fit_transform(data.bags.instances), data.bags.offsets)
    truth = data.instance_labels.instances
    labelled = truth >= 0

    learners = [("none", ORedLogisticRegression())]
    for share in SHARES[:2] if quick else SHARES:
        name = "by the likelihood" if share is None else f"share {share}"
        learners.append((name, ORedLogisticRegression(background=True, background_share=share)))
    records = []
    for name, model in learners:
        model.fit(bags, data.Y)
        right = model.annotate(bags, data.Y)[labelled] == truth[labelled]
        record: Record = {"background": name, "accuracy of the labelled": 100 * float(np.mean(right))}
        given, prior = (
            (model.background_proba(bags, data.Y), model.background_proba(bags))
            if hasattr(model, "background_proba")
            else (None, None)
        )
        record |= {
            "AUC": None if given is None else roc_auc_score(~labelled, given),
            "AUC, labels unknown": None if prior is None else roc_auc_score(~labelled, prior),
            "labelled called background %": None if given is None else 100 * float(np.mean(given[labelled] > 0.5)),
            "unlabelled called background %": None if given is None else 100 * float(np.mean(given[~labelled] > 0.5)),
        }
        records.append(record)
    return records


def with_empty(data: BagDataset, instances: np.ndarray, sizes: np.ndarray) -> BagDataset:
    """The data and as many more bags that somebody labelled with nothing."""
    bags = Bags(np.concatenate([data.bags.instances, instances]), offsets_of([*data.bags.sizes, *sizes]))
    Y = np.concatenate([data.Y, np.zeros((len(sizes), data.n_classes), np.uint8)])
    return replace(data, bags=bags, Y=Y, instance_labels=None, bag_names=None, locations=None, labelled=None)


def noise_bags(data: BagDataset, keep: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The segments of some bags that nobody labelled: what these bags hold beside what was heard."""
    rows = keep[data.bags.bag_index] & (data.instance_labels.instances < 0)
    sizes = np.bincount(data.bags.bag_index[rows], minlength=len(data))
    return data.bags.instances[rows], sizes[sizes > 0]


def empty_sets(quick: bool) -> list[tuple[str, BagDataset, BagDataset, float, tuple[str, ...]]]:
    """Name, data, the same with as many bags in which nothing was heard, the expected share of noise, learners."""
    sets = []
    both = (LINE,) if quick else (LINE, FOREST)
    for seed in range(1 if quick else 3):
        data, silent = soundscape_dataset(60, seed), soundscape_dataset(60, seed + 500, species=(0, 0), thumps=8.0)
        joined = with_empty(data, silent.bags.instances, silent.bags.sizes)
        sets.append((f"soundscapes {seed}", data, joined, 0.1, both))
    cosmos = cosmos_dataset()
    if cosmos is not None:
        joined = with_empty(cosmos, *noise_bags(cosmos, np.ones(len(cosmos), bool)))
        sets.append(("COSMOS", cosmos, joined, 0.2, both))
    hja = load_real("hja_birdsong")
    if hja is not None:
        half = np.random.default_rng(0).random(len(hja)) < 0.5
        sets.append(("HJA, half of it", hja[half], with_empty(hja[half], *noise_bags(hja, ~half)), 0.5, (LINE,)))
    return sets


def empty_recordings(quick: bool) -> list[Record]:
    """As many bags in which nothing was heard as others: accuracy and noise in the others, with them and without."""
    records = []
    for name, data, joined, share, learners in empty_sets(quick):
        truth = data.instance_labels.instances
        named = truth >= 0
        for learner in learners:
            record: Record = {"data": name, "model": learner, "bags": len(data), "with empty": len(joined)}
            for what, training in (("without", data), ("with", joined)):
                model = make_model(learner, background_share=share).fit(training.bags, training.Y)
                noise, new = model.background_proba(data.bags, data.Y), model.background_proba(data.bags)
                labels = model.annotate(data.bags, data.Y)
                record |= {
                    f"right % {what}": 100 * float(np.mean(labels[named] == truth[named])),
                    f"mean noise % {what}": 100 * float(noise.mean()),
                    f"the same, labels unknown, {what}": 100 * float(new.mean()),
                    f"AUC {what}": float(roc_auc_score(~named, noise)),
                }
            records.append(record)
    return records


def main(quick: bool = False) -> list[Record]:
    """Print the tables and return their records."""
    records = background(quick)
    show("HJA with its unlabelled segments left in", records)
    empty = empty_recordings(quick)
    for title, keys in (
        ("accuracy of what was named", ("right % without", "right % with")),
        ("noise in them, %", ("mean noise % without", "mean noise % with")),
        ("noise by the model alone, %", ("the same, labels unknown, without", "the same, labels unknown, with")),
        ("AUC of noise", ("AUC without", "AUC with")),
    ):
        columns = ("data", "model", "bags", "with empty", *keys)
        show(f"As many empty recordings as others: {title}", [{k: r[k] for k in columns} for r in empty], ("model",))
    return [*records, *empty]


if __name__ == "__main__":
    main("--quick" in sys.argv)
