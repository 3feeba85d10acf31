"""How many instances carry a label: a model's probabilities, and the answers to a random sample that correct them.

A model says that instance i carries label c with probability p_ic. Drawn without replacement from strata h of N_h
instances are n_h whose truth y_ic a person then says. With a share lambda of what the model says (prediction-powered),

.. math::

    T_{cg} = \\lambda \\sum_{i \\in g} p_{ic} + N_g \\bar d_{cg}, \\quad d_{ic} = y_{ic} - \\lambda p_{ic},

where the mean over the drawn instances of group g weighs each by N_h / n_h. Whatever the model is, the first sum is
known and the second is estimated by the design of the sample alone: a bad model costs width, not truth. lambda is the
slope of y on p within strata, between 0 (the sample alone) and 1.

The variance of the mean is that of stratified samples, with two cures for small ones: a stratum in which nobody saw the
model err may hold errors all the same, so that two instances of the variance that the model itself expects (times what
was seen over what was expected, where that is more) and one error in all strata together are added. The interval is
Wilson's for a sample of that variance, with a quantile of Student's t for strata of few answers.

References
----------
Angelopoulos, Duchi, Zrnic, PPI++: efficient prediction-powered inference, 2023. Korn, Graubard, Confidence intervals
for proportions with small expected number of positive counts estimated from survey data, 1998.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.stats import norm
from scipy.stats import t as student

from bagwise.core.exceptions import InputError
from bagwise.metrics import wilson_interval

LEAST = 2  # answers of a stratum: one tells nothing of a variance
EXPECTED = 2.0  # instances of the variance that the model expects, added to each stratum
PER_STRATUM = 10  # answers of a stratum, as many as its variance needs, where there are that many
MOST_CUTS = 3  # strata of a label


@dataclass(frozen=True, eq=False)
class Totals:
    """Numbers of instances of each group with each label.

    Attributes
    ----------
    count, low, high : (g, c) arrays
        Estimates and the ends of their intervals.
    n_reviewed : (g,) array of int
        Answers in each group.
    more : (g, c) array
        How many more answers, drawn like these, halve the interval; infinity where no number of them does.

    Examples
    --------
    >>> import numpy as np
    >>> from bagwise.calibration import expected_totals
    >>> found = expected_totals(np.full((100, 1), 0.5), groups=np.repeat([0, 1], [80, 20]))
    >>> found.count.tolist(), found.n_reviewed.tolist()
    ([[40.0], [10.0]], [0, 0])
    >>> bool((found.low < found.count).all() and (found.count < found.high).all())
    True
    """

    count: np.ndarray
    low: np.ndarray
    high: np.ndarray
    n_reviewed: np.ndarray
    more: np.ndarray


def score_strata(proba: np.ndarray, n_answers: int) -> np.ndarray:
    """Strata for a sample of so many answers: instances of one most probable label, cut by the probability of it.

    Labels too rare to have answers of their own share a stratum. Cuts are where the standard deviation of answers
    adds up to equal shares, so that the sure ones, of which few are needed, stand apart.

    Parameters
    ----------
    proba : (m, c) array
        What rows lack of one is the probability of no label.
    n_answers : int

    Returns
    -------
    (m,) array of int

    Examples
    --------
    >>> import numpy as np
    >>> from bagwise.calibration import score_strata
    >>> proba = np.repeat([[0.9, 0.1], [0.2, 0.8]], 100, axis=0)
    >>> strata = score_strata(proba, 60)
    >>> bool(strata[0] != strata[-1])
    True
    """
    rest = np.maximum(1.0 - proba.sum(axis=1, keepdims=True), 0.0)
    whole = np.hstack([proba, rest])
    best, score = whole.argmax(axis=1), np.clip(whole.max(axis=1), 0.0, 1.0)
    spread = np.sqrt(score * (1.0 - score)) + 0.1  # also where the model is sure it may be wrong
    sums = np.bincount(best, spread, whole.shape[1])
    own = sums * n_answers >= PER_STRATUM * sums.sum()
    own[sums.argmax()] = True
    kind = np.where(own, np.cumsum(own), 0)[best]
    cuts = int(np.clip(n_answers // (PER_STRATUM * (own.sum() + 1)), 1, MOST_CUTS))
    cut = np.zeros(len(proba), dtype=np.int64)
    for k in np.unique(kind):
        rows = np.flatnonzero(kind == k)
        order = rows[np.argsort(score[rows], kind="stable")]
        passed = np.cumsum(spread[order])
        cut[order] = np.minimum(passed / passed[-1] * cuts, cuts - 1e-9).astype(np.int64)
    return np.unique(kind * cuts + cut, return_inverse=True)[1]


def allocate_answers(proba: np.ndarray, strata: np.ndarray, n_answers: int) -> np.ndarray:
    """How many of each stratum to draw, so that the relative intervals of all labels together are narrowest (Neyman).

    The variance of the answers of a stratum is expected to be half what the model says and half that of answers which
    the model knows nothing of: one that errs where it is sure is found out.

    Returns
    -------
    (h,) array of int
        At least two of each, or all of it; their sum is `n_answers`, or what these need.

    Examples
    --------
    >>> import numpy as np
    >>> from bagwise.calibration import allocate_answers
    >>> proba = np.repeat([[0.99], [0.5]], 100, axis=0)
    >>> strata = np.repeat([0, 1], 100)
    >>> drawn = allocate_answers(proba, strata, 50)
    >>> int(drawn.sum()), bool(drawn[1] > drawn[0])
    (50, True)
    """
    sizes = np.bincount(strata)
    share = proba.mean(axis=0)
    expected = _stratum_means(proba * (1.0 - proba), strata, sizes)
    relative = (0.5 * (expected + share * (1.0 - share)) / np.maximum(share, 1.0 / len(proba)) ** 2).sum(axis=1)
    wanted = sizes * np.sqrt(relative) if relative.any() else sizes  # sure of all of them, or there are no labels
    least = np.minimum(sizes, LEAST)
    drawn = least.copy()
    while (left := n_answers - int(drawn.sum())) > 0 and np.any(drawn < sizes):
        lack = np.where(drawn < sizes, np.maximum(wanted / wanted.sum() * n_answers - drawn, 1e-9), 0.0)
        more = np.minimum(np.floor(lack / lack.sum() * left).astype(np.int64), sizes - drawn)
        if not more.any():
            more[np.argsort(-lack, kind="stable")[:left]] = 1
            more = np.minimum(more, sizes - drawn)
        drawn += more
    return drawn


def draw_rows(strata: np.ndarray, drawn: np.ndarray, already: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Rows drawn at random without replacement until each stratum has so many, in the order in which to ask.

    Two of each stratum come first, so that the first answers already make an interval; then all mixed.

    Parameters
    ----------
    strata : (m,) array of int
    drawn : (h,) array of int
    already : array of int
        Rows that were drawn before; they are not drawn again, and count.
    rng : numpy generator

    Examples
    --------
    >>> import numpy as np
    >>> from bagwise.calibration import draw_rows
    >>> strata = np.array([0, 0, 0, 1, 1, 1])
    >>> rows = draw_rows(strata, np.array([2, 3]), np.array([4]), np.random.default_rng(0))
    >>> sorted(strata[rows].tolist()), 4 in rows
    ([0, 0, 1, 1], False)
    """
    free = np.ones(len(strata), dtype=bool)
    free[already] = False
    there = np.bincount(strata[already], minlength=len(drawn))
    first, rest = [], []
    for h, n in enumerate(drawn - there):
        rows = rng.permutation(np.flatnonzero(free & (strata == h)))[: max(n, 0)]
        n_first = max(LEAST - there[h], 0)
        first.append(rows[:n_first])
        rest.append(rows[n_first:])
    return np.concatenate([rng.permutation(np.concatenate(part)) for part in (first, rest)]).astype(np.int64)


def estimate_totals(
    proba: np.ndarray,
    strata: np.ndarray,
    rows: np.ndarray,
    truth: np.ndarray,
    groups: np.ndarray | None = None,
    n_groups: int | None = None,
    confidence: float = 0.95,
) -> Totals:
    """Numbers of instances with each label, from the answers to a stratified random sample and any model.

    Parameters
    ----------
    proba : (m, c) array
        What the model said before anything was drawn.
    strata : (m,) array of int
        From 0 on; see `score_strata`.
    rows : (n,) array of int
        Drawn (`draw_rows`) and answered: at least two of each stratum, or all of it.
    truth : (n, c) array of bool
        Whether they carry the labels.
    groups : (m,) array of int or None
        Group of each instance, from 0 on; None for one.
    n_groups : int or None
        How many groups there are, where the last ones may be empty.
    confidence : float

    Returns
    -------
    Totals

    Examples
    --------
    >>> import numpy as np
    >>> from bagwise.calibration import allocate_answers, draw_rows, estimate_totals, score_strata
    >>> rng = np.random.default_rng(0)
    >>> proba = rng.beta(0.2, 1.0, size=(5000, 1))
    >>> truth = rng.random((5000, 1)) < proba
    >>> strata = score_strata(proba, 200)
    >>> rows = draw_rows(strata, allocate_answers(proba, strata, 200), np.zeros(0, dtype=int), rng)
    >>> found = estimate_totals(proba, strata, rows, truth[rows])
    >>> bool(found.low[0, 0] <= truth.sum() <= found.high[0, 0])
    True
    """
    groups = np.zeros(len(proba), dtype=np.int64) if groups is None else groups
    sizes, n_groups = np.bincount(strata), n_groups or int(groups.max()) + 1
    answered = np.bincount(strata[rows], minlength=len(sizes))
    short = answered < np.minimum(sizes, LEAST)
    if short.any():
        raise InputError(
            f"{int(short.sum())} of {len(sizes)} strata have fewer than {LEAST} answers, which make no interval; "
            "answer more of the sample."
        )
    cells = strata * n_groups + groups
    members = np.bincount(cells, minlength=len(sizes) * n_groups).reshape(-1, n_groups)
    inside = np.bincount(cells[rows], minlength=members.size).reshape(-1, n_groups)
    design = _Design(sizes, answered, members / sizes[:, None], inside)
    columns = [
        design.estimate(proba[:, c], truth[:, c].astype(float), strata, groups, rows, confidence)
        for c in range(proba.shape[1])
    ]
    count, low, high, more = (np.stack(part, axis=1) for part in zip(*columns, strict=True))
    return Totals(count, low, high, inside.sum(axis=0), more)


def expected_totals(
    proba: np.ndarray, groups: np.ndarray | None = None, n_groups: int | None = None, confidence: float = 0.95
) -> Totals:
    """The same by the model alone, as if its probabilities were right: nobody has looked whether they are.

    Examples
    --------
    >>> import numpy as np
    >>> from bagwise.calibration import expected_totals
    >>> expected_totals(np.array([[0.9], [0.6], [0.5]])).count.tolist()
    [[2.0]]
    """
    groups = np.zeros(len(proba), dtype=np.int64) if groups is None else groups
    sizes = np.bincount(groups, minlength=n_groups or 1).astype(float)
    count, variance = (_sums(values, groups, len(sizes)) for values in (proba, proba * (1.0 - proba)))
    low, high = _interval(count, variance, sizes[:, None], norm.isf((1 - confidence) / 2))
    nobody = np.zeros(len(sizes), dtype=np.int64)
    return Totals(count, low, high, nobody, np.full(count.shape, np.inf))


@dataclass(frozen=True, eq=False)
class _Design:
    """What does not depend on the label: (h,) sizes and answers, (h, g) share of groups in strata and their answers."""

    sizes: np.ndarray
    answered: np.ndarray
    shares: np.ndarray
    inside: np.ndarray

    def estimate(
        self, p: np.ndarray, y: np.ndarray, strata: np.ndarray, groups: np.ndarray, rows: np.ndarray, confidence: float
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Count, low, high and further answers of each group, of one label."""
        sizes, n, n_groups = self.sizes, self.answered, self.shares.shape[1]
        h, weight = strata[rows], (self.sizes / self.answered)[strata[rows]]
        power = _power(p[rows], y, h, weight, n)
        d = y - power * p[rows]
        cells, shape = h * n_groups + groups[rows], self.inside.shape
        sums, squares = (np.bincount(cells, v, self.inside.size).reshape(shape) for v in (d, d * d))
        scale = (sizes / n)[:, None]
        there = (scale * self.inside).sum(axis=0)
        mean = np.divide((scale * sums).sum(axis=0), there, out=np.full(n_groups, np.nan), where=there > 0)
        mean = np.where(there > 0, mean, (scale * sums).sum() / sizes.sum())  # nobody looked there: as elsewhere
        members = (self.shares * sizes[:, None]).sum(axis=0)
        count = power * np.bincount(groups, p, n_groups) + members * mean
        sums, squares = sums - self.inside * mean, squares - 2 * mean * sums + self.inside * mean**2
        expected = np.bincount(strata, p * (1.0 - p), len(sizes)) / sizes
        worse = max(1.0, float(((d * d).sum() + 1.0) / ((expected * n).sum() + 1.0)))
        unseen = EXPECTED * worse * expected + 1.0 / len(sizes)
        spread = (squares - sums**2 / n[:, None] + self.shares * unseen[:, None]) / (
            n + EXPECTED - 1.0 + 1.0 / len(sizes)
        )[:, None]
        of_mean, of_all = sizes[:, None] ** 2 * spread / n[:, None], sizes[:, None] * spread
        parts = np.maximum(of_mean - of_all, 0.0)
        variance = parts.sum(axis=0)
        freedom = variance**2 / np.maximum((parts**2 / np.maximum(n - 1, 1)[:, None]).sum(axis=0), 1e-300)
        z = student.isf((1 - confidence) / 2, np.maximum(freedom, LEAST))
        low, high = _interval(count, variance, members, z)
        seen = np.bincount(groups[rows], y, n_groups), np.bincount(groups[rows], 1.0 - y, n_groups)
        low, high = np.maximum(low, seen[0]), np.minimum(high, members - seen[1])
        low, high = np.where(there > 0, low, 0.0), np.where(there > 0, high, members)
        factor = of_mean.sum(axis=0) / np.maximum(variance / 4 + of_all.sum(axis=0), 1e-300)
        more = np.where(there > 0, np.ceil(np.maximum(factor - 1.0 - 1e-9, 0.0) * len(rows)), np.inf)
        return np.clip(count, low, high), low, high, more


def _power(p: np.ndarray, y: np.ndarray, strata: np.ndarray, weight: np.ndarray, n: np.ndarray) -> float:
    """How much of what the model says is believed: the slope of the answers on it within strata, from 0 to 1."""
    p_off, y_off = (v - (np.bincount(strata, v, len(n)) / n)[strata] for v in (p, y))
    along = float((weight * p_off * p_off).sum())
    return float(np.clip((weight * p_off * y_off).sum() / along, 0.0, 1.0)) if along > 0 else 1.0


def _interval(
    count: np.ndarray, variance: np.ndarray, sizes: np.ndarray, z: np.ndarray | float
) -> tuple[np.ndarray, np.ndarray]:
    """Wilson's interval of a share whose estimate has that variance, times the size."""
    sizes = np.maximum(sizes, 1.0)  # of a group without instances
    share = np.clip(count / sizes, 1.0 / (sizes + 1.0), 1.0 - 1.0 / (sizes + 1.0))
    certain = variance <= 1e-12
    n = share * (1.0 - share) / np.where(certain, 1.0, variance / sizes**2)
    low, high = wilson_interval(share, n, z)
    return np.where(certain, count, low * sizes), np.where(certain, count, high * sizes)


def _sums(values: np.ndarray, groups: np.ndarray, n: int) -> np.ndarray:
    return np.stack([np.bincount(groups, column, n) for column in values.T], axis=1)


def _stratum_means(values: np.ndarray, strata: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    return _sums(values, strata, len(sizes)) / sizes[:, None]
