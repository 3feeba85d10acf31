"""Apply a fitted model to files, piece by piece, so that a file may be larger than the memory."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from bagwise._version import __version__
from bagwise.bags import BagDataset, Bags
from bagwise.exceptions import FormatError, InputError
from bagwise.io.data.csv_long import write_csv_pieces
from bagwise.io.data.formats import find_format, format_for_writing, guess_format, read_described, write_dataset
from bagwise.io.data.long import BAG_NAME
from bagwise.io.data.parquet import ParquetBags
from bagwise.io.data.parquet_write import write_pieces
from bagwise.io.results import Piece
from bagwise.io.text import check_readable
from bagwise.pipeline import final_step
from bagwise.report.annotations import annotation_rows

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
    find_format(to)
    check_readable(source)
    name = guess_format(source) if source_format is None else source_format
    if name in PARQUET and to in PIECE_WRITERS and "labels_from" not in options:
        pieces, understood = iter_dataset(source, name, **options)
        PIECE_WRITERS[to](pieces, target, BAG_NAME in ParquetBags(source).headings)
        return understood
    dataset, understood = read_described(source, name, **options)
    write_dataset(dataset, target, to)
    return understood


PIECE_WRITERS: dict[str, Callable[[Iterator[BagDataset], Any, bool], None]] = {
    "parquet": lambda pieces, path, numbered: write_pieces(pieces, path, nested=False, numbered=numbered),
    "parquet-nested": lambda pieces, path, numbered: write_pieces(pieces, path, nested=True, numbered=numbered),
    "csv": write_csv_pieces,
}


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
            "add it, or train anew."
        )
    columns = [position[name] for name in names]
    return replace(
        dataset, bags=Bags(dataset.bags.instances[:, columns], dataset.bags.offsets), feature_names=list(names)
    )


def predict_piece(model: Any, dataset: BagDataset, with_scores: bool = False) -> Piece:
    """Columns bag, labels and, if asked for, ``score:NAME`` of every class."""
    final = final_step(model)
    classes = final.classes_.tolist()
    predicted = np.asarray(model.predict(dataset.bags))
    if final.single_label_:
        sets = [[label] for label in predicted.tolist()]
    else:  # bags share few different label sets, so each is written out once
        packed = np.packbits(predicted.astype(bool), axis=1)
        _, first, which = np.unique(packed, axis=0, return_index=True, return_inverse=True)
        distinct = [
            [label for label, bit in zip(classes, row, strict=True) if bit] for row in predicted[first].tolist()
        ]
        sets = [distinct[i] for i in which]
    columns: dict[str, Sequence[Any]] = {"bag": _names(dataset), "labels": sets}
    if with_scores:
        scores = np.asarray(model.decision_function(dataset.bags))
        if scores.ndim == 1:
            columns[f"score:{classes[-1]}"] = scores.tolist()
        else:
            columns |= {f"score:{label}": scores[:, c].tolist() for c, label in enumerate(classes)}
    return columns


def annotate_piece(model: Any, dataset: BagDataset, use_labels: bool) -> Piece:
    """Columns bag, instance, label, probability where the model gives one, and truth where it is known.

    `use_labels` chooses among the labels of the bag (transductive); otherwise the features alone decide.
    """
    if not hasattr(model, "annotate"):
        raise InputError(f"{type(final_step(model)).__name__} does not annotate instances; use predict for bags.")
    classes = final_step(model).classes_.tolist()
    extra = [name for name in dataset.class_names if name not in set(classes)]
    column = {name: c for c, name in enumerate([*classes, *extra])}
    if use_labels:
        _check_known(dataset, extra)
        labels = model.annotate(dataset.bags, dataset.label_sets)
    else:
        labels = model.predict_instances(dataset.bags)
    codes = np.array([column.get(label, -1) for label in labels.tolist()])
    truth = dataset.instance_labels
    if truth is not None:
        recode = np.array([column[name] for name in dataset.class_names] + [-1])
        truth = Bags(recode[truth.instances], truth.offsets)
    renamed = replace(dataset, Y=None, class_names=list(column), instance_labels=truth)
    rows = annotation_rows(renamed, codes, _probabilities(model, dataset, use_labels))
    return {key: [row[key] for row in rows] for key in rows[0]}


def _check_known(dataset: BagDataset, unknown: Sequence[Any]) -> None:
    """Refuse bags with labels that the model never saw, by name: a number would count within the piece only."""
    if not unknown:
        return
    for name, labels in zip(_names(dataset), dataset.label_sets, strict=True):
        strange = [label for label in unknown if label in labels]
        if strange:
            raise InputError(
                f"The bag {name!r} carries the label {strange[0]!r}, which the model does not know; leave it out, "
                "train anew, or do not use the labels (--inductive)."
            )


def _probabilities(model: Any, dataset: BagDataset, use_labels: bool) -> np.ndarray | None:
    if use_labels:
        return model.annotate_proba(dataset.bags, dataset.label_sets) if hasattr(model, "annotate_proba") else None
    return model.predict_instances_proba(dataset.bags) if hasattr(model, "predict_instances_proba") else None


def _names(dataset: BagDataset) -> list[Any]:
    return list(range(len(dataset))) if dataset.bag_names is None else list(dataset.bag_names)


def settings_of(model: Any) -> dict[str, Any]:
    """Class and parameters of the learner, as plain data; the last step of a pipeline."""
    final = final_step(model)
    parameters = {key: value for key, value in final.get_params(deep=False).items() if _is_plain(value)}
    return {"class": type(final).__name__, "settings": parameters, "bagwise": __version__}


def _is_plain(value: Any) -> bool:
    return value is None or isinstance(value, (bool, int, float, str))
