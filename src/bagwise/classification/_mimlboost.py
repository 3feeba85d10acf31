"""MIMLBoost: boosting over (bag, label) pairs."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import numpy as np
from joblib import Parallel, delayed
from scipy.optimize import brentq
from sklearn.metrics.pairwise import rbf_kernel

from bagwise.classification._shared import TCriterionClassifier
from bagwise.core.bags import Bags
from bagwise.core.checks import check_allocation, check_choice, check_count, check_positive
from bagwise.core.fitted import ITERATED, Attribute, Number, Numbers
from bagwise.core.typing import BagsLike, LabelsLike, WeightsLike
from bagwise.kernels.smo import descend_pairs
from bagwise.solvers.support import row_blocks, support_rows

LABEL_CODINGS = ("separate", "feature")
TOLERANCE = 1e-3  # of the optimality conditions of a weak learner
MAX_STEPS = 10**8
LARGEST_VOTE = 10.0  # where every bag has the same error, no finite vote is best


class MIMLBoost(TCriterionClassifier):
    """MIBoosting over the pairs of a bag and a label, with Gaussian support vector machines as weak learners.

    Every bag X_i becomes one multi-instance example (X_i, l) for each label l, positive if the bag carries l. All pairs
    start with weight W_il = 1 / (n c), or in proportion to `sample_weight`. A round (MIBoosting of Xu and Frank 2004,
    table 1 of Zhou and Zhang 2007)

    1. gives every instance of a pair the pair's sign and weight W_il / n_i and trains h(x, l) in {-1, 1} on them,
    2. takes e_il, the share of the pair's instances that h gets wrong; if all e_il < 1/2 it stops,
    3. finds the vote v = argmin sum_il W_il exp((2 e_il - 1) v); if v <= 0 it stops,
    4. multiplies W_il by exp((2 e_il - 1) v) and makes the weights sum to one.

    The score of a bag is sum over rounds of v_t times the mean of h_t(x_j, l) over its instances; the labels with a
    score of zero or more are given, or the best one.

    Parameters
    ----------
    n_rounds : int, default=25
    C : float, default=1.0
        Of the weak learner; the bound of an instance is C times its weight relative to the mean weight.
    gamma : float, default=1.0
        Of its kernel exp(-gamma ||x - x'||^2), for features scaled to [0, 1].
    label_coding : {"separate", "feature"}, default="separate"
        How h sees the label. "separate": h(., l) is a machine of its own, trained on the pairs of l. "feature": one
        machine on all pairs, the number of the label, scaled to [0, 1], being one more feature of each instance, as in
        the authors' program.
    n_jobs : int or None
        Labels in parallel (threads) within a round; with ``label_coding="separate"``.

    Attributes
    ----------
    classes_ : (c,) array
    votes_ : (`n_iter_`,) array
        v of each round.
    support_instances_ : (s, d) array or CSR matrix
    dual_coef_, intercepts_ : (`n_iter_`, s, c) and (`n_iter_`, c) arrays
        h_t(x, l) is the sign of ``k(x, support_instances_) @ dual_coef_[t, :, l] + intercepts_[t, l]``.
    constant_ : (c,) array
        Score of a class that no bag or every bag carries, NaN for the others.
    n_iter_ : int
        Rounds kept.
    objective_history_ : (`n_iter_`,) array
        What the votes minimise, the mean over all pairs of exp(-(sign times score)), after every round.
    converged_ : bool
        True: the rounds are `n_rounds`, or as many as reduce the loss.
    gamma_ : float
        The gamma that the machines were trained with.

    Notes
    -----
    The weak learner is the papers' own, a support vector machine with Gaussian kernel. The authors' program draws a
    sample by the weights in every round; here the weights bound the dual variables, so that nothing is random. Separate
    machines are the default, the limit of a label feature that is wide apart: labels have no order, and c machines on m
    instances cost a c-th of one machine on m c, or less. Weights, votes and the stopping rule run over all pairs
    together as in the paper. Where the first round gets every pair right it is kept, with vote 1; the paper would be
    left without a learner.

    References
    ----------
    Z.-H. Zhou, M.-L. Zhang (2007): Multi-instance multi-label learning with application to scene classification. NIPS
    19, 1609-1616, algorithm MIMLBOOST. X. Xu, E. Frank (2004): Logistic regression and boosting for labeled bags of
    instances. PAKDD, 272-281.

    Examples
    --------
    >>> from bagwise.classification import MIMLBoost
    >>> from bagwise.datasets import make_gaussian_bags
    >>> data = make_gaussian_bags(n_bags=40, random_state=0)
    >>> MIMLBoost(n_rounds=5, gamma=0.1).fit(data.bags, data.Y).predict(data.bags).shape == data.Y.shape
    True
    """

    _kept_parameters = ("gamma",)
    _fitted: ClassVar[dict[str, Attribute]] = {
        "constant_": Numbers("classes", finite=False),
        "votes_": Numbers("rounds"),
        "intercepts_": Numbers("rounds", "classes"),
        "dual_coef_": Numbers("rounds", "support", "classes"),
        "support_instances_": Numbers("support", "features", sparse=True),
        "gamma_": Number(positive=True),
        **ITERATED,
    }

    def __init__(
        self,
        n_rounds: int = 25,
        *,
        C: float = 1.0,
        gamma: float = 1.0,
        label_coding: str = "separate",
        n_jobs: int | None = None,
    ):
        self.n_rounds = n_rounds
        self.C = C
        self.gamma = gamma
        self.label_coding = label_coding
        self.n_jobs = n_jobs

    def fit(self, X: BagsLike, y: LabelsLike | None = None, sample_weight: WeightsLike | None = None) -> MIMLBoost:
        """Learn from bags and their labels.

        Parameters
        ----------
        X : Bags, BagDataset, list of 2-d arrays or frames, 3-d array, 2-d array or frame
        y : (n, c) 0/1 matrix, list or series of label sets, (n,) class values, or BagDataset
            None: the labels of the `BagDataset` that is `X`.
        sample_weight : (n,) array or None
            The weights that a bag's pairs start with, relative to others; one of weight 0 is left out.
        """
        check_count(self, "n_rounds")
        check_positive(self, "C", "gamma")
        check_choice("label_coding", self.label_coding, LABEL_CODINGS)
        _, bags, indicator, given, self.constant_ = self._start_class_problems(X, y, sample_weight)
        learned = np.flatnonzero(np.isnan(self.constant_))
        m = bags.n_instances
        check_allocation(
            8 * m * (m + self.n_rounds * len(self.classes_)),
            f"MIMLBoost's kernel of {m} instances and its {self.n_rounds} rounds of weights",
            "train on fewer bags or lower n_rounds",
        )
        learners: list[Any] = []
        votes, losses = [1.0], [0.0]
        if len(learned):
            kernel = np.asarray(rbf_kernel(bags.instances, gamma=self.gamma), dtype=np.float64)
            numbers = learned / max(len(self.classes_) - 1, 1)
            learners, votes, losses = self._boost(kernel, bags, 2.0 * indicator[:, learned] - 1.0, given, numbers)
        coefficients = np.zeros((len(votes), m, len(self.classes_)))
        self.intercepts_ = np.zeros((len(votes), len(self.classes_)))
        for t, learner in enumerate(learners):
            coefficients[t, :, learned], self.intercepts_[t, learned] = learner.coefficients, learner.biases
        used = support_rows(coefficients.swapaxes(0, 1))
        self.support_instances_ = bags.instances[used]
        self.dual_coef_ = np.ascontiguousarray(coefficients[:, used])
        self.votes_, self.objective_history_ = np.asarray(votes), np.asarray(losses)
        self.n_iter_, self.converged_ = len(votes), True
        self._keep_parameters()
        return self

    def _boost(
        self, kernel: np.ndarray, bags: Bags, signs: np.ndarray, given: np.ndarray, numbers: np.ndarray
    ) -> tuple[list[_WeakLearner], list[float], list[float]]:
        """Weak learners of every round, the votes and the losses."""
        weights = np.tile(given[:, None], signs.shape[1]) / (given.sum() * signs.shape[1])
        n_pairs = signs.shape[1] * float(given @ bags.sizes)  # of instance and label, as often as they count
        targets = np.repeat(signs, bags.sizes, axis=0).T
        machines = _machines_of(self.label_coding, numbers, self.gamma)
        relative = np.zeros(targets.shape)  # the last round's coefficients as shares of their bounds
        learners: list[_WeakLearner] = []
        votes: list[float] = []
        losses: list[float] = []
        while len(votes) < self.n_rounds:
            bounds = np.repeat(weights / bags.sizes[:, None], bags.sizes, axis=0).T
            bounds *= self.C * n_pairs / bounds.sum()
            trained = Parallel(n_jobs=self.n_jobs, prefer="threads")(
                delayed(_train_weak_learner)(kernel, between, targets[rows], bounds[rows], relative[rows])
                for rows, between in machines
            )
            learner = _WeakLearner(*map(np.concatenate, zip(*trained, strict=True)))
            relative = learner.relative
            errors = np.add.reduceat(
                _weak_signs(learner.outputs.T) != targets.T, bags.offsets[:-1], axis=0, dtype=float
            )
            errors /= bags.sizes[:, None]
            perfect = bool(np.all(errors < 0.5))
            vote = 1.0 if perfect else _best_vote(weights, errors)
            if votes and (perfect or vote <= 0.0):
                break
            # a first learner that is no better than chance has a single vote all the same
            useless = vote <= 0.0
            vote = 1.0 if useless else vote
            weights = _reweight(weights, errors, vote)
            learners.append(learner)
            votes.append(vote)
            losses.append((losses[-1] if losses else 1.0) * float(np.sum(weights)))
            if perfect or useless:
                break
            weights /= weights.sum()
        return learners, votes, losses

    def _bag_scores(self, bags: Bags) -> np.ndarray:
        n_rounds, n_support, n_classes = self.dual_coef_.shape
        flat = self.dual_coef_.transpose(1, 0, 2).reshape(n_support, n_rounds * n_classes)
        scores = np.empty((bags.n_instances, n_classes))
        for rows in row_blocks(bags.n_instances, 8 * (2 * n_support + 2 * n_rounds * n_classes)):
            values = rbf_kernel(bags.instances[rows], self.support_instances_, gamma=self.gamma_) @ flat
            outputs = _weak_signs(values.reshape(-1, n_rounds, n_classes) + self.intercepts_)
            scores[rows] = np.einsum("t,itc->ic", self.votes_, outputs)
        means = np.add.reduceat(scores, bags.offsets[:-1], axis=0) / bags.sizes[:, None]
        return np.where(np.isnan(self.constant_), means, self.constant_)


def _machines_of(label_coding: str, numbers: np.ndarray, gamma: float) -> list[tuple[slice, np.ndarray]]:
    """The weak learners of a round: which labels each is for, and the kernel of those labels.

    `numbers` holds the (c,) feature that tells the labels apart. Where it is one more feature of the instances, the
    kernel of two pairs is k(x, x') exp(-gamma (number - number')^2).
    """
    if label_coding == "feature":
        return [(slice(None), np.exp(-gamma * (numbers[:, None] - numbers) ** 2))]
    return [(slice(label, label + 1), np.ones((1, 1))) for label in range(len(numbers))]


class _WeakLearner(NamedTuple):
    """A support vector machine for c labels.

    Its outputs for the m instances it was trained on are kernel @ coefficients[l] + biases[l].
    """

    coefficients: np.ndarray  # (c, m)
    biases: np.ndarray  # (c,)
    outputs: np.ndarray  # (c, m)
    relative: np.ndarray  # (c, m), the dual variables with their signs as shares of their bounds


def _train_weak_learner(
    kernel: np.ndarray, between: np.ndarray, targets: np.ndarray, bounds: np.ndarray, relative: np.ndarray
) -> _WeakLearner:
    """Train on the pairs of labels and instances, each dual variable being bounded by its own bound.

    Parameters
    ----------
    kernel, between : (m, m) and (c, c) arrays
        Kernel of the instances and of the labels; that of the pairs is their product.
    targets, bounds : (c, m) arrays
    relative : (c, m) array
        Of a machine trained with other bounds, where to start from; zeros for none.
    """
    if np.all(targets[bounds > 0] == targets[bounds > 0][0]):  # boosting has left one side only
        side = np.full(len(targets), targets[bounds > 0][0])
        nothing = np.zeros(targets.shape)
        return _WeakLearner(nothing, side, nothing + side[:, None], nothing)
    lower, upper = np.where(targets < 0, -bounds, 0.0), np.where(targets > 0, bounds, 0.0)
    dual = _balanced(relative * bounds)
    residuals = targets - between @ (dual @ kernel)
    descend_pairs(kernel, between, lower, upper, dual, residuals, TOLERANCE, MAX_STEPS)
    may_rise, may_fall = dual < upper, dual > lower
    free = may_rise & may_fall
    if free.any():
        bias = residuals[free].mean()
    else:
        bias = 0.5 * (residuals[may_rise].max() + residuals[may_fall].min())
    shares = np.divide(dual, bounds, out=np.zeros(dual.shape), where=bounds > 0)
    return _WeakLearner(between @ dual, np.full(len(targets), bias), targets - residuals + bias, shares)


def _balanced(dual: np.ndarray) -> np.ndarray:
    """The heavier side of the dual variables scaled down, so that they sum to zero."""
    positive, negative = dual[dual > 0].sum(), -dual[dual < 0].sum()
    side = dual > 0 if positive > negative else dual < 0
    heavier = max(positive, negative)
    return np.where(side, dual * (min(positive, negative) / heavier), dual) if heavier > 0 else dual


def _weak_signs(outputs: np.ndarray) -> np.ndarray:
    """-1 or 1; zero counts as 1."""
    return np.where(outputs >= 0, 1.0, -1.0)


def _best_vote(weights: np.ndarray, errors: np.ndarray) -> float:
    """The v >= 0 that minimises sum W exp((2 e - 1) v), a convex function; at most `LARGEST_VOTE`."""
    margins = 2.0 * errors - 1.0

    def slope(vote: float) -> float:
        return float(np.sum(weights * margins * np.exp(margins * vote)))

    if slope(0.0) >= 0.0:
        return 0.0
    if slope(LARGEST_VOTE) <= 0.0:
        return LARGEST_VOTE
    return float(brentq(slope, 0.0, LARGEST_VOTE, xtol=1e-12))


def _reweight(weights: np.ndarray, errors: np.ndarray, vote: float) -> np.ndarray:
    """Weights of the next round, whose sum is by how much this one multiplies the mean loss of all pairs."""
    return weights * np.exp((2.0 * errors - 1.0) * vote)
