"""`Bags`, the one ragged container. Every input form becomes one here and nowhere else."""

from __future__ import annotations

import html
import importlib
from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from bagwise.core.checks import check_allocation, check_choice
from bagwise.core.columns import Columns
from bagwise.core.exceptions import InputError

SHOWN = 8  # instances and features in a notebook


class Bags:
    """A sequence of bags; bag ``i`` is the block ``offsets[i]:offsets[i + 1]`` of `instances`.

    Parameters
    ----------
    instances : (m, d) array or CSR matrix, or (m,) array
        All instances, bag after bag. Dense features are kept as float32 or float64 (anything else becomes
        float64); a one-dimensional array holds one value an instance, such as instance labels.
    offsets : (n + 1,) array of int
        Starts at 0, ends at m and is strictly increasing: a bag holds at least one instance.
    feature_names : list of str or None
        Names of the features, where they are known; parts of these bags keep them.

    Examples
    --------
    >>> import numpy as np
    >>> from bagwise import Bags
    >>> bags = Bags.from_list([np.ones((2, 3)), np.zeros((4, 3))])
    >>> len(bags), bags.n_features, bags.sizes.tolist()
    (2, 3, [2, 4])
    >>> bags[1].shape
    (4, 3)
    >>> Bags.concatenate([bags, bags[:1]]).sizes.tolist()
    [2, 4, 2]
    """

    def __init__(self, instances: Any, offsets: ArrayLike, feature_names: Sequence[str] | None = None):
        self.instances = _as_instances(instances)
        self.offsets = _as_offsets(offsets, self.instances.shape[0])
        self.feature_names = None if feature_names is None else _as_names(feature_names, self.n_features)

    @classmethod
    def from_list(cls, arrays: Iterable[Any]) -> Bags:
        """Bags from a list of (n_i, d) arrays or frames (all dense or all sparse), or of (n_i,) arrays of values.

        Columns of frames are put into the order of the first by name; other names are an error.
        """
        tables = list(arrays)
        if not tables:
            raise InputError("There are no bags: the list is empty; pass at least one (n_i, d) array.")
        names = column_names(tables[0])
        if names is not None:
            named = [(_named_bag(table, i), f"bag 0 (compared with bag {i})") for i, table in enumerate(tables)]
            return cls.concatenate([bag.with_features(names, who) for bag, who in named])
        arrays = [a if sp.issparse(a) else np.asarray(a) for a in tables]
        for i, a in enumerate(arrays):
            if a.ndim != arrays[0].ndim or a.ndim not in (1, 2):
                raise InputError(
                    f"Bag {i} has shape {a.shape} but bag 0 has shape {arrays[0].shape}; "
                    "every bag must be a 2-d array of shape (n_instances, n_features)."
                )
            if a.shape[0] == 0:
                raise InputError(f"Bag {i} is empty; remove it, a bag must hold at least one instance.")
            if a.ndim == 2 and a.shape[1] != arrays[0].shape[1]:
                raise InputError(
                    f"Bag {i} has {a.shape[1]} features but bag 0 has {arrays[0].shape[1]}; "
                    "all instances must have the same features."
                )
        offsets = offsets_of([a.shape[0] for a in arrays])
        if any(sp.issparse(a) for a in arrays):
            return cls(sp.vstack(arrays, format="csr"), offsets)
        return cls(np.concatenate(arrays), offsets)

    @classmethod
    def from_groups(cls, X: Any, groups: ArrayLike) -> Bags:
        """Bags from the long form: row ``i`` of `X` belongs to the bag named ``groups[i]``.

        Bags come in the order in which their names first appear; rows keep their order within a bag.
        """
        order, offsets, _ = group_rows(groups)
        names = column_names(X)
        X = X if sp.issparse(X) or hasattr(X, "iloc") else np.asarray(X)
        if X.shape[0] != len(order):
            raise InputError(f"groups has {len(order)} entries but X has {X.shape[0]} rows; give one for each row.")
        rows = X.iloc[order].to_numpy() if hasattr(X, "iloc") else (X.tocsr() if sp.issparse(X) else X)[order]
        return cls(rows, offsets, names)

    @classmethod
    def from_table(cls, table: Any, bag: str = "bag", features: Sequence[str] | None = None) -> Bags:
        """Bags from a table of pandas, polars, pyarrow or another library of tables, a row an instance.

        Parameters
        ----------
        table : table
        bag : str
            The column that names the bag of each row.
        features : list of str or None
            By default all other columns. `bagwise.read_table` reads labels, too.
        """
        columns = Columns(table)
        groups = columns.keys(bag)
        wanted = [name for name in columns.names if name != bag] if features is None else list(features)
        bags = cls.from_groups(columns.numbers(wanted), groups)
        bags.feature_names = wanted
        return bags

    @classmethod
    def concatenate(cls, parts: Iterable[Bags]) -> Bags:
        """The bags of all parts, one after another; features that all parts know by name must have the same names."""
        parts = list(parts)
        if not parts:
            raise InputError("There are no bags to concatenate; pass at least one Bags.")
        for part in parts:
            if not isinstance(part, Bags) or (part.instances.ndim, part.n_features) != (
                parts[0].instances.ndim,
                parts[0].n_features,
            ):
                raise InputError(f"{part!r} cannot be put behind {parts[0]!r}; all parts must have the same features.")
        names = {tuple(part.feature_names) for part in parts if part.feature_names is not None}
        if len(names) > 1:
            raise InputError(
                "The parts name their features differently; put them into one order first, for example with "
                "other.with_features(bags.feature_names)."
            )
        instances = [part.instances for part in parts]
        stacked = sp.vstack(instances, format="csr") if any(map(sp.issparse, instances)) else np.concatenate(instances)
        everyone = names.pop() if names and all(part.feature_names is not None for part in parts) else None
        return cls(stacked, offsets_of(np.concatenate([part.sizes for part in parts])), everyone)

    def with_features(self, names: Sequence[str], who: str = "the other side") -> Bags:
        """The same bags with the features of these names, in this order; `who` wants them, for the error."""
        own = self.feature_names
        if own is None:
            raise InputError(f"{who} names features, but these bags know no names; give them feature_names.")
        if own == list(names):
            return self
        missing, extra = [n for n in names if n not in set(own)], [n for n in own if n not in set(names)]
        if missing or extra:
            lists = (("missing", missing), ("not known there", extra))
            parts = [f"{what}: {', '.join(map(repr, found[:5]))}" for what, found in lists if found]
            raise InputError(
                f"The features are not those that {who} has ({'; '.join(parts)}); pass the same columns, in any order."
            )
        place = {name: i for i, name in enumerate(own)}
        return Bags(self.instances[:, [place[name] for name in names]], self.offsets, names)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def shape(self) -> tuple[int]:
        return (len(self),)

    @property
    def n_features(self) -> int:
        """Number of features of an instance (1 where the bags hold one value an instance)."""
        return self.instances.shape[1] if self.instances.ndim == 2 else 1

    @property
    def n_instances(self) -> int:
        return self.instances.shape[0]

    @property
    def sizes(self) -> np.ndarray:
        """(n,) number of instances in each bag."""
        return np.diff(self.offsets)

    @property
    def bag_index(self) -> np.ndarray:
        """(m,) index of the bag that holds each instance."""
        return np.repeat(np.arange(len(self)), self.sizes)

    def __iter__(self) -> Iterator[Any]:
        for start, stop in zip(self.offsets[:-1], self.offsets[1:], strict=True):
            yield self.instances[start:stop]

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, tuple):  # scikit-learn indexes rows as X[rows, ...]
            if len(key) != 2 or key[1] is not Ellipsis:
                raise IndexError(f"Bags take one index, or (index, ...), not {key!r}.")
            key = key[0]
        if isinstance(key, (int, np.integer)) and not isinstance(key, bool):
            i = range(len(self))[int(key)]
            return self.instances[self.offsets[i] : self.offsets[i + 1]]
        rows, offsets = self.select(key)
        return Bags(self.instances[rows], offsets, self.feature_names)

    def select(self, key: Any) -> tuple[Any, np.ndarray]:
        """Rows of the instances of some bags, a slice where these are neighbours, and the offsets of these bags alone.

        `key` is a slice, an array of int or a boolean mask; whatever has a row an instance is cut by the same rows.
        """
        if isinstance(key, slice):
            start, stop, step = key.indices(len(self))
            if step == 1 and stop > start:  # a view, no copy
                first, last = self.offsets[start], self.offsets[stop]
                return slice(first, last), self.offsets[start : stop + 1] - first
            key = np.arange(start, stop, step)
        index = _as_indices(key, len(self))
        if len(index) == 0:
            raise InputError("The selection holds no bags; bags cannot be empty, select at least one.")
        sizes = self.sizes[index]
        offsets = offsets_of(sizes)
        return np.arange(offsets[-1]) + np.repeat(self.offsets[index] - offsets[:-1], sizes), offsets

    def split(self, values: ArrayLike) -> list[np.ndarray]:
        """Cut a flat per-instance array into one piece a bag."""
        values = np.asarray(values)
        if len(values) != self.n_instances:
            raise InputError(
                f"There are {len(values)} values but {self.n_instances} instances; pass one for each instance."
            )
        return np.split(values, self.offsets[1:-1])

    def fingerprints(self) -> np.ndarray:
        """(n,) uint64, the same for bags of the same features up to rounding."""
        found = np.empty(len(self), dtype=np.uint64)
        X = self.instances
        for b, (start, stop) in enumerate(pairwise(self.offsets.tolist())):
            if sp.issparse(X):  # its arrays, since a matrix of each bag takes ten times as long
                own = slice(X.indptr[start], X.indptr[stop])
                values = X.data[own]
                marks = [X.indices[own].astype(np.int64), X.indptr[start : stop + 1].astype(np.int64) - X.indptr[start]]
            else:
                values, marks = np.ascontiguousarray(X[start:stop]), []
            largest = float(np.max(np.abs(values), initial=0.0)) or 1.0
            scaled = np.rint(values / largest * 65536.0).astype(np.int32)
            size = round(float(np.log2(largest)) * 4096)  # else a multiple of a bag would pass for it
            digest = blake2b(digest_size=8)
            for part in (np.array((stop - start, X.shape[1], size), dtype=np.int64), scaled, *marks):
                digest.update(part.tobytes())
            found[b] = int.from_bytes(digest.digest(), "little")
        return found

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        """One object a bag, so that numpy and scikit-learn see n samples and never a flattened mass of rows."""
        if dtype is not None and np.dtype(dtype) != object:
            raise InputError(
                f"Bags are no table of numbers ({np.dtype(dtype)} was asked for). A transformer of tables works on "
                "their instances inside PerInstance, as in make_pipeline(PerInstance(StandardScaler()), ...); a "
                "learner of tables takes BagStatistics().fit_transform(bags), a row per bag."
            )
        out = np.empty(len(self), dtype=object)
        out[:] = list(self)
        return out

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        """``np.concatenate`` puts bags behind each other; other functions of numpy see one object a bag."""
        if func is np.concatenate and len(args) == 1 and not kwargs and all(isinstance(p, Bags) for p in args[0]):
            return Bags.concatenate(args[0])
        return func(*_as_objects(args), **{key: _as_objects(value) for key, value in kwargs.items()})

    def to_frame(self, library: str = "pandas", bag: str = "bag", bag_names: Sequence[Any] | None = None) -> Any:
        """A frame with a row an instance: the name of its bag, and its features. `Bags.from_table` goes back.

        Parameters
        ----------
        library : {"pandas", "polars", "pyarrow"}
            Which must be installed.
        bag : str
            The column that names the bag of each row.
        bag_names : list or None
            By default 0, 1, 2, ...
        """
        import narwhals as nw  # here, so that the command line starts without it

        check_choice("library", library, ("pandas", "polars", "pyarrow"))
        try:
            importlib.import_module(library)
        except ImportError as error:
            raise ImportError(f"A frame of {library} needs {library}; pip install {library}.") from error
        names = range(len(self)) if bag_names is None else list(bag_names)
        if len(names) != len(self):
            raise InputError(f"There are {len(names)} bag names for {len(self)} bags; pass one for each.")
        headings = self.feature_names or [f"feature{i}" for i in range(self.n_features)]
        if self.instances.ndim == 1:
            headings = ["value"]
        if bag in headings:
            raise InputError(f"A feature is called {bag!r} too; choose another name for the column of bags with bag=.")
        check_allocation(8 * self.n_instances * self.n_features, "A frame of all instances", "convert some of the bags")
        dense = self.instances.toarray() if sp.issparse(self.instances) else self.instances
        columns = dense.reshape(self.n_instances, -1).T
        named = [names[i] for i in self.bag_index.tolist()]
        table = {bag: named, **dict(zip(headings, columns, strict=True))}
        return nw.from_dict(table, backend=library).to_native()  # type: ignore[arg-type]

    def _repr_html_(self) -> str:
        """What a notebook shows: how much there is, and the first features of the first instances."""
        shown = self.instances[:SHOWN]
        values = (shown.toarray() if sp.issparse(shown) else shown).reshape(shown.shape[0], -1)[:, :SHOWN].tolist()
        names = self.feature_names or ([""] if shown.ndim == 1 else [str(i) for i in range(self.n_features)])
        lines = [["bag", *names[:SHOWN]]]
        for bag, row in zip(self.bag_index.tolist(), values, strict=False):
            lines.append([str(bag), *(f"{value:.4g}" if isinstance(value, float) else str(value) for value in row)])
        lines = [[*line, "\u2026"] for line in lines] if len(names) > SHOWN else lines
        lines += [["\u2026"]] if self.n_instances > SHOWN else []
        cells = ["".join(f"<td>{html.escape(cell)}</td>" for cell in line) for line in lines]
        rows = "</tr><tr>".join([cells[0].replace("td>", "th>"), *cells[1:]])
        return f"<div><p>{html.escape(repr(self)[1:-1])}</p><table><tr>{rows}</tr></table></div>"

    def __eq__(self, other: object) -> bool:
        """Whether both hold the same bags, with the same names of features where both know them."""
        if not isinstance(other, Bags):
            return NotImplemented
        if None not in (self.feature_names, other.feature_names) and self.feature_names != other.feature_names:
            return False
        if self.instances.shape != other.instances.shape or not np.array_equal(self.offsets, other.offsets):
            return False
        if sp.issparse(self.instances) or sp.issparse(other.instances):
            return bool(abs(sp.csr_matrix(self.instances) - sp.csr_matrix(other.instances)).nnz == 0)
        return bool(np.array_equal(self.instances, other.instances))

    __hash__ = None  # type: ignore[assignment]  # mutable arrays inside

    def __repr__(self) -> str:
        kind = "sparse " if sp.issparse(self.instances) else ""
        width = f", {self.n_features} features" if self.instances.ndim == 2 else ""
        return f"<Bags: {len(self)} bags, {self.n_instances} instances{width}, {kind}{self.instances.dtype}>"


def as_bags(X: Any) -> Bags:
    """Any of the input forms as `Bags`.

    `Bags` as they are; a data set's bags with the names of its features; a list or series of 2-d arrays or frames; a
    3-d array (bag, instance, feature); a 2-d array, each row a bag of one instance.
    """
    if isinstance(X, Bags):
        return X
    if _is_dataset(X):
        return X.bags if X.feature_names is None else Bags(X.bags.instances, X.bags.offsets, X.feature_names)
    listed = _listed_bags(X)
    if listed is not None:
        return Bags.from_list(listed)
    X = X if sp.issparse(X) else np.asarray(X)
    if X.ndim == 2:
        return Bags(X, np.arange(X.shape[0] + 1))
    if X.ndim != 3:
        raise InputError(
            f"X has shape {X.shape}; expected Bags, a list of (n_i, d) arrays, a 3-d array (bag, instance, feature) or "
            "a 2-d array with one instance per bag. Reshape your data."
        )
    n_bags, size, n_features = X.shape
    if n_bags == 0 or size == 0:
        raise InputError(f"X has shape {X.shape}; there must be at least one bag and one instance in each.")
    return Bags(X.reshape(n_bags * size, n_features), np.arange(n_bags + 1) * size)


def is_flat(X: Any) -> bool:
    """Whether `X` is a plain table, each row a bag of one instance."""
    is_cube = isinstance(X, np.ndarray) and X.ndim == 3
    return not (isinstance(X, Bags) or _is_dataset(X) or is_cube) and _listed_bags(X) is None


def _is_dataset(X: Any) -> bool:
    return isinstance(getattr(X, "bags", None), Bags)  # its class is a floor above


def _listed_bags(X: Any) -> list[Any] | None:
    """The bags of a list, a series or an array of objects, if it holds such; None where `X` is one table."""
    if hasattr(X, "to_list") and np.ndim(X) == 1:
        X = X.to_list()
    elif isinstance(X, np.ndarray) and X.dtype == object and X.ndim == 1:
        X = list(X)
    is_list = isinstance(X, (list, tuple)) and len(X) > 0 and (sp.issparse(X[0]) or np.ndim(X[0]) == 2)
    return list(X) if is_list else None


def column_names(table: Any) -> list[str] | None:
    """The names of a frame's columns where all of them are text, else None."""
    names = getattr(table, "column_names", getattr(table, "columns", None))  # pyarrow calls its arrays columns
    if names is None or np.ndim(table) != 2 or not all(isinstance(name, str) for name in names):
        return None
    return [str(name) for name in names]


def _named_bag(table: Any, number: int) -> Bags:
    """One bag of a frame."""
    names = column_names(table)
    if names is None:
        raise InputError(f"Bag {number} has no names of features, but bag 0 has; pass frames only, or arrays only.")
    if not np.shape(table)[0]:
        raise InputError(f"Bag {number} is empty; remove it, a bag must hold at least one instance.")
    return Bags(np.asarray(table), [0, np.shape(table)[0]], names)


def _as_objects(value: Any) -> Any:
    """Arguments of a function of numpy, with an array of one object a bag for every `Bags`."""
    if isinstance(value, Bags):
        return np.asarray(value)
    return type(value)(map(_as_objects, value)) if type(value) in (list, tuple) else value


def _as_names(names: Sequence[str], n_features: int) -> list[str]:
    names = list(names)
    if len(names) != n_features or len(set(names)) != n_features or not all(isinstance(name, str) for name in names):
        raise InputError(
            f"There are {len(names)} names of features ({len(set(names))} different) for {n_features} features; pass "
            "one different text for each."
        )
    return names


def as_indicator(Y: Any) -> np.ndarray:
    """An (n, c) 0/1 matrix, dense or sparse, as uint8; anything else is an error that names the first bad cell."""
    Y = Y.toarray() if sp.issparse(Y) else np.asarray(Y)
    if Y.ndim != 2:
        raise InputError(f"The label matrix has shape {Y.shape}; expected (n_bags, n_classes).")
    if Y.dtype == bool or (Y.dtype == np.uint8 and (Y.size == 0 or Y.max() <= 1)):
        return Y.astype(np.uint8, copy=False)
    if not np.issubdtype(Y.dtype, np.number):
        raise InputError(f"The label matrix has dtype {Y.dtype}; expected zeros and ones.")
    bad = np.argwhere((Y != 0) & (Y != 1))
    if len(bad):
        i, c = bad[0]
        raise InputError(
            f"The label matrix holds {Y[i, c]} at bag {i}, class {c}; expected only 0 and 1 "
            "(1 where the bag carries the label)."
        )
    return Y.astype(np.uint8)


def group_rows(groups: Any) -> tuple[np.ndarray, np.ndarray, list[Any]]:
    """Row order, bag offsets and bag names, in order of first appearance, of the rows' bag names."""
    groups = np.asarray(groups)
    if groups.ndim != 1 or not len(groups):
        raise InputError(f"groups has shape {groups.shape}; expected one bag name for each row, and at least one row.")
    names, first, code = np.unique(groups, return_index=True, return_inverse=True)
    appearance = np.argsort(first, kind="stable")
    rank = np.empty(len(names), dtype=np.int64)
    rank[appearance] = np.arange(len(names))
    bag = rank[code]
    order = np.argsort(bag, kind="stable")
    return order, offsets_of(np.bincount(bag)), names[appearance].tolist()


def _as_instances(instances: Any) -> Any:
    if sp.issparse(instances):
        instances = instances.tocsr()
        if instances.dtype not in (np.float32, np.float64):
            instances = instances.astype(np.float64)
        return instances
    instances = np.asarray(instances)
    if instances.ndim not in (1, 2):
        raise InputError(f"instances have shape {instances.shape}; expected (n_instances, n_features).")
    if instances.ndim == 2 and instances.dtype not in (np.float32, np.float64):
        if np.iscomplexobj(instances):
            raise InputError("Complex data not supported: the features are complex; pass real numbers.")
        try:
            instances = instances.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise InputError(f"The features must be numbers, but they could not be read as such: {error}.") from error
    return instances


def _as_offsets(offsets: Any, n_instances: int) -> np.ndarray:
    raw = np.asarray(offsets)
    if raw.ndim != 1 or len(raw) < 2 or not (np.issubdtype(raw.dtype, np.integer) or np.all(raw == np.floor(raw))):
        raise InputError(f"offsets must be a 1-d array of at least two whole numbers, got shape {raw.shape}.")
    out = np.ascontiguousarray(raw, dtype=np.int64)
    empty = np.flatnonzero(np.diff(out) == 0)
    if len(empty):
        raise InputError(f"Bag {empty[0]} is empty; remove it, a bag must hold at least one instance.")
    if out[0] != 0 or out[-1] != n_instances or np.any(np.diff(out) < 0):
        raise InputError(
            f"offsets run from {out[0]} to {out[-1]}; they must start at 0, rise strictly and end at the number of "
            f"instances, {n_instances}."
        )
    return out


def _as_indices(key: Any, n_bags: int) -> np.ndarray:
    index = np.asarray(key)
    if index.dtype == bool:
        if index.shape != (n_bags,):
            raise IndexError(f"The mask has shape {index.shape} but there are {n_bags} bags.")
        return np.flatnonzero(index)
    if index.size == 0:
        return np.empty(0, dtype=np.int64)
    if index.ndim != 1 or not np.issubdtype(index.dtype, np.integer):
        raise IndexError(f"Bags are indexed by integers, a slice, an integer array or a boolean mask, not {key!r}.")
    if index.min() < -n_bags or index.max() >= n_bags:
        raise IndexError(f"Index {index.min() if index.min() < -n_bags else index.max()} is out of {n_bags} bags.")
    return index % n_bags


KNOWN_BACKGROUND = -2
"""In instance labels: the instance is known to be of no class."""


def known_labels(
    instance_labels: Bags | Sequence[ArrayLike] | None, offsets: np.ndarray, n_classes: int, *, background: bool = False
) -> np.ndarray | None:
    """The flat (m,) class indices of `instance_labels`, -1 where unknown, checked against the bags.

    With `background` an instance may be `KNOWN_BACKGROUND`; its index is then `n_classes`, that of one class more.
    """
    if instance_labels is None:
        return None
    bags = instance_labels if isinstance(instance_labels, Bags) else Bags.from_list(instance_labels)
    if not np.array_equal(bags.offsets, offsets):
        raise InputError(
            f"instance_labels have {len(bags)} bags and {bags.n_instances} instances, arranged otherwise than X "
            f"({len(offsets) - 1} bags, {offsets[-1]} instances); build both from the same bags."
        )
    labels = bags.instances
    if labels.ndim != 1 or np.any(labels != np.floor(labels)):
        raise InputError("instance_labels must hold one class index an instance, -1 where unknown.")
    labels = labels.astype(np.int64)
    if labels.min() < (KNOWN_BACKGROUND if background else -1) or labels.max() >= n_classes:
        hint = "" if background else f" ({KNOWN_BACKGROUND} is background, for a model that has one: background=True)"
        raise InputError(
            f"instance_labels range from {labels.min()} to {labels.max()}; expected 0 to {n_classes - 1}, "
            f"or -1 for unknown{hint if labels.min() == KNOWN_BACKGROUND else ''}."
        )
    return np.where(labels == KNOWN_BACKGROUND, n_classes, labels)


def as_instance_labels(known: np.ndarray | None, offsets: np.ndarray, n_classes: int) -> Bags | None:
    """What `known_labels` was given, of what it gives."""
    return None if known is None else Bags(np.where(known == n_classes, KNOWN_BACKGROUND, known), offsets)


def offsets_of(sizes: Sequence[int] | np.ndarray) -> np.ndarray:
    """Bag offsets from bag sizes."""
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


def cut_bags(offsets: np.ndarray, most: int, groups: np.ndarray | None = None) -> list[tuple[int, int]]:
    """First and last bag of pieces that follow each other: of at most so many instances each, or of one bag.

    Where numbers of bags in `groups` are in reach, cuts are made at these.
    """
    groups = np.empty(0, np.int64) if groups is None else groups
    cuts = [0]
    while cuts[-1] < len(offsets) - 1:
        farthest = max(int(np.searchsorted(offsets, offsets[cuts[-1]] + most, side="right")) - 1, cuts[-1] + 1)
        at_group = groups[(groups > cuts[-1]) & (groups <= farthest)]
        cuts.append(int(at_group[-1]) if len(at_group) else farthest)
    return list(pairwise(cuts))
