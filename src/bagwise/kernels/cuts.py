"""What a cutting plane method does with a few numbers: its next cut, and whether a quadratic program is solved."""

from __future__ import annotations

import numpy as np

from bagwise.kernels._cache import njit


@njit(cache=True, nogil=True, error_model="numpy")
def most_violated(alpha, products, shift, clusters, along, masks, margins, mask):
    """Margins <W, v_i>, the bags below 1 as `mask`, their mean loss, and whether that mask is a cut already.

    Parameters
    ----------
    alpha : (s,) array
    products : (>= s, n) array
        <v_i, x_j>.
    shift : (k,) array
        That of W, times k/(k-1).
    clusters, along : (n,) arrays
    masks : (>= s, n) array
    margins, mask : (n,) arrays
        Receive the results.
    """
    n = margins.shape[0]
    for i in range(n):
        margins[i] = shift[clusters[i]] * along[i]
    for j in range(alpha.shape[0]):
        weight, row = alpha[j], products[j]
        for i in range(n):
            margins[i] += weight * row[i]
    loss = 0.0
    for i in range(n):
        mask[i] = 1.0 if margins[i] < 1.0 else 0.0
        loss += max(0.0, 1.0 - margins[i])
    known = False
    for j in range(alpha.shape[0]):
        same = True
        for i in range(n):
            if masks[j, i] != mask[i]:
                same = False
                break
        known = known or same
    return loss / n, known


@njit(cache=True, nogil=True)
def largest_violation(P, q, A, b, G, h, x, y, z):
    """Largest violation of the optimality conditions, as `bagwise.solvers._qp.kkt_residual` measures it.

    Compiled because it runs once a cut on a handful of numbers, where numpy's calls cost more than the solver.
    """
    n = len(x)
    stationarity = gap = quadratic = linear = infeasible = total = 0.0
    scale = largest = 1.0
    for i in range(n):
        curvature = force = 0.0
        for j in range(n):
            curvature += P[i, j] * x[j]
        for r in range(len(b)):
            force += A[r, i] * y[r]
        for r in range(len(h)):
            force += G[r, i] * z[r]
        gradient = curvature + q[i] + force
        total += gradient  # NaN if any number is: `max` may pass over it
        stationarity = max(stationarity, -gradient)
        gap += max(gradient, 0.0) * x[i]
        quadratic += curvature * x[i]
        linear += q[i] * x[i]
        scale = max(scale, abs(curvature), abs(q[i]), abs(force))
        largest = max(largest, x[i])
    for r in range(len(b)):
        excess = -b[r]
        for i in range(n):
            excess += A[r, i] * x[i]
        infeasible = max(infeasible, abs(excess))
        largest = max(largest, abs(b[r]))
    for r in range(len(h)):
        slack = h[r]
        for i in range(n):
            slack -= G[r, i] * x[i]
        infeasible = max(infeasible, -slack)
        gap += z[r] * max(slack, 0.0)
        largest = max(largest, abs(h[r]))
    if not np.isfinite(total):
        return np.inf
    return max(stationarity / scale, gap / max(1.0, abs(quadratic), abs(linear)), infeasible / largest)
