"""What an iteration of a fit on workers takes, in a formula and in a simulation of workers that lag and die.

An iteration goes through all instances once:

    work of a piece = instances of a piece * (read + compute)
    seconds = pieces of the busiest worker * work + dispatch * pieces sent before it begins + levels * reduce

or, where the scheduler cannot keep up, dispatch * pieces + work + levels * reduce. `read` and `compute` are seconds an
instance on one worker (nothing is read where workers keep their pieces), `dispatch` is what the scheduler spends on a
task, one after another, and `reduce` what a level of the tree of sums takes.

The simulation has workers that take a random multiple of the usual time (stragglers) and die at random (failures): a
worker that died is gone for a while, what it held is read again by workers that are free, and idle workers may begin
second copies of tasks that take long.
"""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Costs:
    """Seconds: of an instance that is read and that is computed on, of a task dispatched, of a level of the tree."""

    read: float
    compute: float
    dispatch: float
    reduce: float


@dataclass(frozen=True)
class Plan:
    """Instances in pieces, or groups of them, a task each, on workers, which hold theirs in memory where `kept`.

    `fan_in` sums are added at once.
    """

    instances: float
    piece: float
    workers: int
    kept: bool = True
    fan_in: int = 16

    @property
    def pieces(self) -> int:
        return max(math.ceil(self.instances / self.piece), 1)

    @property
    def levels(self) -> int:
        """Of the tree of sums."""
        levels, left = 0, self.pieces
        while left > 1:
            left, levels = math.ceil(left / self.fan_in), levels + 1
        return levels

    @property
    def rounds(self) -> int:
        """Pieces that the busiest worker goes through."""
        return math.ceil(self.pieces / self.workers)


def work_of_piece(costs: Costs, plan: Plan) -> float:
    """Seconds of a worker on one piece."""
    return plan.instances / plan.pieces * (costs.compute + (0.0 if plan.kept else costs.read))


def seconds_of_iteration(costs: Costs, plan: Plan) -> float:
    """By the formula: no worker lags, none dies.

    The scheduler sends out all tasks one after another, piece i to worker i modulo workers. Where a worker takes longer
    for a piece than the scheduler to reach it again, it waits for its first piece only; else for its last.
    """
    work = work_of_piece(costs, plan)
    first = (plan.pieces - 1) % plan.workers + 1  # pieces that are sent before the busiest worker has its first
    by_workers = first * costs.dispatch + plan.rounds * work
    by_scheduler = plan.pieces * costs.dispatch + work
    return max(by_workers, by_scheduler) + plan.levels * costs.reduce


@dataclass(frozen=True)
class Trouble:
    """What goes wrong.

    Attributes
    ----------
    spread : float
        A task takes 1 + spread times an exponential variable of mean one of the usual time; 0: none lags.
    failures : float
        A second of a worker, how many: a worker dies after an exponential time of that rate.
    absence : float
        Seconds until a worker that died is there again.
    spare : bool
        Whether idle workers start second copies of tasks that are not done yet; the first to end counts.
    """

    spread: float = 0.0
    failures: float = 0.0
    absence: float = 30.0
    spare: bool = False


def simulate(costs: Costs, plan: Plan, trouble: Trouble, seed: int = 0) -> tuple[float, int]:
    """Seconds of one iteration event by event, and how many pieces had to be done again since their worker died.

    A piece is with its worker where `plan.kept`; one that another worker does is read first.
    """
    return _Iteration(costs, plan, trouble, np.random.default_rng(seed)).run()


class _Iteration:
    """The events of one iteration: a task ends, a worker dies, a worker is back."""

    def __init__(self, costs: Costs, plan: Plan, trouble: Trouble, rng: np.random.Generator):
        self.costs, self.plan, self.trouble, self.rng = costs, plan, trouble, rng
        self.rows = plan.instances / plan.pieces
        self.own = [list(range(w, plan.pieces, plan.workers))[::-1] for w in range(plan.workers)]  # sent, not begun
        self.orphans: list[int] = []  # pieces whose worker died, for whoever is free
        self.running: dict[int, tuple[float, int]] = {}  # worker: since when, and piece
        self.absent: set[int] = set()
        self.done: set[int] = set()
        self.copied: set[int] = set()
        self.events: list[tuple[float, int, str, int, int]] = []
        self.turn = [0] * plan.workers  # of a worker's task, so that the end of one that it died of is not believed
        self.scheduler_free = plan.pieces * costs.dispatch
        self.again = self.count = 0

    def run(self) -> tuple[float, int]:
        for worker in range(self.plan.workers):
            self.live(worker, 0.0)
        last = 0.0
        while len(self.done) < self.plan.pieces:
            last, _, what, worker, turn = heapq.heappop(self.events)
            if what == "ends" and turn == self.turn[worker]:
                self.done.add(self.running.pop(worker)[1])
                self.hand_out(worker, last)
            elif what == "dies":
                self.lose(worker, last)
            elif what == "back":
                self.absent.discard(worker)
                self.live(worker, last)
        return last + self.plan.levels * self.costs.reduce, self.again

    def push(self, when: float, what: str, worker: int) -> None:
        self.count += 1  # events of one moment come in the order in which they were made
        heapq.heappush(self.events, (when, self.count, what, worker, self.turn[worker]))

    def live(self, worker: int, now: float) -> None:
        if self.trouble.failures > 0.0:
            self.push(now + self.rng.exponential(1.0 / self.trouble.failures), "dies", worker)
        self.hand_out(worker, now)

    def hand_out(self, worker: int, now: float) -> None:
        """Let a free worker begin its next piece, one of somebody who died, or a copy of one that takes long."""
        if self.own[worker]:
            piece, read = self.own[worker].pop(), not self.plan.kept
            start = max(now, (piece + 1) * self.costs.dispatch)
        else:
            other = self.of_others()
            if other is None:
                return
            piece, read = other, True
            self.scheduler_free = start = max(self.scheduler_free, now) + self.costs.dispatch
        seconds = self.rows * (self.costs.compute + (self.costs.read if read else 0.0))
        if self.trouble.spread > 0.0:
            seconds *= 1.0 + self.trouble.spread * self.rng.exponential()
        self.turn[worker] += 1
        self.running[worker] = (start, piece)
        self.push(start + seconds, "ends", worker)

    def of_others(self) -> int | None:
        """A piece that has lost its worker, or one that another worker has been at for longest."""
        if self.orphans:
            return self.orphans.pop()
        if not self.trouble.spare:
            return None
        late = [at for at in self.running.values() if at[1] not in self.done and at[1] not in self.copied]
        if not late:
            return None
        self.copied.add(min(late)[1])
        return min(late)[1]

    def lose(self, worker: int, now: float) -> None:
        """What it was at, and what it had not begun, is for others."""
        lost, self.own[worker] = self.own[worker], []
        _, piece = self.running.pop(worker, (0.0, -1))
        elsewhere = {at[1] for at in self.running.values()} | self.done
        if piece >= 0 and piece not in elsewhere:
            lost = [*lost, piece]
            self.copied.discard(piece)
            self.again += 1
        self.turn[worker] += 1
        self.orphans += lost
        self.absent.add(worker)
        self.push(now + self.trouble.absence, "back", worker)
        for idle in range(self.plan.workers):
            if self.orphans and idle not in self.running and idle not in self.absent:
                self.hand_out(idle, now)
