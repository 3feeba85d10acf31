"""The classes of scikit-learn that a model file takes, by their modules, and what a fit leaves of each.

Attributes are declared as `bagwise.core.fitted` has them. A module is imported when a file names one of its classes.
"""

from bagwise.core.fitted import (
    INPUTS,
    OUTPUT,
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
)

_SEEN = Either(Number(0), Numbers("features"), Numbers("features", whole=True))
_EACH = Numbers("features")
_OR_NOTHING = Either(None, _EACH)
_SCALE = Either(None, Numbers("features", positive=True))
_TRANSFORMER = {**INPUTS, **OUTPUT}
_SCALER: dict[str, Attribute] = {**_TRANSFORMER, "n_samples_seen_": _SEEN}
_DECOMPOSED: dict[str, Attribute] = {
    **_TRANSFORMER,
    "components_": Numbers("components", "features"),
    "explained_variance_": Numbers("components", low=0),
    "singular_values_": Numbers("components"),
    "explained_variance_ratio_": Numbers("components", finite=False),
}
_LINEAR: dict[str, Attribute] = {
    **INPUTS,
    "classes_": Labels(),
    "coef_": Numbers("outputs", "features", sparse=True),
    "intercept_": Either(Number(), Numbers("outputs")),
    "n_iter_": Either(None, Number(0), Numbers("outputs", whole=True), Numbers(1, whole=True)),
}
# The modules of scikit-learn, which are imported when a file names one of their classes, and what these are fitted to.
MODULES: dict[str, dict[str, dict[str, Attribute]]] = {
    "pipeline": {"Pipeline": {}},
    "preprocessing": {
        "StandardScaler": {**_SCALER, "mean_": _OR_NOTHING, "var_": _OR_NOTHING, "scale_": _SCALE},
        "MinMaxScaler": {
            **_SCALER,
            **dict.fromkeys(("scale_", "min_", "data_min_", "data_max_", "data_range_"), _EACH),
            "feature_range": TupleOf(Number(), Number()),
        },
        "MaxAbsScaler": {**_SCALER, "scale_": _SCALE, "max_abs_": _EACH},
        "RobustScaler": {**_TRANSFORMER, "center_": _OR_NOTHING, "scale_": _SCALE},
        "QuantileTransformer": {
            **_TRANSFORMER,
            "n_quantiles_": Size("quantiles"),
            "references_": Numbers("quantiles"),
            "quantiles_": Numbers("quantiles", "features"),
        },
        "PowerTransformer": {**_TRANSFORMER, "lambdas_": _EACH, "_scaler": Maybe(Attribute())},
        "Normalizer": _TRANSFORMER,
        "LabelBinarizer": {
            "y_type_": Choice("binary", "multiclass"),
            "sparse_input_": Flag(),
            "classes_": Labels(),
        },
    },
    "decomposition": {
        "PCA": {
            **_DECOMPOSED,
            "mean_": _EACH,
            "noise_variance_": Number(),
            "n_samples_": Number(0),
            "n_components_": Size("components"),
            "_fit_svd_solver": Text(),
        },
        "TruncatedSVD": _DECOMPOSED,
    },
    "feature_selection": {"VarianceThreshold": {**_TRANSFORMER, "variances_": _EACH}},
    "linear_model": {
        "LogisticRegression": _LINEAR,
        "RidgeClassifier": {
            **_LINEAR,
            "classes_": Maybe(Labels()),
            "_label_binarizer": Attribute(),
            "solver_": Text(),
            "coef_": Either(Numbers("outputs", "features", sparse=True), _EACH),
        },
    },
    "svm": {"LinearSVC": _LINEAR},
}
SKLEARN = {name: declared for classes in MODULES.values() for name, declared in classes.items()}
"""The classes of scikit-learn that a model file takes, and their fitted attributes."""
