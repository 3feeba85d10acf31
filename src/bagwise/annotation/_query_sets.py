"""What an answer settles where an instance may carry any number of labels: each label is a question of its own."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import xlogy

from bagwise.core.bags import Bags, offsets_of
from bagwise.core.exceptions import InfeasibleBagWarning

MOST_WORK = 1e7  # numbers looked at to see what answers settle in their bags
LEAST = 1e-3  # probability of a label that two instances may share


@dataclass(frozen=True)
class SetQuestion:
    """What a model of label sets says of the instances, and what people said.

    Attributes
    ----------
    bags : Bags
    listed : (n, c) bool array
        Labels that bags list, and that none of their known instances carries.
    answered : (m,) array of bool
        Instances of which a person said what they carry.
    prior, posterior : (m, c) arrays
        Probabilities from the features alone, and given all that is known.
    """

    bags: Bags
    listed: np.ndarray
    answered: np.ndarray
    prior: np.ndarray
    posterior: np.ndarray

    @classmethod
    def of(
        cls, model: Any, bags: Bags, indicator: np.ndarray, labelled: np.ndarray, known: Bags | None, noise: Any
    ) -> SetQuestion:
        """From (n, c) label sets, of which those of the bags `labelled` count, and (m, c) what is known, NaN if not."""
        n_classes = indicator.shape[1]
        sets = (
            np.full((bags.n_instances, n_classes), np.nan) if known is None else np.array(known.instances, dtype=float)
        )
        if noise is not None:
            sets[np.asarray(noise, dtype=bool)] = 0.0
        prior = model.predict_instances_proba(bags)
        posterior = prior.copy()
        rows = np.flatnonzero(labelled[bags.bag_index])
        if len(rows):
            index, sizes = np.unique(bags.bag_index[rows], return_counts=True)
            offsets = offsets_of(sizes)
            given = sets[rows]
            starts = offsets[:-1]
            carried = np.logical_or.reduceat(given == 1, starts, axis=0)
            lacked = np.logical_and.reduceat(given == 0, starts, axis=0)
            Y = np.where(carried, 1, np.where(lacked, 0, indicator[index]))  # what was said of instances counts
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", InfeasibleBagWarning)
                found = model.find(Bags(bags.instances[rows], offsets), Y, Bags(given, offsets))
            posterior[rows] = found.proba
        posterior = np.where(np.isnan(sets), posterior, sets)
        carried = np.logical_or.reduceat(sets == 1, bags.offsets[:-1], axis=0)
        prior = np.where(np.isnan(sets), prior, sets)
        listed = (indicator == 1) & labelled[:, None] & ~carried
        return cls(bags, listed, ~np.isnan(sets).any(axis=1), prior, posterior)

    def entropy(self) -> np.ndarray:
        """(m,) entropy of the label set, zero where it is known."""
        return np.where(self.answered, 0.0, binary_entropy(self.posterior).sum(axis=1))

    def passed_on(self, rows: np.ndarray) -> np.ndarray:
        """(len(rows),) what an answer about each of these is expected to settle of the others in its bag."""
        settled = np.zeros(len(rows))
        bag_of = self.bags.bag_index[rows]
        work = 0.0
        for b in dict.fromkeys(bag_of.tolist()):  # the most useful first
            first, last = self.bags.offsets[b : b + 2]
            columns, asked = np.flatnonzero(self.listed[b]), np.flatnonzero(bag_of == b)
            work += float(len(asked) * (last - first) * len(columns))
            if work > MOST_WORK:
                break
            if len(columns):
                settled[asked] = information_of_sets(self.prior[first:last, columns], rows[asked] - first)
        return settled

    def overlap(self, rows: np.ndarray) -> np.ndarray:
        """(k, k) how much alike the label sets are that two instances might carry: 1 same, 0 none shared.

        The Bhattacharyya coefficient of labels that are independent of each other is a product over the labels.
        """
        proba = self.posterior[rows]
        logs = np.zeros((len(rows), len(rows)))
        for p in proba[:, (proba > LEAST).any(axis=0)].T:
            there, not_there = np.sqrt(p), np.sqrt(1.0 - p)
            logs += np.log(np.maximum(np.outer(there, there) + np.outer(not_there, not_there), 1e-300))
        return np.exp(logs)


def binary_entropy(p: np.ndarray) -> np.ndarray:
    """In nats."""
    return -(xlogy(p, p) + xlogy(1.0 - p, 1.0 - p))


def information_of_sets(prior: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """(len(rows),) sum over listed labels and other instances of I(other carries it ; this one does | it is listed).

    Parameters
    ----------
    prior : (n, k) array
        Probabilities of the k listed labels of the instances of one bag, from the features alone.
    rows : array of int
        Instances in question.

    Where one carries the label the others are as if nobody had listed it; where it does not, one of the others must.
    """
    log_absent = np.log1p(-np.minimum(prior, 1.0 - 1e-15))
    all_absent = log_absent.sum(axis=0)
    listed = -np.expm1(all_absent)  # (k,)
    others = -np.expm1(all_absent - log_absent[rows])  # (r, k)
    posterior = prior / np.maximum(listed, 1e-300)
    with np.errstate(divide="ignore", invalid="ignore"):
        if_not = np.where(others[:, None] > 0, np.minimum(prior[None] / others[:, None], 1.0), 0.0)  # (r, n, k)
    own = posterior[rows]
    after = own[:, None] * binary_entropy(prior)[None] + (1.0 - own)[:, None] * binary_entropy(if_not)
    gained = binary_entropy(np.minimum(posterior, 1.0))[None] - after
    gained[np.arange(len(rows)), rows] = 0.0
    return np.maximum(gained.sum(axis=(1, 2)), 0.0)
