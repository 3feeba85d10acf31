"""Training on the bags that somebody labelled, and what a trained model brings along."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bagwise.bags import BagDataset
from bagwise.catalog import make_model
from bagwise.exceptions import InfeasibleBagWarning, InputError
from bagwise.io import load
from bagwise.pipeline import final_step
from bagwise.workflow.result import Problem

DEFAULT_MODEL = "ored-background"
RECIPE = "featurizer_"
"""Attribute of a trained model that says how media become its features; it is saved with the model."""


def load_trained(model: str | Path) -> Any:
    """The estimator of a model file; None where `model` is a name of the catalogue."""
    if not str(model).endswith(".bagwise") and not Path(model).is_file():
        check_annotator(str(model))  # an error now, not after an hour
        return None
    estimator = load(model)
    if not hasattr(estimator, RECIPE):
        raise InputError(
            f"{model} does not say how media become features, since it was not trained by bagwise annotate; "
            "train one with bagwise annotate."
        )
    return estimator


def check_annotator(name: str) -> Any:
    """A fresh model of the catalogue that annotates instances from bag labels."""
    model = make_model(name)
    if not hasattr(final_step(model), "annotate"):
        raise InputError(f"The model {name!r} labels bags, not instances; use an annotator, such as {DEFAULT_MODEL}.")
    return model


def check_labelled(label_sets: Sequence[set[str] | None], problems: Sequence[Problem]) -> None:
    """Refuse bags none of which has a label; what was wrong with files and rows may say why."""
    if not any(label_sets):
        raise InputError(
            "No file in which anything was found has a label, so there is nothing to learn from; check that the names "
            "in the table of labels are those of the files."
            + (f" The first of {len(problems)} problem(s): {problems[0][1]}" if problems else "")
        )


def train(
    name: str, dataset: BagDataset, label_sets: Sequence[set[str] | None], noise_share: float
) -> tuple[Any, list[Problem]]:
    """Fit a model of the catalogue on the labelled bags; also gives the bags whose labels cannot be explained.

    Parameters
    ----------
    name : str
    dataset : BagDataset
    label_sets : list of sets, None where nobody labelled the bag
        At least one has a label, see `check_labelled`.
    noise_share : float
        Expected share of noise, for learners that know a background.
    """
    model = check_annotator(name)
    final = final_step(model)
    takes_empty = bool(final.get_params().get("background"))
    if takes_empty and "background_share" in final.get_params():
        final.set_params(background_share=noise_share)
    index = np.array([i for i, s in enumerate(label_sets) if s is not None and (s or takes_empty)], dtype=int)
    sets = [label_sets[int(i)] or set() for i in index]
    bags = dataset.bags[index]
    assert dataset.bag_names is not None
    problems = []
    for i, labels, size in zip(index, sets, bags.sizes, strict=True):
        if len(labels) > size:
            bag = str(dataset.bag_names[int(i)])
            problems.append((bag, f"{bag}: {len(labels)} labels but {size} instance(s), so not all can be explained."))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InfeasibleBagWarning)  # named among the problems
        try:
            model.fit(bags, sets)
        except InputError as error:
            if not problems:
                raise
            raise InputError(f"{error} The first of {len(problems)} problem(s): {problems[0][1]}") from error
    return model, problems


def without_strangers(
    label_sets: Sequence[set[str] | None], bag_names: Sequence[Any], estimator: Any
) -> tuple[list[set[str] | None], list[Problem]]:
    """The label sets for a trained model; a set with a label that the model never saw counts as not known."""
    classes = {str(name) for name in final_step(estimator).classes_}
    kept: list[set[str] | None] = []
    problems = []
    for name, labels in zip(bag_names, label_sets, strict=True):
        strange = ", ".join(sorted((labels or set()) - classes))
        if strange:
            problems.append((str(name), f"{name}: the model does not know {strange}; its labels are not used."))
        kept.append(None if strange else labels)
    return kept, problems
