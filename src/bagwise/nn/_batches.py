"""Batches of whole bags for training loops."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from bagwise.core.bags import as_bags
from bagwise.core.exceptions import InputError
from bagwise.core.validation import Given, as_given


def balanced_batches(sizes: np.ndarray, most: int, rng: np.random.RandomState | None = None) -> list[np.ndarray]:
    """Indices of bags in batches of at most `most` instances, of about equally many; a larger bag is one of its own.

    Bags come in the order that `rng` draws, or as they are.
    """
    order = np.arange(len(sizes)) if rng is None else rng.permutation(len(sizes))
    total = int(sizes.sum())
    n_batches = max(1, -(-total // most))
    while True:
        # each bag goes to the batch in which its middle lies, were all instances cut into equal parts
        ends = np.cumsum(sizes[order])
        middle = ends - 0.5 * sizes[order]
        part = np.minimum((middle * n_batches / total).astype(np.int64), n_batches - 1)
        batches = [batch for batch in np.split(order, np.flatnonzero(np.diff(part)) + 1) if len(batch)]
        if all(len(batch) == 1 or sizes[batch].sum() <= most for batch in batches):
            return batches
        n_batches += max(1, n_batches // 16)


class BagLoader:
    """Bags and labels as tensors, in batches of whole bags that hold about equally many instances.

    Parameters
    ----------
    X : Bags, list of 2-d arrays, 3-d array or 2-d array
    Y : (n, c) matrix
        Of 0 and 1, or of floats that say more (docs/evidence.md).
    batch_instances : int, default=4096
        Most instances of a batch; a bag that has more is a batch of its own.
    shuffle : bool, default=True
        Other batches at every pass.
    device : str or torch.device
    random_state : int or None

    Examples
    --------
    >>> from bagwise.datasets import make_gaussian_bags
    >>> from bagwise.nn import BagLoader
    >>> data = make_gaussian_bags(n_bags=60, random_state=0)
    >>> sum(len(offsets) - 1 for X, offsets, Y in BagLoader(data.bags, data.Y, batch_instances=50))
    60
    """

    def __init__(
        self,
        X: Any,
        Y: Any,
        batch_instances: int = 4096,
        *,
        shuffle: bool = True,
        device: Any = "cpu",
        random_state: int | None = None,
    ) -> None:
        self.bags, self.Y = as_bags(X), as_given(Y)
        if len(self.bags) != len(self.Y):
            raise InputError(f"Y has {len(self.Y)} rows but there are {len(self.bags)} bags; pass one row per bag.")
        if batch_instances < 1:
            raise InputError(f"batch_instances={batch_instances} must be 1 or more.")
        self.batch_instances, self.shuffle, self.device = batch_instances, shuffle, device
        self._rng = np.random.RandomState(random_state)

    def __iter__(self) -> Iterator[tuple[torch.Tensor, np.ndarray, Given]]:
        """(m, d) instances on the device, (n + 1,) offsets and (n, c) labels of each batch."""
        rng = self._rng if self.shuffle else None
        for batch in balanced_batches(self.bags.sizes, self.batch_instances, rng):
            part = self.bags[batch]
            yield torch.as_tensor(part.instances, device=self.device), part.offsets, self.Y[batch]
