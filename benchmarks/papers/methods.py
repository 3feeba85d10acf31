"""The papers' methods by the names of their tables' rows, each a function of its settings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import MinMaxScaler, StandardScaler
from sklearn.svm import SVC

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
from bagwise.pipeline import make_pipeline
from bagwise.preprocessing import CLPLScaler, PerInstance, RandomFourierFeatures, RBFDictionary


def _clpl_scaled(*steps: Any) -> Any:
    return make_pipeline(PerInstance(CLPLScaler()), *steps)


def _fourier(gamma: Any, final: Any) -> Any:
    """Section 5.2.5 of Briggs et al. (2013): D = 50, scaled before and after."""
    features = RandomFourierFeatures(gamma=gamma, n_components=50, random_state=0)
    return _clpl_scaled(PerInstance(features), PerInstance(CLPLScaler()), final)


def _standardized(*steps: Any) -> Any:
    return make_pipeline(PerInstance(StandardScaler()), *steps)


def _kernel(width: float, *steps: Any, size: float | None = None) -> Any:
    """Section 6.5 of Pham et al.: the kernel vector over all instances, or a share of them."""
    return _standardized(PerInstance(RBFDictionary(width=width, size=size, random_state=0)), *steps)


def _unit_range(*steps: Any) -> Any:
    return make_pipeline(PerInstance(MinMaxScaler()), *steps)


def _mlr(max_iter: int = 50, l2: float = 0.0, **settings: Any) -> Any:
    """Pham et al.: a fixed number of EM steps and, but for Figure 9, no regularisation."""
    return ORedLogisticRegression(l2=l2, solver="em", max_iter=max_iter, tol=0.0, random_state=0, **settings)


SIM: dict[str, dict[str, Any]] = {
    "sim-max": {"aggregation": "max"},
    "sim-cccp": {"aggregation": "max", "solver": "cccp"},
    "sim-softmax": {"aggregation": "softmax"},
    "sim-hamming-max": {"loss": "hamming", "aggregation": "max"},
    "sim-hamming-softmax": {"loss": "hamming", "aggregation": "softmax"},
}


def _sim(variant: dict[str, Any]) -> Callable[..., Any]:
    def build(gamma: Any = None, **settings: Any) -> Any:
        final = SupportInstanceMachine(**variant, **settings)
        return _clpl_scaled(final) if gamma is None else _fourier(gamma, final)

    return build


METHODS: dict[str, Callable[..., Any]] = {
    **{name: _sim(variant) for name, variant in SIM.items()},
    **{f"{name}-rff": _sim(variant) for name, variant in SIM.items() if variant.get("loss") != "hamming"},
    **{f"{name}-last": _sim({**variant, "restart": "last"}) for name, variant in SIM.items() if name != "sim-cccp"},
    "clpl": lambda **settings: _clpl_scaled(CLPL(**settings)),
    "m3miml": lambda **settings: _clpl_scaled(M3MIML(kernel="linear", tol=1e-3, max_iter=200_000, **settings)),
    "svm-supervised": lambda C: _standardized(SupervisedAnnotator(SVC(kernel="linear", C=C))),
    "mlr": lambda **settings: _standardized(_mlr(**settings)),
    "ored": lambda **settings: _standardized(ORedLogisticRegression(**settings)),
    "sim": _sim(SIM["sim-softmax"]),
    "mfast": lambda **settings: _standardized(MIMLFast(random_state=0, **settings)),
    "lsb": lambda **settings: _standardized(LSBCMM(random_state=0, **settings)),
    "slr": lambda C=1e4: _standardized(SupervisedAnnotator(LogisticRegression(C=C, max_iter=2000))),
    "dummy": lambda: MostFrequentAnnotator(),
    "m-svm": lambda **settings: _unit_range(MIMLSVM(random_state=0, **settings)),
    "m-nn": lambda **settings: _unit_range(MIMLNN(random_state=0, **settings)),
    "k-mlr": lambda width, size=None, max_iter=500: _kernel(width, _mlr(max_iter=max_iter), size=size),
    "k-mfast": lambda width, size=None, **settings: _kernel(width, MIMLFast(random_state=0, **settings), size=size),
    "k-sim": lambda width, size=None, **settings: _kernel(
        width, PerInstance(CLPLScaler()), SupportInstanceMachine(**settings), size=size
    ),
    "k-slr": lambda width, size=None, C=1e2: _kernel(
        width, SupervisedAnnotator(LogisticRegression(C=C, max_iter=2000)), size=size
    ),
    "ored-forest": lambda **settings: ORedForest(random_state=0, **settings),
    "ored-rbf": lambda width=0.5, l2=0.03, size=600: _standardized(
        PerInstance(RBFDictionary(width=width, size=size, whiten=True, random_state=0)), ORedLogisticRegression(l2=l2)
    ),
    "m3miml-rbf": lambda **settings: _unit_range(M3MIML(C=1.0, gamma=1.0, tol=1e-3, **settings)),
    "mimlboost": lambda **settings: _unit_range(MIMLBoost(n_rounds=25, **settings)),
    "mimlboost-feature": lambda **settings: _unit_range(MIMLBoost(n_rounds=25, label_coding="feature", **settings)),
    "mimlsvm": lambda **settings: _unit_range(MIMLSVM(gamma=0.2, random_state=0, **settings)),
}
