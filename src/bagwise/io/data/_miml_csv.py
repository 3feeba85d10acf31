"""The CSV of the mimllearning package: the number of labels, a heading, a row per instance with its bag's labels."""

from __future__ import annotations

import csv
import os
import re
from functools import partial
from pathlib import Path

import numpy as np

from bagwise.core.dataset import BagDataset
from bagwise.core.exceptions import FormatError, InputError
from bagwise.io.data._csv_long import NumberRows
from bagwise.io.data._long import LongTable, check_bare, dense_features, feature_names_of, to_dataset, unique_names
from bagwise.io.files import atomic_write
from bagwise.io.text import check_width, open_rows

_COUNT = re.compile(r"[1-9][0-9]{0,5}")


def read_miml_csv(path: str | os.PathLike[str]) -> tuple[BagDataset, str]:
    """Read the CSV of mimllearning; also a sentence that says how it was understood."""
    path = Path(path)
    rows, _, source = open_rows(path, ",")
    first_line, first = next(rows)
    if len(first) != 1 or not _COUNT.fullmatch(first[0]):
        raise FormatError(
            f"{path}, row {first_line}: expected the number of labels alone, got {','.join(first)[:40]!r}."
        )
    n_labels = int(first[0])
    heading_line, headings = next(rows, (first_line + 1, []))
    if len(headings) < n_labels + 2 or len(set(headings)) < len(headings):
        raise FormatError(
            f"{path}, row {heading_line}: expected different names of the bag's id, of at least one feature and of "
            f"{n_labels} labels, got {len(headings)} names ({len(set(headings))} different)."
        )
    lines, bags = list[int](), list[str]()
    split = len(headings) - n_labels
    numbers, bits = NumberRows(range(1, split), headings.__getitem__), bytearray()
    for line, row in rows:
        check_width(row, len(headings), path, line, heading_line, source)
        if not row[0]:
            raise FormatError(f"{path}, row {line}: the id of the bag is missing; write it in the first column.")
        for j, cell in enumerate(row[split:], start=split):
            if cell not in ("0", "1"):
                raise FormatError(f"{path}, row {line}: the label {headings[j]!r} is {cell[:40]!r}; expected 0 or 1.")
            bits.append(cell == "1")
        numbers.add(row, f"{path}, row {line}")
        lines.append(line)
        bags.append(row[0])
    if not lines:
        raise FormatError(f"{path}: no row follows the heading; add a row for each instance.")
    where = partial(_place, path, lines)
    long = LongTable(
        X=numbers.matrix(),
        bag=bags,
        feature_names=headings[1:split],
        indicator=np.frombuffer(bits, dtype=np.uint8).reshape(-1, n_labels),
        class_names=headings[split:],
    )
    return to_dataset(long, path.stem, where), f"a row per instance, {split - 1} features and {n_labels} labels"


def _place(path: Path, lines: list[int], row: int) -> str:
    return f"{path}, row {lines[row]}"


def write_miml_csv(dataset: BagDataset, path: str | os.PathLike[str]) -> None:
    """Write the CSV of mimllearning. Its reader cuts at commas, so names must not hold any."""
    if dataset.Y is None:
        raise InputError("The CSV of mimllearning needs bag labels, and the data set has none; use csv or parquet.")
    names, X, offsets = unique_names(dataset), dense_features(dataset), dataset.bags.offsets
    headings = ["id", *feature_names_of(dataset), *map(str, dataset.class_names)]
    check_bare([*headings, *names], "the CSV of mimllearning")
    if len(set(headings)) < len(headings):
        raise InputError("A feature and a class have the same name, or one is named 'id'; rename it.")
    with atomic_write(path, "w") as file:
        file.write(f"{dataset.n_classes}\n")
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(headings)
        for b, name in enumerate(names):
            bits = dataset.Y[b].tolist()
            for row in X[offsets[b] : offsets[b + 1]].astype(np.float64).tolist():
                writer.writerow([name, *row, *bits])
