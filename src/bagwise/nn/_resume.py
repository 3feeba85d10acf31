"""The state of a training as plain arrays, so that one that was interrupted ends where it would have ended."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import torch

Arrays = Mapping[str, np.ndarray]
MOMENTS = ("step", "exp_avg", "exp_avg_sq")  # what AdamW keeps of every parameter


def pack(name: str, tensors: Iterable[torch.Tensor]) -> dict[str, np.ndarray]:
    """Tensors as arrays called name.0, name.1, ..."""
    return {f"{name}.{i}": tensor.detach().cpu().numpy() for i, tensor in enumerate(tensors)}


def unpack(name: str, arrays: Arrays) -> list[np.ndarray]:
    found: list[np.ndarray] = []
    while f"{name}.{len(found)}" in arrays:
        found.append(arrays[f"{name}.{len(found)}"])
    return found


def optimizer_arrays(optimizer: torch.optim.Optimizer) -> dict[str, np.ndarray]:
    """Moments of every parameter; nothing before the first step."""
    states = list(optimizer.state.values())
    return {key: value for name in MOMENTS for key, value in pack(name, (s[name] for s in states)).items()}


def load_optimizer(optimizer: torch.optim.Optimizer, arrays: Arrays) -> None:
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    for parameter, *moments in zip(parameters, *(unpack(name, arrays) for name in MOMENTS), strict=True):
        optimizer.state[parameter] = {
            name: torch.as_tensor(np.array(value), device=parameter.device if value.ndim else "cpu")
            for name, value in zip(MOMENTS, moments, strict=True)
        }


def generator_arrays(rng: np.random.RandomState, device: torch.device) -> dict[str, np.ndarray]:
    """Where the generators of numpy and torch are."""
    state: Any = rng.get_state(legacy=False)
    found = {
        "numpy_key": state["state"]["key"],
        "numpy_place": np.array([state["state"]["pos"], state["has_gauss"], state["gauss"]], dtype=np.float64),
        "torch": torch.get_rng_state().numpy(),
    }
    if device.type == "cuda":
        found["cuda"] = torch.cuda.get_rng_state(device).numpy()
    return found


def load_generators(rng: np.random.RandomState, device: torch.device, arrays: Arrays) -> None:
    place = arrays["numpy_place"]
    rng.set_state(("MT19937", arrays["numpy_key"], int(place[0]), int(place[1]), float(place[2])))
    torch.set_rng_state(torch.as_tensor(np.array(arrays["torch"])))
    if device.type == "cuda":
        torch.cuda.set_rng_state(torch.as_tensor(np.array(arrays["cuda"])), device)
