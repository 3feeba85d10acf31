"""A small convolutional network that looks at patches of spectrograms."""

from __future__ import annotations

import torch

from bagwise.core.exceptions import InputError
from bagwise.nn.patch_shape import COLUMNS, LAYERS, N_FEATURES, ROWS

CHANNELS = (16, 32, 64)
HIDDEN, DROPOUT = 128, 0.5
SHIFT = (1, 3)  # rows and columns by which a patch is moved at most while it is learned
GAIN, NOISE = 0.2, 0.03  # of the loudness
STRIP = (4, 4)  # rows and columns of the strips that are wiped out


def patch_network(n_features: int, n_outputs: int) -> torch.nn.Module:
    """The network for patches of spectrograms; features of another kind are an error."""
    if n_features != N_FEATURES:
        raise InputError(
            f"The network of patches looks at {LAYERS[0]} and {LAYERS[1]} of {ROWS} x {COLUMNS} points, {N_FEATURES} "
            f"features, and there are {n_features}; read recordings as patches (--media-set features=patch)."
        )
    return PatchNetwork(n_outputs)


class PatchNetwork(torch.nn.Module):
    """Three convolutions, each followed by a maximum over two by two points, and two layers on all that is left.

    What is left still knows its place, since the frequency of a sound says whose it is. While it learns, patches are
    moved a little, made louder or softer, and lose a strip of frequencies and one of moments.
    """

    def __init__(self, n_outputs: int) -> None:
        super().__init__()
        steps: list[torch.nn.Module] = []
        for before, after in zip((len(LAYERS), *CHANNELS[:-1]), CHANNELS, strict=True):
            steps += [torch.nn.Conv2d(before, after, 3, padding=1), torch.nn.GELU(), torch.nn.MaxPool2d(2)]
        shrunk = 2 ** len(CHANNELS)
        self.look = torch.nn.Sequential(*steps, torch.nn.Flatten())
        self.judge = torch.nn.Sequential(
            torch.nn.Dropout(DROPOUT),
            torch.nn.Linear(CHANNELS[-1] * (ROWS // shrunk) * (COLUMNS // shrunk), HIDDEN),
            torch.nn.GELU(),
            torch.nn.Dropout(DROPOUT),
            torch.nn.Linear(HIDDEN, n_outputs),
        )

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        patches = X.reshape(len(X), len(LAYERS), ROWS, COLUMNS)
        return self.judge(self.look(augmented(patches) if self.training else patches))


def augmented(patches: torch.Tensor) -> torch.Tensor:
    """Other views of (m, 2, rows, columns) patches, each of its own."""
    m, device = len(patches), patches.device
    padded = torch.nn.functional.pad(patches, (SHIFT[1], SHIFT[1], SHIFT[0], SHIFT[0]))
    down, right = (torch.randint(0, 2 * most + 1, (m, 1), device=device) for most in SHIFT)
    rows, columns = torch.arange(ROWS, device=device), torch.arange(COLUMNS, device=device)
    picked = (
        torch.arange(m, device=device)[:, None, None, None],
        torch.arange(len(LAYERS), device=device)[:, None, None],
    )
    moved = padded[*picked, (down + rows)[:, None, :, None], (right + columns)[:, None, None, :]]
    gain = 1.0 + GAIN * (2.0 * torch.rand((m, 1, 1), device=device) - 1.0)
    loud = (moved[:, 0] * gain + NOISE * torch.randn((m, ROWS, COLUMNS), device=device)).clamp(0.0, 1.0)
    kept = _outside_strip(m, ROWS, STRIP[0], device)[:, :, None] & _outside_strip(m, COLUMNS, STRIP[1], device)[:, None]
    return torch.stack([loud * kept, moved[:, 1]], dim=1)


def _outside_strip(m: int, length: int, most: int, device: torch.device) -> torch.Tensor:
    """(m, length) what lies outside of a strip of a drawn width and place."""
    width = torch.randint(0, most + 1, (m, 1), device=device)
    first = torch.randint(0, length, (m, 1), device=device)
    place = torch.arange(length, device=device)
    return (place < first) | (place >= first + width)
