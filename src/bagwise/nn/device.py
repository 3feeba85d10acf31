"""The objective of ORed logistic regression on a device: instances are moved once, an evaluation is a few products."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch

from bagwise.annotation.objective import ORedObjective, PenalizedLikelihood
from bagwise.core.exceptions import InputError, MemoryLimitError
from bagwise.nn._inference import DeviceRates, infer_chunk, lay_out, part
from bagwise.union import LabelNoise, UnionProblem

BUDGETS = {"cpu": 1 << 21, "cuda": 1 << 26}  # entries of the widest array of a chunk


def as_device(name: str) -> torch.device:
    """The device of that name; an error says what is missing."""
    try:
        device = torch.device(name)
    except (RuntimeError, TypeError):
        raise InputError(f"device={name!r} is no device of torch; use None, 'cpu' or 'cuda'.") from None
    if device.type not in BUDGETS:
        raise InputError(f"device={name!r} cannot be used here; use None, 'cpu' or 'cuda'.")
    if device.type == "cuda" and not torch.cuda.is_available():
        built = torch.version.cuda is None
        why = "this build of torch has no CUDA in it" if built else "torch finds no GPU or no driver"
        raise InputError(f"device={name!r} cannot be used: {why}. Use device='cpu', or device=None without torch.")
    if device.type == "cuda" and device.index is not None and device.index >= torch.cuda.device_count():
        raise InputError(f"device={name!r} is not there: {torch.cuda.device_count()} GPU(s) were found.")
    return device


def name_of_gpu() -> str | None:
    """What the first GPU calls itself; None where torch can use none."""
    return torch.cuda.get_device_name() if torch.cuda.is_available() else None


@contextmanager
def device_memory(device: torch.device, needed: int) -> Iterator[None]:
    """Turn the device's out-of-memory error into one that says how much was needed."""
    try:
        yield
    except torch.cuda.OutOfMemoryError as error:
        free = torch.cuda.mem_get_info(device)[0] if device.type == "cuda" else 0
        raise MemoryLimitError(
            f"The device {device} is out of memory: the instances and the work space need about "
            f"{needed / 2**30:.1f} GiB, {free / 2**30:.1f} GiB are free. Pass float32 instances, end other programs on "
            "the device, or fit with device=None."
        ) from error


class DeviceObjective(PenalizedLikelihood):
    """Of instances that were moved to a device of torch.

    They lie there in the order of the chunks, in their own precision; scores, posteriors and sums are of double
    precision. Bags that are left to the compiled code stay on the processor.

    Parameters
    ----------
    X : (m, d) array
    problem : UnionProblem
    n_columns : int
        Columns of the scores, the background's among them.
    device : str
    l2 : float
    max_exact_labels : int
    rates : LabelNoise or None
    """

    def __init__(
        self,
        X: Any,
        problem: UnionProblem,
        n_columns: int,
        *,
        device: str,
        l2: float,
        max_exact_labels: int,
        rates: LabelNoise | None,
    ):
        if sp.issparse(X):
            raise InputError(
                f"device={device!r} takes dense instances; these are sparse. Use device=None, which keeps them sparse."
            )
        super().__init__(l2)
        self.rates, self.n_instances = rates, X.shape[0]
        self._here = partial(ORedObjective, l2=l2, method="auto", max_exact_labels=max_exact_labels)
        self._all = X, problem
        self._device = as_device(device)
        budget = BUDGETS[self._device.type]
        self._n_bytes = X.nbytes + 8 * 6 * budget
        with device_memory(self._device, self._n_bytes):
            chunks, large = lay_out(problem, n_columns, self._device, budget, max_exact_labels)
            self._chunks = [(self._moved(X[chunk.rows.cpu().numpy()]), chunk) for chunk in chunks]
        alone, rows = part(problem, large)
        self._large = self._here(np.asarray(X[rows], dtype=np.float64), alone) if len(large) else None

    def _moved(self, array: np.ndarray) -> torch.Tensor:
        return torch.as_tensor(np.ascontiguousarray(array), device=self._device)

    def log_likelihood(self, weights: np.ndarray) -> tuple[float, np.ndarray]:
        rates = DeviceRates.of(self.rates, self._all[1].background, self._device)
        with device_memory(self._device, self._n_bytes):
            W = self._moved(weights)
            value, gradient, statistics = W.new_zeros(()), torch.zeros_like(W), W.new_zeros(3)
            for rows, chunk in self._chunks:
                X = rows.to(torch.float64)
                scores = torch.addmm(W[:, -1], X, W[:, :-1].T)
                scores -= scores.amax(dim=1, keepdim=True)
                found = infer_chunk(scores, chunk, rates)
                if found.statistics is not None:
                    statistics += found.statistics
                normalizers = scores.exp_().sum(dim=1, keepdim=True)  # in place: there may be billions of scores
                value += found.log_likelihood.sum() - normalizers.log().sum()
                residual = found.add_to(scores.div_(-normalizers), chunk)
                gradient[:, :-1].addmm_(residual.T, X)
                gradient[:, -1] += residual.sum(dim=0)
            total, slope, self.statistics = float(value), gradient.cpu().numpy(), statistics.cpu().numpy()[None]
        if self._large is not None:
            self._large.rates = self.rates
            more, steeper = self._large.log_likelihood(weights)
            total, slope = total + more, slope + steeper
            if self.rates is not None:
                self.statistics += self._large.statistics.sum(axis=0)
        return total, slope

    def errors(self, weights: np.ndarray) -> np.ndarray:
        return self._here(*self._all, rates=self.rates).errors(weights)

    def background_mass(self, weights: np.ndarray) -> Callable[[float], tuple[float, float]]:
        """By compiled code: a dozen evaluations after the fit."""
        return self._here(*self._all, rates=self.rates).background_mass(weights)
