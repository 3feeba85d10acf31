"""A forest under the union likelihood: the labels of instances and trees are found in turns."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import numpy as np
from joblib import Parallel, delayed
from sklearn.tree import ExtraTreeClassifier
from sklearn.utils import check_random_state

from bagwise.annotation._background import (
    BackgroundMixin,
    background_label,
    counted_instances,
    listed_labels,
    move_last_column,
    shift_to_share,
    union_problem,
)
from bagwise.annotation._calibration import CalibratedMixin
from bagwise.annotation._calibration_fit import fingerprints
from bagwise.annotation._feasibility import relaxed_bags
from bagwise.annotation._forest_anchor import HELD_FROM, Anchor, KernelJudge, as_of_labels, find_missed
from bagwise.annotation._forest_bags import checked, held_out, infer, leave_out_infeasible, refuse_sparse
from bagwise.annotation._forest_completion import MANY, Completion, instances_a_label
from bagwise.annotation._forest_forgotten import FORGOTTEN, by_instances, pack, told_presence
from bagwise.annotation._rate_check import enough_to_judge
from bagwise.annotation._rates import RateParameters, WrongLabelsMixin, learn_rates, plain_rate
from bagwise.bags import Bags, known_labels
from bagwise.base import (
    BagClassifierMixin,
    BagEstimator,
    InstanceAnnotatorMixin,
    former_name,
    union_of_best,
)
from bagwise.exceptions import InputError
from bagwise.findings import Findings
from bagwise.fitted import ITERATED, Attribute, Maybe, Number
from bagwise.inputs import validate_weights
from bagwise.kernels.forest import FITTED as FOREST
from bagwise.kernels.forest import Forest, tree_shares, upgrade_forest
from bagwise.kernels.union import (
    Rates,
    UnionProblem,
)
from bagwise.parameters import check_count, check_max_features, check_positive
from bagwise.solvers.result import Callback
from bagwise.typing import BagsLike, LabelsLike, RateLike, Seed, WeightsLike

SMALLEST_SHARE = 0.01  # posteriors below this are no training examples
MOST_LEAVES = 50_000  # of a tree: leaves of more examples each where there would be more, so that a model has an end


class Start(NamedTuple):
    """What rounds begin with."""

    guess: np.ndarray  # probabilities of instances
    parameters: RateParameters
    logits: np.ndarray  # of the learned rates
    anchor: Anchor | None
    completion: Completion | None = None  # where labels go missing as a whole


class Found(NamedTuple):
    """What rounds end with."""

    shares: np.ndarray  # of the trees, out of bag
    posterior: np.ndarray
    logits: np.ndarray  # of the learned rates
    history: list[float]
    forgotten: np.ndarray | None  # (n, c) how probable labels are that are not listed, if labels may go missing


class ORedForest(
    CalibratedMixin, BackgroundMixin, WrongLabelsMixin, InstanceAnnotatorMixin, BagClassifierMixin, BagEstimator
):
    """Which instance carries which label, and extremely randomised trees that tell labels apart, in turns.

    The model is that of `ORedLogisticRegression`: every instance has one label, and a bag's labels are the union of its
    instances'. In place of a linear classifier stands a forest, so that nothing is asked of the features, not even a
    scale. A round

    1. grows trees, each on the bags of a bootstrap sample, on all pairs of instance and label, weighted by q,
    2. takes for p(y | x) of an instance the mean of the trees that did not see its bag,
    3. sets q to the exact posterior given the bag's labels, by `bagwise.kernels.union_posterior`.

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
    background : bool, default=False
        Add a class that any bag may hold without listing it, as of `ORedLogisticRegression`.
    background_share : float or None, default=None
        Expected share of background among the training instances that are in a bag with labels and not known. The
        likelihood alone overrates the background; given a share, its probabilities are multiplied by one number after
        the fit, so that their mean posterior is that share. Doing so in every round was measured to cost accuracy
        (docs/ored.md). A share that cannot be had is told (`BackgroundShareWarning`) and changes nothing.
    missed, spurious : float, (c,) array or "learn", default=0.0
        Rates at which instances go unnoticed by who lists the labels, and at which labels are listed for nothing, as of
        `ORedLogisticRegression`. A learned `spurious` maximises, after every round, the likelihood of the label sets
        under the out-of-bag probabilities; with a rate of missed labels these are raised to the power that does the
        same. A learned `missed` is found before the rounds, with a kernel model that is fitted three times, each on two
        thirds of the bags: of the rate by likelihood of the other third, three quarters of it and half of it, that with
        which the label sets of bags it did not see are ranked best, or none if all thirds speak against it. (With fewer
        than 30 listed labels it is learned as `spurious` is.) Where one instance in twenty or more goes unnoticed, what
        that model says of such bags is also where the rounds start, and in every round it is mixed into what the trees
        say, in the share at which the label sets are ranked best. Trees are then taught with a lower rate, the share of
        labels of which no instance is noticed. Where a label has 1.5 instances or more in a bag on average, labels are
        taken to go missing as a whole: in every round the label sets are completed by drawing what trees that look at
        whole bags take for forgotten, and what trees say of instances counts as much as what the kernel model says.
    calibrate : {"bag"} or None, default=None
        "bag": probabilities of instances and of bag labels are put right by what the trees that did not see a bag say
        of it, from its labels alone; see docs/calibration.md. Labels and rankings of new bags stay what they were.
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
        It need not rise at every round. Where label sets are completed, the mean over these. Also called
        ``log_likelihood_history_``.
    n_iter_ : int
        Rounds.
    converged_ : bool
        True: all rounds are run.
    smoothing_ : float
        The smoothing that the rounds were run with.
    background_shift_ : float, with background=True
        Logarithm of the number that the background's share of the trees is multiplied by.
    background_label_ : -1 for integer classes, else None
        What `annotate` gives in a bag without labels.
    missed_, spurious_ : float, or (c,) array where an array was given
        The rates, of instances.
    forgotten_, forgotten_bags_ : (n, c) CSR matrix and (n,) uint64, with a rate of missed labels
        How probable labels are in the bags that were learned from where these do not list them (-1 where they do), by
        trees that did not see the bag, and where label sets were completed by trees that look at whole bags too; and
        how these bags are known again. So `label_posterior` says of labels that are not listed, in bags of which no
        instance is known: the trees of the model have learned by heart what they were taught of them.
    temperature_, doubt_, class_scale_, background_scale_, told_class_scale_, told_background_scale_
    seen_temperature_, seen_class_scale_, seen_background_scale_, seen_bags_, bag_slope_, bag_offset_, bag_reliability_
    trust_slope_, trust_offset_, trust_covariance_, trust_classes_
        With calibrate="bag", as of `ORedLogisticRegression`.

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

    __metadata_request__fit: ClassVar[dict[str, bool]] = {"instance_labels": True}
    log_likelihood_history_ = former_name("objective_history_")
    _former_names: ClassVar[dict[str, str]] = {"log_likelihood_history_": "objective_history_"}
    _kept_parameters = ("smoothing",)
    forest_: tuple[Any, ...]
    _fitted: ClassVar[dict[str, Attribute]] = {
        "forest_": FOREST, "smoothing_": Number(positive=True), **ITERATED,
        **{name: Maybe(attribute) for name, attribute in FORGOTTEN.items()},
    }  # fmt: skip

    def _check_fitted(self) -> None:
        super()._check_fitted()
        forest = Forest(*self.forest_)
        forest.check(self.n_features_in_)
        if forest.n_columns != len(self.classes_) + self._has_background:
            raise InputError(f"ORedForest.forest_ has leaves of {forest.n_columns} classes; fit it again")
        if len({hasattr(self, name) for name in FORGOTTEN}) > 1:
            raise InputError("ORedForest has forgotten labels but not of which bags, or these alone; fit it again")

    @classmethod
    def _upgrade(cls, params: dict[str, Any], state: dict[str, Any]) -> None:
        super()._upgrade(params, state)
        upgrade_forest(state)
        if params.get("callback", 0) is None:  # a parameter of earlier versions, which a file could not hold
            del params["callback"]

    def __init__(
        self,
        n_estimators: int = 300,
        *,
        n_rounds: int = 10,
        n_round_trees: int = 100,
        max_features: str | int | float | None = "sqrt",
        min_samples_leaf: int = 1,
        smoothing: float = 0.3,
        background: bool = False,
        background_share: float | None = None,
        missed: RateLike = 0.0,
        spurious: RateLike = 0.0,
        calibrate: str | None = None,
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
        self.calibrate = calibrate
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
            With a background, -2 (`bagwise.bags.KNOWN_BACKGROUND`) says that an instance is known to be of no class.
        callback : callable or None
            Called after every round with its number and the out-of-bag log-likelihood of the bags' labels.
        sample_weight : (n,) array or None
            Weight of each bag in trees and likelihood; one of weight 0 is left out. A bag of weight 2 is in a bootstrap
            sample as a whole or not at all, where two copies of it could be one in and one out.
        """
        check_count(self, "n_estimators", "n_rounds", "n_round_trees", "min_samples_leaf")
        check_positive(self, "smoothing")
        check_max_features(self)
        self._check_calibrate()
        self._forget_calibration()
        self._check_background_share()
        bags, indicator = self._start_fit(X, y)
        refuse_sparse(bags)
        n_classes, background = len(self.classes_), bool(self.background)
        known = known_labels(instance_labels, bags.offsets, n_classes, background=background)
        parameters = RateParameters.of(self.missed, self.spurious, n_classes, background)
        weights = validate_weights(sample_weight, len(bags))
        parameters, smooth = find_missed(self, parameters, bags, indicator, known, weights)
        bags, indicator, known, weights = leave_out_infeasible(
            bags, indicator, known, weights, parameters.possible, background
        )
        of_rows = np.repeat(weights, bags.sizes)
        rng, callback = check_random_state(self.random_state), self._progress(callback)
        problem = checked(union_problem(bags.offsets, indicator, background, known))
        start = self._start(bags, indicator, known, weights, problem, parameters, smooth, rng)
        found = self._rounds(bags, weights, problem, start, rng, callback)
        posterior, logits = found.posterior, found.logits
        instances = np.ascontiguousarray(bags.instances, dtype=np.float32)
        seeds = rng.randint(np.iinfo(np.int32).max, size=self.n_estimators)
        trees = self._parallel()(delayed(self._grow)(instances, posterior, of_rows, int(seed)) for seed in seeds)
        self.forest_ = tuple(Forest.of(trees, n_classes + background))
        self._keep_parameters()
        self.background_label_ = background_label(self.classes_)
        self.__dict__.pop("background_shift_", None)
        if background:
            self.background_shift_ = 0.0
            if self.background_share is not None:
                self._move_background(problem, self._plain_probabilities(bags), parameters.rates(logits), of_rows)
        self.objective_history_ = np.asarray(found.history)
        self.n_iter_, self.converged_ = self.n_rounds, True
        learned = parameters.values(logits)
        self.missed_, self.spurious_ = (
            learned.get(name, plain_rate(given))
            for name, given in (("missed", self.missed), ("spurious", self.spurious))
        )
        parameters.warn_of_bounds(learned)
        self._keep_forgotten(bags, indicator, found.forgotten)
        if self._can_calibrate(indicator):
            shares = found.shares
            if background:
                move_last_column(shares, self.background_shift_)
            self._calibrate(held_out(bags, indicator, known, shares, weights))
        return self

    def _start(
        self,
        bags: Bags,
        indicator: np.ndarray,
        known: np.ndarray | None,
        weights: np.ndarray,
        problem: UnionProblem,
        parameters: RateParameters,
        smooth: np.ndarray | None,
        rng: np.random.RandomState,
    ) -> Start:
        """What rounds start from; held, and with rates of labels in place of rates of instances, if many are missed.

        `smooth` is what the kernel model says of bags it did not see, where it was asked already.
        """
        logits, n_columns = parameters.start({}), indicator.shape[1] + bool(self.background)
        if parameters.mean_missed(logits) < HELD_FROM or not enough_to_judge(indicator):
            return Start(np.full((bags.n_instances, n_columns), 1.0 / n_columns), parameters, logits, None)
        if smooth is None:
            smooth = KernelJudge(self, bags, indicator, known, weights).opinion(parameters.given["missed"]).proba
        logits, guess = learn_rates(parameters, problem, smooth, logits, weights)
        _, posterior = infer(problem, guess, parameters.rates(logits))
        anchor = Anchor(smooth, bags, indicator, weights)
        if instances_a_label(posterior, bags, weights, indicator.shape[1]) >= MANY:
            completion = Completion(bags, indicator, known, weights, bool(self.background), rng, self.n_jobs)
            return Start(smooth, parameters, logits, anchor, completion)
        return Start(guess, as_of_labels(parameters, posterior, bags, weights), logits, anchor)

    def _rounds(
        self,
        bags: Bags,
        weights: np.ndarray,
        problem: UnionProblem,
        start: Start,
        rng: np.random.RandomState,
        callback: Callback | None,
    ) -> Found:
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
                return infer(problem, proba, parameters.rates(logits), warn)
            return completion.infer(proba, spurious(), warn)

        _, posterior = judge(proba)
        for number in range(1, self.n_rounds + 1):
            proba = shares = self._out_of_bag(instances, posterior, bags, of_rows, rng)
            if anchor is not None:
                proba = anchor.hold(shares) if completion is None else anchor.halve(shares)
            if parameters.learned or (completion is None and parameters.possible is not None):
                logits, sharpened = learn_rates(parameters, problem, proba, logits, weights)
                proba = sharpened if parameters.may_miss and completion is None else proba
            log_likelihood, posterior = judge(proba, number == self.n_rounds)
            history.append(float(weights @ log_likelihood))
            if callback is not None:
                callback(number, history[-1])
        forgotten = None
        if completion is not None:
            forgotten = completion.believed(proba, spurious())
        elif parameters.may_miss:
            forgotten = by_instances(posterior, bags, len(self.classes_))
        return Found(shares, posterior, logits, history, forgotten)

    def _keep_forgotten(self, bags: Bags, indicator: np.ndarray, forgotten: np.ndarray | None) -> None:
        for name in FORGOTTEN:
            self.__dict__.pop(name, None)
        if forgotten is not None:
            self.forgotten_, self.forgotten_bags_ = pack(forgotten, indicator), fingerprints(bags)

    def _told_presence(
        self, presence: np.ndarray, bags: Bags, indicator: np.ndarray, known: np.ndarray | None
    ) -> np.ndarray:
        if not hasattr(self, "forgotten_"):
            return presence
        return told_presence(presence, self.forgotten_, self.forgotten_bags_, bags, indicator, known)

    def _move_background(
        self, problem: UnionProblem, proba: np.ndarray, rates: Rates | None, of_rows: np.ndarray
    ) -> None:
        """Multiply the background's probabilities until its mean posterior over what counts is the share."""

        def background_at(shift: float) -> np.ndarray:
            return infer(problem, move_last_column(proba.copy(), shift), rates)[1][:, -1]

        self.background_shift_ = shift_to_share(
            background_at, counted_instances(problem) * of_rows, float(self.background_share or 0.0)
        )

    def _parallel(self) -> Parallel:
        return Parallel(n_jobs=self.n_jobs, prefer="threads")

    def _grow(self, instances: np.ndarray, posterior: np.ndarray, weights: np.ndarray, seed: int) -> Any:
        """A tree on the pairs of instance and label, weighted by the posterior times the instances' weights."""
        rows, labels = np.nonzero((posterior >= SMALLEST_SHARE) & (weights > 0)[:, None])
        least = max(self.min_samples_leaf, -(-len(rows) // MOST_LEAVES))
        tree = ExtraTreeClassifier(max_features=self.max_features, min_samples_leaf=least, random_state=seed)
        # fit() has looked at the instances; looking again for every tree would take longer than growing a small one
        return tree.fit(
            instances[rows], labels, sample_weight=posterior[rows, labels] * weights[rows], check_input=False
        )

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
            tree = self._grow(instances, posterior, weights, seed)
            unseen = np.flatnonzero(weights == 0)
            return unseen, tree_shares(tree, instances[unseen], n_classes)

        total, judges = np.zeros((len(instances), n_classes)), np.zeros(len(instances))
        for unseen, shares in self._parallel()(delayed(judge)(times, seed) for times, seed in samples):
            total[unseen] += shares
            judges[unseen] += 1
        return (total + self.smoothing / n_classes) / (judges + self.smoothing)[:, None]

    # -- predict ------------------------------------------------------------------------------------------------------

    def _plain_probabilities(self, bags: Bags) -> np.ndarray:
        """(m, c) or, with background, (m, c + 1) probabilities as the trees give them."""
        refuse_sparse(bags)
        shares = Forest(*self.forest_).mean_shares(bags.instances)
        n_trees = len(self.forest_[0])
        proba = (n_trees * shares + self.smoothing_ / shares.shape[1]) / (n_trees + self.smoothing_)
        return move_last_column(proba, self.background_shift_) if self._has_background else proba

    def _plain_scores(self, bags: Bags) -> np.ndarray:
        return np.log(self._plain_probabilities(bags))

    def _probabilities(self, bags: Bags) -> np.ndarray:
        """The same, calibrated where the model is."""
        proba = self._plain_probabilities(bags)
        changed = self._is_calibrated or hasattr(self, "background_scale_")
        return self._as_probabilities(np.log(proba), bags) if changed else proba

    def _told_probabilities(self, bags: Bags) -> np.ndarray:
        return super()._told_probabilities(bags) if self._is_calibrated else self._plain_probabilities(bags)

    def _instance_scores(self, bags: Bags) -> np.ndarray:
        return self._plain_probabilities(bags)[:, : len(self.classes_)]

    def _union_problem(self, bags: Bags, indicator: np.ndarray, known: np.ndarray | None) -> UnionProblem:
        return union_problem(bags.offsets, indicator, self._has_background, known)

    def _find_alone(self, bags: Bags) -> Findings:
        proba = self._probabilities(bags)
        return self._findings(proba[:, : len(self.classes_)].argmax(axis=1), proba)

    def _find_listed(self, bags: Bags, indicator: np.ndarray, known: np.ndarray | None) -> Findings:
        """The posterior given the labels of the bags; the most probable of them is the label."""
        rates = self._rates()
        relaxed = relaxed_bags(bags.offsets, indicator, known, self._has_background, rates)
        problem = checked(union_problem(bags.offsets, indicator, self._has_background, known, relaxed))
        _, posterior = infer(problem, self._told_probabilities(bags), rates, warn=True)
        return self._findings(listed_labels(posterior, bags, indicator, known), posterior)

    def _bag_scores(self, bags: Bags) -> np.ndarray:
        """The largest probability in the bag; where bags have one label each, the mean logarithm."""
        proba = self._instance_scores(bags)
        if self.single_label_:
            return np.add.reduceat(np.log(proba), bags.offsets[:-1], axis=0) / bags.sizes[:, None]
        return np.maximum.reduceat(proba, bags.offsets[:-1], axis=0)

    def _bag_label_sets(self, bags: Bags) -> np.ndarray:
        return union_of_best(self._probabilities(bags), bags)[:, : len(self.classes_)]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = False
        own = tags.bag_tags
        own.probabilities = own.instance_labels = own.callback = own.sample_weight = True
        own.background = self._has_background if hasattr(self, "forest_") else bool(self.background)
        tags.non_deterministic = self.random_state is None
        return tags
