"""Passages of texts that every installation carries, default settings beside a grid; and many texts, beside before.

Before is an earlier revision of the repository (`BAGWISE_BEFORE` names another one). Both run in turns, in processes of
their own, on the same texts; `BAGWISE_TEXTS` says how many. Each first annotates a few, so that its compiled code is
there and no compiler is measured.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import KFold

from bagwise.app.media.files import FileBags
from bagwise.app.media.text import TextSettings, _choose_terms, _count_matrix, passages
from bagwise.app.runs.learner import make_learner
from bagwise.app.runs.options import DEFAULT_MODEL, NOISE_SHARE
from bagwise.core.bags import Bags, offsets_of
from bagwise.core.exceptions import BackgroundShareWarning, CalibrationWarning, InfeasibleBagWarning
from bagwise.pipeline import final_step
from benchmarks.common import MEMORY, SECONDS, Record, show, with_ratio
from benchmarks.text_corpora import CORPORA, Document, made_words, make_documents, write_corpus

ROOT = Path(__file__).parents[1]
BEFORE = os.environ.get("BAGWISE_BEFORE", "369d6c2")
MANY, FEW = 20_000, 2_000  # texts, the second with --quick
FIRST = 300  # texts that are annotated before the clock runs
ASKED = "1/4"
FORMER = TextSettings(keep=0.02, min_documents=1)
TERMS = {"min_documents": (1, 2, 3), "stems": (True, False), "stop_words": ("auto", "none")}
L2 = (0.1, 0.3, 1.0, 3.0)
PENALTIES = (16.0, 4.0, 1.0, 0.25, 0.06)
WARNINGS = (InfeasibleBagWarning, BackgroundShareWarning, ConvergenceWarning, CalibrationWarning)


def main(quick: bool = False) -> list[Record]:
    return [*accuracy(quick), *likelihood(quick), *speed(int(os.environ.get("BAGWISE_TEXTS", FEW if quick else MANY)))]


# -- accuracy ---------------------------------------------------------------------------------------------------------


def accuracy(quick: bool) -> list[Record]:
    """Passages that get the topic of most of their characters, the topics of the document told."""
    rows: list[Record] = []
    for name, words in CORPORA.items():
        topics = words()
        if len(topics) < 4:
            print(f"  {name}: its texts are not on this machine: left out")
            continue
        documents = make_documents(topics)
        default = _share_right(documents, TextSettings())
        grid = {} if quick else {key: _share_right(documents, *key) for key in _grid()}
        best = max(grid, key=lambda key: grid[key]) if grid else None
        rows.append({
            "corpus": name, "texts": len(documents), "labels": len(topics),
            "2 % of the terms": _former(documents), "default": default,
            "best of the grid": None if best is None else grid[best],
            "behind": None if best is None else grid[best] - default,
            "its settings": "" if best is None else _in_words(*best),
        })  # fmt: skip
    show(f"Passages with the right label, percent; the grid has {len(_grid())} settings", rows, left=("its settings",))
    return [{"part": "accuracy", **row} for row in rows]


def _grid() -> list[tuple[TextSettings, float]]:
    return [(TextSettings(**dict(zip(TERMS, values, strict=True))), l2) for *values, l2 in product(*TERMS.values(), L2)]  # type: ignore[arg-type]


def _in_words(settings: TextSettings, l2: float) -> str:
    return ", ".join([*(f"{name}={getattr(settings, name)}" for name in TERMS), f"l2={l2:g}"])


def passages_of(documents: list[Document], settings: TextSettings) -> tuple[Any, np.ndarray, list[str]]:
    """Counts of all passages, offsets of the documents, and the topic of each passage."""
    found = [passages(document.text, settings) for document in documents]
    truth = [
        document.topic_of(start, end)
        for document, own in zip(documents, found, strict=True)
        for start, end in zip(own.starts, own.ends, strict=True)
    ]
    files = [FileBags([str(i)], [len(p.starts)], p.counts, {}, {}, feature_names=p.terms) for i, p in enumerate(found)]
    matrix = _count_matrix(files, _choose_terms(files, settings))
    return matrix, offsets_of([len(own.starts) for own in found]), truth


def _share_right(documents: list[Document], settings: TextSettings, l2: float | None = None) -> float:
    """As `bagwise annotate` fits, but for the calibration, which changes no label."""
    counts, offsets, truth = passages_of(documents, settings)
    told = {"calibrate": None, **({} if l2 is None else {"l2": l2})}
    return _fit(make_learner(DEFAULT_MODEL, told, NOISE_SHARE, sparse=True), documents, counts, offsets, truth)


def _former(documents: list[Document]) -> float:
    """As it was before: few terms, standardized."""
    counts, offsets, truth = passages_of(documents, FORMER)
    model = make_learner(DEFAULT_MODEL, {"calibrate": None}, NOISE_SHARE)
    return _fit(model, documents, counts.toarray(), offsets, truth)


def _fit(model: Any, documents: list[Document], X: Any, offsets: np.ndarray, truth: list[str]) -> float:
    bags, sets = Bags(X, offsets), [set(document.topics) for document in documents]
    with warnings.catch_warnings():
        for category in WARNINGS:
            warnings.simplefilter("ignore", category)
        found = model.fit(bags, sets).annotate(bags, sets)
    return 100 * float(np.mean(np.asarray(found) == np.asarray(truth)))


def likelihood(quick: bool) -> list[Record]:
    """Mean log-likelihood of labels of held-out documents by the penalty, which the size of terms stands against."""
    rows: list[Record] = []
    for name, words in CORPORA.items():
        topics = words()
        if len(topics) < 4:
            continue
        documents = make_documents(topics, most=60 if quick else None)
        counts, offsets, _ = passages_of(documents, TextSettings())
        bags, sets = Bags(counts, offsets), [set(document.topics) for document in documents]
        rows.append({"corpus": name} | {f"l2 {l2:g}": _held_out(bags, sets, sorted(topics), l2) for l2 in PENALTIES})
    show("Log-likelihood of the labels of held-out documents, mean of a label; five folds", rows)
    return [{"part": "likelihood", **row} for row in rows]


def _held_out(bags: Bags, sets: list[set[str]], classes: list[str], l2: float) -> float:
    found = []
    Y = np.array([[name in labels for name in classes] for labels in sets])
    for train, test in KFold(5, shuffle=True, random_state=0).split(Y):
        model = make_learner(DEFAULT_MODEL, {"calibrate": None, "l2": l2}, NOISE_SHARE, sparse=True)
        with warnings.catch_warnings():
            for category in WARNINGS:
                warnings.simplefilter("ignore", category)
            model.fit(bags[train], [sets[i] for i in train])
        known = list(final_step(model).classes_)
        present = np.clip(model.predict_proba(bags[test])[:, [known.index(name) for name in classes]], 1e-6, 1 - 1e-6)
        found.append(np.mean(np.log(np.where(Y[test], present, 1 - present))))
    return float(np.mean(found))


# -- time and memory --------------------------------------------------------------------------------------------------


def speed(n: int) -> list[Record]:
    """`bagwise annotate` of many short texts of a large vocabulary, from the files to the page."""
    words = made_words(n_words=22 * n, vocabulary=60_000)
    with tempfile.TemporaryDirectory() as name, earlier() as before:
        folder = Path(name)
        documents = make_documents(words, block=(20, 60), most=n)
        table, few = write_corpus(documents, folder / "texts"), write_corpus(documents[:FIRST], folder / "few")
        trees = {"before": before, "now": ROOT} if before else {"now": ROOT}
        for who, tree in trees.items():
            _annotate(tree, folder / f"few-{who}", few)
        rows = [{"version": who, "texts": n, **_annotate(tree, folder / who, table)} for who, tree in trees.items()]
    show("All of bagwise annotate", rows)
    records = [{"part": "speed", **row} for row in rows]
    if before:
        for key, unit in (("seconds", SECONDS), ("peak MB", MEMORY)):
            ratio = rows[1][key] / rows[0][key]
            records.append(
                with_ratio(
                    {"part": key, "ratio": ratio}, f"{n} texts annotated", "before", ratio, unit=unit, asked=ASKED
                )
            )
    return records


@contextmanager
def earlier() -> Iterator[Path | None]:
    """A checkout of the earlier revision, None where the history does not hold it."""
    with tempfile.TemporaryDirectory() as name:
        place = Path(name) / "before"
        command = ["git", "-C", str(ROOT), "worktree", "add", "--detach", str(place), BEFORE]
        if subprocess.run(command, capture_output=True, check=False).returncode:
            print(f"  the revision {BEFORE} is not in this repository: only today's figures")
            yield None
            return
        try:
            yield place
        finally:
            subprocess.run(["git", "-C", str(ROOT), "worktree", "remove", "--force", str(place)], check=False)


def _annotate(tree: Path, out: Path, table: Path) -> Record:
    """Seconds of the command, those of processors, which other work hardly touches, and the most memory it held."""
    command = [
        sys.executable, "-m", "bagwise.app.cli", "annotate", str(table.with_suffix("")), "--labels", str(table),
        "--out", str(out), "--quiet",
    ]  # fmt: skip
    environment = {**os.environ, "PYTHONPATH": str(tree / "src")}
    started, used = time.perf_counter(), os.times()
    with subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, cwd=tree) as process:
        peak = 0
        while process.poll() is None:
            peak = max(peak, _resident(process.pid))
            time.sleep(0.05)
    if process.returncode not in (0, 3):  # 3: some texts have more labels than passages
        raise RuntimeError(f"bagwise annotate of {tree} failed with {process.returncode}")
    seconds, after = time.perf_counter() - started, os.times()
    of_processors = after.children_user + after.children_system - used.children_user - used.children_system
    return {"seconds": seconds, "processor s": of_processors, "peak MB": peak / 2**20}


def _resident(pid: int) -> int:
    """Bytes that a process holds; its helpers hold little (Linux; 0 elsewhere)."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError):
        return 0
