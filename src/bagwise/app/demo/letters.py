"""The main job on data of our own: letters worked out from words of which only the set of letters is given."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from bagwise import save
from bagwise.app.report.figures import draw_words
from bagwise.app.runs.find import annotate_piece
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
    """What the demo found and the files it wrote."""

    dataset: BagDataset
    labels: np.ndarray
    proba: np.ndarray
    accuracies: dict[str, dict[str, float]]
    shown: list[int]
    files: list[Path]

    def accuracy(self) -> float:
        assert self.dataset.instance_labels is not None
        return float(np.mean(self.labels == self.dataset.instance_labels.instances))


def run_demo(folder: Path, seed: int = 0, progress: Callable[[str, int, int], None] | None = None) -> _DemoResult:
    """Make letter bags, learn from their label sets, compare with the references, write table, picture and model."""
    step = progress or (lambda what, done, total: None)
    step("drawing letters", 0, 1)
    dataset = make_letter_bags(random_state=seed)
    assert dataset.instance_labels is not None
    step("drawing letters", 1, 1)

    model = make_model("ored")
    step("learning from bag labels", 0, 1)
    model.fit(dataset.bags, dataset.Y)
    labels = model.annotate(dataset.bags, dataset.Y)
    proba = model.annotate_proba(dataset.bags, dataset.Y)
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
    shown = choose_words(dataset, 9)
    truth = dataset.instance_labels.instances
    share = float(np.mean(labels == truth))
    letters = "".join(str(dataset.class_names[c]) for c in truth)
    write_csv(_annotation_rows(model, dataset), files[0])
    draw_words(
        dataset,
        draw_letters(letters, random_state=seed),
        labels,
        shown,
        files[1],
        f"Letters worked out from the set on the left alone ({100 * share:.1f} % right in all words)",
    )
    save(model, files[2])
    return _DemoResult(dataset, labels, proba, accuracies, shown, files)


def _annotation_rows(model: Any, dataset: BagDataset) -> list[dict[str, Any]]:
    """One row a letter; the model knows the letters by their numbers."""
    names: dict[Any, Any] = {**dict(enumerate(dataset.class_names)), "": ""}
    piece = annotate_piece(model, replace(dataset, class_names=list(range(dataset.n_classes))), use_labels=True)
    rows = [dict(zip(piece, row, strict=True)) for row in zip(*piece.values(), strict=True)]
    return [{**row, **{key: names[row[key]] for key in ("label", "runner_up", "truth")}} for row in rows]


def choose_words(dataset: BagDataset, n_words: int) -> list[int]:
    """Words spread over the text, of five to nine letters and at least four different ones."""
    assert dataset.Y is not None
    sizes, n_labels = dataset.bags.sizes, dataset.Y.sum(axis=1)
    candidates = np.flatnonzero((sizes >= 5) & (sizes <= 9) & (n_labels >= 4))
    if len(candidates) == 0:
        candidates = np.arange(len(dataset))
    picks = np.linspace(0, len(candidates) - 1, min(n_words, len(candidates))).round().astype(int)
    return [int(b) for b in candidates[picks]]


def word_lines(result: _DemoResult) -> list[dict[str, Any]]:
    """For each word shown: the set that was given, the letters worked out, and the word itself."""
    dataset = result.dataset
    guesses = dataset.bags.split(result.labels)
    assert dataset.instance_labels is not None
    truths = dataset.bags.split(dataset.instance_labels.instances)
    return [
        {
            "given": sorted(dataset.label_sets[b] or ()),
            "worked_out": [str(dataset.class_names[c]) for c in guesses[b]],
            "truth": [str(dataset.class_names[c]) for c in truths[b]],
        }
        for b in result.shown
    ]
