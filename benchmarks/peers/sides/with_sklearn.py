"""What scikit-learn alone can do: a classifier for each label on the means of bags, or on instances."""

from functools import partial
from typing import Any

import numpy as np
from serve import Data, Method, Scorer, serve
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier
from sklearn.svm import SVC


def means(values: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    return np.add.reduceat(values, offsets[:-1]) / np.diff(offsets)[:, None]


def on_means(classifier: Any, train: Data) -> Scorer:
    model = OneVsRestClassifier(classifier).fit(means(train.X, train.offsets), train.Y)
    score = model.decision_function if hasattr(classifier, "decision_function") else model.predict_proba
    return lambda test: score(means(test.X, test.offsets))


def on_instances(classifier: Any, train: Data) -> Scorer:
    """Every instance is given the labels of its bag; a bag's probability is the mean of its instances'."""
    labels = np.repeat(train.Y, np.diff(train.offsets), axis=0)
    model = OneVsRestClassifier(classifier).fit(train.X, labels)
    return lambda test: means(model.predict_proba(test.X), test.offsets)


METHODS: dict[str, Method] = {
    "logistic regression, bag means": partial(on_means, LogisticRegression(max_iter=1000)),
    "RBF SVC, bag means": partial(on_means, SVC()),
    "random forest, bag means": partial(on_means, RandomForestClassifier(random_state=0)),
    "logistic regression, instances": partial(on_instances, LogisticRegression(max_iter=1000)),
}

if __name__ == "__main__":
    serve(METHODS)
