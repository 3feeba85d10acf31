"""Missing labels, found by trees that look at whole bags.

Where a label has many instances in a bag, they go missing together: one that is noticed is enough for it to be listed.
A rate of instances that go unnoticed each by itself then says next to nothing about which of them are missing, but the
bag as a whole does: in other bags what is in it is listed. So trees learn from whole bags which labels are listed. The
rate at which labels go missing is how far short of certainty they stay where they are surest, and label sets are
completed by drawing: each unlisted label as probably as it is missing.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import expit, log_expit

from bagwise.annotation.rates import PRIOR_RIGHT, PRIOR_WRONG
from bagwise.core.bags import Bags
from bagwise.preprocessing import BagStatistics
from bagwise.preprocessing.bag_trees import BagTrees, bag_summaries, table_of
from bagwise.solvers import minimize_lbfgs
from bagwise.union import LabelNoise, UnionModel, infeasible_bags, union_log_odds

N_TREES, MAX_FEATURES = 200, 0.2
N_DRAWS = 5  # label sets drawn in every round; one was as good as ten on HJA, where rounds average them too
STARTS = (-3.0, -1.0)  # logits of the rate: the likelihood may have two summits, with labels missing and without
TINY = 1e-12
MANY = 1.5  # instances a label, from which on labels go missing as a whole


class Listing(NamedTuple):
    """How labels come to be listed where judges of bags give them the logits s.

    A label is there with probability sigmoid(a.s + b), and then listed with probability 1 - rho; listed for nothing it
    is with probability nu, which is given: without it, odd false labels would pass for what the judges do not know.

    Attributes
    ----------
    missed : float
        rho, the probability that a label that is there is not listed.
    slopes : (k,) array
        a > 0, a judge each.
    offset : float
        b.
    """

    missed: float
    slopes: np.ndarray
    offset: float

    @classmethod
    def fit(cls, logits: np.ndarray, indicator: np.ndarray, weights: np.ndarray, spurious: np.ndarray) -> Listing:
        """The most likely one, with the prior of learned rates, for (k, n, c) logits of judges that saw no bag."""
        n_judges = len(logits)
        counts, false = np.repeat(weights, indicator.shape[1]), np.tile(spurious, len(indicator))
        scores, listed = logits.reshape(n_judges, -1), indicator.ravel().astype(np.float64)
        scale = 1.0 / counts.sum()

        def negative_mean(parameters: np.ndarray) -> tuple[float, np.ndarray]:
            value, gradient = listing_likelihood(parameters, scores, listed, counts, false)
            return -scale * value, -scale * gradient

        starts = (np.array([logit_missed, *np.full(n_judges, -np.log(n_judges)), 0.0]) for logit_missed in STARTS)
        found = [minimize_lbfgs(negative_mean, start, max_iter=200, tol=1e-7) for start in starts]
        best = min(found, key=lambda result: result.objective).weights
        return cls(float(expit(best[0])), np.exp(best[1:-1]), float(best[-1]))

    def missing_probability(self, logits: np.ndarray) -> np.ndarray:
        """How probable it is that a label that is not listed is there all the same, by (k, n, c) logits."""
        # Bayes: it is there and was missed, rho p, or it is not there, 1 - p; nu is in both and cancels
        there = expit(np.tensordot(self.slopes, logits, axes=1) + self.offset)
        return self.missed * there / (1.0 - (1.0 - self.missed) * there)


def listing_likelihood(
    parameters: np.ndarray, scores: np.ndarray, listed: np.ndarray, counts: np.ndarray, false: np.ndarray
) -> tuple[float, np.ndarray]:
    """Log-likelihood with log-prior and its gradient, at logit of the rate, logarithms of the slopes, and offset.

    `scores` are (k, pairs); `listed`, `counts` and the rates of false ones (pairs,).
    """
    logit_missed, offset = parameters[0], parameters[-1]
    missed, slopes = expit(logit_missed), np.exp(parameters[1:-1])
    # P(listed) = nu + (1 - nu) (1 - rho) sigmoid(z), P(not listed) = (1 - nu) (sigmoid(-z) + rho sigmoid(z)); `share`
    # is the part of P(listed) that is no false label, the only one with a derivative
    z = slopes @ scores + offset
    there = expit(z)
    unlisted = expit(-z) + missed * there
    true = np.log1p(-false) + log_expit(-logit_missed) + log_expit(z)
    with np.errstate(divide="ignore"):
        either = np.logaddexp(np.log(false), true)
    share = np.where(listed > 0, np.exp(true - either), 1.0)  # of the listed ones that are there and noticed
    value = counts @ np.where(listed > 0, either, np.log1p(-false) + np.log(unlisted))
    value += PRIOR_WRONG * log_expit(logit_missed) + PRIOR_RIGHT * log_expit(-logit_missed)
    by_z = counts * np.where(listed > 0, share * expit(-z), -(1.0 - missed) * there * expit(-z) / unlisted)
    by_missed = counts @ np.where(listed > 0, -missed * share, missed * (1.0 - missed) * there / unlisted)
    by_missed += PRIOR_WRONG - (PRIOR_WRONG + PRIOR_RIGHT) * missed
    return float(value), np.array([by_missed, *(slopes * (scores @ by_z)), by_z.sum()])


def instances_a_label(posterior: np.ndarray, bags: Bags, weights: np.ndarray, n_classes: int) -> float:
    """How many instances a label has in a bag that holds it, on average, each instance being of its likeliest class.

    Of the columns only the first `n_classes` are labels, one behind them is the background's.
    """
    best = np.zeros(posterior.shape, dtype=np.int64)
    best[np.arange(len(posterior)), posterior.argmax(axis=1)] = 1
    counts = np.add.reduceat(best[:, :n_classes], bags.offsets[:-1], axis=0)
    return float(weights @ counts.sum(axis=1)) / max(float(weights @ (counts > 0).sum(axis=1)), 1.0)


class Completion:
    """Completed label sets, drawn by what trees that did not see a bag say of it as a whole."""

    def __init__(
        self,
        bags: Bags,
        indicator: np.ndarray,
        known: np.ndarray | None,
        weights: np.ndarray,
        background: bool,
        rng: np.random.RandomState,
        n_jobs: int | None = None,
    ):
        self.bags, self.indicator, self.known, self.weights = bags, indicator, known, weights
        self.background, self.rng, self.n_jobs = background, rng, n_jobs
        self.statistics = BagStatistics().fit_transform(bags)
        self.certain = indicator.astype(bool)
        if known is not None:  # what is known is there, listed or not
            rows = np.flatnonzero((known >= 0) & (known < indicator.shape[1]))
            self.certain[bags.bag_index[rows], known[rows]] = True
        self._said = np.zeros(indicator.shape)  # by the trees that were grown last

    def judge(self, proba: np.ndarray) -> np.ndarray:
        """(n, c) logits that a label is listed, by trees that did not see the bag, from probabilities of instances."""
        summaries = bag_summaries(proba[:, : self.indicator.shape[1]], self.bags)
        table = table_of(self.bags, summaries, self.statistics)
        targets = self.indicator.astype(np.float64)
        return BagTrees.grow(table, targets, self.weights, N_TREES, MAX_FEATURES, self.n_jobs, self.rng).held_out

    def present(self, proba: np.ndarray, spurious: np.ndarray) -> np.ndarray:
        """(n, c) probability that a label is in the bag, by those of its instances; one where it is listed or known."""
        self._said = self.judge(proba)
        return np.where(self.certain, 1.0, self._missing(self._said[None], spurious))

    def believed(self, proba: np.ndarray, spurious: np.ndarray) -> np.ndarray:
        """(n, c) how probable each label is where it is not listed, whether it is or not, for what is said in the end.

        By the trees that were grown last and by the instances themselves, which they saw in numbers only; in the rounds
        the instances would hear of themselves.
        """
        by_instances = union_log_odds(proba[:, : self.indicator.shape[1]], self.bags.offsets)
        return self._missing(np.stack([self._said, by_instances]), spurious)

    def _missing(self, logits: np.ndarray, spurious: np.ndarray) -> np.ndarray:
        false = spurious[: self.indicator.shape[1]]
        return Listing.fit(logits, self.indicator, self.weights, false).missing_probability(logits)

    def draw(self, present: np.ndarray, rates: LabelNoise | None) -> np.ndarray:
        """(n, c) label sets that can be: where one has too many labels, without those that were not listed."""
        sets = self.rng.random_sample(present.shape) < present
        impossible, _ = infeasible_bags(
            self.bags.offsets, sets.astype(np.uint8), self.known, self.background, rates, self.weights
        )
        sets[impossible] = self.certain[impossible]
        if not self.background:
            for b in np.flatnonzero(~sets.any(axis=1)):  # something is in it: one label, by its odds
                odds = (present[b] + TINY) / np.maximum(1.0 - present[b], TINY)
                sets[b, self.rng.choice(len(odds), p=odds / odds.sum())] = True
        return sets.astype(np.uint8)

    def infer(self, proba: np.ndarray, spurious: np.ndarray, warn: bool = False) -> tuple[np.ndarray, np.ndarray]:
        """As `UnionModel.posterior`, the mean over label sets that are drawn by the same probabilities."""
        n_classes = self.indicator.shape[1]
        model = UnionModel(n_classes, self.background, LabelNoise.of(0.0, spurious, len(spurious)))
        present = self.present(proba, spurious)
        log_likelihood, posterior = np.zeros(len(self.bags)), np.zeros(proba.shape)
        for number in range(N_DRAWS):
            sets = self.draw(present, model.noise)
            problem = model.problem(self.bags.offsets, sets, self.known)
            likelihoods, part = model.posterior(problem, proba.copy(), warn=warn and number == 0)
            log_likelihood += likelihoods / N_DRAWS
            posterior += part / N_DRAWS
        return log_likelihood, posterior
