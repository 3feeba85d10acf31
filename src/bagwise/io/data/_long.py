"""The long form, a row per instance, as a `BagDataset` and back; what all table formats share.

Columns are known by their headings: ``bag`` (or another usual name for it), ``bag_name`` where several bags have the
same name, ``labels`` (the bag's labels in one cell) or ``label:NAME`` (0 or 1, one column for each class), ``labelled``
(0 or 1, where nobody labelled some of the bags), ``instance_label``, ``location`` (JSON), and features: all others.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from bagwise.core.bags import Bags, cut_bags, group_rows
from bagwise.core.checks import check_allocation, check_choice
from bagwise.core.columns import Columns, Where, check_features, is_missing, place_in_table
from bagwise.core.dataset import BagDataset, Places, columns_of, rows_of
from bagwise.core.exceptions import FormatError, InputError
from bagwise.io.labels import LIST_MARK, NAME_HEADINGS, LabelTable
from bagwise.io.tables import first_repeated, plain_value

BAG, BAG_NAME, LABELS, LABELLED = "bag", "bag_name", "labels", "labelled"
INSTANCE_LABEL, INSTANCE_LABELS, LOCATION = "instance_label", "instance_labels", "location"
LABEL_PREFIX = "label:"
ROLES = (BAG, BAG_NAME, LABELS, LABELLED, INSTANCE_LABEL, LOCATION)
PIECE = 1 << 16  # rows of a data set that are written at a time


def place(path: Path, first_row: int, row: int) -> str:
    """Where a row of a part of a table stands, for messages."""
    return f"{path}, row {first_row + row + 1}"


@dataclass(frozen=True)
class Roles:
    """Which column of a table holds what: indices into its headings.

    `one_hot` gives the class of each column of 0 and 1.
    """

    bag: int
    features: Sequence[int]
    bag_name: int | None = None
    labels: int | None = None
    one_hot: dict[int, Any] = field(default_factory=dict)
    labelled: int | None = None
    instance_label: int | None = None
    location: int | None = None

    @property
    def others(self) -> list[int]:
        """All columns but those of features."""
        single = (self.bag, self.bag_name, self.labels, self.labelled, self.instance_label, self.location)
        return list(dict.fromkeys(i for i in (*single, *self.one_hot) if i is not None))

    def described(self, headings: Sequence[str]) -> str:
        """How the columns besides features were understood."""
        parts = [f"bags by {headings[self.bag]!r}"]
        if self.labels is not None:
            parts.append(f"labels from lists in {headings[self.labels]!r}")
        else:
            parts.append(f"labels from {len(self.one_hot)} columns of 0 and 1" if self.one_hot else "no bag labels")
        if self.instance_label is not None:
            parts.append(f"instance labels from {headings[self.instance_label]!r}")
        return ", ".join(parts)


def find_roles(
    headings: Sequence[str],
    where: str,
    bag: str | None = None,
    labels: str | None = None,
    instance_label: str | None = None,
    features: Sequence[str] | None = None,
) -> Roles:
    """Tell columns apart by their headings; a column that the caller names goes before the usual headings."""
    twice = first_repeated(headings)
    if twice is not None:
        raise FormatError(f"{where}: two columns are named {twice!r}; rename one of them.")
    found = {name: i for i, name in enumerate(headings)}

    def named(name: str | None, usual: str) -> int | None:
        if name is not None and name not in found:
            raise FormatError(f"{where}: there is no column {name!r}; the columns are {_listed(headings)}.")
        return found.get(usual if name is None else name)

    bag_column = named(bag, BAG)
    if bag_column is None:
        usual = [i for i, name in enumerate(headings) if name.casefold() in NAME_HEADINGS - {BAG_NAME}]
        if not usual:
            raise FormatError(
                f"{where}: no column says to which bag a row belongs; name it 'bag' (the columns are "
                f"{_listed(headings)})."
            )
        bag_column = usual[0]
    one_hot = {}
    if labels is None:
        one_hot = {i: name[len(LABEL_PREFIX) :] for i, name in enumerate(headings) if name.startswith(LABEL_PREFIX)}
    roles = Roles(
        bag=bag_column,
        features=[],
        bag_name=named(None, BAG_NAME),
        labels=named(labels, LABELS),
        one_hot=one_hot,
        labelled=named(None, LABELLED),
        instance_label=named(instance_label, INSTANCE_LABEL),
        location=named(None, LOCATION),
    )
    if roles.labels is not None and one_hot:
        raise FormatError(f"{where}: labels stand both in the column 'labels' and in columns 'label:...'; keep one.")
    if roles.bag_name == bag_column:
        roles = replace(roles, bag_name=None)
    if features is None:
        columns = sorted(set(range(len(headings))) - set(roles.others))
    else:
        columns = [i for i in (named(name, "") for name in features) if i is not None]
    if not columns:
        raise FormatError(f"{where}: there is no column of features; the columns are {_listed(headings)}.")
    return replace(roles, features=columns)


def _listed(headings: Sequence[str]) -> str:
    return ", ".join(map(repr, headings[:8])) + (", ..." if len(headings) > 8 else "")


def cut_labels(text: str) -> list[str]:
    """The labels of a text ``a;b;c``."""
    return [part.strip() for part in text.split(LIST_MARK) if part.strip()]


def encode_label_lists(lists: Sequence[Sequence[Any]], class_names: list[Any] | None) -> tuple[np.ndarray, list[Any]]:
    """(m, c) indicator and class names of the labels of each row; sorted names where none are given."""
    cache: dict[tuple[Any, ...], int] = {}
    keys = [cache.setdefault(tuple(labels), len(cache)) for labels in lists]
    if class_names is None:
        class_names = sorted_names(label for labels in cache for label in labels)
    column = {label: c for c, label in enumerate(class_names)}
    distinct = np.zeros((len(cache), len(class_names)), dtype=np.uint8)
    for i, labels in enumerate(cache):
        for label in labels:
            if label not in column:
                raise InputError(f"the label {label!r} is none of the {len(class_names)} classes")
            distinct[i, column[label]] = 1
    n_bytes = len(keys) * len(class_names)
    check_allocation(
        n_bytes, f"The {len(class_names)} labels of {len(keys)} rows", "use fewer rows or labels at a time"
    )
    return distinct[keys], class_names


def sorted_names(names: Iterable[Any]) -> list[Any]:
    """Names of classes in order, whole numbers and text apart."""
    return sorted(set(names), key=lambda name: (str(type(name)), name))


def to_dataset(
    X: np.ndarray,
    bag: Any,
    name: str,
    where: Where,
    *,
    feature_names: list[str] | None = None,
    bag_name: Any = None,
    indicator: np.ndarray | None = None,
    class_names: list[Any] | None = None,
    labelled: np.ndarray | None = None,
    instance_labels: Sequence[Any] | None = None,
    locations: Places | None = None,
) -> BagDataset:
    """Group rows into bags, in order of first appearance, and check what must be the same within one.

    Parameters
    ----------
    X : (m, d) array
    bag, bag_name : sequence, or (codes, values)
        By which the bags are distinguished, and their names where these are others.
    name : str
        Of the data set.
    where : function of a row
    indicator, labelled : arrays of m rows
        The labels of the bag of each row, and whether somebody labelled it; None: all bags.
    instance_labels : sequence
        Class names, None where unknown.
    """
    check_features(X, feature_names, where)
    bag_codes, bag_names = number_values(bag)
    order, offsets, _ = group_rows(bag_codes)

    def one_each(values: np.ndarray, what: str) -> np.ndarray:
        """The value of each bag's first row, if all of its rows agree."""
        sorted_values = values[order]
        firsts = sorted_values[offsets[:-1]]
        differs = (sorted_values != np.repeat(firsts, np.diff(offsets), axis=0)).any(axis=1)
        if differs.any():
            position = int(np.argmax(differs))
            first = offsets[np.searchsorted(offsets, position, side="right") - 1]
            raise FormatError(
                f"{where(int(order[position]))}: {what} from the first row of the same bag "
                f"({where(int(order[first]))}); make them the same on all rows of a bag."
            )
        return firsts

    Y = None if indicator is None else one_each(indicator, "the labels differ")
    if labelled is not None:
        _check_labelled(labelled, indicator, where)
        labelled = one_each(labelled[:, None], f"{LABELLED!r} differs")[:, 0]
    if bag_name is not None:
        name_codes, names = number_values(bag_name)
        bag_names = [names[code] for code in one_each(name_codes[:, None], "the bag_name differs")[:, 0]]
    known = None
    if instance_labels is not None:
        codes, class_names = _instance_codes(instance_labels, class_names, where)
        known = Bags(codes[order], offsets)
    if not np.all(order[1:] > order[:-1]):
        X = X[order]
        locations = None if locations is None else {key: values[order] for key, values in locations.items()}
    return BagDataset(
        bags=Bags(X, offsets),
        Y=Y,
        class_names=class_names or [],
        instance_labels=known,
        bag_names=bag_names,
        feature_names=feature_names,
        locations=locations,
        labelled=labelled,
        name=name,
    )


def _check_labelled(labelled: np.ndarray, indicator: np.ndarray | None, where: Where) -> None:
    """Refuse rows that say of a bag both that nobody labelled it and which labels it has, or neither."""
    if indicator is None:
        wrong, problem = labelled, "is 1, but there is no column of labels; add one, or remove this column"
    else:
        wrong, problem = ~labelled & indicator.any(axis=1), "is 0, but the bag has labels; write 1, or clear them"
    if wrong.any():
        raise FormatError(f"{where(int(np.argmax(wrong)))}: {LABELLED!r} {problem}.")


def number_values(values: Any) -> tuple[np.ndarray, list[Any]]:
    """Codes of the values, numbered by first appearance, and the values; a long string takes no room for every row."""
    if isinstance(values, tuple):
        return values
    seen: dict[Any, int] = {}
    return np.array([seen.setdefault(value, len(seen)) for value in values], dtype=np.int64), list(seen)


def _instance_codes(labels: Sequence[Any], class_names: list[Any] | None, where: Where) -> tuple[np.ndarray, list[Any]]:
    if class_names is None:
        class_names = sorted_names(label for label in labels if label is not None)
    column = {label: c for c, label in enumerate(class_names)} | {None: -1}
    try:
        return np.array([column[label] for label in labels], dtype=np.int64), class_names
    except KeyError as error:
        row = next(i for i, label in enumerate(labels) if label not in column)
        raise FormatError(
            f"{where(row)}: the instance label {labels[row]!r} is no label of any bag; correct it, or leave it empty."
        ) from error


# ---------------------------------------------------------------------------------------------------------------------
# Tables in memory


def read_table(
    table: Any,
    bag: str = "bag",
    labels: str | Sequence[str] | None = None,
    instance_labels: str | None = None,
    features: Sequence[str] | None = None,
) -> BagDataset:
    """The data set of a table in memory, a row per instance.

    Parameters
    ----------
    table : table
        Of pandas, polars, pyarrow or another library of tables, or whatever gives an Arrow stream.
    bag : str
        The column that names the bag of each row.
    labels : str, list of str or None
        The labels of the bag, the same on all of its rows: a column of lists or of text ``a;b;c``, or several columns
        of 0 and 1, one for each class.
    instance_labels : str or None
        The column of the instances' own labels, empty where unknown.
    features : list of str or None
        By default all other columns.

    Examples
    --------
    >>> import pyarrow
    >>> from bagwise import read_table
    >>> data = read_table(pyarrow.table({"bag": ["a", "a"], "who": ["wren;robin"] * 2, "x": [0.5, 1.5]}), labels="who")
    >>> sorted(data.label_sets[0]), data.feature_names
    (['robin', 'wren'], ['x'])
    """
    columns = Columns(table)
    ids = columns.keys(bag)
    one_hot = list(labels) if labels is not None and not isinstance(labels, str) else []
    text = labels if isinstance(labels, str) else None
    if features is None:
        taken = {bag, text, instance_labels, *one_hot}
        features = [name for name in columns.names if name not in taken]
    indicator, class_names = _labels_in(columns, text, one_hot)
    known = None
    if instance_labels is not None:
        values = columns.values(instance_labels).tolist()
        known = [None if is_missing(value) or value == "" else value for value in values]
    return to_dataset(
        columns.numbers(features),
        ids,
        "table",
        place_in_table,
        feature_names=[str(name) for name in features],
        indicator=indicator,
        class_names=class_names,
        instance_labels=known,
    )


def _labels_in(columns: Columns, text: str | None, one_hot: list[str]) -> tuple[np.ndarray | None, list[Any] | None]:
    if one_hot:
        arrays = [columns.values(name) for name in one_hot]
        for name, array in zip(one_hot, arrays, strict=True):
            if array.dtype.kind not in "biuf" or not np.isin(array, (0, 1)).all():
                raise InputError(f"The label column {name!r} holds more than 0 and 1; correct it.")
        return np.stack(arrays, axis=1).astype(np.uint8), list(one_hot)
    if text is None:
        return None, None
    lists = []
    for value in columns.values(text).tolist():
        if isinstance(value, str):
            value = cut_labels(value)
        many = isinstance(value, (list, tuple, np.ndarray))
        lists.append(list(value) if many else [] if is_missing(value) else [value])
    return encode_label_lists(lists, None)


# ---------------------------------------------------------------------------------------------------------------------
# Labels from a second table


def with_labels(
    dataset: BagDataset, labels: LabelTable, source: Any, label_source: Any, missing: str = "error"
) -> BagDataset:
    """The data set with the labels of a second table, matched by the names of the bags.

    Where `missing` is "error" every bag needs a row; where it is "unlabelled", one without a row is unlabelled.
    """
    check_choice("missing", missing, ("error", "unlabelled"))
    names = [str(name) for name in dataset.bag_names]
    twice = first_repeated(names)
    if twice is not None:
        raise FormatError(f"{source}: two bags are named {twice!r}, so labels cannot be matched by name; rename one.")
    sets = dict(zip(labels.names, labels.label_sets, strict=True))
    labelled = np.array([name in sets for name in names])
    if missing == "error" and not labelled.all():
        raise FormatError(
            f"{label_source}: {(~labelled).sum()} bag(s) of {source} have no row, the first is "
            f"{names[int(np.argmin(labelled))]!r}; add a row (with an empty label where there is none)."
        )
    known = set(names)
    for name, row in zip(labels.names, labels.rows, strict=True):
        if name not in known:
            raise FormatError(f"{label_source}, row {row}: there is no bag {name!r} in {source}; remove the row.")
    Y, classes = encode_label_lists([sets.get(name, []) for name in names], labels.class_names)
    try:
        recoded = replace(dataset, Y=None, labelled=np.zeros(len(dataset), bool)).recode(classes, key=str)
    except InputError as error:
        raise FormatError(f"{label_source}: {error}") from error
    return replace(recoded, Y=Y, labelled=labelled)


# ---------------------------------------------------------------------------------------------------------------------
# Writing


def dense_features(dataset: BagDataset) -> np.ndarray:
    """The instances as a dense array, for formats that hold no sparse ones."""
    X = dataset.bags.instances
    if not sp.issparse(X):
        return X
    size = X.shape[0] * X.shape[1] * X.dtype.itemsize
    check_allocation(size, "The sparse instances written out in full", "convert fewer bags at a time")
    return X.toarray()


def has_names(dataset: BagDataset) -> bool:
    """Whether somebody named the bags, otherwise than 0, 1, 2, ..."""
    return dataset.bag_names != list(range(len(dataset)))


def has_unlabelled(dataset: BagDataset) -> bool:
    """Whether there are labels, but not of all bags."""
    return dataset.Y is not None and not dataset.labelled.all()


def _pieces_of(dataset: BagDataset) -> Iterator[BagDataset]:
    """The data set cut between bags into pieces of about `PIECE` rows."""
    for start, stop in cut_bags(dataset.bags.offsets, PIECE):
        yield dataset[start:stop]


def to_write(
    data: BagDataset | Iterable[BagDataset], numbered: bool | None, marked: bool | None
) -> tuple[BagDataset, Iterator[BagDataset], bool, bool]:
    """The first piece of what is to be written, all pieces, and what there must be columns for.

    `numbered`: the bags are 0, 1, 2, ... and their names stand in a column of their own; by default where names of one
    data set are not distinct. `marked`: which bags are labelled; by default where the data set, or the first of several
    pieces, needs it.
    """
    if isinstance(data, BagDataset):
        names = [str(name) for name in data.bag_names]
        numbered = len(set(names)) < len(names) if numbered is None else numbered
        marked = has_unlabelled(data) if marked is None else marked
        data = _pieces_of(data)
    pieces = iter(data)
    first = next(pieces)
    return first, chain([first], pieces), bool(numbered), has_unlabelled(first) if marked is None else marked


def check_marked(piece: BagDataset, marked: bool) -> None:
    """Refuse unlabelled bags in a later piece of a file that was begun without a column for them."""
    if not marked and has_unlabelled(piece):
        raise InputError(
            f"The bag {piece.bag_names[int(np.argmin(piece.labelled))]!r} is unlabelled, but the file was begun "
            "without a column that says so; pass marked=True."
        )


def unique_names(dataset: BagDataset) -> list[str]:
    """Names of the bags as text; one that occurs again gets a number, for formats that need distinct names."""
    names = [str(name) for name in dataset.bag_names]
    taken, seen, number, out = set(names), set[str](), dict[str, int](), list[str]()
    for name in names:
        candidate = name
        while candidate in seen or (candidate != name and candidate in taken):
            number[name] = number.get(name, 1) + 1
            candidate = f"{name}#{number[name]}"
        seen.add(candidate)
        out.append(candidate)
    return out


def is_int64(name: Any) -> bool:
    """Whether a name is a whole number that files of 64 bits hold; others are written as text."""
    return isinstance(name, (int, np.integer)) and not isinstance(name, bool) and -(2**63) <= int(name) < 2**63


def check_bare(names: Sequence[str], format_name: str) -> None:
    """Refuse names that a file without quotes cannot hold."""
    for name in names:
        if not name or name != name.strip() or any(mark in name for mark in ',"\n\r'):
            raise InputError(
                f"The name {name!r} is empty or holds a comma, a quote, a line end or outer blanks, which "
                f"{format_name} cannot; rename it, or use csv or parquet."
            )


def feature_names_of(dataset: BagDataset, taken: Sequence[str] = ()) -> list[str]:
    """Distinct names of the features; x1, x2, ... where there are none. `taken` are headings of other columns."""
    if dataset.feature_names is None:
        return [f"x{i + 1}" for i in range(dataset.bags.n_features)]
    names = [str(name) for name in dataset.feature_names]
    twice = "" if "" in names else first_repeated(names)
    if twice is not None:
        raise InputError(f"The feature name {twice!r} is empty or stands twice; a table needs distinct names.")
    for name in names:
        if name in taken or name.startswith(LABEL_PREFIX):
            raise InputError(f"A feature is named {name!r}, which a table keeps for another column; rename it.")
    return names


def instance_label_names(dataset: BagDataset) -> list[Any] | None:
    """The class name of every instance, None where unknown."""
    if dataset.instance_labels is None:
        return None
    return [dataset.class_names[code] if code >= 0 else None for code in dataset.instance_labels.instances]


def location_texts(dataset: BagDataset) -> list[str] | None:
    """Where each instance was found, as JSON."""
    if dataset.locations is None:
        return None
    return [json.dumps(row, ensure_ascii=False, default=plain_value) for row in rows_of(dataset.locations)]


def parse_locations(texts: Iterable[str], where: Where) -> Places:
    """What `location_texts` wrote, as columns."""
    return columns_of(_parse_location(text, where, row) for row, text in enumerate(texts))


def _parse_location(text: str, where: Where, row: int) -> dict[str, Any]:
    try:
        location = json.loads(text) if text else {}
    except (ValueError, RecursionError) as error:
        raise FormatError(
            f"{where(row)}: the location is not JSON ({error}); correct it, or remove the column."
        ) from error
    if not isinstance(location, dict):
        raise FormatError(f'{where(row)}: the location is no JSON object; write one such as {{"file": "a.wav"}}.')
    return location
