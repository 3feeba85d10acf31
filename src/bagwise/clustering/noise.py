"""Noise of the same shape as some bags: all that makes no clusters is kept, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import scipy.sparse as sp

from bagwise.bags import Bags
from bagwise.clustering.scaling import are_words
from bagwise.clustering.whitening import bag_means

N_SMOOTHED = 20  # directions whose modes are looked at, those of the largest variance between bags
LOWEST_MODE = 0.1  # of the highest
N_GRID = 256  # points at which a density is looked at


def noise_maker(bags: Bags) -> Callable[[np.random.Generator], Bags]:
    """A function of a random generator that gives bags of the same sizes, features and shape, without clusters.

    Measurements: an instance is the mean of its bag plus what it differs by. The differences are shuffled over all
    instances. The means are drawn in each principal direction by itself, from the kernel estimate of the smallest
    width that has one mode only (Silverman's critical width), with the variance that they had: noise keeps its
    correlations, its tails and how much bags differ, and loses its clusters.

    Words and other features that are mostly zero and never negative: for every word the bags are shuffled, each with
    its own shuffling. How often a word is used, and how often again in the same bag, stays; which words go together
    does not.

    Parameters
    ----------
    bags : Bags
        Scaled as they will be for the fit.
    """
    return _word_maker(bags) if are_words(bags) else _measurement_maker(bags)


def _measurement_maker(bags: Bags) -> Callable[[np.random.Generator], Bags]:
    X = bags.instances.toarray() if sp.issparse(bags.instances) else bags.instances
    means = bag_means(bags)
    centre = means.mean(axis=0)
    left, lengths, directions = np.linalg.svd(means - centre, full_matrices=False)
    scores = left * lengths
    widths = np.array([critical_width(column) for column in scores[:, :N_SMOOTHED].T])
    sizes = bags.sizes
    several = np.repeat(sizes > 1, sizes)
    own = np.repeat(sizes, sizes)[several]
    differences = (X - np.repeat(means, sizes, axis=0))[several] * np.sqrt(own / (own - 1.0))[:, None]

    def make(rng: np.random.Generator) -> Bags:
        drawn = np.column_stack([rng.permutation(column) for column in scores.T])
        for j, width in enumerate(widths):
            spread = scores[:, j].std()
            smooth = rng.choice(scores[:, j], len(scores)) + width * rng.normal(size=len(scores))
            drawn[:, j] = smooth * (spread / np.hypot(spread, width) if spread > 0.0 else 1.0)
        rows = np.zeros_like(X, dtype=np.float64)
        rows[several] = rng.permutation(differences)
        rows -= np.repeat(bag_means(Bags(rows, bags.offsets)), sizes, axis=0)
        return Bags(rows + np.repeat(centre + drawn @ directions, sizes, axis=0), bags.offsets)

    return make


def critical_width(values: np.ndarray) -> float:
    """The smallest width of a Gaussian kernel at which the density of some numbers has one mode (Silverman 1981).

    Bumps below a tenth of the highest are tails, not modes: every far outlier makes one.
    """
    spread = float(values.std())
    if spread == 0.0:
        return 0.0
    low, high = 0.02 * spread, 2.0 * spread
    grid = np.linspace(values.min() - 0.5 * spread, values.max() + 0.5 * spread, N_GRID)
    distances = (grid[:, None] - values) ** 2
    for _ in range(12):
        width = np.sqrt(low * high)
        density = np.exp(-distances / (2.0 * width**2)).sum(axis=1)
        peaks = (density[1:-1] > density[:-2]) & (density[1:-1] >= density[2:])
        if np.count_nonzero(peaks & (density[1:-1] > LOWEST_MODE * density.max())) > 1:
            low = width
        else:
            high = width
    return float(high)


def _word_maker(bags: Bags) -> Callable[[np.random.Generator], Bags]:
    entries = sp.coo_matrix(bags.instances)
    owner = bags.bag_index[entries.row]
    shape, offsets, sizes = bags.instances.shape, bags.offsets, bags.sizes
    dense = not sp.issparse(bags.instances)

    def make(rng: np.random.Generator) -> Bags:
        # a shuffling of the bags for each word, without a table of words times bags in memory at once
        target = np.empty_like(owner)
        order = np.argsort(entries.col, kind="stable")
        edges = np.searchsorted(entries.col[order], np.arange(shape[1] + 1))
        for first, last in pairwise(edges):
            rows = order[first:last]
            target[rows] = rng.permutation(len(sizes))[owner[rows]]
        rows = offsets[target] + rng.integers(0, sizes[target])
        drawn = sp.csr_matrix((entries.data, (rows, entries.col)), shape=shape)
        return Bags(drawn.toarray() if dense else drawn, offsets)

    return make
