"""M3MIML against Problem 4 solved by a general QP solver, the KKT conditions, and literal formulas of the paper."""

import warnings

import clarabel
import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import linprog
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import SVC
from sklearn.utils.estimator_checks import check_estimator

from bagwise import Bags
from bagwise.classification import M3MIML
from bagwise.classification import _m3miml_solvers as dual
from bagwise.classification._shared import NEVER, t_criterion
from bagwise.core.exceptions import InputError, MemoryLimitError
from bagwise.datasets import make_gaussian_bags
from bagwise.solvers._frank_wolfe import _best_vertex, maximize_svm_dual

# ---------------------------------------------------------------------------------------------------------------------
# Oracles


def kernel_value(x, z, kernel, gamma):
    return x @ z if kernel == "linear" else np.exp(-gamma * np.sum((x - z) ** 2))


def literal_problem(bags, carries, kernel, gamma):
    """Q and the signs of Problem 4 for one class, by the double sums of equation 13."""
    groups, signs = [], []
    for bag, positive in zip(bags, carries, strict=True):
        groups += [bag] if positive else [bag[j : j + 1] for j in range(len(bag))]
        signs += [1.0] if positive else [-1.0] * len(bag)
    gram = np.array(
        [[np.mean([[kernel_value(x, z, kernel, gamma) for z in B] for x in A]) for B in groups] for A in groups]
    )
    return gram, np.array(signs)


def clarabel_dual(gram, signs, C):
    """Maximum of Problem 4 and its variables, by an interior-point QP solver."""
    n = len(signs)
    Q = np.outer(signs, signs) * gram
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-11
    A = sp.vstack([sp.csc_matrix(signs[None]), sp.eye(n), -sp.eye(n)], format="csc")
    b = np.concatenate([[0.0], np.full(n, C), np.zeros(n)])
    cones = [clarabel.ZeroConeT(1), clarabel.NonnegativeConeT(2 * n)]
    solution = clarabel.DefaultSolver(
        sp.triu(sp.csc_matrix(Q), format="csc"), -np.ones(n), A, b, cones, settings
    ).solve()
    x = np.asarray(solution.x)
    return float(x.sum() - 0.5 * x @ Q @ x), x


def kkt_violation(gram, signs, variables, C):
    """How far apart the bounds are that the variables put on the bias; not above zero at the optimum."""
    kinks = signs - gram @ (signs * variables)
    at_least = kinks[((signs > 0) & (variables < C)) | ((signs < 0) & (variables > 0))].max()
    at_most = kinks[((signs > 0) & (variables > 0)) | ((signs < 0) & (variables < C))].min()
    return at_least - at_most


def small_problem(seed, n_bags=14, n_classes=3):
    rng = np.random.default_rng(seed)
    bags = Bags.from_list([rng.normal(size=(rng.integers(1, 5), 3)) for _ in range(n_bags)])
    Y = (rng.random((n_bags, n_classes)) < 0.4).astype(np.uint8)
    Y[0], Y[1] = 1, 0  # every class has both sides
    return bags, Y


# ---------------------------------------------------------------------------------------------------------------------
# The optimum


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("C", [0.05, 1.0, 20.0])
@pytest.mark.parametrize("seed", range(4))
def test_dual_objective_is_that_of_a_general_qp_solver(kernel, C, seed):
    bags, Y = small_problem(seed)
    model = M3MIML(C=C, kernel=kernel, gamma=0.3).fit(bags, Y)
    for c in range(Y.shape[1]):
        gram, signs = literal_problem(bags, Y[:, c], kernel, 0.3)
        optimum, _ = clarabel_dual(gram, signs, C)
        assert_allclose(model.dual_objective_[c], optimum, rtol=1e-6)
    assert_allclose(model.primal_objective_, model.dual_objective_, rtol=1e-4)  # they meet
    assert np.all(model.primal_objective_ >= model.dual_objective_ - 1e-9)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("seed", range(4))
def test_kkt_conditions(kernel, seed):
    bags, Y = small_problem(seed, n_bags=40)
    C = 1.0
    for column in Y.astype(bool).T:
        examples = dual.Examples(bags, column, ~column)
        gram, signs = dual.mean_map_gram(examples, kernel, 0.3), examples.signs
        result = dual.solve_smo(gram, signs, C, max_iter=-1, tol=1e-5)
        variables = result.weights
        assert variables.min() >= 0
        assert variables.max() <= C
        assert abs(signs @ variables) < 1e-10 * C * len(signs)
        assert kkt_violation(gram, signs, variables, C) < 1e-4
        outputs = gram @ (signs * variables)
        margins = signs * (outputs + dual.best_bias(outputs, signs, np.ones(len(signs))))
        assert np.all(margins[variables == 0] > 1 - 1e-4)
        assert np.all(margins[variables == C] < 1 + 1e-4)
        assert_allclose(margins[(variables > 0) & (variables < C)], 1.0, atol=1e-4)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_both_solvers_agree(kernel):
    bags, Y = small_problem(7)
    exact = M3MIML(C=0.5, kernel=kernel, gamma=0.3).fit(bags, Y)
    slow = M3MIML(C=0.5, kernel=kernel, gamma=0.3, solver="frank-wolfe", tol=1e-4, max_iter=200_000).fit(bags, Y)
    assert_allclose(slow.dual_objective_, exact.dual_objective_, rtol=2e-4)
    assert np.all(slow.dual_objective_ <= exact.dual_objective_ * (1 + 1e-6))
    assert_allclose(slow.decision_function(bags), exact.decision_function(bags), atol=0.05)
    gap = slow.primal_objective_ - slow.dual_objective_
    assert np.all(gap <= 1.01e-4 * np.maximum(1.0, slow.dual_objective_))  # its stopping rule is the duality gap
    assert np.all(gap >= -1e-9)


@pytest.mark.parametrize("seed", range(5))
def test_gram_matrix_is_the_literal_one_however_it_is_built(seed):
    bags, Y = small_problem(seed)
    carries = Y.astype(bool)
    everything = dual.Examples(bags, carries.any(axis=1), ~carries.all(axis=1))
    for kernel in dual.KERNELS:
        shared = dual.mean_map_gram(everything, kernel, 0.3)
        for column in carries.T:
            problem = dual.Examples(bags, column, ~column)
            at = everything.positions_of(problem)
            alone = dual.mean_map_gram(problem, kernel, 0.3)
            literal, literal_signs = literal_problem(bags, column, kernel, 0.3)
            order = np.argsort(-literal_signs, kind="stable")  # ours puts the means first
            assert_allclose(alone, literal[np.ix_(order, order)], rtol=1e-12, atol=1e-12)
            assert_allclose(shared[np.ix_(at, at)], alone, rtol=1e-12, atol=1e-12)
            assert_array_equal(problem.signs, literal_signs[order])


def test_gram_matrix_in_blocks(monkeypatch):
    bags, Y = small_problem(3)
    column = Y[:, 0].astype(bool)
    problem = dual.Examples(bags, column, ~column)
    whole = dual.mean_map_gram(problem, "rbf", 0.3)
    monkeypatch.setenv("BAGWISE_MEMORY_LIMIT", "8000")
    assert_allclose(dual.mean_map_gram(problem, "rbf", 0.3), whole, rtol=1e-12)


def test_kernel_matrix_is_shared_only_where_it_fits(monkeypatch):
    bags, Y = small_problem(3, n_bags=30)
    calls = []
    original = dual.mean_map_gram
    monkeypatch.setattr(dual, "mean_map_gram", lambda e, *a: calls.append(len(e)) or original(e, *a))
    together = M3MIML(gamma=0.3).fit(bags, Y)
    assert len(calls) == 1
    largest = max(int(column.sum() + bags.sizes[~column].sum()) for column in Y.astype(bool).T)
    monkeypatch.setenv("BAGWISE_MEMORY_LIMIT", str(8 * largest**2 + 100))
    apart = M3MIML(gamma=0.3).fit(bags, Y)
    assert len(calls) == 1 + Y.shape[1]
    assert max(calls[1:]) == largest
    assert_allclose(apart.dual_objective_, together.dual_objective_, rtol=1e-9)


def test_bias_minimises_the_hinge_loss():
    rng = np.random.default_rng(0)
    for _ in range(50):
        signs = np.where(rng.random(9) < 0.5, 1.0, -1.0)
        signs[:2] = 1.0, -1.0
        outputs = rng.normal(size=9)

        def loss(b, signs=signs, outputs=outputs):
            return np.maximum(0.0, 1.0 - signs * (outputs + b)).sum()

        best = min(loss(b) for b in signs - outputs)  # piecewise linear: a kink is a minimum
        assert_allclose(loss(dual.best_bias(outputs, signs, np.ones(len(signs)))), best, rtol=1e-12)


# ---------------------------------------------------------------------------------------------------------------------
# Frank and Wolfe


def test_best_vertex_is_the_linear_programs():
    rng = np.random.default_rng(1)
    for _ in range(40):
        n = int(rng.integers(2, 9))
        signs = np.where(rng.random(n) < 0.5, 1.0, -1.0)
        gradient = rng.normal(size=n)
        vertex = _best_vertex(gradient, signs, 0.7)
        assert abs(signs @ vertex) < 1e-12
        expected = linprog(-gradient, A_eq=signs[None], b_eq=[0.0], bounds=(0, 0.7))
        assert_allclose(gradient @ vertex, -expected.fun, atol=1e-9)


@pytest.mark.parametrize("seed", range(5))
def test_frank_wolfe_rises_at_every_step_and_its_gap_is_a_bound(seed):
    bags, Y = small_problem(seed)
    gram, signs = literal_problem(bags, Y[:, 0], "rbf", 0.3)
    optimum, _ = clarabel_dual(gram, signs, 1.0)
    seen = []
    result = maximize_svm_dual(gram, signs, 1.0, max_iter=400, tol=1e-3, callback=lambda i, v: seen.append((i, v)))
    assert np.diff(result.history).min() >= -1e-10
    assert result.history[-1] <= optimum + 1e-9
    assert result.converged
    assert optimum - result.objective <= 1e-3 * max(1.0, result.objective)
    assert seen == list(enumerate(result.history[1:], start=1))
    Q = np.outer(signs, signs) * gram
    x = result.weights
    assert_allclose(result.objective, x.sum() - 0.5 * x @ Q @ x, rtol=1e-9)


def test_frank_wolfe_that_stops_early_says_so():
    bags, Y = small_problem(0)
    with pytest.warns(ConvergenceWarning, match="frank-wolfe stopped after 2 iterations before it met tol=0.001"):
        M3MIML(solver="frank-wolfe", max_iter=2).fit(bags, Y)
    with pytest.warns(ConvergenceWarning, match="smo stopped after"):
        M3MIML(max_iter=2).fit(bags, Y)


# ---------------------------------------------------------------------------------------------------------------------
# Prediction


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_scores_are_those_of_equation_17(kernel):
    bags, Y = small_problem(2)
    C, gamma = 1.0, 0.3
    model = M3MIML(C=C, kernel=kernel, gamma=gamma).fit(bags, Y)
    test, _ = small_problem(99)
    expected = np.zeros((test.n_instances, Y.shape[1]))
    for c in range(Y.shape[1]):
        gram, signs = literal_problem(bags, Y[:, c], kernel, gamma)
        _, variables = clarabel_dual(gram, signs, C)
        bias = dual.best_bias(gram @ (signs * variables), signs, np.ones(len(signs)))
        for t, x in enumerate(test.instances):
            position = 0
            for bag, positive in zip(bags, Y[:, c], strict=True):
                values = np.array([kernel_value(z, x, kernel, gamma) for z in bag])
                if positive:
                    expected[t, c] += variables[position] * values.mean()
                    position += 1
                else:
                    expected[t, c] -= variables[position : position + len(bag)] @ values
                    position += len(bag)
            expected[t, c] += bias
    assert_allclose(model.instance_decision_function(test), expected, atol=2e-3)
    bag_scores = np.array([part.max(axis=0) for part in test.split(model.instance_decision_function(test))])
    assert_array_equal(model.decision_function(test), bag_scores)
    assert_array_equal(model.predict(test), t_criterion(bag_scores))
    assert model.predict(test).any(axis=1).all()


def test_t_criterion():
    scores = np.array([[0.5, 0.0, -1.0], [-3.0, -1.0, -2.0]])
    assert_array_equal(t_criterion(scores), [[1, 1, 0], [0, 1, 0]])


def test_it_annotates():
    data = make_gaussian_bags(n_bags=80, n_classes=4, random_state=0)
    model = M3MIML(gamma=0.05).fit(data.bags, data.Y)
    labels = model.annotate(data.bags, data.Y)
    assert np.repeat(data.Y, data.bags.sizes, axis=0)[np.arange(len(labels)), labels].all()
    chance = np.mean(np.repeat(1.0 / data.Y.sum(axis=1), data.bags.sizes))  # any of the bag's own labels
    assert np.mean(labels == data.instance_labels.instances) > chance + 0.1
    most_frequent = np.bincount(data.instance_labels.instances).max() / len(labels)
    assert np.mean(model.predict_instances(data.bags) == data.instance_labels.instances) > most_frequent + 0.2


def test_all_input_forms_and_class_names():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20, 3, 4))
    Y = (rng.random((20, 3)) < 0.4).astype(int)
    Y[:2] = [[1, 1, 1], [0, 0, 1]]
    reference = M3MIML().fit(X, Y)
    names = np.array(["ant", "bee", "cat"])
    sets = [set(names[row == 1]) for row in Y]
    forms = [Bags.from_list(list(X)), list(X), [sp.csr_matrix(x) for x in X]]
    for form in forms:
        model = M3MIML().fit(form, sets)
        assert model.classes_.tolist() == names.tolist()
        assert_allclose(model.decision_function(form), reference.decision_function(X), atol=1e-6)
        assert set().union(*model.predict_label_sets(form)) <= set(names)
    values = M3MIML().fit(X, np.where(Y[:, 0] == 1, "yes", "no"))
    assert set(values.predict(X)) <= {"yes", "no"}


def test_jobs_change_nothing():
    bags, Y = small_problem(5, n_bags=30)
    one, two = M3MIML().fit(bags, Y), M3MIML(n_jobs=2).fit(bags, Y)
    assert_array_equal(one.decision_function(bags), two.decision_function(bags))


def test_fit_again_with_another_kernel_forgets_the_first():
    bags, Y = small_problem(5)
    model = M3MIML(kernel="linear").fit(bags, Y)
    fresh = M3MIML().fit(bags, Y).decision_function(bags)
    assert_array_equal(model.set_params(kernel="rbf").fit(bags, Y).decision_function(bags), fresh)


# ---------------------------------------------------------------------------------------------------------------------
# The approximate route


def test_approximations_come_close_to_the_exact_problem():
    bags, Y = small_problem(1, n_bags=60)
    exact = M3MIML(gamma=0.3).fit(bags, Y)
    # with every instance in the dictionary only liblinear's tolerance and its penalised bias are left
    nystroem = M3MIML(
        gamma=0.3, random_state=0, approximation="nystroem", n_components=10_000, tol=1e-3, max_iter=50_000
    ).fit(bags, Y)
    assert_allclose(nystroem.primal_objective_, exact.primal_objective_, rtol=5e-3)
    assert np.all(nystroem.primal_objective_ >= exact.dual_objective_ - 1e-6)
    assert np.isnan(nystroem.dual_objective_).all()
    fourier = M3MIML(gamma=0.3, random_state=0, approximation="fourier", n_components=2000).fit(bags, Y)
    assert_allclose(fourier.primal_objective_, exact.primal_objective_, rtol=0.05)
    for model in (nystroem, fourier):
        agreement = np.corrcoef(model.decision_function(bags).ravel(), exact.decision_function(bags).ravel())[0, 1]
        assert agreement > 0.98
        assert_array_equal(clone(model).fit(bags, Y).decision_function(bags), model.decision_function(bags))
    linear = M3MIML(kernel="linear").fit(bags, Y)
    primal = M3MIML(kernel="linear", random_state=0, approximation="primal", tol=1e-4, max_iter=100_000).fit(bags, Y)
    assert_allclose(primal.primal_objective_, linear.primal_objective_, rtol=5e-3)


def test_a_kernel_that_does_not_fit_is_refused_before_it_is_made(monkeypatch):
    bags, Y = small_problem(0, n_bags=40)
    monkeypatch.setenv("BAGWISE_MEMORY_LIMIT", "4000")
    monkeypatch.setattr(dual, "mean_map_gram", lambda *_: pytest.fail("it was allocated"))
    match = r"exact kernel of M3MIML \(\d+ x \d+ numbers\) needs .* GiB .*approximation='nystroem' or .*='fourier'"
    with pytest.raises(MemoryLimitError, match=match):
        M3MIML().fit(bags, Y)
    with pytest.raises(MemoryLimitError, match=r"exact kernel of M3MIML .*approximation='primal'"):
        M3MIML(kernel="linear").fit(bags, Y)
    monkeypatch.setenv("BAGWISE_MEMORY_LIMIT", "100000")
    M3MIML(approximation="fourier", n_components=10).fit(bags, Y)


# ---------------------------------------------------------------------------------------------------------------------
# Bad and odd input


@pytest.mark.parametrize(
    ("parameters", "match"),
    [
        ({"kernel": "poly"}, "kernel='poly' is not known; use one of 'linear', 'rbf'"),
        ({"solver": "newton"}, "solver='newton' is not known; use one of 'smo', 'frank-wolfe'"),
        ({"approximation": "fastfood"}, "approximation='fastfood' is not known"),
        ({"C": 0.0}, "The 'C' parameter of M3MIML must be a positive number. Got 0.0"),
        ({"C": np.nan}, "The 'C' parameter of M3MIML must be a positive number"),
        ({"gamma": -1.0}, "The 'gamma' parameter of M3MIML must be a positive number. Got -1.0"),
        ({"gamma": "scale"}, "The 'gamma' parameter of M3MIML must be a positive number. Got 'scale'"),
        ({"tol": 0.0}, "The 'tol' parameter of M3MIML must be a positive number"),
        ({"max_iter": 0}, "The 'max_iter' parameter of M3MIML must be a whole number, 1 or more"),
        ({"n_components": 0}, "The 'n_components' parameter of M3MIML must be a whole number, 1 or more"),
        ({"kernel": "linear", "approximation": "fourier"}, "so kernel='linear' cannot be used with it; use 'primal'"),
        ({"approximation": "primal"}, "so kernel='rbf' cannot be used with it; use 'nystroem' or 'fourier'"),
        ({"approximation": "fourier", "solver": "frank-wolfe"}, "cannot be used with approximation='fourier'"),
    ],
)
def test_bad_parameters(parameters, match):
    bags, Y = small_problem(0)
    with pytest.raises(InputError, match=match):
        M3MIML(**parameters).fit(bags, Y)


def test_one_class_that_every_bag_carries():
    bags, _ = small_problem(0)
    with pytest.raises(InputError, match="one class only, .*0.*, and every bag carries it"):
        M3MIML().fit(bags, np.ones((len(bags), 1)))
    with pytest.raises(InputError, match="one class only, .*'a'"):
        M3MIML().fit(bags, [{"a"}] * len(bags))


@pytest.mark.parametrize("parameters", [{}, {"kernel": "linear"}, {"approximation": "fourier", "n_components": 20}])
def test_a_class_in_no_bag_or_in_every_bag(parameters):
    bags, Y = small_problem(0)
    Y = np.column_stack([Y[:, 0], np.zeros(len(Y)), np.ones(len(Y))])
    model = M3MIML(**parameters).fit(bags, Y)
    scores = model.decision_function(bags)
    assert_array_equal(scores[:, 1], NEVER)
    assert_array_equal(scores[:, 2], 1.0)
    assert_array_equal(model.predict(bags)[:, 1:], np.tile([0, 1], (len(bags), 1)))
    assert not np.isin(1, model.predict_instances(bags))
    if not parameters.get("approximation"):
        assert_array_equal(model.dual_objective_[1:], 0.0)
        assert_allclose(
            model.dual_objective_[0], M3MIML(**parameters).fit(bags, Y[:, :1]).dual_objective_[0], rtol=1e-6
        )
    constant = M3MIML(**parameters).fit(bags, Y[:, 1:])  # nothing to learn at all, yet well defined
    assert_array_equal(constant.predict(bags), np.tile([0, 1], (len(bags), 1)))


def test_bags_of_one_instance_are_a_plain_svm():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 3))
    y = (X[:, 0] + 0.3 * rng.normal(size=40) > 0).astype(int)
    ours = M3MIML(gamma=0.5).fit(X, y[:, None]).decision_function(X)[:, 0]
    assert_allclose(ours, SVC(gamma=0.5, tol=1e-6).fit(X, y).decision_function(X), atol=1e-3)


def test_identical_bags_with_opposite_labels():
    bag = np.random.default_rng(0).normal(size=(3, 2))
    model = M3MIML().fit([bag] * 6, np.array([[1, 0], [0, 1]] * 3))
    assert np.isfinite(model.decision_function([bag])).all()


@pytest.mark.parametrize(
    "estimator",
    [
        M3MIML(),
        M3MIML(kernel="linear"),
        M3MIML(solver="frank-wolfe", max_iter=50),
        M3MIML(approximation="nystroem", n_components=10),
    ],
    ids=repr,
)
def test_check_estimator(estimator):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the checks feed degenerate data on purpose
        results = check_estimator(estimator, on_fail=None, on_skip=None)
    failed = [f"{r['check_name']}: {r['exception']}" for r in results if r["status"] == "failed"]
    assert len(results) > 40
    assert not failed, "\n".join(failed)
