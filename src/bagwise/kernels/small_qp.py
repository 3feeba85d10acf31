"""Optimality of quadratic programs of a handful of variables."""

from __future__ import annotations

import numpy as np
from numba import njit


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
