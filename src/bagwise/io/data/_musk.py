"""The ``.data`` files of the musk problems: molecule, conformation, features and class on every row, no heading."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

import numpy as np

from bagwise.core.dataset import BagDataset, as_column
from bagwise.core.exceptions import FormatError, InputError
from bagwise.io.data._csv_long import NumberRows
from bagwise.io.data._long import LongTable, check_bare, dense_features, to_dataset, unique_names
from bagwise.io.files import atomic_write
from bagwise.io.text import open_rows

CLASS = "musk"
CONFORMATION = "conformation"
_CLASSES = {"0": 0, "1": 1, "0.": 0, "1.": 1, "0.0": 0, "1.0": 1}


def read_musk(path: str | os.PathLike[str]) -> tuple[BagDataset, str]:
    """Read a file in the manner of ``clean1.data``; also a sentence that says how it was understood."""
    path = Path(path)
    lines, molecules, conformations, classes = list[int](), list[str](), list[str](), list[int]()
    numbers, width = NumberRows((), _heading), 0
    for line, row in open_rows(path, ",")[0]:
        if not lines:
            width = max(len(row), 4)
            numbers = NumberRows(range(2, width - 1), _heading)
        if len(row) != width:
            raise FormatError(
                f"{path}, row {line}: there are {len(row)} cells but expected {width}: molecule, conformation, "
                "features, class."
            )
        if not row[0]:
            raise FormatError(f"{path}, row {line}: the name of the molecule is missing; write it first.")
        if row[-1] not in _CLASSES:
            raise FormatError(f"{path}, row {line}: the class is {row[-1][:40]!r}; expected 0. or 1. at the end.")
        numbers.add(row, f"{path}, row {line}")
        lines.append(line)
        molecules.append(row[0])
        conformations.append(row[1])
        classes.append(_CLASSES[row[-1]])
    where = partial(_place, path, lines)
    long = LongTable(
        X=numbers.matrix(),
        bag=molecules,
        indicator=np.array(classes, dtype=np.uint8)[:, None],
        class_names=[CLASS],
        locations={CONFORMATION: as_column(conformations)},
    )
    return to_dataset(long, path.stem, where), f"a row per conformation, {width - 3} features, one class"


def _heading(column: int) -> str:
    return f"column {column + 1}"


def _place(path: Path, lines: list[int], row: int) -> str:
    return f"{path}, row {lines[row]}"


def write_musk(dataset: BagDataset, path: str | os.PathLike[str]) -> None:
    """Write a file in the manner of ``clean1.data``; the data must have exactly one class."""
    if dataset.Y is None or dataset.n_classes != 1:
        raise InputError(
            f"A musk file holds exactly one class, and the data set has {dataset.n_classes}; use csv or parquet."
        )
    names, X, offsets = unique_names(dataset), dense_features(dataset), dataset.bags.offsets
    conformations = (dataset.locations or {}).get(CONFORMATION)
    with atomic_write(path, "w") as file:
        for b, name in enumerate(names):
            for i in range(offsets[b], offsets[b + 1]):
                given = None if conformations is None else conformations[i]
                conformation = f"{name}_{i - offsets[b] + 1}" if given is None else str(given)
                check_bare((name, conformation), "a musk file")
                numbers = ",".join(map(repr, X[i].astype(np.float64).tolist()))
                file.write(f"{name},{conformation},{numbers},{dataset.Y[b, 0]}.\n")
