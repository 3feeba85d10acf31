"""The constants of the cost model measured here, held against evaluations on workers, and what they say of more.

`python -m benchmarks scale-model`
"""

from __future__ import annotations

import math
import os
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from bagwise.scale import BagSource
from bagwise.scale._engine import Training, ready_bags
from bagwise.scale._pieces import read_pieces
from bagwise.scale.cluster import TASKS, _group_size, open_cluster
from benchmarks.common import SECONDS, Record, fastest, show, with_ratio
from benchmarks.scale import N_CLASSES, N_FEATURES, N_PIECES, TINY, in_pieces, likelihood_of, scaled, write_made
from benchmarks.scale_model import Costs, Plan, Trouble, seconds_of_iteration, simulate

FAR = ((1e9, (10, 100, 1_000)), (1e11, (1_000, 10_000, 100_000)))
PIECE = 200_000  # instances of a piece of 64 MB
INSTANCES_OF_BAG, BYTES_OF_BAG = 5, 100  # what the process that asks remembers of all bags
TROUBLES = {
    "none": Trouble(),
    "lag": Trouble(spread=0.2),
    "lag, copies": Trouble(spread=0.2, spare=True),
    "die, each every 8 hours": Trouble(spread=0.2, failures=1 / 28_800),
    "die, each every hour": Trouble(spread=0.2, failures=1 / 3_600),
    "die, copies": Trouble(spread=0.2, failures=1 / 3_600, spare=True),
}


def evaluation(source: BagSource, client: Any, tasks: int = TASKS) -> Any:
    """A call that evaluates likelihood and gradient once."""
    weights = np.random.default_rng(1).normal(scale=0.1, size=(N_CLASSES, N_FEATURES + 1))
    return partial(likelihood_of(source, client, tasks=tasks).value_and_gradient, weights)


def measured_costs(folder: Path, n_instances: int) -> Costs:
    """Reading and computing by one worker, and what tasks cost that have nothing to do."""
    source = in_pieces(write_made(folder, n_instances))
    read = seconds_of_reading(source)
    few, many = (in_pieces(write_made(folder, TINY * n), n) for n in (4, 4 * N_PIECES))
    with open_cluster("local:1") as client:
        calls = {
            "work": evaluation(source, client, source.n_pieces),
            "few": evaluation(few, client, few.n_pieces),
            "many": evaluation(many, client, many.n_pieces),
        }
        seconds = fastest(calls, repeats=7)
    levels = [Plan(n.n_instances, n.n_instances / n.n_pieces, 1).levels for n in (few, many)]
    system = np.array([[few.n_pieces, levels[0]], [many.n_pieces, levels[1]]], dtype=float)
    dispatch, reduce = np.linalg.solve(system, [seconds["few"], seconds["many"]])
    dispatch, reduce = max(float(dispatch), 1e-5), max(float(reduce), 1e-4)
    levels_here = Plan(source.n_instances, source.n_instances / source.n_pieces, 1).levels
    compute = (seconds["work"] - dispatch - levels_here * reduce) / source.n_instances
    return Costs(read / source.n_instances, max(compute, 1e-9), dispatch, reduce)


def seconds_of_reading(source: BagSource) -> float:
    """Of one pass, scaled as the learner sees it, without reading ahead."""
    model, training = scaled(source), Training.of(source)
    pieces = [source.describe(i) for i in range(source.n_pieces)]

    def read() -> None:
        for number, (piece, bags) in enumerate(zip(pieces, read_pieces(pieces), strict=True)):
            ready_bags(piece, bags, training.used_of(number), model[:-1])

    return fastest({"read": read}, repeats=3)["read"]


def planned(n_instances: float, n_pieces: int, workers: int, *, kept: bool = True) -> Plan:
    """With as many pieces a task as a fit takes."""
    tasks = math.ceil(n_pieces / _group_size(n_pieces, workers))
    return Plan(n_instances, n_instances / tasks, workers, kept=kept)


def held_against(folder: Path, costs: Costs, sizes: tuple[int, ...]) -> list[Record]:
    """Evaluations on two and four workers beside the formula; workers beyond the cores share them."""
    records: list[Record] = []
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    for n_workers in (2, 4):
        with open_cluster(f"local:{n_workers}") as client:
            for size in sizes:
                source = in_pieces(write_made(folder, size))
                seconds = fastest({"one": evaluation(source, client)}, repeats=5)["one"]
                plan = planned(source.n_instances, source.n_pieces, min(n_workers, cores))
                said = seconds_of_iteration(costs, plan)
                record = {"workers": n_workers, "cores": cores, "instances": source.n_instances,
                          "pieces": source.n_pieces, "measured s": seconds, "formula s": said}  # fmt: skip
                name = f"evaluation of {size:,} on {n_workers} workers"
                records.append(with_ratio(record, name, "the formula", seconds / said, unit=SECONDS, asked="near 1"))
    return records


def far_away(costs: Costs) -> list[Record]:
    """What instances beyond this machine would take, kept by the workers or read at every pass."""
    records: list[Record] = []
    for instances, crowd in FAR:
        for workers in crowd:
            pieces = math.ceil(instances / PIECE)
            plan, each = planned(instances, pieces, workers), Plan(instances, PIECE, workers)
            records.append({
                "instances": f"{instances:.0e}", "workers": workers, "pieces": pieces, "tasks": plan.pieces,
                "GB a worker": instances * N_FEATURES * 4 / workers / 2**30,
                "kept s": seconds_of_iteration(costs, plan),
                "read s": seconds_of_iteration(costs, planned(instances, pieces, workers, kept=False)),
                "scheduler s": plan.pieces * costs.dispatch,
                "kept s, a task a piece": seconds_of_iteration(costs, each),
                "asking process GB": instances / INSTANCES_OF_BAG * BYTES_OF_BAG / 2**30,
            })  # fmt: skip
    return records


def a_thousand_workers(costs: Costs, n_runs: int) -> list[Record]:
    """1e9 instances on a thousand workers that lag and die, in pieces of 64 MB and in one for each worker."""
    records: list[Record] = []
    for plan in (Plan(1e9, PIECE, 1_000), Plan(1e9, 1e6, 1_000)):
        calm = seconds_of_iteration(costs, plan)
        for name, trouble in TROUBLES.items():
            found = np.array([simulate(costs, plan, trouble, seed) for seed in range(n_runs)])
            records.append(
                {
                    "trouble": name, "pieces": plan.pieces, "mean s": found[:, 0].mean(), "worst s": found[:, 0].max(),
                    "pieces again": found[:, 1].mean(), "times the formula": found[:, 0].mean() / calm,
                }
            )  # fmt: skip
    return records


def main(quick: bool) -> list[Record]:
    with tempfile.TemporaryDirectory(prefix="bagwise-") as folder:
        costs = measured_costs(Path(folder), 50_000 if quick else 500_000)
        constants = [{"constant": name, "microseconds": 1e6 * value} for name, value in vars(costs).items()]
        show("Constants of the cost model, of an instance and of a task", constants)
        sizes = (20_000, 60_000, 200_000) if quick else (200_000, 600_000, 2_000_000)
        checked = held_against(Path(folder), costs, sizes)
        show("Evaluations on workers of this machine", checked)
    far = far_away(costs)
    show(f"An iteration of more ({N_FEATURES} float32 features, {N_CLASSES} classes)", far)
    crowd = a_thousand_workers(costs, 10 if quick else 50)
    show("1e9 instances on a thousand workers, simulated", crowd)
    return [*constants, *checked, *far, *crowd]
