"""The fitted attributes of the scikit-learn classes that a model file takes, as `bagwise.core.fitted` declares them."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
from sklearn.preprocessing import StandardScaler

from bagwise.core.exceptions import InputError
from bagwise.core.fitted import (
    INPUTS,
    OUTPUT,
    Anything,
    Attribute,
    Choice,
    Either,
    Flag,
    Labels,
    Maybe,
    Number,
    Numbers,
    Size,
    Text,
    TupleOf,
    part_problem,
)

SEEN = Either(Number(0), Numbers("features"), Numbers("features", whole=True))
PER_FEATURE = Numbers("features")
OR_NOTHING = Either(None, PER_FEATURE)
SCALE = Either(None, Numbers("features", positive=True))
DECOMPOSED: dict[str, Attribute] = {
    **INPUTS, **OUTPUT, "components_": Numbers("components", "features"),
    "explained_variance_": Numbers("components", low=0), "singular_values_": Numbers("components"),
    "explained_variance_ratio_": Numbers("components", finite=False),
}  # fmt: skip
LINEAR: dict[str, Attribute] = {
    **INPUTS, "classes_": Labels(), "coef_": Numbers("outputs", "features", sparse=True),
    "intercept_": Either(Number(), Numbers("outputs")),
    "n_iter_": Either(None, Number(0), Numbers("outputs", whole=True), Numbers(1, whole=True)),
}  # fmt: skip

FITTED: dict[str, dict[str, Attribute]] = {
    "StandardScaler": {
        **INPUTS, **OUTPUT, "n_samples_seen_": SEEN, "mean_": OR_NOTHING, "var_": OR_NOTHING, "scale_": SCALE,
    },
    "MinMaxScaler": {
        **INPUTS, **OUTPUT, "n_samples_seen_": SEEN, "scale_": PER_FEATURE, "min_": PER_FEATURE,
        "data_min_": PER_FEATURE, "data_max_": PER_FEATURE, "data_range_": PER_FEATURE,
        "feature_range": TupleOf(Number(), Number()),
    },
    "MaxAbsScaler": {**INPUTS, **OUTPUT, "n_samples_seen_": SEEN, "scale_": SCALE, "max_abs_": PER_FEATURE},
    "RobustScaler": {**INPUTS, **OUTPUT, "center_": OR_NOTHING, "scale_": SCALE},
    "QuantileTransformer": {
        **INPUTS, **OUTPUT, "n_quantiles_": Size("quantiles"), "references_": Numbers("quantiles"),
        "quantiles_": Numbers("quantiles", "features"),
    },
    "PowerTransformer": {**INPUTS, **OUTPUT, "lambdas_": PER_FEATURE, "_scaler": Maybe(Anything())},
    "Normalizer": {**INPUTS, **OUTPUT},
    "PCA": {
        **DECOMPOSED, "mean_": PER_FEATURE, "noise_variance_": Number(), "n_samples_": Number(0),
        "n_components_": Size("components"), "_fit_svd_solver": Text(),
    },
    "TruncatedSVD": DECOMPOSED,
    "VarianceThreshold": {**INPUTS, **OUTPUT, "variances_": PER_FEATURE},
    "LogisticRegression": LINEAR,
    "RidgeClassifier": {
        **LINEAR, "classes_": Maybe(Labels()), "_label_binarizer": Anything(), "solver_": Text(),
        "coef_": Either(Numbers("outputs", "features", sparse=True), PER_FEATURE),
    },
    "LabelBinarizer": {
        "y_type_": Choice("binary", "multiclass"), "sparse_input_": Flag(), "classes_": Labels(),
    },
    "LinearSVC": LINEAR,
}  # fmt: skip


# The modules of scikit-learn, which are imported when a file names one of their classes.
_MODULES = {
    "Pipeline": "pipeline", "PCA": "decomposition", "TruncatedSVD": "decomposition",
    "VarianceThreshold": "feature_selection", "LogisticRegression": "linear_model", "RidgeClassifier": "linear_model",
    "LinearSVC": "svm",
}  # fmt: skip


def sklearn_class(name: str) -> type | None:
    """The class of scikit-learn of this name, if a model file may hold it."""
    if name not in FITTED and name != "Pipeline":
        return None
    return getattr(importlib.import_module(f"sklearn.{_MODULES.get(name, 'preprocessing')}"), name)


def check_parameters(estimator: Any) -> None:
    """Raise an `InputError` where parameters are none; also before a fit, since much asks an estimator what it is."""
    try:
        estimator._validate_params()
    except ValueError as error:
        raise InputError(str(error).replace("\n", " ")) from error


def check_together(estimator: Any) -> None:
    """Raise an `InputError` where attributes that are right by themselves do not fit together."""
    name = type(estimator).__name__
    if name == "RidgeClassifier":
        problem = part_problem(estimator._label_binarizer, "inverse_transform")
        if problem is not None:
            raise InputError(f"{name}._label_binarizer {problem}")
        if len(estimator.classes_) != len(estimator._label_binarizer.classes_):
            raise InputError(f"{name} and its _label_binarizer know different classes; fit it again")
    if name == "PowerTransformer" and estimator.standardize:
        scaler: Any = getattr(estimator, "_scaler", None)
        problem = part_problem(scaler, "transform")
        if problem is None and not isinstance(scaler, StandardScaler):  # others may give more features, or fewer
            problem = f"is a {type(scaler).__name__}, and a StandardScaler was expected"
        if problem is None and scaler.n_features_in_ != len(estimator.lambdas_):
            problem = "scales another number of features; fit it again"
        if problem is not None:
            raise InputError(f"{name}._scaler {problem}")
    if hasattr(estimator, "coef_"):
        n_classes = len(estimator.classes_)
        n_scores = 1 if estimator.coef_.ndim == 1 else estimator.coef_.shape[0]
        if n_classes < 2 or n_scores != (1 if n_classes == 2 else n_classes):
            raise InputError(f"{name}.coef_ gives {n_scores} score(s) for {n_classes} classes; fit it again")
        if np.size(estimator.intercept_) not in (1, n_scores):
            raise InputError(f"{name}.intercept_ is for {np.size(estimator.intercept_)} scores, not {n_scores}")
    if name == "VarianceThreshold" and not estimator.get_support().any():
        raise InputError(f"{name} lets no feature through; fit it again")
