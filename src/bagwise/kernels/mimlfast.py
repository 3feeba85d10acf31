"""The compiled inner loop of MIMLfast: stochastic gradient steps on sampled triples (bag, label, violating label)."""

from __future__ import annotations

import numpy as np

from bagwise.kernels._cache import njit


@njit(cache=True, nogil=True, error_model="numpy")
def _best_in_bag(projected, n_instances, vectors):
    """Largest score of any instance under any sub-concept, and which instance and sub-concept give it."""
    best, instance, concept = -np.inf, 0, 0
    for k in range(vectors.shape[0]):
        for i in range(n_instances):
            score = np.dot(vectors[k], projected[i])
            if score > best:
                best, instance, concept = score, i, k
    return best, instance, concept


@njit(cache=True, nogil=True, error_model="numpy")
def _project(X, start, stop, shared, projected):
    """Rows `start` to `stop` of X in the shared space; `shared` is (d, m), so that the inner loop is contiguous."""
    for i in range(start, stop):
        row = projected[i - start]
        row[:] = 0.0
        for j in range(X.shape[1]):
            value = X[i, j]
            for a in range(shared.shape[1]):
                row[a] += value * shared[j, a]


@njit(cache=True, nogil=True, error_model="numpy")
def _shrink(vector, norm):
    """Scale a vector back onto the ball of radius `norm` where it lies outside."""
    square = 0.0
    for a in range(vector.shape[0]):
        square += vector[a] * vector[a]
    if square > norm * norm:
        factor = norm / np.sqrt(square)
        for a in range(vector.shape[0]):
            vector[a] *= factor


@njit(cache=True, nogil=True, error_model="numpy")
def _list_labels(labels, relevant, candidates):
    """Fill in the bag's own labels and the others; returns how many there are of each."""
    n_relevant, n_candidates = 0, 0
    for c in range(labels.shape[0]):
        if labels[c]:
            relevant[n_relevant] = c
            n_relevant += 1
        else:
            candidates[n_candidates] = c
            n_candidates += 1
    return n_relevant, n_candidates


@njit(cache=True, nogil=True, error_model="numpy")
def _take_step(shared, positive, negative, x_positive, x_negative, p_positive, p_negative, rate, norm):
    """One gradient step on rate * (negative . W0 x_negative - positive . W0 x_positive), then the projections.

    All parts of the gradient are taken at the old weights: the shared space is moved before the two label vectors,
    whose own gradients are the projections made with the old space.
    """
    for j in range(shared.shape[0]):
        up, down = rate * x_positive[j], rate * x_negative[j]
        row = shared[j]
        for a in range(shared.shape[1]):
            row[a] += up * positive[a] - down * negative[a]
        _shrink(row, norm)
    for a in range(shared.shape[1]):
        positive[a] += rate * p_positive[a]
        negative[a] -= rate * p_negative[a]
    _shrink(positive, norm)
    _shrink(negative, norm)


@njit(cache=True, nogil=True, error_model="numpy")
def run_epoch(X, offsets, indicator, shared, concepts, draws, n_before, step, decay, norm):
    """One stochastic gradient step for each row of `draws`, changing `shared` and `concepts` in place.

    Parameters
    ----------
    X : (m, d) float64 array
    offsets : (n + 1,) int64 array
    indicator : (n, c) uint8 array
    shared : (d, s) float64 array
        The shared space, transposed: row j belongs to feature j.
    concepts : (c + 1, K, s) float64 array
        Label vectors; the last label is the dummy.
    draws : (n_steps, c + 3) float64 array of uniform numbers
        For every step: which bag, which of its labels (the dummy among them), then the order in which the labels that
        should rank below it are tried.
    n_before : int
        Steps already made; step t has length step / (1 + decay * step * t).
    step, decay, norm : float

    Returns
    -------
    int
        How many steps met a violating label.
    """
    n_bags, n_classes = indicator.shape
    largest = np.max(offsets[1:] - offsets[:-1])
    projected = np.empty((largest, shared.shape[1]))
    relevant, candidates = np.empty(n_classes + 1, np.int64), np.empty(n_classes + 1, np.int64)
    harmonic = np.zeros(n_classes + 2)
    for i in range(1, n_classes + 2):
        harmonic[i] = harmonic[i - 1] + 1.0 / i
    n_updates = 0
    for s in range(draws.shape[0]):
        bag = int(draws[s, 0] * n_bags)
        start, size = offsets[bag], offsets[bag + 1] - offsets[bag]
        n_relevant, n_candidates = _list_labels(indicator[bag], relevant, candidates)
        relevant[n_relevant] = n_classes
        label = relevant[int(draws[s, 1] * (n_relevant + 1))]
        if label != n_classes:  # the dummy ranks below the bag's labels and above all others
            candidates[n_candidates] = n_classes
            n_candidates += 1
        _project(X, start, offsets[bag + 1], shared, projected)
        score, instance, concept = _best_in_bag(projected, size, concepts[label])
        for v in range(n_candidates):
            pick = v + int(draws[s, 2 + v] * (n_candidates - v))
            candidates[v], candidates[pick] = candidates[pick], candidates[v]
            other = candidates[v]
            rival, rival_instance, rival_concept = _best_in_bag(projected, size, concepts[other])
            if rival > score - 1.0:
                rate = step / (1.0 + decay * step * (n_before + s)) * harmonic[n_candidates // (v + 1)]
                positive, negative = concepts[label, concept], concepts[other, rival_concept]
                x, rival_x = X[start + instance], X[start + rival_instance]
                p, rival_p = projected[instance], projected[rival_instance]
                _take_step(shared, positive, negative, x, rival_x, p, rival_p, rate, norm)
                n_updates += 1
                break
    return n_updates
