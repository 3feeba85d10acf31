"""Several observers who list the labels of the same bags: how far each can be relied on, and what is truly there."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit, log_expit, logit
from sklearn.base import clone
from sklearn.model_selection import KFold

from bagwise.core.bags import Bags, as_bags, as_indicator
from bagwise.core.exceptions import InputError
from bagwise.core.typing import BagsLike
from bagwise.core.validation import Evidence, encode_labels, sort_classes
from bagwise.solvers import minimize_lbfgs
from bagwise.union import union_log_odds

START = {"missed": 0.2, "invented": 0.05}
PRIOR = {"missed": (1.0, 4.0), "invented": (1.0, 9.0)}  # pairs wrong and right that each observer starts with
BOUNDS = 1e-6, 1.0 - 1e-6
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
    presence : (n, c) array
        Probability that each label is in the bag, by all observers and by the instances.
    evidence : Evidence
        What the lists say together, as a fit takes it.
    model : estimator
        Fitted on that; its ``classes_`` are the columns.

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
    presence: np.ndarray
    evidence: Evidence
    model: Any


def learn_from_observers(estimator: Any, X: BagsLike, lists: Sequence[Any]) -> Observers:
    """Fit an estimator on the lists of several observers, and find how often each misses and invents labels.

    Observer o lists a label that is in the bag with probability 1 - m_o and one that is not with probability v_o. What
    all of them say of a label is then w(1) = prod_o (1 - m_o if listed, else m_o) probable if it is there and
    w(0) = prod_o (v_o if listed, else 1 - v_o) if not. Before anybody says anything it is there with log-odds
    a s + b_c, s by the instances: the log-odds of their union, by copies of the estimator that did not see the bag. All
    these numbers are found together by EM, with weak priors of the rates. (Were presence taken from the fitted model
    itself, which has learned to explain every label that somebody invented, inventions would pass for labels.)

    The estimator is fitted on what the lists say together: a confidence of w(1) / (w(1) + w(0)) in a label that
    somebody lists; one that nobody lists went unnoticed by all, so that its rate `missed` is the product of the m_o.

    Parameters
    ----------
    estimator : ORedLogisticRegression, or another learner with `missed` that takes evidence
    X : Bags, BagDataset, list of 2-d arrays or frames, 3-d array
    lists : one entry per observer: a list of label sets, None for a bag that the observer did not look at; or an (n, c)
        matrix of 0, 1 and NaN (did not look)

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
    bags = as_bags(X)
    listed, looked, classes = _encode(lists, len(bags))
    model = clone(estimator)
    if "missed" not in model.get_params(deep=False):
        raise InputError(
            f"{type(estimator).__name__} has no rates of missed labels; pass an ORedLogisticRegression, which has."
        )
    rates, _ = _learn(listed, looked, np.zeros(listed.shape[1:]))
    held_out = _held_out(model, bags, listed, looked, rates, classes)
    rates, presence = _learn(listed, looked, held_out)
    return Observers(rates["missed"], rates["invented"], presence, *_fit(model, bags, listed, looked, rates, classes))


def _encode(lists: Sequence[Any], n_bags: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(o, n, c) what each observer lists, (o, n) which bags each looked at, and the classes."""
    if not len(lists):
        raise InputError("There are no lists; pass one per observer.")
    for o, of_one in enumerate(lists):
        if len(of_one) != n_bags:
            raise InputError(f"Observer {o} has {len(of_one)} lists but X has {n_bags} bags; pass None for the others.")
    if isinstance(lists[0], np.ndarray):
        values = np.stack([np.asarray(of_one, dtype=np.float64) for of_one in lists])
        looked: np.ndarray = np.logical_not(np.isnan(values).all(axis=2))
        return np.stack([as_indicator(v) for v in np.nan_to_num(values)]), looked, np.arange(values.shape[2])
    looked = np.array([[labels is not None for labels in of_one] for of_one in lists])
    sets = [[set() if labels is None else set(labels) for labels in of_one] for of_one in lists]
    classes = sort_classes({label for of_one in sets for labels in of_one for label in labels})
    return np.stack([encode_labels(of_one, classes, n_bags) for of_one in sets]), looked, classes


def _log_odds(listed: np.ndarray, looked: np.ndarray, rates: dict[str, np.ndarray]) -> np.ndarray:
    """(n, c) log w(1) / w(0): how much more probable what all say of a label is if it is there."""
    missed, invented = (rates[name][:, None, None] for name in ("missed", "invented"))
    by_one = np.where(listed == 1, np.log1p(-missed) - np.log(invented), np.log(missed) - np.log1p(-invented))
    return (looked[:, :, None] * by_one).sum(axis=0)


def _learn(listed: np.ndarray, looked: np.ndarray, scores: np.ndarray) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Rates of the observers and (n, c) presence of labels, from scores of the instances; 0 where there are none."""
    seen = looked[:, :, None]
    rates = {name: np.full(len(listed), value) for name, value in START.items()}
    share = np.clip((listed * seen).sum(axis=(0, 1)) / np.maximum(looked.sum(), 1), *BOUNDS)
    prior = np.append(logit(np.clip(share, 0.01, 0.99)), 1.0 if scores.any() else 0.0)

    def updated(name: str, wrong: np.ndarray, pairs: np.ndarray) -> np.ndarray:
        wrongs, rights = PRIOR[name]
        return (wrongs + (seen * wrong).sum(axis=(1, 2))) / (wrongs + rights + (seen * pairs).sum(axis=(1, 2)))

    for _ in range(MAX_STEPS):
        presence = expit(prior[:-1] + prior[-1] * scores + _log_odds(listed, looked, rates))
        prior = _fit_prior(prior, scores, presence)
        before, rates = (
            rates,
            {
                "missed": updated("missed", presence * (1 - listed), presence),
                "invented": updated("invented", (1.0 - presence) * listed, 1.0 - presence),
            },
        )
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


def _held_out(
    model: Any, bags: Bags, listed: np.ndarray, looked: np.ndarray, rates: dict[str, np.ndarray], classes: np.ndarray
) -> np.ndarray:
    """(n, c) log-odds that a label is there by the instances alone, from copies that did not see the bag."""
    found = np.zeros(listed.shape[1:])
    for train, test in KFold(N_FOLDS, shuffle=True, random_state=0).split(found):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the fit on all bags says it again
            _, copy = _fit(clone(model), bags[train], listed[:, train], looked[:, train], rates, classes)
        held = bags[test]
        found[test] = union_log_odds(copy.predict_instances_proba(held), held.offsets)
    return found


def _fit(
    model: Any, bags: Bags, listed: np.ndarray, looked: np.ndarray, rates: dict[str, np.ndarray], classes: np.ndarray
) -> tuple[Evidence, Any]:
    """The evidence of all observers, and the model fitted on it; of bags that nobody looked at nothing is known."""
    values = np.where(listed.any(axis=0), np.clip(expit(_log_odds(listed, looked, rates)), *BOUNDS), 0.0)
    seen = looked.any(axis=0)
    values[~seen] = np.nan
    unnoticed = np.where(looked, rates["missed"][:, None], 1.0).prod(axis=0)
    evidence = Evidence(values, columns=classes.tolist())
    return evidence, model.set_params(missed=float(unnoticed[seen].mean())).fit(bags, evidence)
