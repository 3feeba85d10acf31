"""How sure scores may be, from the labels of bags that they did not see; see `bagwise.calibration.annotator`."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy.optimize import brentq, minimize, minimize_scalar
from scipy.special import expit, log_expit, logit, logsumexp
from sklearn.base import clone

from bagwise.core.bags import Bags, offsets_of
from bagwise.core.base import NEGLIGIBLE
from bagwise.core.fitted import Attribute, Either, Numbers, Plain
from bagwise.core.typing import BagsLike, Learner
from bagwise.core.validation import Given, listed_labels
from bagwise.metrics import reliability_table
from bagwise.pipeline import bag_tags, final_step, fit_parameters
from bagwise.union import UnionModel, UnionProblem, log_absence, softmax_in_place

ENOUGH_HELD_OUT = 1_000  # bags that a few numbers can be found from; with more bags fewer folds are fitted
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
        # The chain rule through p = (1 - e) soft + e / c, soft = softmax(s / T + shift): d soft_c / d log T is
        # -soft_c (s_c - mean) / T, d p_c / d logit e is e (1 - e) (1 / c - soft_c), and by the shift of b it is
        # d soft_c = soft_c (1[c = b] - soft_b). `ratio` is q / p, weighted.
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
        # P(listed) = nu + (1 - nu) noticed sigmoid(eta), so both logarithms have the derivative
        # +-(1 - nu) noticed sigmoid(eta) sigmoid(-eta) over their probability; `change` is its logarithm
        change = hits + log_expit(eta) + log_expit(-eta)
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


class CalibrationMixin:
    """An estimator around another one, which stands as it is but for its probabilities."""

    __metadata_request__fit: ClassVar[dict[str, bool]] = {"instance_labels": False}  # routing sends them to scorers
    estimator_: Any
    seen_bags_: np.ndarray
    reliability_: dict[str, Any] | None
    _start_predict_bags: Callable[[BagsLike], Bags]
    _fitted: ClassVar[dict[str, Attribute]] = {
        "seen_bags_": Numbers("seen", whole=True, empty=True),
        "reliability_": Either(None, Plain()),
    }

    def __init__(self, estimator: Learner, cv: int = 5):
        self.estimator = estimator
        self.cv = cv

    def reliability(self) -> dict[str, Any] | None:
        """``reliability_``: what was said of the labels of held-out bags, and what came; None if not calibrated."""
        return self.reliability_

    def noise_rates(self) -> dict[str, Any]:
        """As of the estimator."""
        final = final_step(self.estimator_)
        return final.noise_rates() if hasattr(final, "noise_rates") else {"missed": 0.0, "spurious": 0.0}

    @property
    def background_label_(self) -> Any:
        """As of the estimator."""
        return getattr(final_step(self.estimator_), "background_label_", None)

    def _instance_scores(self, bags: Bags) -> np.ndarray:
        return self.estimator_.instance_decision_function(bags)

    def decision_function(self, X: BagsLike) -> np.ndarray:
        """That of the estimator."""
        bags = self._start_predict_bags(X)  # which says so where nothing is fitted yet
        return self.estimator_.decision_function(bags)

    def predict(self, X: BagsLike) -> np.ndarray:
        """That of the estimator."""
        bags = self._start_predict_bags(X)
        return self.estimator_.predict(bags)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        inner: Any = self.estimator_ if hasattr(self, "estimator_") else self.estimator
        own = inner.__sklearn_tags__()
        tags.input_tags.sparse, tags.non_deterministic = own.input_tags.sparse, own.non_deterministic
        tags.bag_tags = replace(bag_tags(inner))
        return tags


def cross_fit(
    copy: Any,
    method: str,
    bags: Bags,
    given: Given,
    instance_labels: Bags | None,
    weights: np.ndarray | None,
    n_folds: int,
) -> tuple[np.ndarray, np.ndarray]:
    """Bags, in order, and the scores of their instances by that method of clones of `copy` that did not see them.

    Bags with a label that no other fold has are left out: it is new to the clone. So are folds when there are bags
    enough.
    """
    listed, index, scores = listed_labels(given), list[int](), list[np.ndarray]()
    folds = label_folds(listed, n_folds, np.random.RandomState(0))
    for fold in range(n_folds):
        inside, rest = np.flatnonzero(folds == fold), folds != fold
        if not len(inside) or len(index) >= ENOUGH_HELD_OUT:
            continue
        asked = {"instance_labels": instance_labels, "sample_weight": weights}
        asked = {name: value[rest] for name, value in asked.items() if value is not None}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the fit itself, which has said what there is to say
            fitted = clone(copy).fit(bags[rest], given[rest], **fit_parameters(copy, **asked))
        inside = inside[~listed[inside][:, ~listed[rest].any(axis=0)].any(axis=1)]
        if len(inside):
            index += inside.tolist()
            scores.append(getattr(fitted, method)(bags[inside]))
    order = np.argsort(index)
    if not len(order):
        return order, np.empty((0, 0))
    spread = Bags(np.concatenate(scores), offsets_of(bags.sizes[index]))
    return np.array(index)[order], spread[order].instances


# ---------------------------------------------------------------------------------------------------------------------
# What the name of an instance is worth, and the largest set of names of a wanted precision (selective predictio

TINY = 1e-300
SUREST = 1.0 - NEGLIGIBLE  # probabilities beyond it, which are written as one, have no log-odds of their own
PRECISION_BOUNDS = ((-3.0, 3.0), (-10.0, 10.0))  # of the logarithm of the slope, and of the offset


def log_odds(probability: np.ndarray) -> np.ndarray:
    return logit(np.clip(probability, 1.0 - SUREST, SUREST))


@dataclass(frozen=True, eq=False)
class PrecisionModel:
    """What the name of an instance is worth where only its features were seen: sigmoid(slope logit p + offset).

    Attributes
    ----------
    slope, offset : float
    covariance : (2, 2) array
        Of the logarithm of the slope and the offset: how well the bags determine them.
    covered : (c,) array of bool
        Classes of which bags tell anything: not those that all of them list.

    Examples
    --------
    >>> import numpy as np
    >>> from bagwise.calibration import PrecisionModel
    >>> model = PrecisionModel(slope=0.5, offset=0.0, covariance=np.zeros((2, 2)), covered=np.array([True, True]))
    >>> model.lower_bound(np.array([0.5, 0.9])).round(2).tolist()
    [0.5, 0.75]
    """

    slope: float
    offset: float
    covariance: np.ndarray
    covered: np.ndarray

    def lower_bound(self, probability: np.ndarray) -> np.ndarray:
        """One standard error below."""
        odds = log_odds(probability)
        change = np.stack([self.slope * odds, np.ones_like(odds)], axis=1)
        variance = np.einsum("ij,jk,ik->i", change, self.covariance, change)
        return expit(self.slope * odds + self.offset - np.sqrt(np.maximum(variance, 0.0)))


@dataclass(frozen=True)
class CalibratedPrecision:
    """How precise the names of a model are expected to be.

    Attributes
    ----------
    uniform : float
        Share of probability that calibration spreads over all classes: of instances that mislead the model, however
        sure it is.
    new : PrecisionModel or None
        Of instances whose bags' labels are not given; None where bags could not tell it, and `uniform` has to do.

    Examples
    --------
    >>> import numpy as np
    >>> from bagwise.calibration import CalibratedPrecision
    >>> CalibratedPrecision(uniform=0.1).of(np.array([0, 1]), np.array([0.5, 1.0]), listed=True).tolist()
    [0.45, 0.9]
    """

    uniform: float = 0.0
    new: PrecisionModel | None = None

    @classmethod
    def of_model(cls, model: Any) -> CalibratedPrecision:
        """That of a fitted estimator; one that is not calibrated is as precise as it says."""
        return getattr(model, "calibrated_precision", cls)()

    def of(self, labels: np.ndarray, probability: np.ndarray, listed: np.ndarray | bool) -> np.ndarray:
        """(m,) confidence in these labels; `listed`: the labels of their bags were given.

        Labels are indices of classes; one that the model does not know counts as if it were given.
        """
        spread = (1.0 - self.uniform) * probability
        if self.new is None:
            return spread
        n_classes = len(self.new.covered)
        covered = np.append(self.new.covered, False)[np.minimum(labels, n_classes)]
        return np.where(covered & ~np.asarray(listed), self.new.lower_bound(probability), spread)


def select_at_precision(confidence: np.ndarray, precision: float) -> np.ndarray:
    """(m,) mask of the largest set of instances, all above a threshold, of which that share is expected to be right.

    The expected share of right labels in a set is the mean `confidence`, so the threshold is the smallest one above
    which that mean is at least the `precision`; single instances of the set may be less sure than that. Empty where
    not even the surest is.

    Examples
    --------
    >>> import numpy as np
    >>> from bagwise.calibration import select_at_precision
    >>> select_at_precision(np.array([0.99, 0.4, 0.9, 0.8]), 0.9).tolist()
    [True, False, True, False]
    """
    order = np.argsort(-confidence, kind="stable")
    ordered = confidence[order]
    mean = np.cumsum(ordered) / np.arange(1, len(ordered) + 1)
    last_of_equals = np.append(ordered[1:] < ordered[:-1], True) if len(ordered) else np.empty(0, dtype=bool)
    enough = np.flatnonzero((mean >= precision - 1e-12) & last_of_equals)
    kept = np.zeros(len(confidence), dtype=bool)
    if len(enough):
        kept[order[: enough[-1] + 1]] = True
    return kept


@dataclass(frozen=True)
class Named:
    """What instances are named, and what their bags say to it.

    Attributes
    ----------
    probability : (m,) array
        Of the most probable class.
    listed : (m,) array of bool
        Whether the bag lists it.
    excused : (m,) array
        How probable what the bag lists is where the name is wrong and listed all the same, beside where it is right.
    label : (m,) array
        The class.
    by_chance : (m,) array
        How probable it is that the bag lists the name where that is wrong.
    """

    probability: np.ndarray
    listed: np.ndarray
    excused: np.ndarray
    label: np.ndarray
    by_chance: np.ndarray

    @classmethod
    def of(cls, proba: np.ndarray, bag_index: np.ndarray, Y: np.ndarray, weights: np.ndarray) -> Named:
        """Of (m, c) probabilities, a background's last, in bags with (n, c) label sets that count so much each."""
        n_classes = Y.shape[1]
        rows = np.arange(len(proba))
        best = proba[:, :n_classes].argmax(axis=1)
        sets = np.asarray(Y, dtype=np.float64)
        counts = weights @ sets
        share = (counts + 0.5) / (weights.sum() + 1.0)
        # (c, c) how often bags that list the row's label list the column's too, drawn to the share of all bags as by
        # one bag more: a wrong name is listed by chance, where the right label and it occur together
        together = (sets.T @ (weights[:, None] * sets) + share) / (counts[:, None] + 1.0)
        wrong = proba.copy()
        wrong[rows, best] = 0.0
        wrong /= np.maximum(wrong.sum(axis=1, keepdims=True), TINY)
        by_chance = np.einsum("ic,ic->i", wrong[:, :n_classes], together.T[best])
        if proba.shape[1] > n_classes:
            by_chance += wrong[:, n_classes] * share[best]
        # Bayes: what the bag lists is 1 / share times as probable where the instance is of a label that it lists, and
        # impossible where it is of another
        wrong[:, :n_classes] *= sets[bag_index] / share
        excused = np.einsum("ic,ic->i", wrong[:, :n_classes], together.T[best])
        if proba.shape[1] > n_classes:  # background is in any bag, and says nothing of its labels
            excused += wrong[:, n_classes] * share[best]
        return cls(proba[rows, best], sets[bag_index, best] > 0.0, excused, best, by_chance)


def names_table(
    proba: np.ndarray, offsets: np.ndarray, Y: np.ndarray, weights: np.ndarray, known: np.ndarray | None = None
) -> dict[str, Any] | None:
    """How often names of instances are right, by their probability; arguments are those of `fit_precision`.

    Bags list the right names and, by chance, a share t of the wrong ones: of names of which a share l is listed,
    (l - t) / (1 - t) are right. Names of which bags tell nothing do not count; None where none is left.

    Returns
    -------
    dict
        ``count``, ``confidence`` (mean probability) and ``accuracy`` of all names, and ``rows`` of bins of probability
        like those of `bagwise.metrics.reliability_table`. ``guess`` is the accuracy where all these instances get the
        most frequent label instead, and ``judged`` the share of names that count.
    """
    named, counted = _counted(proba, offsets, Y, weights, known)
    if not counted.any():
        return None
    probability, listed, chance = (
        values[counted] for values in (np.clip(named.probability, 0.0, 1.0), named.listed, named.by_chance)
    )
    rows = reliability_table(listed, probability)
    for row in rows:
        inside = (probability >= row["low"]) & ((probability < row["high"]) | (row["high"] == 1.0))
        row["accuracy"] = _beyond_chance(listed[inside], chance[inside])
    right = _beyond_chance(listed, chance)
    bag_index = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    shares = np.append(_covered(Y, weights), np.ones(proba.shape[1] - Y.shape[1], dtype=bool)) * proba.mean(axis=0)
    guess = Named.of(np.broadcast_to(shares, proba.shape), bag_index, Y, weights)
    return {
        "count": len(probability),
        "judged": float(counted.mean()),
        "confidence": float(probability.mean()),
        "accuracy": right,
        "guess": _beyond_chance(guess.listed[counted], guess.by_chance[counted]),
        "rows": rows,
    }


def _beyond_chance(listed: np.ndarray, by_chance: np.ndarray) -> float:
    share, chance = float(listed.mean()), float(by_chance.mean())
    return float(np.clip((share - chance) / max(1.0 - chance, SMALLEST), 0.0, 1.0))


def _counted(
    proba: np.ndarray, offsets: np.ndarray, Y: np.ndarray, weights: np.ndarray, known: np.ndarray | None
) -> tuple[Named, np.ndarray]:
    """The names, and (m,) which of them bags tell something of."""
    sizes = np.diff(offsets)
    named = Named.of(proba, np.repeat(np.arange(len(sizes)), sizes), Y, weights)
    covered = _covered(Y, weights)
    return named, covered[named.label] if known is None else covered[named.label] & (known == -1)


def _covered(Y: np.ndarray, weights: np.ndarray) -> np.ndarray:
    return np.average(Y, axis=0, weights=np.maximum(weights, SMALLEST)) < EVERYWHERE


def named_likelihood(parameters: np.ndarray, named: Named) -> tuple[np.ndarray, np.ndarray]:
    """(m,) log-likelihoods and their (m, 2) gradients in the logarithm of the slope and the offset."""
    slope = np.exp(parameters[0])
    odds = log_odds(named.probability)
    right = expit(slope * odds + parameters[1])
    wrong = expit(-slope * odds - parameters[1])
    # A right name is always listed (labels are not missed here), a wrong one with odds of `excused` to it; one that is
    # not listed is wrong. Both are divided by what does not depend on slope and offset.
    listed_in_all = np.maximum(right + wrong * named.excused, TINY)
    value = np.where(named.listed, np.log(listed_in_all), np.log(np.maximum(wrong, TINY)))
    by_eta = np.where(named.listed, right * wrong * (1.0 - named.excused) / listed_in_all, -right)
    return value, np.stack([by_eta * slope * odds, by_eta], axis=1)


def fit_precision(
    proba: np.ndarray,
    offsets: np.ndarray,
    Y: np.ndarray,
    weights: np.ndarray | None = None,
    known: np.ndarray | None = None,
) -> PrecisionModel:
    """From probabilities that did not see the bags.

    `weights` (n,) are those of the bags. Instances that are known, (m,) other than -1, tell nothing of the model and
    are left out. A weak prior leans towards nothing to put right.
    """
    sizes = np.diff(offsets)
    of_bags = np.ones(len(sizes)) if weights is None else weights
    named, counted = _counted(proba, offsets, Y, of_bags, known)
    of_rows = np.repeat(of_bags, sizes) * counted

    def negative(parameters: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = named_likelihood(parameters, named)
        return 0.5 * float(parameters @ parameters) - float(of_rows @ value), parameters - of_rows @ gradient

    found = minimize(negative, np.zeros(2), jac=True, method="L-BFGS-B", bounds=PRECISION_BOUNDS).x
    pulls = np.add.reduceat(counted[:, None] * named_likelihood(found, named)[1], offsets[:-1], axis=0)
    inverse = np.linalg.inv(_curvature(negative, found))
    # a sandwich: bags, not instances, are independent; the prior counts as one more, so that no bags tell nothing
    covariance = inverse @ (pulls.T @ (of_bags[:, None] * pulls) + np.eye(2)) @ inverse
    return PrecisionModel(float(np.exp(found[0])), float(found[1]), covariance, _covered(Y, of_bags))


def _curvature(
    negative: Callable[[np.ndarray], tuple[float, np.ndarray]], at: np.ndarray, step: float = 1e-4
) -> np.ndarray:
    """(2, 2) second derivatives by differences of the gradient; at least that of the prior in every direction."""
    moves = step * np.eye(2)
    rows = [(negative(at + move)[1] - negative(at - move)[1]) / (2.0 * step) for move in moves]
    values, vectors = np.linalg.eigh(0.5 * (np.array(rows) + np.array(rows).T))
    return (vectors * np.maximum(values, 1.0)) @ vectors.T
