"""`union_posterior`: which instance carries which label, given that a bag's labels are the union of its instances'."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np

from bagwise.core.exceptions import InputError
from bagwise.core.validation import Given, as_given
from bagwise.union._problem import (
    MAX_EXACT_LABELS,
    METHODS,
    LabelNoise,
    UnionProblem,
    warn_approximation,
)


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
    Y : (n, c) array or list of sets of columns
        Labels of the bags: 1 listed, 0 not listed; NaN, not known; between 0 and 1, the confidence p that it is there,
        which makes what was said p times as probable if it is there and 1 - p times if not; inf and -inf, certainly
        there and certainly not, whatever the rates. In sets `Certain`, `Possible`, `Absent` and `OneOf` say the same;
        bags whose groups overlap, with each other or with a label of which something else is said, are inferred by
        forward-backward whatever the method.
    background : int or None
        Column of a class that may occur in any bag without being listed.
    method : {"auto", "inclusion-exclusion", "forward-backward", "forward", "forward-substitution"}
        "inclusion-exclusion" costs ``O(n 2^|Y|)`` and is used for a bag where its rounding error is certified to be
        below 1e-9 (up to six labels 1e-11, with rates 1e-10), from nine labels also in pairs of doubles; else
        "forward-backward", ``O(n |Y| 2^|Y|)`` and free of cancellation, takes over. "forward" and
        "forward-substitution" are Algorithms 1 and 2 of Pham et al.; the latter cancels (about six digits survive on
        ordinary bags). Where rescaled probabilities still underflow,
        logarithms are used. "auto" is "inclusion-exclusion", and above `max_exact_labels` belief propagation,
        ``O(n |Y|)`` a sweep: labels are then exact one by one, and jointly as far as competition has no loops. Its
        error is estimated bag by bag, and an `ApproximationWarning` says so where it is above 0.01.
    known : (m,) array of int or None
        Column of the instances whose label is known, -1 elsewhere.
    max_exact_labels : int
        With method "auto" only; other methods are always exact.
    missed, spurious : float or (c,) array
        mu and nu, in [0, 1); an array has an entry for every column, of which the background's is not looked at: a
        background is never listed. An instance that is known to be of a class that is not listed went unnoticed.

    Returns
    -------
    log_likelihood : (n,) array
        log P(Y) of each bag; -inf where no assignment gives exactly Y.
    posterior : (m, c) array
        Rows sum to one; NaN in a bag of likelihood zero. With missed > 0 over all classes, not those of Y alone.

    Examples
    --------
    >>> from bagwise.union import union_posterior
    >>> log_likelihood, q = union_posterior([[0.9, 0.1], [0.5, 0.5]], [0, 2], [[1, 1]])
    >>> q.round(3).tolist()
    [[0.9, 0.1], [0.1, 0.9]]
    """
    proba = np.array(proba, dtype=np.float64, ndmin=2)
    given = as_given(Y, proba.shape[1])
    offsets = _whole("offsets", offsets)
    known = None if known is None else _whole("known", known)
    _check_arguments(proba, offsets, given, background, method, known, max_exact_labels)
    rates = LabelNoise.of(missed, spurious, proba.shape[1])
    problem = UnionProblem.build(offsets, given, background, known)
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


def _check_arguments(
    proba: np.ndarray,
    offsets: np.ndarray,
    given: Given,
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
    check_bags(proba.shape[0], proba.shape[1], offsets, given, background, known)


def check_bags(
    m: int,
    n_classes: int,
    offsets: np.ndarray,
    given: Given,
    background: int | None,
    known: np.ndarray | None,
) -> None:
    """Refuse bags, labels or known instances that do not fit (m, n_classes) probabilities.

    Examples
    --------
    >>> import numpy as np
    >>> from bagwise.union import check_bags
    >>> check_bags(3, 2, np.array([0, 2, 3]), np.array([[1, 1], [0, 1]]), None, None)
    >>> check_bags(3, 2, np.array([0, 2]), np.array([[1, 1]]), None, None)
    Traceback (most recent call last):
    ...
    bagwise.core.exceptions.InputError: offsets must rise strictly from 0 to the number of rows of proba, 3.
    """
    if offsets.ndim != 1 or len(offsets) < 2 or offsets[0] != 0 or offsets[-1] != m or np.any(np.diff(offsets) < 1):
        raise InputError(f"offsets must rise strictly from 0 to the number of rows of proba, {m}.")
    if given.shape != (len(offsets) - 1, n_classes):
        raise InputError(
            f"Y has shape {given.shape} but there are {len(offsets) - 1} bags and {n_classes} classes; "
            "pass one row per bag and one column per class."
        )
    if background is not None and not 0 <= background < n_classes:
        raise InputError(f"background={background} is not a column of proba, which has {n_classes}.")
    if known is not None and (known.shape != (m,) or known.min() < -1 or known.max() >= n_classes):
        raise InputError(f"known must hold a column index 0..{n_classes - 1}, or -1, for each of the {m} instances.")
