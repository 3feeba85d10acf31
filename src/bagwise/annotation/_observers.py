"""Several observers who list the labels of the same bags: how far each can be relied on, and what is truly there."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np
from scipy.special import expit, log_expit, logit
from sklearn.base import clone
from sklearn.model_selection import KFold

from bagwise.annotation.forest import ORedForest
from bagwise.core.bags import Bags, as_bags
from bagwise.core.evidence import names_in
from bagwise.core.exceptions import InputError
from bagwise.core.typing import BagsLike
from bagwise.core.validation import Evidence, Given, as_evidence, as_given, encode_evidence, sort_classes
from bagwise.pipeline import bag_tags, final_step
from bagwise.solvers import minimize_lbfgs
from bagwise.union import union_log_odds

START = {"missed": 0.2, "invented": 0.05}
PRIOR = {"missed": (1.0, 4.0), "invented": (1.0, 9.0)}  # pairs wrong and right that each observer starts with
BOUNDS = 1e-6, 1.0 - 1e-6
SURE = 0.01  # a label as probable as this, or as improbable, is taken for listed or not
N_FOLDS = 3
MAX_STEPS, TOLERANCE = 500, 1e-6  # of EM; the tolerance is of the change of a rate


@dataclass(frozen=True)
class Observers:
    """What `learn_from_observers` finds.

    Attributes
    ----------
    missed : (o,) array
        How often each observer does not list a label that is in a bag.
    invented : (o,) array
        How often each observer lists a label that is not.
    unnoticed : float
        How often a label that is in a bag is listed by nobody who looked at it.
    presence : (n, c) array
        Probability that each label is in the bag, by all observers and by the instances.
    evidence : Evidence
        What the lists say together, as a fit takes it.
    model : estimator or None
        Fitted on that; its ``classes_`` are the columns. None if that was not asked for.

    Examples
    --------
    >>> from bagwise import ORedLogisticRegression
    >>> from bagwise.annotation import learn_from_observers
    >>> from bagwise.datasets import make_gaussian_bags
    >>> data = make_gaussian_bags(n_bags=60, random_state=0)
    >>> found = learn_from_observers(ORedLogisticRegression(), data.bags, [data.label_sets, data.label_sets])
    >>> found.missed.shape, found.presence.shape, found.model.classes_.tolist()
    ((2,), (60, 5), [0, 1, 2, 3, 4])
    """

    missed: np.ndarray
    invented: np.ndarray
    unnoticed: float
    presence: np.ndarray
    evidence: Evidence
    model: Any


def observer_log_odds(
    values: Any, missed: float | np.ndarray = START["missed"], invented: float | np.ndarray = START["invented"]
) -> np.ndarray:
    """How much more probable what an observer says of a label is if it is there, log w(1) / w(0); observers add up.

    Parameters
    ----------
    values : array
        1: listed, 0: not listed, NaN: nothing was said of it; between 0 and 1 the observer's own confidence p, which
        is log p / (1 - p) whatever the rates.
    missed, invented : float, or arrays that go with `values`
        Rates of the observer.

    Examples
    --------
    >>> from bagwise.annotation import observer_log_odds
    >>> observer_log_odds([1, 0, float("nan"), 0.7], missed=0.2, invented=0.05).round(2).tolist()
    [2.77, -1.56, 0.0, 0.85]
    """
    values = np.asarray(values, dtype=np.float64)
    missed, invented = np.clip(missed, *BOUNDS), np.clip(invented, *BOUNDS)
    listed, unlisted = np.log1p(-missed) - np.log(invented), np.log(missed) - np.log1p(-invented)
    odds = np.where(values >= 1.0, listed, np.where(values <= 0.0, unlisted, 0.0))
    sure = (values > 0.0) & (values < 1.0)
    odds[sure] = logit(np.clip(values[sure], *BOUNDS))
    return odds


def learn_from_observers(
    estimator: Any, X: BagsLike, lists: Iterable[Any], *, certain: np.ndarray | None = None, refit: bool = True
) -> Observers:
    """Fit an estimator on the lists of several observers, and find how often each misses and invents labels.

    Observer o lists a label that is in the bag with probability 1 - m_o and one that is not with probability v_o. What
    all of them say of a label is then w(1) = prod_o (1 - m_o if listed, else m_o) probable if it is there and
    w(0) = prod_o (v_o if listed, else 1 - v_o) if not. Before anybody says anything it is there with log-odds
    a s + b_c, s by the instances: the log-odds of their union, by copies of the estimator that did not see the bag. All
    these numbers are found together by EM, with weak priors of the rates. (Were presence taken from the fitted model
    itself, which has learned to explain every label that somebody invented, inventions would pass for labels.)

    The estimator is fitted on what the lists say together: a confidence of w(1) / (w(1) + w(0)) in a label that
    somebody lists or calls possible, or a plain list where its presence is above .99 or below .01; one that nobody
    lists went unnoticed by all, so that its rate `missed` is the product of the m_o (but for a forest, which takes
    evidence without rates).

    Parameters
    ----------
    estimator : ORedLogisticRegression, or another learner that takes evidence, or a pipeline that ends with one
    X : Bags, BagDataset, list of 2-d arrays or frames, 3-d array
    lists : one entry per observer
        A list of label sets, None for a bag that the observer did not look at; or an (n, c) matrix as of
        `observer_log_odds`, NaN in the whole row of a bag that the observer did not look at. What a label set says
        beyond a list counts: nothing is said of a label that is `Possible`; one that is `Absent` is not listed, one
        that is `Certain` is.
    certain : (n, c) array or None
        What is known for certain, whatever observers say: inf where a label is there, -inf where it is not, else NaN.
    refit : bool
        Whether the estimator is fitted on all bags; if not, `Observers.model` is None.

    References
    ----------
    A. P. Dawid, A. M. Skene (1979): Maximum likelihood estimation of observer error-rates using the EM algorithm.
    V. C. Raykar et al. (2010): Learning from crowds.

    Examples
    --------
    >>> from bagwise import ORedLogisticRegression
    >>> from bagwise.annotation import learn_from_observers
    >>> from bagwise.datasets import make_gaussian_bags
    >>> data = make_gaussian_bags(n_bags=60, random_state=0)
    >>> forgetful = [labels if i % 3 else set() for i, labels in enumerate(data.label_sets)]
    >>> found = learn_from_observers(ORedLogisticRegression(), data.bags, [data.label_sets, forgetful, data.label_sets])
    >>> [bool(rate > 0.2) for rate in found.missed]
    [False, True, False]
    """
    if not bag_tags(estimator).evidence:
        raise InputError(
            f"{type(final_step(estimator)).__name__} takes plain lists of labels alone; pass an "
            "ORedLogisticRegression, which takes what several observers say."
        )
    bags, model = as_bags(X), clone(estimator)
    said = _encode(lists, len(bags), certain)
    rates, _ = _learn(said, np.zeros(said.shape))
    rates, presence = _learn(said, _held_out(model, bags, said, rates))
    evidence, unnoticed = said.evidence(rates, presence), said.unnoticed(rates)
    fitted = _fit(model, bags, evidence, unnoticed) if refit else None
    return Observers(rates["missed"], rates["invented"], unnoticed, presence, evidence, fitted)


@dataclass(frozen=True)
class _Said:
    """What all observers say.

    Attributes
    ----------
    values : list of (rows, array) pairs
        Of each observer the bags looked at, and (k, c) what is said of the labels of these.
    groups : list of sets of tuples of columns
        Of each bag those of which one label at least is there.
    certain : (n, c) array
    classes : list
    """

    values: list[tuple[np.ndarray, np.ndarray]]
    groups: list[set[tuple[int, ...]]]
    certain: np.ndarray
    classes: list[Any]

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.certain), len(self.classes)

    def part(self, bags: np.ndarray) -> _Said:
        """Of some bags, in order."""
        place = np.full(len(self.certain), -1)
        place[bags] = np.arange(len(bags))
        values = [(place[rows[inside]], own[inside]) for rows, own in self.values for inside in [place[rows] >= 0]]
        return replace(self, values=values, groups=[self.groups[b] for b in bags], certain=self.certain[bags])

    def log_odds(self, rates: dict[str, np.ndarray]) -> np.ndarray:
        """(n, c) log w(1) / w(0) of what all say, infinite where it is certain."""
        odds = np.zeros(self.shape)
        for (rows, own), missed, invented in zip(self.values, rates["missed"], rates["invented"], strict=True):
            odds[rows] += observer_log_odds(own, missed, invented)
        return np.where(np.isnan(self.certain), odds, self.certain)

    def unnoticed(self, rates: dict[str, np.ndarray]) -> float:
        """How often all who looked at a bag miss a label of it: mean over the bags that somebody looked at."""
        left, seen = np.ones(len(self.certain)), np.zeros(len(self.certain), dtype=bool)
        for (rows, _), missed in zip(self.values, rates["missed"], strict=True):
            left[rows] *= missed
            seen[rows] = True
        return float(left[seen].mean()) if seen.any() else 0.0

    def evidence(self, rates: dict[str, np.ndarray], presence: np.ndarray | None = None) -> Evidence:
        """The confidence in each label that somebody speaks of; nothing is known of what nobody looked at.

        Where its presence is known and all but sure, it is listed or not: half of the bags are plain lists then, by
        which a calibration can go.
        """
        spoken, open_ = np.zeros(self.shape, dtype=bool), np.zeros(self.shape, dtype=bool)
        for rows, own in self.values:
            spoken[rows] |= ~np.isnan(own)
            open_[rows] |= np.isnan(own) | (own > 0.0)
        known = np.where(open_, np.clip(expit(self.log_odds(rates)), *BOUNDS), 0.0)
        if presence is not None:
            known = np.where(open_ & (presence >= 1.0 - SURE), 1.0, np.where(presence <= SURE, 0.0, known))
        values = np.where(spoken, known, np.nan)
        values = np.where(np.isnan(self.certain), values, self.certain)
        groups = [
            [group for group in of_bag if not (values[bag, list(group)] == -np.inf).all()]
            for bag, of_bag in enumerate(self.groups)
        ]
        given = as_evidence(values, groups)
        given = given if isinstance(given, Evidence) else Evidence(given.astype(np.float64))
        return replace(given, columns=self.classes)


def _encode(lists: Iterable[Any], n_bags: int, certain: np.ndarray | None) -> _Said:
    """What all observers say, from their lists in either form."""
    each = iter(lists)
    first = next(each, None)
    if first is None:
        raise InputError("There are no lists; pass one per observer.")
    each, classes = chain([first], each), None
    if not isinstance(first, np.ndarray):
        sets = list(each)
        classes = sort_classes(
            {name for of_one in sets for own in of_one for entry in own or () for name in names_in(entry)}
        )
        each = iter(sets)
    values = []
    groups: list[set[tuple[int, ...]]] = [set() for _ in range(n_bags)]
    for o, of_one in enumerate(each):
        if len(of_one) != n_bags:
            raise InputError(f"Observer {o} has {len(of_one)} lists but X has {n_bags} bags; pass None for the others.")
        looked, given = _one(of_one, classes)
        if isinstance(given, Evidence) and given.groups is not None:
            for bag, own in enumerate(given.groups):
                groups[bag].update(own)
        full = given.values if isinstance(given, Evidence) else given.astype(np.float64)
        values.append((looked, full[looked]))
    n_classes = values[0][1].shape[1]
    fixed = np.full((n_bags, n_classes), np.nan) if certain is None else np.asarray(certain, dtype=np.float64)
    if fixed.shape != (n_bags, n_classes):
        raise InputError(f"certain has shape {fixed.shape}; expected {(n_bags, n_classes)}, a row per bag.")
    return _Said(values, groups, fixed, list(range(n_classes)) if classes is None else classes.tolist())


def _one(of_one: Sequence[Any], classes: np.ndarray | None) -> tuple[np.ndarray, Given]:
    """Which bags one observer looked at, and what is said of all."""
    if classes is None:
        given = as_given(np.asarray(of_one, dtype=np.float64))
        unseen = np.isnan(given.values).all(axis=1) if isinstance(given, Evidence) else np.zeros(len(given), dtype=bool)
        return np.flatnonzero(~unseen), given
    sets = [set() if own is None else set(own) for own in of_one]
    return np.flatnonzero([own is not None for own in of_one]), encode_evidence(sets, classes, len(sets))


def _learn(said: _Said, scores: np.ndarray) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Rates of the observers and (n, c) presence of labels, from scores of the instances; 0 where there are none."""
    rates = {name: np.full(len(said.values), value) for name, value in START.items()}
    n_listed = sum((own >= 1.0).sum(axis=0) for _, own in said.values)
    share = np.clip(n_listed / max(sum(len(rows) for rows, _ in said.values), 1), *BOUNDS)
    prior = np.append(logit(np.clip(share, 0.01, 0.99)), 1.0 if scores.any() else 0.0)

    def rate(name: str, presence: np.ndarray, wrong: np.ndarray, plain: np.ndarray) -> float:
        wrongs, rights = PRIOR[name]
        return float((wrongs + presence[wrong].sum()) / (wrongs + rights + presence[plain].sum()))

    for _ in range(MAX_STEPS):
        presence = expit(prior[:-1] + prior[-1] * scores + said.log_odds(rates))
        prior = _fit_prior(prior, scores, presence)
        before, pairs = rates, []
        for rows, own in said.values:
            there, listed, unlisted = presence[rows], own >= 1.0, own <= 0.0
            plain = listed | unlisted
            pairs.append((rate("missed", there, unlisted, plain), rate("invented", 1.0 - there, listed, plain)))
        rates = dict(zip(START, np.array(pairs).T, strict=True))
        if max(np.abs(rates[name] - before[name]).max() for name in rates) < TOLERANCE:
            break
    return rates, presence


def _fit_prior(prior: np.ndarray, scores: np.ndarray, presence: np.ndarray) -> np.ndarray:
    """Offsets of the classes and the common slope of the scores at which these presences are most likely."""

    def negative_mean(flat: np.ndarray) -> tuple[float, np.ndarray]:
        logits = flat[:-1] + flat[-1] * scores
        value = (presence * log_expit(logits) + (1.0 - presence) * log_expit(-logits)).sum()
        residual = presence - expit(logits)
        gradient = np.append(residual.sum(axis=0), np.vdot(residual, scores))
        return -float(value) / scores.size, -gradient / scores.size

    return minimize_lbfgs(negative_mean, prior, max_iter=50, tol=1e-7).weights


def _held_out(model: Any, bags: Bags, said: _Said, rates: dict[str, np.ndarray]) -> np.ndarray:
    """(n, c) log-odds that a label is there by the instances alone, from copies that did not see the bag."""
    found = np.zeros(said.shape)
    folds = KFold(N_FOLDS, shuffle=True, random_state=0).split(found) if len(found) >= N_FOLDS else ()
    for train, test in folds:
        part = said.part(train)
        evidence = part.evidence(rates)
        if not evidence.possible.any():
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the fit on all bags says it again
            copy = _fit(clone(model), bags[train], evidence, part.unnoticed(rates))
        held = bags[test]
        found[test] = union_log_odds(copy.predict_instances_proba(held), held.offsets)
    return found


def _fit(model: Any, bags: Bags, evidence: Evidence, unnoticed: float) -> Any:
    """The model fitted on the evidence of all observers; what nobody noticed it finds by itself, where it can."""
    final = final_step(model)
    if "missed" in final.get_params(deep=False) and not isinstance(final, ORedForest):
        final.set_params(missed=unnoticed)
    return model.fit(bags, evidence)
