"""A fit on a device of torch beside the compiled code on two cores of the same machine, in one run.

`BAGWISE_DEVICE=cuda python -m benchmarks device`; without the variable the processor is the device, which shows that
the code runs, and no speed.
"""

from __future__ import annotations

import os
import time
from functools import partial
from typing import Any

import numpy as np

from bagwise import ORedLogisticRegression
from bagwise.annotation.objective import ORedObjective
from bagwise.core.bags import Bags
from bagwise.union import UnionProblem
from benchmarks.common import FASTER, Record, fastest, show, with_ratio

N_FEATURES, N_CLASSES = 40, 20
SIZES = (100_000, 1_000_000, 10_000_000)
CORES = 2


def made(n_instances: int, seed: int = 0) -> tuple[Bags, np.ndarray]:
    """Bags of one to nine float32 instances from overlapping Gaussian classes, about 2.5 labels each."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 10, n_instances // 5 + 1)
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    favourites = rng.integers(0, N_CLASSES, (len(sizes), 3))
    bag = np.repeat(np.arange(len(sizes)), sizes)
    labels = favourites[bag, rng.integers(0, 3, len(bag))]
    centres = rng.normal(size=(N_CLASSES, N_FEATURES)).astype(np.float32)
    X = rng.standard_normal((len(bag), N_FEATURES), dtype=np.float32)
    X *= 2.0
    X += centres[labels]
    Y = np.zeros((len(sizes), N_CLASSES), dtype=np.int8)
    Y[bag, labels] = 1
    return Bags(X, offsets), Y


def evaluations(device: str, sizes: tuple[int, ...]) -> list[Record]:
    """Seconds of one evaluation of value and gradient, and the device's memory."""
    from bagwise.nn.device import DeviceObjective

    records = []
    for size in sizes:
        bags, Y = made(size)
        problem = UnionProblem.build(bags.offsets, Y)
        weights = np.random.default_rng(1).normal(scale=0.1, size=(N_CLASSES, N_FEATURES + 1))
        here = ORedObjective(bags.instances, problem, l2=1.0, method="auto", max_exact_labels=16, n_jobs=CORES)
        _forget(device)
        started = time.perf_counter()
        there = DeviceObjective(
            bags.instances, problem, N_CLASSES, device=device, l2=1.0, max_exact_labels=16, rates=None
        )
        moving = time.perf_counter() - started
        seconds = fastest({"device": partial(there.value_and_gradient, weights)}, repeats=7)
        seconds |= fastest({"here": partial(here.value_and_gradient, weights)}, repeats=2)
        value, gradient = there.value_and_gradient(weights)
        value_here, gradient_here = here.value_and_gradient(weights)
        record = {
            "instances": bags.n_instances,
            "labels a bag": float(Y.sum(axis=1).mean()),
            f"{device} ms": 1e3 * seconds["device"],
            f"{CORES} cores ms": 1e3 * seconds["here"],
            "moved in s": moving,
            "value off by": abs(value - value_here) / abs(value_here),
            "gradient off by": float(np.abs(gradient - gradient_here).max() / np.abs(gradient_here).max()),
            "peak beyond input, (m, c) arrays": _beyond(device, bags.instances.nbytes, bags.n_instances),
        }
        asked = "50" if size == 1_000_000 else ""
        ratio = seconds["here"] / seconds["device"]
        records.append(
            with_ratio(record, f"evaluation on {device}, {size:,}", f"{CORES} cores", ratio, unit=FASTER, asked=asked)
        )
    return records


def fits(device: str, sizes: tuple[int, ...]) -> list[Record]:
    """Whole fits, here and there, to the same likelihood: of doubles, since the compiled code sums floats as floats."""
    records = []
    for size in sizes:
        bags, Y = made(size)
        bags = Bags(bags.instances.astype(np.float64), bags.offsets)
        record: dict[str, Any] = {"instances": bags.n_instances}
        models = {}
        for name, where in ((device, device), (f"{CORES} cores", None)):
            started = time.perf_counter()
            models[name] = ORedLogisticRegression(tol=1e-6, device=where, n_jobs=CORES).fit(bags, Y)
            record[f"{name} s"] = time.perf_counter() - started
            record[f"{name} iterations"] = models[name].n_iter_
        there, here = models.values()
        record["likelihood off by"] = abs(there.objective_history_[-1] / here.objective_history_[-1] - 1.0)
        record["weights off by"] = float(np.abs(there.coef_ - here.coef_).max())
        ratio = record[f"{CORES} cores s"] / record[f"{device} s"]
        records.append(with_ratio(record, f"whole fit on {device}, {size:,}", f"{CORES} cores", ratio, unit=FASTER))
    return records


def hostile(device: str) -> list[Record]:
    """Bags that cancel: priors of 1e-12, up to 14 labels, 1,000 instances; against forward-backward here."""
    import torch

    from bagwise.nn import _union, union_log_likelihood
    from bagwise.union import union_posterior

    _union.COMPILED_BELOW = 0  # so few instances would be left to the compiled code, against which this is held
    records = []
    for k, n in ((6, 20), (10, 100), (14, 20), (14, 1000)):
        rng = np.random.default_rng(k * n)
        proba = np.full((n, k + 1), 1e-12)
        proba[np.arange(n), rng.integers(0, 3, n)] = 1.0
        proba[:k, :k] += np.where(rng.random((k, k)) < 0.3, 1e-6, 0.0)
        proba /= proba.sum(axis=1, keepdims=True)
        Y = np.zeros((1, k + 1), dtype=int)
        Y[0, :k] = 1
        value, posterior = union_posterior(proba, [0, n], Y, method="forward-backward")
        logs = torch.tensor(np.log(proba), device=device, requires_grad=True)
        started = time.perf_counter()
        found = union_log_likelihood(logs, [0, n], Y)
        found.sum().backward()
        seconds = time.perf_counter() - started
        records.append(
            {
                "labels": k, "instances": n, "log P": float(value[0]), "s": seconds,
                "log P off by": abs(float(found[0].detach()) - float(value[0])) / abs(float(value[0])),
                "posterior off by": float(np.abs(logs.grad.cpu().numpy() - posterior).max()),
            }
        )  # fmt: skip
    return records


def _forget(device: str) -> None:
    if device != "cpu":
        import torch

        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()


def _beyond(device: str, n_bytes: int, n_instances: int) -> float | None:
    """Arrays of (m, c) doubles that the device held at most beyond the instances."""
    if device == "cpu":
        return None
    import torch

    return (torch.cuda.max_memory_allocated() - n_bytes) / (8.0 * n_instances * N_CLASSES)


def main(quick: bool) -> list[Record]:
    try:
        import torch  # noqa: F401
    except ImportError:
        print("  torch is not there (make test-torch makes an environment with it): left out")
        return []
    device = os.environ.get("BAGWISE_DEVICE", "cpu")
    large = device != "cpu" and not quick
    evaluated = evaluations(device, SIZES if large else SIZES[:1])
    show(f"One evaluation, {N_FEATURES} features, {N_CLASSES} classes", evaluated)
    fitted = fits(device, SIZES[:2] if large else (20_000,))
    show("Whole fits", fitted)
    cancelling = hostile(device)
    show("Bags that cancel", cancelling)
    return [*evaluated, *fitted, *cancelling]
