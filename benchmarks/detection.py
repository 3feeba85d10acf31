"""Bags that carry one label or none: is it in there? Ours beside vectors of statistics, by the area under the ROC."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from bagwise import BagDataset, Bags
from bagwise.catalog import make_model
from bagwise.core.exceptions import InfeasibleBagWarning
from bagwise.preprocessing import BagStatistics
from benchmarks.common import Record, load_real, show

CLASSICAL = ("musk1", "musk2", "elephant", "fox", "tiger")
OURS = ("ored", "ored-rbf", "ored-forest", "mimlnn", "bag-stack")
FOLDS = 5


def telling_words(
    n_bags: int = 100, n_words: int = 200, n_instances: int = 12, topic: int = 20, random_state: int = 0
) -> BagDataset:
    """Text-like bags, half of them with one passage of a topic among many of others; counts of words, as logarithms.

    Every passage has some twenty words: of the language alone, or two in five of them of one of ten topics, the first
    of which is the one that is looked for. Topics share words, so that single words tell little.
    """
    rng = np.random.default_rng(random_state)
    language = 1.0 / np.arange(1, n_words + 1)
    language /= language.sum()
    topics = np.zeros((10, n_words))
    for row in topics:
        row[rng.choice(np.arange(20, n_words), topic, replace=False)] = 1.0 / topic
    bags, y = [], np.arange(n_bags) % 2
    for label in y:
        of_topic = rng.integers(1, len(topics), n_instances)
        share = 0.4 * rng.integers(0, 2, n_instances)
        if label:
            of_topic[0], share[0] = 0, 0.4
        law = (1.0 - share)[:, None] * language + share[:, None] * topics[of_topic]
        bags.append(np.log1p(rng.multinomial(20, law)))
    return BagDataset(Bags.from_list(bags), y[:, None].astype(np.uint8), ["topic"], name="telling words")


def main(quick: bool = False) -> list[Record]:
    draws = 1 if quick else 3
    sets = [telling_words(60 if quick else 100)]
    sets += [data for name in (CLASSICAL[:1] if quick else CLASSICAL) if (data := load_real(name)) is not None]
    rows: list[Record] = []
    for data in sets:
        found: dict[str, list[float]] = {}
        for name, score in scores(data, draws):
            found.setdefault(name, []).append(score)
        means = {name: 100 * float(np.mean(values)) for name, values in found.items()}
        rows.append({"data": data.name, **means})
        print(f"  {data.name}: {', '.join(f'{name} {value:.1f}' for name, value in means.items())}", flush=True)
    show(f"Area under the ROC %, {FOLDS} folds, mean of {draws} draw(s)", rows)
    return rows


def scores(data: BagDataset, draws: int) -> Iterator[tuple[str, float]]:
    """Of every learner and draw: the area under the ROC, mean of the folds."""
    y = data.Y[:, 0].astype(int)
    models = {name: make_model(name) for name in OURS} | rivals()
    for draw in range(draws):
        folds = list(StratifiedKFold(FOLDS, shuffle=True, random_state=draw).split(y, y))
        for name, model in models.items():
            areas = [_area(clone(model), data, y, *fold, of_bags=name in OURS) for fold in folds]
            yield name, float(np.mean(areas))


def rivals() -> dict[str, Any]:
    """What somebody with scikit-learn alone would take: learners of one vector per bag."""
    return {
        "SVC on statistics": make_pipeline(BagStatistics(), StandardScaler(), SVC()),
        "ExtraTrees on statistics": make_pipeline(BagStatistics(), ExtraTreesClassifier(300, random_state=0)),
    }


def _area(model: Any, data: BagDataset, y: np.ndarray, train: np.ndarray, test: np.ndarray, of_bags: bool) -> float:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InfeasibleBagWarning)  # bags without labels are what this is about
        model.fit(data.bags[train], data.Y[train] if of_bags else y[train])
    if hasattr(model, "predict_proba"):
        found = np.asarray(model.predict_proba(data.bags[test]))[:, -1]
    else:
        found = np.asarray(model.decision_function(data.bags[test])).reshape(len(test), -1)[:, -1]
    return float(roc_auc_score(y[test], found))
