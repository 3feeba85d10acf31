"""What is fixed about bags and their labels while probabilities of instances change, and inference in it.

The arrays-in, arrays-out front of the compiled code in `_infer`, `_exact` and `_propagate`.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from joblib import effective_n_jobs

from bagwise.core.bags import Bags, offsets_of
from bagwise.core.base import check_known_listed, name_bags
from bagwise.core.checks import available_threads, check_allocation
from bagwise.core.exceptions import ApproximationWarning, InfeasibleBagWarning, InputError, warn_caller
from bagwise.core.validation import Evidence, Given, possible_labels
from bagwise.union import constants
from bagwise.union._infer import infer
from bagwise.union.constants import FEW_LABELS

METHODS = {
    "auto": constants.INCLUSION_EXCLUSION,
    "inclusion-exclusion": constants.INCLUSION_EXCLUSION,
    "forward-backward": constants.FORWARD_BACKWARD,
    "forward": constants.FORWARD,
    "forward-substitution": constants.SUBSTITUTION,
}
MAX_EXACT_LABELS = 16
WORTH_A_WARNING = 0.01  # estimated error of a posterior
SWEEPS = 40  # of belief propagation, about, for the division of work among threads
THREADING_FROM = 200_000  # entries of the score matrix from which a thread pays for its start
SMALLEST = 1e-12
AT_ONCE = 1 << 24  # entries of a score matrix that are made to see which bags can be explained


NO_VALUES, NO_COLUMNS = np.empty(0), np.empty(0, np.int64)


@dataclass(frozen=True)
class LabelNoise:
    """Label noise: one rate per column of the scores; the background's column is not looked at.

    Attributes
    ----------
    missed : (c,) array
        Probability that an instance of the class goes unnoticed by the person who lists the labels.
    spurious : (c,) array
        Probability that the label is listed though nothing noticed carries it.

    Examples
    --------
    >>> from bagwise.union import LabelNoise
    >>> LabelNoise.of(0.2, [0.0, 0.1], n_classes=2).missed.tolist()
    [0.2, 0.2]
    >>> LabelNoise.of(0.0, 0.0, n_classes=2) is None
    True
    """

    missed: np.ndarray
    spurious: np.ndarray

    @classmethod
    def of(cls, missed: Any, spurious: Any, n_classes: int, background: bool = False) -> LabelNoise | None:
        """Rates given as numbers or as arrays of one per class; None where all of them are zero: labels are right.

        With a `background` there is one more column, whose rates are zero.
        """
        columns = (as_rates(name, rate, n_classes) for name, rate in (("missed", missed), ("spurious", spurious)))
        found = cls(*(np.append(rates, 0.0) if background else rates for rates in columns))
        return found if found.missed.any() or found.spurious.any() else None


def as_rates(name: str, given: Any, n: int) -> np.ndarray:
    """(n,) rates from a number or an array of that length; an error names what cannot be one.

    Examples
    --------
    >>> from bagwise.union import as_rates
    >>> as_rates("missed", 0.1, 3).tolist()
    [0.1, 0.1, 0.1]
    >>> as_rates("missed", [0.1, 1.5], 2)
    Traceback (most recent call last):
    ...
    bagwise.core.exceptions.InputError: The rate missed of class 1 must be in [0, 1), a share of the instances or
    labels; got 1.5.
    """
    try:
        rates = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"{name}={given!r} is no rate; pass a number in [0, 1), or an array of one a class.") from None
    if rates.ndim > 1 or (rates.ndim == 1 and len(rates) != n):
        raise InputError(f"{name} has shape {rates.shape} but there are {n} classes; pass one rate, or one a class.")
    bad = np.flatnonzero(~((rates >= 0.0) & (rates < 1.0)))
    if len(bad):
        where = f" of class {bad[0]}" if rates.ndim else ""
        raise InputError(
            f"The rate {name}{where} must be in [0, 1), a share of the instances or labels; got {rates.flat[bad[0]]:g}."
        )
    return np.array(np.broadcast_to(rates, n))


@dataclass(frozen=True)
class UnionProblem:
    """What is fixed about a set of bags while their probabilities change: sizes, labels, what is known.

    Attributes
    ----------
    offsets : (n + 1,) int64
    label_starts, labels : (n + 1,) and (total,) int64
        Columns of the labels of which something is said, of every bag, in CSR fashion.
    background : int
        Column of the class that any bag may hold unlisted, or -1.
    known : (m,) int64 or (0,)
        Column of the instances whose label is known, -1 elsewhere.
    relaxed : (n,) bool or (0,)
        Bags whose listed labels may occur but need not.
    said : (total,) float64 or (0,)
        What is said of each of the labels, as `bagwise.core.validation.Evidence` has it; (0,) where all are listed.
    group_starts, member_starts, members : (n + 1,), (g + 1,) and (h,) int64, or (0,) each
        Groups of which one member at least is in the bag: the first of every bag, and their columns in CSR fashion.

    Examples
    --------
    >>> import numpy as np
    >>> from bagwise.union import UnionProblem
    >>> problem = UnionProblem.build(np.array([0, 2, 3]), np.array([[1, 1], [0, 1]]))
    >>> problem.labels.tolist(), problem.n_labels.tolist()
    ([0, 1, 1], [2, 1])
    >>> proba = np.array([[0.9, 0.1], [0.5, 0.5], [0.4, 0.6]])
    >>> log_likelihood = problem.infer_in_place(proba, softmax=False, residual=False)
    >>> np.exp(log_likelihood).round(3).tolist(), proba[0].round(3).tolist()
    ([0.5, 0.6], [0.9, 0.1])
    """

    offsets: np.ndarray
    label_starts: np.ndarray
    labels: np.ndarray
    background: int
    known: np.ndarray
    relaxed: np.ndarray
    said: np.ndarray = field(default_factory=lambda: NO_VALUES)
    group_starts: np.ndarray = field(default_factory=lambda: NO_COLUMNS)
    member_starts: np.ndarray = field(default_factory=lambda: NO_COLUMNS)
    members: np.ndarray = field(default_factory=lambda: NO_COLUMNS)

    @classmethod
    def build(
        cls,
        offsets: np.ndarray,
        given: np.ndarray | Evidence,
        background: int | None = None,
        known: np.ndarray | None = None,
        relaxed: np.ndarray | None = None,
    ) -> UnionProblem:
        """From an (n, c) 0/1 array, or evidence; a background may have a column of it, or one behind them."""
        evidence = given if isinstance(given, Evidence) else None
        values: np.ndarray = given.values if isinstance(given, Evidence) else given
        bag, labels = np.nonzero(values)
        if background is not None and background < values.shape[1]:
            real = labels != background
            bag, labels = bag[real], labels[real]
        problem = cls(
            offsets=np.ascontiguousarray(offsets, dtype=np.int64),
            label_starts=_starts(np.bincount(bag, minlength=len(values))),
            labels=labels.astype(np.int64, copy=False),
            background=-1 if background is None else background,
            known=np.empty(0, np.int64) if known is None else np.ascontiguousarray(known, dtype=np.int64),
            relaxed=np.empty(0, bool) if relaxed is None else np.ascontiguousarray(relaxed, dtype=bool),
        )
        if evidence is None:
            return problem
        problem = replace(problem, said=evidence.values[bag, labels])
        if evidence.groups is None:
            return problem
        groups = [group for groups in evidence.groups for group in groups]
        return replace(
            problem,
            group_starts=_starts([len(groups) for groups in evidence.groups]),
            member_starts=_starts([len(group) for group in groups]),
            members=np.array([column for group in groups for column in group], dtype=np.int64),
        )

    def part(self, first: int, last: int) -> UnionProblem:
        """Of the bags first .. last - 1 alone; nothing is copied but offsets."""
        if first == 0 and last == len(self.offsets) - 1:
            return self
        start, stop = self.label_starts[first], self.label_starts[last]
        return replace(
            self,
            offsets=self.offsets[first : last + 1] - self.offsets[first],
            label_starts=self.label_starts[first : last + 1] - start,
            labels=self.labels[start:stop],
            known=self.known[self.offsets[first] : self.offsets[last]] if len(self.known) else self.known,
            relaxed=self.relaxed[first:last] if len(self.relaxed) else self.relaxed,
            said=self.said[start:stop] if len(self.said) else self.said,
            group_starts=self.group_starts[first : last + 1] if len(self.group_starts) else self.group_starts,
        )

    @cached_property
    def highest_column(self) -> int:
        """Highest column of the scores that is looked at."""
        return max(self.background, int(self.labels.max(initial=-1)), int(self.known.max(initial=-1)))

    @cached_property
    def n_labels(self) -> np.ndarray:
        """(n,) number of labels and groups of each bag that exact inference sums over: those of finite evidence."""
        if not len(self.said):
            return np.diff(self.label_starts)
        finite = np.concatenate([[0], np.cumsum(self.said > 0.0)])  # not those of which nothing is known
        n_labels = finite[self.label_starts[1:]] - finite[self.label_starts[:-1]]
        return n_labels + np.diff(self.group_starts) if len(self.group_starts) else n_labels

    @cached_property
    def n_possible(self) -> np.ndarray:
        """(n,) number of labels of each bag that may be there, by what is said of it."""
        if not len(self.said):
            return self.n_labels
        possible = np.concatenate([[0], np.cumsum(self.said != -np.inf)])
        return possible[self.label_starts[1:]] - possible[self.label_starts[:-1]]

    @cached_property
    def counted_instances(self) -> np.ndarray:
        """(m,) which instances an expected share of background speaks of: the unknown ones of bags that list labels.

        All of a bag without labels is background, and what an instance is known to be is known. Were these counted, the
        others would have to make up for them: where most recordings are empty, nothing else could be background.
        """
        listed = np.repeat(self.n_possible > 0, np.diff(self.offsets))
        return listed & (self.known < 0) if len(self.known) else listed

    def room_for_errors(self, max_exact_labels: int) -> np.ndarray | None:
        """(n,) array for `infer_in_place` to estimate errors in; None where every bag is exact."""
        return np.zeros(len(self.n_labels)) if np.any(self.n_labels > max_exact_labels) else None

    def check_memory(self, max_exact_labels: int) -> None:
        """Forward-backward keeps a number for each instance and subset of a bag; refuse if that is too much."""
        exact = np.where(self.n_labels <= max_exact_labels, self.n_labels, 0).astype(float)
        entries = (np.diff(self.offsets) + 8) * 2.0**exact
        b = int(np.argmax(entries))
        check_allocation(
            int(min(8 * entries[b], 2.0**62)),
            f"Exact inference in bag {b} ({self.offsets[b + 1] - self.offsets[b]} instances, {int(exact[b])} labels)",
            "lower max_exact_labels (belief propagation then takes over) or prune such bags",
        )

    def infer_in_place(
        self,
        scores: np.ndarray,
        *,
        softmax: bool,
        residual: bool,
        method: str = "auto",
        max_exact_labels: int = MAX_EXACT_LABELS,
        n_threads: int = 1,
        rates: LabelNoise | None = None,
        statistics: np.ndarray | None = None,
        errors: np.ndarray | None = None,
    ) -> np.ndarray:
        """Overwrite `scores` by the posterior (or posterior minus probability); returns the (n,) log-likelihoods.

        With `rates`, there is label noise, and `statistics`, (n, 3), receives what the gradient in the rates is made of
        (`bagwise.union._infer.infer`). `errors`, (n,), receives the estimated error of each bag's
        posterior: 0 up to `max_exact_labels`, else see `bagwise.union._propagate`.

        The bags are cut into `n_threads` pieces of about equal cost. Every bag is computed alone, so the result does
        not depend on the number of threads.
        """
        n_bags = len(self.offsets) - 1
        if scores.ndim != 2 or scores.shape[0] != self.offsets[-1] or scores.shape[1] <= self.highest_column:
            raise InputError(
                f"The scores have shape {scores.shape}; expected {self.offsets[-1]} rows and at least "
                f"{self.highest_column + 1} columns."
            )
        log_likelihood = np.empty(n_bags)
        errors = np.empty(0) if errors is None else errors
        missed, spurious = (NO_VALUES, NO_VALUES) if rates is None else (rates.missed, rates.spurious)
        if statistics is None:
            statistics = np.empty((0 if rates is None else n_bags, 3))

        def run(first: int, last: int) -> None:
            infer(
                scores, softmax, self.offsets, self.label_starts, self.labels, self.said, self.n_labels,
                self.group_starts, self.member_starts, self.members, self.background, self.known, self.relaxed, missed,
                spurious, first, last, METHODS[method], constants.ERROR_BOUND, max_exact_labels, residual,
                log_likelihood, statistics, errors,
            )  # fmt: skip

        if n_threads == 1 or n_bags < 2 * n_threads:
            run(0, n_bags)
        else:
            work = np.where(self.n_labels > max_exact_labels, SWEEPS * self.n_labels, 2.0**self.n_labels)
            cost = np.cumsum(np.diff(self.offsets) * (scores.shape[1] + work))
            cuts = np.searchsorted(cost, cost[-1] * np.arange(1, n_threads) / n_threads)
            cuts = np.unique(np.concatenate([[0], cuts, [n_bags]]))
            with ThreadPoolExecutor(n_threads) as pool:
                list(pool.map(run, cuts[:-1], cuts[1:]))
        if len(self.group_starts) and np.isnan(log_likelihood).any():
            b = int(np.flatnonzero(np.isnan(log_likelihood))[0])
            raise InputError(
                f"Bag {b} has up to {self.n_labels[b]} labels and groups, more than max_exact_labels="
                f"{max_exact_labels}, and its groups overlap, which belief propagation cannot carry; raise "
                "max_exact_labels, or give the bag groups (OneOf) that share no label with each other."
            )
        return log_likelihood


@dataclass(frozen=True)
class UnionModel:
    """How the label set of a bag follows from the labels of its instances, and how that is inferred.

    It holds all that a learner has to say beside the probabilities of instances, and makes every problem and posterior.

    Attributes
    ----------
    n_classes : int
    background : bool
        Whether a class that any bag may hold unlisted has a column behind the classes'.
    noise : LabelNoise or None
        None where the labels of bags are taken for right.
    method, max_exact_labels
        As of `union_posterior`.
    n_jobs : int or None
        Threads at most; None: the processors at hand.

    Examples
    --------
    >>> import numpy as np
    >>> from bagwise.union import UnionModel
    >>> model, proba = UnionModel(n_classes=2, background=True), np.array([[0.5, 0.3, 0.2], [0.2, 0.2, 0.6]])
    >>> problem = model.problem(np.array([0, 2]), np.array([[1, 0]]))
    >>> log_likelihood, posterior = model.posterior(problem, proba.copy())
    >>> np.exp(log_likelihood).round(2).tolist(), model.presence(problem, proba).round(2).tolist()
    ([0.44], [[1.0, 0.0]])
    """

    n_classes: int
    background: bool = False
    noise: LabelNoise | None = None
    method: str = "auto"
    max_exact_labels: int = MAX_EXACT_LABELS
    n_jobs: int | None = 1

    def problem(
        self,
        offsets: np.ndarray,
        given: np.ndarray | Evidence,
        known: np.ndarray | None = None,
        relaxed: np.ndarray | None = None,
    ) -> UnionProblem:
        """Of bags with an (n, c) 0/1 array of labels, or evidence; refused where it takes too much memory."""
        column = self.n_classes if self.background else None
        problem = UnionProblem.build(offsets, given, column, known, relaxed)
        problem.check_memory(self.max_exact_labels)
        return problem

    def infer(self, problem: UnionProblem, values: np.ndarray, *, softmax: bool = False, **options: Any) -> np.ndarray:
        """As `UnionProblem.infer_in_place`: probabilities (with `softmax`, scores) become posteriors."""
        options.setdefault("residual", False)
        return problem.infer_in_place(
            values, softmax=softmax, method=self.method, max_exact_labels=self.max_exact_labels, rates=self.noise,
            n_threads=inference_threads(values.size, self.n_jobs), **options,
        )  # fmt: skip

    def posterior(
        self, problem: UnionProblem, values: np.ndarray, *, softmax: bool = False, warn: bool = True
    ) -> tuple[np.ndarray, np.ndarray]:
        """(n,) log-likelihoods, and `values` as posteriors; by default with a warning where inexact."""
        errors = problem.room_for_errors(self.max_exact_labels) if warn else None
        log_likelihood = self.infer(problem, values, softmax=softmax, errors=errors)
        warn_approximation(problem, self.max_exact_labels, errors)
        return log_likelihood, values

    def presence(self, problem: UnionProblem, proba: np.ndarray) -> np.ndarray:
        """(n, c) probability that some instance of the bag carries the label, given the listed labels.

        P(c is in the bag | Y) = 1 - P(no instance is of c, and Y) / P(Y): the likelihood once more for every class, its
        probabilities set to zero. Exact where union inference is.
        """
        whole, _ = self.posterior(problem, proba.copy())
        presence = np.empty((len(whole), self.n_classes))
        for c in range(self.n_classes):
            without = proba.copy()
            without[:, c] = 0.0
            with np.errstate(invalid="ignore"):  # a bag that nothing explains: NaN
                presence[:, c] = np.maximum(-np.expm1(self.infer(problem, without) - whole), 0.0)
        return presence

    def listed_probability(self, proba: np.ndarray, offsets: np.ndarray) -> np.ndarray:
        """(n, c) probability that a label is listed, 1 - (1 - nu_c) prod_i (1 - (1 - mu_c) p_ic)."""
        proba = proba[:, : self.n_classes]
        if self.noise is None:
            return 1.0 - np.exp(log_absence(proba, offsets))
        missed, spurious = self.noise.missed[: self.n_classes], self.noise.spurious[: self.n_classes]
        return 1.0 - (1.0 - spurious) * np.exp(log_absence((1.0 - missed) * proba, offsets))


def log_absence(proba: np.ndarray, offsets: np.ndarray, most: float = 1.0 - 1e-15) -> np.ndarray:
    """(n, c) logarithm of the probability that no instance of the bag is of the class; each is at most `most`.

    Examples
    --------
    >>> import numpy as np
    >>> from bagwise.union import log_absence
    >>> proba = np.array([[0.5, 0.5], [0.8, 0.2], [0.1, 0.9]])
    >>> np.exp(log_absence(proba, np.array([0, 2, 3]))).round(3).tolist()
    [[0.1, 0.4], [0.9, 0.1]]
    """
    return np.add.reduceat(np.log1p(-np.minimum(proba, most)), offsets[:-1], axis=0)


def union_log_odds(proba: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """(n, c) log-odds that some instance of the bag is of the class, if instances were independent.

    Examples
    --------
    >>> import numpy as np
    >>> from bagwise.union import union_log_odds
    >>> union_log_odds(np.array([[0.5, 0.0], [0.5, 0.5]]), np.array([0, 2])).round(3).tolist()
    [[1.099, 0.0]]
    """
    log_absent = log_absence(np.maximum(proba, SMALLEST), offsets, 1.0 - SMALLEST)
    return np.log(-np.expm1(log_absent)) - log_absent


def _starts(counts: Any) -> np.ndarray:
    """Where each of some runs of these lengths begins, and the end."""
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)


def inference_threads(n_entries: int, n_jobs: int | None) -> int:
    """Threads for a score matrix of that many entries: `n_jobs`, or where it is None the processors at hand.

    Fewer where OMP_NUM_THREADS says so, and one where there is too little work for more.

    Examples
    --------
    >>> from bagwise.union import inference_threads
    >>> inference_threads(1_000, 8), inference_threads(1_000_000, 2)
    (1, 2)
    """
    if n_entries < THREADING_FROM:
        return 1
    if n_jobs is not None:
        return effective_n_jobs(n_jobs)
    return available_threads()


def warn_approximation(problem: UnionProblem, max_exact_labels: int, errors: np.ndarray | None) -> None:
    """Say which bags above `max_exact_labels` have a posterior whose estimated error matters.

    Examples
    --------
    >>> import numpy as np
    >>> from bagwise.union import UnionProblem, warn_approximation
    >>> problem = UnionProblem.build(np.array([0, 2]), np.array([[1, 1]]))
    >>> warn_approximation(problem, 16, problem.room_for_errors(16))  # exact: nothing to say
    """
    if errors is None or not np.any(errors > WORTH_A_WARNING):
        return
    worst = int(np.argmax(errors))
    n_large, n_wrong = np.sum(problem.n_labels > max_exact_labels), np.sum(errors > WORTH_A_WARNING)
    warn_caller(
        f"{n_large} bag(s) carry more than max_exact_labels={max_exact_labels} labels and are inferred by belief "
        f"propagation. In {n_wrong} of them a posterior is off by an estimated {WORTH_A_WARNING} or more, at worst by "
        f"{errors[worst]:.2g} in bag {worst} with {problem.n_labels[worst]} labels and "
        f"{problem.offsets[worst + 1] - problem.offsets[worst]} instances. Raise max_exact_labels for exact inference "
        "(cost doubles with each label) or leave such bags out.",
        ApproximationWarning,
    )


# ---------------------------------------------------------------------------------------------------------------------
# Which bags no assignment of labels to instances can explain, and which are learned from

SAY_IT = (
    "Where one of several labels is there, say so (OneOf); where one may be there, too (Possible, or NaN in a matrix)."
)


def infeasible_bags(
    offsets: np.ndarray,
    given: Given,
    known: np.ndarray | None,
    background: bool,
    rates: LabelNoise | None = None,
    weights: np.ndarray | None = None,
) -> tuple[np.ndarray, str]:
    """(n,) mask of the bags whose label set no assignment gives, and what is wrong with the first of them.

    With `rates`, a label that may be spurious needs no instance, and a bag in which all went unnoticed no label. Bags
    of weight zero are not asked.

    Examples
    --------
    >>> import numpy as np
    >>> from bagwise.union import infeasible_bags
    >>> impossible, reason = infeasible_bags(np.array([0, 1, 3]), np.array([[1, 1], [1, 1]]), None, background=False)
    >>> impossible.tolist(), reason.partition(".")[0]
    ([True, False], 'bag 0 carries 2 labels but has 1 instance(s)')
    """
    if isinstance(given, Evidence):
        return _without_explanation(offsets, given, known, background, rates, weights)
    indicator, sizes = given, np.diff(offsets)
    n_classes = indicator.shape[1]
    n_labels = indicator.sum(axis=1).astype(np.int64)
    strict = slice(None) if rates is None else rates.spurious[:n_classes] == 0.0
    needed, free = n_labels if rates is None else indicator[:, strict].sum(axis=1).astype(np.int64), sizes
    if known is not None:
        check_known_listed(offsets, indicator, known, None if rates is None else rates.missed)
        bag = np.repeat(np.arange(len(sizes)), sizes)
        rows = np.flatnonzero(known >= 0)
        listed = rows[known[rows] < indicator.shape[1]]  # not those that are known to be background
        covered = np.zeros_like(indicator)
        covered[bag[listed], known[listed]] = 1
        needed = needed - (covered & indicator)[:, strict].sum(axis=1, dtype=np.int64)
        free = sizes - np.bincount(bag[rows], minlength=len(sizes))
    impossible = needed > free
    if not background and not (rates is not None and rates.missed.any()):
        impossible |= n_labels == 0
    if weights is not None:
        impossible &= weights > 0.0
    if not impossible.any():
        return impossible, ""
    b = int(np.flatnonzero(impossible)[0])
    if n_labels[b] == 0:
        reason = f"bag {b} carries no label (background=True allows that)."
    elif free[b] == sizes[b]:
        reason = f"bag {b} carries {n_labels[b]} labels but has {sizes[b]} instance(s). {SAY_IT}"
    else:
        reason = (
            f"bag {b} carries {needed[b]} label(s) that no known instance has, but {free[b]} instance(s) that are not "
            "known."
        )
    return impossible, reason


def _without_explanation(
    offsets: np.ndarray,
    evidence: Evidence,
    known: np.ndarray | None,
    background: bool,
    rates: LabelNoise | None,
    weights: np.ndarray | None,
) -> tuple[np.ndarray, str]:
    """As `infeasible_bags`, by inference where all classes are as probable: groups may share what they need."""
    check_known_listed(offsets, evidence, known, None if rates is None else rates.missed)
    n_classes = evidence.shape[1]
    problem = UnionModel(n_classes, background, rates).problem(offsets, evidence, known)
    limit = FEW_LABELS if evidence.groups is None else MAX_EXACT_LABELS  # propagation knows what no label can share
    impossible, n_columns = np.zeros(len(evidence), dtype=bool), n_classes + background
    ends = np.searchsorted(offsets, np.arange(0, offsets[-1], max(1, AT_ONCE // n_columns)), side="right")
    for first, last in pairwise(np.unique([0, *ends, len(evidence)])):  # the instances may be more than memory holds
        uniform = np.full((int(offsets[last] - offsets[first]), n_columns), 1.0 / n_columns)
        impossible[first:last] = np.isneginf(
            problem.part(first, last).infer_in_place(
                uniform, softmax=False, residual=False, rates=rates, max_exact_labels=limit
            )
        )
    if weights is not None:
        impossible &= weights > 0.0
    if not impossible.any():
        return impossible, ""
    b = int(np.flatnonzero(impossible)[0])
    return impossible, (
        f"bag {b} has {np.diff(offsets)[b]} instance(s), too few for all labels and groups that it must carry, or no "
        f"label that they may have. {SAY_IT}"
    )


@dataclass(frozen=True)
class LabelledBags:
    """What is said of bags, without their instances, which may be anywhere.

    Attributes
    ----------
    index : (n,) number of each bag among those that the fit was given
    offsets : (n + 1,) int64
    indicator : (n, c) array of 0 and 1, or Evidence
    known : (m,) int or None
        Column of the instances whose label is known, -1 elsewhere.
    relaxed : (n,) bool or None
        Bags that are to carry labels of their set, but not all.
    weights : (n,) float or None
        How much each bag counts in the likelihood; None: as much as any other.

    Examples
    --------
    >>> import numpy as np
    >>> from bagwise.union import LabelledBags
    >>> labelled = LabelledBags.of(np.array([0, 2, 3]), np.array([[1, 1], [0, 1]]), weights=np.array([1.0, 2.0]))
    >>> len(labelled), labelled.n_instances, labelled[1:].index.tolist()
    (2, 4.0, [1])
    """

    index: np.ndarray
    offsets: np.ndarray
    indicator: Any  # an array, or `Evidence`, which is sliced alike
    known: np.ndarray | None = None
    relaxed: np.ndarray | None = None
    weights: np.ndarray | None = None

    @classmethod
    def of(
        cls,
        offsets: np.ndarray,
        indicator: Given,
        known: np.ndarray | None = None,
        weights: np.ndarray | None = None,
    ) -> LabelledBags:
        return cls(np.arange(len(indicator)), offsets, indicator, known, weights=weights)

    def __len__(self) -> int:
        return len(self.index)

    @property
    def n_instances(self) -> float:
        """Instances, each counted as often as its bag."""
        return count_instances(self.offsets, self.weights)

    def __getitem__(self, key: Any) -> LabelledBags:
        """Some of the bags: a slice, which takes no room, integers or a mask."""
        if isinstance(key, slice):
            first, last, _ = key.indices(len(self))
            start, stop = self.offsets[first], self.offsets[last]
            return LabelledBags(
                self.index[key], self.offsets[first : last + 1] - start, self.indicator[key],
                None if self.known is None else self.known[start:stop],
                None if self.relaxed is None else self.relaxed[key],
                None if self.weights is None else self.weights[key],
            )  # fmt: skip
        known = None if self.known is None else Bags(self.known, self.offsets)[key].instances
        return LabelledBags(
            self.index[key], offsets_of(np.diff(self.offsets)[key]), self.indicator[key], known,
            None if self.relaxed is None else self.relaxed[key],
            None if self.weights is None else self.weights[key],
        )  # fmt: skip


def count_instances(offsets: np.ndarray, weights: np.ndarray | None) -> float:
    """Instances of bags, each counted as often as its bag weighs.

    Examples
    --------
    >>> import numpy as np
    >>> from bagwise.union import count_instances
    >>> offsets = np.array([0, 2, 3])
    >>> count_instances(offsets, None), count_instances(offsets, np.array([1.0, 0.5]))
    (3, 2.5)
    """
    return int(offsets[-1]) if weights is None else float(weights @ np.diff(offsets))


def relaxed_bags(
    offsets: np.ndarray,
    given: Given,
    known: np.ndarray | None,
    background: bool,
    rates: LabelNoise | None,
    relaxed: np.ndarray | None = None,
) -> np.ndarray | None:
    """(n,) mask of the bags whose instances are to carry labels of the set, but not all; None where there are none.

    Those that are `relaxed` already, and with a warning that names them those that nothing explains; a bag without
    labels to choose from is an error.

    Examples
    --------
    >>> import numpy as np
    >>> import warnings
    >>> from bagwise.union import relaxed_bags
    >>> with warnings.catch_warnings(record=True) as met:
    ...     warnings.simplefilter("always")
    ...     relaxed = relaxed_bags(np.array([0, 1, 3]), np.array([[1, 1], [1, 1]]), None, False, None)
    >>> relaxed.tolist(), met[0].category.__name__
    ([True, False], 'InfeasibleBagWarning')
    """
    impossible, reason = infeasible_bags(offsets, given, known, background, rates)
    some = possible_labels(given).any(axis=1)
    if np.any(impossible & ~some):
        empty = np.flatnonzero(~some)
        raise InputError(
            f"{len(empty)} bag(s) carry no label, {name_bags(empty)}; an instance can only be given a label of its "
            "bag. Leave these bags out, use predict_instances, or fit with background=True."
        )
    if relaxed is None:
        relaxed = np.zeros_like(impossible)
    impossible &= ~relaxed
    if not impossible.any():
        return relaxed if relaxed.any() else None
    warn_caller(
        f"{impossible.sum()} of {len(impossible)} bags cannot be explained, {name_bags(np.flatnonzero(impossible))}: "
        f"{reason} Their instances are given labels of the set, not all of which then occur.",
        InfeasibleBagWarning,
    )
    return impossible | relaxed


def select_bags(
    labelled: LabelledBags,
    *,
    background: bool,
    on_infeasible: str | None = None,
    prune: float = 0.0,
    rates: LabelNoise | None = None,
) -> LabelledBags:
    """Leave out bags of weight zero, pruned ones and, unless they are relaxed, those that no assignment explains.

    `on_infeasible` is "drop", "error" or "relax"; None drops them where the learner leaves no choice.

    Examples
    --------
    >>> import numpy as np
    >>> from bagwise.union import LabelledBags, select_bags
    >>> labelled = LabelledBags.of(np.array([0, 1, 3]), np.array([[1, 1], [1, 1]]))
    >>> select_bags(labelled, background=False, on_infeasible="relax").relaxed.tolist()
    [True, False]
    >>> select_bags(labelled, background=False, on_infeasible="error")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    bagwise.core.exceptions.InputError: 1 of 2 bags cannot be explained, ...
    """
    indicator, sizes = possible_labels(labelled.indicator), np.diff(labelled.offsets)
    impossible, reason = infeasible_bags(
        labelled.offsets, labelled.indicator, labelled.known, background, rates, labelled.weights
    )
    keep, relaxed = np.ones(len(labelled), dtype=bool) if labelled.weights is None else labelled.weights > 0.0, None
    left_out = ""
    if impossible.any():
        named = name_bags(np.flatnonzero(impossible))
        message = f"{impossible.sum()} of {len(labelled)} bags cannot be explained, {named}: {reason}"
        if on_infeasible == "error":
            raise InputError(f"{message} Correct their labels, or pass on_infeasible='drop' or 'relax'.")
        if on_infeasible == "relax":
            relaxed = impossible & indicator.any(axis=1)
        dropped = impossible if relaxed is None else impossible & ~relaxed
        keep &= ~dropped
        if dropped.any():
            who = "They" if relaxed is None else "Those without labels"
            others = ", 'relax' to use those with labels all the same" if relaxed is None else ""
            cure = "" if on_infeasible is None else f"; pass on_infeasible='error' to stop instead{others}"
            left_out = f"{message} {who} are left out of the likelihood{cure}."
    if prune > 0.0:
        n_labels = indicator.sum(axis=1).astype(float)
        cost = np.where(keep, sizes * n_labels * 2.0**n_labels, -1.0)
        keep[np.argsort(-cost, kind="stable")[: int(prune * keep.sum())]] = False
    if not keep.any():
        raise InputError(f"No bag is left to learn from: all of them are infeasible or pruned. {reason}".rstrip())
    if left_out:
        warn_caller(left_out, InfeasibleBagWarning)
    labelled = replace(labelled, relaxed=relaxed)
    return labelled if keep.all() else labelled[keep]
