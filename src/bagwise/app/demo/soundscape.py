"""The main job on data of our own: who sang what, from the species of each recording alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bagwise.app.media.matching import covered_share, match_events
from bagwise.app.runs import Run
from bagwise.datasets import Soundscape, make_soundscape

N_RECORDINGS, N_NEW = 60, 20
FOUND = 0.5  # share of the duration of a call that must be covered for it to count as found

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class _Score:
    """Annotations compared with the truth.

    Attributes
    ----------
    by_species : dict
        Species, and "all", to calls, those of which at least half the duration was found, syllables that lie in a call,
        and those of them that bear its species.
    noise : (int, int)
        Syllables that lie in no call, and those of them that were taken for background.
    """

    by_species: dict[str, tuple[int, int, int, int]]
    noise: tuple[int, int]

    @property
    def accuracy(self) -> float:
        *_, matched, right = self.by_species["all"]
        return right / matched


@dataclass(frozen=True)
class _SoundscapeDemo:
    """What the demo found: the scores of the labelled recordings, of new ones, and of guessing; and the page."""

    scene: Soundscape
    labelled: _Score
    guessed: _Score
    new: _Score
    page: Path


def run_soundscape_demo(folder: Path, seed: int = 0, progress: Progress | None = None) -> _SoundscapeDemo:
    """Make a soundscape, annotate it from the species of each recording, and compare with the truth.

    The recordings go to ``folder/soundscape``, the results to ``folder/run``; twenty new recordings, without
    labels, to ``folder/new`` and ``folder/run-new``.
    """
    step, out = progress or (lambda what, done, total: None), folder / "run"
    step("making sounds", 0, 2)
    scene = make_soundscape(N_RECORDINGS, random_state=seed)
    sounds, labels, _ = scene.write(folder / "soundscape")
    step("making sounds", 1, 2)
    unheard = make_soundscape(N_NEW, random_state=seed + 1_000_003)
    new_sounds, *_ = unheard.write(folder / "new")
    step("making sounds", 2, 2)
    rows = Run.create(sounds, out, labels=labels, overwrite=True, progress=step).annotations()
    model = out / "model.bagwise"
    new = Run.create(new_sounds, folder / "run-new", model=model, overwrite=True, page=False).annotations()
    guess = _most_frequent(rows, scene)
    return _SoundscapeDemo(scene, _score(rows, scene), _score(guess, scene), _score(new, unheard), out / "report.html")


def _score(rows: Sequence[dict[str, Any]], scene: Soundscape, max_noise: float = 0.5) -> _Score:
    """Compare annotated syllables with the calls that are really there."""
    events = scene.events
    found = covered_share(rows, events) >= FOUND
    matched = match_events(rows, events)
    calls = np.array([event["label"] for event in events], dtype=object)
    truth = np.array([*calls, None], dtype=object)[matched]
    right = truth == np.array([row["label"] for row in rows], dtype=object)
    noise = np.array([(row["noise"] or 0.0) > max_noise for row in rows])
    scores = {}
    for name in (*scene.species, "all"):
        of_calls, of_rows = (calls == name, truth == name) if name != "all" else (calls != None, matched >= 0)  # noqa: E711
        counts = (of_calls, found & of_calls, of_rows, right & of_rows)
        scores[name] = tuple(int(np.sum(count)) for count in counts)
    return _Score(scores, (int(np.sum(matched < 0)), int(np.sum(noise & (matched < 0)))))  # type: ignore[arg-type]


def _most_frequent(rows: Sequence[dict[str, Any]], scene: Soundscape) -> list[dict[str, Any]]:
    """Every syllable given that species of its recording which most recordings list."""
    counts = {name: sum(name in labels for labels in scene.label_sets) for name in scene.species}
    best = {
        name: max(sorted(labels), key=lambda species: counts[species])
        for name, labels in zip(scene.names, scene.label_sets, strict=True)
    }
    return [{**row, "label": best[row["file"]]} for row in rows]
