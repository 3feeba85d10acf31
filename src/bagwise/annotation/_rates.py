"""Rates of wrong labels: as parameters of estimators, learned as logits, and what they say of a label."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
from scipy.special import expit, log_expit, logit

from bagwise.annotation._rate_check import missed_pays
from bagwise.bags import Bags, known_labels
from bagwise.base import given_labels
from bagwise.exceptions import InputError, warn_caller
from bagwise.fitted import Attribute, Either, Number, Numbers
from bagwise.kernels.softmax import softmax_in_place
from bagwise.kernels.union import MAX_EXACT_LABELS, Rates, UnionProblem, as_rates, warn_approximation
from bagwise.label_forms import encode_labels
from bagwise.solvers import minimize_lbfgs
from bagwise.typing import BagsLike, LabelsLike

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
    def possible(self) -> Rates | None:
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

    def rates(self, logits: np.ndarray | None = None) -> Rates | None:
        """One rate a column; None where labels are right."""
        values = {} if logits is None else self.values(logits)
        columns = {}
        for name, given in self.given.items():
            rates = np.full(self.n_classes, values[name]) if given is None else given
            columns[name] = np.append(rates, 0.0) if self.background else rates
        found = Rates(**columns)
        return found if found.missed.any() or found.spurious.any() else None

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


class WrongLabelsMixin:
    """What annotators that reckon with wrong labels share; a subclass gives `_probabilities(bags)`, and
    `_told_probabilities(bags)`, from which with the labels of the bags a posterior follows.

    It may give `_union_problem` and `_inference_options`, and says in `_has_background` whether a column of background
    comes behind the classes'.
    """

    _fitted: ClassVar[dict[str, Attribute]] = {"missed_": RATE, "spurious_": RATE}

    classes_: np.ndarray
    missed_: Any
    spurious_: Any
    _start_predict: Any
    _probabilities: Any
    _told_probabilities: Any
    _judges_missed = True  # not so the models that judge

    @classmethod
    def _upgrade(cls, params: dict[str, Any], state: dict[str, Any]) -> None:
        super()._upgrade(params, state)  # type: ignore[misc]
        if "classes_" in state:  # earlier versions took labels for right
            state.setdefault("missed_", 0.0)
            state.setdefault("spurious_", 0.0)

    @property
    def _has_background(self) -> bool:
        return False

    def _borne_out(
        self,
        parameters: RateParameters,
        bags: Bags,
        indicator: np.ndarray,
        instance_labels: Bags | None,
        weights: np.ndarray | None = None,
    ) -> RateParameters:
        """Without a rate of missed labels that is to be learned, where held-out bags speak against it."""
        if not self._judges_missed or "missed" not in parameters.learned:
            return parameters
        if weights is not None and not weights.all():
            used = weights > 0.0
            bags, indicator, weights = bags[used], indicator[used], weights[used]
            instance_labels = None if instance_labels is None else instance_labels[used]
        pays = missed_pays(self, bags, indicator, instance_labels, weights)
        return parameters if pays else parameters.with_missed(0.0)

    def _listed_probability(self, bags: Bags) -> np.ndarray:
        """(n, c) probability that a label is listed, 1 - (1 - nu_c) prod_i (1 - (1 - mu_c) p_ic)."""
        noticed = (1.0 - np.asarray(self.missed_)) * self._probabilities(bags)[:, : len(self.classes_)]
        log_unseen = np.add.reduceat(np.log1p(-np.minimum(noticed, 1.0 - 1e-15)), bags.offsets[:-1], axis=0)
        return 1.0 - (1.0 - np.asarray(self.spurious_)) * np.exp(log_unseen)

    def _rates(self) -> Rates | None:
        """The rates of the fit, one a column of the scores; None where labels are taken for right."""
        return RateParameters.of(self.missed_, self.spurious_, len(self.classes_), self._has_background).rates()

    def _missed_rates(self) -> np.ndarray | None:
        rates = self._rates()
        return None if rates is None else rates.missed

    def _union_problem(self, bags: Bags, indicator: np.ndarray, known: np.ndarray | None) -> UnionProblem:
        return UnionProblem.build(bags.offsets, indicator, known=known)

    def _inference_options(self, n_entries: int) -> dict[str, Any]:
        return {}

    def label_posterior(
        self, X: BagsLike, Y: LabelsLike | None = None, instance_labels: Bags | None = None
    ) -> np.ndarray:
        """(n, c) probability that each label, listed or not, is truly in the bag: carried by one of its instances.

        Without rates listed labels have probability one and others zero. With them, labels that somebody forgot are
        the unlisted ones of high probability, those that somebody made up the listed ones of low. NaN in a bag that
        nothing explains. Instances that are known (`instance_labels`, as of `find`) count as what they are.
        """
        Y, bags = given_labels(X, Y), self._start_predict(X)
        n_classes = len(self.classes_)
        indicator = encode_labels(Y, self.classes_, len(bags))
        known = known_labels(instance_labels, bags.offsets, n_classes, background=self._has_background)
        problem, proba = self._union_problem(bags, indicator, known), self._told_probabilities(bags)
        presence = label_presence(problem, proba, self._rates(), n_classes, **self._inference_options(proba.size))
        return self._told_presence(presence, bags, indicator, known)

    def _told_presence(
        self, presence: np.ndarray, bags: Bags, indicator: np.ndarray, known: np.ndarray | None
    ) -> np.ndarray:
        """(n, c) with what the model knows better of some bags than by their instances."""
        return presence


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
) -> tuple[np.ndarray, np.ndarray]:
    """Logits of the learned rates and a power of `proba` at which label sets are most likely.

    Probabilities of instances that are too timid spread what went unnoticed over all classes, and probabilities that
    are too sure leave nothing to it: so their power, rows made to sum to one again, is found together with the rates.
    `proba` must be that of bags that were not learned from, `weights` are those of the bags. Returns the logits, and
    the probabilities to that power.
    """
    of_bags = np.ones(len(problem.offsets) - 1) if weights is None else weights
    of_rows = np.repeat(of_bags, np.diff(problem.offsets))
    n_instances = float(of_rows.sum())
    log_proba = np.log(proba)
    work, statistics = np.empty_like(proba), np.empty((len(problem.offsets) - 1, 3))

    def negative_mean(flat: np.ndarray) -> tuple[float, np.ndarray]:
        logits, power = flat[:-1], np.exp(flat[-1])
        np.multiply(log_proba, power, out=work)
        likelihoods = problem.infer_in_place(
            work, softmax=True, residual=True, rates=parameters.rates(logits), statistics=statistics
        )
        value = of_bags @ likelihoods + parameters.log_prior(logits)
        slope = power * np.vdot(work * of_rows[:, None], log_proba)
        gradient = np.append(parameters.gradient(logits, statistics * of_bags[:, None]), slope)
        return -float(value) / n_instances, -gradient / n_instances

    found = minimize_lbfgs(negative_mean, np.append(start, 0.0), max_iter=100, tol=1e-5).weights
    sharpened = np.exp(found[-1]) * log_proba
    softmax_in_place(sharpened)
    return found[:-1], sharpened


def label_presence(
    problem: UnionProblem, proba: np.ndarray, rates: Rates | None, n_classes: int, **inference: Any
) -> np.ndarray:
    """(n, c) probability that some instance of the bag carries the label, given the listed labels.

    P(c is in the bag | Y) = 1 - P(no instance is of c, and Y) / P(Y): the likelihood once more for every class, its
    probabilities set to zero. Exact where union inference is.
    """

    def likelihood_of(proba: np.ndarray, errors: np.ndarray | None = None) -> np.ndarray:
        return problem.infer_in_place(proba, softmax=False, residual=False, rates=rates, errors=errors, **inference)

    exact = inference.get("max_exact_labels", MAX_EXACT_LABELS)
    errors = problem.room_for_errors(exact)
    whole = likelihood_of(proba.copy(), errors)
    warn_approximation(problem, exact, errors)
    presence = np.empty((len(whole), n_classes))
    for c in range(n_classes):
        without = proba.copy()
        without[:, c] = 0.0
        with np.errstate(invalid="ignore"):  # a bag that nothing explains: NaN
            presence[:, c] = np.maximum(-np.expm1(likelihood_of(without) - whole), 0.0)
    return presence
