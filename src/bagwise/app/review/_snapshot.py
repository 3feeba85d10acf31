"""The annotations of a run at one moment: orders, filters, rows, files. Nothing in it changes, so threads share it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from bagwise.app.media.media_type import MediaType
from bagwise.app.review._errors import MissingError, RequestError
from bagwise.app.runs.layout import row_finder
from bagwise.app.runs.predictions import Predictions
from bagwise.core.dataset import BagDataset, as_column

ORDERS = ("useful", "least-sure", "file", "label", "time")
DRAWN = "drawn"  # the order of a sample
UNSHOWN = ("polygon", "rings", "area")  # places that are no part of a row
MARK = ("bag", "instance", "label", "probability", "checked")  # what a box or a span in a picture says of an instance


class Places:
    """Where the instances of a run are; made once for all corrections but those of boxes."""

    def __init__(self, dataset: BagDataset, media_type: MediaType, files: Sequence[str]):
        self.dataset = dataset
        self.media_type = media_type
        self.offsets = dataset.bags.offsets
        self.bag_of = dataset.bags.bag_index
        self.bag_names = [str(name) for name in dataset.bag_names]
        self.number = {name: i for i, name in enumerate(self.bag_names)}
        self._find = row_finder(dataset)
        self.columns = dict(dataset.locations or {})
        self.files = list(files)
        names = self.columns.get("file")
        if names is None or not set(names.tolist()) <= set(self.files):  # a table may speak of files of its own
            self.file_of = np.zeros(dataset.bags.n_instances, dtype=np.int64)
        else:
            code = {name: i for i, name in enumerate(self.files)}
            self.file_of = np.array([code[name] for name in names.tolist()], dtype=np.int64)
        self.audible = _audible(self.columns, len(self.bag_of))
        self._by_file = np.argsort(self.file_of, kind="stable")
        self._file_edges = np.searchsorted(self.file_of[self._by_file], np.arange(len(self.files) + 1))

    def has(self, bag: str, instance: int) -> bool:
        """Whether there is such an instance."""
        return bag in self.number and self._find(self.number[bag], instance) is not None

    def bag(self, name: str) -> int:
        """Number of a bag, if it is one of the run."""
        i = self.number.get(name)
        if i is None:
            raise MissingError(f"The run has no bag {name[:80]!r}.")
        return i

    def row(self, bag: str, instance: int) -> int:
        """Number of an instance among all."""
        i = self.bag(bag)
        row = self._find(i, instance)
        if row is None:
            size = int(self.offsets[i + 1] - self.offsets[i])
            raise MissingError(f"The bag {bag[:80]!r} has no instance {instance}; it has {size}.")
        return row

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


SHORTEST_HEARD, HIGHEST_HEARD = 0.08, 10_000.0  # seconds and hertz: by less than that or above nobody knows a sound


def _audible(columns: Mapping[str, np.ndarray], m: int) -> np.ndarray:
    """(m,) whether a person can hear what an instance is; of other media than sound everything can be seen."""
    edges = [columns.get(name) for name in ("start", "end", "low", "high")]
    if any(edge is None or edge.dtype.kind not in "iuf" for edge in edges):
        return np.ones(m, dtype=bool)
    start, end, low, _ = edges
    return (end - start >= SHORTEST_HEARD) & (low < HIGHEST_HEARD)  # type: ignore[operator]  # none of them is missing


@dataclass(frozen=True)
class Snapshot:
    """The annotations at one moment.

    Attributes
    ----------
    revision, version : int
    places : Places
    found : Predictions
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
    max_noise : float
        An instance whose background is more probable is taken for background.
    """

    revision: int
    version: int
    places: Places
    found: Predictions
    labels: list[str]
    supervision: BagDataset
    before: np.ndarray | None
    after: np.ndarray | None
    ranking: Callable[[], np.ndarray]
    n_corrections: int
    max_noise: float
    _orders: dict[str, np.ndarray] = field(default_factory=dict)

    def listed(self, bag: int) -> list[str] | None:
        """The labels of a bag, sorted; None where nobody labelled it."""
        if not self.supervision.labelled[bag]:
            return None
        assert self.supervision.Y is not None
        return sorted(str(self.supervision.class_names[c]) for c in np.flatnonzero(self.supervision.Y[bag]))

    def named(self, bag: int) -> set[str]:
        """Labels of the instances of a bag that a person checked."""
        first, last = self.places.offsets[bag], self.places.offsets[bag + 1]
        checked = first + np.flatnonzero(self.found.checked[first:last])
        return {name for row in checked.tolist() for name in self.found.labels_of(row)}

    @cached_property
    def names(self) -> np.ndarray:
        """(m,) label of each instance, the first where it carries several, "" where it has none."""
        return as_column([*map(str, self.found.classes), ""])[self.found.label]

    @cached_property
    def codes(self) -> np.ndarray:
        """(m,) index of the label among `labels`, -1 where it has none."""
        column = {name: i for i, name in enumerate(self.labels)}
        of_class = np.array([column.get(str(name), -1) for name in self.found.classes] + [-1])
        return of_class[self.found.label]

    @cached_property
    def entries(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Row, index of the label and probability of every label of every instance, without those of no label."""
        column = {name: i for i, name in enumerate(self.labels)}
        row, code, probability = self.found.entries()
        named = code >= 0
        of_class = np.array([column.get(str(name), -1) for name in self.found.classes], dtype=np.int64)
        return row[named], of_class[code[named]], probability[named]

    def carries(self, label: str) -> np.ndarray:
        """(m,) whether the label is one of the instance's; "" asks for those without any."""
        if not label:
            return self.codes < 0
        row, code, _ = self.entries
        carried = np.zeros(len(self.codes), dtype=bool)
        carried[row[code == self.labels.index(label)]] = True
        return carried

    @cached_property
    def background(self) -> np.ndarray:
        """(m,) whether an instance is taken for background, whatever its most probable label is."""
        unnamed = self.codes < 0
        return unnamed if self.found.noise is None else unnamed | (self.found.noise > self.max_noise)

    @cached_property
    def certainty(self) -> np.ndarray:
        """(m,) probability of what the instance is taken for, background or its label."""
        found = self.found
        if found.probability is None:
            return np.ones(len(found.label))
        certain = found.probability if found.noise is None else np.maximum(found.probability, found.noise)
        if found.further is not None:  # an instance is as sure as the least sure of its labels
            certain = certain.copy()
            np.minimum.at(certain, found.further.row, found.further.probability)
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
            checked, audible = self.found.checked[ranked], places.audible[ranked]
            return ranked[np.lexsort((~audible, checked))]
        return np.lexsort((rows, places.file_of))

    def choose(
        self,
        order: str | None = None,
        label: str | None = None,
        bag: str | None = None,
        file: str | None = None,
        least: float | None = None,
        most: float | None = None,
        checked: bool | None = None,
        background: bool | None = None,
        rows: np.ndarray | None = None,
    ) -> np.ndarray:
        """Rows that fit, in order.

        Parameters
        ----------
        order : str or None
            One of `ORDERS`, or `DRAWN`, that of `rows`; None takes what helps most, or that of `rows`.
        label, bag, file : str or None
            Only those; the label "" asks for instances without one.
        least, most : float or None
            Bounds of the probability.
        checked : bool or None
            Only those that a person checked, or only the others.
        background : bool or None
            Only those that are taken for background, or only the others.
        rows : (k,) array or None
            Only these, as of a sample.
        """
        found, places = self.found, self.places
        order = order or (ORDERS[0] if rows is None else DRAWN)
        ordered = self.order(order) if rows is None or order != DRAWN else rows
        kept = np.ones(len(found.label), dtype=bool)
        if label is not None:
            if label and label not in self.labels:
                raise MissingError(f"The run has no label {label[:80]!r}.")
            kept &= self.carries(label)
        if bag is not None:
            kept &= places.bag_of == places.bag(bag)
        if file is not None:
            kept &= places.file_of == places.file(file)
        if checked is not None:
            kept &= found.checked == checked
        if background is not None:
            kept &= self.background == background
        if found.probability is not None:
            kept &= found.probability >= least if least is not None else True
            kept &= found.probability <= most if most is not None else True
        if rows is not None:
            kept &= np.isin(np.arange(len(kept)), rows)
        return ordered[kept[ordered]]

    def columns(self, rows: np.ndarray) -> dict[str, list[Any]]:
        """What is known of some instances, as columns of values that JSON has."""
        places = self.places
        columns = self.found.columns(places.dataset, rows) | {
            "bag": [places.bag_names[i] for i in places.bag_of[rows].tolist()],
            "file": [places.files[i] for i in places.file_of[rows].tolist()],
            "checked": self.found.checked[rows].tolist(),
        }
        if self.found.further is not None:
            columns["labels"] = self._label_lists(rows)
        return {name: list(map(plain, values)) for name, values in columns.items()}

    def _label_lists(self, rows: np.ndarray) -> list[list[dict[str, Any]]]:
        """The labels of some instances, each with its probability."""
        row, code, probability = self.entries
        firsts, lasts = np.searchsorted(row, rows), np.searchsorted(row, rows, side="right")
        return [
            [{"label": self.labels[code[i]], "probability": float(probability[i])} for i in range(first, last)]
            for first, last in zip(firsts.tolist(), lasts.tolist(), strict=True)
        ]

    def rows(self, rows: np.ndarray, *names: str) -> list[dict[str, Any]]:
        """The same as a dict per instance: some columns, or all of a list, with the place in words and what it was."""
        columns = self.columns(rows)
        kept = names or [name for name in columns if name not in UNSHOWN]
        found = [dict(zip(kept, cells, strict=True)) for cells in zip(*(columns[name] for name in kept), strict=True)]
        for row, i in zip(found, rows.tolist(), strict=True) if not names else ():
            row["place"] = self.places.media_type.place_in_words(row)
            if self.before is not None and self.after is not None and self.before[i] != self.after[i]:
                row["was"] = self.before[i]
        return found


def label_names(found: Predictions) -> np.ndarray:
    """(m,) label of each instance as text, "" where it has none; several in one."""
    if found.further is not None:
        return found.set_names()
    return as_column([*map(str, found.classes), ""])[found.label]


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


def search_files(
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
    """The bags of a file, each with its instances as short lists."""
    places = now.places
    rows = places.in_file(file)
    columns = now.columns(rows)
    absent = [None] * len(rows)
    along = [columns.get(key, absent) for key in ALONG]
    cells = zip(
        columns["instance"], *along, now.codes[rows].tolist(), columns["probability"], columns["checked"], strict=True
    )
    by_bag: dict[int, list[Any]] = {}
    for bag, own in zip(places.bag_of[rows].tolist(), cells, strict=True):
        by_bag.setdefault(bag, []).append(own)
    return [
        {"bag": places.bag_names[bag], "labels": now.listed(bag), "instances": instances}
        for bag, instances in by_bag.items()
    ]
