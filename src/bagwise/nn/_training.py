"""Training of networks under the union likelihood, and by the posteriors that they find together.

The state of a training is plain arrays, so that one that was interrupted ends where it would have ended, to the bit.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import torch

from bagwise.annotation.rates import RateParameters
from bagwise.nn._batches import balanced_batches
from bagwise.nn._heads import AnyLabels, OneLabel
from bagwise.nn._members import copy_all, mean_probabilities, networks_of
from bagwise.nn.device import as_device
from bagwise.solvers.result import Callback, CheckpointLike
from bagwise.union import LabelNoise

TEMPERATURES = (1.0, 1.3, 1.7, 2.2, 2.8, 3.6)  # at which held-out bags are looked at
RISING = 0.3  # of the epochs
LOOKS = 30  # at the held-out bags, in all
N_BATCHES, LARGEST_BATCH = 8, 1 << 15  # an epoch, and instances
MOMENTS = ("step", "exp_avg", "exp_avg_sq")  # what AdamW keeps of every parameter
Arrays = Mapping[str, np.ndarray]


class Trainer:
    """Training data on a device, the networks that learn them, and how far they are.

    Parameters
    ----------
    settings : ORedNetwork
        Says what networks there are and how they are trained.
    X : (m, d) array
    head : OneLabel or AnyLabels
        What scores of instances say of the bags.
    n_columns : int
        Classes, and the background where there is one.
    parameters : RateParameters
        Of label noise.
    weights : (n,) array
        How much each bag counts.
    held_out : (e, n) array or None
        Bags that each network does not learn from in the first round.
    rng : RandomState
    start : arrays or None
        What an earlier fit has learned, to go on from.

    Attributes
    ----------
    ensemble : Ensemble
    rates : LabelNoise or None
    epochs : (e,) array
        The epoch of the first round whose weights were kept, of every member.
    history : list of float
        Mean log-likelihood a bag over the members, dropout and all, of every epoch; in later rounds that of the
        instances under the posterior.
    failed : tuple of int or None
        Epoch and step, both counted from the first, at which the loss was no number any more.
    """

    def __init__(
        self,
        settings: Any,
        X: np.ndarray,
        head: OneLabel | AnyLabels,
        n_columns: int,
        parameters: RateParameters,
        weights: np.ndarray,
        held_out: np.ndarray | None,
        rng: np.random.RandomState,
        start: Any = None,
    ) -> None:
        self.settings, self.head, self.n_columns = settings, head, n_columns
        self.parameters, self.weights, self.held_out = parameters, weights, held_out
        self.rng, self.start = rng, start
        self.device = as_device(settings.device or "cpu")
        self.X = torch.as_tensor(np.ascontiguousarray(X, dtype=np.float32), device=self.device)
        self.sizes, self.rates = np.diff(head.offsets), parameters.possible
        self.most_rows = settings.batch_instances or min(-(-len(X) // N_BATCHES), LARGEST_BATCH)
        self.ensemble = self.drawn()
        self.epochs = np.zeros(self.ensemble.n_members, dtype=np.int64)
        self.history: list[float] = []
        self.steps = 0
        self.failed: tuple[int, int] | None = None

    def drawn(self) -> Any:
        """Networks with first weights, or those of an earlier fit."""
        ensemble = networks_of(self.settings, self.X.shape[1], self.n_columns, self.rng)
        if self.start is not None:
            ensemble.load_arrays(self.start)
        return ensemble.to(self.device)

    def train(self, callback: Callback | None, checkpoint: CheckpointLike | None) -> None:
        """Train all members at once.

        First by the likelihood of the label sets, each without its held-out bags; the weights are kept under which
        these are most likely. Then, in every round, new networks learn all bags from the posterior that the last ones
        give together.
        """
        kept = None if checkpoint is None else checkpoint.load()
        with torch.random.fork_rng(devices=[self.device] if self.device.type == "cuda" else []):
            torch.manual_seed(int(self.rng.randint(2**31 - 1)))
            begun = 0 if kept is None else int(kept["place"][0])
            for number in range(begun, self.settings.n_rounds + 1):
                if self.failed is None:
                    Round(self, number, kept if number == begun else None).run(callback, checkpoint)

    def batches(self, rng: np.random.RandomState | None, posterior: torch.Tensor | None) -> list[_Batch]:
        return [_Batch(self, bags, posterior) for bags in balanced_batches(self.sizes, self.most_rows, rng)]

    def posterior(self) -> np.ndarray:
        """(m, c) of every instance, by what the members say together and by the labels of its bag."""
        proba = mean_probabilities(self.ensemble, self.X, isinstance(self.head, AnyLabels))
        return self.head.posterior(proba, self.rates)

    def judged(self, judge: np.ndarray, rows: np.ndarray) -> torch.Tensor:
        """(r, c) scores of instances, each by one member."""
        by, at = torch.as_tensor(judge, device=self.device), torch.as_tensor(rows, device=self.device)

        def own(scores: torch.Tensor, block: slice) -> torch.Tensor:
            return scores[by[block], torch.arange(scores.shape[1], device=self.device)]

        return self.ensemble.judge(self.X[at], own)

    def learn_rates(self) -> None:
        """From bags that some member holds out, judged by the first that does."""
        if not self.parameters.learned or self.held_out is None:
            return
        bags = np.flatnonzero(self.held_out.any(axis=0))
        alone, rows = self.head.part(bags)
        judge = np.repeat(self.held_out.argmax(axis=0)[bags], np.diff(alone.offsets))
        scores = self.judged(judge, rows).to(torch.float64)
        start = self.parameters.start({name: float(getattr(self.rates, name)[0]) for name in self.parameters.learned})
        self.rates = self.parameters.rates(alone.learn_rates(self.parameters, scores, start, self.weights[bags]))


class _Batch:
    """Bags that are looked at together, by all members."""

    def __init__(self, of: Trainer, bags: np.ndarray, posterior: torch.Tensor | None) -> None:
        alone, rows = of.head.part(bags)
        index = torch.as_tensor(rows, device=of.device)
        self.bags = torch.as_tensor(bags, device=of.device)
        self.X = of.X if len(rows) == len(of.X) else of.X[index]
        self.shape = of.ensemble.n_members, len(bags)
        self.posterior = None if posterior is None else posterior[index]
        if posterior is None:
            alone, _ = alone.part(np.tile(np.arange(len(bags)), of.ensemble.n_members))
        else:
            self.bag = torch.as_tensor(np.repeat(np.arange(len(bags)), np.diff(alone.offsets)), device=of.device)
        self.head = alone

    def log_likelihood(self, scores: torch.Tensor, rates: LabelNoise | None) -> torch.Tensor:
        """(e, n) of the (e, m, c) scores of its instances: of the label sets, or of instances under the posterior."""
        if self.posterior is None:
            return self.head.log_likelihood(scores.flatten(0, 1), rates).reshape(self.shape)
        expected = self.head.expected(self.posterior, scores)
        return torch.zeros(self.shape, dtype=scores.dtype, device=scores.device).index_add_(1, self.bag, expected)


class HeldOutBags:
    """The bags that members hold out, and the weights of each under which its own were most likely so far."""

    def __init__(self, trainer: Trainer, out: np.ndarray) -> None:
        self.trainer = trainer
        self.member, bags = np.nonzero(out)
        self.head: OneLabel | AnyLabels
        self.head, self.rows = trainer.head.part(bags)
        self.judge, self.weights = np.repeat(self.member, np.diff(self.head.offsets)), trainer.weights[bags]
        self.value = np.full(len(out), -np.inf)
        self.best = copy.deepcopy(trainer.ensemble)

    def log_likelihoods(self) -> np.ndarray:
        """(e,) of the held-out bags of each member, at the temperature that suits it best.

        Networks grow too sure long before they stop to learn; what is asked is whether they still tell labels apart
        better.
        """
        scores = self.trainer.judged(self.judge, self.rows)
        values = []
        for temperature in TEMPERATURES:
            found = self.head.log_likelihood(scores / temperature, self.trainer.rates)
            weighted = self.weights * found.to(torch.float64).cpu().numpy()
            values.append(np.bincount(self.member, weights=weighted, minlength=len(self.value)))
        return np.max(values, axis=0)

    def look(self, epoch: int) -> None:
        """Keep the weights of members that are better than ever."""
        value = self.log_likelihoods()
        for e in np.flatnonzero(value > self.value):
            self.value[e], self.trainer.epochs[e] = value[e], epoch
            copy_all(self.best.member(int(e)), self.trainer.ensemble.member(int(e)))

    def restore(self) -> None:
        """The best weights of every member that was looked at."""
        for e in np.flatnonzero(self.trainer.epochs):
            copy_all(self.trainer.ensemble.member(int(e)), self.best.member(int(e)))


class Round:
    """One run through all epochs: the first by label sets, a later one of new networks by the posterior of the last.

    Parameters
    ----------
    trainer : Trainer
    number : int
        The first is 0.
    kept : arrays or None
        Of a checkpoint of this round, which is gone on from.
    """

    def __init__(self, trainer: Trainer, number: int, kept: Arrays | None) -> None:
        self.trainer, self.number, self.last = trainer, number, trainer.ensemble
        self.target, self.held_out = None, None
        self.fixed: dict[str, np.ndarray] = {}  # while the round lasts
        if number:
            if kept is not None:
                self.last.take(unpack("last", kept))
            posterior = trainer.posterior() if kept is None else np.array(kept["posterior"])
            self.fixed = {"posterior": posterior, **pack("last", self.last.tensors())}
            self.target = torch.as_tensor(posterior, dtype=torch.float32, device=trainer.device)
            trainer.ensemble = trainer.drawn()
        elif trainer.held_out is not None:
            self.held_out = HeldOutBags(trainer, trainer.held_out)
        self.good = copy.deepcopy(trainer.ensemble)  # the last whose loss was a number
        self.optimizer = torch.optim.AdamW(
            [p for p in trainer.ensemble.parameters() if p.requires_grad],
            lr=trainer.settings.learning_rate,
            weight_decay=trainer.settings.weight_decay,
        )
        self.done = 0 if kept is None else self._resume(kept)

    def run(self, callback: Callback | None, checkpoint: CheckpointLike | None) -> None:
        """All epochs; where a loss is no number, the last good weights, in a later round those of the last networks."""
        trainer, epochs = self.trainer, self.trainer.settings.epochs
        counted = np.tile(trainer.weights, (len(trainer.epochs), 1))
        if self.held_out is not None:
            counted[trainer.held_out] = 0.0
        weight_of = torch.as_tensor(counted, dtype=torch.float32, device=trainer.device)
        whole = trainer.batches(None, self.target)
        for epoch in range(self.done + 1, epochs + 1):
            batches = whole if len(whole) == 1 else trainer.batches(trainer.rng, self.target)
            total = 0.0
            trainer.ensemble.train()
            for i, batch in enumerate(batches):
                self._set_rate((epoch - 1 + i / len(batches)) / epochs)
                total += self._step(batch, weight_of[:, batch.bags])
                if trainer.failed is not None:
                    break
            if trainer.failed is not None or not trainer.ensemble.is_finite():
                trainer.failed = len(trainer.history) + 1, trainer.steps
                break
            trainer.history.append(total / float(counted.sum()))
            if callback is not None:
                callback(len(trainer.history), trainer.history[-1])
            if self.held_out is not None and (epoch % max(1, epochs // LOOKS) == 0 or epoch == epochs):
                trainer.learn_rates()
                self.held_out.look(epoch)
            if checkpoint is not None:
                checkpoint.save(**self._arrays(epoch))
        self._finish()

    def _step(self, batch: _Batch, weight: torch.Tensor) -> float:
        """One step of every member; gives the weighted log-likelihood before it."""
        trainer = self.trainer
        self.optimizer.zero_grad(set_to_none=True)
        found = batch.log_likelihood(trainer.ensemble(batch.X), trainer.rates)
        value = torch.where(weight > 0, found, 0.0) * weight
        in_all = weight.sum(dim=1)
        loss = -(value.sum(dim=1) / torch.where(in_all > 0, in_all, 1.0)).sum()
        trainer.steps += 1
        if not torch.isfinite(loss):
            trainer.failed = len(trainer.history) + 1, trainer.steps
            return 0.0
        self.good.take(trainer.ensemble.tensors())
        loss.backward()
        self.optimizer.step()
        return float(value.detach().sum())

    def _set_rate(self, progress: float) -> None:
        """One cycle: the rate rises for three tenths of the way and falls to nothing, momentum goes the other way."""
        up = progress < RISING
        way = progress / RISING if up else (progress - RISING) / (1.0 - RISING)
        ease = 0.5 * (1.0 - np.cos(np.pi * way))
        for group in self.optimizer.param_groups:
            group["lr"] = self.trainer.settings.learning_rate * (0.04 + 0.96 * ease if up else 1.0 - ease)
            group["betas"] = (0.95 - 0.1 * ease if up else 0.85 + 0.1 * ease, 0.999)

    def _finish(self) -> None:
        trainer = self.trainer
        if self.number and trainer.failed is not None:
            trainer.ensemble = self.last
        elif trainer.failed is not None or self.held_out is not None:
            trainer.ensemble.take(self.good.tensors())
        if self.held_out is not None:
            self.held_out.restore()
            if trainer.failed is None:
                trainer.learn_rates()
        elif not self.number:
            trainer.epochs[:] = len(trainer.history)
        trainer.ensemble.eval()

    # -- checkpoints --------------------------------------------------------------------------------------------------

    def _arrays(self, epoch: int) -> dict[str, np.ndarray]:
        trainer, moments = self.trainer, list(self.optimizer.state.values())
        _, key, *place = trainer.rng.get_state()
        found = {
            "place": np.array([self.number, epoch, trainer.steps]),
            "history": np.array(trainer.history),
            "epochs": trainer.epochs,
            "numpy_key": key,
            "numpy_place": np.array(place, dtype=np.float64),
            "torch": torch.get_rng_state().numpy(),
            **self.fixed,
            **pack("good", self.good.tensors()),
            **pack("member", trainer.ensemble.tensors()),
        }
        for name in MOMENTS:
            found |= pack(name, (state[name] for state in moments))
        if trainer.rates is not None:
            found |= {"missed": trainer.rates.missed, "spurious": trainer.rates.spurious}
        if self.held_out is not None:
            found |= {"value": self.held_out.value, **pack("best", self.held_out.best.tensors())}
        if trainer.device.type == "cuda":
            found["cuda"] = torch.cuda.get_rng_state(trainer.device).numpy()
        return found

    def _resume(self, kept: Arrays) -> int:
        """Epochs of the round that are done already, all else being as it was after them."""
        trainer, place = self.trainer, kept["numpy_place"]
        trainer.ensemble.take(unpack("member", kept))
        self.good.take(unpack("good", kept))
        parameters = self.optimizer.param_groups[0]["params"]
        for parameter, *moments in zip(parameters, *(unpack(name, kept) for name in MOMENTS), strict=True):
            self.optimizer.state[parameter] = {
                name: value.to(parameter.device) if value.ndim else value
                for name, value in zip(MOMENTS, moments, strict=True)
            }
        trainer.rng.set_state(("MT19937", kept["numpy_key"], *place[:2].astype(int), place[2]))
        torch.set_rng_state(torch.as_tensor(np.array(kept["torch"])))
        if trainer.device.type == "cuda":
            torch.cuda.set_rng_state(torch.as_tensor(np.array(kept["cuda"])), trainer.device)
        trainer.epochs, trainer.history = np.array(kept["epochs"]), kept["history"].tolist()
        if "missed" in kept:
            trainer.rates = LabelNoise(np.array(kept["missed"]), np.array(kept["spurious"]))
        if self.held_out is not None:
            self.held_out.value = np.array(kept["value"])
            self.held_out.best.take(unpack("best", kept))
        _, epoch, trainer.steps = kept["place"].tolist()
        return epoch


def pack(name: str, tensors: Iterable[torch.Tensor]) -> dict[str, np.ndarray]:
    """Tensors as arrays called name.0, name.1, ..."""
    return {f"{name}.{i}": tensor.detach().cpu().numpy() for i, tensor in enumerate(tensors)}


def unpack(name: str, arrays: Arrays) -> list[torch.Tensor]:
    found: list[torch.Tensor] = []
    while (key := f"{name}.{len(found)}") in arrays:
        found.append(torch.as_tensor(np.array(arrays[key])))
    return found
