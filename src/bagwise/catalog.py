"""Short names for complete models: what the command line and the benchmarks call them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import MinMaxScaler, StandardScaler
from sklearn.svm import LinearSVC

from bagwise.annotation import (
    CLPL,
    LSBCMM,
    MIMLFast,
    MostFrequentAnnotator,
    ORedForest,
    ORedLogisticRegression,
    SupervisedAnnotator,
    SupportInstanceMachine,
)
from bagwise.classification import M3MIML, MIMLNN, MIMLSVM, MIMLBoost
from bagwise.exceptions import InputError
from bagwise.pipeline import make_pipeline
from bagwise.preprocessing import CLPLScaler, PerInstance, RandomFourierFeatures, RBFDictionary


def _standardized(*steps: Any) -> Any:
    return make_pipeline(PerInstance(StandardScaler()), *steps)


def _unit_range(*steps: Any) -> Any:
    return make_pipeline(PerInstance(MinMaxScaler()), *steps)


def _clpl_scaled(*steps: Any) -> Any:
    return make_pipeline(PerInstance(CLPLScaler()), *steps)


def _fourier(*steps: Any) -> Any:
    """The nonlinear form of Briggs et al.: scaled, Fourier features, scaled again."""
    features = RandomFourierFeatures(gamma="scale", n_components=50, random_state=0)
    return _clpl_scaled(PerInstance(features), PerInstance(CLPLScaler()), *steps)


def _sim(scaled: Callable[..., Any], options: dict[str, str]) -> Any:
    return scaled(SupportInstanceMachine(**options))  # type: ignore[arg-type]


SIM_VARIANTS: dict[str, dict[str, str]] = {
    "sim-max": {"aggregation": "max"},
    "sim-softmax": {"aggregation": "softmax"},
    "sim-cccp": {"aggregation": "max", "solver": "cccp"},
    "sim-hamming-max": {"loss": "hamming", "aggregation": "max"},
    "sim-hamming-softmax": {"loss": "hamming", "aggregation": "softmax"},
}

CATALOG: dict[str, Callable[[], Any]] = {
    "ored": lambda: _standardized(ORedLogisticRegression()),
    "ored-em": lambda: _standardized(ORedLogisticRegression(l2=0.0, solver="em", max_iter=50, tol=0.0)),
    "ored-rbf": lambda: _standardized(
        PerInstance(RBFDictionary(width=0.5, size=600, whiten=True, random_state=0)),
        ORedLogisticRegression(l2=0.03),
    ),
    "ored-forest": lambda: ORedForest(random_state=0),
    "ored-background": lambda: _standardized(ORedLogisticRegression(background=True)),
    **{name: partial(_sim, _clpl_scaled, options) for name, options in SIM_VARIANTS.items()},
    **{f"{name}-rff": partial(_sim, _fourier, options) for name, options in SIM_VARIANTS.items()},
    "clpl": lambda: _clpl_scaled(CLPL()),
    "mimlfast": lambda: _standardized(MIMLFast(random_state=0)),
    "lsb-cmm": lambda: _standardized(LSBCMM(random_state=0)),
    "m3miml": lambda: _unit_range(M3MIML()),
    "mimlsvm": lambda: _unit_range(MIMLSVM(random_state=0)),
    "mimlnn": lambda: _unit_range(MIMLNN(random_state=0)),
    "mimlboost": lambda: _unit_range(MIMLBoost()),
    "lr-supervised": lambda: _standardized(SupervisedAnnotator(LogisticRegression(max_iter=1000))),
    "svm-supervised": lambda: _standardized(SupervisedAnnotator(LinearSVC())),
    "most-frequent": lambda: MostFrequentAnnotator(),
}


def make_model(name: str) -> Any:
    """A fresh, unfitted model by its short name."""
    if name not in CATALOG:
        raise InputError(f"There is no model {name!r}; the models are {', '.join(CATALOG)}.")
    return CATALOG[name]()
