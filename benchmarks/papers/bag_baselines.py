"""What one would do for the labels of bags without a learner of bags: scikit-learn on one vector a bag.

Five classifiers on the means of bags, and on mean, maximum, minimum and deviation side by side. Features are
standardised for the two that need it, whose C is chosen by folds of the training bags.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from bagwise.metrics import average_precision
from bagwise.preprocessing._bag_statistics import STATISTICS, BagStatistics


class PerLabel(ClassifierMixin, BaseEstimator):
    """One copy of a binary classifier for every label; the score of a label that all or none carry is constant."""

    def __init__(self, estimator: Any):
        self.estimator = estimator

    def fit(self, X: Any, Y: Any) -> PerLabel:
        Y = np.asarray(Y)
        self.classes_ = np.arange(Y.shape[1])
        self.constant_ = np.where(Y.all(axis=0), 1.0, -1.0)
        self.estimators_ = [
            clone(self.estimator).fit(X, column) if 0 < column.sum() < len(column) else None for column in Y.T
        ]
        return self

    def decision_function(self, X: Any) -> np.ndarray:
        scores = np.tile(self.constant_, (len(X), 1))
        for label, estimator in enumerate(self.estimators_):
            if estimator is not None:
                scores[:, label] = (
                    estimator.decision_function(X)
                    if hasattr(estimator, "decision_function")
                    else estimator.predict_proba(X)[:, 1] - 0.5
                )
        return scores

    def predict(self, X: Any) -> np.ndarray:
        return (self.decision_function(X) > 0).astype(int)


class AllLabels(ClassifierMixin, BaseEstimator):
    """One forest for all labels together: scikit-learn's give a list of probabilities, this gives scores."""

    def __init__(self, estimator: Any):
        self.estimator = estimator

    def fit(self, X: Any, Y: Any) -> AllLabels:
        self.classes_ = np.arange(np.shape(Y)[1])
        self.estimator_ = clone(self.estimator).fit(X, np.asarray(Y))
        return self

    def decision_function(self, X: Any) -> np.ndarray:
        carried = [
            proba[:, list(values).index(1)] if 1 in values else np.zeros(len(proba))
            for proba, values in zip(self.estimator_.predict_proba(X), self.estimator_.classes_, strict=True)
        ]
        return np.column_stack(carried) - 0.5

    def predict(self, X: Any) -> np.ndarray:
        return (self.decision_function(X) > 0).astype(int)


def _ranked(estimator: Any, X: Any, Y: Any) -> float:
    return average_precision(Y, estimator.decision_function(X))


def _with_chosen_c(classifier: Any, values: tuple[float, ...], statistics: tuple[str, ...]) -> Any:
    """Standardised features, and the C (one for all labels) of the best average precision in three folds."""
    model = make_pipeline(BagStatistics(statistics), StandardScaler(), PerLabel(classifier))
    folds = KFold(3, shuffle=True, random_state=0)
    return GridSearchCV(model, {"perlabel__estimator__C": values}, scoring=_ranked, cv=folds)


def _trees(learner: Any, statistics: tuple[str, ...]) -> Any:
    return make_pipeline(BagStatistics(statistics), learner)


CLASSIFIERS: dict[str, Callable[[tuple[str, ...]], Any]] = {
    "lr": partial(_with_chosen_c, LogisticRegression(max_iter=1000), (0.01, 0.1, 1.0)),
    "svm": partial(_with_chosen_c, SVC(gamma="scale"), (1.0, 10.0, 100.0)),
    "random-forest": partial(_trees, AllLabels(RandomForestClassifier(300, random_state=0))),
    "extra-trees": partial(_trees, AllLabels(ExtraTreesClassifier(300, random_state=0))),
    "boosting": partial(_trees, PerLabel(HistGradientBoostingClassifier(min_samples_leaf=5, random_state=0))),
}
BASELINES: dict[str, Callable[[], Any]] = {
    f"{name}-{vector}": partial(make, statistics)
    for vector, statistics in (("means", ("mean",)), ("statistics", STATISTICS))
    for name, make in CLASSIFIERS.items()
}
