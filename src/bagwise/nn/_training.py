"""Training of networks under the union likelihood, and by the posteriors that they find together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from bagwise.nn._inference import part
from bagwise.nn._members import BLOCK, Ensemble, mean_probabilities
from bagwise.nn._resume import (
    Arrays,
    generator_arrays,
    load_generators,
    load_optimizer,
    optimizer_arrays,
    pack,
    unpack,
)
from bagwise.nn.batches import balanced_batches
from bagwise.nn.device import as_device
from bagwise.nn.union import PreparedUnion
from bagwise.solvers.result import Callback, CheckpointLike
from bagwise.union import LabelNoise, UnionProblem

TEMPERATURES = (1.0, 1.3, 1.7, 2.2, 2.8, 3.6)  # at which held-out bags are looked at
RISING = 0.3  # of the epochs
LOOKS = 30  # at the held-out bags, in all


@dataclass(frozen=True)
class Plan:
    """How networks are trained: one cycle of the learning rate, weights decayed apart from the gradient."""

    epochs: int
    learning_rate: float
    weight_decay: float
    batch_instances: int
    max_exact_labels: int
    n_rounds: int = 0


@dataclass(frozen=True)
class TrainingData:
    """What is learned from.

    Attributes
    ----------
    X : (m, d) array
    problem : UnionProblem
    n_columns : int
        Classes, and the background where there is one.
    rates : LabelNoise or None
        Of wrong labels; where they are learned, those to start with.
    learn_rates : function or None
        Of a problem, the probabilities of its instances by networks that did not see them, the rates so far, and the
        weights of its bags.
    held_out : (e, n) array or None
        Bags that each network does not learn from.
    weights : (n,) array or None
        How much each bag counts; None: as much as any other.
    """

    X: np.ndarray
    problem: UnionProblem
    n_columns: int
    rates: LabelNoise | None = None
    learn_rates: Callable[[UnionProblem, np.ndarray, Any, np.ndarray | None], LabelNoise | None] | None = None
    held_out: np.ndarray | None = None
    weights: np.ndarray | None = None


@dataclass
class Trained:
    """What came of it.

    Attributes
    ----------
    ensemble : Ensemble
    epochs : (e,) int64
        The epoch of the first round whose weights were kept, of every member.
    history : list of float
        Mean log-likelihood a bag over the members, dropout and all, of every epoch; in later rounds that of the
        instances under the posterior.
    rates : LabelNoise or None
    failed : tuple of int or None
        Epoch and step, both counted from the first, at which the loss was no number any more.
    """

    ensemble: Ensemble
    epochs: np.ndarray
    history: list[float] = field(default_factory=list)
    rates: LabelNoise | None = None
    failed: tuple[int, int] | None = None


class _Batch:
    """Bags that are looked at together, by all members."""

    def __init__(self, at: Trainer, bags: np.ndarray, posterior: torch.Tensor | None) -> None:
        alone, rows = part(at.data.problem, bags)
        index = torch.as_tensor(rows, device=at.device)
        self.bags = torch.as_tensor(bags, device=at.device)
        self.X = at.X if len(rows) == len(at.X) else at.X[index]
        self.shape, self.n_columns = (at.n_members, len(bags)), at.data.n_columns
        self.posterior = None if posterior is None else posterior[index]
        if posterior is None:
            self.union = PreparedUnion(
                part(alone, np.tile(np.arange(len(bags)), at.n_members))[0],
                self.n_columns,
                at.device,
                at.plan.max_exact_labels,
            )
        else:
            self.bag = torch.as_tensor(np.repeat(np.arange(len(bags)), np.diff(alone.offsets)), device=at.device)

    def log_likelihood(self, scores: torch.Tensor, rates: LabelNoise | None) -> torch.Tensor:
        """(e, n) of the (e, m, c) scores of its instances: of the label sets, or of instances under the posterior."""
        logs = torch.log_softmax(scores, dim=2)
        if self.posterior is None:
            return self.union.log_likelihood(logs.reshape(-1, self.n_columns), rates).reshape(self.shape)
        expected = (self.posterior * logs).sum(dim=2)
        return torch.zeros(self.shape, dtype=logs.dtype, device=logs.device).index_add_(1, self.bag, expected)


class Trainer:
    """Training data on a device, the networks that learn it, and how far they are."""

    def __init__(
        self,
        draw: Callable[[np.random.RandomState], Ensemble],
        data: TrainingData,
        plan: Plan,
        device: torch.device,
        rng: np.random.RandomState,
        start: Any,
    ) -> None:
        self.draw, self.data, self.plan, self.device, self.rng, self.start = draw, data, plan, device, rng, start
        self.X = torch.as_tensor(np.ascontiguousarray(data.X, dtype=np.float32), device=device)
        self.sizes, self.rates = np.diff(data.problem.offsets), data.rates
        self.weights = np.ones(len(self.sizes)) if data.weights is None else data.weights
        self.ensemble = self.drawn()
        self.n_members = self.ensemble.n_members
        self.history: list[float] = []
        self.steps = 0

    def drawn(self) -> Ensemble:
        """Networks with first weights, or those of an earlier fit."""
        ensemble = self.draw(self.rng)
        if self.start is not None:
            ensemble.load_arrays(self.start)
        return ensemble.to(self.device)

    def batches(self, rng: np.random.RandomState | None, posterior: torch.Tensor | None) -> list[_Batch]:
        return [_Batch(self, bags, posterior) for bags in balanced_batches(self.sizes, self.plan.batch_instances, rng)]

    def posterior(self) -> np.ndarray:
        """(m, c) of every instance, by what the members say together and by the labels of its bag."""
        proba = mean_probabilities(self.ensemble, self.X)
        self.data.problem.infer_in_place(
            proba, softmax=False, residual=False, rates=self.rates, max_exact_labels=self.plan.max_exact_labels
        )
        return proba

    def judged(self, judge: np.ndarray, rows: np.ndarray) -> torch.Tensor:
        """(r, c) scores of instances, each by one member."""
        by, index = torch.as_tensor(judge, device=self.device), torch.as_tensor(rows, device=self.device)
        self.ensemble.eval()
        parts = []
        with torch.no_grad():
            for i in range(0, len(rows), BLOCK):
                scores = self.ensemble(self.X[index[i : i + BLOCK]])
                parts.append(scores[by[i : i + BLOCK], torch.arange(scores.shape[1], device=self.device)])
        return torch.cat(parts)

    def unseen(self) -> tuple[UnionProblem, np.ndarray, np.ndarray | None]:
        """Bags that some member holds out, the probabilities of their instances by the first that does, and weights."""
        out = self.data.held_out
        assert out is not None
        bags = np.flatnonzero(out.any(axis=0))
        alone, rows = part(self.data.problem, bags)
        judge = np.repeat(out.argmax(axis=0)[bags], np.diff(alone.offsets))
        proba = torch.softmax(self.judged(judge, rows).to(torch.float64), dim=1).cpu().numpy()
        return alone, proba, None if self.data.weights is None else self.weights[bags]

    def learn_rates(self) -> None:
        if self.data.learn_rates is not None:
            alone, proba, weights = self.unseen()
            self.rates = self.data.learn_rates(alone, proba, self.rates, weights)


def train(
    draw: Callable[[np.random.RandomState], Ensemble],
    data: TrainingData,
    plan: Plan,
    *,
    device: str,
    rng: np.random.RandomState,
    start: Any = None,
    callback: Callback | None = None,
    checkpoint: CheckpointLike | None = None,
) -> Trained:
    """Train all members at once.

    First by the likelihood of the label sets, each without its held-out bags; the weights are kept under which these
    are most likely. Then, in every round, new networks learn all bags from the posterior that the
    last ones give together. `start` holds the weights of an earlier fit, which are then gone on from.
    """
    on = as_device(device)
    kept = None if checkpoint is None else checkpoint.load()
    trainer = Trainer(draw, data, plan, on, rng, start)
    with torch.random.fork_rng(devices=[on] if on.type == "cuda" else []):
        torch.manual_seed(int(rng.randint(2**31 - 1)))
        begun = 0 if kept is None else int(kept["place"][0])
        if kept is None or begun == 0:
            trained = _first_round(trainer, TrainingState(trainer, checkpoint, kept), callback)
        else:
            trainer.ensemble.take(unpack("last", kept))
            trained = Trained(trainer.ensemble, np.array(kept["first_epochs"]))
        for number in range(max(begun, 1), plan.n_rounds + 1):
            if trained.failed is not None:
                break
            state = TrainingState(trainer, checkpoint, kept if number == begun else None, number, trained.epochs)
            _later_round(trainer, state, trained, callback)
    trained.rates, trained.history = trainer.rates, trainer.history
    return trained


def _first_round(trainer: Trainer, state: TrainingState, callback: Callback | None) -> Trained:
    """By the likelihood of the label sets."""
    out = trainer.data.held_out
    seen = np.ones((trainer.n_members, len(trainer.sizes)), dtype=bool) if out is None else ~out
    held_out = None if out is None else HeldOutBags(trainer, out)

    def look(epoch: int) -> None:
        if held_out is None:
            state.best.keep_all(trainer.ensemble, epoch)
            return
        trainer.learn_rates()
        state.best.keep_better(trainer.ensemble, held_out.log_likelihoods(), epoch)

    failed = _run(trainer, state, seen, trainer.plan.epochs, look, callback)
    state.best.restore(trainer.ensemble)
    if failed is None:
        trainer.learn_rates()
    return Trained(trainer.ensemble, state.best.epochs, failed=failed)


def _later_round(trainer: Trainer, state: TrainingState, trained: Trained, callback: Callback | None) -> None:
    """By the posterior of the networks of the round before, whose place the new ones take unless they fail."""
    last, best = trained.ensemble, state.best
    seen = np.ones((trainer.n_members, len(trainer.sizes)), dtype=bool)
    trained.failed = _run(
        trainer, state, seen, trainer.plan.epochs, lambda epoch: best.keep_all(trainer.ensemble, epoch), callback
    )
    if trained.failed is not None:
        trainer.ensemble = last
    trained.ensemble = trainer.ensemble.eval()


def _run(
    trainer: Trainer,
    state: TrainingState,
    seen: np.ndarray,
    epochs: int,
    look: Callable[[int], None],
    callback: Callback | None,
) -> tuple[int, int] | None:
    """The epochs of a round; gives epoch and step at which the loss was no number, where it was."""
    plan, ensemble, posterior = trainer.plan, trainer.ensemble, state.target
    counted = seen * trainer.weights
    weight_of = torch.as_tensor(counted, dtype=torch.float32, device=trainer.device)
    optimizer = torch.optim.AdamW(
        [p for p in ensemble.parameters() if p.requires_grad], lr=plan.learning_rate, weight_decay=plan.weight_decay
    )
    first = state.resume(optimizer)
    fixed = trainer.batches(None, posterior)
    every = max(1, epochs // LOOKS)
    for epoch in range(first + 1, epochs + 1):
        ensemble.train()
        total = 0.0
        drawn = fixed if len(fixed) == 1 else trainer.batches(trainer.rng, posterior)
        for i, batch in enumerate(drawn):
            _set_rate(optimizer, plan.learning_rate, (epoch - 1 + i / len(drawn)) / epochs)
            optimizer.zero_grad(set_to_none=True)
            weight = weight_of[:, batch.bags]
            value = torch.where(weight > 0, batch.log_likelihood(ensemble(batch.X), trainer.rates), 0.0) * weight
            in_all = weight.sum(dim=1)
            loss = -(value.sum(dim=1) / torch.where(in_all > 0, in_all, 1.0)).sum()
            trainer.steps += 1
            if not torch.isfinite(loss):
                return len(trainer.history) + 1, trainer.steps
            state.best.note_good(ensemble)
            loss.backward()
            optimizer.step()
            total += float(value.detach().sum())
        if not ensemble.is_finite():
            return len(trainer.history) + 1, trainer.steps
        trainer.history.append(total / float(counted.sum()))
        if callback is not None:
            callback(len(trainer.history), trainer.history[-1])
        if epoch % every == 0 or epoch == epochs:
            look(epoch)
        state.save(epoch, optimizer)
    return None


def _set_rate(optimizer: torch.optim.Optimizer, most: float, progress: float) -> None:
    """One cycle: the rate rises for three tenths of the way and falls to nothing, momentum goes the other way."""
    up = progress < RISING
    way = progress / RISING if up else (progress - RISING) / (1.0 - RISING)
    ease = 0.5 * (1.0 - np.cos(np.pi * way))
    for group in optimizer.param_groups:
        group["lr"] = most * (0.04 + 0.96 * ease if up else 1.0 - ease)
        group["betas"] = (0.95 - 0.1 * ease if up else 0.85 + 0.1 * ease, 0.999)


class Best:
    """The best weights so far of every member, and the last ones whose loss was a number."""

    def __init__(self, ensemble: Ensemble) -> None:
        self.weights = [[tensor.clone() for tensor in ensemble.member(e)] for e in range(ensemble.n_members)]
        self.good = [tensor.clone() for tensor in ensemble.tensors()]
        self.value = np.full(ensemble.n_members, -np.inf)
        self.epochs = np.zeros(ensemble.n_members, dtype=np.int64)

    def note_good(self, ensemble: Ensemble) -> None:
        for kept, tensor in zip(self.good, ensemble.tensors(), strict=True):
            kept.copy_(tensor)

    def keep_better(self, ensemble: Ensemble, value: np.ndarray, epoch: int) -> None:
        for e in np.flatnonzero(value > self.value):
            self.value[e], self.epochs[e] = value[e], epoch
            for kept, tensor in zip(self.weights[e], ensemble.member(int(e)), strict=True):
                kept.copy_(tensor)

    def keep_all(self, ensemble: Ensemble, epoch: int) -> None:
        self.keep_better(ensemble, np.full(len(self.value), float(epoch)), epoch)

    def restore(self, ensemble: Ensemble) -> None:
        """The best weights; of a member that nobody has looked at yet, the last good ones."""
        ensemble.take(self.good)
        with torch.no_grad():
            for e in np.flatnonzero(self.epochs > 0):
                for kept, tensor in zip(self.weights[e], ensemble.member(int(e)), strict=True):
                    tensor.copy_(kept)
        ensemble.eval()

    def arrays(self) -> dict[str, np.ndarray]:
        weights = (tensor for member in self.weights for tensor in member)
        return {**pack("best", weights), **pack("good", self.good), "value": self.value, "epochs": self.epochs}

    def load(self, arrays: Arrays) -> None:
        weights = [tensor for member in self.weights for tensor in member]
        for name, tensors in (("best", weights), ("good", self.good)):
            for tensor, array in zip(tensors, unpack(name, arrays), strict=True):
                tensor.copy_(torch.as_tensor(array))
        self.value, self.epochs = np.array(arrays["value"]), np.array(arrays["epochs"])


class TrainingState:
    """What a round has beside its networks, and the checkpoint that keeps all of it.

    Parameters
    ----------
    trainer : Trainer
        In a later round, new networks are drawn for it.
    checkpoint : CheckpointLike or None
    kept : arrays or None
        Of a checkpoint of this round, which is gone on from.
    number : int
        Of the round, the first is 0.
    first_epochs : (e,) array or None
        The epochs that were kept in the first round.
    """

    def __init__(
        self,
        trainer: Trainer,
        checkpoint: CheckpointLike | None,
        kept: Arrays | None,
        number: int = 0,
        first_epochs: np.ndarray | None = None,
    ) -> None:
        self.trainer, self.checkpoint, self.kept, self.number = trainer, checkpoint, kept, number
        self.fixed: dict[str, np.ndarray] = {}
        self.target = None
        if number:
            posterior = trainer.posterior() if kept is None else kept["posterior"]
            self.fixed = {
                "posterior": posterior, "first_epochs": np.asarray(first_epochs),
                **pack("last", [tensor.clone() for tensor in trainer.ensemble.tensors()]),
            }  # fmt: skip
            self.target = torch.as_tensor(np.array(posterior), dtype=torch.float32, device=trainer.device)
            trainer.ensemble = trainer.drawn()
        self.best = Best(trainer.ensemble)

    def resume(self, optimizer: torch.optim.Optimizer) -> int:
        """Epochs of the round that are done already, all else being as it was after them."""
        if self.kept is None:
            return 0
        trainer, kept = self.trainer, self.kept
        trainer.ensemble.take(unpack("member", kept))
        self.best.load(kept)
        load_optimizer(optimizer, kept)
        load_generators(trainer.rng, trainer.device, kept)
        trainer.history, trainer.steps = kept["history"].tolist(), int(kept["place"][2])
        if "missed" in kept:
            trainer.rates = LabelNoise(np.array(kept["missed"]), np.array(kept["spurious"]))
        return int(kept["place"][1])

    def save(self, epoch: int, optimizer: torch.optim.Optimizer) -> None:
        if self.checkpoint is None:
            return
        trainer = self.trainer
        rates = {} if trainer.rates is None else {"missed": trainer.rates.missed, "spurious": trainer.rates.spurious}
        self.checkpoint.save(
            place=np.array([self.number, epoch, trainer.steps]), history=np.array(trainer.history), **rates,
            **self.fixed,
            **pack("member", trainer.ensemble.tensors()), **self.best.arrays(), **optimizer_arrays(optimizer),
            **generator_arrays(trainer.rng, trainer.device),
        )  # fmt: skip


class HeldOutBags:
    """The bags that members hold out, each of which is looked at by those that do."""

    def __init__(self, trainer: Trainer, out: np.ndarray) -> None:
        self.trainer = trainer
        self.member, bags = np.nonzero(out)
        alone, self.rows = part(trainer.data.problem, bags)
        self.judge, self.weights = np.repeat(self.member, np.diff(alone.offsets)), trainer.weights[bags]
        self.union = PreparedUnion(alone, trainer.data.n_columns, trainer.device, trainer.plan.max_exact_labels)

    def log_likelihoods(self) -> np.ndarray:
        """(e,) of the held-out bags of each member, at the temperature that suits it best.

        Networks grow too sure long before they stop to learn; what is asked is whether they still tell labels apart
        better.
        """
        scores = self.trainer.judged(self.judge, self.rows)
        values = []
        for temperature in TEMPERATURES:
            found = self.union.log_likelihood(torch.log_softmax(scores / temperature, dim=1), self.trainer.rates)
            weighted = self.weights * found.to(torch.float64).cpu().numpy()
            values.append(np.bincount(self.member, weights=weighted, minlength=self.trainer.n_members))
        return np.max(values, axis=0)
