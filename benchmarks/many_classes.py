"""Thousands of classes, three labels a bag: seconds of an evaluation, of annotate and of predict, and their memory.

`python -m benchmarks many-classes`; BAGWISE_FULL=1 adds a million instances by 5,000 classes in a process that may not
have more than 4 GB (some minutes). A million bags of one instance are there too.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from bagwise import Bags, ORedLogisticRegression
from bagwise.union import LabelledBags
from benchmarks.common import MEMORY, Record, show, with_ratio

N_FEATURES, N_LABELS, LIMIT = 40, 3, 4_000_000_000


def made(n_instances: int, n_classes: int, seed: int = 0) -> tuple[Bags, np.ndarray]:
    """Bags of three to seven float32 instances of at most three classes, and their labels."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(3, 8, n_instances // 5)
    bag = np.repeat(np.arange(len(sizes)), sizes)
    place = np.arange(len(bag)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    labels = rng.integers(0, n_classes, (len(sizes), N_LABELS))[bag, place % N_LABELS]
    centres = rng.normal(size=(n_classes, N_FEATURES)).astype(np.float32)
    X = rng.standard_normal((len(bag), N_FEATURES), dtype=np.float32)
    for first in range(0, len(X), 100_000):
        X[first : first + 100_000] += centres[labels[first : first + 100_000]]
    Y = np.zeros((len(sizes), n_classes), dtype=np.uint8)
    Y[bag, labels] = 1
    return Bags(X, np.concatenate([[0], np.cumsum(sizes)])), Y


def measured(n_instances: int, n_classes: int, iterations: int = 2) -> Record:
    """Seconds, and the most memory that this process has had; called in one of its own."""
    bags, Y = made(n_instances, n_classes)
    before = peak_bytes()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it is meant to stop early
        seconds, model = timed(lambda: ORedLogisticRegression(max_iter=iterations).fit(bags, Y))
    likelihood = model._likelihood(bags, LabelledBags.of(bags.offsets, Y))
    weights = model._weights()
    evaluation, processor = of_evaluation(lambda: likelihood.value_and_gradient(weights), 2)
    annotate, labels = timed(lambda: model.annotate(bags, Y))
    predict, _ = timed(lambda: model.predict_instances(bags))
    return {
        "instances": bags.n_instances, "classes": n_classes, "fit s": seconds, "iterations": model.n_iter_,
        "evaluation s": evaluation, "ns an entry": 1e9 * processor / bags.n_instances / n_classes,
        "annotate s": annotate, "predict s": predict,
        "data MB": (bags.instances.nbytes + Y.nbytes) / 2**20, "peak MB": peak_bytes() / 2**20,
        "beyond data MB": max(peak_bytes() - before, 0) / 2**20,
        "an (m, c) array MB": 8 * bags.n_instances * n_classes / 2**20, "in a listed class": listed(bags, Y, labels),
    }  # fmt: skip


def listed(bags: Bags, Y: np.ndarray, labels: np.ndarray) -> bool:
    """Whether every label given is one of the bag's."""
    return bool(Y[bags.bag_index, labels].all())


def one_instance_bags(n_bags: int, n_classes: int = 20) -> Record:
    """Bags of one instance and one label: a multinomial logistic regression."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, n_classes, n_bags)
    X = 2.0 * rng.normal(size=(n_bags, N_FEATURES)) + rng.normal(size=(n_classes, N_FEATURES))[y]
    Y = np.zeros((n_bags, n_classes), dtype=np.uint8)
    Y[np.arange(n_bags), y] = 1
    bags = Bags(X, np.arange(n_bags + 1))
    seconds, model = timed(lambda: ORedLogisticRegression().fit(bags, Y))
    likelihood = model._likelihood(bags, LabelledBags.of(bags.offsets, Y))
    weights = model._weights()
    evaluation, processor = of_evaluation(lambda: likelihood.value_and_gradient(weights), 3)
    return {"bags": n_bags, "classes": n_classes, "fit s": seconds, "iterations": model.n_iter_,
            "evaluation s": evaluation, "ns an entry": 1e9 * processor / n_bags / n_classes}  # fmt: skip


def of_evaluation(evaluate: Callable[[], Any], repeats: int) -> tuple[float, float]:
    """Seconds of the fastest call, and of the processor in the one that took least of it: others do not count there."""
    found = []
    for _ in range(repeats):
        started, before = time.perf_counter(), time.process_time()
        evaluate()
        found.append((time.perf_counter() - started, time.process_time() - before))
    return min(seconds for seconds, _ in found), min(processor for _, processor in found)


def timed(call: Callable[[], Any]) -> tuple[float, Any]:
    started = time.perf_counter()
    result = call()
    return time.perf_counter() - started, result


def peak_bytes() -> int:
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def in_process(n_instances: int, n_classes: int) -> Record:
    """By a process of its own, which may not have more than `LIMIT`."""
    command = [sys.executable, "-m", "benchmarks.many_classes", str(n_instances), str(n_classes)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{n_instances} by {n_classes} did not fit into {LIMIT} bytes: {done.stderr[-500:]}")
    record = json.loads(done.stdout)
    ratio = record["beyond data MB"] / record["an (m, c) array MB"]
    name = f"memory of fit, annotate and predict, {n_instances:,} x {n_classes:,}"
    return with_ratio(record, name, "an (m, c) array of doubles", ratio, unit=MEMORY, asked="below 1, 4 GB in all")


def main(quick: bool) -> list[Record]:
    sizes = [(20_000, 1_000), (20_000, 5_000)]
    if os.environ.get("BAGWISE_FULL"):
        sizes += [(100_000, 5_000), (1_000_000, 5_000)]
    many = [in_process(*size) for size in sizes]
    show(f"{N_FEATURES} float32 features, {N_LABELS} labels a bag, at most 4 GB a process", many)
    single = [one_instance_bags(100_000 if quick else 1_000_000)]
    show("Bags of one instance", single)
    return [*many, *single]


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_DATA, (LIMIT, LIMIT))
    print(json.dumps(measured(int(sys.argv[1]), int(sys.argv[2]))))
