"""The model file: an estimator with all that it learned, as plain data.

A model file is an uncompressed zip of ``model.json`` and of arrays in numpy's ``.npy`` form. It holds data,
never code: reading one runs nothing that the file brings. The class of an estimator is looked up by name among
those that the families of estimators registered (`bagwise.core.fitted.savable`) and those of scikit-learn that
`SKLEARN` lists, so a file cannot name a module; a file that does not fit is a `FormatError`.

``model.json`` is an object with the members ``format`` ("bagwise-model"), ``version`` (1), ``written_by``
(the versions of the libraries) and ``estimator``: an object of the kind "estimator" with the members
``class`` (such a name), ``params`` and ``state`` (objects, name to value). An optional member ``about`` holds plain
data for people and for the command line.

Null, true, false, finite numbers, strings and lists stand for themselves. Everything else is an object with a
``kind``:

=====================  ===================================================================================
kind                   other members
=====================  ===================================================================================
float                  value: "inf", "-inf" or "nan"
tuple, set, frozenset  items: list of values
dict                   items: list of [key, value]
scalar                 of numpy; dtype, hex: its bytes
numpy-str              value
dtype                  value: such as "<f8"
numpy-type             value: such as "float64"
array                  index: of the array in the archive; each has one place
object-array           shape, items
csr                    form: "matrix" or "array"; shape, data, indices, indptr
bags                   instances, offsets
estimator              what the caller makes of it
=====================  ===================================================================================
"""

from __future__ import annotations

import importlib
import inspect
import json
import keyword
import math
import os
import re
import warnings
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import scipy
import scipy.sparse as sp
import sklearn
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from bagwise._version import __version__
from bagwise.calibration.novelty import ATTRIBUTE as NOVELTY
from bagwise.calibration.novelty import FITTED as NOVELTY_PARTS
from bagwise.core.bags import Bags
from bagwise.core.base import BagEstimator
from bagwise.core.exceptions import FormatError, InputError
from bagwise.core.fitted import (
    CARRIED,
    CLASSES,
    MOST_KEYS,
    Either,
    Part,
    carry,
    check_attributes,
    check_pipeline,
    declared_by,
    is_fitted,
    is_fitted_state,
    n_inputs,
)
from bagwise.core.plugins import LEARNERS, add_installed
from bagwise.core.typing import Learner, Transformer
from bagwise.io._sklearn import MODULES, SKLEARN
from bagwise.io.archive import ARRAY_KINDS, DOCUMENT, as_read, is_storable, read_archive, read_document, write_archive
from bagwise.io.files import PathLike, atomic_write
from bagwise.pipeline import unwrap

FORMAT = "bagwise-model"
VERSION = 1
carry(NOVELTY, Either(NOVELTY_PARTS, None))
MAX_DEPTH = 60
MOST_KEYS_IN_ALL = 20 * MOST_KEYS
SCALAR_KINDS = "biufcmM"
NUMPY_TYPES: dict[str, Any] = {
    np.dtype(code).type.__name__: np.dtype(code).type
    for code in ("?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8")
}
_DTYPE = re.compile(rf"[<>|][{ARRAY_KINDS}][0-9]{{1,9}}(\[[0-9]*[a-zA-Z]+\])?")
_TRUSTED = {
    "memory": "a cache folder, whose content would be trusted",
    "transform_input": "what is routed through its steps in a fit",
}

carry(NOVELTY, Either(NOVELTY_PARTS, None))


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
    encoder = _Encoder()
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

    Examples
    --------
    >>> import os, tempfile
    >>> from bagwise import ORedLogisticRegression, load, save
    >>> from bagwise.datasets import make_gaussian_bags
    >>> data = make_gaussian_bags(n_bags=30, random_state=0)
    >>> model, path = ORedLogisticRegression().fit(data), os.path.join(tempfile.mkdtemp(), "model.bagwise")
    >>> save(model, path)
    >>> bool((load(path).predict(data) == model.predict(data)).all())
    True
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
    decoder = _Decoder(arrays, document["written_by"].get("bagwise"))
    estimator = decoder.decode(document["estimator"])
    if arrays:
        raise FormatError(f"it holds {len(arrays)} array(s) that belong nowhere.")
    return estimator, decoder.met_sklearn


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
# Values to JSON


class _Encoder:
    """Turns values into JSON and gathers their `arrays`, in the order of their index."""

    def __init__(self) -> None:
        self.arrays: list[np.ndarray] = []

    def encode(self, value: Any, where: str, depth: int = 0) -> Any:
        """The JSON of `value`; `where` is its place, for messages."""
        if depth > MAX_DEPTH:
            raise InputError(f"{where} is nested more than {MAX_DEPTH} deep or holds itself; it cannot be saved.")

        def inner(item: Any, place: str) -> Any:
            return self.encode(item, where + place, depth + 1)

        kind: Any = type(value)
        if value is None or kind in (bool, int, str):
            return value
        if kind is float:
            return value if math.isfinite(value) else {"kind": "float", "value": repr(value)}
        if kind is dict:
            items = [[inner(k, ", a key"), inner(v, f"[{k!r}]")] for k, v in value.items()]
            return {"kind": "dict", "items": items}
        if kind in (list, tuple, set, frozenset):
            items = [inner(item, f"[{i}]") for i, item in enumerate(value)]
            if kind in (set, frozenset):
                items.sort(key=json.dumps)  # sets have no order, files should
            return items if kind is list else {"kind": kind.__name__, "items": items}
        if kind in (np.ndarray, np.memmap):
            return self._encode_array(value, where, inner)
        if isinstance(value, (np.generic, np.dtype, type)):
            return _encode_numpy(value, where)
        if sp.issparse(value) and value.format == "csr":
            form = "array" if isinstance(value, sp.sparray) else "matrix"
            parts = {part: inner(getattr(value, part), f".{part}") for part in ("data", "indices", "indptr")}
            return {"kind": "csr", "form": form, "shape": list(value.shape), **parts}
        if kind is Bags:
            parts = {part: inner(getattr(value, part), f".{part}") for part in ("instances", "offsets")}
            return {"kind": "bags", **parts}
        if hasattr(value, "get_params"):
            return _encode_estimator(value, where, inner)
        raise InputError(_why_not(value, where))

    def _encode_array(self, value: np.ndarray, where: str, inner: Callable[[Any, str], Any]) -> Any:
        if value.dtype == object:
            items = [inner(item, f"[{i}]") for i, item in enumerate(value.ravel().tolist())]
            return {"kind": "object-array", "shape": list(value.shape), "items": items}
        if not is_storable(value.dtype):
            raise InputError(f"{where} is an array of dtype {value.dtype}, which cannot be saved; use numbers.")
        self.arrays.append(np.asarray(value))
        return {"kind": "array", "index": len(self.arrays) - 1}


def _encode_numpy(value: Any, where: str) -> dict[str, Any]:
    if isinstance(value, np.str_):
        return {"kind": "numpy-str", "value": str(value)}
    if isinstance(value, np.generic) and value.dtype.kind in SCALAR_KINDS:
        return {"kind": "scalar", "dtype": value.dtype.str, "hex": value.tobytes().hex()}
    if isinstance(value, np.dtype) and _DTYPE.fullmatch(value.str):
        return {"kind": "dtype", "value": value.str}
    for name, numpy_type in NUMPY_TYPES.items():
        if value is numpy_type:
            return {"kind": "numpy-type", "value": name}
    raise InputError(_why_not(value, where))


def _why_not(value: Any, where: str) -> str:
    if isinstance(value, (np.random.RandomState, np.random.Generator)):
        return f"{where} is a numpy {type(value).__name__}, which cannot be saved; pass an int as the seed."
    if callable(value):
        return f"{where} is {value!r}, and code cannot be saved; use one of the built-in choices."
    return (
        f"{where} is a {type(value).__module__}.{type(value).__qualname__}, which cannot be saved; values "
        "may be None, bool, int, float, str, list, tuple, dict, set, numpy arrays and scalars, CSR matrices, "
        "Bags and estimators."
    )


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


# ---------------------------------------------------------------------------------------------------------------------
# JSON to values


Node = dict[str, Any]


class _Decoder:
    """Turns JSON back into values; trusts nothing in it.

    What does not fit is a `FormatError`, or an exception of numpy or scipy that the caller turns into one.

    Parameters
    ----------
    arrays : dict of int to array
        Each is handed out once, so that a small file cannot ask for many copies; the rest belongs nowhere.
    writer : str or None
        The version of bagwise that wrote the file.

    Attributes
    ----------
    met_sklearn : bool
        Whether an estimator of scikit-learn was among the values.
    """

    def __init__(self, arrays: dict[int, np.ndarray], writer: str | None):
        self.arrays, self.writer = arrays, writer
        self.met_sklearn = False
        self.n_keys = 0

    def keys(self, items: list[Any]) -> list[Any]:
        """The entries of a set or dict, refused where there are so many that colliding hashes would take minutes."""
        self.n_keys += (found := sum(not isinstance(key, str) for key in items))
        if found > MOST_KEYS or self.n_keys > MOST_KEYS_IN_ALL:
            raise FormatError(
                f"it holds a set or dict of more than {MOST_KEYS} entries that are not text; use an array."
            )
        return items

    def decode(self, node: Any, depth: int = 0) -> Any:
        """The value of a piece of JSON."""
        if depth > MAX_DEPTH:
            raise FormatError(f"it is nested more than {MAX_DEPTH} deep.")
        if isinstance(node, list):
            for i, item in enumerate(node):  # in place: the file's list and its copy would be twice the memory
                node[i] = self.decode(item, depth + 1)
            return node
        if not isinstance(node, dict):
            return node
        kind = node.get("kind")
        if not isinstance(kind, str) or kind not in _DECODERS:
            raise FormatError(f"it holds a value of the unknown kind {kind!r}.")
        return _DECODERS[kind](self, node, depth + 1)

    def decode_items(self, node: Node, depth: int) -> list[Any]:
        """The list ``items`` of a node."""
        items: list[Any] = _member(node, "items", list)
        for i, item in enumerate(items):
            items[i] = self.decode(item, depth)
        return items

    def decode_named(self, node: Node, key: str, depth: int) -> dict[str, Any]:
        """The values by name in the object `key` of a node."""
        return {name: self.decode(value, depth) for name, value in _member(node, key, dict).items()}


def _member(node: Node, key: str, kind: type) -> Any:
    """The member `key` of a node, which must be exactly of this Python type."""
    value = node.get(key)
    if type(value) is not kind:
        raise FormatError(f"a value of kind {node['kind']!r} lacks its {key!r}, or it is no {kind.__name__}.")
    return value


def _decode_float(decoder: _Decoder, node: Node, depth: int) -> float:
    if node.get("value") not in ("inf", "-inf", "nan"):
        raise FormatError(f"it holds {node.get('value')!r} for a number.")
    return float(node["value"])


def _decode_dict(decoder: _Decoder, node: Node, depth: int) -> dict[Any, Any]:
    pairs = _member(node, "items", list)
    if not all(isinstance(pair, list) and len(pair) == 2 for pair in pairs):
        raise FormatError("the items of a dict are not pairs.")
    keys = decoder.keys([decoder.decode(key, depth) for key, _ in pairs])
    return {key: decoder.decode(value, depth) for key, (_, value) in zip(keys, pairs, strict=True)}


def _decode_dtype(decoder: _Decoder, node: Node, depth: int, key: str = "value") -> np.dtype:
    text = _member(node, key, str)
    if not _DTYPE.fullmatch(text):
        raise FormatError(f"it names the dtype {text!r}, which is not read.")
    return np.dtype(text)


def _decode_scalar(decoder: _Decoder, node: Node, depth: int) -> Any:
    dtype, raw = _decode_dtype(decoder, node, depth, "dtype"), bytes.fromhex(_member(node, "hex", str))
    if dtype.kind not in SCALAR_KINDS or len(raw) != dtype.itemsize or (dtype.kind == "b" and raw[0] > 1):
        raise FormatError(f"it holds {len(raw)} bytes that are no number of dtype {dtype}.")
    return np.frombuffer(raw, dtype)[0]


def _decode_numpy_type(decoder: _Decoder, node: Node, depth: int) -> Any:
    name = _member(node, "value", str)
    if name not in NUMPY_TYPES:
        raise FormatError(f"it names the numpy type {name!r}, which is not read.")
    return NUMPY_TYPES[name]


def _decode_array(decoder: _Decoder, node: Node, depth: int) -> np.ndarray:
    index = _member(node, "index", int)
    if index not in decoder.arrays:
        raise FormatError(f"its array {index} is missing, or used twice.")
    return decoder.arrays.pop(index)


def _decode_shape(node: Node) -> tuple[int, ...]:
    shape = _member(node, "shape", list)
    if not all(type(length) is int and length >= 0 for length in shape):
        raise FormatError(f"it holds the shape {shape!r}.")
    return tuple(shape)


def _decode_object_array(decoder: _Decoder, node: Node, depth: int) -> np.ndarray:
    shape, items = _decode_shape(node), decoder.decode_items(node, depth)
    if math.prod(shape) != len(items):
        raise FormatError(f"an array of shape {shape} comes with {len(items)} items.")
    array = np.empty(len(items), dtype=object)
    for i, item in enumerate(items):
        array[i] = item
    return array.reshape(shape)


def _decode_csr(decoder: _Decoder, node: Node, depth: int) -> Any:
    parts = [decoder.decode(_member(node, part, dict), depth) for part in ("data", "indices", "indptr")]
    if not all(isinstance(part, np.ndarray) and part.ndim == 1 for part in parts):
        raise FormatError("the parts of a sparse matrix are no lists of numbers.")
    if parts[0].dtype.kind not in "biufc" or any(part.dtype.kind != "i" for part in parts[1:]):
        raise FormatError("the parts of a sparse matrix are not of the right kinds.")
    form = {"matrix": sp.csr_matrix, "array": sp.csr_array}[_member(node, "form", str)]
    matrix = form(tuple(parts), shape=_decode_shape(node))
    matrix.check_format(full_check=True)  # scipy's C code trusts the indices
    return matrix


def _decode_bags(decoder: _Decoder, node: Node, depth: int) -> Bags:
    instances, offsets = (decoder.decode(_member(node, key, dict), depth) for key in ("instances", "offsets"))
    if not isinstance(offsets, np.ndarray) or not (isinstance(instances, np.ndarray) or sp.issparse(instances)):
        raise FormatError("the instances or offsets of bags are no array.")
    return Bags(instances, offsets)


def _decode_estimator(decoder: _Decoder, node: Node, depth: int) -> Any:
    name = _member(node, "class", str)
    cls = _class_of(name)
    if cls is None:
        raise FormatError(
            f"it names the class {name!r}, which bagwise {__version__} does not read; {decoder.writer} wrote it."
        )
    decoder.met_sklearn |= name.startswith("sklearn.")
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


_DECODERS: dict[str, Callable[[_Decoder, Node, int], Any]] = {
    "float": _decode_float,
    "tuple": lambda decoder, node, depth: tuple(decoder.decode_items(node, depth)),
    "set": lambda decoder, node, depth: set(decoder.keys(decoder.decode_items(node, depth))),
    "frozenset": lambda decoder, node, depth: frozenset(decoder.keys(decoder.decode_items(node, depth))),
    "dict": _decode_dict,
    "scalar": _decode_scalar,
    "numpy-str": lambda decoder, node, depth: np.str_(_member(node, "value", str)),
    "dtype": _decode_dtype,
    "numpy-type": _decode_numpy_type,
    "array": _decode_array,
    "object-array": _decode_object_array,
    "csr": _decode_csr,
    "bags": _decode_bags,
    "estimator": _decode_estimator,
}


# ---------------------------------------------------------------------------------------------------------------------
# Estimators


def _class_of(name: str) -> type | None:
    """The class that a model file calls so, if any is."""
    prefix, _, own = name.rpartition(".")
    if not prefix:
        if name not in CLASSES:
            add_installed({}, LEARNERS)  # importing what other packages bring makes their classes known
        return CLASSES.get(name)
    module = next((module for module, classes in MODULES.items() if own in classes), None)
    if prefix != "sklearn" or module is None:
        return None
    return getattr(importlib.import_module(f"sklearn.{module}"), own)


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
