"""Bags of a folder of media or of a file, for work that asks for no model: to be written down, or to be clustered."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from bagwise.app.labels.selections import Selections
from bagwise.app.media.files import Problem
from bagwise.app.report.page import MediaFiles
from bagwise.app.runs._embed import refuse_vector_options, with_vectors
from bagwise.app.runs.featurize import Progress
from bagwise.app.runs.folder import FEATURES
from bagwise.app.runs.material import Material, find_source, read_label_table, read_material
from bagwise.app.runs.options import RunOptions
from bagwise.core.dataset import BagDataset
from bagwise.core.exceptions import InputError
from bagwise.io.data.formats import read_described
from bagwise.io.labels import LabelTable


@dataclass(frozen=True)
class Collection:
    """Bags, and where they came from.

    Attributes
    ----------
    dataset : BagDataset
        With labels where any were given.
    understood : str
        How they were read, in words.
    media : MediaFiles or None
        None for a file of bags, of which nothing can be seen or heard.
    problems : list of (name, message)
        Files and labels that could not be used.
    """

    dataset: BagDataset
    understood: str
    media: MediaFiles | None = None
    problems: list[Problem] = field(default_factory=list)


def read_collection(
    path: Path,
    options: RunOptions,
    labels: LabelTable | Selections | None = None,
    *,
    exclude: Sequence[Path],
    progress: Progress,
) -> Collection:
    """The bags of all files of a folder of media; files that cannot be read are named and left out.

    Parameters
    ----------
    path : folder
    options : RunOptions
        How labels and media are read.
    labels : the table of labels where it was read already
    exclude : paths in the folder that hold no media
    progress : called with what is done, how much and of how much
    """
    if path.is_file():
        raise InputError(f"{path} is a file, and media are read from a folder; bagwise convert goes from file to file.")
    labels = labels or read_label_table(options)
    refuse_vector_options(options)
    exclude = [*exclude, *(path for path in (options.labels, options.embed, options.embeddings) if path is not None)]
    source = find_source(path, options, trained=None, exclude=exclude, labels=labels)
    source = with_vectors(source, options, None, None)
    with tempfile.TemporaryDirectory(prefix="bagwise-") as kept:
        (Path(kept) / FEATURES).mkdir()
        material = read_material(source, Path(kept), labels, options.jobs, progress)
    dataset = replace(_with_sets(material), name=path.resolve().name)
    n_files, kind = len(material.files), source.media_type
    understood = (
        f"{kind.name}: {n_files} file{'s' if n_files > 1 else ''}, {len(dataset)} {kind.bags}, "
        f"{dataset.bags.n_instances} {kind.instances}, {dataset.bags.n_features} features"
    )
    if material.form:
        understood = f"{understood}; labels: {material.form}"
    seconds = {file["file"]: file["seconds"] for file in material.files if "seconds" in file}
    media = MediaFiles(source.media_type, source.settings, path, seconds)
    return Collection(dataset, understood, media, material.problems)


def read_bag_file(path: Path, format_name: str | None, reading: Mapping[str, Any], options: RunOptions) -> Collection:
    """The bags of a file in any format of `bagwise.io.data`, which has no media type and no settings of one."""
    if options.media_type is not None or options.settings:
        raise InputError(
            f"{path} is a file of bags, which has no media type and no settings of one; leave --media-type, "
            "--window and --media-set out."
        )
    dataset, understood = read_described(path, format_name, **reading)
    return Collection(dataset=dataset, understood=understood)


def _with_sets(material: Material) -> BagDataset:
    """The bags with the labels that were given."""
    if not material.sets:
        return material.dataset
    names = material.dataset.bag_names
    classes = sorted({label for found in material.sets.values() for label in found})
    column = {label: j for j, label in enumerate(classes)}
    Y = np.zeros((len(names), len(classes)), dtype=np.uint8)
    for i, name in enumerate(names):
        Y[i, [column[label] for label in material.sets.get(name, ())]] = 1
    labelled = np.array([name in material.sets for name in names])
    return replace(material.dataset, Y=Y, class_names=classes, labelled=labelled)
