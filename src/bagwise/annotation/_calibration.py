"""Probabilities that can be believed: what is found out about them from held-out bags, and put right.

Four things are wrong with the probabilities of a learner of bags, and each is seen in label sets alone.

*New instances.* A model is too sure of what it never saw (or, a forest, too timid). Held-out bags are given a
likelihood by scores that did not see them; a temperature T, a share of doubt e that is spread over all classes, and
with a background a factor on its odds, are those of greatest likelihood:

    p_ic = (1 - e) softmax(s_i / T)_c + e / c.

*Bags that were learned from.* Their instances have been fitted already, so their probabilities need another
temperature: the one at which the posterior of a bag is nearest (in cross-entropy) to the posterior that follows from
scores which never saw the bag.

*Names that are promised.* What a label that is named is worth, by how often held-out bags list it; see
`bagwise.annotation._calibration_trust`.

*Labels of bags.* Instances of a bag are not independent, so the union of their probabilities is no probability. A
logistic regression of the held-out label sets on the log-odds of the union, slope and offset, makes one of it.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from scipy.special import expit
from sklearn.base import clone

from bagwise.annotation._background import union_problem
from bagwise.annotation._calibration_fit import (
    SMALLEST,
    HeldOut,
    Listing,
    Recalibration,
    Shares,
    fingerprints,
    fit_log_odds,
    fit_power,
    label_folds,
    union_log_odds,
    untold_shares,
)
from bagwise.annotation._calibration_trust import fit_trust
from bagwise.annotation._feasibility import LabelledBags
from bagwise.bags import Bags, as_instance_labels
from bagwise.exceptions import CalibrationWarning, InputError, warn_caller
from bagwise.fitted import Attribute, Maybe, Number, Numbers, Plain
from bagwise.kernels.softmax import softmax_in_place
from bagwise.kernels.union import UnionProblem
from bagwise.metrics import reliability_table
from bagwise.parameters import check_that

BAG = "bag"
N_FOLDS = 5
ENOUGH_HELD_OUT = 1_000  # bags that a few numbers can be found from; with more bags fewer folds are fitted
FEWEST_BAGS = 10
FEWEST_FOR_SHARE = 3  # bags from which the share of background in new bags alone can be put right
FITTED: dict[str, Attribute] = {
    "temperature_": Number(positive=True), "seen_temperature_": Number(positive=True), "doubt_": Number(0, 1),
    "class_scale_": Numbers("classes", positive=True), "background_scale_": Number(positive=True),
    "told_class_scale_": Numbers("classes", positive=True), "told_background_scale_": Number(positive=True),
    "seen_class_scale_": Numbers("classes", positive=True), "seen_background_scale_": Number(positive=True),
    "seen_bags_": Numbers("seen", whole=True), "bag_slope_": Number(), "bag_offset_": Number(),
    "bag_reliability_": Plain(),
}  # fmt: skip
"""All of them are there in a calibrated model, those of the background where it has one."""
TRUST: dict[str, Attribute] = {
    "trust_slope_": Number(positive=True), "trust_offset_": Number(), "trust_covariance_": Numbers(2, 2),
    "trust_classes_": Numbers("classes", low=0, high=1, whole=True),
}  # fmt: skip
"""All or none of them: bags whose labels may be wrong do not tell, nor do models of earlier versions."""


@dataclass(frozen=True)
class Training:
    """What a fit learned from, and what scores that saw none of it say: of all bags, or of some.

    Attributes
    ----------
    bags, indicator, known, relaxed
        As the fit had them.
    held_out : (k,) array
        Numbers of the bags that `scores` speak of, in order.
    scores : (m, c) array
        Of their instances; softmax makes probabilities of them.
    weights : (n,) array or None
        How much each bag counts.
    """

    bags: Bags
    indicator: np.ndarray
    known: np.ndarray | None
    relaxed: np.ndarray | None
    held_out: np.ndarray
    scores: np.ndarray
    weights: np.ndarray | None = None


class CalibratedMixin:
    """What annotators share whose probabilities can be calibrated.

    A subclass gives `_plain_scores(bags)`, of which a softmax makes its probabilities, calls `_check_calibrate` and
    `_forget_calibration` when a fit begins and `_calibrate` at its end, and may give `_problem_of`,
    `_inference_options`, `_has_background` and `background_share`.
    """

    _fitted: ClassVar[dict[str, Attribute]] = {name: Maybe(attribute) for name, attribute in (FITTED | TRUST).items()}

    calibrate: str | None
    classes_: np.ndarray
    missed_: Any
    spurious_: Any
    single_label_: bool
    background_share: float | None = None
    _start_predict: Any
    _plain_scores: Any
    _rates: Any
    _inference_options: Any
    _has_background: Any

    @property
    def _is_calibrated(self) -> bool:
        return hasattr(self, "temperature_")

    def _check_calibrate(self) -> None:
        check_that(self, "calibrate", lambda value: value is None or value == BAG, f"None or {BAG!r}")

    def _check_fitted(self) -> None:
        super()._check_fitted()  # type: ignore[misc]
        found = [name for name in FITTED if name in vars(self)]
        needed = [name for name in FITTED if self._has_background or "background" not in name]
        trust = [name for name in TRUST if name in vars(self)]
        if trust and (len(trust) < len(TRUST) or "temperature_" not in found):
            raise InputError(f"{type(self).__name__} has a trust in names that does not fit together; fit it again")
        if found == ["background_scale_"] and self._has_background:  # all that a few bags can tell
            return
        if found and (lacks := [name for name in needed if name not in found]):
            raise InputError(f"{type(self).__name__} is calibrated but lacks its attribute {lacks[0]!r}; fit it again")

    def _forget_calibration(self) -> None:
        for name in FITTED | TRUST:
            self.__dict__.pop(name, None)

    def _problem_of(
        self, bags: Bags, indicator: np.ndarray, known: np.ndarray | None, relaxed: np.ndarray | None
    ) -> UnionProblem:
        return union_problem(bags.offsets, indicator, self._has_background, known, relaxed)

    # -- fit ----------------------------------------------------------------------------------------------------------

    def _can_calibrate(self, indicator: np.ndarray) -> bool:
        """Whether there are bags enough, with a warning where calibration was asked for and there are not.

        Of a few bags only the share of background can be learned, which is one number.
        """
        n_labelled = int(indicator.any(axis=1).sum())
        if self.calibrate is None or n_labelled >= FEWEST_BAGS:
            return self.calibrate is not None
        has_share = self._has_background and self.background_share is not None and n_labelled >= FEWEST_FOR_SHARE
        but = ", but for the share of background in new bags" if has_share else ""
        warn_caller(
            f"calibrate={self.calibrate!r} holds bags out to see how sure the model may be, and {n_labelled} "
            f"labelled bag(s) are too few for that; give {FEWEST_BAGS} or more. Probabilities stay as they are{but}.",
            CalibrationWarning,
        )
        return has_share

    def _cross_fitted(self, bags: Bags, told: LabelledBags, **settings: Any) -> Training:
        """The training with scores of bags by copies, with some settings of their own, that did not see them."""
        indicator, weights = told.indicator, told.weights
        known = as_instance_labels(told.known, bags.offsets, len(self.classes_))
        own = {
            "calibrate": None, "verbose": 0, "warm_start": False, "missed": self.missed_, "spurious": self.spurious_,
            **settings,
        }  # fmt: skip

        def fit(rest: np.ndarray) -> Any:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of the fit itself, which has said what there is to say
                return clone(self).set_params(**own).fit(
                    bags[rest], indicator[rest], instance_labels=None if known is None else known[rest],
                    sample_weight=None if weights is None else weights[rest],
                )  # fmt: skip

        nothing = np.empty(0, dtype=np.int64)
        training = Training(bags, indicator, told.known, told.relaxed, nothing, np.empty((0, 0)), weights)
        folds = label_folds(indicator, N_FOLDS, np.random.RandomState(0))
        held, parts, n_held = [], [], 0
        for fold in range(N_FOLDS):
            inside = np.flatnonzero(folds == fold)
            if not len(inside) or n_held >= ENOUGH_HELD_OUT:
                continue
            rest = folds != fold
            model = fit(rest)
            fair = ~(indicator[inside][:, ~indicator[rest].any(axis=0)]).any(axis=1)  # no label is new to the model
            if fair.any():
                held.append(inside[fair])
                parts.append(model._plain_scores(bags[inside[fair]]))
                n_held += int(fair.sum())
        if not held:
            return training
        index = np.concatenate(held)
        order = np.argsort(index)
        spread = Bags(np.concatenate(parts), np.concatenate([[0], np.cumsum(bags.sizes[index])]))
        return replace(training, held_out=index[order], scores=spread[order].instances)

    def _calibrate(self, training: Training) -> None:
        """Find out how sure the model may be, or from a few bags how much of new ones is background."""
        if int(training.indicator.any(axis=1).sum()) < FEWEST_BAGS:
            self._calibrate_share(training)
            return
        if not len(training.held_out):
            warn_caller(
                "calibrate='bag': every label is in one bag only, so that no bag can be held out; probabilities stay "
                "as they are.",
                CalibrationWarning,
            )
            return
        held = training.held_out
        shares = self._given_shares(training)
        unseen = self._held_out_bags(training, training.scores, held, shares)
        told = unseen.most_likely()
        if not unseen.meets_shares(told):  # they cannot be had, and the fit has said so
            shares = {}
            unseen = replace(unseen, shares=shares)
            told = unseen.most_likely()
        new = unseen.with_shares(told, alone=True)
        own = self._plain_scores(training.bags)
        rows, _ = training.bags.select(held)
        seen = self._held_out_bags(training, own[rows], held, shares).nearest(unseen.posterior(told), told)
        if shares:  # those of all bags that were learned from, not of the held-out ones alone
            everything = self._held_out_bags(training, own, np.arange(len(training.bags)), shares)
            moved = everything.with_shares(seen)
            seen = moved if everything.meets_shares(moved) else seen
        self._set_recalibrations(new, told, seen)
        self.seen_bags_ = np.unique(fingerprints(training.bags))
        weights = np.ones(len(held)) if training.weights is None else training.weights[held]
        bags, listed = training.bags[held], training.indicator[held]
        self._calibrate_bags(training.scores, bags, listed, weights, new)
        if self._rates() is None:
            known = None if training.known is None else training.known[rows]
            trust = fit_trust(new.probabilities(training.scores), bags.offsets, listed, weights, known)
            self.trust_slope_, self.trust_offset_, self.trust_covariance_ = trust.slope, trust.offset, trust.covariance
            self.trust_classes_ = trust.witnessed.astype(np.int64)

    def _calibrate_share(self, training: Training) -> None:
        """The factor on the odds of the background at which its mean in bags that were not seen is the share.

        The fit has moved it by bags whose labels it knew, and what it never saw has other scores: far from everything,
        they are all alike, and the background may take half of it.
        """
        if len(training.held_out):
            column = len(self.classes_)
            unseen = self._held_out_bags(
                training, training.scores, training.held_out, {column: float(self.background_share or 0.0)}
            )
            found = unseen.with_shares(Recalibration(), alone=True).shifts
            self.background_scale_ = 1.0 if found is None else float(np.exp(found[column]))

    def _held_out_bags(self, training: Training, scores: np.ndarray, index: np.ndarray, shares: Shares) -> HeldOut:
        """Some of the bags that were learned from, with scores of their instances."""
        known, relaxed = training.known, training.relaxed
        if known is not None:
            known = Bags(known, training.bags.offsets)[index].instances
        problem = self._problem_of(
            training.bags[index], training.indicator[index], known, None if relaxed is None else relaxed[index]
        )
        weights = None if training.weights is None else training.weights[index]
        return HeldOut(problem, scores, self._rates(), self._inference_options(scores.size), shares, weights)

    def _given_shares(self, training: Training) -> Shares:
        """Shares that label sets do not tell: of the background where it is given, of labels that are everywhere."""
        shares = untold_shares(training.indicator, training.bags.sizes, training.weights)
        if self._has_background and self.background_share is not None:
            rest = 1.0 - self.background_share
            shares = {column: rest * share for column, share in shares.items()}
            shares[len(self.classes_)] = self.background_share
        return shares

    def _set_recalibrations(self, new: Recalibration, told: Recalibration, seen: Recalibration) -> None:
        n_classes = len(self.classes_)
        self.temperature_, self.doubt_, self.seen_temperature_ = new.temperature, new.doubt, seen.temperature
        for prefix, found in (("", new), ("told_", told), ("seen_", seen)):
            scale = np.ones(n_classes + self._has_background) if found.shifts is None else np.exp(found.shifts)
            setattr(self, f"{prefix}class_scale_", scale[:n_classes])
            if self._has_background:
                setattr(self, f"{prefix}background_scale_", float(scale[-1]))

    def _calibrate_bags(
        self, scores: np.ndarray, bags: Bags, Y: np.ndarray, weights: np.ndarray, new: Recalibration
    ) -> None:
        """Slope and offset at which the listed labels are most likely; the tables are of these, too."""
        plain = softmax_of(scores)[:, : len(self.classes_)]
        if self.single_label_:
            log_joint = np.add.reduceat(np.log(np.maximum(plain, SMALLEST)), bags.offsets[:-1], axis=0)
            self.bag_slope_, self.bag_offset_ = fit_power(log_joint, Y, weights * Y.any(axis=1)), 0.0
            before, after = (softmax_of(power * log_joint) for power in (1.0, self.bag_slope_))
        else:
            proba = new.probabilities(scores)[:, : len(self.classes_)]
            log_odds = union_log_odds(proba, bags.offsets)
            listing = Listing.of(proba, bags.offsets, self.missed_, self.spurious_)
            self.bag_slope_, self.bag_offset_ = fit_log_odds(log_odds, Y, weights, listing)
            before = Listing.of(plain, bags.offsets, self.missed_, self.spurious_).probability(
                expit(union_log_odds(plain, bags.offsets))
            )
            after = listing.probability(expit(self.bag_slope_ * log_odds + self.bag_offset_))
        self.bag_reliability_ = {
            "bags": len(bags), "before": reliability_table(Y, before), "after": reliability_table(Y, after),
        }  # fmt: skip

    # -- predict ------------------------------------------------------------------------------------------------------

    def _recalibration(self, which: str = "") -> Recalibration:
        """That of new bags, of new bags whose labels are "told_", or of those that were learned from ("seen_")."""
        scale = getattr(self, f"{which}class_scale_")
        if self._has_background:
            scale = np.append(scale, getattr(self, f"{which}background_scale_"))
        temperature = self.seen_temperature_ if which == "seen_" else self.temperature_
        return Recalibration(temperature, self.doubt_, np.log(scale))

    def _as_probabilities(self, scores: np.ndarray, bags: Bags, *, told: bool = False) -> np.ndarray:
        """Probabilities of plain scores, calibrated where the model is; overwrites the scores where it is not.

        `told`: the labels of the bags will be taken into account.
        """
        if not self._is_calibrated:
            if not told and hasattr(self, "background_scale_"):
                scores[:, -1] += np.log(self.background_scale_)
            softmax_in_place(scores)
            return scores
        proba = self._recalibration("told_" if told else "").probabilities(scores)
        seen = np.isin(fingerprints(bags), self.seen_bags_) if told else np.zeros(len(bags), dtype=bool)
        if seen.any():
            rows = seen[bags.bag_index]
            proba[rows] = self._recalibration("seen_").probabilities(scores[rows])
        return proba

    def _told_probabilities(self, bags: Bags) -> np.ndarray:
        """Probabilities from which, with the labels of the bags, a posterior follows."""
        return self._as_probabilities(self._plain_scores(bags), bags, told=True)

    def predict_proba(self, X: Any) -> np.ndarray:
        """(n, c) probability that each label is among the bag's.

        1 - prod_i (1 - p_ic), which takes the instances of a bag for independent; calibrated, a logistic function of
        its log-odds. After a fit on (n,) values, where each bag has exactly one label, the (n, c) probabilities of that
        label: proportional to prod_i p_ic, calibrated to a power of it.
        """
        bags = self._start_predict(X)
        scores, n_classes = self._plain_scores(bags), len(self.classes_)
        if self.single_label_:
            proba = softmax_of(scores)[:, :n_classes]
            with np.errstate(divide="ignore"):
                log_joint = np.add.reduceat(np.maximum(np.log(proba), -1e300), bags.offsets[:-1], axis=0)
            return softmax_of(getattr(self, "bag_slope_", 1.0) * log_joint)
        if not self._is_calibrated:
            proba = self._as_probabilities(scores, bags)[:, :n_classes]
            with np.errstate(divide="ignore"):
                log_absent = np.log1p(-np.minimum(proba, 1.0))
            return -np.expm1(np.add.reduceat(log_absent, bags.offsets[:-1], axis=0))
        proba = self._recalibration().probabilities(scores)[:, :n_classes]
        return expit(self.bag_slope_ * union_log_odds(proba, bags.offsets) + self.bag_offset_)


def softmax_of(scores: np.ndarray) -> np.ndarray:
    proba = np.array(scores, dtype=np.float64)
    softmax_in_place(proba)
    return proba
