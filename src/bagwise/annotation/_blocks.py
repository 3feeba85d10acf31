"""Many instances, many classes: scores of some bags at a time, and of a bag with few labels these alone.

No array of all instances and classes is made. Bags are gone through in blocks of a bounded number of scores. Where
classes are many times the labels of any bag, its likelihood and posterior need the scores of its own labels and the
normaliser; only the gradient looks at all classes, in a product of the probabilities of a block with its instances.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from bagwise.core.bags import Bags, cut_bags
from bagwise.union import UnionProblem

BLOCK_ENTRIES = 2**20  # scores of a block; it stays in the processor's cache from one step to the next
OWN_FROM = 32  # times the labels of a bag, from which number of classes on it is faster to look at its own alone


def cut_blocks(offsets: np.ndarray, n_columns: int) -> list[tuple[int, int]]:
    """First and last bag of blocks of neighbours with at most `BLOCK_ENTRIES` scores, or of one bag."""
    return cut_bags(offsets, max(BLOCK_ENTRIES // max(n_columns, 1), 1))


def by_blocks(bags: Bags, n_columns: int, function: Callable[[Bags], np.ndarray]) -> np.ndarray:
    """What a function gives for bags, of some of them at a time: rows of bags or of instances, one after another."""
    blocks = cut_blocks(bags.offsets, n_columns)
    parts = [function(bags if len(blocks) == 1 else bags[first:last]) for first, last in blocks]
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


@dataclass(frozen=True)
class Block:
    """Bags that follow each other: their rows, their numbers, what is fixed about them."""

    rows: slice
    bags: slice
    problem: UnionProblem

    @classmethod
    def cut(cls, problem: UnionProblem, n_columns: int) -> list[Block]:
        """All bags of a problem in blocks, where work on an instance fills so many columns."""
        rows = problem.offsets.tolist()
        return [
            cls(slice(rows[first], rows[last]), slice(first, last), problem.part(first, last))
            for first, last in cut_blocks(problem.offsets, n_columns)
        ]

    @cached_property
    def own(self) -> OwnLabels:
        return OwnLabels.of(self.problem)


def own_labels_pay(problem: UnionProblem, n_columns: int) -> bool:
    """Whether bags have so few labels beside the number of classes that theirs are better looked at alone."""
    return n_columns >= OWN_FROM * (int(np.diff(problem.label_starts).max(initial=0)) + 2)


@dataclass(frozen=True)
class OwnLabels:
    """Bags whose scores have a column for each of their own labels, then the background's, then all others' together.

    Attributes
    ----------
    problem : UnionProblem
        In these columns.
    columns : (n, k) int
        Class of each of a bag's own columns; 0 where it has fewer.
    filled : (n, k) bool
        Where it has one.
    background : int
        The background among the classes, or -1.
    """

    problem: UnionProblem
    columns: np.ndarray
    filled: np.ndarray
    background: int

    @classmethod
    def of(cls, problem: UnionProblem) -> OwnLabels:
        n_labels = np.diff(problem.label_starts)
        n_bags = len(n_labels)
        most = int(n_labels.max(initial=0))
        bag = np.repeat(np.arange(n_bags), n_labels)
        place = np.arange(len(problem.labels)) - np.repeat(problem.label_starts[:-1], n_labels)
        columns, filled = np.zeros((n_bags, most), np.int64), np.zeros((n_bags, most), bool)
        columns[bag, place], filled[bag, place] = problem.labels, True
        known = problem.known
        if len(known):
            known = _own_columns(problem, known, columns, filled)
        own = replace(problem, labels=place, known=known, background=most if problem.background >= 0 else -1)
        if len(problem.members):
            own = replace(own, members=_own_members(problem, place))
        if len(problem.said):
            filled = filled.copy()
            filled[bag, place] = problem.said != -np.inf  # what is absent is no answer
        return cls(own, columns, filled, problem.background)

    @cached_property
    def bag(self) -> np.ndarray:
        """(m,) bag of each instance."""
        return np.repeat(np.arange(len(self.columns)), np.diff(self.problem.offsets))

    def gather(self, scores: np.ndarray) -> np.ndarray:
        """(m, k + 2) scores of the own columns and the background, among those of all; the others' is left at -inf."""
        return self._laid_out(lambda columns: scores[np.arange(len(scores)), columns])

    def of_instances(self, X: Any, weights: np.ndarray) -> np.ndarray:
        """The same from dense instances and (c, d + 1) weights, without the scores of other classes."""
        return self._laid_out(lambda columns: np.einsum("ij,ij->i", X, weights[columns, :-1]) + weights[columns, -1])

    def _laid_out(self, scores_of: Callable[[Any], np.ndarray]) -> np.ndarray:
        """From a function that gives the (m,) scores of one class an instance, or of one class."""
        most = self.columns.shape[1]
        own = np.full((len(self.bag), most + 2), -np.inf)
        for j in range(most):
            own[:, j] = scores_of(self.columns[self.bag, j])
        own[:, :most][~self.filled[self.bag]] = -np.inf
        if self.background >= 0:
            own[:, most] = scores_of(np.full(len(self.bag), self.background))
        return own

    def spread(self, posterior: np.ndarray, n_columns: int) -> sp.csr_matrix:
        """The (m, k + 2) posterior as an (m, c) matrix that is zero elsewhere."""
        columns, inside = self.columns[self.bag], self.filled[self.bag]
        if self.background >= 0:
            columns = np.hstack([columns, np.full((len(columns), 1), self.background)])
            inside = np.hstack([inside, np.ones((len(inside), 1), dtype=bool)])
        starts = np.concatenate([[0], np.cumsum(inside.sum(axis=1))])
        values = posterior[:, : columns.shape[1]][inside]
        return sp.csr_matrix((values, columns[inside], starts), shape=(len(columns), n_columns))

    def best(self, posterior: np.ndarray) -> np.ndarray:
        """(m,) class of the most probable own label, -1 in a bag without labels."""
        if not self.columns.shape[1]:
            return np.full(len(self.bag), -1, dtype=np.int64)
        among = np.where(self.filled[self.bag], posterior[:, : self.columns.shape[1]], -1.0)
        labels = self.columns[self.bag, among.argmax(axis=1)]
        labels[~self.filled[self.bag].any(axis=1)] = -1
        return labels


def _own_members(problem: UnionProblem, place: np.ndarray) -> np.ndarray:
    """Members of groups as own columns; each of them is among the labels of its bag, which are in order."""
    n_columns = problem.highest_column + 1
    first, last = problem.group_starts[0], problem.group_starts[-1]
    bag = np.repeat(np.arange(len(problem.group_starts) - 1), np.diff(problem.group_starts))
    sizes = np.diff(problem.member_starts)
    members, bag_of = problem.members.copy(), np.repeat(bag, sizes[first:last])
    mine = slice(problem.member_starts[first], problem.member_starts[last])
    keys = np.repeat(np.arange(len(problem.n_labels)), np.diff(problem.label_starts)) * n_columns + problem.labels
    members[mine] = place[np.searchsorted(keys, bag_of * n_columns + members[mine])]
    return members


def _own_columns(problem: UnionProblem, known: np.ndarray, columns: np.ndarray, filled: np.ndarray) -> np.ndarray:
    """Known classes as own columns; one that is not listed is among all others."""
    most = columns.shape[1]
    own = np.full(len(known), -1, dtype=np.int64)
    rows = np.flatnonzero(known >= 0)
    bag = np.searchsorted(problem.offsets, rows, side="right") - 1
    same = (columns[bag] == known[rows, None]) & filled[bag]
    own[rows] = np.where(same.any(axis=1), same.argmax(axis=1), most + 1) if most else most + 1
    own[rows[known[rows] == problem.background]] = most
    return own


def exponentials(scores: np.ndarray, n_threads: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Overwrite scores by exp(score - top) of their row; gives the (m,) tops and sums of rows in double precision."""
    tops, totals = np.empty(len(scores)), np.empty(len(scores))

    def work(first: int, last: int) -> None:
        part = scores[first:last]
        top = part.max(axis=1)
        tops[first:last] = top
        part -= top[:, None]
        np.exp(part, out=part)
        part.sum(axis=1, dtype=np.float64, out=totals[first:last])

    _in_threads(work, len(scores), n_threads)
    return tops, totals


def _in_threads(work: Callable[[int, int], None], n_rows: int, n_threads: int) -> None:
    """Rows are worked on alone, so that nothing depends on how many threads there are."""
    if n_threads == 1 or n_rows < 2 * n_threads:
        work(0, n_rows)
        return
    cuts: Sequence[int] = np.linspace(0, n_rows, n_threads + 1).astype(int).tolist()
    with ThreadPoolExecutor(n_threads) as pool:
        list(pool.map(work, cuts[:-1], cuts[1:]))
