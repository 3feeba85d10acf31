"""How sure scores may be, from the labels of bags that they did not see; see `bagwise.calibration.annotator`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import brentq, minimize, minimize_scalar
from scipy.special import expit, log_expit, logit, logsumexp

from bagwise.kernels.softmax import softmax_in_place
from bagwise.union import UnionModel, UnionProblem, log_absence

START_UNIFORM = 0.02
BOUNDS = {"temperature": (-1.5, 2.5), "uniform": (-12.0, 0.0), "background": (-10.0, 10.0)}  # logarithms and a logit
FARTHEST_SHIFT = 60.0
N_TEMPERATURES = 9
NEVER = 1e300  # a cost that the search can compare, and add
NEAR = 0.02  # of a share that is given
EVERYWHERE = 0.95  # share of the labelled bags from which a label is in nearly all of them
SMALLEST = 1e-12

Shares = dict[int, float]
"""Column of the scores to the share of the instances that is to be of that class."""


# ---------------------------------------------------------------------------------------------------------------------
# Instances


class Recalibration(NamedTuple):
    """What makes probabilities of scores: a temperature, a share spread over all, logarithms of factors on the odds."""

    temperature: float = 1.0
    uniform: float = 0.0
    shifts: np.ndarray | None = None

    def probabilities(self, scores: np.ndarray) -> np.ndarray:
        """(m, c) probabilities: (1 - uniform) softmax(scores / temperature + shifts) + uniform / c."""
        proba = scores / self.temperature
        if self.shifts is not None:
            proba += self.shifts
        softmax_in_place(proba)
        if self.uniform > 0.0:
            proba *= 1.0 - self.uniform
            proba += self.uniform / proba.shape[1]
        return proba

    def shifted(self, column: int, shift: float, n_columns: int) -> Recalibration:
        """With another shift of a column."""
        shifts = np.zeros(n_columns) if self.shifts is None else self.shifts.copy()
        shifts[column] = shift
        return self._replace(shifts=shifts)


@dataclass(frozen=True)
class HeldOut:
    """Bags and scores of their instances; where these did not see the bags, they say how sure they may be.

    Attributes
    ----------
    problem : UnionProblem of the bags
    scores : (m, c) array
    model : UnionModel
    shares : dict
        Columns whose share of the instances is given, since the label sets do not determine it.
    weights : (n,) array or None
        How much each bag counts in likelihoods and means.
    """

    problem: UnionProblem
    scores: np.ndarray
    model: UnionModel
    shares: Shares
    weights: np.ndarray | None = None

    @property
    def _counts(self) -> tuple[np.ndarray, np.ndarray]:
        """(n,) and (m,) how much bags and instances count."""
        sizes = np.diff(self.problem.offsets)
        weights = np.ones(len(sizes)) if self.weights is None else self.weights
        return weights, np.repeat(weights, sizes)

    @property
    def _has_shares(self) -> bool:
        """Whether any share is given, and any instance there that it is a share of."""
        return bool(self.shares) and bool(self.problem.counted_instances.any())

    def infer(self, proba: np.ndarray) -> np.ndarray:
        """Turn probabilities into posteriors, in place; gives the log-likelihood of every bag."""
        return self.model.infer(self.problem, proba)

    def posterior(self, recalibration: Recalibration) -> np.ndarray:
        proba = recalibration.probabilities(self.scores)
        self.infer(proba)
        return proba

    def negative_log_likelihood(self, parameters: np.ndarray) -> tuple[float, np.ndarray]:
        """Of the label sets, in log T, logit e and the background's shift, with a weak prior; and the gradient.

        d log P(Y) = sum of q_ic / p_ic dp_ic, q the posterior.
        """
        n_columns = self.scores.shape[1]
        found = self._of_parameters(parameters)
        soft = found._replace(uniform=0.0).probabilities(self.scores)
        proba = (1.0 - found.uniform) * soft + found.uniform / n_columns
        ratio = proba.copy()
        of_bags, of_rows = self._counts
        value = float(of_bags @ self.infer(ratio))
        ratio /= proba
        ratio *= of_rows[:, None]
        mean = np.einsum("ic,ic->i", soft, self.scores)
        slope = -np.einsum("ic,ic->", ratio, soft * (self.scores - mean[:, None])) / found.temperature
        shift = 0.0
        if self.problem.background >= 0:
            of_background = np.arange(n_columns) == self.problem.background
            shift = np.einsum("ic,ic->", ratio, soft * (of_background - soft[:, [self.problem.background]]))
        uniform = found.uniform * np.einsum("ic,ic->", ratio, 1.0 / n_columns - soft)
        gradient = (1.0 - found.uniform) * np.array([slope, uniform, shift])
        spread = np.array([1.0, np.inf, 2.0])  # a weak prior around nothing to put right
        return -value + 0.5 * float(np.sum((parameters / spread) ** 2)), -gradient + parameters / spread**2

    def _of_parameters(self, parameters: np.ndarray) -> Recalibration:
        found = Recalibration(float(np.exp(parameters[0])), float(expit(parameters[1])))
        if self.problem.background < 0:
            return found
        return found.shifted(self.problem.background, float(parameters[2]), self.scores.shape[1])

    def most_likely(self) -> Recalibration:
        """The recalibration at which the label sets of these bags are most likely, given the shares."""
        start = np.array([0.0, float(logit(START_UNIFORM)), 0.0])
        bounds = [*BOUNDS.values()]
        if self.problem.background < 0:
            bounds[2] = (0.0, 0.0)
        solution = minimize(self.negative_log_likelihood, start, jac=True, method="L-BFGS-B", bounds=bounds).x
        found = self._of_parameters(solution)
        if not self._has_shares:
            return found

        def negative(candidate: Recalibration) -> float:
            log_temperature = float(np.log(candidate.temperature))
            likelihood = self._counts[0] @ self.infer(candidate.probabilities(self.scores))
            return 0.5 * log_temperature**2 - float(likelihood)

        return self._best_temperature(negative, found)

    def nearest(self, wanted: np.ndarray, start: Recalibration) -> Recalibration:
        """That of `start` at the temperature whose posterior has the least cross-entropy to the one `wanted`."""

        def cross_entropy(candidate: Recalibration) -> float:
            log_posterior = np.log(np.maximum(self.posterior(candidate), SMALLEST))
            return -float(np.average(np.sum(wanted * log_posterior, axis=1), weights=self._counts[1]))

        return self._best_temperature(cross_entropy, start)

    def _best_temperature(self, cost: Callable[[Recalibration], float], start: Recalibration) -> Recalibration:
        """The temperature of least cost, every one tried with the shares that are given.

        From hot to cold on a grid, since the shifts are small where it is hot and each is the start of the next; then
        between the neighbours of the best.
        """

        def checked(candidate: Recalibration) -> float:
            value = cost(candidate) if self.meets_shares(candidate) else np.inf
            return value if np.isfinite(value) else NEVER

        grid = np.linspace(BOUNDS["temperature"][1], BOUNDS["temperature"][0], N_TEMPERATURES)
        tried: list[Recalibration] = []
        for value in grid:
            last = (tried[-1] if tried else start)._replace(temperature=float(np.exp(value)))
            tried.append(self.with_shares(last))
        costs = np.array([checked(candidate) for candidate in tried])
        best = int(np.argmin(costs))
        if costs[best] == NEVER:
            return start

        def at(log_temperature: float) -> Recalibration:
            return self.with_shares(tried[best]._replace(temperature=float(np.exp(log_temperature))))

        edges = float(grid[min(best + 1, len(grid) - 1)]), float(grid[max(best - 1, 0)])
        found = minimize_scalar(
            lambda value: checked(at(value)), bounds=edges, method="bounded", options={"xatol": 0.02, "maxiter": 12}
        )
        return at(float(found.x)) if found.fun < costs[best] else tried[best]

    def with_shares(self, recalibration: Recalibration, *, alone: bool = False) -> Recalibration:
        """With the shifts at which the posterior, or `alone` the probability without labels, has the given shares.

        The two differ: instances of a bag are alike, so that a label takes up more of the bags that list it than the
        product of independent instances knows of.
        """
        if not self._has_shares:
            return recalibration
        for _ in range(3 if len(self.shares) > 1 else 1):  # columns take from each other
            for column, share in self.shares.items():
                recalibration = self._with_share(recalibration, column, share, alone)
        return recalibration

    def meets_shares(self, recalibration: Recalibration) -> bool:
        """Whether the shares could be had; a temperature near zero leaves nothing to shift."""
        if not self._has_shares:
            return True
        counted = self.problem.counted_instances
        mean = np.average(self.posterior(recalibration)[counted], axis=0, weights=self._counts[1][counted])
        return all(abs(mean[column] - share) <= NEAR for column, share in self.shares.items())

    def _with_share(self, recalibration: Recalibration, column: int, share: float, alone: bool) -> Recalibration:
        counted, n_columns = self.problem.counted_instances, self.scores.shape[1]
        counts = self._counts[1][counted]

        def excess(shift: float) -> float:
            moved = recalibration.shifted(column, shift, n_columns)
            proba = moved.probabilities(self.scores) if alone else self.posterior(moved)
            return float(np.average(proba[counted, column], weights=counts)) - share

        old = 0.0 if recalibration.shifts is None else float(recalibration.shifts[column])
        return recalibration.shifted(column, _root(excess, old), n_columns)


def _root(rising: Callable[[float], float], start: float) -> float:
    """Where a rising function is zero, looked for from `start` outwards; the farthest point where it is nowhere."""
    value, step, here = rising(start), 1.0, start
    if value == 0.0:
        return start
    sign = -np.sign(value)
    while True:
        there = float(np.clip(here + sign * step, -FARTHEST_SHIFT, FARTHEST_SHIFT))
        if np.sign(rising(there)) != -sign:
            return float(brentq(rising, min(here, there), max(here, there), xtol=1e-2))
        if abs(there) >= FARTHEST_SHIFT:
            return there
        here, step = there, 2.0 * step


def undetermined_shares(indicator: np.ndarray, sizes: np.ndarray, weights: np.ndarray | None = None) -> Shares:
    """Labels that are in nearly all bags and hardly ever alone: even shares of their bags' instances.

    Such a label explains every instance, so it is never wrong, and the likelihood gives it all that the others can
    spare. What the label sets do not determine is taken to be even: in a bag of three labels each has a third.
    """
    n_labels = indicator.sum(axis=1)
    labelled = n_labels > 0
    if not labelled.any():
        return {}
    counts = (np.ones(len(indicator)) if weights is None else weights)[labelled]
    inside, n_inside = indicator[labelled], n_labels[labelled]
    listed = np.average(inside, axis=0, weights=counts)
    alone = np.average(inside * (n_inside == 1)[:, None], axis=0, weights=counts)
    share = np.average(inside / n_inside[:, None], axis=0, weights=counts * sizes[labelled])
    everywhere = np.flatnonzero((listed >= EVERYWHERE) & (alone <= 1.0 - EVERYWHERE))
    return {int(c): float(share[c]) for c in everywhere}


# ---------------------------------------------------------------------------------------------------------------------
# Bags


@dataclass(frozen=True)
class BagLabelNoise:
    """How labels that are in bags come to be listed: noticed if there, (n, c) or 1, or spurious, (c,) or a number."""

    noticed: np.ndarray | float
    spurious: np.ndarray | float

    @classmethod
    def of(cls, proba: np.ndarray, offsets: np.ndarray, missed: Any, spurious: Any) -> BagLabelNoise:
        """Of rates; a label that is there is noticed if one of its instances is, which are as many as `proba` says."""
        if not np.any(missed):
            return cls(1.0, spurious)
        carried = np.clip(proba, SMALLEST, 1.0 - SMALLEST)
        there, seen = (-np.expm1(log_absence(share * carried, offsets)) for share in (1.0, 1.0 - np.asarray(missed)))
        return cls(seen / there, spurious)

    def probability(self, there: np.ndarray) -> np.ndarray:
        """That a label is listed, from that of its being there."""
        return self.spurious + (1.0 - self.spurious) * self.noticed * there

    def logarithms(self, eta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Of the probability that a label is listed, and that it is not, where it is there with log-odds `eta`."""
        with np.errstate(divide="ignore"):  # nothing is missed, or spurious: exactly the logarithms of a sigmoid
            false, unseen = np.log(self.spurious), np.log1p(-np.asarray(self.noticed))
        right, there, absent = np.log1p(-np.asarray(self.spurious)), log_expit(eta), log_expit(-eta)
        listed = np.logaddexp(false, right + np.log(self.noticed) + there)
        return listed, right + np.logaddexp(absent, unseen + there)


def fit_log_odds(
    log_odds: np.ndarray,
    Y: np.ndarray,
    weights: np.ndarray | None = None,
    listing: BagLabelNoise | None = None,
) -> tuple[float, float]:
    """Slope and offset of a logistic regression of labels on log-odds; the slope is positive, so no order changes.

    `weights` (n,) are those of the bags. Where labels may be wrong, `Y` are the listed ones, and the regression is of
    those that are there.
    """
    counts = np.ones((len(Y), 1)) if weights is None else weights[:, None]
    listing = BagLabelNoise(1.0, 0.0) if listing is None else listing
    hits = np.log1p(-np.asarray(listing.spurious)) + np.log(listing.noticed)

    def negative(parameters: np.ndarray) -> tuple[float, np.ndarray]:
        slope, offset = parameters
        eta = slope * log_odds + offset
        listed, unlisted = listing.logarithms(eta)
        value = -np.sum(counts * np.where(Y == 1, listed, unlisted))
        change = hits + log_expit(eta) + log_expit(-eta)  # logarithm of the listed one's derivative
        error = counts * np.where(Y == 1, -np.exp(change - listed), np.exp(change - unlisted))
        prior = 0.5 * (slope - 1.0) ** 2 + 0.125 * offset**2  # weak, around nothing to put right
        return float(value) + prior, np.array(
            [np.vdot(error, log_odds) + slope - 1.0, error.sum() + 0.25 * offset], dtype=np.float64
        )

    found = minimize(negative, [1.0, 0.0], jac=True, method="L-BFGS-B", bounds=[(1e-2, 50.0), (-50.0, 50.0)]).x
    return float(found[0]), float(found[1])


def fit_power(log_joint: np.ndarray, Y: np.ndarray, weights: np.ndarray | None = None) -> float:
    """The power of the product of probabilities at which the one label of each bag is most likely."""

    def negative(log_power: float) -> float:
        scores = np.exp(log_power) * log_joint
        costs = logsumexp(scores, axis=1) - np.sum(scores * (Y == 1), axis=1)
        return float(costs.sum() if weights is None else weights @ costs)

    return float(np.exp(minimize_scalar(negative, bounds=(-6.0, 3.0), method="bounded").x))


# ---------------------------------------------------------------------------------------------------------------------
# Which bags are held out, and which were seen


def label_folds(indicator: np.ndarray, n_folds: int, rng: np.random.RandomState) -> np.ndarray:
    """(n,) fold of each bag; rare labels are dealt out first, so that each is left in the rest of most folds."""
    folds, sizes = np.full(len(indicator), -1), np.zeros(n_folds)
    order = rng.permutation(len(indicator))
    counts = indicator.sum(axis=0)
    for label in [*np.argsort(counts, kind="stable"), None]:
        carries = np.ones(len(indicator), dtype=bool) if label is None else indicator[:, label] == 1
        taken = np.bincount(folds[carries & (folds >= 0)], minlength=n_folds).astype(float)
        for b in order[carries[order] & (folds[order] < 0)]:
            fold = int(np.lexsort((sizes, taken))[0])
            folds[b] = fold
            taken[fold] += 1
            sizes[fold] += 1
    return folds
