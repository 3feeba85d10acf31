"""`BagDataset`: bags with everything that is known about them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from bagwise.core.bags import Bags, as_indicator
from bagwise.core.checks import check_choice
from bagwise.core.exceptions import InputError

Places = dict[str, np.ndarray]
"""Columns of one length, a row an instance: where each was found."""


@dataclass(frozen=True, eq=False, repr=False)
class BagDataset:
    """Bags, their labels and everything else that is known about them.

    Estimators take one in place of bags and labels (``fit(dataset)``, ``annotate(dataset)``), and of either of them.
    Two are equal where all that they hold is, their `name` left aside.

    Attributes
    ----------
    bags : Bags
    Y : (n, c) uint8 array or None
        Indicator of the labels of each bag; a bag that nobody labelled has a row of zeros. None where no bag is.
    class_names : list of length c
        Any hashable values.
    instance_labels : Bags of int or None
        Index of the class of each instance, -1 where unknown.
    bag_names : list
        0, 1, 2, ... where nobody named the bags.
    feature_names : list or None
    locations : dict of (m,) arrays or None
        Where each instance was found, a column for each fact: file, seconds and hertz; file and polygon; file and
        characters. None in a column of objects where there is no such fact.
    labelled : (n,) array of bool
        Which bags somebody labelled; one of these with an empty set is a bag in which nothing was found. By default
        all bags where `Y` is given, else none.
    name : str

    Examples
    --------
    >>> import numpy as np
    >>> from bagwise import BagDataset, Bags
    >>> bags = Bags.from_list([np.ones((2, 3)), np.zeros((4, 3))])
    >>> data = BagDataset(bags, [[1, 0], [1, 1]], ["wren", "robin"])
    >>> len(data), [sorted(labels) for labels in data.label_sets]
    (2, [['wren'], ['robin', 'wren']])
    >>> BagDataset(bags, [[1, 0]], ["wren", "robin"])
    Traceback (most recent call last):
    ...
    bagwise.core.exceptions.InputError: Y has 1 rows but there are 2 bags; pass one row per bag.
    """

    bags: Bags
    Y: np.ndarray | None = None
    class_names: list[Any] = field(default_factory=list)
    instance_labels: Bags | None = None
    bag_names: list[Any] = None  # type: ignore[assignment]  # filled in below
    feature_names: list[str] | None = None
    locations: Places | None = None
    labelled: np.ndarray = None  # type: ignore[assignment]  # filled in below
    name: str = "unnamed"

    if TYPE_CHECKING:  # what may be left out is never None afterwards

        def __init__(
            self,
            bags: Bags,
            Y: np.ndarray | None = None,
            class_names: Sequence[Any] = (),
            instance_labels: Bags | None = None,
            bag_names: list[Any] | None = None,
            feature_names: list[str] | None = None,
            locations: Places | None = None,
            labelled: np.ndarray | None = None,
            name: str = "unnamed",
        ) -> None: ...

    def __post_init__(self) -> None:
        n_bags = len(self.bags)
        if self.feature_names is None:
            object.__setattr__(self, "feature_names", self.bags.feature_names)
        if self.bag_names is None:
            object.__setattr__(self, "bag_names", list(range(n_bags)))
        self._check_labels()
        if self.instance_labels is not None:
            labels = self.instance_labels.instances
            if not np.array_equal(self.instance_labels.offsets, self.bags.offsets):
                raise InputError("instance_labels and bags differ in their offsets; build both from the same bags.")
            if labels.ndim != 1 or not np.issubdtype(labels.dtype, np.integer):
                raise InputError("instance_labels must hold one integer class index an instance, -1 where unknown.")
            if labels.min() < -1 or labels.max() >= max(len(self.class_names), 1):
                raise InputError(
                    f"instance_labels range from {labels.min()} to {labels.max()} but there are "
                    f"{len(self.class_names)} classes; use 0 to {len(self.class_names) - 1}, and -1 for unknown."
                )
        if self.locations is not None:
            if not isinstance(self.locations, dict):
                raise InputError(
                    f"locations are a {type(self.locations).__name__}; expected a dict of columns, a row an instance. "
                    "bagwise.core.dataset.columns_of makes it from a list of dicts."
                )
            columns = {name: as_column(values) for name, values in self.locations.items()}
            object.__setattr__(self, "locations", columns or None)
            for name, column in columns.items():
                if len(column) != self.bags.n_instances:
                    raise InputError(f"locations[{name!r}] has {len(column)} rows, expected {self.bags.n_instances}.")
        for what, values, length in (
            ("bag_names", self.bag_names, n_bags),
            ("feature_names", self.feature_names, self.bags.n_features),
        ):
            if values is not None and len(values) != length:
                raise InputError(f"{what} has {len(values)} entries, expected {length}.")

    def _check_labels(self) -> None:
        n_bags = len(self.bags)
        labelled = np.full(n_bags, self.Y is not None) if self.labelled is None else np.asarray(self.labelled, bool)
        object.__setattr__(self, "labelled", labelled)
        if labelled.shape != (n_bags,):
            raise InputError(f"labelled has shape {labelled.shape} but there are {n_bags} bags; pass one value a bag.")
        if self.Y is None:
            if labelled.any():
                raise InputError(
                    f"{labelled.sum()} bags are said to be labelled but Y is None; pass their labels in Y."
                )
            return
        try:
            Y = as_indicator(self.Y)
        except InputError as error:
            if np.asarray(self.Y).dtype.kind != "f":
                raise
            raise InputError(
                f"{error} A data set holds lists; what is said beyond these goes to fit(bags, Y)."
            ) from None
        object.__setattr__(self, "Y", Y)
        if len(Y) != n_bags:
            raise InputError(f"Y has {len(Y)} rows but there are {n_bags} bags; pass one row per bag.")
        names = list(self.class_names) if len(self.class_names) else list(range(Y.shape[1]))
        object.__setattr__(self, "class_names", names)
        if len(names) != Y.shape[1] or len(set(names)) != len(names):
            raise InputError(
                f"There are {len(names)} class names ({len(set(names))} different) but Y has {Y.shape[1]} columns; "
                "pass one distinct name per column."
            )
        stray = np.flatnonzero(~labelled & Y.any(axis=1))
        if len(stray):
            raise InputError(
                f"Bag {stray[0]} is said to be unlabelled but has labels in Y ({len(stray)} such bag(s)); clear its "
                "row, or mark it as labelled."
            )

    def __len__(self) -> int:
        return len(self.bags)

    def __repr__(self) -> str:
        inside = repr(self.bags).removeprefix("<Bags: ").removesuffix(">")
        return f"<BagDataset {self.name!r}: {inside}, {len(self.class_names)} classes>"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, BagDataset):
            return NotImplemented
        places, others = self.locations or {}, other.locations or {}
        return (
            (self.bags, list(self.class_names), self.instance_labels, list(self.bag_names), places.keys())
            == (other.bags, list(other.class_names), other.instance_labels, list(other.bag_names), others.keys())
            and (self.feature_names is None) == (other.feature_names is None)
            and list(self.feature_names or []) == list(other.feature_names or [])
            and _same(self.Y, other.Y)
            and _same(self.labelled, other.labelled)
            and all(_same(column, others[name]) for name, column in places.items())
        )

    __hash__ = None  # type: ignore[assignment]  # mutable arrays inside

    @property
    def shape(self) -> tuple[int]:
        """(n,): scikit-learn's searches take a data set for n samples."""
        return (len(self),)

    @property
    def n_classes(self) -> int:
        return len(self.class_names)

    @property
    def label_sets(self) -> list[set[Any] | None]:
        """The labels of each bag as a set of class names; None for a bag that nobody labelled."""
        if self.Y is None:
            raise InputError(f"Data set {self.name!r} carries no bag labels.")
        return [
            {self.class_names[c] for c in np.flatnonzero(row)} if known else None
            for row, known in zip(self.Y, self.labelled, strict=True)
        ]

    @property
    def positions(self) -> np.ndarray:
        """(m,) number of each instance within its bag, from 0."""
        return np.arange(self.bags.n_instances) - np.repeat(self.bags.offsets[:-1], self.bags.sizes)

    def __getitem__(self, key: Any) -> BagDataset:
        """The data set of some of the bags; an integer gives a data set of one bag."""
        if isinstance(key, tuple) and len(key) == 2 and key[1] is Ellipsis:  # scikit-learn indexes X[rows, ...]
            key = key[0]
        if isinstance(key, (int, np.integer)):
            key = [range(len(self))[key]]
        rows, offsets = self.bags.select(key)
        index = np.arange(len(self))[key]
        labels, places = self.instance_labels, self.locations
        return replace(
            self,
            bags=Bags(self.bags.instances[rows], offsets, self.bags.feature_names),
            Y=None if self.Y is None else self.Y[index],
            instance_labels=None if labels is None else Bags(labels.instances[rows], offsets),
            bag_names=[self.bag_names[i] for i in index],
            locations=None if places is None else {name: values[rows] for name, values in places.items()},
            labelled=self.labelled[index],
        )

    def recode(
        self, class_names: Sequence[Any], *, unknown: str = "error", key: Callable[[Any], Any] | None = None
    ) -> BagDataset:
        """The same data set over other classes, matched by name.

        Parameters
        ----------
        class_names : the classes that it is to have, in their order
        unknown : {"error", "drop"}
            What to do with a label that is none of them: an error that names it, or it is left out.
        key : function or None
            Names are the same where `key` gives the same for both; ``str`` matches the class 1 with the class "1".
        """
        check_choice("unknown", unknown, ("error", "drop"))
        same = key or (lambda name: name)
        column = {same(name): c for c, name in enumerate(class_names)}
        codes = np.array([column.get(same(name), -1) for name in self.class_names] + [-1], dtype=np.int64)
        lost = np.flatnonzero(self._carried() & (codes[:-1] < 0))
        if len(lost) and unknown == "error":
            raise InputError(
                f"Data set {self.name!r} holds the label {self.class_names[lost[0]]!r}, which is none of the "
                f"{len(column)} classes; leave it out, or add it to them."
            )
        Y = None
        if self.Y is not None:
            Y = np.zeros((len(self), len(class_names)), dtype=np.uint8)
            for c in np.flatnonzero(codes[:-1] >= 0):
                Y[:, codes[c]] |= self.Y[:, c]
        instance_labels = self.instance_labels
        if instance_labels is not None:
            instance_labels = Bags(codes[instance_labels.instances], instance_labels.offsets)
        return replace(self, Y=Y, class_names=list(class_names), instance_labels=instance_labels)

    def _carried(self) -> np.ndarray:
        """(c,) whether any bag or instance carries each class."""
        carried = np.zeros(self.n_classes + 1, dtype=bool)  # the last one takes the -1 of unknown instances
        if self.Y is not None:
            carried[:-1] |= self.Y.any(axis=0)
        if self.instance_labels is not None:
            carried[self.instance_labels.instances] = True
        return carried[:-1]


def _same(one: np.ndarray | None, other: np.ndarray | None) -> bool:
    """Whether both are None or the same values; a missing number is the same as another."""
    if one is None or other is None:
        return one is other
    if one.dtype == object or other.dtype == object:
        return bool(one.tolist() == other.tolist())
    return bool(np.array_equal(one, other, equal_nan=one.dtype.kind == "f" and other.dtype.kind == "f"))


def as_column(values: Any) -> np.ndarray:
    """A column of facts as a one-dimensional array; what are no plain numbers is kept as objects.

    A text that occurs on many rows is one object.
    """
    if isinstance(values, np.ndarray) and values.ndim == 1:
        return values
    values = list(values)
    kinds = {type(value) for value in values}
    if kinds <= {int, float} or kinds == {bool}:
        with suppress(OverflowError):  # a whole number of hundreds of digits
            return np.array(values)
    if str in kinds:
        texts: dict[str, str] = {}
        values = [texts.setdefault(value, value) if type(value) is str else value for value in values]
    return np.fromiter(values, dtype=object, count=len(values))  # not np.array, which would open lists


def columns_of(rows: Iterable[dict[str, Any]]) -> Places:
    """Rows of facts as columns; None where a row lacks a fact that another one has."""
    columns: dict[str, list[Any]] = {}
    texts: dict[str, str] = {}  # so that rows that come one at a time leave one object a text behind
    for i, row in enumerate(rows):
        for name, value in row.items():
            if name not in columns:
                columns[name] = [None] * i
            columns[name].append(texts.setdefault(value, value) if type(value) is str else value)
        if len(row) < len(columns):
            for column in columns.values():
                column.extend([None] * (i + 1 - len(column)))
    return {name: as_column(column) for name, column in columns.items()}


def rows_of(columns: Places) -> list[dict[str, Any]]:
    """Columns of facts as one dict of plain values a row, without the facts that are None."""
    names = list(columns)
    lists = [columns[name].tolist() for name in names]
    return [
        {name: value for name, value in zip(names, row, strict=True) if value is not None}
        for row in zip(*lists, strict=True)
    ]
