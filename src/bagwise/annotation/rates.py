"""Rates of label noise as parameters of estimators: given, or learned as logits."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy.special import expit, log_expit, logit
from sklearn.base import clone
from sklearn.metrics import average_precision_score
from sklearn.model_selection import KFold

from bagwise.core.bags import Bags
from bagwise.core.exceptions import InputError, warn_caller
from bagwise.core.fitted import Either, Number, Numbers
from bagwise.core.validation import Given, listed_labels
from bagwise.solvers import minimize_lbfgs
from bagwise.union import LabelNoise, UnionProblem, as_rates, softmax_in_place

LEARN = "learn"
START = {"missed": 0.1, "spurious": 0.02}
PRIOR_WRONG, PRIOR_RIGHT = 1.0, 9.0  # counts that a learned rate starts with, a Beta(2, 10): one wrong in ten
RATE = Either(Number(0, 1 - 1e-12), Numbers("classes", low=0, high=1 - 1e-12))
SMALLEST = 1e-9  # learned rates stay this far from 0 and 1, whatever the solver tries
BOUND = 0.9  # a learned rate of this or more has run away
MEANING = {
    "missed": "nearly every instance would have gone unnoticed, so that the label sets say next to nothing about the "
    "instances",
    "spurious": "nearly every label would be listed everywhere for nothing, so that the sets say next to nothing about "
    "the instances",
}


@dataclass(frozen=True)
class RateParameters:
    """The parameters `missed` and `spurious` of an estimator, checked: given, or learned as one logit each.

    Attributes
    ----------
    given : dict
        "missed" and "spurious" to (c,) rates, or None where the rate is learned.
    background : bool
        Whether a column of background comes behind the classes'.
    chosen : dict
        Rates that were to be learned and that held-out bags decided; they are in `given` too.
    """

    given: dict[str, np.ndarray | None]
    n_classes: int
    background: bool
    chosen: dict[str, float] = field(default_factory=dict)

    @classmethod
    def of(cls, missed: Any, spurious: Any, n_classes: int, background: bool = False) -> RateParameters:
        """An error names what is no rate."""
        given = {}
        for name, value in (("missed", missed), ("spurious", spurious)):
            if isinstance(value, str) and value != LEARN:
                raise InputError(
                    f"{name}={value!r} is no rate; pass a number in [0, 1), an array of one a class, or 'learn'."
                )
            given[name] = None if isinstance(value, str) else as_rates(name, value, n_classes)
        return cls(given, n_classes, background)

    def with_missed(self, rate: float) -> RateParameters:
        """The same with that rate chosen."""
        return replace(self, given={**self.given, "missed": np.full(self.n_classes, rate)}, chosen={"missed": rate})

    @property
    def learned(self) -> list[str]:
        """Which of the rates are learned."""
        return [name for name, rates in self.given.items() if rates is None]

    @property
    def possible(self) -> LabelNoise | None:
        """Rates of which only counts which are zero: what may happen at all."""
        return self.rates(self.start({}))

    @property
    def may_miss(self) -> bool:
        """Whether labels may go missing."""
        given = self.given["missed"]
        return given is None or bool(given.any())

    def mean_missed(self, logits: np.ndarray) -> float:
        """The rate of missed labels, given or learned, over all classes."""
        given = self.given["missed"]
        return self.values(logits)["missed"] if given is None else float(given.mean())

    def start(self, last: dict[str, Any]) -> np.ndarray:
        """Logits to start from: of the rates of the last fit where they are numbers."""
        values = [last.get(name, START[name]) for name in self.learned]
        known = [v if np.ndim(v) == 0 and v > 0 else START[name] for name, v in zip(self.learned, values, strict=True)]
        return logit(np.array(known, dtype=np.float64))

    def values(self, logits: np.ndarray) -> dict[str, float]:
        """The learned rates, and those that were chosen."""
        learned = np.clip(expit(logits), SMALLEST, 1.0 - SMALLEST).tolist()
        return {**self.chosen, **dict(zip(self.learned, learned, strict=True))}

    def rates(self, logits: np.ndarray | None = None) -> LabelNoise | None:
        """One rate a column; None where labels are right."""
        values = {} if logits is None else self.values(logits)
        rates = {name: values[name] if given is None else given for name, given in self.given.items()}
        return LabelNoise.of(**rates, n_classes=self.n_classes, background=self.background)

    def log_prior(self, logits: np.ndarray) -> float:
        """Of the learned rates, up to a constant."""
        return float(np.sum(PRIOR_WRONG * log_expit(logits) + PRIOR_RIGHT * log_expit(-logits)))

    def gradient(self, logits: np.ndarray, statistics: np.ndarray) -> np.ndarray:
        """Of log-likelihood and log-prior in the logits; `statistics` of the bags as union inference gives them."""
        noticed, unnoticed, pull = statistics.sum(axis=0)
        values = expit(logits)
        of_likelihood = {
            "missed": lambda rate: (1.0 - rate) * unnoticed - rate * noticed,
            "spurious": lambda rate: rate * pull,
        }
        found = [of_likelihood[name](value) for name, value in zip(self.learned, values, strict=True)]
        return np.asarray(found) + PRIOR_WRONG - (PRIOR_WRONG + PRIOR_RIGHT) * values

    def warn_of_bounds(self, values: dict[str, float]) -> None:
        """Say what it means that a learned rate ran away."""
        for name, value in values.items():
            if value >= BOUND:
                warn_caller(
                    f"The learned rate {name} ran to {value:.3f}, next to its bound of 1: {MEANING[name]}. The model "
                    f"explains the labels no better than that; give the rate, or check labels and features.",
                    UserWarning,
                )


def keep_if_useful(
    parameters: RateParameters,
    model: Any,
    bags: Bags,
    indicator: Given,
    instance_labels: Bags | None,
    weights: np.ndarray | None = None,
) -> RateParameters:
    """Without a rate of missed labels that is to be learned, where held-out bags speak against it."""
    if "missed" not in parameters.learned or _is_judge(model):
        return parameters
    if weights is not None and not weights.all():
        used = weights > 0.0
        bags, indicator, weights = bags[used], indicator[used], weights[used]
        instance_labels = None if instance_labels is None else instance_labels[used]
    useful = missed_is_useful(model, bags, indicator, instance_labels, weights)
    return parameters if useful else parameters.with_missed(0.0)


def plain_rate(given: Any) -> Any:
    """What is kept of a rate: a number or a float array; of one that is learned, nothing yet."""
    if isinstance(given, str):
        return 0.0
    return float(given) if np.ndim(given) == 0 else np.array(given, dtype=np.float64)


def learn_rates(
    parameters: RateParameters,
    problem: UnionProblem,
    proba: np.ndarray,
    start: np.ndarray,
    weights: np.ndarray | None = None,
) -> tuple[np.ndarray, float, np.ndarray]:
    """Logits of the learned rates and a power of `proba` at which label sets are most likely.

    `proba` must be that of bags that were not learned from, `weights` are those of the bags. Returns the logits, the
    power, and the probabilities to it, rows made to sum to one again.
    """

    def infer(work: np.ndarray, rates: LabelNoise | None, statistics: np.ndarray) -> np.ndarray:
        return problem.infer_in_place(work, softmax=True, residual=True, rates=rates, statistics=statistics)

    log_proba = np.log(proba)
    logits, power = learn_power(parameters, infer, log_proba, problem.offsets, start, weights)
    sharpened = power * log_proba
    softmax_in_place(sharpened)
    return logits, power, sharpened


def learn_power(
    parameters: RateParameters,
    infer: Callable[[np.ndarray, LabelNoise | None, np.ndarray], np.ndarray],
    scores: np.ndarray,
    offsets: np.ndarray,
    start: np.ndarray,
    weights: np.ndarray | None = None,
) -> tuple[np.ndarray, float]:
    """Logits of the learned rates and a factor of the scores of instances at which label sets are most likely.

    Scores that are too timid spread what went unnoticed over all classes, and scores that are too sure leave nothing to
    it: so their factor is found together with the rates. `infer` makes scores posterior minus probability, fills the
    statistics of the rates and gives the log-likelihoods of bags.
    """
    of_bags = np.ones(len(offsets) - 1) if weights is None else weights
    of_rows = np.repeat(of_bags, np.diff(offsets))
    n_instances = float(of_rows.sum())
    work, statistics = np.empty_like(scores), np.empty((len(offsets) - 1, 3))

    def negative_mean(flat: np.ndarray) -> tuple[float, np.ndarray]:
        logits, power = flat[:-1], np.exp(flat[-1])
        np.multiply(scores, power, out=work)
        likelihoods = infer(work, parameters.rates(logits), statistics)
        value = of_bags @ likelihoods + parameters.log_prior(logits)
        slope = power * np.vdot(work * of_rows[:, None], scores)
        gradient = np.append(parameters.gradient(logits, statistics * of_bags[:, None]), slope)
        return -float(value) / n_instances, -gradient / n_instances

    found = minimize_lbfgs(negative_mean, np.append(start, 0.0), max_iter=100, tol=1e-5).weights
    return found[:-1], float(np.exp(found[-1]))


# ---------------------------------------------------------------------------------------------------------------------
# Whether a rate of missing labels ranks the labels of held-out bags better

N_FOLDS = 3
FEWEST_LABELS = 30  # listed in all bags together: with fewer there is nothing to judge by


def _is_judge(model: Any) -> bool:
    return getattr(model, "_is_judge", False)


def enough_to_judge(given: Given) -> bool:
    return len(given) >= N_FOLDS and listed_labels(given).sum() >= FEWEST_LABELS


def missed_is_useful(
    model: Any,
    bags: Bags,
    indicator: Given,
    instance_labels: Bags | None,
    weights: np.ndarray | None = None,
    with_rate: list[float] | None = None,
) -> bool:
    """Whether some fold's labels are ranked as well by the model with its rate `missed` as by one that has none.

    The likelihood cannot tell: where labels have many instances a high rate costs it next to nothing, and forgives
    every instance that the model cannot tell apart. How well it tells bags with a label from bags without can. That
    all folds must speak against the rate is because few bags say little, and a rate that changes little does no harm.
    `with_rate` are the precisions of the folds with the rate, where they are known already.
    """
    if not enough_to_judge(indicator):
        return True
    try:
        without = _held_out_precisions(model, 0.0, bags, indicator, instance_labels, weights)
    except InputError:  # only missed labels explain these bags
        return True
    if with_rate is None:
        with_rate = _held_out_precisions(model, model.missed, bags, indicator, instance_labels, weights)
    return any(mine >= other for mine, other in zip(with_rate, without, strict=True))


def _held_out_precisions(
    model: Any,
    missed: Any,
    bags: Bags,
    indicator: Given,
    instance_labels: Bags | None,
    weights: np.ndarray | None,
) -> list[float]:
    """Of every fold: average precision of all pairs of bag and label, by the probability that the label is listed."""
    return [
        precision
        for judge, test in cross_fitted(model, missed, bags, indicator, instance_labels, weights)
        for precision in precision_of_fold(judge, test, bags, indicator, weights)
    ]


def precision_of_fold(
    judge: Any, test: np.ndarray, bags: Bags, indicator: Given, weights: np.ndarray | None
) -> list[float]:
    """That of the bags `test`, by a model that was fitted on the others; nothing where they list no label."""
    listed = listed_labels(indicator[test])
    if not listed.any():
        return []
    counts = None if weights is None else np.repeat(weights[test], indicator.shape[1])
    held = bags[test]
    probable = judge.union_model().listed_probability(judge._probabilities(held), held.offsets)
    return [float(average_precision_score(listed.ravel(), probable.ravel(), sample_weight=counts))]


def cross_fitted(
    model: Any,
    missed: Any,
    bags: Bags,
    indicator: Given,
    instance_labels: Bags | None,
    weights: np.ndarray | None = None,
) -> Iterator[tuple[Any, np.ndarray]]:
    """The model with that rate fitted on all folds but one, and the bags of that one."""
    for train, test in KFold(N_FOLDS, shuffle=True, random_state=0).split(np.arange(len(indicator))):
        judge = clone(model).set_params(missed=missed, verbose=0)
        if "background_" in vars(model):  # which bags without labels mean is settled by the fit that asks
            judge.background = model.background_
        judge._is_judge = True  # it learns a rate without asking judges of its own
        own = None if instance_labels is None else instance_labels[train]
        weighted = {} if weights is None else {"sample_weight": weights[train]}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the fit on all bags says it again
            judge.fit(bags[train], indicator[train], instance_labels=own, **weighted)
        yield judge, test
