"""How much of new pictures, texts and words is taken for noise where there is none, by how its share was found."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

from bagwise.bags import Bags
from bagwise.workflow.learner import DEFAULT_MODEL, make_learner
from benchmarks.common import Record, data_folder, load_real, show
from benchmarks.pictures import FOLDER, GIVEN, MAX_NOISE, OWN, SHARE, read_photographs

WAYS: dict[str, dict[str, Any]] = {
    "share as the fit left it": {"calibrate": None},
    "share in held-out bags": {},
    "by their likelihood": {"background_share": None},
}
"""The second is what runs do; the third takes no share for given."""
SETS = ("miml_reuters", "letter_carroll_rebuilt", "msrc_v2")
FOLDS, FEW, MOST_BAGS = 5, 6, 150


def called_noise(bags: Bags, Y: np.ndarray, settings: dict[str, Any], n_bags: int) -> float:
    """Per cent of the instances of held-out bags that are taken for noise, by models of so many others."""
    rng = np.random.default_rng(0)
    number = rng.permutation(len(bags)) % FOLDS
    noise = []
    for fold in range(FOLDS):
        rest = rng.permutation(np.flatnonzero(number != fold))[:n_bags]
        model = make_learner(DEFAULT_MODEL, settings, SHARE).fit(bags[rest], Y[rest][:, Y[rest].any(axis=0)])
        noise.append(model.find(bags[np.flatnonzero(number == fold)]).background)
    return 100 * float(np.mean(np.concatenate(noise) > MAX_NOISE))


def sets(quick: bool) -> Iterator[tuple[str, Bags, np.ndarray]]:
    """Bags of which every instance is of a label."""
    folder = data_folder()
    if folder is not None and (folder / FOLDER).is_dir():
        files = sorted((folder / FOLDER).glob("*_s.png"))
        for name, settings in (("given masks", GIVEN), ("own regions", OWN)):
            photographs = read_photographs(files, settings)
            yield f"photographs, {name}", photographs.bags, photographs.Y
    for name in () if quick else SETS:
        data = load_real(name)
        if data is not None:
            some = np.sort(np.random.default_rng(0).permutation(len(data))[:MOST_BAGS])
            assert data.Y is not None
            yield name, data.bags[some], data.Y[some]


def main(quick: bool = False) -> list[Record]:
    """Print the table and return its records."""
    records: list[Record] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # rare classes, and few bags, which are the point here
        for name, bags, Y in sets(quick):
            for n_bags in (len(bags) * (FOLDS - 1) // FOLDS, FEW):
                called = {way: called_noise(bags, Y, settings, n_bags) for way, settings in WAYS.items()}
                records.append({"data": name, "learned from bags": n_bags, **called})
    show(f"Taken for noise in new bags where nothing is, per cent; a share of {SHARE} was expected", records)
    return records
