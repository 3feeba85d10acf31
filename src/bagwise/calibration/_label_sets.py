"""`CalibratedLabelSets`: probabilities of instances with any number of labels, calibrated label by label.

Copies of the estimator that did not see a bag give the log-odds s_ic of its instances; slope and offset of each label,

    p_ic = sigmoid(a_c s_ic + b_c),

are those at which the labels of held-out bags are most likely, 1 - prod_i (1 - p_ic) for a label that is listed, under
a prior that draws labels towards each other and all of them, weakly, towards nothing to put right. Bags that were
learned from have been fitted already: theirs are the slope and offset at which the estimator's own log-odds come
nearest, in cross-entropy, to what is said by who did not see them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit
from sklearn.base import clone

from bagwise.annotation.noisy_or import NoisyOrObjective, known_entries, noisy_or_of
from bagwise.calibration._recalibration import CalibratedPrecision, CalibrationMixin, cross_fit
from bagwise.calibration.annotator import FEWEST_BAGS
from bagwise.core.bags import Bags
from bagwise.core.base import BagClassifierMixin, BagEstimator, Findings, InstanceAnnotatorMixin
from bagwise.core.checks import check_that, is_count
from bagwise.core.exceptions import CalibrationWarning, InputError, warn_caller
from bagwise.core.fitted import Attribute, Numbers, Part
from bagwise.core.typing import BagsLike, InstanceLabelsLike, LabelsLike, WeightsLike
from bagwise.core.validation import Given, learn_evidence, listed_labels, split_dataset, validate_bags, validate_weights
from bagwise.metrics import reliability_table
from bagwise.pipeline import bag_tags, final_step, fit_parameters
from bagwise.preprocessing import LinearHead, linear_head
from bagwise.solvers.result import Callback, CheckpointLike
from bagwise.union import LabelNoise

SPREAD = np.array([1.0, 1.0])  # of the weak prior of the logarithm of the slope, and of the offset, that labels share
OWN_SPREAD = np.array([0.25, 0.25])  # of how far a label's own are from these: of one label bags tell little
STEEPEST = 3.0  # logarithm of a slope


class CalibratedLabelSets(CalibrationMixin, InstanceAnnotatorMixin, BagClassifierMixin, BagEstimator):
    """An annotator of label sets like the one inside, whose probabilities are calibrated by bags that are held out.

    `predict` and `decision_function` are those of the estimator inside, and so is the order of instances by the
    probability of any one label.

    Parameters
    ----------
    estimator : NoisyOrLogisticRegression, or a pipeline that ends in one
    cv : int, default=5
        Folds of bags; with many bags only as many copies are fitted as hold out a thousand.

    Attributes
    ----------
    estimator_ : the estimator, fitted on all bags
    classes_ : (c,) array
    new_, seen_ : (c, 2) arrays
        Slope and offset of each label: for bags that were not learned from, and for those that were.
    seen_bags_ : (n,) uint64
        How bags that were learned from are known again.
    reliability_ : dict or None
        Reliability tables of the labels of held-out bags, "before" and "after", and the number of "bags"; None where
        there were too few bags to calibrate by.

    Examples
    --------
    >>> import numpy as np
    >>> from bagwise import Bags
    >>> from bagwise.annotation import NoisyOrLogisticRegression
    >>> from bagwise.calibration import CalibratedLabelSets
    >>> rng = np.random.default_rng(0)
    >>> sings = rng.random((400, 3)) < 0.3
    >>> bags = Bags(sings + 0.3 * rng.normal(size=(400, 3)), np.arange(0, 401, 4))
    >>> Y = np.logical_or.reduceat(sings, bags.offsets[:-1])
    >>> model = CalibratedLabelSets(NoisyOrLogisticRegression()).fit(bags, Y)
    >>> model.predict_instances_proba(bags).shape
    (400, 3)
    """

    _takes_evidence = True
    new_: np.ndarray
    seen_: np.ndarray
    _fitted: ClassVar[dict[str, Attribute]] = {
        "estimator_": Part("find", "instance_decision_function"),
        "new_": Numbers("classes", 2),
        "seen_": Numbers("classes", 2),
    }

    def fit(
        self,
        X: BagsLike,
        y: LabelsLike | None = None,
        instance_labels: Bags | None = None,
        callback: Callback | None = None,
        checkpoint: CheckpointLike | None = None,
        sample_weight: WeightsLike | None = None,
    ) -> CalibratedLabelSets:
        """Fit the estimator, and find out from held-out bags how sure it may be; parameters as of the estimator's."""
        check_that(self, "cv", lambda value: is_count(value) and value >= 2, "a whole number, 2 or more")
        if not bag_tags(self.estimator).label_sets:
            raise InputError(
                f"{type(final_step(self.estimator)).__name__} gives each instance one label; CalibratedAnnotator "
                "calibrates that."
            )
        X, y = split_dataset(X, y)
        bags = validate_bags(self, X, reset=True)
        self.largest_bag_ = int(bags.sizes.max())
        given, _, _ = learn_evidence(y, len(bags))
        asked = {
            "instance_labels": instance_labels,
            "callback": callback,
            "checkpoint": checkpoint,
            "sample_weight": sample_weight,
        }
        asked = {name: value for name, value in asked.items() if value is not None}
        self.estimator_ = clone(self.estimator)
        self.estimator_.fit(bags, y, **fit_parameters(self.estimator_, **asked))
        self.classes_, self.single_label_ = self.estimator_.classes_, final_step(self.estimator_).single_label_
        nothing = np.tile([1.0, 0.0], (len(self.classes_), 1))
        self.new_, self.seen_, self.reliability_ = nothing, nothing, None
        self.seen_bags_ = np.empty(0, dtype=np.uint64)
        n_labelled = int(listed_labels(given).any(axis=1).sum())
        if n_labelled < FEWEST_BAGS:
            warn_caller(
                f"CalibratedLabelSets holds bags out to see how sure the estimator may be, and {n_labelled} labelled "
                f"bag(s) are too few for that; give {FEWEST_BAGS} or more. Probabilities stay as they are.",
                CalibrationWarning,
            )
            return self
        weights = validate_weights(sample_weight, len(bags))
        known = known_entries(instance_labels, bags.offsets, len(self.classes_))
        copy = clone(self.estimator)
        final_step(copy).set_params(verbose=0, **self.noise_rates())
        index, scores = cross_fit(copy, "instance_decision_function", bags, given, instance_labels, weights, self.cv)
        if not len(index):
            return self
        (rows, offsets), outside = bags.select(index), bags[index]
        counts = None if weights is None else weights[index]
        of_rows = None if known is None else known[rows]
        held = Bags(scores, offsets)
        self.new_ = fit_links(held, given[index], of_rows, self._rates(), counts)
        own = self.estimator_.instance_decision_function(outside)
        repeated = None if counts is None else np.repeat(counts, outside.sizes)
        self.seen_ = nearest_links(own, _linked(scores, self.new_), repeated)
        self.seen_bags_ = np.unique(bags.fingerprints())
        Y, before = listed_labels(given[index]), held
        tables = [
            reliability_table(Y, noisy_or_of(self, links).predict_proba(before)) for links in (nothing, self.new_)
        ]
        self.reliability_ = {"bags": len(index), "before": tables[0], "after": tables[1]}
        return self

    # -- predict ------------------------------------------------------------------------------------------------------

    def _odds(self, X: BagsLike, *, listed: bool) -> Bags:
        """Calibrated log-odds of instances; `listed`: labels of their bags will be taken into account."""
        bags = self._start_predict(X)
        scores = self.estimator_.instance_decision_function(bags)
        odds = _linked(scores, self.new_)
        if listed and len(self.seen_bags_):
            rows = np.isin(bags.fingerprints(), self.seen_bags_)[bags.bag_index]
            odds[rows] = _linked(scores[rows], self.seen_)
        return Bags(odds, bags.offsets)

    def find(
        self, X: BagsLike, Y: LabelsLike | None = None, instance_labels: InstanceLabelsLike | None = None
    ) -> Findings:
        """Everything that can be said about the instances, as of `NoisyOrLogisticRegression.find`."""
        return noisy_or_of(self).find(self._odds(X, listed=Y is not None), Y, instance_labels)

    def label_posterior(
        self, X: BagsLike, Y: LabelsLike | None = None, instance_labels: Bags | None = None
    ) -> np.ndarray:
        """(n, c) probability that each label, listed or not, is truly in the bag."""
        X, Y = split_dataset(X, Y)
        return noisy_or_of(self).label_posterior(self._odds(X, listed=True), Y, instance_labels)

    def predict_instance_sets(self, X: BagsLike) -> np.ndarray:
        """(m, c) 0/1: the labels that each instance carries with a probability above one half, by its features."""
        return np.greater(self.predict_instances_proba(X), 0.5).astype(np.int64)

    def annotate_sets(self, X: BagsLike, Y: LabelsLike | None = None) -> np.ndarray:
        """(m, c) 0/1: the labels that each instance carries with a probability above one half, given its bag's."""
        return np.greater(self.annotate_proba(X, Y), 0.5).astype(np.int64)

    def predict_proba(self, X: Any) -> np.ndarray:
        """(n, c) probability that each label is in the bag: 1 - prod_i (1 - p_ic).

        After a fit on (n,) values, where each bag has exactly one label, those of the estimator.
        """
        bags = self._start_predict_bags(X)
        if self.single_label_:
            return self.estimator_.predict_proba(bags)
        return noisy_or_of(self).predict_proba(self._odds(bags, listed=False))

    def linear_head(self) -> LinearHead:
        """What `bagwise.preprocessing.linear_head` gives of it, with the calibration of new bags."""
        head = linear_head(self.estimator_)
        weights = head.weights * self.new_[:, :1]
        weights[:, -1] += self.new_[:, 1]
        return replace(head, weights=weights)

    def _rates(self) -> LabelNoise | None:
        rates = self.noise_rates()
        return LabelNoise.of(rates["missed"], rates["spurious"], len(self.classes_))

    def calibrated_precision(self) -> CalibratedPrecision:
        """How precise names are expected to be: as the probabilities say."""
        return CalibratedPrecision()


def _linked(scores: np.ndarray, links: np.ndarray) -> np.ndarray:
    return scores * links[:, 0] + links[:, 1]


def fit_links(
    scores: Bags, given: Given, known: np.ndarray | None, rates: LabelNoise | None, weights: np.ndarray | None = None
) -> np.ndarray:
    """(c, 2) slopes and offsets of greatest likelihood of what was given, of log-odds that did not see the bags."""
    n_classes = scores.n_features
    objective = NoisyOrObjective(scores, given, known, l2=0.0, rates=rates, weights=weights)

    def negative(links: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = objective.log_likelihood(np.column_stack([np.diag(links[:, 0]), links[:, 1]]))
        return -value, -np.column_stack([np.diag(gradient[:, :-1]), gradient[:, -1]])

    return _with_prior(negative, n_classes)


def nearest_links(scores: np.ndarray, odds: np.ndarray, weights: np.ndarray | None = None) -> np.ndarray:
    """(c, 2) slopes and offsets at which log-odds come nearest, in cross-entropy, to others."""
    wanted, counts = expit(odds), np.ones((len(odds), 1)) if weights is None else weights[:, None]

    def negative(links: np.ndarray) -> tuple[float, np.ndarray]:
        now = _linked(scores, links)
        value = float(np.sum(counts * (np.logaddexp(0.0, now) - wanted * now)))
        residual = counts * (expit(now) - wanted)
        return value, np.column_stack([np.sum(residual * scores, axis=0), residual.sum(axis=0)])

    return _with_prior(negative, scores.shape[1])


def _with_prior(negative: Callable[[np.ndarray], tuple[float, np.ndarray]], n_classes: int) -> np.ndarray:
    """The (c, 2) slopes, which are positive, and offsets at which a function and the prior are least."""

    def of_logs(flat: np.ndarray) -> tuple[float, np.ndarray]:
        shared, own = flat[:2], flat[2:].reshape(n_classes, 2)
        parameters = shared + own
        links = np.column_stack([np.exp(np.clip(parameters[:, 0], -STEEPEST, STEEPEST)), parameters[:, 1]])
        value, gradient = negative(links)
        gradient = gradient * np.column_stack([links[:, 0], np.ones(n_classes)])
        prior = 0.5 * float(np.sum((shared / SPREAD) ** 2) + np.sum((own / OWN_SPREAD) ** 2))
        of_shared = gradient.sum(axis=0) + shared / SPREAD**2
        return value + prior, np.concatenate([of_shared, (gradient + own / OWN_SPREAD**2).ravel()])

    found = minimize(of_logs, np.zeros(2 + 2 * n_classes), jac=True, method="L-BFGS-B").x
    parameters = found[:2] + found[2:].reshape(n_classes, 2)
    return np.column_stack([np.exp(np.clip(parameters[:, 0], -STEEPEST, STEEPEST)), parameters[:, 1]])
