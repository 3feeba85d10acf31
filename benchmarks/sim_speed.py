"""Speed of support instance machines beside the papers' algorithms, as ratios measured in one run.

    python -m benchmarks sim-speed [--quick]

Algorithms 2 and 3 of Briggs et al. 2013 are written plainly and compiled with numba, each in two ways: with vector
operations, as printed, and with every vector operation spelled out as a loop over features, which is kinder to the
compiler. All times are processor seconds on one thread, the least of several repeats.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numba import njit
from threadpoolctl import threadpool_limits

from bagwise import Bags, SupportInstanceMachine
from bagwise.preprocessing import CLPLScaler, PerInstance
from bagwise.solvers.aggregation import AGGREGATIONS
from bagwise.solvers.losses import LOSSES
from bagwise.solvers.subgradient import BagProblem, heuristic
from benchmarks.common import SECONDS, Record, load_real, show, with_ratio

ALPHA = 1e-7
MODELS = {
    "heuristic, softmax": {"aggregation": "softmax"},
    "heuristic, max": {"aggregation": "max"},
    "cccp, max": {"aggregation": "max", "solver": "cccp"},
}
VOC = {"n_bags": 1053, "n_instances": 4143, "n_features": 48, "n_classes": 20, "n_labels": 2.3}


# -- the algorithms as printed ----------------------------------------------------------------------------------------


@njit(cache=True)
def printed_subgradient(support, others, W, Y, alpha):
    """Algorithms 2 (others = support) and 3, in vectors."""
    n = len(support)
    V = alpha * W
    for i in range(n):
        present, absent = np.flatnonzero(Y[i] == 1), np.flatnonzero(Y[i] == 0)
        beta = 1.0 / (n * len(present) * len(absent))
        for j in present:
            for k in absent:
                if 1.0 + np.dot(W[k], others[i, k]) - np.dot(W[j], support[i, j]) > 0.0:
                    V[j] -= beta * support[i, j]
                    V[k] += beta * others[i, k]
    return V


@njit(cache=True)
def printed_objective(support, others, W, Y, alpha):
    """Equations 26 (others = support) and 25, in vectors."""
    n = len(support)
    value = 0.5 * alpha * np.sum(W**2)
    for i in range(n):
        present, absent = np.flatnonzero(Y[i] == 1), np.flatnonzero(Y[i] == 0)
        beta = 1.0 / (n * len(present) * len(absent))
        for j in present:
            for k in absent:
                value += beta * max(0.0, 1.0 + np.dot(W[k], others[i, k]) - np.dot(W[j], support[i, j]))
    return value


@njit(cache=True)
def dot(a, b):
    total = 0.0
    for k in range(len(a)):
        total += a[k] * b[k]
    return total


@njit(cache=True)
def looped_subgradient(support, others, W, Y, alpha):
    """The same, every vector operation a loop."""
    n, c, d = support.shape
    V = alpha * W
    for i in range(n):
        size = np.sum(Y[i])
        beta = 1.0 / (n * size * (c - size))
        for j in range(c):
            for k in range(c):
                if Y[i, j] == 1 and Y[i, k] == 0 and 1.0 + dot(W[k], others[i, k]) - dot(W[j], support[i, j]) > 0.0:
                    for a in range(d):
                        V[j, a] -= beta * support[i, j, a]
                    for a in range(d):
                        V[k, a] += beta * others[i, k, a]
    return V


@njit(cache=True)
def looped_objective(support, others, W, Y, alpha):
    n, c, _ = support.shape
    value = 0.5 * alpha * np.sum(W**2)
    for i in range(n):
        size = np.sum(Y[i])
        beta = 1.0 / (n * size * (c - size))
        for j in range(c):
            for k in range(c):
                if Y[i, j] == 1 and Y[i, k] == 0:
                    value += beta * max(0.0, 1.0 + dot(W[k], others[i, k]) - dot(W[j], support[i, j]))
    return value


@njit(cache=True)
def printed_support(X, offsets, W):
    """Equation 7 for every bag and class."""
    n, c = len(offsets) - 1, len(W)
    support = np.empty((n, c, X.shape[1]))
    for i in range(n):
        for j in range(c):
            top = -np.inf
            for q in range(offsets[i], offsets[i + 1]):
                score = dot(W[j], X[q])
                if score > top:
                    top = score
                    support[i, j] = X[q]
    return support


@njit(cache=True)
def printed_phase(looped, upper_bound, X, offsets, Y, support, W, alpha, n_steps):
    """One phase of Algorithm 4 or, with the upper bound, 5: steps, and the objective after each."""
    values = np.empty(n_steps + 1)
    for step in range(1, n_steps + 2):
        others = printed_support(X, offsets, W) if upper_bound else support
        if looped:
            values[step - 1] = looped_objective(support, others, W, Y, alpha)
            V = looped_subgradient(support, others, W, Y, alpha)
        else:
            values[step - 1] = printed_objective(support, others, W, Y, alpha)
            V = printed_subgradient(support, others, W, Y, alpha)
        if step <= n_steps:
            W = W - V / (alpha * step)
            W = min(1.0, np.sqrt(2.0 / alpha) / np.sqrt(np.sum(W**2))) * W
    return values


# -- data and clock ---------------------------------------------------------------------------------------------------


def random_bags(n_bags, n_instances, n_features, n_classes, n_labels, seed=0):
    """Instances around the centres of labels that their bags carry, scaled as by CLPLScaler."""
    rng = np.random.default_rng(seed)
    sizes = np.full(n_bags, 1) + rng.multinomial(n_instances - n_bags, np.full(n_bags, 1.0 / n_bags))
    offsets = np.append(0, np.cumsum(sizes))
    wanted = np.clip(np.floor(n_labels + rng.random(n_bags)), 1, n_classes - 1).astype(int)
    Y = np.zeros((n_bags, n_classes), dtype=np.uint8)
    labels = np.empty(n_instances, dtype=np.int64)
    for i in range(n_bags):
        own = rng.permutation(n_classes)[: wanted[i]]
        Y[i, own] = 1
        labels[offsets[i] : offsets[i + 1]] = rng.choice(own, sizes[i])
    X = rng.normal(size=(n_instances, n_features))
    X += rng.normal(size=(n_classes, n_features))[labels]
    X -= X.mean(axis=0)
    return Bags(X / np.sqrt(np.vdot(X, X)), offsets), Y


def least_time(function: Callable[[], Any], repeats: int) -> float:
    """Processor seconds of the fastest call; the first, which may compile, does not count."""
    function()
    times = []
    for _ in range(repeats):
        started = time.process_time()
        function()
        times.append(time.process_time() - started)
    return min(times)


# -- what is measured -------------------------------------------------------------------------------------------------


def measure_speed(name: str, bags: Bags, Y: np.ndarray, quick: bool) -> list[Record]:
    """A phase of each solver beside the same phase as printed."""
    problem = BagProblem.build(bags, Y, LOSSES["rank"], ALPHA)
    start = heuristic(problem, AGGREGATIONS["softmax"], n_phases=1, n_steps=100).weights
    n_steps = 20 if quick else 100
    records = []
    for solver, aggregation in (("heuristic", "max"), ("heuristic", "softmax"), ("cccp", "max")):
        _, support = problem.aggregate(AGGREGATIONS[aggregation], start)
        bound = solver == "cccp"
        if support.rows is not None:
            explicit = problem.instances[support.rows]
        else:
            shares = np.split(support.weights, bags.offsets[1:-1])
            explicit = np.stack([own.T @ rows for own, rows in zip(shares, bags, strict=True)])
        arguments = (problem.instances, bags.offsets, Y, explicit, start, ALPHA, n_steps)
        ours = problem.descend(support, start, n_steps=n_steps, upper_bound=bound).values
        np.testing.assert_allclose(ours[:3], printed_phase(True, bound, *arguments)[:3], rtol=1e-8)
        own = least_time(
            lambda s=support, b=bound: problem.descend(s, start, n_steps=n_steps, upper_bound=b), 10 if quick else 40
        )
        for looped in (False, True):
            printed = least_time(lambda lo=looped, b=bound, a=arguments: printed_phase(lo, b, *a), 1 if quick else 3)
            beside = f"Algorithm {3 if bound else 2} " + ("in loops" if looped else "in vectors")
            record = {
                "data": name,
                "solver": f"{solver}, {aggregation}",
                "beside": beside,
                "theirs, us a step": 1e6 * printed / n_steps,
                "ours": 1e6 * own / n_steps,
                "times faster": printed / own,
                "wanted": 20,
            }
            what = f"a step of SIM ({solver}, {aggregation}) on {name}"
            records.append(with_ratio(record, what, f"{beside} as printed", printed / own, asked=">= 20"))
    return records


def time_fit(bags: Bags, Y: np.ndarray, repeats: int, **parameters) -> float:
    model = SupportInstanceMachine(alpha=1e-6, n_phases=2, n_steps=10, max_steps=10, **parameters)
    return least_time(lambda: model.fit(bags, Y), repeats)


def measure_growth(quick: bool) -> list[Record]:
    """Time with ten times the classes, and with a hundred times the bags (time a bag)."""
    records, repeats = [], 2 if quick else 5
    n_bags, many = (100, 10_000) if quick else (400, 100_000)

    def grow(what: str, wanted: float, share: float, *problems: tuple[Bags, np.ndarray]) -> None:
        for name, parameters in MODELS.items():
            one, other = (
                time_fit(*problem, repeats * (20 if len(problem[0]) <= 1000 else 1), **parameters)
                for problem in problems
            )
            grown = other / one / share
            record = {"what": what, "solver": name, "grows by": grown, "wanted, at most": wanted}
            records.append(
                with_ratio(record, f"SIM ({name}): {what}", "the smaller", grown, unit=SECONDS, asked=f"<= {wanted:g}")
            )

    for labels, n_labels in (("3 labels a bag", (3, 3)), ("a tenth of the classes a bag", (10, 100))):
        sets = (random_bags(n_bags, 5 * n_bags, 32, c, k) for c, k in zip((100, 1000), n_labels, strict=True))
        grow(f"classes 100 to 1,000, {labels}", 14, 1, *sets)
    sets = (random_bags(n, 4 * n, 16, 10, 2) for n in (1000, many))
    grow(f"bags 1,000 to {many:,}, time a bag", 1.15, many / 1000, *sets)
    return records


def measure_memory(quick: bool) -> list[Record]:
    """Peak memory of a process that does nothing but one fit: 5 instances a bag, 100 classes, 64 features."""
    n_bags = 2_000 if quick else 20_000
    records = []
    for name, parameters in MODELS.items():
        arguments = json.dumps({"n_bags": n_bags, **parameters})
        command = [sys.executable, "-m", "benchmarks.sim_speed", "--memory", arguments]
        root = Path(__file__).parents[1]
        peak = json.loads(subprocess.run(command, check=True, capture_output=True, text=True, cwd=root).stdout)
        records.append({"bags": n_bags, "solver": name, "peak MB": peak, "wanted, below": 1000})
    return records


def fit_and_report_memory(n_bags: int, **parameters: Any) -> None:
    bags, Y = random_bags(n_bags, 5 * n_bags, 64, 100, 3)
    SupportInstanceMachine(alpha=1e-6, n_phases=3, n_steps=3, max_steps=3, **parameters).fit(bags, Y)
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000)  # Linux gives kilobytes


def main(quick: bool = False) -> list[Record]:
    """Measure everything, print it as tables and return it as records."""
    with threadpool_limits(1):
        speed = []
        carroll = load_real("letter_carroll_rebuilt")
        if carroll is not None and carroll.Y is not None:
            scaled = PerInstance(CLPLScaler()).fit_transform(carroll.bags)
            speed += measure_speed("Letter-Carroll", scaled, carroll.Y, quick)
        speed += measure_speed("VOC's size, random", *random_bags(**VOC), quick)
        show("One phase beside the same as printed in the paper, numba-compiled", speed)
        growth = measure_growth(quick)
        show("Growth", growth)
    memory = measure_memory(quick)
    show("Memory", memory)
    return [*speed, *growth, *memory]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer repeats and smaller sets")
    parser.add_argument("--memory", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.memory:
        fit_and_report_memory(**json.loads(options.memory))
    else:
        main(options.quick)
