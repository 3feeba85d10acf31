"""Files of bags piece by piece, so that a file may be larger than the memory."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from bagwise.core.bags import Bags
from bagwise.core.dataset import BagDataset
from bagwise.core.exceptions import FormatError, InputError
from bagwise.io.data._long import BAG_NAME
from bagwise.io.data.formats import find_format, format_for_writing, guess_format, read_described, write_dataset
from bagwise.io.data.parquet import ParquetBags
from bagwise.io.text import check_readable

PARQUET = ("parquet", "parquet-nested")


def iter_dataset(
    path: str | os.PathLike[str],
    format: str | None = None,
    *,
    labels_from: Any = None,
    with_labels: bool = True,
    **options: Any,
) -> tuple[Iterator[BagDataset], str]:
    """A file as a series of data sets of whole bags, and how it was understood.

    Parquet comes in parts; other formats, and files whose labels stand in a second table, in one piece.
    """
    check_readable(path)
    name = guess_format(path) if format is None else format
    if name in PARQUET and labels_from is None:
        unknown = [option for option in options if option not in find_format(name).options]
        if unknown:
            raise InputError(f"The format {name!r} has no option {unknown[0]!r}.")
        source = ParquetBags(path, with_labels=with_labels, **options)
        return source.iter_bags(), f"{name}: {source.understood()}"
    dataset, understood = read_described(path, name, labels_from=labels_from, **options)
    return iter([dataset]), understood


def convert_file(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    source_format: str | None = None,
    target_format: str | None = None,
    **options: Any,
) -> str:
    """Write the bags of one file to another; gives how the first was understood.

    Between parquet files, and from parquet to CSV, bags go through the memory in pieces.
    """
    to = format_for_writing(target) if target_format is None else target_format
    writer = find_format(to)
    check_readable(source)
    name = guess_format(source) if source_format is None else source_format
    if name in PARQUET and to in (*PARQUET, "csv") and "labels_from" not in options:
        pieces, understood = iter_dataset(source, name, **options)
        writer.write(pieces, target, numbered=BAG_NAME in ParquetBags(source).headings)
        return understood
    dataset, understood = read_described(source, name, **options)
    write_dataset(dataset, target, to)
    return understood


def select_features(dataset: BagDataset, names: Sequence[str] | None, source: Any) -> BagDataset:
    """The data set with the features that a model was trained on, found by name where both have names."""
    if names is None or dataset.feature_names is None or list(names) == dataset.feature_names:
        return dataset
    position = {name: i for i, name in enumerate(dataset.feature_names)}
    missing = [name for name in names if name not in position]
    if missing:
        if not set(position) & set(names):  # names of another kind: the number of features decides
            return dataset
        raise FormatError(
            f"{source}: it has no feature {missing[0]!r}, on which the model was trained ({len(missing)} missing); "
            "add it, or train again."
        )
    columns = [position[name] for name in names]
    return replace(
        dataset, bags=Bags(dataset.bags.instances[:, columns], dataset.bags.offsets), feature_names=list(names)
    )
