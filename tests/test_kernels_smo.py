"""The solver of support vector machines against libsvm and against the optimality conditions."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.svm import SVC

from bagwise.kernels.smo import BLOCK, descend_pairs

TOL = 1e-6


def problem(n_labels, n_instances, seed):
    """Kernel of instances and labels, targets and bounds of a random problem, two coinciding instances among them."""
    generator = np.random.default_rng(seed)
    points = generator.normal(size=(n_instances, 3))
    points[1] = points[0]
    numbers = np.linspace(0.0, 1.0, n_labels)
    targets = np.where(generator.random((n_labels, n_instances)) < 0.4, 1.0, -1.0)
    targets[0, :2] = 1.0, -1.0
    bounds = generator.uniform(0.01, 2.0, size=targets.shape)
    return rbf_kernel(points, gamma=0.5), np.exp(-((numbers[:, None] - numbers) ** 2)), targets, bounds


def solve(gram, between, targets, bounds, start=None):
    dual = np.zeros(targets.shape) if start is None else start.copy()
    residuals = targets - between @ dual @ gram
    lower, upper = np.minimum(targets * bounds, 0.0), np.maximum(targets * bounds, 0.0)
    n_iter = descend_pairs(gram, between, lower, upper, dual, residuals, TOL, 10**7)
    return dual, residuals, n_iter


def value(gram, between, targets, dual):
    return np.sum(targets * dual) - 0.5 * np.sum(dual * (between @ dual @ gram))


CASES = [(1, 2), (1, 40), (3, 17), (1, BLOCK), (1, BLOCK + 1), (2, 2 * BLOCK + 5)]


@pytest.mark.parametrize(("n_labels", "n_instances"), CASES)
@pytest.mark.parametrize("seed", range(4))
def test_reaches_the_optimum_of_libsvm(n_labels, n_instances, seed):
    gram, between, targets, bounds = problem(n_labels, n_instances, seed)
    dual, _, _ = solve(gram, between, targets, bounds)
    model = SVC(C=1.0, kernel="precomputed", tol=TOL)
    model.fit(np.kron(between, gram), targets.ravel(), sample_weight=bounds.ravel())
    expected = np.zeros(targets.size)
    expected[model.support_] = model.dual_coef_[0]
    best = value(gram, between, targets, expected.reshape(targets.shape))
    assert_allclose(value(gram, between, targets, dual), best, rtol=1e-6)


@pytest.mark.parametrize(("n_labels", "n_instances"), CASES)
@pytest.mark.parametrize("seed", range(4))
def test_the_optimality_conditions_hold(n_labels, n_instances, seed):
    gram, between, targets, bounds = problem(n_labels, n_instances, seed)
    dual, residuals, _ = solve(gram, between, targets, bounds)
    signed = targets * dual
    assert np.all((signed >= 0) & (signed <= bounds))
    assert abs(dual.sum()) < 1e-9
    assert_allclose(residuals, targets - between @ dual @ gram, atol=1e-9)
    may_rise, may_fall = (
        np.where(targets > 0, signed < bounds, signed > 0),
        np.where(targets > 0, signed > 0, signed < bounds),
    )
    assert residuals[may_rise].max() - residuals[may_fall].min() <= TOL


def test_every_step_raises_the_objective():
    gram, between, targets, bounds = problem(2, 60, 0)
    lower, upper = np.minimum(targets * bounds, 0.0), np.maximum(targets * bounds, 0.0)
    dual, residuals = np.zeros(targets.shape), targets.copy()
    values = [0.0]
    while descend_pairs(gram, between, lower, upper, dual, residuals, TOL, 1) == 1:
        assert_allclose(residuals, targets - between @ dual @ gram, atol=1e-9)
        values.append(value(gram, between, targets, dual))
    assert len(values) > 20
    assert np.diff(values).min() > -1e-12


def test_a_start_at_the_optimum_takes_no_step():
    gram, between, targets, bounds = problem(2, 50, 1)
    dual, _, n_iter = solve(gram, between, targets, bounds)
    again, _, n_more = solve(gram, between, targets, bounds, start=dual)
    assert n_iter > 0
    assert n_more == 0
    assert_allclose(again, dual)
