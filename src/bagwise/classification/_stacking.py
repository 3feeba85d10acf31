"""A stacked learner of label sets: several annotators, and statistics of the bag as a whole."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
from joblib import Parallel, delayed
from scipy.optimize import minimize
from scipy.special import expit, logit, softmax
from sklearn.base import clone
from sklearn.model_selection import KFold
from sklearn.utils import check_random_state

from bagwise.core.backends import MEMBERS
from bagwise.core.bags import Bags
from bagwise.core.base import BagClassifierMixin, BagEstimator
from bagwise.core.checks import check_count, check_max_features, check_that, is_count
from bagwise.core.exceptions import InfeasibleBagWarning, InputError
from bagwise.core.fitted import Attribute, Either, ListOf, Maybe, Number, Numbers, Part, n_outputs
from bagwise.core.typing import BagsLike, LabelsLike, Seed, WeightsLike
from bagwise.kernels.forest import FITTED as FOREST
from bagwise.kernels.forest import FITTED_SECOND as SECOND_FOREST
from bagwise.kernels.forest import Forest
from bagwise.pipeline import bag_tags, final_step, fit_parameters
from bagwise.preprocessing import BagStatistics
from bagwise.preprocessing.bag_trees import SMALLEST, BagTrees, bag_summaries, forest_logit, table_of
from bagwise.solvers import minimize_lbfgs

LARGEST_SCORE = 30.0
OWN_SCALES = (0.1, 0.3, 1.0)
STATISTICS_FEATURES = "sqrt"  # tried at every split by the trees that see statistics alone: scikit-learn's default
POOL_PENALTY = 1e-3  # keeps the weights of learners that agree near each other


class BagStack(BagClassifierMixin, BagEstimator):
    """Label sets of bags from the probabilities that annotators give their instances, and from statistics of the bag.

    1. Every member is cross-fitted: the bags are split into folds, and the instances of a fold are predicted by a copy
       that was trained on the other folds. So the predictions that the next steps learn from are like those for new
       bags.
    2. For a bag and a label each member gives five numbers: the largest and the second probability among the instances,
       that of the union, 1 - prod_i (1 - p_i), the sum, and how many instances have the label as their most probable.
    3. Three learners take them. A *logistic regression* sees the numbers of its own label; its weights are those of
       all labels together plus a part of the label's own, so that a rare label shares those of the others.
       *Extremely randomised trees*, each on a bootstrap sample of the bags, see the numbers of all labels and the mean,
       maximum, minimum and deviation of the features, and predict all labels at once, so that they learn which labels
       occur together. Other such trees see these *statistics* alone, for bags that the members have little to say of.
    4. All are pooled, sigmoid(b + sum_k w_k logit p_k) with w >= 0, by the likelihood of the label sets under
       probabilities that were predicted without the bag (by the other folds; by trees whose sample lacks it). This both
       weighs and calibrates, so that predicting a label where its probability is above one half minimises the expected
       Hamming loss.

    Parameters
    ----------
    members : list of estimators or None
        Annotators with probabilities, or pipelines that end in one. None: two, a kernel model and a forest
        (`bagwise.catalog.stack_members`); ``make_model("bag-stack")`` has them too, and reduces sparse features first.
    cv : int, default=5
        Folds of the cross-fit; the members are fitted once more than that.
    n_estimators : int, default=300
        Trees.
    max_features : {"sqrt", "log2"}, int, float or None, default=0.2
        Features tried at every split, as in scikit-learn's trees.
    statistics : tuple of str, default=("mean", "max", "min", "deviation")
        Of the features, for the trees; None or an empty tuple for none.
    n_jobs : int or None
        Trees and folds in parallel (threads).
    random_state : int, RandomState or None
        Of the folds and the trees; the members have their own.

    Attributes
    ----------
    classes_ : (c,) array
    members_ : list of estimators
        Fitted on all bags.
    logistic_coef_, logistic_intercept_ : (c, 5 k) and (c,) arrays
        Of the logistic regression, on the five numbers (`bag_summaries`) of each of the k members.
    own_scale_ : float
        How far the weights of labels may differ, chosen by the folds' likelihood.
    forest_ : tuple of arrays
        See `bagwise.kernels.forest.Forest`.
    statistics_forest_ : tuple of arrays or None
        Trees that see statistics alone: to judge them they grow on bootstrap samples, to predict on all bags.
    pool_coef_, pool_intercept_ : (2,) or (3,) array and float
        w, of the logistic regression and of the trees, of statistics last, and b.
    log_likelihood_ : float
        Of the label sets, per pair of bag and label, under pooled probabilities that were predicted without the bag.

    Notes
    -----
    Not from the papers; docs/bag-level.md has the figures. Where bags have one label each ((n,) values), the
    probabilities of the labels are scaled to sum to one.

    References
    ----------
    D. H. Wolpert (1992): Stacked generalization. Neural Networks 5, 241-259.
    P. Geurts, D. Ernst, L. Wehenkel (2006): Extremely randomized trees. Machine Learning 63, 3-42.

    Examples
    --------
    >>> from bagwise.annotation import ORedForest, ORedLogisticRegression
    >>> from bagwise.datasets import make_gaussian_bags
    >>> from bagwise.classification import BagStack
    >>> data = make_gaussian_bags(n_bags=60, random_state=0)
    >>> forest = ORedForest(20, n_rounds=2, n_round_trees=20, random_state=0)
    >>> model = BagStack([ORedLogisticRegression(), forest], n_estimators=50, random_state=0).fit(data.bags, data.Y)
    >>> model.predict_proba(data.bags).shape == data.Y.shape
    True
    """

    forest_: tuple[Any, ...]
    _fitted: ClassVar[dict[str, Attribute]] = {
        "members_": ListOf(Part("predict_instances_proba"), "members"),
        "statistics_": Either(None, Part("transform")),
        "own_scale_": Number(),
        "logistic_coef_": Numbers("classes", "5*members"),
        "logistic_intercept_": Numbers("classes"),
        "forest_": FOREST,
        "statistics_forest_": Maybe(Either(None, SECOND_FOREST)),
        "prior_": Numbers("classes", low=0, high=1),
        "log_likelihood_": Number(),
        "pool_coef_": Numbers("learners"),
        "pool_intercept_": Number(),
    }

    def _check_fitted(self) -> None:
        super()._check_fitted()
        n_classes, forest = len(self.classes_), Forest(*self.forest_)
        for member in self.members_:
            if not isinstance(final_step(member), BagEstimator) or len(final_step(member).classes_) != n_classes:
                raise InputError("BagStack.members_ know other classes than the stack; fit it again")
        if self.statistics_ is not None and not isinstance(self.statistics_, BagStatistics):
            raise InputError("BagStack.statistics_ is no BagStatistics; fit it again")
        statistics = 0 if self.statistics_ is None else n_outputs(self.statistics_)
        forest.check(5 * len(self.members_) * n_classes + 1 + statistics)
        forests = [forest]
        if self._statistics_forest is not None:
            forests.append(self._statistics_forest)
            forests[-1].check(statistics)
        for trees in forests:
            if trees.n_columns != n_classes:
                raise InputError(f"BagStack has trees with leaves of {trees.n_columns} classes; fit it again")
        if len(self.pool_coef_) != 1 + len(forests):
            raise InputError(f"BagStack.pool_coef_ is not of {1 + len(forests)} learners; fit it again")

    def __init__(
        self,
        members: Sequence[Any] | None = None,
        *,
        cv: int = 5,
        n_estimators: int = 300,
        max_features: str | int | float | None = 0.2,
        statistics: Any = ("mean", "max", "min", "deviation"),
        n_jobs: int | None = None,
        random_state: Seed = None,
    ):
        self.members = members
        self.cv = cv
        self.n_estimators = n_estimators
        self.max_features = max_features
        self.statistics = statistics
        self.n_jobs = n_jobs
        self.random_state = random_state

    # -- fit ----------------------------------------------------------------------------------------------------------

    def fit(self, X: BagsLike, y: LabelsLike | None = None, sample_weight: WeightsLike | None = None) -> BagStack:
        """Learn from bags and their labels.

        Parameters
        ----------
        X : Bags, BagDataset, list of 2-d arrays or frames, 3-d array, 2-d array or frame
        y : (n, c) 0/1 matrix, list or series of label sets, (n,) class values, or BagDataset
            None: the labels of the `BagDataset` that is `X`.
        sample_weight : (n,) array or None
            Weight of each bag in the members, the logistic regressions and the trees; one of weight 0 is left out.
        """
        check_count(self, "n_estimators")
        check_max_features(self)
        check_that(self, "cv", lambda value: is_count(value) and value >= 2, "a whole number, 2 or more")
        members = MEMBERS["BagStack"]() if self.members is None else self.members
        self._check_members(members)
        bags, indicator, given = self._start_weighted_fit(X, y, sample_weight)
        if len(bags) < 2:
            raise InputError("BagStack cross-fits its members, so it needs 2 bags or more; there is 1 sample.")
        rng = check_random_state(self.random_state)
        folds = KFold(min(self.cv, len(bags)), shuffle=True, random_state=rng.randint(np.iinfo(np.int32).max))
        splits = list(folds.split(np.zeros(len(bags))))
        if not all(indicator[train].any() for train, _ in splits):
            raise InputError(
                f"{int(indicator.any(axis=1).sum())} of {len(bags)} bags carry labels, and they are all in one fold of "
                "the cross-fit, so that the members have nothing to learn from without it; label more bags."
            )
        self.statistics_ = BagStatistics(self.statistics).fit(bags) if self.statistics else None
        self.members_ = [_fit_weighted(member, bags, indicator, given) for member in members]
        posteriors = (_cross_posteriors(m, bags, indicator, splits, self.n_jobs, given) for m in members)
        summaries = _summaries(posteriors, bags)
        targets, counts = indicator.astype(np.float64), np.ones(len(bags)) if given is None else given
        features = _transformed(summaries)
        self.own_scale_, by_logistic = _choose_own_scale(features, targets, splits, counts)
        fitted = _SharedLogistic.fit(features, targets, self.own_scale_, counts)
        self.logistic_coef_, self.logistic_intercept_ = fitted
        grown = BagTrees.grow(
            self._table(bags, summaries), targets, counts, self.n_estimators, self.max_features, self.n_jobs, rng
        )
        self.forest_, self.prior_ = tuple(Forest.of_regression(grown.trees)), grown.prior
        judged = [by_logistic, grown.held_out]
        self.statistics_forest_ = None
        if self.statistics_ is not None:
            statistics = self.statistics_.transform(bags)
            settings = counts, self.n_estimators, STATISTICS_FEATURES, self.n_jobs, rng
            judged.append(BagTrees.grow(statistics, targets, *settings).held_out)
            trees = BagTrees.grow(statistics, targets, *settings, whole=True).trees
            self.statistics_forest_ = tuple(Forest.of_regression(trees))
        logits = np.stack(judged, axis=2)
        weights, self.log_likelihood_ = _pool_weights(logits, targets, counts)
        self.pool_coef_, self.pool_intercept_ = weights[:-1], float(weights[-1])
        return self

    def _check_members(self, members: Any) -> None:
        if isinstance(members, str) or not isinstance(members, Sequence) or not len(members):
            raise InputError(
                "The 'members' parameter of BagStack must be None or a list of annotators, at least one. "
                f"Got {members!r}."
            )
        for member in members:
            if not hasattr(member, "predict_instances_proba"):
                raise InputError(
                    f"{type(member).__name__} gives no probabilities for instances, so BagStack cannot use it; "
                    "use ORedLogisticRegression or ORedForest, or a bagwise.make_pipeline that ends in one."
                )

    @property
    def _statistics_forest(self) -> Forest | None:
        """The trees that see statistics alone; models of earlier versions have none."""
        arrays = getattr(self, "statistics_forest_", None)
        return None if arrays is None else Forest(*arrays)

    def _table(self, bags: Bags, summaries: np.ndarray) -> Any:
        return table_of(bags, summaries, None if self.statistics_ is None else self.statistics_.transform(bags))

    # -- predict ------------------------------------------------------------------------------------------------------

    def _bag_scores(self, bags: Bags) -> np.ndarray:
        """(n, c) logits of the pooled probabilities."""
        summaries = _summaries((member.predict_instances_proba(bags) for member in self.members_), bags)
        by_logistic = _SharedLogistic(self.logistic_coef_, self.logistic_intercept_).logits(_transformed(summaries))
        by_trees = forest_logit(Forest(*self.forest_), self._table(bags, summaries), self.prior_)
        logits = [by_logistic, by_trees]
        if self._statistics_forest is not None and self.statistics_ is not None:
            logits.append(forest_logit(self._statistics_forest, self.statistics_.transform(bags), self.prior_))
        pooled = np.stack(logits, axis=2) @ self.pool_coef_ + self.pool_intercept_
        return np.clip(pooled, -LARGEST_SCORE, LARGEST_SCORE)

    def predict_proba(self, X: BagsLike) -> np.ndarray:
        """(n, c) probability that each label is among the bag's.

        After a fit on (n,) values, where each bag has exactly one label, the probability of that label: given that
        there is just one, in proportion to the odds, p_c times 1 - p_k of all the others.
        """
        scores = self._bag_scores(self._start_predict_bags(X))
        return softmax(scores, axis=1) if self.single_label_ else expit(scores)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.non_deterministic = self.random_state is None
        members = self.members if isinstance(self.members, Sequence) else ()
        tags.bag_tags.sample_weight = all(bag_tags(member).sample_weight for member in members)
        return tags


# ---------------------------------------------------------------------------------------------------------------------
# The members' probabilities


def _fit_weighted(member: Any, bags: Bags, indicator: np.ndarray, weights: np.ndarray | None) -> Any:
    """A copy of the member fitted on bags, with their weights where there are some."""
    if weights is None:
        return clone(member).fit(bags, indicator)
    if not bag_tags(member).sample_weight:
        raise InputError(f"{type(final_step(member)).__name__} takes no sample_weight; fit the stack without weights.")
    return clone(member).fit(bags, indicator, **fit_parameters(member, sample_weight=weights))


def _cross_posteriors(
    member: Any,
    bags: Bags,
    indicator: np.ndarray,
    splits: Sequence[Any],
    n_jobs: int | None = None,
    weights: np.ndarray | None = None,
) -> np.ndarray:
    """(m, c) probabilities of every instance by a copy of the member that has seen none of its fold's bags."""

    def predict(train: np.ndarray, held_out: np.ndarray) -> np.ndarray:
        counts = None if weights is None else weights[train]
        return _fit_weighted(member, bags[train], indicator[train], counts).predict_instances_proba(bags[held_out])

    proba = np.empty((bags.n_instances, indicator.shape[1]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InfeasibleBagWarning)  # the fit on all bags has warned
        parts = Parallel(n_jobs=n_jobs, prefer="threads")(delayed(predict)(*split) for split in splits)
    for (_, held_out), part in zip(splits, parts, strict=True):
        proba[np.isin(bags.bag_index, held_out)] = (
            part  # KFold gives a fold's bags in order, so their instances are too
        )
    return proba


def _summaries(probabilities: Iterable[np.ndarray], bags: Bags) -> np.ndarray:
    """(n, c, 5 k) what k members say of bags and labels."""
    return np.concatenate([bag_summaries(proba, bags) for proba in probabilities], axis=2)


def _transformed(summaries: np.ndarray) -> np.ndarray:
    """For the logistic regression: logits of the probabilities, logarithms of the sum and the number."""
    parts = summaries.reshape(*summaries.shape[:2], -1, 5)
    out = np.empty(parts.shape)
    out[..., :3] = logit(np.clip(parts[..., :3], SMALLEST, 1.0 - SMALLEST))
    out[..., 3] = np.log(parts[..., 3] + 1e-3)
    out[..., 4] = np.log1p(parts[..., 4])
    return out.reshape(summaries.shape)


# ---------------------------------------------------------------------------------------------------------------------
# The two logistic regressions: on the numbers of a label, and of the logits of all learners


class _SharedLogistic(NamedTuple):
    """One logistic regression per label, whose weights are those of all labels plus a part of its own.

    With z standardised over all pairs of bag and label, the logit of label l is z . (u + s v_l) + a + s b_l; they
    minimise the summed negative log-likelihood of all pairs plus half of the squared norm of u, v and b. A small s
    (`own_scale`) makes all labels use the same weights.

    Attributes
    ----------
    coef : (c, k) array
        On features as they are, not standardised.
    intercept : (c,) array
    """

    coef: np.ndarray
    intercept: np.ndarray

    @classmethod
    def fit(cls, features: np.ndarray, targets: np.ndarray, own_scale: float, counts: np.ndarray) -> _SharedLogistic:
        """From (n, c, k) features and (n, c) zeros and ones; `counts` (n,) say how often each bag counts."""
        n_classes, n_features = features.shape[1:]
        mean = np.average(features.mean(axis=1), axis=0, weights=counts)
        deviation = np.sqrt(np.average(((features - mean) ** 2).mean(axis=1), axis=0, weights=counts))
        deviation = np.where(deviation > 0, deviation, 1.0)
        z = np.ascontiguousarray(((features - mean) / deviation).transpose(1, 0, 2))  # one block per label
        truth = targets.T

        def weights_of(flat: np.ndarray) -> np.ndarray:
            """(c, k + 1), the intercepts last."""
            own = flat[n_features + 1 :].reshape(n_classes, n_features + 1)
            return flat[: n_features + 1] + own_scale * own

        def objective(flat: np.ndarray) -> tuple[float, np.ndarray]:
            weights = weights_of(flat)
            scores = np.matmul(z, weights[:, :-1, None])[:, :, 0] + weights[:, -1:]
            residual = counts * (expit(scores) - truth)
            by_label = np.column_stack([np.matmul(residual[:, None, :], z)[:, 0, :], residual.sum(axis=1)])
            penalised = flat.copy()
            penalised[n_features] = 0.0  # the intercept of all labels is free
            value = np.sum(counts * (np.logaddexp(0.0, scores) - truth * scores)) + 0.5 * penalised @ penalised
            return float(value), np.concatenate([by_label.sum(axis=0), own_scale * by_label.ravel()]) + penalised

        start = np.zeros((n_classes + 1) * (n_features + 1))
        weights = weights_of(minimize_lbfgs(objective, start, max_iter=500, tol=1e-5).weights)
        coef = weights[:, :-1] / deviation
        return cls(coef, weights[:, -1] - coef @ mean)

    def logits(self, features: np.ndarray) -> np.ndarray:
        """(n, c) from (n, c, k)."""
        return np.einsum("nck,ck->nc", features, self.coef) + self.intercept


def _choose_own_scale(
    features: np.ndarray, targets: np.ndarray, splits: Sequence[Any], counts: np.ndarray
) -> tuple[float, np.ndarray]:
    """The `own_scale` of the greatest held-out likelihood, and the (n, c) held-out logits under it."""
    held_out_logits = {}
    for own_scale in OWN_SCALES:
        logits = np.empty(targets.shape)
        for train, held_out in splits:
            model = _SharedLogistic.fit(features[train], targets[train], own_scale, counts[train])
            logits[held_out] = model.logits(features[held_out])
        held_out_logits[own_scale] = logits
    best = max(OWN_SCALES, key=lambda scale: _mean_log_likelihood(held_out_logits[scale], targets, counts))
    return best, held_out_logits[best]


def _mean_log_likelihood(logits: np.ndarray, targets: np.ndarray, weights: np.ndarray) -> float:
    """Of zeros and ones, per pair of bag and label; `weights` are those of rows."""
    values = targets * logits - np.logaddexp(0.0, logits)
    return float(np.average(values, axis=0, weights=weights).mean())


def _pool_weights(logits: np.ndarray, targets: np.ndarray, counts: np.ndarray) -> tuple[np.ndarray, float]:
    """Non-negative weights of the learners and an intercept that make the targets most likely, and that likelihood.

    Parameters
    ----------
    logits : (n, c, k) array
        Predicted without the bag.
    targets : (n, c) array of 0 and 1
    counts : (n,) array
        How often each bag counts.

    Returns
    -------
    (k + 1,) array, the intercept last, and the mean log-likelihood per pair.
    """
    k = logits.shape[2]
    design = np.column_stack([logits.reshape(-1, k), np.ones(targets.size)])
    truth = targets.ravel()
    shares = np.repeat(counts, targets.shape[1])
    shares = shares / shares.sum()
    start = np.append(np.full(k, 1.0 / k), 0.0)

    def objective(weights: np.ndarray) -> tuple[float, np.ndarray]:
        scores = design @ weights
        away = weights - start
        value = -_mean_log_likelihood(scores, truth, shares) + 0.5 * POOL_PENALTY * away @ away
        return value, design.T @ (shares * (expit(scores) - truth)) + POOL_PENALTY * away

    bounds = [(0.0, None)] * k + [(None, None)]
    weights = minimize(objective, start, jac=True, method="L-BFGS-B", bounds=bounds, options={"gtol": 1e-8}).x
    return weights, _mean_log_likelihood(design @ weights, truth, shares)
