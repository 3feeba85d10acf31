"""Hausdorff distances between bags: all pairs in one call, in parallel, in little memory.

For bags A and B with instances a and b,

- maximal: max(max_a min_b ||a - b||, max_b min_a ||a - b||),
- minimal: min_a min_b ||a - b||,
- average: (sum_a min_b ||a - b|| + sum_b min_a ||a - b||) / (|A| + |B|).

References
----------
Z.-H. Zhou, M.-L. Zhang (2007): Multi-instance multi-label learning with application to scene classification. NIPS 19
(maximal). M.-L. Zhang, Z.-H. Zhou (2009): Multi-instance clustering with applications to multi-instance prediction.
Applied Intelligence 31, 47-68 (all three).
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import scipy.sparse as sp

from bagwise.core.bags import Bags
from bagwise.core.checks import available_threads, check_allocation
from bagwise.core.exceptions import InputError
from bagwise.kernels._cache import njit

MAXIMAL, MINIMAL, AVERAGE = 0, 1, 2
KINDS = {"maximal": MAXIMAL, "minimal": MINIMAL, "average": AVERAGE}
BLOCK = 256  # instances of the second set in work at once: they and their distances stay in the cache
THREADING_FROM = 2_000_000  # coordinate differences from which a second thread pays for its start
CHUNKS_PER_THREAD = 8  # bags differ in size, so the work is cut finer than the threads


def hausdorff_distances(
    instances: Any,
    offsets: Any,
    other_instances: Any = None,
    other_offsets: Any = None,
    *,
    kind: str = "maximal",
    n_threads: int | None = None,
) -> np.ndarray:
    """Hausdorff distance of every bag of one set to every bag of another, or to every bag of the same set.

    Coordinates are subtracted one by one, never through inner products, so identical bags are at exactly zero.

    Parameters
    ----------
    instances : (m, d) array or CSR matrix
    offsets : (n + 1,) array of int
        Bag i holds the rows offsets[i]:offsets[i + 1].
    other_instances, other_offsets : the same for the second set, or None for the first set again
    kind : {"maximal", "minimal", "average"}, default="maximal"
    n_threads : int or None
        By default the processors at hand, less where OMP_NUM_THREADS says so. The result does not depend on it.

    Returns
    -------
    (n, n_other) array
        Beside it, one copy of either set of instances and a few numbers per instance and thread are all that is held.

    Examples
    --------
    >>> from bagwise.kernels.hausdorff import hausdorff_distances
    >>> hausdorff_distances([[0.0], [1.0], [5.0]], [0, 2, 3], kind="maximal").tolist()
    [[0.0, 5.0], [5.0, 0.0]]
    >>> hausdorff_distances([[0.0], [1.0], [5.0]], [0, 2, 3], kind="minimal").tolist()
    [[0.0, 4.0], [4.0, 0.0]]
    """
    if kind not in KINDS:
        raise InputError(f"kind={kind!r} is not known; use one of {', '.join(map(repr, KINDS))}.")
    if (other_instances is None) != (other_offsets is None):
        raise InputError("Pass instances and offsets of the second set, or neither of them.")
    symmetric = other_instances is None
    X, offsets = _as_arrays(instances, offsets)  # checked, since the compiled code trusts them
    Z, other_offsets = (X, offsets) if symmetric else _as_arrays(other_instances, other_offsets)
    if X.shape[1] != Z.shape[1]:
        raise InputError(f"The two sets have {X.shape[1]} and {Z.shape[1]} features; they must have the same.")
    n_bags, n_other = len(offsets) - 1, len(other_offsets) - 1
    check_allocation(
        8 * n_bags * n_other, f"The distances of {n_bags} to {n_other} bags", "compute them for fewer bags at a time"
    )
    out = np.empty((n_bags, n_other))
    columns = np.ascontiguousarray(Z.T)
    code = KINDS[kind]

    def run(first: int, last: int) -> None:
        _fill_rows(X, offsets, columns, other_offsets, code, symmetric, first, last, out)

    if n_threads is None:
        n_threads = available_threads() if X.size * Z.shape[0] >= THREADING_FROM else 1
    if n_threads == 1 or n_bags == 1:
        run(0, n_bags)
    else:
        cuts = np.unique(np.linspace(0, n_bags, CHUNKS_PER_THREAD * n_threads + 1).astype(np.int64))
        with ThreadPoolExecutor(n_threads) as pool:
            list(pool.map(run, cuts[:-1], cuts[1:]))
    if symmetric:
        _mirror_upper(out)
    return out


def _as_arrays(instances: Any, offsets: Any) -> tuple[np.ndarray, np.ndarray]:
    """Dense C-ordered float64 rows and the offsets of their bags."""
    bags = Bags(instances, offsets)
    rows = bags.instances
    if rows.ndim != 2:
        raise InputError(f"The instances have shape {rows.shape}; expected (n_instances, n_features).")
    if sp.issparse(rows):
        check_allocation(
            8 * rows.shape[0] * rows.shape[1],
            f"The dense form of {rows.shape[0]} sparse instances",
            "reduce the number of features first (TruncatedSVD) or use fewer bags",
        )
        rows = rows.toarray()
    return np.ascontiguousarray(rows, dtype=np.float64), bags.offsets


@njit(cache=True, nogil=True)
def _mirror_upper(matrix):
    for i in range(matrix.shape[0]):
        for j in range(i):
            matrix[i, j] = matrix[j, i]


@njit(cache=True, nogil=True)
def _fill_rows(X, offsets, columns, other_offsets, kind, symmetric, first, last, out):
    """Rows first:last of the distance matrix; of a symmetric one only the part from the diagonal on."""
    n_other = len(other_offsets) - 1
    largest = 0
    for j in range(n_other):
        largest = max(largest, other_offsets[j + 1] - other_offsets[j])
    squared = np.empty(max(BLOCK, largest))
    nearest = np.empty(max(BLOCK, largest))  # of each instance of the block, over the bag in work
    for i in range(first, last):
        start = i if symmetric else 0
        while start < n_other:
            stop = start + 1
            while stop < n_other and other_offsets[stop + 1] - other_offsets[start] <= BLOCK:
                stop += 1
            bag = X[offsets[i] : offsets[i + 1]]
            _bag_to_block(bag, columns, other_offsets, start, stop, kind, squared, nearest, out[i])
            start = stop


@njit(cache=True, nogil=True)
def _bag_to_block(bag, columns, other_offsets, start, stop, kind, squared, nearest, row):
    """Distances row[start:stop] of a bag to the bags start:stop of the other set."""
    origin = other_offsets[start]
    width = other_offsets[stop] - origin
    for b in range(width):
        nearest[b] = np.inf
    for j in range(start, stop):
        row[j] = np.inf if kind == MINIMAL else 0.0
    for a in range(len(bag)):
        _squared_distances(bag[a], columns, origin, width, squared)
        for b in range(width):
            nearest[b] = min(nearest[b], squared[b])
        for j in range(start, stop):
            smallest = squared[other_offsets[j] - origin]
            for b in range(other_offsets[j] - origin + 1, other_offsets[j + 1] - origin):
                smallest = min(smallest, squared[b])
            row[j] = _combine(row[j], smallest, kind)
    for j in range(start, stop):
        for b in range(other_offsets[j] - origin, other_offsets[j + 1] - origin):
            row[j] = _combine(row[j], nearest[b], kind)
        if kind == AVERAGE:
            row[j] /= len(bag) + (other_offsets[j + 1] - other_offsets[j])
        else:
            row[j] = np.sqrt(row[j])


@njit(cache=True, nogil=True)
def _squared_distances(x, columns, origin, width, squared):
    """||x - columns[:, origin + b]||^2 for b < width, all b side by side so that the loop runs in vector registers."""
    for b in range(width):
        squared[b] = 0.0
    for f in range(len(x)):
        value = x[f]
        column = columns[f, origin : origin + width]
        for b in range(width):
            difference = value - column[b]
            squared[b] += difference * difference


@njit(cache=True, nogil=True)
def _combine(so_far, smallest, kind):
    if kind == MAXIMAL:
        return max(so_far, smallest)
    if kind == MINIMAL:
        return min(so_far, smallest)
    return so_far + np.sqrt(smallest)
