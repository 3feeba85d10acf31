"""numpy's ``.npz``: the layout that `bagwise.datasets.load_npz` reads."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from bagwise.bags import BagDataset
from bagwise.datasets.npz import load_npz
from bagwise.io.data.long import dense_features
from bagwise.io.files import atomic_write


def read_npz(path: str | os.PathLike[str]) -> tuple[BagDataset, str]:
    """Read an ``.npz`` file; also a sentence that says what was in it."""
    dataset = load_npz(path)
    return dataset, f"arrays of {dataset.bags.n_instances} instances" + (", no labels" if dataset.Y is None else "")


def write_npz(dataset: BagDataset, path: str | os.PathLike[str]) -> None:
    """Write an ``.npz`` file; names that are neither all text nor all whole numbers become text."""
    arrays: dict[str, Any] = {"X": dense_features(dataset), "bag": dataset.bags.bag_index}
    if dataset.Y is not None:
        arrays["Y"] = dataset.Y
    if dataset.class_names:
        arrays["class_names"] = _as_names(dataset.class_names)
    if dataset.instance_labels is not None:
        arrays["y"] = dataset.instance_labels.instances
    for key in ("bag_names", "feature_names"):
        names = getattr(dataset, key)
        if names is not None:
            arrays[key] = _as_names(names)
    with atomic_write(path) as file:
        np.savez_compressed(file, **arrays)


def _as_names(names: list[Any]) -> np.ndarray:
    if all(isinstance(name, (int, np.integer)) and not isinstance(name, bool) for name in names):
        return np.array(names, dtype=np.int64)
    return np.array([str(name) for name in names], dtype=np.str_)
