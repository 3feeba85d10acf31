"""Real recordings and real pictures through the whole pipeline, beside the dummy and the published features."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
from scipy.spatial.distance import pdist

from bagwise.app.media import ImageSettings, featurize_audio, featurize_images
from bagwise.app.media._image_regions import large_enough, mask_regions
from bagwise.app.media.image_file import read_mask
from bagwise.app.media.matching import _union_length, covered_share
from bagwise.catalog import make_model
from bagwise.core.bags import Bags
from bagwise.core.dataset import BagDataset, rows_of
from bagwise.core.exceptions import InfeasibleBagWarning
from bagwise.datasets import load_npz
from bagwise.model_selection import evaluate, summarize
from bagwise.pipeline import fit_parameters
from benchmarks.common import Record, data_folder, show
from benchmarks.soundscapes import cosmos_events, with_events

MODELS = ("most-frequent", "ored-background", "ored", "sim-softmax", "clpl", "lr-supervised")
SUPERVISION = "lr-supervised"  # learns from the truth about every instance: what a linear model can reach at all
BIRDS = "cosmos_birds_audio"
ASKED_CORRELATION = 0.9


def main(quick: bool = False) -> list[Record]:
    folder = data_folder()
    if folder is None:
        print("  no real data (set BAGWISE_DATA to its folder): left out")
        return []
    models = (*MODELS[:2], SUPERVISION) if quick else MODELS
    records: list[Record] = []
    for name, measure in ((BIRDS, _birds), ("msrc_v2_images", _pictures)):
        if (folder / name).is_dir():
            records += measure(folder, models)
        else:
            print(f"  {name} is not in {folder.name}: left out")
    return records


# -- recordings -------------------------------------------------------------------------------------------------------


def _birds(folder: Path, models: tuple[str, ...]) -> list[Record]:
    """35 clips of ten seconds; events are marked in time only."""
    folder = folder / BIRDS
    events = cosmos_events(folder)
    found = featurize_audio(sorted(folder.glob("*.wav")))
    assert found.locations is not None
    records = _segmentation(rows_of(found.locations), events)
    dataset, alone = _with_truth(found, events)
    rows = _transductive(dataset, models)
    inside = [np.mean(_labels(dataset)[alone] == guess[alone]) for guess in (row.pop("labels") for row in rows)]
    for row, share in zip(rows, inside, strict=True):
        row["one species at that time"] = 100 * float(share)
    show("Species of segments inside an event, percent right, the species of the clip told (transductive)", rows)
    print(
        f"  {int((_labels(dataset) >= 0).sum())} segments in events, {int(alone.sum())} of them where one species sings"
    )
    return [{"data": "cosmos", "part": "segments", **r} for r in records] + [
        {"data": "cosmos", "part": "species", **r} for r in rows
    ]


def _segmentation(locations: list[dict[str, Any]], events: list[dict[str, Any]]) -> list[Record]:
    row = covered(locations, events)
    show("Segments beside the events that people marked", [row])
    return [row]


def covered(locations: list[dict[str, Any]], events: list[dict[str, Any]]) -> Record:
    """Segments beside the events that people marked."""
    overlap = segments = marked = 0.0
    for name in sorted({event["file"] for event in events}):
        ours = [(box["start"], box["end"]) for box in locations if box["file"] == name]
        theirs = [(box["start"], box["end"]) for box in events if box["file"] == name]
        together = _union_length(ours + theirs)
        overlap += _union_length(ours) + _union_length(theirs) - together
        segments += _union_length(ours)
        marked += _union_length(theirs)
    share = covered_share(locations, events)
    return {
        "segments": len(locations), "events": len(events), "recall over time %": 100 * overlap / marked,
        "precision over time %": 100 * overlap / segments, "events half covered %": 100 * float(np.mean(share >= 0.5)),
        "events touched %": 100 * float(np.mean(share > 0)),
    }  # fmt: skip


def _with_truth(found: BagDataset, events: list[dict[str, Any]]) -> tuple[BagDataset, np.ndarray]:
    """Labels of clips and segments from the events; also which segments lie in events of one species only."""
    assert found.locations is not None
    boxes = rows_of(found.locations)
    at_once = [
        {e["label"] for e in events if e["file"] == box["file"] and e["start"] < box["end"] and e["end"] > box["start"]}
        for box in boxes
    ]
    dataset = with_events(found, events, sorted({event["label"] for event in events}), "cosmos")
    return dataset, np.array([len(labels) == 1 for labels in at_once])


def _labels(dataset: BagDataset) -> np.ndarray:
    assert dataset.instance_labels is not None
    return dataset.instance_labels.instances


def _transductive(dataset: BagDataset, models: tuple[str, ...]) -> list[Record]:
    rows = []
    known = _labels(dataset) >= 0
    for name in models:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", InfeasibleBagWarning)
            model = make_model(name)
            truth = fit_parameters(model, instance_labels=dataset.instance_labels) if name == SUPERVISION else {}
            guess = model.fit(dataset.bags, dataset.Y, **truth).annotate(dataset.bags, dataset.Y)
        share = float(np.mean(guess[known] == _labels(dataset)[known]))
        rows.append({"model": name, "all": 100 * share, "labels": guess})
    return rows


# -- pictures ---------------------------------------------------------------------------------------------------------


def _pictures(folder: Path, models: tuple[str, ...]) -> list[Record]:
    """40 pictures whose regions are those of the class masks."""
    images = folder / "msrc_v2_images"
    files = sorted(images.glob("*_s.png"))
    settings = ImageSettings(regions="mask", mask_suffix="_class", features="histograms")
    found = featurize_images(files, settings)
    classes = [line.split(maxsplit=1)[1] for line in (images / "classes.txt").read_text().splitlines()[1:]]
    truth = np.concatenate([_classes_of(images, name, settings) for name in found.bag_names]) - 1
    records: list[Record] = []
    if (folder / "msrc_v2.npz").is_file():
        records += _beside_published(found, truth, load_npz(folder / "msrc_v2.npz"))
    Y = np.zeros((len(found), len(classes)), dtype=np.uint8)
    Y[found.bags.bag_index, truth] = 1
    dataset = BagDataset(
        bags=found.bags, Y=Y, class_names=classes, instance_labels=Bags(truth, found.bags.offsets), name="msrc images"
    )
    rows = []
    for name in models:
        row: Record = {"model": name}
        for mode in ("transductive", "inductive"):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # rare classes leave folds in which they are not known
                row[mode] = 100 * summarize(evaluate(make_model(name), dataset, mode, cv=5, name=name))[0]["accuracy"]
        rows.append(row)
    show(f"Class of the {found.bags.n_instances} regions of 40 pictures, percent right", rows)
    return records + [{"data": "msrc", "part": "classes", **row} for row in rows]


def _classes_of(folder: Path, name: str, settings: ImageSettings) -> list[int]:
    """The class of each region of a picture: the value of the mask there."""
    mask = read_mask(folder / f"{Path(name).stem}{settings.mask_suffix}.png")
    labels = large_enough(mask_regions(mask), settings.min_area)
    return [int(mask[labels == i + 1][0]) for i in range(labels.max())]


def _beside_published(found: BagDataset, truth: np.ndarray, published: BagDataset) -> list[Record]:
    """Correlation of pairwise distances, over regions whose class occurs once in our bag and in the published one."""
    names = [str(name) for name in published.bag_names]
    assert published.instance_labels is not None
    pairs = []
    for b, name in enumerate(found.bag_names):
        stem = Path(name).stem
        other = names.index(stem if stem in names else stem.removesuffix("_s"))
        ours, theirs = (
            np.arange(d.offsets[i], d.offsets[i + 1]) for d, i in ((found.bags, b), (published.bags, other))
        )
        labels = published.instance_labels.instances[theirs]
        for label in np.unique(labels):
            here, there = ours[truth[ours] == label], theirs[labels == label]
            if len(here) == len(there) == 1:
                pairs.append((here[0], there[0]))
    mine, reference = found.bags.instances[[i for i, _ in pairs]], published.bags.instances[[j for _, j in pairs]]
    rows = []
    for what, part in (("all 48", slice(None)), ("gradients", slice(16)), ("colours", slice(16, None))):
        correlation = float(np.corrcoef(pdist(mine[:, part]), pdist(reference[:, part]))[0, 1])
        rows.append({
            "features": what, "regions": len(pairs), "correlation": correlation,
            "asked": ASKED_CORRELATION if what == "all 48" else None,
        })  # fmt: skip
    show("Pairwise distances of regions: our features beside those of msrc_v2.npz", rows)
    return [{"data": "msrc", "part": "features", **row} for row in rows]
