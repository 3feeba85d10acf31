"""What scores of instances say of bags: one label per instance, by a softmax, or any number, by a sigmoid per label.

Either knows parts of its bags, the likelihood of what was said of them, and posteriors; a training loop asks no more.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import torch

from bagwise.annotation.noisy_or_problem import NoisyOrProblem, log_odds
from bagwise.annotation.rates import RateParameters, learn_power, learn_rates
from bagwise.nn import SMALLEST
from bagwise.nn._inference import part
from bagwise.nn._union import PreparedUnion
from bagwise.union import LabelNoise, UnionProblem


class OneLabel:
    """Every instance has one label of its bag, or is background.

    Parameters
    ----------
    problem : UnionProblem
    n_columns : int
        Columns of the scores, the background's among them.
    device : torch.device
    max_exact_labels : int
    """

    def __init__(self, problem: UnionProblem, n_columns: int, device: torch.device, max_exact_labels: int) -> None:
        self._problem, self._settings, self.offsets = problem, (n_columns, device, max_exact_labels), problem.offsets

    def part(self, bags: np.ndarray) -> tuple[OneLabel, np.ndarray]:
        """Of some bags alone, which may come more than once, and their rows."""
        alone, rows = part(self._problem, bags)
        return OneLabel(alone, *self._settings), rows

    @cached_property
    def _union(self) -> PreparedUnion:
        return PreparedUnion(self._problem, *self._settings)

    def log_likelihood(self, scores: torch.Tensor, rates: LabelNoise | None) -> torch.Tensor:
        """(n,) of the (m, c) scores of instances, differentiable."""
        return self._union.log_likelihood(torch.log_softmax(scores, dim=1), rates)

    @staticmethod
    def expected(posterior: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """(e, m) log-likelihoods of (e, m, c) scores under the posterior of the labels of instances."""
        return (posterior * torch.log_softmax(scores, dim=2)).sum(dim=2)

    def posterior(self, proba: np.ndarray, rates: LabelNoise | None) -> np.ndarray:
        """(m, c) probabilities of instances as posteriors, in place."""
        self._problem.infer_in_place(
            proba, softmax=False, residual=False, rates=rates, max_exact_labels=self._settings[2]
        )
        return proba

    def learn_rates(
        self, parameters: RateParameters, scores: torch.Tensor, start: np.ndarray, weights: np.ndarray
    ) -> np.ndarray:
        """Logits of the rates at which what was said is most likely, by scores that did not see the bags."""
        proba = torch.softmax(scores, dim=1).cpu().numpy()
        return learn_rates(parameters, self._problem, np.maximum(proba, SMALLEST), start, weights)[0]


class AnyLabels:
    """Every instance has any number of labels; the methods are those of `OneLabel`."""

    def __init__(self, problem: NoisyOrProblem) -> None:
        self._problem, self.offsets = problem, problem.offsets

    def part(self, bags: np.ndarray) -> tuple[AnyLabels, np.ndarray]:
        return AnyLabels(self._problem.part(bags)), self._problem.rows_of(bags)

    def log_likelihood(self, scores: torch.Tensor, rates: LabelNoise | None) -> torch.Tensor:
        return _NoisyOr.apply(scores, self._problem, rates)

    @staticmethod
    def expected(posterior: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        return (posterior * scores - torch.nn.functional.softplus(scores)).sum(dim=2)

    def posterior(self, proba: np.ndarray, rates: LabelNoise | None) -> np.ndarray:
        odds = log_odds(proba)
        self._problem.infer(odds, rates)
        return odds

    def learn_rates(
        self, parameters: RateParameters, scores: torch.Tensor, start: np.ndarray, weights: np.ndarray
    ) -> np.ndarray:
        def infer(work: np.ndarray, rates: LabelNoise | None, statistics: np.ndarray) -> np.ndarray:
            return self._problem.infer(work, rates, residual=True, statistics=statistics).sum(axis=1)

        return learn_power(parameters, infer, scores.cpu().numpy(), self.offsets, start, weights)[0]


class _NoisyOr(torch.autograd.Function):
    """Value by compiled code on the processor; the gradient is what the same inference gives."""

    @staticmethod
    def forward(ctx: Any, scores: torch.Tensor, problem: NoisyOrProblem, rates: LabelNoise | None) -> torch.Tensor:
        values = scores.detach().to("cpu", torch.float64).numpy().copy()
        value = problem.infer(values, rates, residual=True).sum(axis=1)
        sizes = torch.as_tensor(np.diff(problem.offsets), device=scores.device)
        ctx.save_for_backward(torch.as_tensor(values).to(scores), sizes)
        return torch.as_tensor(value).to(scores)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        residual, sizes = ctx.saved_tensors
        return residual * gradients[0].repeat_interleave(sizes)[:, None], None, None
