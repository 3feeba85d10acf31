"""The papers' methods by the names of their tables' rows, each a function of its settings.

All are entries of the library's catalogue, under the papers' names and with the papers' settings; the few that no entry
has are made of the catalogue's building blocks.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.svm import SVC

from bagwise.annotation import MostFrequentAnnotator, SupervisedAnnotator, SupportInstanceMachine
from bagwise.catalog import CATALOG, SIM_VARIANTS, model_of
from bagwise.core.bags import Bags
from bagwise.pipeline import make_pipeline
from bagwise.preprocessing import CLPLScaler


class RankedByMaximum(SupportInstanceMachine):
    """Section 6.4 of Pham et al.: trained with softmax, but a bag scores as its best instance does."""

    def _bag_scores(self, bags: Bags) -> np.ndarray:
        return np.maximum.reduceat(self._instance_scores(bags), bags.offsets[:-1], axis=0)


class CommonestLabel(MostFrequentAnnotator):
    """Names the class that most bags list in every bag: another rule for the Hamming loss of a dummy."""

    def _bag_label_sets(self, bags: Bags) -> np.ndarray:
        scores = self._bag_scores(bags)
        return scores == scores.max(axis=1, keepdims=True)


def _nested_svm() -> Any:
    """Section 5.1.4 of Briggs et al. (2013): C by ten folds within the training instances."""
    grid = {"C": [10.0**power for power in range(1, 8)]}
    folds = KFold(10, shuffle=True, random_state=0)
    return model_of(CLPLScaler, SupervisedAnnotator, estimator=GridSearchCV(SVC(kernel="linear"), grid, cv=folds))


def _unscaled_k_mlr(width: float, size: float | None = None, **settings: Any) -> Any:
    """K-MLR on features as they are: the paper does not say that they are standardized."""
    return make_pipeline(*CATALOG["k-ored-em"](width, size, **settings)[1:])


METHODS: dict[str, Callable[..., Any]] = {
    **{name: CATALOG[name] for name in SIM_VARIANTS},
    **{f"{name}-rff": CATALOG[f"{name}-rff"] for name in ("sim-max", "sim-cccp", "sim-softmax")},
    **{f"{name}-last": CATALOG[f"{name}-last"] for name in SIM_VARIANTS if name != "sim-cccp"},
    "clpl": CATALOG["clpl"],
    "m3miml": partial(CATALOG["m3miml-linear"], tol=1e-3, max_iter=200_000),
    "svm-supervised": _nested_svm,
    "mlr": partial(CATALOG["ored-em"], random_state=0),  # a fixed number of EM steps; l2 in Figure 9 only
    "sim": CATALOG["sim-softmax"],
    "sim-by-maximum": partial(model_of, CLPLScaler, RankedByMaximum),
    "mfast": CATALOG["mimlfast"],
    "lsb": CATALOG["lsb-cmm"],
    "slr": partial(CATALOG["lr-supervised"], C=1e4, max_iter=2000),
    "dummy": CATALOG["most-frequent"],
    "dummy-commonest": CommonestLabel,
    "m-svm": CATALOG["mimlsvm"],
    "m-nn": CATALOG["mimlnn"],
    "k-mlr": CATALOG["k-ored-em"],
    "k-mlr-raw": _unscaled_k_mlr,
    "k-mfast": CATALOG["k-mimlfast"],
    "k-sim": CATALOG["k-sim-softmax"],
    "k-slr": partial(CATALOG["k-lr-supervised"], C=1e2, max_iter=2000),
    **{name: CATALOG[name] for name in ("ored", "ored-rbf", "ored-forest", "ored-background")},
    "m3miml-rbf": partial(CATALOG["m3miml"], C=1.0, gamma=1.0, tol=1e-3),
    "mimlboost": partial(CATALOG["mimlboost"], n_rounds=25),
    "mimlboost-feature": partial(CATALOG["mimlboost"], n_rounds=25, label_coding="feature"),
    "mimlsvm": partial(CATALOG["mimlsvm"], gamma=0.2),
}
