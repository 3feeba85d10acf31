"""The model file: an estimator with all that it learned, as plain data.

A model file is an uncompressed zip of ``model.json`` and of arrays in numpy's ``.npy`` form. It holds data,
never code: reading one runs nothing that the file brings. The class of an estimator is looked up by name among
those that the families of estimators registered (`bagwise.core.fitted.savable`) and those of scikit-learn that
`bagwise.io._sklearn_fitted` lists, so a file cannot name a module; a file that does not fit is a `FormatError`.

``model.json`` is an object with the members ``format`` ("bagwise-model"), ``version`` (1), ``written_by``
(the versions of the libraries) and ``estimator``: an object of the kind "estimator" with the members
``class`` (such a name), ``params`` and ``state`` (objects, name to value). How values are written
stands in `bagwise.io._values`. An optional member ``about`` holds plain data for people and for the command line.
"""

from __future__ import annotations

import inspect
import keyword
import os
import warnings
import zipfile
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy
import sklearn
from sklearn.pipeline import Pipeline

from bagwise._version import __version__
from bagwise.calibration.novelty import ATTRIBUTE as NOVELTY
from bagwise.calibration.novelty import FITTED as NOVELTY_PARTS
from bagwise.core.base import BagEstimator
from bagwise.core.exceptions import FormatError, InputError
from bagwise.core.fitted import (
    CARRIED,
    CLASSES,
    Attribute,
    Either,
    carry,
    check_attributes,
    check_nesting,
    check_steps,
    declared_by,
    is_fitted,
    is_fitted_state,
    n_inputs,
)
from bagwise.core.typing import Learner, Transformer
from bagwise.io._sklearn_fitted import FITTED as SKLEARN
from bagwise.io._sklearn_fitted import check_parameters, check_together, sklearn_class
from bagwise.io._values import Decoder, Encoder, Node, member
from bagwise.io.files import DOCUMENT, as_read, atomic_write, read_archive, read_document, write_archive
from bagwise.pipeline import unwrap

FORMAT = "bagwise-model"
VERSION = 1

carry(NOVELTY, Either(NOVELTY_PARTS, None))


def save(estimator: Learner | Transformer, path: str | os.PathLike[str], about: dict[str, Any] | None = None) -> None:
    """Write an estimator, its parameters and what it learned, to a model file.

    Parameters
    ----------
    estimator : estimator
        Of bagwise, or one of the scikit-learn classes in `bagwise.io._sklearn_fitted`, as are the estimators inside it.
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
        "written_by": _versions(),
        "estimator": encoder.encode(estimator, type(estimator).__name__),
    }
    if about is not None:
        document["about"] = about
    _check_writable(document)
    with atomic_write(path) as handle:
        write_archive(handle, document, encoder.arrays)


def load(path: str | os.PathLike[str]) -> Any:
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
    with open(path, "rb") as handle:
        try:
            document, arrays = read_archive(handle)
            written_by = _check_document(document)
            rebuild = _Rebuild(written_by)
            estimator = Decoder(arrays, rebuild).decode(document["estimator"])
            if arrays:
                raise FormatError(f"it holds {len(arrays)} array(s) that belong nowhere.")
        except FormatError as error:
            raise FormatError(f"Cannot load {name!r}: {error}") from error
        except Exception as error:  # whatever else damage brings up in zip, JSON, numpy or a constructor
            reason = f"it is damaged or no bagwise model ({type(error).__name__}: {error})"
            raise FormatError(f"Cannot load {name!r}: {reason}.") from error
    writer = written_by.get("scikit-learn")
    if rebuild.met_sklearn and writer != sklearn.__version__:
        text = f"{name!r} holds estimators of scikit-learn {writer}, and this is {sklearn.__version__}"
        warnings.warn(f"{text}; check their predictions, or save again.", UserWarning, stacklevel=2)
    return estimator


def read_about(path: str | os.PathLike[str]) -> dict[str, Any]:
    """What `save` was given as `about`, and under ``written_by`` the versions of the libraries; no array is read."""
    with open(path, "rb") as handle:
        try:
            document = read_document(handle)
            written_by = _check_document(document)
        except FormatError as error:
            raise FormatError(f"Cannot load {os.fspath(path)!r}: {error}") from error
        except Exception as error:  # whatever else damage brings up in zip or JSON
            raise FormatError(f"Cannot load {os.fspath(path)!r}: it is damaged or no bagwise model.") from error
    return {**document.get("about", {}), "written_by": written_by}


def _about_problem(about: Any) -> str | None:
    """What makes it nothing that a model can say about itself, if anything."""
    if not isinstance(about, dict):
        return f"what it says about itself is a {type(about).__name__}, and an object of values by name was expected"
    names = about.get("feature_names")
    if names is not None and not (isinstance(names, list) and all(isinstance(name, str) for name in names)):
        return "the names of its features are no list of text"
    return None


def _check_writable(document: dict[str, Any]) -> None:
    """Raise an `InputError` where `load` would refuse the document; what the estimator holds was checked before."""
    try:
        _check_document(as_read(document))
    except FormatError as error:
        cure = "about=... may hold None, bool, int, finite float, str, and lists and dicts of them by name"
        raise InputError(f"The model cannot be saved: {str(error).rstrip('.')}; {cure}.") from error


def is_model_file(path: str | os.PathLike[str]) -> bool:
    """Whether the file is a zip that holds what a model file must."""
    try:
        with zipfile.ZipFile(path) as archive:
            return DOCUMENT in archive.namelist()
    except (OSError, ValueError, zipfile.BadZipFile, NotImplementedError):
        return False


def _versions() -> dict[str, str]:
    return {
        "bagwise": __version__,
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "scikit-learn": sklearn.__version__,
    }


def _check_document(document: Any) -> dict[str, str]:
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
    problem = _about_problem(document.get("about", {}))
    if problem is not None:
        raise FormatError(f"{problem}.")
    return written_by


def _class_of(name: str) -> type | None:
    """The class that a model file calls so, if any is."""
    prefix, _, own = name.rpartition(".")
    return CLASSES.get(name) if not prefix else sklearn_class(own) if prefix == "sklearn" else None


# ------------------------------------------------------------------------------------------------------------
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
    problem = _problem(cls, params, state)
    if problem:  # what load would refuse
        raise InputError(f"{where} cannot be saved: {problem}.")
    node = {
        "kind": "estimator",
        "class": name,
        "params": {key: inner(value, f".{key}") for key, value in params.items()},
        "state": {key: inner(value, f".{key}") for key, value in state.items()},
    }
    try:
        _check_whole(estimator, params, state)
    except InputError as error:
        raise InputError(f"{where} cannot be saved: {error}.") from error
    return node


class _Rebuild:
    """Makes estimators from their nodes, and notes whether one of scikit-learn was among them."""

    def __init__(self, written_by: dict[str, str]):
        self.written_by = written_by
        self.met_sklearn = False

    def __call__(self, decoder: Decoder, node: Node, depth: int) -> Any:
        name = member(node, "class", str)
        cls = _class_of(name)
        if cls is None:
            writer = self.written_by.get("bagwise")
            raise FormatError(
                f"it names the class {name!r}, which bagwise {__version__} does not read; {writer} wrote it."
            )
        self.met_sklearn |= name.startswith("sklearn.")
        params = decoder.decode_named(node, "params", depth)
        state = decoder.decode_named(node, "state", depth)
        problem = _problem(cls, params, state)
        if problem:
            raise FormatError(f"{problem} (it was written by {self.written_by}).")
        estimator = cls(**params)
        vars(estimator).update(state)  # not setattr: no setter of the class runs
        try:
            _check_whole(estimator, params, state)
        except InputError as error:
            raise FormatError(f"{error} (it was written by {self.written_by}).") from error
        return estimator


def _problem(cls: type, params: dict[str, Any], state: dict[str, Any]) -> str | None:
    """What makes these parameters and attributes impossible for the class, if anything."""
    allowed = {
        p.name
        for p in inspect.signature(cls).parameters.values()
        if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)
    }
    for key in params:
        if key not in allowed:
            return f"{cls.__name__} has no parameter {key!r}"
    if cls.__name__.endswith("Pipeline") and params.get("memory") is not None:
        return f"{cls.__name__}(memory=...) names a cache folder, whose content would be trusted; set it to None"
    if cls.__name__.endswith("Pipeline") and params.get("transform_input") is not None:
        return f"{cls.__name__}(transform_input=...) names what is routed through its steps in a fit; set it to None"
    for key in state:
        is_name = key.isidentifier() and not keyword.iskeyword(key) and not key.startswith("__")
        own = getattr(cls, key, None)
        if not is_name or key in allowed or callable(own) or isinstance(own, property):
            return f"{cls.__name__} cannot have an attribute {key!r}"
    return None


def _check_whole(estimator: Any, params: dict[str, Any], state: dict[str, Any]) -> None:
    """Raise an `InputError` that names the attribute where an estimator is not as its class says that a fit leaves it.

    What is inside has been checked before.
    """
    cls, sizes = type(estimator), dict[str, int]()
    is_foreign = cls.__module__.startswith("sklearn.")
    if isinstance(estimator, Pipeline):
        declared: dict[str, Attribute] = {}
        check_steps(cls.__name__, estimator.steps)
        check_nesting(cls.__name__, estimator)
        if is_fitted(estimator):
            sizes = {"features": n_inputs(estimator)}
    else:
        declared = SKLEARN[cls.__name__] if is_foreign else declared_by(cls)
    given = {**estimator.get_params(deep=False), **params}  # those that a file leaves out have their default
    check_attributes(cls.__name__, {**declared, **CARRIED}, given, state, sizes)
    if isinstance(estimator, BagEstimator):
        _check_finite(cls.__name__, given)
    if is_foreign or isinstance(estimator, Pipeline):
        check_parameters(estimator)
    if not is_fitted_state(state) or isinstance(estimator, Pipeline):
        return
    if is_foreign:
        check_together(estimator)
    elif hasattr(estimator, "_check_fitted"):
        estimator._check_fitted()


def _check_finite(name: str, params: dict[str, Any]) -> None:
    """Raise an `InputError` where a parameter is no finite number: no fit takes it, and no record of it can be kept."""
    for key, value in params.items():
        if isinstance(value, (float, np.floating)) and not np.isfinite(value):
            raise InputError(f"{name}.{key} is {float(value)}, and a finite number was expected")
