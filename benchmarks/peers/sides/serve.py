"""One side of a comparison, in an interpreter of its own: `python SCRIPT DATA.npz METHOD`.

For each line that comes on its input it fits, predicts and answers one line of JSON: the seconds of both, and the
scores of the test bags, so that whoever asks judges all sides by the same measure. Needs numpy and nothing else.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np


class Data(NamedTuple):
    """(m, d) instances, where each bag starts and the last ends, (n, c) labels of 0 and 1."""

    X: np.ndarray
    offsets: np.ndarray
    Y: np.ndarray

    @property
    def bags(self) -> list[np.ndarray]:
        return np.split(self.X, self.offsets[1:-1])


Scorer = Callable[[Any], Any]  # test data -> (n, c) scores
Method = Callable[[Any], Scorer]  # training data -> scorer


def serve(methods: dict[str, Method], convert: Callable[[Data], Any] = lambda data: data) -> None:
    """Answer until the input ends; `convert` brings data into the library's own form and is not timed."""
    path, name = sys.argv[1:]
    answers, sys.stdout = sys.stdout, sys.stderr  # what a library prints is no answer
    with np.load(path, allow_pickle=False) as file:
        train, test = (
            convert(Data(*(file[f"{part}_{key}"] for key in ("X", "offsets", "Y")))) for part in ("train", "test")
        )
    for _ in sys.stdin:
        started = time.perf_counter()
        scorer = methods[name](train)
        fitted = time.perf_counter()
        scores = scorer(test)
        ended = time.perf_counter()
        answer = {"fit": fitted - started, "predict": ended - fitted, "scores": np.asarray(scores, float).tolist()}
        print(json.dumps(answer), file=answers, flush=True)
