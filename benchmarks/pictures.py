"""Photographs with tags: regions named right, given and found by ourselves, told and new; and one of 24 megapixels."""

from __future__ import annotations

import tempfile
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from bagwise.app.media import ImageSettings
from bagwise.app.media.image import _find_regions, _region_features
from bagwise.app.media.image_file import read_mask, read_pixels
from bagwise.app.media.media_types import MEDIA
from bagwise.app.runs.learner import make_learner
from bagwise.app.runs.options import DEFAULT_MODEL
from bagwise.core.bags import Bags, offsets_of
from benchmarks.common import Record, data_folder, peak_memory, show

FOLDER = "msrc_v2_images"
FOLDS, SHARE, MAX_NOISE = 10, 0.1, 0.5  # the last two as `bagwise annotate` has them
GIVEN = ImageSettings(regions="mask", mask_suffix="_class")
OWN = ImageSettings()
ASKED = {"mask": 82.0, "merge": 56.0}  # per cent, of regions or points
MEGAPIXELS = (6000, 4000)
ASKED_SECONDS, ASKED_MEMORY = 4.0, 1e9


@dataclass(frozen=True)
class Photographs:
    """Regions of some pictures, the labels of the pictures, and for each region how many points are of which class."""

    bags: Bags
    Y: np.ndarray
    points: np.ndarray
    n_points: int  # that have a class, in a region or not

    @property
    def truth(self) -> np.ndarray:
        """(m,) class of most points; -1 where none has any."""
        return np.where(self.points.any(axis=1), self.points.argmax(axis=1), -1)

    def named_right(self, labels: np.ndarray) -> tuple[float, float]:
        """Per cent of the regions and of the points whose label is that of the truth."""
        truth = self.truth
        regions = np.mean(labels[truth >= 0] == truth[truth >= 0])
        return 100 * float(regions), 100 * float(self.points[np.arange(len(labels)), labels].sum() / self.n_points)


def read_photographs(files: Sequence[Path], settings: ImageSettings) -> Photographs:
    """The 40 pictures, with the classes of their points as truth."""
    features, points, label_sets, n_points = [], [], [], 0
    n_values = 1 + max(int(read_mask(_truth_of(path)).max()) for path in files)
    for path in files:
        pixels, truth = read_pixels(path), read_mask(_truth_of(path))
        labels = _find_regions(path, path.name, pixels, settings)
        found = np.bincount(labels.ravel() * n_values + truth.ravel(), minlength=(labels.max() + 1) * n_values)
        points.append(found.reshape(-1, n_values)[1:, 1:])
        features.append(_region_features(pixels.colours, labels, settings))
        label_sets.append(np.bincount(truth.ravel(), minlength=n_values)[1:] > 0)
        n_points += int((truth > 0).sum())
    Y = np.array(label_sets)
    used = Y.any(axis=0)
    bags = Bags(np.concatenate(features), offsets_of([len(part) for part in features]))
    return Photographs(bags, Y[:, used].astype(np.uint8), np.concatenate(points)[:, used], n_points)


def _truth_of(path: Path) -> Path:
    return path.with_name(f"{path.stem}{GIVEN.mask_suffix}.png")


def _folds(photographs: Photographs, n: int, seed: int) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Training pictures, test pictures, and the classes that the training pictures have."""
    number = np.random.default_rng(seed).permutation(len(photographs.bags)) % n
    for fold in range(n):
        rest = np.flatnonzero(number != fold)
        yield rest, np.flatnonzero(number == fold), np.flatnonzero(photographs.Y[rest].any(axis=0))


def _learner() -> Any:
    return make_learner(DEFAULT_MODEL, {}, SHARE)


def told(photographs: Photographs) -> Record:
    """All pictures with their tags, as a run over a folder is."""
    model = _learner().fit(photographs.bags, photographs.Y)
    found = model.find(photographs.bags, photographs.Y)
    regions, points = photographs.named_right(found.labels)
    return {"regions right %": regions, "points right %": points}


def new(photographs: Photographs, n_folds: int) -> Record:
    """Pictures without tags, by a model that never saw them."""
    labels, noise = np.zeros(photographs.bags.n_instances, dtype=np.int64), np.zeros(photographs.bags.n_instances)
    for rest, held_out, classes in _folds(photographs, n_folds, seed=0):
        model = _learner().fit(photographs.bags[rest], photographs.Y[rest][:, classes])
        found = model.find(photographs.bags[held_out])
        rows, _ = photographs.bags.select(held_out)
        labels[rows], noise[rows] = classes[found.labels], found.background
    regions, points = photographs.named_right(labels)
    labelled = photographs.truth >= 0
    called = 100 * float(np.mean(noise[labelled] > MAX_NOISE))
    return {"new: regions right %": regions, "points right %": points, "called noise %": called, "asked": "<= 10"}


def held_out_likelihood(photographs: Photographs, seeds: Sequence[int]) -> float:
    """Mean log-likelihood of the tags of held-out pictures, five folds a seed: by this, settings were chosen.

    Pictures with a tag that the others do not have say nothing and are left out.
    """
    total, n = 0.0, 0
    for seed in seeds:
        for rest, held_out, classes in _folds(photographs, 5, seed):
            fair = held_out[photographs.Y[held_out].sum(axis=1) == photographs.Y[held_out][:, classes].sum(axis=1)]
            if len(fair):
                model = _learner().fit(photographs.bags[rest], photographs.Y[rest][:, classes])
                proba = np.clip(model.predict_proba(photographs.bags[fair]), 1e-3, 1 - 1e-3)
                listed = photographs.Y[fair][:, classes] == 1
                total += float(np.log(np.where(listed, proba, 1 - proba)).sum())
                n += len(fair)
    return total / n


def accuracy(files: Sequence[Path], quick: bool) -> list[Record]:
    """The default and what it was chosen among; new pictures by the default alone."""
    records = []
    kinds = [("given masks", GIVEN), ("own regions", OWN)]
    others = [("slic regions", replace(OWN, regions="slic"))]
    for name, settings in kinds if quick else kinds + others:
        for features in ("appearance", "histograms"):
            photographs = read_photographs(files, replace(settings, features=features))
            record: Record = {"regions": name, "features": features, "number": photographs.bags.n_instances}
            record |= {f"told: {key}" if key.startswith("r") else key: v for key, v in told(photographs).items()}
            record["asked"] = ASKED.get(settings.regions) if features == "appearance" else None
            if not quick:
                record["held-out likelihood"] = held_out_likelihood(photographs, range(2))
            records.append(record)
    return records


def new_pictures(files: Sequence[Path], quick: bool) -> list[Record]:
    return [
        {"regions": name, **new(read_photographs(files, settings), 3 if quick else FOLDS)}
        for name, settings in (("given masks", GIVEN), ("own regions", OWN))
    ]


def large(path: Path) -> list[Record]:
    """Seconds and memory of one photograph, enlarged to 24 megapixels with a grain of its own."""
    from PIL import Image

    rng, (width, height) = np.random.default_rng(0), MEGAPIXELS
    image = np.array(Image.fromarray(read_pixels(path).colours).resize(MEGAPIXELS, Image.Resampling.BICUBIC))
    for row in range(height):
        image[row] = np.clip(image[row] + rng.normal(0, 6, (width, 3)), 0, 255)
    records = []
    with tempfile.TemporaryDirectory() as folder:
        for ending, options in (("jpg", {"quality": 92}), ("png", {"compress_level": 1})):
            file = Path(folder) / f"large.{ending}"
            Image.fromarray(image).save(file, **options)
            MEDIA["image"].featurize([path])  # what is imported is imported
            started = time.perf_counter()
            with peak_memory() as grown:
                found = MEDIA["image"].featurize([file])
            records.append(
                {
                    "file": file.name, "regions": found.bags.n_instances, "seconds": time.perf_counter() - started,
                    "asked": ASKED_SECONDS, "MB": grown.get("growth", 0) / 1e6, "asked MB": ASKED_MEMORY / 1e6,
                }
            )  # fmt: skip
    return records


def main(quick: bool = False) -> list[Record]:
    """Print the tables and return their records."""
    folder = data_folder()
    if folder is None or not (folder / FOLDER).is_dir():
        print(f"  {FOLDER} is not there (set BAGWISE_DATA to the folder that holds it): left out")
        return []
    files = sorted((folder / FOLDER).glob("*_s.png"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # rare classes leave folds in which they are not known
        records = [{"part": "told", **record} for record in accuracy(files, quick)]
        show("Regions and points of 40 photographs, their tags told", records, left=("regions", "features"))
        unseen = [{"part": "new", **record} for record in new_pictures(files, quick)]
        show("New photographs, by folds", unseen, left=("regions",))
    sizes = [{"part": "24 megapixels", **record} for record in large(files[0])]
    show("A photograph of 24 megapixels: regions and features", sizes, left=("file",))
    return [*records, *unseen, *sizes]
