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
