"""What several test modules use."""

import os
from pathlib import Path

import numpy as np
import pytest

from bagwise.bags import offsets_of


@pytest.fixture
def real_data():
    """The folder with the papers' data sets, where there is one."""
    folder = Path(os.environ.get("BAGWISE_DATA", Path(__file__).parents[2] / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip("no real data: set BAGWISE_DATA to its folder")
    return folder


def random_bags(rng, n_bags, n_classes, max_size, max_labels, concentration=1.0):
    """Random priors, offsets and feasible label sets."""
    sizes = rng.integers(1, max_size + 1, n_bags)
    offsets = offsets_of(sizes)
    proba = rng.dirichlet(np.full(n_classes, concentration), offsets[-1])
    Y = np.zeros((n_bags, n_classes), dtype=np.uint8)
    for b, size in enumerate(sizes):
        k = rng.integers(1, min(size, max_labels, n_classes) + 1)
        Y[b, rng.choice(n_classes, k, replace=False)] = 1
    return proba, offsets, Y
