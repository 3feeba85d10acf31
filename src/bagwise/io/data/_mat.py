"""MATLAB files: LAMDA's (bags, targets) and the (features, labels, bag_ids) of the multi-instance benchmarks."""

from __future__ import annotations

import math
import struct
import warnings
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from bagwise.core.bags import Bags, group_rows
from bagwise.core.checks import memory_limit
from bagwise.core.columns import check_features
from bagwise.core.dataset import BagDataset
from bagwise.core.exceptions import FormatError, InputError
from bagwise.io.data._long import dense_features
from bagwise.io.files import PathLike, atomic_write, check_readable, damaged

BAGS, TARGETS, TARGET = "bags", "targets", "target"
CLASS_NAMES = ("class_names", "class_name")
FEATURES, LABELS, BAG_IDS = "features", "labels", "bag_ids"
CLASS = "positive"


def _load(path: Path, wanted: tuple[str, ...], optional: tuple[str, ...]) -> dict[str, Any]:
    from scipy.io import loadmat

    names = mat_variables(path)
    missing = [name for name in wanted if name not in names]
    if missing:
        raise FormatError(
            f"{path}: it has no variable {missing[0]!r} (variables found: {', '.join(names)[:200] or 'none'}); "
            f"expected {', '.join(wanted)}."
        )
    if len(set(names)) < len(names):
        raise FormatError(f"{path}: two variables have the same name; remove one.")
    with damaged(path, "MATLAB file"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        content = loadmat(path, variable_names=[*wanted, *optional], verify_compressed_data_integrity=True)
    if not all(name in content for name in wanted):
        raise FormatError(f"{path}: it is damaged, a variable cannot be found again; write it again.")
    return content


def read_lamda(path: PathLike) -> tuple[BagDataset, str]:
    """Read ``bags`` (a cell of (n_i, d) arrays) and ``targets`` ((c, n), 1 and -1); also a sentence about it."""
    path = Path(path)
    given = TARGET if TARGET in mat_variables(path) else TARGETS  # in the authors' own texts it is "target"
    content = _load(path, (BAGS, given), (*CLASS_NAMES, "bag_names", "feature_names"))
    cells = content[BAGS]
    if cells.dtype != object or cells.ndim != 2 or 1 not in cells.shape:
        raise FormatError(f"{path}: 'bags' is no list of cells; expected one cell per bag.")
    blocks: list[np.ndarray] = []
    for i, cell in enumerate(cells.ravel()):
        block = cell.toarray() if sp.issparse(cell) else np.asarray(cell)
        if block.ndim != 2 or block.dtype.kind not in "biuf" or 0 in block.shape:
            raise FormatError(f"{path}, bag {i + 1}: it has shape {block.shape}; expected instances by features.")
        if blocks and block.shape[1] != blocks[0].shape[1]:
            raise FormatError(
                f"{path}, bag {i + 1}: it has {block.shape[1]} features but bag 1 has {blocks[0].shape[1]}; correct it."
            )
        blocks.append(block.astype(np.float64))
    bags = Bags.from_list(blocks)
    check_features(
        bags.instances, None, lambda row: f"{path}, bag {int(np.searchsorted(bags.offsets, row, side='right'))}"
    )
    Y = _targets(content[given], len(bags), path)
    dataset = BagDataset(
        bags=bags,
        Y=Y,
        class_names=_texts(content, CLASS_NAMES, Y.shape[1], path) or [],
        bag_names=_texts(content, ("bag_names",), len(bags), path),
        feature_names=_texts(content, ("feature_names",), bags.n_features, path),
        name=path.stem,
    )
    return dataset, f"LAMDA's bags and targets, {len(bags)} bags and {Y.shape[1]} classes"


def _targets(targets: Any, n_bags: int, path: Path) -> np.ndarray:
    targets = targets.toarray() if sp.issparse(targets) else np.asarray(targets)
    if targets.ndim != 2 or targets.dtype.kind not in "biuf" or targets.shape[1] != n_bags or not len(targets):
        raise FormatError(f"{path}: 'targets' has shape {targets.shape}; expected classes by {n_bags} bags.")
    bad = np.argwhere(~np.isin(targets, (-1, 0, 1)))
    if len(bad):
        c, i = bad[0]
        raise FormatError(f"{path}, bag {i + 1}: target {c + 1} is {targets[c, i]}; expected 1 or -1.")
    return (targets.T == 1).astype(np.uint8)


def _texts(content: dict[str, Any], keys: tuple[str, ...], length: int, path: Path) -> list[str] | None:
    """A cell of texts, or a text matrix with a row for each name."""
    key = next((key for key in keys if key in content), None)
    if key is None:
        return None
    out = []
    for value in np.asarray(content[key]).ravel():
        item = value.ravel() if isinstance(value, np.ndarray) else [value]
        if len(item) > 1 or (len(item) == 1 and not isinstance(item[0], str)):
            raise FormatError(f"{path}: {key!r} is no list of texts; correct or remove it.")
        out.append(str(item[0]) if len(item) else "")
    if len(out) != length or (key in CLASS_NAMES and len(set(out)) < length):
        raise FormatError(
            f"{path}: {key!r} names {len(set(out))} different ones, expected {length}; correct or remove it."
        )
    return out


def write_lamda(dataset: BagDataset, path: PathLike) -> None:
    """Write LAMDA's form: class by bag targets of 1 and -1, and names of classes, bags and features as cells."""
    if dataset.Y is None:
        raise InputError("LAMDA's .mat needs bag labels, and the data set has none; use csv or parquet.")
    X, offsets = dense_features(dataset), dataset.bags.offsets
    cells = np.empty((len(dataset), 1), dtype=object)
    for b in range(len(dataset)):
        cells[b, 0] = np.asarray(X[offsets[b] : offsets[b + 1]], dtype=np.float64)
    content: dict[str, Any] = {
        BAGS: cells,
        TARGETS: 2.0 * dataset.Y.T - 1.0,
        "class_names": _cell_of_texts(dataset.class_names),
        "bag_names": _cell_of_texts(dataset.bag_names),
    }
    _save(content, dataset.feature_names, path)


def _cell_of_texts(names: list[Any]) -> np.ndarray:
    cells = np.empty((len(names), 1), dtype=object)
    cells[:, 0] = [str(name) for name in names]
    return cells


def _save(content: dict[str, Any], feature_names: list[str] | None, path: PathLike) -> None:
    from scipy.io import savemat

    if feature_names is not None:
        content["feature_names"] = _cell_of_texts(feature_names)
    with atomic_write(path) as file:
        savemat(file, content, do_compression=True)


def read_benchmark(path: PathLike) -> tuple[BagDataset, str]:
    """Read ``features`` (m, d), ``labels`` and ``bag_ids`` (a value for each instance); also a sentence about it.

    A bag is positive where one of its instances is. Labels that differ within a bag are instance labels.
    """
    path = Path(path)
    content = _load(path, (FEATURES, LABELS, BAG_IDS), ("feature_names",))
    features = content[FEATURES]
    X = sp.csr_matrix(features) if sp.issparse(features) else np.asarray(features)
    if X.ndim != 2 or X.dtype.kind not in "biuf" or 0 in X.shape:
        raise FormatError(f"{path}: 'features' has shape {X.shape} of {X.dtype}; expected instances by features.")
    labels = _flat(content[LABELS], LABELS, X.shape[0], path)
    ids = _flat(content[BAG_IDS], BAG_IDS, X.shape[0], path)
    bad = np.flatnonzero(~np.isin(labels, (-1, 0, 1)))
    if len(bad):
        raise FormatError(f"{path}, instance {bad[0] + 1}: its label is {labels[bad[0]]}; expected 1, 0 or -1.")
    values = np.asarray(X.data)[:, None] if sp.issparse(X) else X
    check_features(values, None, lambda row: f"{path}, instance {row + 1}")
    order, offsets, bag_names = group_rows(ids)
    positive = labels[order] == 1
    Y = np.logical_or.reduceat(positive, offsets[:-1])[:, None].astype(np.uint8)
    differs = (positive != np.repeat(Y[:, 0], np.diff(offsets)).astype(bool)).any()
    instance_labels = Bags(np.where(positive, 0, -1), offsets) if differs else None
    dataset = BagDataset(
        bags=Bags(X[order], offsets),
        Y=Y,
        class_names=[CLASS],
        instance_labels=instance_labels,
        bag_names=bag_names,
        feature_names=_texts(content, ("feature_names",), X.shape[1], path),
        name=path.stem,
    )
    return dataset, f"features, labels and bag_ids of {X.shape[0]} instances, one class"


def _flat(values: Any, name: str, length: int, path: Path) -> np.ndarray:
    values = (values.toarray() if sp.issparse(values) else np.asarray(values)).ravel()
    if values.dtype.kind not in "biuf" or len(values) != length or not np.all(values == np.floor(values)):
        raise FormatError(f"{path}: {name!r} has {len(values)} entries; expected {length} whole numbers.")
    if np.abs(values.astype(np.float64)).max(initial=0.0) >= 2.0**53:
        raise FormatError(f"{path}: {name!r} holds numbers beyond 2^53; number the bags 1, 2, 3, ...")
    return values.astype(np.int64)


def write_benchmark(dataset: BagDataset, path: PathLike) -> None:
    """Write features, labels (1 and -1) and bag_ids; the data must have exactly one class.

    Bags are numbered unless their names are distinct whole numbers.
    """
    if dataset.Y is None or dataset.n_classes != 1:
        raise InputError(
            f"A (features, labels, bag_ids) file holds exactly one class, and the data set has {dataset.n_classes}; "
            "use csv or parquet."
        )
    names = dataset.bag_names
    is_number = all(isinstance(name, (int, np.integer)) and abs(int(name)) < 2**53 for name in names)
    ids = np.array(names if is_number and len(set(names)) == len(names) else range(1, len(names) + 1), dtype=np.float64)
    labels = np.repeat(dataset.Y[:, 0], dataset.bags.sizes)
    if dataset.instance_labels is not None:
        labels = np.where(dataset.instance_labels.instances == 0, 1, 0)
        if not np.array_equal(np.logical_or.reduceat(labels == 1, dataset.bags.offsets[:-1]), dataset.Y[:, 0] == 1):
            labels = np.repeat(dataset.Y[:, 0], dataset.bags.sizes)
    content: dict[str, Any] = {
        FEATURES: dataset.bags.instances.astype(np.float64),
        LABELS: (2.0 * labels - 1.0)[None, :],
        BAG_IDS: ids[dataset.bags.bag_index][None, :],
    }
    _save(content, dataset.feature_names, path)


# ---------------------------------------------------------------------------------------------------------------------
# A walk through the file before scipy reads it. scipy allocates what the file claims; here every claim is held against
# the bytes that are there, compressed parts are unpacked only as far as the memory limit allows, and only numbers,
# sparse numbers, text and cells are let through.

_COMPRESSED, _MATRIX, _INT32, _UINT32 = 15, 14, 5, 6
_ITEM_SIZE = {1: 1, 2: 1, 3: 2, 4: 2, 5: 4, 6: 4, 7: 4, 9: 8, 12: 8, 13: 8, 16: 1, 17: 2, 18: 4}
_CELL, _CHAR, _SPARSE = 1, 4, 5
_NUMBERS = range(6, 16)
_COMPLEX = 0x0800
_MAX_DEPTH = 3
_HEADER = 128
_TAG = 8


class _Broken(Exception):
    """What is wrong with the bytes."""


class _Elements:
    """The elements of some bytes, one after another: their types, and their data."""

    def __init__(self, raw: memoryview, order: str, at: int = 0):
        self.raw, self.order, self.at = raw, order, at

    def take(self, padded: bool = True) -> tuple[int, memoryview]:
        if self.at + _TAG > len(self.raw):
            raise _Broken("it ends within an element")
        kind, size = struct.unpack_from(f"{self.order}II", self.raw, self.at)
        if kind >> 16:  # up to four bytes of data within the tag itself
            kind, size, start = kind & 0xFFFF, kind >> 16, self.at + 4
            if size > 4:
                raise _Broken("a short element claims more than four bytes")
            self.at += _TAG
        else:
            start = self.at + _TAG
            if size > len(self.raw) - start:
                raise _Broken(f"an element claims {size} bytes but {len(self.raw) - start} are left")
            self.at = start + size + (-size % 8 if padded else 0)
        return kind, self.raw[start : start + size]

    def integers(self, what: str, kinds: tuple[int, ...] = (_INT32,)) -> tuple[int, ...]:
        """The next element, which holds whole numbers of four bytes."""
        kind, data = self.take()
        if kind not in kinds or len(data) % 4:
            raise _Broken(f"{what} cannot be read")
        return struct.unpack(f"{self.order}{len(data) // 4}i", data)


def mat_variables(path: Path) -> list[str]:
    """Names of the variables of a MATLAB 5 file whose structure is sound; `FormatError` where it is not."""
    raw = check_readable(path).read_bytes()
    if raw[:8] == b"\x89HDF\r\n\x1a\n" or raw[:19] == b"MATLAB 7.3 MAT-file":
        raise FormatError(f"{path}: it is a MATLAB 7.3 file (HDF5), which is not read; save it with -v7 in MATLAB.")
    # a null byte among the first four makes scipy read it as version 4, past all that is checked here
    if len(raw) < _HEADER or raw[126:128] not in (b"IM", b"MI") or 0 in raw[:4]:
        raise FormatError(f"{path}: it is no MATLAB 5 file, or it is cut off; save it with -v7 in MATLAB.")
    order = "<" if raw[126:128] == b"IM" else ">"
    if struct.unpack_from(f"{order}H", raw, 124)[0] != 0x0100:
        raise FormatError(f"{path}: it is a MATLAB file of another version; save it with -v7 in MATLAB.")
    names: list[str] = []
    limit, elements = memory_limit(), _Elements(memoryview(raw), order, _HEADER)
    try:
        while elements.at < len(raw):
            kind, body = elements.take(padded=False)
            if kind == _COMPRESSED:
                stream = zlib.decompressobj()
                unpacked = stream.decompress(body, limit)
                if stream.unconsumed_tail or not stream.eof:
                    raise _Broken("a compressed part is cut off, or larger than the memory limit")
                limit -= len(unpacked)
                kind, body = _Elements(memoryview(unpacked), order).take(padded=False)
            if kind != _MATRIX:
                raise _Broken(f"an element of type {kind} stands where a variable should")
            names.append(_check_matrix(body, order, 0))
    except (_Broken, struct.error, zlib.error) as error:
        raise FormatError(f"{path}: it is damaged or cut off ({error}); write it again.") from error
    return names


def _check_matrix(raw: memoryview, order: str, depth: int) -> str:
    """Check one array; its name."""
    if not raw:
        return ""  # an empty cell
    if depth > _MAX_DEPTH:
        raise _Broken("cells are nested too deeply")
    elements = _Elements(raw, order)
    kind, data = elements.take()
    if kind != _UINT32 or len(data) != 8:
        raise _Broken("an array has no flags")
    flags = struct.unpack_from(f"{order}I", data)[0]
    array_class = flags & 0xFF
    shape = elements.integers("the dimensions of an array")
    if not 2 <= len(shape) <= 4 or min(shape) < 0:
        raise _Broken(f"an array has the shape {shape}")
    kind, data = elements.take()
    if kind not in (1, 2, 16):
        raise _Broken("an array has no name")
    name, count = bytes(data).decode("latin-1"), math.prod(shape)
    if array_class == _CELL:
        if count * _TAG > len(raw):
            raise _Broken(f"a cell array claims {count} cells but holds {len(raw)} bytes")
        for _ in range(count):
            kind, data = elements.take()
            if kind != _MATRIX:
                raise _Broken("a cell holds no array")
            _check_matrix(data, order, depth + 1)
    elif array_class == _SPARSE:
        _check_sparse(elements, shape)
    elif array_class in _NUMBERS or array_class == _CHAR:
        if flags & _COMPLEX:
            raise _Broken(f"the array {name!r} is complex")
        kind, data = elements.take()
        if kind not in _ITEM_SIZE:
            raise _Broken(f"the array {name!r} holds numbers of the unknown type {kind}")
        # text in UTF-8 may take several bytes a character
        if array_class in _NUMBERS and len(data) != count * _ITEM_SIZE[kind]:
            raise _Broken(f"the array {name!r} claims the shape {shape} but holds {len(data)} bytes")
        if array_class == _CHAR and count > len(data):
            raise _Broken(f"the text {name!r} claims {count} characters but holds {len(data)} bytes")
    else:
        raise _Broken(f"the variable {name!r} is a structure or an object, which is not read")
    return name


def _check_sparse(elements: _Elements, shape: tuple[int, ...]) -> None:
    """Row indices, column pointers and values, each checked, because what reads them trusts them."""
    if len(shape) != 2:
        raise _Broken("a sparse array is not two-dimensional")
    rows, pointers = (np.array(elements.integers("a sparse array", (_INT32, _UINT32))) for _ in range(2))
    kind, data = elements.take()
    if kind not in _ITEM_SIZE:
        raise _Broken("a sparse array holds numbers of an unknown type")
    if len(pointers) != shape[1] + 1 or pointers[0] != 0 or np.any(np.diff(pointers) < 0):
        raise _Broken("the columns of a sparse array do not fit")
    n_used = pointers[-1]
    is_inside = (rows[:n_used] >= 0) & (rows[:n_used] < shape[0])
    if n_used > min(len(rows), len(data) // _ITEM_SIZE[kind]) or not is_inside.all():
        raise _Broken("the rows of a sparse array do not fit")
