"""Annotators under the union model: all that follows from the probabilities of instances and the labels of bags."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.optimize import brentq
from scipy.special import log_softmax

from bagwise.annotation.objective import Block, by_blocks
from bagwise.annotation.rates import RATE
from bagwise.core.bags import Bags, known_labels
from bagwise.core.base import (
    BagClassifierMixin,
    BagEstimator,
    Findings,
    InstanceAnnotatorMixin,
    given_labels,
    name_bags,
    open_unlabelled,
    union_of_best,
)
from bagwise.core.checks import check_that
from bagwise.core.exceptions import BackgroundShareWarning, InfeasibleBagWarning, warn_caller
from bagwise.core.fitted import Attribute, Choice, Flag, Maybe, Number
from bagwise.core.typing import BagsLike, LabelsLike
from bagwise.core.validation import Given, encode_evidence, possible_labels
from bagwise.union import (
    LabelledBags,
    LabelNoise,
    UnionModel,
    UnionProblem,
    log_absence,
    relaxed_bags,
    softmax_in_place,
    warn_approximation,
)

AUTO = "auto"
FARTHEST_SHIFT = 30.0
CLOSE_ENOUGH = 1e-3  # of the shift


def has_background(model: Any, labelled: LabelledBags, may_miss: bool) -> bool:
    """Whether a fit has a background: as its parameter says, or with "auto" where something is of no class.

    That is where bags with and without labels are learned from, or an instance is known to be background. Where labels
    `may_miss`, bags without labels need none.
    """
    check_that(model, "background", lambda value: value in (True, False, AUTO), "True, False or 'auto'")
    if model.background != AUTO:
        return bool(model.background)
    given, known = labelled.indicator, labelled.known
    if known is not None and np.any(known == given.shape[1]):
        return True
    used = np.ones(len(given), dtype=bool) if labelled.weights is None else labelled.weights > 0.0
    some = possible_labels(given).any(axis=1)
    empty = np.flatnonzero(used & ~some)
    if may_miss or not len(empty) or not np.any(used & some):
        return False
    warn_caller(
        f"{len(empty)} of {used.sum()} bags carry no label, {name_bags(empty)}: a background class was added, of which "
        "all of their instances are. Pass background=True to have it without this warning, or background=False to "
        "leave out bags whose labels are not known.",
        InfeasibleBagWarning,
    )
    return True


def background_label(classes: np.ndarray) -> int | None:
    """What an instance of no class is called beside these."""
    return -1 if np.issubdtype(classes.dtype, np.integer) else None


def _most_probable_listed(
    posterior: np.ndarray, bags: Bags, given: Given, known: np.ndarray | None = None
) -> np.ndarray:
    """(m,) most probable label of every instance among those that may be in its bag; -1 where there is none.

    These are the labels that are listed, and where evidence says more the certain and possible ones, those of groups
    and those of any confidence; -1 also where background is known.
    """
    listed, n_classes = np.repeat(possible_labels(given), bags.sizes, axis=0), given.shape[1]
    labels = np.where(listed == 1, posterior[:, :n_classes], -1.0).argmax(axis=1)
    labels[~listed.any(axis=1)] = -1
    if known is not None:  # those of a class that is not listed went unnoticed
        labels[known >= 0] = known[known >= 0]
        labels[known == n_classes] = -1
    return labels


def shift_to_share(
    model: UnionModel, problem: UnionProblem, proba: np.ndarray, of_rows: np.ndarray, share: float
) -> float:
    """As `shift_of_mass`, of (m, c + 1) probabilities of instances, each of which counts so much."""
    counted = problem.counted_instances * of_rows
    count = float(counted.sum())

    def mass(shift: float) -> tuple[float, float]:
        posterior = move_last_column(proba.copy(), shift)
        model.infer(problem, posterior)
        return float(np.sum(posterior[:, -1] * counted)), count

    return shift_of_mass(mass, share)


def shift_of_mass(mass: Callable[[float], tuple[float, float]], share: float) -> float:
    """The shift of the background's score at which its mean posterior over the instances that count is the share.

    Zero, with a `BackgroundShareWarning`, where there is no such shift: moved as far as it goes, a model would take
    everything for background, or nothing, in bags without labels.

    Parameters
    ----------
    mass : callable
        Shift to the posterior probability of the background summed over the instances that count, and their number.
    share : float
    """

    def above(shift: float) -> float:
        total, count = mass(shift)
        return total / count - share

    total, count = mass(-FARTHEST_SHIFT)
    if not count:  # all is known, so that there is no share to be had
        return 0.0
    least, most = total / count - share, above(FARTHEST_SHIFT)
    if least > 0.0 or most < 0.0:
        warn_caller(
            f"The expected share of background, {share:g}, is infeasible: of the {count:g} unknown "
            f"instances in bags with labels between {least + share:.3g} and {most + share:.3g} can be background, "
            "since every label needs an instance. The background stays as the likelihood has it; ask for a share "
            "between the two (background_share, --noise-share).",
            BackgroundShareWarning,
        )
        return 0.0
    return float(brentq(above, -FARTHEST_SHIFT, FARTHEST_SHIFT, xtol=CLOSE_ENOUGH))


def move_last_column(proba: np.ndarray, shift: float) -> np.ndarray:
    """Multiply the background's probabilities by exp(shift), and make rows sum to one again; in place."""
    if shift != 0.0:
        proba[:, -1] *= np.exp(shift)
        proba /= proba.sum(axis=1, keepdims=True)
    return proba


NOISE_AND_BACKGROUND: dict[str, Attribute] = {
    "missed_": RATE, "spurious_": RATE, "background_label_": Choice(-1, None), "background_shift_": Maybe(Number()),
    "background_": Maybe(Flag()),
}  # fmt: skip
"""What a learner keeps beside what gives its probabilities; the last one where there is a background, and only then."""


@dataclass(frozen=True)
class HeldOutScores:
    """What a fit learned from, and what is said of the instances of some of these bags by who did not see the bag.

    Attributes
    ----------
    labelled : LabelledBags
    index : (k,) array
        Numbers of the bags that are spoken of among them, in order.
    log_proba : (m, c) array
        Of the instances of these, as of `UnionAnnotator.log_proba`.
    """

    labelled: LabelledBags
    index: np.ndarray
    log_proba: np.ndarray


class UnionAnnotator(InstanceAnnotatorMixin, BagClassifierMixin, BagEstimator):
    """The label set of a bag is the union of its instances' labels, whatever knows the instances.

    A subclass gives `_prior(bags, listed=...)`: what is known of instances by their features, columns of the classes
    and behind them the background's. How label sets follow from that says `union_model`. Everything else follows from
    the two.
    """

    _takes_evidence = True
    _gives_scores: ClassVar[bool] = False
    """Whether `_prior` gives scores, of which a softmax makes probabilities."""

    missed_: Any
    spurious_: Any
    background: Any
    background_: bool
    background_share: float | None

    def _prior(self, bags: Bags, *, listed: bool = False) -> np.ndarray:
        """A new (m, c) or (m, c + 1) array; `listed`: the labels of the bags will be taken into account."""
        raise NotImplementedError

    def union_model(self) -> UnionModel:
        """How label sets follow from the labels of instances in the fitted model, background and label noise too."""
        n_classes = len(self.classes_)
        noise = LabelNoise.of(self.missed_, self.spurious_, n_classes, self._has_background)
        return UnionModel(n_classes, self._has_background, noise)

    def noise_rates(self) -> dict[str, Any]:
        """The rates of missing and spurious labels that the model was fitted with, a number or (c,) each."""
        return {"missed": self.missed_, "spurious": self.spurious_}

    def presence_when_fitted(
        self, presence: np.ndarray, bags: Bags, given: Given, known: np.ndarray | None
    ) -> np.ndarray:
        """(n, c) `presence` of labels, with what a model knows better of the bags that it learned from."""
        return presence

    @property
    def _has_background(self) -> bool:
        """Whether what was fitted knows a background class, whatever the parameter was set to since."""
        return hasattr(self, "background_shift_")

    def _check_background_share(self) -> None:
        check_that(self, "background_share", lambda value: value is None or 0 < value < 1, "None or in (0, 1)")

    # -- instances ----------------------------------------------------------------------------------------------------

    def log_proba(self, X: BagsLike) -> np.ndarray:
        """(m, c) or, with a background behind the classes, (m, c + 1) logarithms of the probabilities of instances."""
        prior = self._prior(self._start_predict(X))
        return log_softmax(prior, axis=1) if self._gives_scores else np.log(prior)

    def _probabilities(self, bags: Bags, *, listed: bool = False) -> np.ndarray:
        proba = self._prior(bags, listed=listed)
        if self._gives_scores:
            softmax_in_place(proba)
        return proba

    def _by_blocks(self, bags: Bags, function: Callable[[Bags], np.ndarray]) -> np.ndarray:
        return by_blocks(bags, len(self.classes_) + self.union_model().background, function)

    def _instance_scores(self, bags: Bags) -> np.ndarray:
        return self._prior(bags)[:, : len(self.classes_)]

    def predict_instances(self, X: BagsLike) -> np.ndarray:
        """(m,) most likely class of every instance when the labels of its bag are not known."""
        best = self._by_blocks(
            self._start_predict(X), lambda block: self._prior(block)[:, : len(self.classes_)].argmax(axis=1)
        )
        return self._values_of(best)

    def _find_alone(self, bags: Bags) -> Findings:
        proba = self._probabilities(bags)
        return self._findings(proba[:, : len(self.classes_)].argmax(axis=1), proba)

    def _findings(self, labels: np.ndarray, proba: np.ndarray) -> Findings:
        """With the background's column, if there is one, taken apart from the classes'."""
        background = proba[:, -1] if self.union_model().background else None
        return Findings(labels, proba[:, : len(self.classes_)], background)

    # -- instances of bags whose labels are given ---------------------------------------------------------------------

    def annotate(self, X: BagsLike, Y: LabelsLike | None = None) -> np.ndarray:
        """(m,) most likely class of every instance among the labels of its bag.

        With a background still the most likely listed one (see `background_proba` for the rest), and in a bag without
        labels ``background_label_``.
        """
        Y = given_labels(X, Y)
        bags = self._start_predict(X)
        indicator = encode_evidence(Y, self.classes_, len(bags))
        model, labels = self.union_model(), []
        indicator, problem = self._listed_problem(model, bags, indicator, None)
        errors = problem.room_for_errors(model.max_exact_labels)
        infer, width = self._labels_by(model, problem, bags)
        for block in Block.cut(problem, width):
            wrong = None if errors is None else errors[block.bags]
            labels.append(infer(block, bags[block.bags], indicator[block.bags], wrong))
        warn_approximation(problem, model.max_exact_labels, errors)
        return self._values_of(np.concatenate(labels))

    def _labels_by(self, model: UnionModel, problem: UnionProblem, bags: Bags) -> tuple[Callable[..., np.ndarray], int]:
        """What gives the most probable listed labels of a block, -1 where none is listed; and its columns."""

        def infer(block: Block, bags: Bags, indicator: Given, errors: np.ndarray | None) -> np.ndarray:
            posterior = self._prior(bags, listed=True)
            model.infer(block.problem, posterior, softmax=self._gives_scores, errors=errors)
            return _most_probable_listed(posterior, bags, indicator)

        return infer, len(self.classes_) + model.background

    def _find_listed(self, bags: Bags, indicator: Given, known: np.ndarray | None) -> Findings:
        """The posterior given the labels of the bags; the most probable of them is the label (equation 27)."""
        model = self.union_model()
        indicator, problem = self._listed_problem(model, bags, indicator, known)
        _, posterior = model.posterior(problem, self._prior(bags, listed=True), softmax=self._gives_scores)
        return self._findings(_most_probable_listed(posterior, bags, indicator, known), posterior)

    def _listed_problem(
        self, model: UnionModel, bags: Bags, indicator: Given, known: np.ndarray | None
    ) -> tuple[Given, UnionProblem]:
        """And the labels that it is of; with a warning about bags that their labels, or none, do not explain."""
        unlabelled = None
        if not (model.background or (model.noise is not None and model.noise.missed.any())):
            indicator, unlabelled = open_unlabelled(indicator)
        relaxed = relaxed_bags(bags.offsets, indicator, known, model.background, model.noise, unlabelled)
        return indicator, model.problem(bags.offsets, indicator, known, relaxed)

    def _missed_rates(self) -> np.ndarray | None:
        noise = self.union_model().noise
        return None if noise is None else noise.missed

    def label_posterior(
        self, X: BagsLike, Y: LabelsLike | None = None, instance_labels: Bags | None = None
    ) -> np.ndarray:
        """(n, c) probability that each label, listed or not, is truly in the bag: carried by one of its instances.

        Without rates of label noise listed labels have probability one and others zero, but for what is less sure than
        a list: possible labels, confidences, members of a group. With rates, missing labels are
        the unlisted ones of high probability, spurious labels the listed ones of low. NaN in a bag that nothing
        explains. Instances that are known (`instance_labels`, as of `find`) count as what they are.
        """
        Y, bags, model = given_labels(X, Y), self._start_predict(X), self.union_model()
        indicator = encode_evidence(Y, self.classes_, len(bags))
        known = known_labels(instance_labels, bags.offsets, len(self.classes_), background=model.background)
        problem = model.problem(bags.offsets, indicator, known)
        presence = model.presence(problem, self._probabilities(bags, listed=True))
        return self.presence_when_fitted(presence, bags, indicator, known)

    # -- bags ---------------------------------------------------------------------------------------------------------

    def _log_joint(self, bags: Bags) -> np.ndarray:
        """(n, c) sum over instances of the logarithms of their probabilities."""
        with np.errstate(divide="ignore"):
            logs = np.maximum(np.log(self._probabilities(bags)[:, : len(self.classes_)]), -1e300)
        return np.add.reduceat(logs, bags.offsets[:-1], axis=0)

    def _bag_scores(self, bags: Bags) -> np.ndarray:
        """The largest probability in the bag (section 6.4); where bags have one label each, sum_i log p_ic."""
        if self.single_label_:
            return self._by_blocks(bags, self._log_joint)

        def largest(bags: Bags) -> np.ndarray:
            proba = self._probabilities(bags)[:, : len(self.classes_)]
            return np.maximum.reduceat(proba, bags.offsets[:-1], axis=0)

        return self._by_blocks(bags, largest)

    def _bag_label_sets(self, bags: Bags) -> np.ndarray:
        """The union of the instances' most probable labels (equation 28), the background left out."""
        return self._by_blocks(bags, lambda bags: union_of_best(self._prior(bags), bags)[:, : len(self.classes_)])

    def predict_proba(self, X: Any) -> np.ndarray:
        """(n, c) probability that each label is among the bag's: 1 - prod_i (1 - p_ic).

        That takes the instances of a bag for independent, which they are not; `bagwise.calibration.CalibratedAnnotator`
        makes a better one of it. After a fit on (n,) values, where each bag has exactly one label, the (n, c)
        probabilities of that label: proportional to prod_i p_ic.
        """
        bags = self._start_predict_bags(X)
        if self.single_label_:
            joint = self._log_joint(bags)
            softmax_in_place(joint)
            return joint
        with np.errstate(divide="ignore"):
            return -np.expm1(log_absence(self._probabilities(bags)[:, : len(self.classes_)], bags.offsets, 1.0))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.bag_tags.probabilities = True
        fitted = "background_label_" in vars(self)
        tags.bag_tags.background = self._has_background if fitted else getattr(self, "background", False) is True
        return tags
