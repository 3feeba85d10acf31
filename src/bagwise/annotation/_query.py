"""Which instances a person should be asked about first, so that the answers help most."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from bagwise.annotation._query_sets import SetQuestion
from bagwise.core.bags import Bags, as_bags, known_labels, offsets_of
from bagwise.core.checks import is_count
from bagwise.core.exceptions import InfeasibleBagWarning, InputError
from bagwise.core.validation import encode_labels
from bagwise.pipeline import bag_tags
from bagwise.union import MAX_EXACT_LABELS, UnionProblem, softmax_in_place

SHORTLIST = 1000  # instances that are compared with each other; the others follow by their own entropy
CHOSEN_ONE_BY_ONE = 200
NEIGHBOUR = 7  # the distance to this neighbour is the unit of likeness
NEGLIGIBLE = 1e-3  # answers less probable than this are not thought through
MOST_WORK = 1e7  # numbers looked at to see what answers settle in their bags: well below a second


def query_order(
    model: Any, bags: Any, Y: Any, known: Any = None, n: int = 50, *, noise: np.ndarray | None = None
) -> np.ndarray:
    """The instances that a person should be asked about, the most useful answer first.

    The use of an answer is what it is expected to settle, counted in entropy of class labels::

        use(i) = u_i (1 + sum_{j != i} B_ij w_j)  +  sum_{j in the bag of i, j != i} I(y_j ; y_i | labels of the bag).

    u_i is the entropy of the class of i, H(class | noise or not): the question whether an instance is noise is no part
    of it. B_ij in [0, 1] says how much alike two instances are, in their features and in the classes that they might
    be; what is learned of one holds for those like it once the model is fitted again. The last sum is what the union
    constraint passes on at once: if this one carries the label, the others need not. It is computed exactly.

    The first 200 are chosen one by one. Choosing i takes the share B_ij from w_j (u_j at first) and B_ij^2 from all
    that an answer about j is worth, so that near-duplicates are worth nothing any more, and halves the last sum in its
    bag.

    Parameters
    ----------
    model : fitted annotator or pipeline
        Without probabilities its scores are turned into some (softmax, the median margin being the unit), and nothing
        is passed on within bags.
    bags : Bags, or any other form of them
    Y : (n, c) 0/1 matrix, list of label sets or None
        Labels of the bags, in a list None for a bag that nobody labelled; None: nobody labelled any. Labels that the
        model does not know are left out.
    known : Bags of int or None
        Index into ``classes_`` of the instances whose label is known, -1 elsewhere, -2 for one that is known to be
        noise. Known instances do not come. Where an instance may carry any number of labels: (m, c) 1 for a label that
        it carries, 0 for one that it does not, NaN where that is not known; entropies are then those of label sets.
    n : int, default=50
        How many; fewer come where fewer are not known.
    noise : (m,) array of bool or None
        More instances that are known to be of none of the model's classes. They do not come either, and no label of
        their bag is theirs.

    Returns
    -------
    (n,) array of int64
        Rows of the instances, counted through all bags.

    Examples
    --------
    >>> from bagwise import ORedLogisticRegression
    >>> from bagwise.annotation import query_order
    >>> from bagwise.datasets import make_gaussian_bags
    >>> data = make_gaussian_bags(n_bags=60, random_state=0)
    >>> model = ORedLogisticRegression().fit(data.bags, data.Y)
    >>> query_order(model, data.bags, data.Y, n=5).shape
    (5,)
    """
    if not is_count(n):
        raise InputError(f"n={n!r}; expected how many instances to ask about, a whole number, 1 or more.")
    if not hasattr(model, "find"):
        raise InputError(f"{type(model).__name__} does not annotate instances, so none can be asked about.")
    bags = as_bags(bags)
    question: _Question | SetQuestion
    if bag_tags(model).label_sets:
        indicator, labelled = _encode(Y, np.asarray(model.classes_), len(bags))
        question = SetQuestion.of(model, bags, indicator, labelled, known, noise)
    else:
        question = _Question.of(model, bags, Y, known, noise)
    use = question.entropy()
    rank = np.argsort(-use, kind="stable")
    rank = rank[~question.answered[rank]]
    short = rank[:SHORTLIST]
    short = short[use[short] > 0]
    if len(short):
        first = _choose(
            use[short],
            question.passed_on(short),
            _novelty(bags.instances, short),
            question.overlap(short),
            bags.bag_index[short],
            min(n, CHOSEN_ONE_BY_ONE),
        )
        rank = np.concatenate([short[first], rank[len(short) :]])
    return rank[:n].astype(np.int64)


# ---------------------------------------------------------------------------------------------------------------------
# What the model knows


@dataclass(frozen=True)
class _Question:
    """What the model says of the instances, and what people said.

    Attributes
    ----------
    bags : Bags
    indicator : (n, c) 0/1 array
    listed : (n,) bool
        Bags whose labels count.
    known : (m,) int64
        Class index, -1 where it is not known.
    noise : (m,) bool
    prior : (m, c) or (m, c + 1) array or None
        Probabilities from the features alone, the background's last where there is one; None where there are none.
    posterior : (m, c) array
        Probabilities of the classes given all that is known.
    """

    bags: Bags
    indicator: np.ndarray
    listed: np.ndarray
    known: np.ndarray
    noise: np.ndarray
    prior: np.ndarray | None
    posterior: np.ndarray

    @classmethod
    def of(cls, model: Any, bags: Bags, Y: Any, known: Any, noise: Any) -> _Question:
        classes, m = np.asarray(model.classes_), bags.n_instances
        codes = known_labels(known, bags.offsets, len(classes), background=True)
        codes = np.full(m, -1) if codes is None else codes
        unasked = np.zeros(m, dtype=bool) if noise is None else np.asarray(noise)
        if unasked.shape != (m,) or unasked.dtype != bool:
            raise InputError(
                f"noise has shape {unasked.shape} and type {unasked.dtype}; expected one bool for each of the {m} "
                "instances."
            )
        unasked = unasked | (codes == len(classes))
        codes = np.where(unasked, -1, codes)
        alone = model.find(bags)
        indicator, listed = _encode(Y, classes, len(bags))
        listed &= indicator.any(axis=1) | (alone.background is not None)
        if alone.proba is None:
            posterior = _proba_of_scores(model.instance_decision_function(bags), bags, indicator, listed)
            return cls(bags, indicator, listed, codes, unasked, None, posterior)
        posterior = np.maximum(alone.proba, 0.0)
        rows = np.flatnonzero(listed[bags.bag_index] & ~unasked)
        if len(rows):
            index, sizes = np.unique(bags.bag_index[rows], return_counts=True)
            offsets = offsets_of(sizes)
            known_ones = Bags(codes[rows], offsets) if np.any(codes[rows] >= 0) else None
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", InfeasibleBagWarning)  # the fit has named such bags
                found = model.find(Bags(bags.instances[rows], offsets), indicator[index], known_ones)
            posterior[rows] = np.maximum(found.proba, 0.0)
        prior = alone.proba if alone.background is None else np.column_stack([alone.proba, alone.background])
        return cls(bags, indicator, listed, codes, unasked, np.maximum(prior, 0.0), posterior)

    @property
    def answered(self) -> np.ndarray:
        """(m,) instances of which a person said what they are."""
        return self.noise | (self.known >= 0)

    def entropy(self) -> np.ndarray:
        """(m,) entropy of the class, zero where it is known."""
        return np.where(self.answered, 0.0, class_entropy(self.posterior))

    def overlap(self, rows: np.ndarray) -> np.ndarray:
        """(k, k) how much alike the classes are that two instances might be."""
        return _overlap(self.posterior[rows])

    def passed_on(self, rows: np.ndarray) -> np.ndarray:
        """(len(rows),) what an answer about each of these is expected to settle of the others in its bag."""
        settled = np.zeros(len(rows))
        if self.prior is None:
            return settled
        bag_of, n_labels = self.bags.bag_index, self.indicator.sum(axis=1)
        work = self.bags.sizes * (n_labels + 1.0) * (self.prior.shape[1] + 2.0 ** np.minimum(n_labels, 60))
        in_time = np.cumsum(work[bag_of[rows]]) <= MOST_WORK
        fits = self.listed & (n_labels > 0) & (n_labels <= MAX_EXACT_LABELS)
        chosen = np.flatnonzero(in_time & fits[bag_of[rows]])
        if len(chosen):
            settled[chosen] = information_in_bags(
                self.prior, self.bags.offsets, self.indicator, rows[chosen],
                known=self.known, left_out=self.noise,
            )  # fmt: skip
        return settled


def _encode(Y: Any, classes: np.ndarray, n_bags: int) -> tuple[np.ndarray, np.ndarray]:
    """Indicator matrix, and (n,) which bags somebody labelled."""
    if Y is None:
        return np.zeros((n_bags, len(classes)), dtype=np.uint8), np.zeros(n_bags, dtype=bool)
    listed = np.ones(n_bags, dtype=bool)
    if isinstance(Y, (list, tuple)) and len(Y) == n_bags and any(labels is None for labels in Y):
        listed = np.array([labels is not None for labels in Y])
        Y = [set() if labels is None else set(labels) for labels in Y]
    return encode_labels(Y, classes, n_bags, drop_unknown=True), listed


def _proba_of_scores(scores: np.ndarray, bags: Bags, indicator: np.ndarray, listed: np.ndarray) -> np.ndarray:
    """Softmax of the scores of the classes that each instance may have; the unit is the median margin."""
    allowed = np.repeat(np.where(listed[:, None], indicator, 1), bags.sizes, axis=0) == 1
    scores = np.where(allowed, scores, -np.inf)
    if scores.shape[1] > 1:
        best = np.partition(scores, -2, axis=1)
        margin = best[:, -1] - best[:, -2]
        margin = margin[np.isfinite(margin) & (margin > 0)]
        scores = scores / (np.median(margin) if len(margin) else 1.0)
    scores = np.ascontiguousarray(np.where(allowed, scores, -1e300), dtype=np.float64)
    softmax_in_place(scores)
    return scores


# ---------------------------------------------------------------------------------------------------------------------
# What an answer settles


def class_entropy(proba: np.ndarray) -> np.ndarray:
    """(m,) entropy in nats of the class where an instance has one: H(class | noise or not).

    Rows of `proba` sum to one less the probability of noise, s; this is s times the entropy of the row divided by s.
    """
    total = proba.sum(axis=1, keepdims=True)
    ratio = np.divide(proba, total, out=np.ones_like(proba), where=(proba > 0) & (total > 0))
    return -np.sum(proba * np.log(ratio), axis=1)


def information_in_bags(
    prior: np.ndarray,
    offsets: np.ndarray,
    indicator: np.ndarray,
    rows: np.ndarray,
    *,
    known: np.ndarray,
    left_out: np.ndarray,
) -> np.ndarray:
    """(len(rows),) sum over the others of the bag of I(class of the other ; answer | labels of the bag), in nats.

    Each possible answer is tried: union inference in a copy of the bag in which that instance is known.

    Parameters
    ----------
    prior : (m, c) or (m, c + 1) array
        Probabilities from the features alone; with one column more than `indicator` the last is the background's.
    offsets, indicator : the bags and their labels
    rows : array of int
        Instances in question, none of them known or left out.
    known : (m,) array of class indices, -1 where unknown
    left_out : (m,) array of bool
        Instances that are no part of their bag.
    """
    n_classes = indicator.shape[1]
    column = n_classes if prior.shape[1] > n_classes else None
    if column is not None:
        indicator = np.hstack([indicator, np.zeros((len(indicator), 1), indicator.dtype)])
    kept = np.flatnonzero(~left_out)
    bag_of = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))[kept]
    present, sizes = np.unique(bag_of, return_counts=True)
    place = np.full(len(left_out), -1)
    place[kept] = np.arange(len(kept))
    starts = offsets_of(sizes)
    posterior = _infer(prior[kept], starts, indicator[present], column, known[kept])
    before = class_entropy(posterior[:, :n_classes])
    in_bag = np.add.reduceat(before, starts[:-1])

    asked = place[rows]
    which, answer = np.nonzero(posterior[asked] > NEGLIGIBLE)  # NaN, a bag that cannot be explained, is not
    settled = np.zeros(len(rows))
    if not len(which):
        return settled
    bag = np.searchsorted(present, bag_of[asked[which]])
    copies = offsets_of(sizes[bag])
    copied = np.arange(copies[-1]) + np.repeat(starts[bag] - copies[:-1], sizes[bag])
    labels = known[kept][copied]
    own = copies[:-1] + asked[which] - starts[bag]
    labels[own] = answer
    after = class_entropy(_infer(prior[kept][copied], copies, indicator[present[bag]], column, labels)[:, :n_classes])
    after[own] = 0.0
    left = np.add.reduceat(after, copies[:-1])
    weight = np.where(np.isfinite(left), posterior[asked[which], answer], 0.0)  # NaN: possible by rounding only
    expected = np.bincount(which, weight * np.nan_to_num(left), minlength=len(rows))
    total = np.bincount(which, weight, minlength=len(rows))
    bag = np.searchsorted(present, bag_of[asked])
    possible = total > 0
    settled[possible] = (in_bag[bag] - before[asked])[possible] - (expected[possible] / total[possible])
    return np.maximum(np.nan_to_num(settled), 0.0)


def _infer(
    prior: np.ndarray, offsets: np.ndarray, indicator: np.ndarray, background: int | None, known: np.ndarray
) -> np.ndarray:
    """Posterior given the labels of the bags; NaN in a bag that cannot be explained."""
    posterior = np.ascontiguousarray(prior, dtype=np.float64).copy()
    problem = UnionProblem.build(offsets, indicator, background, known)
    problem.infer_in_place(posterior, softmax=False, residual=False)
    return posterior


# ---------------------------------------------------------------------------------------------------------------------
# Who is alike, and who is chosen


def _novelty(instances: Any, rows: np.ndarray) -> np.ndarray:
    """(k, k) exp(-d^2 / 2 h^2) of standardised features, h the median distance to the seventh neighbour.

    Sparse features are not centred, which would fill them, but brought to length one.
    """
    if sp.issparse(instances):
        X = instances[rows].astype(np.float64)
        length = np.sqrt(np.asarray(X.multiply(X).sum(axis=1)).ravel())
        X = sp.diags(1.0 / np.where(length > 0, length, 1.0)) @ X
        gram = (X @ X.T).toarray()
    else:
        deviation = instances.std(axis=0)
        X = (instances[rows] - instances.mean(axis=0)) / np.where(deviation > 0, deviation, 1.0)
        gram = X @ X.T
    length = np.diag(gram)
    distance = np.maximum(length[:, None] + length - 2 * gram, 0.0)
    unit = np.median(np.partition(distance, min(NEIGHBOUR, len(rows) - 1), axis=1)[:, min(NEIGHBOUR, len(rows) - 1)])
    return np.exp(-distance / (2 * unit)) if unit > 0 else (distance == 0).astype(np.float64)


def _overlap(proba: np.ndarray) -> np.ndarray:
    """(k, k) Bhattacharyya coefficient of the classes that two instances might be: 1 same, 0 none shared."""
    total = proba.sum(axis=1, keepdims=True)
    root = np.sqrt(np.divide(proba, total, out=np.zeros_like(proba), where=total > 0))
    return root @ root.T


def _choose(
    entropy: np.ndarray, passed_on: np.ndarray, novelty: np.ndarray, overlap: np.ndarray, bag: np.ndarray, n: int
) -> np.ndarray:
    """Order of the shortlist: the first `n` one by one, each in view of those before it, the rest by what is left."""
    alike = novelty * overlap
    np.fill_diagonal(alike, 1.0)
    entropy, passed_on, open_entropy = entropy.copy(), passed_on.copy(), entropy.copy()
    taken = np.zeros(len(entropy), dtype=bool)
    order: list[int] = []
    for _ in range(min(n, len(entropy))):
        use = entropy * (1.0 + alike @ open_entropy - open_entropy) + passed_on
        i = int(np.argmax(np.where(taken, -1.0, use)))
        order.append(i)
        taken[i] = True
        open_entropy *= 1.0 - alike[i]
        entropy *= 1.0 - alike[i] ** 2  # a near-duplicate is as good as answered, one that is half alike is not
        passed_on *= np.where(bag == bag[i], 0.5, 1.0 - alike[i] ** 2)
    use = entropy * (1.0 + alike @ open_entropy - open_entropy) + passed_on
    rest = np.argsort(-use, kind="stable")
    return np.concatenate([np.array(order, dtype=np.int64), rest[~taken[rest]]])
