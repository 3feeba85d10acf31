"""The file of an `ORedForest` of many instances: its size, and what a bound on the leaves of a tree costs.

`python -m benchmarks forest-file`
"""

from __future__ import annotations

import tempfile
import time
import warnings
from pathlib import Path

import numpy as np

from bagwise import Bags, save
from bagwise.annotation import ORedForest
from bagwise.annotation import forest as forest_module
from bagwise.kernels.forest import Forest
from bagwise.metrics import average_precision
from benchmarks.common import MEMORY, Record, show, with_ratio
from benchmarks.scale import made

N_TREES = 20


def bags_of(n_instances: int) -> tuple[Bags, np.ndarray]:
    parts = list(made(n_instances))
    sizes = np.concatenate([part.bags.sizes for part in parts])
    X = np.concatenate([part.bags.instances for part in parts])
    return Bags(X, np.concatenate([[0], np.cumsum(sizes)])), np.concatenate([np.asarray(part.Y) for part in parts])


def size_as_before(forest: Forest) -> int:
    """Bytes that the arrays of earlier versions took: 32 a node, four a leaf and class."""
    return 32 * len(forest.feature) + 4 * forest.n_columns * int((forest.feature < 0).sum())


def measured(bags: Bags, Y: np.ndarray, most_leaves: int, folder: Path) -> Record:
    """A forest of nine tenths of the bags with a bound on leaves, its file, and how it ranks the labels of the rest."""
    cut = int(0.9 * len(bags))
    forest_module.MOST_LEAVES, before = most_leaves, forest_module.MOST_LEAVES
    started = time.perf_counter()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of bags that nothing explains
            model = ORedForest(N_TREES, n_rounds=3, n_round_trees=10, random_state=0).fit(bags[:cut], Y[:cut])
    finally:
        forest_module.MOST_LEAVES = before
    path, forest = folder / "forest.bagwise", Forest(*model.forest_)
    save(model, path)
    return {
        "instances": int(bags.offsets[cut]), "most leaves": most_leaves, "fit s": time.perf_counter() - started,
        "leaves a tree": (forest.feature < 0).sum() / N_TREES, "file MB": path.stat().st_size / 2**20,
        "as before MB": size_as_before(forest) / 2**20,
        "average precision": float(average_precision(Y[cut:], model.decision_function(bags[cut:]))),
        "labels right": float((model.predict(bags[cut:]) == Y[cut:]).mean()),
    }  # fmt: skip


def main(quick: bool) -> list[Record]:
    n_instances = 20_000 if quick else 110_000
    bound = forest_module.MOST_LEAVES * n_instances // 110_000
    bags, Y = bags_of(n_instances)
    with tempfile.TemporaryDirectory(prefix="bagwise-") as folder:
        free = measured(bags, Y, 10**9, Path(folder))
        bounded = measured(bags, Y, bound, Path(folder))
    points = 100 * (bounded["average precision"] - free["average precision"])
    records = [
        free,
        with_ratio(
            bounded, f"file of {N_TREES} trees, {bounded['instances']:,} instances", "as before, without a bound",
            bounded["file MB"] / free["as before MB"], unit=MEMORY, asked="less than half a point lost",
            note=f"{points:+.2f} points of average precision by the bound",
        ),
    ]  # fmt: skip
    show(f"A forest of {N_TREES} trees", records)
    return records
