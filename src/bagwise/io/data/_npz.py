"""numpy's ``.npz``: reading a data set without trusting what the file says about itself, and writing one."""

from __future__ import annotations

import math
import zipfile
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bagwise.core.bags import Bags, as_indicator, offsets_of
from bagwise.core.checks import check_allocation
from bagwise.core.dataset import BagDataset
from bagwise.core.exceptions import FormatError, InputError
from bagwise.core.validation import check_finite
from bagwise.io.archive import npy_header
from bagwise.io.data._long import dense_features, has_names, has_unlabelled, is_int64
from bagwise.io.files import PathLike, atomic_write, check_readable, damaged

_REQUIRED = ("X", "bag")
_OPTIONAL = ("Y", "y", "class_names", "feature_names", "bag_names", "labelled")
_HOW_TO_WRITE = "write it with numpy.savez_compressed(path, X=X, bag=bag, Y=Y)"
_DAMAGED = "the file is damaged or was cut off; copy or download it again"

_MAX_DEFLATE_RATIO = 1100  # deflate cannot shrink anything more than 1032-fold

_INTEGERS = "iu"
_NUMBERS = "biuf"
_NAMES = "Uiu"


def load_npz(path: PathLike) -> BagDataset:
    """Read a data set from an ``.npz`` file.

    Parameters
    ----------
    path : str or path
        A file with the arrays

        - ``X``, (m, d) numbers: the instances, bag after bag;
        - ``bag``, (m,) integers: index of the bag of each instance, 0 to n - 1, sorted, without gaps;
        - ``Y``, (n, c) zeros and ones, optional: the labels of each bag;
        - ``y``, (m,) integers, optional: index of the class of each instance, -1 where unknown;
        - ``class_names`` (c,), ``feature_names`` (d,), ``bag_names`` (n,), optional: strings or integers;
        - ``labelled``, (n,) zeros and ones, optional: 0 for a bag that nobody labelled, whose row of `Y` is zero.

        Other arrays are ignored. Pickled objects are never loaded.

    Returns
    -------
    BagDataset
        Its name is the file's, without the ending.

    Raises
    ------
    FormatError
        The file is missing, damaged or inconsistent; the message names it and says how to correct it.
    MemoryLimitError
        An array would not fit into memory.

    Examples
    --------
    >>> from bagwise.datasets import load_npz
    >>> data = load_npz("birds.npz")  # doctest: +SKIP
    """
    path = Path(path)
    arrays = read_arrays(path, lambda stored: _layout(path, stored))
    try:
        return _build(arrays, path.stem)
    except FormatError:
        raise
    except InputError as error:
        raise FormatError(f"{path}: {error}") from error


def _layout(path: Path, stored: Collection[str]) -> list[str]:
    """Those of the arrays of a file that belong to a data set."""
    for key in _REQUIRED:
        if key not in stored:
            found = ", ".join(sorted(stored)) or "none"
            raise FormatError(f"{path} has no array {key!r} (arrays found: {found}); {_HOW_TO_WRITE}.")
    return [key for key in (*_REQUIRED, *_OPTIONAL) if key in stored]


def read_arrays(path: Path, choose: Callable[[Collection[str]], Sequence[str]]) -> dict[str, np.ndarray]:
    """The arrays of an ``.npz`` file that `choose` picks from their names, each checked before it is read."""
    check_readable(path)
    try:
        archive = zipfile.ZipFile(path)
    except Exception as error:  # of zipfile, for what is damaged or another kind of file
        raise FormatError(_why_no_zip(path)) from error
    with archive:
        stored = {name.removesuffix(".npy") for name in archive.namelist() if name.endswith(".npy")}
        return {key: _read_array(path, archive, key) for key in choose(stored)}


def _why_no_zip(path: Path) -> str:
    with path.open("rb") as file:
        start = file.read(6)
    if start.startswith(b"PK"):
        return f"{path} starts as an .npz file but does not end as one: {_DAMAGED}."
    kind = "a single .npy array" if start.startswith(np.lib.format.MAGIC_PREFIX) else "another kind of file"
    return f"{path} is no .npz file (a zip of arrays) but {kind}; {_HOW_TO_WRITE}."


def _read_array(path: Path, archive: zipfile.ZipFile, key: str) -> np.ndarray:
    """One array, after its header was held against the bytes that are really there."""
    what = f"{path}: the array {key!r}"
    info = archive.getinfo(f"{key}.npy")
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise FormatError(f"{what} is compressed in a way that numpy does not write; {_HOW_TO_WRITE}.")
    with damaged(what, "array of numpy", "copy or download it again"):
        with archive.open(info) as file:
            shape, _, dtype = npy_header(file)
            n_left = info.file_size - file.tell()
        if dtype.hasobject:
            raise FormatError(
                f"{what} holds Python objects, which are not loaded because unpickling can run any code; "
                "save it as numbers or strings, for example with array.astype(float) or array.astype(str)."
            )
        n_bytes = math.prod(shape) * dtype.itemsize
        n_possible = min(n_left, _MAX_DEFLATE_RATIO * path.stat().st_size)
        if min(shape, default=0) < 0 or dtype.itemsize == 0 or n_bytes > n_possible:
            raise FormatError(
                f"{what} claims shape {shape} of {dtype}, {n_bytes} bytes, but the file holds at most "
                f"{n_possible} bytes of it: {_DAMAGED}."
            )
        check_allocation(n_bytes, what, "split the data into several files")
        with archive.open(info) as file:
            return np.lib.format.read_array(file, allow_pickle=False)


def _build(arrays: dict[str, np.ndarray], name: str) -> BagDataset:
    X = _of_kind(arrays, "X", 2, _NUMBERS, "numbers, one row per instance")
    if 0 in X.shape:
        raise InputError(f"X has shape {X.shape}; expected at least one instance and one feature.")
    offsets = _offsets(_of_kind(arrays, "bag", 1, _INTEGERS, "integers, the index of each instance's bag"), len(X))
    bags = Bags(X, offsets)
    check_finite(bags)
    Y = _bag_labels(arrays, len(bags))
    n_classes = Y.shape[1] if Y is not None else arrays["class_names"].size if "class_names" in arrays else 0
    return BagDataset(
        bags=bags,
        Y=Y,
        class_names=_names(arrays, "class_names", n_classes, "columns of Y") or [],
        instance_labels=_instance_labels(arrays, offsets, n_classes),
        bag_names=_names(arrays, "bag_names", len(bags), "bags"),
        feature_names=_names(arrays, "feature_names", X.shape[1], "columns of X"),
        labelled=_labelled(arrays, len(bags)),
        name=name,
    )


def _bag_labels(arrays: dict[str, np.ndarray], n_bags: int) -> np.ndarray | None:
    if "Y" not in arrays:
        return None
    Y = as_indicator(_of_kind(arrays, "Y", 2, _NUMBERS, "zeros and ones, one row per bag"))
    if len(Y) != n_bags:
        raise InputError(f"Y has {len(Y)} rows but bag counts {n_bags} bags; save one row for each bag.")
    if Y.shape[1] == 0:
        raise InputError("Y has no columns; save one column for each class.")
    return Y


def _labelled(arrays: dict[str, np.ndarray], n_bags: int) -> np.ndarray | None:
    if "labelled" not in arrays:
        return None
    labelled = _of_kind(arrays, "labelled", 1, _NUMBERS, "zeros and ones, one for each bag")
    if len(labelled) != n_bags or not np.isin(labelled, (0, 1)).all():
        raise InputError(f"labelled has {len(labelled)} entries; expected 0 or 1 for each of {n_bags} bags.")
    return labelled.astype(bool)


def _of_kind(arrays: dict[str, np.ndarray], key: str, ndim: int, kinds: str, expected: str) -> np.ndarray:
    """The array `key`, if it has `ndim` dimensions and its dtype is of one of the `kinds`."""
    array = arrays[key]
    if array.ndim != ndim or array.dtype.kind not in kinds:
        raise InputError(
            f"{key} has shape {array.shape} and dtype {array.dtype}; expected a {ndim}-d array of {expected}."
        )
    return array


def _offsets(bag: np.ndarray, n_instances: int) -> np.ndarray:
    if len(bag) != n_instances:
        raise InputError(
            f"bag has {len(bag)} entries but X has {n_instances} rows; save the bag index of each instance."
        )
    if bag[0] != 0:
        raise InputError(f"bag starts at {bag[0]}; expected 0, number the bags 0, 1, 2, ...")
    falls = np.flatnonzero(bag[1:] < bag[:-1])
    if len(falls):
        i = falls[0]
        raise InputError(
            f"bag is not sorted: row {i} has {bag[i]} and row {i + 1} has {bag[i + 1]}; "
            "sort X, bag and y with np.argsort(bag, kind='stable')."
        )
    # Sorted, so that the difference of neighbours is right for unsigned integers too.
    gaps = np.flatnonzero(bag[1:] - bag[:-1] > 1)
    if len(gaps):
        i = gaps[0]
        raise InputError(
            f"bag goes from {bag[i]} to {bag[i + 1]} at row {i + 1}, so that bags between have no instance; "
            "number the bags without gaps, as np.unique(bag, return_inverse=True)[1] does."
        )
    return offsets_of(np.bincount(bag.astype(np.int64)))


def _instance_labels(arrays: dict[str, np.ndarray], offsets: np.ndarray, n_classes: int) -> Bags | None:
    if "y" not in arrays:
        return None
    y = _of_kind(arrays, "y", 1, _INTEGERS, "integers, the class index of each instance, -1 where unknown")
    if len(y) != offsets[-1]:
        raise InputError(f"y has {len(y)} entries but X has {offsets[-1]} rows; save one class index per instance.")
    bad = np.flatnonzero((y < -1) | (y >= n_classes))
    if len(bad):
        row = bad[0]
        raise InputError(
            f"y holds {y[row]} at row {row} but there are {n_classes} classes; use 0 to {n_classes - 1}, "
            "and -1 for unknown."
        )
    return Bags(y.astype(np.int64), offsets)


def _names(arrays: dict[str, np.ndarray], key: str, length: int, of_what: str) -> list[Any] | None:
    if key not in arrays:
        return None
    names = _of_kind(arrays, key, 1, _NAMES, "strings or integers, as names.astype(str) gives")
    if len(names) != length:
        raise InputError(f"{key} has {len(names)} entries but there are {length} {of_what}; save one name for each.")
    try:
        return names.tolist()
    except (SystemError, ValueError) as error:  # numpy reads any four bytes as a character, Python does not
        raise InputError(f"{key} is no valid text ({error}): {_DAMAGED}.") from error


def read_npz(path: PathLike) -> tuple[BagDataset, str]:
    """Read an ``.npz`` file; also a sentence that says what was in it."""
    dataset = load_npz(path)
    return dataset, f"arrays of {dataset.bags.n_instances} instances" + (", no labels" if dataset.Y is None else "")


def write_npz(dataset: BagDataset, path: PathLike) -> None:
    """Write an ``.npz`` file; names that are neither all text nor all whole numbers become text."""
    arrays: dict[str, Any] = {"X": dense_features(dataset), "bag": dataset.bags.bag_index}
    if dataset.Y is not None:
        arrays["Y"] = dataset.Y
    if has_unlabelled(dataset):
        arrays["labelled"] = dataset.labelled.astype(np.uint8)
    if dataset.instance_labels is not None:
        arrays["y"] = dataset.instance_labels.instances
    if dataset.class_names:
        arrays["class_names"] = _as_names(dataset.class_names)
    if has_names(dataset):
        arrays["bag_names"] = _as_names(dataset.bag_names)
    if dataset.feature_names is not None:
        arrays["feature_names"] = _as_names(dataset.feature_names)
    with atomic_write(path) as file:
        np.savez_compressed(file, **arrays)


def _as_names(names: list[Any]) -> np.ndarray:
    if all(is_int64(name) for name in names):
        return np.array(names, dtype=np.int64)
    return np.array([str(name) for name in names], dtype=np.str_)
