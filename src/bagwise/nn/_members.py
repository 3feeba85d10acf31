"""Several networks side by side: small ones as batched products, modules of anybody's one after the other."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import torch

from bagwise.core.exceptions import InputError
from bagwise.nn._patch import patch_network
from bagwise.nn.device import as_device

BLOCK = 1 << 12  # instances that are judged at a time
PROBED = 2  # instances that a module is asked about before it is trained

Layers = tuple[tuple[np.ndarray, np.ndarray], ...]


def copy_all(into: Iterable[torch.Tensor], tensors: Iterable[torch.Tensor]) -> None:
    """Overwrite tensors by others of the same shapes."""
    with torch.no_grad():
        for own, other in zip(into, tensors, strict=True):
            own.copy_(other)


class Ensemble(torch.nn.Module):
    """Networks that are trained together, each from its own bags.

    A subclass gives `forward(X)`, the (e, m, c) scores of (m, d) instances; `member(e)`, the tensors of all that one
    network has learned, to be read and to be overwritten in place; `arrays()`, what a model keeps of all of them; and
    `load_arrays(kept)`, which takes that where it is of the same shape.
    """

    n_members: int
    member: Any
    arrays: Any
    load_arrays: Any

    def tensors(self) -> Iterator[torch.Tensor]:
        """All that the networks have learned."""
        for e in range(self.n_members):
            yield from self.member(e)

    def take(self, tensors: Iterable[torch.Tensor]) -> None:
        """Overwrite what has been learned by what `tensors` gave, here or elsewhere."""
        copy_all(self.tensors(), tensors)

    def is_finite(self) -> bool:
        return all(bool(torch.isfinite(tensor).all()) for tensor in self.tensors())

    def judge(self, X: torch.Tensor, of: Callable[[torch.Tensor, slice], torch.Tensor]) -> torch.Tensor:
        """What `of` makes of the (e, m, c) scores of each block of instances, one behind the other."""
        self.eval()
        with torch.no_grad():
            blocks = (slice(i, i + BLOCK) for i in range(0, len(X), BLOCK))
            return torch.cat([of(self(X[block]), block) for block in blocks])


class Members(Ensemble):
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
        self.n_members, self.dropout = n_members, dropout

        def drawn(*shape: int, fan_in: int) -> torch.nn.Parameter:
            return torch.nn.Parameter((2.0 * torch.rand(shape, generator=generator) - 1.0) / fan_in**0.5)

        pairs = list(pairwise(widths))
        self.weights = torch.nn.ParameterList(drawn(n_members, a, b, fan_in=a) for a, b in pairs)
        self.biases = torch.nn.ParameterList(drawn(n_members, 1, b, fan_in=a) for a, b in pairs)

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        hidden = X.expand(self.n_members, *X.shape)
        for i, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            if i:
                hidden = torch.nn.functional.gelu(hidden)
                hidden = dropped(hidden, self.dropout) if self.training else hidden
            hidden = torch.baddbmm(bias, hidden, weight)
        return hidden

    def member(self, e: int) -> list[torch.Tensor]:
        return [parameter.detach()[e] for parameter in self.parameters()]

    def tensors(self) -> Iterator[torch.Tensor]:
        return (parameter.detach() for parameter in self.parameters())  # fewer and larger ones

    def arrays(self) -> Layers:
        """Weights and biases of every layer."""
        pairs = zip(self.weights, self.biases, strict=True)
        return tuple((w.detach().cpu().numpy(), b.detach().cpu().numpy()) for w, b in pairs)

    def load_arrays(self, layers: Sequence[tuple[np.ndarray, np.ndarray]]) -> None:
        """Start from the weights of an earlier fit, where these are of the same shape."""
        if [w.shape for w, _ in layers] == [tuple(w.shape) for w in self.weights]:
            self.take(torch.as_tensor(array) for of_all in zip(*layers, strict=True) for array in of_all)


def dropped(hidden: torch.Tensor, share: float) -> torch.Tensor:
    """Dropout: a share of the units is zero, to the nearest of 65,536 parts, the others are larger for it.

    On a processor torch draws one number after another, which would take half of the training; here one draw decides
    on four units.
    """
    least = min(round(share * 2**16), 2**16 - 1)
    if least == 0 or hidden.device.type != "cpu":
        return torch.nn.functional.dropout(hidden, share)
    drawn = torch.empty((hidden.numel() + 3) // 4, dtype=torch.int64).random_(-(2**63), None)
    kept = drawn.view(torch.int16)[: hidden.numel()].view(hidden.shape) >= least - 2**15
    return hidden * kept.to(hidden.dtype).mul_(2**16 / (2**16 - least))


class Modules(Ensemble):
    """Modules of anybody's, each of which gives (m, c) scores of (m, d) instances."""

    def __init__(self, modules: Sequence[torch.nn.Module]) -> None:
        super().__init__()
        self.n_members, self.members = len(modules), torch.nn.ModuleList(modules)

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        return torch.stack([module(X) for module in self.members])

    def member(self, e: int) -> list[torch.Tensor]:
        return [tensor.detach() for tensor in self.members[e].state_dict().values()]

    def arrays(self) -> list[dict[str, np.ndarray]]:
        """The state of every module by name."""
        return [
            {name: tensor.detach().cpu().numpy() for name, tensor in module.state_dict().items()}
            for module in self.members
        ]

    def load_arrays(self, states: Sequence[dict[str, np.ndarray]]) -> None:
        """Take the states of modules that were trained earlier; an error says how these differ."""
        for module, state in zip(self.members, states, strict=False):
            tensors = {name: torch.as_tensor(array) for name, array in state.items()}
            try:
                module.load_state_dict(tensors)
            except RuntimeError as error:
                raise InputError(
                    f"The weights that were saved do not fit the module {type(module).__name__} that is given: "
                    f"{' '.join(str(error).split())} Give the one that was trained (module)."
                ) from error


def networks_of(settings: Any, n_features: int, n_columns: int, rng: np.random.RandomState) -> Ensemble:
    """The networks that an `ORedNetwork` asks for, with first weights.

    Members of a module are copies of it as it is, or what a function of features and outputs makes. One that gives
    scores of another shape is an error.
    """
    module = settings.module
    if module is None:
        generator = torch.Generator().manual_seed(int(rng.randint(2**31 - 1)))
        return Members(settings.n_members, (n_features, *settings.hidden, n_columns), settings.dropout, generator)
    make = patch_network if module == "patch" else module

    def made(seed: int) -> torch.nn.Module:
        if isinstance(module, torch.nn.Module):
            return copy.deepcopy(module)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return make(n_features, n_columns)

    found = [made(int(rng.randint(2**31 - 1))) for _ in range(settings.n_members)]
    check_scores(found[0], n_features, n_columns)
    return Modules(found)


def check_scores(module: Any, n_features: int, n_columns: int) -> None:
    """Refuse what is no module, has nothing to train, or gives other scores than one for each class."""
    if not isinstance(module, torch.nn.Module):
        raise InputError(f"module made a {type(module).__name__}; expected a torch.nn.Module.")
    name = type(module).__name__
    if not any(parameter.requires_grad for parameter in module.parameters()):
        raise InputError(f"The module {name} has no parameters that can be trained; give one that has (module).")
    probe = torch.zeros((PROBED, n_features), device=next(module.parameters()).device)
    module.eval()
    try:
        with torch.no_grad():
            scores = module(probe)
    except Exception as error:  # whatever a module of anybody's raises
        raise InputError(
            f"The module {name} cannot judge instances of {n_features} features: {' '.join(str(error).split())} "
            "It is given an (m, d) tensor of float32 (module)."
        ) from error
    expected = (PROBED, n_columns)
    if not isinstance(scores, torch.Tensor) or tuple(scores.shape) != expected:
        found = tuple(scores.shape) if isinstance(scores, torch.Tensor) else type(scores).__name__
        raise InputError(
            f"The module {name} gives scores of shape {found} for {PROBED} instances; expected {expected}, one score "
            "for each class, and for the background behind them where there is one (module)."
        )


def mean_probabilities(ensemble: Ensemble, X: torch.Tensor, label_sets: bool) -> np.ndarray:
    """(m, c) mean of the members' probabilities."""

    def mean(scores: torch.Tensor, _: slice) -> torch.Tensor:
        scores = scores.to(torch.float64)
        return (torch.sigmoid(scores) if label_sets else torch.softmax(scores, dim=2)).mean(dim=0)

    return ensemble.judge(X, mean).cpu().numpy()


def probabilities_of(settings: Any, n_columns: int, kept: Any, X: np.ndarray, label_sets: bool) -> np.ndarray:
    """The same by networks that an `ORedNetwork` has learned, of which `kept` is what `Ensemble.arrays` gave."""
    on = as_device(settings.device or "cpu")
    ensemble = networks_of(settings, X.shape[1], n_columns, np.random.RandomState(0))
    ensemble.load_arrays(kept)
    instances = torch.as_tensor(np.ascontiguousarray(X, dtype=np.float32), device=on)
    return mean_probabilities(ensemble.to(on), instances, label_sets)
