"""Pieces of a source: ranges of rows of files, or bags in memory; what is needed to read one is in itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bagwise.core.bags import Bags
from bagwise.core.dataset import BagDataset
from bagwise.core.exceptions import FormatError
from bagwise.io.data.outline import Fingerprint
from bagwise.io.data.parquet import ParquetBags


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
    number: int
    n_pieces: int
    start: int
    stop: int
    sizes: np.ndarray
    nested: bool

    def __str__(self) -> str:
        return f"{self.path}, piece {self.number + 1} of {self.n_pieces} (rows {self.start + 1} to {self.stop})"

    def bags(self) -> Bags:
        """The instances alone."""
        return next(read_pieces([self]))

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

    def numbered(self, number: int, n_pieces: int) -> FilePiece:
        return replace(self, number=number, n_pieces=n_pieces)

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
    number: int
    n_pieces: int

    def __str__(self) -> str:
        return f"{self.piece.name}, piece {self.number + 1} of {self.n_pieces}"

    @property
    def sizes(self) -> np.ndarray:
        return self.piece.bags.sizes

    def part(self, first: int, last: int) -> MemoryPiece:
        """Some of its bags, that follow each other."""
        return replace(self, piece=self.piece[first:last])

    def numbered(self, number: int, n_pieces: int) -> MemoryPiece:
        return replace(self, number=number, n_pieces=n_pieces)

    def bags(self) -> Bags:
        return self.piece.bags

    def dataset(self) -> BagDataset:
        return self.piece


Piece = FilePiece | MemoryPiece


def read_pieces(pieces: Sequence[Piece]) -> Iterator[Bags]:
    """The bags of pieces one after another; of pieces that follow each other in a file the file is read once."""
    at = 0
    while at < len(pieces):
        first, stop = pieces[at], at + 1
        if isinstance(first, MemoryPiece):
            yield first.bags()
            at += 1
            continue
        together = [first]
        while stop < len(pieces) and _follows(together[-1], pieces[stop]):
            together.append(pieces[stop])  # type: ignore[arg-type]
            stop += 1
        with first._reading():
            blocks = first._open().bags(first.start, [(piece.stop, piece.sizes) for piece in together])
        for piece in together:
            with piece._reading():
                bags = next(blocks)
            yield piece._converted(bags)
        at = stop


def _follows(one: FilePiece, other: Piece) -> bool:
    return isinstance(other, FilePiece) and other.path == one.path and other.start == one.stop
