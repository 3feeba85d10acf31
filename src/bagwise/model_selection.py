"""Evaluation by the papers' two protocols, and choosing a parameter from bag labels alone."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import clone
from sklearn.model_selection import BaseCrossValidator, GridSearchCV, GroupKFold, KFold

from bagwise import metrics
from bagwise.dataset import BagDataset
from bagwise.exceptions import InputError
from bagwise.label_forms import encode_labels
from bagwise.pipeline import bag_tags, final_step, fit_parameters, transform_for_final

MODES = ("inductive", "transductive")
BAG_MEASURES: dict[str, tuple[Callable[..., float], str]] = {
    "hamming_loss": (metrics.hamming_loss, "labels"),
    "ranking_loss": (metrics.ranking_loss, "scores"),
    "one_error": (metrics.one_error, "scores"),
    "coverage": (metrics.coverage, "scores"),
    "average_precision": (metrics.average_precision, "scores"),
}
MEASURES = ("accuracy", *BAG_MEASURES, "fit_seconds")
KEYS = ("dataset", "model", "mode")

Record = dict[str, Any]


def evaluate(
    estimator: Any,
    dataset: BagDataset,
    mode: str = "inductive",
    cv: Any = 10,
    random_state: int | None = 0,
    *,
    groups: Any = None,
    n_jobs: int | None = None,
    name: str | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> list[Record]:
    """Train and score an estimator by the papers' protocols.

    Parameters
    ----------
    estimator : estimator or pipeline
        Cloned for every fit. One that needs instance labels (`bag_tags`) is given the training bags' instance labels.
    dataset : BagDataset
    mode : {"inductive", "transductive"}
        Inductive: folds over bags; instances and label sets of the held-out bags are predicted from features alone.
        Transductive: one fit on all bags and their label sets, then `annotate` of the same bags (section 5.1 of Pham
        et al.).
    cv : int or cross-validator
        Inductive only. An int means that many shuffled folds.
    random_state : int or None
        Shuffles the folds.
    groups : (n,) array or None
        Bags of one group (a site, a recorder) are never split between training and test.
    n_jobs : int or None
        Folds in parallel.
    name : str or None
        The model's name in the records; by default that of its class.
    progress : callable or None
        Called with the number of fits done and the number of all.

    Returns
    -------
    list of dict
        One record a fold: dataset, model, mode, fold, n_train, n_test, ``accuracy`` of the instances whose label is
        known (-1 left out), the five bag measures (inductive), fit_seconds, predict_seconds. Measures that the
        estimator or the data set cannot give are absent; a parameter search adds what it ``selected``.
    """
    if mode not in MODES:
        raise InputError(f"mode={mode!r} is not known; use 'inductive' or 'transductive'.")
    if dataset.Y is None:
        raise InputError(f"Data set {dataset.name!r} carries no bag labels, so nothing can be learned from it.")
    final = final_step(estimator)
    tags = bag_tags(estimator)
    if tags.needs_instance_labels and dataset.instance_labels is None:
        raise InputError(
            f"{type(final).__name__} needs instance labels, which data set {dataset.name!r} does not have."
        )
    if mode == "transductive":
        if not tags.annotates:
            raise InputError(f"{type(final).__name__} does not annotate instances; evaluate it with mode='inductive'.")
        everything = np.arange(len(dataset))
        splits = [(everything, everything)]
    else:
        splits = list(_splitter(cv, len(dataset), random_state, groups).split(np.zeros(len(dataset)), groups=groups))
    base = {"dataset": dataset.name, "model": name or type(final).__name__, "mode": mode}
    results = Parallel(n_jobs=n_jobs, return_as="generator")(
        delayed(_evaluate_fold)(clone(estimator), dataset, mode, train, test) for train, test in splits
    )
    records = []
    for fold, result in enumerate(results):
        records.append({**base, "fold": fold, **result})
        if progress is not None:
            progress(fold + 1, len(splits))
    return records


def _splitter(cv: Any, n_bags: int, random_state: int | None, groups: Any) -> BaseCrossValidator:
    if not isinstance(cv, (int, np.integer)):
        return cv
    n_units, units = (n_bags, "bags") if groups is None else (len(np.unique(groups)), "groups")
    if not 2 <= cv <= n_units:
        raise InputError(f"cv={cv}: there are {n_units} {units}; use at least 2 folds and at most one for each.")
    if groups is not None:
        return GroupKFold(n_splits=cv, shuffle=True, random_state=random_state)
    return KFold(n_splits=cv, shuffle=True, random_state=random_state)


def _evaluate_fold(estimator: Any, dataset: BagDataset, mode: str, train: np.ndarray, test: np.ndarray) -> Record:
    training, held_out = (dataset, dataset) if mode == "transductive" else (dataset[train], dataset[test])
    parameters = {}
    if bag_tags(estimator).needs_instance_labels:
        parameters = fit_parameters(estimator, instance_labels=training.instance_labels)
    started = time.perf_counter()
    estimator.fit(training.bags, training.Y, **parameters)
    fitted = time.perf_counter()
    final, X = final_step(estimator), transform_for_final(estimator, held_out.bags)
    record: Record = {"n_train": len(train), "n_test": len(test)}
    if held_out.instance_labels is not None and bag_tags(final).annotates:
        labels = final.annotate(X, held_out.Y) if mode == "transductive" else final.predict_instances(X)
        truth = held_out.instance_labels.instances
        if np.any(truth >= 0):
            record["accuracy"] = metrics.instance_accuracy(truth, labels)
    if mode == "inductive":
        outcome = {"labels": final.predict(X), "scores": final.decision_function(X)}
        for measure, (function, needs) in BAG_MEASURES.items():
            record[measure] = float(function(held_out.Y, outcome[needs]))
    if hasattr(estimator, "best_params_"):
        record["selected"] = {key.rsplit("__", 1)[-1]: value for key, value in estimator.best_params_.items()}
    record["fit_seconds"] = fitted - started
    record["predict_seconds"] = time.perf_counter() - fitted
    return record


def rank_loss_scorer(estimator: Any, X: Any, y: Any) -> float:
    """Minus the unregularised rank hinge loss of held-out bags: a ``scoring`` for scikit-learn's searches.

    Chooses a regulariser from bag labels alone (equations 37 and 38 of Briggs et al. 2013, after whom the loss over
    held-out bags is averaged over the folds). Labels of a class that no training bag carries are left out: the model
    knows no score for them.

    Examples
    --------
    >>> from sklearn.model_selection import GridSearchCV
    >>> from bagwise import ORedLogisticRegression
    >>> from bagwise.datasets import make_gaussian_bags
    >>> from bagwise.model_selection import rank_loss_scorer
    >>> data = make_gaussian_bags(n_bags=60, random_state=0)
    >>> search = GridSearchCV(ORedLogisticRegression(), {"l2": [1.0, 100.0]}, scoring=rank_loss_scorer, cv=3)
    >>> search.fit(data.bags, data.Y).best_params_
    {'l2': 1.0}
    """
    indicator = encode_labels(y, final_step(estimator).classes_, len(X), drop_unknown=True)
    return -metrics.rank_hinge_loss(indicator, estimator.decision_function(X))


def search_by_rank_loss(
    estimator: Any, parameter: str, values: Sequence[Any], *, cv: int = 10, random_state: int | None = 0
) -> GridSearchCV:
    """A grid search over one parameter of the (last step of the) estimator by cross-validated rank loss."""
    final = final_step(estimator)
    known = final.get_params(deep=False)
    if parameter not in known:
        raise InputError(
            f"{type(final).__name__} has no parameter {parameter!r} to select; it has {', '.join(sorted(known))}."
        )
    if not len(values):
        raise InputError(f"There are no values of {parameter!r} to choose from; give at least one.")
    (key,) = fit_parameters(estimator, **{parameter: None})
    folds = KFold(cv, shuffle=True, random_state=random_state)
    return GridSearchCV(estimator, {key: list(values)}, scoring=rank_loss_scorer, cv=folds, error_score="raise")


def selection_curve(
    estimator: Any,
    dataset: BagDataset,
    parameter: str,
    values: Sequence[Any],
    *,
    cv: int = 10,
    random_state: int | None = 0,
    n_jobs: int | None = None,
) -> list[Record]:
    """Cross-validated rank loss and, where instance labels are known, transductive accuracy for each value (Figure 5).

    Returns
    -------
    list of dict
        parameter, value, rank_loss, rank_loss_std, accuracy, selected (true for the value of least rank loss).
    """
    search = search_by_rank_loss(estimator, parameter, values, cv=cv, random_state=random_state)
    search.set_params(refit=False, n_jobs=n_jobs).fit(dataset.bags, dataset.Y)
    known = dataset.instance_labels is not None and bool(np.any(dataset.instance_labels.instances >= 0))
    annotates = bag_tags(estimator).annotates
    rows: list[Record] = []
    for i, value in enumerate(values):
        row = {
            "parameter": parameter,
            "value": value,
            "rank_loss": -float(search.cv_results_["mean_test_score"][i]),
            "rank_loss_std": float(search.cv_results_["std_test_score"][i]),
            "selected": i == int(search.best_index_),
        }
        if known and annotates:
            candidate = clone(estimator).set_params(**{next(iter(search.param_grid)): value})
            row["accuracy"] = evaluate(candidate, dataset, "transductive")[0]["accuracy"]
        rows.append(row)
    return rows


def summarize(records: Iterable[Record]) -> list[Record]:
    """One row for each data set, model and mode: mean and standard deviation of every measure over the folds."""
    groups: dict[tuple[Any, ...], list[Record]] = {}
    for record in records:
        groups.setdefault(tuple(record[key] for key in KEYS), []).append(record)
    rows = []
    for key, members in groups.items():
        row: Record = {**dict(zip(KEYS, key, strict=True)), "folds": len(members)}
        for measure in MEASURES:
            values = [record[measure] for record in members if measure in record]
            if values:
                row[measure] = float(np.mean(values))
                row[f"{measure}_std"] = float(np.std(values, ddof=1)) if len(values) > 1 else None
        rows.append(row)
    return rows
