"""What a fitted estimator consists of: its attributes with their types, shapes and ranges.

Every class of a model file says once, in ``_fitted``, which attributes its fit leaves, and `check_fitted` holds an
estimator against that before it is saved and after it was loaded, so that nothing a file can hold reaches a compiled
kernel, numpy or scikit-learn in a shape that they would trust. Declarations of base classes and mixins are joined. The
names of sizes are the author's: the first attribute that has one settles it ("features" and "classes" come first), and
the others must agree; "features+1" and "2*pairs" are understood. What depends on several attributes at once stands in
a method ``_check_fitted``, which raises an `InputError`.

>>> class Scaler:
...     _fitted = {"n_features_in_": Size("features"), "mean_": Numbers("features")}
>>> check_attributes("Scaler", declared_by(Scaler), {}, {"n_features_in_": 3, "mean_": np.zeros(2)})
Traceback (most recent call last):
...
bagwise.core.exceptions.InputError: Scaler.mean_ has the shape (2,), and (features) is (3,)
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.pipeline import Pipeline

from bagwise.core.bags import Bags
from bagwise.core.exceptions import InputError

MOST_KEYS = 1_000
"""Entries of one set or dict that are not text: others' hashes can be chosen, and then each costs as much as all."""
MOST_PIPELINES = 6
"""Pipelines inside each other: scikit-learn asks for tags several times on every level, so that each costs thrice."""
_DIMENSION = re.compile(r"(?:([0-9]+)\*)?([a-z_]+)(?:\+([0-9]+))?")
_PLAIN = (bool, int, float, str)
_NOT_THERE = object()

Sizes = dict[str, int]
Dimension = str | int


class Attribute:
    """What a value must be: by itself whatever a model file can hold, in a subclass what its `problem` allows."""

    optional = False

    def problem(self, value: Any, sizes: Sizes) -> str | None:
        """What is wrong with the value, as the end of a sentence; sizes that were not known are settled."""
        return None


class Maybe(Attribute):
    """May be absent."""

    optional = True

    def __init__(self, inner: Attribute):
        self.inner = inner

    def problem(self, value: Any, sizes: Sizes) -> str | None:
        return self.inner.problem(value, sizes)


class Either(Attribute):
    """One of several; None stands for itself."""

    def __init__(self, *choices: Attribute | None):
        self.choices = choices

    def problem(self, value: Any, sizes: Sizes) -> str | None:
        found = None
        for choice in self.choices:
            if choice is None:
                if value is None:
                    return None
                continue
            tried = dict(sizes)
            found = choice.problem(value, tried)
            if found is None:
                sizes.update(tried)
                return None
        return found


class Numbers(Attribute):
    """An array of floats (with `whole`, of integers) of this shape, finite and within the bounds.

    Parameters
    ----------
    *shape : str or int, or ... alone
        Names of sizes, or numbers; any shape.
    low, high : float
        Inclusive.
    positive : bool
        Above zero.
    whole : bool
    finite : bool
    sparse : bool
        May be a CSR matrix.
    empty : bool
        May have no entry.
    """

    def __init__(
        self,
        *shape: Any,
        low: float = -np.inf,
        high: float = np.inf,
        positive: bool = False,
        whole: bool = False,
        finite: bool = True,
        sparse: bool = False,
        empty: bool = False,
    ):
        self.shape, self.low, self.high, self.positive = shape, low, high, positive
        self.whole, self.finite, self.sparse, self.empty = whole, finite, sparse, empty

    def problem(self, value: Any, sizes: Sizes) -> str | None:
        is_sparse = self.sparse and sp.issparse(value) and value.format == "csr"
        if not isinstance(value, np.ndarray) and not is_sparse:
            return f"is a {_kind(value)}, and an array was expected"
        dtype = value.dtype
        fits = dtype.kind in "iu" if self.whole else dtype.kind == "f" and dtype.itemsize in (4, 8)
        if not fits or not dtype.isnative:
            expected = "integers" if self.whole else "float32 or float64"
            return f"holds {dtype.str}, and {expected} of this machine's byte order were expected"
        found = None if self.shape == (...,) else _shape_problem(value.shape, self.shape, sizes)
        if found is not None:
            return found
        entries = value.data if is_sparse else value
        if not self.empty and 0 in value.shape:
            return f"is empty: its shape is {value.shape}"
        if entries.size == 0:
            return None
        if self.finite and not self.whole and not np.isfinite(entries).all():
            return "holds numbers that are not finite"
        least, most = entries.min(), entries.max()
        return _range_problem(least, most, self.low, self.high, self.positive)


class Number(Attribute):
    """A finite number, with `whole` an integer, within the bounds."""

    def __init__(self, low: float = -np.inf, high: float = np.inf, *, positive: bool = False, whole: bool = False):
        self.low, self.high, self.positive, self.whole = low, high, positive, whole

    def problem(self, value: Any, sizes: Sizes) -> str | None:
        kinds = (int, np.integer) if self.whole else (int, float, np.integer, np.floating)
        if isinstance(value, (bool, np.bool_)) or not isinstance(value, kinds):
            return f"is {_shown(value)}, and a {'whole ' if self.whole else ''}number was expected"
        if isinstance(value, int) and not -(2**63) <= value < 2**63:
            return "is an integer beyond 64 bits"
        number = float(value)
        if not np.isfinite(number):
            return f"is {number}, and a finite number was expected"
        return _range_problem(number, number, self.low, self.high, self.positive)


class Size(Number):
    """A whole number that settles a size, or must agree with it."""

    def __init__(self, name: str):
        super().__init__(1, 2**53, whole=True)
        self.name = name

    def problem(self, value: Any, sizes: Sizes) -> str | None:
        found = super().problem(value, sizes)
        if found is None and not _agrees(self.name, int(value), sizes):
            return f"is {int(value)}, and {self.name} is {_expected(self.name, sizes)}"
        return found


class Flag(Attribute):
    """True or false."""

    def problem(self, value: Any, sizes: Sizes) -> str | None:
        return None if isinstance(value, (bool, np.bool_)) else f"is {_shown(value)}, and true or false was expected"


class Choice(Attribute):
    """One of some words, numbers or None."""

    def __init__(self, *allowed: Any):
        self.allowed = allowed

    def problem(self, value: Any, sizes: Sizes) -> str | None:
        if any(type(value) is type(each) and value == each for each in self.allowed):
            return None
        return f"is {_shown(value)}, and one of {', '.join(map(repr, self.allowed))} was expected"


class Text(Attribute):
    """A word."""

    def problem(self, value: Any, sizes: Sizes) -> str | None:
        return None if type(value) in (str, np.str_) else f"is {_shown(value)}, and text was expected"


class Labels(Attribute):
    """An array of different plain values: text, numbers, None, and tuples or frozensets of them; or of `text` alone."""

    def __init__(self, size: str = "classes", *, text: bool = False):
        self.size, self.text = size, text

    def problem(self, value: Any, sizes: Sizes) -> str | None:
        if not isinstance(value, np.ndarray) or value.dtype.kind not in "biufUSmMO" or not value.dtype.isnative:
            return f"is a {_kind(value)}, and an array of labels was expected"
        found = _shape_problem(value.shape, (self.size,), sizes)
        if found is not None or not len(value):
            return found or "is empty"
        if value.dtype.kind == "f" and not np.isfinite(value).all():
            return "holds numbers that are not finite, which are no labels"
        if self.text and not all(isinstance(name, str) for name in value.tolist()):
            return "holds something else than text"
        if value.dtype != object:
            return "holds a label twice" if len(np.unique(value)) < len(value) else None
        labels = value.tolist()
        for label in labels:
            if not _is_label(label):
                return f"holds {_shown(label)}, which is no label; text and finite numbers are"
        if sum(not isinstance(label, str) for label in labels) > MOST_KEYS:
            return f"holds more than {MOST_KEYS} labels that are neither text nor all numbers"
        return "holds a label twice" if len(set(labels)) < len(labels) else None


class BagsOf(Attribute):
    """`Bags` of finite features."""

    def __init__(self, n_bags: Dimension, n_features: Dimension = "features"):
        self.n_bags, self.instances = n_bags, Numbers("_", n_features, sparse=True)

    def problem(self, value: Any, sizes: Sizes) -> str | None:
        if not isinstance(value, Bags):
            return f"is a {_kind(value)}, and bags were expected"
        if not _agrees(self.n_bags, len(value), sizes):
            return f"holds {len(value)} bags, and {self.n_bags} is {_expected(self.n_bags, sizes)}"
        found = self.instances.problem(value.instances, sizes)
        sizes.pop("_", None)
        return found


class TupleOf(Attribute):
    """A tuple or list with exactly these."""

    def __init__(self, *items: Attribute):
        self.items = items

    def problem(self, value: Any, sizes: Sizes) -> str | None:
        if not isinstance(value, (tuple, list)) or len(value) != len(self.items):
            return f"is {_shown(value)}, and a tuple of {len(self.items)} was expected"
        return _first_problem(zip(range(len(value)), value, self.items, strict=True), sizes)


class ListOf(Attribute):
    """A list or tuple, as many as that size, all of them like this; of at least one, unless it may be `empty`.

    Sizes whose names begin with an underscore may differ from one to the next.
    """

    def __init__(self, item: Attribute, size: str = "_", *, empty: bool = False):
        self.item, self.size, self.empty = item, size, empty

    def problem(self, value: Any, sizes: Sizes) -> str | None:
        if not isinstance(value, (list, tuple)) or not (value or self.empty):
            return f"is {_shown(value)}, and a list{'' if self.empty else ' of at least one'} was expected"
        if self.size != "_" and not _agrees(self.size, len(value), sizes):
            return f"holds {len(value)}, and {self.size} is {_expected(self.size, sizes)}"
        for i, item in enumerate(value):
            found = self.item.problem(item, sizes)
            if found is not None:
                return f"[{i}] {found}"
            for name in [name for name in sizes if name.startswith("_")]:
                del sizes[name]
        return None


class Record(Attribute):
    """A dict with exactly these keys, less those that may be absent; with one attribute, of any text to such values.

    With `others` it may have any more keys.
    """

    def __init__(self, items: Mapping[str, Attribute] | Attribute, *, others: bool = False):
        self.items, self.others = items, others

    def problem(self, value: Any, sizes: Sizes) -> str | None:
        if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
            return f"is {_shown(value)}, and a dict by names was expected"
        items = self.items
        if isinstance(items, Attribute):
            items = dict.fromkeys(value, items)
        needed = {key for key, item in items.items() if not item.optional}
        if not needed <= value.keys() or not (self.others or value.keys() <= items.keys()):
            return f"is a dict of {', '.join(value)[:80]}, and a dict of {', '.join(items)} was expected"
        declared = ((repr(key), item, items[key]) for key, item in value.items() if key in items)
        return _first_problem(declared, sizes)


class Plain(Attribute):
    """None, true, false, numbers, text, and lists and dicts of them by name."""

    def problem(self, value: Any, sizes: Sizes) -> str | None:
        if isinstance(value, dict):
            if not all(isinstance(key, str) for key in value):
                return f"is {_shown(value)}, and names were expected as its keys"
            value = list(value.values())
        if isinstance(value, (list, tuple)):
            return next((found for item in value if (found := self.problem(item, sizes))), None)
        if value is None or type(value) in _PLAIN or isinstance(value, np.generic):
            return None
        return f"holds a {_kind(value)}, and plain data was expected"


class Part(Attribute):
    """A fitted estimator that can do these; with None for features of any number of them."""

    def __init__(self, *methods: str, features: str | None = "features"):
        self.methods, self.features = methods, features

    def problem(self, value: Any, sizes: Sizes) -> str | None:
        if not hasattr(value, "get_params") or isinstance(value, type):
            return f"is {_shown(value)}, and an estimator was expected"
        if not is_fitted(value):
            return f"is a {_kind(value)} that was never fitted"
        missing = [method for method in self.methods if not hasattr(value, method)]
        if missing:
            return f"is a {_kind(value)}, which has no {missing[0]}"
        if self.features is not None and not _agrees(self.features, n_inputs(value), sizes):
            return f"takes {n_inputs(value)} features, and {self.features} is {_expected(self.features, sizes)}"
        return None


ITERATED: dict[str, Attribute] = {
    "n_iter_": Maybe(Number(0, whole=True)),
    "converged_": Maybe(Flag()),
    "objective_history_": Maybe(Numbers("history", finite=False, empty=True)),
}
"""Of every procedure with iterations; prediction does not read them."""
INPUTS: dict[str, Attribute] = {
    "n_features_in_": Size("features"),
    "feature_names_in_": Maybe(Labels("features", text=True)),
}
"""Of everything that was fitted to features."""
OUTPUT: dict[str, Attribute] = {
    "_sklearn_output_config": Maybe(Record({"transform": Choice(None, "default", "pandas", "polars")}))
}
"""Of transformers: what `set_output` was given."""
CLASSES: dict[str, type] = {}
"""The classes that a model file may hold, by name; `savable` adds to them."""
CARRIED: dict[str, Attribute] = {}
"""Attributes that any fitted estimator may have besides those of its class; `carry` adds to them."""
COUNT_OF_JOBS = Maybe(Either(None, Number(-4096, -1, whole=True), Number(1, 4096, whole=True)))

# ---------------------------------------------------------------------------------------------------------------------
# Estimators


def savable(*classes: type) -> None:
    """Let model files hold estimators of these classes; every family calls it for its own when it is imported.

    Only for classes whose prediction is plain numpy or checks its arrays: a C library that trusts them (libsvm, trees)
    would let a forged file corrupt memory.
    """
    CLASSES.update({cls.__name__: cls for cls in classes})


def carry(name: str, attribute: Attribute) -> None:
    """Let any fitted estimator in a model file have an attribute of this name besides those of its class."""
    CARRIED[name] = Maybe(attribute)


def declared_by(cls: type) -> dict[str, Attribute]:
    """The attributes that a class, its bases and its mixins declare, those of the root first."""
    declared: dict[str, Attribute] = {}
    for each in reversed(cls.__mro__):
        declared |= vars(each).get("_fitted", {})
    return declared


def check_attributes(
    name: str,
    declared: Mapping[str, Attribute],
    params: Mapping[str, Any],
    state: Mapping[str, Any],
    sizes: Sizes | None = None,
) -> None:
    """Raise an `InputError` that names the first attribute that is unknown, missing or not as declared.

    Declared names that are parameters are those that prediction reads. An estimator without any attribute was never
    fitted, and there is nothing to check. `sizes` are those that are known before.
    """
    for key in state:
        if key not in declared:
            raise InputError(f"{name} has no attribute {key!r}")
    if not is_fitted_state(state):
        return
    sizes = {} if sizes is None else sizes
    for key, attribute in declared.items():
        value = params.get(key, state.get(key, _NOT_THERE))
        if value is _NOT_THERE:
            if not attribute.optional:
                raise InputError(f"{name} lacks its attribute {key!r}; fit it again")
            continue
        problem = attribute.problem(value, sizes)
        if problem is not None:
            raise InputError(f"{name}.{key} {problem}")


def is_fitted_state(state: Mapping[str, Any]) -> bool:
    """Whether these attributes are those of a fit."""
    return any(key.endswith("_") for key in state)


def is_fitted(estimator: Any) -> bool:
    """Whether an estimator, or the last step of a pipeline, was fitted."""
    if isinstance(estimator, Pipeline):
        steps = real_steps(estimator)
        return bool(steps) and is_fitted(steps[-1])
    return hasattr(estimator, "get_params") and is_fitted_state(vars(estimator))


def _is_no_step(step: Any) -> bool:
    """Whether a step of a pipeline does nothing."""
    return step is None or (isinstance(step, str) and step == "passthrough")


def check_pipeline(pipeline: Pipeline) -> None:
    """Raise an `InputError` where steps make no pipeline, were fitted to different features, or are nested too deep."""
    name, steps = type(pipeline).__name__, pipeline.steps
    if not isinstance(steps, list) or not steps:
        raise InputError(f"{name}.steps is {_shown(steps)}, and a list of steps was expected")
    for step in steps:
        if not isinstance(step, tuple) or len(step) != 2 or not isinstance(step[0], str) or not step[0]:
            raise InputError(f"{name}.steps holds {_shown(step)}, and a name with an estimator was expected")
        if not _is_no_step(step[1]) and (not hasattr(step[1], "get_params") or isinstance(step[1], type)):
            raise InputError(f"{name}.steps holds {_shown(step[1])} as the step {step[0]!r}")
    if _is_no_step(steps[-1][1]):
        raise InputError(f"{name}.steps ends in {steps[-1][1]!r}, and an estimator was expected")
    if _n_levels(pipeline) > MOST_PIPELINES:
        raise InputError(
            f"{name} has pipelines inside each other in more than {MOST_PIPELINES} levels; join their steps"
        )
    names = [step[0] for step in steps]
    if len(set(names)) < len(names) or any("__" in each for each in names):
        raise InputError(f"{name}.steps has the names {names!r}, which must differ and hold no double underscore")
    real = [(each, step) for each, step in steps if not _is_no_step(step)]
    fitted = [is_fitted(step) for _, step in real]
    if not any(fitted):
        return
    n_features = before = None
    for (each, step), done in zip(real, fitted, strict=True):
        if not done:
            raise InputError(f"{name} was fitted, but not its step {each!r}")
        if step is not real[-1][1] and not hasattr(step, "transform"):
            raise InputError(f"{name} has a {_kind(step)} as its step {each!r}, which cannot transform")
        if n_features is not None and n_inputs(step) != n_features:
            taken = f"takes {n_inputs(step)} features, and the one before gives {n_features}"
            raise InputError(f"{name}: its step {each!r} {taken}")
        if before is not None and hasattr(step, "feature_names_in_"):
            given = _names_out(before)
            if given is not None and given != list(step.feature_names_in_):
                raise InputError(f"{name}: its step {each!r} knows features by other names than the one before gives")
        n_features, before = n_outputs(step), step


def _n_levels(value: Any) -> int:
    """How many pipelines are inside each other, whatever else is between them."""
    if isinstance(value, Pipeline):
        return 1 + max((_n_levels(step) for step in real_steps(value)), default=0)
    if isinstance(value, (list, tuple)):
        return max(map(_n_levels, value), default=0)
    if hasattr(value, "get_params") and not isinstance(value, type):
        return max(map(_n_levels, vars(value).values()), default=0)
    return 0


def real_steps(pipeline: Pipeline) -> list[Any]:
    """The estimators of a pipeline."""
    return [step for _, step in pipeline.steps if not _is_no_step(step)]


def n_inputs(estimator: Any) -> int:
    """How many features a fitted estimator takes."""
    if isinstance(estimator, Pipeline):
        return n_inputs(real_steps(estimator)[0])
    return int(estimator.n_features_in_)


def n_outputs(transformer: Any) -> int:
    """How many features come out of a fitted transformer."""
    if isinstance(transformer, Pipeline):
        return n_outputs(real_steps(transformer)[-1])
    if hasattr(transformer, "get_support"):
        return int(np.sum(transformer.get_support()))
    return int(getattr(transformer, "_n_features_out", transformer.n_features_in_))


def _names_out(transformer: Any) -> list[str] | None:
    """What a fitted transformer calls its features; None where it cannot say. There are as many as were declared."""
    try:
        return [str(name) for name in transformer.get_feature_names_out()]
    except (AttributeError, ValueError):
        return None


# ---------------------------------------------------------------------------------------------------------------------
# Pieces


def _first_problem(items: Any, sizes: Sizes) -> str | None:
    for place, value, attribute in items:
        problem = attribute.problem(value, sizes)
        if problem is not None:
            return f"[{place}] {problem}"
    return None


def _parse(dimension: str) -> tuple[int, str, int]:
    match = _DIMENSION.fullmatch(dimension)
    assert match is not None, f"a declaration has the size {dimension!r}"
    return int(match[1] or 1), match[2], int(match[3] or 0)


def _expected(dimension: Dimension, sizes: Sizes) -> int:
    if isinstance(dimension, int):
        return dimension
    times, name, more = _parse(dimension)
    return times * sizes[name] + more


def _agrees(dimension: Dimension, length: int, sizes: Sizes) -> bool:
    """Whether a length is as expected; a size that was not known is settled by it."""
    if isinstance(dimension, str):
        times, name, more = _parse(dimension)
        if name not in sizes:
            if length < more or (length - more) % times:
                return False
            sizes[name] = (length - more) // times
    return length == _expected(dimension, sizes)


def _shape_problem(shape: tuple[int, ...], expected: Sequence[Dimension], sizes: Sizes) -> str | None:
    if len(shape) == len(expected) and all(_agrees(each, n, sizes) for each, n in zip(expected, shape, strict=True)):
        return None
    settled = [isinstance(each, int) or _parse(each)[1] in sizes for each in expected]
    numbers = tuple(_expected(each, sizes) if known else "any" for each, known in zip(expected, settled, strict=True))
    return f"has the shape {shape}, and ({', '.join(map(str, expected))}) is {numbers}"


def _range_problem(least: Any, most: Any, low: float, high: float, positive: bool) -> str | None:
    if least < low or most > high or (positive and not least > 0):
        bounds = "above 0" if positive else f"from {low:g} to {high:g}"
        return f"reaches from {least:g} to {most:g}, and numbers {bounds} were expected"
    return None


def _is_label(value: Any, depth: int = 0) -> bool:
    if isinstance(value, (tuple, frozenset)):
        return depth < 3 and len(value) <= MOST_KEYS and all(_is_label(item, depth + 1) for item in value)
    if isinstance(value, (float, np.floating)) and not np.isfinite(value):
        return False
    return value is None or type(value) in _PLAIN or (isinstance(value, np.generic) and value.dtype.kind != "c")


def _kind(value: Any) -> str:
    return type(value).__name__


def _shown(value: Any) -> str:
    """A value in a message: itself where it is short and plain, else its kind."""
    if value is None or type(value) in _PLAIN:
        text = repr(value)
        return text if len(text) <= 40 else f"{text[:37]}..."
    return f"a {_kind(value)}"
