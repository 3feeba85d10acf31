"""`CalibratedAnnotator`: probabilities that can be believed, found from the labels of held-out bags alone.

Four things are wrong with the probabilities of a learner of bags, and each is seen in label sets.

*New instances.* A model is too sure of what it never saw (or, a forest, too timid). Held-out bags are given a
likelihood by scores that did not see them; a temperature T, a share e that is spread over all classes, and with a
background a factor on its odds, are those of greatest likelihood:

    p_ic = (1 - e) softmax(s_i / T)_c + e / c.

*Bags that were learned from.* Their instances have been fitted already, so their probabilities need another
temperature: the one at which the posterior of a bag is nearest (in cross-entropy) to the posterior that follows from
scores which never saw the bag.

*Precision of names.* What a label that is named is worth, by how often held-out bags list it; see
`bagwise.calibration._recalibration`.

*Labels of bags.* Instances of a bag are not independent, so the union of their probabilities is no probability. A
logistic regression of the held-out label sets on the log-odds of the union, slope and offset, makes one of it.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from scipy.special import expit
from sklearn.base import clone

from bagwise.annotation.union_annotator import HeldOutScores, UnionAnnotator
from bagwise.calibration._recalibration import (
    SMALLEST,
    BagLabelNoise,
    CalibratedPrecision,
    CalibrationMixin,
    HeldOut,
    PrecisionModel,
    Recalibration,
    Shares,
    cross_fit,
    fit_log_odds,
    fit_power,
    fit_precision,
    names_table,
    undetermined_shares,
)
from bagwise.core.bags import Bags, as_instance_labels, known_labels
from bagwise.core.checks import check_that, is_count
from bagwise.core.exceptions import CalibrationWarning, InputError, warn_caller
from bagwise.core.fitted import Attribute, Either, Number, Numbers, Part, TupleOf
from bagwise.core.typing import BagsLike, LabelsLike, WeightsLike
from bagwise.core.validation import Evidence, Given, learn_evidence, split_dataset, validate_bags, validate_weights
from bagwise.metrics import reliability_table
from bagwise.pipeline import bag_tags, final_step, fit_parameters, transform_for_final
from bagwise.preprocessing import LinearHead, linear_head
from bagwise.solvers.result import Callback, CheckpointLike
from bagwise.union import LabelledBags, UnionModel, select_bags, softmax_in_place, union_log_odds

FEWEST_BAGS = 10
FEWEST_FOR_SHARE = 3  # bags from which the share of background in new bags alone can be put right
RECALIBRATION = TupleOf(Number(positive=True), Number(0, 1), Numbers("columns"))


class CalibratedAnnotator(CalibrationMixin, UnionAnnotator):
    """An annotator like the one inside, whose probabilities are calibrated by bags that are held out.

    `predict` and `decision_function` are those of the estimator inside. The labels and rankings of instances stay too,
    since a temperature keeps the order of classes; only where the share of a background or of a label that is in every
    bag is put right do the labels next to the line move. See docs/development/experiments/calibration.md.

    Parameters
    ----------
    estimator : annotator with probabilities, or a pipeline that ends in one
    cv : int, default=5
        Folds of bags; each is asked of a copy that was fitted from nothing on the others. With many bags only as many
        folds are fitted as hold out a thousand. `ORedForest` needs none: it has trees that did not see a bag.

    Attributes
    ----------
    estimator_ : the estimator, fitted on all bags
    classes_ : (c,) array
    new_, listed_, seen_ : (float, float, (k,) array)
        Temperature, share that is spread over all classes, and logarithms of factors on the odds of the columns (the
        classes, and behind them the background): for new bags, for those whose labels are given, and for those with
        given labels that were learned from.
    seen_bags_ : (n,) uint64
        How bags that were learned from are known again.
    bag_calibration_ : (float, float)
        Slope and offset of the log-odds of the union, for `predict_proba`.
    precision_ : (float, float, (2, 2) array, (c,) array) or None
        Slope, offset, covariance and covered classes of a `PrecisionModel`; None with label noise, of which bags give
        no such evidence.
    reliability_ : dict or None
        Reliability tables of the labels of held-out bags, "before" and "after", and the number of "bags"; "names": how
        often instances of these bags were named right, see `bagwise.calibration._recalibration.names_table`. None where
        there were too few bags to calibrate by.

    Examples
    --------
    >>> from bagwise import ORedLogisticRegression
    >>> from bagwise.calibration import CalibratedAnnotator
    >>> from bagwise.datasets import make_gaussian_bags
    >>> data = make_gaussian_bags(n_bags=60, random_state=0)
    >>> model = CalibratedAnnotator(ORedLogisticRegression()).fit(data.bags, data.Y)
    >>> model.predict_instances_proba(data.bags).shape == (data.bags.n_instances, 5)
    True
    """

    new_: tuple[Any, ...]
    listed_: tuple[Any, ...]
    seen_: tuple[Any, ...]
    precision_: tuple[Any, ...] | None
    _fitted: ClassVar[dict[str, Attribute]] = {
        "estimator_": Part("find", "log_proba"),
        "new_": RECALIBRATION,
        "listed_": RECALIBRATION,
        "seen_": RECALIBRATION,
        "bag_calibration_": TupleOf(Number(positive=True), Number()),
        "precision_": Either(
            None,
            TupleOf(Number(positive=True), Number(), Numbers(2, 2), Numbers("classes", low=0, high=1, whole=True)),
        ),
    }

    def _check_fitted(self) -> None:
        super()._check_fitted()
        inner, n_columns = final_step(self.estimator_), len(self.classes_) + self._has_background
        if not np.array_equal(inner.classes_, self.classes_) or len(self.new_[2]) != n_columns:
            raise InputError(
                "CalibratedAnnotator was calibrated for another estimator than the one inside; fit it again"
            )

    # -- fit ----------------------------------------------------------------------------------------------------------

    def fit(
        self,
        X: BagsLike,
        y: LabelsLike | None = None,
        instance_labels: Bags | None = None,
        callback: Callback | None = None,
        checkpoint: CheckpointLike | None = None,
        sample_weight: WeightsLike | None = None,
    ) -> CalibratedAnnotator:
        """Fit the estimator, and find out from held-out bags how sure it may be.

        Parameters
        ----------
        X : Bags, BagDataset, list of 2-d arrays or frames, 3-d array, 2-d array or frame
        y : labels in any form; None: those of the `BagDataset` that is `X`
        instance_labels, callback, checkpoint, sample_weight
            For the estimator, where it takes them; known instances and weights count in calibration too.
        """
        check_that(self, "cv", lambda value: is_count(value) and value >= 2, "a whole number, 2 or more")
        if not bag_tags(self.estimator).probabilities:
            raise InputError(
                f"{type(final_step(self.estimator)).__name__} gives instances no probabilities, which could be "
                "calibrated; pass an annotator that does, such as ORedLogisticRegression."
            )
        if bag_tags(self.estimator).label_sets:
            raise InputError(
                f"{type(final_step(self.estimator)).__name__} gives instances any number of labels; "
                "CalibratedLabelSets calibrates these."
            )
        X, y = split_dataset(X, y)
        bags = validate_bags(self, X, reset=True)
        self.largest_bag_ = int(bags.sizes.max())
        said, _, _ = learn_evidence(y, len(bags))  # as the estimator will understand them
        asked = {
            "instance_labels": instance_labels,
            "callback": callback,
            "checkpoint": checkpoint,
            "sample_weight": sample_weight,
        }
        given = {name: value for name, value in asked.items() if value is not None}
        inner, held = self._start(), None
        if hasattr(inner, "fit_held_out") and not isinstance(said, Evidence):
            held = inner.fit_held_out(bags, y, **given)
        else:
            inner.fit(bags, y, **fit_parameters(inner, **given))
        self.estimator_, final = inner, final_step(inner)
        self.classes_, self.single_label_ = final.classes_, final.single_label_
        self._set_calibration(*(Recalibration(),) * 3)
        everything = bags
        if isinstance(said, Evidence):  # only lists can be held against probabilities
            listed = said.is_list
            if listed.sum() < FEWEST_FOR_SHARE:
                warn_caller(
                    f"CalibratedAnnotator calibrates by bags with plain lists of labels, and {listed.sum()} of "
                    f"{len(listed)} have one; probabilities stay as they are.",
                    CalibrationWarning,
                )
                return self
            weights = validate_weights(sample_weight, len(bags))
            bags, sample_weight = bags[listed], None if weights is None else weights[listed]
            instance_labels = None if instance_labels is None else instance_labels[listed]
            said = said.listed[listed]
        if held is None:
            held = self._cross_fit(bags, self._labelled(bags, said, instance_labels, sample_weight))
        if self._is_enough(held.labelled):
            whole = np.array_equal(held.labelled.index, np.arange(len(bags)))
            self._calibrate(bags if whole else bags[held.labelled.index], held)
            if len(self.seen_bags_):
                self.seen_bags_ = np.unique(everything.fingerprints())
        return self

    def _start(self) -> Any:
        """A copy of the estimator; the fitted one, with its parameters of now, where a fit is to go on from it."""
        warm = final_step(self.estimator).get_params(deep=False).get("warm_start", False)
        if not (warm and hasattr(self, "estimator_")):
            return clone(self.estimator)
        final_step(self.estimator_).set_params(**final_step(self.estimator).get_params(deep=False))
        return self.estimator_

    def _labelled(
        self, bags: Bags, indicator: np.ndarray, instance_labels: Bags | None, sample_weight: WeightsLike | None
    ) -> LabelledBags:
        """What the estimator learned from: all bags but those that it leaves out."""
        model, settings = self.union_model(), final_step(self.estimator_).get_params(deep=False)
        known = known_labels(instance_labels, bags.offsets, len(self.classes_), background=model.background)
        labelled = LabelledBags.of(bags.offsets, indicator, known, validate_weights(sample_weight, len(bags)))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the fit has said so
            return select_bags(
                labelled,
                background=model.background,
                on_infeasible=settings.get("on_infeasible", "drop"),
                prune=settings.get("prune", 0.0),
                rates=model.noise,
            )

    def _cross_fit(self, bags: Bags, labelled: LabelledBags) -> HeldOutScores:
        """What copies of the estimator say of bags that they did not see.

        Copies are fitted from nothing: the likelihood has many peaks, and one that starts from the weights of the fit
        on all bags ends on the peak that knew the bags (a held-out log-likelihood of -4.28 per bag in place of -4.46,
        on Letter-Carroll). And as far: the background grows late, so that a fit which stops sooner is another model.
        """
        bags = bags if len(labelled) == len(bags) else bags[labelled.index]
        if not self._is_enough(labelled, warn=False):
            return HeldOutScores(labelled, np.empty(0, dtype=np.int64), np.empty((0, 0)))
        known = as_instance_labels(labelled.known, bags.offsets, len(self.classes_))
        given = labelled.indicator, known, labelled.weights
        return HeldOutScores(labelled, *cross_fit(self._copy(), "log_proba", bags, *given, self.cv))

    def _copy(self) -> Any:
        """The estimator with the rates of label noise that it found, to be fitted once and silently."""
        copy = clone(self.estimator)
        final = final_step(copy)
        own = {
            "verbose": 0,
            "warm_start": False,
            "prune": 0.0,
            "background": self._has_background,
            **self.noise_rates(),
        }
        final.set_params(**{name: value for name, value in own.items() if name in final.get_params(deep=False)})
        return copy

    def _is_enough(self, labelled: LabelledBags, warn: bool = True) -> bool:
        """Whether there are bags enough, with a warning where there are not.

        Of a few bags only the share of background can be learned, which is one number.
        """
        n_labelled = int(labelled.indicator.any(axis=1).sum())
        if n_labelled >= FEWEST_BAGS:
            return True
        has_share = self._share is not None and n_labelled >= FEWEST_FOR_SHARE
        if warn:
            but = ", but for the share of background in new bags" if has_share else ""
            warn_caller(
                f"CalibratedAnnotator holds bags out to see how sure the estimator may be, and {n_labelled} labelled "
                f"bag(s) are too few for that; give {FEWEST_BAGS} or more. Probabilities stay as they are{but}.",
                CalibrationWarning,
            )
        return has_share

    @property
    def _share(self) -> float | None:
        """The expected share of background, where there is one."""
        share = final_step(self.estimator_).get_params(deep=False).get("background_share")
        return share if self._has_background else None

    def _calibrate(self, bags: Bags, held: HeldOutScores) -> None:
        """Find out how sure the estimator may be, or from a few bags how much of new ones is background."""
        labelled, index, n_classes = held.labelled, held.index, len(self.classes_)
        few = int(labelled.indicator.any(axis=1).sum()) < FEWEST_BAGS
        if not len(index):
            if not few:
                warn_caller(
                    "Every label is in one bag only, so that no bag can be held out to calibrate by; probabilities "
                    "stay as they are.",
                    CalibrationWarning,
                )
            return
        if few:
            # The fit has moved the background by bags whose labels it knew, and what it never saw has other scores: far
            # from everything, they are all alike, and the background may take half of it.
            unseen = self._held_out(labelled, held.log_proba, index, {n_classes: float(self._share or 0.0)})
            self._set_calibration(unseen.with_shares(Recalibration(), alone=True), Recalibration(), Recalibration())
            return
        shares = self._given_shares(labelled, bags.sizes)
        unseen = self._held_out(labelled, held.log_proba, index, shares)
        listed = unseen.most_likely()
        if not unseen.meets_shares(listed):  # they are infeasible, and the fit has said so
            shares = {}
            unseen = replace(unseen, shares=shares)
            listed = unseen.most_likely()
        new = unseen.with_shares(listed, alone=True)
        own = self.estimator_.log_proba(bags)
        rows, _ = bags.select(index)
        seen = self._held_out(labelled, own[rows], index, shares).nearest(unseen.posterior(listed), listed)
        if shares:  # those of all bags that were learned from, not of the held-out ones alone
            everything = self._held_out(labelled, own, np.arange(len(bags)), shares)
            moved = everything.with_shares(seen)
            seen = moved if everything.meets_shares(moved) else seen
        self._set_calibration(new, listed, seen)
        self.seen_bags_ = np.unique(bags.fingerprints())
        part, outside = labelled[index], bags[index]
        weights = np.ones(len(part)) if part.weights is None else part.weights
        self._calibrate_bags(held.log_proba, outside, part.indicator, weights, new)
        if self.union_model().noise is None:
            given = new.probabilities(held.log_proba), outside.offsets, part.indicator, weights, part.known
            found = fit_precision(*given)
            assert self.reliability_ is not None
            self.reliability_["names"] = names_table(*given)
            self.precision_ = (found.slope, found.offset, found.covariance, found.covered.astype(np.int64))

    def _held_out(self, labelled: LabelledBags, scores: np.ndarray, index: np.ndarray, shares: Shares) -> HeldOut:
        """Some of the bags that were learned from, with scores of their instances."""
        model, part = self.union_model(), labelled[index]
        problem = model.problem(part.offsets, part.indicator, part.known, part.relaxed)
        return HeldOut(problem, scores, model, shares, part.weights)

    def _given_shares(self, labelled: LabelledBags, sizes: np.ndarray) -> Shares:
        """Shares that label sets do not determine: that of a background, and those of labels that are everywhere."""
        shares = undetermined_shares(labelled.indicator, sizes, labelled.weights)
        if self._share is not None:
            shares = {column: (1.0 - self._share) * share for column, share in shares.items()}
            shares[len(self.classes_)] = self._share
        return shares

    def _set_calibration(self, new: Recalibration, listed: Recalibration, seen: Recalibration) -> None:
        n_columns = len(self.classes_) + self._has_background
        self.new_, self.listed_, self.seen_ = (
            tuple(found if found.shifts is not None else found._replace(shifts=np.zeros(n_columns)))
            for found in (new, listed, seen)
        )
        self.seen_bags_ = np.empty(0, dtype=np.uint64)
        self.bag_calibration_, self.precision_, self.reliability_ = (1.0, 0.0), None, None

    def _calibrate_bags(
        self, scores: np.ndarray, bags: Bags, Y: np.ndarray, weights: np.ndarray, new: Recalibration
    ) -> None:
        """Slope and offset at which the listed labels are most likely; the tables are of these, too."""
        n_classes = len(self.classes_)
        plain = _softmax_of(scores)[:, :n_classes]
        if self.single_label_:
            log_joint = np.add.reduceat(np.log(np.maximum(plain, SMALLEST)), bags.offsets[:-1], axis=0)
            self.bag_calibration_ = (fit_power(log_joint, Y, weights * Y.any(axis=1)), 0.0)
            before, after = (_softmax_of(power * log_joint) for power in (1.0, self.bag_calibration_[0]))
        else:
            rates = self.noise_rates().values()
            proba = new.probabilities(scores)[:, :n_classes]
            log_odds = union_log_odds(proba, bags.offsets)
            noise = BagLabelNoise.of(proba, bags.offsets, *rates)
            slope, offset = self.bag_calibration_ = fit_log_odds(log_odds, Y, weights, noise)
            before = BagLabelNoise.of(plain, bags.offsets, *rates).probability(
                expit(union_log_odds(plain, bags.offsets))
            )
            after = noise.probability(expit(slope * log_odds + offset))
        self.reliability_ = {
            "bags": len(bags),
            "before": reliability_table(Y, before),
            "after": reliability_table(Y, after),
        }

    # -- predict ------------------------------------------------------------------------------------------------------

    def calibrated_precision(self) -> CalibratedPrecision:
        """How precise names are expected to be, for a selection at a wanted precision."""
        if self.precision_ is None:
            return CalibratedPrecision(self.new_[1])
        slope, offset, covariance, covered = self.precision_
        return CalibratedPrecision(self.new_[1], PrecisionModel(slope, offset, covariance, covered.astype(bool)))

    def union_model(self) -> UnionModel:
        """That of the estimator; of one that knows none, of classes and background alone."""
        final = final_step(self.estimator_)
        if hasattr(final, "union_model"):
            return final.union_model()
        return UnionModel(len(self.classes_), bag_tags(self.estimator_).background)

    def presence_when_fitted(
        self, presence: np.ndarray, bags: Bags, given: Given, known: np.ndarray | None
    ) -> np.ndarray:
        """What the estimator knows better of bags that it learned from."""
        final = final_step(self.estimator_)
        if not hasattr(final, "presence_when_fitted"):
            return presence
        return final.presence_when_fitted(presence, transform_for_final(self.estimator_, bags), given, known)

    @property
    def _has_background(self) -> bool:
        return self.union_model().background

    def _prior(self, bags: Bags, *, listed: bool = False) -> np.ndarray:
        scores = self.estimator_.log_proba(bags)
        if not listed:
            return Recalibration(*self.new_).probabilities(scores)
        proba = Recalibration(*self.listed_).probabilities(scores)
        rows = np.isin(bags.fingerprints(), self.seen_bags_)[bags.bag_index]
        if rows.any():
            proba[rows] = Recalibration(*self.seen_).probabilities(scores[rows])
        return proba

    def linear_head(self) -> LinearHead:
        """What `bagwise.preprocessing.linear_head` gives of it, with the calibration of new bags."""
        return linear_head(self.estimator_).recalibrated(*self.new_)

    def predict_proba(self, X: Any) -> np.ndarray:
        """(n, c) probability that each label is among the bag's: a logistic function of the log-odds of the union.

        After a fit on (n,) values, where each bag has exactly one label, the (n, c) probabilities of that label:
        proportional to a power of prod_i p_ic.
        """
        bags, n_classes = self._start_predict_bags(X), len(self.classes_)
        scores, (slope, offset) = self.estimator_.log_proba(bags), self.bag_calibration_
        if self.single_label_:
            logs = np.maximum(scores[:, :n_classes], -1e300)
            return _softmax_of(slope * np.add.reduceat(logs, bags.offsets[:-1], axis=0))
        proba = Recalibration(*self.new_).probabilities(scores)[:, :n_classes]
        return expit(slope * union_log_odds(proba, bags.offsets) + offset)


def _softmax_of(scores: np.ndarray) -> np.ndarray:
    proba = np.array(scores, dtype=np.float64)
    softmax_in_place(proba)
    return proba
