"""A forest under the union likelihood: the labels of instances and trees are found in turns."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
import scipy.sparse as sp
from joblib import Parallel, delayed
from sklearn.utils import check_random_state

from bagwise.annotation._forest_anchor import HELD_FROM, Anchor, KernelJudge, as_of_labels, find_missed
from bagwise.annotation._forest_completion import MANY, Completion, instances_a_label
from bagwise.annotation.rates import RateParameters, enough_to_judge, learn_rates, plain_rate
from bagwise.annotation.union_annotator import (
    AUTO,
    NOISE_AND_BACKGROUND,
    HeldOutScores,
    UnionAnnotator,
    background_label,
    has_background,
    move_last_column,
    shift_to_share,
)
from bagwise.core.bags import Bags, known_labels
from bagwise.core.checks import check_count, check_max_features, check_positive
from bagwise.core.exceptions import InputError
from bagwise.core.fitted import ITERATED, Attribute, Maybe, Number, Numbers
from bagwise.core.typing import BagsLike, LabelsLike, RateLike, Seed, WeightsLike
from bagwise.core.validation import (
    Evidence,
    Given,
    check_single_precision,
    distinct_bags,
    listed_labels,
    refuse_sparse,
    validate_weights,
)
from bagwise.kernels.forest import FITTED as FOREST
from bagwise.kernels.forest import Forest, tree_shares
from bagwise.solvers.result import Callback
from bagwise.union import LabelledBags, UnionModel, UnionProblem, log_absence, select_bags

SMALLEST_SHARE = 0.01  # posteriors below this are no training examples
LEAST = 1e-4  # labels that are less probable to be in a bag are not kept
WAS_LISTED = -1.0
LARGEST_POWER = 4.0  # where trees are never wrong, more power is always more likely
MISSING: dict[str, Attribute] = {
    "missing_labels_": Numbers("bags", "classes", low=WAS_LISTED, high=1, sparse=True),
    "missing_bags_": Numbers("bags", whole=True),
}
"""What is kept of missing labels of the bags that were learned from, by trees that did not see the bag; both or none.

The trees of the fitted forest know by heart what they were taught of these bags: a posterior from them would ask the
same label set twice.
"""
MOST_LEAVES = 50_000  # of a tree: leaves of more examples each where there would be more, so that a model has an end


class _Start(NamedTuple):
    """What rounds begin with."""

    guess: np.ndarray  # probabilities of instances
    parameters: RateParameters
    logits: np.ndarray  # of the learned rates
    anchor: Anchor | None
    completion: Completion | None = None  # where labels go missing as a whole


class _Rounds(NamedTuple):
    """What rounds end with."""

    shares: np.ndarray  # of the trees, out of bag
    posterior: np.ndarray
    logits: np.ndarray  # of the learned rates
    history: list[float]
    missing: np.ndarray | None  # (n, c) how probable labels are that are not listed, if labels may go missing


class ORedForest(UnionAnnotator):
    """Which instance carries which label, and extremely randomised trees that tell labels apart, in turns.

    The model is that of `ORedLogisticRegression`: every instance has one label, and a bag's labels are the union of its
    instances'. In place of a linear classifier stands a forest, so that nothing is asked of the features, not even a
    scale. A round

    1. grows trees, each on the bags of a bootstrap sample, on all pairs of instance and label, weighted by q,
    2. takes for p(y | x) of an instance the mean of the trees that did not see its bag,
    3. sets q to the exact posterior given the bag's labels, by `bagwise.union.union_posterior`.

    Trees remember what they are trained on, so that a plain EM would believe its first guess. The trees of step 2 have
    seen neither the instance nor any other of its bag, so what they say is news. It starts with p uniform, where q
    follows from the bags' label sets alone. In the end a forest without bootstrap is grown on all pairs.

    Parameters
    ----------
    n_estimators : int, default=300
        Trees of the forest that predicts.
    n_rounds : int, default=10
    n_round_trees : int, default=100
        Trees of a round; each instance is judged by 37 % of them.
    max_features : {"sqrt", "log2"}, int, float or None, default="sqrt"
        Features tried at every split, as in scikit-learn's trees.
    min_samples_leaf : int, default=1
        More where a tree would else have more than 50,000 leaves: it then takes one or two megabytes in a model file.
    smoothing : float, default=0.3
        How many trees a uniform opinion counts for, so that no label of a bag is impossible.
    background : bool or "auto", default="auto"
        Add a class that any bag may hold without listing it, as of `ORedLogisticRegression`.
    background_share : float or None, default=None
        Expected share of background among the training instances that are in a bag with labels and not known. The
        likelihood alone overrates the background; given a share, its probabilities are multiplied by one number after
        the fit, so that their mean posterior is that share. Doing so in every round was measured to cost accuracy
        (docs/ored.md). An infeasible share is reported (`BackgroundShareWarning`) and changes nothing.
    missed, spurious : float, (c,) array or "learn", default=0.0
        Rates at which instances go unnoticed by who lists the labels, and at which labels are listed for nothing, as of
        `ORedLogisticRegression`. A learned `spurious` maximises, after every round, the likelihood of the label sets
        under the out-of-bag probabilities; with a rate of missed labels these are raised to the power that does the
        same. A learned `missed` is found before the rounds, with a kernel model that is fitted three times, each on two
        thirds of the bags: the rate by likelihood of the other third, or none if label sets are ranked worse with it
        than without in all thirds. (With fewer than 30 listed labels it is learned as `spurious` is.) Where one
        instance in twenty or more goes unnoticed, what that model says of such bags is also where the rounds start, and
        in every round it is mixed into what the trees say, in the share at which the label sets are ranked best. Trees
        are then taught with a lower rate, the share of labels of which no instance is noticed. Where a label has 1.5
        instances or more in a bag on average, labels are taken to go missing as a whole: in every round the label sets
        are completed by drawing what trees that look at whole bags take for missing, and what trees say of instances
        counts as much as what the kernel model says.
    verbose : int, default=0
        Print the objective after every so many rounds: 1 for all of them, 10 for every tenth, 0 for none.
    n_jobs : int or None
        Trees in parallel (threads).
    random_state : int, RandomState or None

    Attributes
    ----------
    classes_ : (c,) array
    forest_ : tuple of arrays
        See `bagwise.kernels.forest.Forest`.
    objective_history_ : (n_rounds,) array
        Log-likelihood of the label sets under out-of-bag probabilities: it judges bags by trees that did not see them.
        It need not rise at every round. Where label sets are completed, the mean over these.
    n_iter_ : int
        Rounds.
    converged_ : bool
        True: all rounds are run.
    smoothing_ : float
        The smoothing that the rounds were run with.
    power_ : float
        Trees that grew on the shares of several labels are too timid about new instances: what they say is raised to
        this power, at which the label sets are most likely under the out-of-bag probabilities (1 where fewer than 30
        labels are listed, or label sets are completed). It changes no instance's order of labels, and not what is said
        of instances given the labels of their bag.
    background_ : bool
        Whether there is a background.
    background_shift_ : float, with a background
        Logarithm of the number that the background's share of the trees is multiplied by.
    background_label_ : -1 for integer classes, else None
        What `annotate` gives in a bag without labels.
    missed_, spurious_ : float, or (c,) array where an array was given
        The rates, of instances.
    missing_labels_, missing_bags_ : (n, c) CSR matrix and (n,) uint64, with a rate of missed labels
        How probable labels are in the bags that were learned from where these do not list them (-1 where they do), by
        trees that did not see the bag, and where label sets were completed by trees that look at whole bags too; and
        how these bags are known again. So `label_posterior` says of labels that are not listed, in bags of which no
        instance is known: the trees of the model have learned by heart what they were taught of them.

    Notes
    -----
    Not from the papers; docs/ored.md has the figures. Bags that no assignment can explain are left out with a warning.

    References
    ----------
    P. Geurts, D. Ernst, L. Wehenkel (2006): Extremely randomized trees. Machine Learning 63, 3-42.

    Examples
    --------
    >>> from bagwise.annotation import ORedForest
    >>> from bagwise.datasets import make_gaussian_bags
    >>> data = make_gaussian_bags(n_bags=40, random_state=0)
    >>> model = ORedForest(n_rounds=3, random_state=0).fit(data.bags, data.Y)
    >>> model.annotate(data.bags, data.Y).shape == (data.bags.n_instances,)
    True
    """

    __metadata_request__fit: ClassVar[dict[str, bool]] = {"instance_labels": False}  # routing sends them to scorers
    _kept_parameters = ("smoothing",)
    forest_: tuple[Any, ...]
    _fitted: ClassVar[dict[str, Attribute]] = {
        "forest_": FOREST, "smoothing_": Number(positive=True), "power_": Maybe(Number(positive=True)),
        **ITERATED, **NOISE_AND_BACKGROUND,
        **{name: Maybe(attribute) for name, attribute in MISSING.items()},
    }  # fmt: skip

    def _check_fitted(self) -> None:
        super()._check_fitted()
        forest = Forest(*self.forest_)
        forest.check(self.n_features_in_)
        if forest.n_columns != len(self.classes_) + self._has_background:
            raise InputError(f"ORedForest.forest_ has leaves of {forest.n_columns} classes; fit it again")
        if len({hasattr(self, name) for name in MISSING}) > 1:
            raise InputError("ORedForest has missing labels but not of which bags, or these alone; fit it again")

    def __init__(
        self,
        n_estimators: int = 300,
        *,
        n_rounds: int = 10,
        n_round_trees: int = 100,
        max_features: str | int | float | None = "sqrt",
        min_samples_leaf: int = 1,
        smoothing: float = 0.3,
        background: bool | str = AUTO,
        background_share: float | None = None,
        missed: RateLike = 0.0,
        spurious: RateLike = 0.0,
        verbose: int = 0,
        n_jobs: int | None = None,
        random_state: Seed = None,
    ):
        self.n_estimators = n_estimators
        self.n_rounds = n_rounds
        self.n_round_trees = n_round_trees
        self.max_features = max_features
        self.min_samples_leaf = min_samples_leaf
        self.smoothing = smoothing
        self.background = background
        self.background_share = background_share
        self.missed = missed
        self.spurious = spurious
        self.verbose = verbose
        self.n_jobs = n_jobs
        self.random_state = random_state

    def fit(
        self,
        X: BagsLike,
        y: LabelsLike | None = None,
        instance_labels: Bags | None = None,
        callback: Callback | None = None,
        sample_weight: WeightsLike | None = None,
    ) -> ORedForest:
        """Learn from bags and their labels.

        Parameters
        ----------
        X : Bags, BagDataset, list of 2-d arrays or frames, 3-d array, 2-d array or frame
        y : (n, c) 0/1 matrix, list or series of label sets, (n,) class values, or BagDataset
            None: the labels of the `BagDataset` that is `X`.
        instance_labels : Bags of int or None
            Index into ``classes_`` of the instances whose label is known, -1 elsewhere. Trees are grown on them as
            examples of their own class alone, and what the other instances of the bag carry follows from them too.
            With a background, -2 (`KNOWN_BACKGROUND`) says that an instance is known to be of no class.
        callback : callable or None
            Called after every round with its number and the out-of-bag log-likelihood of the bags' labels.
        sample_weight : (n,) array or None
            Weight of each bag in trees and likelihood; one of weight 0 is left out. Copies of a bag are one bag of
            their summed weight, which is in a bootstrap sample as a whole or not at all.
        """
        self._fit(X, y, instance_labels, callback, sample_weight)
        return self

    def fit_held_out(
        self,
        X: BagsLike,
        y: LabelsLike | None = None,
        instance_labels: Bags | None = None,
        callback: Callback | None = None,
        sample_weight: WeightsLike | None = None,
    ) -> HeldOutScores:
        """As `fit`, and what the trees that did not see a bag say of its instances, but for labels of one bag alone.

        `bagwise.calibration.CalibratedAnnotator` asks for it, which so has no need of further fits.
        """
        bags, labelled, shares = self._fit(X, y, instance_labels, callback, sample_weight)
        if self.background_:
            move_last_column(shares, self.background_shift_)
        listed = listed_labels(labelled.indicator)
        fair = np.flatnonzero(~listed[:, listed.sum(axis=0) < 2].any(axis=1))
        rows = np.isin(bags.bag_index, fair)
        return HeldOutScores(labelled, fair, np.log(shares[rows]))

    def _fit(
        self,
        X: BagsLike,
        y: LabelsLike | None,
        instance_labels: Bags | None,
        callback: Callback | None,
        sample_weight: WeightsLike | None,
    ) -> tuple[Bags, LabelledBags, np.ndarray]:
        """Gives the bags that were learned from, what is listed for them, and what trees that did not see them say."""
        check_count(self, "n_estimators", "n_rounds", "n_round_trees", "min_samples_leaf")
        check_positive(self, "smoothing")
        check_max_features(self)
        self._check_background_share()
        bags, indicator = self._start_fit(X, y)
        refuse_sparse(self, bags)
        check_single_precision(bags.instances)
        n_classes = len(self.classes_)
        known = known_labels(instance_labels, bags.offsets, n_classes, background=bool(self.background))
        parameters = RateParameters.of(self.missed, self.spurious, n_classes)
        weights = np.ones(len(bags)) if sample_weight is None else validate_weights(sample_weight, len(bags))
        labelled = LabelledBags.of(bags.offsets, indicator, known, weights)
        if parameters.may_miss and isinstance(indicator, Evidence):
            raise InputError(
                "A forest completes plain lists where labels may be missed, and these labels say more (confidences, "
                "Certain, Possible, Absent or OneOf); pass missed=0, or use ORedLogisticRegression."
            )
        self.background_ = background = has_background(self, labelled, parameters.may_miss)
        parameters = replace(parameters, background=background)
        parameters, smooth = find_missed(self, parameters, bags, labelled)
        labelled = select_bags(labelled, background=background, rates=parameters.possible)
        bags = bags if len(labelled) == len(bags) else bags[labelled.index]
        first, weights = distinct_bags(bags, labelled.indicator, labelled.weights, labelled.known)
        smooth = None if smooth is None else Bags(smooth, bags.offsets)[first].instances
        bags, labelled = bags[first], labelled[first]
        weights = np.ones(len(bags)) if weights is None else weights
        labelled = replace(labelled, weights=weights)
        indicator, known = labelled.indicator, labelled.known
        of_rows = np.repeat(weights, bags.sizes)
        rng, callback = check_random_state(self.random_state), self._progress(callback)
        model = UnionModel(n_classes, background)
        problem = model.problem(bags.offsets, indicator, known)
        start = self._start(bags, indicator, known, weights, model, problem, parameters, smooth, rng)
        found = self._rounds(bags, weights, model, problem, start, rng, callback)
        posterior, logits = found.posterior, found.logits
        instances = np.ascontiguousarray(bags.instances, dtype=np.float32)
        trees = grow_forest(
            instances, posterior, of_rows, self.n_estimators, rng, max_features=self.max_features,
            min_samples_leaf=self.min_samples_leaf, n_jobs=self.n_jobs,
        )  # fmt: skip
        self.forest_ = tuple(trees)
        self._keep_parameters()
        self.power_ = 1.0
        if start.completion is None and enough_to_judge(indicator):
            power = learn_rates(start.parameters, problem, found.shares, logits, weights)[1]
            self.power_ = min(max(power, 1.0 / LARGEST_POWER), LARGEST_POWER)
        self.background_label_ = background_label(self.classes_)
        self.__dict__.pop("background_shift_", None)
        if background:
            self.background_shift_ = 0.0
            if self.background_share is not None:
                model = replace(model, noise=parameters.rates(logits))
                share = float(self.background_share)
                self.background_shift_ = shift_to_share(model, problem, self._prior(bags, listed=True), of_rows, share)
        self.objective_history_ = np.asarray(found.history)
        self.n_iter_, self.converged_ = self.n_rounds, True
        learned = parameters.values(logits)
        self.missed_, self.spurious_ = (
            learned.get(name, plain_rate(given))
            for name, given in (("missed", self.missed), ("spurious", self.spurious))
        )
        parameters.warn_of_bounds(learned)
        self._keep_missing(bags, indicator, found.missing)
        return bags, labelled, found.shares

    def _start(
        self,
        bags: Bags,
        indicator: np.ndarray,
        known: np.ndarray | None,
        weights: np.ndarray,
        model: UnionModel,
        problem: UnionProblem,
        parameters: RateParameters,
        smooth: np.ndarray | None,
        rng: np.random.RandomState,
    ) -> _Start:
        """What rounds start from; held, and with rates of labels in place of rates of instances, if many are missed.

        `smooth` is what the kernel model says of bags it did not see, where it was asked already.
        """
        logits, n_columns = parameters.start({}), indicator.shape[1] + self.background_
        if parameters.mean_missed(logits) < HELD_FROM or not enough_to_judge(indicator):
            return _Start(np.full((bags.n_instances, n_columns), 1.0 / n_columns), parameters, logits, None)
        if smooth is None:
            labelled = LabelledBags.of(bags.offsets, indicator, known, weights)
            smooth = KernelJudge(self, bags, labelled, self.background_).opinion(parameters.given["missed"]).proba
        logits, _, guess = learn_rates(parameters, problem, smooth, logits, weights)
        _, posterior = replace(model, noise=parameters.rates(logits)).posterior(problem, guess.copy(), warn=False)
        anchor = Anchor(smooth, bags, indicator, weights)
        if instances_a_label(posterior, bags, weights, indicator.shape[1]) >= MANY:
            completion = Completion(bags, indicator, known, weights, self.background_, rng, self.n_jobs)
            return _Start(smooth, parameters, logits, anchor, completion)
        return _Start(guess, as_of_labels(parameters, posterior, bags, weights), logits, anchor)

    def _rounds(
        self,
        bags: Bags,
        weights: np.ndarray,
        model: UnionModel,
        problem: UnionProblem,
        start: _Start,
        rng: np.random.RandomState,
        callback: Callback | None,
    ) -> _Rounds:
        """Trees and posteriors in turns."""
        proba, parameters, logits, anchor, completion = start
        instances = np.ascontiguousarray(bags.instances, dtype=np.float32)
        of_rows = np.repeat(weights, bags.sizes)
        history: list[float] = []

        def spurious() -> np.ndarray:
            rates = parameters.rates(logits)
            return np.zeros(proba.shape[1]) if rates is None else rates.spurious

        def judge(proba: np.ndarray, warn: bool = False) -> tuple[np.ndarray, np.ndarray]:
            if completion is None:
                return replace(model, noise=parameters.rates(logits)).posterior(problem, proba.copy(), warn=warn)
            return completion.infer(proba, spurious(), warn)

        _, posterior = judge(proba)
        for number in range(1, self.n_rounds + 1):
            proba = shares = self._out_of_bag(instances, posterior, bags, of_rows, rng)
            if anchor is not None:
                proba = anchor.hold(shares) if completion is None else anchor.halve(shares)
            if parameters.learned or (completion is None and parameters.possible is not None):
                logits, _, sharpened = learn_rates(parameters, problem, proba, logits, weights)
                proba = sharpened if parameters.may_miss and completion is None else proba
            log_likelihood, posterior = judge(proba, number == self.n_rounds)
            history.append(float(weights @ log_likelihood))
            if callback is not None:
                callback(number, history[-1])
        missing = None
        if completion is not None:
            missing = completion.believed(proba, spurious())
        elif parameters.may_miss:
            missing = -np.expm1(log_absence(posterior[:, : len(self.classes_)], bags.offsets))
        return _Rounds(shares, posterior, logits, history, missing)

    def _keep_missing(self, bags: Bags, indicator: np.ndarray, missing: np.ndarray | None) -> None:
        for name in MISSING:
            self.__dict__.pop(name, None)
        if missing is not None:
            kept = np.where(missing >= LEAST, missing, 0.0)
            self.missing_labels_ = sp.csr_matrix(np.where(indicator == 1, WAS_LISTED, kept).astype(np.float32))
            self.missing_bags_ = bags.fingerprints()

    def presence_when_fitted(
        self, presence: np.ndarray, bags: Bags, given: Given, known: np.ndarray | None
    ) -> np.ndarray:
        """(n, c) `presence` of labels, with what was kept of unlisted ones in bags that are known by their fingerprint.

        Not where instances of the bag are known: nobody knew them who said that.
        """
        if not hasattr(self, "missing_labels_"):
            return presence
        kept_bags, own = self.missing_bags_, bags.fingerprints()
        order = np.argsort(kept_bags, kind="stable")
        place = order[np.minimum(np.searchsorted(kept_bags, own, sorter=order), len(order) - 1)]
        is_kept = kept_bags[place] == own
        if known is not None:  # where somebody named instances, what the others say goes by these
            is_kept &= ~np.logical_or.reduceat(known != -1, bags.offsets[:-1])
        missing = self.missing_labels_[place].toarray().astype(np.float64)
        unlisted = (given.values if isinstance(given, Evidence) else given) == 0
        open_labels = is_kept[:, None] & unlisted & (missing >= 0.0) & ~np.isnan(presence)
        return np.where(open_labels, missing, presence)

    def _out_of_bag(
        self,
        instances: np.ndarray,
        posterior: np.ndarray,
        bags: Bags,
        of_rows: np.ndarray,
        rng: np.random.RandomState,
    ) -> np.ndarray:
        """(m, c) probabilities of every instance, with weights `of_rows`, by the trees that did not see its bag."""
        n_bags, n_classes = len(bags), posterior.shape[1]
        samples = [
            (np.bincount(rng.randint(n_bags, size=n_bags), minlength=n_bags), int(rng.randint(np.iinfo(np.int32).max)))
            for _ in range(self.n_round_trees)
        ]

        def judge(times: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
            weights = times[bags.bag_index] * of_rows
            tree = _grow_tree(instances, posterior, weights, seed, self.max_features, self.min_samples_leaf)
            unseen = np.flatnonzero(weights == 0)
            return unseen, tree_shares(tree, instances[unseen], n_classes)

        total, judges = np.zeros((len(instances), n_classes)), np.zeros(len(instances))
        for unseen, shares in Parallel(n_jobs=self.n_jobs, prefer="threads")(
            delayed(judge)(times, seed) for times, seed in samples
        ):
            total[unseen] += shares
            judges[unseen] += 1
        return (total + self.smoothing / n_classes) / (judges + self.smoothing)[:, None]

    # -- predict ------------------------------------------------------------------------------------------------------

    def _prior(self, bags: Bags, *, listed: bool = False) -> np.ndarray:
        """Probabilities as the trees give them, the background's share moved; of single instances to the power.

        The exact posterior given a bag's labels names more of them right without it.
        """
        refuse_sparse(self, bags)
        check_single_precision(bags.instances)
        shares = Forest(*self.forest_).mean_shares(bags.instances)
        n_trees = len(self.forest_[0])
        proba = (n_trees * shares + self.smoothing_ / shares.shape[1]) / (n_trees + self.smoothing_)
        if self._has_background:
            proba = move_last_column(proba, self.background_shift_)
        power = getattr(self, "power_", 1.0)  # a model of an earlier version has none
        if listed or power == 1.0:
            return proba
        proba **= power
        return proba / proba.sum(axis=1, keepdims=True)

    def log_proba(self, X: BagsLike) -> np.ndarray:
        """As of the other annotators, but without ``power_``: a calibration finds its own."""
        return np.log(self._prior(self._start_predict(X), listed=True))

    def _bag_scores(self, bags: Bags) -> np.ndarray:
        """The largest probability in the bag; where bags have one label each, the mean logarithm."""
        scores = super()._bag_scores(bags)
        return scores / bags.sizes[:, None] if self.single_label_ else scores

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = False
        tags.non_deterministic = self.random_state is None
        return tags


def _grow_tree(
    instances: np.ndarray, posterior: np.ndarray, weights: np.ndarray, seed: int, max_features: Any, least: int
) -> Any:
    """A tree on the pairs of instance and label, weighted by the posterior times the instances' weights."""
    from sklearn.tree import ExtraTreeClassifier  # which takes long to import, as others that are inside of functions

    rows, labels = np.nonzero((posterior >= SMALLEST_SHARE) & (weights > 0)[:, None])
    least = max(least, -(-len(rows) // MOST_LEAVES))
    tree = ExtraTreeClassifier(max_features=max_features, min_samples_leaf=least, random_state=seed)
    # fit() has looked at the instances; looking again for every tree would take longer than growing a small one
    return tree.fit(instances[rows], labels, sample_weight=posterior[rows, labels] * weights[rows], check_input=False)


def grow_forest(
    instances: np.ndarray,
    posterior: np.ndarray,
    weights: np.ndarray,
    n_trees: int,
    rng: np.random.RandomState,
    *,
    max_features: str | int | float | None = "sqrt",
    min_samples_leaf: int = 1,
    n_jobs: int | None = None,
) -> Forest:
    """Trees on all (m, d) instances of single precision, each with its (m, k) posterior and its weight."""
    seeds = rng.randint(np.iinfo(np.int32).max, size=n_trees)
    trees = Parallel(n_jobs=n_jobs, prefer="threads")(
        delayed(_grow_tree)(instances, posterior, weights, int(seed), max_features, min_samples_leaf) for seed in seeds
    )
    return Forest.of(trees, posterior.shape[1])
