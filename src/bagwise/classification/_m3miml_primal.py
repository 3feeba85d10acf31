"""Problem 3 of Zhang and Zhou (2008) on explicit features: the route for sets whose exact kernel would not fit."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import scipy.sparse as sp
from joblib import Parallel, delayed
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import LinearSVC

from bagwise.bags import Bags
from bagwise.classification._m3miml_dual import ClassSolution, best_bias
from bagwise.memory import check_allocation
from bagwise.preprocessing import RandomFourierFeatures, RBFDictionary, mean_squared_distance


def make_map(approximation: str, X: Any, gamma: float, n_components: int, random_state: Any) -> Any:
    """A fitted feature map whose inner products approximate exp(-gamma ||x - y||^2); None for no map."""
    if approximation == "fourier":
        return RandomFourierFeatures(gamma=gamma, n_components=n_components, random_state=random_state).fit(X)
    if approximation == "nystroem":
        spread = mean_squared_distance(X)  # the dictionary's width is a multiple of it
        width = 1.0 / (gamma * spread) if spread > 0 else 1.0 / gamma
        return RBFDictionary(width=width, size=n_components, whiten=True, random_state=random_state).fit(X)
    return None


def map_features(feature_map: Any, X: Any) -> Any:
    """Float64 features of the instances, or the instances themselves."""
    values = X if feature_map is None else feature_map.transform(X)
    return values if sp.issparse(values) else np.asarray(values, dtype=np.float64)


def solve_primal(
    bags: Bags,
    indicator: np.ndarray,
    weights: np.ndarray,
    *,
    C: float,
    max_iter: int,
    tol: float,
    n_jobs: int | None,
    random_state: Any,
) -> list[ClassSolution]:
    """Solve every class of `indicator` on bags of explicit features; `coefficients` are the (D,) weights themselves.

    `weights` are those of the bags' slacks.
    """
    features = bags.instances
    if not sp.issparse(features):
        check_allocation(
            16 * features.shape[0] * features.shape[1],
            f"The training examples of M3MIML ({features.shape[0]} instances with {features.shape[1]} features, twice)",
            "lower n_components or train on fewer bags",
        )
    averaging = sp.csr_matrix(
        (np.repeat(1.0 / bags.sizes, bags.sizes), np.arange(bags.n_instances), bags.offsets),
        shape=(len(bags), bags.n_instances),
    )
    means = averaging @ features

    def solve(carries: np.ndarray) -> ClassSolution:
        single = np.repeat(~carries, bags.sizes)
        parts = [means[carries], features[single]]
        examples = sp.vstack(parts, format="csr") if sp.issparse(features) else np.concatenate(parts)
        signs = np.repeat([1.0, -1.0], [int(carries.sum()), int(single.sum())])
        costs = C * np.concatenate([weights[carries], np.repeat(weights, bags.sizes)[single]])
        model = LinearSVC(C=1.0, loss="hinge", dual=True, tol=tol, max_iter=max_iter, random_state=random_state)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # the estimator says it, with the cure
            model.fit(examples, signs, sample_weight=costs)
        coef = model.coef_[0]
        outputs = examples @ coef
        bias = best_bias(outputs, signs, costs)  # liblinear penalises the bias, Problem 3 does not
        slack = float(costs @ np.maximum(0.0, 1.0 - signs * (outputs + bias)))
        primal = 0.5 * float(coef @ coef) + slack
        n_iter = int(model.n_iter_)
        return ClassSolution(coef, bias, np.nan, primal, n_iter, n_iter < max_iter, np.array([primal]))

    return Parallel(n_jobs=n_jobs, prefer="threads")(delayed(solve)(column) for column in indicator.astype(bool).T)
