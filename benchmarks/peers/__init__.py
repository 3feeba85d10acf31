"""Models of bagwise beside the same or the nearest of other libraries: seconds, and how good the answers are.

    python -m benchmarks peers [--quick]
    python -m benchmarks.peers --with torchmil [--quick]

scikit-learn runs in the project's environment, the others in environments of their own under `.peers`; one that cannot
be installed is left out with a line that says so. Every side is a process on one thread, the two of a pair run in
turns, and the least seconds count. All get the same standardised instances, half of the bags to learn from and half to
be judged on. Where a real data set is missing, bags of its size are made.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

import numpy as np
from sklearn.preprocessing import StandardScaler

from bagwise.datasets import make_gaussian_bags
from bagwise.metrics import average_precision
from benchmarks.common import Record, load_real, show, with_ratio
from benchmarks.peers.environments import REQUIREMENTS, PeerMissingError, interpreter
from benchmarks.peers.turns import SIDES, Outcome, Side, in_turns

LIMIT = 60.0  # seconds of one run, and after which a pair gets no more turns
QUICK_BAGS = 300


class Source(NamedTuple):
    """A real data set, and the sizes to make one of where it is missing."""

    file: str
    n_bags: int
    n_features: int
    n_classes: int
    instances_per_bag: tuple[int, int]


class Pair(NamedTuple):
    model: str  # of bagwise's catalog
    peer: str
    method: str
    data: tuple[str, ...]


SOURCES = {
    "HJA": Source("hja_birdsong_filtered", 548, 38, 13, (2, 16)),
    "Scene": Source("miml_scene", 2000, 15, 5, (9, 9)),
    "Reuters": Source("miml_reuters", 2000, 243, 7, (2, 5)),
}
PAIRS = (
    Pair("ored", "scikit-learn", "logistic regression, instances", ("HJA", "Scene", "Reuters")),
    Pair("ored", "scikit-learn", "logistic regression, bag means", ("HJA", "Scene", "Reuters")),
    Pair("mimlsvm", "scikit-learn", "RBF SVC, bag means", ("HJA", "Scene", "Reuters")),
    Pair("ored-forest", "scikit-learn", "random forest, bag means", ("HJA",)),
    Pair("ored", "mimllearning", "MIWrapper, logistic regression", ("HJA", "Scene", "Reuters")),
    Pair("mimlnn", "mimllearning", "arithmetic, random forest", ("HJA", "Scene", "Reuters")),
    Pair("sim-max", "mimllearning", "APR", ("HJA", "Scene", "Reuters")),
    Pair("sim-hamming-max", "misvm", "MI-SVM", ("HJA", "Scene")),
    Pair("ored", "torchmil", "ABMIL", ("HJA", "Scene")),
)
SCRIPTS = {
    "bagwise": SIDES / "with_bagwise.py",
    "scikit-learn": SIDES / "with_sklearn.py",
    **{peer: SIDES / f"with_{peer}.py" for peer in REQUIREMENTS},
}


def main(quick: bool = False, wanted: Collection[str] = ()) -> list[Record]:
    """Measure, print and return one record a pair and data set."""
    pythons = find_interpreters(wanted)
    records: list[Record] = []
    with tempfile.TemporaryDirectory() as folder:
        for name, source in SOURCES.items():
            if quick and name != "HJA":
                continue
            title, Y_test = write_halves(name, source, Path(folder) / f"{name}.npz", QUICK_BAGS if quick else None)
            for pair in PAIRS:
                if name in pair.data and pair.peer in pythons:
                    ours = Side(Path(sys.executable), SCRIPTS["bagwise"], pair.model)
                    theirs = Side(pythons[pair.peer], SCRIPTS[pair.peer], pair.method)
                    data = Path(folder) / f"{name}.npz"
                    outcomes = in_turns(ours, theirs, data, repeats=1 if quick else 3, limit=LIMIT)
                    records.append(compare(pair, title, *outcomes, Y_test))
    show(
        "Beside other libraries: one thread, in turns, least seconds; average precision in percent",
        records,
        ("beside",),
    )
    return records


def find_interpreters(wanted: Collection[str]) -> dict[str, Path]:
    """The Python of each peer that can be had; a line for each that cannot."""
    pythons = {"scikit-learn": Path(sys.executable)}
    for peer in REQUIREMENTS:
        try:
            pythons[peer] = interpreter(peer, peer in wanted)
        except PeerMissingError as reason:
            print(f"  {reason}")
    return pythons


def write_halves(name: str, source: Source, path: Path, n_bags: int | None) -> tuple[str, np.ndarray]:
    """Write plain arrays of a training and a test half; gives what the data is called and the labels of the test."""
    data = load_real(source.file)
    if data is None:
        name = f"made, {name}'s size"
        sizes = {key: getattr(source, key) for key in ("n_bags", "n_features", "n_classes", "instances_per_bag")}
        data = make_gaussian_bags(**sizes, separation=4.0, random_state=0)
    order = np.random.default_rng(0).permutation(len(data))[:n_bags]  # files may be sorted by class
    train, test = data[order[: len(order) // 2]], data[order[len(order) // 2 :]]
    scaler = StandardScaler().fit(train.bags.instances)
    arrays = {}
    for part, half in (("train", train), ("test", test)):
        arrays[f"{part}_X"] = scaler.transform(half.bags.instances)
        arrays[f"{part}_offsets"], arrays[f"{part}_Y"] = half.bags.offsets, half.Y
    np.savez(path, **arrays)
    return name, test.Y


def compare(pair: Pair, data: str, ours: Outcome, theirs: Outcome, Y: np.ndarray) -> Record:
    """A line of the table; a side that was stopped has a problem and no figures."""
    precision = [None if side.scores is None else 100 * average_precision(Y, side.scores) for side in (ours, theirs)]
    fit, predict = theirs.fit / ours.fit, theirs.predict / ours.predict
    problems = {"bagwise": ours.problem, pair.peer: theirs.problem}
    problem = "; ".join(f"{side}: {text}" for side, text in problems.items() if text)
    record = {
        "data": data,
        "bagwise": pair.model,
        "beside": f"{pair.peer}: {pair.method}",
        "fit s": _known(ours.fit),
        "theirs": _known(theirs.fit),
        "times as fast": _known(fit),
        "predict s": _known(ours.predict),
        "their predict s": _known(theirs.predict),
        "predicts times as fast": _known(predict),
        "precision": precision[0],
        "their precision": precision[1],
        "problem": problem,
    }
    note = problem or f"average precision {precision[0]:.1f} beside {precision[1]:.1f}"
    return with_ratio(record, f"{pair.model} on {data}: fit", record["beside"], _known(fit), note=note)


def _known(value: float) -> float | None:
    return None if np.isnan(value) else value
