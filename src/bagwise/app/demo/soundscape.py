"""The main job on data of our own: who sang what, from the species of each recording alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bagwise.app.media.matching import covered_share, match_events
from bagwise.app.runs import AnnotateResult, Run
from bagwise.datasets import Soundscape, make_soundscape

N_RECORDINGS, N_NEW = 60, 20
FOUND = 0.5  # share of the duration of a call that must be covered for it to count as found

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class _Score:
    """Annotations compared with the truth.

    Attributes
    ----------
    n_events, n_found : int
        Calls, and those of which at least half the duration was found.
    n_matched, n_right : int
        Syllables that lie in a call, and those of them that bear its species.
    noise_recognised : (int, int)
        Syllables that lie in no call, and those of them that were taken for noise.
    by_species : dict
        Species to calls, found, matched, right.
    """

    n_events: int
    n_found: int
    n_matched: int
    n_right: int
    noise_recognised: tuple[int, int]
    by_species: dict[str, tuple[int, int, int, int]]

    @property
    def recall(self) -> float:
        return self.n_found / self.n_events

    @property
    def accuracy(self) -> float:
        return self.n_right / self.n_matched


@dataclass(frozen=True)
class _SoundscapeDemo:
    """What the demo found: the scores of the labelled recordings, of new ones, and of guessing; and the files."""

    scene: Soundscape
    result: AnnotateResult
    labelled: _Score
    guessed: _Score
    new: _Score
    page: Path


def run_soundscape_demo(folder: Path, seed: int = 0, progress: Progress | None = None) -> _SoundscapeDemo:
    """Make a soundscape, annotate it from the species of each recording, and compare with the truth.

    The recordings go to ``folder/soundscape``, the results to ``folder/run``; twenty new recordings, without
    labels, to ``folder/new`` and ``folder/run-new``.
    """
    step = progress or (lambda what, done, total: None)
    step("making sounds", 0, 2)
    scene = make_soundscape(N_RECORDINGS, random_state=seed)
    sounds, labels, _ = scene.write(folder / "soundscape")
    step("making sounds", 1, 2)
    unheard = make_soundscape(N_NEW, random_state=seed + 1_000_003)
    new_sounds, *_ = unheard.write(folder / "new")
    step("making sounds", 2, 2)
    result = Run.create(sounds, folder / "run", labels=labels, overwrite=True, progress=step).result()
    model = folder / "run" / "model.bagwise"
    new = Run.create(new_sounds, folder / "run-new", model=model, overwrite=True, page=False).result()
    rows = result.annotations.rows
    guess = _most_frequent(rows, scene)
    return _SoundscapeDemo(
        scene=scene,
        result=result,
        labelled=score_rows(rows, scene.events, scene.species),
        guessed=score_rows(guess, scene.events, scene.species),
        new=score_rows(new.annotations.rows, unheard.events, unheard.species),
        page=folder / "run" / "report.html",
    )


def score_rows(
    rows: Sequence[dict[str, Any]], events: Sequence[dict[str, Any]], species: Sequence[str], max_noise: float = 0.5
) -> _Score:
    """Compare annotated syllables with the calls that are really there."""
    found = covered_share(rows, events) >= FOUND
    matched = match_events(rows, events)
    inside = matched >= 0
    truth = [events[j]["label"] if j >= 0 else None for j in matched]
    right = np.array([row["label"] == label for row, label in zip(rows, truth, strict=True)])
    noise = np.array([(row["noise"] or 0.0) > max_noise for row in rows])
    by_species = {}
    for name in species:
        calls = np.array([event["label"] == name for event in events])
        own = np.array([label == name for label in truth])
        by_species[name] = (int(calls.sum()), int(found[calls].sum()), int(own.sum()), int(right[own].sum()))
    return _Score(
        len(events),
        int(found.sum()),
        int(inside.sum()),
        int(right[inside].sum()),
        (int((~inside).sum()), int(noise[~inside].sum())),
        by_species,
    )


def _most_frequent(rows: Sequence[dict[str, Any]], scene: Soundscape) -> list[dict[str, Any]]:
    """Every syllable given that species of its recording which most recordings list."""
    counts = {name: sum(name in labels for labels in scene.label_sets) for name in scene.species}
    best = {
        name: max(sorted(labels), key=lambda species: counts[species])
        for name, labels in zip(scene.names, scene.label_sets, strict=True)
    }
    return [{**row, "label": best[row["file"]]} for row in rows]
