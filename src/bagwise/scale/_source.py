"""`BagSource`: pieces of whole bags, read as often as they are needed."""

from __future__ import annotations

import glob
import os
import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from bagwise.core.bags import Bags, cut_bags, offsets_of
from bagwise.core.checks import memory_limit, parse_memory
from bagwise.core.dataset import BagDataset
from bagwise.core.exceptions import FormatError, InputError
from bagwise.io.checkpoint import array_fingerprint
from bagwise.io.data import dense_features, sorted_names
from bagwise.io.data.formats import PARQUET, guess_format, read_described, write_dataset
from bagwise.io.data.outline import FileOutline, Fingerprint, check_distinct
from bagwise.io.data.parquet import ParquetBags
from bagwise.io.files import NO_ROOM, PathLike, check_readable, printable
from bagwise.scale._pieces import FilePiece, MemoryPiece, Piece, read_ahead

ENDINGS = (".parquet", ".pq")
PIECE_BYTES = 64 * 2**20  # of features and scores; larger pieces save nothing any more
# Pieces of features that a fit may hold in one form or another: read, scaled, scored, the next one.
SHARE_OF_MEMORY = 12
PIECE_BAGS = 1000
SCORE_BYTES = 8  # of an instance for each class


@dataclass(eq=False, repr=False)
class BagSource:
    """Pieces of whole bags that can be gone through as often as needed, from files that may exceed the memory.

    Made by `from_parquet`, `from_file` or `from_dataset`. Sizes, labels and the order of the bags are in memory; their
    instances are read piece by piece.

    Attributes
    ----------
    n_bags, n_instances, n_features : int
    class_names : list
    feature_names : list of str or None
    name : str
    offsets : (n_bags + 1,) int64
        Where each bag would begin in one long table of instances.
    Y : (n_bags, c) uint8 array or None
    labelled : (n_bags,) bool
    bag_starts : (n_pieces + 1,) int64
        Number of the first bag of each piece, and of all.
    memory : int
        Bytes that a fit may take.
    identity : function
        Gives plain data that differs where the source does.

    Examples
    --------
    >>> from bagwise.datasets import make_gaussian_bags
    >>> from bagwise.scale import BagSource
    >>> source = BagSource.from_dataset(make_gaussian_bags(n_bags=60, random_state=0), piece_bags=25)
    >>> source.n_bags, [len(piece) for piece in source.pieces()]
    (60, [25, 25, 10])
    """

    _pieces: list[Any]
    _: KW_ONLY
    n_features: int
    dtype: np.dtype
    class_names: list[Any]
    feature_names: list[str] | None
    Y: np.ndarray | None
    labelled: np.ndarray
    known: Callable[[], np.ndarray] | None
    memory: int
    name: str
    identity: Callable[[], Any]
    held: Any = None  # what goes with the last source that has it, such as a folder

    def __post_init__(self) -> None:
        pieces: list[Piece] = [replace(p, number=i, n_pieces=len(self._pieces)) for i, p in enumerate(self._pieces)]
        self._pieces = pieces
        self.offsets = offsets_of(np.concatenate([piece.sizes for piece in pieces]))
        self.bag_starts = offsets_of([len(piece.sizes) for piece in pieces])

    # -- from where ---------------------------------------------------------------------------------------------------

    @classmethod
    def from_parquet(cls, paths: Any, *, memory: int | str | None = None, **options: Any) -> BagSource:
        """From parquet files of one kind: row groups are pieces, joined or cut between bags to a bounded size.

        A first pass reads the columns of bags and labels. All rows of a bag stand one after another in one file.

        Parameters
        ----------
        paths : str, path or list of them
            Files, folders (all parquet files in them) and patterns such as ``survey/*.parquet``.
        memory : int, str or None
            What a fit may take for pieces, in bytes or as "2GB"; by default half of the machine's memory.
        **options
            `bag`, `labels`, `instance_label` and `features`: headings of columns, where they are not the usual ones.
        """
        most = memory_limit() if memory is None else parse_memory(memory)
        found = _find_files(paths)
        fingerprints = [Fingerprint.of(path) for path in found]
        files = [ParquetBags(path, **options) for path in found]
        first = files[0]
        for file in files[1:]:
            _check_same_columns(first, file)
        outlines = [file.outline() for file in files]
        for file, outline in zip(files, outlines, strict=True):  # a piece holds one bag at least, however large
            file.check_largest(outline)
        check_distinct(files, outlines)
        class_names, Y = _join_labels(files, outlines)
        n_features, dtype = first.n_features, np.result_type(*(file.dtype for file in files))
        n_rows = _piece_rows(most, n_features * dtype.itemsize + SCORE_BYTES * len(class_names))
        pieces = list[FilePiece]()
        for file, outline, known_as in zip(files, outlines, fingerprints, strict=True):
            rows = np.append(outline.first_rows, file.n_rows)
            # row groups are joined while they fit; one that is too large is cut between bags
            groups = np.unique(np.searchsorted(outline.first_rows, file.group_rows))  # bags that begin in each
            for start, stop in cut_bags(offsets_of(outline.sizes), n_rows, groups):
                pieces.append(
                    FilePiece(
                        path=str(file.path),
                        fingerprint=known_as,
                        options=tuple(options.items()),
                        class_names=None if Y is None and not class_names else tuple(class_names),
                        dtype=dtype.str,
                        start=int(rows[start]),
                        stop=int(rows[stop]),
                        sizes=outline.sizes[start:stop],
                        nested=file.nested,
                    )
                )
        counts = [int(outline.sizes.sum()) for outline in outlines]

        def known() -> np.ndarray:
            return np.concatenate([file.known(class_names, n) for file, n in zip(files, counts, strict=True)])

        return cls(
            pieces,
            n_features=n_features,
            dtype=dtype,
            class_names=class_names,
            feature_names=first.feature_names,
            Y=Y,
            labelled=np.concatenate([outline.labelled for outline in outlines]),
            known=known if first.has_instance_labels else None,
            memory=most,
            name=first.path.stem,
            identity=lambda: [(str(path), *vars(f).values()) for path, f in zip(found, fingerprints, strict=True)],
        )

    @classmethod
    def from_dataset(cls, dataset: BagDataset, *, piece_bags: int = PIECE_BAGS) -> BagSource:
        """From bags in memory, in pieces of so many bags."""
        if piece_bags < 1:
            raise InputError(f"piece_bags={piece_bags}; a piece holds at least one bag.")
        starts = [*range(0, len(dataset), piece_bags), len(dataset)]
        labels = dataset.instance_labels
        return cls(
            [MemoryPiece(dataset[a:b]) for a, b in pairwise(starts)],
            n_features=dataset.bags.n_features,
            dtype=dataset.bags.instances.dtype,
            class_names=list(dataset.class_names),
            feature_names=dataset.feature_names,
            Y=dataset.Y,
            labelled=dataset.labelled,
            known=None if labels is None else lambda: labels.instances,
            memory=memory_limit(),
            name=dataset.name,
            identity=lambda: _identity(dataset),
        )

    @classmethod
    def from_file(
        cls,
        path: PathLike,
        *,
        scratch: PathLike | None = None,
        memory: int | str | None = None,
        format: str | None = None,
        **options: Any,
    ) -> BagSource:
        """From a file of any format: parquet as it is, others by one conversion to parquet.

        That conversion reads the file whole once; the fit then goes by pieces.

        Parameters
        ----------
        path : str or path
        scratch : folder or None
            Where the parquet file is written, and kept; by default a temporary folder that goes with the source.
        memory : int, str or None
            As of `from_parquet`.
        format, **options
            As of `bagwise.read_dataset`.
        """
        path = check_readable(path)
        name = guess_format(path) if format is None else format
        if name in PARQUET and "labels_from" not in options:
            return cls.from_parquet(path, memory=memory, **options)
        dataset, _ = read_described(path, name, **options)
        folder = Path(tempfile.mkdtemp(prefix="bagwise-")) if scratch is None else Path(scratch)
        try:
            target = folder / f"{printable(path.stem)}.parquet"  # pyarrow takes UTF-8 names only
            _convert(dataset, target)
            source = cls.from_parquet(target, memory=memory)
        except BaseException:
            if scratch is None:
                shutil.rmtree(folder, ignore_errors=True)
            raise
        if scratch is None:
            source.held = _Held()
            weakref.finalize(source.held, shutil.rmtree, folder, ignore_errors=True)
        return source

    # -- what it is ---------------------------------------------------------------------------------------------------

    @property
    def n_bags(self) -> int:
        return len(self.offsets) - 1

    @property
    def n_instances(self) -> int:
        return int(self.offsets[-1])

    @property
    def n_pieces(self) -> int:
        return len(self._pieces)

    @property
    def n_bytes(self) -> int:
        """Of all instances, in memory."""
        return self.n_instances * self.n_features * self.dtype.itemsize

    @property
    def has_instance_labels(self) -> bool:
        return self.known is not None

    def __len__(self) -> int:
        return self.n_bags

    def __repr__(self) -> str:
        return (
            f"BagSource({self.name!r}: {self.n_bags} bags, {self.n_instances} instances of {self.n_features} features, "
            f"{self.n_pieces} piece(s))"
        )

    # -- reading ------------------------------------------------------------------------------------------------------

    def pieces(self) -> Iterator[BagDataset]:
        """All pieces in order, each a data set with the same classes; the next is read while this one is used."""
        return read_ahead(piece.dataset() for piece in self._pieces)

    def piece(self, number: int) -> BagDataset:
        """One of the pieces."""
        return self.describe(number).dataset()

    def describe(self, number: int) -> Piece:
        """What a piece is and how it is read: small where it is of a file, and can be sent to another machine."""
        if not 0 <= number < self.n_pieces:
            raise InputError(f"There is no piece {number}; there are {self.n_pieces}, from 0 on.")
        return self._pieces[number]

    def finer(self, n_columns: int) -> BagSource:
        """The same source in pieces that keep within its memory where instances have so many columns, or itself."""
        most = _piece_rows(self.memory, n_columns * self.dtype.itemsize + SCORE_BYTES * len(self.class_names))
        parts = [
            piece.part(first, last) for piece in self._pieces for first, last in cut_bags(offsets_of(piece.sizes), most)
        ]
        return self if len(parts) == self.n_pieces else replace(self, _pieces=parts)

    def labelled_only(self, index: np.ndarray) -> BagSource:
        """The same source, of which only the bags with these numbers count as labelled: what is learned from."""
        labelled = np.zeros(self.n_bags, dtype=bool)
        labelled[index] = True
        return replace(self, labelled=labelled)

    def instance_labels(self) -> np.ndarray:
        """(m,) class index of every instance, -1 where unknown."""
        if self.known is None:
            raise InputError(f"{self.name} has no instance labels.")
        return self.known()


class _Held:
    """A temporary folder goes when this does."""


def _identity(dataset: BagDataset) -> list[str]:
    X = dataset.bags.instances
    parts = [X.data, X.indices, X.indptr] if sp.issparse(X) else [X]
    labels = [] if dataset.Y is None else [dataset.Y, dataset.labelled]
    known = [] if dataset.instance_labels is None else [dataset.instance_labels.instances]
    return [array_fingerprint(*parts, dataset.bags.offsets, *labels, *known), *map(repr, dataset.class_names)]


def _convert(dataset: BagDataset, target: Path) -> None:
    """Write the scratch file; an error says how much room it needs."""
    X = dense_features(dataset)
    needed = int(1.1 * X.nbytes) + 64 * len(X)
    dense = replace(dataset, bags=Bags(X, dataset.bags.offsets))
    cure = f"make room for about {needed / 2**20:.0f} MB, or name another folder (scratch)"
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(target.parent).free
        if free < needed:
            raise InputError(f"The scratch folder {target.parent} has {free / 2**20:.0f} MB left; {cure}.")
        write_dataset(dense, target, "parquet")
    except OSError as error:
        if error.errno in NO_ROOM:
            raise InputError(f"The scratch folder {target.parent} is full; {cure}.") from error
        raise InputError(f"The scratch folder {target.parent} cannot be used ({error.strerror}); {cure}.") from error


def _piece_rows(memory: int, row_bytes: int) -> int:
    """Instances in a piece, each of so many bytes of features and scores, so that a fit keeps within the memory."""
    return max(min(memory // SHARE_OF_MEMORY, PIECE_BYTES) // max(row_bytes, 1), 1)


def _find_files(paths: Any) -> list[Path]:
    """The parquet files that are meant: of names, folders and patterns, each once, in order."""
    given = [paths] if isinstance(paths, (str, os.PathLike)) else list(paths)
    found: list[Path] = []
    for one in given:
        path = Path(one)
        if path.is_dir():
            inside = sorted(file for file in path.iterdir() if file.suffix.casefold() in ENDINGS)
            if not inside:
                raise FormatError(f"{path}: the folder holds no parquet file; name the files, or convert them first.")
        elif not path.exists() and glob.has_magic(str(one)):
            inside = sorted(Path(file) for file in glob.glob(str(one), recursive=True))
            if not inside:
                raise FormatError(f"{one}: no file has such a name; check the pattern.")
        else:
            inside = [path]
        found += map(check_readable, inside)
    if not found:
        raise InputError("No file was named; give at least one parquet file.")
    return list(dict.fromkeys(found))


def _check_same_columns(first: ParquetBags, file: ParquetBags) -> None:
    """All files of a source have the same columns of the same kinds, in whatever order those of features stand."""
    kinds = [
        {h: str(f.schema.field(h).type) for i, h in enumerate(f.headings) if i not in f.roles.features}
        for f in (first, file)
    ]
    names = [f.feature_names for f in (first, file)]
    if first.nested == file.nested and kinds[0] == kinds[1] and names[0] == names[1]:
        return
    if first.nested != file.nested:
        what = f"it has {'nested' if file.nested else 'long'} rows, the first file has not"
    else:
        own, others = ({*kind, *(name or ())} for kind, name in zip(kinds, names, strict=True))
        differing = sorted(own ^ others) or sorted(h for h in kinds[0] if kinds[0][h] != kinds[1].get(h)) or ["order"]
        what = f"its columns differ from those of the first file, {first.path}, in {', '.join(differing[:5])}"
    raise FormatError(f"{file.path}: {what}; all files of one source have the same columns.")


def _join_labels(files: Sequence[ParquetBags], outlines: Sequence[FileOutline]) -> tuple[list[Any], np.ndarray | None]:
    """Classes of all files in one order, and the labels of all bags."""
    named = [file.class_names for file in files]
    for file, names in zip(files, named, strict=True):
        if (names is None) != (named[0] is None) or set(names or ()) != set(named[0] or ()):
            lost = sorted(map(str, set(names or ()) ^ set(named[0] or ())))[:5]
            raise FormatError(
                f"{file.path}: its metadata names other classes than those of {files[0].path} ({', '.join(lost)}); "
                "make the files with the same classes."
            )
    if files[0].roles.one_hot:
        class_names = list(outlines[0].labels)
    elif named[0] is not None:
        class_names = list(named[0])
    else:
        class_names = sorted_names(label for outline in outlines for label in outline.labels)
    if not files[0].has_labels:
        return class_names, None
    column = {label: c for c, label in enumerate(class_names)}
    Y = np.zeros((sum(len(outline.sizes) for outline in outlines), len(class_names)), dtype=np.uint8)
    first = 0
    for outline in outlines:
        code = np.array([column[label] for label in outline.labels], dtype=np.int64)
        bag = first + np.repeat(np.arange(len(outline.sizes)), outline.n_listed)
        Y[bag, code[outline.listed]] = 1
        first += len(outline.sizes)
    return class_names, Y
