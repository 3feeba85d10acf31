"""Brute-force truths that the tests compare with. Slow and literal on purpose."""

import itertools

import numpy as np


def union_posterior(proba, offsets, Y, background=None, known=None):
    """Enumerate every assignment of labels to instances (equations 5 and 11 to 13 of Pham et al.)."""
    m, n_classes = proba.shape
    log_likelihood = np.full(len(offsets) - 1, -np.inf)
    posterior = np.full((m, n_classes), np.nan)
    for b in range(len(offsets) - 1):
        start, stop = offsets[b], offsets[b + 1]
        labels = {c for c in range(n_classes) if Y[b, c] and c != background}
        allowed = sorted(labels | ({background} if background is not None else set()))
        joint = np.zeros((stop - start, n_classes))
        total = 0.0
        for assignment in itertools.product(allowed, repeat=stop - start):
            if known is not None and any(k >= 0 and k != a for k, a in zip(known[start:stop], assignment, strict=True)):
                continue
            if set(assignment) - {background} != labels:
                continue
            weight = np.prod([proba[start + i, c] for i, c in enumerate(assignment)])
            total += weight
            for i, c in enumerate(assignment):
                joint[i, c] += weight
        if total > 0:
            log_likelihood[b] = np.log(total)
            posterior[start:stop] = joint / total
    return log_likelihood, posterior


def union_with_rates(proba, offsets, Y, missed, spurious, background=None, known=None):
    """Enumerate every assignment and, for each, every subset of instances that was noticed.

    Returns the (n,) likelihoods, the (m, c) posteriors, and the (n, c) probabilities that each label is in the bag.
    """
    m, n_classes = proba.shape
    likelihood, presence = np.zeros(len(Y)), np.zeros((len(Y), n_classes))
    posterior = np.zeros((m, n_classes))
    for b in range(len(Y)):
        start, n = offsets[b], offsets[b + 1] - offsets[b]
        assignments = np.array(list(itertools.product(range(n_classes), repeat=n)))
        weight = np.prod(proba[start + np.arange(n), assignments], axis=1)
        if known is not None:
            fixed = known[start : start + n]
            weight = weight * np.all((fixed < 0) | (assignments == fixed), axis=1)
        total = np.zeros(len(assignments))
        for noticed in itertools.product([False, True], repeat=n):
            chance = np.ones(len(assignments))
            shown = np.zeros((len(assignments), n_classes), dtype=bool)
            for i, is_noticed in enumerate(noticed):
                real = assignments[:, i] != background
                rate = np.where(real, missed[assignments[:, i]], 1.0)  # nobody notices a background
                chance *= 1.0 - rate if is_noticed else rate
                if is_noticed:
                    shown[np.arange(len(assignments)), assignments[:, i]] = True
            for c in range(n_classes):
                if c != background:
                    listed = np.where(shown[:, c], 1.0, spurious[c])
                    chance *= listed if Y[b, c] else 1.0 - listed
            total += weight * chance
        likelihood[b] = total.sum()
        for c in range(n_classes):
            carries = assignments == c
            posterior[start : start + n, c] = total @ carries / likelihood[b] if likelihood[b] else np.nan
            presence[b, c] = total @ carries.any(axis=1) / likelihood[b] if likelihood[b] else np.nan
    return likelihood, posterior, presence
