"""Pieces of a source: ranges of rows of files, or bags in memory; what is needed to read one is in itself."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from queue import Queue
from typing import Any, TypeVar

import numpy as np

from bagwise.core.bags import Bags
from bagwise.core.dataset import BagDataset
from bagwise.core.exceptions import FormatError
from bagwise.io.data.outline import Fingerprint
from bagwise.io.data.parquet import ParquetBags

T = TypeVar("T")
_END = object()


@dataclass(frozen=True)
class FilePiece:
    """A range of rows of a parquet file that holds whole bags; it says of itself all that is needed to read it.

    Attributes
    ----------
    path : str
    fingerprint : Fingerprint
        What the file was when the ranges were made.
    options : tuple of (name, value)
        Of `ParquetBags`.
    class_names : tuple or None
    dtype : str
        Of the instances.
    number, n_pieces : int
        Which piece of how many this is.
    start, stop : int
        Rows.
    sizes : (n,) instances of each bag
    nested : bool
        Whether a row is a bag, not an instance.
    """

    path: str
    fingerprint: Fingerprint
    options: tuple[tuple[str, Any], ...]
    class_names: tuple[Any, ...] | None
    dtype: str
    start: int
    stop: int
    sizes: np.ndarray
    nested: bool
    number: int = 0
    n_pieces: int = 1

    def __str__(self) -> str:
        return f"{self.path}, piece {self.number + 1} of {self.n_pieces} (rows {self.start + 1} to {self.stop})"

    def dataset(self) -> BagDataset:
        """Everything that the file says of these bags."""
        with self._reading():
            dataset = self._open().dataset(self.start, self.stop)
        return replace(dataset, bags=self._converted(dataset.bags))

    def part(self, first: int, last: int) -> FilePiece:
        """Some of its bags, that follow each other."""
        rows = np.ones(len(self.sizes), dtype=np.int64) if self.nested else self.sizes
        start = self.start + int(rows[:first].sum())
        return replace(self, start=start, stop=start + int(rows[first:last].sum()), sizes=self.sizes[first:last])

    def follows(self, other: FilePiece) -> bool:
        """Whether it begins where another piece ends."""
        return other.path == self.path and other.stop == self.start

    def _open(self) -> ParquetBags:
        try:
            now = Fingerprint.of(self.path)
        except OSError as error:
            raise FormatError(
                f"{self}: it was there at the first pass and cannot be read any more ({error.strerror}); put it back "
                "and start again."
            ) from error
        if now != self.fingerprint:
            raise FormatError(
                f"{self}: the file changed since the first pass ({self.fingerprint.size} bytes then, {now.size} now); "
                "leave the data alone while it is learned from, and start again."
            )
        file = ParquetBags(self.path, **dict(self.options))
        if self.class_names is not None:
            file.class_names = list(self.class_names)
        return file

    def _converted(self, bags: Bags) -> Bags:
        if bags.instances.dtype == self.dtype:
            return bags
        return Bags(bags.instances.astype(self.dtype), bags.offsets)

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """Errors that name the piece."""
        try:
            yield
        except FormatError as error:
            if str(self) in str(error):
                raise
            raise FormatError(f"{self}: it cannot be read: {error}") from error


@dataclass(frozen=True)
class MemoryPiece:
    """Bags that are in memory anyway."""

    piece: BagDataset
    number: int = 0
    n_pieces: int = 1

    def __str__(self) -> str:
        return f"{self.piece.name}, piece {self.number + 1} of {self.n_pieces}"

    @property
    def sizes(self) -> np.ndarray:
        return self.piece.bags.sizes

    def part(self, first: int, last: int) -> MemoryPiece:
        """Some of its bags, that follow each other."""
        return replace(self, piece=self.piece[first:last])

    def dataset(self) -> BagDataset:
        return self.piece


Piece = FilePiece | MemoryPiece


def read_pieces(pieces: Sequence[Piece]) -> Iterator[Bags]:
    """The bags of pieces one after another; of pieces that follow each other in a file the file is read once."""
    at = 0
    while at < len(pieces):
        first = pieces[at]
        at += 1
        if isinstance(first, MemoryPiece):
            yield first.piece.bags
            continue
        together = [first]
        while at < len(pieces) and isinstance(other := pieces[at], FilePiece) and other.follows(together[-1]):
            together.append(other)
            at += 1
        with first._reading():
            blocks = first._open().bags(first.start, [(piece.stop, piece.sizes) for piece in together])
        for piece in together:
            with piece._reading():
                bags = next(blocks)
            yield piece._converted(bags)


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
