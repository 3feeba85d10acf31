"""The main job on data of our own: letters worked out from words of which only the set of letters is given."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bagwise import save
from bagwise.app.report.figures import draw_words
from bagwise.app.runs.predictions import annotate_piece
from bagwise.catalog import make_model
from bagwise.core.dataset import BagDataset
from bagwise.datasets import draw_letters, make_letter_bags
from bagwise.io.tables import write_csv
from bagwise.model_selection import evaluate, summarize

MODELS = {
    "most-frequent": "label counts, no features (floor)",
    "ored": "bag labels only",
    "lr-supervised": "every instance labelled (ceiling)",
}
FOLDS = 10


@dataclass(frozen=True)
class _DemoResult:
    """What the demo found, of some words the given set, the letters worked out and the word itself; and the files."""

    dataset: BagDataset
    words: list[tuple[list[str], list[str], list[str]]]
    accuracies: dict[str, dict[str, float]]
    files: list[Path]


def run_demo(folder: Path, seed: int = 0, progress: Callable[[str, int, int], None] | None = None) -> _DemoResult:
    """Make letter bags, learn from their label sets, compare with the references, write table, picture and model."""
    step = progress or (lambda what, done, total: None)
    step("drawing letters", 0, 1)
    dataset = make_letter_bags(random_state=seed)
    step("drawing letters", 1, 1)
    step("learning from bag labels", 0, 1)
    model = make_model("ored").fit(dataset)
    piece = annotate_piece(model, dataset, use_labels=True)
    step("learning from bag labels", 1, 1)
    accuracies: dict[str, dict[str, float]] = {}
    done, total = 0, len(MODELS) * (FOLDS + 1)
    for name in MODELS:
        accuracies[name] = {}
        for mode in ("transductive", "inductive"):
            start = done

            def count(n: int, _: int, start: int = start) -> None:
                step("comparing with the references", start + n, total)

            records = evaluate(make_model(name), dataset, mode, cv=FOLDS, random_state=seed, name=name, progress=count)
            done += len(records)
            accuracies[name][mode] = summarize(records)[0]["accuracy"]

    folder.mkdir(parents=True, exist_ok=True)
    files = [folder / "annotations.csv", folder / "words.png", folder / "letters.bagwise"]
    write_csv([dict(zip(piece, row, strict=True)) for row in zip(*piece.values(), strict=True)], files[0])
    labels, truth = np.array(piece["label"]), np.array(piece["truth"])
    code, shown = {name: c for c, name in enumerate(dataset.class_names)}, choose_words(dataset, 9)
    draw_words(
        dataset,
        draw_letters("".join(map(str, truth)), random_state=seed),
        np.array([code[label] for label in piece["label"]]),
        shown,
        files[1],
        "Letters worked out from the set on the left alone "
        f"({100 * np.mean(labels == truth):.1f} % right in all words)",
    )
    save(model, files[2])
    guesses, truths, sets = dataset.bags.split(labels), dataset.bags.split(truth), dataset.label_sets
    words = [(sorted(sets[b] or ()), guesses[b].tolist(), truths[b].tolist()) for b in shown]
    return _DemoResult(dataset, words, accuracies, files)


def choose_words(dataset: BagDataset, n_words: int) -> list[int]:
    """Words spread over the text, of five to nine letters and at least four different ones."""
    assert dataset.Y is not None
    sizes, n_labels = dataset.bags.sizes, dataset.Y.sum(axis=1)
    candidates = np.flatnonzero((sizes >= 5) & (sizes <= 9) & (n_labels >= 4))
    if len(candidates) == 0:
        candidates = np.arange(len(dataset))
    picks = np.linspace(0, len(candidates) - 1, min(n_words, len(candidates))).round().astype(int)
    return [int(b) for b in candidates[picks]]
