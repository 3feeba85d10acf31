"""`--model auto`: which learner makes the fewest mistakes that the labels of held-out bags show."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from bagwise.app.report.tables import format_table
from bagwise.app.runs._features import Progress
from bagwise.catalog import USUAL
from bagwise.core.bags import Bags
from bagwise.core.dataset import BagDataset
from bagwise.core.exceptions import BackgroundShareWarning, CalibrationWarning, InfeasibleBagWarning, InputError
from bagwise.metrics import average_precision, explained_share, listed_share
from bagwise.model_selection import choose_model
from bagwise.pipeline import bag_tags, final_step

AUTO = "auto"
WINDOWS = "windows"  # the same for windows of which nobody named a model
CANDIDATES = {AUTO: USUAL, WINDOWS: ("noisy-or", USUAL[0])}
"""Among which learners is chosen. Windows hold any number of labels, unless held-out bags speak against it."""
TRIAL = {"ored-forest-background": {"n_estimators": 100, "n_rounds": 5, "n_round_trees": 50}}
"""Settings with which a learner is tried, where its own would take too long: a quarter of the trees."""
NETWORK = "the network itself"  # among the models that are compared: its own scores, from which nothing was learned
MOST_INSTANCES = 4000  # of more, some files are tried
FEW_INSTANCES = 2000
MANY_FOLDS, FEW_FOLDS = 5, 3
FEWEST_FILES = 6


def refuse_settings(learner: Mapping[str, Any], select: str | None) -> None:
    """Settings are those of one learner."""
    if learner or select is not None:
        what = f"--set {next(iter(learner))}" if learner else f"--select {select}"
        raise InputError(f"--model auto tries several models, and {what} is a setting of one; name the model.")


def choose_learner(
    make: Callable[[str, Mapping[str, Any]], Any],
    dataset: BagDataset,
    *,
    names: Sequence[str] = USUAL,
    seed: int | None = None,
    jobs: int | None = None,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Try the usual learners on folds of the labelled bags; bags of one file stay in one fold.

    The time is bounded: of many instances some files are drawn, with fewer folds, and the forest has fewer trees.

    Parameters
    ----------
    make : function of a name of the catalogue, and of settings, that gives the unfitted learner
    dataset : BagDataset with labels
    names : list of str
        Of the catalogue. Of two kinds the first is taken where held-out bags do not tell which is right.
    seed : int or None
    jobs : int or None
        Trees of a forest grown at a time; -1 for all cores.
    progress : callable or None

    Returns
    -------
    dict of plain data
        ``model`` (the name), ``rows`` (see `bagwise.model_selection.ModelChoice`), ``folds``, ``bags``, ``instances``,
        and ``why`` where nothing was tried: the first one is taken then.
    """
    step = progress or (lambda what, done, total: None)
    trial = _drawn(_labelled(dataset), seed)
    groups = files_of(trial)
    n_files = len(np.unique(groups))
    size = {"bags": len(trial), "instances": trial.bags.n_instances}
    if n_files < FEWEST_FILES:
        why = f"{n_files} labelled files are too few to compare models; {names[0]} is the default"
        return {"model": names[0], "rows": [], "folds": 0, **size, "why": why}
    folds = MANY_FOLDS if trial.bags.n_instances <= FEW_INSTANCES else FEW_FOLDS
    candidates = {name: make(name, {"n_jobs": jobs, **TRIAL[name]} if name in TRIAL else {}) for name in names}
    for candidate in candidates.values():
        tie_scores(candidate, trial)
    with warnings.catch_warnings():
        for category in (InfeasibleBagWarning, BackgroundShareWarning, ConvergenceWarning, CalibrationWarning):
            warnings.simplefilter("ignore", category)  # of folds; the fit of the model that is taken says its own
        choice = choose_model(
            candidates,
            trial,
            cv=folds,
            groups=groups,
            random_state=0 if seed is None else seed,
            progress=lambda name, done, total: step(f"trying {name}", done, total),
        )
    rows = [
        {key: round(value, 4) if isinstance(value, float) else value for key, value in row.items() if key != "seconds"}
        for row in choice.rows
    ]
    kinds = len({bag_tags(candidate).label_sets for candidate in candidates.values()}) > 1
    rows += filter(None, [network_row(trial)])
    return {"model": choice.name, "rows": rows, "folds": folds, **size, **({"kinds": True} if kinds else {})}


def score_name(label: str) -> str:
    """What the feature is called that is a network's own score of a label."""
    return f"score of {label}"


def _own_features(dataset: BagDataset) -> list[int]:
    """For each label the number of the feature that is a network's own score of it, -1 where there is none."""
    number = {name: i for i, name in enumerate(dataset.feature_names or ())}
    return [number.get(score_name(str(label)), -1) for label in dataset.class_names]


def tie_scores(model: Any, dataset: BagDataset) -> None:
    """Say to a learner that knows what to do with them which features are a network's own scores of labels."""
    own, inner = _own_features(dataset), getattr(final_step(model), "estimator", final_step(model))
    if max(own, default=-1) >= 0 and "own_features" in inner.get_params():
        inner.set_params(own_features=own)


def network_row(dataset: BagDataset) -> dict[str, Any] | None:
    """What a network's own scores of labels are worth, by the measures of `choose_model`: it learned from no bag here.

    None where there are no scores.
    """
    if max(_own_features(dataset), default=-1) < 0:
        return None
    part = _labelled(dataset)
    assert part.Y is not None
    listed, bags = np.asarray(part.Y) > 0, part.bags
    columns = np.array(_own_features(part))
    known = columns >= 0
    values = np.full((bags.n_instances, len(known)), -np.inf)
    values[:, known] = bags.instances[:, columns[known]]
    own = np.where(listed[bags.bag_index], values, -np.inf)  # of those that the bag lists
    given = np.where(np.isfinite(own.max(axis=1)), own.argmax(axis=1), -1)
    shares = {
        "listed": listed_share(listed, Bags(values.argmax(axis=1), bags.offsets)),
        "explained": explained_share(listed, Bags(given, bags.offsets)),
    }
    highest = np.maximum.reduceat(values, bags.offsets[:-1], axis=0)
    ranked = average_precision(listed, np.nan_to_num(highest, neginf=values[:, known].min() - 1.0))
    row = {**shares, "score": float(np.mean(list(shares.values()))), "average_precision": ranked}
    return {"model": NETWORK, **{key: round(value, 4) for key, value in row.items()}, "labels": int(sum(known))}


def network_in_words(row: Mapping[str, Any]) -> str:
    """How good a network's own scores of labels are."""
    listed, explained, score = (f"{100 * row[name]:.1f} %" for name in ("listed", "explained", "score"))
    return (
        f"The network itself knows {row['labels']} of the labels: of all labels it scores that highest which its file "
        f"lists for {listed} of the instances, and by its scores {explained} of the labels of files are explained "
        f"(mean {score}; --model auto shows the same of models for files that they did not see)."
    )


def files_of(dataset: BagDataset) -> np.ndarray:
    """(n,) number of the file that each bag comes from; its own where that is not known, or all come from one."""
    places = dataset.locations or {}
    if "file" in places:
        names = [str(name) for name in places["file"][dataset.bags.offsets[:-1]]]
        numbers = np.unique(names, return_inverse=True)[1]
        if numbers.max() > 0:
            return numbers
    return np.arange(len(dataset))


def _labelled(dataset: BagDataset) -> BagDataset:
    """The labelled bags, with the classes that they list; what is known of instances is left for the fit."""
    if dataset.Y is None:
        raise InputError(f"Data set {dataset.name!r} carries no bag labels, so no model can be chosen by them.")
    part = dataset if dataset.labelled.all() else dataset[dataset.labelled]
    names = [name for name, listed in zip(part.class_names, np.any(part.Y, axis=0), strict=True) if listed]
    return replace(part, instance_labels=None).recode(names)


def _drawn(dataset: BagDataset, seed: int | None) -> BagDataset:
    """All bags, or those of some files where there are many instances."""
    if dataset.bags.n_instances <= MOST_INSTANCES:
        return dataset
    groups = files_of(dataset)
    order = np.random.default_rng(seed or 0).permutation(groups.max() + 1)
    sizes = np.bincount(groups, dataset.bags.sizes)[order]
    n_files = max(int(np.searchsorted(np.cumsum(sizes), MOST_INSTANCES, side="right")), FEWEST_FILES)
    return dataset[np.isin(groups, order[:n_files])]


def choice_table(choice: Mapping[str, Any]) -> str:
    """The figures of a choice and what was chosen, for people."""
    if not choice["rows"]:
        return f"model: {choice['model']} ({choice['why']})"

    def percent(row: Mapping[str, Any], key: str) -> str:
        return f"{100 * row[key]:.1f}" if key in row else "-"

    keys = ("listed", "explained", "score", "average_precision")
    losses = [f"{row['log_loss']:.2f}" if "log_loss" in row else "-" for row in choice["rows"]]
    lines = [
        [row["model"], *(percent(row, key) for key in keys), loss]
        for row, loss in zip(choice["rows"], losses, strict=True)
    ]
    headings = ("model", "listed %", "explained %", "mean %", "average precision %", "log loss")
    failed = [f"{row['model']} could not be tried: {row['why']}" for row in choice["rows"] if "why" in row]
    what = f"{choice['folds']} folds of {choice['bags']} bags, {choice['instances']} instances"
    return "\n".join(
        [
            f"Which model? {what}, each judged by models that did not see it:",
            "",
            format_table(headings, lines, right=range(1, len(headings))),
            "",
            *failed,
            f"chosen: {choice['model']}, the highest mean"
            + (
                ", of the kind that the log loss of the labels of held-out bags speaks for"
                if choice.get("kinds")
                else ""
            ),
        ]
    )
