"""Frank and Wolfe's method on the dual of a support vector classifier."""

from __future__ import annotations

import numpy as np

from bagwise.solvers.result import Callback, SolveResult


def maximize_svm_dual(
    gram: np.ndarray,
    signs: np.ndarray,
    bounds: np.ndarray | float,
    *,
    max_iter: int,
    tol: float,
    callback: Callback | None = None,
) -> SolveResult:
    """Maximise ``sum(a) - 1/2 (a * signs)' gram (a * signs)`` over ``0 <= a <= bounds``, ``sum(a * signs) = 0``.

    Problem 4 of Zhang and Zhou (2008), one class. Each iteration maximises the gradient's linear function over the
    constraints (`_best_vertex`, a sort instead of their linear program) and goes towards that vertex as far as pays,
    which is known in closed form because the objective is quadratic. The linear function's gain, the Frank-Wolfe gap,
    bounds what is still missing and equals the duality gap under the best bias. The history never falls.

    Parameters
    ----------
    gram : (n, n) array, positive semidefinite
    signs : (n,) array of -1 and 1
    bounds : (n,) array or float
        C of the paper, for each example its own or one for all.
    max_iter : int
    tol : float
        Stop when the gap is at most `tol` times the objective (or times 1, if that is more).

    Returns
    -------
    SolveResult
        ``weights`` are the n dual variables.

    Examples
    --------
    >>> import numpy as np
    >>> from bagwise.solvers import maximize_svm_dual
    >>> x, signs = np.array([[-1.0], [1.0]]), np.array([-1.0, 1.0])
    >>> result = maximize_svm_dual(x @ x.T, signs, 10.0, max_iter=100, tol=1e-6)
    >>> result.weights.round(3).tolist(), round(result.objective, 3), result.converged
    ([0.5, 0.5], 0.5, True)
    """
    variables = np.zeros(len(signs))
    outputs = np.zeros(len(signs))  # gram @ (signs * variables)
    objective, history, converged = 0.0, [0.0], False
    n_iter = 0
    while n_iter < max_iter:
        gradient = 1.0 - signs * outputs
        vertex = _best_vertex(gradient, signs, bounds)
        direction = vertex - variables
        gap = float(gradient @ direction)
        if gap <= tol * max(1.0, abs(objective)):
            converged = True
            break
        n_iter += 1
        chosen = np.flatnonzero(vertex)
        if len(chosen) < len(signs) // 4:  # a vertex is often sparse, and rows are columns
            towards = (signs * vertex)[chosen] @ gram[chosen]
        else:
            towards = gram @ (signs * vertex)
        change = towards - outputs
        curvature = float((signs * direction) @ change)
        step = 1.0 if curvature <= gap else gap / curvature  # the maximum of step gap - step^2 curvature / 2 on [0, 1]
        variables += step * direction
        outputs += step * change
        objective += step * gap - 0.5 * step * step * curvature
        history.append(objective)
        if callback is not None:
            callback(n_iter, objective)
    return SolveResult(variables, objective, n_iter, converged, np.asarray(history))


def _best_vertex(gradient: np.ndarray, signs: np.ndarray, bounds: np.ndarray | float) -> np.ndarray:
    """The point of ``0 <= v <= bounds``, ``sum(v * signs) = 0`` at which ``gradient @ v`` is largest.

    What the positive side takes the negative side must take too, so both are filled up in the order of their falling
    gradients, each to its bound, as long as the sum of the two gradients is positive.
    """
    bounds = np.broadcast_to(np.asarray(bounds, dtype=np.float64), signs.shape)
    sides = [np.flatnonzero(signs > 0), np.flatnonzero(signs < 0)]
    sides = [side[np.argsort(-gradient[side], kind="stable")] for side in sides]
    filled = [np.cumsum(bounds[side]) for side in sides]
    amounts = np.unique(np.concatenate(filled))  # where one side goes on to its next example
    amounts = amounts[amounts <= min(ends[-1] if len(ends) else 0.0 for ends in filled)]
    gains = sum(
        gradient[side[np.searchsorted(ends, amounts, side="left")]] for side, ends in zip(sides, filled, strict=True)
    )
    paying = np.count_nonzero(np.asarray(gains) > 0)  # the sums fall, so these are the first ones
    vertex = np.zeros(len(signs))
    if paying:
        for side, ends in zip(sides, filled, strict=True):
            vertex[side] = np.clip(amounts[paying - 1] - (ends - bounds[side]), 0.0, bounds[side])
    return vertex
