"""Fits that read their instances from disk: memory under a hard limit, time beside the fit in memory, growth.

`python -m benchmarks scale-disk scale-limit scale-cluster`; the second writes up to 3.2 GB (320 MB with --quick) into a
temporary folder.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from bagwise.catalog import make_model
from bagwise.core.bags import Bags
from bagwise.core.dataset import BagDataset
from bagwise.io.data._parquet_write import write_parquet
from bagwise.io.data.formats import read_dataset
from bagwise.pipeline import final_step
from bagwise.scale import BagSource, fit_source
from bagwise.scale._engine import Here, Training
from bagwise.scale._objectives import SummedLikelihood
from bagwise.scale._source import SCORE_BYTES, SHARE_OF_MEMORY
from bagwise.scale.cluster import TASKS, OnCluster, open_cluster
from bagwise.union import LabelledBags
from benchmarks.common import FASTER, SECONDS, Record, fastest, show, with_ratio

N_FEATURES, N_CLASSES = 40, 20
LIMIT = 1_500_000_000  # bytes that the process may have
MEMORY = "1GB"  # what is left for pieces beside Python and its libraries
ITERATIONS = 4
N_PIECES = 16  # on a cluster
TINY = 100  # instances of a piece with next to no work
BLOCK = 20_000  # bags that are drawn at a time


def made(n_instances: int, seed: int = 0) -> Iterator[BagDataset]:
    """Bags of one to nine float32 instances from overlapping Gaussian classes, about 2.5 labels each."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(N_CLASSES, N_FEATURES)).astype(np.float32)
    first, left = 0, n_instances
    while left > 0:
        sizes = rng.integers(1, 10, BLOCK)
        sizes = sizes[: int(np.searchsorted(np.cumsum(sizes), left)) + 1]
        bag = np.repeat(np.arange(len(sizes)), sizes)
        labels = rng.integers(0, N_CLASSES, (len(sizes), 3))[bag, rng.integers(0, 3, len(bag))]
        X = rng.standard_normal((len(bag), N_FEATURES), dtype=np.float32)
        X *= 2.0
        X += centres[labels]
        Y = np.zeros((len(sizes), N_CLASSES), dtype=np.uint8)
        Y[bag, labels] = 1
        names = list(range(first, first + len(sizes)))
        yield BagDataset(Bags(X, np.concatenate([[0], np.cumsum(sizes)])), Y, list(range(N_CLASSES)), bag_names=names)
        first, left = first + len(sizes), left - len(bag)


def write_made(folder: Path, n_instances: int) -> Path:
    path = folder / f"{n_instances}.parquet"
    write_parquet(made(n_instances), path, nested=False, numbered=False)
    return path


def scaled(source: BagSource, iterations: int = 1) -> Any:
    """The model `ored` after a few iterations."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it is meant to stop early
        return fit_source(make_model("ored", max_iter=iterations), source)


def likelihood_of(source: BagSource, client: Any = None, model: Any = None, tasks: int = TASKS) -> SummedLikelihood:
    """That of the model `ored`, scaled, which climbs it: here, or on the workers of a cluster."""
    model = scaled(source) if model is None else model
    final, training = final_step(model), Training.of(source)
    assert source.Y is not None
    told = LabelledBags.of(training.offsets, source.Y)
    engine = (Here(training) if client is None else OnCluster.of(training, client, tasks)).then(model[0])
    return SummedLikelihood(engine, told, background=False, options=final.objective_options())


def beside_memory(folder: Path, n_instances: int) -> list[Record]:
    """One evaluation of the likelihood: from disk, scaled at every pass, and in memory, scaled once."""
    path = write_made(folder, n_instances)
    source, dataset = BagSource.from_parquet(path, memory=MEMORY), read_dataset(path)
    model = scaled(source)
    by_pieces = likelihood_of(source, model=model)
    final, bags = final_step(model), model[0].transform(dataset.bags)
    assert dataset.Y is not None
    in_memory = final._likelihood(bags, LabelledBags.of(bags.offsets, dataset.Y))
    weights = np.random.default_rng(1).normal(scale=0.1, size=(N_CLASSES, N_FEATURES + 1))
    seconds = fastest(
        {
            "disk": partial(by_pieces.value_and_gradient, weights),
            "memory": partial(in_memory.value_and_gradient, weights),
        },
        repeats=3,
    )
    value, gradient = by_pieces.value_and_gradient(weights)
    value_there, gradient_there = in_memory.value_and_gradient(weights)
    record = {
        "instances": source.n_instances, "pieces": source.n_pieces, "disk s": seconds["disk"],
        "memory s": seconds["memory"], "value off by": abs(value / value_there - 1.0),
        "gradient off by": float(np.abs(gradient - gradient_there).max() / np.abs(gradient_there).max()),
    }  # fmt: skip
    ratio = seconds["disk"] / seconds["memory"]
    return [
        with_ratio(
            record, f"evaluation from disk, {n_instances:,}", "in memory", ratio, unit=SECONDS, asked="at most 2"
        )
    ]


def on_cluster(folder: Path, n_instances: int) -> list[Record]:
    """One evaluation on one and on two workers of this machine, of one thread; and what it costs beside the work."""
    path, tiny = write_made(folder, n_instances), write_made(folder, TINY * N_PIECES)
    weights = np.random.default_rng(1).normal(scale=0.1, size=(N_CLASSES, N_FEATURES + 1))
    record: Record = {"instances": n_instances}
    for n_workers in (1, 2):
        with open_cluster(f"local:{n_workers}") as client:
            source, nothing = in_pieces(path), in_pieces(tiny)
            evaluated = {
                "work": partial(likelihood_of(source, client).value_and_gradient, weights),
                "nothing": partial(likelihood_of(nothing, client).value_and_gradient, weights),
            }
            seconds = fastest(evaluated, repeats=7)
            record |= {"pieces": source.n_pieces, f"{n_workers} worker(s) s": seconds["work"]}
            record |= {"tiny pieces": nothing.n_pieces, f"{n_workers} worker(s), no work ms": 1e3 * seconds["nothing"]}
    ratio = record["1 worker(s) s"] / record["2 worker(s) s"]
    overhead = max(record[f"{n} worker(s), no work ms"] for n in (1, 2)) / 20.0
    return [
        with_ratio(record, f"two workers, {n_instances:,}", "one", ratio, unit=FASTER, asked="at least 1.6"),
        with_ratio(
            dict(record), f"overhead of an evaluation, {record['tiny pieces']} pieces", "20 ms", overhead,
            unit=SECONDS, asked="below 1",
        ),
    ]  # fmt: skip


def in_pieces(path: Path, n_pieces: int = N_PIECES) -> BagSource:
    """About so many of them."""
    n_rows = -(-BagSource.from_parquet(path).n_instances // n_pieces) + 9
    row_bytes = N_FEATURES * 4 + SCORE_BYTES * N_CLASSES
    return BagSource.from_parquet(path, memory=SHARE_OF_MEMORY * n_rows * row_bytes).finer(N_FEATURES)


def under_limit(folder: Path, sizes: tuple[int, ...]) -> list[Record]:
    """Fits of a few iterations by a process of its own that may not have more memory than `LIMIT`."""
    records: list[Record] = []
    for size in sizes:
        path = write_made(folder, size)
        command = [sys.executable, "-m", "benchmarks.scale", str(path)]
        # the library's own pool takes hold of a gigabyte of addresses at once, most of which it never uses
        environment = {**os.environ, "ARROW_DEFAULT_MEMORY_POOL": "system"}
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
        if done.returncode:
            raise RuntimeError(f"{path} did not fit into {LIMIT} bytes: {done.stderr[-500:]}")
        records.append({"on disk MB": path.stat().st_size / 2**20, **json.loads(done.stdout)})
        path.unlink()
    first, last = records[0], records[-1]
    if last is not first:
        grown = last["evaluation s"] / first["evaluation s"] / (last["instances"] / first["instances"])
        records[-1] = with_ratio(
            last, f"evaluation an instance, {sizes[-1]:,}", f"{sizes[0]:,}", grown, unit=SECONDS, asked="at most 1.15"
        )
    return records


def limited_fit(path: str) -> dict[str, Any]:
    """What the process of its own does; the limit is that of all memory it can write to."""
    resource.setrlimit(resource.RLIMIT_DATA, (LIMIT, LIMIT))
    started = time.perf_counter()
    source = BagSource.from_parquet(path, memory=MEMORY)
    opened = time.perf_counter()
    model = scaled(source, ITERATIONS)
    fitted = time.perf_counter()
    by_pieces = likelihood_of(source, model=model)
    weights = np.zeros((N_CLASSES, N_FEATURES + 1))
    seconds = fastest({"evaluation": partial(by_pieces.value_and_gradient, weights)}, repeats=2)
    return {
        "instances": source.n_instances, "pieces": source.n_pieces, "first pass s": opened - started,
        "fit s": fitted - opened, "iterations": final_step(model).n_iter_,
        "evaluation s": seconds["evaluation"],
        "peak MB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, "limit MB": LIMIT / 2**20,
    }  # fmt: skip


def disk(quick: bool) -> list[Record]:
    with tempfile.TemporaryDirectory(prefix="bagwise-") as folder:
        records = beside_memory(Path(folder), 200_000 if quick else 2_000_000)
    show(f"One evaluation, {N_FEATURES} float32 features, {N_CLASSES} classes", records)
    return records


def limit(quick: bool) -> list[Record]:
    with tempfile.TemporaryDirectory(prefix="bagwise-") as folder:
        records = under_limit(Path(folder), (200_000, 2_000_000) if quick else (2_000_000, 20_000_000))
    show("Fits by a process that may not have more than 1.5 GB", records)
    return records


def cluster(quick: bool) -> list[Record]:
    with tempfile.TemporaryDirectory(prefix="bagwise-") as folder:
        records = on_cluster(Path(folder), 200_000 if quick else 2_000_000)
    show("One evaluation on workers of this machine", records[:1])
    return records


if __name__ == "__main__":
    print(json.dumps(limited_fit(sys.argv[1])))
