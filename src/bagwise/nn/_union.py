"""The exact union likelihood as a function of tensors that can be differentiated: for anybody's training loop."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from bagwise.core.exceptions import InputError
from bagwise.core.validation import Evidence, as_given
from bagwise.nn._inference import DeviceRates, infer_chunk, lay_out, part
from bagwise.union import MAX_EXACT_LABELS, LabelNoise, UnionProblem, check_bags

BUDGET = 1 << 24  # entries of the widest array of a chunk
COMPILED_BELOW = 1 << 21  # entries below which the compiled code is faster than a GPU is asked


def union_log_likelihood(
    log_proba: torch.Tensor,
    offsets: Any,
    Y: Any,
    *,
    background: int | None = None,
    known: Any = None,
    missed: Any = 0.0,
    spurious: Any = 0.0,
    max_exact_labels: int = MAX_EXACT_LABELS,
) -> torch.Tensor:
    """Log-probability that the labels of every bag are the union of its instances' labels, differentiable.

    The same number as that of `bagwise.union.union_posterior`; its gradient in `log_proba` is the posterior, so that
    nothing of size 2^|Y| is kept for the backward pass. Through `log_softmax`, the gradient in the scores is posterior
    minus prior.

    Parameters
    ----------
    log_proba : (m, c) tensor
        Logarithms of the probabilities, on any device; rows need not sum to one.
    offsets : (n + 1,) integers
        Bag b holds the rows offsets[b]:offsets[b + 1].
    Y : (n, c) matrix or list of label sets
        As of `union_posterior`: floats and sets may say more than plain lists. What is said of bags beyond these is
        inferred on the processor.
    background : int or None
        Column of a class that may occur in any bag without being listed.
    known : (m,) integers or None
        Column of the instances whose label is known, -1 elsewhere.
    missed, spurious : float or (c,) array
        Rates of label noise, as of `union_posterior`.
    max_exact_labels : int
        Bags with more labels are inferred on the processor as `union_posterior` does it.

    Returns
    -------
    (n,) tensor
        -inf, with a gradient of zero, in a bag that no assignment explains.

    Examples
    --------
    >>> import torch
    >>> from bagwise.nn import union_log_likelihood
    >>> log_proba = torch.tensor([[0.9, 0.1], [0.5, 0.5]]).log().requires_grad_()
    >>> found = union_log_likelihood(log_proba, [0, 2], [[1, 1]])
    >>> found.sum().backward()
    >>> [round(value, 3) for value in found.exp().tolist()]
    [0.5]
    >>> [[round(value, 3) for value in row] for row in log_proba.grad.tolist()]  # the posterior
    [[0.9, 0.1], [0.1, 0.9]]
    """
    if not isinstance(log_proba, torch.Tensor) or log_proba.ndim != 2 or not log_proba.is_floating_point():
        raise InputError(
            f"log_proba must be an (m, c) tensor of floats; got {type(log_proba).__name__} of shape "
            f"{tuple(getattr(log_proba, 'shape', ()))}."
        )
    offsets = _array(offsets).astype(np.int64)
    given = as_given(Y if isinstance(Y, (list, tuple, Evidence)) else _array(Y), log_proba.shape[1])
    known = None if known is None else _array(known).astype(np.int64)
    check_bags(len(log_proba), log_proba.shape[1], offsets, given, background, known)
    rates = LabelNoise.of(_array(missed), _array(spurious), log_proba.shape[1])
    problem = UnionProblem.build(offsets, given, background, known)
    union = PreparedUnion(problem, log_proba.shape[1], log_proba.device, max_exact_labels)
    return union.log_likelihood(log_proba, rates)


class UnionLikelihoodLoss(torch.nn.Module):
    """Minus the mean log-likelihood of the label sets of bags, from the logits of their instances.

    Parameters
    ----------
    background, missed, spurious, max_exact_labels
        As of `union_log_likelihood`.

    Examples
    --------
    >>> import torch
    >>> from bagwise.nn import UnionLikelihoodLoss
    >>> logits = torch.zeros(3, 2, requires_grad=True)
    >>> loss = UnionLikelihoodLoss()(logits, [0, 2, 3], [[1, 1], [1, 0]])
    >>> loss.backward()
    >>> float(loss.detach().exp().round(decimals=3)), tuple(logits.grad.shape)
    (2.0, (3, 2))
    """

    def __init__(
        self,
        background: int | None = None,
        missed: Any = 0.0,
        spurious: Any = 0.0,
        max_exact_labels: int = MAX_EXACT_LABELS,
    ) -> None:
        super().__init__()
        self.background = background
        self.missed = missed
        self.spurious = spurious
        self.max_exact_labels = max_exact_labels

    def forward(self, logits: torch.Tensor, offsets: Any, Y: Any, known: Any = None) -> torch.Tensor:
        """Scalar loss of a batch of whole bags; bags that no assignment explains are left out of the mean."""
        log_likelihood = union_log_likelihood(
            torch.log_softmax(logits, dim=1),
            offsets,
            Y,
            background=self.background,
            known=known,
            missed=self.missed,
            spurious=self.spurious,
            max_exact_labels=self.max_exact_labels,
        )
        possible = log_likelihood > -torch.inf
        return -torch.where(possible, log_likelihood, 0.0).sum() / possible.sum().clamp(min=1)


class _UnionLogLikelihood(torch.autograd.Function):
    """Value by union inference; the gradient is the posterior that the same inference gives."""

    @staticmethod
    def forward(ctx: Any, log_proba: torch.Tensor, union: PreparedUnion, rates: LabelNoise | None) -> torch.Tensor:
        value, posterior = union.infer(log_proba.detach().to(torch.float64), rates)
        ctx.save_for_backward(posterior.to(log_proba.dtype), union.sizes)
        return value.to(log_proba.dtype)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        posterior, sizes = ctx.saved_tensors
        return posterior * gradients[0].repeat_interleave(sizes)[:, None], None, None


class PreparedUnion:
    """Bags and their labels, sorted and moved to a device once, for as many evaluations as there are.

    On the processor, and where there is too little to do for a GPU, the compiled code of `bagwise.union` does it.

    Parameters
    ----------
    problem : UnionProblem
    n_columns : int
    device : torch.device
    max_exact_labels : int
    """

    def __init__(
        self, problem: UnionProblem, n_columns: int, device: torch.device, max_exact_labels: int = MAX_EXACT_LABELS
    ) -> None:
        self.background, self.max_exact_labels, self.device = problem.background, max_exact_labels, device
        self.sizes = self._moved(np.diff(problem.offsets))
        most = -1 if compiled_is_faster(device, int(problem.offsets[-1]) * n_columns) else max_exact_labels
        self._chunks, large = lay_out(problem, n_columns, device, BUDGET, most)
        self._large, rows = part(problem, large)
        self._large_bags, self._large_rows = self._moved(large), self._moved(rows)

    def _moved(self, array: np.ndarray) -> torch.Tensor:
        return torch.as_tensor(array, device=self.device)

    def log_likelihood(self, log_proba: torch.Tensor, rates: LabelNoise | None = None) -> torch.Tensor:
        """(n,) tensor that can be differentiated."""
        return _UnionLogLikelihood.apply(log_proba, self, rates)

    def infer(self, logs: torch.Tensor, rates: LabelNoise | None) -> tuple[torch.Tensor, torch.Tensor]:
        """(n,) log-likelihoods and the (m, c) posterior, zero in bags that no assignment explains."""
        on_device = DeviceRates.of(rates, self.background, self.device)
        value = torch.zeros(len(self.sizes), dtype=torch.float64, device=self.device)
        posterior = torch.zeros_like(logs)
        for chunk in self._chunks:
            found = infer_chunk(logs[chunk.rows], chunk, on_device)
            value[chunk.bags] = found.log_likelihood
            posterior[chunk.rows] = found.add_to(torch.zeros_like(logs[chunk.rows]), chunk)
        if len(self._large_bags):
            self._infer_large(logs, rates, value, posterior)
        explained = (value > -torch.inf).repeat_interleave(self.sizes)
        return value, torch.where(explained[:, None], posterior, 0.0)

    def _infer_large(
        self, logs: torch.Tensor, rates: LabelNoise | None, value: torch.Tensor, posterior: torch.Tensor
    ) -> None:
        """By compiled code on the processor; P is of degree one in every row."""
        own = logs[self._large_rows]
        normalizer = own.logsumexp(dim=1)
        scores = np.ascontiguousarray((own - normalizer[:, None]).cpu().numpy())
        likelihood = self._large.infer_in_place(
            scores, softmax=True, residual=False, max_exact_labels=self.max_exact_labels, rates=rates
        ) + np.add.reduceat(normalizer.cpu().numpy(), self._large.offsets[:-1])
        value[self._large_bags] = self._moved(likelihood)
        posterior[self._large_rows] = self._moved(scores)


def compiled_is_faster(device: torch.device, n_entries: int) -> bool:
    return device.type == "cpu" or n_entries < COMPILED_BELOW


def _array(values: Any) -> np.ndarray:
    return values.detach().cpu().numpy() if isinstance(values, torch.Tensor) else np.asarray(values)
