"""Bags of a folder of media or of a file, for work that asks for no model: to be written down, or to be clustered."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from bagwise.dataset import BagDataset
from bagwise.exceptions import InputError
from bagwise.io.data.formats import read_described
from bagwise.io.labels import LabelTable
from bagwise.report.gallery import MediaFiles
from bagwise.report.result import Problem
from bagwise.workflow.embed import Asked, with_vectors
from bagwise.workflow.featurize import Progress
from bagwise.workflow.manifest import FEATURES
from bagwise.workflow.material import Material, find_source, read_material
from bagwise.workflow.selections import Selections


@dataclass(frozen=True)
class Collection:
    """Bags, and where they came from.

    Attributes
    ----------
    dataset : BagDataset
        With labels where any were told.
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
    *,
    medium: str | None,
    settings: Mapping[str, Any],
    labels: LabelTable | Selections | None,
    exclude: Sequence[Path],
    jobs: int,
    progress: Progress,
    asked: Asked | None = None,
) -> Collection:
    """The bags of all files of a folder of media; files that cannot be read are named and left out.

    Parameters
    ----------
    path : folder
    medium, settings : name of the medium (None to find it out) and those of its settings that differ from the default
    labels : what `read_label_table` gives
    exclude : paths in the folder that hold no media
    jobs : processes that read, -1 for all cores
    progress : called with what is done, how much and of how much
    asked : Asked or None
        Vectors of a network, in place of the features of the medium or beside them.
    """
    if path.is_file():
        raise InputError(f"{path} is a file, and media are read from a folder; bagwise convert goes from file to file.")
    source = find_source(
        path, medium=medium, settings=settings, trained=None, exclude=exclude, options={}, labels=labels
    )
    source = with_vectors(source, asked or Asked(), None, None)
    with tempfile.TemporaryDirectory(prefix="bagwise-") as kept:
        (Path(kept) / FEATURES).mkdir()
        material = read_material(source, Path(kept), labels, jobs, progress)
    dataset = replace(_with_sets(material), name=path.resolve().name)
    n_files = len(material.files)
    understood = (
        f"{source.medium.name}: {n_files} file{'s' if n_files > 1 else ''}, {len(dataset)} {source.medium.bags}, "
        f"{dataset.bags.n_instances} {source.medium.instances}, {dataset.bags.n_features} features"
    )
    if material.form:
        understood = f"{understood}; labels: {material.form}"
    seconds = {file["file"]: file["seconds"] for file in material.files if "seconds" in file}
    media = MediaFiles(source.medium, source.settings, path, seconds)
    return Collection(dataset, understood, media, material.problems)


def read_bag_file(
    path: Path, format_name: str | None, options: Mapping[str, Any], *, medium: str | None, settings: Mapping[str, Any]
) -> Collection:
    """The bags of a file in any format of `bagwise.io.data`, which has no medium and no settings of one."""
    if medium is not None or settings:
        raise InputError(
            f"{path} is a file of bags, which has no medium and no settings of one; leave --medium, --window and "
            "--medium-set out."
        )
    dataset, understood = read_described(path, format_name, **options)
    return Collection(dataset=dataset, understood=understood)


def _with_sets(material: Material) -> BagDataset:
    """The bags with the labels that were told of them."""
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
