"""The model file: an estimator with all that it learned, as plain data.

A model file is an uncompressed zip of ``model.json`` and of arrays in numpy's ``.npy`` form. It holds data,
never code: reading one runs nothing that the file brings. The class of an estimator is looked up by name among
those that the families of estimators registered (`bagwise.core.fitted.savable`) and those of scikit-learn that
`SKLEARN` lists, so a file cannot name a module; a file that does not fit is a `FormatError`.

``model.json`` is an object with the members ``format`` ("bagwise-model"), ``version`` (1), ``written_by``
(the versions of the libraries) and ``estimator``: an object of the kind "estimator" with the members
``class`` (such a name), ``params`` and ``state`` (objects, name to value). How values are written
stands in `bagwise.io.archive`. An optional member ``about`` holds plain data for people and for the command line.
"""

from __future__ import annotations

import importlib
import inspect
import keyword
import os
import warnings
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import scipy
import sklearn
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from bagwise._version import __version__
from bagwise.calibration.novelty import ATTRIBUTE as NOVELTY
from bagwise.calibration.novelty import FITTED as NOVELTY_PARTS
from bagwise.core.base import BagEstimator
from bagwise.core.exceptions import FormatError, InputError
from bagwise.core.fitted import (
    CARRIED,
    CLASSES,
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
    Part,
    Size,
    Text,
    TupleOf,
    carry,
    check_attributes,
    check_pipeline,
    declared_by,
    is_fitted,
    is_fitted_state,
    n_inputs,
)
from bagwise.core.typing import Learner, Transformer
from bagwise.io.archive import (
    DOCUMENT,
    Decoder,
    Encoder,
    Node,
    as_read,
    member,
    read_archive,
    read_document,
    write_archive,
)
from bagwise.io.files import PathLike, atomic_write
from bagwise.pipeline import unwrap

FORMAT = "bagwise-model"
VERSION = 1

carry(NOVELTY, Either(NOVELTY_PARTS, None))
_TRUSTED = {
    "memory": "a cache folder, whose content would be trusted",
    "transform_input": "what is routed through its steps in a fit",
}


def save(estimator: Learner | Transformer, path: PathLike, about: dict[str, Any] | None = None) -> None:
    """Write an estimator, its parameters and what it learned, to a model file.

    Parameters
    ----------
    estimator : estimator
        Of bagwise, or one of the scikit-learn classes in `SKLEARN`, as are the estimators inside it.
        Of a fitted search the estimator that it found is saved (``best_estimator_``), not the search.
    path : str or path
        The file appears complete or not at all; an old one is replaced.
    about : dict or None
        Plain data to keep with the estimator, such as its name and the features' names; `read_about` gives it.
        None, true, false, finite numbers, text, and lists and dicts of them.

    Raises
    ------
    InputError
        If a class, or a value of a parameter or attribute, cannot be saved; the message says where it sits. Or if
        `about` is nothing that `load` would take back. Nothing is written then.

    Examples
    --------
    >>> import tempfile, os, bagwise
    >>> from sklearn.preprocessing import StandardScaler
    >>> path = os.path.join(tempfile.mkdtemp(), "scaler.bagwise")
    >>> bagwise.save(StandardScaler().fit([[0.0], [2.0]]), path)
    >>> bagwise.load(path).transform([[3.0]]).tolist()
    [[2.0]]
    """
    if isinstance(estimator, type) or not hasattr(estimator, "get_params"):
        raise InputError(f"Only an estimator can be saved, not {estimator!r}; pass a fitted one.")
    if unwrap(estimator) is not estimator and not hasattr(estimator, "best_estimator_"):
        raise InputError(f"{type(estimator).__name__} has found nothing to save; fit it, with refit=True.")
    estimator = unwrap(estimator)
    encoder = Encoder(_encode_estimator)
    document = {
        "format": FORMAT,
        "version": VERSION,
        "written_by": {
            "bagwise": __version__,
            "numpy": np.__version__,
            "scipy": scipy.__version__,
            "scikit-learn": sklearn.__version__,
        },
        "estimator": encoder.encode(estimator, type(estimator).__name__),
    }
    if about is not None:
        document["about"] = about
    _check_loads(document, encoder.arrays)
    with atomic_write(path) as handle:
        write_archive(handle, document, encoder.arrays)


def load(path: PathLike) -> Any:
    """Read an estimator from a model file.

    Parameters
    ----------
    path : str or path

    Returns
    -------
    estimator
        As it was saved.

    Raises
    ------
    FormatError
        If the file is damaged, foreign or of a later format. Whatever it holds, nothing from it is run.
    OSError
        If the file cannot be opened.

    Warns
    -----
    UserWarning
        If a scikit-learn estimator inside was saved by another version of scikit-learn.
    """
    name = os.fspath(path)
    with open(path, "rb") as handle, _refused(f"Cannot load {name!r}"):
        document, arrays = read_archive(handle)
        estimator, met_sklearn = _rebuilt(document, arrays)
    writer = document["written_by"].get("scikit-learn")
    if met_sklearn and writer != sklearn.__version__:
        text = f"{name!r} holds estimators of scikit-learn {writer}, and this is {sklearn.__version__}"
        warnings.warn(f"{text}; check their predictions, or save again.", UserWarning, stacklevel=2)
    return estimator


def read_about(path: PathLike) -> dict[str, Any]:
    """What `save` was given as `about`, and under ``written_by`` the versions of the libraries; no array is read."""
    with open(path, "rb") as handle, _refused(f"Cannot load {os.fspath(path)!r}"):
        document = read_document(handle)
        _check_document(document)
    return {**document.get("about", {}), "written_by": document["written_by"]}


@contextmanager
def _refused(lead: str) -> Iterator[None]:
    """Whatever damage brings up in zip, JSON, numpy or a constructor, as one error."""
    try:
        yield
    except FormatError as error:
        raise FormatError(f"{lead}: {error}") from error
    except Exception as error:
        raise FormatError(f"{lead}: it is damaged or no bagwise model ({type(error).__name__}: {error}).") from error


def _check_loads(document: dict[str, Any], arrays: list[np.ndarray]) -> None:
    """Raise an `InputError` where `load` would refuse what is to be saved."""
    cure = "; about=... may hold None, bool, int, finite float, str, and lists and dicts of them by name"
    try:
        _rebuilt(as_read(document), dict(enumerate(arrays)))
    except (InputError, TypeError, ValueError) as error:
        problem = str(error).rstrip(".") + (cure if "about" in document else "")
        raise InputError(f"The model cannot be saved: {problem}.") from error


def _rebuilt(document: Any, arrays: dict[int, np.ndarray]) -> tuple[Any, bool]:
    """The estimator of a document and of all of its arrays, and whether one of scikit-learn is in it."""
    _check_document(document)
    rebuild = _Rebuild(document["written_by"].get("bagwise"))
    estimator = Decoder(arrays, rebuild).decode(document["estimator"])
    if arrays:
        raise FormatError(f"it holds {len(arrays)} array(s) that belong nowhere.")
    return estimator, rebuild.met_sklearn


def is_model_file(path: PathLike) -> bool:
    """Whether the file is a zip that holds what a model file must."""
    try:
        with zipfile.ZipFile(path) as archive:
            return DOCUMENT in archive.namelist()
    except (OSError, ValueError, zipfile.BadZipFile, NotImplementedError):
        return False


def _check_document(document: Any) -> None:
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise FormatError(f"it does not say that its format is {FORMAT!r}.")
    version, written_by = document.get("version"), document.get("written_by")
    if type(version) is not int or version < 1:
        raise FormatError(f"its format version is {version!r}, which was never used.")
    if version > VERSION:
        raise FormatError(
            f"it has version {version} of the format, and bagwise {__version__} reads up to {VERSION}; upgrade bagwise."
        )
    if not isinstance(written_by, dict) or not all(isinstance(value, str) for value in written_by.values()):
        raise FormatError("it does not say which versions wrote it.")
    estimator = document.get("estimator")
    if not isinstance(estimator, dict) or estimator.get("kind") != "estimator":
        raise FormatError("it holds no estimator.")
    about = document.get("about", {})
    if not isinstance(about, dict):
        raise FormatError(
            f"what it says about itself is a {type(about).__name__}, and an object of values by name was expected."
        )
    names = about.get("feature_names")
    if names is not None and not (isinstance(names, list) and all(isinstance(name, str) for name in names)):
        raise FormatError("the names of its features are no list of text.")


# ---------------------------------------------------------------------------------------------------------------------
# Estimators


def _encode_estimator(estimator: Any, where: str, inner: Callable[[Any, str], Any]) -> Node:
    cls = type(estimator)
    name = next((name for name in (cls.__name__, f"sklearn.{cls.__name__}") if _class_of(name) is cls), None)
    if name is None:
        raise InputError(
            f"{where} is a {cls.__module__}.{cls.__name__}, which the model file does not take; it takes "
            f"{', '.join(sorted({*CLASSES, *SKLEARN}))}."
        )
    params = estimator._saved_params() if isinstance(estimator, BagEstimator) else estimator.get_params(deep=False)
    aside = {*params, "_metadata_request"}  # who gets what in a fit is nothing that was learned
    state = {key: value for key, value in vars(estimator).items() if key not in aside}
    return {
        "kind": "estimator",
        "class": name,
        "params": {key: inner(value, f".{key}") for key, value in params.items()},
        "state": {key: inner(value, f".{key}") for key, value in state.items()},
    }


class _Rebuild:
    """Makes estimators from their nodes, and notes whether one of scikit-learn was among them."""

    def __init__(self, writer: str | None):
        self.writer = writer
        self.met_sklearn = False

    def __call__(self, decoder: Decoder, node: Node, depth: int) -> Any:
        name = member(node, "class", str)
        cls = _class_of(name)
        if cls is None:
            raise FormatError(
                f"it names the class {name!r}, which bagwise {__version__} does not read; {self.writer} wrote it."
            )
        self.met_sklearn |= name.startswith("sklearn.")
        params = decoder.decode_named(node, "params", depth)
        state = decoder.decode_named(node, "state", depth)
        try:
            _check_names(cls, params, state)
            estimator = cls(**params)
            vars(estimator).update(state)  # not setattr: no setter of the class runs
            _check_whole(estimator, params, state)
        except InputError as error:
            raise FormatError(f"{error}.") from error
        return estimator


def _check_names(cls: type, params: dict[str, Any], state: dict[str, Any]) -> None:
    """Raise an `InputError` where a class has no such parameters or attributes, or they name what would be trusted."""
    name = cls.__name__
    allowed = {
        p.name
        for p in inspect.signature(cls).parameters.values()
        if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)
    }
    for key in params:
        if key not in allowed:
            raise InputError(f"{name} has no parameter {key!r}")
    for key, what in _TRUSTED.items() if name.endswith("Pipeline") else ():
        if params.get(key) is not None:
            raise InputError(f"{name}({key}=...) names {what}; set it to None")
    for key in state:
        is_name = key.isidentifier() and not keyword.iskeyword(key) and not key.startswith("__")
        own = getattr(cls, key, None)
        if not is_name or key in allowed or callable(own) or isinstance(own, property):
            raise InputError(f"{name} cannot have an attribute {key!r}")


def _check_whole(estimator: Any, params: dict[str, Any], state: dict[str, Any]) -> None:
    """Raise an `InputError` that names the attribute where an estimator is not as its class says that a fit leaves it.

    What is inside has been checked before.
    """
    cls, sizes = type(estimator), dict[str, int]()
    is_foreign = cls.__module__.startswith("sklearn.")
    declared = SKLEARN[cls.__name__] if is_foreign else declared_by(cls)
    if isinstance(estimator, Pipeline):
        declared = {}
        check_pipeline(estimator)
        if is_fitted(estimator):
            sizes = {"features": n_inputs(estimator)}
    given = {**estimator.get_params(deep=False), **params}  # those that a file leaves out have their default
    check_attributes(cls.__name__, {**declared, **CARRIED}, given, state, sizes)
    for key, value in given.items() if isinstance(estimator, BagEstimator) else ():
        if isinstance(value, (float, np.floating)) and not np.isfinite(value):  # no fit takes it, no record can be kept
            raise InputError(f"{cls.__name__}.{key} is {float(value)}, and a finite number was expected")
    if is_foreign or isinstance(estimator, Pipeline):
        try:
            estimator._validate_params()
        except ValueError as error:  # also before a fit, since much asks an estimator what it is
            raise InputError(str(error).replace("\n", " ")) from error
    if not is_fitted_state(state) or isinstance(estimator, Pipeline):
        return
    if is_foreign:
        _check_together(estimator)
    elif hasattr(estimator, "_check_fitted"):
        estimator._check_fitted()


# ---------------------------------------------------------------------------------------------------------------------
# scikit-learn

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
_MODULES: dict[str, dict[str, dict[str, Attribute]]] = {
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
SKLEARN = {name: declared for classes in _MODULES.values() for name, declared in classes.items()}
"""The classes of scikit-learn that a model file takes, and their fitted attributes."""


def _class_of(name: str) -> type | None:
    """The class that a model file calls so, if any is."""
    prefix, _, own = name.rpartition(".")
    if not prefix:
        return CLASSES.get(name)
    module = next((module for module, classes in _MODULES.items() if own in classes), None)
    if prefix != "sklearn" or module is None:
        return None
    return getattr(importlib.import_module(f"sklearn.{module}"), own)


def _check_together(estimator: Any) -> None:
    """Raise an `InputError` where attributes that are right by themselves do not fit together."""
    name = type(estimator).__name__
    if name == "RidgeClassifier":
        problem = Part("inverse_transform", features=None).problem(estimator._label_binarizer, {})
        if problem is not None:
            raise InputError(f"{name}._label_binarizer {problem}")
        if len(estimator.classes_) != len(estimator._label_binarizer.classes_):
            raise InputError(f"{name} and its _label_binarizer know different classes; fit it again")
    if name == "PowerTransformer" and estimator.standardize:
        scaler: Any = getattr(estimator, "_scaler", None)
        problem = Part("transform", features=None).problem(scaler, {})
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
