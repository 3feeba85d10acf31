"""The annotations of a run at one moment: orders, filters, rows, files. Nothing in it changes, so threads share it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from bagwise.app.media.media_type import MediaType
from bagwise.app.review._errors import MissingError, RequestError
from bagwise.app.runs.find import INDUCTIVE, TRANSDUCTIVE, Found
from bagwise.core.dataset import BagDataset, as_column

ORDERS = ("useful", "least-sure", "file", "label", "time")
DRAWN = "drawn"  # the order of a sample
UNSHOWN = ("polygon", "rings", "area", "file")  # places that are no part of a row, or stand in it already


class Places:
    """Where the instances of a run are; made once, since corrections do not move them."""

    def __init__(self, dataset: BagDataset, media_type: MediaType, files: Sequence[str]):
        self.dataset = dataset
        self.media_type = media_type
        self.offsets = dataset.bags.offsets
        self.bag_of = dataset.bags.bag_index
        self.position = dataset.positions
        self.bag_names = [str(name) for name in dataset.bag_names]
        self.number = {name: i for i, name in enumerate(self.bag_names)}
        self.columns = dict(dataset.locations or {})
        self.files = list(files)
        names = self.columns.get("file")
        if names is None or not set(names.tolist()) <= set(self.files):  # a table may speak of files of its own
            self.file_of = np.zeros(dataset.bags.n_instances, dtype=np.int64)
        else:
            code = {name: i for i, name in enumerate(self.files)}
            self.file_of = np.array([code[name] for name in names.tolist()], dtype=np.int64)
        self._by_file = np.argsort(self.file_of, kind="stable")
        self._file_edges = np.searchsorted(self.file_of[self._by_file], np.arange(len(self.files) + 1))

    def row(self, bag: str, instance: int) -> int:
        """Number of an instance among all."""
        i = self.number.get(bag)
        if i is None:
            raise MissingError(f"The run has no bag {bag[:80]!r}.")
        size = int(self.offsets[i + 1] - self.offsets[i])
        if not 0 <= instance < size:
            raise MissingError(f"The bag {bag[:80]!r} has no instance {instance}; it has {size}, from 0 on.")
        return int(self.offsets[i]) + instance

    def file(self, name: str) -> int:
        """Number of a file, if it is one of the run."""
        try:
            return self.files.index(name)
        except ValueError:
            raise MissingError(f"The run has no file {name[:80]!r}.") from None

    def in_file(self, file: int) -> np.ndarray:
        """Rows of the instances of a file."""
        return self._by_file[self._file_edges[file] : self._file_edges[file + 1]]

    def place(self, row: int) -> dict[str, Any]:
        """All that is known of where an instance is."""
        return {name: plain(values[row]) for name, values in self.columns.items()}


@dataclass(frozen=True)
class Choice:
    """Which instances are asked for, in which order.

    Attributes
    ----------
    order : str
        One of `ORDERS`.
    label, bag, file : str or None
        Only those; the label "" asks for instances without one.
    least, most : float or None
        Bounds of the probability.
    checked : bool or None
        Only those that a person checked, or only the others.
    rows : (k,) array or None
        Only these, as of a sample.
    """

    order: str = "useful"
    label: str | None = None
    bag: str | None = None
    file: str | None = None
    least: float | None = None
    most: float | None = None
    checked: bool | None = None
    rows: np.ndarray | None = None


@dataclass(frozen=True)
class Snapshot:
    """The annotations at one moment.

    Attributes
    ----------
    revision, version : int
    places : Places
    found : Found
    labels : list of str
        All labels of the run, sorted.
    supervision : BagDataset
        The label sets of the bags as they count now.
    before : (m,) array of object or None
        The labels before the last refit.
    after : (m,) array of object or None
        Those that this refit gave.
    ranking : function that gives (m,) rows, those first whose answer helps most
    n_corrections : int
    """

    revision: int
    version: int
    places: Places
    found: Found
    labels: list[str]
    supervision: BagDataset
    before: np.ndarray | None
    after: np.ndarray | None
    ranking: Callable[[], np.ndarray]
    n_corrections: int
    _orders: dict[str, np.ndarray] = field(default_factory=dict)

    def listed(self, bag: int) -> list[str] | None:
        """The labels of a bag, sorted; None where nobody labelled it."""
        if not self.supervision.labelled[bag]:
            return None
        assert self.supervision.Y is not None
        return sorted(str(self.supervision.class_names[c]) for c in np.flatnonzero(self.supervision.Y[bag]))

    def named(self, bag: int) -> set[str]:
        """Labels of the instances of a bag that a person checked."""
        rows = slice(self.places.offsets[bag], self.places.offsets[bag + 1])
        return set(self.names[rows][self.found.checked[rows]].tolist()) - {""}

    @cached_property
    def names(self) -> np.ndarray:
        """(m,) label of each instance, "" where it has none."""
        return label_names(self.found)

    @cached_property
    def codes(self) -> np.ndarray:
        """(m,) index of the label among `labels`, -1 where it has none."""
        column = {name: i for i, name in enumerate(self.labels)}
        of_class = np.array([column.get(str(name), -1) for name in self.found.classes] + [-1])
        return of_class[self.found.label]

    @cached_property
    def certainty(self) -> np.ndarray:
        """(m,) probability of what the instance is taken for, background or its label."""
        found = self.found
        if found.probability is None:
            return np.ones(len(found.label))
        certain = found.probability if found.noise is None else np.maximum(found.probability, found.noise)
        return np.nan_to_num(certain)

    def order(self, name: str) -> np.ndarray:
        """(m,) rows in an order, worked out once."""
        if name not in ORDERS:
            raise RequestError(f"There is no order {name[:40]!r}; use {', '.join(ORDERS)}.")
        if name not in self._orders:
            self._orders[name] = self._sort(name)
        return self._orders[name]

    def _sort(self, name: str) -> np.ndarray:
        rows = np.arange(len(self.names))
        places = self.places
        if name == "least-sure":
            return np.lexsort((rows, self.certainty, self.found.checked))
        if name == "label":
            last = np.where(self.codes < 0, len(self.labels), self.codes)
            return np.lexsort((rows, -self.certainty, last))
        if name == "time" and "start" in places.columns and places.columns["start"].dtype.kind in "iuf":
            return np.lexsort((places.file_of, places.columns["start"]))
        if name == "useful":
            ranked = self.ranking()
            return np.concatenate([ranked[~self.found.checked[ranked]], ranked[self.found.checked[ranked]]])
        return np.lexsort((rows, places.file_of))

    def choose(self, choice: Choice) -> np.ndarray:
        """Rows that fit, in order."""
        found = self.found
        rows = self.order(choice.order) if choice.rows is None or choice.order != DRAWN else choice.rows
        kept = np.ones(len(found.label), dtype=bool)
        if choice.label is not None:
            if choice.label and choice.label not in self.labels:
                raise MissingError(f"The run has no label {choice.label[:80]!r}.")
            kept &= self.codes == (self.labels.index(choice.label) if choice.label else -1)
        if choice.bag is not None:
            start = self.places.row(choice.bag, 0)
            kept &= self.places.bag_of == self.places.bag_of[start]
        if choice.file is not None:
            kept &= self.places.file_of == self.places.file(choice.file)
        if choice.checked is not None:
            kept &= found.checked == choice.checked
        if found.probability is not None:
            if choice.least is not None:
                kept &= found.probability >= choice.least
            if choice.most is not None:
                kept &= found.probability <= choice.most
        if choice.rows is not None:
            inside = np.zeros(len(found.label), dtype=bool)
            inside[choice.rows] = True
            kept &= inside
        return rows[kept[rows]]

    def rows(self, index: np.ndarray) -> list[dict[str, Any]]:
        """What is known of some instances, a dict per instance."""
        found, places = self.found, self.places
        names = as_column([*map(str, found.classes), ""])
        columns: dict[str, Sequence[Any]] = {
            "bag": [places.bag_names[i] for i in places.bag_of[index].tolist()],
            "instance": places.position[index].tolist(),
            "file": [places.files[i] for i in places.file_of[index].tolist()],
            "label": names[found.label[index]].tolist(),
            "probability": _numbers(found.probability, index),
            "runner_up": names[found.runner_up[index]].tolist(),
            "noise": _numbers(found.noise, index),
            "mode": np.where(found.transductive[index], TRANSDUCTIVE, INDUCTIVE).tolist(),
            "checked": found.checked[index].tolist(),
            **({} if found.novel is None else {"novel": found.novel[index].tolist()}),
        }
        columns |= {
            name: [plain(value) for value in values[index]]
            for name, values in places.columns.items()
            if name not in UNSHOWN and name not in columns
        }
        rows = [dict(zip(columns, cells, strict=True)) for cells in zip(*columns.values(), strict=True)]
        for row, i in zip(rows, index.tolist(), strict=True):
            row["place"] = places.media_type.place_in_words(row)
            if self.before is not None and self.after is not None and self.before[i] != self.after[i]:
                row["was"] = self.before[i]
        return rows

    def mark(self, i: int) -> dict[str, Any]:
        """What a box or a span in a picture says of an instance."""
        found, places = self.found, self.places
        return {
            "bag": places.bag_names[places.bag_of[i]],
            "instance": int(places.position[i]),
            "label": self.names[i],
            "probability": None if found.probability is None else plain(found.probability[i]),
            "checked": bool(found.checked[i]),
        }


def label_names(found: Found) -> np.ndarray:
    """(m,) label of each instance as text, "" where it has none."""
    return as_column([*map(str, found.classes), ""])[found.label]


def _numbers(values: np.ndarray | None, index: np.ndarray) -> list[float | None]:
    if values is None:
        return [None] * len(index)
    return [None if value != value else value for value in values[index].tolist()]


def plain(value: Any) -> Any:
    """A value as JSON has it; what is no number is nothing."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not np.isfinite(value):
        return None
    if isinstance(value, np.ndarray):
        return value.tolist()
    if value is None or isinstance(value, (str, int, float, bool, list, tuple, Mapping)):
        return value
    return str(value)


ALONG = ("start", "end", "low", "high")


def list_files(
    now: Snapshot, files: Sequence[Mapping[str, Any]], search: str, limit: int, offset: int
) -> dict[str, Any]:
    """A page of the files whose names hold a text."""
    wanted = search.casefold()
    found = [i for i, file in enumerate(files) if wanted in file["file"].casefold()]
    return {
        "total": len(found),
        "revision": now.revision,
        "labels": now.labels,
        "files": [
            {"file": files[i]["file"], "seconds": files[i].get("seconds"), "bags": _bags(now, i)}
            for i in found[offset : offset + limit]
        ],
    }


def _bags(now: Snapshot, file: int) -> list[dict[str, Any]]:
    places, found = now.places, now.found
    rows = places.in_file(file)
    probability = np.full(len(rows), np.nan) if found.probability is None else found.probability[rows]
    columns = [
        places.position[rows].tolist(),
        *(
            [plain(value) for value in places.columns[key][rows]] if key in places.columns else [None] * len(rows)
            for key in ALONG
        ),
        now.codes[rows].tolist(),
        [plain(value) for value in probability],
        found.checked[rows].tolist(),
    ]
    by_bag: dict[int, list[Any]] = {}
    for bag, *cells in zip(places.bag_of[rows].tolist(), *columns, strict=True):
        by_bag.setdefault(bag, []).append(cells)
    return [
        {"bag": places.bag_names[bag], "labels": now.listed(bag), "instances": instances}
        for bag, instances in by_bag.items()
    ]
