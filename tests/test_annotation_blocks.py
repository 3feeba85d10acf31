"""Bags in blocks and by their own labels: the same likelihood, gradient and labels, without an (m, c) array."""

import tracemalloc
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal

from bagwise import Bags, ORedLogisticRegression
from bagwise.annotation import objective
from bagwise.annotation.objective import Block, ORedObjective, _OwnLabels, cut_blocks
from bagwise.core.exceptions import InputError, MemoryLimitError
from bagwise.union import UnionModel, union_posterior
from oracles import union_posterior as enumerate_posterior

OPTIONS = {"l2": 0.3, "method": "auto", "max_exact_labels": 16}


def drawn(seed, n_bags=30, n_classes=9, n_features=4, background=False, known=0.0, most_labels=3):
    """Bags of one to five instances with up to three labels, none of which is more than the instances."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 6, n_bags)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    labels = rng.integers(0, n_classes, (n_bags, most_labels))[
        np.repeat(np.arange(n_bags), sizes), rng.integers(0, most_labels, offsets[-1])
    ]
    Y = np.zeros((n_bags, n_classes), np.uint8)
    Y[np.repeat(np.arange(n_bags), sizes), labels] = 1
    told = np.where(rng.random(len(labels)) < known, labels, -1) if known else None
    X = rng.normal(size=(len(labels), n_features)) + np.eye(n_classes, n_features)[labels]
    problem = UnionModel(Y.shape[1], background).problem(offsets, Y, told)
    weights = rng.normal(size=(n_classes + background, n_features + 1))
    return X, problem, Y, weights


def proba_of(X, weights):
    scores = X @ weights[:, :-1].T + weights[:, -1]
    proba = np.exp(scores - scores.max(axis=1, keepdims=True))
    return proba / proba.sum(axis=1, keepdims=True)


def expected(X, problem, Y, weights):
    """Log-likelihood and gradient from the posterior of all bags and classes at once."""
    proba = proba_of(X, weights)
    padded = np.hstack([Y, np.zeros((len(Y), len(weights) - Y.shape[1]), np.uint8)])
    background = None if problem.background < 0 else problem.background
    known = problem.known if len(problem.known) else None
    values, posterior = union_posterior(proba, problem.offsets, padded, background=background, known=known)
    residual = np.where(np.isfinite(values)[np.repeat(np.arange(len(Y)), np.diff(problem.offsets))][:, None],
                        posterior - proba, 0.0)  # fmt: skip
    return values.sum(), residual.T @ np.hstack([X, np.ones((len(X), 1))])


@pytest.fixture
def own(monkeypatch):
    """Bags look at their own labels whatever the number of classes; blocks hold a few of them."""
    monkeypatch.setattr(objective, "OWN_FROM", 0)
    monkeypatch.setattr(objective, "BLOCK_ENTRIES", 100)


@pytest.fixture
def few(monkeypatch):
    """All classes, in blocks of a few bags."""
    monkeypatch.setattr(objective, "OWN_FROM", 10**9)
    monkeypatch.setattr(objective, "BLOCK_ENTRIES", 100)


@pytest.mark.parametrize("form", ["dense", "sparse", "float32"])
@pytest.mark.parametrize("background", [False, True])
@pytest.mark.parametrize("known", [0.0, 0.4])
@pytest.mark.parametrize("how", ["own", "few"])
@pytest.mark.parametrize("seed", range(4))
def test_likelihood_and_gradient_are_those_of_all_classes(form, background, known, how, seed, request):
    request.getfixturevalue(how)
    X, problem, Y, weights = drawn(seed, background=background, known=known)
    value_there, gradient_there = expected(X, problem, Y, weights)
    given = {"dense": X, "sparse": sp.csr_matrix(X), "float32": X.astype(np.float32)}[form]
    value, gradient = ORedObjective(given, problem, **OPTIONS).log_likelihood(weights)
    tolerance = 2e-5 if form == "float32" else 1e-11
    assert_allclose(value, value_there, rtol=tolerance)
    assert_allclose(gradient, gradient_there, rtol=tolerance, atol=tolerance * np.abs(gradient_there).max())


@pytest.mark.parametrize("seed", range(5))
def test_posterior_by_own_labels_is_that_of_enumeration(seed):
    X, problem, Y, weights = drawn(seed, n_bags=8, n_classes=5)
    block = _OwnLabels.of(problem)
    posterior = block.of_instances(X, weights)
    block.problem.infer_in_place(posterior, softmax=True, residual=False)
    _, truth = enumerate_posterior(proba_of(X, weights), problem.offsets, Y)
    assert_allclose(block.spread(posterior, 5).toarray(), truth, atol=1e-10)
    assert_array_equal(block.best(posterior), truth.argmax(axis=1))


def test_scores_of_instances_are_those_of_all_classes_where_they_are_the_bags_own():
    X, problem, _, weights = drawn(0, background=True)
    block = _OwnLabels.of(problem)
    assert_allclose(block.of_instances(X, weights), block.gather(X @ weights[:, :-1].T + weights[:, -1]), rtol=1e-12)


@pytest.mark.parametrize("how", ["own", "few"])
def test_bag_that_nothing_explains_pulls_at_nothing(how, request):
    request.getfixturevalue(how)
    X = np.random.default_rng(0).normal(size=(4, 2))
    Y = np.array([[1, 1, 0, 0], [0, 0, 1, 0]], dtype=np.uint8)
    problem = UnionModel(Y.shape[1]).problem(np.array([0, 1, 4]), Y)  # two labels, one instance
    weights = np.random.default_rng(1).normal(size=(4, 3))
    _, gradient = ORedObjective(X, problem, **OPTIONS).log_likelihood(weights)
    alone = ORedObjective(X[1:], problem.part(1, 2), **OPTIONS).log_likelihood(weights)[1]
    assert_allclose(gradient, alone, atol=1e-12)


@pytest.mark.parametrize(
    "options",
    [{}, {"background": True, "background_share": 0.2}, {"solver": "em", "max_iter": 8}],
    ids=["lbfgs", "share", "em"],
)
@pytest.mark.parametrize("how", ["own", "few"])
def test_fits_are_the_same_in_any_blocks(options, how, request, monkeypatch):
    X, problem, Y, _ = drawn(3, n_bags=60)
    bags = Bags(X, problem.offsets)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        whole = ORedLogisticRegression(**options).fit(bags, Y)
        request.getfixturevalue(how)
        cut = ORedLogisticRegression(**options).fit(bags, Y)
    assert_allclose(cut.coef_, whole.coef_, atol=2e-4)
    assert_allclose(cut.objective_history_[-1], whole.objective_history_[-1], rtol=1e-7)


@pytest.mark.parametrize("background", [False, True])
@pytest.mark.parametrize("how", ["own", "few"])
def test_what_is_said_of_bags_is_the_same_in_any_blocks(background, how, request):
    X, problem, Y, _ = drawn(5, n_bags=60)
    bags = Bags(X, problem.offsets)
    Y[0] = 0 if background else Y[0]
    model = ORedLogisticRegression(background=background, max_iter=20, tol=1e-2).fit(bags, Y)
    asked = {
        "annotate": lambda: model.annotate(bags, Y), "instances": lambda: model.predict_instances(bags),
        "sets": lambda: model.predict(bags), "scores": lambda: model.decision_function(bags),
    }  # fmt: skip
    whole = {name: ask() for name, ask in asked.items()}
    assert_array_equal(whole["annotate"], model._values_of(model.find(bags, Y).labels))
    request.getfixturevalue(how)
    for name, ask in asked.items():
        assert_allclose(ask(), whole[name], rtol=1e-12)


def test_blocks_are_all_bags_once_and_bounded(own):
    X, problem, *_ = drawn(1, n_bags=200)
    blocks = Block.cut(problem, 9)
    assert [block.bags.start for block in blocks[1:]] == [block.bags.stop for block in blocks[:-1]]
    assert (blocks[0].bags.start, blocks[-1].bags.stop, blocks[-1].rows.stop) == (0, 200, len(X))
    assert max(block.rows.stop - block.rows.start for block in blocks) <= 100 // 9
    assert cut_blocks(np.array([0, 500, 501]), 9) == [(0, 1), (1, 2)]  # a bag is never cut


def test_no_array_of_all_instances_and_classes_is_made():
    n_classes, n_features = 1500, 5
    X, problem, Y, _ = drawn(0, n_bags=1500, n_classes=n_classes, n_features=n_features)
    bags, whole = Bags(X, problem.offsets), 8 * len(X) * n_classes
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = ORedLogisticRegression(max_iter=1).fit(bags, Y)
        for ask in (
            lambda: ORedLogisticRegression(max_iter=1).fit(bags, Y), lambda: model.annotate(bags, Y),
            lambda: model.predict_instances(bags),
        ):  # fmt: skip
            tracemalloc.start()
            ask()
            _, peak = tracemalloc.get_traced_memory()
            tracemalloc.stop()
            assert peak < 0.75 * whole, f"{peak / whole:.2f} of an (m, c) array"


def test_array_that_cannot_be_had_is_refused(monkeypatch):
    X, problem, Y, _ = drawn(0)
    model = ORedLogisticRegression(max_iter=5, tol=1.0).fit(Bags(X, problem.offsets), Y)
    monkeypatch.setenv("BAGWISE_MEMORY_LIMIT", "1000")
    with pytest.raises(MemoryLimitError, match="instances by 9 classes.*labels alone"):
        model.predict_instances_proba(Bags(X, problem.offsets))


def test_annotate_wants_labels():
    X, problem, Y, _ = drawn(0)
    model = ORedLogisticRegression(max_iter=5, tol=1.0).fit(Bags(X, problem.offsets), Y)
    with pytest.raises(InputError, match="Y is None"):
        model.annotate(Bags(X, problem.offsets), None)
