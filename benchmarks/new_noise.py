"""How much of new pictures and texts is taken for background where there is none, by how its share was found."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp

from bagwise.app.media.text import TextSettings
from bagwise.app.runs.learner import make_learner
from bagwise.app.runs.options import DEFAULT_MODEL
from bagwise.core.bags import Bags
from benchmarks.common import Record, data_folder, show
from benchmarks.pictures import FOLDER, GIVEN, MAX_NOISE, OWN, SHARE, read_photographs
from benchmarks.text_corpora import CORPORA, make_documents
from benchmarks.texts import passages_of

WAYS: dict[str, dict[str, Any]] = {
    "share as the fit left it": {"calibrate": None},
    "share in held-out bags": {},
    "by their likelihood": {"background_share": None},
}
"""The second is what runs do; the third takes no share for given."""
FOLDS, FEW, MOST_TEXTS = 5, 6, 80


def called_noise(bags: Bags, Y: np.ndarray, settings: dict[str, Any], n_bags: int, *, sparse: bool) -> float:
    """Per cent of the instances of held-out bags that are taken for background, by models of so many others."""
    rng = np.random.default_rng(0)
    number = rng.permutation(len(bags)) % FOLDS
    noise = []
    for fold in range(FOLDS):
        rest = rng.permutation(np.flatnonzero(number != fold))[:n_bags]
        model = make_learner(DEFAULT_MODEL, settings, SHARE, sparse=sparse)
        model.fit(bags[rest], Y[rest][:, Y[rest].any(axis=0)])
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
    for name, words in list(CORPORA.items())[: 1 if quick else None]:
        topics = words()
        if len(topics) < 4:
            print(f"  {name}: its texts are not on this machine: left out")
            continue
        documents = make_documents(topics, most=MOST_TEXTS)
        counts, offsets, _ = passages_of(documents, TextSettings())
        Y = np.array([[topic in document.topics for topic in topics] for document in documents], dtype=np.uint8)
        yield f"texts, {name}", Bags(counts, offsets), Y


def main(quick: bool = False) -> list[Record]:
    """Print the table and return its records."""
    records: list[Record] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # rare classes, and few bags, which are the point here
        for name, bags, Y in sets(quick):
            for n_bags in (len(bags) * (FOLDS - 1) // FOLDS, FEW):
                sparse = sp.issparse(bags.instances)
                called = {way: called_noise(bags, Y, own, n_bags, sparse=sparse) for way, own in WAYS.items()}
                records.append({"data": name, "learned from bags": n_bags, **called})
    show(f"Taken for noise in new bags where nothing is, per cent; a share of {SHARE} was expected", records)
    return records
