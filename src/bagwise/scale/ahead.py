"""What an iterator gives, made one ahead by a thread; and sums of many things in a fixed order."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from queue import Queue
from typing import Any, TypeVar

T = TypeVar("T")
_END = object()


def read_ahead(items: Iterable[T]) -> Iterator[T]:
    """The items, of which a thread makes the next one while this one is worked on: two are in memory, never three.

    An exception of the iterator comes out here. Where nobody asks any more, the thread ends after the item it is at.
    """
    made: Queue[tuple[Any, BaseException | None]] = Queue()
    wanted, stopped = threading.Semaphore(1), threading.Event()

    def work() -> None:
        iterator = iter(items)
        try:
            while True:
                wanted.acquire()
                if stopped.is_set():
                    return
                item = next(iterator, _END)
                made.put((item, None))
                if item is _END:
                    return
                del item  # it is the other's now
        except BaseException as error:
            made.put((_END, error))

    thread = threading.Thread(target=work, name="bagwise-read-ahead", daemon=True)
    thread.start()
    try:
        while True:
            item, error = made.get()
            if error is not None:
                raise error
            if item is _END:
                return
            wanted.release()
            yield item
            del item
    finally:
        stopped.set()
        wanted.release()
        thread.join()


def tree_sum(items: Iterable[T], add: Callable[[T, T], T]) -> T | None:
    """The sum of all items, always added in the same order, a balanced tree; a few partial sums are in memory.

    Neighbours are added, then neighbouring sums, and so on, as if all items were at hand; None of no item.
    """
    partial: list[tuple[int, T]] = []  # height of a whole subtree, and its sum
    for item in items:
        height = 0
        while partial and partial[-1][0] == height:
            item = add(partial.pop()[1], item)
            height += 1
        partial.append((height, item))
    total = None
    while partial:
        last = partial.pop()[1]
        total = last if total is None else add(last, total)
    return total
