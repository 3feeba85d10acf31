"""Evaluation by the papers' two protocols, and choosing a parameter or a learner from bag labels alone."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.model_selection import (
    BaseCrossValidator,
    GridSearchCV,
    GroupKFold,
    KFold,
    PredefinedSplit,
    RandomizedSearchCV,
)

from bagwise import metrics
from bagwise.core.bags import Bags
from bagwise.core.dataset import BagDataset
from bagwise.core.exceptions import InfeasibleBagWarning, InputError
from bagwise.core.typing import Learner
from bagwise.pipeline import ForwardsToFinal, bag_tags, final_step, fit_parameters, transform_for_final

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
SURE = 1e-6  # a probability nearer to 0 or 1 than this says no more
COMMON = 0.9  # labels of a larger share of the bags are almost no evidence about an instance

Record = dict[str, Any]


def evaluate(
    estimator: Learner,
    dataset: BagDataset,
    mode: str = "inductive",
    cv: int | BaseCrossValidator = 10,
    random_state: int | None = 0,
    *,
    groups: ArrayLike | None = None,
    n_jobs: int | None = None,
    name: str | None = None,
    progress: Callable[[int, int], None] | None = None,
    by_labels: bool = False,
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
    by_labels : bool
        Inductive only: also score the instances by the labels of their bags, without any instance labels.

    Returns
    -------
    list of dict
        One record per fold: dataset, model, mode, fold, n_train, n_test, ``accuracy`` of the instances whose label is
        known (-1 left out), the five bag measures (inductive), fit_seconds, predict_seconds; with `by_labels` of an
        annotator also ``listed`` and ``explained``, see `choose_model`. Measures that the estimator or the data set
        cannot give are absent; a parameter search adds what it ``selected``.

    Examples
    --------
    >>> from bagwise import ORedLogisticRegression
    >>> from bagwise.datasets import make_gaussian_bags
    >>> from bagwise.model_selection import evaluate
    >>> data = make_gaussian_bags(n_bags=60, random_state=0)
    >>> records = evaluate(ORedLogisticRegression(), data, cv=3)
    >>> len(records), records[0]["n_train"], all(record["accuracy"] > 0.5 for record in records)
    (3, 40, True)
    >>> evaluate(ORedLogisticRegression(), data, "transductive")[0]["mode"]
    'transductive'
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
        splits = split_bags(cv, len(dataset), random_state, groups)
    base = {"dataset": dataset.name, "model": name or type(final).__name__, "mode": mode}
    results = Parallel(n_jobs=n_jobs, return_as="generator")(
        delayed(_evaluate_fold)(clone(estimator), dataset, mode, train, test, by_labels) for train, test in splits
    )
    records = []
    for fold, result in enumerate(results):
        records.append({**base, "fold": fold, **result})
        if progress is not None:
            progress(fold + 1, len(splits))
    return records


def split_bags(
    cv: Any, n_bags: int, random_state: int | None, groups: ArrayLike | None = None
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Training and test bags of each fold, by a cross-validator or by so many shuffled folds over bags or groups.

    Examples
    --------
    >>> from bagwise.model_selection import split_bags
    >>> splits = split_bags(3, 6, random_state=0, groups=["a", "a", "b", "b", "c", "c"])
    >>> sorted(test.tolist() for _, test in splits)
    [[0, 1], [2, 3], [4, 5]]
    >>> split_bags(7, 6, random_state=0)
    Traceback (most recent call last):
    ...
    bagwise.core.exceptions.InputError: cv=7: there are 6 bags; use at least 2 folds and at most one for each.
    """
    if isinstance(cv, (int, np.integer)):
        n_units, units = (n_bags, "bags") if groups is None else (len(np.unique(groups)), "groups")
        if not 2 <= cv <= n_units:
            raise InputError(f"cv={cv}: there are {n_units} {units}; use at least 2 folds and at most one for each.")
        kind = KFold if groups is None else GroupKFold
        cv = kind(n_splits=cv, shuffle=True, random_state=random_state)
    return list(cv.split(np.zeros(n_bags), groups=groups))


def _evaluate_fold(
    estimator: Any, dataset: BagDataset, mode: str, train: np.ndarray, test: np.ndarray, by_labels: bool = False
) -> Record:
    training, held_out = (dataset, dataset) if mode == "transductive" else (dataset[train], dataset[test])
    parameters = {}
    if bag_tags(estimator).needs_instance_labels:
        parameters = fit_parameters(estimator, instance_labels=training.instance_labels)
    started = time.perf_counter()
    estimator.fit(training.bags, training.Y, **parameters)
    fitted = time.perf_counter()
    final, X = final_step(estimator), transform_for_final(estimator, held_out.bags)
    record: Record = {"n_train": len(train), "n_test": len(test)}
    if held_out.instance_labels is not None and bag_tags(estimator).annotates:
        labels = final.annotate(X, held_out.Y) if mode == "transductive" else final.predict_instances(X)
        truth = held_out.instance_labels.instances
        if np.any(truth >= 0):
            record["accuracy"] = metrics.instance_accuracy(truth, labels)
    if mode == "inductive":
        record |= measure_bags(np.asarray(held_out.Y), final.predict(X), final.decision_function(X))
        if by_labels and bag_tags(estimator).annotates:
            record |= _score_by_labels(final, X, np.asarray(training.Y), np.asarray(held_out.Y))
    if hasattr(estimator, "best_params_"):
        record["selected"] = {key.rsplit("__", 1)[-1]: value for key, value in estimator.best_params_.items()}
    record["fit_seconds"] = fitted - started
    record["predict_seconds"] = time.perf_counter() - fitted
    return record


def measure_bags(Y: np.ndarray, labels: np.ndarray, scores: np.ndarray) -> Record:
    """The five bag measures of predicted (n, c) label sets and scores, by name.

    Examples
    --------
    >>> import numpy as np
    >>> from bagwise.model_selection import measure_bags
    >>> Y = np.array([[1, 0], [0, 1]])
    >>> found = measure_bags(Y, labels=np.array([[1, 0], [1, 1]]), scores=np.array([[0.9, 0.1], [0.6, 0.7]]))
    >>> found["hamming_loss"], found["ranking_loss"], found["average_precision"]
    (0.25, 0.0, 1.0)
    """
    predictions = {"labels": labels, "scores": scores}
    return {name: float(function(Y, predictions[needs])) for name, (function, needs) in BAG_MEASURES.items()}


def _score_by_labels(final: Any, X: Bags, seen: np.ndarray, Y: np.ndarray) -> Record:
    """Instance labels scored by the labels of held-out bags; `seen` are the labels of the training bags."""
    record: Record = {}
    telling = seen.mean(axis=0) <= COMMON
    if telling.any():
        scores = np.where(telling, final.instance_decision_function(X), -np.inf)
        listed = metrics.listed_share(Y * telling, Bags(scores.argmax(axis=1), X.offsets))
        record |= {} if np.isnan(listed) else {"listed": listed}
    rows = np.flatnonzero((Y * seen.any(axis=0)).any(axis=1))
    if len(rows):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", InfeasibleBagWarning)  # they are infeasible for every learner
            labels = final.find(X[rows], Y[rows]).labels
        record["explained"] = metrics.explained_share((Y * seen.any(axis=0))[rows], Bags(labels, X[rows].offsets))
        if hasattr(final, "predict_proba") and not final.single_label_:
            proba = np.clip(final.predict_proba(X[rows]), SURE, 1.0 - SURE)
            losses = -np.where(Y[rows] == 1, np.log(proba), np.log1p(-proba))[:, seen.any(axis=0)]
            record["log_loss"] = float(losses.sum(axis=1).mean())
    return record


@dataclass(frozen=True)
class ModelChoice:
    """Which of some learners was chosen, and by which figures.

    Attributes
    ----------
    name : str
    rows : list of dict
        One per learner: model, score, listed, explained, average_precision (shares, means over the folds), log_loss per
        bag where there are probabilities, seconds of all its fits; or model and why it could not be tried.

    Examples
    --------
    >>> from bagwise.catalog import make_model
    >>> from bagwise.datasets import make_gaussian_bags
    >>> from bagwise.model_selection import choose_model
    >>> data = make_gaussian_bags(n_bags=60, random_state=0)
    >>> choice = choose_model({name: make_model(name) for name in ("most-frequent", "ored")}, data, cv=3)
    >>> [row["model"] for row in choice.rows], choice.rows[1]["score"] > choice.rows[0]["score"]
    (['most-frequent', 'ored'], True)
    """

    name: str
    rows: list[Record]


def choose_model(
    candidates: Mapping[str, Learner],
    dataset: BagDataset,
    *,
    cv: int = 5,
    groups: ArrayLike | None = None,
    random_state: int | None = 0,
    n_jobs: int | None = None,
    progress: Callable[[str, int, int], None] | None = None,
) -> ModelChoice:
    """The annotator with the fewest mistakes that the labels of held-out bags reveal.

    Of a held-out bag two things are certain without knowing any instance. An instance that is given a label which the
    bag does not list is wrong (``listed``: the share that is not, where features alone decide). A label that the bag
    lists and no instance is given was missed (``explained``: the share that was not, where the labels are known and
    the learner chooses among them, as in annotation). The score is the mean of the two. Guessing explains but is not
    listed; calling everything the commonest label is listed but does not explain. Labels of more than nine in ten
    training bags are left out of ``listed``: any instance might be one.

    Candidates that give instances one label and candidates that give them any number (`BagTags.label_sets`) are not
    compared by that, since a set explains more than a label can: which of the two kinds is right is what the log loss
    of the labels of held-out bags says, of the best candidate of either kind. Where the difference is within
    two of its standard errors over the folds, it is the kind of the first candidate.

    Parameters
    ----------
    candidates : dict
        Name to unfitted annotator; where two are equal to a tenth of a percent, the first is chosen.
    dataset : BagDataset
        With labels; unlabelled bags are not used. Bags without labels train learners with a background.
    cv : int
    groups : (n,) array or None
        Bags of one group are never split between training and test.
    random_state : int or None
        Shuffles the folds, which are the same for all.
    n_jobs : int or None
        Folds in parallel.
    progress : callable or None
        Called with the name of a candidate, the number of its fits done and of all of them.

    Returns
    -------
    ModelChoice

    Examples
    --------
    >>> from bagwise.catalog import make_model
    >>> from bagwise.datasets import make_gaussian_bags
    >>> from bagwise.model_selection import choose_model
    >>> data = make_gaussian_bags(n_bags=60, random_state=0)
    >>> choose_model({name: make_model(name) for name in ("most-frequent", "ored")}, data, cv=3).name
    'ored'
    """
    dataset = dataset if dataset.labelled.all() else dataset[dataset.labelled]
    if groups is not None:
        groups = np.asarray(groups)
        if len(groups) != len(dataset):
            raise InputError(f"There are {len(groups)} groups and {len(dataset)} labelled bags; pass one for each.")
    fold = np.empty(len(dataset), dtype=np.int64)
    for number, (_, test) in enumerate(split_bags(cv, len(dataset), random_state, groups)):
        fold[test] = number
    rows: list[Record] = []
    losses: dict[str, np.ndarray] = {}
    for name, estimator in candidates.items():
        keep = np.ones(len(dataset), dtype=bool) if bag_tags(estimator).background else np.any(dataset.Y, axis=1)
        try:
            records = evaluate(
                estimator,
                dataset[keep],
                cv=PredefinedSplit(fold[keep]),
                name=name,
                n_jobs=n_jobs,
                by_labels=True,
                progress=None if progress is None else partial(progress, name),
            )
        except InputError as error:
            rows.append({"model": name, "why": str(error)})
            continue
        rows.append(_row_of_choice(name, records))
        losses[name] = np.array([record.get("log_loss", np.nan) for record in records])
    if all("why" in row for row in rows):
        raise InputError(f"None of {', '.join(candidates)} could be tried; the first: {rows[0]['why']}")
    kind = _kind_of_choice({name: bag_tags(estimator).label_sets for name, estimator in candidates.items()}, losses)
    scores = [round(float(row.get("score", -1.0)), 3) if kind is None or row["model"] in kind else -1.0 for row in rows]
    return ModelChoice(rows[scores.index(max(scores))]["model"], rows)


def _kind_of_choice(sets: Mapping[str, bool], losses: Mapping[str, np.ndarray]) -> set[str] | None:
    """The candidates of the kind that the log losses of the folds speak for; None where all are of one kind."""
    of_kind = {kind: {name for name in losses if sets[name] is kind} for kind in (False, True)}
    comparable = {kind: {name for name in names if np.isfinite(losses[name]).all()} for kind, names in of_kind.items()}
    if not all(comparable.values()):
        return None
    one, several = (min((losses[name] for name in comparable[kind]), key=np.mean) for kind in (False, True))
    difference = several - one
    error = float(difference.std(ddof=1) / np.sqrt(len(difference)))
    if abs(difference.mean()) <= 2.0 * error:
        return of_kind[sets[next(iter(losses))]]
    return of_kind[bool(difference.mean() < 0.0)]


def _row_of_choice(name: str, records: Sequence[Record]) -> Record:
    row: Record = {"model": name}
    for measure in ("listed", "explained", "average_precision", "log_loss"):
        values = [record[measure] for record in records if measure in record]
        if values:
            row[measure] = float(np.mean(values))
    shown = [row[measure] for measure in ("listed", "explained") if measure in row]
    row["score"] = float(np.mean(shown)) if shown else 0.0
    row["seconds"] = float(sum(record["fit_seconds"] for record in records))
    return row


rank_loss_scorer = metrics.get_scorer("neg_rank_hinge_loss")
"""Minus the unregularised rank hinge loss of held-out bags: a ``scoring`` for scikit-learn's searches.

Chooses a regulariser from bag labels alone (equations 37 and 38 of Briggs et al. 2013, after whom the loss over
held-out bags is averaged over the folds)."""


class BagGridSearchCV(ForwardsToFinal, GridSearchCV):
    """scikit-learn's `GridSearchCV` that annotates with its best estimator, as `BagPipeline` does.

    Parameters and attributes are those of `GridSearchCV`. Its `fit` takes a `BagDataset` for bags and labels, and hands
    `instance_labels` and `sample_weight` on, fold by fold.

    Examples
    --------
    >>> from bagwise import ORedLogisticRegression
    >>> from bagwise.datasets import make_gaussian_bags
    >>> from bagwise.metrics import get_scorer
    >>> from bagwise.model_selection import BagGridSearchCV
    >>> data = make_gaussian_bags(n_bags=60, random_state=0)
    >>> scoring = get_scorer("neg_rank_hinge_loss")
    >>> search = BagGridSearchCV(ORedLogisticRegression(), {"l2": [1.0, 100.0]}, scoring=scoring, cv=3).fit(data)
    >>> search.best_params_, search.annotate(data).shape == (data.bags.n_instances,)
    ({'l2': 1.0}, True)
    """


class BagRandomizedSearchCV(ForwardsToFinal, RandomizedSearchCV):
    """scikit-learn's `RandomizedSearchCV` that annotates with its best estimator; see `BagGridSearchCV`.

    Examples
    --------
    >>> from bagwise import ORedLogisticRegression
    >>> from bagwise.datasets import make_gaussian_bags
    >>> from bagwise.metrics import get_scorer
    >>> from bagwise.model_selection import BagRandomizedSearchCV
    >>> data, values = make_gaussian_bags(n_bags=60, random_state=0), {"l2": [0.1, 1.0, 10.0]}
    >>> scoring = get_scorer("average_precision")
    >>> search = BagRandomizedSearchCV(ORedLogisticRegression(), values, n_iter=2, scoring=scoring, random_state=0)
    >>> search.fit(data).annotate(data).shape == (data.bags.n_instances,)
    True
    """


def search_by_rank_loss(
    estimator: Learner, parameter: str, values: Sequence[Any], *, cv: int = 10, random_state: int | None = 0
) -> GridSearchCV:
    """A grid search over one parameter of the (last step of the) estimator by cross-validated rank loss.

    Examples
    --------
    >>> from bagwise import ORedLogisticRegression
    >>> from bagwise.datasets import make_gaussian_bags
    >>> from bagwise.model_selection import search_by_rank_loss
    >>> data = make_gaussian_bags(n_bags=60, random_state=0)
    >>> search_by_rank_loss(ORedLogisticRegression(), "l2", [1.0, 100.0], cv=3).fit(data.bags, data.Y).best_params_
    {'l2': 1.0}
    >>> search_by_rank_loss(ORedLogisticRegression(), "C", [1.0])  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    bagwise.core.exceptions.InputError: ORedLogisticRegression has no parameter 'C' to select; it has background, ...
    """
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
    estimator: Learner,
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

    Examples
    --------
    >>> from bagwise import ORedLogisticRegression
    >>> from bagwise.datasets import make_gaussian_bags
    >>> from bagwise.model_selection import selection_curve
    >>> data = make_gaussian_bags(n_bags=60, random_state=0)
    >>> curve = selection_curve(ORedLogisticRegression(), data, "l2", [1.0, 100.0], cv=3)
    >>> [(row["value"], row["selected"]) for row in curve], curve[0]["rank_loss"] < curve[1]["rank_loss"]
    ([(1.0, True), (100.0, False)], True)
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
    """One row for each data set, model and mode: mean and standard deviation of every measure over the folds.

    Examples
    --------
    >>> from bagwise import ORedLogisticRegression
    >>> from bagwise.datasets import make_gaussian_bags
    >>> from bagwise.model_selection import evaluate, summarize
    >>> records = evaluate(ORedLogisticRegression(), make_gaussian_bags(n_bags=60, random_state=0), cv=3)
    >>> (row,) = summarize(records)
    >>> row["model"], row["folds"], row["accuracy"] > 0.5
    ('ORedLogisticRegression', 3, True)
    """
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
