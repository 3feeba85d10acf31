"""What holds a forest's rounds when labels may be wrong: what a smooth model says of bags that it did not see.

From label sets alone an instance may be of any class that was missed, and the first trees learn that as noise. Later
rounds can drift: where nearly any label can have gone unnoticed, the trees teach themselves. A kernel model of the same
likelihood does neither, so the rounds start from it and do not leave it further than the label sets bear out. With it
the rate of missed labels is also found, at a tenth of the cost of forests.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from sklearn.metrics import average_precision_score
from sklearn.preprocessing import StandardScaler

from bagwise.annotation.ored import ORedLogisticRegression
from bagwise.annotation.rates import (
    LEARN,
    RateParameters,
    cross_fitted,
    enough_to_judge,
    learn_rates,
    missed_is_useful,
    precision_of_fold,
)
from bagwise.core.bags import Bags, as_instance_labels
from bagwise.preprocessing import RBFDictionary
from bagwise.union import LabelledBags, UnionModel, log_absence, select_bags

WIDTH, SIZE, L2 = 0.5, 600, 0.03  # as of "ored-rbf" in the catalogue
HELD_FROM = 0.05  # rate of missed labels: below it the label sets alone keep trees from teaching themselves
TREES = (1.0, 0.75, 0.5, 0.25)  # what the trees may count for, beside the kernel model


class Anchor:
    """Probabilities by a model that did not see the bags, and how much of them is mixed into what trees say.

    Of the label sets only their ranking is looked at: the likelihood would rather call labels missed.
    """

    def __init__(self, smooth: np.ndarray, bags: Bags, indicator: np.ndarray, weights: np.ndarray | None = None):
        self.smooth, self.bags, self.indicator, self.weights = smooth, bags, indicator, weights

    def hold(self, shares: np.ndarray) -> np.ndarray:
        """The mixture that ranks the label sets best; of two that do, the one with more of the trees."""

        def mixture(trees: float) -> np.ndarray:
            return trees * shares + (1.0 - trees) * self.smooth

        def ranking(trees: float) -> float:
            return ranking_of_sets(mixture(trees), self.bags, self.indicator, self.weights)

        return mixture(max(TREES, key=ranking))

    def halve(self, shares: np.ndarray) -> np.ndarray:
        """Half of each: where labels have many instances, rankings differ too little to choose by."""
        return 0.5 * (shares + self.smooth)


class Opinion(NamedTuple):
    """What a kernel model says of bags that it did not see.

    Attributes
    ----------
    proba : (m, c) array
        Of every instance, the background's last.
    precisions : list of float
        Of every fold, how well it ranks the labels of bags.
    """

    proba: np.ndarray
    precisions: list[float]


class KernelJudge:
    """The kernel model with the forest's settings, fitted three times for a rate, each on two thirds of the bags."""

    def __init__(self, forest: Any, bags: Bags, labelled: LabelledBags, background: bool = False):
        indicator, weights = labelled.indicator, labelled.weights
        n_classes = indicator.shape[1]
        scaled = StandardScaler().fit_transform(bags.instances)
        features = RBFDictionary(WIDTH, size=SIZE, whiten=True, random_state=0).set_output(transform="default")
        self.model = ORedLogisticRegression(
            l2=L2, background=background, missed=forest.missed, spurious=forest.spurious, random_state=0
        )
        self.bags, self.indicator, self.weights = Bags(features.fit_transform(scaled), bags.offsets), indicator, weights
        self.instance_labels = as_instance_labels(labelled.known, bags.offsets, n_classes)
        self.n_columns = n_classes + background

    def opinion(self, missed: Any) -> Opinion:
        """With that rate of missed labels."""
        proba, precisions = np.empty((self.bags.n_instances, self.n_columns)), []
        labelled = (self.bags, self.indicator, self.instance_labels, self.weights)
        for judge, test in cross_fitted(self.model, missed, *labelled):
            rows, _ = self.bags.select(test)
            proba[rows] = judge._probabilities(self.bags[test])
            precisions += precision_of_fold(judge, test, self.bags, self.indicator, self.weights)
        return Opinion(np.maximum(proba, np.finfo(np.float64).tiny), precisions)  # they have a logarithm

    def pays(self, precisions: list[float]) -> bool:
        """Whether a rate with which labels are ranked so well does no worse than none."""
        return missed_is_useful(self.model, self.bags, self.indicator, self.instance_labels, self.weights, precisions)


def ranking_of_sets(proba: np.ndarray, bags: Bags, indicator: np.ndarray, weights: np.ndarray | None = None) -> float:
    """Average precision of all pairs of bag and label, by the probability that some instance carries it, weighted."""
    absent = log_absence(proba[:, : indicator.shape[1]], bags.offsets)
    counts = None if weights is None else np.repeat(weights, indicator.shape[1])
    return float(average_precision_score(indicator.ravel(), -absent.ravel(), sample_weight=counts))


def find_missed(
    forest: Any, parameters: RateParameters, bags: Bags, labelled: LabelledBags
) -> tuple[RateParameters, np.ndarray | None]:
    """With the rate of missed labels at which a kernel model's label sets of bags that it did not see are most likely.

    The rate is 0 where these sets are ranked worse with it than without in every fold. Where there is one to reckon
    with, what the model says of the instances comes along: of the bags that can be explained and have a weight.
    """
    if "missed" not in parameters.learned:
        return parameters, None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the fit says it again
        labelled = select_bags(labelled, background=parameters.background, rates=parameters.possible)
    if not enough_to_judge(labelled.indicator):
        return parameters, None
    bags = bags[labelled.index]
    judge = KernelJudge(forest, bags, labelled, forest.background_)
    model = UnionModel(parameters.n_classes, parameters.background)
    problem = model.problem(bags.offsets, labelled.indicator, labelled.known)
    opinion = judge.opinion(LEARN)
    logits, *_ = learn_rates(parameters, problem, opinion.proba, parameters.start({}), labelled.weights)
    rate = parameters.mean_missed(logits)
    if rate < HELD_FROM:  # too small to be of consequence
        return parameters.with_missed(rate), None
    if not judge.pays(opinion.precisions):
        return parameters.with_missed(0.0), None
    return parameters.with_missed(rate), opinion.proba


def as_of_labels(parameters: RateParameters, posterior: np.ndarray, bags: Bags, weights: np.ndarray) -> RateParameters:
    """With rates of missed labels that are lower by as much as fewer labels go missing than instances go unnoticed.

    Trees are taught by these: they judge instances one by one, and that one stands alone for an unlisted label is as
    improbable as it is that a label is missed. Where labels have one instance each both rates are the same.
    """
    missed = parameters.given["missed"]
    assert missed is not None
    share = missed_labels(missed, posterior[:, : parameters.n_classes], bags, weights)
    return replace(parameters, given={**parameters.given, "missed": missed * (share / missed.mean())})


def missed_labels(missed: np.ndarray, posterior: np.ndarray, bags: Bags, weights: np.ndarray) -> float:
    """The share of the labels in bags of which no instance is noticed, where instances go unnoticed at these rates."""
    carried = np.minimum(posterior, 1.0 - 1e-15)
    absent, unnoticed = (np.exp(log_absence(noticed * carried, bags.offsets)) for noticed in (1.0, 1.0 - missed))
    return float((weights @ (unnoticed - absent)).sum() / (weights @ (1.0 - absent)).sum())
