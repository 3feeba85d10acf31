"""Short names for complete models: what the command line and the benchmarks call them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from bagwise.annotation import MostFrequentAnnotator, ORedLogisticRegression, SupervisedAnnotator
from bagwise.exceptions import InputError
from bagwise.pipeline import make_pipeline
from bagwise.preprocessing import PerInstance, RBFDictionary


def _standardized(*steps: Any) -> Any:
    return make_pipeline(PerInstance(StandardScaler()), *steps)


CATALOG: dict[str, Callable[[], Any]] = {
    "ored": lambda: _standardized(ORedLogisticRegression()),
    "ored-em": lambda: _standardized(ORedLogisticRegression(l2=0.0, solver="em", max_iter=50, tol=0.0)),
    "ored-rbf": lambda: _standardized(
        PerInstance(RBFDictionary(width=0.5, size=600, whiten=True, random_state=0)),
        ORedLogisticRegression(l2=0.03),
    ),
    "ored-background": lambda: _standardized(ORedLogisticRegression(background=True)),
    "lr-supervised": lambda: _standardized(SupervisedAnnotator(LogisticRegression(max_iter=1000))),
    "svm-supervised": lambda: _standardized(SupervisedAnnotator(LinearSVC())),
    "most-frequent": lambda: MostFrequentAnnotator(),
}


def make_model(name: str) -> Any:
    """A fresh, unfitted model by its short name."""
    if name not in CATALOG:
        raise InputError(f"There is no model {name!r}; the models are {', '.join(CATALOG)}.")
    return CATALOG[name]()
