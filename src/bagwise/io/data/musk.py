"""The ``.data`` files of the musk problems: molecule, conformation, features and class on every row, no heading."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

import numpy as np

from bagwise.dataset import BagDataset, as_column
from bagwise.exceptions import FormatError, InputError
from bagwise.io.data.csv_long import parse_numbers
from bagwise.io.data.long import LongTable, check_bare, dense_features, to_dataset, unique_names
from bagwise.io.files import atomic_write
from bagwise.io.text import iterate_rows, read_text

CLASS = "musk"
CONFORMATION = "conformation"
_CLASSES = {"0": 0, "1": 1, "0.": 0, "1.": 1, "0.0": 0, "1.0": 1}


def read_musk(path: str | os.PathLike[str]) -> tuple[BagDataset, str]:
    """Read a file in the manner of ``clean1.data``; also a sentence that says how it was understood."""
    path = Path(path)
    lines, rows = list[int](), list[list[str]]()
    for line, row in iterate_rows(read_text(path), ",", path):
        width = len(rows[0]) if rows else max(len(row), 4)
        if len(row) != width:
            raise FormatError(
                f"{path}, row {line}: there are {len(row)} cells but expected {width}: molecule, conformation, "
                "features, class."
            )
        if not row[0]:
            raise FormatError(f"{path}, row {line}: the name of the molecule is missing; write it first.")
        if row[-1] not in _CLASSES:
            raise FormatError(f"{path}, row {line}: the class is {row[-1][:40]!r}; expected 0. or 1. at the end.")
        lines.append(line)
        rows.append(row)
    where = partial(_place, path, lines)
    features = list(range(2, len(rows[0]) - 1))
    headings = [f"column {i + 1}" for i in range(len(rows[0]))]
    labels = np.array([[_CLASSES[row[-1]]] for row in rows], dtype=np.uint8)
    long = LongTable(
        X=parse_numbers(rows, features, headings, where),
        bag=[row[0] for row in rows],
        indicator=labels,
        class_names=[CLASS],
        locations={CONFORMATION: as_column([row[1] for row in rows])},
    )
    return to_dataset(long, path.stem, where), f"a row a conformation, {len(features)} features, one class"


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
