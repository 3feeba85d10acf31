"""How bags are laid out for a device: sorted into groups by number of labels, cut into chunks that fit a budget."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bagwise.union import LabelNoise, UnionProblem


@dataclass(frozen=True)
class Chunk:
    """Bags of one group: each has `k` labels that need an instance, and rows that are not known, one after the other.

    Attributes
    ----------
    bags : (b,) int64
        Which bags of the problem.
    rows : (r,) int64
        Their instances of unknown label, bag by bag.
    offsets : (b + 1,) int64
        Where each bag begins among `rows`.
    columns : (b, k) int64
        The labels that need an instance.
    n_known : (b, k) int64
        How many known instances carry each of them (which go unnoticed at times, or the label would not need one).
    optional : (b, c) bool or None
        Columns that may occur unlisted or that need no instance, where bags differ in them.
    """

    bags: np.ndarray
    rows: np.ndarray
    offsets: np.ndarray
    columns: np.ndarray
    n_known: np.ndarray
    optional: np.ndarray | None

    @property
    def k(self) -> int:
        return self.columns.shape[1]


@dataclass(frozen=True)
class Layout:
    """Chunks of all bags that a device infers, the bags that have too many labels for it, and the known instances.

    Attributes
    ----------
    chunks : list of Chunk
    large : (l,) int64
        Bags with more labels that need an instance than are summed over exactly.
    known_rows, known_columns, known_bags : (k,) int64
        Instances whose label is known, in bags that are not large.
    known_unlisted : (k,) bool
        Which of these carry a label that is not listed: they went unnoticed.
    """

    chunks: list[Chunk]
    large: np.ndarray
    known_rows: np.ndarray
    known_columns: np.ndarray
    known_bags: np.ndarray
    known_unlisted: np.ndarray


def lay_out(
    problem: UnionProblem, n_columns: int, max_exact_labels: int, budget: int, rates: LabelNoise | None
) -> Layout:
    """Sort the bags into chunks.

    Parameters
    ----------
    problem : UnionProblem
    n_columns : int
        Columns of the scores, the background's among them.
    max_exact_labels : int
    budget : int
        Entries of the widest array of a chunk: rows times columns, or rows times subsets. A bag that alone exceeds it
        is a chunk of its own.
    rates : LabelNoise or None
        Only counts which of them are zero.
    """
    n_bags = len(problem.offsets) - 1
    sizes = np.diff(problem.offsets)
    bag_of = np.repeat(np.arange(n_bags), sizes)
    unknown = problem.known < 0 if len(problem.known) else np.ones(len(bag_of), dtype=bool)
    pair_bag, pair_label = np.repeat(np.arange(n_bags), problem.n_labels), problem.labels
    known_rows = np.flatnonzero(~unknown)
    keys, counts = (
        np.unique(bag_of[known_rows] * n_columns + problem.known[known_rows], return_counts=True)
        if len(known_rows)
        else (np.empty(0, np.int64), np.empty(0, np.int64))
    )
    pair_known = _looked_up(keys, counts, pair_bag * n_columns + pair_label)
    needs = pair_known == 0 if rates is None else (pair_known == 0) | (rates.missed[pair_label] > 0.0)
    if len(problem.relaxed):
        needs &= ~problem.relaxed[pair_bag]
    k_of = np.bincount(pair_bag[needs], minlength=n_bags)
    starts = np.concatenate([[0], np.cumsum(k_of)])
    needed_labels, needed_known = pair_label[needs], pair_known[needs]
    n_rows = np.bincount(bag_of[unknown], minlength=n_bags)
    row_ids = np.flatnonzero(unknown)
    row_starts = np.concatenate([[0], np.cumsum(n_rows)])
    optional_pairs = np.flatnonzero(~needs)

    chunks = []
    for k in np.unique(k_of[k_of <= max_exact_labels]):
        members = np.flatnonzero(k_of == k)
        for bags in _cut(members, n_rows[members], max(1, budget // max(n_columns, 1 << int(k)))):
            at = starts[bags][:, None] + np.arange(k)
            optional = None
            if len(optional_pairs):
                optional = _optional(bags, pair_bag[optional_pairs], pair_label[optional_pairs], n_bags, n_columns)
            chunks.append(
                Chunk(
                    bags, row_ids[_ranges(row_starts[bags], n_rows[bags])],
                    np.concatenate([[0], np.cumsum(n_rows[bags])]),
                    needed_labels[at], needed_known[at], optional,
                )
            )  # fmt: skip
    small = k_of[bag_of[known_rows]] <= max_exact_labels
    known_rows = known_rows[small]
    columns = problem.known[known_rows] if len(known_rows) else np.empty(0, np.int64)
    known_keys = bag_of[known_rows] * n_columns + columns
    unlisted = ~np.isin(known_keys, pair_bag * n_columns + pair_label) & (columns != problem.background)
    return Layout(chunks, np.flatnonzero(k_of > max_exact_labels), known_rows, columns, bag_of[known_rows], unlisted)


def part(problem: UnionProblem, bags: np.ndarray) -> tuple[UnionProblem, np.ndarray]:
    """The problem of some bags alone, and their rows."""
    sizes, n_labels = np.diff(problem.offsets)[bags], problem.n_labels[bags]
    rows = _ranges(problem.offsets[:-1][bags], sizes)
    alone = UnionProblem(
        offsets=np.concatenate([[0], np.cumsum(sizes)]),
        label_starts=np.concatenate([[0], np.cumsum(n_labels)]),
        labels=problem.labels[_ranges(problem.label_starts[:-1][bags], n_labels)],
        background=problem.background,
        known=problem.known[rows] if len(problem.known) else problem.known,
        relaxed=problem.relaxed[bags] if len(problem.relaxed) else problem.relaxed,
    )
    return alone, rows


def _looked_up(keys: np.ndarray, values: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """values at the keys that are wanted, 0 where there is none; keys are sorted."""
    if not len(keys):
        return np.zeros(len(wanted), np.int64)
    at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where(keys[at] == wanted, values[at], 0)


def _cut(bags: np.ndarray, n_rows: np.ndarray, most_rows: int) -> list[np.ndarray]:
    """Runs of bags of at most so many rows, at least one bag each."""
    ends = np.cumsum(n_rows)
    pieces, first = [], 0
    while first < len(bags):
        before = ends[first - 1] if first else 0
        last = max(int(np.searchsorted(ends, before + most_rows, side="right")), first + 1)
        pieces.append(bags[first:last])
        first = last
    return pieces


def _ranges(starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """The ranges starts[i] .. starts[i] + lengths[i], one after the other."""
    total = int(lengths.sum())
    shift = np.repeat(starts - np.concatenate([[0], np.cumsum(lengths)[:-1]]), lengths)
    return np.arange(total) + shift


def _optional(
    bags: np.ndarray, pair_bag: np.ndarray, pair_label: np.ndarray, n_bags: int, n_columns: int
) -> np.ndarray | None:
    position = np.full(n_bags, -1)
    position[bags] = np.arange(len(bags))
    at = position[pair_bag]
    mine = at >= 0
    if not mine.any():
        return None
    found = np.zeros((len(bags), n_columns), dtype=bool)
    found[at[mine], pair_label[mine]] = True
    return found
