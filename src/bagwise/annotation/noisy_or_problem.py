"""What was said of bags whose instances carry any number of labels, and inference from log-odds of instances."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import expit, logit

from bagwise.core.bags import offsets_of
from bagwise.core.exceptions import InputError
from bagwise.core.validation import Evidence, Given
from bagwise.kernels.noisy_or import infer_noisy_or
from bagwise.union import LabelNoise

MOST_OVERLAPPING = 12  # groups of one bag, of which all subsets are gone through
SMALLEST, SMALLEST_LACK = 1e-30, 1e-16  # of a probability, and of what it lacks to one
NOTHING_KNOWN = np.empty((0, 0), dtype=np.int8)


@dataclass(frozen=True)
class NoisyOrProblem:
    """What is fixed about bags while the log-odds of their instances change.

    Attributes
    ----------
    offsets : (n + 1,) int64
    given : (n, c) array of 0 and 1, or Evidence
    known : (m, c) int8 or None
        1 or 0 where that an instance carries a label is known, -1 elsewhere.
    """

    offsets: np.ndarray
    given: Given
    known: np.ndarray | None = None

    def part(self, bags: slice | np.ndarray) -> NoisyOrProblem:
        """Of some bags alone: a slice, of which nothing is copied, or integers, which may come more than once."""
        if isinstance(bags, slice):
            first, last, _ = bags.indices(len(self.offsets) - 1)
            offsets = self.offsets[first : last + 1]
            known = None if self.known is None else self.known[offsets[0] : offsets[-1]]
            return NoisyOrProblem(offsets - offsets[0], self.given[bags], known)
        known = None if self.known is None else self.known[self.rows_of(bags)]
        return NoisyOrProblem(offsets_of(np.diff(self.offsets)[bags]), self.given[bags], known)

    def rows_of(self, bags: np.ndarray) -> np.ndarray:
        """Rows of the instances of these bags."""
        sizes = np.diff(self.offsets)[bags]
        return np.arange(sizes.sum()) + np.repeat(self.offsets[:-1][bags] - offsets_of(sizes)[:-1], sizes)

    def infer(
        self,
        values: np.ndarray,
        rates: LabelNoise | None = None,
        *,
        residual: bool = False,
        statistics: np.ndarray | None = None,
    ) -> np.ndarray:
        """Overwrite the (m, c) log-odds of instances by posteriors (or these minus the probabilities).

        Returns the (n, c) log-likelihoods of what was given about each label of each bag, of which that of groups
        stands with their first label. `statistics`, (n, 3), receives what the gradient in rates is made of.
        """
        u, v, direct = self._given_by(rates)
        logs, statistics = np.empty(u.shape), np.empty((len(u), 3)) if statistics is None else statistics
        missed = np.zeros(u.shape[1]) if rates is None else rates.missed
        known = NOTHING_KNOWN if self.known is None else self.known
        small = np.exp(-np.abs(values))
        groups = self._groups
        scores = values.copy() if groups else values
        infer_noisy_or(values, small, self.offsets, u, v, direct, missed, known, residual, logs, statistics)
        if groups:
            _hit_groups(groups, scores, self.offsets, known, u + v, residual, values, logs)
        return logs

    def presence(self, scores: np.ndarray, rates: LabelNoise | None = None) -> np.ndarray:
        """(n, c) probability that some instance of the bag carries the label, given what was said of the bag."""
        alone = replace(self, given=Evidence(self.given.values)) if isinstance(self.given, Evidence) else self
        logs = alone.infer(scores.copy(), rates)
        absent = -np.logaddexp(0.0, scores)
        if self.known is not None:
            absent[self.known == 1] = -np.inf
        u, v, _ = self._given_by(rates)
        with np.errstate(divide="ignore", invalid="ignore"):
            # where no instance carries it, what was given has the probability u + v
            nowhere = np.log(u + v) + np.add.reduceat(absent, self.offsets[:-1], axis=0)
            rho = np.exp(np.minimum(nowhere - logs, 0.0))
        presence = 1.0 - rho
        for b, groups in self._groups.items():
            one_by_one = dict(enumerate(rho[b]))
            hit = _all_hit(groups, one_by_one)
            for c in set().union(*groups):
                presence[b, c] *= _all_hit(groups, {**one_by_one, c: 0.0}) / hit if hit > 0.0 else np.nan
        return presence

    @cached_property
    def _groups(self) -> dict[int, tuple[tuple[int, ...], ...]]:
        """The groups of the bags that have some."""
        given = self.given
        if not isinstance(given, Evidence) or given.groups is None:
            return {}
        return {b: groups for b, groups in enumerate(given.groups) if groups}

    def _given_by(self, rates: LabelNoise | None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        u, v, direct = self.numbers
        return u, v if rates is None else np.where(direct, v, v * (1.0 - rates.spurious)), direct

    @cached_property
    def numbers(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(n, c) arrays u, v and `direct`, as of `bagwise.kernels.noisy_or`, of labels that are never spurious."""
        values: Any = self.given.values if isinstance(self.given, Evidence) else self.given
        u, v = np.where(values == 1, 1.0, 0.0), np.where(values == 1, -1.0, np.where(values == 0, 1.0, 0.0))
        if not isinstance(self.given, Evidence):
            return u, v, np.zeros(values.shape, dtype=bool)
        direct = (values != 1.0) & (values != 0.0)
        sure = np.clip(values[direct], 0.0, 1.0)  # confidences; of what is not known 1 - NaN stays NaN
        u[direct], v[direct] = np.where(np.isnan(sure), 1.0, sure), np.where(np.isnan(sure), 0.0, 1.0 - 2.0 * sure)
        return u, v, direct


def log_odds(proba: np.ndarray) -> np.ndarray:
    """Of probabilities, which may be zero or one to the last digit: finite all the same."""
    return logit(np.clip(proba, SMALLEST, 1.0 - SMALLEST_LACK))


def _hit_groups(
    groups: dict[int, tuple[tuple[int, ...], ...]],
    scores: np.ndarray,
    offsets: np.ndarray,
    known: np.ndarray,
    if_absent: np.ndarray,
    residual: bool,
    values: np.ndarray,
    logs: np.ndarray,
) -> None:
    """Condition posteriors, in place, on every group of a bag having one of its labels in it.

    Given what was said of labels one by one they are independent, and label c is absent with probability
    rho_c = (u_c + v_c) prod_i (1 - p_ic) / E_c. All groups are hit with probability R, a sum over subsets S of the
    groups, of (-1)^|S| times the product of rho over all members of S. An instance that carries c has hit the
    groups of c: its posterior is multiplied by R with rho_c = 0, over R.
    """
    for b, of_bag in groups.items():
        rows = slice(offsets[b], offsets[b + 1])
        columns = sorted(set().union(*of_bag))
        absent = -np.logaddexp(0.0, scores[rows][:, columns])
        if len(known):
            absent[known[rows][:, columns] == 1] = -np.inf
        with np.errstate(divide="ignore", invalid="ignore"):
            log_rho = np.log(if_absent[b, columns]) + absent.sum(axis=0) - logs[b, columns]
        rho = dict(zip(columns, np.exp(np.minimum(log_rho, 0.0)), strict=True))
        hit = _all_hit(of_bag, rho)
        if not hit > 0.0:
            logs[b, columns[0]] = -np.inf
            values[rows] = 0.0 if residual else np.nan
            continue
        logs[b, columns[0]] += np.log(hit)
        prior = expit(scores[rows][:, columns]) if residual else 0.0
        factors = np.array([_all_hit(of_bag, {**rho, c: 0.0}) / hit for c in columns])
        posterior = (values[rows][:, columns] + prior) * factors
        if len(known):  # what an instance is known to carry is there, whatever the groups say
            posterior = np.where(known[rows][:, columns] >= 0, known[rows][:, columns], posterior)
        values[rows, columns] = np.minimum(posterior, 1.0) - prior


def _all_hit(groups: Sequence[Sequence[int]], rho: Mapping[int, float]) -> float:
    """Probability that each group has a label that is there, where label c is absent with probability rho_c.

    Groups that share no label, through others either, are independent of each other.
    """
    probability, left = 1.0, [set(group) for group in groups]
    while left:
        together = [left.pop()]
        while touching := [group for group in left if not group.isdisjoint(set().union(*together))]:
            together += touching
            left = [group for group in left if group not in touching]
        if len(together) > MOST_OVERLAPPING:
            raise InputError(
                f"{len(together)} groups (OneOf) of one bag overlap each other, and at most {MOST_OVERLAPPING} can be "
                "taken together; join some of them into one."
            )
        total = 0.0
        for size in range(len(together) + 1):
            for chosen in itertools.combinations(together, size):
                total += (-1.0) ** size * float(np.prod([rho[c] for c in set().union(*chosen)]))
        probability *= total
    return probability
