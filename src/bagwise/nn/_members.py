"""Several small networks side by side, a batched product a layer, and their training under the union likelihood."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch

from bagwise.kernels.union import Rates, UnionProblem
from bagwise.nn._layout import part
from bagwise.nn.batches import balanced_batches
from bagwise.nn.device import as_device
from bagwise.nn.union import PreparedUnion

TEMPERATURES = (1.0, 1.3, 1.7, 2.2, 2.8, 3.6)  # at which held-out bags are looked at
RISING = 0.3  # of the epochs
LOOKS = 30  # at the held-out bags, in all


Layers = tuple[tuple[np.ndarray, np.ndarray], ...]


class Members(torch.nn.Module):
    """Networks of equal shape with weights of their own: GELU between the layers, dropout before all but the first.

    Parameters
    ----------
    n_members : int
    widths : sequence of int
        Features, hidden units, outputs.
    dropout : float
    generator : torch.Generator
        Draws the first weights.
    """

    def __init__(self, n_members: int, widths: Sequence[int], dropout: float, generator: torch.Generator) -> None:
        super().__init__()
        self.dropout = dropout

        def drawn(*shape: int, fan_in: int) -> torch.nn.Parameter:
            return torch.nn.Parameter((2.0 * torch.rand(shape, generator=generator) - 1.0) / fan_in**0.5)

        pairs = list(pairwise(widths))
        self.weights = torch.nn.ParameterList(drawn(n_members, a, b, fan_in=a) for a, b in pairs)
        self.biases = torch.nn.ParameterList(drawn(n_members, 1, b, fan_in=a) for a, b in pairs)

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        """(e, m, c) scores of (m, d) instances."""
        hidden = X.expand(len(self.biases[0]), *X.shape)
        for i, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            if i:
                hidden = torch.nn.functional.gelu(hidden)
                hidden = torch.nn.functional.dropout(hidden, self.dropout, self.training)
            hidden = torch.baddbmm(bias, hidden, weight)
        return hidden

    def arrays(self) -> Layers:
        """Weights and biases of every layer."""
        pairs = zip(self.weights, self.biases, strict=True)
        return tuple((w.detach().cpu().numpy(), b.detach().cpu().numpy()) for w, b in pairs)

    def load_arrays(self, layers: Sequence[tuple[np.ndarray, np.ndarray]]) -> None:
        """Start from the weights of an earlier fit."""
        with torch.no_grad():
            for weight, bias, (w, b) in zip(self.weights, self.biases, layers, strict=True):
                weight.copy_(torch.as_tensor(w))
                bias.copy_(torch.as_tensor(b))


@dataclass(frozen=True)
class Plan:
    """What is trained and how: one cycle of the learning rate, weights decayed apart from the gradient."""

    widths: tuple[int, ...]
    n_members: int
    dropout: float
    epochs: int
    learning_rate: float
    weight_decay: float
    batch_instances: int
    max_exact_labels: int


@dataclass(frozen=True)
class Trained:
    """What came of it.

    Attributes
    ----------
    layers : tuple of pairs of arrays
        Weights and biases of every layer, those of the members side by side.
    epochs : (e,) int64
        The epoch whose weights were kept, of every member.
    history : list of float
        Mean log-likelihood a bag over the members, dropout and all, of every epoch.
    failed : int or None
        The epoch at which the loss was no number any more.
    """

    layers: Layers
    epochs: np.ndarray
    history: list[float]
    failed: int | None


class _Batch:
    """Bags that are looked at together, by all members."""

    def __init__(
        self, X: torch.Tensor, problem: UnionProblem, bags: np.ndarray, n_members: int, n_columns: int,
        possible: Rates | None, max_exact_labels: int,
    ) -> None:  # fmt: skip
        alone, rows = part(problem, bags)
        self.bags = torch.as_tensor(bags, device=X.device)
        self.X = X if len(rows) == len(X) else X[torch.as_tensor(rows, device=X.device)]
        self.shape, self.n_columns = (n_members, len(bags)), n_columns
        self.union = PreparedUnion(tiled(alone, n_members), n_columns, X.device, possible, max_exact_labels)

    def log_likelihood(self, scores: torch.Tensor, rates: Rates | None) -> torch.Tensor:
        """(e, n) of the (e, m, c) scores of its instances."""
        logs = torch.log_softmax(scores, dim=2).reshape(-1, self.n_columns)
        return self.union.log_likelihood(logs, rates).reshape(self.shape)


def train_members(
    X: np.ndarray,
    problem: UnionProblem,
    rates: Rates | None,
    held_out: np.ndarray | None,
    plan: Plan,
    *,
    device: str,
    rng: np.random.RandomState,
    start: Layers | None = None,
    callback: Callable[[int, float], None] | None = None,
) -> Trained:
    """Train all members at once, each without its (e, n) held-out bags; keeps the weights that explain these best.

    `start` holds the weights of an earlier fit, which is taken up where the shapes are the same.
    """
    on = as_device(device)
    generator = torch.Generator().manual_seed(int(rng.randint(2**31 - 1)))
    members = Members(plan.n_members, plan.widths, plan.dropout, generator)
    if start is not None and [w.shape for w, _ in start] == [tuple(w.shape) for w in members.weights]:
        members.load_arrays(start)
    with torch.random.fork_rng(devices=[on] if on.type == "cuda" else []):
        torch.manual_seed(int(rng.randint(2**31 - 1)))
        epochs, history, failed = _train(members.to(on), X, problem, rates, held_out, plan, on, rng, callback)
    return Trained(members.arrays(), epochs, history, failed)


def _train(
    members: Members,
    X: np.ndarray,
    problem: UnionProblem,
    rates: Rates | None,
    held_out: np.ndarray | None,
    plan: Plan,
    device: torch.device,
    rng: np.random.RandomState,
    callback: Callable[[int, float], None] | None,
) -> tuple[np.ndarray, list[float], int | None]:
    n_members, n_columns = plan.n_members, plan.widths[-1]
    instances = torch.as_tensor(np.ascontiguousarray(X, dtype=np.float32), device=device)
    sizes = np.diff(problem.offsets)

    def batches(rng: np.random.RandomState | None) -> list[_Batch]:
        found = balanced_batches(sizes, plan.batch_instances, rng)
        return [_Batch(instances, problem, b, n_members, n_columns, rates, plan.max_exact_labels) for b in found]

    fixed = batches(None)
    seen = torch.ones((n_members, len(sizes)), dtype=torch.bool, device=device)
    if held_out is not None:
        seen &= ~torch.as_tensor(held_out, device=device)
    optimizer = torch.optim.AdamW(members.parameters(), lr=plan.learning_rate, weight_decay=plan.weight_decay)
    kept = _Kept(members)
    history: list[float] = []
    every = max(1, plan.epochs // LOOKS)
    for epoch in range(1, plan.epochs + 1):
        members.train()
        total = 0.0
        drawn = fixed if len(fixed) == 1 else batches(rng)
        for i, batch in enumerate(drawn):
            _set_rate(optimizer, plan.learning_rate, (epoch - 1 + i / len(drawn)) / plan.epochs)
            optimizer.zero_grad(set_to_none=True)
            mine = seen[:, batch.bags]
            value = torch.where(mine, batch.log_likelihood(members(batch.X), rates), 0.0)
            loss = -(value.sum(dim=1) / mine.sum(dim=1).clamp(min=1)).sum()
            if not torch.isfinite(loss):
                kept.restore(members)
                return kept.epochs, history, epoch
            loss.backward()
            optimizer.step()
            total += float(value.detach().sum())
        history.append(total / float(seen.sum()))
        if callback is not None:
            callback(epoch, history[-1])
        if held_out is None:
            kept.keep_all(members, epoch)
        elif epoch % every == 0 or epoch == plan.epochs:
            kept.keep_better(members, _of_held_out(members, fixed, ~seen, rates), epoch)
    kept.restore(members)
    return kept.epochs, history, None


def _set_rate(optimizer: torch.optim.Optimizer, most: float, progress: float) -> None:
    """One cycle: the rate rises for three tenths of the way and falls to nothing, momentum goes the other way."""
    up = progress < RISING
    way = progress / RISING if up else (progress - RISING) / (1.0 - RISING)
    ease = 0.5 * (1.0 - np.cos(np.pi * way))
    for group in optimizer.param_groups:
        group["lr"] = most * (0.04 + 0.96 * ease if up else 1.0 - ease)
        group["betas"] = (0.95 - 0.1 * ease if up else 0.85 + 0.1 * ease, 0.999)


class _Kept:
    """The best weights so far of every member."""

    def __init__(self, members: Members) -> None:
        self.weights = [p.detach().clone() for p in members.parameters()]
        n_members = len(members.biases[0])
        self.value = torch.full((n_members,), -torch.inf, dtype=torch.float64, device=self.weights[0].device)
        self.epochs = np.zeros(n_members, dtype=np.int64)

    def keep_better(self, members: Members, value: torch.Tensor, epoch: int) -> None:
        better = value > self.value
        self.value = torch.where(better, value, self.value)
        self.epochs[better.cpu().numpy()] = epoch
        for kept, parameter in zip(self.weights, members.parameters(), strict=True):
            kept[better] = parameter.detach()[better]

    def keep_all(self, members: Members, epoch: int) -> None:
        self.epochs[:] = epoch
        for kept, parameter in zip(self.weights, members.parameters(), strict=True):
            kept.copy_(parameter.detach())

    def restore(self, members: Members) -> None:
        members.eval()
        with torch.no_grad():
            for kept, parameter in zip(self.weights, members.parameters(), strict=True):
                parameter.copy_(kept)


def _of_held_out(members: Members, batches: list[_Batch], out: torch.Tensor, rates: Rates | None) -> torch.Tensor:
    """(e,) log-likelihood of the held-out bags at the temperature that suits each member best.

    Networks grow too sure long before they stop to learn; what is asked is whether they still tell labels apart better.
    """
    members.eval()
    values = torch.zeros((len(TEMPERATURES), len(out)), dtype=torch.float64, device=out.device)
    with torch.no_grad():
        for batch in batches:
            scores = members(batch.X)
            for i, temperature in enumerate(TEMPERATURES):
                found = batch.log_likelihood(scores / temperature, rates).to(torch.float64)
                values[i] += torch.where(out[:, batch.bags], found, 0.0).sum(dim=1)
    return values.amax(dim=0)


def tiled(problem: UnionProblem, times: int) -> UnionProblem:
    """The problem over again, once for every member."""
    m, total = int(problem.offsets[-1]), int(problem.label_starts[-1])
    shift = np.arange(times)[:, None]
    return UnionProblem(
        offsets=np.append((problem.offsets[:-1] + shift * m).ravel(), m * times),
        label_starts=np.append((problem.label_starts[:-1] + shift * total).ravel(), total * times),
        labels=np.tile(problem.labels, times),
        background=problem.background,
        known=np.tile(problem.known, times),
        relaxed=np.tile(problem.relaxed, times),
    )
