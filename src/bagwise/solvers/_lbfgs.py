"""L-BFGS on a smooth objective (scipy's)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.optimize import minimize

from bagwise.solvers.result import Callback, SolveResult


def minimize_lbfgs(
    objective: Callable[[np.ndarray], tuple[float, np.ndarray]],
    start: np.ndarray,
    *,
    max_iter: int,
    tol: float,
    callback: Callback | None = None,
) -> SolveResult:
    """Minimise; `objective` maps weights (of `start`'s shape) to value and gradient.

    Stops when the largest entry of the gradient is below `tol`. The history starts with the value at `start`.

    Examples
    --------
    >>> import numpy as np
    >>> from bagwise.solvers import minimize_lbfgs
    >>> def objective(x):
    ...     return float((x - 3.0) @ (x - 3.0)), 2.0 * (x - 3.0)
    >>> result = minimize_lbfgs(objective, np.zeros(2), max_iter=50, tol=1e-8)
    >>> result.weights.round(3).tolist(), result.converged, bool((np.diff(result.history) <= 0.0).all())
    ([3.0, 3.0], True, True)
    """
    shape = start.shape
    history: list[float] = []

    def flat_objective(flat: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = objective(flat.reshape(shape))
        if not history:
            history.append(value)
        return value, gradient.ravel()

    def after_iteration(intermediate_result) -> None:  # type: ignore[no-untyped-def]  # scipy looks at this name
        history.append(float(intermediate_result.fun))
        if callback is not None:
            callback(len(history) - 1, history[-1])

    result = minimize(
        flat_objective,
        start.ravel(),
        jac=True,
        method="L-BFGS-B",
        callback=after_iteration,
        # ftol: stop only when steps change nothing but the last bits
        options={"maxiter": max_iter, "gtol": tol, "ftol": 64 * np.finfo(float).eps, "maxls": 50},
    )
    return SolveResult(
        weights=result.x.reshape(shape),
        objective=float(result.fun),
        n_iter=int(result.nit),
        converged=bool(result.status == 0),
        history=np.asarray(history),
    )
