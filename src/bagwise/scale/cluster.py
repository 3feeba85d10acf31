"""The pieces of a source on the workers of a Dask cluster; the one file that imports it (extra "dask")."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from bagwise._version import __version__
from bagwise.core.bags import Bags
from bagwise.core.exceptions import BagwiseError, InputError
from bagwise.scale._engine import Engine, Items, Make, Sums, Task, Training, ready_bags, tree_sum
from bagwise.scale._pieces import Piece, read_pieces

ANSWER_SECONDS = 10.0  # within which a scheduler answers, or is not there
SEND_SECONDS = 0.0005  # that messages to the scheduler wait for others; Dask's ten milliseconds are half an evaluation
TASKS = 4  # of a thread: fewer, and the threads do not end together; more, and the scheduler is busy
NEIGHBOURS = 16  # sums that one task adds, by pairs: a power of two, so that the tree is that of pairs alone
LOCAL = re.compile(r"local(?::([0-9]+))?")


class ClusterError(BagwiseError):
    """The cluster is gone, or its workers cannot do the work."""


def _import_distributed() -> Any:
    try:
        import distributed
    except ImportError as error:
        raise ImportError("Fits on a cluster need Dask; install bagwise[dask].") from error
    return distributed


@contextmanager
def open_cluster(address: str) -> Iterator[Any]:
    """A client of the cluster at an address such as tcp://host:8786, or of workers of this machine: local:4.

    Workers of this machine are processes of one thread each, and end with the block.
    """
    distributed = _import_distributed()
    local = LOCAL.fullmatch(address)
    if local:
        n_workers = int(local[1]) if local[1] else os.cpu_count() or 1
        if n_workers < 1:
            raise InputError(f"--cluster {address}: a cluster has at least one worker.")
        with (
            distributed.LocalCluster(
                n_workers=n_workers, threads_per_worker=1, host="127.0.0.1", dashboard_address="127.0.0.1:0"
            ) as cluster,
            distributed.Client(cluster) as client,
        ):
            yield client
        return
    try:
        client = distributed.Client(address, timeout=ANSWER_SECONDS)
    except (OSError, TimeoutError, ValueError) as error:
        raise ClusterError(
            f"No Dask scheduler answers at {address} ({str(error)[:200]}); start one (dask scheduler), or use "
            "--cluster local:4."
        ) from error
    with client:
        yield client


def check_workers(client: Any) -> None:
    """There are workers, and all of them have this version of bagwise."""

    def version() -> str | None:  # inside, so that it is sent as it is, to workers that have no bagwise too
        try:
            import bagwise

            return bagwise.__version__
        except ImportError:
            return None

    try:
        versions = client.run(version)
    except (OSError, TimeoutError) as error:
        raise ClusterError(f"The workers of the cluster do not answer ({error}); look at its scheduler.") from error
    if not versions:
        raise ClusterError(
            f"The cluster at {client.scheduler.address} has no workers; start some (dask worker ADDRESS)."
        )
    for worker, version in versions.items():
        if version != __version__:
            has = "no bagwise" if version is None else f"bagwise {version}"
            raise ClusterError(f"The worker {worker} has {has}, here it is {__version__}; install the same everywhere.")


def check_sees(client: Any, folder: str) -> None:
    """All workers find a folder, under the same path, on storage that they share."""
    for worker, there in client.run(os.path.isdir, folder).items():
        if not there:
            raise ClusterError(
                f"The worker {worker} does not see {folder}; put it on storage that all workers share, under one path."
            )


def each_done(client: Any, function: Callable[[Any], Any], items: Sequence[Any]) -> Iterator[tuple[Any, Any]]:
    """Each item and what the function gave for it on some worker, as soon as it is there.

    What a worker that was lost was working on is done by another one.
    """
    distributed = _import_distributed()
    with _cluster_errors("The same command goes on from what is finished."):
        keys = {f"bagwise-each-{uuid4()}": item for item in items}
        futures = client.map(function, items, key=list(keys), pure=False)
        waiting = distributed.as_completed(futures)
        del futures  # what was fetched is forgotten by the cluster
        for future in waiting:
            yield keys[future.key], future.result()


class OnCluster(Engine):
    """Workers read the pieces themselves, from storage that they share, and keep them as the learner sees them.

    A task has a group of neighbouring pieces, and every thread as many groups as any other. What a worker that was lost
    held is read again by another one.
    """

    def __init__(self, training: Training, client: Any, numbers: Sequence[Sequence[int]], ready: Sequence[Any]):
        self.training, self.client, self._numbers, self._ready = training, client, numbers, ready

    @classmethod
    def of(cls, training: Training, client: Any, tasks: int = TASKS) -> OnCluster:
        """`tasks`: of an evaluation, that every thread has at least, where there are as many pieces."""
        check_workers(client)
        client.scheduler_comm.interval = SEND_SECONDS
        source = training.source
        with _cluster_errors():
            used = [i for i in range(source.n_pieces) if training.n_used(i)]
            threads = [worker for worker, n_threads in client.nthreads().items() for _ in range(n_threads)]
            size = _group_size(len(used), len(threads), tasks)
            numbers = [used[i : i + size] for i in range(0, len(used), size)]
            ready = [
                _submit(
                    client,
                    "read",
                    _read,
                    [(source.describe(i), training.used_of(i)) for i in group],
                    workers=[threads[number * len(threads) // len(numbers)]],
                    allow_other_workers=True,
                )
                for number, group in enumerate(numbers)
            ]
        return cls(training, client, numbers, ready)

    def then(self, step: Any) -> OnCluster:
        with _cluster_errors():
            ready = [_submit(self.client, "step", _apply, step, group) for group in self._ready]
        return OnCluster(self.training, self.client, self._numbers, ready)

    def items(self, make: Make, details: Sequence[Any]) -> _ClusterItems:
        own = [[details[i] for i in group] for group in self._numbers]
        with _cluster_errors():
            made = [
                _submit(self.client, "make", _make, make, group, of_group)
                for group, of_group in zip(self._ready, own, strict=True)
            ]
        return _ClusterItems(self.client, made)


def _group_size(n_pieces: int, n_threads: int, tasks: int = TASKS) -> int:
    """Pieces of a task: as many as leave every thread its tasks, each of which costs the scheduler a millisecond.

    A power of two, so that the tree of sums is that of pairs alone, whatever the number of workers.
    """
    size = 1
    while n_pieces >= 2 * size * tasks * n_threads:
        size *= 2
    return size


@dataclass(frozen=True)
class _ClusterItems(Items):
    """Kept by the workers."""

    client: Any
    made: list[Any]

    def sum_of(self, task: Task) -> Sums:
        """One task a group, and a tree of sums of neighbours, whose order does not depend on the workers."""
        client = self.client
        with _cluster_errors():
            keys = [f"bagwise-evaluate-{uuid4()}" for _ in self.made]
            sums = client.map(_Each(task), self.made, key=keys, pure=False)  # one message, not one a group
            while len(sums) > NEIGHBOURS:
                groups = [sums[i : i + NEIGHBOURS] for i in range(0, len(sums), NEIGHBOURS)]
                sums = [_submit(client, "add", _add, task, group) for group in groups]
            found = _add(task, client.gather(sums))  # the last few here: workers would send them to one another first
        assert found is not None
        return found


@dataclass(frozen=True)
class _Each:
    """A task of all items of a group."""

    task: Task

    def __call__(self, items: Sequence[Any]) -> Sums | None:
        return _add(self.task, [None if item is None else self.task(item) for item in items])

    def __repr__(self) -> str:
        return repr(self.task)


def _add(task: Task, sums: Sequence[Sums | None]) -> Sums | None:
    """Pieces that are left out keep their place in the tree, so that its shape does not depend on the groups."""

    def add(one: Sums | None, other: Sums | None) -> Sums | None:
        return other if one is None else one if other is None else task.join(one, other)

    return tree_sum(sums, add)


@contextmanager
def _cluster_errors(
    cure: str = "A fit with a checkpoint (--checkpoint) goes on from there.",
) -> Iterator[None]:
    """What is wrong with the cluster, as one error."""
    distributed = _import_distributed()
    try:
        yield
    except (distributed.CancelledError, CancelledError, distributed.comm.CommClosedError, TimeoutError) as error:
        raise ClusterError(
            f"The scheduler of the cluster is gone ({type(error).__name__}); start it again. {cure}"
        ) from error
    except distributed.scheduler.KilledWorker as error:
        raise ClusterError(
            f"Several workers died of the same piece ({str(error)[:200]}); give them more memory, or make the pieces "
            "smaller (--memory)."
        ) from error


def _submit(client: Any, name: str, function: Callable[..., Any], *arguments: Any, **where: Any) -> Any:
    """The future of a call; named, since the text of a function that holds arrays is long."""
    return client.submit(function, *arguments, key=f"bagwise-{name}-{uuid4()}", pure=False, **where)


def _read(group: Sequence[tuple[Piece, Any]]) -> list[Bags]:
    found = read_pieces([piece for piece, _ in group])
    return [ready_bags(piece, bags, used, ()) for (piece, used), bags in zip(group, found, strict=True)]


def _apply(step: Any, group: Sequence[Bags]) -> list[Bags]:
    return [step.transform(bags) for bags in group]


def _make(make: Make, group: Sequence[Bags], details: Sequence[Any]) -> list[Any]:
    pairs = zip(group, details, strict=True)
    return [None if detail is None else make(bags, detail) for bags, detail in pairs]
