"""Union inference: which instance carries which label, given that a bag's labels are the union of its instances'.

The arrays-in, arrays-out front of the compiled code in `_union_infer`, `_union_exact` and `_union_propagate`.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from numbers import Integral
from typing import Any

import numpy as np

from bagwise.bags import as_indicator
from bagwise.exceptions import ApproximationWarning, InputError, warn_caller
from bagwise.kernels import _union_exact as exact_kernels
from bagwise.kernels._union_infer import infer
from bagwise.kernels._union_rates import infer_with_rates
from bagwise.memory import check_allocation

METHODS = {
    "auto": exact_kernels.INCLUSION_EXCLUSION,
    "inclusion-exclusion": exact_kernels.INCLUSION_EXCLUSION,
    "forward-backward": exact_kernels.FORWARD_BACKWARD,
    "forward": exact_kernels.FORWARD,
    "forward-substitution": exact_kernels.SUBSTITUTION,
}
MAX_EXACT_LABELS = 16
WORTH_A_WARNING = 0.01  # estimated error of a posterior
SWEEPS = 40  # of belief propagation, about, for the division of work among threads
WITHOUT_RATES = ("forward-substitution",)  # it divides by what rates make small, and cancels as it is


@dataclass(frozen=True)
class Rates:
    """How bag labels go wrong, one rate a column of the scores; the background's column is not looked at.

    Attributes
    ----------
    missed : (c,) array
        Probability that an instance of the class goes unnoticed by the person who lists the labels.
    spurious : (c,) array
        Probability that the label is listed though nothing noticed carries it.
    """

    missed: np.ndarray
    spurious: np.ndarray

    @classmethod
    def of(cls, missed: Any, spurious: Any, n_columns: int) -> Rates | None:
        """Rates given as numbers or as arrays of one a column; None where all of them are zero: labels are right."""
        missed = as_rates("missed", missed, n_columns)
        spurious = as_rates("spurious", spurious, n_columns)
        return cls(missed, spurious) if missed.any() or spurious.any() else None


def as_rates(name: str, given: Any, n: int) -> np.ndarray:
    """(n,) rates from a number or an array of that length; an error names what cannot be one."""
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
        Label columns of every bag, in CSR fashion.
    background : int
        Column of the class that any bag may hold unlisted, or -1.
    known : (m,) int64 or (0,)
        Column of the instances whose label is known, -1 elsewhere.
    relaxed : (n,) bool or (0,)
        Bags whose listed labels may occur but need not.
    """

    offsets: np.ndarray
    label_starts: np.ndarray
    labels: np.ndarray
    background: int
    known: np.ndarray
    relaxed: np.ndarray

    @classmethod
    def build(
        cls,
        offsets: np.ndarray,
        indicator: np.ndarray,
        background: int | None = None,
        known: np.ndarray | None = None,
        relaxed: np.ndarray | None = None,
    ) -> UnionProblem:
        """From an (n, c) 0/1 array; a background may have a column of it, or one behind them."""
        bag, labels = np.nonzero(indicator)
        if background is not None and background < indicator.shape[1]:
            listed = labels != background
            bag, labels = bag[listed], labels[listed]
        counts = np.bincount(bag, minlength=len(indicator))
        return cls(
            offsets=np.ascontiguousarray(offsets, dtype=np.int64),
            label_starts=np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
            labels=labels.astype(np.int64, copy=False),
            background=-1 if background is None else background,
            known=np.empty(0, np.int64) if known is None else np.ascontiguousarray(known, dtype=np.int64),
            relaxed=np.empty(0, bool) if relaxed is None else np.ascontiguousarray(relaxed, dtype=bool),
        )

    def part(self, first: int, last: int) -> UnionProblem:
        """Of the bags first .. last - 1 alone; nothing is copied but offsets."""
        if first == 0 and last == len(self.offsets) - 1:
            return self
        start, stop = self.label_starts[first], self.label_starts[last]
        return UnionProblem(
            offsets=self.offsets[first : last + 1] - self.offsets[first],
            label_starts=self.label_starts[first : last + 1] - start,
            labels=self.labels[start:stop],
            background=self.background,
            known=self.known[self.offsets[first] : self.offsets[last]] if len(self.known) else self.known,
            relaxed=self.relaxed[first:last] if len(self.relaxed) else self.relaxed,
        )

    @cached_property
    def highest_column(self) -> int:
        """Highest column of the scores that is looked at."""
        return max(self.background, int(self.labels.max(initial=-1)), int(self.known.max(initial=-1)))

    @cached_property
    def n_labels(self) -> np.ndarray:
        """(n,) number of labels of each bag."""
        return np.diff(self.label_starts)

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
        rates: Rates | None = None,
        statistics: np.ndarray | None = None,
        errors: np.ndarray | None = None,
    ) -> np.ndarray:
        """Overwrite `scores` by the posterior (or posterior minus probability); returns the (n,) log-likelihoods.

        With `rates`, labels may be wrong, and `statistics`, (n, 3), receives what the gradient in the rates is made of
        (`bagwise.kernels._union_rates.infer_with_rates`). `errors`, (n,), receives the estimated error of each bag's
        posterior: 0 up to `max_exact_labels`, else see `bagwise.kernels._union_propagate`.

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
        if rates is not None:
            check_carries_rates(method)
            statistics = np.empty((n_bags, 3)) if statistics is None else statistics

        def run(first: int, last: int) -> None:
            if rates is not None:
                infer_with_rates(
                    scores, softmax, self.offsets, self.label_starts, self.labels, self.background, self.known,
                    self.relaxed, rates.missed, rates.spurious, first, last, METHODS[method],
                    exact_kernels.ERROR_BOUND, max_exact_labels, residual, log_likelihood, statistics, errors,
                )  # fmt: skip
                return
            infer(
                scores, softmax, self.offsets, self.label_starts, self.labels, self.background, self.known,
                self.relaxed, first, last, METHODS[method], exact_kernels.ERROR_BOUND, max_exact_labels, residual,
                log_likelihood, errors,
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
        return log_likelihood


def union_posterior(
    proba: Any,
    offsets: Any,
    Y: Any,
    *,
    background: int | None = None,
    method: str = "auto",
    known: Any = None,
    max_exact_labels: int = MAX_EXACT_LABELS,
    missed: Any = 0.0,
    spurious: Any = 0.0,
) -> tuple[np.ndarray, np.ndarray]:
    """Posterior of the instance labels of every bag, given that the bag's labels are exactly their union.

    For a bag with instances 1..n, label set Y and prior probabilities p_ic, ::

        P(Y) = sum over y in Y^n with union(y) = Y of prod_i p_{i, y_i},     q_ic = P(y_i = c | Y).

    With rates, labels may be wrong: an instance of class c is noticed with probability 1 - mu_c, and a label that
    nothing noticed carries is listed all the same with probability nu_c. With
    s_i(L) = sum over c in L of (1 - mu_c) p_ic + sum over all c of mu_c p_ic + p_i0 (the background's), ::

        P(Y) = prod over c not in Y of (1 - nu_c) *
               sum over L in Y of prod over c in Y without L of (-(1 - nu_c)) * prod_i s_i(L).

    Parameters
    ----------
    proba : (m, c) array
        Prior probabilities; rows need not sum to one (mass outside of a bag's labels only lowers P(Y)).
    offsets : (n + 1,) array of int
        Bag b holds the rows offsets[b]:offsets[b + 1].
    Y : (n, c) 0/1 array
        Labels of the bags.
    background : int or None
        Column of a class that may occur in any bag without being listed.
    method : {"auto", "inclusion-exclusion", "forward-backward", "forward", "forward-substitution"}
        "inclusion-exclusion" costs ``O(n 2^|Y|)`` and is used for a bag where its rounding error is certified to be
        below 1e-9 (up to six labels 1e-11, with rates 1e-10), else "forward-backward", ``O(n |Y| 2^|Y|)`` and free of
        cancellation, takes over. "forward" and "forward-substitution" are Algorithms 1 and 2 of Pham et al.; the
        latter cancels (about six digits survive on ordinary bags). Where rescaled probabilities still underflow,
        logarithms are used. "auto" is "inclusion-exclusion", and above `max_exact_labels` belief propagation,
        ``O(n |Y|)`` a sweep: labels are then exact one by one, and jointly as far as competition has no loops. Its
        error is estimated bag by bag, and an `ApproximationWarning` says so where it is above 0.01.
    known : (m,) array of int or None
        Column of the instances whose label is known, -1 elsewhere.
    max_exact_labels : int
        With method "auto" only; other methods are always exact.
    missed, spurious : float or (c,) array
        mu and nu, in [0, 1); an array has an entry for every column, of which the background's is not looked at: a
        background is never listed. Every method but "forward-substitution" carries them. An instance that is known to
        be of a class that is not listed went unnoticed.

    Returns
    -------
    log_likelihood : (n,) array
        log P(Y) of each bag; -inf where no assignment gives exactly Y.
    posterior : (m, c) array
        Rows sum to one; NaN in a bag of likelihood zero. With missed > 0 over all classes, not those of Y alone.

    Examples
    --------
    >>> from bagwise.kernels import union_posterior
    >>> log_likelihood, q = union_posterior([[0.9, 0.1], [0.5, 0.5]], [0, 2], [[1, 1]])
    >>> q.round(3).tolist()
    [[0.9, 0.1], [0.1, 0.9]]
    """
    proba = np.array(proba, dtype=np.float64, ndmin=2)
    indicator = as_indicator(Y)
    offsets = _whole("offsets", offsets)
    known = None if known is None else _whole("known", known)
    _check_arguments(proba, offsets, indicator, background, method, known, max_exact_labels)
    rates = Rates.of(missed, spurious, proba.shape[1])
    if rates is not None:
        check_carries_rates(method)
    problem = UnionProblem.build(offsets, indicator, background, known)
    exact = max_exact_labels if method == "auto" else int(max(problem.n_labels.max(), 1))
    problem.check_memory(exact)
    errors = problem.room_for_errors(exact)
    log_likelihood = problem.infer_in_place(
        proba, softmax=False, residual=False, method=method, max_exact_labels=exact, rates=rates, errors=errors
    )
    warn_approximation(problem, exact, errors)
    return log_likelihood, proba


def _whole(name: str, given: Any) -> np.ndarray:
    """An array of whole numbers, in place of cutting off what stands behind their points."""
    try:
        values = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"{name} must hold whole numbers, got {given!r}.") from None
    if not np.all(values == np.floor(values)):
        raise InputError(f"{name} must hold whole numbers, got {given!r}.")
    return np.asarray(given).astype(np.int64)


def check_carries_rates(method: str) -> None:
    """Refuse a method that cannot infer with labels that may be wrong."""
    if method in WITHOUT_RATES:
        raise InputError(
            f"method={method!r} cannot carry missed and spurious labels; use 'auto', 'inclusion-exclusion', "
            "'forward-backward' or 'forward'."
        )


def warn_approximation(problem: UnionProblem, max_exact_labels: int, errors: np.ndarray | None) -> None:
    """Say which bags above `max_exact_labels` have a posterior whose estimated error matters."""
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


def _check_arguments(
    proba: np.ndarray,
    offsets: np.ndarray,
    indicator: np.ndarray,
    background: int | None,
    method: str,
    known: np.ndarray | None,
    max_exact_labels: Any,
) -> None:
    if method not in METHODS:
        raise InputError(f"method={method!r} is not known; use one of {', '.join(map(repr, METHODS))}.")
    if isinstance(max_exact_labels, bool) or not isinstance(max_exact_labels, Integral) or max_exact_labels < 1:
        raise InputError(f"max_exact_labels={max_exact_labels!r} must be a whole number, 1 or more.")
    if not np.all(proba >= 0) or not np.all(np.isfinite(proba)):
        raise InputError("proba holds negative, infinite or NaN entries; expected probabilities.")
    check_bags(proba.shape[0], proba.shape[1], offsets, indicator, background, known)


def check_bags(
    m: int,
    n_classes: int,
    offsets: np.ndarray,
    indicator: np.ndarray,
    background: int | None,
    known: np.ndarray | None,
) -> None:
    """Refuse bags, labels or known instances that do not fit (m, n_classes) probabilities."""
    if offsets.ndim != 1 or len(offsets) < 2 or offsets[0] != 0 or offsets[-1] != m or np.any(np.diff(offsets) < 1):
        raise InputError(f"offsets must rise strictly from 0 to the number of rows of proba, {m}.")
    if indicator.shape != (len(offsets) - 1, n_classes):
        raise InputError(
            f"Y has shape {indicator.shape} but there are {len(offsets) - 1} bags and {n_classes} classes; "
            "pass one row per bag and one column per class."
        )
    if background is not None and not 0 <= background < n_classes:
        raise InputError(f"background={background} is not a column of proba, which has {n_classes}.")
    if known is not None and (known.shape != (m,) or known.min() < -1 or known.max() >= n_classes):
        raise InputError(f"known must hold a column index 0..{n_classes - 1}, or -1, for each of the {m} instances.")
