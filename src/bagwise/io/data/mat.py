"""MATLAB files: LAMDA's (bags, targets) and the (features, labels, bag_ids) of the multi-instance benchmarks."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from bagwise.bags import Bags, group_rows
from bagwise.columns import check_features
from bagwise.dataset import BagDataset
from bagwise.exceptions import FormatError, InputError
from bagwise.io.data.long import dense_features
from bagwise.io.data.mat_check import check_mat
from bagwise.io.files import atomic_write
from bagwise.io.text import check_readable

BAGS, TARGETS = "bags", "targets"
CLASS_NAMES = ("class_names", "class_name")
FEATURES, LABELS, BAG_IDS = "features", "labels", "bag_ids"
CLASS = "positive"


def mat_variables(path: str | os.PathLike[str]) -> list[str]:
    """Names of the variables of a sound MATLAB file."""
    return check_mat(check_readable(path))


def _load(path: Path, wanted: tuple[str, ...], optional: tuple[str, ...]) -> dict[str, Any]:
    from scipy.io import loadmat
    from scipy.io.matlab import MatReadError

    names = mat_variables(path)
    missing = [name for name in wanted if name not in names]
    if missing:
        raise FormatError(
            f"{path}: it has no variable {missing[0]!r} (variables found: {', '.join(names)[:200] or 'none'}); "
            f"expected {', '.join(wanted)}."
        )
    if len(set(names)) < len(names):
        raise FormatError(f"{path}: two variables have the same name; remove one.")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            content = loadmat(path, variable_names=[*wanted, *optional], verify_compressed_data_integrity=True)
    except (MatReadError, ValueError, TypeError, OSError, KeyError, IndexError, OverflowError, NotImplementedError,
            EOFError, MemoryError, UnicodeError, AttributeError) as error:  # fmt: skip
        raise FormatError(f"{path}: it is damaged ({error}); make it anew.") from error
    if not all(name in content for name in wanted):
        raise FormatError(f"{path}: it is damaged, a variable cannot be found again; make it anew.")
    return content


def read_lamda(path: str | os.PathLike[str]) -> tuple[BagDataset, str]:
    """Read ``bags`` (a cell of (n_i, d) arrays) and ``targets`` ((c, n), 1 and -1); also a sentence about it."""
    path = Path(path)
    content = _load(path, (BAGS, TARGETS), (*CLASS_NAMES, "bag_names", "feature_names"))
    cells = content[BAGS]
    if cells.dtype != object or cells.ndim != 2 or 1 not in cells.shape:
        raise FormatError(f"{path}: 'bags' is no list of cells; expected one cell a bag.")
    blocks: list[np.ndarray] = []
    for i, cell in enumerate(cells.ravel()):
        block = cell.toarray() if sp.issparse(cell) else np.asarray(cell)
        if block.ndim != 2 or block.dtype.kind not in "biuf" or 0 in block.shape:
            raise FormatError(f"{path}, bag {i + 1}: it has shape {block.shape}; expected instances by features.")
        if blocks and block.shape[1] != blocks[0].shape[1]:
            raise FormatError(
                f"{path}, bag {i + 1}: it has {block.shape[1]} features but bag 1 has {blocks[0].shape[1]}; mend it."
            )
        blocks.append(block.astype(np.float64))
    bags = Bags.from_list(blocks)
    check_features(
        bags.instances, None, lambda row: f"{path}, bag {int(np.searchsorted(bags.offsets, row, side='right'))}"
    )
    Y = _targets(content[TARGETS], len(bags), path)
    dataset = BagDataset(
        bags=bags, Y=Y, class_names=_texts(content, CLASS_NAMES, Y.shape[1], path) or [],
        bag_names=_texts(content, ("bag_names",), len(bags), path),
        feature_names=_texts(content, ("feature_names",), bags.n_features, path), name=path.stem,
    )  # fmt: skip
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
            raise FormatError(f"{path}: {key!r} is no list of texts; mend or remove it.")
        out.append(str(item[0]) if len(item) else "")
    if len(out) != length or (key in CLASS_NAMES and len(set(out)) < length):
        raise FormatError(
            f"{path}: {key!r} names {len(set(out))} different ones, expected {length}; mend or remove it."
        )
    return out


def write_lamda(dataset: BagDataset, path: str | os.PathLike[str]) -> None:
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
    if dataset.feature_names is not None:
        content["feature_names"] = _cell_of_texts(dataset.feature_names)
    _save(content, path)


def _cell_of_texts(names: list[Any]) -> np.ndarray:
    cells = np.empty((len(names), 1), dtype=object)
    cells[:, 0] = [str(name) for name in names]
    return cells


def _save(content: dict[str, Any], path: str | os.PathLike[str]) -> None:
    from scipy.io import savemat

    with atomic_write(path) as file:
        savemat(file, content, do_compression=True)


def read_benchmark(path: str | os.PathLike[str]) -> tuple[BagDataset, str]:
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
        bags=Bags(X[order], offsets), Y=Y, class_names=[CLASS], instance_labels=instance_labels,
        bag_names=bag_names, feature_names=_texts(content, ("feature_names",), X.shape[1], path),
        name=path.stem,
    )  # fmt: skip
    return dataset, f"features, labels and bag_ids of {X.shape[0]} instances, one class"


def _flat(values: Any, name: str, length: int, path: Path) -> np.ndarray:
    values = (values.toarray() if sp.issparse(values) else np.asarray(values)).ravel()
    if values.dtype.kind not in "biuf" or len(values) != length or not np.all(values == np.floor(values)):
        raise FormatError(f"{path}: {name!r} has {len(values)} entries; expected {length} whole numbers.")
    if np.abs(values.astype(np.float64)).max(initial=0.0) >= 2.0**53:
        raise FormatError(f"{path}: {name!r} holds numbers beyond 2^53; number the bags 1, 2, 3, ...")
    return values.astype(np.int64)


def write_benchmark(dataset: BagDataset, path: str | os.PathLike[str]) -> None:
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
    if dataset.feature_names is not None:
        content["feature_names"] = _cell_of_texts(dataset.feature_names)
    _save(content, path)
