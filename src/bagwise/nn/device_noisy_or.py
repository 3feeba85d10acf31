"""The objective of noisy-or logistic regression on a device: what `bagwise.kernels.noisy_or` does, all bags at once."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
import torch
from torch.nn.functional import logsigmoid, softplus

from bagwise.annotation.noisy_or import NoisyOrObjective
from bagwise.annotation.noisy_or_problem import NoisyOrProblem
from bagwise.annotation.objective import PenalizedLikelihood
from bagwise.core.bags import Bags
from bagwise.core.exceptions import InputError
from bagwise.core.validation import Evidence
from bagwise.nn._batches import balanced_batches
from bagwise.nn.device import BUDGETS, as_device, device_memory
from bagwise.union import LabelNoise, count_instances

ARRAYS = 12  # of the scores' size, that are there at once
SMALL = 1e-200  # where a sum of probabilities goes over into its logarithm


class _Chunk(NamedTuple):
    """Bags on the device; u, v and direct as of the kernel, which have a row per bag."""

    X: torch.Tensor
    bag: torch.Tensor
    u: torch.Tensor
    v: torch.Tensor
    direct: torch.Tensor
    known: torch.Tensor | None
    weights: torch.Tensor | None


class DeviceNoisyOr(PenalizedLikelihood):
    """Of instances that were moved to a device of torch; bags with groups of labels stay with the compiled code.

    Parameters
    ----------
    bags : Bags
    given : (n, c) array of 0 and 1, or Evidence
    known : (m, c) int8 or None
    device : str
    l2 : float
    rates : LabelNoise or None
    weights : (n,) array or None
    """

    def __init__(
        self,
        bags: Bags,
        given: Any,
        known: np.ndarray | None,
        *,
        device: str,
        l2: float,
        rates: LabelNoise | None,
        weights: np.ndarray | None,
    ):
        if sp.issparse(bags.instances):
            raise InputError(
                f"device={device!r} takes dense instances; these are sparse. Use device=None, which keeps them sparse."
            )
        super().__init__(l2)
        self.rates, self.n_instances = rates, count_instances(bags.offsets, weights)
        self._device = as_device(device)
        grouped = np.zeros(len(bags), dtype=bool)
        if isinstance(given, Evidence) and given.groups is not None:
            grouped = np.array([len(groups) > 0 for groups in given.groups])
        problem, n_classes = NoisyOrProblem(bags.offsets, given, known), given.shape[1]
        here, self._here = np.flatnonzero(grouped), None
        if len(here):
            alone = problem.part(here)
            own = None if weights is None else weights[here]
            self._here = NoisyOrObjective(bags[here], alone.given, alone.known, l2=0.0, rates=rates, weights=own)
        rest, budget = np.flatnonzero(~grouped), BUDGETS[self._device.type]
        self._n_bytes = bags.instances.nbytes + 8 * ARRAYS * budget
        self._chunks: list[_Chunk] = []
        with device_memory(self._device, self._n_bytes):
            for batch in balanced_batches(bags.sizes[rest], max(1, budget // n_classes)) if len(rest) else []:
                self._chunks.append(self._chunk(bags, problem, weights, rest[batch]))

    def _chunk(self, bags: Bags, problem: NoisyOrProblem, weights: np.ndarray | None, index: np.ndarray) -> _Chunk:
        alone, own = problem.part(index), bags[index]
        u, v, direct = (self._moved(array) for array in alone.numbers)
        known = None if alone.known is None else self._moved(alone.known)
        counts = None if weights is None else self._moved(weights[index])
        return _Chunk(self._moved(own.instances), self._moved(own.bag_index), u, v, direct, known, counts)

    def _moved(self, array: np.ndarray) -> torch.Tensor:
        return torch.as_tensor(np.ascontiguousarray(array), device=self._device)

    def log_likelihood(self, weights: np.ndarray) -> tuple[float, np.ndarray]:
        with device_memory(self._device, self._n_bytes):
            W = self._moved(weights)
            value, gradient, statistics = W.new_zeros(()), torch.zeros_like(W), W.new_zeros(3)
            missed, honest = torch.zeros_like(W[:, 0]), torch.ones_like(W[:, 0])
            if self.rates is not None:
                missed, honest = self._moved(self.rates.missed), 1.0 - self._moved(self.rates.spurious)
            for chunk in self._chunks:
                X = chunk.X.to(torch.float64)
                residual, logs, found = _infer(torch.addmm(W[:, -1], X, W[:, :-1].T), chunk, missed, honest)
                if chunk.weights is not None:
                    logs, found = logs * chunk.weights, found * chunk.weights
                    residual *= chunk.weights[chunk.bag, None]
                value += logs.sum()
                statistics += found.sum(dim=1)
                gradient[:, :-1].addmm_(residual.T, X)
                gradient[:, -1] += residual.sum(dim=0)
            total, slope, self.statistics = float(value), gradient.cpu().numpy(), statistics.cpu().numpy()[None]
        if self._here is not None:
            self._here.rates = self.rates
            more, steeper = self._here.log_likelihood(weights)
            total, slope = total + more, slope + steeper
            self.statistics = self.statistics + self._here.statistics.sum(axis=0)
        return total, slope


def _infer(
    scores: torch.Tensor, chunk: _Chunk, missed: torch.Tensor, honest: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """(r, c) posterior minus probability, (b,) log-likelihoods, and (3, b) noticed, unnoticed and pull."""
    bag, u, direct = chunk.bag, chunk.u, chunk.direct
    v = torch.where(direct, chunk.v, chunk.v * honest)
    rate = torch.where(direct, 0.0, missed)

    def summed(rows: torch.Tensor) -> torch.Tensor:
        return torch.zeros_like(u).index_add_(0, bag, rows)

    carries, lacks = scores.sigmoid(), (-scores).sigmoid()
    row_rate = rate[bag]
    free = row_rate + (1.0 - row_rate) * lacks  # nobody notices it in this instance
    log_free = torch.where(row_rate > 0.0, free.log(), -softplus(scores))
    n_carriers, log_known, shifted = torch.zeros_like(u), torch.zeros_like(u), scores
    if chunk.known is not None:
        unknown, there = chunk.known < 0, chunk.known == 1
        log_free = torch.where(unknown, log_free, 0.0)
        n_carriers = summed(there.to(u.dtype))
        log_known = summed(torch.where(unknown, 0.0, logsigmoid(torch.where(there, scores, -scores))))
        shifted = torch.where(unknown, scores, -torch.inf)
    absent = summed(log_free)
    factor = v * torch.pow(rate, n_carriers)
    # (u + v) - v (1 - B) where v is negative: both terms are positive
    value = torch.where(factor < 0.0, u + factor + factor * absent.expm1(), u + factor * absent.exp())
    logs = torch.where(u == 0.0, factor.log() + absent, value.log())
    tiny = (factor < 0.0) & ~(value > SMALL)  # all probabilities underflow: their ratios count
    if tiny.any():
        of_bag = bag[:, None].expand_as(shifted)
        top = torch.full_like(u, -torch.inf).scatter_reduce_(0, of_bag, shifted, "amax")
        safe = torch.where(top > -torch.inf, top, 0.0)
        small = top + summed((shifted - safe[bag]).exp()).log()
        logs = torch.where(tiny, small + (-factor * (1.0 - rate)).log(), logs)
    explained = logs > -torch.inf
    rest = torch.where(explained & (factor != 0.0), factor * (absent - logs).exp(), 0.0)
    change = -carries * rest[bag] * torch.where(row_rate > 0.0, (1.0 - row_rate) * lacks / free, 1.0)
    endless = ~torch.isfinite(rest)
    if endless.any():
        exact = (scores + torch.log1p(-row_rate) - logs[bag]).exp()
        change = torch.where(endless[bag], exact, change)
    counted = explained & ~direct
    missing = torch.where(row_rate > 0.0, carries * row_rate * (1.0 + rest[bag] * (1.0 / free - 1.0)), 0.0)
    noticed = torch.where(row_rate > 0.0, carries + change - missing, 0.0)
    residual = change
    if chunk.known is not None:
        residual = torch.where(unknown, change, chunk.known - carries)
        missing, noticed = missing * unknown, noticed * unknown
    residual = torch.where(explained[bag], residual, 0.0)
    pull = torch.where(v < 0.0, -rest, torch.where(v > 0.0, -1.0, 0.0))
    none = torch.zeros_like(u)
    unnoticed = torch.where(explained, summed(missing), none) + torch.where(counted, n_carriers * rest, none)
    seen, pulled = torch.where(explained, summed(noticed), none), torch.where(counted, pull, none)
    statistics = torch.stack([part.sum(dim=1) for part in (seen, unnoticed, pulled)])
    return residual, (logs + log_known).sum(dim=1), statistics
