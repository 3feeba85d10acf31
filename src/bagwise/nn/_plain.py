"""What networks need and torch does not: which bags members hold out, and what they say once they are trained."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import ndtr

from bagwise.kernels.softmax import softmax_in_place


def held_out_bags(n_bags: int, n_members: int, share: float, rng: np.random.RandomState) -> np.ndarray | None:
    """(e, n) bags that each member does not learn from, another part for each as far as they go; None for none."""
    if share == 0.0 or n_bags < 4:
        return None
    n_parts = max(2, round(1.0 / share))
    part = rng.permutation(n_bags) % n_parts
    return np.stack([part == e % n_parts for e in range(n_members)])


def mean_proba(layers: Any, X: np.ndarray) -> np.ndarray:
    """(m, c) mean of the members' probabilities, as `bagwise.nn._members.Members` computes their scores."""
    hidden = np.asarray(X, dtype=np.float32)
    for i, (weight, bias) in enumerate(layers):
        if i:
            hidden = hidden * ndtr(hidden)  # GELU
        hidden = hidden @ weight + bias
    scores = hidden.astype(np.float64)
    flat = scores.reshape(-1, scores.shape[2])
    softmax_in_place(flat)
    return flat.reshape(scores.shape).mean(axis=0)
