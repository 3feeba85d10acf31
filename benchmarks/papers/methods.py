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

from bagwise.annotation import SupervisedAnnotator, SupportInstanceMachine
from bagwise.catalog import CATALOG, SIM_VARIANTS, dictionary, model_of
from bagwise.classification import M3MIML
from bagwise.core.bags import Bags
from bagwise.pipeline import final_step
from bagwise.preprocessing import CLPLScaler, PerInstance


def kernelized(name: str, *between: Any, width: float, size: float | None = None, **settings: Any) -> Any:
    """Section 6.5 of Pham et al.: an entry's learner on the kernel vector over all instances, or a share of them."""
    return dictionary(*between, final_step(CATALOG[name](**settings)), width=width, size=size)


class RankedByMaximum(SupportInstanceMachine):
    """Section 6.4 of Pham et al.: trained with softmax, but a bag scores as its best instance does."""

    def _bag_scores(self, bags: Bags) -> np.ndarray:
        return np.maximum.reduceat(self._instance_scores(bags), bags.offsets[:-1], axis=0)


def _k_sim(**settings: Any) -> Any:
    return kernelized("sim-softmax", PerInstance(CLPLScaler()), **settings)


def _nested_svm() -> Any:
    """Section 5.1.4 of Briggs et al. (2013): C by ten folds within the training instances."""
    grid = {"C": [10.0**power for power in range(1, 8)]}
    folds = KFold(10, shuffle=True, random_state=0)
    return model_of(CLPLScaler, SupervisedAnnotator, estimator=GridSearchCV(SVC(kernel="linear"), grid, cv=folds))


METHODS: dict[str, Callable[..., Any]] = {
    **{name: CATALOG[name] for name in SIM_VARIANTS},
    **{f"{name}-rff": CATALOG[f"{name}-rff"] for name in ("sim-max", "sim-cccp", "sim-softmax")},
    **{f"{name}-last": partial(CATALOG[name], restart="last") for name in SIM_VARIANTS if name != "sim-cccp"},
    "clpl": CATALOG["clpl"],
    "m3miml": partial(model_of, CLPLScaler, M3MIML, kernel="linear", tol=1e-3, max_iter=200_000),
    "svm-supervised": _nested_svm,
    "mlr": partial(CATALOG["ored-em"], random_state=0),  # a fixed number of EM steps; l2 in Figure 9 only
    "sim": CATALOG["sim-softmax"],
    "sim-by-maximum": partial(model_of, CLPLScaler, RankedByMaximum),
    "mfast": CATALOG["mimlfast"],
    "lsb": CATALOG["lsb-cmm"],
    "slr": partial(CATALOG["lr-supervised"], C=1e4, max_iter=2000),
    "dummy": CATALOG["most-frequent"],
    "m-svm": CATALOG["mimlsvm"],
    "m-nn": CATALOG["mimlnn"],
    "k-mlr": partial(kernelized, "ored-em", max_iter=500, random_state=0),
    "k-mfast": partial(kernelized, "mimlfast"),
    "k-sim": _k_sim,
    "k-slr": partial(kernelized, "lr-supervised", C=1e2, max_iter=2000),
    **{name: CATALOG[name] for name in ("ored", "ored-rbf", "ored-forest", "ored-background")},
    "m3miml-rbf": partial(CATALOG["m3miml"], C=1.0, gamma=1.0, tol=1e-3),
    "mimlboost": partial(CATALOG["mimlboost"], n_rounds=25),
    "mimlboost-feature": partial(CATALOG["mimlboost"], n_rounds=25, label_coding="feature"),
    "mimlsvm": partial(CATALOG["mimlsvm"], gamma=0.2),
}
