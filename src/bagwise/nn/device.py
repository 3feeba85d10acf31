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
from bagwise.nn._inference import DeviceChunk, DeviceRates, Inferred, infer_chunk
from bagwise.nn._layout import lay_out, part
from bagwise.nn.union import log_unlisted
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
def memory_of(device: torch.device, needed: int) -> Iterator[None]:
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


class DeviceLikelihood:
    """Log-likelihood of weights (c, d + 1), the intercept last, under label sets of bags; its gradient.

    The instances lie on the device in the order of the chunks, in their own precision; scores, posteriors and sums are
    of double precision.

    Parameters
    ----------
    X : (m, d) array
    problem : UnionProblem
    n_columns : int
        Columns of the scores, the background's among them.
    device : str
    max_exact_labels : int
        Bags with more labels that need an instance stay on the processor.
    possible : LabelNoise or None
        Which rates of wrong labels may be above zero.
    """

    def __init__(
        self,
        X: Any,
        problem: UnionProblem,
        n_columns: int,
        device: str,
        max_exact_labels: int,
        possible: LabelNoise | None,
    ) -> None:
        if sp.issparse(X):
            raise InputError(
                f"device={device!r} takes dense instances; these are sparse. Use device=None, which keeps them sparse."
            )
        self.device = as_device(device)
        self.problem, self.n_columns, self.max_exact_labels = problem, n_columns, max_exact_labels
        budget = BUDGETS[self.device.type]
        layout = lay_out(problem, n_columns, max_exact_labels, budget, possible)
        self._layout = layout
        self._n_bytes = X.nbytes + 8 * 6 * budget
        with memory_of(self.device, self._n_bytes):
            self._chunks = [DeviceChunk(chunk, problem.background, self.device) for chunk in layout.chunks]
            self._rows = [self._moved(X[chunk.rows]) for chunk in layout.chunks]
            self._known = self._moved(X[layout.known_rows])
            self._known_columns = self._moved(layout.known_columns)
        self._large = part(problem, layout.large) if len(layout.large) else None
        self._large_rows = None if self._large is None else X[self._large[1]]

    def _moved(self, array: np.ndarray) -> torch.Tensor:
        return torch.as_tensor(np.ascontiguousarray(array), device=self.device)

    def value_and_gradient(self, weights: np.ndarray, rates: LabelNoise | None) -> tuple[float, np.ndarray, np.ndarray]:
        """Log-likelihood, its (c, d + 1) gradient, and (1, 3) statistics for that in the rates."""
        on_device = DeviceRates.of(rates, self.device)
        with memory_of(self.device, self._n_bytes):
            W = self._moved(weights)
            value = W.new_zeros(())
            gradient, counts = torch.zeros_like(W), W.new_zeros(3)
            for rows, chunk in zip(self._rows, self._chunks, strict=True):
                X, scores = _scores(rows, W)
                found = infer_chunk(scores, chunk, on_device)
                value += found.log_p.sum() + found.mass.sum()
                residual, log_normalizers = _negative_softmax(scores)
                value -= log_normalizers
                found.add_to(residual, self.problem.background)
                if not found.all_explained:
                    residual *= (found.log_p > -torch.inf)[chunk.bag][:, None]
                if on_device is not None:
                    counts += _statistics(found, chunk)
                _add_gradient(gradient, residual, X)
            if len(self._known):
                X, scores = _scores(self._known, W)
                own = scores.gather(1, self._known_columns[:, None])
                residual, log_normalizers = _negative_softmax(scores)
                value += own.sum() - log_normalizers
                residual.scatter_add_(1, self._known_columns[:, None], torch.ones_like(own))
                _add_gradient(gradient, residual, X)
            total, slope, statistics = float(value), gradient.cpu().numpy(), counts.cpu().numpy()[None]
        if rates is not None:
            total += self._of_known_and_unlisted(rates, statistics)
        if self._large is not None:
            total += self._add_large(weights, rates, slope, statistics)
        return total, slope, statistics

    def _of_known_and_unlisted(self, rates: LabelNoise, statistics: np.ndarray) -> float:
        """What rates add: labels not listed that are not spurious, known instances of labels not listed."""
        layout, n_real = self._layout, self.n_columns - (self.problem.background >= 0)
        small = np.ones(len(self.problem.offsets) - 1, dtype=bool)
        small[layout.large] = False
        unnoticed = layout.known_columns[layout.known_unlisted]
        statistics[0, 1] += len(unnoticed)
        statistics[0, 2] += float((self.problem.n_labels[small] - n_real).sum())
        with np.errstate(divide="ignore"):
            return float(log_unlisted(self.problem, rates)[small].sum() + np.log(rates.missed[unnoticed]).sum())

    def _add_large(
        self, weights: np.ndarray, rates: LabelNoise | None, gradient: np.ndarray, statistics: np.ndarray
    ) -> float:
        """Bags with more labels than are summed over, on the processor."""
        assert self._large is not None
        problem, X = self._large[0], np.asarray(self._large_rows, dtype=np.float64)
        own = np.zeros((len(problem.offsets) - 1, 3))
        scores = X @ weights[:, :-1].T + weights[:, -1]
        value = problem.infer_in_place(
            scores, softmax=True, residual=True, max_exact_labels=self.max_exact_labels, rates=rates, statistics=own
        )
        gradient[:, :-1] += scores.T @ X
        gradient[:, -1] += scores.sum(axis=0)
        statistics += own.sum(axis=0)
        return float(value.sum())


class DeviceObjective(PenalizedLikelihood):
    """Of instances that were moved to a device of torch."""

    def __init__(
        self,
        X: Any,
        problem: UnionProblem,
        n_columns: int,
        *,
        device: str,
        l2: float,
        max_exact_labels: int,
        possible: LabelNoise | None,
        rates: LabelNoise | None,
    ):
        super().__init__(l2)
        self.rates = rates
        self.n_instances = X.shape[0]
        self._here = partial(ORedObjective, X, problem, l2=l2, method="auto", max_exact_labels=max_exact_labels)
        self._likelihood = DeviceLikelihood(X, problem, n_columns, device, max_exact_labels, possible)

    def log_likelihood(self, weights: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient, self.statistics = self._likelihood.value_and_gradient(weights, self.rates)
        return value, gradient

    def errors(self, weights: np.ndarray) -> np.ndarray:
        return self._here(rates=self.rates).errors(weights)

    def background_mass(self, weights: np.ndarray) -> Callable[[float], tuple[float, float]]:
        """By compiled code: a dozen evaluations after the fit."""
        return self._here(rates=self.rates).background_mass(weights)


def _scores(rows: torch.Tensor, W: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The instances in double precision, and their scores less the largest of each: logarithms up to a factor."""
    X = rows.to(torch.float64)
    scores = torch.addmm(W[:, -1], X, W[:, :-1].T)
    scores -= scores.amax(dim=1, keepdim=True)
    return X, scores


def _negative_softmax(scores: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Minus the probabilities, in place, and the sum of the logarithms of their normalisers."""
    total = scores.exp_().sum(dim=1, keepdim=True)
    return scores.div_(total.neg()), total.log().sum()


def _add_gradient(gradient: torch.Tensor, residual: torch.Tensor, X: torch.Tensor) -> None:
    gradient[:, :-1].addmm_(residual.T, X)
    gradient[:, -1] += residual.sum(dim=0)


def _statistics(found: Inferred, chunk: DeviceChunk) -> torch.Tensor:
    """(3,) noticed, unnoticed and pull of a chunk, as of `bagwise.union._rates.infer_with_rates`."""
    assert found.pull is not None
    explained = found.log_p > -torch.inf
    rows = explained[chunk.bag]
    unnoticed = found.log_p.new_zeros(())
    if found.loose is not None and found.hidden is not None:
        unnoticed = (found.loose * found.hidden)[rows].sum()
    pull = torch.where(explained[:, None], found.pull, 0.0)
    unnoticed = unnoticed - (chunk.n_known * pull).sum()
    return torch.stack([found.required[rows].sum(), unnoticed, pull.sum()])
