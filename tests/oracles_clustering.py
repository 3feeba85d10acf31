"""Slow truths for clustering: the paper's problems written out term by term."""

from itertools import combinations

import clarabel
import numpy as np
import scipy.sparse as sp


def decide_by_loops(bags, W):
    """Step 14 of Table 1: witness (position in the bag), cluster and margin of every bag, instance by instance."""
    k = len(W)
    result = []
    for bag in bags:
        best = None
        for j, x in enumerate(bag):
            scores = [float(w @ x) for w in W]
            margin = k / (k - 1) * (max(scores) - sum(scores) / k)
            if best is None or margin > best[2]:
                best = (j, scores.index(max(scores)), margin)
        result.append(best)
    return result


def m3ic_objective(bags, W, C):
    """J of equation (14)."""
    loss = [max(0.0, 1.0 - margin) for _, _, margin in decide_by_loops(bags, W)]
    return 0.5 * float((W**2).sum()) + C * sum(loss) / len(loss)


def sum_of_means(bags):
    return sum(np.mean(bag, axis=0) for bag in bags)


def largest_imbalance(bags, W):
    """Largest |<w_p - w_q, sum of the bags' means>| (equation 12)."""
    scores = [float(w @ sum_of_means(bags)) for w in W]
    return max(scores) - min(scores)


def constraint_vectors(witnesses, clusters, k):
    """(n, k * d) vectors v_i = df/dw of equation (15)."""
    rows = []
    for x, r in zip(witnesses, clusters, strict=True):
        blocks = [((p == r) - 1.0 / k) * k / (k - 1) * x for p in range(k)]
        rows.append(np.concatenate(blocks))
    return np.array(rows)


def solve_n_slack(vectors, direction, k, C, balance):
    """Problem (19) with its n slacks and all k (k - 1) balance constraints, by clarabel: optimum and W."""
    n, size = vectors.shape
    d = size // k
    P = sp.block_diag([sp.eye(size), sp.csc_matrix((n, n))], format="csc")
    q = np.concatenate([np.zeros(size), np.full(n, C / n)])
    rows = [np.hstack([-vectors, -np.eye(n)]), np.hstack([np.zeros((n, size)), -np.eye(n)])]
    limits = [-np.ones(n), np.zeros(n)]
    for a in range(k):
        for b in range(k):
            if a != b:
                row = np.zeros(size + n)
                row[a * d : (a + 1) * d] += direction
                row[b * d : (b + 1) * d] -= direction
                rows.append(row[None])
                limits.append(np.array([balance]))
    A, b = np.vstack(rows), np.concatenate(limits)
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-10
    result = clarabel.DefaultSolver(P, q, sp.csc_matrix(A), b, [clarabel.NonnegativeConeT(len(b))], settings).solve()
    assert str(result.status) in ("Solved", "AlmostSolved"), result.status
    return float(result.obj_val), np.array(result.x[:size]).reshape(k, d)


def solve_qp_by_enumeration(P, q, limit):
    """min 1/2 x' P x + q' x with x >= 0, sum(x) <= limit: try every set of free variables, sum free or at its limit."""
    n = len(q)
    best_value, best = 0.0, np.zeros(n)
    for size in range(1, n + 1):
        for free in map(list, combinations(range(n), size)):
            for tight in (False, True):
                system = np.zeros((size + tight, size + tight))
                system[:size, :size] = P[np.ix_(free, free)]
                right = np.zeros(size + tight)
                right[:size] = -q[free]
                if tight:
                    system[:size, size] = system[size, :size] = 1.0
                    right[size] = limit
                x = np.zeros(n)
                x[free] = np.linalg.lstsq(system, right, rcond=None)[0][:size]
                if x.min() < -1e-9 or x.sum() > limit * (1 + 1e-9):
                    continue
                value = 0.5 * x @ P @ x + q @ x
                if value < best_value:
                    best_value, best = value, x
    return best_value, best
